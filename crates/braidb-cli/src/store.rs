//! Opening a database for a verb, and closing it again.

use crate::failure::{Failure, Outcome, storage};
use crate::host::files;
use braidb::{ColumnFamily, Db, Durability, Options, RecoveryReport};
use clap::Args;
use std::path::{Path, PathBuf};

/// Which keys a verb works on.
#[derive(Args, Debug)]
pub struct Target {
    /// The directory of the database
    pub dir: PathBuf,
    /// The column family to work in
    #[arg(long, value_name = "NAME", default_value = DEFAULT_FAMILY)]
    pub family: String,
}

/// The family that every database has.
const DEFAULT_FAMILY: &str = "default";

impl Target {
    /// Opens the database and the family, which must both exist.
    pub fn open(&self, durability: Durability) -> Outcome<Store> {
        let db = open_existing(&self.dir, durability)?;
        let families = db.column_families();
        if !families.contains(&self.family) {
            return Err(Failure::NotFound(format!(
                "there is no column family {:?} in {}; it has {}",
                self.family,
                self.dir.display(),
                families.join(", ")
            )));
        }
        let family = db.column_family(&self.family)?;
        Ok(Store { db, family })
    }

    /// Opens the database and the family, creating what does not exist.
    pub fn open_or_create(&self, durability: Durability) -> Outcome<Store> {
        let db = open_with(&self.dir, Options::new().durability(durability))?;
        let family = db.column_family(&self.family)?;
        Ok(Store { db, family })
    }
}

/// An open database and one of its families.
pub struct Store {
    pub db: Db,
    pub family: ColumnFamily,
}

impl Store {
    /// Closes the database, so that a failure to do so is seen.
    pub fn close(self) -> Outcome {
        Ok(self.db.close()?)
    }
}

/// Opens a database that must exist.
pub fn open_existing(dir: &Path, durability: Durability) -> Outcome<Db> {
    if !dir.exists() {
        return Err(Failure::Use(format!("there is no database: {} does not exist", dir.display())));
    }
    open_with(dir, Options::new().durability(durability).create_if_missing(false))
}

/// Opens a database, and tells on standard error if its recovery left anything out.
pub fn open_with(dir: &Path, options: Options) -> Outcome<Db> {
    let db = options.open(dir)?;
    losses(db.recovery()).iter().for_each(|loss| eprintln!("braidb: {loss}"));
    Ok(db)
}

/// What a recovery left out, in words.
fn losses(report: &RecoveryReport) -> Vec<String> {
    let cuts = report.cut.iter().chain(&report.manifest_cut).map(|cut| {
        format!(
            "recovery left out {} bytes that were never synced, from byte {} of {} on ({} whole frames among them)",
            cut.bytes,
            cut.offset,
            cut.path.display(),
            cut.whole_frames_behind
        )
    });
    let logs = report.set_aside.iter();
    cuts.chain(
        logs.map(|path| format!("recovery did not replay {}, which lies behind the cut", path.display())),
    )
    .collect()
}

/// Refuses a directory in which something lies already.
pub fn require_free(dir: &Path) -> Outcome {
    match files::is_free(dir) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Failure::Use(format!("{} is not empty; choose a new or an empty directory", dir.display())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(Failure::Use(format!("{} is not a directory", dir.display())))
        }
        Err(error) => Err(storage(&format!("could not list {}", dir.display()), error)),
    }
}
