//! Decides whether an older version of a key may exist outside the inputs of a merge (rule 6).
//!
//! Memory and the logs that recovery would replay hold only versions newer than those in tables. The reason: flushes
//! take whole memtables in order, and leave at most the newest version of a key in memory. Levels above the merge are
//! newer by rule 7. Runs of the merge's own cell above its newest input are newer too, so a merge can drop the
//! tombstones of old runs although new runs arrive. What remains to check: older runs of the merge's own levels, and
//! all deeper levels.

use super::{Slice, Version};
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;

/// Where versions older than the inputs of a merge may be: ranges of slices, copied from the version that the merge
/// read. The slices themselves are not held: they would keep files alive that other merges replace meanwhile.
#[derive(Debug)]
pub struct Beneath {
    /// Each inner list is sorted and disjoint.
    runs: Vec<Vec<KeyRange>>,
}

impl Beneath {
    /// Collects the slices at `level` or deeper within `range`, except the inputs of the merge, which `is_input`
    /// selects.
    pub fn new(
        version: &Version,
        level: usize,
        range: &KeyRange,
        is_input: impl Fn(&Slice) -> bool,
    ) -> Beneath {
        let mut runs = Vec::new();
        let ignored = usize::from(mutant!("tombstone_ignores_older_runs"));
        for (depth, at) in version.levels().enumerate().skip(level + ignored) {
            // Cells come in key order, so the first runs of all cells form one sorted list, the second runs another.
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

    /// Whether an older version of `key` may exist beneath the merge.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.runs.iter().any(|run| {
            let at = run.partition_point(|range| range.high.as_slice() < key);
            run.get(at).is_some_and(|range| range.low.as_slice() <= key)
        })
    }
}
