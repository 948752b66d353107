//! Files of the operating system (Linux).
//!
//! Each promise of [`FileSystem`] and [`File`] stands on one system call: `create` on `O_EXCL`, `append` on `pwrite` at an
//! end that this handle keeps, `preallocate` and `punch_hole` on `fallocate`, `sync_data` on `fdatasync` (which also makes
//! the length stable), `sync_dir` on `fsync` of the directory, `lock` on `flock`. Files of `create_log` are `mapped.rs`,
//! and the hint `write_out` is `early.rs`.
//! `flock` belongs to the open file and not to the process, so it also keeps out a second open within this process, and it
//! ends with the process however that ends.
//!
//! Nothing is retried but calls that a signal interrupted: after a failed `fdatasync` the kernel may have dropped the
//! dirty pages, and a second call would report success about bytes that are gone.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs};
use rustix::io::{Errno, retry_on_intr};

use super::early;
use super::mapped::{self, MappedFile};
use crate::{DirEntry, File, FileSystem, LockGuard};

/// The operating system's files. Paths are used as they are: relative ones start at the working directory.
///
/// ```
/// use braidb_storage::{FileSystem, real::RealFs};
/// assert!(RealFs.free_space(std::path::Path::new("/"))? > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RealFs;

impl FileSystem for RealFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if fs::metadata(dir).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        let parent = parent_of(dir);
        if parent != dir {
            self.create_dir_all(&parent)?;
        }
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match dir.is_dir() {
                // Another thread or process was quicker.
                true => {}
                false => return Err(Errno::NOTDIR.into()),
            },
            other => other?,
        }
        self.sync_dir(&parent).inspect_err(|_| {
            // A later sync of the parent would prove nothing of a name that a failed one was to make stable: the next try makes the
            // name anew.
            let _ = fs::remove_dir(dir);
        })
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = create_new(path)?;
        Ok(Arc::new(RealFile { file, appends: Some(AtomicU64::new(0)) }))
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = create_new(path)?;
        match mapped::overwrites_in_place(&file) {
            true => Ok(Arc::new(MappedFile::new(file))),
            false => Ok(Arc::new(RealFile { file, appends: Some(AtomicU64::new(0)) })),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Errno::ISDIR.into());
        }
        Ok(Arc::new(RealFile { file, appends: None }))
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RewrittenFile { file }))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        if len == 0 {
            return Ok(());
        }
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&file, how, offset, len)) {
            Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive))?;
        Ok(Box::new(RealLock { file }))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let device = retry_on_intr(|| statvfs(path))?;
        Ok(device.f_bavail.saturating_mul(device.f_frsize))
    }
}

fn create_new(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// The directory that holds `path`; for a bare name that is the working directory.
fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}

/// An open file. What was created may be changed through this handle; what was only opened may not.
#[derive(Debug)]
struct RealFile {
    file: fs::File,
    /// Where the next append goes, for the handle that created the file. It moves only after a whole append, so bytes
    /// of a failed one are overwritten by the next.
    appends: Option<AtomicU64>,
}

impl RealFile {
    fn end(&self) -> io::Result<&AtomicU64> {
        self.appends.as_ref().ok_or_else(|| Errno::BADF.into())
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_at(&self.file, offset, buf)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        // Appends come from one thread at a time, which orders these two accesses.
        let end = self.end()?;
        let at = end.load(Ordering::Relaxed);
        self.file.write_all_at(data, at).map_err(full_is_full)?;
        end.store(at + data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.end()?;
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len)) {
            // The file system cannot reserve. The promise that is lost, no disk-full error in a later append, is then
            // one that nobody on this machine can give.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => other.map_err(|errno| full_is_full(errno.into())),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let end = self.end()?;
        self.file.set_len(len).map_err(full_is_full)?;
        end.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_out(&self, offset: u64, len: u64) {
        early::write_out(&self.file, offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// A file whose bytes are written again where they stand.
#[derive(Debug)]
struct RewrittenFile {
    file: fs::File,
}

impl File for RewrittenFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_at(&self.file, offset, buf)
    }

    fn rewrite(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| self.file.metadata().is_ok_and(|found| end > found.len())) {
            return Err(Errno::INVAL.into());
        }
        self.file.write_all_at(data, offset).map_err(full_is_full)
    }

    fn append(&self, _data: &[u8]) -> io::Result<()> {
        Err(Errno::BADF.into())
    }

    fn preallocate(&self, _len: u64) -> io::Result<()> {
        Err(Errno::BADF.into())
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Err(Errno::BADF.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Fills `buf` from `offset`, as far as the file goes.
pub(super) fn read_at(file: &fs::File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A quota that is used up is a full disk to us.
pub(super) fn full_is_full(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => error,
    }
}

#[derive(Debug)]
struct RealLock {
    file: fs::File,
}

impl LockGuard for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing would do, but for a child that is between fork and exec just now and still shares the open file.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
