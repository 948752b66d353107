//! Finds the bytes of a table that no reader can need any more, so that they can be given back to the device.
//!
//! A table lives as long as one of its slices, but blocks into which no living slice reaches are dead. Readers of a
//! slice with the range `low..=high` read only the blocks `first_at_or_after(low)` to `first_after(high)`, both
//! included ([`reach`]):
//!
//! - A [`TableCursor`](super::TableCursor) over these bounds reads only from its `slice`, which is this range of
//!   blocks; so does its read-ahead.
//! - [`Table::get`] asks only for keys of the slice. It starts at `first_at_or_after(key)`, which is not before
//!   `first_at_or_after(low)`. It goes on only behind a block whose separator *is* the key. So it ends at or before
//!   `first_after(key)`, which is not beyond `first_after(high)`.
//! - [`Table::cut`] uses a cursor, and the rest of a [`Table`] reads no data blocks.
//!
//! `verify` skips the blocks that this module calls dead. A living slice never grows, so dead blocks stay dead.

use super::index::Index;
use super::reader::Table;
use crate::base::holes::whole_blocks;
use crate::base::key::KeyRange;
use std::ops::Range;

/// The blocks that readers of a slice with this range read.
pub fn reach(index: &Index, range: &KeyRange) -> Range<usize> {
    index.first_at_or_after(&range.low)..(index.first_after(&range.high) + 1).min(index.blocks())
}

/// The extents of blocks into which no range of `live` reaches; `live` is sorted by low keys. The extents are in order,
/// not empty, and aligned inwards to whole blocks of the device.
pub fn dead_extents(index: &Index, live: &[KeyRange]) -> Vec<Range<u64>> {
    assert!(live.is_sorted_by(|a, b| a.low <= b.low), "living ranges are sorted");
    let mut extents = Vec::new();
    // The first block that is not decided yet.
    let mut next = 0;
    let end = index.blocks()..index.blocks();
    for blocks in live.iter().map(|range| reach(index, range)).chain(std::iter::once(end)) {
        if next < blocks.start {
            extents.extend(whole_blocks(index.start(next)..index.start(blocks.start)));
        }
        next = next.max(blocks.end);
    }
    extents
}

impl Table {
    /// The extents of the file that may be punched out. `live`, sorted by low keys, holds the ranges of all readable
    /// slices of this table: the slices of the tree and of every view.
    pub fn dead_extents(&self, live: &[KeyRange]) -> Vec<Range<u64>> {
        dead_extents(self.index(), live)
    }
}
