//! Heat: how often readers, and to a small part writers, came to a slice lately. Where a database has slow tiers, heat decides which cells
//! stay on the fast one (`plan/tree/cells/slow_cells.rs`). Heat only decides where files lie, not what a read returns. So it is not stored,
//! and a restart forgets it.
//!
//! *What counts.* A get counts for the slice that holds its key, a scan for the slices where it begins. On the fast tier one read in 8 is
//! counted, as 8 reads; on slow tiers each read is counted.
//!
//! *Decay.* Time is counted in reads of the database, plus a sixteenth of the entries that flushes write. After each half-life the heat of
//! all slices is halved at once, so the order of two slices does not depend on when they are compared. A database that is neither read nor
//! written keeps its heat.
//!
//! *A change of the readers.* When many more reads than usual come to slow tiers, readers have turned to other keys. Earlier reads then
//! lose most of their weight at once, so that the new hot cells soon outweigh the old ones. For one half-life the planner moves cells on
//! weaker evidence.
//!
//! *How heat is inherited.* An edit divides the heat of each slice that it removes among the added slices in the range of this slice, in
//! proportion to bytes. So heat outlasts merges, cuts, moves, splits and joins.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reads for each slice of the database in one half-life: 1,024. After 1,024 reads, a slice can be told from another that is read 1.2
/// times as often, at four standard deviations. With more, heat would follow a change of the readers later.
const HALF_LIFE_READS: u64 = 1_024;
/// The least half-life, in reads: 16,384, so that a database of few slices does not follow chance.
const LEAST_HALF_LIFE_READS: u64 = 16_384;
/// The planner is asked after this many reads of slices on slow tiers: 128. A disk with 60 seeks a second serves them in 2 s, so the
/// planner is asked every 2 s. On a flash drive with 1,500 accesses a second it is asked 12 times a second.
const PLANNED_READS: u64 = 128;
/// Reads in a window: 256. At the end of a window, its share of slow reads is compared with the usual share. A share of 7% varies by 2
/// percentage points by chance, and a disk with 60 seeks a second serves 256 reads in 4 s.
const WINDOW_READS: u64 = 256;
/// Readers have turned to other keys when the share of slow reads is above this many times the usual share, plus 10% of all reads: 2. If
/// the usual share is near one half, no change can be seen in this way.
const CHANGE_FACTOR: u64 = 2;
const CHANGE_PERMILLE: u64 = 100;
/// The usual share falls by one part in this many with each window: 32. So bursts of slow reads that come again within 25 windows (6,400
/// reads) count as usual, and change nothing.
const USUAL_WINDOWS: u64 = 32;
/// Half-lives that pass at once when readers turn to other keys: 6. Earlier reads keep a 64th of their weight.
const CHANGE_AGE: u64 = 6;
/// Stands for a usual share that is unknown, because no window has ended yet.
const UNKNOWN: u64 = u64::MAX;
/// Entries of a flush that count as one read of their slice: 16. Writes count because the values of cells that are often overwritten would
/// be garbage on a slow tier at once. They count less than reads: a read of a slow file takes a seek, a write only its share of later
/// copies.
const WRITES_OF_A_READ: u64 = 16;
/// Bits of a heat that hold its count; the others hold its age.
const COUNT_BITS: u32 = 40;
const AGE_BITS: u32 = u64::BITS - COUNT_BITS;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The age of all heat of one database, in half-lives.
#[derive(Debug)]
pub struct HeatClock {
    is_on: AtomicBool,
    reads: AtomicU64,
    half_life_reads: AtomicU64,
    age: AtomicU64,
    /// Reads that came to slices on slow tiers.
    slow_reads: AtomicU64,
    window_reads: AtomicU64,
    window_slow_reads: AtomicU64,
    /// The usual share of slow reads, in thousandths: the largest share of a window, less a part for each later window.
    usual_slow_permille: AtomicU64,
    /// Reads that are left until a half-life has passed since readers last turned to other keys.
    settling_reads: AtomicU64,
}

impl Default for HeatClock {
    fn default() -> HeatClock {
        HeatClock {
            is_on: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            half_life_reads: AtomicU64::new(LEAST_HALF_LIFE_READS),
            age: AtomicU64::new(0),
            slow_reads: AtomicU64::new(0),
            window_reads: AtomicU64::new(0),
            window_slow_reads: AtomicU64::new(0),
            usual_slow_permille: AtomicU64::new(UNKNOWN),
            settling_reads: AtomicU64::new(0),
        }
    }
}

impl HeatClock {
    /// Starts to count. Without slow tiers nothing is counted.
    pub fn start(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Sets the half-life for a database of this many slices.
    pub fn set_slices(&self, slices: u64) {
        let half_life = slices.saturating_mul(HALF_LIFE_READS).max(LEAST_HALF_LIFE_READS);
        self.half_life_reads.store(half_life, Ordering::Relaxed);
    }

    /// Counts reads of slices on slow tiers. Returns whether the planner should be asked now.
    pub fn came_to_slow(&self, reads: u64) -> bool {
        let before = self.slow_reads.fetch_add(reads, Ordering::Relaxed);
        before / PLANNED_READS != before.saturating_add(reads) / PLANNED_READS
    }

    /// The heat of a slice of `entries` entries that a flush wrote; 0 without slow tiers. Moves the clock on by as many reads.
    pub fn of_flush(&self, entries: u64) -> u64 {
        let reads = if self.is_on() { entries / WRITES_OF_A_READ } else { 0 };
        self.pass(reads);
        reads
    }

    /// Counts reads of a slice, and returns the age.
    fn count(&self, reads: u64, is_slow: bool) -> u64 {
        if is_slow {
            self.window_slow_reads.fetch_add(reads, Ordering::Relaxed);
        }
        if self.window_reads.fetch_add(reads, Ordering::Relaxed).saturating_add(reads) >= WINDOW_READS {
            // If two readers come here at once, one of them finds 0 reads and compares nothing.
            let passed = self.window_reads.swap(0, Ordering::Relaxed);
            let slow = self.window_slow_reads.swap(0, Ordering::Relaxed);
            if let Some(permille) = slow.saturating_mul(1_000).checked_div(passed) {
                self.compare(permille.min(1_000));
            }
        }
        self.pass(reads)
    }

    /// Compares the share of slow reads in a window with the usual one.
    fn compare(&self, permille: u64) {
        let usual = self.usual_slow_permille.load(Ordering::Relaxed);
        let is_changed = usual != UNKNOWN && permille > CHANGE_FACTOR * usual + CHANGE_PERMILLE;
        if is_changed {
            self.age.fetch_add(CHANGE_AGE, Ordering::Relaxed);
            let half_life = self.half_life_reads.load(Ordering::Relaxed);
            self.settling_reads.store(half_life, Ordering::Relaxed);
        }
        let after = match is_changed || usual == UNKNOWN {
            true => permille,
            false => permille.max(usual - usual.div_ceil(USUAL_WINDOWS)),
        };
        self.usual_slow_permille.store(after, Ordering::Relaxed);
    }

    /// Whether less than a half-life has passed since readers turned to other keys.
    pub fn is_settling(&self) -> bool {
        self.settling_reads.load(Ordering::Relaxed) > 0
    }

    /// Moves the clock on by `reads`, and returns the age.
    fn pass(&self, reads: u64) -> u64 {
        let settling = self.settling_reads.load(Ordering::Relaxed);
        if settling > 0 {
            self.settling_reads.store(settling.saturating_sub(reads), Ordering::Relaxed);
        }
        let before = self.reads.fetch_add(reads, Ordering::Relaxed);
        if before.saturating_add(reads) >= self.half_life_reads.load(Ordering::Relaxed) {
            // If two readers come here at once, one of them finds 0 reads and does not raise the age.
            let passed = self.reads.swap(0, Ordering::Relaxed);
            if passed > 0 {
                return self.age.fetch_add(1, Ordering::Relaxed) + 1;
            }
        }
        self.age()
    }

    fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }
}

/// The heat of one slice: reads, halved with each half-life. Readers of all versions that hold the slice share it.
#[derive(Debug, Default)]
pub struct Heat(AtomicU64);

impl Heat {
    /// The heat of a new slice that inherits `reads` from the slices it replaces.
    pub fn new(reads: u64, clock: &HeatClock) -> Heat {
        Heat(AtomicU64::new(packed(clock.age(), reads)))
    }

    /// Counts reads of a slice, which may lie on a slow tier.
    pub fn add(&self, reads: u64, is_slow: bool, clock: &HeatClock) {
        let age = clock.count(reads, is_slow);
        let with_reads = |heat| Some(packed(age, decayed(heat, age).saturating_add(reads)));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_reads);
    }

    /// The reads, decayed.
    pub fn reads(&self, clock: &HeatClock) -> u64 {
        decayed(self.0.load(Ordering::Relaxed), clock.age())
    }
}

/// Packs the age into the upper 24 bits and the reads into the lower 40. The age wraps around after 16 million half-lives: a slice that was
/// not read meanwhile then looks warm once.
fn packed(age: u64, reads: u64) -> u64 {
    age << COUNT_BITS | reads.min(COUNT_MASK)
}

fn decayed(heat: u64, age: u64) -> u64 {
    let halvings = (age << COUNT_BITS).wrapping_sub(heat & !COUNT_MASK) >> COUNT_BITS;
    // Another reader stored the heat at a later age meanwhile.
    let halvings = if halvings >= 1 << (AGE_BITS - 1) { 0 } else { halvings };
    (heat & COUNT_MASK).checked_shr(halvings.try_into().unwrap_or(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_halved_after_each_half_life_of_reads() {
        let clock = HeatClock::default();
        let (hot, cold) = (Heat::default(), Heat::default());
        cold.add(1_000, false, &clock);
        for _ in 0..LEAST_HALF_LIFE_READS - 1_001 {
            hot.add(1, false, &clock);
        }
        assert_eq!((cold.reads(&clock), hot.reads(&clock)), (1_000, LEAST_HALF_LIFE_READS - 1_001));
        hot.add(1, false, &clock);
        assert_eq!((cold.reads(&clock), hot.reads(&clock)), (500, (LEAST_HALF_LIFE_READS - 1_001) / 2 + 1));
        for _ in 0..10 {
            hot.add(LEAST_HALF_LIFE_READS, false, &clock);
        }
        assert_eq!(cold.reads(&clock), 0);
        assert!(hot.reads(&clock) > LEAST_HALF_LIFE_READS, "the sum of 1, 1/2, 1/4 and so on half-lives");
        assert!(hot.reads(&clock) < 2 * LEAST_HALF_LIFE_READS);
    }

    #[test]
    fn a_slice_that_takes_over_heat_has_it_at_the_age_of_now() {
        let clock = HeatClock::default();
        Heat::default().add(LEAST_HALF_LIFE_READS, false, &clock);
        assert_eq!(Heat::new(77, &clock).reads(&clock), 77);
        assert_eq!(Heat::new(u64::MAX, &clock).reads(&clock), COUNT_MASK);
    }

    #[test]
    fn a_larger_database_has_a_longer_half_life() {
        let clock = HeatClock::default();
        clock.set_slices(100);
        let heat = Heat::default();
        heat.add(100 * HALF_LIFE_READS - 1, false, &clock);
        assert_eq!(heat.reads(&clock), 100 * HALF_LIFE_READS - 1);
        heat.add(1, false, &clock);
        assert_eq!(heat.reads(&clock), (100 * HALF_LIFE_READS - 1) / 2 + 1);
    }

    #[test]
    fn heat_from_before_a_change_of_the_readers_hardly_counts() {
        let clock = HeatClock::default();
        let (usual, new) = (Heat::default(), Heat::default());
        // 30 windows in which one read of 16 is slow, and 1 in which all are.
        (0..30 * WINDOW_READS / 16).for_each(|_| {
            usual.add(15, false, &clock);
            new.add(1, true, &clock);
        });
        let before = usual.reads(&clock);
        assert!(before > 7_000, "{before}");
        assert!(!clock.is_settling());
        new.add(WINDOW_READS, true, &clock);
        assert_eq!(usual.reads(&clock), before >> CHANGE_AGE);
        assert!(new.reads(&clock) >= WINDOW_READS && clock.is_settling());
        // From now on the new share is the usual share.
        new.add(WINDOW_READS, true, &clock);
        assert_eq!(usual.reads(&clock), before >> CHANGE_AGE);
        new.add(LEAST_HALF_LIFE_READS, true, &clock);
        assert!(!clock.is_settling());
    }

    #[test]
    fn a_reader_that_is_late_takes_no_heat_away() {
        assert_eq!(decayed(packed(6, 100), 5), 100);
        assert_eq!(decayed(packed(0, 100), (1 << AGE_BITS) - 1), 100);
        assert_eq!(decayed(packed(5, 100), 6), 50);
    }

    #[test]
    fn bursts_of_cold_reads_that_come_again_and_again_change_little() {
        let clock = HeatClock::default();
        let (usual, cold) = (Heat::default(), Heat::default());
        for _ in 0..10 {
            (0..20).for_each(|_| usual.add(WINDOW_READS, false, &clock));
            cold.add(WINDOW_READS, true, &clock);
        }
        // The half-lives of 54,000 reads, and the first burst.
        assert_eq!(clock.age(), 3 + CHANGE_AGE);
    }

    #[test]
    fn half_of_all_reads_on_slow_tiers_are_no_change() {
        let clock = HeatClock::default();
        let heat = Heat::default();
        for is_slow in [false, true].repeat(20) {
            heat.add(WINDOW_READS / 2, is_slow, &clock);
        }
        assert_eq!(heat.reads(&clock), 20 * WINDOW_READS);
    }

    #[test]
    fn a_flush_warms_its_slice_where_there_are_slow_tiers() {
        let clock = HeatClock::default();
        assert_eq!(clock.of_flush(1_600), 0);
        clock.start();
        assert_eq!(clock.of_flush(1_600), 100);
    }
}
