//! Running jobs: what each holds, and how it is given back, whatever becomes of the job.

use super::Jobs;
use crate::base::error::Result;
use crate::plan::{Plan, Ticket};
use crate::version::Version;
use crate::write::FlushTask;
use braidb_storage::Lane;
use std::sync::Arc;

/// A job between its submission and its end. What the job holds is given back in any case: after its run, after a panic, and if a runtime
/// that ends drops the job.
pub(super) struct Running {
    pub jobs: Arc<Jobs>,
    /// `None` once it ended.
    pub work: Option<Work>,
}

/// The thread that carries out a step of `compact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOn {
    Caller,
    MergeThread,
}

/// What a running merge is counted as. At most one bought merge and one move run at a time.
#[derive(Clone, Copy)]
pub(super) struct MergeKind {
    /// The merge was started because its rent had reached its price.
    pub is_bought: bool,
    /// The merge moves a cell to another tier.
    pub is_move: bool,
    /// The merge is a step of `compact`.
    pub step: Option<StepOn>,
}

/// What a job does, and holds meanwhile.
pub(super) enum Work {
    /// The flushing sets that no edit names yet.
    Flush(Vec<FlushTask>),
    Merge(Ticket, MergeKind),
    /// A subcompaction for a merge of another thread, or what a reader asked for: a question to the planner, or files to give back.
    Help,
    LogCollection {
        /// Whether only small families keep the logs.
        of_small: bool,
        /// False once the job has found no log that pays to be collected.
        frees: bool,
    },
}

impl Work {
    fn lane(&self) -> Lane {
        match self {
            Work::Flush(_) | Work::LogCollection { .. } => Lane::Flush,
            Work::Merge(..) | Work::Help => Lane::Merge,
        }
    }
}

impl Running {
    pub fn flush(mut self) {
        let Some(Work::Flush(tasks)) = &mut self.work else { unreachable!("a flush was submitted") };
        let outcome = self.jobs.flush_tasks(tasks).map_err(|error| self.jobs.blame(error));
        self.end(outcome.is_ok());
        self.jobs.end_job(Lane::Flush, outcome);
    }

    pub fn merge(mut self, plan: Plan, version: Arc<Version>) -> Result<()> {
        let Some(Work::Merge(ticket, _)) = &self.work else { unreachable!("a plan was submitted") };
        let claims = plan.claims().to_vec();
        let outcome = self.jobs.execute(plan, version, ticket).map_err(|error| self.jobs.blame(error));
        let others_go_on = outcome
            .as_ref()
            .is_err_and(|error| self.jobs.met_damage(error, &claims) || self.jobs.met_failed_tier(error));
        self.end(outcome.is_ok());
        self.jobs.end_job(Lane::Merge, outcome.clone());
        if others_go_on {
            self.jobs.schedule();
        }
        outcome
    }

    pub fn help(mut self, help: impl FnOnce(&Arc<Jobs>)) {
        help(&self.jobs);
        self.end(true);
    }

    /// Gives back what the job holds. The flushing sets of a failed flush wait at the head of the queue for the next call of
    /// `schedule`.
    pub fn end(&mut self, is_done: bool) {
        let Some(work) = self.work.take() else { return };
        let mut catalog = self.jobs.catalog.lock();
        match work {
            Work::Flush(tasks) => {
                catalog.flush_gave_back();
                if !is_done {
                    self.jobs.parts.shared.flushes.put_back(tasks);
                }
            }
            Work::Merge(ticket, kind) => catalog.merge_gave_back(ticket, kind),
            Work::Help => {}
            Work::LogCollection { of_small, frees } => {
                catalog.log_collection_gave_back();
                self.jobs.parts.queue.end_copies();
                if of_small {
                    self.jobs.parts.queue.end_write_back(!is_done || !frees);
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The database is poisoned before the work is given back: no job takes up what a panic left half done.
        if let Some(work) = &self.work
            && std::thread::panicking()
        {
            self.jobs
                .parts
                .shared
                .pressure
                .failed(work.lane(), self.jobs.parts.shared.health.poison_after_panic());
        }
        self.end(false);
        self.jobs.catalog.lock().job_ended();
        self.jobs.ended.notify_all();
    }
}
