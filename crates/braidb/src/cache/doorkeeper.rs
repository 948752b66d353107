//! Remembers which blocks were offered to the cache lately, so that it keeps a block at its second offer.
//!
//! The table has one slot for each value of the low bits of a block's hash. The high bits are the block's mark. If the slot holds the
//! block's mark, the block was offered before. Otherwise the block's mark replaces the mark in the slot. So new marks displace old ones,
//! and nothing is counted or locked. One in 32,768 pairs of blocks that share a slot has equal marks: the second block is then kept at
//! its first offer.

use super::{Place, PlaceHasher};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU16, Ordering};

/// Marks for each block that the cache has room for: 4. So a block is remembered while about four times as many blocks are offered as the
/// cache holds. Marks take 8 bytes for a block of 4 KiB.
const MARKS_PER_BLOCK: usize = 4;

/// The table of marks that the module's head describes.
#[derive(Debug)]
pub struct Doorkeeper {
    /// The slots. Their number is a power of two.
    marks: Vec<AtomicU16>,
}

impl Doorkeeper {
    /// The doorkeeper of a cache with room for this many blocks.
    pub fn new(blocks: usize) -> Doorkeeper {
        let marks = blocks.saturating_mul(MARKS_PER_BLOCK).max(1).next_power_of_two();
        Doorkeeper { marks: std::iter::repeat_with(AtomicU16::default).take(marks).collect() }
    }

    /// Whether the block at this place was offered lately. Remembers this offer.
    pub fn admits(&self, place: &Place) -> bool {
        let mut hasher = PlaceHasher::default();
        place.hash(&mut hasher);
        let hash = hasher.finish();
        let slot = &self.marks[hash as usize & (self.marks.len() - 1)];
        // A mark is never 0, because 0 is an empty slot.
        let mark = (hash >> 48) as u16 | 1;
        let is_known = slot.load(Ordering::Relaxed) == mark;
        if !is_known {
            slot.store(mark, Ordering::Relaxed);
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FileId;

    fn place(number: u64) -> Place {
        (FileId(number % 7), number / 7 * 4096)
    }

    #[test]
    fn a_block_is_admitted_at_its_second_offer() {
        let doorkeeper = Doorkeeper::new(1000);
        let admitted = || (0..1000).filter(|&number| doorkeeper.admits(&place(number))).count();
        assert!(admitted() < 5);
        let second = admitted();
        assert!((750..=1000).contains(&second), "{second}: a quarter may have lost their slots");
    }

    #[test]
    fn an_offer_of_long_ago_is_forgotten() {
        let doorkeeper = Doorkeeper::new(1000);
        doorkeeper.admits(&place(0));
        (1..100_000).for_each(|number| _ = doorkeeper.admits(&place(number)));
        assert!(!doorkeeper.admits(&place(0)));
    }

    #[test]
    fn the_smallest_cache_has_a_mark() {
        let doorkeeper = Doorkeeper::new(0);
        assert_eq!([doorkeeper.admits(&place(3)), doorkeeper.admits(&place(3))], [false, true]);
    }
}
