//! The commit queue: every write passes here, one group at a time.
//!
//! A writer that finds the commit lock free commits alone, with no queue and no wake-up. Otherwise it leaves its batch in the
//! waiting list, and whoever has the lock next commits all that wait as one group, with one append and at most one sync. Where
//! writers meet all the time, one of them goes on to lead (`queue/waiting.rs`).
//!
//! A group: numbers are assigned, the log is appended to, and synced if a member asks for it; then the batches enter memory
//! and their numbers are published. Nothing is visible or acknowledged before it is as durable as its writer asked. When memory
//! is full, the leader freezes a family in the same step: the log rotates, so that positions decide what is replayed (rule 3).
//! When only the active segment is, the leader rolls it into the pipeline, which concerns no file; nor does it if full memory is
//! condensed instead of flushed (`queue/room.rs`).

pub mod collection;
pub mod room;
mod waiting;

use self::room::{ActiveFamily, FlushTask};
use self::waiting::{Batch, GroupVec, SERVED_EVERY, SpinPolicy, Waiter, Waiting};
use super::{Health, Pressure};
use crate::base::counters::Counters;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId, FileIds, SeqNo};
use crate::log::{EncodedBatch, LogSync, LogWriter};
use crate::memory::view::{FamilyView, View, ViewCell};
use crate::memory::{LogsBySeq, Memory, SegmentWriter};
use crate::plan::memory::heat::HeatOptions;
use crate::version::{DirLock, Version};
use crate::visible::EntryKind;
use crate::visible::snapshots::Snapshots;
use braidb_storage::Random;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A scratch batch that grew beyond this is given back after the write.
const SCRATCH_BYTES: usize = 256 << 10;

/// Limits of the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// An active segment goes to the pipeline at this; `u64::MAX` if none does.
    pub active_bytes: u64,
    /// But not to a pipeline of so many segments: whoever tidies it is behind, and a larger active segment serves better.
    pub pipeline_limit: usize,
    /// Live logs beyond this make the oldest one's family flush.
    pub log_bytes: u64,
    /// A log is closed at this size.
    pub log_file_bytes: u64,
    /// What stays in memory when it is full.
    pub heat: HeatOptions,
    /// Room on the device that puts leave for the largest merge; and as much again as memory holds, for its flush.
    pub merge_reserve_bytes: u64,
}

/// The one way into the log and into memory.
#[derive(Debug)]
pub struct CommitQueue {
    options: QueueOptions,
    core: Mutex<Core>,
    waiting: Waiting,
    flushes: Mutex<VecDeque<FlushTask>>,
    /// A freeze happened that nobody told the jobs about yet.
    flush_requested: AtomicBool,
    /// A roll did.
    rolled: AtomicBool,
    /// A log was closed because it was full.
    log_full: AtomicBool,
    shared: Shared,
}

/// What the holder of the commit lock may touch.
#[derive(Debug)]
struct Core {
    log: LogWriter,
    /// By family id.
    families: Vec<ActiveFamily>,
    last_seq: SeqNo,
    logs_by_seq: LogsBySeq,
    /// The log is closed when it ends here.
    rotate_at_bytes: u64,
    /// A write-back is under way: the header of each new log says that it may hold copies.
    takes_copies: bool,
    /// That of the log that is written says so.
    log_takes_copies: bool,
    scratch: EncodedBatch,
    /// Commits of leaders' own while somebody waited, since those were served.
    unserved: u32,
    /// Bytes of all flushing sets.
    flushing_bytes: u64,
    /// Callers who wait for all memory to be in tables.
    tables_wanted: usize,
    /// A rotation found no room; memory stays as it is until the disk has some.
    switch_failed: Option<Error>,
}

/// The commit lock. Whoever panics under it leaves numbers and frames that may not be taken again (rule 3), so the database
/// is poisoned before the next one gets in.
struct Held<'a> {
    core: MutexGuard<'a, Core>,
    health: &'a Health,
    /// A write from a destructor, while a panic that has nothing to do with us unwinds.
    was_panicking: bool,
}

impl<'a> Held<'a> {
    fn new(core: MutexGuard<'a, Core>, health: &'a Health) -> Held<'a> {
        Held { core, health, was_panicking: std::thread::panicking() }
    }
}

impl Deref for Held<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.health.poison_after_panic();
        }
    }
}

/// What recovery hands over: where each family stands.
#[derive(Debug)]
pub struct RecoveredFamily {
    pub writer: SegmentWriter,
    pub first_log: Option<FileId>,
    pub version: Arc<Version>,
}

/// Everything that the queue shares with the rest of the engine.
#[derive(Debug)]
pub struct Shared {
    pub log_sync: Arc<LogSync>,
    pub view: Arc<ViewCell>,
    pub snapshots: Arc<Snapshots>,
    pub health: Arc<Health>,
    pub dir_lock: Arc<DirLock>,
    pub pressure: Arc<Pressure>,
    pub files: Arc<FileIds>,
    pub random: Arc<dyn Random>,
    pub counters: Arc<Counters>,
}

impl Deref for CommitQueue {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl CommitQueue {
    /// A queue that appends to `log`, over the families that recovery brought back. Fills the view.
    pub fn new(
        options: QueueOptions,
        log: LogWriter,
        last_seq: SeqNo,
        recovered: Vec<RecoveredFamily>,
        mut logs_by_seq: LogsBySeq,
        shared: Shared,
    ) -> CommitQueue {
        logs_by_seq.log_began(last_seq + 1, log.id());
        let mut families = Vec::new();
        let mut view = View::default();
        for family in recovered {
            let memory = Memory::new(family.writer.segment().clone());
            view.families.push(FamilyView { memory, version: family.version });
            families.push(ActiveFamily::new(family.writer, family.first_log));
        }
        shared.view.update(|current| *current = view);
        let core = Core {
            log,
            families,
            last_seq,
            logs_by_seq,
            rotate_at_bytes: options.log_file_bytes,
            takes_copies: false,
            log_takes_copies: false,
            scratch: EncodedBatch::default(),
            unserved: 0,
            flushing_bytes: 0,
            tables_wanted: 0,
            switch_failed: None,
        };
        let queue = CommitQueue {
            options,
            core: Mutex::new(core),
            waiting: Waiting::default(),
            flushes: Mutex::default(),
            flush_requested: AtomicBool::new(false),
            rolled: AtomicBool::new(false),
            log_full: AtomicBool::new(false),
            shared,
        };
        queue.make_room(&mut queue.lock());
        queue
    }

    fn lock(&self) -> Held<'_> {
        Held::new(self.core.lock(), &self.shared.health)
    }

    fn try_lock(&self) -> Option<Held<'_>> {
        self.core.try_lock().map(|core| Held::new(core, &self.shared.health))
    }

    /// Commits one put, or a delete where `value` is `None`.
    pub fn commit_one(
        &self,
        family: FamilyId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let fill = |batch: &mut EncodedBatch| match value {
            Some(value) => batch.push_put(family, key, value),
            None => batch.push_delete(family, key),
        };
        if let Some(mut core) = self.try_lead(durability) {
            let mut batch = std::mem::take(&mut core.scratch);
            batch.clear();
            fill(&mut batch);
            let outcome = self.commit_group(&mut core, &[&batch], durability);
            if batch.bytes() <= SCRATCH_BYTES {
                core.scratch = batch;
            }
            self.serve(&mut core);
            return outcome;
        }
        let mut batch = EncodedBatch::with_room_for(key, value);
        fill(&mut batch);
        self.commit_waiting(Waiter::new(Batch::Own(batch), durability))
    }

    /// Commits a batch, which is not empty.
    pub fn commit_batch(&self, batch: &Arc<EncodedBatch>, durability: Durability) -> Result<()> {
        if let Some(mut core) = self.try_lead(durability) {
            let outcome = self.commit_group(&mut core, &[batch], durability);
            self.serve(&mut core);
            return outcome;
        }
        self.commit_waiting(Waiter::new(Batch::Shared(batch.clone()), durability))
    }

    /// The commit lock, if it is free and not better left to somebody else.
    fn try_lead(&self, durability: Durability) -> Option<Held<'_>> {
        let joins_others = match durability {
            Durability::None | Durability::Buffer => {
                self.waiting.leader().is_trusted_other(self.core.is_locked())
            }
            // One sync for all.
            Durability::Sync => !self.waiting.is_empty(),
        };
        if joins_others {
            return None;
        }
        let core = self.try_lock()?;
        self.waiting.leader().is_me(durability);
        Some(core)
    }

    /// Leaves the batch to whoever leads next, maybe this thread.
    fn commit_waiting(&self, waiter: Waiter) -> Result<()> {
        let waiter = Arc::new(waiter);
        self.waiting.push(waiter.clone());
        let leader = self.waiting.leader();
        let spins = SpinPolicy::new(leader.is_trusted());
        let may_spin = waiter.durability < Durability::Sync;
        for spin in (0..).take_while(|&spin| may_spin && spins.goes_on(spin)) {
            if let Some(outcome) = waiter.outcome() {
                return outcome;
            }
            if spins.may_take_lock(spin)
                && !self.core.is_locked()
                && let Some(core) = self.try_lock()
            {
                if spins.waits_for_leader() && waiter.outcome().is_none() {
                    leader.stayed_away();
                }
                return self.lead_until_done(core, &waiter);
            }
            spins.pause(spin);
        }
        if self.waiting.may_sleep(&waiter) {
            waiter.sleep();
            if let Some(outcome) = waiter.outcome() {
                return outcome;
            }
        }
        self.lead_until_done(self.lock(), &waiter)
    }

    /// Commits groups until the waiter was in one.
    fn lead_until_done(&self, mut core: Held<'_>, waiter: &Waiter) -> Result<()> {
        loop {
            if let Some(outcome) = waiter.outcome() {
                return outcome;
            }
            self.waiting.leader().is_me(waiter.durability);
            self.lead(&mut core, Durability::Sync);
        }
    }

    /// After a commit of the leader's own: commits those who wait, if it is their turn, but for those who want a sync.
    fn serve(&self, core: &mut Core) {
        if self.waiting.is_empty() {
            return;
        }
        core.unserved += 1;
        if core.unserved >= SERVED_EVERY {
            self.lead(core, Durability::Buffer);
        }
    }

    /// Commits the oldest waiters as one group, of those who ask for no more than `most`.
    fn lead(&self, core: &mut Core, most: Durability) {
        core.unserved = 0;
        let group = self.waiting.take(most, &self.health);
        let Some(durability) = group.waiters().iter().map(|waiter| waiter.durability).max() else { return };
        let batches: GroupVec<&EncodedBatch> = group.waiters().iter().map(|waiter| &*waiter.batch).collect();
        let outcome = self.commit_group(core, &batches, durability);
        drop(batches);
        match outcome {
            // Nothing was written. One at a time, so that a large batch does not fail the small ones, nor a put the
            // deletes that may use the reserve.
            Err(error) if error.is_full() && group.waiters().len() > 1 => {
                group.end(|waiter| self.commit_group(core, &[&waiter.batch], waiter.durability));
            }
            outcome => group.end(|_| outcome.clone()),
        }
    }

    fn commit_group(&self, core: &mut Core, group: &[&EncodedBatch], durability: Durability) -> Result<()> {
        self.health.check_writable()?;
        let first = core.last_seq + 1;
        let end = self.append(core, group, first, durability >= Durability::Buffer)?;
        if durability >= Durability::Sync {
            self.sync_through(core.log.id(), end)?;
        }
        let log = core.log.id();
        let mut seq = first;
        let mut user_bytes = 0;
        for batch in group {
            for entry in batch.entries() {
                let family = &mut core.families[entry.family.0 as usize];
                family.first_log.get_or_insert(log);
                family.writer.insert(entry.key, seq, entry.kind, entry.value);
                user_bytes +=
                    entry.key.len() + if entry.kind == EntryKind::Put { entry.value.len() } else { 0 };
                seq += 1;
            }
        }
        core.last_seq = seq - 1;
        self.snapshots.publish(core.last_seq);
        self.counters.user_ops.add(seq - first);
        self.counters.user_bytes.add(user_bytes as u64);
        self.counters.log_groups.add(1);
        self.make_room(core);
        Ok(())
    }

    /// Appends the group to the log; returns where it ends.
    fn append(&self, core: &mut Core, group: &[&EncodedBatch], first: SeqNo, write_out: bool) -> Result<u64> {
        let reserve_bytes = self.options.merge_reserve_bytes + self.pressure.memory_bytes();
        core.log.set_reserve_bytes(reserve_bytes);
        let appended = if let [only] = group {
            core.log.append(&[(only, first)], write_out)
        } else {
            let mut seq = first;
            let mut numbered = GroupVec::new();
            for batch in group {
                numbered.push((*batch, seq));
                seq += batch.count() as u64;
            }
            core.log.append(&numbered, write_out)
        };
        appended.map_err(|error| self.judge(error))
    }

    /// After a failure of the log: poisons unless the log says that nothing was written.
    fn judge(&self, error: Error) -> Error {
        match self.log_sync.failure() {
            Some(_) => self.health.poison(error),
            None => error,
        }
    }

    /// Whether so many flushes of each family ended.
    pub fn has_flushed(&self, flush_requested: &[u64]) -> bool {
        let core = self.lock();
        core.families
            .iter()
            .zip(flush_requested)
            .all(|(family, &flush_requested)| family.flushed >= flush_requested)
    }

    /// Whether a freeze happened since this was asked last. Writers ask after each commit and wake the jobs, since nobody
    /// may do so while holding the commit lock.
    #[inline]
    pub fn take_flush_requested(&self) -> bool {
        self.flush_requested.load(Ordering::Relaxed) && self.flush_requested.swap(false, Ordering::AcqRel)
    }

    /// As [`CommitQueue::take_flush_requested`], for rolls.
    #[inline]
    pub fn take_rolled(&self) -> bool {
        self.rolled.load(Ordering::Relaxed) && self.rolled.swap(false, Ordering::AcqRel)
    }

    /// As [`CommitQueue::take_flush_requested`], for logs that were closed because they were full.
    #[inline]
    pub fn take_log_full(&self) -> bool {
        self.log_full.load(Ordering::Relaxed) && self.log_full.swap(false, Ordering::AcqRel)
    }

    /// The oldest flush task, if there is one.
    pub fn take_flush(&self) -> Option<FlushTask> {
        self.flushes.lock().pop_front()
    }

    /// Whether a flush waits to be taken.
    pub fn has_flushes(&self) -> bool {
        !self.flushes.lock().is_empty()
    }

    /// A flush that failed will be tried again, before the others.
    pub fn return_flush(&self, task: FlushTask) {
        self.flushes.lock().push_front(task);
    }

    /// Adds an empty family at the end of the list.
    pub fn add_family(&self, version: Arc<Version>) -> FamilyId {
        let mut core = self.lock();
        let (segment, writer) = self.new_segment();
        let id = FamilyId(core.families.len() as u32);
        core.families.push(ActiveFamily::new(writer, None));
        self.view.update(|view| view.families.push(FamilyView { memory: Memory::new(segment), version }));
        id
    }

    /// Raises all earlier writes to `durability`.
    pub fn persist(&self, durability: Durability) -> Result<()> {
        let (log, end) = {
            let mut core = self.lock();
            self.health.check_writable()?;
            if durability >= Durability::Buffer {
                core.log.write_out().map_err(|error| self.health.poison(error))?;
            }
            (core.log.id(), core.log.end())
        };
        if durability >= Durability::Sync {
            self.sync_through(log, end)?;
        }
        Ok(())
    }

    /// Makes the logs stable up to here. A process that opens the database after this, whether it should or not, replays them.
    fn sync_through(&self, log: FileId, end: u64) -> Result<()> {
        let synced = self.log_sync.sync_through(log, end).and_then(|()| self.dir_lock.check());
        synced.map_err(|error| match error {
            // `close` let go of the directory after the sync of a `persist`, which holds no lock. Nothing failed.
            Error::Closed => error,
            error => self.health.poison(error),
        })
    }

    /// The log that is written, and how much of it the operating system has.
    pub fn written_out(&self) -> Result<(FileId, u64)> {
        let mut core = self.lock();
        if self.health.check_unpoisoned().is_ok() {
            core.log.write_out().map_err(|error| self.health.poison(error))?;
        }
        Ok((core.log.id(), core.log.end()))
    }

    /// Syncs every log before `log`, and `log`'s own header, oldest first: what a flush relies on (rule 2).
    pub fn sync_before(&self, log: FileId) -> Result<()> {
        {
            let mut core = self.lock();
            self.health.check_unpoisoned()?;
            core.log.write_out().map_err(|error| self.health.poison(error))?;
        }
        self.log_sync.sync_through(log, crate::log::HEADER_BYTES).map_err(|error| self.health.poison(error))
    }

    /// Closes the log with a footer and syncs it: the last write of this open. Returns its id and final length. All else
    /// is synced before the footer is written, so that the footer's mark vouches for it.
    pub fn seal(&self) -> Result<(FileId, u64)> {
        let mut core = self.lock();
        self.health.check_unpoisoned()?;
        core.log.write_out()?;
        self.log_sync.sync_through(core.log.id(), core.log.end())?;
        core.log.seal()?;
        let (id, end) = (core.log.id(), core.log.end());
        self.log_sync.sync_through(id, end)?;
        Ok((id, end))
    }
}

#[cfg(test)]
mod tests;
