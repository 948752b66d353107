//! Deleting files that nothing needs any more (rule 1). A file that cannot be unlinked now stays for the next open to collect:
//! it costs space, never data.

use super::{Catalog, Jobs};
use crate::base::ids::FileId;
use crate::base::names;
use std::path::Path;

impl Jobs {
    /// Unlinks the logs that no family replays any more; a synced edit says so.
    pub(super) fn unlink_logs_below(&self, catalog: &mut Catalog, replay_from: FileId) {
        let kept = catalog.logs.split_off(&replay_from);
        for id in std::mem::replace(&mut catalog.logs, kept) {
            self.unlink(&names::log(&self.dir, id));
        }
        catalog.older_log_bytes = catalog.older_log_bytes.split_off(&replay_from);
        self.log_sync.forget_below(replay_from);
    }

    /// Unlinks the tables that neither the manifest nor any view refers to.
    pub fn unlink_dead_tables(&self) {
        for id in self.tables.take_dead() {
            self.unlink(&names::table(&self.dir, id));
        }
    }

    /// Unlinks what the open found and nothing refers to: tables of jobs that a crash interrupted, and old logs.
    pub fn collect_after_open(&self, orphans: &[FileId]) {
        for &id in orphans {
            self.unlink(&names::table(&self.dir, id));
        }
        let mut catalog = self.catalog.lock();
        let replay_from = catalog.state.min_replay_from();
        self.unlink_logs_below(&mut catalog, replay_from);
    }

    fn unlink(&self, path: &Path) {
        if self.env.fs.unlink(path).is_ok() {
            self.counters.files_deleted.add(1);
        }
    }
}
