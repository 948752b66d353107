//! Remembers which blocks were offered to the cache lately, so that it keeps a block at its second offer.
//!
//! A table of marks, one for each value of some bits of a block's hash. A mark is made of other bits. A block whose mark stands there was
//! offered before; otherwise its mark replaces the one that stood there. So old marks go as new ones come, and nothing is
//! counted or locked. Of two blocks with one slot, one in 32,768 pairs has one mark too: the second block is then kept at its first
//! offer.

use super::{Place, PlaceHasher};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU16, Ordering};

/// Marks for each block that the cache has room for. With 4, a block is known for about as long as it takes to offer four times as many
/// blocks as the cache holds. Marks take 8 bytes for a block of 4 KiB.
const MARKS_PER_BLOCK: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct Doorkeeper {
    /// A power of two.
    marks: Vec<AtomicU16>,
}

impl Doorkeeper {
    /// For a cache of this many blocks.
    pub fn new(blocks: usize) -> Doorkeeper {
        let marks = blocks.saturating_mul(MARKS_PER_BLOCK).max(1).next_power_of_two();
        Doorkeeper { marks: std::iter::repeat_with(AtomicU16::default).take(marks).collect() }
    }

    /// Whether the block at this place was offered lately. It was from now on.
    pub fn admits(&self, place: &Place) -> bool {
        let mut hasher = PlaceHasher::default();
        place.hash(&mut hasher);
        let hash = hasher.finish();
        let slot = &self.marks[hash as usize & (self.marks.len() - 1)];
        // 0 is no mark.
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
