//! The simulated file system, which remembers the holes that were made. A thread that punches one gives way to the other threads
//! now and then, so that they look for holes between its search and its count.

use crate::fs::SimFs;
use braidb_storage::{DirEntry, File, FileSystem, LockGuard};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Calls of `yield_now` after every other hole in a table: enough for the other threads to collect garbage in between.
const GIVES_WAY: usize = 50;

/// See the module.
#[derive(Clone, Debug)]
pub struct HoleFs {
    fs: SimFs,
    holes: Arc<Mutex<BTreeMap<PathBuf, Vec<Range<u64>>>>>,
}

impl HoleFs {
    pub fn new(fs: SimFs) -> HoleFs {
        HoleFs { fs, holes: Arc::default() }
    }

    /// Bytes of tables that any hole covers.
    pub fn bytes(&self) -> u64 {
        let mut bytes = 0;
        for holes in self.holes.lock().values_mut() {
            holes.sort_by_key(|hole| hole.start);
            let mut end = 0;
            for hole in holes.iter() {
                bytes += hole.end.saturating_sub(hole.start.max(end));
                end = end.max(hole.end);
            }
        }
        bytes
    }
}

impl FileSystem for HoleFs {
    fn hold_dir(&self, _dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.clone()))
    }
    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.open_to_rewrite(path)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.fs.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.create(path)
    }
    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.create_log(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.open(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.fs.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.fs.unlink(path)
    }
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        self.fs.punch_hole(path, offset, len)?;
        let made = {
            let mut holes = self.holes.lock();
            let of_table = holes.entry(path.to_owned()).or_default();
            of_table.push(offset..offset + len);
            of_table.len()
        };
        if made % 2 == 1 {
            (0..GIVES_WAY).for_each(|_| std::thread::yield_now());
        }
        Ok(())
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.list(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.fs.lock(path)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.fs.free_space(path)
    }
}
