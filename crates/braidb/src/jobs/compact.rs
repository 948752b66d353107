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
use std::sync::Arc;

/// A step with the version that it was planned for, counted as a running job.
type ClaimedStep = (Plan, Arc<Version>, Running);

impl Jobs {
    /// Brings all records that were written until now into the last level of their family.
    ///
    /// Before the first step and after each, `progress` gets the bytes above the last level, each counted once for each level that it has
    /// to move.
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
        let upto = self.parts.shared.snapshots.visible();
        progress(self.bytes_above());
        loop {
            let closed = self.closed_tiers();
            let Some((plan, version, running)) = self.next_step(upto)? else { return Ok(()) };
            if let Err(error) = running.merge(plan, version) {
                // The failed merge closed a slow tier. The next step writes to another tier.
                let is_closed_now = self.unwritable(&error).is_some_and(|tier| !closed.contains(&tier));
                if !is_closed_now {
                    return Err(error);
                }
            }
            progress(self.bytes_above());
        }
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
    /// steps. `None` when all families are done. A step counts as a running merge, so that closing waits for it.
    ///
    /// If a step of a merge thread fails, the caller meets it here again, and then its error.
    fn next_step(self: &Arc<Self>, upto: SeqNo) -> Result<Option<ClaimedStep>> {
        let mut next = None;
        self.wait_until(&[], |catalog| {
            if catalog.is_stopped() {
                return false;
            }
            let families: Vec<FamilyId> = catalog.state().families().keys().copied().collect();
            let mut is_done = true;
            for family in families {
                loop {
                    let plan = match self.pick_step(catalog, family, upto) {
                        Step::Do(plan) => plan,
                        Step::Blocked => {
                            is_done = false;
                            break;
                        }
                        Step::Done => break,
                    };
                    let version = catalog.version(family).clone();
                    if next.is_none() {
                        let running = self.claim(catalog, &plan);
                        next = Some((plan, version, running));
                    } else if catalog.merges_running() < self.parts.options.merges {
                        self.start_merge(catalog, plan, version);
                    } else {
                        return true;
                    }
                }
            }
            next.is_some() || is_done
        })?;
        Ok(next)
    }

    /// The merges that were claimed and have not ended.
    #[cfg(test)]
    pub fn merges_running(&self) -> usize {
        self.catalog.lock().merges_running()
    }

    fn pick_step(&self, catalog: &Catalog, family: FamilyId, upto: SeqNo) -> Step {
        let nothing = Hints::default();
        let options = &self.parts.options.tree;
        let to_rewrite = self.tables_to_rewrite(catalog);
        let hints = catalog.hints(family).unwrap_or(&nothing);
        let now = hints.now(&self.parts.shared.snapshots, &to_rewrite, false, None);
        let (version, claims) = (catalog.version(family), catalog.claims());
        Picker { family, version, claims, now: &now, options }.compact(upto)
    }
}
