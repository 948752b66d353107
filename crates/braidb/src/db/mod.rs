//! The calls of an open database, with little logic of their own. Writes go to `write`, reads to `read`, background work to `jobs`.

mod batch;
mod bounds;
mod checkpoint;
mod cursor;
mod database;
mod destroy;
mod directory;
mod engine;
mod entries;
mod excise;
mod family;
mod forecast;
mod iter;
mod keys;
mod listing;
mod open;
mod options;
mod overlay;
mod overlay_iter;
mod page;
mod range_view;
mod recover;
mod salvage;
mod slow_tiers;
mod snapshot;
mod staged;
mod stats;
#[cfg(test)]
mod tests;
mod transact;
mod transaction;
mod tree;
mod tuning;
mod turns;
mod verify;

pub use crate::plan::tree::sizes::{Forecast, LevelForecast, Load};
pub use batch::{AsBatch, BatchEntry, WriteBatch};
pub use bounds::{IntoBounds, Prefix};
pub use cursor::Cursor;
pub use database::Db;
pub use family::ColumnFamily;
pub use iter::Iter;
pub use keys::Keys;
pub use options::{Guards, MemoryPolicy, Options, ValueLayout};
pub use overlay::Overlay;
pub use overlay_iter::OverlayIter;
pub use page::PageLimit;
pub use salvage::{Salvage, Salvaged};
pub use snapshot::Snapshot;
pub use stats::{
    Counts, FamilyStats, HotKeyPeriod, HotKeyStats, LayoutStats, LevelStats, LogStats, Stats, ValueFileStats,
};
pub use transact::Attempts;
pub use transaction::{Transaction, TransactionIter};
pub use tree::{CellTree, Extent, FamilyTree, LevelTree, RunTree, SliceTree};
pub use tuning::Tuning;

use crate::base::error::Result;
use crate::base::report::{RecoveryReport, VerifyReport};
use crate::table::Reason;
use std::collections::BTreeMap;
use std::path::Path;

impl Db {
    /// Opens the database in the directory `path`, with the default [`Options`]. A missing database is created, with the directories
    /// above it. The handle stays with this directory, even if the directory is renamed or `path` leads elsewhere later.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-open-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = braidb::Db::open(&dir)?; // made, if it was not there
    /// db.put("k", "v")?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    /// The directory of the database.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-path-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// assert_eq!(db.path(), dir);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        // Never changes, so a forked child may read it.
        self.handle.engine.dir()
    }

    /// The existing column family called `name`. `"default"` always exists.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-cf-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.create_column_family("users")?.put("ada", "1815")?;
    /// assert_eq!(db.column_family("users")?.get("ada")?.unwrap(), b"1815");
    /// assert!(matches!(db.column_family("usres"), Err(braidb::Error::MissingFamily { .. })));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`MissingFamily`](crate::Error::MissingFamily) names the families that there are; [`InvalidName`](crate::Error::InvalidName).
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        let engine = self.engine()?;
        family::check_name(name)?;
        let id = engine.column_family(name)?;
        Ok(ColumnFamily::new(self.clone(), id, name))
    }

    /// The column family called `name`, created if it does not exist. A family that exists is opened with all that it holds.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-ccf-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let users = db.create_column_family("users")?;
    /// users.put("ada", "1815")?;
    /// assert_eq!(db.create_column_family("users")?.get("ada")?.unwrap(), b"1815");
    /// # drop((db, users)); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`](crate::Error::InvalidName). A new family is written to the manifest, which may fail as writes do.
    pub fn create_column_family(&self, name: &str) -> Result<ColumnFamily> {
        let engine = self.engine()?;
        family::check_name(name)?;
        let id = engine.create_column_family(name)?;
        Ok(ColumnFamily::new(self.clone(), id, name))
    }

    /// The names of all column families, in the order of their creation.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-cfs-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.create_column_family("users")?;
    /// assert_eq!(db.column_families(), ["default", "users"]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn column_families(&self) -> Vec<String> {
        self.engine().map_or_else(|_| Vec::new(), |engine| engine.column_families())
    }

    /// Writes all of memory to tables, and waits for the flush.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-flush-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.flush()?;
    /// assert_eq!(db.stats().memory_bytes, 0);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Io`](crate::Error::Io) of the table that could not be written. The data stays in memory and in the log.
    pub fn flush(&self) -> Result<()> {
        self.engine()?.flush()
    }

    /// Flushes, then merges each family into its last level, and waits. Deleted and overwritten data that no snapshot holds gives its
    /// space back; but value files may keep garbage of 40% of their live bytes
    /// ([`Tuning::separation_threshold`](crate::tuning::Tuning::separation_threshold)), and are collected later, in the background.
    /// Writers may be slowed down meanwhile, because the merges find garbage in value files faster than it is collected.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-compact-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.delete("k")?;
    /// db.compact()?;
    /// assert_eq!(db.stats().families[0].levels.iter().map(|level| level.tables).sum::<u64>(), 0);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::flush`]. If this thread panics during a merge, the database is poisoned ([`Poisoned`](crate::Error::Poisoned)), as
    /// by a panic in the background. If it panics between two merges, merging goes on.
    pub fn compact(&self) -> Result<()> {
        self.compact_with_progress(|_| {})
    }

    /// As [`Db::compact`]. After the flush, after each merge of this thread, and at the end, `progress` gets the bytes that still have to
    /// move down, each counted once for each level that it has to move. Merge threads carry out other merges meanwhile. No lock is held
    /// while `progress` runs.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-compactp-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// let mut left = Vec::new();
    /// db.compact_with_progress(|left_bytes| left.push(left_bytes))?;
    /// assert!(left[0] > 0 && left.last() == Some(&0));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::compact`].
    pub fn compact_with_progress(&self, mut progress: impl FnMut(u64)) -> Result<()> {
        self.engine()?.compact(&mut progress)
    }

    /// Waits until no background work runs or is wanted, and until the files that this work replaced are deleted. Files that iterators
    /// still read are deleted soon after the iterators end. Tombstones and overwritten values may stay where no policy wants a merge;
    /// [`Db::compact`] merges them away.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-settle-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// for number in 0..1000u32 {
    ///     db.put(number.to_be_bytes(), "v")?;
    /// }
    /// db.settle()?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error that keeps background work from going on.
    pub fn settle(&self) -> Result<()> {
        self.engine()?.settle()
    }

    /// Moves everything off a slow tier, and takes the tier out of the database. Reads and writes go on meanwhile. `progress` gets the
    /// bytes that are left, many times. Files that iterators still read are deleted soon after the iterators end. If the process ends
    /// before that, delete what is left in the directory: until then the directory cannot become a tier again. If `progress` forks this
    /// process, it must not return in the child. If it panics, the call ends, and the directory stays a tier.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-evacuate-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let (fast, slow) = (dir.join("fast"), dir.join("slow"));
    /// let db = braidb::Options::new().slow_path(&slow).open(&fast)?;
    /// db.evacuate(&slow, |left_bytes| println!("{left_bytes} bytes are left"))?;
    /// db.close()?;
    /// let db = braidb::Db::open(&fast)?; // needs the directory no more
    /// assert!(db.stats().tiers.is_empty());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Tier`](crate::Error::Tier): `path` is no slow tier of the database, another call empties a tier, or files on the tier
    /// cannot be read. Any other failure returns its error, as for [`Db::compact`]. After these errors the directory is still a tier, and a
    /// later call can empty it.
    ///
    /// The last step deletes the file `TIER` of the directory, which is no tier any more. If the deletion fails, its error is returned, and
    /// [`Stats::tiers`](crate::stats::Stats::tiers) no longer names the directory. The database needs no file there.
    pub fn evacuate(&self, path: impl AsRef<Path>, progress: impl FnMut(u64)) -> Result<()> {
        self.engine()?.evacuate(path.as_ref(), progress)
    }

    /// What the database holds now, and what it did since this open.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-statsm-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.stats().counts.user_bytes, 8);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.engine().map_or_else(
            |error| Stats { poisoned: Some(error.to_string()), ..Stats::default() },
            |engine| engine.stats(),
        )
    }

    /// The shape of each column family's tree, in the order of the families' creation. For each level it lists the guards, the runs
    /// between them, and the slices of tables in each run. The answer is large for a large database; [`Db::stats`] has the sums.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-tree-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "blue")?;
    /// db.flush()?;
    /// for level in &db.tree()[0].levels {
    ///     for cell in &level.cells {
    ///         println!("L{} from {:?}: {} runs", level.level, cell.guard.escape_ascii(), cell.runs.len());
    ///     }
    /// }
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn tree(&self) -> Vec<FamilyTree> {
        self.engine().map_or_else(|_| Vec::new(), |engine| engine.tree())
    }

    /// Why each table was written, by its number (`SliceTree::table`). A few bytes of each table are read. Tables that older builds wrote
    /// do not tell the reason.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-reasons-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "blue")?;
    /// db.flush()?;
    /// for (table, reason) in db.table_reasons()? {
    ///     println!("table {table}: {reason}");
    /// }
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Io`](crate::Error::Io) or [`Corruption`](crate::Error::Corruption) names a table that cannot be read.
    pub fn table_reasons(&self) -> Result<BTreeMap<u64, Reason>> {
        self.engine()?.table_reasons()
    }

    /// What opening the database found in its logs.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-recovery-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// drop(db);
    /// let db = braidb::Db::open(&dir)?;
    /// assert_eq!(db.recovery().entries, 1);
    /// assert!(db.recovery().cut.is_none());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn recovery(&self) -> &RecoveryReport {
        // Never changes, so a forked child may read it.
        self.handle.engine.recovery()
    }

    /// Reads every byte of every file that the database uses now, and checks it.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-verifym-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// let report = db.verify()?;
    /// assert!(report.damages.is_empty(), "{:?}", report.damages);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Io`](crate::Error::Io) if a file cannot be read. Damage is no error; the report lists it.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with_progress(|_| {})
    }

    /// As [`Db::verify`]. Whenever a file is begun, `progress` gets the bytes of all files that were begun. No lock is held while it runs. If it
    /// panics, the verification ends, and the database is as before.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-verifyp-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// let mut begun = Vec::new();
    /// let report = db.verify_with_progress(|bytes| begun.push(bytes))?;
    /// assert_eq!(begun.last(), Some(&report.bytes));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::verify`].
    pub fn verify_with_progress(&self, mut progress: impl FnMut(u64)) -> Result<VerifyReport> {
        self.engine()?.verify(&mut progress)
    }

    /// Raises every write to [`Durability::Sync`](crate::Durability::Sync), stops background work, and releases the directory. Any later
    /// call on any clone, iterator or snapshot fails with [`Closed`](crate::Error::Closed). Values that were read stay. A second close
    /// does nothing.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-close-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = braidb::Db::open(&dir)?;
    /// let clone = db.clone();
    /// db.close()?;
    /// assert!(matches!(clone.get("k"), Err(braidb::Error::Closed)));
    /// let again = braidb::Db::open(&dir)?; // the directory is free
    /// # drop(again); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error that kept data from being persisted. The database is closed even then.
    pub fn close(&self) -> Result<()> {
        self.engine()?.close()
    }
}
