//! The commit queue: every write passes here, one group at a time.
//!
//! A writer that finds the commit lock free commits alone, with no queue and no wake-up. Otherwise it leaves its batch in the
//! waiting list. The next holder of the lock commits the list as one group, with one append and at most one sync. Where writers meet
//! all the time, one of them goes on to lead (`queue/waiting.rs`).
//!
//! The leader of a group assigns numbers, appends to the log, and syncs it if a member asks for it. Then the batches enter memory and
//! their numbers are published. Nothing is visible or acknowledged before it is as durable as its writer asked. After a
//! commit the leader makes room if memory or logs are full (`queue/memory.rs`).

mod checks;
pub mod collection;
mod gap_offers;
pub mod memory;
pub mod pending_excises;
mod waiting;

use self::gap_offers::GapOffers;
use self::memory::Wants;
use self::pending_excises::PendingExcise;
use self::waiting::{Batch, GroupVec, SERVED_EVERY, SpinPolicy, Waiter, Waiting};
use super::reads::Check;
use super::recent::RecentWrites;
use super::room::MemoryRoom;
use super::{Health, Shared};
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::foreground::{ForegroundGuard, ForegroundMutex};
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::log::{EncodedBatch, Leftovers, LogWriter};
use crate::memory::LogsBySeq;
use crate::memory::view::View;
use crate::plan::memory::limits::WriteBack;
use crate::visible::EntryKind;
use braidb_storage::File;
use braidb_storage::foreground::{self, Slow};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A scratch batch of more than 256 KiB is freed after the write. A smaller one is kept for the next write.
const SCRATCH_BYTES: usize = 256 << 10;

/// The one way into the log and into memory.
#[derive(Debug)]
pub struct CommitQueue {
    core: ForegroundMutex<Core>,
    waiting: Waiting,
    /// Bytes on the device that puts leave free for the largest merge. Puts also leave as many bytes as memory holds, for the flush of
    /// memory.
    merge_reserve_bytes: u64,
    gap_offers: GapOffers,
    /// Writes that the ring for transactions remembers.
    recent_writes: usize,
    shared: Shared,
}

/// What became of a commit.
#[derive(Debug)]
pub struct Committed {
    pub outcome: Result<()>,
    /// What the commit, and the commits that it led, want to have done.
    pub wants: Wants,
}

/// What the holder of the commit lock may touch.
#[derive(Debug)]
struct Core {
    log: LogWriter,
    room: MemoryRoom,
    last_seq: SeqNo,
    logs_by_seq: LogsBySeq,
    /// The log is closed when it ends at or behind this position.
    rotate_at_bytes: u64,
    /// Whether a job copies records: then the header of each new log says that it may hold copies.
    takes_copies: bool,
    /// Whether the current log's header says that it may hold copied records.
    log_takes_copies: bool,
    scratch: EncodedBatch,
    /// The leader's own commits since it last served the waiting writers.
    unserved: u32,
    /// The log could not be rotated. Memory stays as it is until the disk has room.
    switch_failed: Option<Error>,
    write_back: WriteBack,
    /// Work that no thread was told of yet.
    wants: Wants,
    /// Large batches that were committed: those of the lock's holder, then those of waiters. They are freed after the lock.
    large_batches: Vec<EncodedBatch>,
    large_waiters: Vec<Arc<Waiter>>,
    /// Files of logs that a commit in `Sync` made stable to their ends.
    done_logs: Vec<Arc<dyn File>>,
    /// The latest writes, while transactions ask for them.
    recent: Option<RecentWrites>,
    /// A ring that ended. It is freed after the lock.
    idle: Option<RecentWrites>,
    /// Excises under way, and the number of the last one that began.
    pending_excises: Vec<PendingExcise>,
    last_excise: u64,
}

/// What the holder of the commit lock no longer needs. It is dropped after the lock: the drop may free much memory and close files, and all
/// writers wait for the lock.
#[derive(Debug, Default)]
struct Spent {
    _batches: Vec<EncodedBatch>,
    _waiters: Vec<Arc<Waiter>>,
    _done_logs: Vec<Arc<dyn File>>,
    _log: Leftovers,
    _views: Vec<Arc<View>>,
    _idle: Option<RecentWrites>,
}

/// The commit lock. A thread that panics under it may have used sequence numbers and log positions that must not be used again (rule 3). So
/// the guard poisons the database before another thread gets the lock.
struct Held<'a> {
    core: ForegroundGuard<'a, Core>,
    health: &'a Health,
    /// Whether a panic was already unwinding when the lock was taken, because a destructor of the program writes.
    was_panicking: bool,
    /// Declared behind `core`, so it is dropped after the lock.
    spent: Spent,
}

impl<'a> Held<'a> {
    fn new(core: ForegroundGuard<'a, Core>, health: &'a Health) -> Held<'a> {
        Held { core, health, was_panicking: std::thread::panicking(), spent: Spent::default() }
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
        if self.core.has_spent() {
            self.spent = self.core.take_spent();
        }
    }
}

impl Core {
    #[inline]
    fn has_spent(&self) -> bool {
        !self.large_batches.is_empty()
            || !self.large_waiters.is_empty()
            || !self.done_logs.is_empty()
            || self.log.has_leftovers()
            || self.room.has_old_views()
            || self.idle.is_some()
    }

    #[cold]
    fn take_spent(&mut self) -> Spent {
        Spent {
            _batches: std::mem::take(&mut self.large_batches),
            _waiters: std::mem::take(&mut self.large_waiters),
            _done_logs: std::mem::take(&mut self.done_logs),
            _log: self.log.take_leftovers(),
            _views: self.room.take_old_views(),
            _idle: self.idle.take(),
        }
    }
}

impl CommitQueue {
    /// A queue that appends to `log`, and inserts into `room`. It remembers the last `recent_puts` puts of each family with gaps, and as many
    /// writes for transactions.
    pub fn new(
        room: MemoryRoom,
        merge_reserve_bytes: u64,
        recent_puts: usize,
        log: LogWriter,
        last_seq: SeqNo,
        mut logs_by_seq: LogsBySeq,
        shared: Shared,
    ) -> CommitQueue {
        logs_by_seq.log_began(last_seq + 1, log.id());
        let rotate_at_bytes = room.limits().log_file_bytes(0, 0);
        let core = Core {
            log,
            room,
            last_seq,
            logs_by_seq,
            rotate_at_bytes,
            takes_copies: false,
            log_takes_copies: false,
            scratch: EncodedBatch::default(),
            unserved: 0,
            switch_failed: None,
            write_back: WriteBack::Possible,
            wants: Wants::default(),
            large_batches: Vec::new(),
            large_waiters: Vec::new(),
            done_logs: Vec::new(),
            recent: None,
            idle: None,
            pending_excises: Vec::new(),
            last_excise: 0,
        };
        let queue = CommitQueue {
            core: ForegroundMutex::new(core),
            waiting: Waiting::default(),
            merge_reserve_bytes,
            gap_offers: GapOffers::new(recent_puts),
            recent_writes: recent_puts,
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
    ) -> Committed {
        let fill = |batch: &mut EncodedBatch| match value {
            Some(value) => batch.push_put(family, key, value),
            None => batch.push_delete(family, key),
        };
        if let Some(mut core) = self.try_lead(durability) {
            let mut batch = std::mem::take(&mut core.scratch);
            batch.clear();
            fill(&mut batch);
            let outcome = self.commit_group(&mut core, &[&batch], durability);
            match batch.bytes() <= SCRATCH_BYTES {
                true => core.scratch = batch,
                false => core.large_batches.push(batch),
            }
            self.serve(&mut core);
            return Committed { outcome, wants: core.take_wants() };
        }
        let mut batch = EncodedBatch::with_room_for(key, value);
        fill(&mut batch);
        self.commit_waiting(Waiter::new(Batch::Own(batch), durability))
    }

    /// Commits a batch, which is not empty. With a check it commits only if the check passes, and otherwise returns `Conflict`.
    pub fn commit_batch(
        &self,
        batch: &Arc<EncodedBatch>,
        check: Option<&Arc<Check>>,
        durability: Durability,
    ) -> Committed {
        if let Some(mut core) = self.try_lead(durability) {
            let outcome = self.commit_alone(&mut core, batch, check, durability);
            self.serve(&mut core);
            return Committed { outcome, wants: core.take_wants() };
        }
        self.commit_waiting(Waiter::checked(Batch::Shared(batch.clone()), check.cloned(), durability))
    }

    /// The commit lock, if it is free and this writer does not leave it to a trusted leader.
    fn try_lead(&self, durability: Durability) -> Option<Held<'_>> {
        let joins_others = match durability {
            Durability::None | Durability::Buffer => {
                self.waiting.leader().is_trusted_other(self.core.is_locked())
            }
            // One sync for all waiting batches.
            Durability::Sync => !self.waiting.is_empty(),
        };
        if joins_others {
            return None;
        }
        let core = self.try_lock()?;
        self.waiting.leader().is_me(durability);
        Some(core)
    }

    /// Leaves the batch to the next leader, which may be this thread.
    fn commit_waiting(&self, waiter: Waiter) -> Committed {
        let waiter = Arc::new(waiter);
        self.waiting.push(waiter.clone());
        let leader = self.waiting.leader();
        let spins = SpinPolicy::new(leader.is_trusted());
        let may_spin = waiter.durability < Durability::Sync;
        for spin in (0..).take_while(|&spin| may_spin && spins.goes_on(spin)) {
            if let Some(outcome) = waiter.outcome() {
                return Committed::by_another(outcome);
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
                return Committed::by_another(outcome);
            }
        }
        self.lead_until_done(self.lock(), &waiter)
    }

    /// Commits groups until one of them contained the waiter.
    fn lead_until_done(&self, mut core: Held<'_>, waiter: &Waiter) -> Committed {
        loop {
            if let Some(outcome) = waiter.outcome() {
                return Committed { outcome, wants: core.take_wants() };
            }
            self.waiting.leader().is_me(waiter.durability);
            self.lead(&mut core, Durability::Sync);
        }
    }

    /// Called after a commit of the leader's own. Every [`SERVED_EVERY`]th call that finds waiting batches commits them, up to the first
    /// one in `Sync`.
    fn serve(&self, core: &mut Core) {
        if self.waiting.is_empty() {
            return;
        }
        core.unserved += 1;
        if core.unserved >= SERVED_EVERY {
            self.lead(core, Durability::Buffer);
        }
    }

    /// Commits the oldest waiters that ask for at most `most`, as one group.
    fn lead(&self, core: &mut Core, most: Durability) {
        core.unserved = 0;
        let group = self.waiting.take(most, &self.shared.health);
        self.check_group(core, group.waiters());
        let members = || group.waiters().iter().filter(|waiter| waiter.checked_outcome().is_ok());
        let batches: GroupVec<&EncodedBatch> = members().map(|waiter| &*waiter.batch).collect();
        let outcome = match members().map(|waiter| waiter.durability).max() {
            Some(durability) => self.commit_group(core, &batches, durability),
            None => Ok(()),
        };
        drop(batches);
        match outcome {
            // Nothing was written. Commits one batch at a time. So a large batch does not fail the small ones, and a put does not
            // fail the deletes, which may use the reserve.
            Err(error) if error.is_full() && group.waiters().len() > 1 => {
                let large = group.end(|waiter| {
                    self.commit_alone(core, &waiter.batch, waiter.check.as_ref(), waiter.durability)
                });
                core.large_waiters.extend(large);
            }
            outcome => {
                let large = group.end(|waiter| waiter.checked_outcome().and_then(|()| outcome.clone()));
                core.large_waiters.extend(large);
            }
        }
    }

    /// Commits a batch as a group of its own. With a check it commits only if the check passes.
    fn commit_alone(
        &self,
        core: &mut Core,
        batch: &EncodedBatch,
        check: Option<&Arc<Check>>,
        durability: Durability,
    ) -> Result<()> {
        if let Some(check) = check {
            self.check(core, check, [].into_iter())?;
        }
        self.commit_group(core, &[batch], durability)
    }

    fn commit_group(&self, core: &mut Core, group: &[&EncodedBatch], durability: Durability) -> Result<()> {
        self.shared.health.check_writable()?;
        let first = core.last_seq + 1;
        let end = self.append(core, group, first, durability >= Durability::Buffer)?;
        if durability >= Durability::Sync {
            // The next group gathers meanwhile. Puts in `Buffer` that arrive wait for the sync as well.
            let _allowed = foreground::allow(&[Slow::Sync, Slow::Unmap]);
            let log = core.log.id();
            let synced = self.shared.log_sync.sync_and_keep(log, end, &mut core.done_logs);
            self.judge_sync(synced)?;
        }
        let log = core.log.id();
        let mut seq = first;
        let mut user_bytes = 0;
        for batch in group {
            for entry in batch.entries() {
                core.room.insert(entry.family, log, entry.key, seq, entry.kind, entry.value);
                user_bytes +=
                    entry.key.len() + if entry.kind == EntryKind::Put { entry.value.len() } else { 0 };
                seq += 1;
            }
        }
        if core.recent.is_some() {
            core.remember(group, first);
        }
        core.last_seq = seq - 1;
        if self.gap_offers.any() {
            self.take_gaps(core);
        }
        self.shared.snapshots.publish(core.last_seq);
        self.shared.counters.user_ops.add(seq - first);
        self.shared.counters.user_bytes.add(user_bytes as u64);
        self.shared.counters.log_groups.add(1);
        self.make_room_if_full(core);
        Ok(())
    }

    /// Appends the group to the log. Returns the position at which the log ends then.
    fn append(&self, core: &mut Core, group: &[&EncodedBatch], first: SeqNo, write_out: bool) -> Result<u64> {
        let reserve_bytes = self.merge_reserve_bytes + self.shared.pressure.memory_bytes();
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

    /// After a failure of the log: poisons the database unless the log says that nothing was written.
    fn judge(&self, error: Error) -> Error {
        match self.shared.log_sync.failure() {
            Some(_) => self.shared.health.poison(error),
            None => error,
        }
    }

    /// Raises all earlier writes to `durability`.
    pub fn persist(&self, durability: Durability) -> Result<()> {
        let (log, end) = {
            let mut core = self.lock();
            self.shared.health.check_writable()?;
            if durability >= Durability::Buffer {
                core.log.write_out().map_err(|error| self.shared.health.poison(error))?;
            }
            (core.log.id(), core.log.end())
        };
        if durability >= Durability::Sync {
            self.sync_through(log, end)?;
        }
        Ok(())
    }

    /// Makes the logs stable up to `end` of `log`. A process that opens the database afterwards, whether it should or not,
    /// replays them.
    fn sync_through(&self, log: FileId, end: u64) -> Result<()> {
        self.judge_sync(self.shared.log_sync.sync_through(log, end))
    }

    fn judge_sync(&self, synced: Result<()>) -> Result<()> {
        synced.and_then(|()| self.shared.dir_lock.check()).map_err(|error| match error {
            // `close` released the directory after the sync of a `persist`, which holds no lock. Nothing failed.
            Error::Closed => error,
            error => self.shared.health.poison(error),
        })
    }

    /// The current log, and how many of its bytes the operating system has.
    pub fn written_out(&self) -> Result<(FileId, u64)> {
        let mut core = self.lock();
        if self.shared.health.check_unpoisoned().is_ok() {
            core.log.write_out().map_err(|error| self.shared.health.poison(error))?;
        }
        Ok((core.log.id(), core.log.end()))
    }

    /// Syncs every log before `log`, and the header of `log`, oldest first: a flush relies on these syncs (rule 2).
    pub fn sync_before(&self, log: FileId) -> Result<()> {
        {
            let mut core = self.lock();
            self.shared.health.check_unpoisoned()?;
            core.log.write_out().map_err(|error| self.shared.health.poison(error))?;
        }
        self.shared
            .log_sync
            .sync_through(log, crate::log::HEADER_BYTES)
            .map_err(|error| self.shared.health.poison(error))
    }

    /// Closes the log with a footer and syncs it: the last write of this open. Returns the log's id and final length. The rest of
    /// the log is synced before the footer is written, so that the footer's mark vouches for it.
    pub fn seal(&self) -> Result<(FileId, u64)> {
        let (id, end) = {
            let mut core = self.lock();
            self.shared.health.check_unpoisoned()?;
            core.log.write_out()?;
            (core.log.id(), core.log.end())
        };
        self.shared.log_sync.sync_through(id, end)?;
        let sealed = {
            let mut core = self.lock();
            assert_eq!((core.log.id(), core.log.end()), (id, end), "a closed database appends nothing");
            core.log.seal()?;
            core.log.end()
        };
        self.shared.log_sync.sync_through(id, sealed)?;
        Ok((id, sealed))
    }
}

impl Committed {
    /// A leader committed the batch. The leader also carries out what its commits want.
    fn by_another(outcome: Result<()>) -> Committed {
        Committed { outcome, wants: Wants::default() }
    }
}

#[cfg(test)]
mod tests;
