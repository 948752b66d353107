//! The manifest: a log of edits that starts with a snapshot of the state. It makes an edit stable before any job relies
//! on it.
//!
//! Only the handle that created a manifest file appends to it (rule 11), so a new file is written each time the database is opened. A
//! commit that finds the file too large writes a new one too. *Rolling over* to a new file is safe at each step:
//!
//! 1. Write and sync the new file and `CURRENT.tmp`.
//! 2. Sync the directory: both names are stable now.
//! 3. Rename `CURRENT.tmp` to `CURRENT`, and sync the directory again. Only then are other manifests obsolete.
//!
//! Before step 2, nothing refers to the new files, and a failure is undone by deleting them. A failed sync of the
//! directory poisons the manifest, because names of other files may be lost too. After the rename, a failure leaves
//! unknown which manifest is in force after a crash.
//!
//! If `LOCK` is not the file that was locked, no manifest is started and no edit is relied on (see `version/directory/dir_lock.rs`).

use super::directory::current;
use super::directory::dir_lock::DirLock;
use super::state::State;
use super::state::edit::{Change, Edit, Reject};
use super::table_file::TableStore;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, FileIds, MAX_SEQ};
use crate::base::mutant::mutant;
use crate::base::names;
use braidb_storage::{File, FileSystem};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) mod record;

use record::{HEADER_BYTES, Kind, MARK_BYTES};

/// The manifest file is preallocated in steps of this many bytes.
const ALLOCATION_BYTES: u64 = 64 << 10;

/// The environment and settings of a manifest.
#[derive(Clone, Debug)]
pub struct ManifestConfig {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
    pub lock: Arc<DirLock>,
    pub counters: Arc<Counters>,
    pub tables: Arc<TableStore>,
    /// The manifest rolls over once its edits take more bytes than this, or more than the snapshot before them if the
    /// snapshot is larger.
    pub manifest_bytes: u64,
}

/// An edit at the end of the manifest that a crash cut short. No caller was told that it had been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    pub path: PathBuf,
    pub offset: u64,
    pub bytes: u64,
}

/// The outcome of [`Manifest::resume`] and [`Manifest::create`].
#[derive(Debug)]
pub struct Opened {
    pub state: State,
    pub manifest: Manifest,
    /// File numbers, starting above every number found in the manifest or the directory.
    pub numbers: Arc<FileIds>,
    pub torn: Option<Torn>,
}

/// The reason why an edit was not committed.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// Nothing changed, on disk or in memory; the caller may try the same edit again.
    Refused(Error),
    /// It is unknown whether the edit is on disk. Every later commit fails with [`CommitError::Poison`] too.
    Poison(Error),
}

impl CommitError {
    /// The error, for callers to which the variant does not matter.
    pub fn into_error(self) -> Error {
        let (CommitError::Refused(error) | CommitError::Poison(error)) = self;
        error
    }
}

/// The manifest in force, open for appending.
#[derive(Debug)]
pub struct Manifest {
    config: ManifestConfig,
    numbers: Arc<FileIds>,
    id: FileId,
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
    /// The end of the last edit or of the snapshot; only a mark may follow.
    synced_bytes: u64,
    allocated_bytes: u64,
    /// The next commit that finds the file longer than this many bytes rolls over first.
    roll_bytes: u64,
    poison: Option<Arc<Error>>,
}

impl Manifest {
    /// Creates an empty database, changed by `first`, in a directory in which [`super::examine`] found nothing. The caller must create
    /// no log and no table before this returns.
    pub fn create(config: ManifestConfig, first: &Edit) -> Result<Opened> {
        let numbers = Arc::new(FileIds::new(first_free(&config, FileId(1))?));
        let id = numbers.take();
        let state = State::initial(config.tables.clone(), numbers.next());
        let state = state.apply(first).map_err(|reject| reject.at(&names::manifest(&config.dir, id), 0))?;
        Manifest::start(config, numbers, id, state, None)
    }

    /// Starts a new manifest with the state that [`Manifest::read`] read, changed by `first`. This makes the state stable.
    pub fn resume(
        config: ManifestConfig,
        (state, torn): (State, Option<Torn>),
        first: &Edit,
    ) -> Result<Opened> {
        let numbers = Arc::new(FileIds::new(first_free(&config, state.next_file())?));
        let id = numbers.take();
        let state = state.apply(first).map_err(|reject| reject.at(&names::manifest(&config.dir, id), 0))?;
        Manifest::start(config, numbers, id, state, torn)
    }

    /// Reads the manifest in force and changes nothing.
    pub fn read(fs: &dyn FileSystem, dir: &Path, tables: Arc<TableStore>) -> Result<(State, Option<Torn>)> {
        let id = current::read(fs, dir)?;
        let path = names::manifest(dir, id);
        let bytes = match current::read_file(fs, &path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(Error::corruption(
                    &path,
                    0,
                    "CURRENT names this manifest, but the file is missing: put it back from the place to which it was moved",
                ));
            }
            other => other?,
        };
        let contents = record::read(&path, id, &bytes)?;
        let mut state = State::empty(tables);
        let mut end = 0;
        for (offset, edit) in &contents.edits {
            end = *offset;
            state.apply_in_place(edit).map_err(|reject| reject.at(&path, end))?;
        }
        state.check().map_err(|what| Error::corruption(&path, end, what))?;
        let torn = contents.torn.map(|offset| Torn { path, offset, bytes: bytes.len() as u64 - offset });
        Ok((state, torn))
    }

    /// Starts the manifest `id` with `state`.
    fn start(
        config: ManifestConfig,
        numbers: Arc<FileIds>,
        id: FileId,
        state: State,
        torn: Option<Torn>,
    ) -> Result<Opened> {
        let (CommitError::Refused(e) | CommitError::Poison(e)) = match install(&config, id, &state) {
            Ok(started) => {
                let manifest = Manifest::from_started(config, numbers.clone(), id, started);
                manifest.sweep();
                return Ok(Opened { state, manifest, numbers, torn });
            }
            Err(e) => e,
        };
        Err(e)
    }

    fn from_started(config: ManifestConfig, numbers: Arc<FileIds>, id: FileId, started: Started) -> Manifest {
        let Started { path, file, bytes } = started;
        let roll_bytes = bytes + config.manifest_bytes.max(bytes);
        Manifest {
            config,
            numbers,
            id,
            path,
            file,
            bytes,
            synced_bytes: bytes,
            allocated_bytes: bytes,
            roll_bytes,
            poison: None,
        }
    }

    /// The number of the file in force.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Whether the next commit rolls over first.
    pub(super) fn is_due_to_roll(&self) -> bool {
        self.bytes > self.roll_bytes
    }

    /// Makes `edit` and the next file number stable, and returns the state to install. Marks the tables that the edit
    /// drops as obsolete.
    pub fn commit(&mut self, state: &State, mut edit: Edit) -> Result<State, CommitError> {
        if let Some(cause) = &self.poison {
            return Err(CommitError::Poison(Error::Poisoned { cause: cause.clone() }));
        }
        edit.push(Change::NextFile(self.numbers.next()));
        let next = state.apply(&edit).map_err(|reject| CommitError::Refused(self.misfit(reject)))?;
        // A panic unlocks the catalog, and another job may commit at once. It must not write behind an edit whose fate is unknown.
        self.poison = Some(Arc::new(Error::panicked("finish an edit of", &self.path)));
        if let Err(error) = self.write(state, &edit) {
            self.poison = match &error {
                CommitError::Poison(e) => Some(Arc::new(e.clone())),
                CommitError::Refused(_) => None,
            };
            return Err(error);
        }
        for change in &edit.changes {
            if let Change::SliceRemoved { table, .. } = change
                && (next.table(*table).is_none() || mutant!("table_deleted_with_its_first_slice"))
                && let Some(file) = state.table(*table)
            {
                file.mark_obsolete();
            }
        }
        self.poison = None;
        Ok(next)
    }

    fn write(&mut self, state: &State, edit: &Edit) -> Result<(), CommitError> {
        let check_lock = |config: &ManifestConfig| config.lock.check().map_err(CommitError::Poison);
        check_lock(&self.config)?;
        if self.is_due_to_roll() {
            self.roll(state)?;
        }
        let payload = edit.encode();
        let offset = self.bytes;
        let too_large =
            || Error::TooLarge { what: "an edit", bytes: payload.len(), limit: u32::MAX as usize };
        let record = record::record(self.id, offset, self.synced_bytes, Kind::Edit, &payload)
            .ok_or_else(|| CommitError::Refused(too_large()))?;
        let end = offset + record.len() as u64;
        let mark = record::record(self.id, end, end, Kind::Mark, &[]).expect("a mark is short");
        self.reserve(end + MARK_BYTES as u64).map_err(CommitError::Refused)?;
        let append = |data: &[u8]| {
            let poison = |e| CommitError::Poison(Error::io("append to", &self.path, e));
            self.file.append(data).map_err(poison)
        };
        append(&record)?;
        if !mutant!("skip_manifest_sync") {
            self.file.sync_data().map_err(|e| CommitError::Poison(Error::io("sync", &self.path, e)))?;
        }
        // A process that opens the database from now on reads the edit.
        check_lock(&self.config)?;
        // The mark says that the edit is synced. The mark becomes stable with the next edit, or when the system writes
        // it back.
        append(&mark)?;
        self.synced_bytes = end;
        self.bytes = end + MARK_BYTES as u64;
        self.config.counters.manifest_bytes.add(self.bytes - offset);
        Ok(())
    }

    /// Allocates space for a file of `bytes` before a byte is written (rule 13).
    fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.allocated_bytes {
            return Ok(());
        }
        let roomy = bytes.next_multiple_of(ALLOCATION_BYTES);
        self.allocated_bytes = match self.file.preallocate(roomy) {
            Ok(()) => roomy,
            Err(_) => {
                allocate(&self.config, &self.file, &self.path, bytes)?;
                bytes
            }
        };
        Ok(())
    }

    /// Continues in a new file that starts with `state`. After a failure that leaves the old file in force, the next attempt is made
    /// once the file has grown by [`ALLOCATION_BYTES`].
    fn roll(&mut self, state: &State) -> Result<(), CommitError> {
        let id = self.numbers.take();
        match install(&self.config, id, state) {
            Ok(started) => {
                *self = Manifest::from_started(self.config.clone(), self.numbers.clone(), id, started);
                self.sweep();
                Ok(())
            }
            Err(CommitError::Refused(_)) => {
                self.config.counters.job_failures.add(1);
                self.roll_bytes = self.bytes + ALLOCATION_BYTES;
                Ok(())
            }
            Err(poison) => Err(poison),
        }
    }

    /// Deletes leftovers of earlier manifests. The next sweep finds files that could not be deleted. Deletes nothing if
    /// `LOCK` is lost: a manifest of another process stays.
    fn sweep(&self) {
        if self.config.lock.check().is_err() {
            return;
        }
        let Ok(entries) = self.config.fs.list(&self.config.dir) else { return };
        for entry in entries {
            let obsolete = match names::parse(&entry.name) {
                Some(names::Kind::Manifest(id)) => id != self.id,
                Some(names::Kind::CurrentTmp) => true,
                _ => false,
            };
            if obsolete && self.config.fs.unlink(&self.config.dir.join(&entry.name)).is_ok() {
                self.config.counters.files_deleted.add(1);
            }
        }
    }

    fn misfit(&self, reject: Reject) -> Error {
        match reject {
            Reject::Wrong(what) => Reject::Wrong(format!("an edit that does not fit was refused: {what}")),
            unsupported => unsupported,
        }
        .at(&self.path, self.bytes)
    }
}

/// A new manifest file that `CURRENT` names.
struct Started {
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
}

/// Writes manifest `id` with a snapshot of `state`, and makes `CURRENT` name it.
fn install(config: &ManifestConfig, id: FileId, state: &State) -> Result<Started, CommitError> {
    let (fs, dir) = (&*config.fs, config.dir.as_path());
    let path = names::manifest(dir, id);
    let (current_tmp, current) = (dir.join(names::CURRENT_TMP), dir.join(names::CURRENT));
    config.lock.check().map_err(CommitError::Poison)?;
    let mut created: Vec<&Path> = Vec::new();
    let mut prepare = || {
        let mut content = record::header(id);
        let payload = state.snapshot_edit().encode();
        let snapshot =
            record::record(id, HEADER_BYTES as u64, 0, Kind::Snapshot, &payload).ok_or_else(|| {
                let limit = u32::MAX as usize;
                Error::TooLarge { what: "the snapshot of the manifest", bytes: payload.len(), limit }
            })?;
        content.extend_from_slice(&snapshot);
        let file = write_file(config, &path, &content, !mutant!("skip_manifest_sync"), &mut created)?;
        // During the sync a second process may have got in and may be about to rename its `CURRENT.tmp`.
        config.lock.check()?;
        match fs.unlink(&current_tmp) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &current_tmp, e));
            }
            _ => {}
        }
        let named = current::content(id);
        let synced = !mutant!("skip_current_sync");
        write_file(config, &current_tmp, named.as_bytes(), synced, &mut created)?;
        Ok(Started { path: path.clone(), file, bytes: content.len() as u64 })
    };
    let prepared = prepare();
    let started = prepared.map_err(|e| {
        // Nothing refers to either file. A later sweep deletes a file that cannot be deleted now.
        created.iter().rev().for_each(|path| drop(fs.unlink(path)));
        match e {
            lost @ Error::LockLost { .. } => CommitError::Poison(lost),
            refused => CommitError::Refused(refused),
        }
    })?;
    // The rename must not become stable before the name of the new file is. A failed sync poisons, although nothing
    // refers to the new file yet: the sync may have lost names of logs too.
    if !mutant!("skip_manifest_dir_sync") {
        fs.sync_dir(dir).map_err(|e| CommitError::Poison(Error::io("sync", dir, e)))?;
    }
    config.lock.check().map_err(CommitError::Poison)?;
    fs.rename(&current_tmp, &current)
        .map_err(|e| CommitError::Poison(Error::io("rename", &current_tmp, e)))?;
    if !mutant!("skip_current_dir_sync") {
        fs.sync_dir(dir).map_err(|e| CommitError::Poison(Error::io("sync", dir, e)))?;
    }
    config.counters.manifest_snapshots.add(1);
    config.counters.manifest_bytes.add(started.bytes);
    Ok(started)
}

/// Writes a new file, and adds its path to `created`, even if writing fails.
fn write_file<'a>(
    config: &ManifestConfig,
    path: &'a Path,
    content: &[u8],
    sync: bool,
    created: &mut Vec<&'a Path>,
) -> Result<Arc<dyn File>> {
    let file = config.fs.create(path).map_err(|e| Error::io("create", path, e))?;
    created.push(path);
    allocate(config, &file, path, content.len() as u64)?;
    file.append(content).map_err(|e| Error::io("append to", path, e))?;
    if sync {
        file.sync_data().map_err(|e| Error::io("sync", path, e))?;
    }
    Ok(file)
}

fn allocate(config: &ManifestConfig, file: &Arc<dyn File>, path: &Path, needed_bytes: u64) -> Result<()> {
    file.preallocate(needed_bytes).map_err(|e| match e.kind() {
        io::ErrorKind::StorageFull => {
            let free_bytes = config.fs.free_space(&config.dir).unwrap_or(0);
            Error::Full { path: path.to_owned(), free_bytes, needed_bytes }
        }
        _ => Error::io("allocate space for", path, e),
    })
}

/// The first file number at or above `next` that is above every number in the directories of all tiers.
fn first_free(config: &ManifestConfig, next: FileId) -> Result<FileId> {
    let mut entries = Vec::new();
    for (_, dir) in config.tables.dirs().all() {
        entries.extend(config.fs.list(dir).map_err(|e| Error::io("list", dir, e))?);
    }
    let taken = entries.iter().filter_map(|entry| match names::parse(&entry.name)? {
        names::Kind::Log(id)
        | names::Kind::Table(id)
        | names::Kind::Values(id)
        | names::Kind::Manifest(id) => Some(id.0),
        _ => None,
    });
    // Ignores absurdly large numbers of foreign files, which would use up the numbers.
    let highest = taken.filter(|&id| id < MAX_SEQ / 2).max();
    Ok(highest.map_or(next, |highest| next.max(FileId(highest + 1))))
}
