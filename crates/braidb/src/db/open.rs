//! Opening a database: take the lock, read the manifest, find the slow tiers, check the files, recover, and start a new log.

use super::database::Db;
use super::directory::{hold, sync_ancestors};
use super::engine::Engine;
use super::listing::Listing;
use super::options::Options;
use super::recover::{Recovered, Recovery};
use super::tiers::{self, Purpose, Tiers};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::report::Cut;
use crate::base::tiers::TierDirs;
use crate::cache::BlockCache;
use crate::jobs::tiers::Share;
use crate::jobs::{JobOptions, Jobs, Orphans, Parts};
use crate::log::{HEADER_BYTES, LogSync, LogWriter};
use crate::memory::view::{View, ViewCell};
use crate::plan::tree::MoveTimes;
use crate::read::UsualLengths;
use crate::version::{
    Change, CommitError, DirLock, Edit, Found, Manifest, ManifestConfig, Opened, TableStore, examine,
};
use crate::visible::snapshots::Snapshots;
use crate::write::pressure::Marks;
use crate::write::{CommitQueue, FlushQueue, Health, MemoryRoom, Pressure, Shared};
use braidb_storage::Env;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next open in this process.
static IDENTITY: AtomicU64 = AtomicU64::new(1);

impl Options {
    /// Opens the database in the directory `path`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-oopen-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let refused = braidb::Options::new().create_if_missing(false).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::Missing { .. })));
    /// let refused = braidb::Options::new().memtable_bytes(1).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::InvalidOption { option: "memtable_bytes", .. })));
    /// let refused = braidb::Options::new().open_files(15).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::InvalidOption { option: "open_files", .. })));
    /// let db = braidb::Options::new().open(&dir)?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] names an option that cannot work. [`Error::Locked`]: the database is open elsewhere.
    /// [`Error::Missing`], [`Error::NotADatabase`], [`Error::Tier`], [`Error::Unsupported`], [`Error::Corruption`] and [`Error::Io`] name
    /// the file or directory.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        open(path.as_ref(), self)
    }
}

/// Opens the database in `dir`. The options were checked before.
fn open(dir: &Path, options: Options) -> Result<Db> {
    tiers::check_apart(dir, &options.slow_paths)?;
    let mut env = options.env_or_real();
    if env.runtime.is_forked() {
        let why = "its threads are missing in this process, which was forked after they started; make a new `Env` here";
        return Err(Error::InvalidOption { option: "env", why: why.to_owned() });
    }
    let found = examine(env.fs.as_ref(), dir).map_err(|error| locked_or(&env, dir, error))?;
    if found == Found::Nothing && !options.create_if_missing {
        return Err(Error::Missing { path: dir.to_owned() });
    }
    env.fs.create_dir_all(dir).map_err(|error| Error::io("create the directory", dir, error))?;
    if found == Found::Nothing {
        sync_ancestors(&env, dir).map_err(|error| Error::io("sync the directories above", dir, error))?;
    }
    let whole = env.clone();
    hold(&mut env, dir)?;
    let process = env.fs.process().map_err(|error| Error::io("watch for forks with", dir, error))?;
    let lock = DirLock::take(env.fs.as_ref(), dir)?;
    // Before this process had the lock, another one may have created a database here, or replaced the directory.
    let found = examine(env.fs.as_ref(), dir)?;
    if found == Found::Nothing && !options.create_if_missing {
        return Err(Error::Missing { path: dir.to_owned() });
    }
    let engine = Opening::new(dir, env, options).run(found, lock, &whole)?;
    Ok(Db::from_engine(Arc::new(engine), process))
}

/// Returns `Locked` in place of `error` if the database is open: its owner may be changing the directory at this moment.
fn locked_or(env: &Env, dir: &Path, error: Error) -> Error {
    let has_lock = env.fs.open(&dir.join(names::LOCK)).is_ok();
    match has_lock.then(|| DirLock::take(env.fs.as_ref(), dir)) {
        Some(Err(locked @ Error::Locked { .. })) => locked,
        _ => error,
    }
}

/// The manifest that an open started, the slow tiers if there are any, and what tables share.
struct Start {
    opened: Opened,
    tiers: Option<Tiers>,
    tables: Arc<TableStore>,
    lock: Arc<DirLock>,
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

    /// Opens the database. `whole` has the whole file system.
    fn run(mut self, found: Found, lock: DirLock, whole: &Env) -> Result<Engine> {
        let Start { opened, tiers, tables, lock } = self.start(found, lock, whole)?;
        tables.reserve();
        let Opening { dir, env, options, counters, .. } = &self;
        let Opened { mut state, mut manifest, numbers: files, torn } = opened;
        let listing = Listing::read(env, tables.dirs())?;
        let tables_left = state.check_tables(tables.dirs(), &listing.tables)?;
        state.check_bodies(dir, &listing.logs)?;
        let value_files = state.check_value_files(tables.dirs(), &listing.value_files)?;
        let orphans = Orphans { tables: tables_left, value_files };
        if let Some(tiers) = &tiers {
            tiers.announce(&orphans)?;
        }

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
        if let Some(tiers) = &tiers {
            tiers.add_to(&mut edit, &state);
        }
        let committed = manifest.commit(&state, edit);
        // The tables that the edit names must stay, unless the edit is certainly not on disk.
        if !matches!(committed, Err(CommitError::Refused(_))) {
            recovered.outputs.keep();
        }
        let state = committed.map_err(CommitError::into_error)?;
        let move_times = tiers.as_ref().map(Tiers::move_times).unwrap_or_default();
        let named_tiers = tiers.as_ref().map(Tiers::named).unwrap_or_default();
        if let Some(tiers) = &tiers {
            tiers.confirm()?;
            tables.heat().start();
        }
        let mut families = recovered.families;
        for (id, family) in state.families() {
            families[id.0 as usize].version = family.version.clone();
        }

        let runtime = env.runtime.clone();
        let shared = Shared {
            view: Arc::new(ViewCell::new(View::default())),
            snapshots: Arc::new(Snapshots::new(recovered.last_seq)),
            health: Arc::new(Health::default()),
            pressure: Arc::new(Pressure::new(self.marks(), env.clock.clone(), runtime, counters.clone())),
            flushes: Arc::new(FlushQueue::default()),
            log_sync,
            dir_lock: lock,
            files,
            counters: counters.clone(),
        };
        let room = shared.for_room(env.random.clone());
        let room = MemoryRoom::new(options.memory_limits(), families, room);
        let (last_seq, logs_by_seq) = (recovered.last_seq, recovered.logs_by_seq);
        let recent_puts = self.options.tuning.gap_puts;
        let of_queue = shared.clone();
        let queue =
            CommitQueue::new(room, merge_reserve_bytes, recent_puts, log, last_seq, logs_by_seq, of_queue);
        let queue = Arc::new(queue);
        let parts = Parts {
            dir: dir.clone(),
            env: env.clone(),
            options: JobOptions { named_tiers, ..self.job_options(merge_reserve_bytes, move_times) },
            shared: shared.clone(),
            queue: queue.clone(),
            tables,
        };
        let jobs = Arc::new(Jobs::new(parts, manifest, state, listing.logs, new_log));
        jobs.collect_after_open(&orphans, &recovered.superseded);
        jobs.schedule();
        Ok(Engine {
            identity: IDENTITY.fetch_add(1, Ordering::Relaxed),
            recovery: recovered.report,
            shared,
            clock: env.clock.clone(),
            queue,
            jobs,
            scan_lengths: UsualLengths::default(),
            closing: braidb_storage::locks::Mutex::default(),
            dir: self.dir,
            options: self.options,
            cache: self.cache,
        })
    }

    /// Reads the manifest, finds the slow tiers, and starts a new manifest. From here on `self.env` has the directories of all tiers.
    fn start(&mut self, found: Found, lock: DirLock, whole: &Env) -> Result<Start> {
        let store = |env: &Env, dirs: TierDirs| {
            let (cache, counters) = (self.cache.clone(), self.counters.clone());
            TableStore::new(env.fs.clone(), dirs, cache, counters, self.options.open_files)
        };
        let (dir, fast) = (self.dir.as_path(), self.env.fs.clone());
        let read = |tables: &Arc<TableStore>| match found {
            Found::Database => Manifest::read(fast.as_ref(), dir, tables.clone()).map(Some),
            Found::Nothing => Ok(None),
        };
        let mut tables = store(&self.env, TierDirs::from(dir));
        let mut known = read(&tables)?;
        let state = known.as_ref().map(|(state, _)| state);
        let mut tiers = tiers::find(whole, dir, &self.options.slow_paths, state, Purpose::Open)?;
        let (mut env, mut lock, mut first) = (self.env.clone(), lock, Edit::default());
        if let Some(tiers) = &mut tiers {
            env.fs = tiers.route(dir, fast.clone());
            lock = lock.with_slow(tiers.take_locks());
            first = tiers.first_edit();
            // The tables of the first reading have no paths on slow tiers.
            tables = store(&env, tiers.dirs().clone());
            known = read(&tables)?;
        }
        let lock = Arc::new(lock);
        let config = ManifestConfig {
            fs: env.fs.clone(),
            dir: dir.to_owned(),
            lock: lock.clone(),
            counters: self.counters.clone(),
            tables: tables.clone(),
            manifest_bytes: self.options.tuning.manifest_bytes,
        };
        let opened = match known {
            Some(known) => Manifest::resume(config, known, &first)?,
            None => Manifest::create(config, &first)?,
        };
        self.env = env;
        Ok(Start { opened, tiers, tables, lock })
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
        let files = listing.tables.iter().chain(&listing.value_files);
        let files = files.filter(|file| file.tier == TierId::FAST).map(|file| file.bytes);
        let used: u64 = listing.logs.iter().map(|&(_, bytes)| bytes).chain(files).sum();
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

    fn job_options(&self, merge_reserve_bytes: u64, move_times: MoveTimes) -> JobOptions {
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
            share: Share { percent: self.options.fast_share, bytes: self.options.fast_bytes },
            move_times,
            named_tiers: BTreeSet::new(),
            background_merges: self.options.background_merges,
        }
    }
}
