//! Several directories, each held on a device of its own, behind one [`FileSystem`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Descriptors, DirEntry, File, FileSystem, LockGuard, Process};

/// Several held directories, the *parts*. The path decides which part serves a call.
///
/// A path of a file belongs to the part whose directory is the parent of the path. A path of a directory belongs to the
/// part with this directory. [`FileSystem::free_space`] takes both. A path of no part is refused with `InvalidInput`.
/// A rename or link from one part to another is refused with `CrossesDevices`, even if one device holds both.
///
/// Paths are compared by their components, and no link in them is followed. So two spellings of one directory are two
/// directories: the caller makes spellings equal. If two parts have equal directories, the first serves both.
///
/// ```
/// use braidb_storage::{FileSystem, Routed, real::RealFs};
/// let root = std::env::temp_dir().join(format!("braidb-storage-doc-routed-{}", std::process::id()));
/// let (fast, slow) = (root.join("fast"), root.join("slow"));
/// let mut parts = Vec::new();
/// for dir in [&fast, &slow] {
///     RealFs.create_dir_all(dir)?;
///     parts.push((dir.clone(), RealFs.hold_dir(dir)?));
/// }
/// let fs = Routed::new(parts);
/// fs.create(&slow.join("cold"))?.append(b"bytes")?;
/// assert_eq!(fs.list(&slow)?[0].name, "cold");
/// let error = fs.rename(&slow.join("cold"), &fast.join("cold")).unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::CrossesDevices);
/// assert_eq!(fs.list(&root).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Routed {
    parts: Arc<[(PathBuf, Arc<dyn FileSystem>)]>,
}

impl Routed {
    /// Serves each directory by the file system that [`FileSystem::hold_dir`] of this directory returned.
    pub fn new(parts: Vec<(PathBuf, Arc<dyn FileSystem>)>) -> Routed {
        Routed { parts: parts.into() }
    }

    /// The number of the part with the directory `dir`.
    fn part_at(&self, dir: &Path) -> Option<usize> {
        self.parts.iter().position(|(own, _)| own == dir)
    }

    /// The number of the part that has the file at `path` directly in its directory.
    fn part_around(&self, path: &Path) -> Option<usize> {
        // A path that ends with `..` has a parent, but names no file in it.
        path.file_name()?;
        self.part_at(path.parent()?)
    }

    /// The part with the directory `dir`.
    fn dir(&self, dir: &Path) -> io::Result<&dyn FileSystem> {
        let number = self.part_at(dir).ok_or_else(|| self.refuse("is no directory of", dir))?;
        Ok(&*self.parts[number].1)
    }

    /// The part that has the file at `path`.
    fn file(&self, path: &Path) -> io::Result<&dyn FileSystem> {
        Ok(&*self.parts[self.number(path)?].1)
    }

    fn number(&self, path: &Path) -> io::Result<usize> {
        self.part_around(path).ok_or_else(|| self.refuse("is no file directly in one of", path))
    }

    /// The part that has both files.
    fn both(&self, from: &Path, to: &Path) -> io::Result<&dyn FileSystem> {
        let number = self.number(from)?;
        if number != self.number(to)? {
            let what = format!("{} and {} are in different directories", from.display(), to.display());
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, what));
        }
        Ok(&*self.parts[number].1)
    }

    fn refuse(&self, is_no: &str, path: &Path) -> io::Error {
        let dirs: Vec<String> = self.parts.iter().map(|(dir, _)| dir.display().to_string()).collect();
        let what = format!("{} {is_no} the directories that are held: {}", path.display(), dirs.join(", "));
        io::Error::new(io::ErrorKind::InvalidInput, what)
    }
}

impl FileSystem for Routed {
    /// The process of the first part. All parts are held by one process.
    fn process(&self) -> io::Result<Process> {
        self.parts.first().map_or(Ok(Process::without_forks()), |(_, fs)| fs.process())
    }

    /// Returns a file system with the directory of one part alone.
    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        self.dir(dir)?.hold_dir(dir)
    }

    /// Creates nothing: every directory that this file system can name exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.dir(dir)?.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(path)?.create(path)
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(path)?.create_log(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(path)?.open(path)
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(path)?.open_to_rewrite(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.dir(dir)?.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.both(from, to)?.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.both(from, to)?.link(from, to)
    }

    /// Links a file of one part to a path outside of all parts.
    fn link_out(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.file(from)?.link_out(from, to)
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        self.file(path)?.links(path)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.file(path)?.unlink(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        self.file(path)?.punch_hole(path, offset, len)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.dir(dir)?.list(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.file(path)?.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.file(path)?.lock_shared(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        // A part in a directory of another part is asked about itself.
        self.dir(path).or_else(|_| self.file(path))?.free_space(path)
    }

    fn device_free_space(&self, path: &Path) -> io::Result<u64> {
        self.dir(path).or_else(|_| self.file(path))?.device_free_space(path)
    }

    /// The descriptors of the first part: all parts are in one process.
    fn descriptors(&self) -> Arc<Descriptors> {
        self.parts.first().map_or_else(Arc::default, |(_, fs)| fs.descriptors())
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        reason = "looks at the directories beside the file system under test"
    )]

    use std::fs;
    use std::io::ErrorKind;

    use super::*;
    use crate::real::RealFs;

    /// A new directory of the test `name`, with the directories `fast` and `slow` in it, and both as parts.
    fn routed(name: &str) -> (PathBuf, PathBuf, PathBuf, Routed) {
        let root = std::env::temp_dir().join(format!("braidb-routed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (fast, slow) = (root.join("fast"), root.join("slow"));
        let parts = [&fast, &slow].map(|dir| {
            RealFs.create_dir_all(dir).unwrap();
            (dir.clone(), RealFs.hold_dir(dir).unwrap())
        });
        (root, fast, slow, Routed::new(parts.into()))
    }

    fn names(dir: &Path) -> Vec<String> {
        RealFs.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn every_call_goes_to_the_part_of_its_path() {
        let (root, fast, slow, fs) = routed("calls");
        for (dir, text) in [(&fast, "in fast"), (&slow, "in slow")] {
            fs.create_dir_all(dir).unwrap();
            fs.create(&dir.join("old")).unwrap().append(text.as_bytes()).unwrap();
            fs.create_log(&dir.join("log")).unwrap().append(b"log").unwrap();
            fs.rename(&dir.join("log"), &dir.join("renamed")).unwrap();
            fs.link(&dir.join("renamed"), &dir.join("linked")).unwrap();
            fs.sync_dir(dir).unwrap();
            let lock = fs.lock(&dir.join("LOCK")).unwrap();
            assert!(lock.is_in_place().unwrap() && RealFs.lock(&dir.join("LOCK")).is_err());
            assert!(fs.free_space(dir).unwrap() > 0 && fs.free_space(&dir.join("old")).unwrap() > 0);
            let listed = fs.list(dir).unwrap();
            assert_eq!(listed, RealFs.list(dir).unwrap());
            assert_eq!(fs.hold_dir(dir).unwrap().list(dir).unwrap(), listed);
        }
        for (dir, text) in [(&fast, "in fast"), (&slow, "in slow")] {
            assert_eq!(names(dir), ["LOCK", "linked", "old", "renamed"]);
            let mut found = vec![0; text.len()];
            fs.open(&dir.join("old")).unwrap().read_exact_at(0, &mut found).unwrap();
            assert_eq!(found, text.as_bytes());
        }
        fs.open_to_rewrite(&slow.join("old")).unwrap().rewrite(0, b"IN").unwrap();
        assert_eq!(fs::read(slow.join("old")).unwrap(), b"IN slow");
        fs.unlink(&slow.join("old")).unwrap();
        assert_eq!(fs::read(fast.join("old")).unwrap(), b"in fast");
        assert_eq!(names(&slow), ["LOCK", "linked", "renamed"]);
        match fs.punch_hole(&fast.join("old"), 0, 4096) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
            Ok(()) => assert_eq!(fs::read(fast.join("old")).unwrap(), [0; 7]),
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_part_stays_with_its_directory() {
        let (root, _, slow, fs) = routed("moved");
        fs::rename(&slow, root.join("moved")).unwrap();
        fs::create_dir(&slow).unwrap();
        fs.create(&slow.join("a")).unwrap();
        assert_eq!((names(&slow).len(), names(&root.join("moved"))), (0, vec!["a".to_owned()]));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_file_does_not_cross_from_part_to_part() {
        let (root, fast, slow, fs) = routed("cross");
        fs.create(&fast.join("a")).unwrap();
        for refused in [
            fs.rename(&fast.join("a"), &slow.join("a")),
            fs.link(&fast.join("a"), &slow.join("b")),
            fs.rename(&slow.join("none"), &fast.join("a")),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CrossesDevices);
            assert!(error.to_string().contains("are in different directories"), "{error}");
        }
        assert_eq!((names(&fast), names(&slow).len()), (vec!["a".to_owned()], 0));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn paths_of_no_part_are_refused() {
        let (root, fast, slow, fs) = routed("elsewhere");
        let below = [".", "..", "../x", "sub/x", ""].map(|below| fast.join(below));
        let elsewhere = ["", "x", "fast/x", "/", "/x"].map(PathBuf::from);
        for path in below.iter().chain(&elsewhere).chain([&root]) {
            let error = fs.create(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}");
            assert!(error.to_string().contains(&*slow.to_string_lossy()), "{error}");
            assert_eq!(fs.unlink(path).unwrap_err().kind(), ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(fs.rename(&fast.join("a"), path).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        for path in elsewhere.iter().chain([&root, &root.join("third"), &fast.join("sub")]) {
            assert_eq!(fs.list(path).unwrap_err().kind(), ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(fs.hold_dir(path).unwrap_err().kind(), ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(fs.create_dir_all(path).unwrap_err().kind(), ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(fs.sync_dir(path).unwrap_err().kind(), ErrorKind::InvalidInput, "{path:?}");
        }
        assert_eq!(fs.free_space(&root).unwrap_err().kind(), ErrorKind::InvalidInput);
        fs.create(&fast.join("./x")).unwrap();
        assert_eq!(fs.list(&fast.join(".")).unwrap().len(), 1);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_part_may_lie_in_the_directory_of_another() {
        let (root, fast, slow, _) = routed("nested");
        let inner = fast.join("inner");
        fs::create_dir(&inner).unwrap();
        let parts = [&fast, &inner].map(|dir| (dir.clone(), RealFs.hold_dir(dir).unwrap()));
        let fs = Routed::new(parts.into());
        fs.create(&inner.join("a")).unwrap();
        assert_eq!((names(&inner), fs.list(&fast).unwrap().len()), (vec!["a".to_owned()], 1));
        assert!(fs.free_space(&inner).unwrap() > 0);
        assert_eq!(fs.create(&inner).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs.list(&slow).unwrap_err().kind(), ErrorKind::InvalidInput);
        fs::remove_dir_all(&root).unwrap();
    }
}
