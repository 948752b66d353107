//! Log collection: live records of the oldest logs are written back to the newest log, and the oldest logs go without a flush.
//! `write/queue/collection.rs` describes the steps and what a crash leaves at each. `plan/memory/logs.rs` decides whether a log
//! collection pays.

use super::flush::FRAME_BYTES;
use super::running::{Running, Work};
use super::{Catalog, Jobs};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::mutant::mutant;
use crate::log::EncodedBatch;
use crate::memory::view::View;
use crate::memory::{Immutable, ImmutableCursor, Live, LogsBySeq, count_live};
use crate::plan::memory::logs::{Goal, LogUse, collection, collection_of_small};
use crate::version::{Change, Edit};
use crate::visible::merge::MergeCursor;
use crate::visible::{Cursor, EntryKind};
use crate::write::LogCollection;
use braidb_storage::Lane;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Jobs {
    /// Starts a log collection if a log became full or a flush ended since the last one. At most one runs, and none beside a
    /// flush.
    pub(super) fn start_log_collection(self: &Arc<Self>, catalog: &mut Catalog) {
        let is_flushing = catalog.is_flushing() || self.parts.shared.flushes.has_tasks();
        if catalog.is_collecting_logs() || is_flushing || !self.log_full.swap(false, Ordering::Acquire) {
            return;
        }
        let of_small = self.writes_back_small.swap(false, Ordering::Relaxed);
        let goal = if of_small { Some(Goal::FreeOfSmall) } else { self.excess_of_logs(catalog) };
        let Some(goal) = goal else { return };
        catalog.log_collection_began();
        let running =
            Running { jobs: self.clone(), work: Some(Work::LogCollection { of_small, frees: true }) };
        self.parts.env.runtime.submit(Lane::Flush, Box::new(move || running.begin_log_collection(goal)));
    }

    /// What is to be done about the length of all logs.
    fn excess_of_logs(&self, catalog: &Catalog) -> Option<Goal> {
        let bytes = self.logs(catalog).values().sum();
        let limits = &self.parts.options.memory;
        limits.log_excess(bytes, self.parts.shared.pressure.memory_bytes()).map(Goal::Shorten)
    }

    /// The log before which all logs are to go; `None` if the log collection does not pay. Where only small families keep the logs, the
    /// collection pays unless these families have much memory together.
    pub fn choose_logs(&self, begun: &LogCollection, goal: Goal) -> Option<FileId> {
        let live = live_of(&begun.view, &begun.logs_by_seq);
        let catalog = self.catalog.lock();
        let mut logs = self.logs(&catalog);
        // No family replays a log that a recovery set aside, so replay cannot begin there.
        logs.retain(|&log, _| !catalog.state().is_set_aside(log));
        drop(catalog);
        // The view does not show what is alive of later logs.
        let then = logs.range(..=begun.log);
        let live_bytes = |id: &FileId| live.get(id).map_or(0, |live| live.bytes);
        let uses: Vec<LogUse> =
            then.map(|(id, &bytes)| LogUse { id: *id, bytes, live_bytes: live_bytes(id) }).collect();
        match goal {
            Goal::Shorten(excess) => collection(&uses, &excess),
            Goal::FreeOfSmall => collection_of_small(&uses, begun.of_large, &self.parts.options.memory),
        }
    }

    /// Lets the logs before `replay_from` go; all live records of them are written back. After an error nothing has changed,
    /// unless the database is poisoned.
    pub fn finish_log_collection(&self, begun: &mut LogCollection, replay_from: FileId) -> Result<()> {
        // The view is dropped, so that it holds no memory during the sync, which takes long.
        begun.view = Arc::default();
        let closed = self.parts.queue.close_copies()?;
        // The versions that superseded the rest of these logs must be synced too, even if nothing was copied.
        let is_forgotten = mutant!("superseding_not_synced") && !begun.has_copies();
        if !mutant!("write_back_not_synced") && !is_forgotten {
            self.parts.queue.sync_before(closed.next)?;
        }

        let mut catalog = self.catalog.lock();
        let mut edit = Edit::default();
        for (&family, state) in catalog.state().families() {
            if state.replay_from < replay_from {
                edit.push(Change::ReplayFrom { family, log: replay_from });
            }
        }
        if edit.changes.is_empty() {
            // A flush began after the copies were written, and committed first.
            return Ok(());
        }
        edit.push(Change::LogSealed { log: closed.log, bytes: closed.bytes });
        self.commit(&mut catalog, edit)?;
        self.parts.queue.collected(begun, replay_from);
        let replay_from = catalog.state().min_replay_from();
        let gone = self.take_logs_below(&mut catalog, replay_from);
        drop(catalog);
        self.parts.shared.counters.logs_collected.add(self.unlink_gone(gone));
        Ok(())
    }

    /// Copies the live records whose home is before `replay_from`. `false` if the memtable was switched meanwhile.
    pub fn write_back(&self, begun: &mut LogCollection, replay_from: FileId) -> Result<bool> {
        for (index, family) in begun.view.clone().families.iter().enumerate() {
            if mutant!("truncates_for_one_family") && index > 0 {
                break;
            }
            let parts = [Immutable::List(family.memory.active().clone())];
            let parts = parts.iter().chain(family.memory.pipeline());
            let id = FamilyId(index as u32);
            let mut alive = AliveRecords::new(parts, begun.logs_by_seq.clone(), replay_from);
            let mut copies = EncodedBatch::default();
            loop {
                copies.clear();
                alive.fill(id, &mut copies)?;
                if copies.count() == 0 {
                    break;
                }
                if !self.parts.queue.write_back(begun, &copies, replay_from)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The logs that may be replayed, with their bytes and the live records that memory holds of each.
    pub fn logs_alive(&self) -> Vec<(FileId, u64, Live)> {
        let live = live_of(&self.parts.shared.view.load(), &self.parts.queue.logs_by_seq());
        let logs = self.logs(&self.catalog.lock());
        // Copies may fill several logs and have the first of them as their home (`memory/logs_by_seq.rs`).
        let mut in_later_logs = 0;
        let of = |(id, &bytes): (&FileId, &u64)| {
            let live = live.get(id).copied().unwrap_or_default();
            let entry_bytes = (live.entry_bytes + in_later_logs).min(bytes);
            in_later_logs = live.entry_bytes + in_later_logs - entry_bytes;
            (*id, bytes, Live { entry_bytes, ..live })
        };
        logs.iter().map(of).collect()
    }

    /// The logs that may be replayed, with their bytes.
    fn logs(&self, catalog: &Catalog) -> BTreeMap<FileId, u64> {
        let mut logs = catalog.older_log_bytes().clone();
        logs.extend(self.parts.shared.log_sync.sizes());
        logs
    }
}

impl Running {
    fn begin_log_collection(mut self, goal: Goal) {
        match self.jobs.parts.queue.begin_log_collection() {
            Ok(Some(begun)) => match self.jobs.choose_logs(&begun, goal) {
                // With this mutant the copies do not queue up behind a running flush.
                Some(replay_from) if mutant!("write_back_beside_a_flush") => {
                    self.write_back(begun, replay_from);
                }
                // With this mutant the copies may come after the next switch.
                Some(replay_from) => {
                    let others_first = if mutant!("write_back_after_a_switch") { 8 } else { 0 };
                    self.write_back_later(begun, replay_from, others_first);
                }
                None => {
                    let of_small = goal == Goal::FreeOfSmall;
                    self.work = Some(Work::LogCollection { of_small, frees: false });
                    self.end_log_collection(Ok(()));
                }
            },
            outcome => self.end_log_collection(outcome.map(|_| ())),
        }
    }

    /// Queues the write-back as a job of its own. Other jobs may run before it, as they may between any two frames of copies.
    fn write_back_later(self, begun: LogCollection, replay_from: FileId, others_first: usize) {
        let runtime = self.jobs.parts.env.runtime.clone();
        let job = move || match others_first.checked_sub(1) {
            Some(fewer) => self.write_back_later(begun, replay_from, fewer),
            None => self.write_back(begun, replay_from),
        };
        runtime.submit(Lane::Flush, Box::new(job));
    }

    fn write_back(self, mut begun: LogCollection, replay_from: FileId) {
        let outcome = match self.jobs.write_back(&mut begun, replay_from) {
            Ok(true) => self.jobs.finish_log_collection(&mut begun, replay_from),
            outcome => outcome.map(|_| ()),
        };
        drop(begun);
        self.end_log_collection(outcome);
    }

    /// No thread waits for a log collection. If it fails, a flush will free the logs, and a caller that waits for the flush does not get
    /// the error. A failure that poisons the database goes to all waiting threads.
    fn end_log_collection(mut self, outcome: Result<()>) {
        self.end(outcome.is_ok());
        match outcome {
            Err(error) if self.jobs.parts.shared.health.check_unpoisoned().is_err() => {
                self.jobs.end_job(Lane::Flush, Err(error));
            }
            Err(_) => {
                self.jobs.parts.shared.counters.job_failures.add(1);
                self.jobs.ended.notify_all();
            }
            // A successful log collection does not retry a flush that failed before.
            Ok(()) => {
                if !self.jobs.parts.shared.flushes.has_tasks() {
                    self.jobs.schedule();
                }
                self.jobs.ended.notify_all();
                self.jobs.collect_garbage();
            }
        }
    }
}

fn live_of(view: &View, logs_by_seq: &LogsBySeq) -> BTreeMap<FileId, Live> {
    let mut live = BTreeMap::new();
    for family in &view.families {
        count_live(&Immutable::List(family.memory.active().clone()), logs_by_seq, &mut live);
        family.memory.immutable().for_each(|part| count_live(part, logs_by_seq, &mut live));
    }
    live
}

/// Walks the newest versions of a family's memory whose home is before `replay_from`.
struct AliveRecords {
    cursor: MergeCursor<ImmutableCursor>,
    logs_by_seq: LogsBySeq,
    replay_from: FileId,
    /// The key of the previous entry; `None` at the beginning.
    last_key: Option<Vec<u8>>,
}

impl AliveRecords {
    fn new<'a>(
        parts: impl Iterator<Item = &'a Immutable>,
        logs_by_seq: LogsBySeq,
        replay_from: FileId,
    ) -> AliveRecords {
        let cursor = MergeCursor::new(parts.map(Immutable::cursor).collect());
        AliveRecords { cursor, logs_by_seq, replay_from, last_key: None }
    }

    /// Whether the record with this number has to be copied.
    fn is_old(&self, seq: SeqNo) -> bool {
        self.logs_by_seq.of(seq).is_some_and(|home| home < self.replay_from)
    }

    /// Fills `copies` with about one frame of copies, or none at the end.
    fn fill(&mut self, family: FamilyId, copies: &mut EncodedBatch) -> Result<()> {
        if self.last_key.is_none() {
            self.cursor.seek_to_first()?;
        }
        let leaves_tombstones = mutant!("write_back_leaves_tombstones");
        while self.cursor.valid() && copies.bytes() < FRAME_BYTES {
            let (key, seq, kind) = (self.cursor.key(), self.cursor.seq(), self.cursor.kind());
            if self.last_key.as_deref() != Some(key) {
                let is_lost = leaves_tombstones && kind == EntryKind::Delete;
                if self.is_old(seq) && !is_lost {
                    copies.push_written_back(family, seq, kind, key, self.cursor.value());
                }
                let last_key = self.last_key.get_or_insert_default();
                last_key.clear();
                last_key.extend_from_slice(key);
            }
            self.cursor.next()?;
        }
        Ok(())
    }
}
