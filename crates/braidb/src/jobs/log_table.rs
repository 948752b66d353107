//! Log tables: a flush writes an index, and leaves values where they are in the log. This file follows the index and the log
//! until both are gone.
//!
//! # Which file holds a record at each instant
//!
//! `r` is a put of a value of 500 bytes: no value that goes to a value file stays in a log. The record of `r` stands in log 7. Its
//! family replays from log 5, and log 8 begins with the switch of the memtable.
//!
//! 1. *The switch* takes `r` for the flush. `r` stands in memory and in log 7. Log 7 is closed: no writer appends to it any
//!    more, and its length is known. A crash replays it, now and at every step before 4.
//! 2. *The form is chosen* (`plan/form.rs`). The flush job walks memory to count how much of each closed log the table would
//!    keep. The writer of the log remembers the place and checksum of each value (`log/places.rs`), so nothing is read. A
//!    sequence number is given once, so the record in memory is the one that was appended with it. A reader or merge that reads
//!    a value by its handle compares the checksum, and detects if the log holds something else. A record without a known place
//!    goes to the table with its value. Places are unknown where logs are large or went unused for long, and for recovered records that
//!    were not copied to the first log of this open. Bodies are only logs that this open closed and that the family still replays.
//!    Nothing on disk has changed.
//! 3. *All logs before log 8 are synced*, oldest first, with their names: log 7 is stable up to its footer. Then the index,
//!    with the handle of `r`, is written and synced, and its name. A crash now leaves an orphan index.
//! 4. *The edit* adds the table, names log 7 as its body with its length, and moves the family's `replay_from` to log 8. Before
//!    the sync of the edit, log 7 as a log is the home of key and value. After the sync, the index is the home of the key, and
//!    log 7 as a body is the home of the value. From now on an open refuses a body that is missing or shorter than its length.
//! 5. *Logs before the smallest `replay_from` go, but for those that tables of the state name, or that a view still reads*
//!    ([`Jobs::take_logs_below`]). So log 7 stays. By its position, recovery does not replay it for this family. Another
//!    family may still replay it, and until then it is log and body at once. After a log collection of the other family's live
//!    records, it stays as a body alone.
//! 6. *A merge* reads `r` out of log 7 and writes it, with its value, to a table of its own output. The edit that swaps the
//!    tables ends the claim of the old table on log 7. After the sync of the edit the new table is the home of `r`.
//! 7. *Log 7 goes* when three things hold. No family replays it, no table of the state names it, and no view holds a table that
//!    names it. All three are checked under the lock that edits are made under. After a crash in between, the next open checks
//!    them.
//!
//! Moves, splits and trivial moves from L0 to L1 change slices alone: the table and its handles stay as they are.

use super::{Catalog, Jobs};
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use crate::log::{ValuePlace, ValuePlaces};
use crate::memory::{Immutable, Survivors};
use crate::plan::Merge;
use crate::plan::form::{self, Choice, LEAST_VALUE_BYTES, LogOfFlush, LogOfMerge, Pinned};
use crate::plan::values::Rewrites;
use crate::value::{Body, BodyKind, Handle, Image};
use crate::version::table_file::HeldBody;
use crate::visible::EntryKind;
use crate::visible::rule::RetentionFilter;
use crate::write::FlushTask;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A log that becomes a body, and its length when it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLog {
    pub id: FileId,
    pub bytes: u64,
}

/// A log before the switch that may become a body, and where its values lie.
struct Candidate {
    log: LogOfFlush,
    places: Arc<ValuePlaces>,
}

/// A value that a flush writes.
#[derive(Clone, Copy, Debug)]
struct Placed {
    seq: SeqNo,
    /// The index of the log that holds the value, and the place in it.
    place: Option<(usize, ValuePlace)>,
}

/// The sequence number of a value, and the index of the log that holds it.
type Found = (SeqNo, Option<usize>);

/// A log that becomes a body with the edit of a flush.
#[derive(Clone, Copy, Debug)]
pub struct BodyOfFlush {
    pub id: FileId,
    pub bytes: u64,
    /// Bytes of values that the table leaves in it.
    pub live_bytes: u64,
}

/// Where the values of a flushing set lie in the logs that become bodies of its table; none for a sorted table.
#[derive(Debug, Default)]
pub struct Places {
    /// The logs that become bodies; `None` for the other logs before the switch.
    logs: Vec<Option<ClosedLog>>,
    /// Each value that is not too small, in the order of writing. The flush goes through the list from front to end.
    values: Vec<Placed>,
    /// Number of `values` that `find` has passed.
    asked: usize,
}

impl Places {
    /// No value is left in a log.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// The logs that become bodies, each with its length and the bytes of the values that are left in it.
    pub fn uses(&self) -> Vec<BodyOfFlush> {
        let of = |(index, log): (usize, &Option<ClosedLog>)| {
            let ClosedLog { id, bytes } = (*log)?;
            let placed = self.values.iter().filter_map(|value| value.place);
            let left = placed.filter(|(log, _)| *log == index).map(|(_, place)| u64::from(place.bytes));
            Some(BodyOfFlush { id, bytes, live_bytes: left.sum() })
        };
        self.logs.iter().enumerate().filter_map(of).collect()
    }

    /// Where the value of the put `seq`, of `bytes` bytes, lies, if it can be left in a log. Callers ask for values in the
    /// order of writing, and may pass over some.
    pub fn find(&mut self, seq: SeqNo, bytes: usize) -> Option<(ClosedLog, Handle)> {
        if self.is_empty() || bytes < LEAST_VALUE_BYTES {
            return None;
        }
        let ahead = self.values[self.asked..].iter().position(|value| value.seq == seq)?;
        let found = self.values[self.asked + ahead].place;
        self.asked += ahead + 1;
        let (log, place) = found?;
        let ValuePlace { offset, bytes: placed_bytes, crc } = place;
        assert_eq!(placed_bytes as usize, bytes, "a number is given once");
        Some((self.logs[log]?, Handle { offset, bytes: placed_bytes, crc }))
    }
}

impl Jobs {
    /// Decides in which form a flush of `parts`, newest first, is written. Returns the places of the values that are left in
    /// logs, or none. Also returns what the flush writes, if it was counted. `before` are the bodies of other families whose edit is the
    /// same.
    ///
    /// No chosen log is deleted before the edit that names it, although no lock is held meanwhile: the family replays the log until then.
    /// Only a log collection could end the replay, and it runs on the one thread of [`Lane::Flush`], as this flush does.
    ///
    /// [`Lane::Flush`]: braidb_storage::Lane::Flush
    pub(super) fn place_values(
        &self,
        task: &FlushTask,
        parts: &[Immutable],
        before: &[BodyOfFlush],
    ) -> Result<(Places, Option<Arc<Survivors>>)> {
        let none = (Places::default(), None);
        if !self.parts.options.form.may_leave_values() {
            return Ok(none);
        }
        let log_bytes = self.log_bytes_of(task);
        self.parts.shared.log_sync.flush_took(log_bytes);
        let entries_returned = self.entries_returned.of(task.family);
        let version = self.parts.shared.view.load().families[task.family.0 as usize].version.clone();
        if form::are_too_large(log_bytes) || form::is_scanned(entries_returned, version.keys()) {
            return Ok(none);
        }
        let (mut candidates, pinned_bytes) = self.closed_logs(task, before);
        if candidates.is_empty() {
            return Ok(none);
        }
        let free = self.parts.env.fs.free_space(&self.parts.dir);
        let free = free.map_err(|error| Error::io("ask for the free space of", &self.parts.dir, error))?;
        // The room of the device beyond the reserve, which includes the memory that becomes a table.
        let reserve_bytes =
            self.parts.options.merge_reserve_bytes.saturating_add(self.parts.shared.pressure.memory_bytes());
        let room_bytes = free.saturating_sub(reserve_bytes);
        let cells = version.level(1).cells.len();
        let place = form::Place { pinned_bytes, room_bytes, log_bytes, cells };
        // Counting what the flush writes is a walk over all memory. So the choice is first asked for the most that could be
        // left.
        let at_best = candidates.iter().map(|candidate| {
            let (values, value_bytes) = candidate.places.values(|bytes| self.may_stay_in_a_log(bytes));
            LogOfFlush { values, value_bytes, ..candidate.log }
        });
        if form::choose(&at_best.collect::<Vec<_>>(), &place, &self.parts.options.form) == Choice::default() {
            return Ok((Places::default(), None));
        }
        let (found, survivors) = self.count_values(parts, &mut candidates);
        let logs: Vec<LogOfFlush> = candidates.iter().map(|candidate| candidate.log).collect();
        let choice = form::choose(&logs, &place, &self.parts.options.form);
        self.count_refused(choice.refused_bytes);
        let chosen = choice.bodies;
        if chosen.is_empty() {
            return Ok((Places::default(), Some(survivors)));
        }
        self.parts.shared.log_sync.are_used(&chosen);
        // Places are looked up here, not in the walk. The lookups do not depend on each other, so the processor runs many at
        // once.
        let value = |(seq, log): Found| {
            let place = log.and_then(|log| Some((log, candidates[log].places.find(seq)?)));
            Placed { seq, place }
        };
        let body =
            |log: &LogOfFlush| chosen.contains(&log.id).then_some(ClosedLog { id: log.id, bytes: log.bytes });
        let values = found.into_iter().map(value).collect();
        let places = Places { logs: logs.iter().map(body).collect(), values, asked: 0 };
        Ok((places, Some(survivors)))
    }

    /// Whether a flush may leave a value of this size in a log. A larger value goes to a value file, where no merge moves it: merges would
    /// read it out of the log only to write it there.
    fn may_stay_in_a_log(&self, bytes: usize) -> bool {
        bytes >= LEAST_VALUE_BYTES && !self.parts.options.values.separates(bytes)
    }

    /// Bytes of all logs before the switch that the family replays.
    fn log_bytes_of(&self, task: &FlushTask) -> u64 {
        let from = self.catalog.lock().state().families()[&task.family].replay_from;
        let is_replayed = |id: FileId| (from..task.replay_from).contains(&id);
        let sizes = self.parts.shared.log_sync.sizes().into_iter().filter(|&(id, _)| is_replayed(id));
        sizes.map(|(_, bytes)| bytes).sum()
    }

    /// The logs before the switch that the family replays and that may become bodies, oldest first. Also the bytes of all bodies. Bodies
    /// of `before` count as if their edit were there.
    fn closed_logs(&self, task: &FlushTask, before: &[BodyOfFlush]) -> (Vec<Candidate>, u64) {
        let catalog = self.catalog.lock();
        let mut live_bytes: BTreeMap<FileId, u64> = BTreeMap::new();
        for held in catalog.state().tables().flat_map(|table| table.logs()) {
            *live_bytes.entry(held.body.file.id).or_default() += held.live_bytes;
        }
        let bodies = catalog.state().log_bodies();
        let mut pinned: BTreeMap<FileId, u64> =
            bodies.values().map(|body| (body.file.id, body.file.bytes)).collect();
        for body in before {
            *live_bytes.entry(body.id).or_default() += body.live_bytes;
            pinned.insert(body.id, body.bytes);
        }
        let pinned_bytes = pinned.values().sum();
        let from = catalog.state().families()[&task.family].replay_from;
        let is_replayed = |id: FileId| (from..task.replay_from).contains(&id);
        let told = self.parts.shared.log_sync.closed().into_iter().filter(|&(id, ..)| is_replayed(id));
        let candidate = |(id, bytes, places)| {
            let live_bytes = live_bytes.get(&id).copied().unwrap_or(0);
            Candidate { log: LogOfFlush { id, bytes, values: 0, value_bytes: 0, live_bytes }, places }
        };
        (told.map(candidate).collect(), pinned_bytes)
    }

    /// Counts the values that the flush would leave in each log. Returns the number of each value with its log, and all entries
    /// to be written.
    fn count_values(&self, parts: &[Immutable], logs: &mut [Candidate]) -> (Vec<Found>, Arc<Survivors>) {
        let mut found = Vec::new();
        let retention = RetentionFilter::new(self.parts.shared.snapshots.drop_proof());
        let survivors = Survivors::of(parts, retention, |seq, kind, value_bytes| {
            if kind == EntryKind::Put && self.may_stay_in_a_log(value_bytes) {
                // A record that was written back stands in several logs: the youngest is replayed for the longest time.
                let log = logs.iter().rposition(|log| log.places.hold(seq));
                if let Some(at) = log {
                    logs[at].log.values += 1;
                    logs[at].log.value_bytes += value_bytes as u64;
                }
                found.push((seq, log));
            }
        });
        (found, survivors)
    }

    /// Loads the logs and collected trie tables that a merge reads much of. The merge reads from the loaded files while the caller holds
    /// them. A file that cannot be loaded is read value by value: the merge may not need the broken part. Value files in key order are not
    /// loaded: the merge reads them onward, in chunks.
    pub(super) fn load_bodies(&self, merge: &Merge, rewrites: Option<&Rewrites>) -> Vec<Arc<Image>> {
        let mut bodies: BTreeMap<FileId, (&Body, u64)> = BTreeMap::new();
        for slice in merge.inputs.iter().map(|input| &input.slice) {
            let is_read = |held: &&HeldBody| {
                let file = held.body.file;
                match file.kind {
                    BodyKind::Log => true,
                    BodyKind::Trie => rewrites.is_some_and(|rewrites| rewrites.files.contains(&file.id)),
                    BodyKind::Values => false,
                }
            };
            for held in slice.table.bodies().iter().filter(is_read) {
                let (_, wanted) = bodies.entry(held.body.file.id).or_insert((&held.body, 0));
                *wanted += share(held.live_bytes, slice.bytes, slice.table.full_bytes());
            }
        }
        let log = |(&id, &(body, wanted_bytes)): (&FileId, &(&Body, u64))| LogOfMerge {
            id,
            bytes: body.file.bytes,
            wanted_bytes,
        };
        let logs: Vec<LogOfMerge> = bodies.iter().map(log).collect();
        form::to_load(&logs, &self.parts.options.form)
            .iter()
            .filter_map(|id| bodies[id].0.load().ok())
            .collect()
    }

    /// The tables that merges are to rewrite, so that logs and value files that the tables point into can be deleted.
    pub(super) fn tables_to_rewrite(&self, catalog: &Catalog) -> BTreeSet<FileId> {
        if catalog.state().tables().all(|table| table.bodies().is_empty()) {
            return BTreeSet::new();
        }
        let mut tables = form::to_rewrite(&pinned(catalog), catalog.let_go(), &self.parts.options.form);
        tables.append(&mut self.tables_of_collected(catalog));
        tables
    }

    /// Counts the `bytes` of whole logs that a flush could not keep as bodies, because the bound of pinned bytes was reached.
    fn count_refused(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut catalog = self.catalog.lock();
        let pinned = pinned(&catalog);
        catalog.count_refused(bytes, &pinned, &self.parts.options.form);
    }

    /// The logs that stay only because tables point into them.
    pub fn pinned_logs(&self) -> BTreeMap<FileId, Pinned> {
        pinned(&self.catalog.lock())
    }
}

/// The logs that no family replays any more and that tables of the state point into.
fn pinned(catalog: &Catalog) -> BTreeMap<FileId, Pinned> {
    let mut living: BTreeMap<FileId, u64> = BTreeMap::new();
    for slice in catalog.state().families().values().flat_map(|family| family.version.slices()) {
        if slice.table.pins_logs() {
            *living.entry(slice.table.id).or_default() += slice.bytes;
        }
    }
    let replay_from = catalog.state().min_replay_from();
    let mut pinned: BTreeMap<FileId, Pinned> = BTreeMap::new();
    for table in catalog.state().tables() {
        let slice_bytes = living.get(&table.id).copied().unwrap_or(0);
        for held in table.logs().filter(|held| held.body.file.id < replay_from) {
            let log = pinned.entry(held.body.file.id).or_default();
            log.bytes = held.body.file.bytes;
            log.live_bytes += share(held.live_bytes, slice_bytes, table.full_bytes());
            log.tables.insert(table.id);
        }
    }
    pinned
}

/// The share of `bytes` that falls to `part` of `whole`.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: ClosedLog = ClosedLog { id: FileId(5), bytes: 999 };

    /// The places of values with the sequence numbers `order`, in the order of writing. A value with an odd number below 80 lies in the
    /// second log. From 80 on, odd ones lie in the third, which is no body.
    fn places(order: &[SeqNo]) -> Places {
        let value = |&seq: &SeqNo| {
            let place = ValuePlace { offset: seq * 100, bytes: 40, crc: 0 };
            Placed { seq, place: (seq % 2 == 1).then_some((if seq < 80 { 1 } else { 2 }, place)) }
        };
        Places { logs: vec![None, Some(LOG), None], values: order.iter().map(value).collect(), asked: 0 }
    }

    #[test]
    fn places_are_found_in_the_order_of_writing() {
        let order = [71, 12, 81, 33, 5, 90, 35, 9];
        let all = |seqs: &[SeqNo]| {
            let mut places = places(&order);
            let found = |&seq: &SeqNo| places.find(seq, 40).map(|(log, handle)| (log, handle.offset));
            seqs.iter().map(found).collect::<Vec<_>>()
        };
        let at = |seq: SeqNo| Some((LOG, seq * 100));
        assert_eq!(all(&order), [at(71), None, None, at(33), at(5), None, at(35), at(9)]);
        assert_eq!(all(&[33, 35]), [at(33), at(35)], "some are not written");
        assert_eq!(all(&[33, 6, 71, 35]), [at(33), None, None, at(35)], "some are unknown");
        let mut places = places(&[71]);
        assert!(places.find(71, LEAST_VALUE_BYTES - 1).is_none(), "too small");
        assert_eq!(places.find(71, 40), Some((LOG, Handle { offset: 7100, bytes: 40, crc: 0 })));
        assert!(Places::default().find(71, 40).is_none());
    }
}
