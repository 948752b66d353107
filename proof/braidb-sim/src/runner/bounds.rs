//! The bounds of a settled tree (rule 18): the runs of each cell, and the tombstones among its entries.
//!
//! `settle` returns when no job runs and no proposal of the planner has a plan. The planner always has a plan for a cell that is due (has
//! its limit of runs), and for a cell with too many tombstones that no reader needs. So after `settle` no such cell is left.
//!
//! Rule 12 holds after each operation, settled or not: only cells of the last level are slow, and a slow cell has one run.

use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict};
use crate::machine::{DIR, SLOW_DIRS};
use braidb::Db;
use braidb::stats::{CellTree, FamilyTree, SliceTree};
use braidb_storage::sim::SimFs;
use std::path::Path;

/// At most one entry in this many is a tombstone, and fewer in the last level.
const TOMBSTONE_SHARE: u64 = 4;

/// The tier of the database's own directory.
const FAST_TIER: u8 = 0;

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

/// Checks that each slow cell has one run, and that nothing lies below its slow slices. Returns the number of slow slices.
pub fn check_tiers(trees: &[FamilyTree]) -> Verdict<usize> {
    let mut slow_slices = 0;
    for family in trees {
        for level in &family.levels {
            for cell in &level.cells {
                let slow: Vec<&SliceTree> = slices(cell).filter(|slice| slice.tier != FAST_TIER).collect();
                let at = || format!("a cell of L{} of {:?} at {:?}", level.level, family.name, cell.guard);
                if !slow.is_empty() && (level.level == 0 || cell.runs.len() != 1) {
                    let runs = cell.runs.len();
                    return Err(Failure::new(format!("{} is slow and has {runs} runs", at())));
                }
                let deeper = family.levels[level.level + 1..].iter().flat_map(|level| &level.cells);
                let mut below = deeper.flat_map(slices);
                if below.any(|below| slow.iter().any(|slow| below.low <= slow.high && slow.low <= below.high))
                {
                    return Err(Failure::new(format!("{} is slow, and something lies below it", at())));
                }
                slow_slices += slow.len();
            }
        }
    }
    Ok(slow_slices)
}

/// Checks that the table of each slice is where its tier is.
pub fn check_places(db: &Db, fs: &SimFs) -> Verdict {
    let trees = db.tree();
    for slice in trees.iter().flat_map(|tree| &tree.levels).flat_map(|level| &level.cells).flat_map(slices) {
        let name = format!("{:06}.table", slice.table);
        let is_in = |dir: &str| fs.file_len(&Path::new(dir).join(&name)).is_ok();
        let (is_fast, is_slow) = (is_in(DIR), SLOW_DIRS.into_iter().any(is_in));
        if is_fast == is_slow || is_fast != (slice.tier == FAST_TIER) {
            return Err(Failure::new(format!(
                "{name} belongs to tier {}; in the fast directory it is {is_fast}, in a slow one {is_slow}",
                slice.tier
            )));
        }
    }
    Ok(())
}

/// The slices of a cell.
fn slices(cell: &CellTree) -> impl Iterator<Item = &SliceTree> {
    cell.runs.iter().flat_map(|run| &run.slices)
}

/// The number of runs that makes a cell due. A setting of 2 counts as 3. Otherwise each run that arrives would have the cell merged.
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
    slices(cell)
        .fold((0, 0), |(tombstones, entries), slice| (tombstones + slice.tombstones, entries + slice.entries))
}

/// Whether more than one in [`TOMBSTONE_SHARE`] entries of a cell is a tombstone: the planner merges the cell into the next level. In the
/// last level this share itself is enough, and the planner rewrites the cell.
fn has_many_tombstones(cell: &CellTree, is_last: bool) -> bool {
    let (tombstones, entries) = counts(cell);
    let weighed = tombstones * TOMBSTONE_SHARE;
    weighed > entries || is_last && tombstones > 0 && weighed == entries
}
