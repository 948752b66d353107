//! Manual compaction. The caller's thread carries out the policy's steps until nothing is left to do, and lets idle merge threads carry out
//! other steps beside it. Meanwhile the scheduler plans only merges that keep writers from waiting.
//!
//! A panic of the caller's thread within a step poisons the database, as in any job: the step may be half done. Between two
//! steps nothing is half done, and the scheduler plans on.

use super::asked::Counted;
use super::hints::Hints;
use super::running::Running;
use super::{Catalog, Jobs};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, SeqNo};
use crate::plan::{Picker, Plan, Step};
use crate::version::Version;
use braidb_storage::Lane;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A step with the version that it was planned for, counted as a running job.
type ClaimedStep = (Plan, Arc<Version>, Running);

/// A manual compaction under way.
struct Compaction {
    /// The number of the last record that it brings down.
    upto: SeqNo,
    /// Families that are not done.
    families: Vec<FamilyId>,
    /// Held by each of its steps that merge threads carry out.
    others: Arc<()>,
}

impl Jobs {
    /// Brings all records that were written until now into the last level of their family.
    ///
    /// Before the first step, after each of the caller's, and at the end, `progress` gets the bytes above the last level, each counted once
    /// for each level that it has to move.
    pub fn compact(self: &Arc<Self>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.parts.shared.health.check_writable()?;
        // The drop of the last one gives planning back to the scheduler.
        let manual = Counted::new(self, Catalog::compacting);
        let outcome = self.compact_families(progress);
        drop(manual);
        self.schedule();
        outcome
    }

    fn compact_families(self: &Arc<Self>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut compaction = Compaction {
            upto: self.parts.shared.snapshots.visible(),
            families: self.catalog.lock().state().families().keys().copied().collect(),
            others: Arc::default(),
        };
        progress(self.bytes_above());
        loop {
            let closed = self.closed_tiers();
            let outcome = match self.next_step(&mut compaction) {
                Ok(Some((plan, version, running))) => running.merge(plan, version),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                // The failed merge closed a slow tier. The next step writes to another tier.
                let is_closed_now = self.unwritable(&error).is_some_and(|tier| !closed.contains(&tier));
                if !is_closed_now {
                    return Err(error);
                }
            }
            progress(self.bytes_above());
        }
        // Steps of merge threads may have been the last.
        progress(self.bytes_above());
        Ok(())
    }

    /// The bytes above the last level of their family, each counted once for each level that it has to move.
    fn bytes_above(&self) -> u64 {
        let catalog = self.catalog.lock();
        let of = |version: &Version| -> u64 {
            // If the family has only L0, its entries have to go to L1.
            let last = version.last_level().max(1) as u64;
            (0..).zip(version.levels()).take_while(|(level, _)| *level < last).fold(
                0,
                |sum: u64, (level, held)| {
                    sum.saturating_add(held.totals().bytes.saturating_mul(last - level))
                },
            )
        };
        catalog.state().families().values().map(|family| of(&family.version)).fold(0, u64::saturating_add)
    }

    /// Claims the next step for the caller, and starts further ones on idle merge threads. Waits while running jobs are in the way of all
    /// steps. Removes the families that are done, and returns `None` when none is left. A step counts as a running merge, so that closing
    /// waits for it.
    ///
    /// The inputs of a running step stay in the state until its edit, so a family is not done before its last step is. If a step of a merge
    /// thread fails, the caller meets it here again, or the failure ends the wait.
    fn next_step(self: &Arc<Self>, compaction: &mut Compaction) -> Result<Option<ClaimedStep>> {
        let mut next = None;
        let Compaction { upto, families, others } = compaction;
        self.wait_until(&[Lane::Merge], |catalog| {
            if catalog.is_stopped() {
                return false;
            }
            families.retain(|&family| {
                loop {
                    if next.is_some() && catalog.merges_running() >= self.parts.options.merges {
                        break true;
                    }
                    let is_beside = next.is_some() || Arc::strong_count(others) > 1;
                    match self.pick_step(catalog, family, *upto, is_beside) {
                        Step::Do(plan) => {
                            let version = catalog.version(family).clone();
                            let running = self.claim(catalog, &plan);
                            if next.is_none() {
                                next = Some((plan, version, running));
                            } else {
                                self.start_step(plan, version, running, others.clone());
                            }
                        }
                        Step::Blocked => break true,
                        Step::Done => break false,
                    }
                }
            });
            next.is_some() || families.is_empty()
        })?;
        Ok(next)
    }

    /// Starts a step on a merge thread. It holds `others` until it has ended.
    fn start_step(&self, plan: Plan, version: Arc<Version>, running: Running, others: Arc<()>) {
        let step = move || {
            let jobs = running.jobs.clone();
            // `end_job` reports the outcome to threads that wait for the merge.
            let _ = running.merge(plan, version);
            drop(others);
            // From here on the caller may pick cells that it left for later.
            jobs.ended.notify_all();
        };
        self.parts.env.runtime.submit(Lane::Merge, Box::new(step));
    }

    /// The merges that were claimed and have not ended.
    #[cfg(test)]
    pub fn merges_running(&self) -> usize {
        self.catalog.lock().merges_running()
    }

    fn pick_step(&self, catalog: &Catalog, family: FamilyId, upto: SeqNo, is_beside: bool) -> Step {
        let (nothing, to_rewrite) = (Hints::default(), BTreeSet::new());
        let options = &self.parts.options.tree;
        let hints = catalog.hints(family).unwrap_or(&nothing);
        let now = hints.now(&self.parts.shared.snapshots, &to_rewrite, false, None);
        let (version, claims) = (catalog.version(family), catalog.claims());
        let picker = Picker { family, version, claims, now: &now, options };
        if is_beside { picker.compact_beside(upto) } else { picker.compact(upto) }
    }
}
