//! Memory compaction: segments of a pipeline become one, beside everybody else.
//!
//! # Which file holds a record at each instant
//!
//! None of this concerns a file: whatever stands in memory also stands in a log at or after its family's `replay_from`, and goes
//! on standing there when its segment is flattened, merged or compacted. A crash at any moment forgets the new segment with
//! the old ones, and recovery replays the logs. What goes here are versions that no reader can see any more, now or later,
//! each hidden by a newer one that stays; so what is lost with the power is what would have been lost anyway. Dropping the
//! *newest* version of a key would be fatal even for a tombstone: older versions, in tables and in logs, would be back.
//!
//! A step is two jobs: one reads segments and makes the new one, the other puts it in their place, if they are still there. A
//! flush that began in between has taken them, and with them all that they hold; the new segment is then thrown away. Were
//! it installed, old versions would stand in front of the flushing set, and of newer ones.

use super::Jobs;
use crate::base::ids::FamilyId;
use crate::memory::{Flat, Immutable, Merged, Records, merge};
use crate::plan::memory::segments::{MemoryStep, Redundancy, compact_memory};
use crate::visible::rule::RetentionFilter;
use braidb_storage::Lane;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// What is known about pipelines, and whether a step is under way. Locked for moments, under no other lock but the catalog.
#[derive(Debug, Default)]
pub(super) struct MemoryCompactor {
    is_busy: bool,
    is_stopped: bool,
    redundancy: BTreeMap<FamilyId, Redundancy>,
    /// Segments that compactions replaced, with their bytes: readers may hold them on.
    replaced: Vec<(Weak<Flat>, u64)>,
}

impl MemoryCompactor {
    /// Bytes of replaced segments that somebody still holds.
    fn held_bytes(&self) -> u64 {
        let held = self.replaced.iter().filter(|(segment, _)| segment.strong_count() > 0);
        held.map(|(_, bytes)| bytes).sum()
    }
}

/// A step under way. However it ends, others may begin.
struct MemoryCompaction {
    jobs: Arc<Jobs>,
    family: FamilyId,
    step: MemoryStep,
    /// Memory is full, and this is all of it.
    compacts_full: bool,
    old: Vec<Immutable>,
}

impl Jobs {
    /// Starts the next step if one is wanted and none is under way. Called after an active segment was rolled, and by all who
    /// wait.
    pub fn compact_memory(self: &Arc<Self>) {
        // What readers hold of earlier segments is not given back by one more copy of all memory.
        if self.compacts_full() && !self.pressure.has_room_for(self.memory_held_bytes()) {
            self.queue.room().give_up_full_compaction();
        }
        let mut compactor = self.compactor.lock();
        if compactor.is_busy || compactor.is_stopped || self.health.check_unpoisoned().is_err() {
            return;
        }
        let Some((family, step, compacts_full, old)) = self.next_memory_step(&compactor) else { return };
        compactor.is_busy = true;
        drop(compactor);
        let tidying = MemoryCompaction { jobs: self.clone(), family, step, compacts_full, old };
        self.env.runtime.submit(Lane::Memory, Box::new(move || tidying.merge()));
    }

    /// Whether full memory of a family is to be compacted.
    fn compacts_full(&self) -> bool {
        self.view.load().families.iter().any(|family| family.memory.compacts_full())
    }

    /// Of the families that a step would serve, that with the most segments comes first: however busy another one is, none waits
    /// until its pipeline is full.
    fn next_memory_step(
        &self,
        compactor: &MemoryCompactor,
    ) -> Option<(FamilyId, MemoryStep, bool, Vec<Immutable>)> {
        let view = self.view.load();
        let held_bytes = compactor.held_bytes();
        let families = view.families.iter().enumerate().filter(|(_, f)| !f.memory.pipeline().is_empty());
        let wanted = families.filter_map(|(index, family)| {
            let (id, pipeline) = (FamilyId(index as u32), family.memory.pipeline());
            let redundancy = compactor.redundancy.get(&id).copied().unwrap_or_default();
            // A compaction holds what it reads and what it writes for a while; and what readers hold of earlier ones is not given
            // back by it. With all that, memory stays below the limit at which writes wait.
            let copied_bytes = held_bytes + pipeline.iter().map(Immutable::bytes).sum::<u64>();
            let may_copy = self.pressure.has_room_for(copied_bytes);
            let chance = self.env.random.next_u64();
            let compacts_full = family.memory.compacts_full();
            let step = compact_memory(
                pipeline,
                &redundancy,
                chance,
                may_copy,
                compacts_full,
                &self.options.segments,
            )?;
            Some((id, step, compacts_full, pipeline))
        });
        let (id, step, compacts_full, pipeline) = wanted.max_by_key(|(.., pipeline)| pipeline.len())?;
        let old = pipeline[step.parts()].to_vec();
        Some((id, step, compacts_full, old))
    }

    /// Whether memory is as tidy as the policy wants it.
    pub(super) fn is_memory_compacted(&self) -> bool {
        let compactor = self.compactor.lock();
        !compactor.is_busy && self.next_memory_step(&compactor).is_none()
    }

    /// Bytes that compactions replaced and readers hold.
    pub fn memory_held_bytes(&self) -> u64 {
        self.compactor.lock().held_bytes()
    }

    /// Lets no step begin any more; whether none is under way.
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
        let retention = || Some(RetentionFilter::new(self.jobs.snapshots.drop_proof()));
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
        let runtime = self.jobs.env.runtime.clone();
        runtime.submit(Lane::Memory, Box::new(move || self.install(&merged)));
    }

    /// Whether the segments are still there, and the database is open.
    fn is_wanted(&self) -> bool {
        let view = self.jobs.view.load();
        let pipeline = view.families[self.family.0 as usize].memory.pipeline();
        let is_there = pipeline.iter().any(|part| self.old.first().is_some_and(|old| old.is(part)));
        is_there && !self.jobs.compactor.lock().is_stopped
    }

    /// Puts it into the place of the old ones.
    fn install(self, merged: &Merged) {
        let jobs = self.jobs.clone();
        let is_compaction = matches!(self.step, MemoryStep::Compact(_));
        let new = Immutable::Flat(merged.flat.clone());
        let is_done = jobs.queue.room().replace(self.family, &self.old, new, self.compacts_full);
        if is_done {
            let counters = &jobs.counters;
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
            jobs.pressure.relieved();
        }
        drop(self);
        jobs.compact_memory();
    }
}

impl Drop for MemoryCompaction {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.jobs.pressure.failed(Lane::Flush, self.jobs.health.poison_after_panic());
        }
        self.jobs.compactor.lock().is_busy = false;
        // Under the lock that those who wait for this let go of when they begin to wait: so none of them misses it.
        let _catalog = self.jobs.catalog.lock();
        self.jobs.ended.notify_all();
    }
}
