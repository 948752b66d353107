//! A checkpoint: a second database, in a directory of its own, with what this one holds at one moment.
//!
//! Tables, value files and logs that no open replays never change, so the checkpoint gets second names for them (hard links), which costs
//! no space. A file that cannot be linked is copied: the directory may be on another device. Logs that an open replays are copied, because
//! recovery may write in them.
//!
//! The files of a slow tier go to a directory that the caller names. The new database has an id of its own, which the `TIER` of each new
//! directory tells. So neither of the two databases takes a tier of the other.
//!
//! # Which file holds a record at each instant
//!
//! The database itself is not changed: its files keep their names and bytes, and no edit is made. In the new directories:
//!
//! 1. *Files.* Links and copies appear; copies are synced. There is no `CURRENT`. A crash leaves a directory that an open refuses, or an
//!    empty one.
//! 2. *`TIER`* is written to each new slow directory, which is synced and so makes the names of its files stable. A crash leaves what step 1
//!    leaves: no manifest knows the id in `TIER`.
//! 3. *The manifest* is written and synced with the state of the moment, and then its directory, which makes the names of all files there
//!    stable. A crash leaves what step 1 leaves.
//! 4. *`CURRENT`* is renamed into place, and the directory synced again (`version/manifest`). A crash leaves a directory that is refused, or
//!    the whole checkpoint.
//!
//! # Rule 22: a file with several names is never punched, appended to, or cut
//!
//! Each of the two databases deletes its own names only, and the last one frees the file. A hole would be in both. So a table with a second
//! name keeps its dead blocks, in both databases, until a merge rewrites it. Once one database has deleted its name, the other one punches
//! at its next open, or when another slice of the table dies. Trie tables are ended before they are linked. If a job appends to one now, its
//! bytes up to this moment are copied.

use super::database::Db;
use super::destroy;
use super::directory::sync_ancestors;
use super::engine::Engine;
use super::listing::Listing;
use super::slow_tiers;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{DatabaseId, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::report::CheckpointReport;
use crate::base::tier_dirs::TierDirs;
use crate::jobs::checkpoint::{LogPart, Moment};
use crate::version::{DirLock, Edit, Found, Manifest, ManifestConfig, State, TableStore, TierFile, examine};
use braidb_storage::{Env, File, FileSystem, Routed};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a copy reads at once: 1 MiB. Larger pieces copy no faster.
const COPY_BYTES: u64 = 1 << 20;

impl Db {
    /// Makes a second database in `dir` that holds what this one holds now, while writers go on. `dir` must not exist, or be empty.
    ///
    /// On the device of the database, files are linked and take no further space until the databases differ. On another device they are
    /// copied. Every write that returned before the call is in the checkpoint, with any [`Durability`](crate::Durability), and the
    /// checkpoint is on stable storage when the call returns. The checkpoint is a database like any other: it can be opened, written and
    /// deleted, and neither of the two notices the other. Copy it with any program to make a backup: nothing in it changes while it is
    /// closed.
    ///
    /// Tables with a second name keep their dead blocks until they are rewritten, so delete checkpoints that are not needed any more.
    ///
    /// ```
    /// # let root = std::env::temp_dir().join(format!("braidb-doc-checkpoint-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&root);
    /// # let (dir, monday) = (root.join("db"), root.join("monday"));
    /// let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.checkpoint(&monday)?;
    /// db.put("k", "w")?;
    /// let copy = braidb::Db::open(&monday)?;
    /// assert_eq!(copy.get("k")?.unwrap(), b"v");
    /// # drop((db, copy)); std::fs::remove_dir_all(&root).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Exists`](crate::Error::Exists): `dir` has a database. [`NotADatabase`](crate::Error::NotADatabase): it has other files, or lies
    /// in a directory of the database or around one. [`Tier`](crate::Error::Tier): the database has slow tiers, which need
    /// [`Db::checkpoint_to`]. [`Io`](crate::Error::Io), [`Full`](crate::Error::Full), [`ReadOnly`](crate::Error::ReadOnly),
    /// [`Poisoned`](crate::Error::Poisoned). After an error, what the call made in `dir` is removed as far as possible; the rest does not
    /// open.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_to(dir, &[])
    }

    /// As [`Db::checkpoint`], of a database with slow tiers. `tiers` has a pair for each: its directory, as
    /// [`Stats::tiers`](crate::stats::Stats::tiers) names it, and the directory of the copy's tier, which must not exist, or be empty.
    ///
    /// The copy remembers its directories as they are given here, all absolute or all relative. Open it by the path `dir`, or name its tiers
    /// with [`Options::slow_path`](crate::Options::slow_path).
    ///
    /// ```
    /// # let root = std::env::temp_dir().join(format!("braidb-doc-checkpoint-to-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&root);
    /// # let (dir, slow) = (root.join("db"), root.join("slow"));
    /// # let (monday, slow_monday) = (root.join("monday"), root.join("slow-monday"));
    /// let db = braidb::Options::new().slow_path(&slow).open(&dir)?;
    /// db.put("k", "v")?;
    /// db.checkpoint_to(&monday, &[(&slow, &slow_monday)])?;
    /// assert_eq!(braidb::Db::open(&monday)?.get("k")?.unwrap(), b"v");
    /// # drop(db); std::fs::remove_dir_all(&root).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::checkpoint`]; [`Tier`](crate::Error::Tier) also if a pair does not begin with a slow tier of the database, if a slow tier has
    /// no pair, or if directories are not apart.
    pub fn checkpoint_to(&self, dir: impl AsRef<Path>, tiers: &[(&Path, &Path)]) -> Result<CheckpointReport> {
        let engine = self.engine()?;
        engine.shared.health.check_writable()?;
        let outcome = Checkpoint::begin(engine, dir.as_ref(), tiers)
            .and_then(|checkpoint| checkpoint.make().inspect_err(|_| checkpoint.remove()));
        engine.reader_ended();
        outcome
    }
}

/// A checkpoint that is being made.
struct Checkpoint<'a> {
    engine: &'a Engine,
    /// The new directories: of the database, and of each slow tier.
    dirs: TierDirs,
    /// All new directories, held.
    fs: Arc<dyn FileSystem>,
    /// The locks of all of them.
    lock: Arc<DirLock>,
}

impl<'a> Checkpoint<'a> {
    /// Makes the directories, holds them and locks them. Refuses one that is not empty.
    fn begin(engine: &'a Engine, dir: &Path, tiers: &[(&Path, &Path)]) -> Result<Checkpoint<'a>> {
        let env = Env { fs: engine.whole.clone(), ..engine.jobs.parts.env.clone() };
        let dirs = new_dirs(engine.jobs.parts.tables.dirs(), dir, tiers)?;
        let known = engine.jobs.slow_tiers();
        known.into_iter().try_for_each(|(tier, place)| {
            check_has_directory(&dirs, tier, place.as_deref().unwrap_or(engine.dir()))
        })?;
        dirs.all().try_for_each(|(_, dir)| check_empty(env.fs.as_ref(), dir))?;
        let (mut held, mut slow_locks) = (Vec::new(), Vec::new());
        let (fs, lock) = take(&env, dir)?;
        held.push((dir.to_owned(), fs));
        for dir in dirs.slow().map(|tier| dirs.of(tier)) {
            let (fs, lock) = take(&env, dir)?;
            held.push((dir.to_owned(), fs));
            slow_locks.push(lock);
        }
        let (fs, lock) = (Arc::new(Routed::new(held)), Arc::new(lock.with_slow(slow_locks)));
        Ok(Checkpoint { engine, dirs, fs, lock })
    }

    fn make(&self) -> Result<CheckpointReport> {
        let Moment { state, logs } = self.engine.jobs.moment()?;
        // A tier may have joined meanwhile.
        for tier in state.slow_tiers() {
            check_has_directory(&self.dirs, tier.id, tier.place.unwrap_or(self.engine.dir()))?;
        }
        let mut report = CheckpointReport::default();
        if mutant!("checkpoint_named_first") {
            self.name(&state)?;
        }
        self.take_files(&state, &mut report)?;
        for LogPart { id, bytes, file } in &logs {
            self.copy(&**file, *bytes, &names::log(self.dirs.fast(), *id))?;
            report.files += 1;
            report.copied_bytes += bytes;
        }
        self.check(&state)?;
        // A file may have changed before it was linked if another process opened the database meanwhile. It could do so only after a close, or
        // after the lock was lost.
        self.engine.shared.health.check_writable()?;
        self.engine.shared.dir_lock.check()?;
        self.lock.check()?;
        if !mutant!("checkpoint_named_first") {
            self.name(&state)?;
        }
        Ok(report)
    }

    /// Links or copies all files that the state names, except logs that are replayed.
    fn take_files(&self, state: &State, report: &mut CheckpointReport) -> Result<()> {
        let (jobs, dirs) = (&self.engine.jobs, self.engine.jobs.parts.tables.dirs());
        let fs = &jobs.parts.env.fs;
        for table in state.tables() {
            let (from, to) = (dirs.table(table.tier, table.id), self.dirs.table(table.tier, table.id));
            let linked = jobs.link_table(table, &to);
            self.settle(linked, &from, &to, table.bytes, report)?;
        }
        for (&id, file) in state.value_files() {
            let (from, to) = (dirs.values(file.tier, id), self.dirs.values(file.tier, id));
            let linked = jobs.link_value_file(id, file.tier, &to);
            self.settle(linked, &from, &to, file.bytes, report)?;
        }
        let first = state.min_replay_from();
        for (id, body) in state.log_bodies().into_iter().filter(|(id, _)| *id < first) {
            let (from, to) = (names::log(self.engine.dir(), id), names::log(self.dirs.fast(), id));
            self.settle(fs.link_out(&from, &to), &from, &to, body.file.bytes, report)?;
        }
        Ok(())
    }

    /// Counts a file that was linked, and copies its first `bytes` bytes if it cannot be linked.
    fn settle(
        &self,
        linked: io::Result<()>,
        from: &Path,
        to: &Path,
        bytes: u64,
        report: &mut CheckpointReport,
    ) -> Result<()> {
        report.files += 1;
        match linked {
            Ok(()) => report.linked_bytes += bytes,
            Err(error) if is_unlinkable(error.kind()) => {
                let file = self.engine.jobs.parts.env.fs.open(from);
                let file = file.map_err(|error| Error::io("open", from, error))?;
                self.copy(&*file, bytes, to)?;
                report.copied_bytes += bytes;
            }
            Err(error) => return Err(Error::io("link", from, error)),
        }
        Ok(())
    }

    /// Copies the first `bytes` bytes of a file, and syncs the copy.
    fn copy(&self, from: &dyn File, bytes: u64, to: &Path) -> Result<()> {
        let write = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => {
                let free_bytes = to.parent().and_then(|dir| self.fs.free_space(dir).ok()).unwrap_or(0);
                Error::Full { path: to.to_owned(), free_bytes, needed_bytes: bytes }
            }
            _ => Error::io("write", to, error),
        };
        let copy = self.fs.create(to).map_err(write)?;
        let (mut at, mut piece) = (0, Vec::new());
        while at < bytes {
            piece.resize((bytes - at).min(COPY_BYTES) as usize, 0);
            from.read_exact_at(at, &mut piece).map_err(|error| Error::io("copy to", to, error))?;
            copy.append(&piece).map_err(write)?;
            at += piece.len() as u64;
        }
        if mutant!("checkpoint_not_synced") {
            return Ok(());
        }
        copy.sync_data().map_err(|error| Error::io("sync", to, error))
    }

    /// Fails if a file of the state is not in its directory: its path may lead elsewhere by now.
    fn check(&self, state: &State) -> Result<()> {
        let env = Env { fs: self.fs.clone(), ..self.engine.jobs.parts.env.clone() };
        let listing = Listing::read(&env, &self.dirs)?;
        let mut state = state.clone();
        state.check_tables(&self.dirs, &listing.tables)?;
        state.check_bodies(self.dirs.fast(), &listing.logs)?;
        state.check_value_files(&self.dirs, &listing.value_files).map(drop)
    }

    /// Writes `TIER` files, the manifest, and `CURRENT` last: from here on the directory is a database.
    fn name(&self, state: &State) -> Result<()> {
        let config = ManifestConfig {
            fs: self.fs.clone(),
            dir: self.dirs.fast().to_owned(),
            lock: self.lock.clone(),
            counters: Arc::new(Counters::default()),
            tables: TableStore::detached(self.fs.clone(), self.dirs.clone()),
            manifest_bytes: self.engine.options.tuning.manifest_bytes,
        };
        // From here on the two databases give the same numbers to different files, so no tier may take one for the other.
        let database = slow_tiers::draw_database(&self.engine.jobs.parts.env);
        if !mutant!("checkpoint_named_before_tiers") {
            self.mark_tiers(state, database)?;
        }
        let other = state.clone().for_another(database, |tier| self.dirs.of(tier).to_owned());
        Manifest::resume(config, (other, None), &Edit::default())?;
        if mutant!("checkpoint_named_before_tiers") {
            self.mark_tiers(state, database)?;
        }
        Ok(())
    }

    /// Writes the `TIER` of each new slow directory, and syncs the directory. The devices' times are those that the database measured.
    fn mark_tiers(&self, state: &State, database: DatabaseId) -> Result<()> {
        let (fs, dirs) = (&self.engine.jobs.parts.env.fs, self.engine.jobs.parts.tables.dirs());
        for tier in state.slow_tiers() {
            let times = TierFile::read(fs.as_ref(), dirs.of(tier.id))?.map(|file| file.times);
            let (times, epoch) = (times.unwrap_or_default(), tier.epoch);
            let file = TierFile { database, tier: tier.id, epoch, earlier: epoch, times };
            file.write(self.fs.as_ref(), self.dirs.of(tier.id))?;
        }
        Ok(())
    }

    /// Removes what was made, as far as possible. What stays does not open. Without the locks the files may be those of another process, and
    /// stay.
    fn remove(&self) {
        if self.lock.check().is_err() {
            return;
        }
        for (tier, dir) in self.dirs.all() {
            let _ = destroy::remove_files(self.fs.as_ref(), dir);
            for name in [names::TIER, names::TIER_TMP].into_iter().filter(|_| tier != TierId::FAST) {
                let _ = self.fs.unlink(&dir.join(name));
            }
        }
    }
}

/// The directories of a checkpoint in `dir` of a database in the directories `from`.
fn new_dirs(from: &TierDirs, dir: &Path, tiers: &[(&Path, &Path)]) -> Result<TierDirs> {
    let others = from.all().map(|(_, other)| other).filter(|other| *other != dir);
    if let Some(other) = slow_tiers::not_apart(dir, others) {
        let why =
            format!("it is not apart from the database's directory {}, and may go with it", other.display());
        return Err(Error::NotADatabase { path: dir.to_owned(), why });
    }
    let mut slow: BTreeMap<TierId, PathBuf> = BTreeMap::new();
    for &(old, new) in tiers {
        let Some(id) = from.slow().find(|&id| from.of(id) == old) else {
            return Err(Error::tier(old, "it is no slow tier of this database; `Stats::tiers` names them"));
        };
        if new.is_absolute() != dir.is_absolute() {
            let why = format!("it and {} must both be absolute, or both relative", dir.display());
            return Err(Error::tier(new, why));
        }
        let others = from.all().map(|(_, other)| other).chain([dir]);
        if let Some(other) = slow_tiers::not_apart(new, others.chain(slow.values().map(PathBuf::as_path))) {
            let why =
                format!("it is not apart from {}; a tier needs a directory of its own", other.display());
            return Err(Error::tier(new, why));
        }
        if slow.insert(id, new.to_owned()).is_some() {
            return Err(Error::tier(old, "it is named twice; name one directory for its copy"));
        }
    }
    Ok(TierDirs::new(dir, slow))
}

/// Refuses a checkpoint in `dirs` of a database whose slow tier `tier` is at `place`, if no directory takes its copy.
fn check_has_directory(dirs: &TierDirs, tier: TierId, place: &Path) -> Result<()> {
    match dirs.slow().any(|id| id == tier) {
        true => Ok(()),
        false => {
            let why = "the checkpoint has no directory for this slow tier: name one with `checkpoint_to`";
            Err(Error::tier(place, why))
        }
    }
}

/// Makes a directory, holds it and locks it.
fn take(env: &Env, dir: &Path) -> Result<(Arc<dyn FileSystem>, DirLock)> {
    env.fs.create_dir_all(dir).map_err(|error| Error::io("create the directory", dir, error))?;
    sync_ancestors(env, dir).map_err(|error| Error::io("sync the directories above", dir, error))?;
    let fs = env.fs.hold_dir(dir).map_err(|error| Error::io("open the directory", dir, error))?;
    let lock = DirLock::take(fs.as_ref(), dir)?;
    // Before this call had the lock, another one may have made a database here. From here on all files in the directory are this call's.
    check_empty(fs.as_ref(), dir)?;
    Ok((fs, lock))
}

/// Refuses a directory that holds anything but a `LOCK`. It may be missing.
fn check_empty(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if examine(fs, dir)? == Found::Database {
        return Err(Error::Exists { path: dir.to_owned() });
    }
    let entries = match fs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(|error| Error::io("list", dir, error))?,
    };
    let Some(entry) = entries.iter().find(|entry| entry.name != names::LOCK) else { return Ok(()) };
    let why = format!("it holds `{}`, and a checkpoint needs a directory of its own", entry.name);
    Err(Error::NotADatabase { path: dir.to_owned(), why })
}

/// Whether a file system refuses a link for a reason that a copy does not share: another device, no links at all, too many of them, or a
/// file of another user.
fn is_unlinkable(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(kind, CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}
