//! An excise: all that was written before in ranges of keys leaves the database with one edit, and is neither read nor written for it.
//!
//! # Which file holds a record at each instant
//!
//! `r` is a record in the ranges.
//!
//! 1. *The ranges are claimed*, and the running jobs there end: first those of L1 and below, while most tables of L0 still go down, then all. From
//!    here on no job mixes entries in the ranges.
//! 2. *The memtable of the family is switched* at the number E, and flushed with nothing kept in memory. `r` stands in a table and in the
//!    log, and after the edit of the flush in the table alone: the family replays no log from before E. A crash leaves `r` where it was.
//! 3. *The edit* cuts the slices at the ends of the ranges, and drops those inside that are not newer than E. From the sync of the edit on `r`
//!    is gone. A crash leaves all ranges as before, or none of their entries up to E.
//! 4. *One swap of the view* shows the new tree, and the ranges to snapshots that are older. Readers that hold an older view keep what it has.
//! 5. *Tables and value files* that no slice leads to are deleted once no view holds them. Blocks that no slice reaches are punched out, and
//!    so are values that no handle leads to (`jobs/value_holes.rs`).
//!
//! Where memory was empty, step 2 begins a new log without a flush, and the edit of step 3 lets the family replay from it. All logs
//! before it are synced first, so the excise survives no write that came before it.
//!
//! Writes go on meanwhile. What they put into the ranges has numbers above E, and stays.
//!
//! # Two excises at once
//!
//! Excises of one family whose ranges overlap run one after the other: the later one waits in step 1 until the earlier one has shown its
//! view (`plan/tree/claims.rs`). Excises apart from each other run side by side. Each makes its edit from the newest version, under the
//! catalog, and shows it by one swap of the view. So a reader sees all of an excise or nothing of it.

use super::asked::TablesWanted;
use super::cleanup::Deleting;
use super::value_holes::Emptied;
use super::{Catalog, Jobs};
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::key::Span;
use crate::plan::Ticket;
use crate::plan::tree::excise::{self, Excise};
use crate::version::Change;
use crate::visible::past_excises::PastExcises;
use crate::write::queue::pending_excises::{Switched, Turn};
use braidb_storage::Lane;
use std::sync::Arc;

/// An excise under way. The drop gives back what it holds, also after a panic of the caller's thread.
struct ExciseJob<'a> {
    jobs: &'a Jobs,
    /// `None` after the drop.
    ticket: Option<Ticket>,
    /// The number by which the commit queue knows the excise from its first switch on.
    id: Option<u64>,
}

impl<'a> ExciseJob<'a> {
    fn begin(jobs: &'a Jobs, family: FamilyId, spans: &[Span]) -> ExciseJob<'a> {
        let ticket = Some(jobs.catalog.lock().excise_began(excise::first_claims(family, spans)));
        ExciseJob { jobs, ticket, id: None }
    }

    /// Claims all that the edit needs.
    fn claim_all(&self, family: FamilyId, spans: &[Span]) {
        self.jobs.catalog.lock().excise_widens(self.ticket(), excise::claims(family, spans));
    }

    fn ticket(&self) -> &Ticket {
        self.ticket.as_ref().expect("there until the drop")
    }

    /// Lets transactions that read in the ranges commit again.
    fn end_pending(&mut self) {
        if let Some(id) = self.id.take() {
            self.jobs.parts.queue.end_excise(id);
        }
    }

    /// Waits for the jobs that run in the ranges, and for earlier excises. A job that fails gives its claims back, and so ends the wait too.
    fn wait(&self, jobs: &Arc<Jobs>) -> Result<()> {
        jobs.wait_until(&[], |catalog| catalog.claims().are_free(self.ticket()))
    }
}

impl Drop for ExciseJob<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The edit may be in the manifest and not in the view.
            self.jobs.parts.shared.health.poison_after_panic();
        }
        self.end_pending();
        if let Some(ticket) = self.ticket.take() {
            self.jobs.catalog.lock().excise_ended(ticket);
        }
        self.jobs.ended.notify_all();
    }
}

impl Jobs {
    /// Takes all entries out of the ranges of a family that were written before the call.
    pub fn excise(self: &Arc<Self>, family: FamilyId, spans: Vec<Span>) -> Result<()> {
        let spans = excise::tidy(spans);
        if spans.is_empty() {
            return Ok(());
        }
        self.parts.shared.health.check_writable()?;
        let mut job = ExciseJob::begin(self, family, &spans);
        let mut emptied = Emptied::none(self);
        let outcome = self.excise_with(family, spans, &mut job, &mut emptied);
        job.end_pending();
        if outcome.is_ok() {
            // The claims keep merges from holding the files.
            emptied.find_holes();
        }
        // Counted before the job ends: a close waits for it, and then for the threads that are counted.
        let deleting = Deleting::new(self);
        drop(job);
        emptied.punch();
        drop(emptied);
        drop(deleting);
        // The space comes back first. A writer that waits at a limit starts merges earlier.
        self.collect_garbage();
        self.schedule();
        outcome
    }

    fn excise_with(
        self: &Arc<Self>,
        family: FamilyId,
        spans: Vec<Span>,
        job: &mut ExciseJob<'_>,
        emptied: &mut Emptied<'_>,
    ) -> Result<()> {
        job.wait(self)?;
        job.claim_all(family, &spans);
        job.wait(self)?;
        let Switched { upto, log, .. } = self.flush_for_excise(family, &spans, job)?;
        if let Some(log) = log {
            self.parts.queue.sync_before(log)?;
        }
        let plan = Excise { family, spans, upto };
        let cuts = self.cuts_of(family, job.ticket(), |moment| plan.edit(moment))?;
        let mut catalog = self.catalog.lock();
        let mut edit = self.edit(&catalog, family, job.ticket(), &cuts, &[], |moment| plan.edit(moment))?;
        if let Some(log) = log.filter(|log| catalog.state().families()[&family].replay_from < *log) {
            edit.push(Change::ReplayFrom { family, log });
        }
        emptied.by_edit(&mut catalog, family, &edit);
        if !edit.changes.is_empty() {
            self.commit(&mut catalog, edit)?;
        }
        self.show_excised(&catalog, &plan);
        Ok(())
    }

    /// Brings all memory of a family into tables.
    fn flush_for_excise(
        self: &Arc<Self>,
        family: FamilyId,
        spans: &[Span],
        job: &mut ExciseJob<'_>,
    ) -> Result<Switched> {
        let _wanted = TablesWanted::new(self);
        // A family has one flushing set at a time: memory that was written beside a running flush needs a second flush.
        let first = self.parts.queue.switch_for_excise(family, Turn::First(spans))?;
        job.id = first.id;
        self.wait_until(&[Lane::Flush], |_| self.parts.queue.room().has_flushed(&first.flushes))?;
        let last = self.parts.queue.switch_for_excise(family, Turn::Last)?;
        self.wait_until(&[Lane::Flush], |_| self.parts.queue.room().has_flushed(&last.flushes))?;
        Ok(last)
    }

    /// Puts the version without the excised entries into the view, and the ranges that older snapshots must not read.
    fn show_excised(&self, catalog: &Catalog, excise: &Excise) {
        let version = catalog.version(excise.family).clone();
        let snapshots = &self.parts.shared.snapshots;
        // The commit lock keeps numbers from being published, so no snapshot of the old view has a number above `visible`.
        let committing = self.parts.queue.room();
        let (visible, watermark) = (snapshots.visible(), snapshots.watermark());
        let old_view = self.parts.shared.view.update(|view| {
            view.excises += 1;
            let family = &mut view.families[excise.family.0 as usize];
            family.version = version;
            let ranges =
                PastExcises::with(&family.past_excises, view.excises, &excise.spans, visible, watermark);
            family.past_excises = Arc::new(ranges);
        });
        drop(committing);
        drop(old_view);
    }
}
