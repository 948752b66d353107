//! What readers ask for: scans met garbage where a rewrite costs less than they lose, or many seeks landed in a row, where
//! fewer runs pay.

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

    /// Tables of L0 are brought down, since each of them is one more place to look; then a cell with several runs at a key that
    /// was sought is made one run; else, a level that holds more than a quarter of the next is made smaller.
    pub(super) fn seek_hints(&self) -> Option<Plan> {
        if !self.now.seek_hints.is_empty()
            && let Some(plan) = self.l0(true)
        {
            return Some(plan);
        }
        let merged = self.now.seek_hints.iter().find_map(|key| {
            (1..self.last + 1).find_map(|level| {
                let index = self.version.level(level).cell_index(key);
                let sum = self.sum(level, index);
                match level == self.last {
                    _ if sum.runs <= 1 || sum.is_taken => None,
                    true => self.rewrite(level, index),
                    false => self.bring_down(level, index),
                }
            })
        });
        if merged.is_some() || self.now.seek_hints.is_empty() {
            return merged;
        }
        let large = |&level: &usize| self.free_bytes(level) > self.free_bytes(level + 1) / 4;
        (1..self.last).filter(large).find_map(|level| self.cheapest_down(level))
    }
}
