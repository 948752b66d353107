//! The simulated file system with callbacks of a judge or test: for each file that is opened, and each hole that is punched.

use super::SimFs;
use crate::{Descriptors, DirEntry, File, FileSystem, LockGuard, Process};
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The callbacks of a [`BesideFs`].
pub trait Beside: Debug + Send + Sync + 'static {
    /// Takes a file that was created or opened, and returns the file for the caller.
    fn opened(&self, _path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        file
    }

    /// Called after a hole was punched.
    fn punched(&self, _path: &Path, _hole: Range<u64>) {}
}

/// A [`SimFs`] that reports its calls to a [`Beside`]. Clones share both.
#[derive(Debug)]
pub struct BesideFs<B> {
    fs: SimFs,
    beside: Arc<B>,
}

impl<B> Clone for BesideFs<B> {
    fn clone(&self) -> BesideFs<B> {
        BesideFs { fs: self.fs.clone(), beside: self.beside.clone() }
    }
}

impl<B: Beside> BesideFs<B> {
    /// Reports to `beside` the calls that reach `fs` through this file system.
    pub fn new(fs: SimFs, beside: Arc<B>) -> BesideFs<B> {
        BesideFs { fs, beside }
    }

    fn opened(&self, path: &Path, file: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        file.map(|file| self.beside.opened(path, file))
    }
}

impl<B: Beside> FileSystem for BesideFs<B> {
    fn process(&self) -> io::Result<Process> {
        self.fs.process()
    }
    fn hold_dir(&self, _dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.clone()))
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.fs.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.opened(path, self.fs.create(path))
    }
    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.opened(path, self.fs.create_log(path))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.opened(path, self.fs.open(path))
    }
    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.open_to_rewrite(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.fs.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)
    }
    fn links(&self, path: &Path) -> io::Result<u64> {
        self.fs.links(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.fs.unlink(path)
    }
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        self.fs.punch_hole(path, offset, len)?;
        self.beside.punched(path, offset..offset + len);
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
    fn descriptors(&self) -> Arc<Descriptors> {
        self.fs.descriptors()
    }
}
