//! Holes in value files: an excise gives back the space of the values that it took, without copying the others.
//!
//! Collection copies what is alive of a file, and then deletes the file. After an excise of nine tenths of a file this reads and writes a
//! tenth of it. The dead records of an excise lie side by side, because a job writes values in key order. So they are punched out
//! instead, and the living ones stay where they are.
//!
//! # Which file holds a record at each instant
//!
//! 1. *Before the edit of the excise* all records of the file have their handles in tables, and nothing is punched. Collection leaves
//!    the file alone from the edit until step 4, so that no merge copies what need not move.
//! 2. *After the edit*, which is synced, only living slices have handles into the file: slices of the state, and slices that readers hold. The
//!    tables of readers cannot be asked. So the thread waits for readers. It goes on once tables of the state are the only owners of the file's
//!    bodies, and have no slices but slices of the state.
//! 3. *The thread reads the handles* of all living slices that lead into the file. What lies between the living records is dead,
//!    and stays dead: merges copy handles of living slices, and no job makes a handle into a finished value file.
//! 4. *Dead blocks are punched out*, and count as garbage no more. A crash leaves some of the holes, or none. The next open asks the file
//!    system how much of the file lies in holes, and collection takes care of the rest.
//!
//! Collection takes care of trie tables, of files with several names (rule 22), and of files that readers or merges hold for longer than [`LOOKS`]
//! times [`LOOK_US`]. It also takes the files that are left when one excise emptied more than [`LOOKS`] times [`LIVING_BYTES`] of living values
//! (200 GB).

use super::{Catalog, Jobs};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::value::file::{HEADER_BYTES, record_of};
use crate::value::holes::dead_extents;
use crate::value::{BodyFile, BodyKind};
use crate::version::shape::cut::each_handle;
use crate::version::state::ValueFile;
use crate::version::table_file::TableFile;
use crate::version::{Change, Edit, Slice, State};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An excise punches a value file if at least one of this many of its bytes is garbage afterwards: 8. Less is not worth a search.
const EMPTIED_SHARE: u64 = 8;
/// The search for holes may read one byte of tables for this many bytes of garbage: 4. Tables with many small values would cost more than
/// the copies of a collection.
const READ_SHARE: u64 = 4;
/// Bytes of living values whose places one look holds, unless one file has more: 4 GiB. The places of four million values of 1 KiB take 64 MiB.
const LIVING_BYTES: u64 = 4 << 30;
/// Looks at value files that readers hold: 50, with [`LOOK_US`] between two. Collection takes a file that is held for longer.
const LOOKS: u32 = 50;
/// Microseconds between two looks: 2 ms, about the time of a scan of a few hundred values.
const LOOK_US: u64 = 2_000;

/// Value files out of which an excise takes much. Collection leaves them alone until the drop.
#[derive(Debug)]
pub(super) struct Emptied<'a> {
    jobs: &'a Jobs,
    files: BTreeSet<FileId>,
    /// The dead extents of files, not punched yet.
    holes: Vec<(BodyFile, Vec<Range<u64>>)>,
}

/// Value files that only tables of the state own, with the records that living slices lead to.
type Living = BTreeMap<FileId, (BodyFile, Vec<Range<u64>>)>;

/// A table that leads into value files, with the ranges of its living slices.
type Leading = (Arc<TableFile>, Vec<KeyRange>);

/// The right of one thread to punch holes out of a value file, or to give the file a second name.
pub(super) struct Held<'a> {
    jobs: &'a Jobs,
    id: FileId,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.jobs.held_value_files.lock().remove(&self.id);
    }
}

impl<'a> Emptied<'a> {
    pub(super) fn none(jobs: &'a Jobs) -> Emptied<'a> {
        Emptied { jobs, files: BTreeSet::new(), holes: Vec::new() }
    }

    /// Notes the value files out of which `edit`, of a family, takes much. The caller holds the catalog, and commits the edit next.
    pub(super) fn by_edit(&mut self, catalog: &mut Catalog, family: FamilyId, edit: &Edit) {
        let taken = taken_bytes(catalog, family, edit);
        let files = catalog.state().value_files();
        let much = taken.into_iter().filter(|(id, taken)| {
            let (file, all_bytes) = (&files[id], files[id].total_bytes());
            *taken > 0 && (file.garbage_bytes() + taken).saturating_mul(EMPTIED_SHARE) >= all_bytes
        });
        self.files = much.map(|(id, _)| id).collect();
        catalog.empty(&self.files);
    }

    /// Finds what is dead in the files that no reader holds. Waits for the others, but not for long.
    pub(super) fn find_holes(&mut self) {
        let mut left = self.files.clone();
        if left.is_empty() || is_dear(self.jobs.catalog.lock().state(), &left) {
            return;
        }
        for look in 0..LOOKS {
            if left.is_empty() {
                return;
            }
            if look > 0 {
                self.jobs.parts.env.runtime.pause_us(LOOK_US);
            }
            // Collection takes care of a file whose handles cannot be read. A close does not wait for the end of the search.
            let is_writable = self.jobs.parts.shared.health.check_writable().is_ok();
            let Some(living) = is_writable.then(|| self.jobs.living_records(&mut left).ok()).flatten() else {
                return;
            };
            for (file, mut records) in living.into_values() {
                self.holes.push((file, dead_extents(&mut records, file.bytes)));
            }
        }
    }

    /// Punches the holes that were found. The caller is counted as a thread that deletes.
    pub(super) fn punch(&mut self) {
        for (file, holes) in self.holes.drain(..) {
            self.jobs.punch_values(file, &holes);
        }
    }
}

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        if !self.files.is_empty() {
            let mut catalog = self.jobs.catalog.lock();
            catalog.end_emptying(&self.files);
            self.jobs.choose_collected(&mut catalog);
        }
    }
}

/// Bytes of records that an edit of a family takes out of the account of each value file.
fn taken_bytes(catalog: &Catalog, family: FamilyId, edit: &Edit) -> BTreeMap<FileId, u64> {
    if catalog.state().value_files().is_empty() {
        return BTreeMap::new();
    }
    let slices = catalog.version(family).slices();
    let known: BTreeMap<_, _> =
        slices.map(|slice| ((slice.table.id, slice.range.low.as_slice()), &slice.values)).collect();
    let mut taken: BTreeMap<FileId, u64> = BTreeMap::new();
    for change in &edit.changes {
        if let Change::SliceRemoved { table, low, .. } = change {
            let values = known.get(&(*table, low.as_slice())).into_iter().flat_map(|values| values.iter());
            values.for_each(|&(id, bytes)| *taken.entry(id).or_default() += bytes);
        }
    }
    for change in &edit.changes {
        if let Change::SliceAdded { part, .. } = change {
            for &(id, bytes) in &part.values {
                taken.entry(id).and_modify(|taken| *taken = taken.saturating_sub(bytes));
            }
        }
    }
    taken
}

impl Jobs {
    /// Takes the right to punch or link value file `id`. Waits for a thread that has it.
    pub(super) fn hold_value_file(&self, id: FileId) -> Held<'_> {
        while !self.held_value_files.lock().insert(id) {
            self.parts.env.runtime.pause_us(LOOK_US);
        }
        Held { jobs: self, id }
    }

    /// The living records of `wanted` files that no table owns but tables of the state. Takes these files out of `wanted`, and the files that
    /// are left to collection.
    fn living_records(&self, wanted: &mut BTreeSet<FileId>) -> Result<Living> {
        let (mut living, tables) = self.settled(wanted);
        for (table, ranges) in tables {
            for range in ranges {
                add_records(&table, &range, &mut living)?;
            }
        }
        if mutant!("hole_in_a_living_value") {
            living.values_mut().for_each(|(_, records)| _ = records.pop());
        }
        Ok(living)
    }

    /// Files as in [`Jobs::living_records`], without records, and the tables that lead there, with the ranges of their living slices. No slice
    /// comes to live outside of these ranges (`TableFile::held`).
    fn settled(&self, wanted: &mut BTreeSet<FileId>) -> (Living, Vec<Leading>) {
        let catalog = self.catalog.lock();
        let state = catalog.state();
        let tables: Vec<_> =
            state.tables().filter(|table| leads_into(table, |id| wanted.contains(&id))).collect();
        let owners = owners_in(&tables, wanted);
        let aged = files_of_older_slices(state, &tables);
        wanted.retain(|id| owners.get(id).is_some_and(|(file, _)| file.kind == BodyKind::Values));
        let bodies = self.parts.tables.bodies();
        let (mut living, mut living_bytes) = (Living::new(), 0);
        for (id, (file, count)) in owners {
            let file_bytes = state.value_files()[&id].live_bytes;
            let has_room = living.is_empty() || living_bytes + file_bytes <= LIVING_BYTES;
            let is_settled = bodies.owners(id) == count && !aged.contains(&id);
            if has_room && wanted.contains(&id) && is_settled {
                living.insert(id, (file, Vec::new()));
                living_bytes += file_bytes;
                wanted.remove(&id);
            }
        }
        let leading = tables.into_iter().filter(|table| leads_into(table, |id| living.contains_key(&id)));
        let leading = leading.map(|table| (table.clone(), table.held())).collect();
        (living, leading)
    }

    /// Punches holes into a value file, if it has one name.
    fn punch_values(&self, file: BodyFile, holes: &[Range<u64>]) {
        let _held = self.hold_value_file(file.id);
        let path = self.parts.tables.dirs().values(file.tier, file.id);
        // A hole would be in the other database, too, which may read what is dead here (rule 22).
        if !matches!(self.parts.env.fs.links(&path), Ok(1)) && !mutant!("linked_file_punched") {
            return;
        }
        let hole_bytes = self.punch_extents(&path, file.tier, holes);
        let new_bytes = self.catalog.lock().note_holes(file.id, hole_bytes);
        self.parts.shared.counters.hole_bytes.add(new_bytes);
    }

    /// Punches extents out of a value file, and returns their bytes. Stops at an error, and once the handle is closed or poisoned: another
    /// process may be in the directory then.
    fn punch_extents(&self, path: &Path, tier: TierId, extents: &[Range<u64>]) -> u64 {
        let mut hole_bytes = 0;
        for extent in extents {
            let bytes = extent.end - extent.start;
            let is_writable = self.parts.shared.health.check_writable().is_ok();
            if !is_writable || self.parts.env.fs.punch_hole(path, extent.start, bytes).is_err() {
                break;
            }
            self.has_given_back(tier);
            hole_bytes += bytes;
        }
        hole_bytes
    }
}

fn leads_into(table: &TableFile, is_wanted: impl Fn(FileId) -> bool) -> bool {
    table.bodies().iter().any(|held| is_wanted(held.body.file.id))
}

/// How many owners the `wanted` files have among these tables: a table, and its reader if it is open. A table that opens later is an owner
/// more, and the thread looks again.
fn owners_in(tables: &[&Arc<TableFile>], wanted: &BTreeSet<FileId>) -> BTreeMap<FileId, (BodyFile, usize)> {
    let mut owners: BTreeMap<FileId, (BodyFile, usize)> = BTreeMap::new();
    for table in tables {
        let count = 1 + usize::from(table.opened().is_some());
        for held in table.bodies().iter().filter(|held| wanted.contains(&held.body.file.id)) {
            owners.entry(held.body.file.id).or_insert((held.body.file, 0)).1 += count;
        }
    }
    owners
}

/// The value files into which slices lead that a reader or a merge holds, and the state has no more.
fn files_of_older_slices(state: &State, tables: &[&Arc<TableFile>]) -> BTreeSet<FileId> {
    let mut counts: BTreeMap<FileId, usize> = BTreeMap::new();
    let slices = state.families().values().flat_map(|family| family.version.slices());
    slices.for_each(|slice| *counts.entry(slice.table.id).or_default() += 1);
    let aged = tables.iter().filter(|table| table.held().len() > counts.get(&table.id).copied().unwrap_or(0));
    aged.flat_map(|table| table.bodies().iter().map(|held| held.body.file.id)).collect()
}

/// Whether the handles of these files lie among so many bytes of tables that collection costs less.
fn is_dear(state: &State, files: &BTreeSet<FileId>) -> bool {
    let leads_there = |slice: &&Arc<Slice>| slice.values.iter().any(|(id, _)| files.contains(id));
    let slices = state.families().values().flat_map(|family| family.version.slices()).filter(leads_there);
    // The bytes of a small slice are an estimate by blocks of the table and all of its values.
    let in_table =
        |slice: &Arc<Slice>| slice.bytes.saturating_sub(slice.value_bytes()).min(slice.table.bytes);
    let table_bytes: u64 = slices.map(in_table).sum();
    let named = files.iter().filter_map(|id| state.value_files().get(id));
    table_bytes.saturating_mul(READ_SHARE) > named.map(ValueFile::garbage_bytes).sum()
}

/// Adds the records that the entries of a table in `range` lead to. A record that lies in no value file of this length leaves the file without
/// holes: its table is damaged.
fn add_records(table: &TableFile, range: &KeyRange, living: &mut Living) -> Result<()> {
    each_handle(table, range, |file, handle| {
        let Some((_, records)) = living.get_mut(&file.id) else { return };
        let record = record_of(&handle);
        match record.start >= HEADER_BYTES as u64 && record.end <= file.bytes {
            true => records.push(record),
            false => _ = living.remove(&file.id),
        }
    })
}
