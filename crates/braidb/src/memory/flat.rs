//! A flat segment: a sorted array of references to records, which lie in arenas.
//!
//! ```text
//!  shared     the bytes that all keys begin with
//!  prefixes   ┌────────┬────────┬────────┬──   of each entry the eight bytes of its key behind the shared ones
//!  records    ┌───┬────┬───┬────┬───┬────┬──   where its record lies
//!               ▼        ▼        ▼
//!  arenas     those of the segments it was made of (*flat*), or one of its own, in key order (*serialized*)
//! ```
//!
//! It holds no object for an entry: a skiplist's nodes, a third of the memory of small entries, are gone. A search halves the
//! prefixes and reads a record only where these are equal, which the shared bytes make rare even for keys that are numbers
//! with leading zeros.

use super::arena::{ALIGN, Arena, Bump};
use super::node::{Record, Ref};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key::prefix_u64;
use crate::base::value::Value;
use crate::visible::{Cursor, EntryKind, Found};
use std::fmt;
use std::sync::Arc;

/// Entries in order; immutable.
pub struct Flat {
    shared: Box<[u8]>,
    prefixes: Box<[u64]>,
    // Read only while `arenas` are held, below.
    records: Box<[Ref<'static, Record>]>,
    arenas: Vec<Arc<Arena>>,
    /// Of the arenas.
    data_bytes: u64,
    /// Of the records.
    live_bytes: u64,
    tombstones: u64,
    oldest: SeqNo,
}

impl Flat {
    /// The newest version of `key` at or below `at`. Its value pins the segment.
    pub fn get(self: &Arc<Self>, key: &[u8], at: SeqNo) -> Option<Found> {
        if at < self.oldest || !self.reaches(key) {
            return None;
        }
        let mut versions =
            self.records[self.lower_bound(key)..].iter().take_while(|record| record.key() == key);
        let record = *versions.find(|record| record.seq() <= at)?;
        let value = Value::pin(Arc::clone(self), |_| record.value());
        Some(Found { seq: record.seq(), kind: record.kind(), value })
    }

    /// Whether `key` lies between the first key and the last: readers pass segments by that hold other ranges.
    fn reaches(&self, key: &[u8]) -> bool {
        self.ends().is_some_and(|(first, last)| first <= key && key <= last)
    }

    /// How many entries come before `key`.
    fn lower_bound(&self, key: &[u8]) -> usize {
        let shared = &*self.shared;
        let rest = match key.strip_prefix(shared) {
            Some(rest) => rest,
            // Then `shared` decides for all of them.
            None if key < shared => return 0,
            None => return self.records.len(),
        };
        let prefix = prefix_u64(rest);
        let start = self.prefixes.partition_point(|&other| other < prefix);
        let equal = self.prefixes[start..].iter().take_while(|&&other| other == prefix);
        // Mostly one entry, or the versions of one key.
        match equal.clone().take(9).count() {
            0 => start,
            few @ 1..9 => {
                start + self.records[start..start + few].partition_point(|record| record.key() < key)
            }
            _ => {
                let end = start + self.prefixes[start..].partition_point(|&other| other == prefix);
                start + self.records[start..end].partition_point(|record| record.key() < key)
            }
        }
    }

    pub fn entries(&self) -> u64 {
        self.records.len() as u64
    }

    pub fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// What the memory budget counts: the arrays, and all of the arenas.
    pub fn bytes(&self) -> u64 {
        let entry_bytes = size_of::<u64>() + size_of::<Ref<'static, Record>>();
        self.data_bytes + (self.records.len() * entry_bytes) as u64
    }

    /// Whether a quarter of the arenas or more is dead.
    pub fn is_sparse(&self) -> bool {
        self.live_bytes.saturating_mul(4) <= self.data_bytes.saturating_mul(3)
    }

    /// The first key and the last.
    pub(super) fn ends(&self) -> Option<(&[u8], &[u8])> {
        Some((self.records.first()?.key(), self.records.last()?.key()))
    }

    pub(super) fn arenas(&self) -> &[Arc<Arena>] {
        &self.arenas
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    pub fn cursor(self: &Arc<Self>) -> FlatCursor {
        FlatCursor { flat: Arc::clone(self), at: self.records.len(), is_backward: false }
    }

    /// The same entries, their records copied to an arena of their own: the *serialized* layout. For the time of the copy there
    /// are two of each record, but not of the arrays.
    pub(super) fn serialized(mut self) -> Flat {
        let (arena, mut bump) = (Arc::new(Arena::default()), Bump::new());
        let room = |record: &Ref<'static, Record>| record.layout().next_multiple_of(ALIGN);
        let data_bytes = self.records.iter().map(room).sum();
        bump.reserve(&arena, data_bytes);
        for record in &mut self.records {
            let at = bump.allocate(&arena, record.layout());
            // SAFETY: a fresh piece of the right size; the copy is used only while the arena is held, below.
            *record = unsafe { Record::write(at, record.entry()) };
        }
        assert_eq!(bump.bytes_in_use(), data_bytes);
        self.arenas = vec![arena];
        (self.data_bytes, self.live_bytes) = (data_bytes as u64, data_bytes as u64);
        self
    }
}

impl fmt::Debug for Flat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flat")
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Takes entries in order and makes a flat segment of them.
pub(super) struct FlatBuilder {
    shared: Box<[u8]>,
    prefixes: Vec<u64>,
    records: Vec<Ref<'static, Record>>,
    live_bytes: u64,
    tombstones: u64,
    oldest: SeqNo,
}

impl FlatBuilder {
    /// For at most `entries` entries, all with keys from `first` to `last`.
    pub fn new(first: &[u8], last: &[u8], entries: usize) -> FlatBuilder {
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        FlatBuilder {
            shared: first[..shared].into(),
            prefixes: Vec::with_capacity(entries),
            records: Vec::with_capacity(entries),
            live_bytes: 0,
            tombstones: 0,
            oldest: SeqNo::MAX,
        }
    }

    pub fn push(&mut self, record: Ref<'static, Record>) {
        let key = record.key();
        debug_assert!(key.starts_with(&self.shared));
        debug_assert!(self.records.last().is_none_or(|last| {
            (last.key(), std::cmp::Reverse(last.seq())) < (key, std::cmp::Reverse(record.seq()))
        }));
        self.prefixes.push(prefix_u64(&key[self.shared.len()..]));
        self.records.push(record);
        self.live_bytes += record.layout().next_multiple_of(ALIGN) as u64;
        self.tombstones += u64::from(record.kind() == EntryKind::Delete);
        self.oldest = self.oldest.min(record.seq());
    }

    /// # Safety
    /// All records lie in `arenas`.
    pub unsafe fn finish(self, arenas: Vec<Arc<Arena>>, data_bytes: u64) -> Flat {
        let FlatBuilder { shared, prefixes, records, live_bytes, tombstones, oldest } = self;
        let (prefixes, records) = (prefixes.into(), records.into());
        Flat { shared, prefixes, records, arenas, data_bytes, live_bytes, tombstones, oldest }
    }
}

/// A position in a flat segment, which it keeps alive.
pub struct FlatCursor {
    flat: Arc<Flat>,
    /// The number of entries when there is none.
    at: usize,
    is_backward: bool,
}

impl FlatCursor {
    /// The entry that the cursor stands on.
    #[inline]
    pub(super) fn record(&self) -> Ref<'static, Record> {
        self.flat.records[self.at]
    }

    fn go_backward(&mut self, behind: usize) {
        self.is_backward = true;
        self.at = behind.checked_sub(1).unwrap_or(self.flat.records.len());
    }
}

impl Cursor for FlatCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        (self.at, self.is_backward) = (0, false);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go_backward(self.flat.records.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (self.at, self.is_backward) = (self.flat.lower_bound(key), false);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go_backward(self.flat.lower_bound(key));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(!self.is_backward && self.valid(), "seek again before turning round");
        self.at += 1;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.is_backward && self.valid(), "seek again before turning round");
        self.go_backward(self.at);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at < self.flat.records.len()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.record().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.record().seq()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.record().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.record().value()
    }

    fn pin_value(&self) -> Value {
        let record = self.record();
        Value::pin(Arc::clone(&self.flat), |_| record.value())
    }
}

impl fmt::Debug for FlatCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlatCursor").field("at", &self.at).finish_non_exhaustive()
    }
}
