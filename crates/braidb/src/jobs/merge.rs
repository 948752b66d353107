//! The executor carries out all plans. The head of `jobs/mod.rs` says which file holds a record at each instant of a merge or a
//! move.

use super::cuts::Cuts;
use super::output::Outputs;
use super::stretch::Stretch;
use super::{Catalog, Jobs};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::base::key::Span;
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::part::Part;
use crate::plan::tree::Placement;
use crate::plan::tree::edits::Moment;
use crate::plan::values::Rewrites;
use crate::plan::{Cutter, Input, Merge, Met, Plan, Split, Ticket};
use crate::table::Reason;
use crate::version::shape::cut::middle;
use crate::version::table_file::TableFile;
use crate::version::{Beneath, Change, Edit, NewTable, Slice, Sorted, Version};
use crate::visible::rule::RetentionFilter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Jobs {
    /// Carries out a plan that was made for `version`; `ticket` claims its ranges. After an error only earlier increments of a
    /// merge have changed anything, unless the database is poisoned.
    pub(super) fn execute(
        self: &Arc<Self>,
        plan: Plan,
        version: Arc<Version>,
        ticket: &Ticket,
    ) -> Result<()> {
        let family = plan.family();
        match plan {
            Plan::Merge(merge) => self.merge_incrementally(merge, version, ticket),
            Plan::Move(moved) => {
                self.rearrange(family, ticket, |moment| moved.edit(moment))?;
                self.parts.shared.counters.trivial_moves.add(1);
                Ok(())
            }
            Plan::Split(split) => self.split(&split, &version, ticket),
            Plan::Join(join) => {
                self.rearrange(family, ticket, |_| Ok(join.edit()))?;
                self.parts.shared.counters.cells_joined.add(1);
                Ok(())
            }
        }
    }

    /// Carries out a merge in increments. Each increment gives up its inputs at its end, so that their files can go. Closing
    /// the database waits for one increment at most.
    fn merge_incrementally(
        self: &Arc<Self>,
        merge: Merge,
        version: Arc<Version>,
        ticket: &Ticket,
    ) -> Result<()> {
        if merge.reason == Reason::Bought && !mutant!("rent_not_cleared") {
            // Cleared before the merge, so that a merge that fails is not tried again until readers have lost its price once more.
            // Increments do not clear rent, because some inputs are in no increment.
            merge.inputs.iter().for_each(|input| input.slice.clear_rent());
        }
        let (family, seams) = (merge.family, merge.seams());
        if seams.is_empty() {
            let met = self.merge(&merge, version, ticket)?;
            self.catalog.lock().hints_mut(family).learn(met);
            return Ok(());
        }
        self.rearrange(family, ticket, |moment| merge.cut_edit(moment, &seams))?;
        let increments = merge.increments(&self.version(family), &seams);
        drop((merge, version));
        let mut met = Met::default();
        for increment in increments {
            met = met.and(self.merge(&increment, self.version(family), ticket)?);
            if mutant!("increment_committed_twice") {
                self.merge(&increment, self.version(family), ticket)?;
            }
            drop(increment);
            self.collect_garbage();
            if self.catalog.lock().is_stopped() {
                break;
            }
        }
        // All increments are learned from at once. If each were by itself, the last ones, which have the highest keys, would decide.
        self.catalog.lock().hints_mut(family).learn(met);
        Ok(())
    }

    fn version(&self, family: FamilyId) -> Arc<Version> {
        self.catalog.lock().version(family).clone()
    }

    fn merge(self: &Arc<Self>, merge: &Merge, version: Arc<Version>, ticket: &Ticket) -> Result<Met> {
        let _counted = Counted::new(self);
        if merge.gathers {
            // Cleared before the merge, so that a merge that fails is not tried again until scans have lost its price once more.
            self.catalog.lock().hints_mut(merge.family).gathered(&merge.inputs[0].run.cell);
        }
        let is_input = |slice: &Slice| {
            merge.inputs.iter().any(|input| {
                input.slice.table.id == slice.table.id && input.slice.range.low == slice.range.low
            })
        };
        let beneath = Beneath::new(&version, merge.from, &merge.range(), is_input);
        let tier_map = self.tier_map(merge, &version);
        let cutter = Cutter::new(merge, &version, &tier_map);
        let watermark = self.parts.shared.snapshots.drop_proof().watermark();
        let met = Met::of(merge, &version, watermark);
        // Without this drop, inputs of other merges would stay on disk, with their logs, until this merge ends.
        drop(version);
        self.collect_garbage();
        let retention = RetentionFilter::new(self.parts.shared.snapshots.drop_proof());
        let rewrites = self.rewrites(merge);
        let images = self.load_bodies(merge, rewrites.as_deref());
        let stretch = Stretch {
            span: Span::ALL,
            runs: Arc::new(runs_of(merge)),
            family: merge.family,
            to: merge.to,
            reason: merge.reason,
            cutter,
            retention,
            beneath: Arc::new(beneath),
            rewrites: rewrites.clone(),
            tier_map,
        };
        let outputs = self.write_merge(merge, stretch)?;
        drop(images);
        let shadowed = self.commit_merge(merge, ticket, outputs, rewrites.as_deref())?;
        Ok(met.map(|met| met.hiding(shadowed)).unwrap_or_default())
    }

    /// Syncs the names of what a merge wrote, and commits its edit. Returns the number of entries that the merge found shadowed.
    fn commit_merge(
        &self,
        merge: &Merge,
        ticket: &Ticket,
        outputs: Outputs,
        rewrites: Option<&Rewrites>,
    ) -> Result<u64> {
        self.sync_names(&outputs)?;
        // If readers came to an input, they will come to the outputs, whose indexes and filters are loaded now. Tables that only writers
        // meet take no memory.
        let has_been_read = merge.inputs.iter().any(|input| input.slice.table.has_been_read());
        let meets_readers = |table: &&NewTable| has_been_read || table.tier != TierId::FAST;
        let _early = self.parts.tables.open_early(outputs.tables.iter().filter(meets_readers))?;

        let (shadowed, spent) = (outputs.shadowed, outputs.spent);
        if mutant!("slow_source_deleted_early") && merge.changes_tier() {
            let tables = merge.inputs.iter().map(|input| &input.slice.table);
            tables.for_each(|table| self.unlink(&self.parts.tables.dirs().table(table.tier, table.id)));
        }
        let mut catalog = self.catalog.lock();
        let edit =
            self.edit(&catalog, merge.family, ticket, &Cuts::default(), &outputs.tables, |moment| {
                merge.edit(moment, &outputs.tables)
            })?;
        let tiers = outputs.tiers();
        self.commit_tables(&mut catalog, edit, [outputs])?;
        tiers.into_iter().for_each(|tier| catalog.tiers_mut().written(tier));
        if mutant!("value_file_deleted_with_its_first_table") {
            let files = rewrites.into_iter().flat_map(|rewrites| &rewrites.files);
            files.for_each(|&id| self.unlink(&names::values(&self.parts.dir, id)));
        }
        self.show(&catalog, merge.family);
        drop(catalog);
        self.parts.shared.counters.merges.add(1);
        match merge.placement {
            Placement::OfCells => {}
            Placement::Tables(_) | Placement::Values(_) => {
                self.parts.shared.counters.tier_out_bytes.add(merge.bytes())
            }
            Placement::Fast => self.parts.shared.counters.tier_in_bytes.add(merge.bytes()),
        }
        self.parts.shared.counters.merge_read_bytes.add(merge.bytes());
        self.parts.shared.counters.entries_dropped.add(shadowed);
        self.parts.shared.counters.tombstones_dropped.add(spent);
        Ok(shadowed)
    }

    /// Cuts one cell in two at a guard.
    fn split(&self, split: &Split, version: &Version, ticket: &Ticket) -> Result<()> {
        let guard = match &split.guard {
            Some(guard) => guard.clone(),
            None => match middle(
                version.level(split.level).cell(&split.cell).runs.iter().map(|run| &run.slices[..]),
            )? {
                Some(middle) => middle,
                None => return Ok(()),
            },
        };
        self.rearrange(split.family, ticket, |moment| split.edit(moment, &guard))?;
        self.parts.shared.counters.cells_split.add(1);
        Ok(())
    }

    /// Commits a change that writes no table.
    fn rearrange(
        &self,
        family: FamilyId,
        ticket: &Ticket,
        make: impl Fn(&Moment<'_>) -> Result<Edit>,
    ) -> Result<()> {
        let cuts = self.cuts_of(family, ticket, &make)?;
        let mut catalog = self.catalog.lock();
        let mut edit = self.edit(&catalog, family, ticket, &cuts, &[], make)?;
        if edit.changes.is_empty() {
            return Ok(());
        }
        if mutant!("guard_in_its_own_edit") {
            let is_guard = |change: &mut Change| matches!(change, Change::Guard { .. });
            let changes = edit.changes.extract_if(.., is_guard).collect();
            self.commit(&mut catalog, Edit { changes })?;
        }
        self.commit(&mut catalog, edit)?;
        self.show(&catalog, family);
        Ok(())
    }

    /// Lets a plan make its edit from the current state, of slices and of the `new` tables. The caller holds the catalog until the edit is
    /// committed. A cut that is not in `cuts` reads the table under the catalog.
    pub(super) fn edit(
        &self,
        catalog: &Catalog,
        family: FamilyId,
        ticket: &Ticket,
        cuts: &Cuts,
        new: &[NewTable],
        make: impl FnOnce(&Moment<'_>) -> Result<Edit>,
    ) -> Result<Edit> {
        let cut = |id: FileId, part: &Part, key: &[u8]| {
            let table = match new.iter().find(|table| table.id == id) {
                Some(table) => Arc::new(TableFile::of_new(table, &self.parts.tables)),
                None => catalog.state().table(id).expect("a plan cuts what the state holds").clone(),
            };
            cuts.cut(&table, part, key)
        };
        let edit = make(&Moment {
            version: catalog.version(family),
            others: &catalog.claims().without(ticket),
            cut: &cut,
        });
        // If the edit is refused, the tables are deleted; an open file would keep their space.
        new.iter().for_each(|table| self.parts.tables.close(table.id));
        edit
    }

    /// Puts the current version of a family into the view.
    fn show(&self, catalog: &Catalog, family: FamilyId) {
        let version = catalog.version(family).clone();
        // No put and no get waits for the catalog, under which the old view is dropped.
        drop(self.parts.shared.view.update(|view| view.families[family.0 as usize].version = version));
    }
}

/// Counts a running merge until it is dropped.
struct Counted<'a>(&'a AtomicU64);

impl Counted<'_> {
    fn new(jobs: &Jobs) -> Counted<'_> {
        let others = jobs.merging.fetch_add(1, Ordering::Relaxed);
        jobs.parts.shared.counters.most_merges_at_once.raise_to(others + 1);
        Counted(&jobs.merging)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The runs that the merge reads, newest first.
fn runs_of(merge: &Merge) -> Vec<Arc<Sorted<Slice>>> {
    let runs = merge.inputs.chunk_by(|a, b| a.run == b.run);
    let slices = |inputs: &[Input]| {
        let mut slices: Vec<Arc<Slice>> = inputs.iter().map(|input| input.slice.clone()).collect();
        slices.sort_by(|a, b| a.range.low.cmp(&b.range.low));
        Arc::new(slices.into())
    };
    if mutant!("merge_leaves_a_run_out") {
        return runs.skip(1).map(slices).collect();
    }
    runs.map(slices).collect()
}
