//! Merging within a cell: neighbouring runs become one, or the whole cell does.

use super::{Planner, Price, cheaper};
use crate::base::ids::SeqNo;
use crate::plan::{Plan, Use};
use crate::version::Run;
use std::ops::Range;

impl Planner<'_> {
    /// The neighbouring runs whose merge costs the fewest bytes for each run that it removes, and these bytes. Among equals: more runs.
    pub(super) fn best_window(&self, level: usize, index: usize) -> Option<(Range<usize>, u64)> {
        let bytes: Vec<u64> = self.cell(level, index).runs.iter().map(|run| run.bytes()).collect();
        best_window(&bytes)
    }

    /// Shortens a cell of the last level.
    pub(super) fn window_or_whole(&self, level: usize, index: usize) -> Option<Plan> {
        if self.wants_rewrite(level, index) {
            return self.rewrite(level, index);
        }
        let (window, _) = self.best_window(level, index)?;
        self.merge_window(level, index, window)
    }

    /// Merges neighbouring runs of a cell in place.
    pub(super) fn merge_window(&self, level: usize, index: usize, window: Range<usize>) -> Option<Plan> {
        let inputs = window.flat_map(|run| self.inputs(level, index, run)).collect();
        let claims = vec![self.claim(level, self.span(level, index), Use::Take)];
        self.allowed(Plan::Merge(self.merge(level, level, inputs, claims)))
    }

    /// Makes one run of a whole cell.
    pub(super) fn rewrite(&self, level: usize, index: usize) -> Option<Plan> {
        self.merge_window(level, index, 0..self.cell(level, index).runs.len())
    }

    /// Rewrites one slice of a run.
    pub(super) fn rewrite_slice(&self, level: usize, index: usize, run: usize, slice: usize) -> Option<Plan> {
        let inputs = self.inputs(level, index, run).skip(slice).take(1).collect();
        let claims = vec![self.claim(level, self.span(level, index), Use::Take)];
        self.allowed(Plan::Merge(self.merge(level, level, inputs, claims)))
    }

    /// The newest run that holds an entry up to `upto`, in a cell that has such an entry.
    pub(super) fn first_old_run(&self, level: usize, index: usize, upto: SeqNo) -> usize {
        let runs = &self.cell(level, index).runs;
        let is_old = |run: &Run| run.slices.iter().any(|slice| slice.seqs.0 <= upto);
        runs.iter().position(is_old).expect("some run of the cell is that old")
    }

    /// A slice of a run that a rewrite would rid of garbage, or of handles into logs.
    pub(super) fn unclean(&self, level: usize, index: usize, run: usize, upto: SeqNo) -> Option<usize> {
        let slices = &self.cell(level, index).runs[run].slices;
        slices.iter().position(|slice| {
            let has_garbage = slice.garbage() > 0 && slice.seqs.1 <= self.now.watermark;
            (has_garbage || slice.table.pins_logs()) && slice.seqs.0 <= upto
        })
    }
}

fn best_window(bytes: &[u64]) -> Option<(Range<usize>, u64)> {
    let mut best: Option<(Range<usize>, Price)> = None;
    for start in 0..bytes.len() {
        let mut cost = bytes[start];
        for end in start + 2..=bytes.len() {
            cost += bytes[end - 1];
            let price = (cost, (end - start - 1) as u64);
            let is_better = best
                .as_ref()
                .is_none_or(|&(_, than)| cheaper(price, than) || !cheaper(than, price) && price.1 > than.1);
            if is_better {
                best = Some((start..end, price));
            }
        }
    }
    best.map(|(window, (cost, _))| (window, cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_window_writes_least_for_each_run_that_goes() {
        assert_eq!(best_window(&[7]), None);
        assert_eq!(best_window(&[1, 1, 1, 1]), Some((0..4, 4)));
        assert_eq!(best_window(&[1, 1, 1, 9]), Some((0..3, 3)));
        assert_eq!(best_window(&[5, 1, 2, 90]), Some((1..3, 3)));
        assert_eq!(best_window(&[3, 2, 1]), Some((0..3, 6)), "more runs at the same price");
        assert_eq!(best_window(&[u64::MAX / 2, 1]), Some((0..2, u64::MAX / 2 + 1)));
    }
}
