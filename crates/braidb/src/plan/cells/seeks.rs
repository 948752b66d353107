//! Seeks: where many landed in a row, fewer runs pay.

use super::Planner;
use crate::plan::Plan;

impl Planner<'_> {
    /// Tables of L0 are brought down, since each of them is one more place to look; then a cell with several runs at a key that
    /// was sought is made one run; else, a level that holds more than a quarter of the next is made smaller.
    pub(super) fn sought(&self) -> Option<Plan> {
        if !self.now.sought.is_empty()
            && let Some(plan) = self.l0(true)
        {
            return Some(plan);
        }
        let merged = self.now.sought.iter().find_map(|key| {
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
        if merged.is_some() || self.now.sought.is_empty() {
            return merged;
        }
        let large = |&level: &usize| self.free_bytes(level) > self.free_bytes(level + 1) / 4;
        (1..self.last).filter(large).find_map(|level| self.cheapest_down(level))
    }
}
