//! The names of the files in the directories of a database.

use super::ids::FileId;
use std::path::{Path, PathBuf};

/// Holds the name of the current manifest; replaced by renaming.
pub const CURRENT: &str = "CURRENT";
/// The name of `CURRENT` while it is being written.
pub const CURRENT_TMP: &str = "CURRENT.tmp";
/// Locked by the process that has the database open.
pub const LOCK: &str = "LOCK";
/// Tells which tier of which database a directory is; only in the directories of slow tiers.
pub const TIER: &str = "TIER";
/// The name of `TIER` while it is being written.
pub const TIER_TMP: &str = "TIER.tmp";
/// The file with which the device of a new slow tier is measured, deleted at once. A crash may leave it.
pub use braidb_storage::MEASURE_FILE;

/// The meaning of a file name in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Log(FileId),
    Table(FileId),
    Values(FileId),
    Manifest(FileId),
    Current,
    CurrentTmp,
    Lock,
    Tier,
    TierTmp,
    Measure,
}

pub fn log(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.log"))
}

pub fn table(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.table"))
}

pub fn values(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.values"))
}

pub fn manifest(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.manifest"))
}

/// Parses a file name. `None` for a file that is not the database's.
pub fn parse(name: &str) -> Option<Kind> {
    match name {
        CURRENT => return Some(Kind::Current),
        CURRENT_TMP => return Some(Kind::CurrentTmp),
        LOCK => return Some(Kind::Lock),
        TIER => return Some(Kind::Tier),
        TIER_TMP => return Some(Kind::TierTmp),
        MEASURE_FILE => return Some(Kind::Measure),
        _ => {}
    }
    let (digits, extension) = name.split_once('.')?;
    if digits.len() < 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let id = FileId(digits.parse().ok()?);
    match extension {
        "log" => Some(Kind::Log(id)),
        "table" => Some(Kind::Table(id)),
        "values" => Some(Kind::Values(id)),
        "manifest" => Some(Kind::Manifest(id)),
        _ => None,
    }
}

/// The kind of store, other than BraidDB, to which a file of this name belongs. Several kinds have files `CURRENT`, `LOCK` and
/// `NNNNNN.log`, so these names alone decide nothing.
pub fn other_store(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.').unwrap_or_default();
    match name {
        "data.mdb" | "lock.mdb" => Some("LMDB"),
        "IDENTITY" => Some("RocksDB"),
        _ if name.starts_with("OPTIONS-") => Some("RocksDB"),
        _ if name.starts_with("MANIFEST-") => Some("LevelDB or RocksDB"),
        _ => match extension {
            "ldb" => Some("LevelDB"),
            "sst" => Some("LevelDB or RocksDB"),
            "redb" => Some("redb"),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let dir = Path::new("d");
        for id in [FileId(1), FileId(999_999), FileId(12_345_678)] {
            for (path, kind) in [
                (log(dir, id), Kind::Log(id)),
                (table(dir, id), Kind::Table(id)),
                (values(dir, id), Kind::Values(id)),
                (manifest(dir, id), Kind::Manifest(id)),
            ] {
                assert_eq!(parse(path.file_name().unwrap().to_str().unwrap()), Some(kind));
            }
        }
        for foreign in ["", "1.log", "000001.sst", "x00001.log", "000001.log.gz", "current"] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
