//! redb. A family is a table; a put is a transaction of its own. redb does all of its work within the calls.
//!
//! `Durability::None` leaves commits in the memory of the process. `Durability::Immediate` writes them to the file and syncs. redb 4 has no
//! level between the two. So transactions are `Immediate`, over a file whose sync does nothing unless puts sync. A commit hands its pages
//! to the operating system by write calls, and a process that dies loses nothing.

use super::{Settings, family_name};
use crate::Outcome;
use braidb_bench::{See, Store};
use redb::backends::FileBackend;
use redb::{BackendError, Database, ReadableDatabase, StorageBackend, TableDefinition};
use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;

struct Redb {
    db: Database,
    /// The names of the tables.
    families: Vec<String>,
}

pub fn open(dir: &Path, families: usize, settings: &Settings) -> Outcome<Box<dyn Store>> {
    let path = dir.join("data.redb");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let (backend, mut builder) = (FileBackend::new(file)?, Database::builder());
    builder.set_cache_size(settings.cache_bytes);
    let db = match settings.sync {
        true => builder.create_with_backend(backend)?,
        false => builder.create_with_backend(Unsynced(backend))?,
    };
    let families: Vec<_> = (0..families).map(family_name).collect();
    let transaction = db.begin_write()?;
    for name in &families {
        transaction.open_table(table(name))?;
    }
    transaction.commit()?;
    Ok(Box::new(Redb { db, families }))
}

fn table(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

impl Store for Redb {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        let transaction = self.db.begin_write()?;
        transaction.open_table(table(&self.families[family]))?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        let transaction = self.db.begin_write()?;
        transaction.open_table(table(&self.families[family]))?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let table = self.db.begin_read()?.open_table(table(&self.families[family]))?;
        let value = table.get(key)?;
        Ok(value.inspect(|value| see(value.value())).is_some())
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let table = self.db.begin_read()?.open_table(table(&self.families[family]))?;
        table.range(from..)?.take(limit).try_fold(0, |seen, entry| {
            let (key, value) = entry?;
            see(key.value(), value.value());
            Ok(seen + 1)
        })
    }
}

/// A file whose sync does nothing.
#[derive(Debug)]
struct Unsynced(FileBackend);

/// Methods that hand their arguments to the file.
macro_rules! of_file {
    ($($name:ident($($argument:ident: $type:ty),*) -> $returned:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $returned {
            self.0.$name($($argument),*)
        })*
    };
}

impl StorageBackend for Unsynced {
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    of_file! {
        len() -> io::Result<u64>;
        read(offset: u64, out: &mut [u8]) -> io::Result<()>;
        set_len(len: u64) -> io::Result<()>;
        write(offset: u64, data: &[u8]) -> io::Result<()>;
        close() -> io::Result<()>;
        try_lock_range(start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError>;
        try_lock_shared_range(start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError>;
        lock_range(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError>;
        lock_shared_range(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError>;
        unlock_range(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError>;
        query_lock_range(start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError>;
    }
}
