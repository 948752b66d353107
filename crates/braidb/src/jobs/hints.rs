//! What was noticed about a column family since the open, for its policy to go by. It makes plans better and decides nothing
//! else, so nobody keeps it over a restart.

use super::{Catalog, Jobs};
use crate::base::ids::{Epoch, FamilyId, FileId, SeqNo};
use crate::base::key::KeyRange;
use crate::plan::memory::tuner::{HotKeyTuner, Period};
use crate::plan::tree::overlap::{self, Verdict};
use crate::plan::tree::samples::{self, Answers};
use crate::plan::{Garbage, Merge, Now, Plan, TreeOptions};
use crate::version::{Cell, Version};
use crate::visible::snapshots::Snapshots;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many seeks in a row ask for a merge where the last one went (PebblesDB, section 4.2).
const SEEKS: u64 = 10;
/// A scan that read so many entries more than it showed is noticed; and so many tombstones in memory are worth a flush.
const WASTED_ENTRIES: u64 = 1_000;
/// Ranges with garbage that are remembered for a family.
const WASTES: usize = 16;
/// Places sought that are remembered for a family.
const MAX_SEEK_HINTS: usize = 64;
/// Keys waiting to become guards that are remembered for a family.
const SAMPLED: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Hints {
    /// Of a thousand entries in the newer runs of a cell, how many hid an older one, when cells were last rewritten.
    shadowed_permille: u64,
    /// Where readers would be served by a merge.
    seek_hints: Vec<Vec<u8>>,
    /// Where scans read garbage, and how many entries of it in all.
    wasted: Vec<(KeyRange, u64)>,
    /// Where that was more than cleaning costs.
    garbage_hints: Vec<Garbage>,
    /// Keys that the sample chose for guards, with the top level of each.
    sampled: BTreeMap<Vec<u8>, usize>,
    /// The latest estimate of how much L0 overlaps, in thousandths, and what came of it.
    overlap: Option<(u64, Verdict)>,
    /// The newest run of L0 when a merge was deferred last.
    deferred_at: Epoch,
    /// How many hot keys stay.
    pub tuner: HotKeyTuner,
}

impl Default for Hints {
    fn default() -> Hints {
        // As long as nothing was measured, writing too much is better than space without bound.
        Hints {
            shadowed_permille: 1000,
            seek_hints: Vec::new(),
            wasted: Vec::new(),
            garbage_hints: Vec::new(),
            sampled: BTreeMap::new(),
            overlap: None,
            deferred_at: 0,
            tuner: HotKeyTuner::default(),
        }
    }
}

impl Hints {
    /// What the policy is told about a moment when the family's tree is `version`.
    pub fn now<'a>(
        &'a self,
        snapshots: &Snapshots,
        version: &Version,
        options: &TreeOptions,
        to_rewrite: &'a BTreeSet<FileId>,
    ) -> Now<'a> {
        Now {
            watermark: snapshots.drop_proof().watermark(),
            visible: snapshots.visible(),
            overlap_permille: overlap::estimate_permille(version, options),
            shadowed_permille: self.shadowed_permille,
            seek_hints: &self.seek_hints,
            garbage_hints: &self.garbage_hints,
            to_rewrite,
            sampled: &self.sampled,
        }
    }

    /// A merge was carried out that wrote so many bytes.
    pub fn merged(&mut self, written_bytes: u64) {
        self.tuner.merged(written_bytes);
    }

    /// A merge dropped so many hidden versions of those on top of `oldest`, the oldest run of a last-level cell.
    pub fn shadowed(&mut self, merge: &Merge, oldest: Epoch, shadowed: u64) {
        if let Some(permille) = merge.shadowed_permille(oldest, shadowed) {
            self.shadowed_permille = samples::learn(self.shadowed_permille, permille);
        }
    }

    /// A scan read garbage. Whether all that was read there by now is more than rewriting the range costs: so what scans lose is
    /// in proportion to what is spent on them, however often somebody scans.
    fn wasted(&mut self, mut range: KeyRange, mut entries: u64, version: &Version, upto: SeqNo) -> bool {
        self.wasted.retain(|(other, wasted)| {
            let is_apart = !range.overlaps(other);
            if !is_apart {
                range.extend(other);
                entries += wasted;
            }
            is_apart
        });
        let overlapping = version.slices().filter(|slice| slice.range.overlaps(&range));
        if entries >= overlapping.map(|slice| slice.entries).sum() {
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

    /// Asks what becomes of L0, and remembers the answer.
    fn weigh_l0(&mut self, version: &Version, options: &TreeOptions) -> Verdict {
        let (permille, verdict) = overlap::weigh(version, options);
        self.overlap = permille.map(|permille| (permille, verdict)).or(self.overlap);
        verdict
    }

    /// Keys that a flush saw and the sample chose.
    pub fn chosen(&mut self, keys: Vec<(Vec<u8>, usize)>) {
        let room = SAMPLED - self.sampled.len().min(SAMPLED);
        self.sampled.extend(keys.into_iter().take(room));
    }

    /// The policy has been told of everything and wants nothing more; if not even a job is under way, for good.
    pub fn answered(&mut self, version: &Version, is_idle: bool) {
        self.seek_hints.clear();
        if is_idle {
            self.garbage_hints.clear();
        }
        let guards = version.guards();
        self.sampled.retain(|key, top| guards.get(key).is_none_or(|stands| stands > top));
    }
}

/// A thread that asks samples, counted in the catalog until it has let go of all versions, by a panic too.
struct Asking<'a> {
    jobs: &'a Jobs,
    /// The families' trees, each with what is known of how much their newer entries hide, in thousandths.
    versions: Vec<(Arc<Version>, u64)>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.versions.clear();
        self.jobs.catalog.lock().sampling_threads -= 1;
        self.jobs.ended.notify_all();
    }
}

/// Counts the seeks of one column family that came without a write in between.
#[derive(Debug, Default)]
pub struct SeekWatch {
    at: AtomicU64,
    count: AtomicU64,
}

impl SeekWatch {
    /// A seek when the newest write was `visible`; whether it is one too many. Seeks at the same moment may be counted as one:
    /// nothing but the moment of a merge depends on it.
    pub fn seek(&self, visible: SeqNo) -> bool {
        if self.at.swap(visible, Ordering::Relaxed) != visible {
            self.count.store(1, Ordering::Relaxed);
            return false;
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count >= SEEKS {
            self.count.store(0, Ordering::Relaxed);
        }
        count >= SEEKS
    }
}

impl Jobs {
    /// Readers go to `key` again and again: fewer runs there would serve them.
    pub fn hint_seek(self: &Arc<Self>, family: FamilyId, key: &[u8]) {
        if self.remember(family, key) {
            self.schedule();
        }
    }

    /// A scan of `range` showed so many entries, and read so many more than it showed. A reader does not wait for whoever commits an
    /// edit: it will come by again.
    pub fn scanned(self: &Arc<Self>, family: FamilyId, range: KeyRange, wasted: u64, entries_returned: u64) {
        if self.options.form.live_percent > 0 {
            *self.entries_returned.lock().entry(family).or_default() += entries_returned;
        }
        if wasted < WASTED_ENTRIES {
            return;
        }
        let Some(mut catalog) = self.catalog.try_lock() else { return };
        let version = catalog.state.families()[&family].version.clone();
        let is_due = catalog.hints(family).wasted(range, wasted, &version, self.snapshots.visible());
        drop(catalog);
        if is_due {
            // Tombstones in memory are only cleared away by way of a flush. If it cannot be switched now, there are other reasons
            // to worry, and later scans ask again.
            let _ = self.queue.switch_memtable_of_tombstones(family, WASTED_ENTRIES);
            self.schedule();
        }
    }

    /// Whether the place was noted: a reader does not wait for whoever commits an edit; it will come by again.
    fn remember(&self, family: FamilyId, key: &[u8]) -> bool {
        let Some(mut catalog) = self.catalog.try_lock() else { return false };
        let seek_hints = &mut catalog.hints(family).seek_hints;
        if seek_hints.len() < MAX_SEEK_HINTS && !seek_hints.iter().any(|known| known == key) {
            seek_hints.push(key.to_vec());
        }
        true
    }
}

impl Jobs {
    /// Counts what L0 waits for although it has tables enough for a merge: once for each table that joins it.
    pub(super) fn count_deferrals(&self, catalog: &mut Catalog) {
        if catalog.manual > 0 {
            return;
        }
        for (id, hints) in &mut catalog.hints {
            let Some(family) = catalog.state.families().get(id) else { continue };
            let Some((_, newest, _)) = family.version.level(0).slices().next() else { continue };
            if newest > hints.deferred_at
                && hints.weigh_l0(&family.version, &self.options.tree) == Verdict::Deferred
            {
                hints.deferred_at = newest;
                self.counters.l0_deferrals.add(1);
            }
        }
    }

    /// Asks samples how much the runs of cells overlap, where the answer may make a difference to the policies, which are
    /// asked next. Called without a lock: it may read files. Cells that change meanwhile are guessed about, and asked the
    /// next time.
    pub(super) fn ask_samples(&self) {
        let Some(mut sampling) = self.versions_in_question() else { return };
        while let Some((version, permille)) = sampling.versions.pop() {
            let answer = |cell: &Cell| {
                let are_loaded = cell.slices().all(|(_, slice)| slice.table.load_sample());
                are_loaded.then(|| samples::estimate(cell))
            };
            let Answers { cells, spared } = samples::ask(&version, &self.options.tree, permille, answer);
            self.counters.cells_sampled.add(cells);
            self.counters.rewrites_spared.add(spared);
        }
    }

    /// The families of which some cell is to be asked, and what is known of how much their newer entries hide.
    fn versions_in_question(&self) -> Option<Asking<'_>> {
        let mut catalog = self.catalog.lock();
        if catalog.manual > 0 {
            return None;
        }
        let families = catalog.state.families().iter().map(|(&id, family)| (id, family.version.clone()));
        let is_asked = |(_, version): &(_, Arc<Version>)| samples::is_asked(version, &self.options.tree);
        let asked: Vec<(FamilyId, Arc<Version>)> = families.filter(is_asked).collect();
        if asked.is_empty() {
            return None;
        }
        let with_share = |(id, version)| (version, catalog.hints(id).shadowed_permille);
        let versions = asked.into_iter().map(with_share).collect();
        // Last: what lowers it locks the catalog.
        catalog.sampling_threads += 1;
        drop(catalog);
        Some(Asking { jobs: self, versions })
    }

    /// How many threads ask samples; `None` while the catalog is locked.
    #[cfg(test)]
    pub fn sampling_threads(&self) -> Option<usize> {
        Some(self.catalog.try_lock()?.sampling_threads)
    }

    /// Counts why L0 is merged.
    pub(super) fn count_l0_merge(&self, catalog: &mut Catalog, plan: &Plan, version: &Version) {
        let &Plan::Merge(Merge { family, from: 0, to, .. }) = plan else { return };
        match catalog.hints(family).weigh_l0(version, &self.options.tree) {
            _ if to == 0 => self.counters.l0_gather_merges.add(1),
            Verdict::Overlap => self.counters.l0_overlap_merges.add(1),
            Verdict::Due => self.counters.l0_count_merges.add(1),
            // Asked for by hand, or for the space.
            Verdict::Few | Verdict::Deferred => {}
        }
    }

    /// The latest estimate of each family of how much L0 overlaps, in percent, and what came of it.
    pub fn overlaps(&self) -> Vec<Option<(u64, Verdict)>> {
        let catalog = self.catalog.lock();
        let of = |id| catalog.hints.get(id)?.overlap.map(|(permille, verdict)| (permille / 10, verdict));
        catalog.state.families().keys().map(of).collect()
    }

    /// How many keys of a million may stay at the next flush of each family, and what the latest periods wrote; `None` where none
    /// ever stays.
    pub fn tuners(&self) -> Vec<Option<(u32, Vec<Period>)>> {
        let limits = &self.options.memory;
        let mut catalog = self.catalog.lock();
        let families: Vec<FamilyId> = catalog.state.families().keys().copied().collect();
        let mut of = |id| {
            let tuner = &catalog.hints(id).tuner;
            limits.keeps_hot().then(|| (tuner.hot_ppm(limits.start_ppm()), tuner.trace().copied().collect()))
        };
        families.into_iter().map(&mut of).collect()
    }
}

impl Catalog {
    /// The policies were told everything, and want nothing more for now.
    pub(super) fn all_answered(&mut self, has_flushes: bool) {
        let is_idle = self.manual + self.merges_running + self.flushes_running == 0 && !has_flushes;
        for (id, hints) in &mut self.hints {
            if let Some(family) = self.state.families().get(id) {
                hints.answered(&family.version, is_idle);
            }
        }
    }

    pub(super) fn hints(&mut self, family: FamilyId) -> &mut Hints {
        self.hints.entry(family).or_insert_with(|| {
            // L0 waited with what is there already before anybody looked.
            let newest =
                self.state.families().get(&family).and_then(|family| family.version.level(0).slices().next());
            Hints { deferred_at: newest.map_or(0, |(_, epoch, _)| epoch), ..Hints::default() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seeks_without_a_write_are_one_too_many() {
        let watch = SeekWatch::default();
        let asked: Vec<bool> = (0..25).map(|_| watch.seek(7)).collect();
        let at: Vec<usize> = (0..25).filter(|&n| asked[n]).collect();
        assert_eq!(at, [9, 19]);
        assert!((0..100).all(|seq| !watch.seek(seq)), "a write comes before each");
    }
}
