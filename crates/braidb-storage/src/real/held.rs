//! Directories that stay open once they were synced.
//!
//! Opening a directory takes a descriptor, and a process may have run out of them just when the names of its files have to
//! become stable. To whoever asked for the sync that looks like any failed sync, after which nothing can be promised any
//! more; so a directory is opened when it is synced first, while failing is harmless, and kept.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::RealFs;
use crate::{DirEntry, File, FileSystem, LockGuard};

/// Directories held open at most. A database has one, and syncs the one above it when it is created.
const MOST_HELD: usize = 4;

/// [`RealFs`], but for the directories that were synced last: these stay open.
///
/// ```
/// use braidb_storage::{FileSystem, real::HeldDirs};
/// let fs = HeldDirs::default();
/// fs.sync_dir(&std::env::temp_dir())?; // opens the directory
/// fs.sync_dir(&std::env::temp_dir())?; // finds it open
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct HeldDirs {
    /// The one that was used last is at the end.
    dirs: Mutex<Vec<Held>>,
}

/// An open directory and its identity, which no other gets as long as it is open.
#[derive(Clone, Debug)]
struct Held {
    identity: (u64, u64),
    dir: Arc<fs::File>,
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl HeldDirs {
    /// The directory that is at `path` now, which need not be the one that was there before.
    fn hold(&self, path: &Path) -> io::Result<Arc<fs::File>> {
        let found = fs::metadata(path)?;
        if !found.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let mut dirs = self.dirs.lock();
        let held = match dirs.iter().position(|held| held.identity == identity(&found)) {
            Some(at) => dirs.remove(at),
            None => {
                let dir = fs::File::open(path)?;
                Held { identity: identity(&dir.metadata()?), dir: Arc::new(dir) }
            }
        };
        if dirs.len() == MOST_HELD {
            dirs.remove(0);
        }
        dirs.push(held.clone());
        Ok(held.dir)
    }
}

impl FileSystem for HeldDirs {
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.hold(dir)?.sync_all()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealFs.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        RealFs.create(path)
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        RealFs.create_log(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        RealFs.open(path)
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        RealFs.open_to_rewrite(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealFs.unlink(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        RealFs.punch_hole(path, offset, len)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealFs.list(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        RealFs.lock(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        RealFs.free_space(path)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// What this process has open below `dir`.
    fn open_below(dir: &Path) -> Vec<PathBuf> {
        let open = fs::read_dir("/proc/self/fd").unwrap();
        // One that another test closes meanwhile is none of ours.
        let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(dir)).collect()
    }

    #[test]
    fn few_directories_are_held_and_each_is_the_one_that_is_there() {
        let root = std::env::temp_dir().join(format!("braidb-held-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let dir = |i: usize| root.join(format!("{i}"));
        let fs = HeldDirs::default();
        for i in 0..2 * MOST_HELD {
            fs.create_dir_all(&dir(i)).unwrap();
            for _ in 0..3 {
                fs.sync_dir(&dir(i)).unwrap();
            }
            assert_eq!(open_below(&root).len(), MOST_HELD.min(i + 1));
        }
        // One that is used stays.
        for i in 0..2 * MOST_HELD {
            fs.sync_dir(&dir(7)).unwrap();
            fs.sync_dir(&dir(i)).unwrap();
            assert!(open_below(&root).contains(&dir(7)));
        }
        std::fs::remove_dir(dir(7)).unwrap();
        assert_eq!(fs.sync_dir(&dir(7)).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs.create_dir_all(&dir(7)).unwrap();
        assert!(!open_below(&root).contains(&dir(7)), "what is held has no name any more");
        fs.sync_dir(&dir(7)).unwrap();
        assert!(open_below(&root).contains(&dir(7)));
        drop(fs);
        assert_eq!(open_below(&root), Vec::<PathBuf>::new());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
