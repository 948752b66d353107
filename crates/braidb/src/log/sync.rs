//! Making logs stable, oldest first.
//!
//! [`LogSync`] knows every log that was begun since the database was opened and that recovery would still read. The writer, under the
//! commit lock, reports how much it has written to the operating system. Any thread may ask to make a position stable. One thread syncs at
//! a time. The other threads wait for it and mostly find their position done. Appends go on meanwhile.
//!
//! Each log has a *synced mark* (see the module's head), which the writer copies into every frame. The mark rises only after the sync
//! returned, so a frame never claims too much.
//!
//! A failed sync or append is final. The state of the storage is unknown then, and a second sync may answer "done" for pages that the
//! kernel dropped. [`LogSync::failure`] keeps the cause; every later call answers [`Error::Poisoned`].

use super::frame::HEADER_BYTES;
use super::places::{MOST_FLUSH_LOG_BYTES, ValuePlaces};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::foreground::ForegroundMutex;
use crate::base::ids::FileId;
use crate::base::mutant::mutant;
use crate::base::names;
use braidb_storage::foreground::{self, Slow};
use braidb_storage::locks::Mutex;
use braidb_storage::{File, FileSystem};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// After this many logs in a row in which no flush left a value, the writer notes the places of values in only one log of [`TRIED_SHARE`].
const UNUSED_LOGS: u32 = 8;
/// Once flushes left no value in [`UNUSED_LOGS`] logs, the writer notes the places of values in one log of 8. Small puts to the other
/// logs take a twentieth less time.
const TRIED_SHARE: u64 = 8;
/// After this many flushes in a row with logs of more than [`MOST_FLUSH_LOG_BYTES`], the writer notes no places. Two, so that a single
/// large flush does not end log tables.
const LARGE_FLUSHES: u32 = 2;

/// The logs that were begun since the database was opened, shared by the writer and the threads that sync.
#[derive(Debug)]
pub struct LogSync {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    counters: Arc<Counters>,
    /// Oldest first; the last log is being written. Held for moments only, never across a system call: every commit takes it.
    logs: ForegroundMutex<VecDeque<Arc<LiveLog>>>,
    /// Held by the one thread that syncs, and taken before `logs`. No log is closed under it, because commits with `Durability::Sync` wait
    /// for it.
    turn: ForegroundMutex<()>,
    /// Logs in a row in which no flush left a value.
    unused: AtomicU32,
    /// Flushes in a row whose logs were too large to leave values in them.
    large: AtomicU32,
    failure: OnceLock<Error>,
}

/// Logs that [`LogSync::forget_below`] took out of the list. The drop closes their files. Closing an unlinked log frees its blocks, which
/// takes the kernel up to 100 ms.
#[derive(Debug, Default)]
pub struct Forgotten {
    _logs: Vec<Arc<LiveLog>>,
}

/// A log that was begun since the database was opened.
#[derive(Debug)]
pub(super) struct LiveLog {
    pub id: FileId,
    pub path: PathBuf,
    /// Open until the last byte is stable. A descriptor that is opened later would not report a failed write-back.
    file: Mutex<Option<Arc<dyn File>>>,
    /// Bytes written to the operating system.
    written_bytes: AtomicU64,
    /// Set after the footer, the last bytes, was written to the operating system: `written_bytes` is final.
    sealed: AtomicBool,
    /// Where the log's values lie, if places were kept; set before `sealed`.
    places: OnceLock<ClosedPlaces>,
    /// Whether a flush left values in the log.
    is_used: AtomicBool,
    /// The synced mark, in bytes of this log; 1 covers earlier logs only.
    mark: AtomicU64,
    /// Whether the log's name in the directory is stable. Accessed only by the holder of `turn`.
    named: AtomicBool,
    /// Whether the space behind the footer was given back. Accessed only by the holder of `turn`.
    is_cut: AtomicBool,
}

/// The places of a log's values. The first reader sorts them, because the writer seals a log under the commit lock.
#[derive(Debug)]
struct ClosedPlaces {
    unsorted: Mutex<Option<ValuePlaces>>,
    sorted: OnceLock<Arc<ValuePlaces>>,
}

impl ClosedPlaces {
    fn new(places: ValuePlaces) -> ClosedPlaces {
        ClosedPlaces { unsorted: Mutex::new(Some(places)), sorted: OnceLock::new() }
    }

    fn get(&self) -> Option<Arc<ValuePlaces>> {
        let mut unsorted = self.unsorted.lock();
        if let Some(places) = unsorted.take() {
            self.sorted.get_or_init(|| Arc::new(places.close()));
        }
        self.sorted.get().cloned()
    }
}

impl LiveLog {
    pub fn new(id: FileId, path: PathBuf, file: Arc<dyn File>) -> LiveLog {
        LiveLog {
            id,
            path,
            file: Mutex::new(Some(file)),
            written_bytes: AtomicU64::new(0),
            sealed: AtomicBool::new(false),
            places: OnceLock::new(),
            is_used: AtomicBool::new(false),
            mark: AtomicU64::new(0),
            named: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Takes the file of a log that is done, for the caller to close. The writer dropped its own handle before it sealed the log.
    fn take_file(&self) -> Option<Arc<dyn File>> {
        debug_assert!(self.is_done(), "a sync of a file that was opened again misses a failed write-back");
        self.file.lock().take()
    }

    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Acquire)
    }

    /// Adds `bytes` that were written to the operating system.
    pub fn add_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Release);
    }

    pub fn set_sealed(&self, places: Option<ValuePlaces>) {
        if let Some(places) = places {
            self.places.get_or_init(|| ClosedPlaces::new(places));
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

    /// Whether no byte of the log will ever need a sync.
    fn is_done(&self) -> bool {
        // `is_sealed` first: `written_bytes` is final once the log is sealed.
        self.is_sealed() && self.mark() == self.written_bytes()
    }
}

impl LogSync {
    /// Starts without logs. `dir` is the directory of the logs.
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path, counters: Arc<Counters>) -> LogSync {
        LogSync {
            fs,
            dir: dir.to_owned(),
            counters,
            logs: ForegroundMutex::default(),
            turn: ForegroundMutex::default(),
            unused: AtomicU32::new(0),
            large: AtomicU32::new(0),
            failure: OnceLock::new(),
        }
    }

    /// Makes the first `offset` bytes of log `id`, and all earlier logs, stable. The bytes were written to the operating system before.
    /// Does nothing for a log that was forgotten.
    ///
    /// After an error it is unknown which bytes are stable, and the database must stop writing.
    pub fn sync_through(&self, id: FileId, offset: u64) -> Result<()> {
        self.sync_and_keep(id, offset, &mut Vec::new())
    }

    /// Like [`LogSync::sync_through`], but adds the files of logs that need no further sync to `done`. A caller that holds a lock for which
    /// puts wait closes them after it has released the lock.
    pub fn sync_and_keep(&self, id: FileId, offset: u64, done: &mut Vec<Arc<dyn File>>) -> Result<()> {
        if self.is_stable(id, offset) {
            return Ok(());
        }
        // The caller holds no lock that puts wait for, or is a commit in `Sync`.
        foreground::check(Slow::Sync);
        let _turn = self.turn.lock();
        let _allowed = foreground::allow(&[Slow::Sync, Slow::Unmap]);
        if self.is_stable(id, offset) {
            return Ok(());
        }
        self.check()?;
        let due: Vec<_> = self.logs.lock().iter().take_while(|log| log.id <= id).cloned().collect();
        due.iter().try_for_each(|log| self.sync_one(log, done))
    }

    fn is_stable(&self, id: FileId, offset: u64) -> bool {
        let logs = self.logs.lock();
        let Some(log) = logs.iter().find(|log| log.id == id) else {
            assert!(logs.front().is_none_or(|oldest| id < oldest.id), "log {id} does not exist");
            return true;
        };
        assert!(
            offset <= log.written_bytes(),
            "log {id} was not written to the operating system up to {offset}"
        );
        log.mark() >= offset.max(HEADER_BYTES)
    }

    /// Syncs the bytes of `log` that were written to the operating system. All earlier logs are done. If `log` is done now too, adds its
    /// file to `done`.
    fn sync_one(&self, log: &LiveLog, done: &mut Vec<Arc<dyn File>>) -> Result<()> {
        // `is_sealed` first: `written_bytes` is final once the log is sealed.
        let is_sealed = log.is_sealed();
        // Read before the sync: bytes appended while the sync runs may or may not be covered.
        let written_bytes = log.written_bytes();
        if log.mark() < written_bytes {
            let file = log.file.lock().clone().expect("open until the log is done");
            if is_sealed && !log.is_cut.swap(true, Ordering::Relaxed) {
                // Zeros may stand behind a footer, so a cut that fails, or is lost in a crash, costs only space.
                let _ = file.truncate(written_bytes);
            }
            if !mutant!("skip_log_sync") {
                file.sync_data().map_err(|error| self.fail("sync", &log.path, error))?;
                self.counters.log_syncs.add(1);
            }
            if !log.named.load(Ordering::Relaxed) {
                if !mutant!("skip_log_dir_sync") {
                    self.fs.sync_dir(&self.dir).map_err(|error| self.fail("sync", &self.dir, error))?;
                }
                log.named.store(true, Ordering::Relaxed);
            }
            log.raise_mark(written_bytes);
        }
        // Raises the mark of the next log. If the next log is added later, `register` does this, also under the lock of `logs`.
        let logs = self.logs.lock();
        let is_done = log.is_done();
        if is_done && let Some(next) = logs.iter().find(|other| other.id > log.id) {
            next.raise_mark(1);
        }
        drop(logs);
        if is_done {
            done.extend(log.take_file());
        }
        Ok(())
    }

    /// The logs that are not forgotten, each with its length if it is sealed.
    pub fn live(&self) -> Vec<(FileId, Option<u64>)> {
        let logs = self.logs.lock();
        logs.iter().map(|log| (log.id, log.is_sealed().then(|| log.written_bytes()))).collect()
    }

    /// The closed logs with places that are not forgotten, oldest first: id, length, places.
    pub fn closed(&self) -> Vec<(FileId, u64, Arc<ValuePlaces>)> {
        let logs: Vec<Arc<LiveLog>> = self.logs.lock().iter().cloned().collect();
        let closed = logs.iter().filter(|log| log.is_sealed());
        closed.filter_map(|log| Some((log.id, log.written_bytes(), log.places.get()?.get()?))).collect()
    }

    /// Records that a flush leaves values in the logs `ids`.
    pub fn are_used(&self, ids: &[FileId]) {
        for log in self.logs.lock().iter().filter(|log| ids.contains(&log.id)) {
            log.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Records that a flush takes all memory of a family whose logs have `log_bytes`.
    pub fn flush_took(&self, log_bytes: u64) {
        let large = if log_bytes > MOST_FLUSH_LOG_BYTES {
            self.large.load(Ordering::Relaxed).saturating_add(1)
        } else {
            0
        };
        self.large.store(large, Ordering::Relaxed);
    }

    /// Whether the writer of the `nth` log notes where each value lies, for a flush that may leave values in the log. Noting takes a
    /// twentieth of the time of a small put. Nothing is noted while the logs of flushes are too large. While flushes leave no value in
    /// any log for another reason, only one log in [`TRIED_SHARE`] is noted.
    pub(super) fn is_worth_telling(&self, nth: u64) -> bool {
        let is_used = self.unused.load(Ordering::Relaxed) < UNUSED_LOGS || nth.is_multiple_of(TRIED_SHARE);
        self.large.load(Ordering::Relaxed) < LARGE_FLUSHES && is_used
    }

    /// The logs that are not forgotten, oldest first, with the bytes written to the operating system.
    pub fn sizes(&self) -> Vec<(FileId, u64)> {
        self.logs.lock().iter().map(|log| (log.id, log.written_bytes())).collect()
    }

    /// Bytes written to the logs that are not forgotten.
    pub fn appended(&self) -> u64 {
        self.logs.lock().iter().map(|log| log.written_bytes()).sum()
    }

    /// Forgets the logs before `id`: a synced edit says that recovery will not read them. The current log is never forgotten. The caller
    /// holds no lock that puts wait for.
    #[must_use = "the logs are closed after they are unlinked"]
    pub fn forget_below(&self, id: FileId) -> Forgotten {
        // Under `turn` no thread that syncs holds a log.
        let forgotten = {
            let _turn = self.turn.lock();
            self.take_below(id)
        };
        for log in forgotten.iter().filter(|log| log.places.get().is_some()) {
            let unused =
                if log.is_used.load(Ordering::Relaxed) { 0 } else { self.unused.load(Ordering::Relaxed) + 1 };
            self.unused.store(unused, Ordering::Relaxed);
        }
        Forgotten { _logs: forgotten }
    }

    /// Takes the logs before `id` out of the list.
    #[must_use = "the logs are closed after the locks"]
    fn take_below(&self, id: FileId) -> Vec<Arc<LiveLog>> {
        let mut logs = self.logs.lock();
        assert!(logs.back().is_none_or(|current| id <= current.id), "the current log cannot be forgotten");
        let first = logs.iter().position(|log| log.id >= id).unwrap_or(logs.len());
        let forgotten = logs.drain(..first).collect();
        if let Some(oldest) = logs.front() {
            oldest.raise_mark(1);
        }
        forgotten
    }

    /// The first failure of an append or a sync. Nothing is written after it.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: Arc::new(cause.clone()) }),
        }
    }

    /// Records a failure that leaves the state of the storage unknown, and returns it.
    pub(super) fn fail(&self, operation: &'static str, path: &Path, source: std::io::Error) -> Error {
        let error = Error::io(operation, path, source);
        // Only the first failure is kept: later ones follow from it.
        let _ = self.failure.set(error.clone());
        error
    }

    /// Adds the log that is written from now on. The mark of the first log says nothing of earlier logs until the log is synced: if opening
    /// the database fails before its edit, the earlier logs are still needed.
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

    /// Free bytes on the device that holds `path`.
    pub(super) fn free_space(&self, path: &Path) -> Result<u64> {
        self.fs.free_space(&self.dir).map_err(|error| Error::io("ask for the free space around", path, error))
    }
}
