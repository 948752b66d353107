//! Entry kinds, and the cursor that every sorted source of entries (segment, table, run, merge) offers.

use crate::base::body::{BodyFile, Handle};
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use crate::base::value::Value;
use std::sync::Arc;

/// What an entry does to its key. The numbers are part of the formats of log and tables.
///
/// Numbers 2 (range delete), 3 (merge operand), 4 (handle) and 5 (expiry) are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    Delete = 0,
    Put = 1,
}

impl EntryKind {
    pub fn from_u8(byte: u8) -> Option<EntryKind> {
        match byte {
            0 => Some(EntryKind::Delete),
            1 => Some(EntryKind::Put),
            _ => None,
        }
    }
}

/// The newest version of a key that a read may see. It may be a tombstone, which hides older versions below.
#[derive(Clone, Debug)]
pub struct Found {
    pub seq: SeqNo,
    pub kind: EntryKind,
    pub value: Value,
}

/// The value of an entry from which the cursor may move on: pinned, or the place to read it from.
pub enum LazyValue {
    Pinned(Value),
    InBody(InBody),
    /// The place is damaged.
    Failed(Error),
}

/// The place of a value in another file than its key.
#[derive(Clone)]
pub struct InBody {
    pub body: Arc<dyn ValueBody>,
    pub handle: Handle,
}

/// How many bytes a read of several values may take besides them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Bytes that one read may take beyond `SPAN_SHARE` times the bytes of its values (`value/mod.rs`). A body takes at least 16 KiB. Values
    /// that lie farther apart take one more read.
    pub gap_bytes: u64,
    /// Bytes behind the last value that the page cache should get too.
    pub ahead_bytes: u64,
}

/// The outcome of a read of several values.
#[derive(Debug, Default)]
pub struct Together {
    /// For each handle its value, or where it lies in the buffer.
    pub values: Vec<Fetched>,
    /// How many places of the file were read.
    pub places: u64,
}

/// A value after a read of several.
#[derive(Debug)]
pub enum Fetched {
    /// The value, or its error.
    Value(Result<Value>),
    /// The value begins here in the buffer, and has not been checked.
    Raw(usize),
}

/// Bytes of memory that a scan may hold beside its values, for the next window: 1 MiB, more than the windows of short scans have.
const SPARE_BYTES: usize = 1 << 20;

/// Bytes of values as a file has them. A scan reuses the memory for each of its windows.
#[derive(Debug, Default)]
pub struct RawValues {
    bytes: Vec<u8>,
    used: usize,
}

impl RawValues {
    /// Forgets the values, and keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Room for `bytes` bytes behind the values, and where it begins. [`RawValues::keep`] makes the first of them values.
    pub fn room(&mut self, bytes: usize) -> (usize, &mut [u8]) {
        let end = self.used + bytes;
        // Only growing fills memory with zeros.
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        (self.used, &mut self.bytes[self.used..end])
    }

    /// Keeps the first `bytes` bytes of the latest room.
    pub fn keep(&mut self, bytes: usize) {
        self.used += bytes;
        assert!(self.used <= self.bytes.len(), "no more is kept than there was room for");
    }

    /// Gives back memory that holds no values, if it is more than [`SPARE_BYTES`].
    pub fn trim(&mut self) {
        if self.bytes.len() > self.used + SPARE_BYTES {
            self.bytes.truncate(self.used);
            self.bytes.shrink_to_fit();
        }
    }

    /// The `bytes` bytes from `start` on.
    pub fn get(&self, start: usize, bytes: usize) -> &[u8] {
        &self.bytes[..self.used][start..start + bytes]
    }
}

/// A file of values, as a scan reads it.
pub trait ValueBody: Send + Sync {
    fn id(&self) -> FileId;
    /// Whether scans read values of this file ahead of their users.
    fn is_read_ahead(&self) -> bool;
    /// Reads one value.
    fn read(&self, handle: &Handle) -> Result<Value>;
    /// Reads several values, neighbours together, into `raw`. The offsets ascend.
    fn read_together(&self, handles: &[Handle], reach: Reach, raw: &mut RawValues) -> Together;
    /// The value of `handle` out of its bytes, which [`ValueBody::read_together`] has read: checks and copies it.
    fn take(&self, handle: &Handle, bytes: &[u8]) -> Result<Value>;
}

impl LazyValue {
    /// Reads the value, unless it is pinned already.
    #[inline]
    pub fn get(self) -> Result<Value> {
        match self {
            LazyValue::Pinned(value) => Ok(value),
            LazyValue::InBody(value) => value.body.read(&value.handle),
            LazyValue::Failed(error) => Err(error),
        }
    }

    /// Bytes of the value.
    pub fn bytes(&self) -> u64 {
        match self {
            LazyValue::Pinned(value) => value.len() as u64,
            LazyValue::InBody(value) => value.handle.bytes.into(),
            LazyValue::Failed(_) => 0,
        }
    }
}

/// Walks entries in order: keys ascending, versions of one key from the newest (largest number) to the oldest.
///
/// A fresh cursor is not valid until it was positioned. After a positioning call (`seek*`) move in one direction only: `next`
/// after `seek_to_first` and `seek`, `prev` after `seek_to_last` and `seek_before`.
///
/// Call `key`, `seq`, `kind`, `fetch`, `value`, `pin_value` and `lazy_value` only while `valid`, and `value` and `pin_value` only
/// after `fetch`. After an error of a movement the cursor is not valid until it is positioned again.
pub trait Cursor: Send {
    /// To the first entry of all.
    fn seek_to_first(&mut self) -> Result<()>;
    /// To the last entry of all (the oldest version of the last key).
    fn seek_to_last(&mut self) -> Result<()>;
    /// To the first entry whose key is at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// To the last entry whose key is before `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    fn next(&mut self) -> Result<()>;
    fn prev(&mut self) -> Result<()>;
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
    fn kind(&self) -> EntryKind;
    /// Whether this version is known to be the last one of its key in the direction of the walk. A cursor does not move to find out.
    fn is_last_of_key(&self) -> bool {
        false
    }
    /// As `next`. Returns the key of the next entry, if there is one.
    #[inline]
    fn next_key(&mut self) -> Result<Option<&[u8]>> {
        self.next()?;
        Ok(self.valid().then(|| self.key()))
    }
    /// As `prev`. Returns the key of the entry before, if there is one.
    #[inline]
    fn prev_key(&mut self) -> Result<Option<&[u8]>> {
        self.prev()?;
        Ok(self.valid().then(|| self.key()))
    }
    /// Whether the value of this entry lies beside its key, so that `value` needs no `fetch`.
    fn has_value_beside(&self) -> bool {
        true
    }
    /// Reads the value of this entry, if it lies in another file than its key.
    fn fetch(&mut self) -> Result<()> {
        Ok(())
    }
    /// Where the value of this entry lies, if it lies in a value file.
    fn handle(&self) -> Option<(BodyFile, Handle)> {
        None
    }
    fn value(&self) -> &[u8];
    /// The value, pinned; without a copy if the source can pin it.
    fn pin_value(&self) -> Value;
    /// The value, to be read later: nothing is fetched now.
    fn lazy_value(&self) -> LazyValue {
        LazyValue::Pinned(self.pin_value())
    }
    /// Keeps the block of this entry in the cache, although it may have been read only once: a reader will come to this place again.
    fn keep(&self) {}
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn keep(&self) {
        (**self).keep()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek_before(key)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }

    #[inline]
    fn valid(&self) -> bool {
        (**self).valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        (**self).key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        (**self).seq()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        (**self).kind()
    }

    #[inline]
    fn is_last_of_key(&self) -> bool {
        (**self).is_last_of_key()
    }

    #[inline]
    fn next_key(&mut self) -> Result<Option<&[u8]>> {
        (**self).next_key()
    }

    #[inline]
    fn prev_key(&mut self) -> Result<Option<&[u8]>> {
        (**self).prev_key()
    }

    #[inline]
    fn has_value_beside(&self) -> bool {
        (**self).has_value_beside()
    }

    #[inline]
    fn fetch(&mut self) -> Result<()> {
        (**self).fetch()
    }

    #[inline]
    fn handle(&self) -> Option<(BodyFile, Handle)> {
        (**self).handle()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        (**self).value()
    }

    fn pin_value(&self) -> Value {
        (**self).pin_value()
    }

    fn lazy_value(&self) -> LazyValue {
        (**self).lazy_value()
    }
}
