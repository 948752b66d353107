//! What lies beneath a merge: whether an older version of a key may exist outside the merge's inputs (rule 6).
//!
//! Memory and the logs that recovery would replay hold only newer versions of what stands in a table, because a flush
//! takes whole memtables in order. Levels above the merge are newer by rule 7. What is left: other slices of the merge's
//! own levels, and everything deeper.

use super::shape::{Slice, Version};
use crate::base::key::KeyRange;
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
        let cells = version.levels().skip(level).flat_map(|level| &level.cells);
        let runs = cells
            .flat_map(|cell| &cell.runs)
            .map(|run| run.overlapping(range).iter().filter(|slice| !is_input(slice)).cloned().collect())
            .filter(|run: &Vec<_>| !run.is_empty())
            .collect();
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
