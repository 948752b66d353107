//! The lock of a database's directory (rule 17), and the check that it still keeps other processes out.
//!
//! `LOCK` is locked as long as the database is open. If the file is removed or replaced meanwhile, another process can
//! lock a new file of this name and open the database too. The first process cannot prevent this. The first process
//! detects it: the file named `LOCK` is not the file that it locked.
//!
//! # The files when a second process gets in
//!
//! The second process makes its `LOCK` first, then reads the manifest in force and the logs. So if an edit was synced
//! before the first process found its own `LOCK` in place, every second process reads this edit. The first process
//! checks
//!
//! 1. before it starts a manifest, again before it replaces `CURRENT.tmp`, and again before it renames `CURRENT.tmp`:
//!    `CURRENT` keeps naming the second's manifest;
//! 2. before it appends an edit, which no process would read;
//! 3. after the edit is synced, and before any job relies on it. Files that the edit no longer names are deleted only
//!    if a second process, should one exist, reads this edit. So the second process does not need these files;
//! 4. after `CURRENT` is renamed, before other manifests are deleted: one of them may be the second's;
//! 5. before it begins a log: the second's recovery would find the new log among its own logs;
//! 6. after it synced the log for a writer, and before the writer returns: a second process replays what was synced
//!    before.
//!
//! If `LOCK` is not in place, the handle is poisoned. From then on the first process punches no hole, its jobs end, and
//! it deletes only files that no edit names: new files of its own, and old ones that a job was about to delete.
//!
//! Records without `Sync` may be lost. A record that the first process acknowledged after the second process read the
//! logs is in the first's log alone. It lies beyond the place where the second's recovery cut the log.
//!
//! Tables that the first process was writing are orphans for the second, as after a crash. Both processes may choose
//! one id: the later process fails to create the file and, for a table, takes the next id.
//!
//! Between a check and the step behind it lie microseconds. A second process that gets in there may leave one file too
//! many (1, 2, 5). In the worst case `CURRENT` names the first's manifest (1). No file is deleted (3, 4).
//!
//! The directory of each slow tier has a `LOCK` too. It is locked, checked and released together with the database's own.

use crate::base::error::{Error, Result};
use crate::base::foreground::ForegroundMutex;
use crate::base::mutant::mutant;
use crate::base::names;
use braidb_storage::{FileSystem, LockGuard};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps other processes, and other handles of this process, out of a directory until the lock is released.
#[derive(Debug)]
pub struct DirLock {
    path: PathBuf,
    /// `None` after the release.
    guard: ForegroundMutex<Option<Box<dyn LockGuard>>>,
    /// The locks of the directories of slow tiers.
    slow: Vec<DirLock>,
    /// Whether the directory left the database. The user may remove it then, with its `LOCK`.
    has_left: AtomicBool,
}

impl DirLock {
    /// Locks `dir`, or fails with [`Error::Locked`].
    pub fn take(fs: &dyn FileSystem, dir: &Path) -> Result<DirLock> {
        let path = dir.join(names::LOCK);
        let guard = fs.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::Locked { path: dir.to_owned() },
            _ => Error::io("lock", &path, error),
        })?;
        Ok(DirLock {
            path,
            guard: ForegroundMutex::new(Some(guard)),
            slow: Vec::new(),
            has_left: AtomicBool::new(false),
        })
    }

    /// Checks and releases the locks of slow tiers together with this one.
    pub fn with_slow(mut self, slow: Vec<DirLock>) -> DirLock {
        self.slow = slow;
        self
    }

    /// Fails with [`Error::LockLost`] if another process may be in the directory, and with [`Error::Closed`] after the
    /// release. Costs two system calls, which normally wait for no device.
    pub fn check(&self) -> Result<()> {
        if mutant!("lock_not_compared") {
            return Ok(());
        }
        let guard = self.guard.lock();
        match guard.as_ref().ok_or(Error::Closed)?.is_in_place() {
            Ok(true) => self.slow.iter().try_for_each(DirLock::check_slow),
            Ok(false) => Err(Error::LockLost { path: self.path.clone() }),
            Err(error) => Err(Error::io("look for", &self.path, error)),
        }
    }

    /// As [`DirLock::check`] for a slow tier. If the device does not answer, this is no proof of a second process. So it must not end
    /// writing, which needs only the database's own directory (rule 13).
    fn check_slow(&self) -> Result<()> {
        if self.has_left.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.check() {
            Err(Error::Io { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// The directory `dir` of a slow tier left the database. Its lock is held to the end, because files may be deleted there until then.
    pub fn left(&self, dir: &Path) {
        let left = self.slow.iter().filter(|lock| lock.path.parent() == Some(dir));
        left.for_each(|lock| lock.has_left.store(true, Ordering::Relaxed));
    }

    /// Releases the lock: other processes and opens may take it.
    pub fn release(&self) {
        self.slow.iter().for_each(DirLock::release);
        // Closed after the lock, which commits take.
        let guard = self.guard.lock().take();
        drop(guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock that answers with one kind of error, or whether it is in place.
    #[derive(Debug)]
    struct Answer(std::result::Result<bool, io::ErrorKind>);

    impl LockGuard for Answer {
        fn is_in_place(&self) -> io::Result<bool> {
            self.0.map_err(io::Error::from)
        }
    }

    fn lock(dir: &str, answer: std::result::Result<bool, io::ErrorKind>) -> DirLock {
        let path = Path::new(dir).join(names::LOCK);
        let guard = ForegroundMutex::new(Some(Box::new(Answer(answer)) as Box<dyn LockGuard>));
        DirLock { path, guard, slow: Vec::new(), has_left: AtomicBool::new(false) }
    }

    #[test]
    fn a_slow_device_that_does_not_answer_ends_no_writing() {
        let failed = Err(io::ErrorKind::Other);
        let checked = |fast, slow| lock("/db", fast).with_slow(vec![lock("/slow", slow)]).check();
        assert!(checked(Ok(true), Ok(true)).is_ok() && checked(Ok(true), failed).is_ok());
        assert!(matches!(checked(failed, Ok(true)), Err(Error::Io { .. })));
        match checked(Ok(true), Ok(false)) {
            Err(Error::LockLost { path }) => assert_eq!(path, Path::new("/slow/LOCK")),
            other => panic!("{other:?}"),
        }
    }
}
