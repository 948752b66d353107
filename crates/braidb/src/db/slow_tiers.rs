//! The slow tiers of a database that is opened or verified: which directories they are, and whether they belong to it (rule 12).
//!
//! A user names directories by `Options::slow_path`, and the manifest remembers them. The file `TIER` in a directory says what the
//! directory is. The path does not: a tier may move, and a path may lead to another device today. A directory is one of these:
//!
//! - *a tier of the manifest*: `TIER` has the database's id and the id of the tier, and accepts the manifest's epoch
//!   (`version/directory/tier_file.rs`);
//! - *new*: it has no `TIER`, no table and no value file, and nothing of another program. Or it has only what an open left that died before
//!   its edit, or what is left of a tier that the manifest removed. A new directory joins with an id that no tier had before;
//! - *refused*: anything else. The error says why, and what to do.
//!
//! An open decides about all directories before it writes anything. The open is refused if no path leads to a tier of the manifest. So the
//! empty directory of a device that is not mounted does not become a new tier.
//!
//! # Remembered paths
//!
//! The manifest remembers the path of each tier and that of the database, as the user gave them. They count only if the database is opened
//! by the path that the manifest remembers: a database at another path may be a copy, which would take the tiers of the original away. The
//! path of a tier counts only if it and the path of the database are both absolute or both relative: then the process finds either all
//! directories or none. A path by `Options::slow_path` always counts.
//!
//! # What is on disk at each instant of an open
//!
//! 1. *Directories.* The directory of a new tier is made, and its name and those above it are synced. Each directory is held, `LOCK` in it
//!    is taken, and `TIER` is read again. A crash leaves an empty directory with `LOCK`, which is new for the next open.
//! 2. *The first manifest of the open* says what the old one said, and gives the database its id if this is its first slow tier. An older
//!    version of the engine refuses the database from here on.
//! 3. *`TIER`* is written to each directory, with a new epoch and the manifest's epoch as the earlier one. On a full device files that
//!    the manifest does not name are deleted first. A crash leaves tiers that still accept the manifest; a new tier is new for the next
//!    open, because it has no files.
//! 4. *The edit of recovery* gives all tiers the new epoch, adds new tiers, and remembers their places. No table is on a tier before the
//!    sync of the edit that adds the tier.
//! 5. *`TIER` is confirmed.* Only then do jobs start, which write to tiers and delete files.

use super::directory::sync_ancestors;
use crate::base::error::{Error, Result};
use crate::base::ids::{DatabaseId, Epoch, TierId};
use crate::base::mutant::mutant;
use crate::base::names::{self, Kind};
use crate::base::tier_dirs::{MAX_SLOW_TIERS, TierDirs, Times};
use crate::jobs::Orphans;
use crate::plan::tree::MoveTimes;
use crate::version::state::FIRST_EPOCH;
use crate::version::{Change, DirLock, Edit, State, TierFile, next_epoch};
use braidb_storage::{DeviceTimes, Env, FileSystem, Routed};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that file systems make at the root of a device, and that no program owns.
const LOST_AND_FOUND: &str = "lost+found";

/// What the user may do with files that an evacuation left, because readers held them until the process ended.
const LEFT_OVER: &str = "if this database has evacuated the directory, its tables and value files are left over, and may be deleted";

/// The slow tiers of one open, at least one.
#[derive(Debug)]
pub(super) struct SlowTiers {
    database: DatabaseId,
    /// Whether the manifest lacks the database id.
    is_first: bool,
    /// The epoch of the manifest, and the one that this open gives to all tiers.
    earlier: Epoch,
    epoch: Epoch,
    slow: Vec<SlowTier>,
    dirs: TierDirs,
    locks: Vec<DirLock>,
}

/// Microseconds for the measurement of a device when a tier joins: 1 s. A disk makes 60 seeks in it. `braidb-lab device` takes 5 s.
const MEASURE_US: u64 = 1_000_000;

/// A slow tier of an open.
#[derive(Debug)]
struct SlowTier {
    id: TierId,
    path: PathBuf,
    /// The measured times of the device, from `TIER`; all unknown for a new tier.
    times: Times,
    fs: Arc<dyn FileSystem>,
    /// Whether the caller of the open named the path.
    is_named: bool,
}

/// The purpose for which the tiers are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// An open: new directories join.
    Open,
    /// A verification, or an open that only reads: new directories are no part of the database.
    Look,
}

/// What an open sees in a directory: its `TIER`, and the names of other files.
struct Seen {
    tier: Option<TierFile>,
    /// The name of a table or value file.
    file: Option<String>,
    /// The name of a file that does not belong in a tier.
    foreign: Option<String>,
}

/// What a directory is for a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Known(TierId, Times),
    New,
}

/// The database that looks for its tiers.
struct Seeker<'a> {
    env: &'a Env,
    dir: &'a Path,
    state: Option<&'a State>,
    database: DatabaseId,
    epoch: Epoch,
}

/// Finds, locks and checks the slow tiers of the database in `dir`: the tiers of `state`, and the directories `paths`, which are apart.
/// `None` if there are none. `env` has the whole file system. Changes nothing but the directories of new tiers.
pub(super) fn find(
    env: &Env,
    dir: &Path,
    paths: &[PathBuf],
    state: Option<&State>,
    purpose: Purpose,
) -> Result<Option<SlowTiers>> {
    let known: Vec<TierId> = state.into_iter().flat_map(State::tiers).map(|tier| tier.id).collect();
    if paths.is_empty() && known.iter().all(|&id| id == TierId::FAST) {
        return Ok(None);
    }
    let remembered = state.and_then(State::database);
    let database = remembered.unwrap_or_else(|| draw_database(env));
    let epoch = state.and_then(|state| state.tiers().next()).map_or(FIRST_EPOCH, |fast| fast.epoch);
    let seeker = Seeker { env, dir, state, database, epoch };
    let mut places = seeker.places(paths)?;
    // New directories come last, so that a refused open makes none.
    places.sort_by_key(|(_, role)| *role == Role::New);
    if purpose == Purpose::Look {
        places.retain(|(_, role)| *role != Role::New);
    }
    let mut tiers = SlowTiers {
        database,
        is_first: remembered.is_none(),
        earlier: epoch,
        epoch: raised(env, dir, epoch)?,
        slow: Vec::new(),
        dirs: TierDirs::from(dir),
        locks: Vec::new(),
    };
    for (path, role) in places {
        let (tier, lock) = seeker.take(&path, role, state.map_or(TierId::FAST, State::last_tier), &tiers)?;
        tiers.slow.push(SlowTier { is_named: paths.contains(&path), ..tier });
        tiers.locks.push(lock);
    }
    let dirs = tiers.slow.iter().map(|tier| (tier.id, tier.path.clone()));
    tiers.dirs = TierDirs::new(dir, dirs.collect());
    Ok((!tiers.slow.is_empty()).then_some(tiers))
}

/// Refuses a slow path that is empty, or is the database's directory or another slow path, or lies in or around one.
pub(super) fn check_apart(dir: &Path, paths: &[PathBuf]) -> Result<()> {
    for (index, path) in paths.iter().enumerate() {
        if path.as_os_str().is_empty() {
            let why = "it is empty; name the directory of a tier".to_owned();
            return Err(Error::InvalidOption { option: "slow_path", why });
        }
        check_apart_from(path, [dir].into_iter().chain(paths[..index].iter().map(PathBuf::as_path)))?;
    }
    Ok(())
}

/// The first of `others` that is `path`, or lies in or around it.
pub(super) fn not_apart<'a>(path: &Path, mut others: impl Iterator<Item = &'a Path>) -> Option<&'a Path> {
    others.find(|other| path.starts_with(other) || other.starts_with(path))
}

/// Refuses a slow path that is one of `others`, or lies in or around one.
fn check_apart_from<'a>(path: &Path, others: impl Iterator<Item = &'a Path>) -> Result<()> {
    let Some(other) = not_apart(path, others) else { return Ok(()) };
    let why = format!(
        "{} and {} are not apart; a tier needs a directory of its own",
        path.display(),
        other.display()
    );
    Err(Error::InvalidOption { option: "slow_path", why })
}

/// A new id for a database.
pub(super) fn draw_database(env: &Env) -> DatabaseId {
    let halves = [env.random.next_u64(), env.random.next_u64()];
    let mut id = [0; 16];
    id[..8].copy_from_slice(&halves[0].to_le_bytes());
    id[8..].copy_from_slice(&halves[1].to_le_bytes());
    DatabaseId(id)
}

/// A new epoch, above `epoch`.
fn raised(env: &Env, dir: &Path, epoch: Epoch) -> Result<Epoch> {
    next_epoch(epoch, env.random.as_ref()).ok_or_else(|| {
        Error::corruption(&dir.join(names::CURRENT), 0, "the manifest gives the tiers an impossible epoch")
    })
}

impl Seen {
    /// Looks into a directory. A directory that does not exist counts as empty.
    fn look(fs: &dyn FileSystem, path: &Path) -> Result<Seen> {
        let mut seen = Seen { tier: None, file: None, foreign: None };
        let entries = match fs.list(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(seen),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Error::tier(path, "it is a file, or lies below one; name a directory"));
            }
            Err(error) => return Err(Error::io("list", path, error)),
        };
        for entry in entries {
            match names::parse(&entry.name).filter(|_| !entry.is_dir) {
                Some(Kind::Table(_) | Kind::Values(_)) => seen.file = Some(entry.name),
                Some(Kind::Tier | Kind::TierTmp | Kind::Measure | Kind::Lock) => {}
                _ if entry.is_dir && entry.name == LOST_AND_FOUND => {}
                _ => seen.foreign = Some(entry.name),
            }
        }
        seen.tier = TierFile::read(fs, path)?;
        Ok(seen)
    }
}

impl Seeker<'_> {
    /// The paths of all slow tiers, each with what it is: the paths that the user named, and the remembered paths of all other
    /// tiers. Refuses if no path leads to a tier of the manifest.
    fn places(&self, paths: &[PathBuf]) -> Result<Vec<(PathBuf, Role)>> {
        let fs = self.env.fs.as_ref();
        let mut places: Vec<(PathBuf, Role)> = Vec::new();
        let mut by_tier: BTreeMap<TierId, &Path> = BTreeMap::new();
        for path in paths {
            let role = self.role(path, &Seen::look(fs, path)?)?;
            if let Role::Known(id, _) = role
                && let Some(other) = by_tier.insert(id, path)
            {
                let why = format!(
                    "it holds tier {}, and so does {}: one is a copy; name only the one that the database used last",
                    id.0,
                    other.display()
                );
                return Err(Error::tier(path, why));
            }
            places.push((path.clone(), role));
        }
        let known = self.state.into_iter().flat_map(State::tiers).filter(|tier| tier.id != TierId::FAST);
        for tier in known.filter(|tier| !by_tier.contains_key(&tier.id)) {
            let path = tier.place.unwrap_or(self.dir);
            let role = self.remembered(path, tier.id)?;
            // If a new tier lay in or around this one, a later open that names both would refuse them.
            let is_new = |(_, role): &&(PathBuf, Role)| *role == Role::New;
            check_apart_from(path, places.iter().filter(is_new).map(|(new, _)| new.as_path()))?;
            places.push((path.to_owned(), role));
        }
        if places.len() > MAX_SLOW_TIERS {
            let why = format!("with it there are {} tiers; the limit is {MAX_SLOW_TIERS}", places.len());
            return Err(Error::InvalidOption { option: "slow_path", why });
        }
        Ok(places)
    }

    /// What the remembered path of tier `id` is: that tier, or an error.
    fn remembered(&self, path: &Path, id: TierId) -> Result<Role> {
        let home = self.state.and_then(|state| state.tiers().next()).and_then(|fast| fast.place);
        if home != Some(self.dir) || path.is_absolute() != self.dir.is_absolute() {
            let why = format!(
                "tier {} was here when the database was at {}; now it is opened at {}, and this path counts no more: \
                 name the directory of the tier with `slow_path`",
                id.0,
                home.unwrap_or(self.dir).display(),
                self.dir.display()
            );
            return Err(Error::tier(path, why));
        }
        let seen = Seen::look(self.env.fs.as_ref(), path)?;
        if let (None, Some(name)) = (&seen.tier, &seen.file) {
            let why = format!(
                "tier {} is here, with files such as `{name}`, but its file `TIER` is missing: put back the `TIER` or \
                 a copy of the whole directory",
                id.0
            );
            return Err(Error::tier(path, why));
        }
        match self.role(path, &seen)? {
            Role::Known(found, times) if found == id => Ok(Role::Known(id, times)),
            Role::Known(found, _) => {
                let why = format!(
                    "tier {} was here, and now it is tier {}: name the directories of both with `slow_path`",
                    id.0, found.0
                );
                Err(Error::tier(path, why))
            }
            Role::New => {
                let why = format!(
                    "tier {} was here, and the directory is missing or has no file `TIER`: mount its device, or name \
                     the directory of the tier with `slow_path`",
                    id.0
                );
                Err(Error::tier(path, why))
            }
        }
    }

    /// What a directory is, or why it is refused.
    fn role(&self, path: &Path, seen: &Seen) -> Result<Role> {
        let Some(file) = &seen.tier else { return self.role_without_tier(path, seen) };
        let is_known = self.state.is_some_and(|state| state.tiers().any(|tier| tier.id == file.tier));
        if mutant!("foreign_tier_accepted") && is_known {
            return Ok(Role::Known(file.tier, file.times));
        }
        if file.database != self.database {
            return Err(Error::tier(path, "it belongs to another database; name another directory"));
        }
        if is_known && file.accepts(self.epoch) {
            return Ok(Role::Known(file.tier, file.times));
        }
        if file.earlier > self.epoch {
            let why = "another copy of this database has used it since: open that copy, or go back to copies of all \
                       directories from one moment";
            return Err(Error::tier(path, why));
        }
        let is_remembered =
            self.state.is_some_and(|state| state.tiers().any(|tier| tier.place == Some(path)));
        if is_known && seen.file.is_none() && !is_remembered {
            // Either an open wrote this `TIER` and died before its edit. Another directory got the id later. Or this is an old copy without
            // files. The tier itself has to be found elsewhere.
            return self.role_without_tier(path, seen);
        }
        if is_known {
            let why = "it is older than the database, or was used with another copy: name the directory that this \
                       database used last, or go back to copies of all directories from one moment";
            return Err(Error::tier(path, why));
        }
        if let Some(name) = &seen.file {
            let why = format!(
                "it holds tables of tier {}, such as `{name}`, and this database does not have the tier: name another \
                 directory, or open the database that the tables belong to; {LEFT_OVER}",
                file.tier.0
            );
            return Err(Error::tier(path, why));
        }
        self.role_without_tier(path, seen)
    }

    fn role_without_tier(&self, path: &Path, seen: &Seen) -> Result<Role> {
        // If a file that does not belong in a tier lies beside the tables, these belong to a database or another program: they are not left
        // over.
        if let (Some(name), None) = (&seen.file, &seen.foreign) {
            let why = format!(
                "it holds tables, such as `{name}`, but its file `TIER` is missing: go back to a copy of the whole \
                 directory, or name another one; {LEFT_OVER}"
            );
            return Err(Error::tier(path, why));
        }
        match &seen.foreign {
            None => Ok(Role::New),
            Some(name) => {
                let why = format!("it holds `{name}`; name an empty or a new directory");
                Err(Error::tier(path, why))
            }
        }
    }

    /// Holds and locks a directory, which is made if a new tier has none. Another process may have changed it before, so it is judged
    /// again.
    fn take(
        &self,
        path: &Path,
        role: Role,
        last_tier: TierId,
        tiers: &SlowTiers,
    ) -> Result<(SlowTier, DirLock)> {
        if role == Role::New {
            let made = self.env.fs.create_dir_all(path);
            made.map_err(|error| Error::io("create the directory", path, error))?;
            let synced = sync_ancestors(self.env, path);
            synced.map_err(|error| Error::io("sync the directories above", path, error))?;
        }
        let held = self.env.fs.hold_dir(path);
        let fs = held.map_err(|error| Error::io("open the directory", path, error))?;
        let lock = DirLock::take(fs.as_ref(), path)?;
        let seen = Seen::look(fs.as_ref(), path)?;
        let now = self.role(path, &seen)?;
        let (id, times) = match (role, now) {
            (Role::Known(id, _), Role::Known(found, times)) if id == found => (id, times),
            (Role::New, Role::New) => {
                let largest = tiers.slow.iter().map(|tier| tier.id).max().unwrap_or(last_tier);
                let id = largest.max(last_tier).0.checked_add(1).map(TierId);
                let used_up =
                    || Error::tier(path, "the database has no tier id left; use the tiers that it has");
                (id.ok_or_else(used_up)?, self.measured(path))
            }
            _ => {
                return Err(Error::tier(
                    path,
                    "another process changed it just now; open the database again",
                ));
            }
        };
        Ok((SlowTier { id, path: path.to_owned(), times, fs, is_named: false }, lock))
    }
}

impl Seeker<'_> {
    /// The times of the device of a new tier; unknown if it is too full to be measured. The fast device is not measured: it takes the
    /// smaller part of the time of a move.
    fn measured(&self, path: &Path) -> Times {
        Times { slow: DeviceTimes::measure(self.env, path, MEASURE_US).ok(), fast: None }
    }
}

impl SlowTiers {
    /// Where the files of each tier are.
    pub fn dirs(&self) -> &TierDirs {
        &self.dirs
    }

    /// The file system of the database's directory, which is at `dir` of `fast`, and of all slow tiers.
    pub fn route(&self, dir: &Path, fast: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        let slow = self.slow.iter().map(|tier| (tier.path.clone(), tier.fs.clone()));
        Arc::new(Routed::new([(dir.to_owned(), fast)].into_iter().chain(slow).collect()))
    }

    /// What a move of a cell between the fast tier and the slowest one takes, by the measurements in `TIER`.
    pub fn move_times(&self) -> MoveTimes {
        let times = self.slow.iter().map(|tier| MoveTimes::of(&tier.times));
        times.max_by_key(|times| (times.seek_ns, times.byte_ps)).unwrap_or_default()
    }

    /// The tiers that the caller of the open named.
    pub fn named(&self) -> BTreeSet<TierId> {
        self.slow.iter().filter(|tier| tier.is_named).map(|tier| tier.id).collect()
    }

    /// The locks of the slow directories, for the lock of the database.
    pub fn take_locks(&mut self) -> Vec<DirLock> {
        std::mem::take(&mut self.locks)
    }

    /// What the first manifest of the open adds to the state.
    pub fn first_edit(&self) -> Edit {
        let mut edit = Edit::default();
        if self.is_first {
            edit.push(Change::DatabaseId(self.database));
        }
        edit
    }

    /// Writes the new epoch into the `TIER` of all tiers, as not confirmed yet. On a full device, first deletes the `orphans` of the tier:
    /// a crash can have left nothing else there.
    pub fn announce(&self, orphans: &Orphans) -> Result<()> {
        for tier in &self.slow {
            // A crash during a measurement may have left this file.
            let _ = tier.fs.unlink(&tier.path.join(names::MEASURE_FILE));
            let file = self.file(tier, self.earlier);
            match file.write(tier.fs.as_ref(), &tier.path) {
                Err(error) if error.is_full() => {
                    for path in orphans.paths_on(tier.id, &self.dirs) {
                        // A failed unlink is no error: the write below tells whether there is room.
                        let _ = tier.fs.unlink(&path);
                    }
                    file.write(tier.fs.as_ref(), &tier.path)?;
                }
                written => written?,
            }
        }
        Ok(())
    }

    /// Adds to the edit of recovery: the new epoch of all tiers, and where they are.
    pub fn add_to(&self, edit: &mut Edit, state: &State) {
        let fast = (TierId::FAST, self.dirs.fast());
        let slow = self.slow.iter().map(|tier| (tier.id, tier.path.as_path()));
        for (id, path) in [fast].into_iter().chain(slow) {
            edit.push(Change::Tier { id, epoch: self.epoch });
            let remembered = state.tiers().find(|tier| tier.id == id).and_then(|tier| tier.place);
            if remembered != Some(path) {
                edit.push(Change::TierPlace { id, path: path.to_owned() });
            }
        }
    }

    /// Confirms the new epoch, once the edit is stable.
    pub fn confirm(&self) -> Result<()> {
        self.slow.iter().try_for_each(|tier| self.file(tier, self.epoch).write(tier.fs.as_ref(), &tier.path))
    }

    fn file(&self, tier: &SlowTier, earlier: Epoch) -> TierFile {
        TierFile { database: self.database, tier: tier.id, epoch: self.epoch, earlier, times: tier.times }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Db, Options};
    use super::*;
    use crate::version::{Manifest, ManifestConfig, TableStore};
    use braidb_storage::inline::{Inline, SeededRandom, StepClock};
    use braidb_storage::sim::SimFs;

    const DIR: &str = "/db";
    const SLOW: &str = "/slow";

    fn open(fs: &SimFs, options: Options) -> Result<Db> {
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let random = Arc::new(SeededRandom::new(fs.ops()));
        options.env(Env { fs: Arc::new(fs.clone()), clock, random, runtime }).open(DIR)
    }

    /// Commits an edit to a closed database.
    fn commit(fs: &SimFs, change: Change) {
        let (fs, dir): (Arc<dyn FileSystem>, _) = (Arc::new(fs.clone()), Path::new(DIR));
        let config = ManifestConfig {
            fs: fs.clone(),
            dir: dir.to_owned(),
            lock: Arc::new(DirLock::take(fs.as_ref(), dir).unwrap()),
            counters: Arc::default(),
            tables: TableStore::detached(fs.clone(), dir),
            manifest_bytes: 1 << 20,
        };
        let read = Manifest::read(fs.as_ref(), dir, config.tables.clone()).unwrap();
        Manifest::resume(config, read, &Edit { changes: vec![change] }).unwrap();
    }

    #[test]
    fn an_evacuated_directory_may_become_a_new_tier() {
        let (fs, slow) = (SimFs::new(), Path::new(SLOW));
        drop(open(&fs, Options::new().slow_path(SLOW)).unwrap());
        let first = TierFile::read(&fs, slow).unwrap().unwrap();
        assert!((first.tier, first.earlier) == (TierId(1), first.epoch), "{first:?}");
        commit(&fs, Change::TierRemoved { id: TierId(1) });
        drop(open(&fs, Options::new()).unwrap());

        let table = slow.join("000900.table");
        fs.write_file(&table, b"").unwrap();
        match open(&fs, Options::new().slow_path(SLOW)) {
            Err(Error::Tier { why, .. }) => assert!(why.contains("tables of tier 1"), "{why}"),
            other => panic!("{other:?}"),
        }
        fs.unlink(&table).unwrap();
        drop(open(&fs, Options::new().slow_path(SLOW)).unwrap());
        let second = TierFile::read(&fs, slow).unwrap().unwrap();
        assert!(second.tier == TierId(2) && second.database == first.database, "{second:?}");
        assert!(second.epoch > first.epoch && second.earlier == second.epoch, "{second:?}");
    }

    #[test]
    fn an_impossible_epoch_is_an_error() {
        let fs = SimFs::new();
        drop(open(&fs, Options::new()).unwrap());
        commit(&fs, Change::Tier { id: TierId::FAST, epoch: Epoch::MAX });
        let refused = open(&fs, Options::new().slow_path(SLOW)).unwrap_err();
        assert!(refused.is_corruption() && refused.to_string().contains("impossible epoch"), "{refused}");
    }
}
