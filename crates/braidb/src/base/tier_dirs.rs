//! The directory of each tier of an open database, and the syncs of the names in them.
//!
//! The fast tier is the database's own directory: logs, manifest and everything new. A slow tier is a directory of its own, mostly on
//! another device, which holds tables and value files. `db/slow_tiers.rs` decides which directories are tiers of a database.
//!
//! # A failed sync of a slow directory
//!
//! The sync that fails may lose every name that was new in the directory, of other running jobs too; a later sync that succeeds proves
//! nothing about them (rule 13). In the database's directory a name of a log may be lost, so a failed sync there ends all writing. A
//! slow directory has no logs. So only the jobs fail whose files no edit names yet: [`TierDirs::sync_slow`] refuses a job that began
//! before the failure. Its files are deleted, and the job is tried again with new files.

use super::error::{Error, Result};
use super::ids::{FileId, TierId};
use super::mutant::mutant;
use super::names;
use braidb_storage::locks::Mutex;
use braidb_storage::{DeviceTimes, FileSystem};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most slow tiers that a database has at one time: 15. A manifest and its readers allow more; the judges test no more.
pub const MAX_SLOW_TIERS: usize = 15;

/// The times of the device of a slow tier and of the fast tier's device. `None` stands for a device that was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub slow: Option<DeviceTimes>,
    pub fast: Option<DeviceTimes>,
}

/// The directories of the tiers of one open. Clones share everything.
#[derive(Clone, Debug)]
pub struct TierDirs(Arc<Dirs>);

#[derive(Debug)]
struct Dirs {
    fast: PathBuf,
    slow: BTreeMap<TierId, PathBuf>,
    /// Syncs of slow directories that failed in this open.
    failed_syncs: AtomicU64,
    /// Held during a sync of a slow directory. A job whose sync succeeds beside one that fails would not see the failure otherwise.
    turn: Mutex<()>,
}

impl From<&Path> for TierDirs {
    /// A database without slow tiers.
    fn from(fast: &Path) -> TierDirs {
        TierDirs::new(fast, BTreeMap::new())
    }
}

impl TierDirs {
    pub fn new(fast: &Path, slow: BTreeMap<TierId, PathBuf>) -> TierDirs {
        let (failed_syncs, turn) = (AtomicU64::new(0), Mutex::default());
        TierDirs(Arc::new(Dirs { fast: fast.to_owned(), slow, failed_syncs, turn }))
    }

    /// The database's own directory.
    pub fn fast(&self) -> &Path {
        &self.0.fast
    }

    /// The directory of `tier`. A manifest that is read before its tiers were found names tiers without one. Their files are not read
    /// then, and have paths in the database's directory.
    pub fn of(&self, tier: TierId) -> &Path {
        self.0.slow.get(&tier).unwrap_or(&self.0.fast)
    }

    /// All tiers, the fast one first.
    pub fn all(&self) -> impl Iterator<Item = (TierId, &Path)> {
        let slow = self.0.slow.iter().map(|(&tier, dir)| (tier, dir.as_path()));
        [(TierId::FAST, self.fast())].into_iter().chain(slow)
    }

    /// The slow tiers, by id.
    pub fn slow(&self) -> impl Iterator<Item = TierId> {
        self.0.slow.keys().copied()
    }

    pub fn has_slow(&self) -> bool {
        !self.0.slow.is_empty()
    }

    /// The path of table `id` on `tier`.
    pub fn table(&self, tier: TierId, id: FileId) -> PathBuf {
        names::table(self.of(tier), id)
    }

    /// The path of value file `id` on `tier`.
    pub fn values(&self, tier: TierId, id: FileId) -> PathBuf {
        names::values(self.of(tier), id)
    }

    /// Failed syncs of slow directories so far. A job asks before it creates its first file.
    pub fn failed_syncs(&self) -> u64 {
        self.0.failed_syncs.load(Ordering::Acquire)
    }

    /// Makes the names in the directory of a slow tier stable, for a job that began when `began` syncs had failed.
    pub fn sync_slow(&self, fs: &dyn FileSystem, tier: TierId, began: u64) -> Result<()> {
        if mutant!("slow_dir_not_synced") {
            return Ok(());
        }
        let dir = self.of(tier);
        let _turn = self.0.turn.lock();
        if let Err(error) = fs.sync_dir(dir) {
            self.0.failed_syncs.fetch_add(1, Ordering::AcqRel);
            return Err(Error::io("sync the directory", dir, error));
        }
        if self.failed_syncs() != began {
            let source =
                io::Error::other("a sync beside this one failed, and may have lost names of new files");
            return Err(Error::io("sync the directory", dir, source));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::sim::{Fault, Lasting, OpKind, SimFs};

    #[test]
    fn a_job_that_began_before_a_failed_sync_fails_too() {
        let (db, slow) = (Path::new("/db"), Path::new("/slow"));
        let fs = SimFs::new();
        fs.create_dir_all(slow).unwrap();
        let dirs = TierDirs::new(db, BTreeMap::from([(TierId(3), slow.to_owned())]));
        assert_eq!(dirs.table(TierId(3), FileId(7)), Path::new("/slow/000007.table"));
        assert_eq!(dirs.values(TierId::FAST, FileId(7)), Path::new("/db/000007.values"));
        assert_eq!(dirs.all().count(), 2);

        let earlier = dirs.failed_syncs();
        fs.fail_nth_where(1, Fault::Sync, Lasting::Once, 1, |op| op.kind == OpKind::SyncDir);
        assert!(dirs.sync_slow(&fs, TierId(3), earlier).is_err());
        let later = dirs.clone().failed_syncs();
        assert!(dirs.sync_slow(&fs, TierId(3), earlier).is_err(), "its names may be lost");
        assert!(dirs.sync_slow(&fs, TierId(3), later).is_ok());
    }
}
