//! Space that files take on the device, and removal of a benchmark's directories.
#![allow(clippy::disallowed_methods, reason = "see the module `host`")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bytes that the file system has allocated for the files below a directory: without holes, with reserved space.
///
/// # Errors
///
/// The kernel's error if `dir` is no directory or may not be read. A file that vanishes during the walk counts as 0 bytes.
pub fn allocated_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += match metadata.is_dir() {
            true => allocated_below(&entry.path()).unwrap_or(0),
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}

/// Removes a directory and all its content, if the directory exists.
///
/// # Errors
///
/// The kernel's error if the directory exists and cannot be removed.
pub fn remove_if_there(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_deeper_directories_count() {
        let dir = std::env::temp_dir().join(format!("braidb-bench-files-{}", std::process::id()));
        fs::create_dir_all(dir.join("deeper")).unwrap();
        fs::write(dir.join("deeper/file"), vec![1; 100_000]).unwrap();
        assert!(allocated_below(&dir).unwrap() >= 100_000);
        remove_if_there(&dir).unwrap();
        remove_if_there(&dir).unwrap();
        assert!(allocated_below(&dir).is_err());
    }
}
