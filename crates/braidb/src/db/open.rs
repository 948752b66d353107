//! Opening a database: take the lock, read the manifest, find the slow tiers, check the files, recover, and start a new log.
//!
//! The steps have the numbers of "The story of an open" in ARCHITECTURE.md. Step 1 is the function `open`.
//!
//! # An open that only reads
//!
//! [`Options::open_read_only`] takes the same steps over a file system that keeps all changes in memory ([`ReadOnly`]). So it finds what the
//! next open would find, and no step can reach the medium. The new manifest, the new log and the tables of recovery are buffers, which end
//! with the handle. The lock is a shared one. Writes are refused as those of a poisoned database are, and jobs end at once.
//! Only a missing `LOCK` is made on the medium, if that is possible.

use super::database::Db;
use super::directory::{hold, sync_ancestors};
use super::engine::Engine;
use super::listing::Listing;
use super::options::Options;
use super::recover::{Recovered, Recovery};
use super::slow_tiers::{self, Purpose, SlowTiers};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, FileIds, SeqNo, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::report::Cut;
use crate::base::tier_dirs::TierDirs;
use crate::cache::BlockCache;
use crate::jobs::tier_room::Share;
use crate::jobs::{JobOptions, Jobs, Orphans, Parts};
use crate::log::{HEADER_BYTES, LogSync, LogWriter};
use crate::memory::view::{View, ViewCell};
use crate::read::UsualLengths;
use crate::version::{
    Change, CommitError, DirLock, Edit, Found, Manifest, ManifestConfig, Opened, TableStore, examine,
};
use crate::visible::snapshots::Snapshots;
use crate::write::pressure::Marks;
use crate::write::{CommitQueue, FlushQueue, Health, MemoryRoom, Pressure, Shared};
use braidb_storage::{Env, ReadOnly};
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
    /// let db = braidb::Options::new().create_new(true).open(&dir)?;
    /// drop(db);
    /// let refused = braidb::Options::new().create_new(true).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::Exists { .. })));
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
    /// [`Error::Missing`], [`Error::Exists`], [`Error::NotADatabase`], [`Error::Tier`], [`Error::Unsupported`], [`Error::Corruption`] and [`Error::Io`] name
    /// the file or directory.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        if self.open_damaged {
            let why = "a damaged database can only be opened to read".to_owned();
            return Err(Error::InvalidOption { option: "open_damaged", why });
        }
        open(path.as_ref(), self, Access::Write)
    }

    /// Opens the database in the directory `path` to read it. Nothing on the device changes, and writing is refused
    /// ([`Error::ReadOnly`]). So this works on a read-only mount, on a full disk, and without permission to write. Many readers may have the
    /// database open at once, in several processes; while one has, no process can write it, and [`Options::open`] answers
    /// [`Error::Locked`].
    ///
    /// A missing `LOCK` is made where that is possible. Where it is not, nothing keeps a writer out: make sure that there is none.
    ///
    /// The database is never created. What a process that died left in the logs is read into memory, which takes as much memory as the
    /// logs have bytes. After a power loss the reader may see writes that the next [`Options::open`] cuts off, because the kernel still
    /// has bytes that the device lost. Do not change the directory while it is open.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-oro-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.close()?;
    /// let reader = braidb::Options::new().open_read_only(&dir)?;
    /// let another = braidb::Options::new().open_read_only(&dir)?;
    /// assert_eq!(reader.get("k")?.unwrap(), b"v");
    /// assert!(matches!(reader.put("k", "w"), Err(braidb::Error::ReadOnly { .. })));
    /// assert!(matches!(braidb::Db::open(&dir), Err(braidb::Error::Locked { .. })));
    /// # drop((db, reader, another)); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Options::open`]. [`Error::Locked`]: a process has the database open to write.
    pub fn open_read_only(self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        if self.create_new {
            let why = "an open that only reads creates nothing".to_owned();
            return Err(Error::InvalidOption { option: "create_new", why });
        }
        let env = self.env_or_real(path.as_ref())?;
        let env = match mutant!("read_only_changes_files") {
            true => env,
            false => Env { fs: Arc::new(ReadOnly::new(env.fs)), ..env },
        };
        let options = self.env(env).create_if_missing(false).background_merges(false);
        open(path.as_ref(), options, Access::Read)
    }
}

/// What an open is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write,
    /// The file system keeps all changes in memory.
    Read,
}

/// Microseconds between two looks at a lock that another open holds: 10 ms. A service notices the end of the process before it within this
/// time, and a look takes some microseconds.
const LOOK_US: u64 = 10_000;

/// Opens the database in `dir`. The options were checked before. While another open has the lock, waits as long as the options say.
fn open(dir: &Path, options: Options, access: Access) -> Result<Db> {
    slow_tiers::check_apart(dir, &options.slow_paths)?;
    let env = options.env_or_real(dir)?;
    let wait_us = u64::try_from(options.wait_for_lock.as_micros()).unwrap_or(u64::MAX);
    let end_us = env.clock.now_us().saturating_add(wait_us);
    loop {
        match open_at_once(dir, env.clone(), options.clone(), access) {
            Err(Error::Locked { .. }) if env.clock.now_us() < end_us => env.runtime.pause_us(LOOK_US),
            outcome => return outcome,
        }
    }
}

fn open_at_once(dir: &Path, mut env: Env, options: Options, access: Access) -> Result<Db> {
    if env.runtime.is_forked() {
        let why = "its threads are missing in this process, which was forked after they started; make a new `Env` here";
        return Err(Error::InvalidOption { option: "env", why: why.to_owned() });
    }
    let found = examine(env.fs.as_ref(), dir).map_err(|error| locked_or(&env, dir, error))?;
    check_found(found, dir, &options)?;
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
    check_found(found, dir, &options)?;
    let engine = Opening::new(dir, env, options, access).run(found, lock, &whole)?;
    Ok(Db::from_engine(Arc::new(engine), process))
}

/// Refuses to create a database, or to open one that exists, if the options say so.
fn check_found(found: Found, dir: &Path, options: &Options) -> Result<()> {
    match found {
        Found::Nothing if !options.create_if_missing && !options.create_new => {
            Err(Error::Missing { path: dir.to_owned() })
        }
        Found::Database if options.create_new => Err(Error::Exists { path: dir.to_owned() }),
        _ => Ok(()),
    }
}

/// Returns `Locked` in place of `error` if the database is open: its owner may be changing the directory at this moment.
fn locked_or(env: &Env, dir: &Path, error: Error) -> Error {
    let has_lock = env.fs.open(&dir.join(names::LOCK)).is_ok();
    match has_lock.then(|| DirLock::take(env.fs.as_ref(), dir)) {
        Some(Err(locked @ Error::Locked { .. })) => locked,
        _ => error,
    }
}

/// The outcome of steps 2 and 3: the new manifest, the slow tiers if there are any, and what all tables share.
struct Start {
    opened: Opened,
    tiers: Option<SlowTiers>,
    tables: Arc<TableStore>,
    lock: Arc<DirLock>,
}

/// The files that an open found, and those that no edit names.
struct Files {
    listing: Listing,
    orphans: Orphans,
    /// Bytes that puts leave free on the device for a merge.
    merge_reserve_bytes: u64,
}

/// The outcome of steps 4 and 5: the recovered memory, and the log that is written from now on.
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
    access: Access,
    counters: Arc<Counters>,
    cache: Arc<BlockCache>,
}

impl Opening {
    fn new(dir: &Path, env: Env, options: Options, access: Access) -> Opening {
        let counters = Arc::new(Counters::default());
        let capacity_bytes = options.cache_bytes(|| env.runtime.memory_bytes());
        let shared_bytes = options.shared_bytes().map(|bytes| bytes as u64);
        let cache = Arc::new(BlockCache::sharing(capacity_bytes, shared_bytes));
        Opening { dir: dir.to_owned(), env, options, access, counters, cache }
    }

    /// Opens the database, from step 2 of the story. `whole` can open any path; `self.env` only reaches the database's directory.
    fn run(mut self, found: Found, lock: DirLock, whole: &Env) -> Result<Engine> {
        let mut start = self.start_manifest(found, lock, whole)?;
        let files = self.check_files(&mut start)?;
        let mut begun = self.recover(&start, &files)?;
        self.commit(&mut start, &mut begun)?;
        Ok(self.start_jobs(start, files, begun, whole))
    }

    /// Steps 2 and 3: reads the manifest, finds the slow tiers, and starts a new manifest. From here on `self.env` reaches the directories
    /// of all tiers.
    fn start_manifest(&mut self, found: Found, lock: DirLock, whole: &Env) -> Result<Start> {
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
        let purpose = match self.access {
            Access::Write => Purpose::Open,
            Access::Read => Purpose::Look,
        };
        let mut tiers = slow_tiers::find(whole, dir, &self.options.slow_paths, state, purpose)?;
        let (mut env, mut lock, mut first) = (self.env.clone(), lock, Edit::default());
        if let Some(tiers) = &mut tiers {
            env.fs = tiers.route(dir, fast.clone());
            lock = lock.with_slow(tiers.take_locks());
            first = tiers.first_edit();
            // The first reading did not know where the tables on slow tiers are, so the manifest is read again.
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

    /// Step 3: fails if a file of the state is missing or too short. Announces the new epoch to the slow tiers.
    fn check_files(&self, start: &mut Start) -> Result<Files> {
        let Start { opened, tiers, tables, .. } = start;
        tables.reserve();
        let (state, dirs) = (&mut opened.state, tables.dirs());
        let listing = Listing::read(&self.env, dirs)?;
        let orphans = match self.options.open_damaged {
            // Reads find what is missing, and name it.
            true => Orphans::default(),
            false => {
                let tables = state.check_tables(dirs, &listing.tables)?;
                state.check_bodies(&self.dir, &listing.logs)?;
                Orphans { tables, value_files: state.check_value_files(dirs, &listing.value_files)? }
            }
        };
        if let Some(tiers) = tiers {
            tiers.announce(&orphans)?;
        }
        let merge_reserve_bytes = self.merge_reserve_bytes(&listing)?;
        Ok(Files { listing, orphans, merge_reserve_bytes })
    }

    /// Steps 4 and 5: recovers, in place if the device is full, and begins the new log.
    fn recover(&self, start: &Start, files: &Files) -> Result<Begun> {
        let Opening { dir, env, options, counters, .. } = self;
        let Opened { state, numbers, .. } = &start.opened;
        let logs = files.listing.log_ids();
        let recovery = || Recovery::new(dir, env, options, state, numbers.clone(), counters.clone());
        let mut begun = match self.begin_log(recovery(), &logs, numbers.take(), &start.lock) {
            // A full disk must not prevent an open, since deletes can make room (rule 15).
            Err(error) if error.is_full() => {
                self.begin_log(recovery().in_place(), &logs, numbers.take(), &start.lock)?
            }
            outcome => outcome?,
        };
        begun.log.set_reserve_bytes(files.merge_reserve_bytes);
        Ok(begun)
    }

    /// Recovers, and begins the new log with the copies that recovery wants there. On return all recovered records are stable, and so
    /// are the new log's name and header. Only then may the edit name the log. After an error nothing refers to the new log.
    fn begin_log(
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
        // A reserve of 0: recovery may use the space that puts leave free.
        let mut log = LogWriter::create(log_sync.clone(), new_log, recovered.cut, 0)?;
        if self.options.form_options().may_leave_values() {
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
            // A failure is harmless: the manifest does not name the log, so the next open ignores the file.
            let _ = env.fs.unlink(&names::log(dir, new_log));
            return Err(error);
        }
        Ok(Begun { recovered, log, log_sync })
    }

    /// Step 6: commits the one edit that makes a database of what was recovered, and confirms the new epoch of the slow tiers.
    fn commit(&self, start: &mut Start, begun: &mut Begun) -> Result<()> {
        let Start { opened, tiers, tables, .. } = start;
        let Begun { recovered, log, .. } = begun;
        recovered.complete_edit(log.id());
        if mutant!("sequence_reused") {
            recovered.last_seq = opened.state.last_seq();
        }
        let mut edit = std::mem::take(&mut recovered.edit);
        edit.push(Change::LastSeq(recovered.last_seq));
        if let Some(tiers) = tiers {
            tiers.add_to(&mut edit, &opened.state);
        }
        let committed = opened.manifest.commit(&opened.state, edit);
        // The tables that the edit names must stay, unless the edit is certainly not on disk.
        if !matches!(committed, Err(CommitError::Refused(_)))
            && let Some(outputs) = recovered.outputs.take()
        {
            outputs.keep();
        }
        opened.state = committed.map_err(CommitError::into_error)?;
        if let Some(tiers) = tiers {
            tiers.confirm()?;
            tables.heat().start();
        }
        for (id, family) in opened.state.families() {
            recovered.families[id.0 as usize].version = family.version.clone();
        }
        Ok(())
    }

    /// Step 7: makes the engine, deletes files that nothing refers to, and starts the jobs.
    fn start_jobs(self, start: Start, files: Files, begun: Begun, whole: &Env) -> Engine {
        let Start { opened, tiers, tables, lock } = start;
        let Opened { state, manifest, numbers, torn } = opened;
        let Files { listing, orphans, merge_reserve_bytes } = files;
        let Begun { recovered, log, log_sync } = begun;
        let mut recovery = recovered.report;
        recovery.manifest_cut = torn.map(|torn| Cut {
            path: torn.path,
            offset: torn.offset,
            bytes: torn.bytes,
            whole_frames_behind: 0,
        });
        let new_log = log.id();
        let shared = self.shared(recovered.last_seq, log_sync, lock, numbers);
        let room = shared.for_room(self.env.random.clone());
        let queue = Arc::new(CommitQueue::new(
            MemoryRoom::new(self.options.memory_limits(), recovered.families, room),
            merge_reserve_bytes,
            self.options.tuning.gap_puts,
            log,
            recovered.last_seq,
            recovered.logs_by_seq,
            shared.clone(),
        ));
        let clock = self.env.clock.clone();
        let parts = Parts {
            dir: self.dir.clone(),
            options: self.job_options(merge_reserve_bytes, tiers.as_ref()),
            env: self.env,
            shared: shared.clone(),
            queue: queue.clone(),
            tables,
        };
        let jobs = Arc::new(Jobs::new(parts, manifest, state, listing.logs, new_log));
        match self.access {
            Access::Read => shared.health.begin_read_only(&self.dir),
            Access::Write => {
                jobs.collect_after_open(&orphans, &recovered.superseded);
                jobs.schedule();
            }
        }
        Engine {
            dir: self.dir,
            whole: whole.fs.clone(),
            options: self.options,
            identity: IDENTITY.fetch_add(1, Ordering::Relaxed),
            recovery,
            shared,
            cache: self.cache,
            clock,
            queue,
            jobs,
            scan_lengths: UsualLengths::default(),
            turns: super::turns::Turns::default(),
            closing: braidb_storage::locks::Mutex::default(),
        }
    }

    fn shared(
        &self,
        last_seq: SeqNo,
        log_sync: Arc<LogSync>,
        dir_lock: Arc<DirLock>,
        files: Arc<FileIds>,
    ) -> Shared {
        let (env, counters) = (&self.env, self.counters.clone());
        let pressure = Pressure::new(self.marks(), env.clock.clone(), env.runtime.clone(), counters.clone());
        Shared {
            view: Arc::new(ViewCell::new(View::default())),
            snapshots: Arc::new(Snapshots::new(last_seq)),
            health: Arc::new(Health::default()),
            pressure: Arc::new(pressure),
            flushes: Arc::new(FlushQueue::default()),
            log_sync,
            dir_lock,
            files,
            counters,
        }
    }

    /// Bytes that puts leave free on the device for a merge (rule 15): `l0_stop_tables` full memtables, the least target of L1, and two
    /// tables. A merge of more data may need more; without it, the merge fails and is tried again. The reserve is at most half of the free
    /// and used bytes together, since no merge writes more than is there.
    fn merge_reserve_bytes(&self, listing: &Listing) -> Result<u64> {
        let free = self.env.fs.free_space(&self.dir);
        let free = free.map_err(|error| Error::io("ask for the free space of", &self.dir, error))?;
        let files = listing.tables.iter().chain(&listing.value_files);
        let files = files.filter(|file| file.tier == TierId::FAST).map(|file| file.bytes);
        let used: u64 = listing.logs.iter().map(|&(_, bytes)| bytes).chain(files).sum();
        let memtable = self.options.full_memory_bytes() as u64;
        let l0 = self.options.tuning.l0_stop_tables as u64 * memtable;
        let merge = l0.saturating_add(self.options.tree_options().base_bytes);
        Ok(merge.saturating_add(2 * self.options.tuning.table_bytes).min(free.saturating_add(used) / 2))
    }

    fn marks(&self) -> Marks {
        let memtable = self.options.full_memory_bytes() as u64;
        Marks {
            memory_soft_bytes: memtable + memtable / 2,
            memory_hard_bytes: 2 * memtable,
            l0_soft_tables: self.options.tuning.l0_slowdown_tables as u64,
            l0_hard_tables: self.options.tuning.l0_stop_tables as u64,
        }
    }

    fn job_options(&self, merge_reserve_bytes: u64, tiers: Option<&SlowTiers>) -> JobOptions {
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
            move_times: tiers.map(SlowTiers::move_times).unwrap_or_default(),
            named_tiers: tiers.map(SlowTiers::named).unwrap_or_default(),
            background_merges: self.options.background_merges,
        }
    }
}
