//! A flush: all memory of a family becomes a table of L0, except for hot keys.
//!
//! # Which file holds a record at each instant, if it stays in memory
//!
//! `r` is the newest version of a hot key; its record stands in log 3. The switch of the memtable began log 7. The logs before
//! log 7 are to go.
//!
//! 1. *Logs before 7 are synced. The table is written and synced.* The table holds the cold keys, and older versions of the hot
//!    key if a snapshot needs them. `r` stands in log 3. A crash leaves `replay_from` at 3 or before, and an orphan table.
//! 2. *The flush copies `r`* to log 7 or a later one, under its own number. The frame says "for replay from log 7". A crash now finds
//!    `replay_from` where it was; recovery takes `r` from log 3 and ignores the copy.
//! 3. *The log with the last copy is closed. All logs up to the closed one are synced.* This step comes before the edit.
//!    Otherwise a power failure could take the copy after log 3 is gone.
//! 4. *The edit* adds the table, sets `replay_from` to 7, and names the length of the closed log. Before the edit is synced,
//!    the home of `r` is log 3. From the sync on, it is log 7, and damage to the copy is corruption and no torn tail.
//! 5. *One swap of the view* takes the flushing set out, and puts the table and the segment with `r` in. With two swaps, a
//!    reader in between would find an old version of `r`, or none. The segment is the oldest of the pipeline: all later writes
//!    are newer.
//! 6. *Log 3 is unlinked*, when no other family replays it.
//!
//! The family's memtable is not switched again before step 5 ends (rule 3). So no copy lands behind the point from which the
//! next flush will have it replayed. `write/queue/collection.rs` says how recovery reads copies. Without hot keys, steps 2 and
//! 3 do nothing; see the head of `jobs/mod.rs`.
//!
//! If there is no room for the copies, no key stays, and all memory goes to the table. Copies that were already appended stand
//! in a table as well. Recovery takes these copies, and a merge of both drops one. Copies wait neither for memory nor for L0
//! (rule 16).
//!
//! # Several families
//!
//! A switch may take the memory of several families with one log. Their tables are written one after the other, some of them
//! before the first is synced. One sync makes their names stable, and one edit adds all of them and advances each
//! `replay_from` to the new log. Before the sync of the edit, recovery replays every record of every family. After the sync,
//! recovery replays no record that stands in a table.
//!
//! Without room on the device, or without a descriptor for the next table, no edit names the tables, and the failed flush
//! deletes them. Every record is replayed, as before the flush. The families are then flushed one by one, each with an edit of
//! its own. Each family's `replay_from` advances alone, so a crash in between replays the others.
//!
//! `jobs/log_table.rs` describes where the values of a log table are.

use super::Jobs;
use super::log_table::Places;
use super::output::Outputs;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId};
use crate::base::mutant::mutant;
use crate::log::EncodedBatch;
use crate::memory::{Flat, Immutable, ImmutableCursor, Survivors};
use crate::plan::Edge;
use crate::plan::memory::hot_keys::{self, Divided, HotShare};
use crate::plan::memory::tuner;
use crate::plan::tree::placement::TierMap;
use crate::table::{Reason, UnsyncedTable};
use crate::version::state::Family;
use crate::version::{Change, Edit, NewTable};
use crate::visible::merge::MergeCursor;
use crate::visible::rule::RetentionFilter;
use crate::visible::{Cursor, EntryKind};
use crate::write::FlushTask;
use crate::write::queue::collection::Closed;
use crate::write::room::Kept;
use braidb_storage::Lane;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of copies in one frame. The commit lock is held while a frame is appended.
pub(super) const FRAME_BYTES: usize = 64 << 10;
/// The most sets of one flush whose values may stay in logs: 8. A log becomes a body if half of it is values of one family, which the logs
/// of many families are not. The look at all tables for each of thousands of sets would take seconds.
const MOST_SETS_WITH_PLACES: usize = 8;

/// A flushing set on its way to a table.
struct Part<'a> {
    task: &'a FlushTask,
    divided: Divided,
    /// The entries of the cold part to be written, if they were counted.
    survivors: Option<Arc<Survivors>>,
    places: Places,
}

impl Part<'_> {
    fn all_cold(task: &FlushTask) -> Part<'_> {
        let divided = Divided::all_cold(task.segments.to_vec());
        Part { task, divided, survivors: None, places: Places::default() }
    }
}

/// A flushing set whose table is written, and that no edit names yet.
struct Written<'a> {
    task: &'a FlushTask,
    hot: Option<Arc<Flat>>,
    closed: Option<Closed>,
    live_permille: Option<u64>,
    /// Versions that are not written, because newer ones hide them.
    dropped: u64,
    ended: tuner::Flushed,
    /// Keys that may become guards, each with its top level.
    sampled: Vec<(Vec<u8>, usize)>,
    /// Tables that point into logs, and their bytes.
    log_tables: (u64, u64),
}

/// The edit that adds the tables of a flush, and lets its families replay from the log that the switch began.
fn edit_of(families: &BTreeMap<FamilyId, Family>, outputs: &[Outputs], written: &[Written<'_>]) -> Edit {
    let mut edit = Edit::default();
    for (output, Written { task, closed, .. }) in outputs.iter().zip(written) {
        for table in &output.tables {
            let run = families[&task.family].version.flush_run();
            edit.add_whole_table(task.family, &run, table);
        }
        edit.push(Change::ReplayFrom { family: task.family, log: task.replay_from });
        for &idle in &task.idle {
            // A later flush of the idle family may have advanced `replay_from` further.
            if families[&idle].replay_from < task.replay_from {
                edit.push(Change::ReplayFrom { family: idle, log: task.replay_from });
            }
        }
        edit.changes.extend(closed.map(|Closed { log, bytes, .. }| Change::LogSealed { log, bytes }));
    }
    edit
}

impl Jobs {
    /// Flushes the sets `tasks`, which one switch took, and removes from `tasks` those that an edit names. After an error the remaining
    /// sets are as before, unless the database is poisoned.
    pub(super) fn flush_tasks(&self, tasks: &mut Vec<FlushTask>) -> Result<()> {
        match self.flush_together(tasks) {
            Ok(()) => tasks.clear(),
            // Each table that finds room lets logs go, which makes room for the next. One table at a time needs few descriptors.
            Err(error) if (error.is_full() || error.is_short_of_descriptors()) && tasks.len() > 1 => {
                while let Some(task) = tasks.first() {
                    self.flush_together(std::slice::from_ref(task))?;
                    tasks.remove(0);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn flush_together(&self, tasks: &[FlushTask]) -> Result<()> {
        self.parts.shared.health.check_unpoisoned()?;
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(tasks.len());
        let mut bodies = Vec::new();
        for task in tasks {
            let divided = self.divide(task);
            // Before the sync, so that the sync covers the places that are found.
            let (places, survivors) = match tasks.len() <= MOST_SETS_WITH_PLACES {
                true => self.place_values(task, &divided.cold, &bodies)?,
                false => (Places::default(), None),
            };
            bodies.extend(places.uses());
            parts.push(Part { task, divided, survivors, places });
        }
        let leaves_values = parts.iter().any(|part| !part.places.is_empty());
        let is_synced =
            mutant!("flush_before_log_sync") || mutant!("log_table_before_its_log") && leaves_values;
        if !is_synced {
            self.parts.queue.sync_before(tasks[0].replay_from)?;
        }
        let keeps = parts.iter().any(|part| part.divided.hot.is_some());
        let outcome = match self.write_flush(parts, true) {
            Err(error) if keeps && error.is_full() => {
                self.parts.queue.end_copies();
                self.write_flush(tasks.iter().map(Part::all_cold).collect(), false)
            }
            outcome => outcome,
        };
        self.parts.queue.end_copies();
        outcome
    }

    /// Separates hot and cold keys.
    fn divide(&self, task: &FlushTask) -> Divided {
        let mut parts = task.segments.to_vec();
        if mutant!("flush_leaves_a_segment_out") && parts.len() > 1 {
            parts.pop();
        }
        let limits = &self.parts.options.memory;
        let tree_keys = self.parts.shared.view.load().families[task.family.0 as usize].version.keys();
        // A flush of thousands of families keeps nothing, so it need not ask for each what the others keep.
        let families = if task.may_keep { self.parts.queue.room().states() } else { Default::default() };
        let others = families.iter().enumerate().filter(|(index, _)| *index != task.family.0 as usize);
        let others_bytes = others.map(|(_, family)| family.kept_bytes).sum();
        let mut catalog = self.catalog.lock();
        let share = HotShare::new(tree_keys, &catalog.hints_mut(task.family).tuner, others_bytes, limits);
        drop(catalog);
        let retention = || RetentionFilter::new(self.parts.shared.snapshots.drop_proof());
        hot_keys::divide(parts, task.may_keep, share, limits, retention)
    }

    /// Writes tables and copies, and commits all of them with one edit. `may_keep` says that the device had room for copies.
    fn write_flush(&self, parts: Vec<Part<'_>>, may_keep: bool) -> Result<()> {
        let (mut outputs, mut written) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        let mut unsynced: Vec<UnsyncedTable> = Vec::new();
        for part in parts {
            let (mut output, part) = self.write_table(part, may_keep)?;
            unsynced.append(&mut output.take_unsynced());
            outputs.push(output);
            written.push(part);
            if unsynced.len() >= self.tries.held().tables {
                unsynced.drain(..).try_for_each(UnsyncedTable::sync)?;
            }
        }
        unsynced.into_iter().try_for_each(UnsyncedTable::sync)?;
        outputs.iter().try_for_each(Outputs::sync_slow_names)?;
        // One sync for the names of all tables.
        if let Some(output) = outputs.iter().find(|output| !output.tables.is_empty()) {
            self.sync_names(output)?;
        }
        // Index and filter of a table that no reader will meet would only take memory.
        let view = self.parts.shared.view.load();
        let is_read = |part: &Written<'_>| {
            let version = &view.families[part.task.family.0 as usize].version;
            version.slices().any(|slice| slice.table.has_been_read())
        };
        let met = outputs.iter().zip(&written).filter(|(_, part)| is_read(part));
        let _early = self.parts.tables.open_early(met.flat_map(|(output, _)| &output.tables))?;
        drop(view);
        for part in &mut written {
            let (family, replay_from) = (part.task.family, part.task.replay_from);
            let copied = part.hot.as_ref().map(|hot| self.write_back_hot(family, hot, replay_from));
            part.closed = copied.transpose()?;
        }
        self.commit_flush(outputs, written)
    }

    /// Writes the cold keys of a flushing set to a table. Neither the table nor its name is synced yet.
    fn write_table<'a>(&self, part: Part<'a>, may_keep: bool) -> Result<(Outputs, Written<'a>)> {
        let Part { task, divided, survivors, places } = part;
        // No value in memory lies in a value file, so there is none to write anew.
        let target = self.target(task.family, 0, Reason::Flush, None, Arc::new(TierMap::fast()));
        let mut outputs = Outputs::new(target).leaving(places).synced_by_caller();
        let mut sampled = Vec::new();
        let retention = RetentionFilter::new(self.parts.shared.snapshots.drop_proof());
        let mut source: Box<dyn Cursor> = match &survivors {
            Some(survivors) => Box::new(survivors.cursor()),
            None => Box::new(MergeCursor::new(divided.cold.iter().map(Immutable::cursor).collect())),
        };
        outputs.write_early(&mut source, retention.clone())?;
        // Tombstones stay: the versions that they hide may lie in any level. The flush writes one table of any size, because a
        // run of L0 is one slice.
        outputs.write(
            &mut source,
            retention,
            |_| false,
            |key, _| {
                sampled
                    .extend(self.parts.options.tree.guards.sampled_level(key).map(|top| (key.to_vec(), top)));
                Edge::None
            },
            || Ok(()),
            &self.parts.shared.counters.flush_bytes,
        )?;
        let dropped_before = survivors.as_ref().map_or(0, |survivors| survivors.dropped);
        let dropped = divided.dropped + dropped_before + outputs.shadowed;
        let (hot, choice) = divided.hot.unzip();
        // Includes the values that stay in logs, because merges will write them.
        let bytes =
            |table: &NewTable| table.bytes + table.bodies.iter().map(|body| body.live_bytes).sum::<u64>();
        let ended = tuner::Flushed {
            is_asked_for: !(task.may_keep && may_keep),
            writes: task.writes,
            last_seq: task.last_seq,
            table_bytes: outputs.tables.iter().map(bytes).sum(),
            hot: choice,
            rested_bytes: divided.rested_bytes,
        };
        let (live_permille, log_tables) = (divided.live_permille, outputs.log_tables());
        let written = Written { task, hot, closed: None, live_permille, dropped, ended, sampled, log_tables };
        Ok((outputs, written))
    }

    /// Commits one edit for all sets, and installs them in one swap of the view.
    fn commit_flush(&self, outputs: Vec<Outputs>, written: Vec<Written<'_>>) -> Result<()> {
        let mut catalog = self.catalog.lock();
        let edit = edit_of(catalog.state().families(), &outputs, &written);
        if mutant!("log_deleted_one_edit_early") {
            let gone = self.take_logs_below(&mut catalog, written[0].task.replay_from);
            self.unlink_gone(gone);
        }
        self.commit_tables(&mut catalog, edit, outputs)?;
        let counters = &self.parts.shared.counters;
        let (mut flushed, mut late) = (Vec::with_capacity(written.len()), Vec::new());
        for part in written {
            let family = part.task.family;
            let hints = catalog.hints_mut(family);
            hints.chosen(part.sampled);
            hints.tuner.flushed(&part.ended, self.parts.options.memory.start_ppm());
            let version = catalog.version(family).clone();
            counters.hot_kept.add(part.hot.as_ref().map_or(0, |hot| hot.entries()));
            counters.flushes.add(1);
            counters.entries_dropped.add(part.dropped);
            counters.log_tables.add(part.log_tables.0);
            counters.log_table_bytes.add(part.log_tables.1);
            let hot = part.hot.map(Immutable::Flat);
            let mut kept = Kept { hot, live_permille: part.live_permille };
            if mutant!("hot_installed_late") {
                late.extend(kept.hot.take().map(|hot| (family, hot)));
            }
            flushed.push((part.task, kept, version));
        }
        let families: Vec<FamilyId> = flushed.iter().map(|(task, ..)| task.family).collect();
        let replay_from = catalog.state().min_replay_from();
        let gone = self.take_logs_below(&mut catalog, replay_from);
        self.parts.queue.finish_flush(flushed, replay_from);
        drop(catalog);
        // Logs are unlinked before room is made: a switch of a memtable begins a log, which may need their space.
        self.unlink_gone(gone);
        self.parts.queue.room_was_given_back();
        for (family, hot) in late {
            let queue = self.parts.queue.clone();
            self.parts.env.runtime.submit(Lane::Flush, Box::new(move || queue.keep_hot(family, hot)));
        }
        // A family with little memory may keep logs that a log collection can free.
        self.log_full.store(true, Ordering::Release);
        for family in families {
            self.memory_flushed(family);
            self.entries_returned.forget(family);
        }
        Ok(())
    }

    /// Copies the hot keys to the log that the switch began, or to a later one, and syncs the copies.
    fn write_back_hot(&self, family: FamilyId, hot: &Arc<Flat>, replay_from: FileId) -> Result<Closed> {
        if mutant!("write_back_waits_for_memory") && !self.parts.shared.pressure.has_room_for(0) {
            // The wait would never end: this flush is what makes room.
            return Err(Error::Closed);
        }
        let mut cursor = ImmutableCursor::Flat(hot.cursor());
        cursor.seek_to_first()?;
        let mut copies = EncodedBatch::default();
        let loses_tombstones = mutant!("hot_tombstone_lost");
        while cursor.valid() {
            copies.clear();
            while cursor.valid() && copies.bytes() < FRAME_BYTES {
                let (key, seq, kind) = (cursor.key(), cursor.seq(), cursor.kind());
                if !(loses_tombstones && kind == EntryKind::Delete) {
                    copies.push_written_back(family, seq, kind, key, cursor.value());
                }
                cursor.next()?;
            }
            if copies.count() > 0 {
                self.parts.queue.write_back_hot(&copies, replay_from)?;
            }
        }
        let closed = self.parts.queue.close_copies()?;
        if !mutant!("hot_not_synced") {
            self.parts.queue.sync_before(closed.next)?;
        }
        Ok(closed)
    }
}
