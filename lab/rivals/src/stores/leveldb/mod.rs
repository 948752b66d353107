//! LevelDB, HyperLevelDB and PebblesDB, from shared objects. They have no families: if a run has several, each key begins with one byte that
//! names its family. They hand their log to the operating system at each put, which is the default.

mod ffi;

use super::{Settings, quiet};
use crate::Outcome;
use braidb_bench::Store;
use ffi::Database;
pub use ffi::release;
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

struct LevelDb {
    db: Database,
    dir: PathBuf,
    /// Whether keys begin with their family.
    has_families: bool,
    /// Whether the tables tell by LevelDB's own rules that a compaction is due.
    lists_tables: bool,
}

/// Opens a database. `lists_tables` tells LevelDB from the stores that came from it: they compact by other rules.
pub fn open(
    library: &'static Library,
    dir: &Path,
    families: usize,
    settings: &Settings,
    lists_tables: bool,
) -> Outcome<Box<dyn Store>> {
    if families > 256 {
        return Err(format!(
            "{families} families: LevelDB has none, and the byte that tells them apart has room for 256"
        )
        .into());
    }
    let db = Database::open(library, dir, settings)?;
    Ok(Box::new(LevelDb { db, dir: dir.to_owned(), has_families: families > 1, lists_tables }))
}

impl LevelDb {
    /// Calls `act` with the key in the form that the database has.
    fn with_key<T>(&self, family: usize, key: &[u8], act: impl FnOnce(&[u8]) -> T) -> T {
        match self.has_families {
            true => act(&[&[family as u8], key].concat()),
            false => act(key),
        }
    }

    fn property(&self, name: &'static CStr) -> Outcome<String> {
        let unknown = || format!("this release of LevelDB does not tell {}", name.to_string_lossy());
        Ok(self.db.property(name).ok_or_else(unknown)?)
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
        if self.lists_tables && wants_compaction(&self.property(c"leveldb.sstables")?)? {
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

    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let mut seen = 0;
        if limit == 0 {
            return Ok(seen);
        }
        let mut see_of_family = |key: &[u8], value: &[u8]| {
            let key = match self.has_families {
                true if usize::from(key[0]) != family => return false,
                true => &key[1..],
                false => key,
            };
            see(key, value);
            seen += 1;
            seen < limit
        };
        self.with_key(family, from, |from| self.db.scan(from, &mut see_of_family))?;
        Ok(seen)
    }

    /// LevelDB has no call that waits, and no counter of its current work. The list of tables tells whether LevelDB wants a compaction for
    /// their number or bytes, until the compaction has ended. A second log tells of a flush. A compaction that reads ask for shows in the
    /// directory only, so the directory must stay unchanged for a while. Of HyperLevelDB and PebblesDB the directory alone is watched.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        quiet::wait(mark, || self.idle_files())
    }

    /// Bytes written to each level, by flushes and by compactions into the level, rounded to mebibytes. LevelDB tells no other bytes.
    fn counts(&self) -> Vec<(String, u64)> {
        let table = self.db.property(c"leveldb.stats").unwrap_or_default();
        (0..LEVELS)
            .map(|level| (format!("tables_l{level}_bytes"), written_mib(&table, level) << 20))
            .collect()
    }
}

/// The number of levels: `kNumLevels` in LevelDB's `dbformat.h`.
const LEVELS: usize = 7;
/// The tables in L0 that start a compaction: `kL0_CompactionTrigger`.
const L0_TABLES: usize = 4;
/// The bytes that L1 may hold, as `MaxBytesForLevel` in LevelDB's `version_set.cc`. Each further level holds ten times as much.
const L1_BYTES: f64 = 10_485_760.0;

/// Whether tables ask for a compaction by their number or bytes, as `VersionSet::Finalize` decides. `tables` is the property
/// `leveldb.sstables`: lines such as `--- level 1 ---` and ` 17:2113034['a' @ 5 : 1 .. 'k' @ 9 : 1]`.
fn wants_compaction(tables: &str) -> Outcome<bool> {
    let mut level: Option<usize> = None;
    let (mut count, mut bytes) = ([0; LEVELS], [0.0; LEVELS]);
    for line in tables.lines() {
        let unknown =
            || format!("this release of LevelDB lists tables in a way that is not known here: {line}");
        if let Some(number) = line.strip_prefix("--- level ").and_then(|rest| rest.strip_suffix(" ---")) {
            level = Some(number.parse().ok().filter(|&level| level < LEVELS).ok_or_else(unknown)?);
            continue;
        }
        let size = line.split_once(':').and_then(|(_, rest)| rest.split_once('[')?.0.parse::<f64>().ok());
        let (level, size) = level.zip(size).ok_or_else(unknown)?;
        count[level] += 1;
        bytes[level] += size;
    }
    let limits = std::iter::successors(Some(L1_BYTES), |limit| Some(10.0 * limit));
    // The last level has no deeper level to compact into.
    let is_over = bytes[1..LEVELS - 1].iter().zip(limits).any(|(&bytes, limit)| bytes >= limit);
    Ok(count[0] >= L0_TABLES || is_over)
}

/// The last column of the row of a level in the property `leveldb.stats`; 0 where the level has no row yet.
fn written_mib(table: &str, level: usize) -> u64 {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut of_level = rows.filter(|row| row.len() == 6 && row[0].parse() == Ok(level));
    of_level.next().and_then(|row| row[5].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_tell_whether_a_compaction_is_wanted() {
        let of = |text: &str| wants_compaction(text).unwrap();
        let level_0 =
            |tables| format!("--- level 0 ---\n{}", " 5:1000['a:[' @ 1 : 1 .. 'b' @ 2 : 1]\n".repeat(tables));
        assert!(!of(""));
        assert!(!of(&level_0(3)) && of(&level_0(4)));
        let in_level =
            |level, bytes| format!("{}--- level {level} ---\n 7:{bytes}['a' .. 'b']\n", level_0(1));
        assert!(!of(&in_level(1, 10_485_759)) && of(&in_level(1, 10_485_760)));
        assert!(!of(&in_level(2, 104_857_599)) && of(&in_level(2, 104_857_600)));
        assert!(!of(&in_level(6, u64::MAX)));
        for unknown in ["--- level 7 ---", " 5:1000['a' .. 'b']", "--- level 0 ---\n 5:x['a' .. 'b']"] {
            let error = wants_compaction(unknown).unwrap_err().to_string();
            assert!(error.contains("not known here"), "{error}");
        }
    }

    #[test]
    fn the_last_column_is_what_was_written() {
        let table = "                               Compactions\nLevel  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
            --------------------------------------------------\n  0        2        7         1        0        55\n  \
            2        9       20         3       70        61\n";
        assert_eq!([0, 1, 2].map(|level| written_mib(table, level)), [55, 0, 61]);
    }
}
