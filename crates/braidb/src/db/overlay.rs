//! An overlay: staged writes over the database, which reads see at once and a commit writes as one batch.

use super::bounds::{Bounds, IntoBounds};
use super::database::Db;
use super::family::ColumnFamily;
use super::overlay_iter::OverlayIter;
use super::staged::Staged;
use crate::base::durability::Durability;
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::key::prefix_bounds;
use crate::base::value::Value;
use crate::log::EncodedBatch;
use crate::visible::past_excises::AsOf;
use braidb_storage::locks::{Mutex, RwLock};
use std::fmt;
use std::mem;
use std::sync::Arc;

/// Staged writes over a database and its column families. Reads of the overlay see them over what the database holds. The database does not
/// see them until [`commit`](Overlay::commit) writes them together, in one batch.
///
/// Any thread may read and write an overlay. A commit does not stop readers: they see the staged writes until the database shows them, and
/// then the database's. A write of another thread waits for the commit, and is staged anew behind it. Dropping an overlay drops its writes.
///
/// An overlay finds no conflicts: a commit overwrites what others wrote meanwhile. A [`Transaction`](crate::Transaction) does. Staged writes
/// lie in memory only, and take about 190 bytes besides key and value.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-overlay-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("apple", "red")?;
/// let overlay = db.overlay();
/// overlay.put("plum", "blue")?;
/// overlay.delete("apple")?;
/// let keys: Result<Vec<_>, _> = overlay.iter().map(|entry| entry.map(|(key, _)| key)).collect();
/// assert_eq!(keys?, [b"plum"]);
/// assert!(db.contains_key("apple")? && !db.contains_key("plum")?);
/// overlay.commit()?;
/// assert!(!db.contains_key("apple")? && db.contains_key("plum")?);
/// # drop((overlay, db)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct Overlay {
    db: Db,
    /// Held by writes and for a whole commit, so that a commit takes what is staged as it is.
    writing: Mutex<()>,
    /// What is staged since the last commit. Iterators keep the set that they began with.
    staged: RwLock<Arc<RwLock<Staged>>>,
}

impl Db {
    /// An overlay over this database, with no writes yet.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-overlaym-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// assert!(db.overlay().is_empty());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn overlay(&self) -> Overlay {
        Overlay { db: self.clone(), writing: Mutex::new(()), staged: RwLock::new(Arc::default()) }
    }
}

impl Overlay {
    /// Stages a put in the default family.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](crate::Error::TooLarge): the key, the value or all staged writes together are over the limits of a batch. Nothing was
    /// staged, and what was staged before can be committed.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.stage(FamilyId::DEFAULT, key.as_ref(), Some(value.as_ref()))
    }

    /// Stages a delete in the default family. Errors as [`Overlay::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.stage(FamilyId::DEFAULT, key.as_ref(), None)
    }

    /// Stages a put in `family`. Errors as [`Overlay::put`], and [`ForeignFamily`](crate::Error::ForeignFamily).
    pub fn put_in(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.stage(family.check_of(&self.db)?, key.as_ref(), Some(value.as_ref()))
    }

    /// Stages a delete in `family`. Errors as [`Overlay::put_in`].
    pub fn delete_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.stage(family.check_of(&self.db)?, key.as_ref(), None)
    }

    /// The value of `key` in the default family: the staged one, or else the database's. Errors as [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(FamilyId::DEFAULT, key.as_ref())
    }

    /// As [`Overlay::get`], in `family`.
    pub fn get_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(family.check_of(&self.db)?, key.as_ref())
    }

    /// Whether `key` has a value in the default family. Errors as [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(FamilyId::DEFAULT, key.as_ref())
    }

    /// As [`Overlay::contains_key`], in `family`.
    pub fn contains_key_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(family.check_of(&self.db)?, key.as_ref())
    }

    /// All entries of the default family at this moment.
    pub fn iter(&self) -> OverlayIter {
        self.range(..)
    }

    /// The entries of a range of the default family at this moment, whatever is staged or committed later.
    pub fn range(&self, range: impl IntoBounds) -> OverlayIter {
        self.range_at(FamilyId::DEFAULT, range.into_bounds(), None)
    }

    /// The entries of the default family whose keys start with `prefix`, at this moment.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> OverlayIter {
        self.range_at(FamilyId::DEFAULT, prefix_bounds(prefix.as_ref()), None)
    }

    /// As [`Overlay::range`], in `family`.
    pub fn range_in(&self, family: &ColumnFamily, range: impl IntoBounds) -> OverlayIter {
        match family.check_of(&self.db) {
            Ok(id) => self.range_at(id, range.into_bounds(), None),
            Err(error) => OverlayIter::failed(error),
        }
    }

    /// As [`Overlay::prefix`], in `family`.
    pub fn prefix_in(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> OverlayIter {
        match family.check_of(&self.db) {
            Ok(id) => self.range_at(id, prefix_bounds(prefix.as_ref()), None),
            Err(error) => OverlayIter::failed(error),
        }
    }

    /// The number of keys that are staged. 0 in a forked child.
    pub fn len(&self) -> usize {
        self.now().map_or(0, |staged| staged.read().len())
    }

    /// Whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the staged writes will take in the log, approximately. 0 in a forked child.
    pub fn bytes(&self) -> usize {
        self.now().map_or(0, |staged| staged.read().bytes())
    }

    /// Drops all staged writes.
    pub fn clear(&self) {
        if !self.db.is_forked() {
            let _writing = self.writing.lock();
            self.forget();
        }
    }

    /// Writes all that is staged, in one batch with the durability of the options.
    ///
    /// # Errors
    ///
    /// As [`Db::write`]. After an error all is still staged.
    pub fn commit(&self) -> Result<()> {
        self.commit_with(self.db.durability())
    }

    /// As [`Overlay::commit`], with the given durability.
    pub fn commit_with(&self, durability: Durability) -> Result<()> {
        let engine = self.db.engine()?;
        let _writing = self.writing.lock();
        engine.commit_batch(&Arc::new(self.encoded()?), None, durability)?;
        self.forget();
        Ok(())
    }

    /// What is staged, as a batch.
    pub(super) fn encoded(&self) -> Result<EncodedBatch> {
        Ok(self.now()?.read().encoded())
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// Begins with nothing staged. Iterators keep what they show.
    fn forget(&self) {
        let old = mem::take(&mut *self.staged.write());
        // Dropped without the lock: the writes may be many.
        drop(old);
    }

    /// What is staged now. Fails in a forked child, whose copies of the locks another thread may have held.
    fn now(&self) -> Result<Arc<RwLock<Staged>>> {
        self.db.engine()?;
        Ok(self.staged.read().clone())
    }

    pub(super) fn stage(&self, family: FamilyId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.db.engine()?.check_open()?;
        let _writing = self.writing.lock();
        self.now()?.write().stage(family, key, value)
    }

    /// What is staged for the key: `Some(None)` is a delete.
    pub(super) fn staged(&self, family: FamilyId, key: &[u8]) -> Result<Option<Option<Value>>> {
        Ok(self.now()?.read().get(family, key))
    }

    /// The staged value, or else the database's. The order matters: a commit shows its writes in the database before it forgets them here.
    fn get_at(&self, family: FamilyId, key: &[u8]) -> Result<Option<Value>> {
        let engine = self.db.engine()?;
        match self.staged(family, key)? {
            Some(value) => engine.check_open().map(|()| value),
            None => engine.get(family, key, None),
        }
    }

    fn contains_at(&self, family: FamilyId, key: &[u8]) -> Result<bool> {
        let engine = self.db.engine()?;
        match self.staged(family, key)? {
            Some(value) => engine.check_open().map(|()| value.is_some()),
            None => engine.contains(family, key, None),
        }
    }

    /// The entries of the overlay now, over the database at the moment of a snapshot, or now.
    pub(super) fn range_at(&self, family: FamilyId, bounds: Bounds, as_of: Option<AsOf>) -> OverlayIter {
        if let Err(error) = self.db.engine() {
            return OverlayIter::failed(error);
        }
        // A commit forgets the staged writes under the write lock. So the database's moment, taken under the read lock, has no commit
        // of writes that were staged after this set.
        let current = self.staged.read();
        let staged = current.clone();
        let moment = staged.write().show();
        let base = self.db.range_at(family, bounds.clone(), as_of);
        drop(current);
        OverlayIter::new(&self.db, base, staged, moment, family, bounds)
    }
}

impl Drop for Overlay {
    /// Leaves the staged writes as they are in a forked child: a thread that the child lacks may have been changing them.
    fn drop(&mut self) {
        if self.db.is_forked() {
            mem::forget(Arc::clone(self.staged.get_mut()));
        }
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Options;
    use braidb_storage::Env;
    use braidb_storage::inline::{Inline, SeededRandom, StepClock};
    use braidb_storage::sim::SimFs;

    #[test]
    fn drops_in_a_forked_child_leave_the_staged_writes() {
        let fs = SimFs::new();
        fs.may_fork();
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let env = Env { fs: Arc::new(fs.clone()), clock, random: Arc::new(SeededRandom::new(1)), runtime };
        let db = Options::new().env(env).open("/db").unwrap();
        let (overlay, transaction) = (db.overlay(), db.transaction().unwrap());
        overlay.put("a", "1").unwrap();
        transaction.put("a", "1").unwrap();
        let staged = [&overlay, transaction.overlay()].map(|overlay| overlay.staged.read().clone());
        let entries = overlay.iter();
        let references = staged.each_ref().map(Arc::strong_count);
        assert_eq!(references, [3, 2]);
        fs.fork();
        drop((entries, overlay, transaction));
        assert_eq!(staged.each_ref().map(Arc::strong_count), references);
    }
}
