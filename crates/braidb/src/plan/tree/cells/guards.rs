//! Where guards stand: cells are halved when they have grown too large, and joined when two are small.
//!
//! A guard is added from below: the last level takes any key, and a level above takes only a guard of the next level. So a cell is always a
//! union of cells of the next level. A guard is removed from above: only its top level can lose it.
//!
//! A cell is split beyond the size of a table, and two are joined below a quarter of that, so that neither undoes the other.

use super::Planner;
use crate::base::counters::LEVELS;
use crate::base::key::Span;
use crate::plan::{Claim, Guards, Join, Plan, Split, Use};
use crate::version::Cell;
use std::collections::BTreeSet;

impl Planner<'_> {
    /// A cell that is to become two, the deepest first.
    pub(super) fn splits(&self) -> Option<Plan> {
        match self.options.guards {
            Guards::None => None,
            Guards::Balanced => self.balanced(),
            Guards::Sampled { .. } => self.sampled(),
        }
    }

    fn balanced(&self) -> Option<Plan> {
        let large = |&(level, index): &(usize, usize)| {
            let sum = self.sum(level, index);
            sum.bytes > self.options.table_bytes && !sum.is_taken
        };
        self.every_cell(1..self.last + 1).rev().filter(large).find_map(|(level, index)| {
            if level < self.last {
                let guard = self.middle_guard(level, index)?;
                return self.split(level, index, Some(guard));
            }
            let guard = middle_edge(self.cell(level, index));
            if guard.is_none() && !is_divisible(self.cell(level, index)) {
                return None;
            }
            self.split(level, index, guard)
        })
    }

    /// The guard of the next level that best halves the next level's bytes in the cell's span. Only guards with entries of the cell on both
    /// sides count.
    fn middle_guard(&self, level: usize, index: usize) -> Option<Vec<u8>> {
        let below = self.cells_in(level + 1, &self.span(level, index));
        let inner: Vec<usize> = below
            .skip(1)
            .filter(|&at| has_both_sides(self.cell(level, index), &self.cell(level + 1, at).low))
            .collect();
        let (first, last) = (*inner.first()?, *inner.last()?);
        let bytes = |at: usize| self.sum(level + 1, at).bytes;
        let total: u64 = (first - 1..=last).map(bytes).sum();
        let mut passed = 0;
        let middle = (first..=last).min_by_key(|&at| {
            passed += bytes(at - 1);
            (2 * passed).abs_diff(total)
        })?;
        Some(self.cell(level + 1, middle).low.clone())
    }

    /// Splits a cell at a sampled key that is to be a guard of one more level.
    fn sampled(&self) -> Option<Plan> {
        for level in (1..self.last + 1).rev() {
            for (key, &top) in self.now.sampled {
                if top > level {
                    continue;
                }
                let stands_on = self.version.guards().get(key).copied().unwrap_or(LEVELS);
                let is_next = if level == self.last { stands_on > level } else { stands_on == level + 1 };
                if !is_next {
                    continue;
                }
                let index = self.version.level(level).cell_index(key);
                let sum = self.sum(level, index);
                let is_worth = sum.bytes > self.options.table_bytes / 2 && !sum.is_taken;
                if is_worth
                    && has_both_sides(self.cell(level, index), key)
                    && let Some(plan) = self.split(level, index, Some(key.clone()))
                {
                    return Some(plan);
                }
            }
        }
        None
    }

    fn split(&self, level: usize, index: usize, guard: Option<Vec<u8>>) -> Option<Plan> {
        let mut claims = self.guard_claims(level, &self.span(level, index));
        if level < self.last
            && let Some(guard) = &guard
        {
            // No job may remove the guard from the next level meanwhile.
            let place = Span { low: guard.clone(), end: Some([guard.as_slice(), &[0]].concat()) };
            claims.push(self.claim(level + 1, place, Use::Take));
        }
        let cell = self.cell(level, index).low.clone();
        self.allowed(Plan::Split(Split { family: self.family, level, guard, cell, claims }))
    }

    /// The claims of a change of a guard. On the last level they include the empty levels below, which no job may fill meanwhile.
    fn guard_claims(&self, level: usize, span: &Span) -> Vec<Claim> {
        let below = if level < self.last { LEVELS } else { level + 1 };
        let below = (below..LEVELS).map(|level| self.claim(level, span.clone(), Use::Own));
        std::iter::once(self.claim(level, span.clone(), Use::Take)).chain(below).collect()
    }

    /// Joins two small cells: the guard between them is removed from its top level.
    pub(super) fn joins_of_cells(&self) -> Option<Plan> {
        self.version.guards().iter().find_map(|(guard, &level)| {
            let right = self.version.level(level).cell_index(guard);
            let sums = [self.sum(level, right - 1), self.sum(level, right)];
            let bytes = sums[0].bytes + sums[1].bytes;
            let is_fixed = sums.iter().any(|sum| sum.is_taken || sum.slow_tier.is_some());
            if is_fixed || bytes >= self.options.table_bytes / 4 {
                return None;
            }
            let cells = [right - 1, right].map(|index| self.cell(level, index));
            let epochs: BTreeSet<_> =
                cells.iter().flat_map(|cell| cell.runs.iter().map(|run| run.epoch)).collect();
            if bytes > 0 && epochs.len() >= self.due_runs(level) {
                return None;
            }
            let span = Span { low: cells[0].low.clone(), end: self.span(level, right).end };
            let claims = self.guard_claims(level, &span);
            let (guard, everywhere) = (guard.clone(), level >= self.last);
            self.allowed(Plan::Join(Join { family: self.family, level, guard, everywhere, claims }))
        })
    }
}

/// The first key of the slice of the largest run that begins nearest to the middle of the run's bytes, if it begins in the middle half.
fn middle_edge(cell: &Cell) -> Option<Vec<u8>> {
    let run = cell.runs.iter().max_by_key(|run| run.bytes())?;
    let total = run.bytes();
    let mut passed = 0;
    let edges = run.slices.windows(2).map(|pair| {
        passed += pair[0].bytes;
        (passed, &pair[1].range.low)
    });
    let middle = edges.min_by_key(|&(passed, _)| (2 * passed).abs_diff(total))?;
    let is_near = (total / 4..=total / 4 * 3).contains(&middle.0);
    is_near.then(|| middle.1.clone())
}

/// Whether the executor can find a key in the middle of the cell's largest slice.
fn is_divisible(cell: &Cell) -> bool {
    let largest = cell.slices().map(|(_, slice)| slice).max_by_key(|slice| slice.bytes);
    largest.is_some_and(|slice| slice.range.low != slice.range.high)
}

fn has_both_sides(cell: &Cell, guard: &[u8]) -> bool {
    let edges = |run: &crate::version::Run| {
        let (first, last) = (run.slices.first(), run.slices.last());
        (
            first.is_some_and(|s| s.range.low.as_slice() < guard),
            last.is_some_and(|s| s.range.high.as_slice() >= guard),
        )
    };
    cell.runs.iter().any(|run| edges(run).0) && cell.runs.iter().any(|run| edges(run).1)
}
