//! Opening a database: take the lock, read or create the manifest, check the files, recover, and start a new log.

use super::Db;
use super::engine::Engine;
use super::options::Options;
use super::recover::{Recovered, Recovery};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use crate::base::mutant::mutant;
use crate::base::names::{self, Kind};
use crate::base::report::Cut;
use crate::cache::BlockCache;
use crate::jobs::{JobOptions, Jobs, Orphans, Parts};
use crate::log::{HEADER_BYTES, LogSync, LogWriter};
use crate::memory::view::{View, ViewCell};
use crate::read::UsualLengths;
use crate::version::{
    Change, CommitError, DirLock, Found, Manifest, ManifestConfig, Opened, TableStore, examine,
};
use crate::visible::snapshots::Snapshots;
use crate::write::pressure::Marks;
use crate::write::queue::Shared;
use crate::write::{CommitQueue, FlushQueue, Health, MemoryRoom, Pressure, RoomParts};
use braidb_storage::Env;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next open in this process.
static IDENTITY: AtomicU64 = AtomicU64::new(1);

/// Opens the database in `dir`. The options were checked before.
pub(crate) fn open(dir: &Path, options: Options) -> Result<Db> {
    let mut env = options.env_or_real();
    let found = examine(env.fs.as_ref(), dir).map_err(|error| locked_or(&env, dir, error))?;
    if found == Found::Nothing && !options.create_if_missing {
        return Err(Error::Missing { path: dir.to_owned() });
    }
    env.fs.create_dir_all(dir).map_err(|error| Error::io("create the directory", dir, error))?;
    if found == Found::Nothing {
        sync_ancestors(&env, dir).map_err(|error| Error::io("sync the directories above", dir, error))?;
    }
    hold(&mut env, dir)?;
    let lock = DirLock::take(env.fs.as_ref(), dir)?;
    // Before this process had the lock, another one may have created a database here, or replaced the directory.
    let found = examine(env.fs.as_ref(), dir)?;
    if found == Found::Nothing && !options.create_if_missing {
        return Err(Error::Missing { path: dir.to_owned() });
    }
    let engine = Opening::new(dir, env, options).run(found, lock)?;
    Ok(Db::from_engine(Arc::new(engine)))
}

/// Makes the names of the directory and of all directories above it stable. A killed process may have created them without a sync. A
/// power failure would then take them, with everything in them.
fn sync_ancestors(env: &Env, dir: &Path) -> io::Result<()> {
    for parent in dir.ancestors().skip(1) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match env.fs.sync_dir(parent) {
            // This user has not created a directory that this user may not open.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Binds `env.fs` to the directory that `dir` leads to now: all files are opened there from here on. Another process may have replaced
/// the directory after its ancestors were synced. Its name is then as stable as the other process made it, and nothing that this
/// process writes depends on it.
pub(super) fn hold(env: &mut Env, dir: &Path) -> Result<()> {
    env.fs = env.fs.hold_dir(dir).map_err(|error| Error::io("open the directory", dir, error))?;
    Ok(())
}

/// Returns `Locked` in place of `error` if the database is open: its owner may be changing the directory at this moment.
fn locked_or(env: &Env, dir: &Path, error: Error) -> Error {
    let has_lock = env.fs.open(&dir.join(names::LOCK)).is_ok();
    match has_lock.then(|| DirLock::take(env.fs.as_ref(), dir)) {
        Some(Err(locked @ Error::Locked { .. })) => locked,
        _ => error,
    }
}

/// The logs, tables and value files of a database directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub logs: Vec<(FileId, u64)>,
    pub tables: Vec<(FileId, u64)>,
    pub value_files: Vec<(FileId, u64)>,
}

impl Listing {
    /// The ids of the logs, ascending.
    pub fn log_ids(&self) -> Vec<FileId> {
        self.logs.iter().map(|(id, _)| *id).collect()
    }

    pub fn read(env: &Env, dir: &Path) -> Result<Listing> {
        let mut listing = Listing::default();
        let entries = env.fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            match names::parse(&entry.name) {
                Some(Kind::Log(id)) => {
                    listing.logs.extend(length(env, &names::log(dir, id))?.map(|bytes| (id, bytes)))
                }
                Some(Kind::Table(id)) => {
                    let path = names::table(dir, id);
                    listing.tables.extend(length(env, &path)?.map(|bytes| (id, bytes)));
                }
                Some(Kind::Values(id)) => {
                    let path = names::values(dir, id);
                    listing.value_files.extend(length(env, &path)?.map(|bytes| (id, bytes)));
                }
                Some(Kind::Manifest(_) | Kind::Current | Kind::CurrentTmp | Kind::Lock) | None => {}
            }
        }
        listing.logs.sort_unstable();
        Ok(listing)
    }
}

/// The length of a file. `None` if the file is gone: the last reader of a database that was closed just now deleted it.
fn length(env: &Env, path: &Path) -> Result<Option<u64>> {
    match env.fs.open(path).and_then(|file| file.len()) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path, error)),
    }
}

/// The recovered state, and the log that is written from now on.
struct Begun {
    recovered: Recovered,
    log: LogWriter,
    log_sync: Arc<LogSync>,
}

/// The shared parts of an engine that is being opened.
struct Opening {
    dir: std::path::PathBuf,
    env: Env,
    options: Options,
    counters: Arc<Counters>,
    cache: Arc<BlockCache>,
}

impl Opening {
    fn new(dir: &Path, env: Env, options: Options) -> Opening {
        let counters = Arc::new(Counters::default());
        let cache = Arc::new(BlockCache::new(options.block_cache_bytes));
        Opening { dir: dir.to_owned(), env, options, counters, cache }
    }

    fn run(self, found: Found, lock: DirLock) -> Result<Engine> {
        let lock = Arc::new(lock);
        let Opening { dir, env, options, counters, cache } = &self;
        let listing = Listing::read(env, dir)?;
        let tables =
            TableStore::new(env.fs.clone(), dir, cache.clone(), counters.clone(), options.open_files);
        let config = ManifestConfig {
            fs: env.fs.clone(),
            dir: dir.clone(),
            lock: lock.clone(),
            counters: counters.clone(),
            tables: tables.clone(),
            manifest_bytes: options.tuning.manifest_bytes,
        };
        let Opened { mut state, mut manifest, numbers: files, torn } = match found {
            Found::Database => Manifest::open(config)?,
            Found::Nothing => Manifest::create(config)?,
        };
        let tables_left = state.check_tables(dir, &listing.tables)?;
        state.check_bodies(dir, &listing.logs)?;
        let value_files = state.check_value_files(dir, &listing.value_files)?;
        let orphans = Orphans { tables: tables_left, value_files };

        let logs = listing.log_ids();
        let merge_reserve_bytes = self.merge_reserve_bytes(&listing)?;
        let recovery = || Recovery::new(dir, env, options, &state, files.clone(), counters.clone());
        let begun = match self.begin(recovery(), &logs, files.take(), &lock) {
            // A full disk must not prevent an open, since deletes can make room (rule 15).
            Err(error) if error.is_full() => self.begin(recovery().in_place(), &logs, files.take(), &lock)?,
            outcome => outcome?,
        };
        let Begun { mut recovered, mut log, log_sync } = begun;
        log.set_reserve_bytes(merge_reserve_bytes);
        let new_log = log.id();
        recovered.report.manifest_cut = torn.map(|torn| Cut {
            path: torn.path,
            offset: torn.offset,
            bytes: torn.bytes,
            whole_frames_behind: 0,
        });

        recovered.complete_edit(new_log);
        if mutant!("sequence_reused") {
            recovered.last_seq = state.last_seq();
        }
        let mut edit = std::mem::take(&mut recovered.edit);
        edit.push(Change::LastSeq(recovered.last_seq));
        let committed = manifest.commit(&state, edit);
        // The tables that the edit names must stay, unless the edit is certainly not on disk.
        if !matches!(committed, Err(CommitError::Refused(_))) {
            recovered.outputs.keep();
        }
        let state = committed.map_err(CommitError::into_error)?;
        let mut families = recovered.families;
        for (id, family) in state.families() {
            families[id.0 as usize].version = family.version.clone();
        }

        let snapshots = Arc::new(Snapshots::new(recovered.last_seq));
        let health = Arc::new(Health::default());
        let runtime = env.runtime.clone();
        let pressure = Arc::new(Pressure::new(self.marks(), env.clock.clone(), runtime, counters.clone()));
        let view = Arc::new(ViewCell::new(View::default()));
        let shared = Shared {
            log_sync: log_sync.clone(),
            snapshots: snapshots.clone(),
            health: health.clone(),
            dir_lock: lock.clone(),
            pressure: pressure.clone(),
            files: files.clone(),
            counters: counters.clone(),
        };
        let flushes = Arc::new(FlushQueue::default());
        let room = RoomParts {
            view: view.clone(),
            pressure: pressure.clone(),
            random: env.random.clone(),
            counters: counters.clone(),
            flushes: flushes.clone(),
        };
        let room = MemoryRoom::new(options.memory_limits(), families, room);
        let (last_seq, logs_by_seq) = (recovered.last_seq, recovered.logs_by_seq);
        let queue = CommitQueue::new(room, merge_reserve_bytes, log, last_seq, logs_by_seq, shared);
        let queue = Arc::new(queue);
        let parts = Parts {
            dir: dir.clone(),
            env: env.clone(),
            options: self.job_options(merge_reserve_bytes),
            queue: queue.clone(),
            flushes,
            log_sync: log_sync.clone(),
            view: view.clone(),
            snapshots: snapshots.clone(),
            health: health.clone(),
            dir_lock: lock.clone(),
            pressure: pressure.clone(),
            files,
            counters: counters.clone(),
            tables,
        };
        let jobs = Arc::new(Jobs::new(parts, manifest, state, listing.logs, new_log));
        jobs.collect_after_open(&orphans, &recovered.superseded);
        jobs.schedule();
        Ok(Engine {
            identity: IDENTITY.fetch_add(1, Ordering::Relaxed),
            recovery: recovered.report,
            snapshots,
            health,
            pressure,
            clock: env.clock.clone(),
            view,
            log_sync,
            queue,
            jobs,
            scan_lengths: UsualLengths::default(),
            lock,
            closing: parking_lot::Mutex::default(),
            dir: self.dir,
            options: self.options,
            counters: self.counters,
            cache: self.cache,
        })
    }

    /// Recovers, and begins the new log with the copies that recovery wants there. On return all recovered records are stable, and so
    /// are the new log's name and header. Only then may the edit name the log. After an error nothing refers to the new log.
    fn begin(
        &self,
        recovery: Recovery<'_>,
        logs: &[FileId],
        new_log: FileId,
        lock: &DirLock,
    ) -> Result<Begun> {
        let Opening { dir, env, counters, .. } = self;
        let recovered = recovery.run(logs)?;
        lock.check()?;
        let log_sync = Arc::new(LogSync::new(env.fs.clone(), dir, counters.clone()));
        // Reserve 0: the reserve is there for what recovery has to write.
        let mut log = LogWriter::create(log_sync.clone(), new_log, recovered.cut, 0)?;
        if self.options.form_options().live_percent > 0 {
            log.tell_places();
        }
        let mut write = || {
            if mutant!("skip_recovery_sync") {
                log_sync.sync_through(new_log, HEADER_BYTES)?;
                return recovered.copy_uncovered(&mut log);
            }
            recovered.copy_uncovered(&mut log)?;
            log_sync.sync_through(new_log, log.end())
        };
        if let Err(error) = write() {
            // If the file stays, the manifest does not name the log, and the next open ignores it.
            let _ = env.fs.unlink(&names::log(dir, new_log));
            return Err(error);
        }
        Ok(Begun { recovered, log, log_sync })
    }

    /// Bytes that puts leave free on the device for a merge (rule 15): L0 at `l0_stop_tables`, the least L1, and two tables. A larger
    /// merge may need more: of a tree with more in L0 and L1, or further down. Such a merge fails and
    /// is tried again. The reserve is at most half of a small device, since no merge writes more than there is.
    fn merge_reserve_bytes(&self, listing: &Listing) -> Result<u64> {
        let free = self.env.fs.free_space(&self.dir);
        let free = free.map_err(|error| Error::io("ask for the free space of", &self.dir, error))?;
        let files = listing.logs.iter().chain(&listing.tables).chain(&listing.value_files);
        let used: u64 = files.map(|(_, bytes)| bytes).sum();
        let memtable = self.options.memtable_bytes as u64;
        let l0 = self.options.tuning.l0_stop_tables as u64 * memtable;
        let merge = l0.saturating_add(self.options.tree_options().base_bytes);
        Ok(merge.saturating_add(2 * self.options.tuning.table_bytes).min(free.saturating_add(used) / 2))
    }

    fn marks(&self) -> Marks {
        let memtable = self.options.memtable_bytes as u64;
        Marks {
            memory_soft_bytes: memtable + memtable / 2,
            memory_hard_bytes: 2 * memtable,
            l0_soft_tables: self.options.tuning.l0_slowdown_tables as u64,
            l0_hard_tables: self.options.tuning.l0_stop_tables as u64,
        }
    }

    fn job_options(&self, merge_reserve_bytes: u64) -> JobOptions {
        JobOptions {
            table: self.options.table_options(0),
            tree: self.options.tree_options(),
            segments: self.options.segment_options(),
            memory: self.options.memory_limits(),
            form: self.options.form_options(),
            values: self.options.value_options(),
            merge_reserve_bytes,
            merges: self.options.background_threads,
            merge_bytes_per_second: self.options.merge_bytes_per_second,
        }
    }
}
