//! What lies beneath a merge: whether an older version of a key may exist outside the merge's inputs (rule 6).
//!
//! Memory and the logs that recovery would replay hold only newer versions of what stands in a table, because flushes take
//! whole memtables in order, and leave of a key at most its newest version in memory. Levels above the merge are newer by
//! rule 7, and so are runs of its own cell above the newest that it takes: whoever cleans an old run does so for good,
//! although writing goes on. What is left: older runs of the merge's own levels, and everything deeper.

use super::shape::{Slice, Version};
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;

/// Where versions older than a merge's own may stand: the ranges of slices, taken from the version that the merge read. Not the
/// slices themselves, which would hold files that other merges replace meanwhile.
#[derive(Debug)]
pub struct Beneath {
    /// Each inner list is sorted and disjoint.
    runs: Vec<Vec<KeyRange>>,
}

impl Beneath {
    /// What lies at `level` or deeper within `range`, apart from the slices that `is_input` claims for the merge.
    pub fn new(
        version: &Version,
        level: usize,
        range: &KeyRange,
        is_input: impl Fn(&Slice) -> bool,
    ) -> Beneath {
        let mut runs = Vec::new();
        let ignored = usize::from(mutant!("tombstone_ignores_older_runs"));
        for (depth, at) in version.levels().enumerate().skip(level + ignored) {
            // Cells come in key order, so the first runs of all cells make one sorted list, the second ones another.
            let mut ranked: Vec<Vec<KeyRange>> = Vec::new();
            for cell in &at.cells[at.cell_index(&range.low)..=at.cell_index(&range.high)] {
                let overlapping = || cell.runs.iter().map(|run| run.overlapping(range));
                let newest_input =
                    overlapping().position(|slices| slices.iter().any(|slice| is_input(slice)));
                let newer = if depth == level { newest_input.unwrap_or(0) } else { 0 };
                for (rank, slices) in overlapping().enumerate().skip(newer) {
                    ranked.resize_with(ranked.len().max(rank + 1), Vec::new);
                    let others = slices.iter().filter(|slice| !is_input(slice));
                    ranked[rank].extend(others.map(|slice| slice.range.clone()));
                }
            }
            runs.extend(ranked.into_iter().filter(|run| !run.is_empty()));
        }
        Beneath { runs }
    }

    /// Whether an older version of `key` may stand somewhere beneath.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.runs.iter().any(|run| {
            let at = run.partition_point(|range| range.high.as_slice() < key);
            run.get(at).is_some_and(|range| range.low.as_slice() <= key)
        })
    }
}
