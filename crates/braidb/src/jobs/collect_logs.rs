//! Log collection: what memory keeps alive of the oldest logs is written back to the newest, and they go without a flush. The
//! story, and what a crash leaves at each step, stands in `write/queue/collection.rs`; whether it pays, in `plan/memory/logs.rs`.

use super::flush::FRAME_BYTES;
use super::{Catalog, Jobs, Running, Work};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::mutant::mutant;
use crate::log::EncodedBatch;
use crate::memory::view::View;
use crate::memory::{Immutable, ImmutableCursor, Live, LogsBySeq, count_live};
use crate::plan::memory::logs::{LogUse, collection};
use crate::version::{Change, Edit};
use crate::visible::merge::MergeCursor;
use crate::visible::{Cursor, EntryKind};
use crate::write::LogCollection;
use braidb_storage::Lane;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Jobs {
    /// Looks whether logs can go, if there is one more since that was done last, or a flush has ended, and none is under way. At most
    /// one such job is there.
    pub(super) fn start_log_collection(self: &Arc<Self>, catalog: &mut Catalog) {
        let is_flushing = catalog.flushes_running > 0 || self.flushes.has_tasks();
        if catalog.collecting_logs || is_flushing || !std::mem::take(&mut catalog.log_full) {
            return;
        }
        let bytes = self.logs(catalog).values().sum();
        if !self.options.memory.are_logs_near_bound(bytes, self.pressure.memory_bytes()) {
            return;
        }
        catalog.jobs += 1;
        catalog.collecting_logs = true;
        let running = Running { jobs: self.clone(), work: Some(Work::LogCollection) };
        self.env.runtime.submit(Lane::Flush, Box::new(move || running.begin_log_collection()));
    }

    /// Decides which logs go: those before the one that it returns. `None` if that does not pay.
    pub fn choose_logs(&self, begun: &LogCollection) -> Option<FileId> {
        let live = live_of(&begun.view, &begun.logs_by_seq);
        let catalog = self.catalog.lock();
        let mut logs = self.logs(&catalog);
        // What a recovery cut off is replayed by no family: replay cannot begin there.
        logs.retain(|&log, _| !catalog.state.is_set_aside(log));
        drop(catalog);
        // Of later logs the view does not show what is alive.
        let then = logs.range(..=begun.log);
        let live_bytes = |id: &FileId| live.get(id).map_or(0, |live| live.bytes);
        let uses: Vec<LogUse> =
            then.map(|(id, &bytes)| LogUse { id: *id, bytes, live_bytes: live_bytes(id) }).collect();
        collection(&uses, &self.options.memory)
    }

    /// Lets the logs go: all that is alive of them is written back. After an error nothing has changed, unless the database is
    /// poisoned.
    pub fn finish_log_collection(&self, begun: &mut LogCollection, replay_from: FileId) -> Result<()> {
        // Syncing takes its time, and memory is not held meanwhile.
        begun.view = Arc::default();
        let closed = self.queue.close_copies()?;
        // Whatever made the rest of these logs dead has to be stable too, also where nothing was left to copy.
        let is_forgotten = mutant!("superseding_not_synced") && !begun.has_copies();
        if !mutant!("write_back_not_synced") && !is_forgotten {
            self.queue.sync_before(closed.next)?;
        }

        let mut catalog = self.catalog.lock();
        let mut edit = Edit::default();
        for (&family, state) in catalog.state.families() {
            if state.replay_from < replay_from {
                edit.push(Change::ReplayFrom { family, log: replay_from });
            }
        }
        if edit.changes.is_empty() {
            // A flush, begun when all copies were there, was quicker.
            return Ok(());
        }
        edit.push(Change::LogSealed { log: closed.log, bytes: closed.bytes });
        self.commit(&mut catalog, edit)?;
        self.queue.collected(begun, replay_from);
        let replay_from = catalog.state.min_replay_from();
        let gone = self.unlink_logs_below(&mut catalog, replay_from);
        self.counters.logs_collected.add(gone);
        Ok(())
    }

    /// Copies what is alive and has its home before `replay_from`. `false` if a switch came in between.
    pub fn write_back(&self, begun: &mut LogCollection, replay_from: FileId) -> Result<bool> {
        for (index, family) in begun.view.clone().families.iter().enumerate() {
            let parts = [Immutable::List(family.memory.active().clone())];
            let parts = parts.iter().chain(family.memory.pipeline());
            let id = FamilyId(index as u32);
            let mut survivors = Survivors::new(parts, begun.logs_by_seq.clone(), replay_from);
            let mut copies = EncodedBatch::default();
            loop {
                copies.clear();
                survivors.fill(id, &mut copies)?;
                if copies.count() == 0 {
                    break;
                }
                if !self.queue.write_back(begun, &copies, replay_from)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The logs that may be replayed, with their bytes and with what memory keeps alive of each.
    pub fn logs_alive(&self) -> Vec<(FileId, u64, Live)> {
        let live = live_of(&self.view.load(), &self.queue.logs_by_seq());
        let logs = self.logs(&self.catalog.lock());
        let of = |id: &FileId| live.get(id).copied().unwrap_or_default();
        logs.iter().map(|(id, &bytes)| (*id, bytes, of(id))).collect()
    }

    /// The logs that may be replayed, with their bytes.
    fn logs(&self, catalog: &Catalog) -> BTreeMap<FileId, u64> {
        let mut logs = catalog.older_log_bytes.clone();
        logs.extend(self.log_sync.sizes());
        logs
    }
}

impl Running {
    fn begin_log_collection(self) {
        match self.jobs.queue.begin_log_collection() {
            Ok(Some(begun)) => match self.jobs.choose_logs(&begun) {
                // Whoever does not care for a flush under way need not queue up behind it either.
                Some(replay_from) if mutant!("write_back_beside_a_flush") => {
                    self.write_back(begun, replay_from);
                }
                // Who need not be there before the next switch may come late.
                Some(replay_from) => {
                    let others_first = if mutant!("write_back_after_a_freeze") { 8 } else { 0 };
                    self.write_back_later(begun, replay_from, others_first);
                }
                None => self.end_log_collection(Ok(())),
            },
            outcome => self.end_log_collection(outcome.map(|_| ())),
        }
    }

    /// A job of its own: others may come in between, as they may between any two frames of copies.
    fn write_back_later(self, begun: LogCollection, replay_from: FileId, others_first: usize) {
        let runtime = self.jobs.env.runtime.clone();
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

    /// Nobody waits for a log collection: where it fails a flush will free the logs, and whoever waits for that is not told of this. Only
    /// a failure that ends all writing concerns everybody.
    fn end_log_collection(mut self, outcome: Result<()>) {
        self.end(outcome.is_ok());
        match outcome {
            Err(error) if self.jobs.health.check_unpoisoned().is_err() => {
                self.jobs.end_job(Lane::Flush, Err(error));
            }
            Err(_) => {
                self.jobs.counters.job_failures.add(1);
                self.jobs.ended.notify_all();
            }
            // It says nothing of a flush that failed before, and does not have it tried again.
            Ok(()) => {
                if !self.jobs.flushes.has_tasks() {
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

/// Walks the newest versions of a family's memory that have an old home.
struct Survivors {
    cursor: MergeCursor<ImmutableCursor>,
    logs_by_seq: LogsBySeq,
    replay_from: FileId,
    /// Of the entry before; none at the beginning.
    last_key: Option<Vec<u8>>,
}

impl Survivors {
    fn new<'a>(
        parts: impl Iterator<Item = &'a Immutable>,
        logs_by_seq: LogsBySeq,
        replay_from: FileId,
    ) -> Survivors {
        let cursor = MergeCursor::new(parts.map(Immutable::cursor).collect());
        Survivors { cursor, logs_by_seq, replay_from, last_key: None }
    }

    /// Whether a record with this number has to be copied.
    fn is_old(&self, seq: SeqNo) -> bool {
        self.logs_by_seq.of(seq).is_some_and(|home| home < self.replay_from)
    }

    /// The next copies: about a frame of them, or none at the end.
    fn fill(&mut self, family: FamilyId, copies: &mut EncodedBatch) -> Result<()> {
        if self.last_key.is_none() {
            self.cursor.seek_to_first()?;
        }
        while self.cursor.valid() && copies.bytes() < FRAME_BYTES {
            let (key, seq, kind) = (self.cursor.key(), self.cursor.seq(), self.cursor.kind());
            if self.last_key.as_deref() != Some(key) {
                let is_lost = mutant!("write_back_leaves_tombstones") && kind == EntryKind::Delete;
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
