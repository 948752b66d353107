//! Files, time and the environment. Only this module of the tool touches them. The tool starts processes in turns and keeps their output,
//! so it has nothing to replay from a seed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "see above")]

use braidb_bench::Outcome;
use braidb_bench::host::files::remove_if_there;
use braidb_cli::host::files::remove_if_present;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Adds the name of the file to an error.
fn at<T>(what: &str, path: &Path, result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|error| format!("could not {what} {}: {error}", path.display()).into())
}

/// Creates a directory and its parents; a directory that exists is fine.
pub fn create_dir(path: &Path) -> Outcome {
    at("create the directory", path, fs::create_dir_all(path))
}

/// Removes a directory with all that lies in it; a missing one is fine.
pub fn remove_dir(path: &Path) -> Outcome {
    at("remove", path, remove_if_there(path))
}

/// Writes the text of a small file. A file that has the text already keeps its modification time, so that cargo rebuilds nothing.
pub fn write_text(path: &Path, text: &str) -> Outcome {
    match fs::read_to_string(path) {
        Ok(present) if present == text => Ok(()),
        _ => at("write", path, fs::write(path, text)),
    }
}

/// The text of a file; `None` if it is missing.
pub fn read_text(path: &Path) -> Outcome<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => at("read", path, other).map(Some),
    }
}

/// Copies a file. The copy appears whole under its name, even while an older file of this name runs as a program.
pub fn copy(from: &Path, to: &Path) -> Outcome {
    let partial = to.with_extension("partial");
    at("copy", from, fs::copy(from, &partial))?;
    at("rename", &partial, fs::rename(&partial, to))
}

/// Removes a file; a missing one is fine.
pub fn remove_file(path: &Path) -> Outcome {
    at("remove", path, remove_if_present(path))
}

/// Adds a line to a file, which is created if it is missing.
pub fn append_line(path: &Path, line: &str) -> Outcome {
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    at("append to", path, file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())))
}

/// A file that is locked until this value is dropped.
pub struct Lock {
    _file: File,
}

/// Locks a file, and writes `holder` into it. If another process has the lock, calls `wait` with the content of the file, and waits.
pub fn lock(path: &Path, holder: &str, wait: impl FnOnce(&str)) -> Outcome<Lock> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = at("open the lock", path, file)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut other = String::new();
            at("read the lock", path, file.read_to_string(&mut other))?;
            wait(other.trim());
            at("lock", path, file.lock())?;
        }
        Err(TryLockError::Error(error)) => return at("lock", path, Err(error)),
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{holder}"));
    at("write the lock", path, written)?;
    Ok(Lock { _file: file })
}

/// The path in an environment variable; `None` if the variable is unset or empty.
pub fn path_of(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Seconds since the first of January 1970, UTC.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
