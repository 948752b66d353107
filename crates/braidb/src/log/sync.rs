//! Making logs stable, oldest first.
//!
//! [`LogSync`] knows every log of this open that recovery would still read. The writer, under the commit lock, tells it
//! how much it has handed to the operating system; anyone, on any thread, asks it to make a position stable. One thread
//! syncs at a time, the others wait for it and mostly find their position done; appends go on meanwhile.
//!
//! Each log has its *synced mark* (see the module's head), which the writer copies into every frame. It rises only after
//! the sync returned, so a frame never says more than is true.
//!
//! A failed sync, or a failed append, is final: what the storage holds is no longer known, and asking it again may answer
//! "done" for pages that it has dropped. [`LogSync::failure`] keeps the cause; from then on everything answers
//! [`Error::Poisoned`].

use super::frame::HEADER_BYTES;
use super::places::ValuePlaces;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use crate::base::mutant::mutant;
use crate::base::names;
use braidb_storage::{File, FileSystem};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// After so many logs that went before any table pointed into them,
const UNUSED_LOGS: u32 = 8;
/// only one in so many is told where its values lie.
const TRIED_SHARE: u64 = 8;

/// The logs of this open, shared by the writer and whoever syncs.
#[derive(Debug)]
pub struct LogSync {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    counters: Arc<Counters>,
    /// Oldest first; the last is being written. Held for moments only, never across a system call.
    logs: Mutex<VecDeque<Arc<LiveLog>>>,
    /// Held by the one thread that syncs. Taken before `logs`.
    turn: Mutex<()>,
    /// Logs, one after the other, of which it was told in vain where their values lie.
    unused: AtomicU32,
    failure: OnceLock<Error>,
}

/// A log of this open.
#[derive(Debug)]
pub(super) struct LiveLog {
    pub id: FileId,
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    /// Bytes handed to the operating system.
    handed: AtomicU64,
    /// Set after the last byte, the footer's, was written to the operating system: `handed` is final.
    sealed: AtomicBool,
    /// Where its values lie, if that is told; set before `sealed`.
    places: OnceLock<Arc<ValuePlaces>>,
    /// A table was to point to them.
    is_used: AtomicBool,
    /// The synced mark.
    mark: AtomicU64,
    /// Whether the name in the directory is stable. Touched only by the holder of `turn`.
    named: AtomicBool,
}

impl LiveLog {
    pub fn new(id: FileId, path: PathBuf, file: Arc<dyn File>) -> LiveLog {
        LiveLog {
            id,
            path,
            file,
            handed: AtomicU64::new(0),
            sealed: AtomicBool::new(false),
            places: OnceLock::new(),
            is_used: AtomicBool::new(false),
            mark: AtomicU64::new(0),
            named: AtomicBool::new(false),
        }
    }

    pub fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// Tells that `bytes` more were written to the operating system.
    pub fn add_handed(&self, bytes: u64) {
        self.handed.fetch_add(bytes, Ordering::Release);
    }

    pub fn set_sealed(&self, places: Option<ValuePlaces>) {
        if let Some(places) = places {
            self.places.get_or_init(|| Arc::new(places));
        }
        self.sealed.store(true, Ordering::Release);
    }

    pub fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    fn raise_mark(&self, mark: u64) {
        self.mark.fetch_max(mark, Ordering::Release);
    }

    /// Whether no byte of it will ever need a sync.
    fn is_done(&self) -> bool {
        // In this order: once sealed, `handed` is final.
        self.is_sealed() && self.mark() == self.handed()
    }
}

impl LogSync {
    /// For the logs in `dir`, of which this open has none yet.
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path, counters: Arc<Counters>) -> LogSync {
        LogSync {
            fs,
            dir: dir.to_owned(),
            counters,
            logs: Mutex::default(),
            turn: Mutex::new(()),
            unused: AtomicU32::new(0),
            failure: OnceLock::new(),
        }
    }

    /// Makes the first `offset` bytes of log `id`, and all earlier logs, stable. They are with the operating system. A log that
    /// was forgotten needs nothing.
    ///
    /// After an error nothing is known of what is stable, and the database must stop writing.
    pub fn sync_through(&self, id: FileId, offset: u64) -> Result<()> {
        if self.is_stable(id, offset) {
            return Ok(());
        }
        let _turn = self.turn.lock();
        if self.is_stable(id, offset) {
            return Ok(());
        }
        self.check()?;
        let due: Vec<_> = self.logs.lock().iter().take_while(|log| log.id <= id).cloned().collect();
        due.iter().try_for_each(|log| self.sync_one(log))
    }

    fn is_stable(&self, id: FileId, offset: u64) -> bool {
        let logs = self.logs.lock();
        let Some(log) = logs.iter().find(|log| log.id == id) else {
            assert!(logs.front().is_none_or(|oldest| id < oldest.id), "log {id} does not exist");
            return true;
        };
        assert!(offset <= log.handed(), "log {id} was not handed over up to {offset}");
        log.mark() >= offset.max(HEADER_BYTES)
    }

    /// Syncs what was written to the operating system of `log`; all earlier ones are done.
    fn sync_one(&self, log: &LiveLog) -> Result<()> {
        // Captured before the sync: bytes appended while it runs may or may not be covered.
        let handed = log.handed();
        if log.mark() < handed {
            if !mutant!("skip_log_sync") {
                log.file.sync_data().map_err(|error| self.fail("sync", &log.path, error))?;
                self.counters.log_syncs.add(1);
            }
            if !log.named.load(Ordering::Relaxed) {
                if !mutant!("skip_log_dir_sync") {
                    self.fs.sync_dir(&self.dir).map_err(|error| self.fail("sync", &self.dir, error))?;
                }
                log.named.store(true, Ordering::Relaxed);
            }
            log.raise_mark(handed);
        }
        // `register` makes the same step, under the same lock, for a log that joins after this.
        let logs = self.logs.lock();
        if log.is_done()
            && let Some(next) = logs.iter().find(|other| other.id > log.id)
        {
            next.raise_mark(1);
        }
        Ok(())
    }

    /// The logs that are not forgotten, with the lengths of those that are sealed.
    pub fn live(&self) -> Vec<(FileId, Option<u64>)> {
        let logs = self.logs.lock();
        logs.iter().map(|log| (log.id, log.is_sealed().then(|| log.handed()))).collect()
    }

    /// The logs that are closed and not forgotten, oldest first, with their lengths, of which it is told where their values lie.
    pub fn closed(&self) -> Vec<(FileId, u64, Arc<ValuePlaces>)> {
        let logs = self.logs.lock();
        let closed = logs.iter().filter(|log| log.is_sealed());
        closed.filter_map(|log| Some((log.id, log.handed(), log.places.get()?.clone()))).collect()
    }

    /// A flush leaves values in these logs.
    pub fn are_used(&self, ids: &[FileId]) {
        for log in self.logs.lock().iter().filter(|log| ids.contains(&log.id)) {
            log.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to remember of the `nth` log where its values lie. To do so takes a twentieth of the time of a small put, so where
    /// logs go unused, few are tried.
    pub(super) fn is_worth_telling(&self, nth: u64) -> bool {
        self.unused.load(Ordering::Relaxed) < UNUSED_LOGS || nth.is_multiple_of(TRIED_SHARE)
    }

    /// The logs that are not forgotten, oldest first, with what was written to the operating system.
    pub fn sizes(&self) -> Vec<(FileId, u64)> {
        self.logs.lock().iter().map(|log| (log.id, log.handed())).collect()
    }

    /// Bytes written to the logs that are not forgotten.
    pub fn appended(&self) -> u64 {
        self.logs.lock().iter().map(|log| log.handed()).sum()
    }

    /// Forgets the logs before `id`: recovery will not read them, a synced edit says so. Never the log that is written.
    pub fn forget_below(&self, id: FileId) {
        let mut logs = self.logs.lock();
        assert!(logs.back().is_none_or(|current| id <= current.id), "the current log cannot be forgotten");
        let first = logs.iter().position(|log| log.id >= id).unwrap_or(logs.len());
        for log in logs.drain(..first).filter(|log| log.places.get().is_some()) {
            let unused =
                if log.is_used.load(Ordering::Relaxed) { 0 } else { self.unused.load(Ordering::Relaxed) + 1 };
            self.unused.store(unused, Ordering::Relaxed);
        }
        if let Some(oldest) = logs.front() {
            oldest.raise_mark(1);
        }
    }

    /// The first failure of an append or a sync, after which nothing is written any more.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: Arc::new(cause.clone()) }),
        }
    }

    /// Records a failure that leaves the storage in doubt, and returns it.
    pub(super) fn fail(&self, operation: &'static str, path: &Path, source: std::io::Error) -> Error {
        let error = Error::io(operation, path, source);
        // Only the first is kept: the later ones follow from it.
        let _ = self.failure.set(error.clone());
        error
    }

    /// Adds the log that will be written from now on. The first one of an open says nothing of logs before it until it is synced: the
    /// open may end before its edit, and then what was copied to this log is still needed where it was.
    pub(super) fn register(&self, log: Arc<LiveLog>) {
        let mut logs = self.logs.lock();
        if logs.back().is_some_and(|previous| previous.is_done()) {
            log.raise_mark(1);
        }
        debug_assert!(logs.back().is_none_or(|previous| previous.id < log.id), "logs ascend");
        logs.push_back(log);
    }

    pub(super) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn path(&self, id: FileId) -> PathBuf {
        names::log(&self.dir, id)
    }

    /// Bytes that are free where `path` lies.
    pub(super) fn free_space(&self, path: &Path) -> Result<u64> {
        self.fs.free_space(&self.dir).map_err(|error| Error::io("ask for the free space around", path, error))
    }
}
