//! Log tables: a flush that writes an index and leaves values where they are, in the log; and what becomes of them later.
//!
//! # Which file holds a record at each instant
//!
//! `r` is a put of a large value; its record stands in log 7, its family replays from log 5, and log 8 begins with the freeze.
//!
//! 1. *The freeze* takes `r` for the flush. It stands in memory and in log 7, which is closed: nobody appends to it any more, and
//!    its length is known. A crash replays it, now and at every step before 4.
//! 2. *The form is chosen* (`plan/form.rs`). Memory is walked, so that it is known how much of each closed log the table
//!    would keep; then the chosen logs are read from end to end, each frame checked, for the place of each value. A value is
//!    left in the log only if what stands there is what memory holds, so whatever may be wrong with a log makes it no body: the
//!    value is written to the table. The same holds for a record whose place was not found, which has no home in such a log.
//!    Bodies are only logs that were closed by this open, or whose length the manifest knew already, and that the family still
//!    replays. Nothing on disk has changed.
//! 3. *All logs before log 8 are synced*, oldest first, with their names: log 7 is stable up to its footer. Then the index,
//!    with the handle of `r`, is written and synced, and its name. It is an orphan if we crash.
//! 4. *The edit* adds the table, names log 7 as its body with its length, and moves the family's `replay_from` to log 8. After
//!    its sync the index is the home of the key and log 7, as a body, that of the value; before, log 7 is that of both as a log.
//!    Nothing of the body may be missing any more: an open refuses where it is not there in its length.
//! 5. *Logs before the smallest `replay_from` go, but for those that tables of the state name, or that a view still reads*
//!    ([`Jobs::unlink_logs_below`]). So log 7 stays. Recovery does not replay it for this family, by its position; another family
//!    may still do so, and until then it is log and body at once: if what is alive of it in memory is written back, it stays as
//!    a body alone.
//! 6. *A merge* reads `r` out of log 7 and writes it, with its value, to a table of its own output. The edit that swaps the
//!    tables ends the claim of the old one on log 7. After its sync the new table is the home of `r`.
//! 7. *Log 7 goes* when no family replays it, no table of the state names it, and no view holds one that does; all three are asked
//!    under the lock that edits are made under. A crash in between leaves it to the next open, which asks the same.
//!
//! Moves, splits and hand-overs from L0 to L1 change slices alone: the table stays what it is, and so do its handles.

use super::{Catalog, Jobs};
use crate::base::checksum;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use crate::base::names;
use crate::log::{self, ValuePlace};
use crate::memory::{Frozen, Homes};
use crate::plan::Merge;
use crate::plan::form::{self, LEAST_VALUE_BYTES, LogOfFlush, LogOfMerge, Pinned};
use crate::value::{Body, Handle, Image};
use crate::visible::merge::MergeCursor;
use crate::visible::rule::{Fate, Sieve};
use crate::visible::{Cursor, EntryKind};
use crate::write::FlushTask;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A log that becomes a body, closed with so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLog {
    pub id: FileId,
    pub bytes: u64,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    seq: SeqNo,
    offset: u64,
    bytes: u32,
    crc: u32,
    /// Which of the logs.
    log: u32,
}

/// Where the values of a flushing set lie in the logs that become bodies of its table; none for a sorted table.
#[derive(Debug, Default)]
pub struct Places {
    logs: Vec<ClosedLog>,
    /// By number; of several places of one record the youngest is the first.
    places: Vec<Place>,
}

impl Places {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Where the value of the put `seq` lies, if that can be left there.
    pub fn find(&self, seq: SeqNo, value: &[u8]) -> Option<(ClosedLog, Handle)> {
        if self.places.is_empty() || value.len() < LEAST_VALUE_BYTES {
            return None;
        }
        let Place { offset, bytes, crc, log, .. } = *self.first_of(seq)?;
        let is_same = bytes as usize == value.len() && crc == checksum::of_value(value);
        is_same.then(|| (self.logs[log as usize], Handle { offset, bytes, crc }))
    }

    /// The first place of a number. Numbers are given one after the other, so it lies near to where it would if none were missing,
    /// and a search from there looks at few that are not in the processor's cache.
    fn first_of(&self, seq: SeqNo) -> Option<&Place> {
        let places = &self.places;
        let (first, last) = (places.first()?.seq, places.last()?.seq);
        if !(first..=last).contains(&seq) {
            return None;
        }
        let last_at = places.len() - 1;
        let guess = u128::from(seq - first) * last_at as u128 / u128::from((last - first).max(1));
        let (mut low, mut high, mut step) = (guess as usize, guess as usize, 1);
        while low > 0 && places[low].seq >= seq {
            low = low.saturating_sub(step);
            step *= 2;
        }
        step = 1;
        while high < last_at && places[high].seq < seq {
            high = (high + step).min(last_at);
            step *= 2;
        }
        let at = low + places[low..=high].partition_point(|place| place.seq < seq);
        places.get(at).filter(|place| place.seq == seq)
    }
}

impl Jobs {
    /// Decides in which form a flush of `parts`, newest first, is written: the places of the values that are left in logs, or none.
    pub(super) fn place_values(&self, task: &FlushTask, parts: &[Frozen]) -> Result<Places> {
        if self.options.form.live_percent == 0 {
            return Ok(Places::default());
        }
        let (mut logs, pinned_bytes) = self.closed_logs(task);
        if logs.is_empty() {
            return Ok(Places::default());
        }
        self.count_values(parts, &self.queue.homes(), &mut logs)?;
        let free = self.env.fs.free_space(&self.dir);
        let free = free.map_err(|error| Error::io("ask for the free space of", &self.dir, error))?;
        // What the device has room for beyond the reserve, that of the memory which becomes a table included.
        let reserve_bytes = self.options.merge_reserve_bytes.saturating_add(self.pressure.memory_bytes());
        let room_bytes = free.saturating_sub(reserve_bytes);
        let chosen = form::bodies(&logs, pinned_bytes, room_bytes, &self.options.form);
        let mut places = Places::default();
        // The youngest first, and a stable sort: of several places of a record it is the youngest that is found.
        for log in logs.iter().rev().filter(|log| chosen.contains(&log.id)) {
            self.read_places(task, ClosedLog { id: log.id, bytes: log.bytes }, &mut places);
        }
        places.places.sort_by_key(|place| place.seq);
        Ok(places)
    }

    /// The logs before the freeze that the family replays and that may become bodies, oldest first; and the bytes of all bodies.
    fn closed_logs(&self, task: &FlushTask) -> (Vec<LogOfFlush>, u64) {
        let catalog = self.catalog.lock();
        let closed = self.log_sync.live().into_iter().filter_map(|(log, bytes)| Some((log, bytes?)));
        let mut lengths: BTreeMap<FileId, u64> = closed.collect();
        lengths.extend(catalog.state.logs_sealed().filter_map(|log| {
            let bytes = catalog.state.sealed_bytes(log)?;
            Some((log, bytes))
        }));
        let mut live_bytes: BTreeMap<FileId, u64> = BTreeMap::new();
        for held in catalog.state.tables().flat_map(|table| table.bodies()) {
            *live_bytes.entry(held.body.id).or_default() += held.live_bytes;
        }
        let pinned_bytes = catalog.state.bodies().values().map(|body| body.bytes).sum();
        let from = catalog.state.families()[&task.family].replay_from;
        let log = |(&id, &bytes): (&FileId, &u64)| {
            let live_bytes = live_bytes.get(&id).copied().unwrap_or(0);
            LogOfFlush { id, bytes, values: 0, value_bytes: 0, live_bytes }
        };
        (lengths.range(from..task.replay_from).map(log).collect(), pinned_bytes)
    }

    /// Counts, of each log, what the flush would leave in it.
    fn count_values(&self, parts: &[Frozen], homes: &Homes, logs: &mut [LogOfFlush]) -> Result<()> {
        let mut sieve = Sieve::new(self.snapshots.drop_proof());
        let mut cursor = MergeCursor::new(parts.iter().map(Frozen::cursor).collect());
        cursor.seek_to_first()?;
        while cursor.valid() {
            let (seq, kind) = (cursor.seq(), cursor.kind());
            let fate = sieve.fate(cursor.key(), seq, kind, |_| false);
            let bytes = cursor.value().len();
            if fate == Fate::Keep && kind == EntryKind::Put && bytes >= LEAST_VALUE_BYTES {
                let home = homes.of(seq);
                if let Some(log) = logs.iter_mut().rfind(|log| Some(log.id) == home) {
                    log.values += 1;
                    log.value_bytes += bytes as u64;
                }
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Reads a log for the places of the family's values. One that cannot be read becomes no body: memory has the values.
    fn read_places(&self, task: &FlushTask, log: ClosedLog, found: &mut Places) {
        let (before, index) = (found.places.len(), found.logs.len() as u32);
        let (fs, path) = (self.env.fs.as_ref(), names::log(&self.dir, log.id));
        let wanted = |place: ValuePlace| {
            let ValuePlace { family, seq, offset, bytes, crc } = place;
            let is_wanted = family == task.family && bytes as usize >= LEAST_VALUE_BYTES;
            is_wanted.then_some(Place { seq, offset, bytes, crc, log: index })
        };
        let scanned = log::scan(fs, &path, log.id, Some(log.bytes), &mut |frame| {
            found.places.extend(frame.value_places().filter_map(wanted));
            Ok(())
        });
        found.logs.push(log);
        if scanned.is_err() {
            found.places.truncate(before);
        }
    }

    /// Loads the logs that a merge wants much of. For as long as the answer is held, the merge reads from it.
    pub(super) fn load_bodies(&self, merge: &Merge) -> Result<Vec<Arc<Image>>> {
        let mut bodies: BTreeMap<FileId, (&Body, u64)> = BTreeMap::new();
        for slice in merge.inputs.iter().map(|input| &input.slice) {
            for held in slice.table.bodies() {
                let (_, wanted) = bodies.entry(held.body.id).or_insert((&held.body, 0));
                *wanted += share(held.live_bytes, slice.bytes, slice.table.full_bytes());
            }
        }
        let log = |(&id, &(body, wanted_bytes)): (&FileId, &(&Body, u64))| LogOfMerge {
            id,
            bytes: body.bytes,
            wanted_bytes,
        };
        let logs: Vec<LogOfMerge> = bodies.iter().map(log).collect();
        form::to_load(&logs).iter().map(|id| bodies[id].0.load()).collect()
    }

    /// The tables that should give up their handles.
    pub(super) fn tables_to_rewrite(&self, catalog: &Catalog) -> BTreeSet<FileId> {
        if catalog.state.tables().all(|table| table.bodies().is_empty()) {
            return BTreeSet::new();
        }
        form::to_rewrite(&pinned(catalog), &self.options.form)
    }

    /// The logs that stay for the sake of tables alone.
    pub fn pinned_logs(&self) -> BTreeMap<FileId, Pinned> {
        pinned(&self.catalog.lock())
    }
}

/// The logs that no family replays any more and that tables of the state point into.
fn pinned(catalog: &Catalog) -> BTreeMap<FileId, Pinned> {
    let mut living: BTreeMap<FileId, u64> = BTreeMap::new();
    for slice in catalog.state.families().values().flat_map(|family| family.version.slices()) {
        if !slice.table.bodies().is_empty() {
            *living.entry(slice.table.id).or_default() += slice.bytes;
        }
    }
    let replay_from = catalog.state.min_replay_from();
    let mut pinned: BTreeMap<FileId, Pinned> = BTreeMap::new();
    for table in catalog.state.tables() {
        let slice_bytes = living.get(&table.id).copied().unwrap_or(0);
        for held in table.bodies().iter().filter(|held| held.body.id < replay_from) {
            let log = pinned.entry(held.body.id).or_default();
            log.bytes = held.body.bytes;
            log.live_bytes += share(held.live_bytes, slice_bytes, table.full_bytes());
            log.tables.insert(table.id);
        }
    }
    pinned
}

/// What part of `bytes` falls to `part` of `whole`.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(seqs: &[SeqNo]) -> Places {
        let value = [7; 40];
        let crc = checksum::of_value(&value);
        let place = |(at, &seq): (usize, &SeqNo)| Place { seq, offset: at as u64, bytes: 40, crc, log: 0 };
        Places {
            logs: vec![ClosedLog { id: FileId(5), bytes: 999 }],
            places: seqs.iter().enumerate().map(place).collect(),
        }
    }

    #[test]
    fn a_number_is_found_wherever_others_are_missing() {
        let dense: Vec<SeqNo> = (100..200).collect();
        let with_gaps: Vec<SeqNo> = (0..300).map(|n| 50 + n * n % 1000 + n * 7).collect();
        let lopsided: Vec<SeqNo> = (1..90).chain([1 << 40, (1 << 40) + 1, 1 << 55]).collect();
        let of_copies = vec![3, 3, 3, 9, 9, 9, 9, 12];
        for mut seqs in [dense, with_gaps, lopsided, of_copies, vec![8], vec![8, 8]] {
            seqs.sort_unstable();
            let places = places(&seqs);
            for seq in seqs.iter().flat_map(|&seq| [seq - 1, seq, seq + 1]).chain([0, 1 << 56]) {
                let found = places.find(seq, &[7; 40]).map(|(_, handle)| handle.offset as usize);
                assert_eq!(found, seqs.iter().position(|&other| other == seq), "{seq}");
            }
        }
        assert!(places(&[]).find(1, &[7; 40]).is_none());
    }

    #[test]
    fn only_what_memory_holds_is_left_in_the_log() {
        let places = places(&[4, 5, 6]);
        assert_eq!(places.find(5, &[7; 40]).unwrap().0, ClosedLog { id: FileId(5), bytes: 999 });
        assert!(places.find(5, &[8; 40]).is_none(), "another value");
        assert!(places.find(5, &[7; 41]).is_none(), "another length");
        assert!(places.find(5, &[7; 31]).is_none(), "too small");
    }
}
