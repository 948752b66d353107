//! fjall. A family is a keyspace. fjall hands its journal to the operating system at each put, which is its default.

use super::{FILTER_BITS_PER_KEY, OPEN_FILES, Settings, family_name, quiet};
use crate::Outcome;
use braidb_bench::{See, Store};
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode,
};
use std::path::Path;

struct Fjall {
    db: Database,
    keyspaces: Vec<Keyspace>,
    /// Whether the journal is synced at each put and delete.
    sync: bool,
}

pub fn open(dir: &Path, families: usize, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let builder = Database::builder(dir).cache_size(settings.cache_bytes as u64);
    let db = builder.max_cached_files(Some(OPEN_FILES.into())).open()?;
    let options = || options(settings);
    let keyspaces = (0..families).map(|family| db.keyspace(&family_name(family), options));
    let keyspaces = keyspaces.collect::<Result<_, _>>()?;
    Ok(Box::new(Fjall { db, keyspaces, sync: settings.sync }))
}

/// Opens a database with optimistic transactions, and its only keyspace. A commit hands the journal to the operating system, as a put does.
pub fn open_transactional(
    dir: &Path,
    settings: &Settings,
) -> Outcome<(OptimisticTxDatabase, OptimisticTxKeyspace)> {
    let builder = OptimisticTxDatabase::builder(dir).cache_size(settings.cache_bytes as u64);
    let db = builder.max_cached_files(Some(OPEN_FILES.into())).open()?;
    let keyspace = db.keyspace(&family_name(0), || options(settings))?;
    Ok((db, keyspace))
}

fn options(settings: &Settings) -> KeyspaceCreateOptions {
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(FILTER_BITS_PER_KEY.into()));
    KeyspaceCreateOptions::default()
        .max_memtable_size(settings.memtable_bytes as u64)
        .filter_policy(FilterPolicy::all(filter))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .index_block_compression_policy(CompressionPolicy::disabled())
}

impl Fjall {
    fn acknowledge(&self) -> Outcome {
        match self.sync {
            true => Ok(self.db.persist(PersistMode::SyncData)?),
            false => Ok(()),
        }
    }
}

impl Store for Fjall {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        self.keyspaces[family].insert(key, value)?;
        self.acknowledge()
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        self.keyspaces[family].remove(key)?;
        self.acknowledge()
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.keyspaces[family].get(key)?;
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        self.keyspaces[family].range(from..).take(limit).try_fold(0, |seen, entry| {
            let (key, value) = entry.into_inner()?;
            see(&key, &value);
            Ok(seen + 1)
        })
    }

    /// fjall has no call that waits. Its counters tell waiting flushes, sealed memtables, and compactions that run and that ended.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        quiet::wait(mark, || {
            let ended = self.db.compactions_completed();
            let is_idle = self.db.outstanding_flushes() == 0
                && self.keyspaces.iter().all(|keyspace| keyspace.sealed_memtable_count() == 0)
                && self.db.active_compactions() == 0;
            Ok(is_idle.then_some(ended))
        })
    }
}
