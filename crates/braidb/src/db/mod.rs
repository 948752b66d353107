//! The database handle, with little logic of its own. Writes go to `write`, reads to `read`, background work to `jobs`.

mod batch;
mod bounds;
mod engine;
mod family;
mod forecast;
mod iter;
mod open;
mod options;
mod recover;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;
mod tiers;
mod tree;
mod tuning;
mod verify;

pub use crate::plan::tree::sizes::{Forecast, LevelForecast, Load};
pub use batch::{AsBatch, WriteBatch};
pub use bounds::IntoBounds;
pub use family::ColumnFamily;
pub use iter::Iter;
pub use options::{Guards, MemoryPolicy, Options, ValueLayout};
pub use snapshot::Snapshot;
pub use stats::{
    Counts, FamilyStats, HotKeyPeriod, HotKeyStats, LayoutStats, LevelStats, LogStats, Stats, ValueFileStats,
};
pub use tree::{CellTree, Extent, FamilyTree, LevelTree, RunTree, SliceTree};
pub use tuning::Tuning;

use crate::base::durability::Durability;
use crate::base::error::Result;
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key::prefix_bounds;
use crate::base::report::{RecoveryReport, VerifyReport};
use crate::base::value::Value;
use crate::table::Reason;
use crate::visible::snapshots::Snapshots;
use engine::Engine;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open database: an ordered map from byte strings to byte strings, on disk.
///
/// A `Db` is cheap to clone and may be used from many threads. The database is closed when the last clone, column
/// family, snapshot and iterator is gone, or by [`Db::close`].
///
/// ```
/// use braidb::Db;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-db-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = Db::open(&dir)?;
/// db.put("plum", "blue")?;
/// db.put("pear", "green")?;
/// db.delete("plum")?;
/// assert_eq!(db.get("pear")?.unwrap(), b"green");
/// for entry in db.range("a".."z").rev() {
///     let (key, value) = entry?;
///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
/// }
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

/// The part that the clones of a [`Db`] share. Dropping the last clone closes the database.
struct Handle {
    engine: Arc<Engine>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl IntoIterator for &Db {
    type Item = Result<(Vec<u8>, Value)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Drop cannot return an error. A failed close leaves what a crash leaves, and the next open recovers from it.
        let _ = self.engine.close();
    }
}

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

    fn from_engine(engine: Arc<Engine>) -> Db {
        Db { handle: Arc::new(Handle { engine }) }
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
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
        self.engine().dir()
    }

    /// The column family called `name`, created if it does not exist. `"default"` always exists.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-cf-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let users = db.column_family("users")?;
    /// users.put("ada", "1815")?;
    /// assert_eq!(db.column_family("users")?.get("ada")?.unwrap(), b"1815");
    /// # drop((db, users)); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`](crate::Error::InvalidName). A new family is written to the manifest, which may fail as writes do.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        family::check_name(name)?;
        let id = self.engine().column_family(name)?;
        Ok(ColumnFamily::new(self.clone(), id, name))
    }

    /// The names of all column families, in the order of their creation.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-cfs-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.column_family("users")?;
    /// assert_eq!(db.column_families(), ["default", "users"]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn column_families(&self) -> Vec<String> {
        self.engine().column_families()
    }

    /// Sets `key` to `value` in the default family. The [`Durability`] of the options says what success promises.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-put-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "blue")?;
    /// db.put(b"plum", vec![0xff])?; // any bytes; the later one stays
    /// assert_eq!(db.get("plum")?.unwrap(), [0xff]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Poisoned`](crate::Error::Poisoned): the log could not be written or synced. The write is undecided and may appear after
    /// reopening, unless the database was poisoned before. After any other error nothing of the write was written:
    /// [`TooLarge`](crate::Error::TooLarge), [`Full`](crate::Error::Full), [`Closed`](crate::Error::Closed), [`Io`](crate::Error::Io).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_at(FamilyId::DEFAULT, key.as_ref(), Some(value.as_ref()), self.engine().durability())
    }

    /// Sets `key` to `value` in the default family, with the given durability. `Sync` covers all earlier writes.
    ///
    /// ```
    /// use braidb::{Db, Durability};
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-putw-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = Db::open(&dir)?;
    /// db.put("draft", "quick")?;
    /// db.put_with("order", "paid", Durability::Sync)?; // returns when both are on stable storage
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.put_at(FamilyId::DEFAULT, key.as_ref(), Some(value.as_ref()), durability)
    }

    /// The value of `key` in the default family, pinned and not copied.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-get-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "blue")?;
    /// assert_eq!(db.get("plum")?.as_deref(), Some(&b"blue"[..]));
    /// assert!(db.get("pear")?.is_none());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Corruption`](crate::Error::Corruption) and [`Io`](crate::Error::Io) name the file.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(FamilyId::DEFAULT, key.as_ref())
    }

    /// Whether `key` has a value in the default family.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-contains-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "")?;
    /// assert!(db.contains_key("plum")? && !db.contains_key("pear")?);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(FamilyId::DEFAULT, key.as_ref())
    }

    /// Removes `key` from the default family. A missing key is no error.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-delete-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "blue")?;
    /// db.delete("plum")?;
    /// assert!(db.get("plum")?.is_none());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.put_at(FamilyId::DEFAULT, key.as_ref(), None, self.engine().durability())
    }

    /// Removes `key` from the default family, with the given durability. `Sync` covers all earlier writes.
    ///
    /// ```
    /// use braidb::{Db, Durability};
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-deletew-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = Db::open(&dir)?;
    /// db.put("secret", "blue")?;
    /// db.delete_with("secret", Durability::Sync)?; // no power failure brings it back
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.put_at(FamilyId::DEFAULT, key.as_ref(), None, durability)
    }

    /// Applies all writes of `batch`, or none of them, with the durability of the options. `&batch` keeps its writes, and `&mut batch` is
    /// emptied by success alone ([`AsBatch`]).
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-writeb-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let mut batch = braidb::WriteBatch::new();
    /// batch.put("from", "90").put("to", "110");
    /// match db.write(&mut batch) {
    ///     Err(braidb::Error::Full { .. }) => println!("{} writes wait for room on the disk", batch.len()),
    ///     outcome => outcome?, // the batch is empty now
    /// }
    /// db.write(braidb::WriteBatch::new().delete("from").delete("to"))?; // or in one line
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::put`]; [`ForeignFamily`](crate::Error::ForeignFamily) if the batch names a family of another database. A batch with a
    /// write over the limits, or with families of two databases, is refused until [`WriteBatch::clear`].
    pub fn write(&self, batch: impl AsBatch) -> Result<()> {
        self.write_with(batch, self.engine().durability())
    }

    /// Applies all writes of `batch`, or none of them, with the given durability. `Sync` covers all earlier writes.
    ///
    /// ```
    /// use braidb::{Db, Durability, WriteBatch};
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-write-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = Db::open(&dir)?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("from", "90").put("to", "110");
    /// db.write_with(batch, Durability::Sync)?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::write`].
    pub fn write_with(&self, batch: impl AsBatch, durability: Durability) -> Result<()> {
        let encoded = batch.batch().encoded(self.identity())?;
        self.engine().commit_batch(encoded, durability)?;
        batch.written();
        Ok(())
    }

    /// All entries of the default family, in key order, from both ends.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-iter-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// let last = db.iter().next_back().unwrap()?;
    /// assert_eq!(last.0, b"b");
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The entries of the default family whose keys lie in `range`, in key order, from both ends. A range that ends before its start is
    /// empty.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-range-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "")?;
    /// }
    /// let keys: Result<Vec<_>, _> = db.range("b"..).map(|entry| entry.map(|(key, _)| key)).collect();
    /// assert_eq!(keys?, [b"b", b"c"]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn range(&self, range: impl IntoBounds) -> Iter {
        self.range_at(FamilyId::DEFAULT, range.into_bounds(), None)
    }

    /// The entries of the default family whose keys start with `prefix`, in key order, from both ends.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-prefix-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("user:1", "ada")?;
    /// db.put("visit:1", "home")?;
    /// assert_eq!(db.prefix("user:").count(), 1);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.range_at(FamilyId::DEFAULT, prefix_bounds(prefix.as_ref()), None)
    }

    /// A snapshot of the database as it is now, over all column families.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-snap-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "old")?;
    /// let before = db.snapshot();
    /// db.delete("k")?;
    /// assert_eq!(before.get("k")?.unwrap(), b"old");
    /// # drop((db, before)); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.clone())
    }

    /// Raises every earlier write to `durability`.
    ///
    /// ```
    /// use braidb::{Db, Durability};
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-persist-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = Db::open(&dir)?;
    /// for number in 0..1000u32 {
    ///     db.put(number.to_be_bytes(), "quick")?;
    /// }
    /// db.persist(Durability::Sync)?; // one sync for all of them
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A failed sync poisons the database: [`Poisoned`](crate::Error::Poisoned).
    pub fn persist(&self, durability: Durability) -> Result<()> {
        self.engine().persist(durability)
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
        self.engine().flush()
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
        self.engine().compact()
    }

    /// Waits until no background work runs or is wanted.
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
        self.engine().settle()
    }

    /// Moves everything off a slow tier, and takes the tier out of the database. Reads and writes go on meanwhile. `progress` gets the bytes
    /// that are left, many times. Files that iterators still read go when these end. If the process ends before, delete what is left in the
    /// directory: it cannot become a tier again until then.
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
    /// [`Error::Tier`](crate::Error::Tier): `path` is no slow tier of the database, another call empties a tier, or files on the tier cannot be
    /// read. Otherwise the error of what failed, as for [`Db::compact`]. The tier is still a tier then, and can be emptied later.
    ///
    /// The last step deletes the file `TIER` of the directory, which is no tier any more. If the deletion fails, its error is returned, and
    /// [`Stats::tiers`](crate::stats::Stats::tiers) no longer names the directory. The database needs no file there.
    pub fn evacuate(&self, path: impl AsRef<Path>, progress: impl FnMut(u64)) -> Result<()> {
        self.engine().evacuate(path.as_ref(), progress)
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
        self.engine().stats()
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
        self.engine().tree()
    }

    /// Why each table was written, by its number (`SliceTree::table`). A few bytes of each table are read. Tables of older builds do not say so.
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
        self.engine().table_reasons()
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
        self.engine().recovery()
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
        self.engine().verify()
    }

    /// Raises every write to [`Durability::Sync`], stops background work, and releases the directory. Any later call on any clone,
    /// iterator or snapshot fails with [`Closed`](crate::Error::Closed). Values that were read stay. A second close does nothing.
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
    /// The error that kept data from being persisted. The database is closed all the same.
    pub fn close(&self) -> Result<()> {
        self.engine().close()
    }

    pub(crate) fn identity(&self) -> u64 {
        self.engine().identity()
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        self.engine().snapshots()
    }

    pub(crate) fn put_at(
        &self,
        family: FamilyId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        batch::check_entry(0, key, value.unwrap_or_default())?;
        #[cfg(feature = "mutants")]
        crate::base::mutant::spin_in_put();
        self.engine().commit_one(family, key, value, durability)
    }

    pub(crate) fn get_at(&self, family: FamilyId, key: &[u8]) -> Result<Option<Value>> {
        self.engine().get(family, key, None)
    }

    pub(crate) fn contains_at(&self, family: FamilyId, key: &[u8]) -> Result<bool> {
        self.engine().contains(family, key)
    }

    pub(crate) fn get_as_of(&self, family: FamilyId, key: &[u8], at: SeqNo) -> Result<Option<Value>> {
        self.engine().get(family, key, Some(at))
    }

    pub(crate) fn range_at(&self, family: FamilyId, bounds: bounds::Bounds, at: Option<SeqNo>) -> Iter {
        Iter::new(self, family, bounds, at)
    }
}
