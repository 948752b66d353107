//! Write-back: log collection appends the live records of the oldest logs to the newest log. Then the oldest logs can be deleted without a
//! flush.
//!
//! # Which file holds a record at each instant
//!
//! `r` is the newest version of its key. Its home, log 3, is to be deleted, and replay will begin with log 4.
//!
//! 1. *The alive records are chosen*, from a view taken under the commit lock by [`CommitQueue::begin_log_collection`]: `r` stands in
//!    log 3. A version that is not chosen has a newer version in memory, whose record stands in log 4 or later.
//! 2. *Copies are appended* to the current log, each with its own number: `r` stands in log 3, and maybe in log 9. A crash now
//!    leaves `replay_from` at 3. Recovery replays log 3 and ignores the copies: their frame marks them for a recovery that replays
//!    from log 4.
//! 3. *The log is closed* behind the last copy. *All logs before the new one are synced*, oldest first. Now the copies are
//!    stable, and so is every record that superseded one of log 3 (rule 2). If the edit came before the sync, a power failure
//!    could take the copies, or a newer version. Log 3 with the older version would be gone as well.
//! 4. *The edit* sets `replay_from` to 4 and names the length of the closed log. After the edit's sync, log 9 is the home of `r`.
//!    Damage to log 9, or to a log before it, is corruption and no torn tail. Recovery puts the copies into memory before all
//!    else.
//! 5. *Log 3 is unlinked.*
//!
//! **No switch of a memtable in between** (rule 3). A switch takes all memory of a family for a flush, and begins a log from
//! which the family will replay. Recovery would replay a copy behind the beginning of this log beside the table. The copy would
//! bring back an old version, on top of newer ones, or of a tombstone that a merge has dropped.
//!
//! So each append checks, under the commit lock, whether a family's memtable was switched since the beginning. If one was, log
//! collection gives up: the flush frees the logs anyhow. No log collection begins during a flush: the flushing set still needs
//! the log, and must not be written back.
//!
//! **Order.** Copies are older than all records replayed from log 4 on, so recovery takes the copies first. Among the copies of
//! one key, from several passes, the largest number counts.
//!
//! # What a flush keeps
//!
//! A flush writes back the hot keys, which stay in memory (steps in `jobs/flush.rs`). The copies lie in the log that began with
//! the switch, or behind it. Their frame marks them for a recovery that replays from the log of the switch. The family cannot be
//! switched before the flush has ended. No log collection begins or goes on meanwhile.
//!
//! # Small families
//!
//! Logs may be full because families with little memory still need them (`plan/memory/limits.rs`). Then log collection takes the same steps
//! for all logs before the first one that a larger family needs, however much of these logs is alive. No step depends on the sizes of
//! families: records of all families that stand in the logs to be deleted are copied.
//!
//! Only the next flush waits for a log collection. Log collection waits for no memory. A write meets it only at the commit lock,
//! for one frame (rule 16).

use super::{CommitQueue, Core};
use crate::base::error::Result;
use crate::base::ids::FileId;
use crate::base::mutant::mutant;
use crate::log::EncodedBatch;
use crate::memory::LogsBySeq;
use crate::memory::view::View;
use crate::plan::memory::limits::WriteBack;
use std::sync::Arc;

/// A log collection under way, and the state at its beginning, read under one lock. The job copies what the view shows. A log that
/// began after the view must not be deleted.
#[derive(Debug)]
pub struct LogCollection {
    /// How often each family's memtable had been switched at the beginning.
    switches: Vec<u64>,
    pub view: Arc<View>,
    /// The homes of the records that the view shows.
    pub logs_by_seq: LogsBySeq,
    /// The current log at the beginning.
    pub log: FileId,
    /// The first log that a larger family needs (one that is not small); the current log if no larger family needs one.
    pub of_large: FileId,
    /// The log that holds the first copy.
    home: Option<FileId>,
}

impl LogCollection {
    pub fn has_copies(&self) -> bool {
        self.home.is_some()
    }
}

/// The log behind the last copy.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    pub log: FileId,
    pub bytes: u64,
    /// The current log from now on.
    pub next: FileId,
}

impl CommitQueue {
    /// Begins a write-back; `None` while a family is being flushed.
    pub fn begin_log_collection(&self) -> Result<Option<LogCollection>> {
        let core = self.lock();
        self.shared.health.check_writable()?;
        if core.room.is_flushing() && !mutant!("write_back_beside_a_flush") {
            return Ok(None);
        }
        let switches = core.room.switches();
        let (view, logs_by_seq, log) = (core.room.view(), core.logs_by_seq.clone(), core.log.id());
        let of_large = core.room.first_log_of_large().map_or(log, |first| first.min(log));
        Ok(Some(LogCollection { switches, view, logs_by_seq, log, of_large, home: None }))
    }

    /// Appends copies of records whose homes are older than `replay_from`. Returns `false`, and appends nothing, if a family's
    /// memtable was switched meanwhile: the log collection is over then.
    pub fn write_back(
        &self,
        collection: &mut LogCollection,
        copies: &EncodedBatch,
        replay_from: FileId,
    ) -> Result<bool> {
        let mut core = self.lock();
        self.shared.health.check_writable()?;
        if !core.is_as_at(collection) {
            return Ok(false);
        }
        if collection.home.is_none() {
            core.takes_copies = true;
            collection.home = Some(self.rotate(&mut core)?);
        }
        self.append_copies(&mut core, copies, replay_from)?;
        Ok(true)
    }

    /// Appends copies of the records that stay in memory after a flush. The flushed family will replay from `replay_from`.
    pub fn write_back_hot(&self, copies: &EncodedBatch, replay_from: FileId) -> Result<()> {
        let mut core = self.lock();
        self.shared.health.check_writable()?;
        core.takes_copies = true;
        if !core.log_takes_copies {
            self.rotate(&mut core)?;
        }
        self.append_copies(&mut core, copies, replay_from)
    }

    fn append_copies(&self, core: &mut Core, copies: &EncodedBatch, replay_from: FileId) -> Result<()> {
        let appended = core.log.append_written_back(copies, replay_from);
        appended.map_err(|error| self.judge(error))?;
        self.shared.counters.written_back.add(copies.count() as u64);
        Ok(())
    }

    /// Closes the log that holds the last copies.
    pub fn close_copies(&self) -> Result<Closed> {
        let mut core = self.lock();
        self.shared.health.check_writable()?;
        core.takes_copies = false;
        let log = core.log.id();
        let next = self.rotate(&mut core)?;
        Ok(Closed { log, bytes: core.log.previous_bytes(), next })
    }

    /// Notes that no more copies come, whether the job ended well or not.
    pub fn end_copies(&self) {
        self.lock().takes_copies = false;
    }

    /// Notes that a job which writes back small families has ended. If the job freed no log (`is_refused`), a flush has to.
    pub fn end_write_back(&self, is_refused: bool) {
        self.lock().write_back = if is_refused { WriteBack::Refused } else { WriteBack::Possible };
    }

    /// The edit is stable: no family replays a log before `replay_from` any more.
    pub fn collected(&self, collection: &LogCollection, replay_from: FileId) {
        let mut core = self.lock();
        if let Some(home) = collection.home {
            core.logs_by_seq.written_back(replay_from, home);
        }
        core.logs_by_seq.forget_below(replay_from);
        core.room.forget_logs_before(replay_from);
    }

    /// The homes of the records in memory.
    pub fn logs_by_seq(&self) -> LogsBySeq {
        self.lock().logs_by_seq.clone()
    }

    /// Closes a log that has its full size, so that it can be deleted before newer records. If that fails, as on a full disk, writers go on
    /// in the current log.
    pub(super) fn rotate_full_log(&self, core: &mut Core) {
        if core.log.end() < core.rotate_at_bytes {
            return;
        }
        match self.rotate(core) {
            Ok(_) => {
                core.wants.log_collection = true;
                if core.write_back == WriteBack::Refused {
                    core.write_back = WriteBack::Possible;
                }
            }
            Err(_) => core.rotate_at_bytes = core.log.end() + (self.log_file_bytes(core) / 4).max(1),
        }
    }

    /// Closes the log and begins another, whose header says that it may hold copies if `copies` is true.
    pub(super) fn rotate_for(&self, core: &mut Core, copies: bool) -> Result<FileId> {
        let before = core.takes_copies;
        core.takes_copies |= copies;
        let rotated = self.rotate(core);
        core.takes_copies = before;
        rotated
    }

    /// Closes the log and begins another one.
    pub(super) fn rotate(&self, core: &mut Core) -> Result<FileId> {
        // If another process took over the directory, its recovery would come across the new log.
        self.shared.dir_lock.check().map_err(|error| self.shared.health.poison(error))?;
        let next = self.shared.files.take();
        core.log.rotate(next, core.takes_copies).map_err(|error| self.judge(error))?;
        core.log_takes_copies = core.takes_copies;
        let first = core.last_seq + 1;
        core.logs_by_seq.log_began(first, next);
        core.rotate_at_bytes = self.log_file_bytes(core);
        Ok(next)
    }

    /// The size in bytes at which a log is closed that begins now.
    fn log_file_bytes(&self, core: &Core) -> u64 {
        let log_bytes = self.shared.log_sync.appended();
        core.room.limits().log_file_bytes(log_bytes, self.shared.pressure.memory_bytes())
    }
}

impl Core {
    /// Whether no family's memtable was switched since `collection` began.
    fn is_as_at(&self, collection: &LogCollection) -> bool {
        let switches = self.room.switches();
        let mut families = switches.iter().zip(&collection.switches);
        families.all(|(now, then)| now == then) || mutant!("write_back_after_a_switch")
    }
}
