//! Heat: how often readers came to a slice lately. Where a database has slow tiers, heat decides which cells stay on the fast one
//! (`plan/tree/cells/tiers.rs`). It moves files and decides no answer, so a restart forgets it.
//!
//! *Decay.* Time is counted in reads of the database: after a half-life of reads all heat is halved at one moment. Two slices are compared
//! at one age, so a comparison does not depend on the moment. A database that nobody reads keeps its heat.
//!
//! *Where heat goes.* An edit shares the heat of the slices that it removes out to those that it adds in their ranges, in proportion to
//! bytes. Merges, cuts, moves, splits and joins carry heat along in this way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reads of the database for each slice until heat is halved: 1,024. One slice in two is then told from another that is read 1.2 times as
/// often, at four standard deviations. A larger number answers a change of the readers later.
const HALF_LIFE_READS: u64 = 1_024;
/// The least half-life, in reads: 16,384, so that a database of few slices does not follow chance.
const LEAST_HALF_LIFE_READS: u64 = 16_384;
/// Reads that come to slices on slow tiers until the planner is asked: 512. A disk with 60 seeks a second serves them in 8 s, and a move of
/// 16 MiB takes 0.1 s.
const PLANNED_READS: u64 = 512;
/// Bits of a heat that hold its count; the others hold its age.
const COUNT_BITS: u32 = 40;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The age of all heat of one database, in half-lives.
#[derive(Debug)]
pub struct HeatClock {
    is_on: AtomicBool,
    reads: AtomicU64,
    half_life_reads: AtomicU64,
    age: AtomicU64,
    /// Reads that came to slices on slow tiers since the planner was last asked.
    slow_reads: AtomicU64,
}

impl Default for HeatClock {
    fn default() -> HeatClock {
        HeatClock {
            is_on: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            half_life_reads: AtomicU64::new(LEAST_HALF_LIFE_READS),
            age: AtomicU64::new(0),
            slow_reads: AtomicU64::new(0),
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

    /// Counts reads, and returns the age.
    fn count(&self, reads: u64) -> u64 {
        let before = self.reads.fetch_add(reads, Ordering::Relaxed);
        if before.saturating_add(reads) >= self.half_life_reads.load(Ordering::Relaxed) {
            // Of two readers that come here together, one finds no reads and ages nothing.
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
    /// The heat of a slice that takes over `reads` of earlier slices.
    pub fn new(reads: u64, clock: &HeatClock) -> Heat {
        Heat(AtomicU64::new(packed(clock.age(), reads)))
    }

    /// Counts reads.
    pub fn add(&self, reads: u64, clock: &HeatClock) {
        let age = clock.count(reads);
        let with_reads = |heat| Some(packed(age, decayed(heat, age).saturating_add(reads)));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_reads);
    }

    /// The reads, decayed.
    pub fn reads(&self, clock: &HeatClock) -> u64 {
        decayed(self.0.load(Ordering::Relaxed), clock.age())
    }
}

/// The age lies in the upper 24 bits. It comes round after 16 million half-lives, when a slice that was not read meanwhile looks warm once.
fn packed(age: u64, reads: u64) -> u64 {
    age << COUNT_BITS | reads.min(COUNT_MASK)
}

fn decayed(heat: u64, age: u64) -> u64 {
    let halvings = (age << COUNT_BITS).wrapping_sub(heat & !COUNT_MASK) >> COUNT_BITS;
    (heat & COUNT_MASK).checked_shr(halvings.try_into().unwrap_or(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_halved_after_each_half_life_of_reads() {
        let clock = HeatClock::default();
        let (hot, cold) = (Heat::default(), Heat::default());
        cold.add(1_000, &clock);
        for _ in 0..LEAST_HALF_LIFE_READS - 1_001 {
            hot.add(1, &clock);
        }
        assert_eq!((cold.reads(&clock), hot.reads(&clock)), (1_000, LEAST_HALF_LIFE_READS - 1_001));
        hot.add(1, &clock);
        assert_eq!((cold.reads(&clock), hot.reads(&clock)), (500, (LEAST_HALF_LIFE_READS - 1_001) / 2 + 1));
        for _ in 0..10 {
            hot.add(LEAST_HALF_LIFE_READS, &clock);
        }
        assert_eq!(cold.reads(&clock), 0);
        assert!(hot.reads(&clock) > LEAST_HALF_LIFE_READS, "the sum of 1, 1/2, 1/4 and so on half-lives");
        assert!(hot.reads(&clock) < 2 * LEAST_HALF_LIFE_READS);
    }

    #[test]
    fn a_slice_that_takes_over_heat_has_it_at_the_age_of_now() {
        let clock = HeatClock::default();
        Heat::default().add(LEAST_HALF_LIFE_READS, &clock);
        assert_eq!(Heat::new(77, &clock).reads(&clock), 77);
        assert_eq!(Heat::new(u64::MAX, &clock).reads(&clock), COUNT_MASK);
    }

    #[test]
    fn a_larger_database_has_a_longer_half_life() {
        let clock = HeatClock::default();
        clock.set_slices(100);
        let heat = Heat::default();
        heat.add(100 * HALF_LIFE_READS - 1, &clock);
        assert_eq!(heat.reads(&clock), 100 * HALF_LIFE_READS - 1);
        heat.add(1, &clock);
        assert_eq!(heat.reads(&clock), (100 * HALF_LIFE_READS - 1) / 2 + 1);
    }
}
