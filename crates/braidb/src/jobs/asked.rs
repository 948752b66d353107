//! What callers ask for and wait for: a flush of all memory, and a database at rest. `jobs/compact.rs` has manual compaction.

use super::{Catalog, Jobs};
use crate::base::error::Result;
use braidb_storage::Lane;
use std::sync::Arc;

/// Counts a caller in the catalog until the drop, also after a panic of the caller's thread.
pub(super) struct Counted<'a> {
    jobs: &'a Jobs,
    count: fn(&mut Catalog) -> &mut usize,
}

impl Counted<'_> {
    pub fn new(jobs: &Jobs, count: fn(&mut Catalog) -> &mut usize) -> Counted<'_> {
        *count(&mut jobs.catalog.lock()) += 1;
        Counted { jobs, count }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *(self.count)(&mut self.jobs.catalog.lock()) -= 1;
    }
}

/// A caller that waits until all memory is in tables.
pub(super) struct TablesWanted<'a>(&'a Jobs);

impl TablesWanted<'_> {
    pub fn new(jobs: &Jobs) -> TablesWanted<'_> {
        jobs.parts.queue.room().request_tables();
        TablesWanted(jobs)
    }
}

impl Drop for TablesWanted<'_> {
    fn drop(&mut self) {
        self.0.parts.queue.room().end_table_request();
    }
}

impl Jobs {
    /// Writes all memory to tables, and waits for it.
    pub fn flush(self: &Arc<Self>) -> Result<()> {
        // A family has one flushing set at a time: memory that was written beside a running flush needs a second flush. The caller waits
        // for these two only: writers that go on would cause further flushes without end.
        let _wanted = TablesWanted::new(self);
        for _ in 0..2 {
            // After an error, memtables of other families may have been switched.
            let wanted = self.parts.queue.switch_all_memtables().inspect_err(|_| self.schedule())?;
            // The flush goes on to unlink its logs. The caller does not wait for it: another flush may fail meanwhile.
            self.wait_until(&[Lane::Flush], |_| self.parts.queue.room().has_flushed(&wanted))?;
        }
        Ok(())
    }

    /// Waits until nothing runs and nothing is wanted, and until all files are deleted that no reader holds. A job deletes files after it
    /// has given back its claims, so a job counts until its end.
    pub fn settle(self: &Arc<Self>) -> Result<()> {
        self.parts.shared.health.check_writable()?;
        self.catalog.lock().tiers_mut().forget_free_bytes();
        let _settling = Counted::new(self, Catalog::settling);
        self.wait_until(&[Lane::Flush, Lane::Merge], |catalog| {
            !catalog.has_jobs()
                && catalog.sampling_threads() == 0
                && !self.parts.shared.flushes.has_tasks()
                && self.is_memory_compacted()
                && self.propose(catalog).is_none()
        })?;
        // Deletes also the files that readers held until now. Files that other threads took before are waited for.
        self.collect_all_garbage();
        self.wait_until(&[Lane::Flush, Lane::Merge], |catalog| !catalog.has_jobs() && !self.is_deleting())
    }
}
