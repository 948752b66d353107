//! A snapshot: the database as it was at one moment, over all column families.

use super::bounds::IntoBounds;
use super::database::Db;
use super::family::ColumnFamily;
use super::iter::Iter;
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::key::prefix_bounds;
use crate::base::value::Value;
use crate::visible::past_excises::AsOf;
use std::fmt;

/// The database as it was when [`Db::snapshot`] was called. It keeps old versions from being dropped until its last clone is dropped.
/// Only [`Db::excise`] drops them: reads in its ranges then fail with [`Error::Excised`](crate::Error::Excised).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-snapshot-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("k", "old")?;
/// let before = db.snapshot();
/// db.put("k", "new")?;
/// assert_eq!(before.get("k")?.unwrap(), b"old");
/// assert_eq!(before.iter().count(), 1);
/// # drop((db, before)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct Snapshot {
    db: Db,
    as_of: AsOf,
}

impl Snapshot {
    pub(crate) fn new(db: Db) -> Snapshot {
        // In a forked child all reads of the snapshot fail, so its number does not matter.
        let nothing = AsOf { seq: 0, excises: 0 };
        let as_of = db.engine().map_or(nothing, |engine| engine.register_snapshot());
        Snapshot { db, as_of }
    }

    pub(super) fn as_of(&self) -> AsOf {
        self.as_of
    }

    /// The value of `key` in the default family at the moment of the snapshot.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.get_as_of(FamilyId::DEFAULT, key.as_ref(), self.as_of)
    }

    /// The value of `key` in `family` at the moment of the snapshot.
    pub fn get_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.get_as_of(family.check_of(&self.db)?, key.as_ref(), self.as_of)
    }

    /// The values of `keys` in the default family at the moment of the snapshot, as [`Db::get_many`] returns them.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        self.db.get_many_at(FamilyId::DEFAULT, keys, Some(self.as_of))
    }

    /// The values of `keys` in `family` at the moment of the snapshot, as [`Db::get_many`] returns them.
    pub fn get_many_in(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Value>>> {
        self.db.get_many_at(family.check_of(&self.db)?, keys, Some(self.as_of))
    }

    /// Whether `key` had a value in the default family at the moment of the snapshot.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.engine()?.contains(FamilyId::DEFAULT, key.as_ref(), Some(self.as_of))
    }

    /// Whether `key` had a value in `family` at the moment of the snapshot.
    pub fn contains_key_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.engine()?.contains(family.check_of(&self.db)?, key.as_ref(), Some(self.as_of))
    }

    /// All entries of the default family at the moment of the snapshot.
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The entries of a range of the default family at the moment of the snapshot.
    pub fn range(&self, range: impl IntoBounds) -> Iter {
        self.db.range_at(FamilyId::DEFAULT, range.into_bounds(), Some(self.as_of))
    }

    /// The entries of the default family whose keys start with `prefix`, at the moment of the snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.db.range_at(FamilyId::DEFAULT, prefix_bounds(prefix.as_ref()), Some(self.as_of))
    }

    /// The entry with the smallest key of the default family at the moment of the snapshot.
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().into_first()
    }

    /// The entry with the largest key of the default family at the moment of the snapshot.
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().into_last()
    }

    /// All entries of `family` at the moment of the snapshot.
    pub fn iter_in(&self, family: &ColumnFamily) -> Iter {
        self.range_in(family, ..)
    }

    /// The entries of a range of `family` at the moment of the snapshot.
    pub fn range_in(&self, family: &ColumnFamily, range: impl IntoBounds) -> Iter {
        match family.check_of(&self.db) {
            Ok(id) => self.db.range_at(id, range.into_bounds(), Some(self.as_of)),
            Err(error) => Iter::failed(error),
        }
    }

    /// The entries of `family` whose keys start with `prefix`, at the moment of the snapshot.
    pub fn prefix_in(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Iter {
        match family.check_of(&self.db) {
            Ok(id) => self.db.range_at(id, prefix_bounds(prefix.as_ref()), Some(self.as_of)),
            Err(error) => Iter::failed(error),
        }
    }

    /// The entry with the smallest key of `family` at the moment of the snapshot.
    pub fn first_in(&self, family: &ColumnFamily) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_in(family).into_first()
    }

    /// The entry with the largest key of `family` at the moment of the snapshot.
    pub fn last_in(&self, family: &ColumnFamily) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_in(family).into_last()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.as_of.seq).finish_non_exhaustive()
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        if let Ok(engine) = self.db.engine() {
            engine.snapshots().register_again(self.as_of.seq);
        }
        Snapshot { db: self.db.clone(), as_of: self.as_of }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // The registry of a forked child is a copy, and a thread that is missing may hold its lock.
        if let Ok(engine) = self.db.engine() {
            engine.snapshots().release(self.as_of.seq);
        }
    }
}
