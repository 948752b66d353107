//! How runs go down to the next level. L0 tables and whole runs move as metadata if the next level has room. Otherwise a merge takes all
//! runs of a cell. Its output becomes a new run below, or the merge also takes the newest runs of the cells below.

use super::{Planner, Price, cheaper, samples, within};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::plan::{Claim, Input, Merge, Move, Plan, Use};
use crate::version::{Run, RunId, Slice};
use std::sync::Arc;

/// A run is small for the level below if the cells there have more than this many times its bytes. If it moved down as it is, many narrow
/// cells would have to merge small pieces.
const SMALL: u64 = 10;
/// L1 is far over its target if it has more than this many times the target's bytes. Then L1 goes down before L0: each merge of L0 writes
/// again what it meets of L1. So each merge would take longer than the last one, and L0 would be due again at its end. With 600 memtables
/// written faster than they were merged, L1 of one cell grew to 399 memtables without this bound.
const FAR: u64 = 2;

/// A cell goes down onto slow cells when it has one byte for this many of theirs: 4. The merge then writes 5 bytes to the slow tier for
/// each byte from above. In a level at its target it would write 11. If half of the data is slow, cells that wait take at most an eighth of
/// all bytes on the fast tier.
const DEFERRED: u64 = 4;

/// A merge that brings a cell down, and what it costs.
pub(super) struct Down {
    pub merge: Merge,
    pub price: Price,
}

/// How many runs a cell of L1 may have after it took a table of L0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Fewer than make it due. For moves that are bought with rent of readers: these must not cause a merge.
    BelowDue,
    /// As many as make it due.
    UpToDue,
    /// As many as its hard bound.
    UpToHard,
}

/// What arrives in one cell of the next level.
pub(super) struct Arrival {
    /// Where the cell stands in the level.
    pub index: usize,
    /// Holds all keys that arrive.
    pub range: KeyRange,
}

impl Planner<'_> {
    /// Brings tables of L0 to L1: one by a move, or several by a merge. With `urgent` a cell of L1 takes runs up to its hard bound.
    pub(super) fn l0(&self, urgent: bool) -> Option<Plan> {
        let room = if urgent { Room::UpToHard } else { Room::UpToDue };
        if let Some(plan) = self.move_l0_down(room) {
            return Some(plan);
        }
        if urgent || self.options.merges_l0() { self.l0_merge() } else { None }
    }

    /// Moves a table of L0 to L1 as metadata: the oldest one that can go. No table passes an older one that it overlaps (rule 7).
    pub(super) fn move_l0_down(&self, room: Room) -> Option<Plan> {
        let runs = &self.cell(0, 0).runs;
        for place in (0..runs.len()).rev() {
            let is_wild = mutant!("l0_handed_over_out_of_order");
            let place = if is_wild { runs.len() - 1 - place } else { place };
            if (is_wild || runs[place + 1..].iter().all(|older| !older.meets(&runs[place])))
                && let Some(plan) = self.move_table_down(place, room)
            {
                return Some(plan);
            }
        }
        None
    }

    /// Claims what a merge of L0 needs, although running jobs use some of it, so that no less urgent plan takes more of it. Otherwise the
    /// merge might wait for ever until all is free at once. Nothing is claimed if the merge would touch a range that plans avoid.
    pub(super) fn reserve_for_l0(&mut self) {
        let runs = &self.cell(0, 0).runs;
        let span = self.span(0, 0);
        let tables = self.claim(0, span.clone(), Use::Take);
        if !self.options.merges_l0() || self.claims.conflicts(&tables) {
            return;
        }
        let wanted = self.arrivals(1, runs, &span).into_iter();
        let mut kept: Vec<Claim> =
            wanted.map(|arrival| self.claim(1, self.span(1, arrival.index), Use::Own)).collect();
        kept.push(tables);
        if !kept.iter().any(|claim| self.claims.touches_avoided(claim)) {
            self.claims.add(kept);
        }
    }

    fn move_table_down(&self, place: usize, room: Room) -> Option<Plan> {
        let span = Span::from(&self.cell(0, 0).runs[place].range()?);
        let has_room = |arrival: &Arrival| {
            let sum = self.sum(1, arrival.index);
            if self.keeps_one_run(1, arrival) {
                return false;
            }
            let limit = match room {
                _ if self.options.merges_l0() => 1,
                Room::BelowDue => self.due_runs(1) - 1,
                Room::UpToDue if !sum.is_taken => self.due_runs(1),
                Room::UpToDue | Room::UpToHard => self.hard_runs(1),
            };
            self.joins(1, arrival) || sum.runs < limit
        };
        if !self.arrivals(1, &self.cell(0, 0).runs[place..=place], &span).iter().all(has_room) {
            return None;
        }
        let claims = vec![self.claim(0, span.clone(), Use::Take), self.claim(1, span, Use::Append)];
        let inputs = self.inputs(0, 0, place).collect();
        self.allowed(Plan::Move(Move { family: self.family, inputs, to: 1, into: None, claims }))
    }

    /// Whether the tables of L0 are to go down, by a merge if need be.
    pub(super) fn is_l0_due(&self) -> bool {
        samples::is_l0_due(self.cell(0, 0), self.options)
    }

    /// Whether L0 has enough tables to go down, but waits for overlap.
    pub(super) fn is_l0_waiting(&self) -> bool {
        self.options.l0_waiting_tables().contains(&self.cell(0, 0).runs.len()) && !self.is_l0_due()
    }

    /// Merges tables of L0 into L1: one group of overlapping tables, preferably the group of the oldest table. Such a merge reads nothing
    /// of L1 that lies between groups. Where L0 waits for overlap, all tables are merged at once, unless merges of the groups read fewer
    /// bytes.
    fn l0_merge(&self) -> Option<Plan> {
        let groups = self.l0_groups();
        let merges: Vec<Merge> = groups.iter().filter_map(|group| self.merge_of_l0(group)).collect();
        let all = if self.options.waits_for_overlap() && merges.len() > 1 {
            let apart_bytes: u64 = merges.iter().map(Merge::bytes).sum();
            let places: Vec<usize> = (0..self.cell(0, 0).runs.len()).collect();
            self.merge_of_l0(&places).filter(|all| all.bytes() <= apart_bytes)
        } else {
            None
        };
        all.into_iter().chain(merges).find_map(|merge| self.allowed(Plan::Merge(merge)))
    }

    /// The merge of some tables of L0 into L1. No older table may overlap them.
    pub(super) fn merge_of_l0(&self, places: &[usize]) -> Option<Merge> {
        let runs: Vec<Run> = places.iter().map(|&place| self.cell(0, 0).runs[place].clone()).collect();
        Some(self.merge_runs_down(0, 0, &runs, |arrival| self.wanted_below(1, arrival))?.merge)
    }

    /// The tables of L0 in groups that do not overlap, each newest first. The group of the oldest table comes first.
    pub(super) fn l0_groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<(KeyRange, Vec<usize>)> = Vec::new();
        for (place, run) in self.cell(0, 0).runs.iter().enumerate().rev() {
            let Some(mut range) = run.range() else { continue };
            let mut group = vec![place];
            // A table may join groups that were apart. The range grows by each of them, and may then meet one more.
            while let Some(met) = groups.iter().position(|(other, _)| other.overlaps(&range)) {
                let (other, places) = groups.remove(met);
                range.extend(&other);
                group.extend(places);
            }
            group.sort_unstable();
            groups.push((range, group));
        }
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(*group.last().expect("a group has a table")));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// If each cell of L1 holds one run and L1 is far over its target: brings a cell of L1 down, before a merge of L0 writes it again.
    pub(super) fn l1_far_over_target(&self) -> Option<Plan> {
        let bytes: u64 = self.sums[1].iter().map(|sum| sum.bytes).sum();
        let is_far = self.options.merges_l0() && bytes / FAR > self.target_bytes(1);
        if is_far { self.free_move(1).or_else(|| self.cheapest_down(1)) } else { None }
    }

    /// What arrives at level `to` when runs go there.
    pub(super) fn arrivals(&self, to: usize, runs: &[Run], span: &Span) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for index in self.cells_in(to, span) {
            let span = self.span(to, index);
            let ranges = runs.iter().flat_map(|run| within(run, &span)).map(|slice| &slice.range);
            if let Some(range) = KeyRange::hull(ranges) {
                arrivals.push(Arrival { index, range });
            }
        }
        arrivals
    }

    /// The keys of a cell from the first to the last that arrives. Slices on their way down may reach over a guard of the next level.
    fn place(&self, to: usize, arrival: &Arrival) -> Span {
        Span::from(&arrival.range).within(&self.span(to, arrival.index))
    }

    /// Whether what arrives becomes part of the cell's newest run, because it overlaps nothing of this run, or is the cell's first run.
    fn joins(&self, to: usize, arrival: &Arrival) -> bool {
        let newest = self.cell(to, arrival.index).runs.first();
        !self.claims.is_taken(self.family, to, &self.place(to, arrival))
            && newest.is_none_or(|run| run.overlapping(&arrival.range).is_empty())
    }

    /// Moves a cell's oldest run down as metadata, if this makes no cell below due; with `only_large`, only a run that is not small for the
    /// level below.
    pub(super) fn move_down(&self, level: usize, index: usize, only_large: bool) -> Option<Plan> {
        let (to, sum) = (level + 1, self.sum(level, index));
        if sum.is_taken || sum.runs == 0 {
            return None;
        }
        let oldest = sum.runs - 1;
        let span = self.span(level, index);
        let mut below_bytes = 0;
        for arrival in self.arrivals(to, &self.cell(level, index).runs[oldest..], &span) {
            if self.keeps_one_run(to, &arrival) {
                return None;
            }
            if !self.joins(to, &arrival) {
                let target = self.sum(to, arrival.index);
                if target.runs + 1 >= self.due_runs(to) {
                    return None;
                }
                below_bytes += target.bytes;
            }
        }
        if only_large && sum.oldest_bytes.saturating_mul(SMALL) < below_bytes {
            return None;
        }
        let claims = vec![self.claim(level, span.clone(), Use::Take), self.claim(to, span, Use::Append)];
        let inputs = self.inputs(level, index, oldest).collect();
        self.allowed(Plan::Move(Move { family: self.family, inputs, to, into: None, claims }))
    }

    /// Whether all of a cell is small for the level below.
    pub(super) fn is_small_for(&self, level: usize, index: usize) -> bool {
        let below = self.cells_in(level + 1, &self.span(level, index));
        let below_bytes: u64 = below.map(|index| self.sum(level + 1, index).bytes).sum();
        self.sum(level, index).bytes.saturating_mul(SMALL) < below_bytes
    }

    /// Brings all of a cell down: a lone run as metadata if there is room, else by a merge.
    pub(super) fn bring_down(&self, level: usize, index: usize) -> Option<Plan> {
        if self.sum(level, index).runs == 1
            && let Some(plan) = self.move_down(level, index, false)
        {
            return Some(plan);
        }
        self.allowed(Plan::Merge(self.merge_down(level, index)?.merge))
    }

    /// The merge of all runs of a cell into the next level, unless running jobs keep a cell there from taking its output.
    pub(super) fn merge_down(&self, level: usize, index: usize) -> Option<Down> {
        self.merge_runs_down(level, index, &self.cell(level, index).runs, |arrival| {
            self.wanted_below(level + 1, arrival)
        })
    }

    /// Whether what arrives is merged with the one run of a cell: its tables lie on a slow tier.
    fn keeps_one_run(&self, to: usize, arrival: &Arrival) -> bool {
        self.sum(to, arrival.index).slow_tier.is_some() && !mutant!("slow_cell_with_two_runs")
    }

    /// How many of the newest runs of a cell a merge from above takes along.
    fn wanted_below(&self, to: usize, arrival: &Arrival) -> usize {
        match self.keeps_one_run(to, arrival) {
            true => self.sum(to, arrival.index).runs,
            false if self.joins(to, arrival) => 0,
            false => self.runs_to_take_along(to, arrival),
        }
    }

    /// The merge of `runs` of a cell into the next level; below L0 these are all runs of the cell. The merge also takes the `wanted` newest
    /// runs of each cell there.
    pub(super) fn merge_runs_down(
        &self,
        level: usize,
        index: usize,
        runs: &[Run],
        wanted: impl Fn(&Arrival) -> usize,
    ) -> Option<Down> {
        let (to, span) = (level + 1, self.span(level, index));
        if runs.is_empty() || level > 0 && self.sum(level, index).is_taken {
            return None;
        }
        let arrivals = self.arrivals(to, runs, &span);
        let mut inputs: Vec<Input> = runs.iter().flat_map(|run| self.inputs_of(level, index, run)).collect();
        // Tables of L0 beside the range of the merge can go down meanwhile.
        let taken = if level == 0 { hull(&inputs)? } else { span.clone() };
        let mut claims =
            vec![self.claim(level, taken.clone(), Use::Take), self.claim(to, taken, Use::Append)];
        let mut removed = (runs.len() * arrivals.len()).saturating_sub(arrivals.len()) as u64;
        for arrival in &arrivals {
            let wanted = wanted(arrival);
            let target = self.sum(to, arrival.index);
            if wanted > 0 && (target.is_taken || target.is_appended) {
                let has_room = target.runs < self.hard_runs(to) && self.options.max_runs[to] > 1;
                if !has_room || self.keeps_one_run(to, arrival) {
                    return None;
                }
            } else if wanted > 0 {
                removed += wanted as u64;
                let (met, owned) = self.taken_along(to, arrival, wanted);
                inputs.extend(met);
                claims.push(self.claim(to, owned, Use::Own));
            }
        }
        let merge = self.merge(level, to, inputs, claims);
        let cost = merge.bytes().saturating_mul(arrivals.len() as u64);
        Some(Down { merge, price: (cost, removed) })
    }

    /// How many of the newest runs of a cell a merge from above takes along. 0 if the cell does not become due, or if a merge of some of
    /// its own runs is cheaper.
    fn runs_to_take_along(&self, to: usize, arrival: &Arrival) -> usize {
        let runs = &self.cell(to, arrival.index).runs;
        let due = self.due_runs(to);
        if runs.len() + 1 < due {
            return 0;
        }
        let mut best: Option<Price> = None;
        let mut cost = 0;
        for (place, run) in runs.iter().enumerate() {
            cost += run.overlapping(&arrival.range).iter().map(|slice| slice.bytes).sum::<u64>();
            let price = (cost, place as u64 + 1);
            let is_enough = runs.len() - place < due;
            if is_enough && best.is_none_or(|than| !cheaper(than, price)) {
                best = Some(price);
            }
        }
        let (cost, taken) = best.expect("all runs are enough");
        if let Some((window, window_cost)) = self.best_window(to, arrival.index) {
            let gone = window.len() - 1;
            if runs.len() + 1 - gone < due && cheaper((window_cost, gone as u64), (cost, taken)) {
                return 0;
            }
        }
        taken as usize
    }

    /// The slices of the newest `count` runs of a cell that overlap what arrives, directly or through other such slices, and the span of
    /// all. If such a slice stayed behind, older entries in the output could come to lie above it.
    fn taken_along(&self, to: usize, arrival: &Arrival, count: usize) -> (Vec<Input>, Span) {
        let cell = self.cell(to, arrival.index);
        let mut range = arrival.range.clone();
        loop {
            let before = range.clone();
            for run in &cell.runs[..count] {
                run.overlapping(&range.clone()).iter().for_each(|slice| range.extend(&slice.range));
            }
            if range == before {
                break;
            }
        }
        let input = |run: &Run, slice: &Arc<Slice>| Input {
            run: RunId { level: to, cell: cell.low.clone(), epoch: run.epoch },
            slice: slice.clone(),
        };
        let runs = cell.runs[..count].iter();
        let slices = runs.flat_map(|run| run.overlapping(&range).iter().map(move |slice| input(run, slice)));
        (slices.collect(), Span::from(&range).within(&self.span(to, arrival.index)))
    }

    /// Makes one run, as metadata, of the two newest runs of a cell if they do not overlap. The newer one arrived while a job had taken the
    /// older one. Sequential writes would pile up such runs.
    pub(super) fn gather(&self) -> Option<Plan> {
        self.every_cell(1..self.last + 1).find_map(|(level, index)| {
            let [newest, next, ..] = self.cell(level, index).runs.as_slice() else { return None };
            let is_apart = newest.slices.iter().all(|slice| next.overlapping(&slice.range).is_empty());
            if !is_apart || self.sum(level, index).is_taken {
                return None;
            }
            let claims = vec![self.claim(level, self.span(level, index), Use::Take)];
            let inputs = self.inputs(level, index, 0).collect();
            // Names the run to join. The rule for arrivals would take the newest run, and another job may put one on top before this move
            // ends.
            let cell = self.cell(level, index).low.clone();
            let into = Some(RunId { level, cell, epoch: next.epoch });
            self.allowed(Plan::Move(Move { family: self.family, inputs, to: level, into, claims }))
        })
    }

    /// Moves a run down as metadata from a level over its target.
    pub(super) fn free_moves(&self) -> Option<Plan> {
        self.over_target().find_map(|level| self.free_move(level))
    }

    /// The oldest run of a level that can move down as metadata.
    fn free_move(&self, level: usize) -> Option<Plan> {
        let mut cells: Vec<usize> = (0..self.sums[level].len()).collect();
        cells.sort_by_key(|&index| self.sum(level, index).seqs.0);
        cells.into_iter().find_map(|index| self.move_down(level, index, false))
    }

    /// Brings a cell of a level over its target down by a merge: the cell whose merge has the fewest bytes for each byte of the cell.
    pub(super) fn large_levels(&self) -> Option<Plan> {
        self.over_target().find_map(|level| self.cheapest_down(level))
    }

    pub(super) fn cheapest_down(&self, level: usize) -> Option<Plan> {
        let offer = |index: usize| {
            if self.is_deferred(level, index) {
                return None;
            }
            let merge = self.merge_down(level, index)?.merge;
            let permille = u128::from(merge.bytes()) * 1000 / u128::from(self.sum(level, index).bytes.max(1));
            Some((permille, self.sum(level, index).seqs.0, merge))
        };
        let mut offers: Vec<_> = (0..self.sums[level].len()).filter_map(offer).collect();
        offers.sort_by_key(|&(permille, oldest, _)| (permille, oldest));
        offers.into_iter().find_map(|(.., merge)| self.allowed(Plan::Merge(merge)))
    }

    fn over_target(&self) -> impl Iterator<Item = usize> {
        (1..self.last + 1).rev().filter(|&level| {
            let cells = self.sums[level].iter().enumerate();
            let free = cells.filter(|(index, sum)| !sum.is_taken && !self.is_deferred(level, *index));
            free.map(|(_, sum)| sum.bytes).sum::<u64>() > self.target_bytes(level)
        })
    }

    /// Whether a cell waits on the fast tier until it has enough for the slow cells beneath (LogStore's deferred compaction).
    fn is_deferred(&self, level: usize, index: usize) -> bool {
        if level == self.last || self.now.tiers.is_none() {
            return false;
        }
        let below =
            self.cells_in(level + 1, &self.span(level, index)).map(|index| self.sum(level + 1, index));
        let slow_bytes: u64 = below.filter(|sum| sum.slow_tier.is_some()).map(|sum| sum.bytes).sum();
        self.sum(level, index).bytes.saturating_mul(DEFERRED) < slow_bytes
    }
}

/// The keys of all inputs, from the first to the last.
fn hull(inputs: &[Input]) -> Option<Span> {
    KeyRange::hull(inputs.iter().map(|input| &input.slice.range)).map(|range| Span::from(&range))
}
