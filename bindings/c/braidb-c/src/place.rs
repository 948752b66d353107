//! A family of a database, now or at the moment of a snapshot: where reads and writes go.

use crate::database::{Database, Shared, usable};
use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::snapshot::Snapshot;
use braidb::stats::RangeEstimate;
use braidb::{ColumnFamily, Durability, Iter, Salvage, Value};
use braidb_bindings::code::Code;
use std::ops::Bound;
use std::sync::Arc;

/// Where a call reads or writes.
pub struct Place<'a> {
    pub shared: &'a Arc<Shared>,
    family: &'a ColumnFamily,
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
        Ok(Place { shared, family: shared.family(family), snapshot })
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(match self.snapshot {
            None => self.family.get(key),
            Some(snapshot) => snapshot.get_in(self.family, key),
        }?)
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(match self.snapshot {
            None => self.family.contains_key(key),
            Some(snapshot) => snapshot.contains_key_in(self.family, key),
        }?)
    }

    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        Ok(match self.snapshot {
            None => self.family.get_many(keys),
            Some(snapshot) => snapshot.get_many_in(self.family, keys),
        }?)
    }

    pub fn range(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Iter {
        let range = bounds(lower, upper);
        match self.snapshot {
            None => self.family.range(range),
            Some(snapshot) => snapshot.range_in(self.family, range),
        }
    }

    pub fn salvage(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Salvage {
        self.family.salvage(bounds(lower, upper))
    }

    pub fn estimate(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<RangeEstimate> {
        Ok(self.family.estimate(bounds(lower, upper))?)
    }

    pub fn excise<'r>(
        &self,
        ranges: impl Iterator<Item = (Option<&'r [u8]>, Option<&'r [u8]>)>,
    ) -> Result<()> {
        Ok(self.family.excise(ranges.map(|(lower, upper)| bounds(lower, upper)))?)
    }

    pub fn compact(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<()> {
        Ok(self.family.compact_range(bounds(lower, upper))?)
    }

    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8], durability: Option<Durability>) -> Result<()> {
        Ok(match durability {
            None => self.family.put(key, value),
            Some(durability) => self.family.put_with(key, value, durability),
        }?)
    }

    pub fn delete(&self, key: &[u8], durability: Option<Durability>) -> Result<()> {
        Ok(match durability {
            None => self.family.delete(key),
            Some(durability) => self.family.delete_with(key, durability),
        }?)
    }

    /// Sets a key that is not there. Returns the value of a key that is.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        Ok(self.family.put_if_absent(key, value)?)
    }

    /// Sets a key to `new` if its value is `old`. `None` is an absent key.
    pub fn compare_and_swap(&self, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        Ok(self.family.compare_and_swap(key, old, new)?)
    }
}
