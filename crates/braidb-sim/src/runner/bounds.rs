//! The bounds of a settled tree (rule 18): the runs of each cell, and the tombstones among its entries.
//!
//! `settle` returns when no job runs and no proposal of the planner has a plan. A cell that is due always has one, and so has a cell
//! with too many tombstones that no reader needs. So the bounds are exact, whatever came before.

use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict};
use braidb::Db;
use braidb::stats::{CellTree, FamilyTree};

/// At most one entry in this many is a tombstone, and fewer in the last level.
const TOMBSTONE_SHARE: u64 = 4;

/// Checks the tree of a settled database with the options `set`.
pub fn check(db: &Db, set: &OptionSet) -> Verdict {
    // A snapshot or an iterator may need what a tombstone hides. Then the tombstone stays.
    let has_readers = db.stats().open_snapshots > 0;
    for family in &db.tree() {
        let last = last_level(family);
        for level in &family.levels[1..] {
            let due = due_runs(set.max_runs_of(level.level));
            for cell in &level.cells {
                let at = || format!("a cell of L{} of {:?} at {:?}", level.level, family.name, cell.guard);
                if cell.runs.len() >= due {
                    let runs = cell.runs.len();
                    return Err(Failure::new(format!("settled, and {} has {runs} of {due} runs", at())));
                }
                if !has_readers && has_many_tombstones(cell, level.level == last) {
                    let (tombstones, entries) = counts(cell);
                    return Err(Failure::new(format!(
                        "settled, and {} has {tombstones} tombstones among {entries} entries",
                        at()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The number of runs that makes a cell due. A setting of 2 counts as 3: a cell would else be merged for each run that arrives.
fn due_runs(max_runs: usize) -> usize {
    if max_runs <= 1 { 2 } else { max_runs.max(3) }
}

/// The deepest level that holds anything.
fn last_level(family: &FamilyTree) -> usize {
    let is_filled = |level: usize| family.levels[level].cells.iter().any(|cell| !cell.runs.is_empty());
    (1..family.levels.len()).rev().find(|&level| is_filled(level)).unwrap_or(1)
}

/// The tombstones and all entries of a cell.
fn counts(cell: &CellTree) -> (u64, u64) {
    let slices = cell.runs.iter().flat_map(|run| &run.slices);
    slices
        .fold((0, 0), |(tombstones, entries), slice| (tombstones + slice.tombstones, entries + slice.entries))
}

/// Whether the planner brings a cell down, or rewrites a cell of the last level, for its tombstones alone.
fn has_many_tombstones(cell: &CellTree, is_last: bool) -> bool {
    let (tombstones, entries) = counts(cell);
    let weighed = tombstones * TOMBSTONE_SHARE;
    weighed > entries || is_last && tombstones > 0 && weighed == entries
}
