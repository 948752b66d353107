//! Hot keys: which of them stay in memory at a flush.
//!
//! A frequently written key is superseded while it is in memory. Each flush would write a copy that the next flush makes
//! worthless, and so would each merge. So a flush leaves the hot keys in memory, the hottest first, as many as the tuner and
//! the limits allow (`plan/memory/limits.rs`). The cost is a copy of each hot key in the newest log.
//!
//! A segment keeps superseded versions until it is merged, so full memory may hold few live bytes. A flush would then write a
//! nearly empty table (`FLUSH_TH` in TRIAD's Algorithm 1). [`super::limits::decide`] has such memory compacted first.

use super::limits::MemoryLimits;
use crate::memory::Written;
use std::collections::BTreeMap;

/// The hot keys of a flushing set, which stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hot {
    /// Keys that were written at least this many times stay.
    pub from: u16,
    pub bytes: u64,
    /// The keys that stay, of a million keys of the family.
    pub ppm: u32,
    /// Whether the limit of keys kept out further hot keys.
    pub is_cut: bool,
}

/// Whether enough keys of a flushing set could stay that counting them pays. The set has `entries` entries, the tree
/// `tree_keys` keys.
pub fn may_keep_enough(hot_ppm: u32, entries: u64, tree_keys: u64) -> bool {
    MemoryLimits::is_worth_splitting(MemoryLimits::max_hot_keys(entries, tree_keys, hot_ppm), entries)
}

/// Chooses the hot keys of a flushing set in a tree of `tree_keys` keys: at most `hot_ppm` of a million. `by_count` maps a
/// number of writes to the keys written as often. `None` if no key stays.
pub fn choose_hot(
    by_count: &BTreeMap<u16, Written>,
    tree_keys: u64,
    hot_ppm: u32,
    limits: &MemoryLimits,
) -> Option<Hot> {
    let keys: u64 = by_count.values().map(|written| written.keys).sum();
    let writes: u64 = by_count.iter().map(|(&count, written)| u64::from(count) * written.keys).sum();
    let max_keys = MemoryLimits::max_hot_keys(keys, tree_keys, hot_ppm);
    let (mut from, mut all, mut is_cut) = (None, Written::default(), false);
    for (&count, written) in by_count.iter().rev() {
        if !MemoryLimits::is_hot(count, keys, writes) || all.bytes + written.bytes > limits.max_hot_bytes() {
            break;
        }
        if all.keys + written.keys > max_keys {
            is_cut = true;
            break;
        }
        from = Some(count);
        all = Written { keys: all.keys + written.keys, bytes: all.bytes + written.bytes };
    }
    let from = from.filter(|_| limits.keeps_hot() && MemoryLimits::is_worth_splitting(all.keys, keys))?;
    Some(Hot { from, bytes: all.bytes, ppm: MemoryLimits::hot_ppm(all.keys, keys, tree_keys), is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Immutable, Segment, count_updates};
    use crate::plan::memory::limits::MemoryOptions;
    use crate::plan::memory::limits::tests::OPTIONS;
    use crate::visible::EntryKind;

    fn limits() -> MemoryLimits {
        MemoryLimits::new(OPTIONS)
    }

    /// One key of 100 bytes for each count, written this many times.
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
        choose_hot(updates, tree_keys, OPTIONS.hot_ppm, &limits()).map(|hot| hot.from)
    }

    #[test]
    fn hot_is_what_was_written_again_and_more_than_half_as_often_as_the_mean() {
        let updates = updates(&[1, 1, 1, 2, 3, 18]);
        assert_eq!(hot_from(&updates, 1000), Some(3), "the mean is more than 4");
        assert_eq!(hot_from(&updates, 199), Some(18), "one key may stay");
        assert_eq!(hot_from(&updates, 99), None, "none may");
        assert_eq!(choose_hot(&updates, 0, 500_000, &limits()).map(|hot| hot.from), Some(3));
        assert_eq!(hot_from(&self::updates(&[&[9][..], &[1; 31]].concat()), 1000), Some(9));
        assert_eq!(
            hot_from(&self::updates(&[&[9][..], &[1; 32]].concat()), 1000),
            None,
            "too few to be worth it"
        );
        assert!(may_keep_enough(10_000, 320, 1000) && !may_keep_enough(10_000, 321, 1000));
        let off = MemoryLimits::new(MemoryOptions { hot_ppm: 0, ..OPTIONS });
        assert!(
            !off.keeps_hot()
                && choose_hot(&updates, 1 << 40, 0, &off).is_none()
                && !off.compacts_full(Some(0))
        );
    }

    #[test]
    fn where_all_are_alike_all_or_none_are_hot() {
        assert_eq!(hot_from(&updates(&[1; 50]), 1 << 40), None, "none came again");
        assert_eq!(hot_from(&updates(&[7; 50]), 1 << 40), Some(7));
        assert_eq!(hot_from(&updates(&[7; 50]), 4999), None, "too many");
    }

    /// The hottest keys that fit stay. If all stayed, the next flush would come at once.
    #[test]
    fn hot_keys_fill_neither_memory_nor_logs() {
        let written: Vec<u16> = (0..100).map(|key| if key < 20 { 2 + key } else { 1 }).collect();
        let updates = updates(&written);
        let hot_from = |memtable_bytes, log_bytes| {
            let limits = MemoryLimits::new(MemoryOptions { memtable_bytes, log_bytes, ..OPTIONS });
            let hot = choose_hot(&updates, 1 << 40, 10_000, &limits)?;
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
        let hot = |ppm| choose_hot(&updates, 1000, ppm, &limits());
        let of = |from, keys, is_cut| Hot { from, bytes: keys * each, ppm: 1000 * keys as u32, is_cut };
        assert_eq!(hot(500_000), Some(of(2, 20, false)));
        assert_eq!(hot(20_000), Some(of(2, 20, false)));
        assert_eq!(hot(19_999), Some(of(3, 19, true)));
        assert_eq!(hot(4_000), Some(of(18, 4, true)));
        assert_eq!(hot(3_999), None, "one in 32 is four");
    }
}
