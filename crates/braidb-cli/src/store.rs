//! Opens a database for a verb, and closes it.
//!
//! A verb makes the paths of a database and its slow tiers absolute. The database remembers paths as they are given, and uses a remembered
//! tier only if the database itself has the path that it had then. So a verb finds the tiers from every working directory.

use crate::failure::{Failure, Outcome, storage};
use crate::figures::counted;
use crate::host::files;
use braidb::stats::{Cut, RecoveryReport, VerifyReport};
use braidb::storage::{FileSystem, real::RealFs};
use braidb::{ColumnFamily, Db, Durability, Options};
use clap::Args;
use std::path::{Path, PathBuf};

/// The database that a verb works on.
#[derive(Args, Debug)]
pub struct Place {
    /// The directory of the database
    pub dir: PathBuf,
    /// Where a slow tier is now that was moved; once for each. Tiers in their old places need no flag
    #[arg(long = "slow-path", value_name = "DIR")]
    slow_paths: Vec<PathBuf>,
}

/// Which keys a verb works on.
#[derive(Args, Debug)]
pub struct Target {
    #[command(flatten)]
    place: Place,
    /// The column family to work in; put and load make it if it is missing
    #[arg(long, value_name = "NAME", default_value = DEFAULT_FAMILY)]
    pub family: String,
}

/// The file that marks a directory which `braidb-lab bench` made, and the benchmark's database in it.
pub const BENCH_MARK: &str = "BRAIDB-BENCH";
pub const BENCH_DB: &str = "db";

/// The file whose lock tells whether a process has a database open.
const LOCK: &str = "LOCK";

/// The file that marks the directory of a slow tier.
pub const TIER: &str = "TIER";

/// The column family that every database has.
const DEFAULT_FAMILY: &str = "default";

impl Place {
    /// Opens the database, which must exist.
    pub fn open(&self, durability: Durability) -> Outcome<Db> {
        self.open_with(Options::new().durability(durability))
    }

    /// Opens the database, which must exist, to read it: nothing on the device changes.
    pub fn open_to_read(&self) -> Outcome<Db> {
        self.read_with(Options::new())
    }

    /// Opens the database to read it, although files of it may be damaged or missing.
    pub fn open_damaged(&self) -> Outcome<Db> {
        self.read_with(Options::new().open_damaged(true))
    }

    fn read_with(&self, options: Options) -> Outcome<Db> {
        require_directory(&self.dir)?;
        told(self.with_tiers(options)?.open_read_only(self.dir()?)?)
    }

    /// Opens the database, which must exist, with `options`.
    pub fn open_with(&self, options: Options) -> Outcome<Db> {
        require_directory(&self.dir)?;
        open_with(&self.dir()?, self.with_tiers(options.create_if_missing(false))?)
    }

    /// Opens the database, creating it if it does not exist.
    fn open_or_create(&self, durability: Durability) -> Outcome<Db> {
        open_with(&self.dir()?, self.with_tiers(Options::new().durability(durability))?)
    }

    /// Reads every byte of the database without opening it. `progress` gets the bytes of the files that were begun, and all bytes.
    pub fn verify(&self, progress: impl FnMut(u64, u64)) -> Outcome<VerifyReport> {
        require_directory(&self.dir)?;
        Ok(self.with_tiers(Options::new())?.verify_with_progress(self.dir()?, progress)?)
    }

    /// Whether the user named the places of slow tiers.
    pub fn names_tiers(&self) -> bool {
        !self.slow_paths.is_empty()
    }

    /// The directory of the database as an absolute path.
    fn dir(&self) -> Outcome<PathBuf> {
        absolute(&self.dir)
    }

    /// Adds the directories of moved tiers. A directory that is no tier is refused, because an open would make it one.
    fn with_tiers(&self, options: Options) -> Outcome<Options> {
        self.slow_paths.iter().try_fold(options, |options, path| {
            let path = absolute(path)?;
            if !path.join(TIER).exists() {
                return Err(Failure::Use(format!(
                    "{} is no slow tier: it has no file `{TIER}`; `braidb tier add` adds a tier",
                    path.display()
                )));
            }
            Ok(options.slow_path(path))
        })
    }
}

impl Target {
    /// Opens the database and the family, which must both exist.
    pub fn open(&self, durability: Durability) -> Outcome<Store> {
        self.in_family(self.place.open(durability)?)
    }

    /// Opens the database and the family, which must both exist, to read them: nothing on the device changes.
    pub fn open_to_read(&self) -> Outcome<Store> {
        self.in_family(self.place.open_to_read()?)
    }

    /// Opens the database and the family to read them, although files may be damaged or missing.
    pub fn open_damaged(&self) -> Outcome<Store> {
        self.in_family(self.place.open_damaged()?)
    }

    fn in_family(&self, db: Db) -> Outcome<Store> {
        let family = db.column_family(&self.family)?;
        Ok(Store { db, family })
    }

    /// Opens the database and the family, creating what does not exist.
    pub fn open_or_create(&self, durability: Durability) -> Outcome<Store> {
        let db = self.place.open_or_create(durability)?;
        let family = db.create_column_family(&self.family)?;
        Ok(Store { db, family })
    }
}

/// An open database and one of its families.
pub struct Store {
    pub db: Db,
    pub family: ColumnFamily,
}

impl Store {
    /// Closes the database. An error of the close is returned.
    pub fn close(self) -> Outcome {
        Ok(self.db.close()?)
    }
}

/// A path that leads to the same place from every working directory.
pub fn absolute(path: &Path) -> Outcome<PathBuf> {
    files::absolute(path).map_err(|error| Failure::file("find", path, &error))
}

/// Opens a database, and prints to standard error what its recovery left out.
pub fn open_with(dir: &Path, options: Options) -> Outcome<Db> {
    require_plausible(dir)?;
    told(options.open(dir)?)
}

/// Prints what the recovery of `db` left out.
fn told(db: Db) -> Outcome<Db> {
    losses(db.recovery()).iter().for_each(|loss| eprintln!("braidb: {loss}"));
    Ok(db)
}

/// Refuses a path where no database can be, with a clearer message than the engine's.
fn require_directory(dir: &Path) -> Outcome {
    match dir.exists() {
        true => require_plausible(dir),
        false => Err(Failure::Use(format!(
            "there is no database: {} does not exist; `braidb put` and `braidb load` create one",
            dir.display()
        ))),
    }
}

/// Refuses a path that exists and is no directory, and the directory around a benchmark's database.
fn require_plausible(dir: &Path) -> Outcome {
    if dir.exists() && !dir.is_dir() {
        return Err(is_a_file(dir));
    }
    if dir.join(BENCH_MARK).exists() {
        let db = dir.join(BENCH_DB);
        return Err(Failure::Use(format!(
            "{} is the directory of a benchmark; its database is in {}",
            dir.display(),
            db.display()
        )));
    }
    Ok(())
}

fn is_a_file(path: &Path) -> Failure {
    Failure::Use(format!("{} is a file, not a directory: name the directory of a database", path.display()))
}

/// What a recovery left out, in words.
pub fn losses(report: &RecoveryReport) -> Vec<String> {
    let cut_in = |file, cut: &Cut| {
        format!(
            "the {file}'s last {} left out (nothing says that they had been synced): from byte {} of \
             {} on, with {} among them",
            counted(cut.bytes, "byte was not whole and was", "bytes were not whole and were"),
            cut.offset,
            cut.path.display(),
            counted(cut.whole_frames_behind, "whole frame", "whole frames")
        )
    };
    let log = report.cut.iter().map(move |cut| cut_in("log", cut));
    let cuts = log.chain(report.manifest_cut.iter().map(move |cut| cut_in("manifest", cut)));
    let logs = report.set_aside.iter();
    cuts.chain(
        logs.map(|path| format!("recovery did not replay {}, which lies behind the cut", path.display())),
    )
    .collect()
}

/// Removes the files of a database that no process has open. Calls `before` once the lock is held. The file of the lock stays, because its
/// lock keeps other processes out meanwhile. The files are removed from the directory that was locked, even if its path later leads
/// elsewhere.
pub fn empty_database(dir: &Path, before: impl FnOnce() -> Outcome) -> Outcome {
    files::create_dir(dir).map_err(|error| Failure::file("create", dir, &error))?;
    let fs = RealFs.hold_dir(dir).map_err(|error| Failure::file("open", dir, &error))?;
    let lock = dir.join(LOCK);
    let _held = fs.lock(&lock).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => braidb::Error::Locked { path: dir.to_owned() }.into(),
        _ => Failure::file("lock", &lock, &error),
    })?;
    before()?;
    let remove = || -> std::io::Result<()> {
        let entries = fs.list(dir)?.into_iter();
        let mut files = entries.filter(|entry| !entry.is_dir && entry.name != LOCK);
        files.try_for_each(|entry| fs.unlink(&dir.join(entry.name)))
    };
    remove().map_err(|error| storage(&format!("could not remove the files in {}", dir.display()), error))
}

/// Refuses a directory that is not empty.
pub fn require_free(dir: &Path) -> Outcome {
    match files::is_free(dir) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Failure::Use(format!("{} is not empty; choose a new or an empty directory", dir.display())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Err(is_a_file(dir)),
        Err(error) => Err(storage(&format!("could not list {}", dir.display()), error)),
    }
}
