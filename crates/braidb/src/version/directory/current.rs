//! `CURRENT`: the file that names the manifest in force. It is replaced by a rename, so it is always whole.
//!
//! ```text
//! BraidDB 000012.manifest 1a2b3c4d⏎        the crc, in lower-case hexadecimal, covers manifest id and the text before it
//! ```

use crate::base::checksum::at_place;
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use crate::base::names::{self, Kind};
use braidb_storage::{DirEntry, FileSystem};
use std::io;
use std::path::Path;

/// The content of a `CURRENT` that names manifest `id`.
pub fn content(id: FileId) -> String {
    let text = format!("BraidDB {id}.manifest ");
    let crc = at_place(id.0, 0, &[text.as_bytes()]);
    format!("{text}{crc:08x}\n")
}

/// The manifest that `CURRENT` names.
pub fn read(fs: &dyn FileSystem, dir: &Path) -> Result<FileId> {
    let path = dir.join(names::CURRENT);
    let bytes = read_file(fs, &path)?;
    if bytes.starts_with(b"MANIFEST-") {
        return Err(other_current(fs, dir, &bytes));
    }
    let named =
        std::str::from_utf8(&bytes).ok().and_then(|text| match names::parse(text.split(' ').nth(1)?)? {
            Kind::Manifest(id) => Some(id),
            _ => None,
        });
    named
        .filter(|&id| content(id).as_bytes() == bytes)
        .ok_or_else(|| Error::corruption(&path, 0, "the file does not name a manifest"))
}

/// What is wrong with a directory whose `CURRENT` looks like LevelDB's. The directory is LevelDB's if it has the file that `CURRENT` names,
/// or another file of such a store.
fn other_current(fs: &dyn FileSystem, dir: &Path, bytes: &[u8]) -> Error {
    let named = String::from_utf8_lossy(bytes);
    let named = named.trim_end();
    let is_theirs = |entry: &DirEntry| entry.name == named || names::other_store(&entry.name).is_some();
    if fs.list(dir).is_ok_and(|entries| entries.iter().any(is_theirs)) {
        let why = "its CURRENT file is that of a LevelDB or RocksDB database".to_owned();
        return Error::NotADatabase { path: dir.to_owned(), why };
    }
    let what = format!(
        "the file names the manifest `{}`, which is missing and has no name that BraidDB gives: put CURRENT back from a copy",
        named.escape_default()
    );
    Error::corruption(&dir.join(names::CURRENT), 0, what)
}

pub fn read_file(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let read = || {
        let file = fs.open(path)?;
        let len = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut bytes = vec![0; len];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|e| Error::io("read", path, e))
}

/// What a directory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A database: the directory has a `CURRENT`.
    Database,
    /// Nothing, or leftovers of an interrupted creation: a database may be created here.
    Nothing,
}

/// Checks whether a directory holds a database. A directory that does not exist counts as empty. Returns an error if the directory holds
/// files of another store, or logs or tables without a `CURRENT`. Other files and directories may be there: what a file system, a desktop or
/// a program keeps beside a database.
pub fn examine(fs: &dyn FileSystem, dir: &Path) -> Result<Found> {
    let entries = match fs.list(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            let why = "it is a file, or lies below one".to_owned();
            return Err(Error::NotADatabase { path: dir.to_owned(), why });
        }
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    let kind = |entry: &DirEntry| if entry.is_dir { None } else { names::parse(&entry.name) };
    if entries.iter().any(|entry| kind(entry) == Some(Kind::Current)) {
        return Ok(Found::Database);
    }
    if entries.iter().any(|entry| matches!(kind(entry), Some(Kind::Tier | Kind::TierTmp))) {
        let why = "it is a slow tier of a database in another directory".to_owned();
        return Err(Error::NotADatabase { path: dir.to_owned(), why });
    }
    let stores = entries.iter().filter(|entry| !entry.is_dir);
    if let Some((name, store)) =
        stores.filter_map(|entry| Some((&entry.name, names::other_store(&entry.name)?))).next()
    {
        let why = format!("it holds `{name}`, a file of {store}");
        return Err(Error::NotADatabase { path: dir.to_owned(), why });
    }
    // The first log is created after `CURRENT` is stable, so a log or a table proves that `CURRENT` existed.
    if entries
        .iter()
        .any(|entry| matches!(kind(entry), Some(Kind::Log(_) | Kind::Table(_) | Kind::Values(_))))
    {
        let path = dir.join(names::CURRENT);
        return Err(Error::corruption(&path, 0, "CURRENT is missing, but there are logs or tables"));
    }
    Ok(Found::Nothing)
}
