//! A batch: writes that are applied together or not at all, across column families too.

use super::family::ColumnFamily;
use crate::base::error::{Error, Result};
use crate::base::ids::FamilyId;
use crate::base::{MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::log::EncodedBatch;
use std::fmt;

/// Writes that [`Db::write`](crate::Db::write) applies atomically, in their order.
///
/// ```
/// use braidb::WriteBatch;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-batch-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let users = db.column_family("users")?;
/// let mut batch = WriteBatch::new();
/// batch.put("total", "1").delete("stale");
/// batch.put_in(&users, "ada", "1815");
/// db.write(batch)?;
/// assert_eq!(users.get("ada")?.unwrap(), b"1815");
/// # drop((db, users)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct WriteBatch {
    encoded: EncodedBatch,
    /// The database to which the families of the batch belong, and the name of one family. Any other database refuses the batch.
    database: Option<(u64, String)>,
    /// The first key or value over the limits, or a mix of databases; returned when the batch is written.
    refused: Option<Error>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Sets `key` to `value` in the default family.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.push(FamilyId::DEFAULT, key.as_ref(), Some(value.as_ref()));
        self
    }

    /// Removes `key` from the default family. A missing key is no error.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.push(FamilyId::DEFAULT, key.as_ref(), None);
        self
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_in(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut WriteBatch {
        self.bind(family);
        self.push(family.id(), key.as_ref(), Some(value.as_ref()));
        self
    }

    /// Removes `key` from `family`. A missing key is no error.
    pub fn delete_in(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.bind(family);
        self.push(family.id(), key.as_ref(), None);
        self
    }

    /// The number of writes in the batch.
    pub fn len(&self) -> usize {
        self.encoded.count()
    }

    /// Whether the batch holds no write.
    pub fn is_empty(&self) -> bool {
        self.encoded.count() == 0
    }

    /// The bytes that the batch will take in the log, approximately.
    pub fn bytes(&self) -> usize {
        self.encoded.bytes()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.database = None;
        self.refused = None;
    }

    fn push(&mut self, family: FamilyId, key: &[u8], value: Option<&[u8]>) {
        if self.refused.is_some() {
            return;
        }
        if let Err(error) = check_entry(self.encoded.bytes(), key, value.unwrap_or_default()) {
            self.refused = Some(error);
            return;
        }
        match value {
            Some(value) => self.encoded.push_put(family, key, value),
            None => self.encoded.push_delete(family, key),
        }
    }

    fn bind(&mut self, family: &ColumnFamily) {
        match &self.database {
            None => self.database = Some((family.database(), family.name().to_owned())),
            Some((database, _)) if *database == family.database() => {}
            Some(_) => {
                self.refused.get_or_insert(Error::ForeignFamily { name: family.name().to_owned() });
            }
        }
    }

    /// The encoded writes. Fails if the batch was refused, or names families of a database other than `database`.
    pub(crate) fn into_encoded(self, database: u64) -> Result<EncodedBatch> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        match self.database {
            Some((bound, name)) if bound != database => Err(Error::ForeignFamily { name }),
            _ => Ok(self.encoded),
        }
    }
}

/// Takes the writes out of a batch that was built in a chain of calls, and leaves it empty.
impl From<&mut WriteBatch> for WriteBatch {
    fn from(batch: &mut WriteBatch) -> WriteBatch {
        std::mem::take(batch)
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Refuses a key, value or batch over the limits, before anything is written.
pub(crate) fn check_entry(batch_bytes: usize, key: &[u8], value: &[u8]) -> Result<()> {
    let check = |what, bytes, limit| match bytes > limit {
        true => Err(Error::TooLarge { what, bytes, limit }),
        false => Ok(()),
    };
    check("the key", key.len(), MAX_KEY_BYTES)?;
    check("the value", value.len(), MAX_VALUE_BYTES)?;
    check("the batch", batch_bytes + key.len() + value.len() + 64, MAX_BATCH_BYTES)
}
