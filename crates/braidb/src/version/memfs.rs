//! A file system in memory for the tests of this module. It can fail the nth operation, and has a limited space.

use braidb_storage::{DirEntry, File, FileSystem, LockGuard};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Disk {
    operations: u64,
    fail_at: Option<u64>,
    free_bytes: Option<u64>,
    allows_unallocated: bool,
    /// The operation from which on the lock is lost.
    lock_is_lost_at: Option<u64>,
}

impl Disk {
    fn step(&mut self) -> Result<()> {
        self.operations += 1;
        if self.fail_at == Some(self.operations) { Err(Error::other("planned")) } else { Ok(()) }
    }

    fn has_lost_lock(&self) -> bool {
        self.lock_is_lost_at.is_some_and(|at| self.operations >= at)
    }
}

#[derive(Debug, Default)]
pub struct MemFs {
    disk: Arc<Mutex<Disk>>,
    files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>>,
}

/// The lock of the only directory.
#[derive(Debug)]
struct MemLock {
    disk: Arc<Mutex<Disk>>,
}

impl LockGuard for MemLock {
    fn is_in_place(&self) -> Result<bool> {
        Ok(!self.disk.lock().has_lost_lock())
    }
}

#[derive(Debug)]
struct MemFile {
    disk: Arc<Mutex<Disk>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    allocated: Mutex<u64>,
}

impl MemFs {
    /// Fails the nth changing operation from now, once.
    pub fn fail_at(&self, nth: Option<u64>) {
        let mut disk = self.disk.lock();
        disk.operations = 0;
        disk.fail_at = nth;
    }

    /// Whether the planned failure has happened.
    pub fn has_failed(&self) -> bool {
        let disk = self.disk.lock();
        disk.fail_at.is_some_and(|nth| disk.operations >= nth)
    }

    /// Limits the bytes that may still be allocated; `None` for no limit.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.disk.lock().free_bytes = bytes;
    }

    /// Lets files grow without allocating space first, as tables do.
    pub fn allow_unallocated(&self) {
        self.disk.lock().allows_unallocated = true;
    }

    /// Loses the lock at the nth changing operation from now: this operation and all later ones find another file under
    /// the lock's name.
    pub fn lose_lock_at(&self, nth: u64) {
        let mut disk = self.disk.lock();
        disk.operations = 0;
        disk.lock_is_lost_at = Some(nth);
    }

    /// Loses the lock now: its name belongs to another file.
    pub fn lose_lock(&self) {
        self.lose_lock_at(0);
    }

    pub fn has_lost_lock(&self) -> bool {
        self.disk.lock().has_lost_lock()
    }

    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        self.files.lock().get(path).map(|bytes| bytes.lock().clone())
    }

    pub fn set_bytes(&self, path: &Path, bytes: Vec<u8>) {
        self.files.lock().insert(path.to_owned(), Arc::new(Mutex::new(bytes)));
    }

    pub fn names(&self) -> Vec<String> {
        self.files.lock().keys().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    /// A separate file system with the same files.
    pub fn copy(&self) -> MemFs {
        let copy = MemFs::default();
        for (path, bytes) in &*self.files.lock() {
            copy.set_bytes(path, bytes.lock().clone());
        }
        copy
    }

    fn file(&self, bytes: Arc<Mutex<Vec<u8>>>) -> Arc<dyn File> {
        Arc::new(MemFile { disk: self.disk.clone(), bytes, allocated: Mutex::new(0) })
    }
}

impl FileSystem for MemFs {
    fn hold_dir(&self, _dir: &Path) -> Result<Arc<dyn FileSystem>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn create_dir_all(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.disk.lock().step()?;
        let bytes = Arc::default();
        if self.files.lock().contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.files.lock().insert(path.to_owned(), Arc::clone(&bytes));
        Ok(self.file(bytes))
    }

    fn create_log(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.create(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        let files = self.files.lock();
        Ok(self.file(files.get(path).ok_or(ErrorKind::NotFound)?.clone()))
    }

    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        self.disk.lock().step()
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.lock().step()?;
        let mut files = self.files.lock();
        let bytes = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn link(&self, _from: &Path, _to: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.disk.lock().step()?;
        self.files.lock().remove(path).map(|_| ()).ok_or(ErrorKind::NotFound.into())
    }

    fn punch_hole(&self, _path: &Path, _offset: u64, _len: u64) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        assert_eq!(dir, Path::new("db"));
        Ok(self.names().into_iter().map(|name| DirEntry { name, is_dir: false }).collect())
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn LockGuard>> {
        Ok(Box::new(MemLock { disk: self.disk.clone() }))
    }

    fn free_space(&self, _path: &Path) -> Result<u64> {
        Ok(self.disk.lock().free_bytes.unwrap_or(u64::MAX))
    }
}

impl File for MemFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let bytes = self.bytes.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    /// A failing append writes half of its data.
    fn append(&self, data: &[u8]) -> Result<()> {
        let (outcome, unallocated) = {
            let mut disk = self.disk.lock();
            (disk.step(), disk.allows_unallocated)
        };
        let len = if outcome.is_ok() { data.len() } else { data.len() / 2 };
        let mut bytes = self.bytes.lock();
        bytes.extend_from_slice(&data[..len]);
        let fits = unallocated || bytes.len() as u64 <= *self.allocated.lock();
        assert!(outcome.is_err() || fits, "an append needs allocated space");
        outcome
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.step()?;
        let mut allocated = self.allocated.lock();
        let more = len.saturating_sub(*allocated);
        if let Some(free) = &mut disk.free_bytes {
            *free = free.checked_sub(more).ok_or(ErrorKind::StorageFull)?;
        }
        *allocated = len.max(*allocated);
        Ok(())
    }

    fn truncate(&self, _len: u64) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> Result<()> {
        self.disk.lock().step()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
}
