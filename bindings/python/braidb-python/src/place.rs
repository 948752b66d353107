//! Where reads go: a database or one of its families now, a snapshot, or a transaction. And where writes of single keys go.

use crate::bytes::Edges;
use crate::errors::{Failure, Result};
use crate::held::Held;
use crate::snapshot::Moment;
use crate::transaction::Running;
use braidb::stats::RangeEstimate;
use braidb::{ColumnFamily, Durability, Error, Iter, Value};
use braidb_bindings::opened::Opened;
use std::sync::Arc;

/// Where a call reads.
#[derive(Debug)]
pub enum Place {
    Now(Home),
    Snapshot(Arc<Moment>),
    Transaction(Arc<Running>),
}

/// A database, or one of its families.
#[derive(Clone, Debug)]
pub struct Home {
    /// `None` is the default family.
    pub family: Option<ColumnFamily>,
    pub opened: Held,
}

/// A column family that a caller passed, with its database.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub opened: &'a Opened,
    pub family: &'a ColumnFamily,
}

impl<'a> Named<'a> {
    /// The family, if it belongs to `opened`.
    pub fn of(self, opened: &Opened) -> Result<&'a ColumnFamily> {
        match self.opened.id == opened.id {
            true => Ok(self.family),
            false => Err(Error::ForeignFamily { name: self.family.name().to_owned() }.into()),
        }
    }
}

impl Place {
    /// The database.
    pub fn opened(&self) -> &Held {
        match self {
            Place::Now(home) => &home.opened,
            Place::Snapshot(moment) => &moment.opened,
            Place::Transaction(running) => &running.opened,
        }
    }

    /// The family that a call reads: the one that it names, or that of the place.
    fn family<'a>(&'a self, named: Option<Named<'a>>) -> Result<Option<&'a ColumnFamily>> {
        let own = match self {
            Place::Now(home) => home.family.as_ref(),
            _ => None,
        };
        match (own, named) {
            (own, None) => Ok(own),
            (None, Some(named)) => Ok(Some(named.of(self.opened())?)),
            (Some(own), Some(_)) => Err(Failure::invalid(format!(
                "this is column family {:?} already; call the other family, or name it in a call of the database",
                own.name()
            ))),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, named: Option<Named<'_>>, key: &[u8]) -> Result<Option<Value>> {
        let opened = self.opened();
        opened.check()?;
        let family = self.family(named)?;
        match (self, family) {
            (Place::Now(_), None) => Ok(opened.db.get(key)?),
            (Place::Now(_), Some(family)) => Ok(family.get(key)?),
            (Place::Snapshot(moment), family) => moment.with(|snapshot| match family {
                None => snapshot.get(key),
                Some(family) => snapshot.get_in(family, key),
            }),
            (Place::Transaction(running), family) => running.with(|transaction| match family {
                None => transaction.get(key),
                Some(family) => transaction.get_in(family, key),
            }),
        }
    }

    /// Whether a key has a value.
    pub fn contains(&self, named: Option<Named<'_>>, key: &[u8]) -> Result<bool> {
        let opened = self.opened();
        opened.check()?;
        let family = self.family(named)?;
        match (self, family) {
            (Place::Now(_), None) => Ok(opened.db.contains_key(key)?),
            (Place::Now(_), Some(family)) => Ok(family.contains_key(key)?),
            (Place::Snapshot(moment), family) => moment.with(|snapshot| match family {
                None => snapshot.contains_key(key),
                Some(family) => snapshot.contains_key_in(family, key),
            }),
            (Place::Transaction(running), family) => running.with(|transaction| match family {
                None => transaction.contains_key(key),
                Some(family) => transaction.contains_key_in(family, key),
            }),
        }
    }

    /// The values of keys, all of one moment.
    pub fn get_many(
        &self,
        named: Option<Named<'_>>,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Value>>> {
        let opened = self.opened();
        opened.check()?;
        let family = self.family(named)?;
        match (self, family) {
            (Place::Now(_), None) => Ok(opened.db.get_many(keys)?),
            (Place::Now(_), Some(family)) => Ok(family.get_many(keys)?),
            (Place::Snapshot(moment), family) => moment.with(|snapshot| match family {
                None => snapshot.get_many(keys),
                Some(family) => snapshot.get_many_in(family, keys),
            }),
            // All reads of a transaction are of its moment.
            (Place::Transaction(_), _) => keys.iter().map(|key| self.get(named, key.as_ref())).collect(),
        }
    }

    /// The entries of a range at this moment.
    pub fn entries(&self, named: Option<Named<'_>>, edges: Edges) -> Result<Entries> {
        let opened = self.opened();
        opened.check()?;
        let family = self.family(named)?;
        Ok(match (self, family) {
            (Place::Now(_), None) => Entries::Read(Box::new(opened.db.range(edges))),
            (Place::Now(_), Some(family)) => Entries::Read(Box::new(family.range(edges))),
            (Place::Snapshot(moment), family) => Entries::Read(Box::new(moment.with(|snapshot| {
                Ok(match family {
                    None => snapshot.range(edges),
                    Some(family) => snapshot.range_in(family, edges),
                })
            })?)),
            (Place::Transaction(running), family) => {
                Entries::Staged(Staged { running: running.clone(), family: family.cloned(), edges })
            }
        })
    }
}

/// Where the entries of a range come from.
#[derive(Debug)]
pub enum Entries {
    Read(Box<Iter>),
    Staged(Staged),
}

/// A range as a transaction sees it. The writes of the transaction change it while it is read.
#[derive(Debug)]
pub struct Staged {
    pub running: Arc<Running>,
    pub family: Option<ColumnFamily>,
    pub edges: Edges,
}

impl Home {
    /// Sets a key, or deletes it if there is no value.
    #[inline]
    pub fn write(&self, key: &[u8], value: Option<&[u8]>, durability: Option<Durability>) -> Result<()> {
        self.opened.check()?;
        let db = &self.opened.db;
        Ok(match (&self.family, value, durability) {
            (None, Some(value), None) => db.put(key, value),
            (None, Some(value), Some(durability)) => db.put_with(key, value, durability),
            (None, None, None) => db.delete(key),
            (None, None, Some(durability)) => db.delete_with(key, durability),
            (Some(family), Some(value), None) => family.put(key, value),
            (Some(family), Some(value), Some(durability)) => family.put_with(key, value, durability),
            (Some(family), None, None) => family.delete(key),
            (Some(family), None, Some(durability)) => family.delete_with(key, durability),
        }?)
    }

    /// Sets a key that has no value. Returns the value of a key that has one.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        self.opened.check()?;
        Ok(match &self.family {
            None => self.opened.db.put_if_absent(key, value),
            Some(family) => family.put_if_absent(key, value),
        }?)
    }

    /// Sets a key to `new` if its value is `old`. `None` is no value.
    pub fn compare_and_swap(&self, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.opened.check()?;
        Ok(match &self.family {
            None => self.opened.db.compare_and_swap(key, old, new),
            Some(family) => family.compare_and_swap(key, old, new),
        }?)
    }

    /// Deletes a key that has a value. Returns the value.
    pub fn pop(&self, key: &[u8]) -> Result<Option<Value>> {
        self.opened.check()?;
        let family = self.family.as_ref();
        Ok(self.opened.db.transact(|transaction| {
            let value = match family {
                None => transaction.get(key),
                Some(family) => transaction.get_in(family, key),
            }?;
            match (&value, family) {
                (None, _) => {}
                (Some(_), None) => transaction.delete(key)?,
                (Some(_), Some(family)) => transaction.delete_in(family, key)?,
            }
            Ok::<_, Error>(value)
        })?)
    }

    /// Estimates what a range holds.
    pub fn estimate(&self, edges: Edges) -> Result<RangeEstimate> {
        self.opened.check()?;
        Ok(match &self.family {
            None => self.opened.db.estimate(edges),
            Some(family) => family.estimate(edges),
        }?)
    }

    /// Takes whole ranges away.
    pub fn excise(&self, ranges: Vec<Edges>) -> Result<()> {
        self.opened.check()?;
        Ok(match &self.family {
            None => self.opened.db.excise(ranges),
            Some(family) => family.excise(ranges),
        }?)
    }
}
