//! Flushing sets that wait for a flush job, oldest first.
//!
//! The commit queue adds a task under the commit lock when it switches a memtable. The scheduler takes tasks, and puts a task
//! back if its flush failed. The queue has its own lock, so that the scheduler need not wait for a commit.

use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::memory::Immutable;
use braidb_storage::locks::Mutex;
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

/// The queue of flush tasks, shared by commit queue and scheduler.
#[derive(Debug, Default)]
pub struct FlushQueue {
    tasks: Mutex<VecDeque<FlushTask>>,
}

impl FlushQueue {
    pub(super) fn add(&self, task: FlushTask) {
        self.tasks.lock().push_back(task);
    }

    /// The oldest task, if there is one.
    pub fn take(&self) -> Option<FlushTask> {
        self.tasks.lock().pop_front()
    }

    /// Whether a task waits to be taken.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// Puts back a task whose flush failed, to be tried again before the others.
    pub fn put_back(&self, task: FlushTask) {
        self.tasks.lock().push_front(task);
    }
}
