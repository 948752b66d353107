//! Files that are not the database's: rows to load, dumps, and the tree of files that the tour loads.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "see the module `host`")]

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The file that an argument names; `None` for `-`, which stands for standard input or output.
pub fn unless_dash(argument: Option<&Path>) -> Option<&Path> {
    argument.filter(|path| *path != "-")
}

/// Opens a file with rows to read. Returns its length too, unless it is a pipe or another file without a length.
pub fn open_input(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok((file, metadata.is_file().then_some(metadata.len())))
}

/// Creates a file that does not exist yet.
pub fn create_output(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Gives a complete new file its final name, durably.
pub fn publish(file: &File, written: &Path, finally: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(written, finally)?;
    let parent = match finally.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

/// Removes a file if it exists.
pub fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The text of a small file.
pub fn read_text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Creates a small file, or replaces its text.
pub fn write_text(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// Creates a directory and its parents; an existing directory is fine.
pub fn create_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Removes a directory and all its content.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

/// `path` as an absolute path without `..`. Links stay, but those before the last `..` are followed.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let components: Vec<Component<'_>> = path.components().collect();
    match components.iter().rposition(|component| *component == Component::ParentDir) {
        None => Ok(path),
        Some(last) => {
            let (above, below) = components.split_at(last + 1);
            Ok(fs::canonicalize(PathBuf::from_iter(above))?.join(PathBuf::from_iter(below)))
        }
    }
}

/// Whether two paths lead to one directory.
pub fn is_same_dir(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    place(one).is_some_and(|found| Some(found) == place(other))
}

/// Whether `path` is missing or an empty directory.
pub fn is_free(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().transpose().map(|first| first.is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// The bytes of all files directly in a directory.
pub fn bytes_in(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += match entry?.metadata() {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            _ => 0,
        };
    }
    Ok(bytes)
}

/// The files directly in a directory, by name, with the bytes that the file system has allocated for each. A file with holes has fewer
/// bytes than its length; a file with reserved space behind its end has more.
pub fn allocated_in(path: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A file that vanishes meanwhile takes nothing.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            files.push((entry.file_name().to_string_lossy().into_owned(), metadata.blocks() * 512));
        }
    }
    Ok(files)
}

/// A path with its size and the time when its content changed last.
pub struct Seen {
    pub path: Vec<u8>,
    pub size: u64,
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// Visits `root` and every path below it that this user may see, in no particular order. Does not follow links and does not leave the file
/// system.
pub fn walk(root: &Path, visit: &mut dyn FnMut(Seen)) -> io::Result<()> {
    let device = fs::symlink_metadata(root)?.dev();
    let mut waiting: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        // A path that vanishes meanwhile, or may not be read, is left out.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        visit(Seen {
            path: path.as_os_str().as_bytes().to_vec(),
            size: metadata.size(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        });
        if metadata.is_dir() && metadata.dev() == device {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn paths_become_absolute_and_keep_links_behind_the_last_parent() {
        let dir = std::env::temp_dir().join(format!("braidb-absolute-{}", std::process::id()));
        create_dir(&dir.join("real/below")).unwrap();
        std::os::unix::fs::symlink(dir.join("real/below"), dir.join("link")).unwrap();
        let real = fs::canonicalize(&dir).unwrap();
        assert_eq!(absolute(Path::new("name")).unwrap(), std::env::current_dir().unwrap().join("name"));
        assert_eq!(absolute(&dir.join("link/./new")).unwrap(), dir.join("link/new"));
        assert_eq!(absolute(&dir.join("link/../new")).unwrap(), real.join("real/new"));
        assert_eq!(absolute(&dir.join("real/../link/new")).unwrap(), real.join("link/new"));
        absolute(&dir.join("missing/../new")).unwrap_err();
        assert!(is_same_dir(&dir.join("link"), &dir.join("real/below")));
        assert!(!is_same_dir(&dir.join("missing"), &dir.join("missing")));
        remove_dir(&dir).unwrap();
    }

    #[test]
    fn holes_are_not_allocated() {
        let dir = std::env::temp_dir().join(format!("braidb-allocated-{}", std::process::id()));
        create_dir(&dir).unwrap();
        let file = create_output(&dir.join("holed")).unwrap();
        file.write_all_at(&[1; 4096], 64 << 20).unwrap();
        file.sync_all().unwrap();
        let files = allocated_in(&dir).unwrap();
        assert_eq!((files.len(), files[0].0.as_str()), (1, "holed"));
        assert!((4096..1 << 20).contains(&files[0].1), "{}", files[0].1);
        assert!(bytes_in(&dir).unwrap() > 64 << 20);
        remove_dir(&dir).unwrap();
    }
}
