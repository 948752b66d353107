//! Telling hot keys from cold ones at a flush: the most often written keys stay in memory.
//!
//! A flush walks the flushing set twice. The first walk counts how often each key was written ([`count_updates`]). From the
//! counts alone a policy decides at which count a key is hot. The second walk ([`separate`]) makes two segments of the set:
//!
//! ```text
//!  flushing set ──► hot    the newest version of each hot key, tombstones too; copied, so that the old arenas can be freed
//!              └──► cold   all other versions that a reader may still need; the flush writes them to a table
//! ```
//!
//! All versions of a hot key that go to the table are older than the version that stays. So for each key numbers go on falling
//! from memory to the table (rule 7). A reader that holds a snapshot finds its version in the table.

use super::flat::{Flat, FlatBuilder};
use super::immutable::{Immutable, arenas_of, ends_of};
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::visible::Cursor;
use crate::visible::merge::MergeCursor;
use crate::visible::rule::{Fate, RetentionFilter};
use std::collections::BTreeMap;
use std::sync::Arc;

/// About how many bytes a flat segment holds for an entry in addition to its record.
const ENTRY_BYTES: u64 = 18;

/// Keys that were written equally often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub keys: u64,
    /// Bytes that the newest versions of the keys take in a flat segment.
    pub bytes: u64,
}

/// How often the keys of a flushing set were written.
#[derive(Debug, Default)]
pub struct Updates {
    /// The count of each key, in key order.
    counts: Vec<u16>,
    by_count: BTreeMap<u16, Written>,
    /// Bytes of keys that the previous flush kept and that were not written since.
    rested_bytes: u64,
}

impl Updates {
    /// The keys by how often they were written.
    pub fn by_count(&self) -> &BTreeMap<u16, Written> {
        &self.by_count
    }

    /// Bytes of keys that the previous flush kept and that were not written since.
    pub fn rested_bytes(&self) -> u64 {
        self.rested_bytes
    }

    /// Bytes that the newest versions of all keys take in a flat segment.
    pub fn live_bytes(&self) -> u64 {
        self.by_count.values().map(|written| written.bytes).sum()
    }
}

/// What [`separate`] made of a flushing set.
#[derive(Debug)]
pub struct Separated {
    pub hot: Arc<Flat>,
    /// `None` if all versions that were not dropped are hot.
    pub cold: Option<Arc<Flat>>,
    /// Number of versions that no reader can see any more.
    pub dropped: u64,
}

fn filled(parts: &[Immutable]) -> Vec<&Immutable> {
    parts.iter().filter(|part| part.entries() > 0).collect()
}

/// Counts how often the keys of `parts`, newest first, were written. A key that the previous flush kept starts with half of its
/// earlier count. The previous flush took all writes up to `kept_at`, so a key without a newer version was not written since.
pub fn count_updates(parts: &[Immutable], kept_at: SeqNo) -> Updates {
    let mut cursor = MergeCursor::new(filled(parts).iter().map(|part| part.cursor()).collect());
    let mut updates = Updates::default();
    cursor.seek_to_first().expect("memory does not fail");
    while cursor.valid() {
        let newest = cursor.winner().record();
        let mut count = 0u16;
        while cursor.valid() && cursor.winner().record().key() == newest.key() {
            count = count.saturating_add(cursor.winner().updates());
            cursor.next().expect("memory does not fail");
        }
        updates.counts.push(count);
        let written = updates.by_count.entry(count).or_default();
        written.keys += 1;
        let bytes = newest.layout() as u64 + ENTRY_BYTES;
        written.bytes += bytes;
        if newest.seq() <= kept_at {
            updates.rested_bytes += bytes;
        }
    }
    updates
}

/// Separates the hot keys: those that were written `hot_from` times or more. There is at least one. Their counts are halved.
pub fn separate(
    parts: &[Immutable],
    updates: &Updates,
    hot_from: u16,
    mut retention: RetentionFilter,
) -> Separated {
    let parts = filled(parts);
    let (first, last) = ends_of(&parts).expect("a flushing set holds something");
    let is_hot = |count: u16| count >= hot_from;
    let hot_keys = updates.counts.iter().filter(|&&count| is_hot(count)).count();
    let entries: u64 = parts.iter().map(|part| part.entries()).sum();
    let mut hot = FlatBuilder::new(first, last, hot_keys);
    let mut cold = FlatBuilder::new(first, last, entries as usize - hot_keys);
    let (mut counts, mut count, mut dropped) = (updates.counts.iter(), 0, 0);
    let mut last_key = None;
    let mut cursor = MergeCursor::new(parts.iter().map(|part| part.cursor()).collect());
    cursor.seek_to_first().expect("memory does not fail");
    let loses_versions = mutant!("hot_versions_lost_under_snapshot");
    while cursor.valid() {
        let record = cursor.winner().record();
        let key = record.key();
        let is_newest = last_key != Some(key);
        if is_newest {
            count = *counts.next().expect("each key was counted");
            last_key = Some(key);
        }
        let fate = retention.fate(key, record.seq(), record.kind(), |_| false);
        let is_lost = loses_versions && is_hot(count) && !is_newest;
        if is_newest && is_hot(count) {
            // The count is halved. So a key that is no longer written becomes cold in a few flushes, and a key that was written
            // less often by chance stays hot.
            hot.push(record, count / 2);
        } else if fate == Fate::Keep && !is_lost {
            cold.push(record, 1);
        } else {
            dropped += 1;
        }
        cursor.next().expect("memory does not fail");
    }
    let finish = |builder: FlatBuilder| {
        let (arenas, data_bytes) = arenas_of(&parts);
        // SAFETY: the cursors gave records of the parts, whose arenas these are.
        unsafe { builder.finish(arenas, data_bytes) }
    };
    let cold = (!cold.is_empty()).then(|| Arc::new(finish(cold)));
    Separated { hot: Arc::new(finish(hot).serialized()), cold, dropped }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::{Records, Segment, merge};
    use crate::visible::EntryKind::{self, Delete, Put};
    use crate::visible::rule::DropProof;

    fn list(entries: &[(&str, u64, EntryKind)]) -> Immutable {
        let (segment, mut writer) = Segment::new(1);
        for &(key, seq, kind) in entries {
            writer.insert(key.as_bytes(), seq, kind, if kind == Put { b"v" } else { b"" });
        }
        Immutable::List(segment)
    }

    fn retention(snapshots: &[u64]) -> RetentionFilter {
        RetentionFilter::new(DropProof::new(snapshots.to_vec(), u64::MAX))
    }

    fn rows(part: &Immutable) -> Vec<(String, u64, EntryKind)> {
        let mut cursor = part.cursor();
        cursor.seek_to_first().unwrap();
        let mut rows = Vec::new();
        while cursor.valid() {
            rows.push((String::from_utf8(cursor.key().to_vec()).unwrap(), cursor.seq(), cursor.kind()));
            cursor.next().unwrap();
        }
        rows
    }

    /// `b` was written five times, `d` three times and deleted in the end, the other keys once.
    fn parts() -> Vec<Immutable> {
        let old = list(&[("a", 1, Put), ("b", 2, Put), ("b", 3, Put), ("d", 4, Put), ("e", 5, Put)]);
        let new = list(&[("b", 6, Put), ("b", 7, Put), ("c", 8, Put), ("d", 9, Put), ("b", 10, Put)]);
        vec![list(&[("d", 11, Delete)]), new, old]
    }

    #[test]
    fn updates_are_counted_through_merges() {
        let counts = |parts: &[Immutable]| count_updates(parts, 0).counts;
        assert_eq!(counts(&parts()), [1, 5, 1, 3, 1]);
        for records in [Records::Stay, Records::Copied] {
            for dropped in [false, true] {
                let parts = parts();
                let merged = merge(&parts[1..], dropped.then(|| retention(&[])), records, || true).unwrap();
                let parts = [parts[0].clone(), Immutable::Flat(merged.flat)];
                assert_eq!(counts(&parts), [1, 5, 1, 3, 1], "{records:?}, {dropped}");
                let merged = merge(&parts, Some(retention(&[3])), records, || true).unwrap();
                assert_eq!(counts(&[Immutable::Flat(merged.flat)]), [1, 5, 1, 3, 1]);
            }
        }
        let updates = count_updates(&parts(), 0);
        let keys: Vec<_> = updates.by_count().iter().map(|(&count, written)| (count, written.keys)).collect();
        assert_eq!(keys, [(1, 3), (3, 1), (5, 1)]);
    }

    #[test]
    fn hot_keys_stay_and_what_snapshots_see_goes() {
        let parts = parts();
        let updates = count_updates(&parts, 0);
        let row = |key: &str, seq, kind| (key.to_owned(), seq, kind);
        let separated = separate(&parts, &updates, 3, retention(&[]));
        assert_eq!(rows(&Immutable::Flat(separated.hot.clone())), [row("b", 10, Put), row("d", 11, Delete)]);
        let cold = Immutable::Flat(separated.cold.unwrap());
        assert_eq!(rows(&cold), [row("a", 1, Put), row("c", 8, Put), row("e", 5, Put)]);
        assert_eq!(separated.dropped, 6);
        assert!(separated.hot.is_serialized(), "the old arenas can go");

        let separated = separate(&parts, &updates, 5, retention(&[6, 9]));
        assert_eq!(rows(&Immutable::Flat(separated.hot)), [row("b", 10, Put)]);
        let cold = rows(&Immutable::Flat(separated.cold.unwrap()));
        assert_eq!(cold.iter().map(|row| row.1).collect::<Vec<_>>(), [1, 7, 6, 8, 11, 9, 4, 5]);
    }

    #[test]
    fn hotness_fades() {
        let separated = separate(&parts(), &count_updates(&parts(), 0), 1, retention(&[]));
        assert!(separated.cold.is_none());
        let kept = Immutable::Flat(separated.hot);
        assert_eq!(count_updates(std::slice::from_ref(&kept), 11).counts, [0, 2, 0, 1, 0]);
        let again = [list(&[("b", 12, Put)]), kept];
        let updates = count_updates(&again, 11);
        assert_eq!(updates.counts, [0, 3, 0, 1, 0]);
        let of_b = updates.by_count()[&3].bytes;
        assert_eq!(updates.rested_bytes() + of_b, updates.live_bytes(), "`b` was written again");
    }
}
