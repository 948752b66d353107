//! Verification: reads and checks every byte of every file that the database uses.
//!
//! Tables are checked against themselves and against their length and checksum in the manifest. A table may have a hole where no slice
//! reaches. The tiers of the database are found as an open finds them, and not changed. Value files are checked record by record, and once
//! more where a table leads into them. Logs are checked frame by frame, and as a chain, by the walk that recovery makes. An online
//! verification leaves the walk out, because the newest log grows. It knows each log's end from the next log's header or from the writer.

use super::directory::hold;
use super::engine::Engine;
use super::listing::Listing;
use super::options::Options;
use super::recover::{Place, Recovery};
use super::slow_tiers::{self, Purpose};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, FileIds, TierId};
use crate::base::key::KeyRange;
use crate::base::names;
use crate::base::report::{Cut, Damage, Note, RecoveryReport, VerifyReport};
use crate::base::tier_dirs::TierDirs;
use crate::log;
use crate::plan::form::LOADED_BYTES;
use crate::table;
use crate::value::{Body, file};
use crate::version::shape::cut::{count_values, each_handle};
use crate::version::{DirLock, Found, FoundFile, Manifest, State, TableStore, current, examine};
use braidb_storage::{Env, FileSystem, ReadOnly};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(test)]
mod tests;

impl Options {
    /// Reads every byte of the database in `path` without opening it. It works on a damaged database too.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-overify-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.close()?;
    /// assert!(braidb::Options::new().verify(&dir)?.damages.is_empty());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], [`Error::NotADatabase`], [`Error::Locked`], [`Error::Tier`], or [`Error::Io`]. Damage is no error; the report
    /// lists it.
    pub fn verify(self, path: impl AsRef<Path>) -> Result<VerifyReport> {
        self.verify_with_progress(path, |_, _| {})
    }

    /// As [`Options::verify`]. Whenever a file is begun, `progress` gets the bytes of all files that were begun, and the bytes of all
    /// files of the database. Files that nothing refers to are not begun, so the first number may stay below the second.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-overifyp-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// # db.put("k", "v")?;
    /// # db.close()?;
    /// let mut begun = Vec::new();
    /// let report = braidb::Options::new().verify_with_progress(&dir, |bytes, all_bytes| begun.push((bytes, all_bytes)))?;
    /// assert_eq!(begun.len() as u64, report.files);
    /// assert!(begun.last().is_some_and(|&(bytes, all_bytes)| bytes == report.bytes && bytes <= all_bytes));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Options::verify`].
    pub fn verify_with_progress(
        self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<VerifyReport> {
        self.check()?;
        offline(path.as_ref(), &self, &mut progress)
    }
}

impl Engine {
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport> {
        self.shared.health.check_open()?;
        let report = online(self, progress);
        // If the database was closed meanwhile, files may be gone, and the report would be wrong.
        self.shared.health.check_open()?;
        self.reader_ended();
        report
    }
}

/// Verifies an open database. `progress` gets the bytes of the files that were begun.
fn online(engine: &Engine, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport> {
    let env = &engine.jobs.parts.env;
    let mut check = Check::new(env, engine.jobs.parts.tables.dirs().clone());
    // Tables that the state names are not deleted before the state is dropped.
    let (state, mut logs) = engine.jobs.with_files(|state, manifest, logs| {
        check.manifest(manifest)?;
        Ok((state.clone(), logs.clone()))
    })?;
    // `with_files` holds the catalog, so the callback gets its first call afterwards. How many bytes there are in all is unknown here.
    let mut of_begun = |begun: u64, _| progress(begun);
    check.progress = Some((&mut of_begun, 0));
    check.tables(&state)?;
    check.value_counts(&state);
    check.value_files(&state);
    // Bytes that the newest log gets from here on are not checked.
    let (newest, written_out) = engine.queue.written_out()?;
    let mut ends = BTreeMap::from([(newest, written_out)]);
    for (log, sealed_bytes) in engine.shared.log_sync.live() {
        logs.insert(log);
        ends.extend(sealed_bytes.map(|bytes| (log, bytes)));
    }
    logs.retain(|&log| log <= newest && !state.is_set_aside(log));
    for &log in &logs {
        let header = unless_gone(log::read_header(env.fs.as_ref(), &names::log(engine.dir(), log), log))?;
        ends.extend(header.flatten().and_then(|header| header.previous));
    }
    for &log in &logs {
        let end = known_end(&state, log).or_else(|| ends.get(&log).copied());
        unless_gone(check.log(log, end))?;
    }
    Ok(check.report)
}

/// `None` for a missing file: a flush that ends meanwhile deletes logs.
fn unless_gone<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Verifies a database that is not open.
///
/// `progress` gets the bytes of the files that were begun, and the bytes of all files.
fn offline(dir: &Path, options: &Options, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    slow_tiers::check_apart(dir, &options.slow_paths)?;
    let mut env = options.env_or_real(dir)?;
    env.fs = Arc::new(ReadOnly::new(env.fs));
    match examine(env.fs.as_ref(), dir) {
        Ok(Found::Database) => {}
        Ok(Found::Nothing) => {
            return Err(Error::Missing { path: dir.to_owned() });
        }
        Err(error) => return Check::new(&env, TierDirs::from(dir)).only(error),
    }
    let whole = env.clone();
    hold(&mut env, dir)?;
    let _lock = DirLock::take(env.fs.as_ref(), dir)?;
    let (fast, no_tiers) = (env.fs.clone(), TierDirs::from(dir));
    let read = |dirs: &TierDirs, fs: &Arc<dyn FileSystem>| {
        Manifest::read(fast.as_ref(), dir, TableStore::detached(fs.clone(), dirs.clone()))
    };
    let (mut state, torn) = match read(&no_tiers, &fast) {
        Ok(read) => read,
        Err(error) => {
            let listing = Listing::read(&env, &no_tiers)?;
            return Check::new(&env, no_tiers).without_manifest(error, &listing);
        }
    };
    let tiers = slow_tiers::find(&whole, dir, &options.slow_paths, Some(&state), Purpose::Look)?;
    if let Some(tiers) = &tiers {
        env.fs = tiers.route(dir, fast.clone());
        (state, _) = read(tiers.dirs(), &env.fs)?;
    }
    let dirs = tiers.as_ref().map_or(no_tiers, |tiers| tiers.dirs().clone());
    let listing = Listing::read(&env, &dirs)?;
    let mut check = Check::new(&env, dirs.clone());
    let manifest = current::read(env.fs.as_ref(), dir)?;
    let heads =
        check.heads(manifest).iter().try_fold(0, |sum, path| Ok::<_, Error>(sum + check.bytes_of(path)?))?;
    check.progress = Some((progress, listing.bytes() + heads));
    check.manifest(manifest)?;
    if let Err(error) = state.check_bodies(dir, &listing.logs) {
        check.note(error)?;
    }
    check.tables(&state)?;
    if let Err(error) = state.check_value_files(&dirs, &listing.value_files) {
        check.note(error)?;
    }
    check.value_counts(&state);
    check.value_files(&state);
    let (bodies, logs) = (state.log_bodies(), listing.log_ids());
    for &log in &logs {
        let is_replayed = log >= state.min_replay_from() && !state.is_set_aside(log);
        if is_replayed || bodies.contains_key(&log) {
            check.log(log, known_end(&state, log))?;
        }
    }
    if let Some(torn) = torn {
        let what = "the last change in the manifest is not whole; the next open leaves it out, and nothing relied on it";
        check.remark(torn.path, torn.offset, torn.bytes, what.to_owned());
    }
    for (&id, file) in state.value_files() {
        let path = dirs.values(file.tier, id);
        check.remark(path, file.bytes, file.tail_bytes, BEHIND.to_owned());
    }
    let files = Arc::new(FileIds::new(FileId(u64::MAX / 2)));
    let walk = Recovery::new(dir, &env, options, &state, files, Arc::new(Counters::default()));
    match walk.check(&logs) {
        Err(error) => check.note(error)?,
        Ok((report, ends)) => check.replayed(dir, &state, &logs, report, ends)?,
    }
    Ok(check.report)
}

/// What lies behind the end of a file that nothing reads further.
const BEHIND: &str = "these bytes lie behind the end of the file, and nothing reads them";

fn known_end(state: &State, log: FileId) -> Option<u64> {
    state.cut_of(log).map(|cut| cut.offset).or_else(|| state.sealed_bytes(log))
}

/// The ranges of all slices, by table and sorted by their low keys.
fn live_ranges(state: &State) -> BTreeMap<FileId, Vec<KeyRange>> {
    let mut live: BTreeMap<FileId, Vec<KeyRange>> = BTreeMap::new();
    for slice in state.families().values().flat_map(|family| family.version.slices()) {
        live.entry(slice.table.id).or_default().push(slice.range.clone());
    }
    live.values_mut().for_each(|ranges| ranges.sort_by(|a, b| a.low.cmp(&b.low)));
    live
}

/// Where the records of a value file start that slices lead to, ascending.
fn living_records(state: &State, id: FileId) -> Result<Vec<u64>> {
    let mut starts = Vec::new();
    let slices = state.families().values().flat_map(|family| family.version.slices());
    for slice in slices.filter(|slice| slice.values.iter().any(|&(file, _)| file == id)) {
        each_handle(&slice.table, &slice.range, |file, handle| {
            starts.extend((file.id == id).then(|| file::record_of(&handle).start));
        })?;
    }
    starts.sort_unstable();
    Ok(starts)
}

/// A callback that gets the bytes of the files that were begun, and the bytes of all files.
type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// A verification under way.
struct Check<'a> {
    env: &'a Env,
    dirs: TierDirs,
    report: VerifyReport,
    /// The places of reported damages: several checks may find the same damage.
    told: BTreeSet<(PathBuf, u64)>,
    /// The callback, and the bytes of all files.
    progress: Option<(Progress<'a>, u64)>,
}

impl<'a> Check<'a> {
    fn new(env: &'a Env, dirs: TierDirs) -> Check<'a> {
        Check { env, dirs, report: VerifyReport::default(), told: BTreeSet::new(), progress: None }
    }

    fn bytes_of(&self, path: &Path) -> Result<u64> {
        let bytes = self.env.fs.open(path).and_then(|file| file.len());
        bytes.map_err(|error| Error::io("open", path, error))
    }

    /// The paths of `CURRENT` and manifest `id`.
    fn heads(&self, id: FileId) -> [PathBuf; 2] {
        [self.dirs.fast().join(names::CURRENT), names::manifest(self.dirs.fast(), id)]
    }

    /// Adds a file and its bytes to the report. Returns an error if the file cannot be opened.
    fn count(&mut self, path: &Path) -> Result<u64> {
        let bytes = self.bytes_of(path)?;
        self.report.files += 1;
        self.report.bytes += bytes;
        if let Some((progress, all_bytes)) = &mut self.progress {
            progress(self.report.bytes, *all_bytes);
        }
        Ok(bytes)
    }

    fn damage(&mut self, damage: Damage) {
        if self.told.insert((damage.path.clone(), damage.offset)) {
            self.report.damages.push(damage);
        }
    }

    /// Adds a corruption to the report; returns any other error.
    fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corruption { path, offset, what } => {
                self.damage(Damage { path, offset, bytes: 0, what });
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Adds a note, unless the range is empty.
    fn remark(&mut self, path: PathBuf, offset: u64, bytes: u64, what: String) {
        if bytes > 0 {
            self.report.notes.push(Note { path, offset, bytes, what });
        }
    }

    /// Notes the end of a log that an open would cut.
    fn cut(&mut self, cut: &Cut) {
        let what = format!(
            "the end of the log is not whole, and nothing says that it was synced; the next open leaves it out, with {} whole frames in it",
            cut.whole_frames_behind
        );
        self.remark(cut.path.clone(), cut.offset, cut.bytes, what);
    }

    /// Notes what the next open would cut off or set aside, as `report` says, and what lies behind the ends of the logs `on_disk`. `ends`
    /// has the place where recovery stopped reading each log.
    fn replayed(
        &mut self,
        dir: &Path,
        state: &State,
        on_disk: &[FileId],
        report: RecoveryReport,
        mut ends: Vec<Place>,
    ) -> Result<()> {
        let bodies = state.log_bodies();
        let sealed = bodies.keys().filter_map(|&log| Some((log, state.sealed_bytes(log)?)));
        ends.extend(sealed.filter(|(log, _)| *log < state.min_replay_from()));
        // A missing log behind a table is reported elsewhere.
        ends.retain(|&(log, _)| on_disk.contains(&log) && state.cut_of(log).is_none());
        if let Some(cut) = &report.cut {
            ends.retain(|&(log, _)| names::log(dir, log) != cut.path);
            self.cut(cut);
        }
        for path in report.set_aside {
            let what = "the log lies behind an end that is not whole; the next open does not replay it";
            let bytes = log::written_end(self.env.fs.as_ref(), &path, 0)?;
            self.remark(path, 0, bytes, what.to_owned());
        }
        self.behind_ends(&ends)
    }

    /// Notes what lies behind the ends of logs.
    fn behind_ends(&mut self, ends: &[Place]) -> Result<()> {
        for &(log, end) in ends {
            let path = names::log(self.dirs.fast(), log);
            let bytes = log::written_end(self.env.fs.as_ref(), &path, end)? - end;
            self.remark(path, end, bytes, BEHIND.to_owned());
        }
        Ok(())
    }

    /// A report of one damage.
    fn only(mut self, error: Error) -> Result<VerifyReport> {
        self.note(error)?;
        Ok(self.report)
    }

    /// Counts `CURRENT` and the manifest, and reads the manifest as a whole.
    fn manifest(&mut self, id: FileId) -> Result<()> {
        let dirs = self.dirs.clone();
        for path in self.heads(id) {
            self.count(&path)?;
        }
        let store = TableStore::detached(self.env.fs.clone(), dirs.clone());
        if let Err(error) = Manifest::read(self.env.fs.as_ref(), dirs.fast(), store) {
            self.note(error)?;
        }
        Ok(())
    }

    fn tables(&mut self, state: &State) -> Result<()> {
        let mut live = live_ranges(state);
        for file in state.tables() {
            let path = self.dirs.table(file.tier, file.id);
            if let Err(error) = self.count(&path) {
                self.damage(Damage { path, offset: 0, bytes: file.bytes, what: error.to_string() });
                continue;
            }
            let fs = self.env.fs.as_ref();
            let live = live.remove(&file.id).unwrap_or_default();
            let bodies: Vec<Arc<Body>> = file.bodies().iter().map(|held| held.body.clone()).collect();
            // Handles come in key order, which is not the order of a log. So each log is loaded with one read, if all fit. `table::verify`
            // below reports a log that cannot be loaded.
            let together = bodies.iter().fold(0, |sum: u64, body| sum.saturating_add(body.file.bytes));
            let images: Vec<_> = match together <= LOADED_BYTES {
                true => bodies.iter().filter_map(|body| body.load().ok()).collect(),
                false => Vec::new(),
            };
            let expected = table::Expected {
                bytes: file.bytes,
                checksum: Some(file.checksum),
                live: Some(&live),
                bodies: Some(bodies),
            };
            for damage in table::verify(fs, &path, file.id, &expected) {
                self.damage(damage);
            }
            drop(images);
        }
        Ok(())
    }

    /// Counts again the values that each slice leads to, and compares with the manifest, by whose counts value files are deleted and
    /// collected.
    fn value_counts(&mut self, state: &State) {
        let slices = state.families().values().flat_map(|family| family.version.slices());
        for slice in slices.filter(|slice| !slice.table.bodies().is_empty()) {
            // An unreadable table was reported above.
            let Ok(counted) = count_values(&slice.table, &slice.range) else { continue };
            let counted: Vec<(FileId, u64)> = counted.into_iter().collect();
            if counted != slice.values {
                let what = format!(
                    "its slice from key \"{}\" leads to {counted:?} bytes of values, and the manifest says {:?}",
                    slice.range.low.escape_ascii(),
                    slice.values
                );
                let path = self.dirs.table(slice.table.tier, slice.table.id);
                self.damage(Damage { path, offset: 0, bytes: slice.table.bytes, what });
            }
        }
    }

    /// Checks all records of the value files that tables name, except what was punched out.
    fn value_files(&mut self, state: &State) {
        for (&id, file) in state.value_files() {
            // Unreadable tables were reported above.
            self.value_file(file.tier, id, file.bytes, &|| living_records(state, id).ok());
        }
    }

    fn value_file(&mut self, tier: TierId, id: FileId, bytes: u64, living: file::Living<'_>) {
        let path = self.dirs.values(tier, id);
        if let Err(error) = self.count(&path) {
            return self.damage(Damage { path, offset: 0, bytes, what: error.to_string() });
        }
        for damage in file::verify(self.env.fs.as_ref(), &path, id, bytes, living) {
            self.damage(damage);
        }
    }

    fn log(&mut self, id: FileId, known_end: Option<u64>) -> Result<()> {
        let path = names::log(self.dirs.fast(), id);
        self.count(&path)?;
        for damage in log::verify(self.env.fs.as_ref(), &path, id, known_end)? {
            self.damage(damage);
        }
        Ok(())
    }

    /// Without a manifest it is unknown which files count; each file is still checked against itself. Holes look like damage, because the
    /// live slices are unknown too.
    fn without_manifest(mut self, error: Error, listing: &Listing) -> Result<VerifyReport> {
        self.note(error)?;
        for &FoundFile { tier, id, bytes, .. } in &listing.tables {
            let path = self.dirs.table(tier, id);
            self.count(&path)?;
            let expected = table::Expected { bytes, checksum: None, live: None, bodies: None };
            for damage in table::verify(self.env.fs.as_ref(), &path, id, &expected) {
                self.damage(damage);
            }
        }
        for &FoundFile { tier, id, bytes, .. } in &listing.value_files {
            self.value_file(tier, id, bytes, &|| None);
        }
        for log in listing.log_ids() {
            self.log(log, None)?;
        }
        Ok(self.report)
    }
}
