//! A flat segment: a sorted array of references to records, which lie in arenas.
//!
//! ```text
//!  filter     of the keys
//!  shared     the bytes that all keys begin with
//!  roots      ┌────────┬──                        every 32nd fence
//!  fences     ┌────────┬──                        the prefix of every 32nd entry
//!  entries    ┌────────┬───┬────────┬───┬──       the eight bytes of its key behind the shared ones, where its record lies
//!                        ▼            ▼
//!  arenas     those of the segments it was made of (*flat*), or one of its own, in key order (*serialized*)
//! ```
//!
//! A flat segment holds no object for an entry: a skiplist's nodes, a third of the memory of small entries, are gone.
//!
//! A search bisects the roots, which the processor's caches keep. Then it counts how many of the fences between two roots, and
//! of the entries between two fences, come before the key. Counting loads a few cache lines at once, where bisecting would wait
//! for one after the other. The search reads a record only where prefixes are equal. Prefixes leave the shared bytes out, so
//! this is rare even for keys that are numbers with leading zeros. Most segments do not hold the key of a get: the filter
//! rejects it then, and nothing is searched.

use super::arena::{ALIGN, Arena, Bump};
use super::logs_by_seq::LiveIntervals;
use super::node::{Record, Ref};
use super::sorted::{Sorted, SortedCursor};
use crate::base::ids::SeqNo;
use crate::base::key::{self, prefix_u64};
use crate::base::value::Value;
use crate::table::Filter;
use crate::visible::Found;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Filter bits for each key. With ten bits the filter lets one of a hundred absent keys pass.
const FILTER_BITS_PER_KEY: u32 = 10;

/// Entries from one fence to the next, and fences from one root to the next: 32. The 32 entries fill eight cache lines.
const STRIDE: usize = 32;

/// The range of an array of `len` items in which, or right behind which, the first item at or after a prefix stands. `before`
/// counts those of every 32nd item that come before the prefix.
fn part_behind(before: usize, len: usize) -> Range<usize> {
    before.saturating_sub(1) * STRIDE..len.min(before * STRIDE)
}

/// The beginning of a key, and its record.
#[derive(Clone, Copy)]
struct Entry {
    prefix: u64,
    // Read only while the arenas are held.
    record: Ref<'static, Record>,
}

/// Entries in order; immutable. A segment starts on its own cache line. The counts of its `Arc` stand in front of it, and change
/// with every value that a reader pins.
#[repr(align(64))]
pub struct Flat {
    filter: Filter,
    shared: Box<[u8]>,
    roots: Box<[u64]>,
    fences: Box<[u64]>,
    entries: Box<[Entry]>,
    /// How many writes of its key each entry counts; `None` if each counts 1. Each write is counted at one entry: the write of a
    /// dropped version at a version that stayed.
    updates: Option<Box<[u16]>>,
    arenas: Vec<Arc<Arena>>,
    /// Bytes of the arenas.
    data_bytes: u64,
    /// Bytes of the records.
    live_bytes: u64,
    oldest: SeqNo,
    /// Live bytes by log, counted at the first request. Logs that begin later hold none of these records.
    live: OnceLock<LiveIntervals>,
}

impl Flat {
    /// The newest version of `key`, whose hash is `hash`, at or below `at`. Its value pins the segment.
    pub fn get(self: &Arc<Self>, key: &[u8], hash: u64, at: SeqNo) -> Option<Found> {
        if at < self.oldest || !self.filter.may_contain(hash) {
            return None;
        }
        let mut versions = self.entries[self.before(key)..]
            .iter()
            .map(|entry| entry.record)
            .take_while(|record| record.key() == key);
        let record = versions.find(|record| record.seq() <= at)?;
        let value = Value::pin(Arc::clone(self), |_| record.value());
        Some(Found { seq: record.seq(), kind: record.kind(), value })
    }

    /// How many entries come before `key`.
    fn before(&self, key: &[u8]) -> usize {
        let shared = &*self.shared;
        let rest = match key.strip_prefix(shared) {
            Some(rest) => rest,
            // All keys begin with `shared`, so `shared` decides for all of them.
            None if key < shared => return 0,
            None => return self.entries.len(),
        };
        let prefix = prefix_u64(rest);
        let root = self.roots.partition_point(|&other| other < prefix);
        let fences = part_behind(root, self.fences.len());
        let fence = fences.start + self.fences[fences].iter().filter(|&&other| other < prefix).count();
        let entries = part_behind(fence, self.entries.len());
        let start =
            entries.start + self.entries[entries].iter().filter(|other| other.prefix < prefix).count();
        let equal = self.entries[start..].iter().take_while(|other| other.prefix == prefix);
        // Mostly one entry, or the versions of one key: a linear count is fast.
        match equal.clone().take(9).count() {
            0 => start,
            few @ 1..9 => {
                start + self.entries[start..start + few].partition_point(|other| other.record.key() < key)
            }
            _ => {
                let end = start + self.entries[start..].partition_point(|other| other.prefix == prefix);
                start + self.entries[start..end].partition_point(|other| other.record.key() < key)
            }
        }
    }

    pub fn entries(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Bytes that the memory budget counts: the filter, the arrays, and all of the arenas.
    pub fn bytes(&self) -> u64 {
        let array_bytes = size_of_val(&*self.roots)
            + size_of_val(&*self.fences)
            + size_of_val(&*self.entries)
            + self.updates.as_deref().map_or(0, size_of_val);
        self.data_bytes + (self.filter.memory_bytes() + array_bytes) as u64
    }

    /// Whether the records are copies, in an arena of their own.
    pub fn is_serialized(&self) -> bool {
        self.arenas.len() == 1 && self.live_bytes == self.data_bytes
    }

    /// Whether a quarter of the arenas or more is dead.
    pub fn is_sparse(&self) -> bool {
        self.live_bytes.saturating_mul(4) <= self.data_bytes.saturating_mul(3)
    }

    /// The first key and the last.
    pub(super) fn ends(&self) -> Option<(&[u8], &[u8])> {
        Some((self.entries.first()?.record.key(), self.entries.last()?.record.key()))
    }

    pub(super) fn arenas(&self) -> &[Arc<Arena>] {
        &self.arenas
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The newest version of each key.
    pub(super) fn newest(&self) -> impl Iterator<Item = Ref<'static, Record>> {
        let record = |at: usize| self.entries[at].record;
        let is_newest = move |at: usize| at == 0 || record(at - 1).key() != record(at).key();
        (0..self.entries.len()).filter(move |&at| is_newest(at)).map(record)
    }

    /// The result of `count`, which is called once.
    pub(super) fn live(&self, count: impl FnOnce() -> LiveIntervals) -> &LiveIntervals {
        self.live.get_or_init(count)
    }

    pub fn cursor(self: &Arc<Self>) -> FlatCursor {
        SortedCursor::new(Arc::clone(self))
    }

    /// Copies the records to an arena of their own: the *serialized* layout. During the copy there are two of each record, but
    /// not of the arrays.
    pub(super) fn serialized(mut self) -> Flat {
        let (arena, mut bump) = (Arc::new(Arena::default()), Bump::new());
        let room = |entry: &Entry| entry.record.layout().next_multiple_of(ALIGN);
        let data_bytes = self.entries.iter().map(room).sum();
        bump.reserve(&arena, data_bytes);
        for Entry { record, .. } in &mut self.entries {
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
    entries: Vec<Entry>,
    /// Hashes of the different keys.
    hashes: Vec<u64>,
    updates: Vec<u16>,
    live_bytes: u64,
    oldest: SeqNo,
}

impl FlatBuilder {
    /// A builder for at most `entries` entries, all with keys from `first` to `last`.
    pub fn new(first: &[u8], last: &[u8], entries: usize) -> FlatBuilder {
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        FlatBuilder {
            shared: first[..shared].into(),
            entries: Vec::with_capacity(entries),
            hashes: Vec::with_capacity(entries),
            updates: Vec::with_capacity(entries),
            live_bytes: 0,
            oldest: SeqNo::MAX,
        }
    }

    /// Adds an entry. `updates` says how many writes of its key the entry counts; each write is counted at one entry.
    pub fn push(&mut self, record: Ref<'static, Record>, updates: u16) {
        let key = record.key();
        debug_assert!(key.starts_with(&self.shared));
        debug_assert!(self.entries.last().is_none_or(|&Entry { record: last, .. }| {
            (last.key(), std::cmp::Reverse(last.seq())) < (key, std::cmp::Reverse(record.seq()))
        }));
        self.entries.push(Entry { prefix: prefix_u64(&key[self.shared.len()..]), record });
        self.updates.push(updates);
        let hash = key::hash(key);
        // Versions of one key come one after the other.
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
        self.live_bytes += record.layout().next_multiple_of(ALIGN) as u64;
        self.oldest = self.oldest.min(record.seq());
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the writes that a dropped version counted to the last entry, behind which the version came.
    pub fn count_dropped(&mut self, updates: u16) {
        if let Some(count) = self.updates.last_mut() {
            *count = count.saturating_add(updates);
        }
    }

    /// # Safety
    /// All records lie in `arenas`.
    pub unsafe fn finish(self, arenas: Vec<Arc<Arena>>, data_bytes: u64) -> Flat {
        let FlatBuilder { shared, entries, hashes, updates, live_bytes, oldest } = self;
        let filter = Filter::build(&hashes, FILTER_BITS_PER_KEY);
        let fences: Box<[u64]> = entries.iter().step_by(STRIDE).map(|entry| entry.prefix).collect();
        let roots = fences.iter().copied().step_by(STRIDE).collect();
        let entries = entries.into();
        let updates = updates.iter().any(|&count| count != 1).then(|| updates.into());
        let live = OnceLock::new();
        Flat { filter, shared, roots, fences, entries, updates, arenas, data_bytes, live_bytes, oldest, live }
    }
}

impl Sorted for Flat {
    const STEPS_AHEAD: usize = 4;

    #[inline]
    fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn record(&self, at: usize) -> Ref<'static, Record> {
        self.entries[at].record
    }

    #[inline]
    fn prefetch(&self, at: usize) {
        self.entries[at].record.prefetch_entry();
    }

    fn lower_bound(&self, key: &[u8]) -> usize {
        self.before(key)
    }
}

/// A position in a flat segment, which it keeps alive.
pub type FlatCursor = SortedCursor<Flat>;

impl FlatCursor {
    /// How many writes of its key the entry counts; each write is counted at one entry.
    #[inline]
    pub(super) fn updates(&self) -> u16 {
        self.sorted().updates.as_ref().map_or(1, |updates| updates[self.at()])
    }
}
