//! The shape of one column family's tree: levels of cells, cells of runs, runs of slices.
//!
//! ```text
//! L0   one cell    │ run e9 [one slice] │ run e8 [one slice] │ …             a flush adds a run
//! L1   cell ""     │ run e5 [slice a–f][slice k–p][slice q–z]               slices of a run are disjoint and sorted
//! …    cell "m"    │ run e7 […] │ run e3 […]                                newest run first
//! L6
//! ```
//!
//! A cell is named by its lowest possible key; the first, the sentinel, by the empty one. For each key, sequence numbers
//! fall from top to bottom and, within a cell, from a higher epoch to a lower one (rule 7), so a lookup stops at its first
//! hit. A [`Version`] never changes once shared; an edit copies the levels that it touches and shares the others.

use super::table_file::TableFile;
use crate::base::counters::LEVELS;
use crate::base::ids::{Epoch, FileId, SeqNo};
use crate::base::key::KeyRange;
use std::sync::Arc;

/// A range of keys of one table.
#[derive(Clone, Debug)]
pub struct Slice {
    pub table: Arc<TableFile>,
    /// The lowest and the highest key in the slice.
    pub range: KeyRange,
    /// The smallest and the largest sequence number in the slice.
    pub seqs: (SeqNo, SeqNo),
    pub entries: u64,
    pub tombstones: u64,
    /// Different user keys; what `entries` has beyond them are older versions.
    pub keys: u64,
    pub bytes: u64,
}

impl Slice {
    /// Entries that a rewrite may drop once nobody can see them: tombstones and older versions.
    pub fn garbage(&self) -> u64 {
        (self.tombstones + self.entries.saturating_sub(self.keys)).min(self.entries)
    }
}

/// Names a run: where it lies, and which of its cell it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    pub level: usize,
    /// The low key of the cell.
    pub cell: Vec<u8>,
    pub epoch: Epoch,
}

/// Disjoint slices in key order, equally old.
#[derive(Clone, Debug)]
pub struct Run {
    pub epoch: Epoch,
    /// Shared, so that a cursor holds them without copying.
    pub slices: Arc<Vec<Arc<Slice>>>,
}

impl Run {
    /// The one slice that may hold `key`.
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Slice>> {
        let at = self.slices.partition_point(|slice| slice.range.high.as_slice() < key);
        self.slices.get(at).filter(|slice| slice.range.low.as_slice() <= key)
    }

    /// The slices that reach into `range`.
    pub fn overlapping(&self, range: &KeyRange) -> &[Arc<Slice>] {
        let start = self.slices.partition_point(|slice| slice.range.high < range.low);
        let end = self.slices.partition_point(|slice| slice.range.low <= range.high);
        &self.slices[start..end]
    }
}

/// The runs over one range of keys, newest first.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The guard that the cell starts at; empty for the sentinel.
    pub low: Vec<u8>,
    pub runs: Vec<Run>,
}

/// Cells in key order; the first is the sentinel.
#[derive(Clone, Debug)]
pub struct Level {
    pub cells: Vec<Cell>,
}

/// Sums over one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTotals {
    pub runs: usize,
    pub slices: usize,
    pub bytes: u64,
    pub entries: u64,
    pub tombstones: u64,
}

impl Default for Level {
    fn default() -> Level {
        Level { cells: vec![Cell { low: Vec::new(), runs: Vec::new() }] }
    }
}

impl Level {
    /// Where in `cells` the cell of `key` stands.
    fn cell_index(&self, key: &[u8]) -> usize {
        self.cells.partition_point(|cell| cell.low.as_slice() <= key) - 1
    }

    /// The cell that holds `key`.
    pub fn cell(&self, key: &[u8]) -> &Cell {
        &self.cells[self.cell_index(key)]
    }

    /// The slices that reach into `range`, cell by cell, newest run first.
    pub fn overlapping<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Cell, Epoch, &'a Arc<Slice>)> {
        self.cells[self.cell_index(&range.low)..=self.cell_index(&range.high)].iter().flat_map(move |cell| {
            cell.runs
                .iter()
                .flat_map(move |run| run.overlapping(range).iter().map(move |slice| (cell, run.epoch, slice)))
        })
    }

    /// All slices, cell by cell, newest run first.
    pub fn slices(&self) -> impl Iterator<Item = (&Cell, Epoch, &Arc<Slice>)> {
        self.cells.iter().flat_map(|cell| {
            cell.runs.iter().flat_map(move |run| run.slices.iter().map(move |slice| (cell, run.epoch, slice)))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.runs.is_empty())
    }

    /// How many runs the level has in all its cells.
    pub fn runs(&self) -> usize {
        self.cells.iter().map(|cell| cell.runs.len()).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.slices().map(|(_, _, slice)| slice.bytes).sum()
    }

    pub fn totals(&self) -> LevelTotals {
        let mut totals = LevelTotals { runs: self.runs(), ..LevelTotals::default() };
        for (_, _, slice) in self.slices() {
            totals.slices += 1;
            totals.bytes += slice.bytes;
            totals.entries += slice.entries;
            totals.tombstones += slice.tombstones;
        }
        totals
    }

    /// Puts a slice into the run `id`, which is made if it is missing. Refuses whatever would break the shape.
    pub(super) fn insert(&mut self, id: &RunId, slice: Arc<Slice>) -> Result<(), String> {
        let at = self.cell_index(&slice.range.low);
        if self.cells[at].low != id.cell {
            return Err(format!("a slice of table {} stands in the wrong cell", slice.table.id));
        }
        if self.cells.get(at + 1).is_some_and(|next| next.low <= slice.range.high) {
            return Err(format!("a slice of table {} reaches over the end of its cell", slice.table.id));
        }
        let runs = &mut self.cells[at].runs;
        let place = runs.partition_point(|run| run.epoch > id.epoch);
        if runs.get(place).is_none_or(|run| run.epoch != id.epoch) {
            runs.insert(place, Run { epoch: id.epoch, slices: Arc::default() });
        } else if id.level == 0 {
            return Err(format!("two runs of level 0 have epoch {}", id.epoch));
        }
        let slices = Arc::make_mut(&mut runs[place].slices);
        let after = slices.partition_point(|other| other.range.low < slice.range.low);
        let clashes = |other: Option<&Arc<Slice>>| other.is_some_and(|o| o.range.overlaps(&slice.range));
        if clashes(slices.get(after)) || clashes(after.checked_sub(1).and_then(|before| slices.get(before))) {
            return Err(format!(
                "a slice of table {} overlaps another of its run, epoch {} of level {}",
                slice.table.id, id.epoch, id.level
            ));
        }
        slices.insert(after, slice);
        Ok(())
    }

    /// Takes the slice of `table` that starts at `low` out of the run `id`; an empty run goes too.
    pub(super) fn remove(&mut self, id: &RunId, table: FileId, low: &[u8]) -> Result<Arc<Slice>, String> {
        let missing = || format!("level {} has no such slice of table {table}", id.level);
        let at = self.cell_index(low);
        let cell = &mut self.cells[at];
        let place = cell.runs.iter().position(|run| run.epoch == id.epoch).ok_or_else(missing)?;
        let slices = Arc::make_mut(&mut cell.runs[place].slices);
        let index = slices.partition_point(|slice| slice.range.low.as_slice() < low);
        if cell.low != id.cell
            || slices.get(index).is_none_or(|slice| slice.table.id != table || slice.range.low != low)
        {
            return Err(missing());
        }
        let slice = slices.remove(index);
        if slices.is_empty() {
            cell.runs.remove(place);
        }
        Ok(slice)
    }

    /// Checks rule 7 within level 0, as far as metadata tell: a flush takes whole memtables, in their order, so of two
    /// runs that overlap the newer one has only newer numbers.
    pub(super) fn check_flush_order(&self) -> Result<(), String> {
        for cell in &self.cells {
            let slices: Vec<_> = cell.runs.iter().flat_map(|run| &*run.slices).collect();
            for (newer, slice) in slices.iter().enumerate() {
                for older in &slices[newer + 1..] {
                    if slice.range.overlaps(&older.range) && slice.seqs.0 <= older.seqs.1 {
                        return Err(format!(
                            "level 0 has tables {} and {} in the wrong order",
                            slice.table.id, older.table.id
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// All levels of one column family at one moment.
#[derive(Clone, Debug, Default)]
pub struct Version {
    levels: [Arc<Level>; LEVELS],
}

impl Version {
    pub fn level(&self, level: usize) -> &Level {
        &self.levels[level]
    }

    /// L0 first.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = &Level> + ExactSizeIterator {
        self.levels.iter().map(|level| &**level)
    }

    /// Every slice, top to bottom.
    pub fn slices(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.levels().flat_map(|level| level.slices().map(|(_, _, slice)| slice))
    }

    /// The deepest level that holds anything; 0 for an empty tree.
    pub fn last_level(&self) -> usize {
        self.levels().rposition(|level| !level.is_empty()).unwrap_or(0)
    }

    /// An epoch newer than every run's. Ask under the lock that commits are made under.
    pub fn next_epoch(&self) -> Epoch {
        self.levels()
            .flat_map(|level| &level.cells)
            .flat_map(|cell| &cell.runs)
            .map(|run| run.epoch)
            .max()
            .unwrap_or(0)
            + 1
    }

    /// The run that takes a flushed table: a new one on top of level 0.
    pub fn flush_run(&self) -> RunId {
        RunId { level: 0, cell: Vec::new(), epoch: self.next_epoch() }
    }

    /// The run of `level` that a slice starting at `key` joins when each cell has but one: the one that stands there, or a
    /// new one. Ask under the lock that commits are made under.
    pub fn only_run(&self, level: usize, key: &[u8]) -> RunId {
        let cell = self.level(level).cell(key);
        let epoch = cell.runs.first().map_or_else(|| self.next_epoch(), |run| run.epoch);
        RunId { level, cell: cell.low.clone(), epoch }
    }

    pub(super) fn level_mut(&mut self, level: usize) -> &mut Level {
        Arc::make_mut(&mut self.levels[level])
    }
}
