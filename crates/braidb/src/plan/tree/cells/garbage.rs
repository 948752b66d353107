//! Space: plans that remove garbage. Those of `garbage` come before the bounds of cells and levels. Those of `cold` and `pinning` only pay
//! in the long run.
//!
//! How many entries of older runs a newer run hides is not counted, but *estimated*. Each tombstone of the newer runs counts as hiding one
//! entry, and is garbage itself. How many entries puts hide, the samples of a cell's tables tell (`cells/samples.rs`).
//!
//! Samples tell nothing of small cells, tables of older builds, and levels above the last. There the share of puts that hide an entry is
//! *guessed*: it is the share that the latest merges with oldest runs of last-level cells found. A cell may differ from it. So the *feared*
//! garbage of a cell is at least what its newer entries would hide if all runs were random draws from one set of keys. Thus a load that
//! changes cannot fill the disk unnoticed. Samples lower the feared garbage of a cell if they know of less. If they know of more, it counts
//! only in the sum of all cells, which is bounded too.
//!
//! A cell is rewritten for its garbage only if no snapshot is older than its newest entry. Then the rewrite removes all of the garbage, and
//! is not proposed again.

use super::{Planner, Sum};
use crate::base::ids::{FileId, SeqNo};
use crate::base::mutant::mutant;
use crate::plan::values::collection::Space;
use crate::plan::{Input, Merge, Plan, values};
use crate::version::{Cell, RunId, Slice, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A last-level cell is rewritten when one entry in this many is garbage, if all values lie in tables: a byte of garbage then costs three
/// written bytes. With 5 instead, overwriting 5 and 20 million keys twice wrote 14% and 2% more, and 20 million keys took 1.81 times their
/// live bytes at worst. With 4 it was 1.65 times.
const GARBAGE_SHARE: u64 = 4;
/// A last-level cell most of whose values lie in value files is rewritten when one entry in this many is garbage. Its rewrite writes only
/// handles, which are few bytes, and tells which values are garbage. At 10 each entry is merged about nine more times until a newer version
/// replaces it, which takes a tenth of a put's processor time.
const SEPARATED_SHARE: u64 = 10;
/// A cell above the last level goes down when more than one entry in this many is a tombstone.
const TOMBSTONE_SHARE: u64 = 4;
/// The worst cell is rewritten if the garbage of a family reaches this many thousandths of the live entries of its last level. It is a
/// little less than a third, at which [`GARBAGE_SHARE`] rewrites each cell. The slack is added to both bounds.
const FAMILY_PERMILLE: u64 = 300;
/// The bound if samples tell what newer runs hide in each cell of the last level: a third, because nothing is guessed.
const KNOWN_FAMILY_PERMILLE: u64 = 333;
/// The bound of a family most of whose values lie in value files, known or guessed.
const SEPARATED_FAMILY_PERMILLE: u64 = 110;
/// The worst cell of a family with too much garbage is rewritten if it has at least half of the garbage at which it would be rewritten by
/// itself: one entry in 2 times its own share.
const WORST_FACTOR: u64 = 2;
/// A family may have garbage of `base_bytes` divided by this beyond its share. This is one memtable if `base_bytes` is four memtables: a
/// flush of overwritten keys hides as many bytes. Without it a database of a few memtables was rewritten after each flush. Overwriting 5
/// million keys three times wrote 16% and 26% less with it (two runs) than without (one run). The directory took 1.98 and 2.07 times the
/// live bytes at worst, and 1.99 without.
const SLACK_PART: u64 = 4;
/// Garbage beyond the share takes at most this many thousandths of the last level. A million keys in four memtables took 3.46 times their
/// live bytes at worst with 250, and 3.14 with 125.
const MOST_SLACK: u64 = 125;
/// A table is nearly dead when slices still refer to less than one byte in this many of it.
const DEAD_SHARE: u64 = 4;

/// What merges with the oldest runs of last-level cells found. The default stands for no such merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Newer entries that values were put for.
    puts: u64,
    /// Newer entries that are tombstones.
    tombstones: u64,
    /// Entries that newer ones hid.
    hidden: u64,
}

impl Met {
    /// The newer entries that a merge of `version` brings to oldest runs. `None` if the merge cannot tell how many older entries they hide:
    /// it does not end in the last level, a slice of an oldest run beneath is no input, or a reader may still hold hidden versions (entries
    /// above `watermark`).
    pub fn of(merge: &Merge, version: &Version, watermark: SeqNo) -> Option<Met> {
        let level = version.level(version.last_level());
        if merge.to != version.last_level() {
            return None;
        }
        let oldest = |cell: &Cell| cell.runs.last().map(|run| run.epoch);
        let is_oldest =
            |run: &RunId| run.level == merge.to && oldest(level.cell(&run.cell)) == Some(run.epoch);
        let (old, newer): (Vec<&Input>, Vec<&Input>) =
            merge.inputs.iter().partition(|input| is_oldest(&input.run));
        let old: BTreeSet<*const Slice> = old.iter().map(|input| Arc::as_ptr(&input.slice)).collect();
        let is_input = |slice: &Arc<Slice>| old.contains(&Arc::as_ptr(slice));
        let mut met = Met::default();
        for Input { slice, .. } in newer {
            let range = &slice.range;
            let reached = &level.cells[level.cell_index(&range.low)..=level.cell_index(&range.high)];
            let mut beneath = reached.iter().filter_map(|cell| cell.runs.last());
            if slice.seqs.1 > watermark || !beneath.all(|run| run.overlapping(range).iter().all(is_input)) {
                return None;
            }
            met.puts = met.puts.saturating_add(slice.entries.saturating_sub(slice.tombstones));
            met.tombstones = met.tombstones.saturating_add(slice.tombstones);
        }
        Some(met)
    }

    /// Adds how many entries the merge has dropped because newer ones hid them.
    pub fn hiding(self, hidden: u64) -> Met {
        Met { hidden, ..self }
    }

    pub fn and(self, other: Met) -> Met {
        Met {
            puts: self.puts.saturating_add(other.puts),
            tombstones: self.tombstones.saturating_add(other.tombstones),
            hidden: self.hidden.saturating_add(other.hidden),
        }
    }

    /// Of a thousand puts, how many hid an older entry. Tombstones are left out: each counts as hiding one entry.
    fn permille(&self) -> Option<u64> {
        let hidden_by_puts = self.hidden.saturating_sub(self.tombstones).min(self.puts);
        (hidden_by_puts * 1000).checked_div(self.puts)
    }

    /// The share to plan with after these merges, if it was `permille` before. These merges weigh three quarters. `None` if they met no
    /// put.
    pub fn learn(&self, permille: u64) -> Option<u64> {
        Some((permille + 3 * self.permille()?) / 4)
    }
}

/// Entries of `bytes`, of which `value_bytes` lie in value files, are rewritten when one entry in this many is garbage.
fn garbage_share(bytes: u64, value_bytes: u64) -> u64 {
    if values::is_separated(bytes, value_bytes) { SEPARATED_SHARE } else { GARBAGE_SHARE }
}

/// Garbage that a family whose last level has `last_bytes` may have beyond its share, in thousandths. No level's target is below
/// `base_bytes`.
pub(super) fn slack_permille(base_bytes: u64, last_bytes: u64) -> u64 {
    let slack_bytes = base_bytes / SLACK_PART;
    (u128::from(slack_bytes) * 1000 / u128::from(last_bytes.max(1))).min(u128::from(MOST_SLACK)) as u64
}

fn hidden_by_share(newer: u64, tombstones: u64, older: u64, permille: u64) -> u64 {
    let puts = u128::from(newer - tombstones.min(newer));
    let met = puts * u128::from(permille) / 1000;
    (met + u128::from(tombstones)).min(u128::from(older)) as u64
}

/// What the collection of value files asks about the cells of a family. Of a thousand newer entries `permille` hid an older one lately.
/// Cells with entries above `watermark` count as without hidden values, because a snapshot may hold what they hide.
pub fn space_of(version: &Version, permille: u64, watermark: SeqNo) -> Space {
    let last_level = version.last_level().max(1);
    let sums = |level: usize| version.level(level).cells.iter().map(|cell| Sum::of(cell));
    let mut last: Vec<Sum> = sums(last_level).collect();
    let table_bytes = last.iter().map(|sum| sum.table_bytes(permille)).fold(0, u64::saturating_add);
    let is_settled = |sum: &Sum| sum.seqs.1 <= watermark;
    let above: Vec<Sum> = (0..last_level).flat_map(sums).filter(is_settled).collect();
    last.retain(is_settled);
    Space { hidden_value_bytes: hidden_of(&above, &last, permille), table_bytes }
}

/// Entries of all last-level cells by estimate.
struct Family {
    /// Garbage within the cells: tombstones, and versions that newer ones of their cell hide.
    in_last: u64,
    /// Entries that are no garbage within their cells.
    live: u64,
    /// How many of the `live` entries cells above hide.
    by_above: u64,
}

impl Family {
    fn of<'a>(above: impl Iterator<Item = &'a Sum>, last: &[Sum], permille: u64) -> Family {
        let newer = |(entries, tombstones): (u64, u64), sum: &Sum| {
            (entries.saturating_add(sum.entries), tombstones.saturating_add(sum.tombstones))
        };
        let (newer, tombstones) = above.fold((0, 0), newer);
        let (in_last, live) = last.iter().fold((0u64, 0u64), |(in_last, live), sum| {
            let garbage = sum.garbage(permille);
            (in_last.saturating_add(garbage), live.saturating_add(sum.entries.saturating_sub(garbage)))
        });
        Family { in_last, live, by_above: hidden_by_share(newer, tombstones, live, permille) }
    }
}

/// The bytes of values that are hidden in cells of the last level, also by cells above.
fn hidden_of(above: &[Sum], last: &[Sum], permille: u64) -> u64 {
    let (mut hidden_bytes, mut live_bytes) = (0u64, 0u64);
    for sum in last {
        // Tombstones are garbage without a value.
        let puts = sum.entries.saturating_sub(sum.tombstones);
        let live = share_of(sum.value_bytes, sum.live(permille), puts);
        live_bytes = live_bytes.saturating_add(live);
        hidden_bytes = hidden_bytes.saturating_add(sum.value_bytes - live);
    }
    let Family { live, by_above, .. } = Family::of(above.iter(), last, permille);
    hidden_bytes.saturating_add(share_of(live_bytes, by_above, live))
}

/// `bytes` × `part` / `all`.
fn share_of(bytes: u64, part: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(part.min(all)) / u128::from(all.max(1))) as u64
}

/// The methods here are for the sum of a last-level cell.
impl Sum {
    pub(super) fn newer(&self) -> u64 {
        self.entries - self.oldest_entries
    }

    pub(super) fn newer_tombstones(&self) -> u64 {
        self.tombstones - self.oldest_tombstones
    }

    /// The estimated garbage in entries, if `permille` of a thousand newer puts hid an older entry lately.
    fn garbage(&self, permille: u64) -> u64 {
        self.garbage + self.known().unwrap_or_else(|| self.guessed(permille))
    }

    /// Entries that are no garbage by estimate.
    fn live(&self, permille: u64) -> u64 {
        self.entries.saturating_sub(self.garbage(permille))
    }

    /// Live bytes in the tables of the cell. 0 if they are handles for the most part.
    fn table_bytes(&self, permille: u64) -> u64 {
        let bytes = if self.is_separated() { 0 } else { self.bytes.saturating_sub(self.value_bytes) };
        share_of(bytes, self.live(permille), self.entries)
    }

    /// The garbage that decides whether the cell is rewritten by itself: the feared garbage, but no more than samples know of. If samples
    /// know of more, the rest counts for the family alone. When each such cell was rewritten at once, a quarter more bytes were written.
    fn feared_garbage(&self, permille: u64) -> u64 {
        let newer = u128::from(self.newer());
        let by_chance = (newer * newer / u128::from(self.oldest_entries.max(1))) as u64;
        let feared = by_chance.min(self.oldest_entries).max(self.guessed(permille));
        self.garbage + self.known().map_or(feared, |known| known.min(feared))
    }

    /// The entries that newer ones hide, if the share that the latest merges found holds here.
    fn guessed(&self, permille: u64) -> u64 {
        hidden_by_share(self.newer(), self.newer_tombstones(), self.oldest_entries, permille)
    }

    /// The entries that newer ones hide according to samples, at least one for each newer tombstone.
    fn known(&self) -> Option<u64> {
        Some(self.hidden?.max(self.newer_tombstones().min(self.oldest_entries)))
    }

    /// Whether one in [`Self::garbage_share`] entries is garbage, or may be, so that the cell should become one run. `slack` thousandths of
    /// its entries are allowed beyond the share. Tombstones alone must stay within the share.
    pub(super) fn is_garbage_heavy(&self, permille: u64, slack: u64) -> bool {
        let share = self.garbage_share();
        let has_share = |garbage: u64, permille: u64| {
            garbage.saturating_mul(1000) >= self.entries.max(1).saturating_mul(permille)
        };
        has_share(self.feared_garbage(permille), 1000 / share + if self.is_separated() { 0 } else { slack })
            || has_share(self.tombstones, 1000 / share)
    }

    /// A rewrite is wanted when one entry in this many is garbage, and the slack beyond that.
    fn garbage_share(&self) -> u64 {
        garbage_share(self.bytes, self.value_bytes)
    }

    fn is_separated(&self) -> bool {
        values::is_separated(self.bytes, self.value_bytes)
    }

    /// Whether a rewrite could be wanted if each newer entry hid an older one.
    pub(super) fn may_be_worth(&self) -> bool {
        let share = WORST_FACTOR * self.garbage_share();
        self.runs > 1 && (self.garbage + self.newer()).saturating_mul(share) >= self.entries
    }
}

impl Planner<'_> {
    fn is_below_watermark(&self, sum: &Sum) -> bool {
        sum.seqs.1 <= self.now.watermark
    }

    /// The estimated garbage of a last-level cell, in entries.
    fn cell_garbage(&self, sum: &Sum) -> u64 {
        sum.garbage(self.now.shadowed_permille)
    }

    /// Whether a last-level cell has the share of garbage ([`Sum::is_garbage_heavy`]) at which all of it is to become one run.
    pub(super) fn wants_rewrite(&self, level: usize, index: usize) -> bool {
        let sum = self.sum(level, index);
        self.is_below_watermark(sum) && sum.is_garbage_heavy(self.now.shadowed_permille, self.slack_permille)
    }

    /// A plan that removes garbage from a cell or a family that has too much.
    pub(super) fn garbage(&self) -> Option<Plan> {
        if mutant!("garbage_not_bought_back") {
            return None;
        }
        self.garbage_of_last().or_else(|| self.tombstones_above()).or_else(|| self.garbage_of_family())
    }

    fn garbage_of_last(&self) -> Option<Plan> {
        (0..self.sums[self.last].len()).find_map(|index| {
            let sum = self.sum(self.last, index);
            if sum.is_taken || sum.runs == 0 || !self.is_below_watermark(sum) {
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
            let heavy = slices.position(|s| {
                s.garbage().saturating_mul(garbage_share(s.bytes, s.value_bytes())) >= s.entries
            })?;
            self.rewrite_slice(self.last, index, 0, heavy)
        })
    }

    /// Brings down a cell with many tombstones, nearer to the entries that they hide.
    fn tombstones_above(&self) -> Option<Plan> {
        self.every_cell(1..self.last).find_map(|(level, index)| {
            let sum = self.sum(level, index);
            let is_heavy = sum.tombstones.saturating_mul(TOMBSTONE_SHARE) > sum.entries;
            if is_heavy && !sum.is_taken && self.is_below_watermark(sum) {
                self.bring_down(level, index)
            } else {
                None
            }
        })
    }

    /// If the garbage of all cells together is too much: rewrites the worst cell of the last level. If no cell there has enough garbage,
    /// brings down tables of L0 or the largest cell above the last level.
    fn garbage_of_family(&self) -> Option<Plan> {
        let last = &self.sums[self.last];
        let above = self.sums[..self.last].iter().flatten();
        let Family { in_last, live, by_above } = Family::of(above, last, self.now.shadowed_permille);
        let garbage = in_last + by_above;
        let all = |measure: fn(&Sum) -> u64| last.iter().map(measure).sum();
        let is_separated = values::is_separated(all(|sum| sum.bytes), all(|sum| sum.value_bytes));
        let is_known = last.iter().all(|sum| sum.runs < 2 || sum.hidden.is_some());
        let permille = match (is_separated, is_known) {
            (true, _) => SEPARATED_FAMILY_PERMILLE,
            (false, true) => KNOWN_FAMILY_PERMILLE + self.slack_permille,
            (false, false) => FAMILY_PERMILLE + self.slack_permille,
        };
        if garbage == 0 || garbage.saturating_mul(1000) < live.saturating_mul(permille) {
            return None;
        }
        let is_worth = |sum: &Sum| {
            let is_free = sum.runs > 0 && !sum.is_taken && self.is_below_watermark(sum);
            is_free
                && self.cell_garbage(sum).saturating_mul(WORST_FACTOR * sum.garbage_share()) >= sum.entries
        };
        let permille = |index: usize| {
            let sum = &last[index];
            u128::from(self.cell_garbage(sum)) * 1000 / u128::from(sum.entries)
        };
        let worth = (0..last.len()).filter(|&index| is_worth(&last[index]));
        if let Some(index) = worth.max_by_key(|&index| permille(index)) {
            return self.rewrite(self.last, index);
        }
        // For each byte that a merge writes, tables of L0 hide the most entries. Space does not wait for overlap: a skewed load wrote 1.35
        // times as much when it did, because deeper levels gave the space back.
        if self.sum(0, 0).runs >= self.options.l0_due_tables()
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

    /// Removes old tombstones, and rewrites what is left of nearly dead tables.
    pub(super) fn cold(&self) -> Option<Plan> {
        let cold: SeqNo = self.now.watermark.min(self.now.visible.checked_sub(self.options.cold_ops)?);
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
            // Nothing lies under the oldest run, so the slice alone loses its tombstones.
            let is_old = |slice: &Arc<Slice>| slice.tombstones > 0 && slice.seqs.1 <= cold;
            let oldest = self.cell(level, index).runs.len() - 1;
            if let Some(slice) = self.cell(level, index).runs[oldest].slices.iter().position(is_old) {
                return self.rewrite_slice(level, index, oldest, slice);
            }
            if self.is_below_watermark(sum) { self.rewrite(level, index) } else { None }
        })
    }

    /// Removes the handles that keep a log or a value file which is to be deleted. The planner rewrites one slice of a table that has such
    /// handles. If most values of the slice's cell lie in value files, it rewrites the cell, which drops values that a newer run hides.
    /// Tables in L0 go down.
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
            let sum = self.sum(level, index);
            match sum.is_taken {
                true => None,
                false if sum.is_separated() => self.rewrite(level, index),
                false => self.rewrite_slice(level, index, run, slice),
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell with an oldest run and newer entries. Its values have 10 bytes each. Samples say that newer entries hide `hidden`.
    fn sum(oldest_entries: u64, newer: u64, hidden: Option<u64>) -> Sum {
        Sum {
            runs: 2,
            bytes: 0,
            value_bytes: 10 * (oldest_entries + newer),
            entries: oldest_entries + newer,
            tombstones: 0,
            garbage: 0,
            oldest_bytes: 0,
            oldest_entries,
            oldest_tombstones: 0,
            hidden,
            seqs: (0, 1),
            slow_tier: None,
            is_taken: false,
            is_appended: false,
        }
    }

    #[test]
    fn hidden_values_are_estimated_by_samples_and_else_by_what_was_met() {
        assert_eq!(hidden_of(&[], &[sum(100, 20, Some(7))], 500), 70, "samples know");
        assert_eq!(hidden_of(&[], &[sum(100, 20, None)], 500), 100, "half of the newer entries");
        assert_eq!(
            hidden_of(&[sum(30, 10, None)], &[sum(100, 20, Some(7))], 500),
            270,
            "20 by the level above"
        );
        assert_eq!(hidden_of(&[sum(900, 0, None)], &[sum(100, 20, Some(7))], 1000), 1200, "no more than all");
        assert_eq!(hidden_of(&[sum(900, 0, None)], &[sum(100, 20, Some(7))], 0), 70);
        assert_eq!(hidden_of(&[sum(900, 0, None)], &[], 1000), 0);
        assert_eq!(hidden_of(&[], &[sum(0, 0, None)], 1000), 0);
    }

    #[test]
    fn live_bytes_of_tables_leave_garbage_and_handles_out() {
        let inline = |hidden| Sum { bytes: 4_000, value_bytes: 1_000, ..sum(600, 400, hidden) };
        assert_eq!(inline(Some(0)).table_bytes(1000), 3_000);
        assert_eq!(inline(Some(200)).table_bytes(1000), 2_400, "200 of 1,000 entries are hidden");
        assert_eq!(inline(None).table_bytes(500), 2_400, "half of the newer entries hide one");
        assert_eq!(
            Sum { bytes: 1_999, ..inline(Some(0)) }.table_bytes(0),
            0,
            "most bytes are values in value files"
        );
    }

    #[test]
    fn a_memtable_of_garbage_is_allowed_but_an_eighth_of_the_last_level_at_most() {
        let slack = |last_bytes| slack_permille(4_000, last_bytes);
        assert_eq!(
            [0, 1, 7_999, 8_000, 10_000, 1_000_000, u64::MAX].map(slack),
            [125, 125, 125, 125, 100, 1, 0]
        );
    }

    #[test]
    fn a_cell_may_have_its_share_and_the_slack_but_no_more_tombstones() {
        let inline = |hidden| Sum { bytes: 100_000, value_bytes: 0, ..sum(600, 400, Some(hidden)) };
        assert!(!inline(299).is_garbage_heavy(1000, 50) && inline(300).is_garbage_heavy(1000, 50));
        assert!(!inline(249).is_garbage_heavy(1000, 0) && inline(250).is_garbage_heavy(1000, 0));
        // Tombstones of the oldest run hide nothing in it.
        let with_tombstones =
            |tombstones| Sum { tombstones, oldest_tombstones: tombstones, garbage: tombstones, ..inline(0) };
        assert!(
            !with_tombstones(249).is_garbage_heavy(0, 125) && with_tombstones(250).is_garbage_heavy(0, 125)
        );
        let separated = sum(600, 400, Some(100));
        assert!(separated.is_garbage_heavy(1000, 125), "a cell of handles has no slack");
    }

    #[test]
    fn the_share_of_puts_that_hide_one_leaves_tombstones_out() {
        let met = Met { puts: 400, tombstones: 100, hidden: 0 };
        let permille = |hidden| met.hiding(hidden).permille();
        assert_eq!([0, 100, 200, 500, 900].map(permille), [0, 0, 250, 1000, 1000].map(Some));
        assert_eq!(Met::default().hiding(9).permille(), None);
        assert_eq!(met.hiding(100).and(Met { puts: 100, ..met.hiding(300) }).permille(), Some(400));
        assert_eq!((met.hiding(200).learn(850), Met::default().learn(850)), (Some(400), None));
    }

    #[test]
    fn a_tombstone_hides_one_value_and_has_none() {
        let with_tombstones =
            Sum { tombstones: 10, garbage: 10, value_bytes: 1_000, ..sum(100, 10, Some(0)) };
        assert_eq!(hidden_of(&[], &[with_tombstones], 0), 100);
        let above = Sum { tombstones: 10, garbage: 10, value_bytes: 0, ..sum(0, 10, None) };
        assert_eq!(hidden_of(&[above], &[sum(100, 0, None)], 0), 100);
    }

    #[test]
    fn cells_count_by_the_values_that_they_hold() {
        let counters = Sum { value_bytes: 0, ..sum(100, 100, Some(100)) };
        assert_eq!(
            hidden_of(&[], &[counters, sum(100, 0, None)], 1000),
            0,
            "hidden counters have no large values"
        );
    }
}
