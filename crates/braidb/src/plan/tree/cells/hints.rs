//! What scans ask for: they met garbage where a rewrite costs less than they lose, or values in many places.

use super::Planner;
use crate::base::key::Span;
use crate::plan::{Merge, Plan, Step};

impl Planner<'_> {
    /// Brings down and cleans what was there when scans were found to suffer from it. That ends although writing goes on.
    pub(super) fn garbage_hints(&self) -> Option<Plan> {
        self.now.garbage_hints.iter().find_map(|garbage_hints| {
            match self.clean(&Span::from(&garbage_hints.range), garbage_hints.upto) {
                Step::Do(plan) => Some(plan),
                Step::Blocked | Step::Done => None,
            }
        })
    }

    /// A last-level cell whose values scans have paid to be gathered becomes one run, with its values in key order.
    pub(super) fn gather_hints(&self) -> Option<Plan> {
        let level = self.last;
        self.now.to_gather.iter().find_map(|low| {
            let index = self.version.level(level).cell_index(low);
            let sum = self.sum(level, index);
            if sum.is_taken || sum.value_bytes == 0 || self.cell(level, index).low != *low {
                return None;
            }
            let Plan::Merge(merge) = self.rewrite(level, index)? else {
                unreachable!("a rewrite is a merge")
            };
            Some(Plan::Merge(Merge { gathers: true, ..merge }))
        })
    }
}
