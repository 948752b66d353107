//! Deterministic seams: background work, chance and time that a test steps by hand.
//!
//! [`Inline`] has no threads. Jobs wait in their lanes until a caller uses `help` or `pause_us`, or until the engine
//! itself waits. Each call runs one job on the caller's thread. Flushes run first, but after each flush a waiting merge
//! runs, and every second job is one of memory compaction if one waits. The reason: on threads, no lane keeps another
//! waiting. With one user thread, the order of all events is a function of the calls, so a seed replays a run.
//!
//! [`SeededRandom`] and [`StepClock`] make chance and time deterministic too. Time passes only when a caller pauses or
//! advances the clock.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::locks::Mutex;

use crate::{Clock, Job, Lane, Random, Runtime};

/// A [`Runtime`] that runs jobs on the threads that ask for progress.
///
/// Jobs may submit jobs and may call `help` themselves. The queue is not locked while a job runs, so a nested call
/// starts the next job. A panic in a job passes to the caller, so a test fails with it.
///
/// ```
/// use braidb_storage::inline::{Inline, StepClock};
/// use braidb_storage::{Lane, Runtime};
/// use std::sync::Arc;
/// let runtime = Inline::new(Arc::new(StepClock::new()));
/// runtime.submit(Lane::Merge, Box::new(|| println!("now")));
/// assert_eq!(runtime.pending(), 1);
/// assert!(runtime.help() && !runtime.help());
/// ```
#[derive(Debug)]
pub struct Inline {
    lanes: Mutex<Lanes>,
    clock: Arc<StepClock>,
}

#[derive(Default)]
struct Lanes {
    flush: VecDeque<Job>,
    merge: VecDeque<Job>,
    memory: VecDeque<Job>,
    /// Whether the last job was of the memory lane.
    was_memory: bool,
    /// Whether the last job of the other two lanes was a flush: a waiting merge has the next turn. A flush that fails
    /// for ever must not starve merges.
    flushed: bool,
}

impl Lanes {
    fn next(&mut self) -> Option<Job> {
        let others_wait = !self.flush.is_empty() || !self.merge.is_empty();
        let had_its_turn = self.was_memory && others_wait;
        self.was_memory = !self.memory.is_empty() && !had_its_turn;
        if self.was_memory {
            return self.memory.pop_front();
        }
        let is_merges_turn = self.flushed && !self.merge.is_empty();
        self.flushed = !is_merges_turn && !self.flush.is_empty();
        if self.flushed { self.flush.pop_front() } else { self.merge.pop_front() }
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [flush, merge, memory] = [&self.flush, &self.merge, &self.memory].map(VecDeque::len);
        f.debug_struct("Lanes")
            .field("flush", &flush)
            .field("merge", &merge)
            .field("memory", &memory)
            .finish_non_exhaustive()
    }
}

impl Inline {
    /// A runtime with nothing to do. Its pauses advance `clock`.
    pub fn new(clock: Arc<StepClock>) -> Inline {
        Inline { lanes: Mutex::default(), clock }
    }

    /// The number of waiting jobs.
    pub fn pending(&self) -> usize {
        let lanes = self.lanes.lock();
        lanes.flush.len() + lanes.merge.len() + lanes.memory.len()
    }

    /// Drops all waiting jobs, as the death of a process would. Jobs may hold the owner of this runtime, so a test that
    /// abandons an engine calls this to free the memory.
    pub fn drop_pending(&self) {
        let dropped = mem::take(&mut *self.lanes.lock());
        // Outside the lock: the drop of a job may submit another job.
        drop(dropped);
    }
}

impl Runtime for Inline {
    fn submit(&self, lane: Lane, job: Job) {
        let mut lanes = self.lanes.lock();
        match lane {
            Lane::Flush => lanes.flush.push_back(job),
            Lane::Merge => lanes.merge.push_back(job),
            Lane::Memory => lanes.memory.push_back(job),
        }
    }

    fn help(&self) -> bool {
        let next = self.lanes.lock().next();
        match next {
            Some(job) => {
                job();
                true
            }
            None => false,
        }
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn pause_us(&self, us: u64) {
        self.clock.advance_us(us);
        self.help();
    }
}

/// A clock that stands still until a caller advances it.
///
/// ```
/// use braidb_storage::{Clock, inline::StepClock};
/// let clock = StepClock::new();
/// let before = clock.now_us();
/// clock.advance_us(5);
/// assert_eq!(clock.now_us(), before + 5);
/// ```
#[derive(Debug, Default)]
pub struct StepClock {
    now_us: AtomicU64,
}

impl StepClock {
    /// A clock that shows 0.
    pub fn new() -> StepClock {
        StepClock::default()
    }

    /// Lets `us` microseconds pass.
    pub fn advance_us(&self, us: u64) {
        self.now_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for StepClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::Relaxed)
    }
}

/// A stream of random numbers that depends only on its seed (SplitMix64: Steele, Lea and Flood, OOPSLA 2014). Good
/// enough for tests, predictable by design.
///
/// ```
/// use braidb_storage::{Random, inline::SeededRandom};
/// assert_eq!(SeededRandom::new(7).next_u64(), SeededRandom::new(7).next_u64());
/// ```
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The stream of `seed`. Any seed will do.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: AtomicU64::new(seed) }
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        // The high half of the product: no division, and a bias of at most bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 divided by the golden ratio, odd
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inline() -> Arc<Inline> {
        Arc::new(Inline::new(Arc::new(StepClock::new())))
    }

    /// A list of events, and a job that adds `what` to the list.
    type Notes = Arc<Mutex<Vec<&'static str>>>;

    fn noting(notes: &Notes, what: &'static str) -> Job {
        let notes = Arc::clone(notes);
        Box::new(move || notes.lock().push(what))
    }

    #[test]
    fn flushes_go_first_no_lane_starves_and_each_keeps_its_order() {
        let (runtime, notes) = (inline(), Notes::default());
        runtime.submit(Lane::Merge, noting(&notes, "merge 1"));
        runtime.submit(Lane::Merge, noting(&notes, "merge 2"));
        runtime.submit(Lane::Flush, noting(&notes, "flush 1"));
        runtime.submit(Lane::Flush, noting(&notes, "flush 2"));
        assert_eq!(runtime.pending(), 4);
        assert!(notes.lock().is_empty(), "no job runs by itself");
        while runtime.help() {}
        assert_eq!(*notes.lock(), ["flush 1", "merge 1", "flush 2", "merge 2"]);
        assert_eq!(runtime.pending(), 0);
    }

    #[test]
    fn a_job_may_submit_and_help() {
        let (runtime, notes) = (inline(), Notes::default());
        let (inner, inner_notes) = (Arc::clone(&runtime), Arc::clone(&notes));
        runtime.submit(
            Lane::Merge,
            Box::new(move || {
                inner.submit(Lane::Flush, noting(&inner_notes, "nested"));
                assert!(inner.help());
                inner_notes.lock().push("outer");
                inner.submit(Lane::Flush, noting(&inner_notes, "later"));
            }),
        );
        assert!(runtime.help());
        assert_eq!(*notes.lock(), ["nested", "outer"], "one call runs one job, besides nested calls");
        assert!(runtime.help());
        assert!(!runtime.help());
        assert_eq!(*notes.lock(), ["nested", "outer", "later"]);
    }

    #[test]
    fn a_pause_runs_one_job_and_takes_time() {
        let clock = Arc::new(StepClock::new());
        let runtime = Inline::new(Arc::clone(&clock));
        let notes = Notes::default();
        runtime.submit(Lane::Merge, noting(&notes, "one"));
        runtime.submit(Lane::Merge, noting(&notes, "two"));
        runtime.pause_us(250);
        assert_eq!((clock.now_us(), runtime.pending()), (250, 1));
        assert_eq!(*notes.lock(), ["one"]);
    }

    #[test]
    fn dropped_jobs_never_run() {
        let (runtime, notes) = (inline(), Notes::default());
        // The reference cycle of an engine: a job owns the owner of the runtime.
        let (cycle, job) = (Arc::clone(&runtime), noting(&notes, "never"));
        runtime.submit(
            Lane::Flush,
            Box::new(move || {
                let _cycle = cycle;
                job();
            }),
        );
        runtime.drop_pending();
        assert!(!runtime.help());
        assert!(notes.lock().is_empty());
        assert_eq!(Arc::strong_count(&runtime), 1);
    }

    #[test]
    fn a_seed_replays() {
        let draw = |seed| {
            let random = SeededRandom::new(seed);
            (0..100).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // The first outputs of the reference implementation for seed 1234567.
        assert_eq!(draw(1_234_567)[..2], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn below_reaches_every_number_and_no_other() {
        let random = SeededRandom::new(1);
        let mut seen = [0; 6];
        for _ in 0..600 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|times| *times > 50), "{seen:?}");
    }
}
