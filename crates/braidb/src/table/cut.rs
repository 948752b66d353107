//! Finds where a range of a table can be cut in two, and how many bytes lie on either side. Cutting writes nothing: the
//! index knows the blocks, and at most two of them are read, one of them twice, to find the keys next to the cut.

use super::reader::Table;
use crate::base::error::Result;
use crate::base::key::KeyRange;
use crate::visible::Cursor;
use std::sync::Arc;

/// Both sides of a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The largest key of the range in front of the cut.
    pub before: Option<Vec<u8>>,
    /// The smallest key of the range at or behind the cut.
    pub after: Option<Vec<u8>>,
    /// Approximate bytes in front of the cut. 0, or `total_bytes`, only if a side has no key.
    pub left_bytes: u64,
    /// Bytes of the data blocks into which the range reaches.
    pub total_bytes: u64,
}

impl Table {
    /// Cuts what lies inside `bounds` in front of `key`.
    pub fn cut(self: &Arc<Self>, bounds: &KeyRange, key: &[u8]) -> Result<Cut> {
        let index = self.index();
        let first = index.first_at_or_after(&bounds.low);
        // Further blocks with versions of the highest key are not counted.
        let last = index.first_at_or_after(&bounds.high).min(index.blocks() - 1);
        let (start, end) = (index.start(first), index.start(last + 1).max(index.start(first)));
        // The block where `key` would start is read in any case. If the whole block lies in front of `key`, the next
        // block is read. If the whole block lies behind `key`, the block before is read. Never both, because a block
        // has entries.
        let mut cursor = self.cursor(bounds.clone(), true);
        cursor.seek_before(key)?;
        let before = cursor.valid().then(|| (cursor.key().to_vec(), cursor.end_offset()));
        cursor.seek(key)?;
        let after = cursor.valid().then(|| cursor.key().to_vec());
        let total_bytes = end - start;
        let left_bytes = match (&before, &after) {
            (None, _) => 0,
            (_, None) => total_bytes,
            (Some((_, before_end)), Some(_)) => before_end.saturating_sub(start).min(total_bytes - 1),
        };
        Ok(Cut { before: before.map(|(key, _)| key), after, left_bytes, total_bytes })
    }

    /// How many bytes of the data blocks within `bounds` lie between `low` and `high`, and how many there are. A bound of `None` lies beyond
    /// `bounds`. Half of a block counts where `low` or `high` cuts it. Reads no block.
    pub fn bytes_between(&self, bounds: &KeyRange, low: Option<&[u8]>, high: Option<&[u8]>) -> (u64, u64) {
        let index = self.index();
        let block_of = |key: &[u8]| index.first_at_or_after(key).min(index.blocks() - 1);
        let (first, last) = (block_of(&bounds.low), block_of(&bounds.high));
        let half_of = |block: usize| (index.start(block + 1) - index.start(block)) / 2;
        let start = low.map_or(index.start(first), |low| index.start(block_of(low)) + half_of(block_of(low)));
        let end =
            high.map_or(index.start(last + 1), |high| index.start(block_of(high)) + half_of(block_of(high)));
        (end.saturating_sub(start), index.start(last + 1) - index.start(first))
    }

    /// A key near the middle of the bytes inside `bounds`, strictly between the lowest and the highest key. The key
    /// need not be in the table. `None` if no separator lies strictly between the bounds. Reads no block.
    pub fn middle(&self, bounds: &KeyRange) -> Option<Vec<u8>> {
        let index = self.index();
        // The blocks whose separators lie between the ends of the bounds, both excluded.
        let candidates = index.first_after(&bounds.low)..index.first_at_or_after(&bounds.high);
        let start = index.start(index.first_at_or_after(&bounds.low));
        let end = index.start((candidates.end + 1).min(index.blocks()));
        let middle = start.midpoint(end);
        let nearest = candidates.min_by_key(|&block| index.start(block + 1).abs_diff(middle))?;
        Some(index.separator(nearest))
    }
}
