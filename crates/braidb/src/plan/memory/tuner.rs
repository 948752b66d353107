//! The hot-key tuner: how many hot keys stay at a flush. It finds the share `K` by hill climbing on the bytes written.
//!
//! A key that stays costs its copy in the log. If it is written again before the next flush, it saves what a flush and merges
//! would have written of it. And it takes room: memory is full sooner, so more flushes write more tables to merge. Which effect
//! is largest depends on the load, the budget, and memory compaction; it is hard to foresee and easy to measure. So `K` starts
//! at the option's value, and is measured against its neighbours:
//!
//! ```text
//!   a period of the share that is held, or several │ one of another share     it was cheaper: that one is held from now on
//!   ───────────────────────────────────────────────┼──────────────────────►
//!                    its cost                      │ its cost                 it was not: back; the next attempt waits twice as long
//!
//!   cost: tables and copies that flushes wrote, and their part in what merges write, for each write of the family
//! ```
//!
//! The tuner tries three shares by turns: none; half as much again, if more keys are hot; two thirds of what stayed. If nothing
//! stays because that was cheaper, it tries the option's value again. If nothing stays because nothing is hot, it tries
//! nothing. While three quarters of the kept bytes are written again before the next flush, nearly each copy saves a whole
//! entry. Then keeping pays without doubt, and less is not tried.
//!
//! A period is a few flushes. The first flush after a change does not count, because its memory was filled under the old share.
//! The tuner takes a step only if it saved more than measurements scatter. An attempt that costs twice as much ends with the
//! first flush that counts, and the waits grow to sixteen periods. So a steady load spends little on attempts, and the tuner
//! leaves a share that is only seemingly better.
//!
//! In which period a merge falls is chance, so each period gets a part of the mean cost of merges. Half goes by its number of
//! tables and half by their bytes. Some trees merge at a number of tables, some at a number of bytes.
//!
//! The tuner uses no clock and no random numbers: attempts follow from flushes. After an open it begins anew.

use super::heat::Hot;
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
    /// The largest share that stayed, in keys of a million.
    kept_ppm: u32,
    is_cut: bool,
}

/// Flushes in a period. After a change of the share, one more flush comes first, which does not count.
const FLUSHES: u64 = 3;
/// Most periods that an attempt waits for. The wait doubles with each attempt that saved nothing.
const MOST_PATIENCE: u64 = 16;
/// A share is better if it saves at least one byte in this many. Less is within the scatter of measurements.
const GAIN: u128 = 32;
/// Periods that are remembered for reports.
const TRACE: usize = 8;
/// Most keys of a million that may stay.
const MOST_PPM: u32 = 500_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Nothing,
    More,
    Less,
}

/// The state of the tuner of one family.
#[derive(Debug)]
pub struct HotKeyTuner {
    /// The share that is held; `None` while it is the option's.
    held_ppm: Option<u32>,
    /// Another share that is being measured.
    tried_ppm: Option<u32>,
    next: Attempt,
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
    /// Recent flushes, and the bytes that flushes and merges wrote.
    flushes: u64,
    table_bytes: u64,
    merged_bytes: u64,
    trace: VecDeque<Period>,
}

impl Default for HotKeyTuner {
    fn default() -> HotKeyTuner {
        HotKeyTuner {
            held_ppm: None,
            tried_ppm: None,
            next: Attempt::Nothing,
            patience: 1,
            periods: 0,
            held: Period::default(),
            is_new: true,
            period: Period::default(),
            kept_bytes: 0,
            kept_at: 0,
            flushes: 0,
            table_bytes: 0,
            merged_bytes: 0,
            trace: VecDeque::new(),
        }
    }
}

impl HotKeyTuner {
    /// The keys of a million that may stay at the next flush. `start_ppm` is the option's value.
    pub fn hot_ppm(&self, start_ppm: u32) -> u32 {
        self.tried_ppm.or(self.held_ppm).unwrap_or(start_ppm)
    }

    /// The newest sequence number in the last flushing set; 0 if the flush kept nothing.
    pub fn kept_at(&self) -> SeqNo {
        self.kept_at
    }

    /// The latest periods, oldest first.
    pub fn trace(&self) -> impl Iterator<Item = &Period> {
        self.trace.iter()
    }

    /// A merge wrote `bytes`.
    pub fn merged(&mut self, bytes: u64) {
        self.merged_bytes += bytes;
    }

    /// A flush ended.
    pub fn flushed(&mut self, flush: &Flushed, start_ppm: u32) {
        if start_ppm == 0 {
            return;
        }
        self.flushes += 1;
        self.table_bytes += flush.table_bytes;
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
        let is_hopeless = self.tried_ppm.is_some() && self.cost(&self.period) > 2 * self.cost(&self.held);
        if self.period.flushes < FLUSHES && !is_hopeless {
            return;
        }
        let ended = std::mem::take(&mut self.period);
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(ended);
        match self.tried_ppm.take() {
            Some(_) => self.tried(ended, start_ppm),
            None => {
                (self.held, self.periods) = (ended, self.periods + 1);
                self.attempt(start_ppm);
            }
        }
        // Halves the sums, so that old flushes count less.
        if self.flushes >= 16 * FLUSHES {
            self.flushes /= 2;
            self.table_bytes /= 2;
            self.merged_bytes /= 2;
        }
    }

    /// The cost of a write in the period, in 1/2^32 bytes. The cost of merges goes half by the number of tables and half by
    /// their bytes.
    fn cost(&self, period: &Period) -> u128 {
        let merged =
            |part: u64, of: u64| u128::from(self.merged_bytes) * u128::from(part) / u128::from(of.max(1)) / 2;
        let merged = merged(period.flushes, self.flushes) + merged(period.table_bytes, self.table_bytes);
        let bytes = u128::from(period.table_bytes + period.written_back_bytes) + merged;
        (bytes << 32) / u128::from(period.writes.max(1))
    }

    /// Judges an attempt.
    fn tried(&mut self, ended: Period, start_ppm: u32) {
        let (cost, held_cost) = (self.cost(&ended), self.cost(&self.held));
        if cost * GAIN < held_cost * (GAIN - 1) {
            (self.held_ppm, self.held) = (Some(ended.hot_ppm), ended);
            (self.periods, self.patience) = (1, 1);
            // Goes on in the same direction.
            self.attempt(start_ppm);
        } else {
            (self.periods, self.patience) = (0, (2 * self.patience).min(MOST_PATIENCE));
            self.next = self.next.then();
            self.is_new = true;
        }
    }

    /// Begins an attempt, if it is time for one and there is something to try.
    fn attempt(&mut self, start_ppm: u32) {
        if self.periods < self.patience {
            return;
        }
        let held = self.held;
        for _ in 0..3 {
            let tried_ppm = match self.next {
                // Nothing stays because that was better. The other thing to try is the option's value.
                _ if held.hot_ppm == 0 => Some(start_ppm),
                _ if held.kept_ppm == 0 => None,
                Attempt::Nothing | Attempt::Less if held.is_saving() => None,
                Attempt::Nothing => Some(0),
                Attempt::More => {
                    Some((held.hot_ppm.saturating_mul(3) / 2).min(MOST_PPM)).filter(|_| held.is_cut)
                }
                // Two thirds of what stayed: a share above that would change nothing.
                Attempt::Less => Some(held.kept_ppm.min(held.hot_ppm) / 3 * 2),
            };
            if let Some(tried_ppm) = tried_ppm.filter(|&ppm| ppm != held.hot_ppm) {
                (self.tried_ppm, self.is_new) = (Some(tried_ppm), true);
                return;
            }
            self.next = self.next.then();
        }
    }
}

impl Attempt {
    fn then(self) -> Attempt {
        match self {
            Attempt::Nothing => Attempt::More,
            Attempt::More => Attempt::Less,
            Attempt::Less => Attempt::Nothing,
        }
    }
}

impl Period {
    /// Whether nearly all that stayed was written again before the next flush.
    fn is_saving(&self) -> bool {
        self.saved_bytes > self.written_back_bytes / 4 * 3
    }

    fn add(&mut self, flush: &Flushed, saved_bytes: u64) {
        self.writes += flush.writes;
        self.flushes += 1;
        self.table_bytes += flush.table_bytes;
        self.saved_bytes += saved_bytes;
        if let Some(hot) = flush.hot {
            self.written_back_bytes += hot.bytes;
            self.kept_ppm = self.kept_ppm.max(hot.ppm);
            self.is_cut |= hot.is_cut;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Written;
    use crate::plan::memory::heat::choose_hot;
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
            let hot = choose_hot(&by_count, KEYS as u64, self.ppm(), &self.limits);
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
                let bytes = run.len() as u64 * ENTRY_BYTES;
                self.written_bytes += bytes;
                if let Some(tuner) = &mut self.tuner {
                    tuner.merged(bytes);
                }
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
    fn climbing_is_at_worst_about_equal_and_at_best_much_cheaper() {
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
                let (fixed, climbed) = (
                    written(compacts_full, start_ppm, false, &sums).0,
                    written(compacts_full, start_ppm, true, &sums).0,
                );
                println!(
                    "{name}, compacts_full: {compacts_full}, {start_ppm} ppm: {climbed} bytes, {fixed} if it is fixed"
                );
                assert!(
                    climbed * 100 <= fixed * 103,
                    "{name}, {compacts_full}, {start_ppm}: {climbed} for {fixed}"
                );
                gains.push(climbed * 100 / fixed.max(1));
            }
        }
        assert!(gains.iter().any(|&percent| percent <= 85), "{gains:?}");
        assert!(gains.iter().filter(|&&percent| percent <= 97).count() >= 5, "{gains:?}");
    }

    /// Simulates a load under which a flush at share `ppm` costs `cost(ppm)` bytes. Returns the attempts: after which flush,
    /// and of which share.
    fn attempts(start_ppm: u32, flushes: u64, is_cut: bool, cost: impl Fn(u32) -> u64) -> Vec<(u64, u32)> {
        let (mut tuner, mut attempts, mut last) = (HotKeyTuner::default(), Vec::new(), start_ppm);
        for flush in 1..=flushes {
            let ppm = tuner.hot_ppm(start_ppm);
            let hot = (ppm > 0).then_some(Hot { from: 2, bytes: 0, ppm, is_cut });
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
        let steady = attempts(10_000, 400, true, |ppm| 1000 + u64::from(ppm.abs_diff(10_000)) / 50);
        let tried: Vec<u32> = steady.iter().map(|step| step.1).filter(|&ppm| ppm != 10_000).collect();
        assert_eq!(tried[..4], [0, 15_000, 6_666, 0]);
        let begun = steady.iter().filter(|step| step.1 != 10_000).map(|step| step.0);
        assert_eq!(begun.collect::<Vec<_>>(), [4, 15, 32, 61, 114, 167, 220, 273, 326, 379]);
        // A share that saves less than one byte in 32 is not better.
        let tried = attempts(10_000, 60, false, |ppm| if ppm == 10_000 { 1000 } else { 970 });
        assert!(tried.iter().all(|step| [0, 6_666, 10_000].contains(&step.1)), "{tried:?}");
        assert_eq!(tried[1], (8, 10_000));
    }

    #[test]
    fn a_better_share_is_found_and_held() {
        let steps = attempts(10_000, 300, true, |ppm| 1000 + u64::from(ppm.abs_diff(60_000)) / 20);
        let up: Vec<u32> = steps.iter().map(|step| step.1).filter(|&ppm| ppm > 10_000).collect();
        assert_eq!(up[..6], [15_000, 22_500, 33_750, 50_625, 75_937, 50_625], "75,937 is no better");
        let steps = attempts(10_000, 300, true, |ppm| 1000 + u64::from(ppm) / 5);
        assert_eq!(steps[0], (4, 0));
        assert_eq!(
            steps[1..3],
            [(8, 10_000), (10, 0)],
            "what stayed before is tried again, and given up at the first flush that counts"
        );
        let most = attempts(400_000, 300, true, |ppm| 1_000_000 - u64::from(ppm));
        assert_eq!(most.iter().map(|step| step.1).max(), Some(500_000));
    }

    #[test]
    fn what_says_nothing_moves_nothing() {
        assert_eq!(attempts(0, 50, true, |_| 1000), [], "switched off");
        let (mut tuner, mut last_seq) = (HotKeyTuner::default(), 0);
        let mut flushed = |is_asked_for, hot, rested_bytes| {
            last_seq += 10;
            let flush = Flushed { is_asked_for, writes: 10, last_seq, table_bytes: 100, hot, rested_bytes };
            tuner.flushed(&flush, 10_000);
            (tuner.kept_at(), tuner.hot_ppm(10_000), tuner.trace().copied().collect::<Vec<_>>())
        };
        let hot = Some(Hot { from: 2, bytes: 60, ppm: 5_000, is_cut: false });
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
        let Period { hot_ppm, writes, flushes, table_bytes, written_back_bytes, saved_bytes, .. } =
            periods[0];
        assert_eq!((hot_ppm, writes, flushes), (10_000, 30, 3));
        assert_eq!((table_bytes, written_back_bytes, saved_bytes), (300, 120, 40 + 50));
    }
}
