//! The survivors of a flushing set: the entries that a reader may still want, as a list. The flush lists them before it writes
//! them.
//!
//! Skiplists are slow to walk: only a node that was read tells where the next one lies. A walk over the list knows where all
//! records lie, and prefetches them.

use super::immutable::Immutable;
use super::node::{Record, Ref};
use super::sorted::{Sorted, SortedCursor};
use crate::base::ids::SeqNo;
use crate::visible::merge::MergeCursor;
use crate::visible::rule::{Fate, RetentionFilter};
use crate::visible::{Cursor, EntryKind};
use std::fmt;
use std::sync::Arc;

/// The entries that a retention filter kept, in order.
pub struct Survivors {
    // Read only while the segments are held.
    records: Vec<Ref<'static, Record>>,
    _segments: Vec<Immutable>,
    /// How many entries the retention filter did not keep.
    pub dropped: u64,
}

impl Survivors {
    /// Lists what `retention` keeps of `parts`, newest first; tombstones stay. Calls `see` with the number, the kind and the
    /// value's length of each entry.
    pub fn of(
        parts: &[Immutable],
        mut retention: RetentionFilter,
        mut see: impl FnMut(SeqNo, EntryKind, usize),
    ) -> Arc<Survivors> {
        let entries: u64 = parts.iter().map(Immutable::entries).sum();
        let mut records = Vec::with_capacity(entries as usize);
        let mut cursor = MergeCursor::new(parts.iter().map(Immutable::cursor).collect());
        cursor.seek_to_first().expect("memory does not fail");
        while cursor.valid() {
            let record = cursor.winner().record();
            if retention.fate(cursor.key(), record.seq(), record.kind(), |_| false) == Fate::Keep {
                see(record.seq(), record.kind(), record.value().len());
                records.push(record);
            }
            cursor.next().expect("memory does not fail");
        }
        let dropped = entries - records.len() as u64;
        Arc::new(Survivors { records, _segments: parts.to_vec(), dropped })
    }

    pub fn cursor(self: &Arc<Survivors>) -> SurvivorsCursor {
        SortedCursor::new(Arc::clone(self))
    }
}

impl fmt::Debug for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survivors").field("entries", &self.records.len()).finish_non_exhaustive()
    }
}

impl Sorted for Survivors {
    const STEPS_AHEAD: usize = 16;

    #[inline]
    fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    fn record(&self, at: usize) -> Ref<'static, Record> {
        self.records[at]
    }

    /// Prefetches no value: jobs mostly leave values where they are.
    #[inline]
    fn prefetch(&self, at: usize) {
        self.records[at].prefetch_key();
    }

    fn lower_bound(&self, key: &[u8]) -> usize {
        self.records.partition_point(|record| record.key() < key)
    }
}

/// A position in the list, which it keeps alive.
pub type SurvivorsCursor = SortedCursor<Survivors>;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Segment;
    use crate::visible::EntryKind::{Delete, Put};
    use crate::visible::rule::DropProof;

    fn list(entries: &[(&str, SeqNo, &str)]) -> Immutable {
        let (segment, mut writer) = Segment::new(1);
        for &(key, seq, value) in entries {
            let kind = if value.is_empty() { Delete } else { Put };
            writer.insert(key.as_bytes(), seq, kind, value.as_bytes());
        }
        Immutable::List(segment)
    }

    fn row(cursor: &SurvivorsCursor) -> (String, SeqNo) {
        assert_eq!(&cursor.pin_value()[..], cursor.value());
        (String::from_utf8(cursor.key().to_vec()).unwrap(), cursor.seq())
    }

    #[test]
    fn what_the_retention_filter_keeps_is_seen_once_and_walked_both_ways() {
        let parts = [
            list(&[("c", 9, "newest"), ("a", 8, "")]),
            list(&[("a", 1, "hidden"), ("b", 2, "old"), ("b", 5, "new"), ("c", 3, "for the reader")]),
        ];
        let mut seen = Vec::new();
        let retention = RetentionFilter::new(DropProof::new(vec![4], 10));
        let survivors = Survivors::of(&parts, retention, |seq, kind, bytes| seen.push((seq, kind, bytes)));
        drop(parts);
        let expected = [(8, Delete, 0), (1, Put, 6), (5, Put, 3), (2, Put, 3), (9, Put, 6), (3, Put, 14)];
        assert_eq!((seen, survivors.dropped), (expected.to_vec(), 0));

        let parts = [list(&[("b", 9, "new")]), list(&[("a", 1, "only"), ("b", 2, "old"), ("d", 3, "only")])];
        let survivors = Survivors::of(&parts, RetentionFilter::new(DropProof::new(vec![], 10)), |_, _, _| {});
        drop(parts);
        assert_eq!(survivors.dropped, 1);
        let rows = [("a".to_owned(), 1), ("b".to_owned(), 9), ("d".to_owned(), 3)];
        let mut cursor = survivors.cursor();
        assert!(!cursor.valid());
        cursor.seek_to_first().unwrap();
        for expected in &rows {
            assert_eq!(&row(&cursor), expected);
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for expected in rows.iter().rev() {
            assert_eq!(&row(&cursor), expected);
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek(b"c").unwrap();
        assert_eq!(row(&cursor), rows[2]);
        cursor.seek_before(b"b").unwrap();
        assert_eq!(row(&cursor), rows[0]);
        cursor.seek_before(b"a").unwrap();
        assert!(!cursor.valid());
    }

    #[test]
    fn nothing_survives_of_nothing() {
        let survivors =
            Survivors::of(&[list(&[])], RetentionFilter::new(DropProof::new(vec![], 1)), |_, _, _| panic!());
        let mut cursor = survivors.cursor();
        cursor.seek_to_first().unwrap();
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        assert!(!cursor.valid());
    }
}
