//! RocksDB, from a shared object, tuned as is usual for fills. A family is a column family. RocksDB hands its log to the operating system
//! at each put, which is its default.

mod ffi;

use super::{Settings, quiet};
use crate::Outcome;
use braidb_bench::{See, Store};
use ffi::Database;
pub use ffi::release;
use libloading::Library;
use std::ffi::CStr;
use std::path::Path;

pub fn open(
    library: &'static Library,
    dir: &Path,
    families: usize,
    settings: &Settings,
) -> Outcome<Box<dyn Store>> {
    Ok(Box::new(Database::open(library, dir, families, settings)?))
}

/// The properties that tell jobs which wait or run.
const WORK: [&CStr; 5] = [
    c"rocksdb.num-running-compactions",
    c"rocksdb.num-running-flushes",
    c"rocksdb.compaction-pending",
    c"rocksdb.mem-table-flush-pending",
    c"rocksdb.num-immutable-mem-table",
];

impl Database {
    /// A property that every release has.
    fn known(&self, property: &CStr) -> Outcome<u64> {
        let unknown = || format!("RocksDB does not tell {}", property.to_string_lossy());
        Ok(self.total(property).ok_or_else(unknown)?)
    }
}

impl Store for Database {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        Ok(Database::put(self, family, key, value)?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        Ok(Database::delete(self, family, key)?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        Ok(Database::get(self, family, key, see)?)
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let mut seen = 0;
        if limit == 0 {
            return Ok(seen);
        }
        Database::scan(self, family, from, &mut |key, value| {
            see(key, value);
            seen += 1;
            seen < limit
        })?;
        Ok(seen)
    }

    /// Properties of RocksDB tell the jobs that wait and that run.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        quiet::wait(mark, || {
            if self.known(c"rocksdb.background-errors")? > 0 {
                return Err("a flush or a compaction of RocksDB failed; its LOG tells why".into());
            }
            for property in WORK {
                if self.known(property)? > 0 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }
}
