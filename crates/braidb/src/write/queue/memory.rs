//! What the commit queue does about full memory and full logs, and the steps in which log and memory change together.
//!
//! After each commit the room compares counters with limits. If one is reached, [`decide`] says what is most urgent. Rolling a segment and
//! compacting memory concern no file. Switching a memtable rotates the log and gives a flush all memory of a family in one step. So
//! positions decide what recovery replays (rule 3).

use super::{CommitQueue, Core};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId};
use crate::memory::Immutable;
use crate::plan::memory::limits::{MemoryAction, MemoryState, WriteBack, decide, largest};
use crate::version::Version;
use crate::write::flush_queue::FlushTask;
use crate::write::room::{Kept, MemoryRoom};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What a step under the commit lock, mostly a commit, wants the jobs to do beside the writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the jobs do not begin by themselves"]
pub struct Wants {
    /// A memtable was switched: its flush waits in the queue.
    pub flush: bool,
    /// A pipeline has a new segment, or must be compacted.
    pub memory_compaction: bool,
    /// A log was closed because it was full: the oldest logs may be collected.
    pub log_collection: bool,
    /// Logs are full, and small families keep them: the families are written back.
    pub write_back: bool,
}

/// The memory room, behind the commit lock. The lock is held until the guard drops.
pub struct RoomGuard<'a>(super::Held<'a>);

impl Deref for RoomGuard<'_> {
    type Target = MemoryRoom;

    fn deref(&self) -> &MemoryRoom {
        &self.0.room
    }
}

impl DerefMut for RoomGuard<'_> {
    fn deref_mut(&mut self) -> &mut MemoryRoom {
        &mut self.0.room
    }
}

impl CommitQueue {
    /// The memory of all families, under the commit lock.
    pub fn room(&self) -> RoomGuard<'_> {
        RoomGuard(self.lock())
    }

    /// After a commit: makes room if a counter shows that memory or logs may be full.
    pub(super) fn make_room_if_full(&self, core: &mut Core) {
        let log_bytes = self.shared.log_sync.appended();
        let waits = core.write_back == WriteBack::Asked && !core.room.limits().must_free_logs(log_bytes);
        let is_triggered = core.room.is_triggered(if waits { 0 } else { log_bytes });
        if is_triggered || core.log.end() >= core.rotate_at_bytes {
            self.make_room(core);
        }
    }

    /// Carries out what memory and logs need. If switching a memtable fails, the write that triggered it still succeeds.
    /// `switch_failed` keeps the error; the next write at a hard limit retries and returns it.
    pub(super) fn make_room(&self, core: &mut Core) {
        core.switch_failed = None;
        loop {
            let families = core.room.states();
            let state = MemoryState {
                families: &families,
                log_bytes: self.shared.log_sync.appended(),
                is_log_full: core.log.end() >= core.rotate_at_bytes,
                are_tables_requested: core.room.are_tables_requested(),
                write_back: core.write_back,
            };
            match decide(&state, core.room.limits()) {
                MemoryAction::Nothing => return,
                MemoryAction::Roll(family) => {
                    core.room.roll(family);
                    core.wants.memory_compaction = true;
                }
                MemoryAction::CompactFull(family) => {
                    core.room.compact_full(family);
                    core.wants.memory_compaction = true;
                }
                MemoryAction::CloseLog => self.rotate_full_log(core),
                MemoryAction::WriteBack => {
                    core.write_back = WriteBack::Asked;
                    core.wants.write_back = true;
                }
                MemoryAction::FlushSmall => {
                    let families = core.room.small();
                    core.switch_failed = self.switch_memtables(core, &families, false).err();
                    return;
                }
                MemoryAction::FlushLargest => {
                    let families = largest(&families).into_iter().map(|index| FamilyId(index as u32));
                    let families: Vec<FamilyId> = families.collect();
                    core.switch_failed = self.switch_memtables(core, &families, false).err();
                    return;
                }
                MemoryAction::Flush { family, may_keep } => {
                    let family = FamilyId(family as u32);
                    core.switch_failed = self.switch_memtables(core, &[family], may_keep).err();
                    return;
                }
            }
        }
    }

    /// Rotates the log and turns all memory of the families into flush tasks, in one step.
    pub(super) fn switch_memtables(
        &self,
        core: &mut Core,
        families: &[FamilyId],
        may_keep: bool,
    ) -> Result<()> {
        if families.is_empty() {
            return Ok(());
        }
        // The flush copies the keys that stay in memory to the log that begins now.
        let replay_from = self.rotate_for(core, may_keep)?;
        core.room.switch(families, replay_from, core.last_seq, may_keep);
        core.wants.flush = true;
        Ok(())
    }

    /// Switches the memtables of all families that have something in memory and are not being flushed, with one log. Returns how many
    /// flushes of each family will have ended when those under way have. The caller schedules the flushes.
    pub fn switch_all_memtables(&self) -> Result<Vec<u64>> {
        let mut core = self.lock();
        self.shared.health.check_writable()?;
        let families = core.room.flushable();
        self.switch_memtables(&mut core, &families, false)?;
        Ok(core.room.switches())
    }

    /// The flush's edit is durable: tables and hot keys take the place of the flushing sets. No family replays logs before
    /// `replay_from` any more.
    pub fn finish_flush(&self, flushed: Vec<(&FlushTask, Kept, Arc<Version>)>, replay_from: FileId) {
        let mut core = self.lock();
        core.logs_by_seq.forget_below(replay_from);
        core.room.flushed(flushed);
        core.write_back = WriteBack::Possible;
    }

    /// Call it after a job has freed memory or logs. The scheduler runs afterwards and carries out what this step wants.
    pub fn room_was_given_back(&self) {
        let mut core = self.lock();
        // Memory may be over its bound again. A memtable that could not be switched beside this flush can be switched now.
        if self.shared.health.check_writable().is_ok() {
            self.make_room(&mut core);
        }
    }

    /// The bug that the mutant `hot_installed_late` plants: hot keys enter the view in a swap of their own.
    pub fn keep_hot(&self, family: FamilyId, hot: Immutable) {
        let mut core = self.lock();
        let log = core.log.id();
        core.room.keep_hot(family, hot, log);
    }

    /// Tries again to switch a memtable if the last try failed because there was no room for a new log.
    ///
    /// # Errors
    ///
    /// The reason why the switch failed.
    pub fn retry_switch(&self) -> Result<Wants> {
        let mut core = self.lock();
        self.shared.health.check_writable()?;
        if core.switch_failed.is_some() {
            self.make_room(&mut core);
        }
        match &core.switch_failed {
            Some(error) => Err(error.clone()),
            None => Ok(core.take_wants()),
        }
    }
}

impl Core {
    /// Takes what commits want to have done and no thread was told of yet.
    pub(super) fn take_wants(&mut self) -> Wants {
        std::mem::take(&mut self.wants)
    }
}
