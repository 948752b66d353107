//! Hot keys: which of them stay in memory at a flush.
//!
//! A frequently written key is superseded while it is in memory. Each flush would write a copy that the next flush makes
//! worthless, and so would each merge. So a flush leaves the hot keys in memory, the hottest first, as many as the tuner and
//! the limits allow (`plan/memory/limits.rs`). The cost is a copy of each hot key in the newest log.
//!
//! A segment keeps superseded versions until it is merged, so full memory may hold few live bytes. A flush would then write a
//! nearly empty table (`FLUSH_TH` in TRIAD's Algorithm 1). [`super::limits::decide`] has such memory compacted first.

use super::limits::MemoryLimits;
use super::tuner::HotKeyTuner;
use crate::base::ids::SeqNo;
use crate::memory::{Flat, Immutable, Separated, Written, count_updates, separate};
use crate::visible::rule::RetentionFilter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The hot keys of a flushing set, which stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hot {
    /// Keys that were written at least this many times stay.
    pub from: u16,
    pub bytes: u64,
}

/// What a family's tree and tuner say about its hot keys when a flush begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct HotShare {
    /// Keys of the family's tree.
    pub tree_keys: u64,
    /// The most keys of a million that may stay.
    pub ppm: u32,
    /// The newest sequence number in the last flushing set that left hot keys; 0 if the last flush kept nothing.
    pub kept_at: SeqNo,
    /// Bytes that other families keep in memory.
    pub others_bytes: u64,
}

impl HotShare {
    /// The share that `tuner` holds or tries for a family with a tree of `tree_keys` keys, where others keep `others_bytes`.
    pub fn new(tree_keys: u64, tuner: &HotKeyTuner, others_bytes: u64, limits: &MemoryLimits) -> HotShare {
        HotShare { tree_keys, ppm: tuner.hot_ppm(limits.start_ppm()), kept_at: tuner.kept_at(), others_bytes }
    }
}

/// A flushing set, divided into what goes to a table and what stays in memory.
#[derive(Debug, Default)]
pub struct Divided {
    /// Becomes a table. Newest first.
    pub cold: Vec<Immutable>,
    /// The hot keys, which stay in memory.
    pub hot: Option<(Arc<Flat>, Hot)>,
    /// Versions that were dropped when hot and cold keys were separated.
    pub dropped: u64,
    /// How many of 1,000 bytes of the set are alive; `None` if the keys were not counted.
    pub live_permille: Option<u64>,
    /// Bytes of keys that the last flush kept and that were not written since; `None` if the keys were not counted.
    pub rested_bytes: Option<u64>,
}

impl Divided {
    /// All of `parts` becomes a table, and nothing was counted.
    pub fn all_cold(parts: Vec<Immutable>) -> Divided {
        Divided { cold: parts, ..Divided::default() }
    }
}

/// Divides a flushing set, given as its segments, newest first. `may_keep` says that hot keys may stay in memory. `retention` makes
/// the filter that drops hidden versions, and is called after the keys were counted.
pub fn divide(
    parts: Vec<Immutable>,
    may_keep: bool,
    share: HotShare,
    limits: &MemoryLimits,
    retention: impl FnOnce() -> RetentionFilter,
) -> Divided {
    let entries = parts.iter().map(Immutable::entries).sum();
    // Keys are also counted if full memory may be compacted, which depends on how much is alive.
    let counts = limits.may_compact_full() || may_keep_enough(share.ppm, entries, share.tree_keys);
    if !may_keep || !counts {
        return Divided::all_cold(parts);
    }
    let updates = count_updates(&parts, share.kept_at);
    let bytes: u64 = parts.iter().map(Immutable::bytes).sum();
    let live_permille = Some(updates.live_bytes() * 1000 / bytes.max(1));
    let rested_bytes = Some(updates.rested_bytes());
    let Some(hot) = choose_hot(updates.by_count(), &share, limits) else {
        return Divided { live_permille, rested_bytes, ..Divided::all_cold(parts) };
    };
    let Separated { hot: kept, cold, dropped } = separate(&parts, &updates, hot.from, retention());
    let cold = cold.map(Immutable::Flat).into_iter().collect();
    Divided { cold, hot: Some((kept, hot)), dropped, live_permille, rested_bytes }
}

/// Whether the keys that a flushing set may keep are worth separating, so that they should be counted. The set has `entries` entries, the
/// tree `tree_keys` keys.
fn may_keep_enough(hot_ppm: u32, entries: u64, tree_keys: u64) -> bool {
    MemoryLimits::is_worth_splitting(MemoryLimits::max_hot_keys(entries, tree_keys, hot_ppm), entries)
}

/// Chooses the hot keys of a flushing set: at most the share's. `by_count` maps a number of writes to the keys written as often. `None` if
/// no key stays.
pub fn choose_hot(by_count: &BTreeMap<u16, Written>, share: &HotShare, limits: &MemoryLimits) -> Option<Hot> {
    let HotShare { tree_keys, ppm: hot_ppm, others_bytes, .. } = *share;
    let keys: u64 = by_count.values().map(|written| written.keys).sum();
    let writes: u64 = by_count.iter().map(|(&count, written)| u64::from(count) * written.keys).sum();
    let max_keys = MemoryLimits::max_hot_keys(keys, tree_keys, hot_ppm);
    let (mut hot, mut all) = (None, Written::default());
    for (&count, written) in by_count.iter().rev() {
        let has_room = all.keys + written.keys <= max_keys
            && all.bytes + written.bytes <= limits.max_hot_bytes(others_bytes);
        if !MemoryLimits::is_hot(count, keys, writes) || !has_room {
            break;
        }
        all = Written { keys: all.keys + written.keys, bytes: all.bytes + written.bytes };
        if MemoryLimits::is_beyond_chance(all.keys, count, keys.max(tree_keys), writes) {
            hot = Some((Hot { from: count, bytes: all.bytes }, all.keys));
        }
    }
    let (hot, hot_keys) = hot.filter(|_| limits.keeps_hot())?;
    MemoryLimits::is_worth_splitting(hot_keys, keys).then_some(hot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Segment;
    use crate::plan::memory::limits::MemoryOptions;
    use crate::plan::memory::limits::tests::OPTIONS;
    use crate::visible::EntryKind;
    use crate::visible::rule::DropProof;

    fn share(tree_keys: u64, ppm: u32) -> HotShare {
        HotShare { tree_keys, ppm, ..HotShare::default() }
    }

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
        choose_hot(updates, &share(tree_keys, OPTIONS.hot_ppm), &limits()).map(|hot| hot.from)
    }

    #[test]
    fn hot_is_what_was_written_again_and_as_often_as_the_mean() {
        let updates = updates(&[1, 1, 1, 2, 3, 18]);
        assert_eq!(hot_from(&updates, 1000), Some(18), "the mean is more than 4");
        assert_eq!(hot_from(&updates, 199), Some(18), "one key may stay");
        assert_eq!(hot_from(&updates, 99), None, "none may");
        assert_eq!(hot_from(&self::updates(&[1, 1, 1, 4, 8, 9]), 1000), Some(4), "4 is the mean");
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
                && choose_hot(&updates, &share(1 << 40, 0), &off).is_none()
                && !off.compacts_full(Some(0))
        );
    }

    /// Of a million keys, 200,000 are drawn. In the skewed load 80% of the draws go to a fifth of the keys.
    #[test]
    fn no_key_is_hot_where_all_are_drawn_alike() {
        const KEYS: f64 = 1e6;
        let times = |mean: f64, count: u16| {
            let factorial: f64 = (1..=count).map(f64::from).product();
            libm::exp(-mean) * libm::pow(mean, f64::from(count)) / factorial
        };
        let hot = |hot_keys: f64, hot_writes: f64| {
            let (hot_mean, mean) =
                (2e5 * hot_writes / hot_keys, 2e5 * (1.0 - hot_writes) / (KEYS - hot_keys));
            let keys = |count| hot_keys * times(hot_mean, count) + (KEYS - hot_keys) * times(mean, count);
            let written = |count| Written { keys: keys(count) as u64, bytes: 300 * keys(count) as u64 };
            let by_count = (1..=12).map(|count| (count, written(count))).collect();
            let limits =
                MemoryLimits::new(MemoryOptions { memtable_bytes: 64 << 20, log_bytes: 64 << 20, ..OPTIONS });
            choose_hot(&by_count, &share(1_400_000, 10_000), &limits).map(|hot| hot.from)
        };
        assert_eq!(hot(2e5, 0.2), None, "a fifth of the draws");
        assert_eq!(hot(2e5, 0.8), Some(3));
        assert_eq!(hot(1e4, 0.5), Some(3));
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
            choose_hot(&updates, &share(1 << 40, 10_000), &limits).map(|hot| hot.from)
        };
        assert_eq!(hot_from(1 << 20, 1 << 20), Some(4), "the mean is 3.1");
        assert_eq!(hot_from(8 * 150, 1 << 20), Some(16), "6 of 134 bytes in three quarters of that");
        assert_eq!(hot_from(1 << 20, 30 * 150), Some(14), "8 in a quarter of the logs");
        assert_eq!(hot_from(100, 1 << 20), None);
    }

    #[test]
    fn as_many_stay_as_may() {
        let written: Vec<u16> = (0..100).map(|key| if key < 20 { 2 + key } else { 1 }).collect();
        let updates = updates(&written);
        let each = updates.values().map(|written| written.bytes).sum::<u64>() / 100;
        let hot = |ppm| choose_hot(&updates, &share(1000, ppm), &limits());
        let of = |from, keys| Hot { from, bytes: keys * each };
        assert_eq!(hot(500_000), Some(of(4, 18)), "the mean is 3.1");
        assert_eq!(hot(18_000), Some(of(4, 18)));
        assert_eq!(hot(17_999), Some(of(5, 17)));
        assert_eq!(hot(4_000), Some(of(18, 4)));
        assert_eq!(hot(3_999), None, "one in 32 is four");
    }
    /// Of 40 keys, two were written nine times each, the others once.
    #[test]
    fn a_flushing_set_is_divided_by_what_the_share_allows() {
        let (segment, mut writer) = Segment::new(1);
        let mut seq = 0;
        for key in 0..40u64 {
            for _ in 0..if key % 20 == 3 { 9 } else { 1 } {
                seq += 1;
                writer.insert(&key.to_be_bytes(), seq, EntryKind::Put, &[0; 92]);
            }
        }
        let parts = || vec![Immutable::List(segment.clone())];
        let retention = || RetentionFilter::new(DropProof::new(Vec::new(), u64::MAX));
        let divide = |may_keep, ppm, limits: &MemoryLimits| {
            let share = share(100, ppm);
            super::divide(parts(), may_keep, share, limits, retention)
        };
        let of = |divided: &Divided| {
            let cold: u64 = divided.cold.iter().map(Immutable::entries).sum();
            (cold, divided.hot.as_ref().map_or(0, |(kept, _)| kept.entries()), divided.dropped)
        };
        let kept = divide(true, 20_000, &limits());
        assert_eq!(of(&kept), (38, 2, 16), "two of a hundred keys may stay");
        assert!(kept.live_permille.is_some_and(|live| live < 750), "16 of 56 versions are hidden");
        let none = divide(true, 10_000, &limits());
        assert_eq!(of(&none), (56, 0, 0), "one in 40 keys is too few");
        assert_eq!(none.live_permille, kept.live_permille, "the keys were counted");
        let asked = divide(false, 20_000, &limits());
        assert_eq!((of(&asked), asked.live_permille), ((56, 0, 0), None));
        let eager = MemoryLimits::new(MemoryOptions { has_superseded: false, ..OPTIONS });
        assert_eq!(divide(true, 10_000, &eager).live_permille, None, "counting would not pay");
    }
}
