//! The executor: the one place where plans are carried out. The module's head says which file holds a record at each
//! instant of a merge or a move.

use super::Jobs;
use super::output::Outputs;
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::mutant::mutant;
use crate::plan::{Cutter, Merge, Move, Plan};
use crate::version::cursor::RunCursor;
use crate::version::{Beneath, Slice, Version};
use crate::visible::Cursor;
use crate::visible::merge::MergeCursor;
use crate::visible::rule::Sieve;
use std::sync::Arc;

impl Jobs {
    /// Carries out a plan that was made for `version`, whose ranges are claimed since. After an error nothing has changed,
    /// unless the database is poisoned.
    pub(super) fn execute(&self, plan: &Plan, version: &Version) -> Result<()> {
        match plan {
            Plan::Merge(merge) => self.merge(merge, version),
            Plan::Move(moved) => self.relocate(moved),
        }
    }

    fn merge(&self, merge: &Merge, version: &Version) -> Result<()> {
        let is_input = |slice: &Slice| {
            merge.inputs.iter().any(|input| {
                input.slice.table.id == slice.table.id && input.slice.range.low == slice.range.low
            })
        };
        let beneath = Beneath::new(version, merge.from, &merge.range(), is_input);
        let mut cutter = Cutter::new(merge, version);
        let sieve = Sieve::new(self.snapshots.drop_proof());
        let mut outputs = Outputs::new(self.target());
        outputs.write(
            &mut MergeCursor::new(sources(merge)),
            sieve,
            |key| !beneath.may_hold(key),
            |key, written| cutter.must_cut(key, written),
            || self.health.check_writable(),
            &self.counters.merge_bytes[merge.to],
        )?;

        self.sync_names(&outputs)?;

        let (shadowed, spent) = (outputs.shadowed, outputs.spent);
        let mut catalog = self.catalog.lock();
        let edit = merge.edit(&catalog.state.families()[&merge.family].version, &outputs.tables);
        self.commit_tables(&mut catalog, edit, outputs)?;
        self.show(&catalog, merge.family);
        drop(catalog);
        self.counters.merges.add(1);
        self.counters.merge_read_bytes.add(merge.bytes());
        self.counters.entries_dropped.add(shadowed);
        self.counters.tombstones_dropped.add(spent);
        Ok(())
    }

    fn relocate(&self, moved: &Move) -> Result<()> {
        let mut catalog = self.catalog.lock();
        let edit = moved.edit(&catalog.state.families()[&moved.family].version);
        self.commit(&mut catalog, edit)?;
        self.show(&catalog, moved.family);
        self.counters.trivial_moves.add(1);
        Ok(())
    }

    /// Puts the version of a family that an edit has just made into the view.
    fn show(&self, catalog: &super::Catalog, family: FamilyId) {
        let version = catalog.state.families()[&family].version.clone();
        self.view.update(|view| view.families[family.0 as usize].version = version);
    }
}

/// One cursor for each run that the merge reads.
fn sources(merge: &Merge) -> Vec<Box<dyn Cursor>> {
    let runs = merge.inputs.chunk_by(|a, b| a.run == b.run);
    let cursor = |inputs: &[crate::plan::Input]| -> Box<dyn Cursor> {
        let mut slices: Vec<Arc<Slice>> = inputs.iter().map(|input| input.slice.clone()).collect();
        slices.sort_by(|a, b| a.range.low.cmp(&b.range.low));
        Box::new(RunCursor::new(Arc::new(slices), false))
    };
    if mutant!("merge_leaves_a_run_out") {
        return runs.skip(1).map(cursor).collect();
    }
    runs.map(cursor).collect()
}
