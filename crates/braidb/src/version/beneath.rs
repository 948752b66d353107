//! What lies beneath a merge: whether an older version of a key may exist outside the merge's inputs (rule 6).
//!
//! Memory and the logs that recovery would replay hold only newer versions of what stands in a table, because a flush
//! takes whole memtables in order. Levels above the merge are newer by rule 7. What is left: other slices of the merge's
//! own levels, and everything deeper.

use super::shape::{Slice, Version};
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use std::sync::Arc;

/// The slices in which versions older than a merge's own may stand. Taken from the version that the merge read.
#[derive(Debug)]
pub struct Beneath {
    /// Each inner list is sorted and disjoint.
    runs: Vec<Vec<Arc<Slice>>>,
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
        for level in version.levels().skip(level + usize::from(mutant!("tombstone_ignores_older_runs"))) {
            // Cells come in key order, so the first runs of all cells make one sorted list, the second ones another.
            let mut ranked: Vec<Vec<Arc<Slice>>> = Vec::new();
            for cell in &level.cells[level.cell_index(&range.low)..=level.cell_index(&range.high)] {
                for (rank, run) in cell.runs.iter().enumerate() {
                    ranked.resize_with(ranked.len().max(rank + 1), Vec::new);
                    let others = run.overlapping(range).iter().filter(|slice| !is_input(slice));
                    ranked[rank].extend(others.cloned());
                }
            }
            runs.extend(ranked.into_iter().filter(|run| !run.is_empty()));
        }
        Beneath { runs }
    }

    /// Whether an older version of `key` may stand somewhere beneath.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.runs.iter().any(|run| {
            let at = run.partition_point(|slice| slice.range.high.as_slice() < key);
            run.get(at).is_some_and(|slice| slice.range.low.as_slice() <= key)
        })
    }
}
