//! The fragmented tree: guards cut each level into cells, and a cell holds several runs, so that a merge appends to the level
//! below and rewrites nothing there.
//!
//! *One list.* Above each key lies one list of runs, newest first, which the levels cut into pieces of bounded length. Bringing a cell's
//! oldest run down changes metadata only; bytes are written when a piece has no room left. Then the planner chooses the merge that writes
//! the fewest bytes for each run that it removes. It takes neighbouring runs of one cell (*in place*), or all runs of a cell, alone or with
//! the newest runs of the cells below (*down*). Small runs are merged often and big ones seldom, as in a binomial heap, and a wide cell's
//! small runs become one file before they reach the narrow cells of a deep level.
//!
//! *Jobs* take a whole cell, and jobs from different cells of a level never meet: the guards of a level stand on the next one too, so the
//! cells below divide a cell's span exactly. A merge of L0 owns only a part of a cell of L1; other jobs may append beside this part.
//!
//! *Targets.* The last level is the deepest that holds anything; it may hold `base_bytes × growth^(level-1)`, and beyond that the next
//! level becomes the last. The target of each level above is computed upward from the last one's real size, each `growth` times smaller,
//! but never below `base_bytes`.
//!
//! *Permanent cases.* With one run a cell the tree is leveled: L0 is merged into L1, and a merge takes all that it meets. Without guards
//! each level is one cell: the tree is tiered.
//!
//! *Order.* [`order`] lists the proposals, the most urgent first.

mod down;
mod garbage;
mod guards;
mod hints;
mod inplace;
mod order;
mod purchase;
pub mod samples;
mod slow_cells;

pub use garbage::{Met, space_of};

use super::options::Now;
use super::{Claim, Claims, Input, Merge, Placement, Plan, Step, TreeOptions, Use};
use crate::base::counters::LEVELS;
use crate::base::ids::{FamilyId, SeqNo, TierId};
use crate::base::key::Span;
use crate::base::mutant::mutant;
use crate::plan::values;
use crate::table::Reason;
use crate::version::{Cell, Run, RunId, Slice, Version};
use std::cmp::{Ordering, Reverse};
use std::ops::Range;

/// Picks plans for the tree of one family.
#[derive(Clone, Copy, Debug)]
pub struct Picker<'a> {
    pub family: FamilyId,
    pub version: &'a Version,
    /// The claims of running jobs.
    pub claims: &'a Claims,
    pub now: &'a Now<'a>,
    pub options: &'a TreeOptions,
}

impl Picker<'_> {
    /// The most urgent plan that the claims of running jobs allow.
    pub fn propose(&self) -> Option<Plan> {
        Planner::new(self, Reason::L0).first_plan()
    }

    /// A move of a cell off a tier that the user gives up, if the merge that ended last moved no cell. It comes before all other work of
    /// all families, because writers may keep merges busy for ever.
    pub fn leave_in_turn(&self) -> Option<Plan> {
        let tiers = self.now.tiers.filter(|tiers| tiers.given_up.is_some() && tiers.is_their_turn)?;
        if tiers.is_moving {
            return None;
        }
        Planner::new(self, Reason::Tier).leave_given_up_tier(tiers)
    }

    /// A plan that makes L0 smaller, whether it is due or not.
    pub fn relieve_l0(&self) -> Option<Plan> {
        Planner::new(self, Reason::L0).l0(true)
    }

    /// The next step of a manual compaction of the cells that meet a span. In the end all records up to `upto` there lie in the last level, one run a cell. Tombstones
    /// and old versions are gone as far as readers allow. The steps end although writing goes on. Records newer than `upto` are
    /// left alone, and each step brings older records down or cleans for good.
    pub fn compact(&self, span: &Span, upto: SeqNo) -> Step {
        Planner::new(self, Reason::Compact).clean(span, upto, false)
    }

    /// As [`Picker::compact`], while another step of a compaction runs. A cell is left for later if records are on their way into it: a step
    /// now would write its records twice. Nothing takes what a merge of L0 needs once L0 slows writers down.
    pub fn compact_beside(&self, span: &Span, upto: SeqNo) -> Step {
        let mut planner = Planner::new(self, Reason::Compact);
        let l0 = self.version.level(0);
        let is_newer = l0.slices().all(|(_, _, slice)| slice.seqs.0 > upto);
        if is_newer && l0.runs() >= self.options.l0_slowdown_tables {
            planner.reserve_for_l0();
        }
        planner.clean(span, upto, true)
    }
}

/// If most values lie in value files, `growth` is multiplied by this. Merges write only handles there, and what the upper levels hide is
/// garbage that no merge has found yet. With 4 and a growth of 10 they hide at most a fortieth of the last level.
const SEPARATED_GROWTH: u64 = 4;

/// What one pass over a cell's slices and the claims tells.
#[derive(Clone, Copy, Debug)]
struct Sum {
    runs: usize,
    bytes: u64,
    /// Bytes of values in value files, which merges leave where they are.
    value_bytes: u64,
    entries: u64,
    tombstones: u64,
    /// Tombstones, and older versions of a key in the same slice.
    garbage: u64,
    /// Of the oldest run.
    oldest_bytes: u64,
    oldest_entries: u64,
    oldest_tombstones: u64,
    /// What samples say of entries that newer runs hide.
    hidden: Option<u64>,
    seqs: (SeqNo, SeqNo),
    /// The slow tier on which tables of the cell lie.
    slow_tier: Option<TierId>,
    /// A running job replaces runs of the cell.
    is_taken: bool,
    /// A running job puts its output among the cell's runs, or on top.
    is_appended: bool,
}

impl Sum {
    fn of(cell: &Cell) -> Sum {
        let mut sum = Sum {
            runs: cell.runs.len(),
            bytes: 0,
            value_bytes: 0,
            entries: 0,
            tombstones: 0,
            garbage: 0,
            oldest_bytes: 0,
            oldest_entries: 0,
            oldest_tombstones: 0,
            hidden: cell.hidden(),
            seqs: (SeqNo::MAX, 0),
            slow_tier: cell.slow_tier(),
            is_taken: false,
            is_appended: false,
        };
        for run in &cell.runs {
            (sum.oldest_bytes, sum.oldest_entries, sum.oldest_tombstones) = (0, 0, 0);
            for slice in &*run.slices {
                sum.oldest_bytes = sum.oldest_bytes.saturating_add(slice.bytes);
                sum.value_bytes = sum.value_bytes.saturating_add(slice.value_bytes());
                sum.oldest_entries = sum.oldest_entries.saturating_add(slice.entries);
                sum.oldest_tombstones = sum.oldest_tombstones.saturating_add(slice.tombstones);
                sum.garbage = sum.garbage.saturating_add(slice.garbage());
                sum.seqs = (sum.seqs.0.min(slice.seqs.0), sum.seqs.1.max(slice.seqs.1));
            }
            sum.bytes = sum.bytes.saturating_add(sum.oldest_bytes);
            sum.entries = sum.entries.saturating_add(sum.oldest_entries);
            sum.tombstones = sum.tombstones.saturating_add(sum.oldest_tombstones);
        }
        sum
    }
}

struct Planner<'a> {
    family: FamilyId,
    version: &'a Version,
    /// The claims of running jobs, and those that are kept for a more urgent plan.
    claims: Claims,
    now: &'a Now<'a>,
    options: &'a TreeOptions,
    /// The reason that is noted in merges that are proposed now.
    reason: Reason,
    /// The deepest level that holds anything, L1 at least.
    last: usize,
    /// By level and cell.
    sums: Vec<Vec<Sum>>,
    /// Garbage that the family may have beyond its share, in thousandths of its last level.
    slack_permille: u64,
}

impl<'a> Planner<'a> {
    fn new(picker: &Picker<'a>, reason: Reason) -> Planner<'a> {
        let Picker { family, version, now, options, .. } = *picker;
        let claims = picker.claims.clone();
        let sums = |level: &crate::version::Level| level.cells.iter().map(|cell| Sum::of(cell)).collect();
        let sums: Vec<Vec<Sum>> = version.levels().map(sums).collect();
        let last = version.last_level().max(1);
        let slack_permille =
            garbage::slack_permille(options.base_bytes, sums[last].iter().map(|sum| sum.bytes).sum());
        let mut planner =
            Planner { family, version, claims, now, options, reason, last, sums, slack_permille };
        for level in 1..LEVELS {
            let held: Vec<(Span, Use)> =
                planner.claims.on(family, level).map(|claim| (claim.span.clone(), claim.kind)).collect();
            for (span, kind) in held {
                for index in planner.cells_in(level, &span) {
                    let sum = &mut planner.sums[level][index];
                    sum.is_taken |= kind != Use::Append;
                    sum.is_appended |= kind != Use::Take;
                }
            }
        }
        planner
    }

    fn cell(&self, level: usize, index: usize) -> &'a Cell {
        &self.version.level(level).cells[index]
    }

    fn sum(&self, level: usize, index: usize) -> &Sum {
        &self.sums[level][index]
    }

    /// The cells of the given levels, top to bottom and in key order.
    fn every_cell(&self, levels: Range<usize>) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        levels.flat_map(|level| (0..self.sums[level].len()).map(move |index| (level, index)))
    }

    /// The cells of a level that reach into a span.
    fn cells_in(&self, level: usize, span: &Span) -> Range<usize> {
        let level = self.version.level(level);
        let end = |end: &Vec<u8>| level.cells.partition_point(|cell| cell.low < *end);
        level.cell_index(&span.low)..span.end.as_ref().map_or(level.cells.len(), end)
    }

    /// The number of runs at which a cell is merged. An option of 2 counts as 3: a cell would otherwise be rewritten for each run that
    /// arrives.
    fn due_runs(&self, level: usize) -> usize {
        match self.options.max_runs[level] {
            0 | 1 => 2,
            runs => runs.max(3),
        }
    }

    /// The number of runs that no plan makes a cell exceed.
    fn hard_runs(&self, level: usize) -> usize {
        (2 * self.options.max_runs[level]).max(self.due_runs(level))
    }

    /// The next step that brings all records of a span up to `upto` to the last level, with as little garbage as readers allow. With
    /// `waits_for_arrivals` it leaves the cells alone that such records have still to reach.
    fn clean(&self, span: &Span, upto: SeqNo, waits_for_arrivals: bool) -> Step {
        let is_in = |slice: &Slice| slice.seqs.0 <= upto && span.overlaps(&Span::from(&slice.range));
        if self.version.level(0).slices().any(|(_, _, slice)| is_in(slice)) {
            return self.l0(true).map_or(Step::Blocked, Step::Do);
        }
        let mut is_done = true;
        let cells =
            (1..self.last + 1).flat_map(|level| self.cells_in(level, span).map(move |index| (level, index)));
        for (level, index) in cells {
            let sum = self.sum(level, index);
            if sum.runs == 0 || sum.seqs.0 > upto {
                continue;
            }
            if waits_for_arrivals && (sum.is_appended || self.awaits_records(level, index, upto)) {
                is_done = false;
                continue;
            }
            // Runs that came on top since then are left alone.
            let old = self.first_old_run(level, index, upto);
            let plan = if level < self.last {
                is_done = false;
                self.bring_down(level, index)
            } else if sum.runs - old > 1 {
                is_done = false;
                self.merge_window(level, index, old..sum.runs)
            } else {
                let unclean = self.unclean(level, index, old, upto);
                is_done &= unclean.is_none();
                unclean.and_then(|slice| self.rewrite_slice(level, index, old, slice))
            };
            if let Some(plan) = plan {
                return Step::Do(plan);
            }
        }
        if is_done { Step::Done } else { Step::Blocked }
    }

    /// Whether a cell above holds records up to `upto`, which a compaction brings down to this one. One cell of each level covers this cell,
    /// because the guards of a level stand on the next one too.
    fn awaits_records(&self, level: usize, index: usize, upto: SeqNo) -> bool {
        let low = &self.cell(level, index).low;
        (1..level).any(|above| {
            let sum = self.sum(above, self.version.level(above).cell_index(low));
            sum.runs > 0 && sum.seqs.0 <= upto
        })
    }

    /// The size that `level` should not exceed.
    fn target_bytes(&self, level: usize) -> u64 {
        let TreeOptions { mut base_bytes, mut growth, .. } = *self.options;
        let all = |measure: fn(&Sum) -> u64| self.sums[self.last].iter().map(measure).sum();
        let last_bytes: u64 = all(|sum| sum.bytes);
        if values::is_separated(last_bytes, all(|sum| sum.value_bytes)) {
            base_bytes = base_bytes.min(self.options.table_bytes);
            growth = growth.saturating_mul(SEPARATED_GROWTH);
        }
        match level.cmp(&self.last) {
            _ if level + 1 == LEVELS => u64::MAX,
            Ordering::Less => (level..self.last).fold(last_bytes, |bytes, _| bytes / growth).max(base_bytes),
            Ordering::Equal => (1..level).fold(base_bytes, |bytes, _| bytes.saturating_mul(growth)),
            Ordering::Greater => u64::MAX,
        }
    }

    /// Shortens a cell that has reached the bound of its level: the one furthest over its bound, and among equals the deepest.
    fn deep_cells(&self, levels: Range<usize>, bound: impl Fn(usize) -> usize) -> Option<Plan> {
        if mutant!("depth_bound_ignored") {
            return None;
        }
        let mut deep: Vec<(usize, usize, usize)> = Vec::new();
        for (level, index) in self.every_cell(levels) {
            let sum = self.sum(level, index);
            if sum.runs >= bound(level) && !sum.is_taken {
                deep.push((sum.runs * 1000 / bound(level), level, index));
            }
        }
        deep.sort_by_key(|&(over, level, index)| (Reverse((over, level)), index));
        deep.into_iter().find_map(|(_, level, index)| self.shorten(level, index))
    }

    /// Makes a cell's list of runs shorter, as cheaply as it can be done.
    fn shorten(&self, level: usize, index: usize) -> Option<Plan> {
        if level == self.last {
            return self.window_or_whole(level, index);
        }
        if let Some(plan) = self.move_down(level, index, true) {
            return Some(plan);
        }
        let (window, cost) = self.best_window(level, index)?;
        let in_place = (cost, window.len() as u64 - 1);
        match self.merge_down(level, index) {
            // If the merge would touch damage, or a slow device that does not answer, the cell is shortened in place.
            Some(down) if down.merge.claims.iter().any(|claim| self.claims.touches_avoided(claim)) => {
                self.merge_window(level, index, window)
            }
            Some(down) if !self.is_small_for(level, index) && cheaper(down.price, in_place) => {
                self.allowed(Plan::Merge(down.merge))
            }
            _ => self.merge_window(level, index, window),
        }
    }

    fn claim(&self, level: usize, span: Span, kind: Use) -> Claim {
        Claim { family: self.family, level, span, kind }
    }

    fn span(&self, level: usize, index: usize) -> Span {
        self.version.level(level).span(index)
    }

    /// The slices of one run of a cell.
    fn inputs(&self, level: usize, index: usize, run: usize) -> impl Iterator<Item = Input> {
        self.inputs_of(level, index, &self.cell(level, index).runs[run])
    }

    /// As [`Planner::inputs`], for a given run.
    fn inputs_of<'r>(
        &self,
        level: usize,
        index: usize,
        run: &'r Run,
    ) -> impl Iterator<Item = Input> + use<'r, 'a> {
        let cell = self.cell(level, index);
        run.slices.iter().map(move |slice| Input {
            run: RunId { level, cell: cell.low.clone(), epoch: run.epoch },
            slice: slice.clone(),
        })
    }

    fn merge(&self, from: usize, to: usize, inputs: Vec<Input>, claims: Vec<Claim>) -> Merge {
        let table_bytes = self.options.table_bytes;
        Merge {
            family: self.family,
            from,
            to,
            inputs,
            table_bytes,
            gathers: false,
            placement: Placement::OfCells,
            reason: self.reason,
            claims,
        }
    }

    fn allowed(&self, plan: Plan) -> Option<Plan> {
        Some(plan).filter(|plan| self.claims.allow(plan))
    }
}

/// Bytes to be written, and the runs that this removes.
type Price = (u64, u64);

/// Whether `a` costs fewer bytes for each run than `b`.
fn cheaper(a: Price, b: Price) -> bool {
    u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
}

/// The slices of a run that reach into a span.
fn within<'a>(run: &'a Run, span: &Span) -> &'a [std::sync::Arc<crate::version::Slice>] {
    let start = run.slices.partition_point(|slice| slice.range.high < span.low);
    let ends_before = |end: &Vec<u8>| run.slices.partition_point(|slice| slice.range.low < *end);
    &run.slices[start..span.end.as_ref().map_or(run.slices.len(), ends_before).max(start)]
}
