//! Space: what outranks every deferral, and what only pays in the long run.
//!
//! Nobody counts what a newer run hides of an older one; it is *estimated*, in entries. Every tombstone of the newer runs
//! hides one entry, and is garbage itself. Of the other newer entries such a share hides one as the latest merges of
//! whole cells have met. In a single cell as many are feared as would by chance if its runs held random draws of one set of
//! keys: a change of habits cannot fill the disk unnoticed.
//!
//! A cell is rewritten for its garbage only when all of it is settled: then nothing of it stays, and the same is never
//! proposed again.

use super::{Planner, Sum};
use crate::base::ids::{FileId, SeqNo};
use crate::plan::{Merge, Plan};
use crate::version::{Slice, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A last-level cell is rewritten when one entry in so many is garbage.
const GARBAGE_SHARE: u64 = 5;
/// Above, a cell goes down when one entry in so many is a tombstone.
const TOMBSTONE_SHARE: u64 = 4;
/// Where all garbage of a family is more than so many thousandths of its last level, the worst cell is seen to.
const FAMILY_PERMILLE: u64 = 220;
/// That is, if one entry in so many of the cell is garbage.
const WORST_SHARE: u64 = 10;
/// A table is nearly dead when slices still refer to less than one part in so many.
const DEAD_SHARE: u64 = 4;

impl Merge {
    /// Of a thousand versions that were put on top of the oldest run of a last-level cell, so many hid one of it; known after
    /// a merge with that run, by the versions that the merge dropped as hidden. Tombstones are left out: they hide by nature.
    pub fn shadowed_permille(&self, version: &Version, hidden: u64) -> Option<u64> {
        if self.from != self.to || self.to != version.last_level() {
            return None;
        }
        let oldest = version.level(self.to).cell(&self.inputs[0].run.cell).runs.last()?.epoch;
        if !self.inputs.iter().any(|input| input.run.epoch == oldest) {
            return None;
        }
        let newer = || self.inputs.iter().filter(|input| input.run.epoch != oldest).map(|input| &input.slice);
        let tombstones: u64 = newer().map(|slice| slice.tombstones).sum();
        let puts = newer().map(|slice| slice.entries).sum::<u64>().saturating_sub(tombstones);
        (hidden.saturating_sub(tombstones).min(puts) * 1000).checked_div(puts)
    }
}

impl Planner<'_> {
    fn is_settled(&self, sum: &Sum) -> bool {
        sum.seqs.1 <= self.now.settled
    }

    /// How many entries `newer` ones, of them `tombstones`, hide of `older` ones, going by what was measured.
    fn hidden(&self, newer: u64, tombstones: u64, older: u64) -> u64 {
        let puts = u128::from(newer - tombstones.min(newer));
        let measured = puts * u128::from(self.now.shadowed_permille) / 1000;
        (measured + u128::from(tombstones)).min(u128::from(older)) as u64
    }

    /// The estimated garbage of a last-level cell, in entries.
    fn cell_garbage(&self, sum: &Sum) -> u64 {
        let newer = sum.entries - sum.oldest_entries;
        let tombstones = sum.tombstones - sum.oldest_tombstones;
        sum.garbage + self.hidden(newer, tombstones, sum.oldest_entries)
    }

    /// What a last-level cell may have of garbage, whatever was measured elsewhere and before.
    fn feared_garbage(&self, sum: &Sum) -> u64 {
        let newer = sum.entries - sum.oldest_entries;
        let by_chance = u128::from(newer) * u128::from(newer) / u128::from(sum.oldest_entries.max(1));
        self.cell_garbage(sum).max(sum.garbage + (by_chance as u64).min(sum.oldest_entries))
    }

    /// Whether a last-level cell has so much garbage that all of it is to become one run.
    pub(super) fn wants_rewrite(&self, level: usize, index: usize) -> bool {
        let sum = self.sum(level, index);
        self.is_settled(sum) && self.feared_garbage(sum).saturating_mul(GARBAGE_SHARE) >= sum.entries.max(1)
    }

    /// What gives space back.
    pub(super) fn garbage(&self) -> Option<Plan> {
        self.garbage_of_last().or_else(|| self.tombstones_above()).or_else(|| self.garbage_of_family())
    }

    fn garbage_of_last(&self) -> Option<Plan> {
        (0..self.sums[self.last].len()).find_map(|index| {
            let sum = self.sum(self.last, index);
            if sum.is_taken || sum.runs == 0 || !self.is_settled(sum) {
                return None;
            }
            if sum.runs > 1 {
                return if self.wants_rewrite(self.last, index) {
                    self.rewrite(self.last, index)
                } else {
                    None
                };
            }
            if sum.garbage == 0 {
                return None;
            }
            let mut slices = self.cell(self.last, index).runs[0].slices.iter();
            let heavy = slices.position(|s| s.garbage().saturating_mul(GARBAGE_SHARE) >= s.entries)?;
            self.rewrite_slice(self.last, index, 0, heavy)
        })
    }

    /// Brings tombstones nearer to what they hide.
    fn tombstones_above(&self) -> Option<Plan> {
        self.every_cell(1..self.last).find_map(|(level, index)| {
            let sum = self.sum(level, index);
            let is_heavy = sum.tombstones.saturating_mul(TOMBSTONE_SHARE) > sum.entries;
            if is_heavy && !sum.is_taken && self.is_settled(sum) {
                self.bring_down(level, index)
            } else {
                None
            }
        })
    }

    /// Where many cells have some garbage each: rewrites the worst of the last level, or else brings down the largest above.
    fn garbage_of_family(&self) -> Option<Plan> {
        let last = &self.sums[self.last];
        let older: u64 = last.iter().map(|sum| sum.oldest_entries).sum();
        let above = |measure: fn(&Sum) -> u64| self.sums[..self.last].iter().flatten().map(measure).sum();
        let garbage_above = self.hidden(above(|sum| sum.entries), above(|sum| sum.tombstones), older);
        let garbage = garbage_above + last.iter().map(|sum| self.cell_garbage(sum)).sum::<u64>();
        if garbage == 0 || garbage.saturating_mul(1000) < older.saturating_mul(FAMILY_PERMILLE) {
            return None;
        }
        let is_worth = |sum: &Sum| {
            let is_free = sum.runs > 1 && !sum.is_taken && self.is_settled(sum);
            is_free && self.cell_garbage(sum).saturating_mul(WORST_SHARE) >= sum.entries
        };
        let permille = |index: usize| {
            let sum = &last[index];
            u128::from(self.cell_garbage(sum)) * 1000 / u128::from(sum.entries)
        };
        let worth = (0..last.len()).filter(|&index| is_worth(&last[index]));
        if let Some(index) = worth.max_by_key(|&index| permille(index)) {
            return self.rewrite(self.last, index);
        }
        // A merge of L0 that was deferred: its tables hide most for what it costs.
        if self.sum(0, 0).runs >= self.options.l0_merge_tables
            && let Some(plan) = self.l0(false)
        {
            return Some(plan);
        }
        let filled = self.every_cell(1..self.last).filter(|&(level, index)| self.sum(level, index).runs > 0);
        match filled.max_by_key(|&(level, index)| self.sum(level, index).bytes) {
            Some((level, index)) => self.bring_down(level, index),
            None => self.l0(false),
        }
    }

    /// Old tombstones above the last level, and what is left of nearly dead tables.
    pub(super) fn cold(&self) -> Option<Plan> {
        let cold: SeqNo = self.now.settled.min(self.now.visible.checked_sub(self.options.cold_ops)?);
        self.old_tombstones(cold).or_else(|| self.nearly_dead(cold))
    }

    fn old_tombstones(&self, cold: SeqNo) -> Option<Plan> {
        self.every_cell(1..self.last + 1).find_map(|(level, index)| {
            let sum = self.sum(level, index);
            if sum.tombstones == 0 || sum.is_taken || sum.seqs.0 > cold {
                return None;
            }
            let mut slices = self.cell(level, index).slices().map(|(_, slice)| slice);
            if !slices.any(|slice| slice.tombstones > 0 && slice.seqs.1 <= cold) {
                return None;
            }
            if level < self.last {
                return self.bring_down(level, index);
            }
            if self.is_settled(sum) { self.rewrite(level, index) } else { None }
        })
    }

    /// Takes handles out of a table whose logs are to go: a slice that has some is rewritten, and what lies in L0 goes down.
    pub(super) fn pinning(&self) -> Option<Plan> {
        let to_rewrite = self.now.to_rewrite;
        if to_rewrite.is_empty() {
            return None;
        }
        let is_pinning = |slice: &Arc<Slice>| to_rewrite.contains(&slice.table.id);
        let deep = self.every_cell(1..self.last + 1).find_map(|(level, index)| {
            let mut runs = self.cell(level, index).runs.iter().enumerate();
            let (run, slice) =
                runs.find_map(|(place, run)| Some((place, run.slices.iter().position(is_pinning)?)))?;
            if self.sum(level, index).is_taken { None } else { self.rewrite_slice(level, index, run, slice) }
        });
        deep.or_else(|| {
            let is_in_l0 = self.version.level(0).slices().any(|(_, _, slice)| is_pinning(slice));
            if is_in_l0 { self.l0(true) } else { None }
        })
    }

    /// A slice that keeps a nearly dead table alive is rewritten, together with a neighbouring run if there is one.
    fn nearly_dead(&self, cold: SeqNo) -> Option<Plan> {
        let mut live_bytes: BTreeMap<FileId, u64> = BTreeMap::new();
        for slice in self.version.slices().filter(|slice| slice.bytes < slice.table.full_bytes()) {
            *live_bytes.entry(slice.table.id).or_default() += slice.bytes;
        }
        let pins = |slice: &Arc<Slice>| {
            let live_bytes = live_bytes.get(&slice.table.id).copied().unwrap_or(slice.table.full_bytes());
            slice.seqs.1 <= cold && live_bytes.saturating_mul(DEAD_SHARE) < slice.table.full_bytes()
        };
        self.every_cell(1..self.last + 1).find_map(|(level, index)| {
            if self.sum(level, index).is_taken {
                return None;
            }
            let runs = &self.cell(level, index).runs;
            let mut places = runs
                .iter()
                .enumerate()
                .filter_map(|(place, run)| Some((place, run.slices.iter().position(&pins)?)));
            let (run, slice) = places.next()?;
            if runs.len() == 1 {
                return self.rewrite_slice(level, index, 0, slice);
            }
            let start = run.min(runs.len() - 2);
            self.merge_window(level, index, start..start + 2)
        })
    }
}
