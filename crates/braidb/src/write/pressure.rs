//! Back-pressure: writes slow down smoothly as the engine falls behind, and wait at the hard limits.
//!
//! *Debt* is the distance to a hard limit: 0 at the soft mark, 1 at the hard one, the largest over all limits. A write pays
//! `2^(10 × debt) / 2` microseconds for each KiB, which is about nothing near the soft mark and 4 MiB/s at 0.9. Small payments
//! are saved up until a sleep is worth its wake-up. All waiting happens here, before the write joins the commit
//! queue (rule 16), so that what frees memory never stands behind a writer that waits for it.

use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use braidb_storage::{Clock, Runtime};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Payments are made once they have added up to this.
const PAYMENT_US: u64 = 1_000;
/// How long a writer at a hard limit sleeps before it looks again by itself.
const WAIT: Duration = Duration::from_millis(100);

/// Where each limit starts to be felt and where writes stop.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub memory_soft_bytes: u64,
    pub memory_hard_bytes: u64,
    pub l0_soft_tables: u64,
    pub l0_hard_tables: u64,
}

/// What the engine owes, and who waits for it to be paid.
#[derive(Debug)]
pub struct Pressure {
    marks: Marks,
    clock: Arc<dyn Clock>,
    runtime: Arc<dyn Runtime>,
    counters: Arc<Counters>,
    memory_bytes: AtomicU64,
    l0_tables: AtomicU64,
    owed_ns: AtomicU64,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Counts failures of jobs, so that a waiter notices one that happened while it waited.
    failures: u64,
    last_failure: Option<Error>,
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
            owed_ns: AtomicU64::new(0),
            progress: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    pub fn set_l0_tables(&self, tables: u64) {
        self.l0_tables.store(tables, Ordering::Relaxed);
    }

    /// A job ended or a limit changed: whoever waits looks again.
    pub fn progressed(&self) {
        let mut progress = self.progress.lock();
        progress.last_failure = None;
        self.changed.notify_all();
    }

    /// A job failed and cannot pay what the engine owes.
    pub fn failed(&self, error: Error) {
        let mut progress = self.progress.lock();
        progress.failures += 1;
        progress.last_failure = Some(error);
        self.changed.notify_all();
    }

    /// The failure of the latest job, if none succeeded since.
    pub fn last_failure(&self) -> Option<Error> {
        self.progress.lock().last_failure.clone()
    }

    fn debt(&self) -> f64 {
        let marks = &self.marks;
        let memory = share(self.memory_bytes(), marks.memory_soft_bytes, marks.memory_hard_bytes);
        let l0 = share(self.l0_tables.load(Ordering::Relaxed), marks.l0_soft_tables, marks.l0_hard_tables);
        memory.max(l0)
    }

    /// Lets a write of `bytes` in: at once below the soft marks, slowed down above, waiting at a hard limit.
    /// `wake_jobs` makes sure that the work which pays is under way, or says why it never will be.
    ///
    /// # Errors
    ///
    /// At a hard limit, the failure of the work that would have paid.
    #[inline]
    pub fn admit(&self, bytes: usize, wake_jobs: &dyn Fn() -> Result<()>) -> Result<()> {
        let debt = self.debt();
        if debt <= 0.0 { Ok(()) } else { self.admit_slowly(bytes, debt, wake_jobs) }
    }

    #[cold]
    fn admit_slowly(&self, bytes: usize, debt: f64, wake_jobs: &dyn Fn() -> Result<()>) -> Result<()> {
        let start_us = self.clock.now_us();
        let outcome = if debt < 1.0 {
            let price_ns = (500.0 * (10.0 * debt).exp2() * bytes as f64 / 1024.0) as u64;
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
        let failures = self.progress.lock().failures;
        loop {
            wake_jobs()?;
            let helped = self.runtime.help();
            let mut progress = self.progress.lock();
            if self.debt() < 1.0 {
                return Ok(());
            }
            // A failure that a success followed is no reason to give up.
            if progress.failures != failures
                && let Some(error) = &progress.last_failure
            {
                return Err(error.clone());
            }
            if !helped {
                self.changed.wait_for(&mut progress, WAIT);
            }
        }
    }
}

/// How far `value` has come from `soft` to `hard`; not capped.
fn share(value: u64, soft: u64, hard: u64) -> f64 {
    debug_assert!(soft < hard);
    if value <= soft { 0.0 } else { (value - soft) as f64 / (hard - soft) as f64 }
}
