//! The bounds of holes: what of a dead range of a file can be given back to the device.

use std::ops::Range;

/// Holes start and end at multiples of this many bytes. Devices give space back in such blocks; a hole over a part of a block frees nothing.
pub const HOLE_ALIGNMENT: u64 = 4096;

/// The blocks that lie within `dead` as a whole; `None` if there is none.
pub fn whole_blocks(dead: Range<u64>) -> Option<Range<u64>> {
    let start = dead.start.checked_next_multiple_of(HOLE_ALIGNMENT)?;
    let end = dead.end / HOLE_ALIGNMENT * HOLE_ALIGNMENT;
    (start < end).then_some(start..end)
}
