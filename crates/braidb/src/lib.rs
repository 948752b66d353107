//! BraidDB: an embedded, ordered, persistent key-value store.
//!
//! A [`Db`] is a sorted map on disk, as pleasant as a `BTreeMap`: open a directory, put, get, scan. With the defaults a killed process
//! loses no acknowledged write. A power failure loses the latest writes, unless they were synced.
//!
//! ```
//! use braidb::{Db, Durability, WriteBatch};
//! # let dir = std::env::temp_dir().join(format!("braidb-doc-lib-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&dir);
//! let db = Db::open(&dir)?;
//! db.put("ada", "1815")?;
//! db.put("alan", "1912")?;
//! assert_eq!(db.get("ada")?.unwrap(), b"1815");
//!
//! // Key order, from both ends; entries are results, because a disk can fail.
//! let names: Result<Vec<_>, _> = db.prefix("a").rev().map(|entry| entry.map(|(key, _)| key)).collect();
//! assert_eq!(names?, [b"alan".to_vec(), b"ada".to_vec()]);
//!
//! // Batches are atomic, over column families too; snapshots see one moment.
//! let visits = db.create_column_family("visits")?;
//! let before = db.snapshot();
//! let mut batch = WriteBatch::new();
//! batch.delete("ada").put_in(&visits, "ada", "gone");
//! db.write_with(batch, Durability::Sync)?;
//! assert!(before.get("ada")?.is_some());
//! assert!(db.get("ada")?.is_none());
//! # drop((db, visits, before)); std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), braidb::Error>(())
//! ```
//!
//! # What an acknowledged write means
//!
//! | [`Durability`] | process killed | power lost |
//! |---|---|---|
//! | `None` | a suffix of the writes may be lost | the same |
//! | `Buffer` (default) | nothing is lost | a suffix since the last sync may be lost |
//! | `Sync` | nothing is lost | nothing is lost |
//!
//! Lost writes are always a suffix: never a hole, never half a batch. [`Db::persist`] raises the durability of all earlier writes at once.
//! A write that returned [`Error::Poisoned`] is undecided: it may be there after the next open, or not. After any other error nothing of
//! the write is in the database.
//!
//! # The eleven types
//!
//! | type | what it is |
//! |---|---|
//! | [`Db`] | an open database: put, get, scan, write, persist, statistics |
//! | [`Options`] | how to open; nothing has to be set |
//! | [`Durability`] | what survives a kill and a power failure, chosen for each write or for all |
//! | [`WriteBatch`] | writes that happen together or not at all |
//! | [`Transaction`] | reads and writes that take effect together, unless another write changed what was read |
//! | [`Overlay`] | staged writes over the database, which reads see before they are written |
//! | [`Snapshot`] | reads of one moment |
//! | [`ColumnFamily`] | one of several ordered maps that share logs and batches |
//! | [`Iter`] | entries in key order, from both ends |
//! | [`Cursor`] | a place among entries that moves both ways, jumps, and lends keys and values |
//! | [`Error`] | what went wrong and what to do about it |
//!
//! A get returns a [`Value`], which reads as a `[u8]`. [`stats`] has what the engine counts and reports, [`tuning`] the options for
//! experiments, and [`storage`] the seams to files, clock, chance and threads.
//!
//! # Threads and processes
//!
//! A [`Db`] is cheap to clone, and many threads may use it. A directory is open once at a time to write, or many times to read
//! ([`Options::open_read_only`]). Any other open, of this process or another one, fails with [`Error::Locked`]. A handle that was opened before a fork fails in the child with [`Error::Forked`].
//!
//! # Limits
//!
//! Keys have up to 64 KiB, values up to 1 GiB, batches up to 2 GiB. Keys compare bytewise; the empty key is a key.

mod base;
mod cache;
mod db;
mod jobs;
mod log;
mod memory;
mod plan;
mod read;
mod table;
mod value;
mod version;
mod visible;
mod write;

pub use base::durability::Durability;
pub use base::error::{Error, Result};
pub use base::value::Value;
pub use base::{MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use braidb_storage as storage;
pub use db::{
    AsBatch, Attempts, BatchEntry, ColumnFamily, Cursor, Db, IntoBounds, Iter, Keys, Options, Overlay,
    OverlayIter, PageLimit, Prefix, Salvage, Salvaged, Snapshot, Transaction, TransactionIter, WriteBatch,
};

pub mod stats {
    //! What the engine counts, shows and forecasts, and what recovery and verification report.
    //!
    //! [`Db::stats`](crate::Db::stats), [`Db::recovery`](crate::Db::recovery), [`Db::verify`](crate::Db::verify) and
    //! [`Options::forecast`](crate::Options::forecast) return these types.

    pub use crate::base::report::{
        CheckpointReport, Cut, Damage, DamagedRange, Note, RecoveryReport, TierStats, VerifyReport,
    };
    pub use crate::db::{
        CellTree, Counts, Extent, FamilyStats, FamilyTree, Forecast, HotKeyPeriod, HotKeyStats, LayoutStats,
        LevelForecast, LevelStats, LevelTree, Load, LogStats, RunTree, SliceTree, Stats, ValueFileStats,
    };
    pub use crate::read::RangeEstimate;
    pub use crate::table::Reason;
}

pub mod tuning {
    //! Options for experiments: each technique of the engine and its thresholds. The defaults are one choice for all loads.
    //! docs/performance.md names the loads that were measured, and those where the defaults are behind.
    //!
    //! [`Options::tuning`](crate::Options::tuning) sets them.

    pub use crate::db::{Guards, MemoryPolicy, Tuning, ValueLayout};
}

/// Reads every byte of the database in `path` without opening it: [`Options::verify`] with the default options.
///
/// # Errors
///
/// As [`Options::verify`].
pub fn verify(path: impl AsRef<std::path::Path>) -> Result<stats::VerifyReport> {
    Options::new().verify(path)
}

/// Planted mutants: deliberate bugs that the judges of `braidb-sim` must catch.
#[cfg(feature = "mutants")]
pub mod mutants {
    pub use crate::base::mutant::{ALL, activate, active};
}
