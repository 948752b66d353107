//! Value files: which of them are collected, and when one may go.
//!
//! # Which file holds a value at each instant
//!
//! `v` is a large value, and `r` the record of its put. A job separates `v` from its key: mostly the flush of `r`.
//!
//! 1. *Before the job* `v` stands where `r` does. For a flush this is a log. For a merge it is an input table, or the log that a log table
//!    points into: the threshold was larger when these were written.
//! 2. *The job writes* `v` to value file 20 and the handle of `v` to table 21. A crash leaves two files that nothing names, and the
//!    next open deletes them. `v` stands where it stood.
//! 3. *File 20 is synced, then table 21, then their names.* A crash leaves what step 2 leaves.
//! 4. *The edit* adds table 21, names file 20 as its body with its length, and takes the inputs out. Before the sync of the edit the
//!    inputs are the home of `v`; after it, file 20 is. From now on an open refuses a value file that is missing or shorter.
//! 5. *Later merges* write the handle of `v` to other tables, and their edits name file 20 again. `v` does not move. The inputs hold
//!    file 20 until the edit does.
//! 6. *Relocation.* Where file 20 has become mostly garbage, or the cell of `v` lies in many small places, a merge that keeps `v` writes it to
//!    value file 30, as in steps 2 to 4. The handle moves with the version of the key that the merge keeps, so no newer write is undone.
//! 7. *File 20 goes* when no table of the state names it and no view holds a table that does: readers and iterators hold a table, and a
//!    table holds its bodies. Both are checked under the lock that edits are committed under. A crash before the unlink leaves a file
//!    that nothing names.
//!
//! Moves, splits and joins change slices alone. Recovery writes all values to tables; later merges move large ones to value files.

use super::hints::Hints;
use super::{Catalog, Jobs};
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::base::mutant::mutant;
use crate::plan::Merge;
use crate::plan::tree::space_of;
use crate::plan::values::Rewrites;
use crate::plan::values::collection::{self, Cells, Space, Total};
use crate::plan::values::gathering;
use crate::value::BodyKind;
use crate::version::state::{Family, ValueFile};
use crate::version::table_file::TableFile;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A merge rewrites values of files that no round of collection has chosen only if the device has room for this many times its inputs: 16.
/// A file is deleted only when no table leads into it. So these values are on the device twice for a time, and no round bounds their bytes.
const ROOM_FACTOR: u64 = 16;

impl Jobs {
    /// Chooses the value files to be collected. Called after each edit.
    pub(super) fn choose_collected(&self, catalog: &mut Catalog) {
        let mut pinned = catalog.leave_pinned();
        pinned.extend(catalog.emptied());
        let (carried, round) = self.files_to_empty(catalog, &pinned);
        carried.iter().chain(round.iter().flatten()).for_each(|&id| _ = self.tries.let_go(id));
        catalog.collect(carried, round);
    }

    /// The value files whose values every merge that reads them writes anew if the device has room, and the files of the next round of
    /// collection; `None` while a round goes on. Files that damage or an excise has `pinned` are in neither.
    fn files_to_empty(
        &self,
        catalog: &Catalog,
        pinned: &BTreeSet<FileId>,
    ) -> (BTreeSet<FileId>, Option<BTreeSet<FileId>>) {
        let state = catalog.state();
        let mut files = Cow::Borrowed(state.value_files());
        if !pinned.is_empty() {
            files.to_mut().retain(|id, _| !pinned.contains(id));
        }
        let watermark = self.parts.shared.snapshots.drop_proof().watermark();
        let space = |(id, family): (&FamilyId, &Family)| {
            let permille = catalog.hints(*id).map_or(0, Hints::measured_permille);
            space_of(&family.version, permille, watermark)
        };
        let mut space = match files.is_empty() {
            true => Space::default(),
            false => state.families().iter().map(space).fold(Space::default(), Space::and),
        };
        if !pinned.is_empty() {
            // Hidden values that damage keeps from being merged cannot be told from other hidden values, so none are counted.
            space.hidden_value_bytes = 0;
        }
        let (total, options) = (Total::of(&files, space), &self.parts.options.values);
        let permille = self.parts.options.background_merges.then(|| total.garbage_permille(options));
        self.parts.shared.pressure.set_garbage_permille(permille.unwrap_or(0));
        let carried = collection::carried(&files, total);
        // No file joins a round that goes on: for it, merges would have to visit again the cells that they have left behind.
        if catalog.collected().iter().any(|id| state.value_files().contains_key(id)) {
            return (carried, None);
        }
        let round = match total.is_over() {
            true => {
                let cells = Cells::of(state.families().values().map(|family| &*family.version));
                collection::to_collect(&files, total, cells, self.room_bytes(), options)
            }
            false => BTreeSet::new(),
        };
        (carried, Some(round))
    }

    /// Bytes that the device has free beyond the reserve; 0 if it does not answer.
    pub(super) fn room_bytes(&self) -> u64 {
        let free_bytes = self.parts.env.fs.free_space(&self.parts.dir).unwrap_or(0);
        let reserve_bytes =
            self.parts.options.merge_reserve_bytes.saturating_add(self.parts.shared.pressure.memory_bytes());
        free_bytes.saturating_sub(reserve_bytes)
    }

    /// Which values of its inputs a merge writes anew: the values of collected and carried files, and of files in which it has few bytes,
    /// if such files are many. If a cell moves to another tier, also the values that are not there yet. `None` if no input leads into a
    /// value file.
    pub(super) fn rewrites(&self, merge: &Merge) -> Option<Arc<Rewrites>> {
        let tables = merge.inputs.iter().map(|input| &input.slice.table);
        let mut bodies = tables.flat_map(|table| table.bodies());
        if bodies.all(|held| held.body.file.kind == BodyKind::Log) {
            return None;
        }
        let options = &self.parts.options.values;
        let places = merge.inputs.iter().flat_map(|input| input.slice.values.iter().copied());
        let moved = match (merge.changes_tier(), merge.gathers) {
            (true, _) => away_from_home(merge).chain(gathering::scattered(places, options)).collect(),
            (_, true) => gathering::gathered(places, options).into_keys().collect(),
            _ => gathering::scattered(places, options),
        };
        let has_room = self.room_bytes() / ROOM_FACTOR >= merge.bytes();
        let (mut files, carried, unreadable) = {
            let catalog = self.catalog.lock();
            (catalog.collected().clone(), catalog.carried().clone(), catalog.damages().unreadable())
        };
        if has_room {
            files.extend(carried);
        }
        // If a move left the values of its cell behind, the move would be planned again and again.
        if has_room || merge.changes_tier() {
            files.extend(moved);
        }
        Some(Arc::new(Rewrites { files, unreadable, brings_home: has_room }))
    }

    /// The tables that are rewritten because they point into collected value files.
    pub(super) fn tables_of_collected(&self, catalog: &Catalog) -> BTreeSet<FileId> {
        let collected = catalog.collected();
        if collected.is_empty() {
            return BTreeSet::new();
        }
        let leads_there = |table: &&Arc<TableFile>| {
            table.bodies().iter().any(|held| collected.contains(&held.body.file.id))
        };
        catalog.state().tables().filter(leads_there).map(|table| table.id).collect()
    }

    /// Takes the value files that no table of the state names and no reader holds.
    pub(super) fn take_value_files(&self, catalog: &mut Catalog) -> Vec<(FileId, TierId)> {
        let is_held = |id: FileId| {
            let is_read = !mutant!("value_file_deleted_under_view") && self.parts.tables.bodies().is_held(id);
            is_read || !self.tries.let_go(id)
        };
        catalog.take_value_files(is_held)
    }

    /// All value files that tables lead into.
    pub fn value_files(&self) -> BTreeMap<FileId, ValueFile> {
        self.catalog.lock().state().value_files().clone()
    }
}

/// The value files of a cell that moves, as far as they are not on the tier that takes its values. After an earlier move these hold only
/// the little that came from above since. The other values are not written again.
fn away_from_home(merge: &Merge) -> impl Iterator<Item = FileId> {
    let home = merge.placement.home_of_values();
    let slices = merge.inputs.iter().map(|input| &input.slice);
    slices.flat_map(move |slice| {
        let is_home = move |id| slice.table.body(id).is_some_and(|body| body.file.tier == home);
        slice.values.iter().map(|&(id, _)| id).filter(move |&id| !is_home(id))
    })
}
