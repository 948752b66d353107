//! A segment: a skiplist with its counts, and the handle of its one writer.

use super::arena::Arena;
use super::cursor::SegmentCursor;
use super::filter::LiveFilter;
use super::node::Entry;
use super::skiplist::{Inserter, SkipList};
use crate::base::ids::{MAX_SEQ, SeqNo};
use crate::base::sync::{AtomicU64, Ordering};
use crate::base::value::Value;
use crate::base::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::visible::{EntryKind, Found};
use std::fmt;
use std::sync::Arc;

/// Versions in memory, in order. Any number of threads may read while one writer inserts.
pub struct Segment {
    list: SkipList,
    counts: Counts,
}

/// Only the writer stores these counts, `entries` last and with `Release`. So a reader that loads `entries` first finds the
/// other counts at least as new.
struct Counts {
    bytes: AtomicU64,
    version_bytes: AtomicU64,
    min_seq: AtomicU64,
    max_seq: AtomicU64,
    entries: AtomicU64,
}

impl Segment {
    /// An empty segment and its writer. The seed decides the shape of the skiplist, nothing else.
    pub fn new(seed: u64) -> (Arc<Segment>, SegmentWriter) {
        Segment::with_list(seed, SkipList::new(None))
    }

    /// An empty segment with a Bloom filter, to be one of many segments. The filter is made for `full_bytes`, though the
    /// segment may grow further.
    pub fn with_filter(seed: u64, full_bytes: u64) -> (Arc<Segment>, SegmentWriter) {
        Segment::with_list(seed, SkipList::new(Some(LiveFilter::for_list_of(full_bytes))))
    }

    fn with_list(seed: u64, list: SkipList) -> (Arc<Segment>, SegmentWriter) {
        let segment = Arc::new(Segment {
            list,
            counts: Counts {
                bytes: AtomicU64::new(0),
                version_bytes: AtomicU64::new(0),
                min_seq: AtomicU64::new(u64::MAX),
                max_seq: AtomicU64::new(0),
                entries: AtomicU64::new(0),
            },
        });
        let writer = SegmentWriter { segment: Arc::clone(&segment), inserter: Inserter::new(seed) };
        (segment, writer)
    }

    /// The newest version of `key`, whose hash is `hash`, at or below `at`. Its value pins the segment.
    pub fn get(self: &Arc<Self>, key: &[u8], hash: u64, at: SeqNo) -> Option<Found> {
        let version = self.list.find(key, hash)?.version(at)?;
        // SAFETY: the value is used only through the pin, which keeps the segment alive.
        let record = unsafe { version.detached() }.record();
        let value = Value::pin(Arc::clone(self), |_| record.value());
        Some(Found { seq: record.seq(), kind: record.kind(), value })
    }

    /// What the memory budget counts: bytes in use of the arenas, plus the bytes of the filter; 0 as long as there is no
    /// entry.
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// Bytes in use of the arena of versions, which stays when the segment is flattened.
    pub(super) fn version_bytes(&self) -> u64 {
        self.counts.version_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn versions(&self) -> &Arc<Arena> {
        self.list.versions()
    }

    /// How many versions there are, tombstones included.
    pub fn entries(&self) -> u64 {
        self.counts.entries.load(Ordering::Acquire)
    }

    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The smallest and the largest sequence number in the segment.
    pub fn seq_range(&self) -> Option<(SeqNo, SeqNo)> {
        if self.is_empty() {
            return None;
        }
        let max = self.counts.max_seq.load(Ordering::Relaxed);
        Some((self.counts.min_seq.load(Ordering::Relaxed), max))
    }

    pub fn cursor(self: &Arc<Self>) -> SegmentCursor {
        SegmentCursor::new(Arc::clone(self))
    }

    pub(super) fn list(&self) -> &SkipList {
        &self.list
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .field("seq_range", &self.seq_range())
            .finish_non_exhaustive()
    }
}

/// The right to insert into one segment. Each segment has one writer; dropping the writer makes the segment immutable.
pub struct SegmentWriter {
    segment: Arc<Segment>,
    inserter: Inserter,
}

impl SegmentWriter {
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Adds a version of `key`. Sequence numbers may come in any order, but each comes only once for a key.
    pub fn insert(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        assert!(key.len() <= MAX_KEY_BYTES && value.len() <= MAX_VALUE_BYTES && seq <= MAX_SEQ);
        assert!(kind == EntryKind::Put || value.is_empty(), "a tombstone has no value");
        // SAFETY: `Segment::new` made the inserter for this list, and this writer is the only one that has it.
        unsafe { self.segment.list.insert(&mut self.inserter, Entry { key, seq, kind, value }) };
        self.count(seq);
    }

    fn count(&self, seq: SeqNo) {
        let counts = &self.segment.counts;
        // Plain loads and stores, no read-modify-write, because there is only one writer.
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let filter_bytes = self.segment.list.filter().map_or(0, LiveFilter::bytes);
        counts.bytes.store((self.inserter.bytes_in_use() + filter_bytes) as u64, Ordering::Relaxed);
        counts.version_bytes.store(self.inserter.version_bytes() as u64, Ordering::Relaxed);
        counts.min_seq.store(load(&counts.min_seq).min(seq), Ordering::Relaxed);
        counts.max_seq.store(load(&counts.max_seq).max(seq), Ordering::Relaxed);
        counts.entries.store(load(&counts.entries) + 1, Ordering::Release);
    }
}

impl fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentWriter").field("segment", &self.segment).finish_non_exhaustive()
    }
}
