//! A column family with its database. Objects of the Java classes `BraidDb` and `Family` each own one.

use crate::failure::Result;
use crate::handles;
use braidb::{ColumnFamily, Durability, Error};
use braidb_bindings::opened::Opened;
use jni::sys::jlong;
use std::sync::Arc;

/// The name of the family that each database has.
const DEFAULT: &str = "default";

/// A column family with its database.
#[derive(Debug)]
pub struct Home {
    pub opened: Arc<Opened>,
    pub family: ColumnFamily,
}

impl Home {
    /// The default family of a database.
    pub fn default_of(opened: Arc<Opened>) -> Result<Home> {
        let family = opened.db.column_family(DEFAULT)?;
        Ok(Home { opened, family })
    }

    /// The home of a handle. Fails after a close.
    #[inline]
    pub fn lent<'call>(handle: jlong) -> Result<&'call Home> {
        let home: &Home = handles::lent(handle);
        home.opened.check()?;
        Ok(home)
    }

    /// Fails if the family belongs to another database than a snapshot or staged writes.
    pub fn check_of(&self, opened: &Arc<Opened>) -> Result<()> {
        match Arc::ptr_eq(&self.opened, opened) {
            true => Ok(()),
            false => Err(Error::ForeignFamily { name: self.family.name().to_owned() }.into()),
        }
    }

    /// Sets a key, or deletes it if there is no value.
    #[inline]
    pub fn write(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Option<Durability>,
    ) -> braidb::Result<()> {
        match (value, durability) {
            (Some(value), None) => self.family.put(key, value),
            (Some(value), Some(durability)) => self.family.put_with(key, value, durability),
            (None, None) => self.family.delete(key),
            (None, Some(durability)) => self.family.delete_with(key, durability),
        }
    }
}
