//! Finds the bytes of a value file that no handle leads to, so that they can be given back to the device, and tells a hole from damage.
//!
//! A record is alive if the handle of a living slice leads to its value. Readers find values by their handles. They may read the bytes between
//! two values too, and use none of them. So the space between living records is dead. It stays dead, because merges copy handles and
//! make no new ones into a finished file.
//!
//! Verification walks from record to record, and a hole breaks this chain. At a dead record that does not match its checksum, verification looks
//! for a block of zeros. It looks from this record to the next living one. If it finds a block, the walk goes on at the living record.

use super::file::HEADER_BYTES;
use crate::base::holes::{HOLE_ALIGNMENT, whole_blocks};
use braidb_storage::File;
use std::io;
use std::iter;
use std::ops::Range;

/// The extents of a value file of `bytes` bytes that hold no byte of its header and of the `living` records. They are in order, not empty,
/// and aligned inwards. Sorts `living`, which may name a record several times.
pub fn dead_extents(living: &mut [Range<u64>], bytes: u64) -> Vec<Range<u64>> {
    living.sort_unstable_by_key(|record| (record.start, record.end));
    let mut extents = Vec::new();
    let mut next = HEADER_BYTES as u64;
    for record in living.iter().cloned().chain(iter::once(bytes..bytes)) {
        extents.extend(whole_blocks(next..record.start));
        next = next.max(record.end);
    }
    extents
}

/// Whether a whole block of zeros lies in `dead`.
pub fn has_hole(file: &dyn File, dead: Range<u64>) -> io::Result<bool> {
    let Some(blocks) = whole_blocks(dead) else { return Ok(false) };
    let mut block = [0; HOLE_ALIGNMENT as usize];
    for at in blocks.step_by(HOLE_ALIGNMENT as usize) {
        file.read_exact_at(at, &mut block)?;
        if block.iter().all(|&byte| byte == 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_keep_away_from_header_and_living_records() {
        let extents = |living: &[(u64, u64)], bytes| {
            let mut living: Vec<Range<u64>> = living.iter().map(|&(start, end)| start..end).collect();
            let extents = dead_extents(&mut living, bytes).into_iter();
            extents.map(|extent| (extent.start, extent.end)).collect::<Vec<_>>()
        };
        assert_eq!(extents(&[], 30), []);
        assert_eq!(extents(&[], 8_191), [], "the header takes a part of the first block");
        assert_eq!(extents(&[], 20_000), [(4_096, 16_384)]);
        assert_eq!(extents(&[(30, 4_000), (16_000, 20_000)], 20_000), [(4_096, 12_288)]);
        assert_eq!(extents(&[(8_192, 8_193)], 20_480), [(4_096, 8_192), (12_288, 20_480)]);
        let twice = [(12_287, 12_300), (30, 50), (12_287, 12_300), (40, 45)];
        assert_eq!(
            extents(&twice, 20_480),
            [(4_096, 8_192), (16_384, 20_480)],
            "in any order, and several times"
        );
    }
}
