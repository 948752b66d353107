//! Which bytes of a table nobody can need any more, so that they may be given back to the device.
//!
//! A table lives as long as one slice of it does, but the blocks that no living slice reaches into are dead. What is read
//! for a slice with the range `low..=high` are blocks `first_at_or_after(low)` to `first_after(high)`, both included, and no
//! others ([`reach`]):
//!
//! - A [`TableCursor`](super::TableCursor) over these bounds reads, ahead too, only from its `slice`, which is just that.
//! - [`Table::get`] asks for keys of the slice only. It starts at `first_at_or_after(key)`, not before that of `low`, and goes
//!   on only behind a block whose separator *is* the key, so not beyond `first_after(key)`, nor beyond that of `high`.
//! - [`Table::cut`] uses a cursor, and the rest of a [`Table`] reads no data blocks.
//!
//! `verify` asks this module which blocks it shall not expect. A living slice never grows, so what is dead stays dead.

use super::index::Index;
use super::reader::Table;
use crate::base::key::KeyRange;
use std::ops::Range;

/// Devices give space back in blocks of this size; a hole that covers one in part frees nothing.
const HOLE_ALIGNMENT: u64 = 4096;

/// The blocks that are read for a slice with this range.
pub fn reach(index: &Index, range: &KeyRange) -> Range<usize> {
    index.first_at_or_after(&range.low)..(index.first_after(&range.high) + 1).min(index.blocks())
}

/// The bytes that hold only blocks which no range of `live`, sorted by its low keys, reaches into: in order, not empty, and
/// aligned inwards to what can be given back.
pub fn dead_extents(index: &Index, live: &[KeyRange]) -> Vec<Range<u64>> {
    assert!(live.is_sorted_by(|a, b| a.low <= b.low), "living ranges are sorted");
    let mut extents = Vec::new();
    // Blocks before this one are decided.
    let mut next = 0;
    let end = index.blocks()..index.blocks();
    for blocks in live.iter().map(|range| reach(index, range)).chain(std::iter::once(end)) {
        if next < blocks.start {
            let start = index.start(next).next_multiple_of(HOLE_ALIGNMENT);
            let end = index.start(blocks.start) / HOLE_ALIGNMENT * HOLE_ALIGNMENT;
            extents.extend((start < end).then_some(start..end));
        }
        next = next.max(blocks.end);
    }
    extents
}

impl Table {
    /// The parts of the file that may be punched out when `live`, sorted by its low keys, are the ranges of all slices of
    /// this table that anybody may still read: those of the tree and those of every view.
    pub fn dead_extents(&self, live: &[KeyRange]) -> Vec<Range<u64>> {
        dead_extents(self.index(), live)
    }
}
