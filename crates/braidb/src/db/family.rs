//! A column family: a key space that shares the log, the memory budget, batches and snapshots with all other families.

use super::bounds::IntoBounds;
use super::database::Db;
use super::iter::Iter;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::ids::FamilyId;
use crate::base::key::prefix_bounds;
use crate::base::value::Value;
use crate::read::RangeEstimate;
use std::fmt;
use std::sync::Arc;

/// A named key space in a database. Cheap to clone. A handle keeps the database open.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-family-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let users = db.create_column_family("users")?;
/// users.put("ada", "1815")?;
/// assert!(db.get("ada")?.is_none(), "the default family is another key space");
/// for entry in users.prefix("a") {
///     let (key, value) = entry?;
///     assert_eq!((&key[..], &value[..]), (&b"ada"[..], &b"1815"[..]));
/// }
/// # drop((db, users)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone)]
pub struct ColumnFamily {
    db: Db,
    id: FamilyId,
    name: Arc<str>,
}

impl ColumnFamily {
    pub(crate) fn new(db: Db, id: FamilyId, name: &str) -> ColumnFamily {
        ColumnFamily { db, id, name: name.into() }
    }

    pub(crate) fn id(&self) -> FamilyId {
        self.id
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn database(&self) -> u64 {
        self.db.identity()
    }

    /// The name of the family.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As [`Db::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, self.db.durability())
    }

    /// As [`Db::put_with`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.db.put_at(self.id, key.as_ref(), Some(value.as_ref()), durability)
    }

    /// As [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.get_at(self.id, key.as_ref())
    }

    /// As [`Db::get_many`].
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        self.db.get_many_at(self.id, keys, None)
    }

    /// As [`Db::contains_key`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.contains_at(self.id, key.as_ref())
    }

    /// As [`Db::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.db.durability())
    }

    /// As [`Db::delete_with`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.db.put_at(self.id, key.as_ref(), None, durability)
    }

    /// As [`Db::iter`].
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// As [`Db::range`].
    pub fn range(&self, range: impl IntoBounds) -> Iter {
        self.db.range_at(self.id, range.into_bounds(), None)
    }

    /// As [`Db::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.db.range_at(self.id, prefix_bounds(prefix.as_ref()), None)
    }

    /// As [`Db::estimate`].
    pub fn estimate(&self, range: impl IntoBounds) -> Result<RangeEstimate> {
        self.db.estimate_at(self.id, &range.into_bounds())
    }

    /// As [`Db::first`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().into_first()
    }

    /// As [`Db::last`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().into_last()
    }

    /// The family's id. Refuses a handle from another database.
    pub(crate) fn check_of(&self, db: &Db) -> Result<FamilyId> {
        match self.database() == db.identity() {
            true => Ok(self.id),
            false => Err(Error::ForeignFamily { name: self.name.to_string() }),
        }
    }
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnFamily").field("name", &self.name).finish_non_exhaustive()
    }
}

impl IntoIterator for &ColumnFamily {
    type Item = Result<(Vec<u8>, Value)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

/// Refuses names that cannot be shown or stored sensibly.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let why = match name {
        "" => "it is empty",
        _ if name.len() > 255 => "it has more than 255 bytes",
        _ if name.chars().any(char::is_control) => "it has control characters",
        _ => return Ok(()),
    };
    Err(Error::InvalidName { name: name.to_owned(), why })
}
