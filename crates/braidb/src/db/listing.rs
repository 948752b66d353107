//! The listing of a database: which logs, tables and value files lie in the directories of its tiers, and how long they are.

use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, TierId};
use crate::base::names::{self, Kind};
use crate::base::tier_dirs::TierDirs;
use crate::version::FoundFile;
use braidb_storage::{Env, File};
use std::io;
use std::path::Path;

/// The logs, tables and value files of a database, in the directories of all tiers.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub logs: Vec<(FileId, u64)>,
    pub tables: Vec<FoundFile>,
    pub value_files: Vec<FoundFile>,
}

impl Listing {
    /// The ids of the logs, ascending.
    pub fn log_ids(&self) -> Vec<FileId> {
        self.logs.iter().map(|(id, _)| *id).collect()
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        let files = self.tables.iter().chain(&self.value_files).map(|file| file.bytes);
        self.logs.iter().map(|&(_, bytes)| bytes).chain(files).sum()
    }

    pub fn read(env: &Env, dirs: &TierDirs) -> Result<Listing> {
        let mut listing = Listing::default();
        for (tier, dir) in dirs.all() {
            listing.add(env, tier, dir)?;
        }
        listing.logs.sort_unstable();
        Ok(listing)
    }

    fn add(&mut self, env: &Env, tier: TierId, dir: &Path) -> Result<()> {
        let entries = env.fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let bytes = || length(env, &dir.join(&entry.name));
            // Without the bytes of holes, collection copies what need not move.
            let bytes_and_holes = || {
                let of =
                    |file: &dyn File| file.len().map(|bytes| (bytes, file.hole_bytes(bytes).unwrap_or(0)));
                measured(env, &dir.join(&entry.name), of)
            };
            match names::parse(&entry.name) {
                Some(Kind::Log(id)) if tier == TierId::FAST => {
                    self.logs.extend(bytes()?.map(|bytes| (id, bytes)));
                }
                Some(Kind::Table(id)) => {
                    self.tables.extend(bytes()?.map(|bytes| FoundFile { tier, id, bytes, hole_bytes: 0 }));
                }
                Some(Kind::Values(id)) => {
                    let found = bytes_and_holes()?;
                    self.value_files.extend(found.map(|(bytes, hole_bytes)| FoundFile {
                        tier,
                        id,
                        bytes,
                        hole_bytes,
                    }));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The length of a file. `None` if the file is gone.
fn length(env: &Env, path: &Path) -> Result<Option<u64>> {
    measured(env, path, |file| file.len())
}

/// What `measure` finds of a file. `None` if the file is gone: a thread of a database that was closed just now deleted it.
fn measured<T>(env: &Env, path: &Path, measure: impl Fn(&dyn File) -> io::Result<T>) -> Result<Option<T>> {
    match env.fs.open(path).and_then(|file| measure(&*file)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path, error)),
    }
}
