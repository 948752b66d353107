//! The directory of each tier of an open database, and the syncs of the names in them.
//!
//! The fast tier is the database's own directory: logs, manifest and everything new. A slow tier is a directory of its own, mostly on
//! another device, which holds tables and value files. `db/slow_tiers.rs` decides which directories are tiers of a database.
//!
//! # A failed sync of a slow directory
//!
//! A failed sync of a directory may lose every new name in it, also names that other running jobs created. A later sync that succeeds
//! proves nothing about these names (rule 13). In the database's own directory the name of a log may be lost, so a failed sync there
//! ends all writing. A slow directory has no logs, so only running jobs fail, whose files no edit names yet: [`TierDirs::sync_slow`]
//! refuses each job that began before the failure. The files of the job are deleted, and the job is tried again with new files.

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

/// Most slow tiers that a database may have at one time: 15. The manifest's format allows more, but no judge tests more.
pub const MAX_SLOW_TIERS: usize = 15;

/// The measured times of a slow tier's device and of the fast tier's device. `None` stands for a device that was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub slow: Option<DeviceTimes>,
    pub fast: Option<DeviceTimes>,
}

/// The directories of the tiers of an open database. Clones share everything.
#[derive(Clone, Debug)]
pub struct TierDirs(Arc<Dirs>);

#[derive(Debug)]
struct Dirs {
    fast: PathBuf,
    slow: BTreeMap<TierId, PathBuf>,
    /// How many syncs of directories of slow tiers failed since the database was opened.
    failed_syncs: AtomicU64,
    /// Held during a sync of a slow directory. If two jobs synced at once, one job's sync could succeed without noticing that the
    /// other's failed.
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

    /// The directory of `tier`; the database's own directory if the tier's is not known. The latter happens while a manifest is read
    /// before its tiers were found. No file of these tiers is read then.
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

    /// How many syncs of directories of slow tiers failed since the database was opened. A job asks before it creates its first file.
    pub fn failed_syncs(&self) -> u64 {
        self.0.failed_syncs.load(Ordering::Acquire)
    }

    /// Makes the names in the directory of a slow tier stable. `began` is what [`TierDirs::failed_syncs`] returned when the job began;
    /// fails if a sync has failed since.
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
