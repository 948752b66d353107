//! LMDB, through `heed`. A family is a named database; a put is a transaction of its own. LMDB does all of its work within the calls.
//!
//! The flags are `MDB_WRITEMAP` and, unless puts sync, `MDB_NOSYNC`. A commit changes pages in a mapping of the file, which belong to the
//! operating system, and does not sync. So a process that dies loses nothing. BraidDB hands over its log in this way too. Without
//! `MDB_WRITEMAP` a commit copies its pages into write calls. A put of 128 bytes among 200,000 then took 5.4 µs of processor time instead
//! of 1.4.

use super::{Settings, family_name};
use crate::Outcome;
use braidb_bench::{See, Store};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use std::ops::Bound;
use std::path::Path;

/// Bytes of addresses that the file may fill. They are not memory: the file has this length and holes. 50 million pairs of 128 bytes fill a
/// quarter.
const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    env: Env<WithTls>,
    families: Vec<Database<'static, Bytes, Bytes>>,
}

pub fn open(dir: &Path, families: usize, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_dbs(u32::try_from(families)?);
    let unsynced = if settings.sync { EnvFlags::empty() } else { EnvFlags::NO_SYNC };
    // SAFETY: setting the flags demands that the caller accepts their consequences. After `MDB_NOSYNC` a crash of the machine may corrupt
    // the file, and a benchmark's file is thrown away. After `MDB_WRITEMAP` a stray write could change pages; safe code makes none. Opening
    // demands that nothing changes the file or the lock file behind LMDB. The directory belongs to this run. LMDB's lock file keeps other
    // processes apart that open the directory with LMDB; it is in use, since `MDB_NOLOCK` is not set. `heed` shares or refuses a second
    // open in this process.
    let env = unsafe { options.flags(unsynced | EnvFlags::WRITE_MAP).open(dir)? };
    let mut databases = Vec::new();
    for family in 0..families {
        let created = env.create_databases_and_commit(env.write_txn()?, |opener, transaction| {
            let database = opener.create_database(transaction, Some(&family_name(family)))?;
            heed::Result::Ok(CommitOrAbort::<_, ()>::Commit(database))
        })?;
        databases.push(created.unwrap_commit());
    }
    Ok(Box::new(Lmdb { env, families: databases }))
}

impl Store for Lmdb {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        let mut transaction = self.env.write_txn()?;
        self.families[family].put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        let mut transaction = self.env.write_txn()?;
        self.families[family].delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let transaction = self.env.read_txn()?;
        let value = self.families[family].get(&transaction, key)?;
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let transaction = self.env.read_txn()?;
        // LMDB has no empty keys and refuses to look for one.
        let start = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let bounds = (start, Bound::Unbounded);
        self.families[family].range(&transaction, &bounds)?.take(limit).try_fold(0, |seen, entry| {
            let (key, value) = entry?;
            see(key, value);
            Ok(seen + 1)
        })
    }
}
