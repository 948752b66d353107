//! Memory compaction: segments of a pipeline are replaced by one, while readers and writers go on.
//!
//! # Which file holds a record at each instant
//!
//! Memory compaction changes no file. A record in memory also stands in a log at or after its family's `replay_from`, before
//! and after its segment is flattened, merged or compacted. A crash forgets the new segment with the old ones, and recovery
//! replays the logs.
//!
//! Memory compaction drops versions that no present or future reader can see. Each is hidden by a newer version that stays, so
//! a power failure loses no more than without the compaction. The *newest* version of a key must stay, even a tombstone:
//! without it, older versions in tables and logs would be back.
//!
//! A step is two jobs. The first reads segments and makes the new one; the second puts the new one in their place, if they are
//! still there. A flush that began in between has taken the old segments, and the new segment is thrown away. Installed, it
//! would put old versions in front of the flushing set.

use super::Jobs;
use crate::base::ids::FamilyId;
use crate::memory::view::View;
use crate::memory::{Flat, Immutable, Merged, Records, merge};
use crate::plan::memory::segments::{MemoryStep, Redundancy, compact_memory};
use crate::visible::rule::RetentionFilter;
use braidb_storage::Lane;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Statistics of pipelines, and whether a step runs. Locked for moments, by puts too. A thread that takes this lock may hold the catalog,
/// and no other lock.
#[derive(Debug, Default)]
pub(super) struct MemoryCompactor {
    is_busy: bool,
    is_stopped: bool,
    redundancy: BTreeMap<FamilyId, Redundancy>,
    /// Segments that compactions replaced, with their bytes. Readers may still hold them.
    replaced: Vec<(Weak<Flat>, u64)>,
}

impl MemoryCompactor {
    /// Bytes of replaced segments that readers still hold.
    fn held_bytes(&self) -> u64 {
        let held = self.replaced.iter().filter(|(segment, _)| segment.strong_count() > 0);
        held.map(|(_, bytes)| bytes).sum()
    }
}

/// A running step. Its drop lets other steps begin, also after a panic.
struct MemoryCompaction {
    jobs: Arc<Jobs>,
    family: FamilyId,
    step: MemoryStep,
    /// Whether the step compacts full memory, and so reads all of the pipeline.
    compacts_full: bool,
    old: Vec<Immutable>,
}

impl Jobs {
    /// Starts the next step if one is wanted and none runs. Called after an active segment was rolled, and by all threads that
    /// wait.
    pub fn compact_memory(self: &Arc<Self>) {
        // Another compaction would copy all memory, and would not free the replaced segments that readers hold.
        if self.compacts_full() && !self.parts.shared.pressure.has_room_for(self.memory_held_bytes()) {
            self.parts.queue.room().give_up_full_compaction();
        }
        // This thread may be the last holder of the view, so the view is dropped after the lock.
        let view = self.parts.shared.view.load();
        let mut compactor = self.compactor.lock();
        if compactor.is_busy || compactor.is_stopped || self.parts.shared.health.check_unpoisoned().is_err() {
            return;
        }
        let Some((family, step, compacts_full, old)) = self.next_memory_step(&view, &compactor) else {
            return;
        };
        compactor.is_busy = true;
        drop(compactor);
        drop(view);
        let compaction = MemoryCompaction { jobs: self.clone(), family, step, compacts_full, old };
        self.parts.env.runtime.submit(Lane::Memory, Box::new(move || compaction.merge()));
    }

    /// Whether full memory of a family is to be compacted.
    fn compacts_full(&self) -> bool {
        self.parts.shared.view.load().families.iter().any(|family| family.memory.compacts_full())
    }

    /// The next step, for the family with the most segments first. So no family waits until its pipeline is full.
    fn next_memory_step(
        &self,
        view: &View,
        compactor: &MemoryCompactor,
    ) -> Option<(FamilyId, MemoryStep, bool, Vec<Immutable>)> {
        let held_bytes = compactor.held_bytes();
        let families = view.families.iter().enumerate().filter(|(_, f)| !f.memory.pipeline().is_empty());
        let wanted = families.filter_map(|(index, family)| {
            let (id, pipeline) = (FamilyId(index as u32), family.memory.pipeline());
            let redundancy = compactor.redundancy.get(&id).copied().unwrap_or_default();
            // A compaction holds its inputs and its output for a while, and readers may hold replaced segments. With both, memory stays
            // below the limit at which writes wait.
            let copied_bytes = held_bytes + pipeline.iter().map(Immutable::bytes).sum::<u64>();
            let may_copy = self.parts.shared.pressure.has_room_for(copied_bytes);
            let chance = self.parts.env.random.next_u64();
            let compacts_full = family.memory.compacts_full();
            let step = compact_memory(
                pipeline,
                &redundancy,
                chance,
                may_copy,
                compacts_full,
                &self.parts.options.segments,
            )?;
            Some((id, step, compacts_full, pipeline))
        });
        let (id, step, compacts_full, pipeline) = wanted.max_by_key(|(.., pipeline)| pipeline.len())?;
        let old = pipeline[step.parts()].to_vec();
        Some((id, step, compacts_full, old))
    }

    /// Whether the memory policy wants no further step, and none is under way.
    pub(super) fn is_memory_compacted(&self) -> bool {
        let view = self.parts.shared.view.load();
        let compactor = self.compactor.lock();
        !compactor.is_busy && self.next_memory_step(&view, &compactor).is_none()
    }

    /// Bytes of replaced segments that readers hold.
    pub fn memory_held_bytes(&self) -> u64 {
        self.compactor.lock().held_bytes()
    }

    /// Keeps new steps from starting. Returns whether none runs.
    pub(super) fn stop_memory_compaction(&self) -> bool {
        let mut compactor = self.compactor.lock();
        compactor.is_stopped = true;
        !compactor.is_busy
    }

    /// A flush took all memory of a family.
    pub(super) fn memory_flushed(&self, family: FamilyId) {
        self.compactor.lock().redundancy.entry(family).or_default().flushed();
    }
}

impl MemoryCompaction {
    /// Makes the new segment.
    fn merge(self) {
        let retention = || Some(RetentionFilter::new(self.jobs.parts.shared.snapshots.drop_proof()));
        let (retention, records) = match self.step {
            MemoryStep::Flatten(_) => (retention(), Records::CopiedIfSparse),
            MemoryStep::Merge(_) => (None, Records::Stay),
            MemoryStep::Compact(_) => (retention(), Records::Copied),
        };
        let Some(merged) = merge(&self.old, retention, records, || self.is_wanted()) else {
            let jobs = self.jobs.clone();
            drop(self);
            return jobs.compact_memory();
        };
        let runtime = self.jobs.parts.env.runtime.clone();
        runtime.submit(Lane::Memory, Box::new(move || self.install(&merged)));
    }

    /// Whether the segments are still there, and the database is open.
    fn is_wanted(&self) -> bool {
        let view = self.jobs.parts.shared.view.load();
        let pipeline = view.families[self.family.0 as usize].memory.pipeline();
        let is_there = pipeline.iter().any(|part| self.old.first().is_some_and(|old| old.is(part)));
        is_there && !self.jobs.compactor.lock().is_stopped
    }

    /// Puts the new segment in the place of the old ones.
    fn install(self, merged: &Merged) {
        let jobs = self.jobs.clone();
        let is_compaction = matches!(self.step, MemoryStep::Compact(_));
        let new = Immutable::Flat(merged.flat.clone());
        let is_done = jobs.parts.queue.room().replace(self.family, &self.old, new, self.compacts_full);
        if is_done {
            let counters = &jobs.parts.shared.counters;
            match self.step {
                MemoryStep::Flatten(_) => {}
                MemoryStep::Merge(_) => counters.memory_merges.add(1),
                MemoryStep::Compact(_) => counters.memory_compactions.add(1),
            }
            counters.memory_dropped.add(merged.dropped);
            let mut compactor = jobs.compactor.lock();
            compactor.redundancy.entry(self.family).or_default().replaced(&self.step, merged);
            if is_compaction {
                compactor.replaced.retain(|(segment, _)| segment.strong_count() > 0);
                compactor.replaced.extend(self.old.iter().filter_map(|old| match old {
                    Immutable::Flat(flat) => Some((Arc::downgrade(flat), flat.bytes())),
                    Immutable::List(_) => None,
                }));
            }
            drop(compactor);
            jobs.parts.shared.pressure.relieved();
        }
        drop(self);
        jobs.compact_memory();
    }
}

impl Drop for MemoryCompaction {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.jobs
                .parts
                .shared
                .pressure
                .failed(Lane::Flush, self.jobs.parts.shared.health.poison_after_panic());
        }
        self.jobs.compactor.lock().is_busy = false;
        // A waiting thread lets go of this lock when it begins to wait, so it does not miss the signal.
        let _catalog = self.jobs.catalog.lock();
        self.jobs.ended.notify_all();
    }
}
