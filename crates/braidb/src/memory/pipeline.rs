//! The memory component as a value: the active segment, the pipeline behind it, and what a running flush has taken.
//!
//! A view holds one memory component and reads it without a lock. Every change builds another one, and the owner of the views
//! swaps it in:
//!
//! ```text
//!  roll         a ─► pipeline             the active segment is full
//!  replaced     parts of the pipeline ─► one segment with the same newest versions
//!  take         a + pipeline ─► flushing  a flush takes all of memory
//!  flushed      flushing ─► (a table)      hot keys stay, as the oldest segment of the pipeline
//! ```
//!
//! Memory compaction runs at the same time as all other changes. It gives up if its input is no longer in the pipeline, because
//! a flush took the input. To decide this, it compares its input with the segments of the pipeline. A roll takes nothing away,
//! so it does not disturb a memory compaction.

use super::immutable::Immutable;
use super::segment::Segment;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::visible::Found;
use std::sync::Arc;

/// The segments of one column family. For each key, sequence numbers fall from the active segment through the pipeline to the
/// flushing set, and in each from the front on. So a lookup stops at its first hit (rule 7).
#[derive(Clone, Debug)]
pub struct Memory {
    active: Arc<Segment>,
    /// Newest first.
    pipeline: Arc<[Immutable]>,
    flushing: Arc<[Immutable]>,
    /// Whether all of the pipeline is to be compacted at once, and not flushed.
    compacts_full: bool,
}

impl Memory {
    pub fn new(active: Arc<Segment>) -> Memory {
        Memory { active, pipeline: Arc::new([]), flushing: Arc::new([]), compacts_full: false }
    }

    pub fn active(&self) -> &Arc<Segment> {
        &self.active
    }

    /// The segments that were active before and that no flush has taken.
    pub fn pipeline(&self) -> &[Immutable] {
        &self.pipeline
    }

    /// All immutable segments.
    pub fn immutable(&self) -> impl Iterator<Item = &Immutable> {
        self.pipeline.iter().chain(&*self.flushing)
    }

    /// An in-memory flush: the active segment becomes the newest segment of the pipeline.
    pub fn roll(&self, new_active: Arc<Segment>) -> Memory {
        let mut pipeline: Vec<Immutable> = Vec::with_capacity(self.pipeline.len() + 1);
        pipeline.push(Immutable::List(Arc::clone(&self.active)));
        pipeline.extend(self.pipeline.iter().cloned());
        if mutant!("rolled_behind_older")
            && pipeline.len() > 2
            && !pipeline[1..3].iter().any(Immutable::is_list)
        {
            pipeline.swap(1, 2);
        }
        let pipeline = pipeline.into();
        let (flushing, compacts_full) = (Arc::clone(&self.flushing), self.compacts_full);
        Memory { active: new_active, pipeline, flushing, compacts_full }
    }

    /// Whether all of the pipeline is to be compacted at once.
    pub fn compacts_full(&self) -> bool {
        self.compacts_full
    }

    /// Sets whether memory is full, mostly of superseded versions, so that memory compaction is to make one segment of the
    /// pipeline.
    pub fn with_full_compaction(self, compacts_full: bool) -> Memory {
        Memory { compacts_full, ..self }
    }

    /// A flush takes all of memory; only one flush at a time does.
    pub fn take(&self, new_active: Arc<Segment>) -> Memory {
        assert!(self.flushing.is_empty(), "a family has one flushing set at a time");
        let Memory { pipeline, .. } = self.roll(new_active.clone());
        Memory { active: new_active, pipeline: Arc::new([]), flushing: pipeline, compacts_full: false }
    }

    /// What [`Memory::take`] took.
    pub fn flushing(&self) -> &Arc<[Immutable]> {
        &self.flushing
    }

    /// The memory after a flush: the flushing set is in a table, except for the `kept` entries. These become the oldest segment
    /// of the pipeline, because they are older than all entries that came since.
    pub fn flushed(&self, kept: Option<Immutable>) -> Memory {
        let flushed = Memory { flushing: Arc::new([]), ..self.clone() };
        kept.map_or(flushed.clone(), |kept| flushed.with_oldest(kept))
    }

    /// This memory with one more segment, as the oldest of the pipeline.
    pub fn with_oldest(&self, oldest: Immutable) -> Memory {
        let pipeline = self.pipeline.iter().cloned().chain([oldest]).collect();
        Memory { pipeline, ..self.clone() }
    }

    /// Puts `new` in the place of `old`, neighbours in the pipeline; `None` if `old` is no longer there.
    pub fn replaced(&self, old: &[Immutable], new: Immutable) -> Option<Memory> {
        let is_old = |window: &[Immutable]| window.iter().zip(old).all(|(a, b)| a.is(b));
        let (at, gone) = match self.pipeline.windows(old.len()).position(is_old) {
            Some(at) => (at, old.len()),
            None if mutant!("replaced_after_a_flush_took_it") => (self.pipeline.len(), 0),
            None => return None,
        };
        let behind = self.pipeline[at + gone..].iter();
        let pipeline = self.pipeline[..at].iter().chain([&new]).chain(behind).cloned().collect();
        Some(Memory { pipeline, ..self.clone() })
    }

    /// The newest version of `key`, whose hash is `hash`, at or below `at`.
    pub fn get(&self, key: &[u8], hash: u64, at: SeqNo) -> Option<Found> {
        let get_immutable = || self.immutable().find_map(|part| part.get(key, hash, at));
        if mutant!("immutable_before_active") {
            return get_immutable().or_else(|| self.active.get(key, hash, at));
        }
        self.active.get(key, hash, at).or_else(get_immutable)
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.active.bytes() + self.immutable().map(Immutable::bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::hash;
    use crate::memory::SegmentWriter;
    use crate::memory::immutable::{Records, merge};
    use crate::visible::EntryKind;

    fn segment(versions: &[(&[u8], SeqNo)]) -> SegmentWriter {
        let (_, mut writer) = Segment::new(1);
        for &(key, seq) in versions {
            writer.insert(key, seq, EntryKind::Put, &seq.to_le_bytes());
        }
        writer
    }

    fn three_segments() -> Memory {
        let memory = Memory::new(segment(&[(b"a", 1), (b"b", 2), (b"c", 3)]).segment().clone());
        let memory = memory.roll(segment(&[(b"a", 4), (b"b", 5)]).segment().clone());
        memory.roll(segment(&[(b"a", 6)]).segment().clone())
    }

    fn seqs(memory: &Memory, at: SeqNo) -> [Option<SeqNo>; 4] {
        [b"a", b"b", b"c", b"d"].map(|key| memory.get(key, hash(key), at).map(|found| found.seq))
    }

    fn merged(memory: &Memory, parts: std::ops::Range<usize>) -> Option<Memory> {
        let old = &memory.pipeline[parts];
        memory.replaced(old, Immutable::Flat(merge(old, None, Records::Stay, || true).unwrap().flat))
    }

    #[test]
    fn newer_segments_hide_older_ones() {
        let memory = three_segments();
        assert_eq!(seqs(&memory, 9), [Some(6), Some(5), Some(3), None]);
        assert_eq!([5, 3, 0].map(|at| seqs(&memory, at)[0]), [Some(4), Some(1), None]);
    }

    #[test]
    fn a_memory_compaction_changes_no_answer_and_leaves_the_old_value_alone() {
        let memory = three_segments();
        for parts in [0..1, 1..2, 0..2] {
            let replaced = merged(&memory, parts.clone()).unwrap();
            assert_eq!(replaced.pipeline.len(), 3 - parts.len());
            for at in 0..9 {
                assert_eq!(seqs(&replaced, at), seqs(&memory, at), "at {at}");
            }
        }
        assert!(memory.pipeline.iter().all(Immutable::is_list));
    }

    #[test]
    fn a_flush_takes_all_and_beats_memory_compaction() {
        let memory = three_segments();
        let taken = memory.take(segment(&[(b"b", 7)]).segment().clone());
        assert_eq!((taken.pipeline.len(), taken.flushing.len()), (0, 3));
        assert_eq!(seqs(&taken, 9), [Some(6), Some(7), Some(3), None]);
        let old = &memory.pipeline[..];
        let flat = Immutable::Flat(merge(old, None, Records::Stay, || true).unwrap().flat);
        assert!(taken.replaced(old, flat.clone()).is_none());
        // A roll does not disturb a memory compaction.
        let rolled = memory.roll(segment(&[]).segment().clone());
        assert_eq!(rolled.replaced(old, flat).unwrap().pipeline.len(), 2);
        let flushed = taken.flushed(None);
        assert_eq!(seqs(&flushed, 9), [None, Some(7), None, None]);
        assert_eq!(flushed.bytes(), flushed.active.bytes());
    }

    #[test]
    #[should_panic(expected = "one flushing set")]
    fn two_flushes_of_a_family_do_not_meet() {
        let new_active = || segment(&[]).segment().clone();
        three_segments().take(new_active()).take(new_active());
    }
}
