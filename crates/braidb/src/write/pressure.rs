//! Back-pressure: writes slow down smoothly as the engine falls behind, and wait at the hard limits.
//!
//! *Debt* is the distance to a hard limit: 0 at the soft mark, 1 at the hard limit, the largest over all limits. For each KiB a write has
//! to wait `2^(10 × debt) / 2` microseconds: about nothing near the soft mark, and 256 at a debt of 0.9, which lets 4 MiB/s through. Short
//! waits are added up until they make a sleep of 1 ms. All waiting happens here, before the write joins the commit queue (rule 16). So a
//! job that frees memory never stands behind a writer that waits for memory.

use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use braidb_storage::locks::{Condvar, Mutex};
use braidb_storage::{Clock, Lane, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Microseconds that the waits of writes add up to before a writer sleeps. The wake-up after a shorter sleep would cost too much.
const PAYMENT_US: u64 = 1_000;
/// How long a writer at a hard limit sleeps before it looks again without a notification.
const WAIT: Duration = Duration::from_millis(100);

/// Garbage of value files, in thousandths of the base, from which writes slow down: a little more than the collection of value files begins
/// at (`plan/values/collection.rs`, which defines the base). The garbage includes an estimate of what newer versions hide.
const GARBAGE_SOFT_PERMILLE: u64 = 415;
/// Garbage of value files, in thousandths of the base, at which the debt would be 1 without the bound [`MOST_GARBAGE_DEBT`]. The values of
/// collected files stand on the device twice for a time. Overwriting 2 GB of 1 and 4 KiB took value files to 1.44 to 1.56 of their live
/// bytes on two machines. With a soft mark of 470 and a hard mark of 530 the same load took them to 1.58 to 1.59.
const GARBAGE_HARD_PERMILLE: u64 = 475;
/// The most debt that garbage in value files makes. At 0.95 writers get 2.8 MiB through in a second and never stop. Garbage must not stop
/// them: the jobs may be unable to remove it, during a compaction of the user or on a full device.
const MOST_GARBAGE_DEBT: f64 = 0.95;

/// For each limit, the soft mark from which writes slow down and the hard limit at which they stop.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub memory_soft_bytes: u64,
    pub memory_hard_bytes: u64,
    pub l0_soft_tables: u64,
    pub l0_hard_tables: u64,
}

/// The debt of the engine, and the writers that wait until the jobs have reduced it.
#[derive(Debug)]
pub struct Pressure {
    marks: Marks,
    clock: Arc<dyn Clock>,
    runtime: Arc<dyn Runtime>,
    counters: Arc<Counters>,
    memory_bytes: AtomicU64,
    l0_tables: AtomicU64,
    garbage_permille: AtomicU64,
    owed_ns: AtomicU64,
    failures: Mutex<[Failures; 2]>,
    changed: Condvar,
}

/// The failures of one lane's jobs. A caller that waits for a flush is not told of a merge that failed meanwhile.
#[derive(Debug, Default)]
struct Failures {
    /// Number of failures so far, so that a waiter notices one that happened while it waited.
    count: u64,
    /// The latest failure, if no job of the lane succeeded since.
    last: Option<Error>,
}

impl Pressure {
    pub fn new(
        marks: Marks,
        clock: Arc<dyn Clock>,
        runtime: Arc<dyn Runtime>,
        counters: Arc<Counters>,
    ) -> Pressure {
        Pressure {
            marks,
            clock,
            runtime,
            counters,
            memory_bytes: AtomicU64::new(0),
            l0_tables: AtomicU64::new(0),
            garbage_permille: AtomicU64::new(0),
            owed_ns: AtomicU64::new(0),
            failures: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Whether memory could hold `bytes` more before writes wait.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.memory_bytes() + bytes <= self.marks.memory_hard_bytes
    }

    /// Memory became less: wakes the waiters, which look again.
    pub fn relieved(&self) {
        self.changed.notify_all();
    }

    pub fn set_l0_tables(&self, tables: u64) {
        self.l0_tables.store(tables, Ordering::Relaxed);
    }

    /// The garbage of value files, in thousandths of the base.
    pub fn set_garbage_permille(&self, permille: u64) {
        self.garbage_permille.store(permille, Ordering::Relaxed);
    }

    /// A job ended well: wakes the waiters, which look again.
    pub fn progressed(&self, lane: Lane) {
        self.failures.lock()[lane as usize].last = None;
        self.changed.notify_all();
    }

    /// A job failed, and so does not reduce the debt.
    pub fn failed(&self, lane: Lane, error: Error) {
        let failures = &mut self.failures.lock()[lane as usize];
        failures.count += 1;
        failures.last = Some(error);
        self.changed.notify_all();
    }

    /// How many jobs of each lane failed so far.
    pub fn failures(&self) -> [u64; 2] {
        self.failures.lock().each_ref().map(|failures| failures.count)
    }

    /// A failure of the lane's jobs since [`Pressure::failures`] gave `before`. `None` if a success followed, since a waiter then
    /// has no reason to give up.
    pub fn failure_since(&self, before: [u64; 2], lane: Lane) -> Option<Error> {
        let failures = &self.failures.lock()[lane as usize];
        failures.last.clone().filter(|_| failures.count != before[lane as usize])
    }

    /// The failure of the latest job of any lane, if no job of that lane succeeded since.
    pub fn last_failure(&self) -> Option<Error> {
        self.failures.lock().iter().find_map(|failures| failures.last.clone())
    }

    /// Whether back-pressure slows writes down.
    pub fn is_felt(&self) -> bool {
        self.debt().0 > 0.0
    }

    /// The largest debt, and the queue of background jobs that reduces it: flushes or merges.
    fn debt(&self) -> (f64, Lane) {
        let marks = &self.marks;
        let memory = share(self.memory_bytes(), marks.memory_soft_bytes, marks.memory_hard_bytes);
        let l0 = share(self.l0_tables.load(Ordering::Relaxed), marks.l0_soft_tables, marks.l0_hard_tables);
        let garbage_permille = self.garbage_permille.load(Ordering::Relaxed);
        let garbage =
            share(garbage_permille, GARBAGE_SOFT_PERMILLE, GARBAGE_HARD_PERMILLE).min(MOST_GARBAGE_DEBT);
        let merge = l0.max(garbage);
        if memory >= merge { (memory, Lane::Flush) } else { (merge, Lane::Merge) }
    }

    /// Lets a write of `bytes` in: at once below the soft marks, slowed down above, waiting at a hard limit.
    /// `wake_jobs` makes sure that the work which reduces the debt is under way, or returns why it never will be.
    ///
    /// # Errors
    ///
    /// At a hard limit, the failure of the job that would have reduced the debt.
    #[inline]
    pub fn admit(&self, bytes: usize, wake_jobs: &dyn Fn() -> Result<()>) -> Result<()> {
        let (debt, _) = self.debt();
        if debt <= 0.0 { Ok(()) } else { self.admit_slowly(bytes, debt, wake_jobs) }
    }

    #[cold]
    fn admit_slowly(&self, bytes: usize, debt: f64, wake_jobs: &dyn Fn() -> Result<()>) -> Result<()> {
        let start_us = self.clock.now_us();
        let outcome = if debt < 1.0 {
            let price_ns = (500.0 * libm::exp2(10.0 * debt) * bytes as f64 / 1024.0) as u64;
            let owed_ns = self.owed_ns.fetch_add(price_ns, Ordering::Relaxed) + price_ns;
            if owed_ns >= PAYMENT_US * 1000 {
                let owed_ns = self.owed_ns.swap(0, Ordering::Relaxed);
                self.counters.slowdowns.add(1);
                self.runtime.pause_us((owed_ns / 1000).min(100 * PAYMENT_US));
            }
            Ok(())
        } else {
            self.counters.stalls.add(1);
            self.wait(wake_jobs)
        };
        self.counters.stall_us.add(self.clock.now_us() - start_us);
        outcome
    }

    /// Waits until the debt is below the hard limit.
    fn wait(&self, wake_jobs: &dyn Fn() -> Result<()>) -> Result<()> {
        let before = self.failures();
        loop {
            wake_jobs()?;
            let helped = self.runtime.help();
            let (debt, lane) = self.debt();
            if debt < 1.0 {
                return Ok(());
            }
            if let Some(error) = self.failure_since(before, lane) {
                return Err(error);
            }
            if !helped {
                let mut failures = self.failures.lock();
                // A job that ended between `debt` and the lock notified no waiter; the time limit covers this case.
                self.changed.wait_for(&mut failures, WAIT);
            }
        }
    }
}

/// How far `value` has come from `soft` (0) to `hard` (1); not capped.
fn share(value: u64, soft: u64, hard: u64) -> f64 {
    debug_assert!(soft < hard);
    if value <= soft { 0.0 } else { (value - soft) as f64 / (hard - soft) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::inline::{Inline, StepClock};

    /// A user's compaction or a full device may keep the garbage, and only the writer may be able to end either.
    #[test]
    fn garbage_slows_writers_down_and_never_stops_them() {
        let clock = Arc::new(StepClock::new());
        let marks =
            Marks { memory_soft_bytes: 1, memory_hard_bytes: 2, l0_soft_tables: 1, l0_hard_tables: 2 };
        let (counters, runtime) = (Arc::new(Counters::default()), Arc::new(Inline::new(clock.clone())));
        let pressure = Pressure::new(marks, clock, runtime, counters.clone());
        let admit = || pressure.admit(1 << 20, &|| panic!("the writer waits for jobs"));
        pressure.set_garbage_permille(GARBAGE_SOFT_PERMILLE);
        admit().unwrap();
        assert_eq!(counters.slowdowns.get(), 0);
        for permille in [GARBAGE_HARD_PERMILLE, u64::MAX] {
            pressure.set_garbage_permille(permille);
            admit().unwrap();
        }
        assert_eq!((counters.slowdowns.get(), counters.stalls.get()), (2, 0));
    }
}
