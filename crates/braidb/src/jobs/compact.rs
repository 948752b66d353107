//! Manual compaction. The caller's thread carries out the policy's steps until nothing is left to do, and lets idle merge threads carry out
//! other steps beside it. Meanwhile the scheduler plans only merges that keep writers from waiting.
//!
//! A panic of the caller's thread within a step poisons the database, as in any job: the step may be half done. Between two
//! steps nothing is half done, and the scheduler plans on.

use super::asked::Counted;
use super::hints::Hints;
use super::running::{Running, StepOn};
use super::{Catalog, Jobs};
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, SeqNo, TierId};
use crate::base::key::Span;
use crate::plan::{Picker, Plan, Step};
use crate::version::Version;
use braidb_storage::Lane;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A step with the version that it was planned for, counted as a running job.
type ClaimedStep = (Plan, Arc<Version>, Running);

/// A manual compaction under way.
struct Compaction {
    /// The keys that it brings down.
    span: Span,
    /// The number of the last record that it brings down.
    upto: SeqNo,
    /// Families that are not done.
    families: Vec<FamilyId>,
    /// The tiers that took nothing when a step of the caller last began while no other step ran. A step that fails at another tier may have
    /// begun before that tier was closed.
    closed: BTreeSet<TierId>,
    /// Whether a step failed on a merge thread. Then the caller carries out all further steps, and meets the failure if it comes again.
    has_failed: Arc<AtomicBool>,
    /// Whether the device had no room for two steps at a time. Then each step waits until no other runs.
    is_alone: bool,
    /// Whether another step may have filled the device: one ran when the caller's last step began.
    was_beside: bool,
}

impl Jobs {
    /// Brings all records that were written until now into the last level of their family. With `range` only those of the cells that meet a
    /// range of one family.
    ///
    /// Before the first step, after each of the caller's, and at the end, `progress` gets the bytes above the last level, each counted once
    /// for each level that it has to move.
    pub fn compact(
        self: &Arc<Self>,
        range: Option<(FamilyId, Span)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.parts.shared.health.check_writable()?;
        // The drop of the last one gives planning back to the scheduler.
        let manual = Counted::new(self, Catalog::compacting);
        let outcome = self.compact_families(range, progress);
        drop(manual);
        self.schedule();
        outcome
    }

    fn compact_families(
        self: &Arc<Self>,
        range: Option<(FamilyId, Span)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let catalog = self.catalog.lock();
        let (families, span) = match range {
            Some((family, span)) => (vec![family], span),
            None => (catalog.state().families().keys().copied().collect(), Span::ALL),
        };
        let mut compaction = Compaction {
            upto: self.parts.shared.snapshots.visible(),
            families,
            span,
            closed: self.closed_tiers(&catalog),
            has_failed: Arc::default(),
            is_alone: false,
            was_beside: false,
        };
        drop(catalog);
        progress(self.bytes_above());
        loop {
            let outcome = match self.next_step(&mut compaction) {
                Ok(Some((plan, version, running))) => running.merge(plan, version),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome
                && !self.goes_on_after(&error, &mut compaction)
            {
                return Err(error);
            }
            progress(self.bytes_above());
        }
        // Steps of merge threads may have been the last.
        progress(self.bytes_above());
        Ok(())
    }

    /// Whether further steps may succeed after one failed.
    fn goes_on_after(&self, error: &Error, compaction: &mut Compaction) -> bool {
        // The slow tier is closed since this step or one beside it failed. The next step writes to another tier.
        if self.unwritable(error).is_some_and(|tier| !compaction.closed.contains(&tier)) {
            return true;
        }
        // Two steps need scratch space for both outputs. One at a time may have room.
        let goes_on = error.is_full() && compaction.was_beside;
        if goes_on {
            compaction.is_alone = true;
            compaction.was_beside = self.catalog.lock().steps_running() > 0;
        }
        goes_on
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

    /// Claims the next step for the caller. Waits while running jobs are in the way of all steps. Returns `None` when no family is left. A
    /// step counts as a running merge, so that closing waits for it.
    ///
    /// The inputs of a running step stay in the state until its edit, so a family is not done before its last step is. If a step of a merge
    /// thread fails, the caller meets it here again, or the failure ends the wait.
    fn next_step(self: &Arc<Self>, compaction: &mut Compaction) -> Result<Option<ClaimedStep>> {
        let mut next = None;
        self.wait_until(&[Lane::Merge], |catalog| {
            if catalog.is_stopped() || compaction.is_alone && catalog.steps_running() > 0 {
                return false;
            }
            next = self.claim_steps(catalog, compaction);
            next.is_some() || compaction.families.is_empty()
        })?;
        Ok(next)
    }

    /// Claims the next step for the caller, and starts further ones on idle merge threads. Removes the families that are done.
    fn claim_steps(
        self: &Arc<Self>,
        catalog: &mut Catalog,
        compaction: &mut Compaction,
    ) -> Option<ClaimedStep> {
        let mut next = None;
        let starts_more = !compaction.is_alone && !compaction.has_failed.load(Ordering::Relaxed);
        let Compaction { upto, families, span, closed, has_failed, .. } = compaction;
        families.retain(|&family| {
            loop {
                let has_idle_thread = || catalog.merges_on_threads() < self.parts.options.merges;
                if next.is_some() && !(starts_more && has_idle_thread()) {
                    break true;
                }
                match self.pick_step(catalog, family, span, *upto) {
                    Step::Do(plan) => {
                        let version = catalog.version(family).clone();
                        if next.is_some() {
                            let running = self.claim(catalog, &plan, Some(StepOn::MergeThread));
                            self.start_step(plan, version, running, has_failed.clone());
                        } else {
                            if catalog.steps_running() == 0 {
                                *closed = self.closed_tiers(catalog);
                            }
                            let running = self.claim(catalog, &plan, Some(StepOn::Caller));
                            next = Some((plan, version, running));
                        }
                    }
                    Step::Blocked => break true,
                    Step::Done => break false,
                }
            }
        });
        if next.is_some() {
            compaction.was_beside = catalog.steps_running() > 1;
        }
        next
    }

    /// Starts a step on a merge thread.
    fn start_step(&self, plan: Plan, version: Arc<Version>, running: Running, has_failed: Arc<AtomicBool>) {
        let step = move || {
            // `end_job` reports the error to threads that wait for the merge.
            if running.merge(plan, version).is_err() {
                has_failed.store(true, Ordering::Relaxed);
            }
        };
        self.parts.env.runtime.submit(Lane::Merge, Box::new(step));
    }

    /// The merges that were claimed and have not ended.
    #[cfg(test)]
    pub fn merges_running(&self) -> usize {
        self.catalog.lock().merges_running()
    }

    fn pick_step(&self, catalog: &Catalog, family: FamilyId, span: &Span, upto: SeqNo) -> Step {
        let (nothing, to_rewrite) = (Hints::default(), BTreeSet::new());
        let options = &self.parts.options.tree;
        let hints = catalog.hints(family).unwrap_or(&nothing);
        let now = hints.now(&self.parts.shared.snapshots, &to_rewrite, false, None);
        let (version, claims) = (catalog.version(family), catalog.claims());
        let picker = Picker { family, version, claims, now: &now, options };
        if catalog.steps_running() > 0 {
            picker.compact_beside(span, upto)
        } else {
            picker.compact(span, upto)
        }
    }
}
