//! How puts, gets and scans ask for work. They do not wait for the catalog, under which edits are synced: a job calls the scheduler. A put
//! at a hard limit or on a full device waits for jobs anyway, and calls the scheduler itself.

use super::Jobs;
use crate::write::Wants;
use braidb_storage::Lane;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Jobs {
    /// Starts the work that a commit asks for. The caller holds no lock.
    #[inline]
    pub fn act_on(self: &Arc<Self>, wants: Wants) {
        if wants != Wants::default() {
            self.start_wanted(wants);
        }
    }

    /// Lets a merge thread ask the planner if the rent of a slice has reached its price since the last call. The caller holds no lock.
    #[inline]
    pub fn act_on_rent(self: &Arc<Self>) {
        if self.parts.tables.bell().has_rung() {
            self.ask_planner_soon();
        }
    }

    /// Lets a merge thread plan, because planning may read samples. If a job holds the catalog, the reader does not wait: it rings the bell
    /// again for the next reader.
    #[cold]
    fn ask_planner_soon(self: &Arc<Self>) {
        match self.catalog.try_lock() {
            Some(catalog) if catalog.is_stopped() => {}
            Some(catalog) => self.submit_help(catalog, Jobs::schedule),
            None => self.parts.tables.bell().ring(),
        }
    }

    fn start_wanted(self: &Arc<Self>, wants: Wants) {
        if wants.write_back {
            self.writes_back_small.store(true, Ordering::Relaxed);
        }
        if wants.log_collection || wants.write_back {
            self.log_full.store(true, Ordering::Release);
        }
        // A flush that failed waits in the queue. Until it has ended, `decide` asks for no flush that would let logs go. So each roll of
        // a segment tries it again.
        if wants.flush || wants.log_collection || wants.write_back || self.parts.shared.flushes.has_tasks() {
            self.schedule_soon();
        } else if wants.memory_compaction {
            self.compact_memory();
        }
    }

    /// Lets a job call [`Jobs::schedule`]. Puts, gets and scans call this: an edit is synced under the catalog, and planning may read
    /// samples.
    pub fn schedule_soon(self: &Arc<Self>) {
        self.compact_memory();
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let jobs = Arc::downgrade(self);
        let schedule = move || {
            let Some(jobs) = jobs.upgrade() else { return };
            // The flag is lowered before the work: what is wanted from here on needs another job. It is a swap, so that the job sees what
            // was wanted by threads that found the flag raised.
            jobs.is_asked.swap(false, Ordering::AcqRel);
            jobs.schedule();
        };
        self.parts.env.runtime.submit(Lane::Flush, Box::new(schedule));
    }

    /// Lets a merge thread delete the files that only the reader that ended had kept. A file system may take 100 ms to free the blocks of a
    /// table, so no reader waits for it.
    #[inline]
    pub fn collect_garbage_soon(self: &Arc<Self>) {
        if self.has_garbage() {
            self.submit_collection();
        }
    }

    #[cold]
    fn submit_collection(self: &Arc<Self>) {
        if self.is_collecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let jobs = Arc::downgrade(self);
        let collect = move || {
            let Some(jobs) = jobs.upgrade() else { return };
            // The flag is lowered before the work: what dies from here on needs another job. It is a swap, so that the job sees what was
            // left by readers that found the flag raised.
            jobs.is_collecting.swap(false, Ordering::AcqRel);
            jobs.help_unless_stopped(Jobs::collect_some_garbage);
        };
        self.parts.env.runtime.submit(Lane::Merge, Box::new(collect));
    }
}
