//! Hot keys: which of them stay in memory at a flush, and when memory that is full is condensed instead of flushed.
//!
//! Keys that are written again and again die in memory: each flush of them is a copy that the next one makes worthless, and
//! so is each merge of it. So a flush leaves the hot ones in memory: written again, and more than half as often as the
//! mean; and of those as many as are allowed, the hottest first. (TRIAD, section 4.1, asks for more than the mean. But
//! where nearly all of memory is hot keys, half of these lie below it by chance, and were flushed again and again.) They
//! are written back to the log instead, which is what keeping them costs; so they may not take so much of memory, or of the
//! log, that the next flush comes at once.
//!
//! A segment keeps superseded versions until it is merged. Memory may thus be full although little of it is alive, and then a flush
//! would be one of a nearly empty memory (`FLUSH_TH` in the paper's Algorithm 1). If so much was superseded when this was looked
//! at last, memory is *condensed* first: compacted into one segment, which concerns no file at all. Not where the memory policy
//! compacts the pipeline whenever that pays: what it left is alive, and looking again cost an eighth of the speed.

use crate::memory::Written;
use std::collections::BTreeMap;

/// The measures of hot keys.
#[derive(Clone, Copy, Debug)]
pub struct HeatOptions {
    /// At most so many keys of a million stay, as long as nothing is known (`plan/memory/tuner.rs`); 0 switches all of this off.
    pub hot_ppm: u32,
    /// Memory keeps superseded versions for long: it is compacted by nobody before it is full.
    pub has_superseded: bool,
    pub memtable_bytes: u64,
    pub log_bytes: u64,
}

/// What of a flushing set stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hot {
    /// All keys do that were written so often or more.
    pub from: u16,
    pub bytes: u64,
    /// How many of a million keys these are.
    pub ppm: u32,
    /// More keys are hot, and there would be room for some of them.
    pub is_cut: bool,
}

const MILLION: u128 = 1_000_000;
/// What stays is one key in so many of the flushing set at least: to take fewer apart costs more than they spare the flush.
const LEAST_SHARE: u64 = 32;
/// Memory is condensed if at most so many of a thousand bytes were alive when it was full the last time.
const COMPACT_FULL_PERMILLE: u64 = 750;

impl HeatOptions {
    pub fn is_on(&self) -> bool {
        self.hot_ppm > 0
    }

    /// Whether full memory is ever condensed.
    pub fn may_compact_full(&self) -> bool {
        self.is_on() && self.has_superseded
    }

    /// Whether enough could stay of a flushing set of so many entries, in a tree of `tree_keys` keys, that counting is worth while.
    pub fn may_keep_enough(&self, hot_ppm: u32, entries: u64, tree_keys: u64) -> bool {
        most_keys(entries.max(tree_keys), hot_ppm).saturating_mul(LEAST_SHARE) >= entries
    }

    /// What stays of a flushing set, of which so many keys were written so often each, in a tree of `tree_keys` keys: at most
    /// `hot_ppm` of a million of these. `None` if nothing does.
    pub fn hot(&self, by_count: &BTreeMap<u16, Written>, tree_keys: u64, hot_ppm: u32) -> Option<Hot> {
        let keys: u64 = by_count.values().map(|written| written.keys).sum();
        let writes: u64 = by_count.iter().map(|(&count, written)| u64::from(count) * written.keys).sum();
        let most_keys = most_keys(keys.max(tree_keys), hot_ppm);
        // Written back they may not fill the logs: the next flush would come at once.
        let most_bytes = (self.memtable_bytes / 4 * 3).min(self.log_bytes / 4);
        let (mut from, mut all, mut is_cut) = (None, Written::default(), false);
        for (&count, written) in by_count.iter().rev() {
            let is_hot = count > 1 && 2 * u64::from(count) * keys > writes;
            if !is_hot || all.bytes + written.bytes > most_bytes {
                break;
            }
            if all.keys + written.keys > most_keys {
                is_cut = true;
                break;
            }
            from = Some(count);
            all = Written { keys: all.keys + written.keys, bytes: all.bytes + written.bytes };
        }
        let from = from.filter(|_| all.keys * LEAST_SHARE >= keys)?;
        let ppm = (u128::from(all.keys) * MILLION / u128::from(keys.max(tree_keys))) as u32;
        Some(Hot { from, bytes: all.bytes, ppm, is_cut })
    }

    /// If so many bytes stayed when memory was condensed, more than the budget, it is flushed after all. Much less than
    /// that would let the hot keys, of up to three quarters of it, share what is left with few of the others, and bring
    /// many small flushes.
    pub fn is_still_full(&self, kept: u64) -> bool {
        kept > self.memtable_bytes
    }

    /// The bytes at which memory is full when `kept` of them stayed in it the last time: what is new has half of the budget, but
    /// all stays below the mark at which writes are slowed down, one and a half budgets.
    pub fn full_bytes(&self, kept: u64) -> u64 {
        let full = match self.is_still_full(kept) {
            true => kept,
            false => {
                self.memtable_bytes.max((kept + self.memtable_bytes / 2).min(self.memtable_bytes / 16 * 23))
            }
        };
        full.min(self.most_bytes())
    }

    /// The bytes at which memory is flushed whatever is going on. Below the limit at which writes wait: it is a write that notices.
    pub fn most_bytes(&self) -> u64 {
        self.memtable_bytes / 8 * 15
    }

    /// Whether full memory is condensed before it is flushed, when so many of a thousand bytes were alive the last time.
    pub fn compacts_full(&self, live_permille: Option<u64>) -> bool {
        self.may_compact_full() && live_permille.is_none_or(|live| live <= COMPACT_FULL_PERMILLE)
    }
}

/// So many keys of a million.
fn most_keys(keys: u64, ppm: u32) -> u64 {
    (u128::from(keys) * u128::from(ppm) / MILLION) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Immutable, Segment, count_updates};
    use crate::visible::EntryKind;

    const HEAT: HeatOptions =
        HeatOptions { hot_ppm: 10_000, has_superseded: true, memtable_bytes: 1 << 20, log_bytes: 1 << 20 };

    /// Keys that were written so often each, all of 100 bytes.
    fn updates(written: &[u16]) -> BTreeMap<u16, Written> {
        let (segment, mut writer) = Segment::new(1);
        let mut seq = 0;
        for (key, &count) in written.iter().enumerate() {
            for _ in 0..count {
                seq += 1;
                writer.insert(&(key as u64).to_be_bytes(), seq, EntryKind::Put, &[0; 92]);
            }
        }
        count_updates(&[Immutable::List(segment)], 0).by_count().clone()
    }

    fn hot_from(updates: &BTreeMap<u16, Written>, tree_keys: u64) -> Option<u16> {
        HEAT.hot(updates, tree_keys, HEAT.hot_ppm).map(|hot| hot.from)
    }

    #[test]
    fn hot_is_what_was_written_again_and_more_than_half_as_often_as_the_mean() {
        let updates = updates(&[1, 1, 1, 2, 3, 18]);
        assert_eq!(hot_from(&updates, 1000), Some(3), "the mean is more than 4");
        assert_eq!(hot_from(&updates, 199), Some(18), "one key may stay");
        assert_eq!(hot_from(&updates, 99), None, "none may");
        assert_eq!(HEAT.hot(&updates, 0, 500_000).map(|hot| hot.from), Some(3));
        assert_eq!(hot_from(&self::updates(&[&[9][..], &[1; 31]].concat()), 1000), Some(9));
        assert_eq!(
            hot_from(&self::updates(&[&[9][..], &[1; 32]].concat()), 1000),
            None,
            "too few to be worth it"
        );
        assert!(HEAT.may_keep_enough(10_000, 320, 1000) && !HEAT.may_keep_enough(10_000, 321, 1000));
        let off = HeatOptions { hot_ppm: 0, ..HEAT };
        assert!(!off.is_on() && off.hot(&updates, 1 << 40, 0).is_none() && !off.compacts_full(Some(0)));
    }

    #[test]
    fn where_all_are_alike_all_or_none_are_hot() {
        assert_eq!(hot_from(&updates(&[1; 50]), 1 << 40), None, "none came again");
        assert_eq!(hot_from(&updates(&[7; 50]), 1 << 40), Some(7));
        assert_eq!(hot_from(&updates(&[7; 50]), 4999), None, "too many");
    }

    /// The hottest stay that fit: with all the next flush would come at once.
    #[test]
    fn hot_keys_fill_neither_memory_nor_logs() {
        let written: Vec<u16> = (0..100).map(|key| if key < 20 { 2 + key } else { 1 }).collect();
        let updates = updates(&written);
        let hot_from = |memtable_bytes, log_bytes| {
            let heat = HeatOptions { memtable_bytes, log_bytes, ..HEAT };
            let hot = heat.hot(&updates, 1 << 40, 10_000)?;
            assert!(!hot.is_cut, "more keys might stay");
            Some(hot.from)
        };
        assert_eq!(hot_from(1 << 20, 1 << 20), Some(2), "the mean is 3.1");
        assert_eq!(hot_from(8 * 150, 1 << 20), Some(16), "6 of 134 bytes in three quarters of that");
        assert_eq!(hot_from(1 << 20, 30 * 150), Some(14), "8 in a quarter of the logs");
        assert_eq!(hot_from(100, 1 << 20), None);
    }

    #[test]
    fn as_many_stay_as_may() {
        let written: Vec<u16> = (0..100).map(|key| if key < 20 { 2 + key } else { 1 }).collect();
        let updates = updates(&written);
        let each = updates.values().map(|written| written.bytes).sum::<u64>() / 100;
        let hot = |ppm| HEAT.hot(&updates, 1000, ppm);
        let of = |from, keys, is_cut| Hot { from, bytes: keys * each, ppm: 1000 * keys as u32, is_cut };
        assert_eq!(hot(500_000), Some(of(2, 20, false)));
        assert_eq!(hot(20_000), Some(of(2, 20, false)));
        assert_eq!(hot(19_999), Some(of(3, 19, true)));
        assert_eq!(hot(4_000), Some(of(18, 4, true)));
        assert_eq!(hot(3_999), None, "one in 32 is four");
    }

    #[test]
    fn full_memory_is_condensed_while_that_makes_room() {
        assert!(!HeatOptions { has_superseded: false, ..HEAT }.compacts_full(Some(0)), "somebody else does");
        assert!(HEAT.compacts_full(None) && HEAT.compacts_full(Some(750)) && !HEAT.compacts_full(Some(751)));
        assert_eq!(HEAT.full_bytes(0), 1 << 20);
        assert_eq!(HEAT.full_bytes(600 << 10), (600 + 512) << 10, "new writes have half of the budget");
        assert_eq!(HEAT.full_bytes(960 << 10), (960 + 512) << 10);
        assert_eq!(HEAT.full_bytes(1 << 20), (960 + 512) << 10, "writes are not slowed down yet");
        assert!(HEAT.is_still_full(1025 << 10) && HEAT.full_bytes(1025 << 10) == 1025 << 10);
    }
}
