//! Flushing sets that wait for a flush job, oldest first. Sets that were switched in one step are flushed together, with one edit, or with
//! one for each thousand.
//!
//! The commit queue adds a task under the commit lock when it switches a memtable. The scheduler takes tasks, and puts a task
//! back if its flush failed. The queue has its own lock, so that the scheduler need not wait for a commit.

use crate::base::foreground::ForegroundMutex;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::memory::Immutable;
use std::collections::VecDeque;
use std::sync::Arc;

/// A flushing set: all memory of a family, waiting to become a table.
#[derive(Clone, Debug)]
pub struct FlushTask {
    pub family: FamilyId,
    /// Newest first.
    pub segments: Arc<[Immutable]>,
    /// The log that began with the switch. Once the table is in the manifest, `family` replays from here.
    pub replay_from: FileId,
    /// Families that had nothing in memory at the switch. They need no older log either.
    pub idle: Vec<FamilyId>,
    /// Whether hot keys may stay in memory. They may not if a caller waits for tables.
    pub may_keep: bool,
    /// How often the family was written since the previous switch.
    pub writes: u64,
    /// The largest number at the switch: the set holds numbers up to this one, and later writes larger ones.
    pub last_seq: SeqNo,
}

/// One job takes at most 1,024 flushing sets, so that their edit has at most about 100 KB.
const MOST_TOGETHER: usize = 1024;

/// The queue of flush tasks, shared by commit queue and scheduler.
#[derive(Debug, Default)]
pub struct FlushQueue {
    tasks: ForegroundMutex<VecDeque<FlushTask>>,
}

impl FlushQueue {
    pub(super) fn add(&self, task: FlushTask) {
        self.tasks.lock().push_back(task);
    }

    /// The oldest tasks that began with one switch. Empty if no task waits.
    pub fn take(&self) -> Vec<FlushTask> {
        let mut tasks = self.tasks.lock();
        let first = tasks.front().map(|task| task.replay_from);
        let together = tasks.iter().take(MOST_TOGETHER).take_while(|task| Some(task.replay_from) == first);
        let together = together.count();
        tasks.drain(..together).collect()
    }

    /// Whether a task waits to be taken.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// Puts back the tasks of a job that failed, to be tried again before the others.
    pub fn put_back(&self, tasks: Vec<FlushTask>) {
        let mut waiting = self.tasks.lock();
        tasks.into_iter().rev().for_each(|task| waiting.push_front(task));
    }
}
