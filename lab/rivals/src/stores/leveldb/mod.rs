//! LevelDB, HyperLevelDB and PebblesDB, from shared objects. They have no families: if a run has several, each key begins with one byte
//! that names its family. They hand their log to the operating system at each put, which is the default. They compare no checksum when they
//! read, which is the default too, unless the variant whose name ends with `-checked` is asked for.

mod ffi;

use super::{Settings, quiet};
use crate::Outcome;
use braidb_bench::{See, Store};
use ffi::Database;
pub use ffi::release;
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

struct LevelDb {
    db: Database,
    dir: PathBuf,
    /// Whether keys begin with their family.
    has_families: bool,
}

pub fn open(
    library: &'static Library,
    dir: &Path,
    families: usize,
    settings: &Settings,
    is_checked: bool,
) -> Outcome<Box<dyn Store>> {
    if families > 256 {
        return Err(format!(
            "{families} families: LevelDB has none, and the byte that tells them apart has room for 256"
        )
        .into());
    }
    let db = Database::open(library, dir, settings, is_checked)?;
    Ok(Box::new(LevelDb { db, dir: dir.to_owned(), has_families: families > 1 }))
}

impl LevelDb {
    /// Calls `act` with the key in the form that the database has.
    fn with_key<T>(&self, family: usize, key: &[u8], act: impl FnOnce(&[u8]) -> T) -> T {
        match self.has_families {
            true => act(&[&[family as u8], key].concat()),
            false => act(key),
        }
    }

    /// The files of the directory by name, with their bytes; `None` while LevelDB has work to do.
    fn idle_files(&self) -> Outcome<Option<BTreeMap<OsString, u64>>> {
        let files = fs::read_dir(&self.dir)?.collect::<Result<Vec<_>, _>>()?;
        // The log of a full memtable stays until the memtable is in a table.
        let logs =
            files.iter().filter(|file| Path::new(&file.file_name()).extension() == Some("log".as_ref()));
        if logs.count() > 1 {
            return Ok(None);
        }
        let with_bytes = |file: &DirEntry| Some((file.file_name(), file.metadata().ok()?.len()));
        // A file that has vanished meanwhile tells of work, too.
        Ok(files.iter().map(with_bytes).collect())
    }
}

impl Store for LevelDb {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        Ok(self.with_key(family, key, |key| self.db.put(key, value))?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        Ok(self.with_key(family, key, |key| self.db.delete(key))?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        Ok(self.with_key(family, key, |key| self.db.get(key, see))?)
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let mut see_of_family = |key: &[u8], value: &[u8]| {
            let key = match self.has_families {
                true if usize::from(key[0]) != family => return false,
                true => &key[1..],
                false => key,
            };
            see(key, value);
            true
        };
        Ok(self.with_key(family, from, |from| self.db.scan(from, limit, &mut see_of_family))?)
    }

    /// LevelDB has no call that waits, and no counter of its current work. A second log tells of a flush. A compaction writes tables, and
    /// deletes others at its end. So the directory must stay unchanged for a while.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        quiet::wait(mark, || self.idle_files())
    }
}
