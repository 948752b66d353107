//! Compares the files that the state names with those that were found when the database was opened: tables, logs that tables point
//! into, and value files.

use super::State;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::tier_dirs::TierDirs;
use std::collections::BTreeMap;
use std::path::Path;

/// A table or value file that was found in the directory of a tier when the database was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundFile {
    pub tier: TierId,
    pub id: FileId,
    pub bytes: u64,
    /// Bytes of a value file that lie in holes; 0 for a table.
    pub hole_bytes: u64,
}

/// The files that were found, by tier and id.
fn by_place(found: &[FoundFile]) -> BTreeMap<(TierId, FileId), &FoundFile> {
    found.iter().map(|file| ((file.tier, file.id), file)).collect()
}

impl State {
    /// Compares the tables with the files `found` in the directories of their tiers. A missing file or another length is corruption.
    /// Returns the files to which no slice refers, left behind by a crash; the caller unlinks them.
    pub fn check_tables(&self, dirs: &TierDirs, found: &[FoundFile]) -> Result<Vec<(TierId, FileId)>> {
        let found = by_place(found);
        for table in self.tables() {
            let path = dirs.table(table.tier, table.id);
            match found.get(&(table.tier, table.id)).map(|file| file.bytes) {
                None => return Err(Error::corruption(&path, 0, "the file is missing")),
                Some(bytes) if bytes != table.bytes => {
                    let what = format!("the file has {bytes} bytes instead of {}", table.bytes);
                    return Err(Error::corruption(&path, bytes.min(table.bytes), what));
                }
                Some(_) => {}
            }
        }
        let is_named =
            |&(tier, id): &(TierId, FileId)| self.table(id).is_some_and(|table| table.tier == tier);
        Ok(found.into_keys().filter(|file| !is_named(file)).collect())
    }

    /// Compares the bodies of tables with the log files found in the directory, `found` (id and length). A missing or
    /// too short log is corruption. A longer log is sound: the unused space behind a log may not have been cut off.
    pub fn check_bodies(&self, dir: &Path, found: &[(FileId, u64)]) -> Result<()> {
        let found: BTreeMap<FileId, u64> = found.iter().copied().collect();
        for (log, body) in self.log_bodies() {
            check_body("log", &names::log(dir, log), body.file.bytes, found.get(&log).copied())?;
        }
        Ok(())
    }

    /// Compares the value files with those `found` in the directories of their tiers. A missing or too short file is corruption. A
    /// longer file has a tail: a crash left it, or the tables that named it are gone. Returns the files to which no table points, left
    /// behind by a crash; the caller unlinks them.
    pub fn check_value_files(
        &mut self,
        dirs: &TierDirs,
        found: &[FoundFile],
    ) -> Result<Vec<(TierId, FileId)>> {
        let found = by_place(found);
        for (&id, file) in &mut self.value_files {
            let found = found.get(&(file.tier, id));
            let found_bytes = found.map(|found| found.bytes);
            check_body("value file", &dirs.values(file.tier, id), file.bytes, found_bytes)?;
            file.tail_bytes = found_bytes.map_or(0, |bytes| bytes - file.bytes);
            file.hole_bytes = found.map_or(0, |found| found.hole_bytes.min(file.bytes));
        }
        let is_named = |(tier, id): &(TierId, FileId)| {
            let file = self.value_files.get(id).filter(|file| file.tier == *tier);
            file.is_some_and(|file| !(mutant!("value_file_forgotten_at_open") && file.tables > 1))
        };
        Ok(found.into_keys().filter(|file| !is_named(file)).collect())
    }
}

/// Compares the committed length of a body with the length of its file, `found`.
fn check_body(kind: &str, path: &Path, committed_bytes: u64, found: Option<u64>) -> Result<()> {
    let (offset, what) = match found {
        None => (0, format!("the {kind} is missing, and tables point to values in it")),
        Some(bytes) if bytes < committed_bytes => {
            let what = format!(
                "the {kind} has {bytes} bytes instead of {committed_bytes}, and tables point to values in it"
            );
            (bytes, what)
        }
        Some(_) => return Ok(()),
    };
    Err(Error::corruption(path, offset, what))
}
