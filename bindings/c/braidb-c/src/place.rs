//! A family of a database, now or at the moment of a snapshot: where reads and writes go.

use crate::code::Code;
use crate::database::{Database, Shared, usable};
use crate::failure::{Failure, Result};
use crate::family::{Family, family_of};
use crate::snapshot::Snapshot;
use braidb::stats::RangeEstimate;
use braidb::{ColumnFamily, Durability, Iter, Salvage, Value};
use std::ops::Bound;
use std::sync::Arc;

/// Where a call reads or writes.
pub struct Place<'a> {
    pub shared: &'a Arc<Shared>,
    family: Option<&'a ColumnFamily>,
    snapshot: Option<&'a braidb::Snapshot>,
}

/// The bounds of a range. The lower key belongs to it, the upper one does not.
pub fn bounds<'a>(lower: Option<&'a [u8]>, upper: Option<&'a [u8]>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (lower.map_or(Bound::Unbounded, Bound::Included), upper.map_or(Bound::Unbounded, Bound::Excluded))
}

impl<'a> Place<'a> {
    /// Refuses a family and a snapshot of other databases.
    #[inline]
    pub fn new(
        db: Option<&'a Database>,
        family: Option<&'a Family>,
        snapshot: Option<&'a Snapshot>,
    ) -> Result<Place<'a>> {
        let shared = usable(db)?;
        if let Some(family) = family {
            family.check_of(shared.id)?;
        }
        if snapshot.is_some_and(|snapshot| snapshot.shared.id != shared.id) {
            return Err(Failure::new(Code::FOREIGN, "the snapshot belongs to another database"));
        }
        let snapshot = snapshot.map(|snapshot| &snapshot.snapshot);
        Ok(Place { shared, family: family_of(family), snapshot })
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(match (self.snapshot, self.family) {
            (None, None) => self.shared.db.get(key),
            (None, Some(family)) => family.get(key),
            (Some(snapshot), None) => snapshot.get(key),
            (Some(snapshot), Some(family)) => snapshot.get_in(family, key),
        }?)
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(match (self.snapshot, self.family) {
            (None, None) => self.shared.db.contains_key(key),
            (None, Some(family)) => family.contains_key(key),
            (Some(snapshot), None) => snapshot.contains_key(key),
            (Some(snapshot), Some(family)) => snapshot.contains_key_in(family, key),
        }?)
    }

    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        Ok(match (self.snapshot, self.family) {
            (None, None) => self.shared.db.get_many(keys),
            (None, Some(family)) => family.get_many(keys),
            (Some(snapshot), None) => snapshot.get_many(keys),
            (Some(snapshot), Some(family)) => snapshot.get_many_in(family, keys),
        }?)
    }

    pub fn range(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Iter {
        let range = bounds(lower, upper);
        match (self.snapshot, self.family) {
            (None, None) => self.shared.db.range(range),
            (None, Some(family)) => family.range(range),
            (Some(snapshot), None) => snapshot.range(range),
            (Some(snapshot), Some(family)) => snapshot.range_in(family, range),
        }
    }

    pub fn salvage(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Salvage {
        let range = bounds(lower, upper);
        match self.family {
            None => self.shared.db.salvage(range),
            Some(family) => family.salvage(range),
        }
    }

    pub fn estimate(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<RangeEstimate> {
        let range = bounds(lower, upper);
        Ok(match self.family {
            None => self.shared.db.estimate(range),
            Some(family) => family.estimate(range),
        }?)
    }

    pub fn excise<'r>(
        &self,
        ranges: impl Iterator<Item = (Option<&'r [u8]>, Option<&'r [u8]>)>,
    ) -> Result<()> {
        let ranges = ranges.map(|(lower, upper)| bounds(lower, upper));
        Ok(match self.family {
            None => self.shared.db.excise(ranges),
            Some(family) => family.excise(ranges),
        }?)
    }

    pub fn compact(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<()> {
        let range = bounds(lower, upper);
        Ok(match self.family {
            None => self.shared.db.compact_range(range),
            Some(family) => family.compact_range(range),
        }?)
    }

    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8], durability: Option<Durability>) -> Result<()> {
        Ok(match (self.family, durability) {
            (None, None) => self.shared.db.put(key, value),
            (None, Some(durability)) => self.shared.db.put_with(key, value, durability),
            (Some(family), None) => family.put(key, value),
            (Some(family), Some(durability)) => family.put_with(key, value, durability),
        }?)
    }

    pub fn delete(&self, key: &[u8], durability: Option<Durability>) -> Result<()> {
        Ok(match (self.family, durability) {
            (None, None) => self.shared.db.delete(key),
            (None, Some(durability)) => self.shared.db.delete_with(key, durability),
            (Some(family), None) => family.delete(key),
            (Some(family), Some(durability)) => family.delete_with(key, durability),
        }?)
    }

    /// Sets a key that is not there. Returns the value of a key that is.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        Ok(match self.family {
            None => self.shared.db.put_if_absent(key, value),
            Some(family) => family.put_if_absent(key, value),
        }?)
    }

    /// Sets a key to `new` if its value is `old`. `None` is an absent key.
    pub fn compare_and_swap(&self, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        Ok(match self.family {
            None => self.shared.db.compare_and_swap(key, old, new),
            Some(family) => family.compare_and_swap(key, old, new),
        }?)
    }
}
