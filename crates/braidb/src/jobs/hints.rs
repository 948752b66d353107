//! Compaction hints: what reads, merges and flushes showed about a column family since the open. Hints make plans better and decide
//! nothing else, so no file keeps them over a restart.

use super::Jobs;
use crate::base::counters::LEVELS;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::key::KeyRange;
use crate::plan::memory::tuner::{HotKeyTuner, Period};
use crate::plan::tree::Tiers;
use crate::plan::tree::samples::{self, Answers};
use crate::plan::values::ValueOptions;
use crate::plan::values::gathering::{self, Vain};
use crate::plan::{Garbage, Met, Now};
use crate::version::{Cell, Level, Version};
use crate::visible::snapshots::Snapshots;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A scan reports garbage to the jobs if it read at least this many more hidden entries than it returned.
const WASTED_ENTRIES: u64 = 1_000;
/// Ranges with garbage that are remembered for a family.
const WASTES: usize = 16;
/// Keys waiting to become guards that are remembered for a family.
const SAMPLED: usize = 1 << 16;

/// What scans have spent on the values of a last-level cell, because these lie in many places.
#[derive(Clone, Debug, Default)]
struct Paid {
    us: u64,
    /// Bytes that a merge of the cell would gather, and the level for which they were counted. Counting walks all slices of the cell.
    gathered_bytes: u64,
    level: Weak<Level>,
}

/// Counts of [`EntriesReturned`]: 16. Column families whose numbers are equal modulo 16 share one.
const COUNTS: usize = 16;

/// Entries that scans of each column family returned since its last flush. Each scan adds to a count without a lock. A flush forgets the
/// count of all families that share it.
#[derive(Debug, Default)]
pub(super) struct EntriesReturned([AtomicU64; COUNTS]);

impl EntriesReturned {
    fn count(&self, family: FamilyId) -> &AtomicU64 {
        &self.0[family.0 as usize % COUNTS]
    }

    fn add(&self, family: FamilyId, entries: u64) {
        self.count(family).fetch_add(entries, Ordering::Relaxed);
    }

    pub(super) fn of(&self, family: FamilyId) -> u64 {
        self.count(family).load(Ordering::Relaxed)
    }

    /// A flush of the family ended.
    pub(super) fn forget(&self, family: FamilyId) {
        self.count(family).store(0, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// Of a thousand puts that merges brought to oldest runs of last-level cells lately, how many hid an older entry. `None` before the
    /// first measurement.
    shadowed_permille: Option<u64>,
    /// Ranges in which scans read garbage, and how many garbage entries they read in all.
    wasted: Vec<(KeyRange, u64)>,
    /// Ranges in which scans read more garbage than cleaning costs.
    garbage_hints: Vec<Garbage>,
    /// What scans have spent on values in many places, by the low key of their last-level cell.
    paid: BTreeMap<Vec<u8>, Paid>,
    /// The low keys of last-level cells for which scans have lost more time than gathering the values costs.
    to_gather: BTreeSet<Vec<u8>>,
    /// Keys that sampling chose as guards, with the top level of each.
    sampled: BTreeMap<Vec<u8>, usize>,
    /// Decides how many hot keys stay at a flush.
    pub tuner: HotKeyTuner,
}

impl Hints {
    /// The inputs of the policy.
    pub fn now<'a>(
        &'a self,
        snapshots: &Snapshots,
        to_rewrite: &'a BTreeSet<FileId>,
        may_buy: bool,
        tiers: Option<&'a Tiers>,
    ) -> Now<'a> {
        Now {
            watermark: snapshots.drop_proof().watermark(),
            visible: snapshots.visible(),
            shadowed_permille: self.planned_permille(),
            may_buy,
            tiers,
            garbage_hints: &self.garbage_hints,
            to_gather: &self.to_gather,
            to_rewrite,
            sampled: &self.sampled,
        }
    }

    /// Of a thousand entries in the newer runs of a cell, how many hid an older one when merges last measured it. It is 0 before the first
    /// measurement: a guess would slow writers down after each open.
    pub fn measured_permille(&self) -> u64 {
        self.shadowed_permille.unwrap_or(0)
    }

    /// The share that merges are planned with. Before the first measurement all newer entries count as hiding an older one: writing too
    /// much is better than unbounded space.
    fn planned_permille(&self) -> u64 {
        self.shadowed_permille.unwrap_or(1000)
    }

    /// Learns from a merge.
    pub fn learn(&mut self, met: Met) {
        self.shadowed_permille = met.learn(self.planned_permille()).or(self.shadowed_permille);
    }

    /// A scan read garbage. Returns whether scans have read more garbage there by now than rewriting the range costs. So the cost of
    /// cleaning stays in proportion to what scans lose, however often they come.
    fn wasted(&mut self, mut range: KeyRange, mut entries: u64, version: &Version, upto: SeqNo) -> bool {
        self.wasted.retain(|(other, wasted)| {
            let is_apart = !range.overlaps(other);
            if !is_apart {
                range.extend(other);
                entries += wasted;
            }
            is_apart
        });
        if entries >= cleaned_entries(version, &range) {
            self.garbage_hints.retain(|other| !other.range.overlaps(&range));
            self.garbage_hints.push(Garbage { range, upto });
            return true;
        }
        if self.wasted.len() == WASTES {
            let least = (0..WASTES).min_by_key(|&at| self.wasted[at].1).expect("there are some");
            self.wasted.swap_remove(least);
        }
        self.wasted.push((range, entries));
        false
    }

    /// A scan of `range` spent `vain` on values because they lie in many places. Returns whether scans have spent the price of a merge that
    /// gathers the values of one of the last-level cells of the range.
    fn paid(&mut self, version: &Version, range: &KeyRange, vain: Vain, options: &ValueOptions) -> bool {
        let level = version.shared_level(version.last_level());
        let cells = level.cell_index(&range.low)..level.cell_index(&range.high) + 1;
        let share_us = vain.us / cells.len() as u64;
        if self.paid.len() > 2 * level.cells.len() {
            let is_there = |low: &[u8]| level.cell(low).low == low;
            self.paid.retain(|low, _| is_there(low));
            self.to_gather.retain(|low| is_there(low));
        }
        let mut is_due = false;
        for cell in &level.cells[cells] {
            let paid = self.paid.entry(cell.low.clone()).or_default();
            paid.us += share_us;
            if !std::ptr::eq(paid.level.as_ptr(), Arc::as_ptr(level)) {
                let places = cell.slices().flat_map(|(_, slice)| slice.values.iter().copied());
                paid.gathered_bytes = gathering::gathered(places, options).values().sum();
                paid.level = Arc::downgrade(level);
            }
            let price_us = gathering::gathering_us(paid.gathered_bytes, vain.place_us);
            if paid.gathered_bytes > 0 && paid.us > price_us {
                is_due |= self.to_gather.insert(cell.low.clone());
            }
        }
        is_due
    }

    /// A merge gathers the values of the last-level cell that begins at `low`.
    pub fn gathered(&mut self, low: &[u8]) {
        self.paid.remove(low);
        self.to_gather.remove(low);
    }

    /// Adds keys of a flush that sampling chose.
    pub fn chosen(&mut self, keys: Vec<(Vec<u8>, usize)>) {
        let room = SAMPLED - self.sampled.len().min(SAMPLED);
        self.sampled.extend(keys.into_iter().take(room));
    }

    /// Drops hints: the policy saw all of them and wants nothing more. Garbage hints go only if no job runs.
    pub fn answered(&mut self, version: &Version, is_idle: bool) {
        if is_idle {
            self.garbage_hints.clear();
        }
        let guards = version.guards();
        self.sampled.retain(|key, top| guards.get(key).is_none_or(|stands| stands > top));
    }
}

/// Entries that cleaning `range` reads at most: all of each cell that the range meets, and all of L0 if one of its tables overlaps it.
fn cleaned_entries(version: &Version, range: &KeyRange) -> u64 {
    let entries = |cell: &Cell| cell.slices().map(|(_, slice)| slice.entries).sum::<u64>();
    let is_met = |cell: &Cell| cell.slices().any(|(_, slice)| slice.range.overlaps(range));
    let l0 = version.level(0).cells.iter().filter(|cell| is_met(cell)).map(|cell| entries(cell));
    let below = (1..LEVELS).map(|level| version.level(level)).flat_map(|level| {
        let cells = level.cell_index(&range.low)..level.cell_index(&range.high) + 1;
        level.cells[cells].iter().map(|cell| entries(cell))
    });
    l0.chain(below).sum()
}

/// A thread that reads samples, counted in the catalog until it has let go of all versions, also after a panic.
struct Asking<'a> {
    jobs: &'a Jobs,
    /// The families' trees, each with how many of 1,000 newer entries hide an older one.
    versions: Vec<(Arc<Version>, u64)>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.versions.clear();
        self.jobs.catalog.lock().sampling_ended();
        self.jobs.ended.notify_all();
    }
}

impl Jobs {
    /// A scan of `range` returned `entries_returned` entries. It read `garbage`, a range and the hidden entries in it that a merge would
    /// remove, and spent `vain` on values in many places. `range` is `None` if it read no value in vain. If a job holds the catalog, the scan
    /// does not wait, and a later scan reports again.
    pub fn scanned(
        self: &Arc<Self>,
        family: FamilyId,
        range: Option<KeyRange>,
        garbage: Option<(KeyRange, u64)>,
        entries_returned: u64,
        vain: Vain,
    ) {
        if let Some(range) = range {
            self.paid(family, &range, vain);
        }
        if self.parts.options.form.live_percent > 0 {
            self.entries_returned.add(family, entries_returned);
        }
        let Some((range, entries)) = garbage.filter(|(_, entries)| *entries >= WASTED_ENTRIES) else {
            return;
        };
        let Some(mut catalog) = self.catalog.try_lock() else { return };
        let version = catalog.version(family).clone();
        let is_due =
            catalog.hints_mut(family).wasted(range, entries, &version, self.parts.shared.snapshots.visible());
        drop(catalog);
        if is_due {
            self.schedule_soon();
        }
    }

    /// A scan of `range` spent `vain` on values because they lie in many places.
    fn paid(self: &Arc<Self>, family: FamilyId, range: &KeyRange, vain: Vain) {
        let Some(mut catalog) = self.catalog.try_lock() else { return };
        let version = catalog.version(family).clone();
        let is_due = catalog.hints_mut(family).paid(&version, range, vain, &self.parts.options.values);
        drop(catalog);
        if is_due {
            self.schedule_soon();
        }
    }
}

impl Jobs {
    /// Estimates from samples how much the runs of cells overlap, where the answer may change the next plan. Called without a lock, because
    /// it may read files. For cells that change meanwhile the policies guess; the next call estimates them.
    pub(super) fn ask_samples(&self) {
        let Some(mut sampling) = self.versions_in_question() else { return };
        while let Some((version, permille)) = sampling.versions.pop() {
            let answer = |cell: &Cell| {
                let are_loaded = cell.slices().all(|(_, slice)| slice.table.load_sample());
                are_loaded.then(|| samples::estimate(cell))
            };
            let Answers { cells, spared } =
                samples::ask(&version, &self.parts.options.tree, permille, answer);
            self.parts.shared.counters.cells_sampled.add(cells);
            self.parts.shared.counters.rewrites_spared.add(spared);
        }
    }

    /// The families with a cell to be sampled, each with how many of 1,000 newer entries hide an older one.
    fn versions_in_question(&self) -> Option<Asking<'_>> {
        let mut catalog = self.catalog.lock();
        if catalog.is_manual() || catalog.is_stopped() || !self.plans_unasked(&catalog) {
            return None;
        }
        let families = catalog.state().families().iter().map(|(&id, family)| (id, family.version.clone()));
        let is_asked =
            |(_, version): &(_, Arc<Version>)| samples::is_asked(version, &self.parts.options.tree);
        let asked: Vec<(FamilyId, Arc<Version>)> = families.filter(is_asked).collect();
        if asked.is_empty() {
            return None;
        }
        let with_share = |(id, version)| (version, catalog.hints_mut(id).planned_permille());
        let versions = asked.into_iter().map(with_share).collect();
        // Counted last: dropping `Asking` locks the catalog.
        catalog.sampling_began();
        drop(catalog);
        Some(Asking { jobs: self, versions })
    }

    /// Threads that read samples; `None` while the catalog is locked.
    #[cfg(test)]
    pub fn sampling_threads(&self) -> Option<usize> {
        Some(self.catalog.try_lock()?.sampling_threads())
    }

    /// For each family, the keys of a million that may stay at the next flush, and the latest periods of the hot-key tuner.
    /// `None` where no key ever stays.
    pub fn tuners(&self) -> Vec<Option<(u32, Vec<Period>)>> {
        let limits = &self.parts.options.memory;
        let mut catalog = self.catalog.lock();
        let families: Vec<FamilyId> = catalog.state().families().keys().copied().collect();
        let mut of = |id| {
            let tuner = &catalog.hints_mut(id).tuner;
            limits.keeps_hot().then(|| (tuner.hot_ppm(limits.start_ppm()), tuner.trace().copied().collect()))
        };
        families.into_iter().map(&mut of).collect()
    }
}
