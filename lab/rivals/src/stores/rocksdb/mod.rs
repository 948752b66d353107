//! RocksDB, from a shared object, tuned as is usual for fills. A family is a column family. RocksDB hands its log to the operating system
//! at each put, which is its default.

mod ffi;

use super::quiet;
use crate::Outcome;
pub use ffi::{Database, release};
use std::ffi::CStr;

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

/// Waits until no job waits or runs.
fn settle(database: &Database, mark: &mut dyn FnMut()) -> Outcome {
    quiet::wait(mark, || {
        if database.known(c"rocksdb.background-errors")? > 0 {
            return Err("a flush or a compaction of RocksDB failed; its LOG tells why".into());
        }
        for property in WORK {
            if database.known(property)? > 0 {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
}
