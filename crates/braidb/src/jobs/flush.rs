//! A flush: all memory of a family becomes a table of L0, merged while it is written. The module's head says which file holds its records at each instant.

use super::Jobs;
use super::output::Outputs;
use crate::base::error::Result;
use crate::base::mutant::mutant;
use crate::memory::Frozen;
use crate::plan::Edge;
use crate::version::{Change, Edit};
use crate::visible::merge::MergeCursor;
use crate::visible::rule::Sieve;
use crate::write::FlushTask;

impl Jobs {
    /// Carries out a flush; after an error nothing has changed, unless the database is poisoned.
    pub(super) fn flush_task(&self, task: &FlushTask) -> Result<()> {
        self.health.check_unpoisoned()?;
        if !mutant!("flush_before_log_sync") {
            self.queue.sync_before(task.replay_from)?;
        }
        let mut outputs = Outputs::new(self.target());
        let mut sampled = Vec::new();
        let sieve = Sieve::new(self.snapshots.drop_proof());
        let kept = task.segments.len()
            - usize::from(mutant!("flush_leaves_a_segment_out") && task.segments.len() > 1);
        // Tombstones stay: what they hide may lie in any level. One table, whatever its size: a run of L0 is one slice.
        outputs.write(
            &mut MergeCursor::new(task.segments[..kept].iter().map(Frozen::cursor).collect()),
            sieve,
            |_| false,
            |key, _| {
                sampled.extend(self.options.tree.guards.sampled_level(key).map(|top| (key.to_vec(), top)));
                Edge::None
            },
            || Ok(()),
            &self.counters.flush_bytes,
        )?;
        self.counters.entries_dropped.add(outputs.shadowed);
        self.sync_names(&outputs)?;

        let mut catalog = self.catalog.lock();
        let families = catalog.state.families();
        let mut edit = Edit::default();
        for table in &outputs.tables {
            let run = families[&task.family].version.flush_run();
            edit.add_whole_table(task.family, &run, table);
        }
        edit.push(Change::ReplayFrom { family: task.family, log: task.replay_from });
        for &idle in &task.idle {
            // A later flush of that family may have moved it further on already.
            if families[&idle].replay_from < task.replay_from {
                edit.push(Change::ReplayFrom { family: idle, log: task.replay_from });
            }
        }
        if mutant!("log_deleted_one_edit_early") {
            self.unlink_logs_below(&mut catalog, task.replay_from);
        }
        self.commit_tables(&mut catalog, edit, outputs)?;
        catalog.noticed(task.family).chosen(sampled);
        let version = catalog.state.families()[&task.family].version.clone();
        // First the logs, then memory: what is still counted of the logs decides whether another family is frozen.
        let replay_from = catalog.state.min_replay_from();
        self.unlink_logs_below(&mut catalog, replay_from);
        self.queue.finish_flush(task, version, replay_from);
        // A family with little in memory may keep logs that could go.
        catalog.log_full = true;
        self.memory_flushed(task.family);
        self.counters.flushes.add(1);
        Ok(())
    }
}
