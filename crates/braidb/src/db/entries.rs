//! The entries of a database through its handle: puts, gets, deletes, batches, scans and snapshots.

use super::batch::{self, AsBatch};
use super::bounds::{Bounds, IntoBounds};
use super::database::Db;
use super::iter::Iter;
use super::snapshot::Snapshot;
use crate::base::durability::Durability;
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::key::prefix_bounds;
use crate::base::value::Value;
use crate::read::{self, RangeEstimate};
use crate::visible::past_excises::AsOf;

impl Db {
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
        self.put_with(key, value, self.durability())
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

    /// The values of `keys` in the default family, each as [`Db::get`] returns it, in the order of `keys`. All are of one moment: a batch is
    /// seen as a whole or not at all. Keys wait for memory together, and a block of several keys is read once, so many keys take less time than
    /// as many gets.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-get-many-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("plum", "blue")?;
    /// let values = db.get_many(&["pear", "plum"])?;
    /// assert!(values[0].is_none() && values[1].as_deref() == Some(&b"blue"[..]));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::get`], if one of the keys cannot be read.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        self.get_many_at(FamilyId::DEFAULT, keys, None)
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
        self.delete_with(key, self.durability())
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
    /// write over the limits, or with families of two databases, is refused until [`WriteBatch::clear`](crate::WriteBatch::clear).
    pub fn write(&self, batch: impl AsBatch) -> Result<()> {
        self.write_with(batch, self.durability())
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
        let engine = self.engine()?;
        let encoded = batch.batch().encoded(self.identity())?;
        engine.commit_batch(encoded, None, durability)?;
        batch.written();
        Ok(())
    }

    /// Estimates what a range of the default family holds. Entries in memory are counted; of tables the indices are asked, and no block is read.
    /// Entries that newer ones hide are counted until a merge drops them.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-estimate-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// for number in 0..100_000u32 {
    ///     db.put(number.to_be_bytes(), "value")?;
    /// }
    /// db.flush()?;
    /// let quarter = db.estimate(0u32.to_be_bytes()..25_000u32.to_be_bytes())?;
    /// assert!((24_000..26_000).contains(&quarter.entries), "{quarter:?}");
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::get`], where a table has to be opened.
    pub fn estimate(&self, range: impl IntoBounds) -> Result<RangeEstimate> {
        self.estimate_at(FamilyId::DEFAULT, &range.into_bounds())
    }

    pub(crate) fn estimate_at(&self, family: FamilyId, (low, high): &Bounds) -> Result<RangeEstimate> {
        let engine = self.engine()?;
        let view = engine.view()?;
        let (low, high) = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        let estimated = read::estimate(&view.families[family.0 as usize], (low, high));
        drop(view);
        engine.reader_ended();
        estimated
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

    /// The entry with the smallest key of the default family, or `None` if the family is empty.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-first-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// assert!(db.first()?.is_none());
    /// db.put("b", "2")?;
    /// db.put("a", "1")?;
    /// let (key, value) = db.first()?.unwrap();
    /// assert_eq!((&key[..], &value[..]), (&b"a"[..], &b"1"[..]));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().into_first()
    }

    /// The entry with the largest key of the default family, or `None` if the family is empty.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-last-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let next = match db.last()? {
    ///     Some((key, _)) => u64::from_be_bytes(key.try_into().unwrap()) + 1,
    ///     None => 0,
    /// };
    /// db.put(next.to_be_bytes(), "numbers as big-endian bytes sort as numbers")?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().into_last()
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
        self.engine()?.persist(durability)
    }

    pub(crate) fn put_at(
        &self,
        family: FamilyId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let engine = self.engine()?;
        batch::check_entry(0, key, value.unwrap_or_default())?;
        engine.commit_one(family, key, value, durability)
    }

    pub(crate) fn get_at(&self, family: FamilyId, key: &[u8]) -> Result<Option<Value>> {
        self.engine()?.get(family, key, None)
    }

    pub(crate) fn get_many_at(
        &self,
        family: FamilyId,
        keys: &[impl AsRef<[u8]>],
        as_of: Option<AsOf>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.engine()?.get_many(family, &keys, as_of)
    }

    pub(crate) fn contains_at(&self, family: FamilyId, key: &[u8]) -> Result<bool> {
        self.engine()?.contains(family, key, None)
    }

    pub(crate) fn get_as_of(&self, family: FamilyId, key: &[u8], as_of: AsOf) -> Result<Option<Value>> {
        self.engine()?.get(family, key, Some(as_of))
    }

    pub(crate) fn range_at(&self, family: FamilyId, bounds: Bounds, as_of: Option<AsOf>) -> Iter {
        Iter::new(self, family, bounds, as_of)
    }
}
