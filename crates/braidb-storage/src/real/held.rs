//! A directory that is held by a descriptor instead of a path.
//!
//! A path can lead to another directory later. Causes are `chdir` if the path is relative, a rename of the directory or
//! of a parent, and a changed symbolic link. A database that followed the path would write, and delete, in the
//! directory of another database. A descriptor stays with the directory: files are named relative to it, with the `…at`
//! calls.
//!
//! The descriptor also syncs the directory. So a process that has run out of descriptors can still make names stable; a
//! failed sync would end all writing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, OFlags, fstatvfs, linkat, renameat, unlinkat};
use rustix::io::retry_on_intr;

use super::descriptors;
use super::fs::{
    create_at, create_log_at, file_at, free_bytes, links_at, list_at, lock_at, lock_shared_at, open_at,
    open_to_rewrite_at, punch_hole_at,
};
use super::owned::Owned;
use crate::foreground::{self, Slow};
use crate::{Descriptors, DirEntry, File, FileSystem, LockGuard, Process};

/// One directory and the files in it, under the path by which the directory was found. Refuses other paths with
/// `InvalidInput`. A forked child of the process that holds the directory may only read.
#[derive(Clone, Debug)]
pub(super) struct HeldDir {
    dir: Arc<Owned>,
    path: PathBuf,
}

impl HeldDir {
    /// Holds the directory that is at `path` now.
    pub(super) fn open(path: &Path) -> io::Result<HeldDir> {
        let dir = Owned::new(file_at(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        Ok(HeldDir { dir: Arc::new(dir), path: path.to_owned() })
    }

    /// The directory, for calls that change nothing.
    fn to_read(&self) -> BorrowedFd<'_> {
        self.dir.to_read().as_fd()
    }

    /// The directory, for calls that change names, or files in it.
    fn to_change(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.dir.to_change()?.as_fd())
    }

    /// The part of `path` below the directory.
    fn below<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        path.strip_prefix(&self.path).map_err(|_| self.refuse(path))
    }

    /// The name of the file at `path`, which must be directly in the directory.
    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        let mut parts = self.below(path)?.components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) => Ok(Path::new(name)),
            _ => Err(self.refuse(path)),
        }
    }

    /// Refuses every path except the path of the directory itself.
    fn check_is_dir(&self, path: &Path) -> io::Result<()> {
        match self.below(path)?.as_os_str().is_empty() {
            true => Ok(()),
            false => Err(self.refuse(path)),
        }
    }

    fn refuse(&self, path: &Path) -> io::Error {
        let what =
            format!("{} is no file directly in {}, which is held", path.display(), self.path.display());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    }
}

impl FileSystem for HeldDir {
    /// The process that holds the directory.
    fn process(&self) -> io::Result<Process> {
        Ok(self.dir.process())
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        self.check_is_dir(dir)?;
        Ok(Arc::new(self.clone()))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check_is_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        create_at(self.to_change()?, self.name(path)?)
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        create_log_at(self.to_change()?, self.name(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        open_at(self.to_read(), self.name(path)?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        foreground::check(Slow::Sync);
        self.check_is_dir(dir)?;
        self.dir.to_change()?.sync_all()
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        open_to_rewrite_at(self.to_change()?, self.name(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        let dir = self.to_change()?;
        Ok(retry_on_intr(|| renameat(dir, from, dir, to))?)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        let dir = self.to_change()?;
        Ok(retry_on_intr(|| linkat(dir, from, dir, to, AtFlags::empty()))?)
    }

    fn link_out(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, dir) = (self.name(from)?, self.to_change()?);
        Ok(retry_on_intr(|| linkat(dir, from, CWD, to, AtFlags::empty()))?)
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        links_at(self.to_read(), self.name(path)?)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        foreground::check(Slow::Unlink);
        let name = self.name(path)?;
        let dir = self.to_change()?;
        Ok(retry_on_intr(|| unlinkat(dir, name, AtFlags::empty()))?)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        punch_hole_at(self.to_change()?, self.name(path)?, offset, len)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check_is_dir(dir)?;
        list_at(self.to_read(), Path::new("."))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.to_change()?;
        lock_at(Some(self.dir.clone()), self.name(path)?)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        lock_shared_at(Some(self.dir.clone()), self.name(path)?)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        // A file is on the device of its directory.
        self.check_is_dir(path).or_else(|_| self.name(path).map(drop))?;
        Ok(free_bytes(retry_on_intr(|| fstatvfs(self.to_read()))?))
    }

    fn descriptors(&self) -> Arc<Descriptors> {
        descriptors::measured()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::*;
    use crate::real::RealFs;

    /// A new directory of the test `name`, the directory `db` in it, and `db` held.
    fn held(name: &str) -> (PathBuf, PathBuf, Arc<dyn FileSystem>) {
        let root = std::env::temp_dir().join(format!("braidb-held-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let dir = root.join("db");
        RealFs.create_dir_all(&dir).unwrap();
        let fs = RealFs.hold_dir(&dir).unwrap();
        (root, dir, fs)
    }

    fn names(fs: &dyn FileSystem, dir: &Path) -> Vec<String> {
        fs.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn every_call_goes_to_the_directory_that_is_held_and_not_to_the_one_at_its_path() {
        let (root, dir, fs) = held("calls");
        let (moved, other) = (root.join("moved"), root.join("other"));
        fs.create(&dir.join("old")).unwrap().append(&[7; 8192]).unwrap();
        let lock = fs.lock(&dir.join("LOCK")).unwrap();
        std::fs::rename(&dir, &moved).unwrap();
        std::fs::create_dir(&dir).unwrap();
        for name in ["old", "log", "linked", "LOCK"] {
            std::fs::write(dir.join(name), "another's").unwrap();
        }
        let theirs = || names(&RealFs, &dir);
        assert_eq!(theirs(), ["LOCK", "linked", "log", "old"]);

        fs.create_log(&dir.join("log")).unwrap().append(b"ours").unwrap();
        fs.rename(&dir.join("log"), &dir.join("renamed")).unwrap();
        fs.link(&dir.join("renamed"), &dir.join("linked")).unwrap();
        fs.sync_dir(&dir).unwrap();
        assert_eq!(fs.open(&dir.join("old")).unwrap().len().unwrap(), 8192);
        match fs.punch_hole(&dir.join("old"), 0, 4096) {
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
            Ok(()) => assert_eq!(std::fs::read(moved.join("old")).unwrap()[..4096], [0; 4096]),
        }
        assert_eq!(names(&*fs, &dir), ["LOCK", "linked", "old", "renamed"]);
        assert_eq!(names(&*fs.hold_dir(&dir).unwrap(), &dir), names(&RealFs, &moved));
        fs.unlink(&dir.join("old")).unwrap();
        assert!(!moved.join("old").exists());
        assert!(fs.lock(&dir.join("LOCK")).is_err() && lock.is_in_place().unwrap());
        assert!(fs.free_space(&dir).unwrap() > 0 && fs.free_space(&dir.join("linked")).unwrap() > 0);
        fs.create_dir_all(&dir).unwrap();

        assert_eq!(theirs(), ["LOCK", "linked", "log", "old"]);
        assert!(theirs().iter().all(|name| std::fs::read(dir.join(name)).unwrap() == b"another's"));
        assert!(!other.exists());
        drop(lock);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn paths_elsewhere_are_refused() {
        let (root, dir, fs) = held("elsewhere");
        for path in ["", "x", "db/x", "/", "/x"].map(PathBuf::from) {
            assert_eq!(fs.create(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(fs.list(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        for path in [".", "..", "../x", "sub/x", ""].map(|below| dir.join(below)) {
            assert_eq!(fs.unlink(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        fs.create(&dir.join("./x")).unwrap();
        assert_eq!(names(&*fs, &dir.join(".")), ["x"]);
        assert_eq!(RealFs.hold_dir(&dir.join("x")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(RealFs.hold_dir(&dir.join("y")).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(fs.create(&dir.join("z")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(names(&*fs, &dir), Vec::<String>::new());
    }

    #[test]
    fn a_lock_that_lost_its_name_says_so() {
        let (root, dir, fs) = held("lock");
        let path = dir.join("LOCK");
        for fs in [fs.clone(), Arc::new(RealFs)] {
            let lock = fs.lock(&path).unwrap();
            assert!(lock.is_in_place().unwrap());
            std::fs::remove_file(&path).unwrap();
            assert!(!lock.is_in_place().unwrap());
            let second = fs.lock(&path).unwrap();
            assert!(second.is_in_place().unwrap() && !lock.is_in_place().unwrap());
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// Calls `check` on a thread that is not allowed to search `dir`.
    fn without_access(dir: &Path, check: impl FnOnce() + Send) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o000)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The superuser may search every directory, so this thread alone becomes another user.
                let other = Some(Uid::from_raw(65_534)).filter(|_| geteuid().is_root());
                set_thread_res_uid(other, other, other).unwrap();
                check();
            });
        });
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_directory_that_may_not_be_searched_takes_no_lock_away() {
        let (root, dir, fs) = held("search");
        let path = dir.join("LOCK");
        let lock = fs.lock(&path).unwrap();
        without_access(&dir, || {
            assert_eq!(fs.open(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert!(lock.is_in_place().unwrap());
        });
        std::fs::remove_file(&path).unwrap();
        without_access(&dir, || assert!(!lock.is_in_place().unwrap()));
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// The number of files and directories below `root` that this process has open.
    fn open_below(root: &Path) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        // Skips descriptors that another test closes meanwhile.
        let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(root)).count()
    }

    #[test]
    fn one_descriptor_is_held_and_no_call_keeps_another() {
        let (root, dir, fs) = held("descriptor");
        let again = fs.hold_dir(&dir).unwrap();
        fs.create(&dir.join("x")).unwrap();
        for _ in 0..3 {
            fs.sync_dir(&dir).unwrap();
            fs.list(&dir).unwrap();
            again.open(&dir.join("x")).unwrap();
        }
        assert_eq!(open_below(&root), 1);
        drop((fs, again));
        assert_eq!(open_below(&root), 0);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
