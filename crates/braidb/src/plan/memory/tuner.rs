//! The hot-key tuner: whether hot keys stay at a flush. It compares what flushes write with hot keys and without.
//!
//! A key that stays costs its copy in the log. If it is written again before the next flush, it saves what a flush and merges
//! would have written of it. And it takes room: memory is full sooner, so more flushes write more tables to merge. Which effect
//! is largest depends on the load, the budget, and memory compaction; it is hard to foresee and easy to measure. So the tuner
//! begins with the option's share of hot keys, and measures that against none:
//!
//! ```text
//!   a period of what is held, or several │ one of the other share     it was cheaper: that one is held from now on
//!   ─────────────────────────────────────┼────────────────────────►
//!                 its cost               │ its cost                   it was not: back; the next attempt waits twice as long
//!
//!   cost: tables and copies that flushes wrote, for each write of the family
//! ```
//!
//! If nothing stayed in a period because nothing is hot, the tuner tries nothing.
//!
//! A period is three flushes. The first flush after a change does not count, because its memory was filled under the other
//! share. Waits grow to sixteen periods, so a steady load spends little on attempts.
//!
//! The tuner uses no clock and no random numbers: attempts follow from flushes. After an open it begins anew.
//! docs/decisions/memory-mechanisms.md tells which further mechanisms were measured and left out.

use super::hot_keys::Hot;
use crate::base::ids::SeqNo;
use std::collections::VecDeque;

/// The outcome of one flush.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flushed {
    /// No key might stay: a caller asked for tables, or the device had no room for copies.
    pub is_asked_for: bool,
    /// Writes of the family since the last flush.
    pub writes: u64,
    /// The newest sequence number in the flushing set.
    pub last_seq: SeqNo,
    /// Bytes of the table, and of the values that it left in logs.
    pub table_bytes: u64,
    /// The hot keys that stay in memory and were written back.
    pub hot: Option<Hot>,
    /// Bytes of keys that the last flush kept and that were not written since, if they were counted.
    pub rested_bytes: Option<u64>,
}

/// Bytes written while a share held, over some flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// The keys of a million that might stay.
    pub hot_ppm: u32,
    pub writes: u64,
    pub flushes: u64,
    /// Bytes of tables that flushes wrote.
    pub table_bytes: u64,
    /// Bytes of hot keys that stayed and were copied to the log.
    pub written_back_bytes: u64,
    /// Bytes of the copies whose keys were written again before the next flush, so that no flush wrote them.
    pub saved_bytes: u64,
}

/// Flushes in a period. After a change of the share, one more flush comes first, which does not count.
const FLUSHES: u64 = 3;
/// Most periods that an attempt waits for. The wait doubles with each attempt that saved nothing.
const MOST_PATIENCE: u64 = 16;
/// Periods that are remembered for reports.
const TRACE: usize = 8;

/// The state of the tuner of one family.
#[derive(Debug)]
pub struct HotKeyTuner {
    /// Whether hot keys stay, as far as the tuner knows that to be cheaper.
    keeps: bool,
    /// Whether the opposite of `keeps` is being measured.
    is_trying: bool,
    /// Periods to hold before the next attempt, and periods held since the last one.
    patience: u64,
    periods: u64,
    /// The latest period of the held share.
    held: Period,
    /// Whether the next flush does not count, because the share has changed.
    is_new: bool,
    period: Period,
    /// Bytes that the last flush kept, and the newest sequence number in its flushing set.
    kept_bytes: u64,
    kept_at: SeqNo,
    trace: VecDeque<Period>,
}

impl Default for HotKeyTuner {
    fn default() -> HotKeyTuner {
        HotKeyTuner {
            keeps: true,
            is_trying: false,
            patience: 1,
            periods: 0,
            held: Period::default(),
            is_new: true,
            period: Period::default(),
            kept_bytes: 0,
            kept_at: 0,
            trace: VecDeque::new(),
        }
    }
}

impl HotKeyTuner {
    /// The keys of a million that may stay at the next flush. `start_ppm` is the option's value.
    pub fn hot_ppm(&self, start_ppm: u32) -> u32 {
        if self.keeps != self.is_trying { start_ppm } else { 0 }
    }

    /// The newest sequence number in the last flushing set; 0 if the flush kept nothing.
    pub fn kept_at(&self) -> SeqNo {
        self.kept_at
    }

    /// The latest periods, oldest first.
    pub fn trace(&self) -> impl Iterator<Item = &Period> {
        self.trace.iter()
    }

    /// A flush ended.
    pub fn flushed(&mut self, flush: &Flushed, start_ppm: u32) {
        if start_ppm == 0 {
            return;
        }
        let saved_bytes = flush.rested_bytes.map_or(0, |rested| self.kept_bytes.saturating_sub(rested));
        (self.kept_bytes, self.kept_at) = flush.hot.map_or((0, 0), |hot| (hot.bytes, flush.last_seq));
        if flush.is_asked_for {
            // The flush came too soon. So does the next one, which begins with empty memory.
            self.is_new = true;
            return;
        }
        if std::mem::take(&mut self.is_new) {
            return;
        }
        self.period.hot_ppm = self.hot_ppm(start_ppm);
        self.period.add(flush, saved_bytes);
        if self.period.flushes < FLUSHES {
            return;
        }
        let ended = std::mem::take(&mut self.period);
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(ended);
        if std::mem::take(&mut self.is_trying) {
            self.tried(ended);
        } else {
            (self.held, self.periods) = (ended, self.periods + 1);
        }
        self.attempt();
    }

    /// Judges an attempt.
    fn tried(&mut self, ended: Period) {
        if ended.cost() < self.held.cost() {
            (self.keeps, self.held) = (!self.keeps, ended);
            (self.periods, self.patience) = (1, 1);
        } else {
            (self.periods, self.patience) = (0, (2 * self.patience).min(MOST_PATIENCE));
            self.is_new = true;
        }
    }

    /// Begins an attempt, if it is time for one. If keys might stay and none did, no key is hot, and the attempt would change
    /// nothing.
    fn attempt(&mut self) {
        let is_nothing_hot = self.keeps && self.held.written_back_bytes == 0;
        if self.periods >= self.patience && !is_nothing_hot {
            (self.is_trying, self.is_new) = (true, true);
        }
    }
}

impl Period {
    /// The cost of a write in the period, in 1/2^32 bytes.
    fn cost(&self) -> u128 {
        let bytes = u128::from(self.table_bytes + self.written_back_bytes);
        (bytes << 32) / u128::from(self.writes.max(1))
    }

    fn add(&mut self, flush: &Flushed, saved_bytes: u64) {
        self.writes += flush.writes;
        self.flushes += 1;
        self.table_bytes += flush.table_bytes;
        self.saved_bytes += saved_bytes;
        self.written_back_bytes += flush.hot.map_or(0, |hot| hot.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Written;
    use crate::plan::memory::hot_keys::{HotShare, choose_hot};
    use crate::plan::memory::limits::tests::OPTIONS;
    use crate::plan::memory::limits::{MemoryLimits, MemoryOptions};
    use std::collections::{BTreeMap, BTreeSet};

    const KEYS: usize = 20_000;
    const ENTRY_BYTES: u64 = 300;
    /// Entries that memory holds.
    const ENTRIES: usize = 1_000;

    /// The load: cumulated probabilities of the keys, hottest first.
    fn hot(hot_keys: usize, share: f64) -> Vec<f64> {
        let of = |key| {
            if key < hot_keys { share / hot_keys as f64 } else { (1.0 - share) / (KEYS - hot_keys) as f64 }
        };
        added_up((0..KEYS).map(of))
    }

    fn zipfian() -> Vec<f64> {
        added_up((1..=KEYS).map(|rank| libm::pow(rank as f64, -0.99)))
    }

    fn added_up(likely: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = likely.map(|each| (sum += each, sum).1).collect();
        sums.iter_mut().for_each(|each| *each /= sum);
        sums
    }

    /// A memory on top of a tiered tree of sets of keys.
    struct Store {
        /// Whether superseded versions take no room.
        compacts_full: bool,
        limits: MemoryLimits,
        tuner: Option<HotKeyTuner>,
        /// The writes of each key, and whether one came since the last flush.
        memory: BTreeMap<usize, (u16, bool)>,
        used: usize,
        writes: u64,
        runs: Vec<Vec<BTreeSet<usize>>>,
        written_bytes: u64,
    }

    impl Store {
        fn new(compacts_full: bool, start_ppm: u32, tuners: bool) -> Store {
            let bytes = ENTRIES as u64 * ENTRY_BYTES;
            let limits = MemoryLimits::new(MemoryOptions {
                hot_ppm: start_ppm,
                memtable_bytes: bytes,
                log_bytes: 8 * bytes,
                ..OPTIONS
            });
            Store {
                compacts_full,
                limits,
                tuner: tuners.then(HotKeyTuner::default),
                memory: BTreeMap::new(),
                used: 0,
                writes: 0,
                runs: vec![Vec::new(); 3],
                written_bytes: 0,
            }
        }

        fn ppm(&self) -> u32 {
            self.tuner
                .as_ref()
                .map_or(self.limits.start_ppm(), |tuner| tuner.hot_ppm(self.limits.start_ppm()))
        }

        fn write(&mut self, key: usize) {
            let entry = self.memory.entry(key).or_default();
            self.used += usize::from(!self.compacts_full || entry.0 == 0);
            *entry = (entry.0 + 1, true);
            self.writes += 1;
            if self.used >= ENTRIES {
                self.flush();
            }
        }

        fn flush(&mut self) {
            let mut by_count: BTreeMap<u16, Written> = BTreeMap::new();
            let mut rested_bytes = 0;
            for &(count, is_new) in self.memory.values() {
                let written = by_count.entry(count).or_default();
                *written = Written { keys: written.keys + 1, bytes: written.bytes + ENTRY_BYTES };
                rested_bytes += if is_new { 0 } else { ENTRY_BYTES };
            }
            let share = HotShare { tree_keys: KEYS as u64, ppm: self.ppm(), ..HotShare::default() };
            let hot = choose_hot(&by_count, &share, &self.limits);
            let hot_from = hot.map_or(u16::MAX, |hot| hot.from);
            let (kept, table): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut self.memory).into_iter().partition(|(_, (count, _))| *count >= hot_from);
            self.memory = kept.into_iter().map(|(key, (count, _))| (key, (count / 2, false))).collect();
            self.used = self.memory.len();
            let table: BTreeSet<usize> = table.into_keys().collect();
            let table_bytes = table.len() as u64 * ENTRY_BYTES;
            self.written_bytes += table_bytes + hot.map_or(0, |hot| hot.bytes);
            let writes = std::mem::take(&mut self.writes);
            let flushed = Flushed {
                is_asked_for: false,
                writes,
                last_seq: 1,
                table_bytes,
                hot,
                rested_bytes: Some(rested_bytes),
            };
            if let Some(tuner) = &mut self.tuner {
                tuner.flushed(&flushed, self.limits.start_ppm());
            }
            self.merge(table);
        }

        fn merge(&mut self, mut run: BTreeSet<usize>) {
            for level in &mut self.runs {
                level.push(run);
                if level.len() < 4 {
                    return;
                }
                run = std::mem::take(level).into_iter().flatten().collect();
                self.written_bytes += run.len() as u64 * ENTRY_BYTES;
            }
        }
    }

    /// Carries out `writes` writes; returns the bytes written, and the store.
    fn load(mut store: Store, sums: &[f64], writes: u32) -> (u64, Store) {
        let (mut state, before) = (7u64, store.written_bytes);
        for _ in 0..writes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (state >> 11) as f64 / (1u64 << 53) as f64;
            store.write(sums.partition_point(|&sum| sum < drawn).min(KEYS - 1));
        }
        (store.written_bytes - before, store)
    }

    #[test]
    fn the_tuner_is_at_worst_about_equal_and_at_best_cheaper() {
        let written = |compacts_full, ppm, tuners, sums: &[f64]| {
            load(Store::new(compacts_full, ppm, tuners), sums, 400_000)
        };
        let mut gains = Vec::new();
        for (name, sums) in [
            ("1% get 99%", hot(KEYS / 100, 0.99)),
            ("3% get 90%", hot(KEYS / 33, 0.9)),
            ("20% get 80%", hot(KEYS / 5, 0.8)),
            ("zipfian", zipfian()),
            ("uniform", hot(KEYS / 2, 0.5)),
        ] {
            for (compacts_full, start_ppm) in
                [(true, 10_000), (true, 100_000), (false, 10_000), (false, 100_000)]
            {
                let fixed = written(compacts_full, start_ppm, false, &sums).0;
                let tuned = written(compacts_full, start_ppm, true, &sums).0;
                println!(
                    "{name}, compacts_full: {compacts_full}, {start_ppm} ppm: {tuned} bytes, {fixed} if fixed"
                );
                assert!(
                    tuned * 100 <= fixed * 107,
                    "{name}, {compacts_full}, {start_ppm}: {tuned} for {fixed}"
                );
                gains.push(tuned * 100 / fixed.max(1));
            }
        }
        assert!(gains.iter().any(|&percent| percent <= 97), "{gains:?}");
    }

    /// Simulates a load under which a flush at share `ppm` costs `cost(ppm)` bytes. Returns the attempts: after which flush,
    /// and of which share.
    fn attempts(start_ppm: u32, flushes: u64, cost: impl Fn(u32) -> u64) -> Vec<(u64, u32)> {
        let (mut tuner, mut attempts, mut last) = (HotKeyTuner::default(), Vec::new(), start_ppm);
        for flush in 1..=flushes {
            let ppm = tuner.hot_ppm(start_ppm);
            let hot = (ppm > 0).then_some(Hot { from: 2, bytes: 1 });
            tuner.flushed(
                &Flushed { table_bytes: cost(ppm), writes: 1000, hot, ..Flushed::default() },
                start_ppm,
            );
            let ppm = tuner.hot_ppm(start_ppm);
            if ppm != last {
                attempts.push((flush, ppm));
                last = ppm;
            }
        }
        attempts
    }

    #[test]
    fn where_nothing_is_better_attempts_become_rare() {
        let steady = attempts(10_000, 300, |ppm| if ppm == 10_000 { 1000 } else { 1001 });
        let begun: Vec<u64> = steady.iter().filter(|step| step.1 == 0).map(|step| step.0).collect();
        assert_eq!(begun, [4, 15, 32, 61, 114, 167, 220, 273]);
    }

    #[test]
    fn none_is_held_where_it_is_cheaper_and_the_share_comes_back() {
        let steps = attempts(10_000, 100, |ppm| 1000 + u64::from(ppm) / 5);
        assert_eq!(steps[..2], [(4, 0), (8, 10_000)], "none was cheaper; then the share is tried again");
        assert!(steps[2..].iter().step_by(2).all(|step| step.1 == 0), "{steps:?}");
        let held = steps.windows(2).filter(|pair| pair[0].1 == 0).map(|pair| pair[1].0 - pair[0].0);
        assert!(held.clone().max() > Some(20), "{steps:?}");
    }

    #[test]
    fn what_says_nothing_moves_nothing() {
        assert_eq!(attempts(0, 50, |_| 1000), [], "switched off");
        let (mut tuner, mut last_seq) = (HotKeyTuner::default(), 0);
        let mut flushed = |is_asked_for, hot, rested_bytes| {
            last_seq += 10;
            let flush = Flushed { is_asked_for, writes: 10, last_seq, table_bytes: 100, hot, rested_bytes };
            tuner.flushed(&flush, 10_000);
            (tuner.kept_at(), tuner.hot_ppm(10_000), tuner.trace().copied().collect::<Vec<_>>())
        };
        let hot = Some(Hot { from: 2, bytes: 60 });
        for _ in 0..3 {
            flushed(true, None, None);
            flushed(false, hot, Some(0));
        }
        assert_eq!(flushed(true, None, None), (0, 10_000, vec![]), "every other flush was asked for");
        flushed(false, hot, Some(0));
        assert_eq!(flushed(false, hot, Some(60)).0, 90);
        flushed(false, hot, Some(20));
        let (kept_at, ppm, periods) = flushed(false, None, Some(10));
        assert_eq!((kept_at, ppm, periods.len()), (0, 0, 1));
        let Period { hot_ppm, writes, flushes, table_bytes, written_back_bytes, saved_bytes } = periods[0];
        assert_eq!((hot_ppm, writes, flushes), (10_000, 30, 3));
        assert_eq!((table_bytes, written_back_bytes, saved_bytes), (300, 120, 40 + 50));

        let mut tuner = HotKeyTuner::default();
        let nothing = Flushed { writes: 10, table_bytes: 100, ..Flushed::default() };
        (0..100).for_each(|_| tuner.flushed(&nothing, 10_000));
        assert_eq!(tuner.hot_ppm(10_000), 10_000, "no key was hot");
    }
}
