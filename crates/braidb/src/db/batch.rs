//! A batch: writes that are applied together or not at all, across column families too.

use super::family::ColumnFamily;
use crate::base::error::{Error, Result};
use crate::base::ids::FamilyId;
use crate::base::{MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::log::EncodedBatch;
use crate::visible::EntryKind;
use std::fmt;
use std::sync::Arc;

/// Writes that [`Db::write`](crate::Db::write) applies atomically, in their order.
///
/// ```
/// use braidb::WriteBatch;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-batch-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let users = db.create_column_family("users")?;
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
    /// Shared with the commit queue while the batch is written, so that no writer copies its batch.
    encoded: Arc<EncodedBatch>,
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

    /// Makes room for `writes` more writes, with `key_bytes` of keys and `value_bytes` of values in all. A large batch then allocates twice,
    /// instead of about forty times. The batch may have more writes. Room that is not used costs only memory.
    ///
    /// ```
    /// let mut batch = braidb::WriteBatch::new();
    /// batch.reserve(1_000, 16 * 1_000, 100 * 1_000);
    /// for number in 0..1_000_u64 {
    ///     batch.put(format!("{number:016}"), [7; 100]);
    /// }
    /// assert_eq!(batch.len(), 1_000);
    /// ```
    pub fn reserve(&mut self, writes: usize, key_bytes: usize, value_bytes: usize) -> &mut WriteBatch {
        Arc::make_mut(&mut self.encoded).reserve(writes, key_bytes, value_bytes);
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

    /// Adds all writes of `other` behind those of this batch. If `other` was refused, or both together are over the limits or name families of
    /// two databases, this batch is refused when it is written.
    ///
    /// ```
    /// use braidb::WriteBatch;
    /// let (mut first, mut second) = (WriteBatch::new(), WriteBatch::new());
    /// first.put("a", "1");
    /// second.put("b", "2").delete("a");
    /// first.append(&second);
    /// let keys: Vec<&[u8]> = first.iter().map(|entry| entry.key()).collect();
    /// assert_eq!(keys, [b"a", b"b", b"a"]);
    /// ```
    pub fn append(&mut self, other: &WriteBatch) -> &mut WriteBatch {
        if self.refused.is_some() {
            return self;
        }
        self.refused.clone_from(&other.refused);
        if let Some((database, name)) = &other.database {
            self.bind_to(*database, name);
        }
        let bytes = self.encoded.bytes() + other.encoded.bytes();
        if bytes > MAX_BATCH_BYTES {
            let too_large = Error::TooLarge { what: "the batch", bytes, limit: MAX_BATCH_BYTES };
            self.refused.get_or_insert(too_large);
        }
        if self.refused.is_none() {
            Arc::make_mut(&mut self.encoded).append(&other.encoded);
        }
        self
    }

    /// The writes of the batch, in their order.
    ///
    /// ```
    /// use braidb::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.put("plum", "blue").delete("pear");
    /// for entry in batch.iter() {
    ///     match entry.value() {
    ///         Some(value) => println!("put {:?} to {:?}", entry.key(), value),
    ///         None => println!("delete {:?}", entry.key()),
    ///     }
    /// }
    /// assert_eq!(batch.iter().count(), batch.len());
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BatchEntry<'_>> {
        self.encoded.entries().map(|entry| BatchEntry {
            family: entry.family,
            key: entry.key,
            value: (entry.kind == EntryKind::Put).then_some(entry.value),
        })
    }

    /// Removes all writes and keeps the memory. A batch that was refused takes writes again.
    pub fn clear(&mut self) {
        match Arc::get_mut(&mut self.encoded) {
            Some(encoded) => encoded.clear(),
            // A clone of the batch has the memory.
            None => self.encoded = Arc::default(),
        }
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
        let encoded = Arc::make_mut(&mut self.encoded);
        match value {
            Some(value) => encoded.push_put(family, key, value),
            None => encoded.push_delete(family, key),
        }
    }

    fn bind(&mut self, family: &ColumnFamily) {
        self.bind_to(family.database(), family.name());
    }

    /// Notes that the batch has a family `name` of `database`.
    fn bind_to(&mut self, database: u64, name: &str) {
        match &self.database {
            None => self.database = Some((database, name.to_owned())),
            Some((bound, _)) if *bound == database => {}
            Some(_) => {
                self.refused.get_or_insert(Error::ForeignFamily { name: name.to_owned() });
            }
        }
    }

    /// The encoded writes. Fails if the batch was refused, or names families of a database other than `database`.
    pub(crate) fn encoded(&self, database: u64) -> Result<&Arc<EncodedBatch>> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        match &self.database {
            Some((bound, name)) if *bound != database => Err(Error::ForeignFamily { name: name.clone() }),
            _ => Ok(&self.encoded),
        }
    }
}

/// One write of a [`WriteBatch`], as [`WriteBatch::iter`] shows it.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-batchentry-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let users = db.create_column_family("users")?;
/// let mut batch = braidb::WriteBatch::new();
/// batch.put_in(&users, "ada", "1815");
/// let entry = batch.iter().next().unwrap();
/// assert_eq!((entry.key(), entry.value()), (&b"ada"[..], Some(&b"1815"[..])));
/// assert!(entry.is_in(&users));
/// # drop((db, users)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BatchEntry<'a> {
    family: FamilyId,
    key: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> BatchEntry<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value of a put; `None` for a delete.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// Whether the write is for `family`, which must be of the batch's database.
    pub fn is_in(&self, family: &ColumnFamily) -> bool {
        self.family == family.id()
    }
}

/// A [`WriteBatch`] in each form that [`Db::write`](crate::Db::write) takes. The form decides what becomes of the batch:
///
/// - `&batch` keeps its writes, after success and after an error;
/// - `&mut batch` is emptied by success alone. After an error it has all its writes, and can be written again;
/// - `batch` is gone, after an error too.
///
/// ```
/// use braidb::{Db, WriteBatch};
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-asbatch-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = Db::open(&dir)?;
/// let mut batch = WriteBatch::new();
/// batch.put("from", "90");
/// db.write(&batch)?;
/// assert_eq!(batch.len(), 1);
/// batch.put("to", "110");
/// db.write(&mut batch)?;
/// assert!(batch.is_empty()); // and takes the next writes, in the same memory
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub trait AsBatch: sealed::Form {}

impl AsBatch for WriteBatch {}

impl AsBatch for &WriteBatch {}

impl AsBatch for &mut WriteBatch {}

mod sealed {
    use super::WriteBatch;

    /// The form in which a batch is written. Only this module implements it.
    pub trait Form {
        fn batch(&self) -> &WriteBatch;

        /// The batch was written.
        fn written(self);
    }

    impl Form for WriteBatch {
        fn batch(&self) -> &WriteBatch {
            self
        }

        fn written(self) {}
    }

    impl Form for &WriteBatch {
        fn batch(&self) -> &WriteBatch {
            self
        }

        fn written(self) {}
    }

    impl Form for &mut WriteBatch {
        fn batch(&self) -> &WriteBatch {
            self
        }

        fn written(self) {
            self.clear();
        }
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
