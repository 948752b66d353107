//! A checkpoint: a second database, in a directory of its own, with what this one holds at one moment.
//!
//! Tables, value files and logs that no open replays never change, so the checkpoint gets second names for them (hard links), which costs
//! no space. A file that cannot be linked is copied: the directory may be on another device. Logs that an open replays are copied, because
//! recovery may write in them.
//!
//! # Which file holds a record at each instant
//!
//! The database itself is not changed: its files keep their names and bytes, and no edit is made. In the new directory:
//!
//! 1. *Files.* Links and copies appear; copies are synced. There is no `CURRENT`. A crash leaves a directory that an open refuses, or an
//!    empty one.
//! 2. *The manifest* is written and synced with the state of the moment, and then the directory, which makes the names of all files stable.
//!    A crash leaves what step 1 leaves.
//! 3. *`CURRENT`* is renamed into place, and the directory synced again (`version/manifest`). A crash leaves a directory that is refused, or
//!    the whole checkpoint.
//!
//! # Rule 22: a file with several names is never punched, appended to, or cut
//!
//! Each of the two databases deletes its own names only, and the last one frees the file. A hole would be in both. So a table with a second
//! name keeps its dead blocks, in both databases, until a merge rewrites it. Once one database has deleted its name, the other one punches
//! at its next open, or when another slice of the table dies. Trie tables are ended before they are linked. If a job appends to one now, its bytes up to this moment are copied.

use super::database::Db;
use super::destroy;
use super::directory::sync_ancestors;
use super::engine::Engine;
use super::listing::Listing;
use super::slow_tiers;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::TierId;
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::report::CheckpointReport;
use crate::base::tier_dirs::TierDirs;
use crate::jobs::checkpoint::{LogPart, Moment};
use crate::version::{DirLock, Edit, Found, Manifest, ManifestConfig, State, TableStore, examine};
use braidb_storage::{Env, File, FileSystem};
use std::io;
use std::path::Path;
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
    /// [`Exists`](crate::Error::Exists): `dir` has a database. [`NotADatabase`](crate::Error::NotADatabase): it has other files.
    /// [`Tier`](crate::Error::Tier): the database has slow tiers; evacuate them first. [`Io`](crate::Error::Io),
    /// [`Full`](crate::Error::Full), [`ReadOnly`](crate::Error::ReadOnly), [`Poisoned`](crate::Error::Poisoned). After an error, what the
    /// call made in `dir` is removed as far as possible; the rest does not open.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        let engine = self.engine()?;
        engine.shared.health.check_writable()?;
        let outcome = Checkpoint::begin(engine, dir.as_ref())
            .and_then(|checkpoint| checkpoint.make().inspect_err(|_| checkpoint.remove()));
        engine.reader_ended();
        outcome
    }
}

/// A checkpoint that is being made.
struct Checkpoint<'a> {
    engine: &'a Engine,
    /// The new directory, by its path and held.
    dir: &'a Path,
    fs: Arc<dyn FileSystem>,
    lock: Arc<DirLock>,
}

impl<'a> Checkpoint<'a> {
    /// Makes the directory, holds it and locks it. Refuses one that is not empty.
    fn begin(engine: &'a Engine, dir: &'a Path) -> Result<Checkpoint<'a>> {
        let env = Env { fs: engine.whole.clone(), ..engine.jobs.parts.env.clone() };
        check_empty(env.fs.as_ref(), dir)?;
        env.fs.create_dir_all(dir).map_err(|error| Error::io("create the directory", dir, error))?;
        sync_ancestors(&env, dir).map_err(|error| Error::io("sync the directories above", dir, error))?;
        let held = env.fs.hold_dir(dir);
        let fs = held.map_err(|error| Error::io("open the directory", dir, error))?;
        let lock = Arc::new(DirLock::take(fs.as_ref(), dir)?);
        // Before this call had the lock, another one may have made a database here. From here on all files in the directory are this call's.
        check_empty(fs.as_ref(), dir)?;
        Ok(Checkpoint { engine, dir, fs, lock })
    }

    fn make(&self) -> Result<CheckpointReport> {
        let Moment { state, logs } = self.engine.jobs.moment()?;
        if let Some(tier) = state.tiers().find(|tier| tier.id != TierId::FAST) {
            let why =
                "a checkpoint holds one directory, and this database has slow tiers: evacuate them first";
            return Err(Error::tier(tier.place.unwrap_or(self.engine.dir()), why));
        }
        let mut report = CheckpointReport::default();
        if mutant!("checkpoint_named_first") {
            self.name(&state)?;
        }
        self.take_files(&state, &mut report)?;
        for LogPart { id, bytes, file } in &logs {
            self.copy(&**file, *bytes, &names::log(self.dir, *id))?;
            report.files += 1;
            report.copied_bytes += bytes;
        }
        self.check(&state)?;
        // A file may have changed before it was linked if another process opened the database meanwhile. It could do so only after a close, or
        // after the lock was lost.
        self.engine.shared.health.check_writable()?;
        self.engine.shared.dir_lock.check()?;
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
            let (from, to) = (dirs.table(TierId::FAST, table.id), names::table(self.dir, table.id));
            let linked = jobs.link_table(table, &to);
            self.settle(linked, &from, &to, table.bytes, report)?;
        }
        for (&id, file) in state.value_files() {
            let (from, to) = (dirs.values(TierId::FAST, id), names::values(self.dir, id));
            let linked = match jobs.end_appends_to(id) {
                true => fs.link_out(&from, &to),
                false => Err(io::ErrorKind::Unsupported.into()),
            };
            self.settle(linked, &from, &to, file.bytes, report)?;
        }
        let first = state.min_replay_from();
        for (id, body) in state.log_bodies().into_iter().filter(|(id, _)| *id < first) {
            let (from, to) = (names::log(self.engine.dir(), id), names::log(self.dir, id));
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
                let free_bytes = self.fs.free_space(self.dir).unwrap_or(0);
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

    /// Fails if a file of the state is not in the directory: its path may lead elsewhere by now.
    fn check(&self, state: &State) -> Result<()> {
        let dirs = TierDirs::from(self.dir);
        let env = Env { fs: self.fs.clone(), ..self.engine.jobs.parts.env.clone() };
        let listing = Listing::read(&env, &dirs)?;
        let mut state = state.clone();
        state.check_tables(&dirs, &listing.tables)?;
        state.check_bodies(self.dir, &listing.logs)?;
        state.check_value_files(&dirs, &listing.value_files).map(drop)
    }

    /// Writes the manifest, and `CURRENT` last: from here on the directory is a database.
    fn name(&self, state: &State) -> Result<()> {
        let config = ManifestConfig {
            fs: self.fs.clone(),
            dir: self.dir.to_owned(),
            lock: self.lock.clone(),
            counters: Arc::new(Counters::default()),
            tables: TableStore::detached(self.fs.clone(), TierDirs::from(self.dir)),
            manifest_bytes: self.engine.options.tuning.manifest_bytes,
        };
        // From here on the two databases give the same numbers to different files, so no tier may take one for the other.
        let state = state.clone().for_another(slow_tiers::draw_database(&self.engine.jobs.parts.env));
        Manifest::resume(config, (state, None), &Edit::default()).map(drop)
    }

    /// Removes what was made, as far as possible. What stays does not open.
    fn remove(&self) {
        let _ = destroy::remove_files(self.fs.as_ref(), self.dir);
    }
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
