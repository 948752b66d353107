//! Background work and time: jobs that run on the caller's thread, in the virtual time of a worker.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use braidb_storage::{Clock, Job, Lane, Runtime};
use parking_lot::Mutex;

use crate::kernel::State;

/// Most jobs that one [`TestbedRuntime::run_due`] runs. A job that fails at once, and is submitted again at once, must
/// not hold up the caller.
const MOST_DUE: usize = 64;

/// The clock of the current actor. It jumps back when a job begins that was submitted long ago, and forward after the
/// job. For each actor it is monotonic.
#[derive(Debug)]
pub struct TestbedClock {
    pub(crate) state: Arc<Mutex<State>>,
}

impl Clock for TestbedClock {
    fn now_us(&self) -> u64 {
        self.state.lock().actors.now_ns() / 1_000
    }
}

/// The stepped runtime of the testbed.
#[derive(Debug)]
pub struct TestbedRuntime {
    pub(crate) state: Arc<Mutex<State>>,
}

impl TestbedRuntime {
    /// Runs the job with the earliest expected end, if this end is not later than `limit_ns`. Returns whether there was
    /// one. The state is not locked while the job runs, so the job may call everything here.
    fn run(&self, limit_ns: Option<u64>, waits: bool) -> bool {
        let Some((job, turn)) = self.state.lock().actors.begin(limit_ns) else { return false };
        let outcome = catch_unwind(AssertUnwindSafe(job));
        self.state.lock().actors.end(turn, waits);
        // A panic passes to the caller, so a test fails with it.
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
        true
    }

    /// Runs the jobs whose expected end is not later than now; a job is expected to take the usual time of its lane.
    /// Does not wait for their ends.
    pub(crate) fn run_due(&self) {
        let now_ns = self.state.lock().actors.now_ns();
        (0..MOST_DUE).take_while(|_| self.run(Some(now_ns), false)).count();
    }
}

impl Runtime for TestbedRuntime {
    fn submit(&self, lane: Lane, job: Job) {
        self.state.lock().actors.submit(lane, job);
    }

    /// Runs one job; the caller's clock is then not before the job's end.
    fn help(&self) -> bool {
        self.run(None, true)
    }

    fn is_stepped(&self) -> bool {
        true
    }

    /// The caller sleeps. Then a job runs if its expected end is not later than now; the caller does not wait for its
    /// end. On threads, too, a pause does not guarantee the end of a job.
    fn pause_us(&self, us: u64) {
        let now_ns = {
            let mut state = self.state.lock();
            state.actors.sleep(us.max(1) * 1_000);
            state.actors.now_ns()
        };
        self.run(Some(now_ns), false);
    }
}
