//! The lock of a database's directory (rule 17), and whether it still keeps other processes out.
//!
//! `LOCK` is locked for as long as the database is open. If the file is removed or replaced meanwhile, another process can lock
//! a new file of this name and open the database too. The first process cannot prevent this; it finds out by comparing the file
//! that has the name with the file that it locked.
//!
//! # Which file holds what when a second process gets in
//!
//! The second process makes its `LOCK` first, then reads the manifest in force and the logs. So an edit that was synced before
//! the first process found its own `LOCK` in place is one that every second process reads. The first process looks
//!
//! 1. before it starts a manifest, again before it replaces `CURRENT.tmp`, and again before it renames that: `CURRENT` goes on
//!    naming the second's manifest;
//! 2. before it appends an edit, which no process would read;
//! 3. after the edit is synced, and before anything relies on it: files that the edit no longer names are deleted only if the
//!    second process, if there ever is one, reads this edit, and so does not need them;
//! 4. after `CURRENT` is renamed, before other manifests are deleted: one of them may be the second's;
//! 5. before it begins a log: the second's recovery would find the log between its own;
//! 6. after it synced the log for a writer, and before the writer is told: a second process replays what was synced before.
//!
//! Whenever `LOCK` is not in place the handle is poisoned. From then on it punches no hole, its jobs end, and it deletes nothing
//! but new files of its own that no edit names. A record without `Sync` that it acknowledged after the second process read the
//! logs is in the first's log alone, beyond the place where the second's recovery cut it: it is lost. Tables that the first was
//! writing are orphans for the second, as after a crash. Both may choose one id: the later one to create the file fails and, for
//! a table, takes the next id.
//!
//! Between a look and the step behind it lie microseconds. If a second process gets in exactly there, a file too many may be
//! there (1, 2, 5), and in the worst case a `CURRENT` that names the first's manifest (1); no file is deleted (3, 4).

use crate::base::error::{Error, Result};
use crate::base::mutant::mutant;
use crate::base::names;
use braidb_storage::{FileSystem, LockGuard};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};

/// Keeps other processes, and other opens of this one, out of a directory until it is let go.
#[derive(Debug)]
pub struct DirLock {
    path: PathBuf,
    /// `None` once it was let go.
    guard: Mutex<Option<Box<dyn LockGuard>>>,
}

impl DirLock {
    /// Locks `dir`, or fails with [`Error::Locked`].
    pub fn take(fs: &dyn FileSystem, dir: &Path) -> Result<DirLock> {
        let path = dir.join(names::LOCK);
        let guard = fs.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::Locked { path: dir.to_owned() },
            _ => Error::io("lock", &path, error),
        })?;
        Ok(DirLock { path, guard: Mutex::new(Some(guard)) })
    }

    /// Fails with [`Error::LockLost`] if another process may be in the directory, and with [`Error::Closed`] if the lock was
    /// let go. Two calls of the operating system, which wait for no device as a rule.
    pub fn check(&self) -> Result<()> {
        if mutant!("lock_not_compared") {
            return Ok(());
        }
        let guard = self.guard.lock();
        match guard.as_ref().ok_or(Error::Closed)?.is_in_place() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::LockLost { path: self.path.clone() }),
            Err(error) => Err(Error::io("look for", &self.path, error)),
        }
    }

    /// Lets others in.
    pub fn release(&self) {
        *self.guard.lock() = None;
    }
}
