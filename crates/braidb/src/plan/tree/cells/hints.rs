//! Plans from the hints of scans: scans met garbage that costs them more than a rewrite, or values in many places.

use super::Planner;
use crate::base::key::Span;
use crate::plan::{Merge, Plan, Step};

impl Planner<'_> {
    /// Brings down and cleans the records of a hint's range up to the number at which the hint was made. So the work ends although writing
    /// goes on.
    pub(super) fn garbage_hints(&self) -> Option<Plan> {
        self.now.garbage_hints.iter().find_map(|garbage_hints| {
            match self.clean(&Span::from(&garbage_hints.range), garbage_hints.upto, false) {
                Step::Do(plan) => Some(plan),
                Step::Blocked | Step::Done => None,
            }
        })
    }

    /// Makes one run, with its values in key order, of a last-level cell whose scattered values have cost scans as much time as the
    /// gathering.
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
