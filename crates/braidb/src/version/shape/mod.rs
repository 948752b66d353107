//! The shape of one column family's tree: levels of cells, cells of runs, runs of slices.
//!
//! ```text
//! L0   one cell    │ run e9 [one table] │ run e8 [one table] │ …             a flush adds a run of one slice; an excise cuts it
//! L1   cell ""     │ run e5 [slice a–f][slice k–p][slice q–z]               slices of a run are disjoint and sorted
//! …    cell "m"    │ run e7 […] │ run e3 […]                                newest run first
//! L6
//! ```
//!
//! A cell is named by its lowest possible key, its *guard*; the first cell, the sentinel, by the empty key. A run
//! belongs to one cell. The output of one merge is a run of one epoch in each cell that it reaches.
//!
//! For each key, sequence numbers fall from top to bottom and, within a cell, from a higher epoch to a lower one (rule
//! 7). So a lookup stops at its first hit. A [`Version`] never changes once shared: an edit copies the levels that it
//! touches and shares the others.

use super::table_file::TableFile;
use super::usage::heat::Heat;
use super::usage::rent::{self, Paid, Rent};
use crate::base::counters::LEVELS;
use crate::base::ids::{Epoch, FileId, TierId};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::base::part::Part;
use sorted::Sorted;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

pub mod beneath;
pub mod cut;
pub mod run_cursor;
pub mod sorted;

/// A range of keys of one table. Many slices, of many cells and levels, may share a table.
#[derive(Debug)]
pub struct Slice {
    pub table: Arc<TableFile>,
    part: Part,
    /// The range of `part`, for cursors.
    bounds: Arc<KeyRange>,
    rent: Rent,
    heat: Heat,
    /// Whether the table, or a value file into which the slice leads, is on a slow tier.
    is_slow: bool,
    slow_value_bytes: u64,
}

impl Slice {
    /// A slice that starts with the rent `paid` and the heat `reads`, inherited from slices that it replaces. While it lives, the table's
    /// blocks in its range are not punched out.
    pub fn new(table: Arc<TableFile>, part: Part, paid: Paid, reads: u64) -> Slice {
        table.hold(&part.range);
        let bounds = Arc::new(part.range.clone());
        let heat = Heat::new(reads, table.heat_clock());
        let is_slow = |id: FileId| table.body(id).is_some_and(|body| body.file.tier != TierId::FAST);
        let slow_value_bytes = match table.leads_to_slow_values() {
            true => part.values.iter().filter(|(id, _)| is_slow(*id)).map(|(_, bytes)| bytes).sum(),
            false => 0,
        };
        let is_slow = slow_value_bytes > 0 || table.tier != TierId::FAST;
        let mut slice = Slice { table, part, bounds, rent: Rent::default(), heat, is_slow, slow_value_bytes };
        slice.rent = Rent::new(paid, slice.price_ns());
        slice
    }

    /// The price of a merge of the slice, in nanoseconds of readers. Values in value files are not counted: merges leave them where they
    /// are.
    pub fn price_ns(&self) -> u64 {
        rent::merge_ns(self.bytes.saturating_sub(self.value_bytes()), self.entries)
    }

    /// The rent of the slice: what readers paid in vain because of it.
    pub fn paid(&self) -> Paid {
        self.rent.paid()
    }

    /// Adds to the rent what a reader paid in vain.
    pub fn charge(&self, paid: Paid) {
        let rings = self.rent.charge(paid);
        self.table.charged(paid.ns(), rings);
    }

    /// Counts a get that found its key in the slice, or a scan that began there, if the database has slow tiers. A slice on the fast tier
    /// counts the read `weight` times; `weight` is 0 for most reads, and makes up for them in the others. A slow slice counts each read
    /// once: few reads come to it, and each takes long.
    #[inline]
    pub fn warm(&self, weight: u64) {
        if weight > 0 || self.is_slow {
            self.count_read(weight);
        }
    }

    #[cold]
    fn count_read(&self, weight: u64) {
        let clock = self.table.heat_clock();
        if clock.is_on() {
            let reads = if self.is_slow { 1 } else { weight };
            self.heat.add(reads, self.is_slow, clock);
            if self.is_slow && clock.came_to_slow(reads) {
                self.table.ring();
            }
        }
    }

    /// The heat of the slice: how often readers came to it lately.
    pub fn heat(&self) -> u64 {
        self.heat.reads(self.table.heat_clock())
    }

    /// An estimate of the reads of slow files for which readers waited because of the slice: its share, by bytes, of the reads of its table
    /// and value files.
    pub fn slow_reads(&self) -> u64 {
        let share = |reads: u64, bytes: u64, all: u64| {
            (u128::from(reads) * u128::from(bytes.min(all)) / u128::from(all.max(1))) as u64
        };
        let own = share(self.table.slow_reads(), self.bytes, self.table.full_bytes());
        let values = self.values.iter().filter_map(|&(id, bytes)| {
            let body = self.table.body(id)?;
            Some(share(body.slow_reads(), bytes, body.file.bytes))
        });
        values.fold(own, u64::saturating_add)
    }

    /// Bytes of the slice's values that lie in value files on slow tiers.
    pub fn slow_value_bytes(&self) -> u64 {
        self.slow_value_bytes
    }

    /// Bytes of the slice, and of its values, that lie on slow tiers.
    pub fn slow_bytes(&self) -> u64 {
        let own =
            if self.table.tier == TierId::FAST { 0 } else { self.bytes - self.value_bytes().min(self.bytes) };
        own.saturating_add(self.slow_value_bytes())
    }

    /// Bytes of the slice, and of its values, that lie on a tier.
    pub fn bytes_on(&self, tier: TierId) -> u64 {
        let own = if self.table.tier == tier { self.bytes.saturating_sub(self.value_bytes()) } else { 0 };
        let is_there = |id: FileId| self.table.body(id).is_some_and(|body| body.file.tier == tier);
        let values = self.values.iter().filter(|(id, _)| is_there(*id)).map(|(_, bytes)| bytes);
        values.fold(own, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// Sets what readers paid to 0: a merge of the slice is bought.
    pub fn clear_rent(&self) {
        self.rent.clear();
    }

    pub fn part(&self) -> &Part {
        &self.part
    }

    /// The range, shared with cursors.
    pub fn bounds(&self) -> &Arc<KeyRange> {
        &self.bounds
    }
}

impl Deref for Slice {
    type Target = Part;

    fn deref(&self) -> &Part {
        &self.part
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        TableFile::let_go(&self.table, &self.part.range);
    }
}

/// Names a run: its level, its cell, and its epoch within the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    pub level: usize,
    /// The low key of the cell.
    pub cell: Vec<u8>,
    pub epoch: Epoch,
}

/// Disjoint slices in key order, all of one age.
#[derive(Clone, Debug)]
pub struct Run {
    pub epoch: Epoch,
    /// Shared, so a cursor holds the slices without copying the list.
    pub slices: Arc<Sorted<Slice>>,
}

impl Run {
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(|slice| slice.bytes).sum()
    }

    /// The first and the last key; `None` for a run without slices.
    fn ends(&self) -> Option<(&[u8], &[u8])> {
        Some((&self.slices.first()?.range.low, &self.slices.last()?.range.high))
    }

    /// The keys from the first to the last; `None` for a run without slices.
    pub fn range(&self) -> Option<KeyRange> {
        self.ends().map(|(low, high)| KeyRange { low: low.to_vec(), high: high.to_vec() })
    }

    /// Whether the ranges of both runs overlap.
    pub fn meets(&self, other: &Run) -> bool {
        self.ends().zip(other.ends()).is_some_and(|(own, other)| own.0 <= other.1 && other.0 <= own.1)
    }

    /// The one slice that may hold `key`.
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Slice>> {
        let at = self.slices.before(key);
        self.slices.get(at).filter(|slice| slice.range.low.as_slice() <= key)
    }

    /// The slices that reach into `range`.
    pub fn overlapping(&self, range: &KeyRange) -> &[Arc<Slice>] {
        let start = self.slices.before(&range.low);
        let end = self.slices.partition_point(|slice| slice.range.low <= range.high);
        &self.slices[start..end]
    }
}

/// The runs over one range of keys, newest first.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The guard at which the cell starts; empty for the sentinel.
    pub low: Vec<u8>,
    pub runs: Vec<Run>,
    asked: Asked,
}

/// How many entries of a cell are hidden by newer runs, estimated from samples; empty before the first request. The
/// inner value is `None` if samples give no answer. A clone starts empty and [`Level::cell_mut`] resets the value, so
/// an answer never outlives a change of the cell.
#[derive(Debug, Default)]
struct Asked(OnceLock<Option<u64>>);

impl Clone for Asked {
    fn clone(&self) -> Asked {
        Asked::default()
    }
}

impl Cell {
    pub fn new(low: Vec<u8>, runs: Vec<Run>) -> Cell {
        Cell { low, runs, asked: Asked::default() }
    }

    /// The recorded answer, if there is one.
    pub fn answer(&self) -> Option<Option<u64>> {
        self.asked.0.get().copied()
    }

    /// How many entries of the cell are hidden by its newer runs, if samples give an answer.
    pub fn hidden(&self) -> Option<u64> {
        self.answer().flatten()
    }

    /// Records the answer of the samples, valid until the cell changes. Only the first answer counts.
    pub fn note_hidden(&self, hidden: Option<u64>) {
        self.asked.0.get_or_init(|| hidden);
    }

    /// The slow tier on which tables of the cell lie, if any do.
    pub fn slow_tier(&self) -> Option<TierId> {
        self.slices().map(|(_, slice)| slice.table.tier).find(|&tier| tier != TierId::FAST)
    }

    /// All slices, newest run first.
    pub fn slices(&self) -> impl Iterator<Item = (Epoch, &Arc<Slice>)> {
        self.runs.iter().flat_map(|run| run.slices.iter().map(move |slice| (run.epoch, slice)))
    }
}

/// Cells in key order; the first is the sentinel. Cells are shared, so a version that changes one cell copies only this
/// cell.
#[derive(Clone, Debug)]
pub struct Level {
    pub cells: Sorted<Cell>,
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
        Level { cells: vec![Arc::new(Cell::new(Vec::new(), Vec::new()))].into() }
    }
}

impl Level {
    /// The index in `cells` of the cell that holds `key`.
    pub fn cell_index(&self, key: &[u8]) -> usize {
        self.cells.up_to(key) - 1
    }

    /// The keys that belong to cell `index`.
    pub fn span(&self, index: usize) -> Span {
        let end = self.cells.get(index + 1).map(|next| next.low.clone());
        Span { low: self.cells[index].low.clone(), end }
    }

    /// The guards strictly inside a range: a slice with this range must be cut there.
    pub fn guards_inside(&self, range: &KeyRange) -> impl Iterator<Item = &[u8]> {
        let inside = self.cell_index(&range.low) + 1..=self.cell_index(&range.high);
        self.cells[inside].iter().map(|cell| cell.low.as_slice())
    }

    /// The cell that holds `key`.
    pub fn cell(&self, key: &[u8]) -> &Cell {
        &self.cells[self.cell_index(key)]
    }

    /// All slices, cell by cell, newest run first.
    pub fn slices(&self) -> impl Iterator<Item = (&Arc<Cell>, Epoch, &Arc<Slice>)> {
        self.cells.iter().flat_map(|cell| {
            cell.runs.iter().flat_map(move |run| run.slices.iter().map(move |slice| (cell, run.epoch, slice)))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.runs.is_empty())
    }

    /// The number of runs in all cells of the level.
    pub fn runs(&self) -> usize {
        self.cells.iter().map(|cell| cell.runs.len()).sum()
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

    /// As [`Level::cell_index`], in front of a change. An edit changes many guards in a row: each search would make notes that the change
    /// throws away.
    fn cell_of_guard(&self, guard: &[u8]) -> usize {
        self.cells.partition_point(|cell| cell.low.as_slice() <= guard) - 1
    }

    /// Returns a cell for changing, and forgets its answer about hidden entries.
    fn cell_mut(&mut self, at: usize) -> &mut Cell {
        let cell = Arc::make_mut(self.cells.get_mut(at));
        cell.asked = Asked::default();
        cell
    }

    /// Puts a slice into the run `id`, and creates the run if it is missing. Fails if the slice would break the shape.
    pub fn insert(&mut self, id: &RunId, slice: Arc<Slice>) -> Result<(), String> {
        let at = self.cell_index(&slice.range.low);
        if self.cells[at].low != id.cell {
            return Err(format!("a slice of table {} stands in the wrong cell", slice.table.id));
        }
        let reaches_over = self.cells.get(at + 1).is_some_and(|next| next.low <= slice.range.high);
        if reaches_over && !mutant!("slice_crosses_a_guard") && !mutant!("guard_in_its_own_edit") {
            return Err(format!("a slice of table {} reaches over the end of its cell", slice.table.id));
        }
        let runs = &mut self.cell_mut(at).runs;
        let place = runs.partition_point(|run| run.epoch > id.epoch);
        if runs.get(place).is_none_or(|run| run.epoch != id.epoch) {
            runs.insert(place, Run { epoch: id.epoch, slices: Arc::default() });
        } else if id.level == 0 && runs[place].slices.iter().any(|other| other.table.id != slice.table.id) {
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

    /// Removes the slice of `table` that starts at `low` from the run `id`; an empty run is removed too.
    pub(super) fn remove(&mut self, id: &RunId, table: FileId, low: &[u8]) -> Result<Arc<Slice>, String> {
        let missing = || format!("level {} has no such slice of table {table}", id.level);
        let at = self.cell_index(low);
        let cell = self.cell_mut(at);
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

    /// Splits a cell at `guard`. No slice may reach over the guard: the edit that adds the guard also cuts such slices.
    pub(super) fn split(&mut self, guard: &[u8]) -> Result<(), String> {
        let at = self.cell_of_guard(guard);
        if self.cells[at].low == guard {
            return Err("a guard is added twice".to_owned());
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for run in &self.cells[at].runs {
            let before = run.slices.partition_point(|slice| slice.range.low.as_slice() < guard);
            let (low, high) = run.slices.split_at(before);
            let is_cut = low.last().is_none_or(|slice| slice.range.high.as_slice() < guard);
            if !is_cut && !mutant!("slice_crosses_a_guard") && !mutant!("guard_in_its_own_edit") {
                return Err(format!("a guard is added within a slice of epoch {}", run.epoch));
            }
            for (runs, slices) in [(&mut left, low), (&mut right, high)] {
                if !slices.is_empty() {
                    runs.push(Run { epoch: run.epoch, slices: Arc::new(slices.to_vec().into()) });
                }
            }
        }
        let low = self.cells[at].low.clone();
        *self.cells.get_mut(at) = Arc::new(Cell::new(low, left));
        self.cells.insert(at + 1, Arc::new(Cell::new(guard.to_vec(), right)));
        Ok(())
    }

    /// Joins the two cells on either side of `guard`. Runs of equal epoch become one.
    pub(super) fn join(&mut self, guard: &[u8]) -> Result<(), String> {
        let at = self.cell_of_guard(guard);
        if at == 0 || self.cells[at].low != guard {
            return Err("a guard is removed that there is not".to_owned());
        }
        let right = self.cells.remove(at);
        let left = self.cell_mut(at - 1);
        for run in &right.runs {
            let place = left.runs.partition_point(|other| other.epoch > run.epoch);
            match left.runs.get_mut(place) {
                Some(same) if same.epoch == run.epoch => {
                    Arc::make_mut(&mut same.slices).extend(&run.slices);
                }
                _ => left.runs.insert(place, run.clone()),
            }
        }
        Ok(())
    }
}

/// All levels of one column family at one moment.
#[derive(Clone, Debug, Default)]
pub struct Version {
    levels: [Arc<Level>; LEVELS],
    guards: Arc<Guards>,
    /// The newest epoch that any run ever had.
    newest_epoch: Epoch,
}

/// Each guard with its *top level*: the guard is on this level and on every deeper one. So the guards of a level are
/// always guards of the next deeper level too.
pub type Guards = BTreeMap<Vec<u8>, usize>;

impl Version {
    /// A version with the slices alone that `keeps` accepts, for reads of a range.
    pub fn only(&self, keeps: impl Fn(&Slice) -> bool) -> Version {
        let run = |run: &Run| {
            let slices: Vec<_> = run.slices.iter().filter(|slice| keeps(slice)).cloned().collect();
            Run { epoch: run.epoch, slices: Arc::new(slices.into()) }
        };
        let cell = |cell: &Arc<Cell>| {
            let runs = cell.runs.iter().map(run).filter(|run| !run.slices.is_empty()).collect();
            Arc::new(Cell::new(cell.low.clone(), runs))
        };
        let level = |level: &Arc<Level>| {
            let cells: Vec<_> = level.cells.iter().map(cell).collect();
            Arc::new(Level { cells: cells.into() })
        };
        Version { levels: self.levels.each_ref().map(level), ..self.clone() }
    }

    /// Checks rule 12 in the cells that hold `key`, one on each level: a cell with tables on a slow tier has one run, and deeper levels
    /// have nothing in its range.
    pub(super) fn check_slow_cells_at(&self, key: &[u8]) -> Result<(), String> {
        for (number, level) in self.levels().enumerate() {
            let index = level.cell_index(key);
            let cell = &level.cells[index];
            let is_alone = || number > 0 && cell.runs.len() == 1 && self.is_empty_beneath(number, index);
            if cell.slow_tier().is_some() && !is_alone() && !mutant!("slow_cell_with_two_runs") {
                return Err(format!("a cell of level {number} has tables on a slow tier beside other runs"));
            }
        }
        Ok(())
    }

    /// Whether deeper levels hold nothing in the range of a cell.
    pub fn is_empty_beneath(&self, level: usize, index: usize) -> bool {
        let Span { low, end } = self.level(level).span(index);
        self.levels().skip(level + 1).all(|below| {
            let cells = &below.cells[below.cell_index(&low)..];
            let is_within = |cell: &&Arc<Cell>| end.as_ref().is_none_or(|end| cell.low < *end);
            cells.iter().take_while(is_within).all(|cell| cell.runs.is_empty())
        })
    }

    /// The sum of the keys of all slices; a key in several slices counts once for each.
    pub fn keys(&self) -> u64 {
        self.slices().map(|slice| slice.keys).sum()
    }

    pub fn level(&self, level: usize) -> &Level {
        &self.levels[level]
    }

    /// A level that the caller may hold longer than the version.
    pub fn shared_level(&self, level: usize) -> &Arc<Level> {
        &self.levels[level]
    }

    /// All levels, L0 first.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = &Level> + ExactSizeIterator {
        self.levels.iter().map(|level| &**level)
    }

    /// Every slice, top to bottom.
    pub fn slices(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.levels().flat_map(|level| level.slices().map(|(_, _, slice)| slice))
    }

    /// The deepest level with a run; 0 for an empty tree.
    pub fn last_level(&self) -> usize {
        self.levels().rposition(|level| !level.is_empty()).unwrap_or(0)
    }

    /// An epoch newer than all runs. Call this under the lock of commits.
    pub fn next_epoch(&self) -> Epoch {
        self.newest_epoch + 1
    }

    /// The run that takes a flushed table: a new one on top of level 0.
    pub fn flush_run(&self) -> RunId {
        RunId { level: 0, cell: Vec::new(), epoch: self.next_epoch() }
    }

    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// Gives a guard another top level, where [`LEVELS`] removes the guard; splits and joins cells accordingly.
    pub(super) fn set_guard(&mut self, key: &[u8], top: usize) -> Result<(), String> {
        if key.is_empty() || !(1..=LEVELS).contains(&top) {
            return Err("a guard is impossible".to_owned());
        }
        let guards = Arc::make_mut(&mut self.guards);
        let before = guards.remove(key).unwrap_or(LEVELS);
        if top < LEVELS {
            guards.insert(key.to_vec(), top);
        }
        (top..before).try_for_each(|level| self.level_mut(level).split(key))?;
        (before..top).try_for_each(|level| self.level_mut(level).join(key))
    }

    /// Puts a slice into a run; see [`Level::insert`].
    pub(super) fn insert(&mut self, run: &RunId, slice: Arc<Slice>) -> Result<(), String> {
        self.newest_epoch = self.newest_epoch.max(run.epoch);
        self.level_mut(run.level).insert(run, slice)
    }

    pub(super) fn level_mut(&mut self, level: usize) -> &mut Level {
        Arc::make_mut(&mut self.levels[level])
    }
}
