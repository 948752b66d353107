//! The memory component as a value: the active segment and the frozen ones behind it.
//!
//! A view holds one and reads it without a lock. Freezing and flushing build another one, which whoever owns the views
//! then swaps in.

use super::segment::Segment;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::visible::Found;
use std::sync::Arc;

/// The segments of one column family. For each key, sequence numbers fall from the active segment through the frozen
/// ones, newest first, so a lookup stops at its first hit (rule 7).
#[derive(Clone, Debug)]
pub struct Memory {
    active: Arc<Segment>,
    /// Newest first.
    frozen: Arc<[Arc<Segment>]>,
}

impl Memory {
    pub fn new(active: Arc<Segment>) -> Memory {
        Memory { active, frozen: Arc::new([]) }
    }

    /// All segments, the newest first.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        std::iter::once(&self.active).chain(self.frozen.iter())
    }

    /// The active segment becomes the newest frozen one.
    pub fn with_frozen_active(&self, new_active: Arc<Segment>) -> Memory {
        Memory { active: new_active, frozen: self.segments().cloned().collect() }
    }

    /// Without the segments that a flush wrote to a table. They are the oldest ones: had a newer one gone first, a
    /// lookup would stop at what an older one holds.
    pub fn without(&self, flushed: &[Arc<Segment>]) -> Memory {
        let is_flushed = |segment: &&Arc<Segment>| flushed.iter().any(|gone| Arc::ptr_eq(gone, segment));
        let kept = self.frozen.iter().take_while(|segment| !is_flushed(segment)).count();
        assert!(
            self.frozen[kept..].iter().all(|segment| is_flushed(&segment))
                && self.frozen.len() - kept == flushed.len(),
            "a flush takes the oldest frozen segments, each once"
        );
        Memory { active: Arc::clone(&self.active), frozen: self.frozen[..kept].into() }
    }

    /// The newest version of `key` at or below `at`.
    pub fn get(&self, key: &[u8], at: SeqNo) -> Option<Found> {
        if mutant!("frozen_before_active") {
            return self.frozen.iter().chain([&self.active]).find_map(|segment| segment.get(key, at));
        }
        self.segments().find_map(|segment| segment.get(key, at))
    }

    /// Bytes of all segments' arenas in use.
    pub fn bytes(&self) -> u64 {
        self.segments().map(|segment| segment.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SegmentWriter;
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
        let memory = memory.with_frozen_active(segment(&[(b"a", 4), (b"b", 5)]).segment().clone());
        memory.with_frozen_active(segment(&[(b"a", 6)]).segment().clone())
    }

    #[test]
    fn newer_segments_hide_older_ones() {
        let memory = three_segments();
        let get = |key: &[u8], at| memory.get(key, at).map(|found| found.seq);
        assert_eq!(
            [get(b"a", 9), get(b"b", 9), get(b"c", 9), get(b"d", 9)],
            [Some(6), Some(5), Some(3), None]
        );
        assert_eq!([get(b"a", 5), get(b"a", 3), get(b"a", 0)], [Some(4), Some(1), None]);
    }

    #[test]
    fn changes_leave_the_old_value_alone() {
        let memory = three_segments();
        let (middle, oldest) = (memory.frozen[0].clone(), memory.frozen[1].clone());
        let flushed_one = memory.without(std::slice::from_ref(&oldest));
        assert_eq!(flushed_one.frozen.len(), 1);
        assert!(flushed_one.get(b"c", 9).is_none());
        assert!(flushed_one.bytes() < memory.bytes());
        assert_eq!(memory.get(b"c", 9).unwrap().seq, 3);
        let flushed_both = memory.without(&[oldest, middle]);
        assert_eq!(flushed_both.segments().count(), 1);
        assert_eq!(flushed_both.bytes(), memory.active.bytes());
        assert_eq!(flushed_both.get(b"a", 9).unwrap().seq, 6);
    }

    #[test]
    #[should_panic(expected = "oldest frozen segments")]
    fn a_flush_may_not_skip_an_older_segment() {
        let memory = three_segments();
        memory.without(&memory.frozen[..1]);
    }

    #[test]
    #[should_panic(expected = "oldest frozen segments")]
    fn a_flush_may_not_name_a_stranger() {
        let memory = three_segments();
        memory.without(&[memory.frozen[1].clone(), memory.active.clone()]);
    }
}
