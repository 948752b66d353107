//! Tidying memory: segments of a pipeline become one, beside everybody else.
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
use crate::memory::{Flat, Frozen, Merged, Records, merge};
use crate::plan::segments::{Redundancy, Tidy, tidy};
use crate::visible::rule::Sieve;
use braidb_storage::Lane;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// What is known about pipelines, and whether a step is under way. Locked for moments, under no other lock but the catalog.
#[derive(Debug, Default)]
pub(super) struct Tidier {
    is_busy: bool,
    is_stopped: bool,
    redundancy: BTreeMap<FamilyId, Redundancy>,
    /// Segments that compactions replaced, with their bytes: readers may hold them on.
    replaced: Vec<(Weak<Flat>, u64)>,
}

impl Tidier {
    /// Bytes of replaced segments that somebody still holds.
    fn held_bytes(&self) -> u64 {
        let held = self.replaced.iter().filter(|(segment, _)| segment.strong_count() > 0);
        held.map(|(_, bytes)| bytes).sum()
    }
}

/// A step under way. However it ends, others may begin.
struct Tidying {
    jobs: Arc<Jobs>,
    family: FamilyId,
    step: Tidy,
    /// Memory is full, and this is all of it.
    condenses: bool,
    old: Vec<Frozen>,
}

impl Jobs {
    /// Starts the next step if one is wanted and none is under way. Called after an active segment was rolled, and by all who
    /// wait.
    pub fn tidy(self: &Arc<Self>) {
        // What readers hold of earlier segments is not given back by one more copy of all memory.
        if self.queue.condenses() && !self.pressure.has_room_for(self.memory_held_bytes()) {
            self.queue.give_up_condensing();
        }
        let mut tidier = self.tidier.lock();
        if tidier.is_busy || tidier.is_stopped || self.health.check_unpoisoned().is_err() {
            return;
        }
        let Some((family, step, condenses, old)) = self.next_tidying(&tidier) else { return };
        tidier.is_busy = true;
        drop(tidier);
        let tidying = Tidying { jobs: self.clone(), family, step, condenses, old };
        self.env.runtime.submit(Lane::Memory, Box::new(move || tidying.merge()));
    }

    /// Of the families that a step would serve, that with the most segments comes first: however busy another one is, none waits
    /// until its pipeline is full.
    fn next_tidying(&self, tidier: &Tidier) -> Option<(FamilyId, Tidy, bool, Vec<Frozen>)> {
        let view = self.view.load();
        let held_bytes = tidier.held_bytes();
        let families = view.families.iter().enumerate().filter(|(_, f)| !f.memory.pipeline().is_empty());
        let wanted = families.filter_map(|(index, family)| {
            let (id, pipeline) = (FamilyId(index as u32), family.memory.pipeline());
            let redundancy = tidier.redundancy.get(&id).copied().unwrap_or_default();
            // A compaction holds what it reads and what it writes for a while; and what readers hold of earlier ones is not given
            // back by it. With all that, memory stays below the limit at which writes wait.
            let copied_bytes = held_bytes + pipeline.iter().map(Frozen::bytes).sum::<u64>();
            let may_copy = self.pressure.has_room_for(copied_bytes);
            let chance = self.env.random.next_u64();
            let condenses = family.memory.condenses();
            let step = tidy(pipeline, &redundancy, chance, may_copy, condenses, &self.options.segments)?;
            Some((id, step, condenses, pipeline))
        });
        let (id, step, condenses, pipeline) = wanted.max_by_key(|(.., pipeline)| pipeline.len())?;
        let old = pipeline[step.parts()].to_vec();
        Some((id, step, condenses, old))
    }

    /// Whether memory is as tidy as the policy wants it.
    pub(super) fn is_tidy(&self) -> bool {
        let tidier = self.tidier.lock();
        !tidier.is_busy && self.next_tidying(&tidier).is_none()
    }

    /// Bytes that compactions replaced and readers hold.
    pub fn memory_held_bytes(&self) -> u64 {
        self.tidier.lock().held_bytes()
    }

    /// Lets no step begin any more; whether none is under way.
    pub(super) fn stop_tidying(&self) -> bool {
        let mut tidier = self.tidier.lock();
        tidier.is_stopped = true;
        !tidier.is_busy
    }

    /// A flush took all memory of a family.
    pub(super) fn memory_flushed(&self, family: FamilyId) {
        self.tidier.lock().redundancy.entry(family).or_default().flushed();
    }
}

impl Tidying {
    /// Makes the new segment.
    fn merge(self) {
        let sieve = || Some(Sieve::new(self.jobs.snapshots.drop_proof()));
        let (sieve, records) = match self.step {
            Tidy::Flatten(_) => (sieve(), Records::CopiedIfSparse),
            Tidy::Merge(_) => (None, Records::Stay),
            Tidy::Compact(_) => (sieve(), Records::Copied),
        };
        let Some(merged) = merge(&self.old, sieve, records, || self.is_wanted()) else {
            let jobs = self.jobs.clone();
            drop(self);
            return jobs.tidy();
        };
        let runtime = self.jobs.env.runtime.clone();
        runtime.submit(Lane::Memory, Box::new(move || self.install(&merged)));
    }

    /// Whether the segments are still there, and the database is open.
    fn is_wanted(&self) -> bool {
        let view = self.jobs.view.load();
        let pipeline = view.families[self.family.0 as usize].memory.pipeline();
        let is_there = pipeline.iter().any(|part| self.old.first().is_some_and(|old| old.is(part)));
        is_there && !self.jobs.tidier.lock().is_stopped
    }

    /// Puts it into the place of the old ones.
    fn install(self, merged: &Merged) {
        let jobs = self.jobs.clone();
        let is_compaction = matches!(self.step, Tidy::Compact(_));
        let new = Frozen::Flat(merged.flat.clone());
        if jobs.queue.tidied(self.family, &self.old, new, self.condenses) {
            let counters = &jobs.counters;
            match self.step {
                Tidy::Flatten(_) => {}
                Tidy::Merge(_) => counters.memory_merges.add(1),
                Tidy::Compact(_) => counters.memory_compactions.add(1),
            }
            counters.memory_dropped.add(merged.dropped);
            let mut tidier = jobs.tidier.lock();
            tidier.redundancy.entry(self.family).or_default().tidied(&self.step, merged);
            if is_compaction {
                tidier.replaced.retain(|(segment, _)| segment.strong_count() > 0);
                tidier.replaced.extend(self.old.iter().filter_map(|old| match old {
                    Frozen::Flat(flat) => Some((Arc::downgrade(flat), flat.bytes())),
                    Frozen::List(_) => None,
                }));
            }
            drop(tidier);
            jobs.pressure.relieved();
        }
        drop(self);
        jobs.tidy();
    }
}

impl Drop for Tidying {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.jobs.pressure.failed(Lane::Flush, self.jobs.health.poison_after_panic());
        }
        self.jobs.tidier.lock().is_busy = false;
        // Under the lock that those who wait for this let go of when they begin to wait: so none of them misses it.
        let _catalog = self.jobs.catalog.lock();
        self.jobs.ended.notify_all();
    }
}
