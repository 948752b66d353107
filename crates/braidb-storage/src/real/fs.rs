//! Files of the operating system (Linux).
//!
//! Each promise of [`FileSystem`] and [`File`] rests on one system call:
//!
//! - `create` on `O_EXCL`;
//! - `append` on `pwrite` at an end that this handle keeps;
//! - `preallocate` and `punch_hole` on `fallocate`;
//! - `sync_data` on `fdatasync`, which also makes the length stable;
//! - `sync_dir` on `fsync` of the directory;
//! - `forget_cached`, a hint, on `posix_fadvise`;
//! - `lock` on `flock`.
//!
//! `mapped.rs` has the files of `create_log`, and `early.rs` the hint `write_out`. `owned.rs` refuses changes in a forked
//! child. The functions `…_at` take the directory at which a path starts: the working directory here, the held directory
//! in `held.rs`.
//!
//! `flock` belongs to the open file and not to the process. So it also keeps out a second open within this process. The
//! lock ends with the process, even after a crash, because forked children close their descriptors of it (`forks.rs`).
//!
//! Only calls that a signal interrupted are retried. After a failed `fdatasync` the kernel may have dropped the dirty
//! pages, and a second call would report success about bytes that are gone.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    Advice, AtFlags, CWD, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatVfs,
    fadvise, fallocate, flock, fstat, openat, seek, statat, statvfs,
};
use rustix::io::{Errno, retry_on_intr};

use super::descriptors;
use super::early;
use super::forks::{self, Listed};
use super::held::HeldDir;
use super::mapped::{self, MappedFile};
use super::owned::Owned;
use crate::foreground::{self, Slow};
use crate::{Descriptors, DirEntry, File, FileSystem, LockGuard, Process, is_shortage};

/// Permissions of a new file before the process's umask; the standard library uses this mode too.
const NEW_FILE_MODE: u32 = 0o666;

/// The operating system's files. Paths are passed on unchanged: relative ones start at the working directory.
///
/// ```
/// use braidb_storage::{FileSystem, real::RealFs};
/// assert!(RealFs.free_space(std::path::Path::new("/"))? > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RealFs;

impl FileSystem for RealFs {
    fn process(&self) -> io::Result<Process> {
        forks::process()
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(HeldDir::open(dir)?))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if fs::metadata(dir).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        let parent = parent_of(dir);
        if parent != dir {
            self.create_dir_all(&parent)?;
        }
        let is_made = match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match dir.is_dir() {
                // Another thread or process created the directory first.
                true => false,
                false => return Err(Errno::NOTDIR.into()),
            },
            other => other.map(|()| true)?,
        };
        self.sync_dir(&parent).inspect_err(|_| {
            // A later sync of the parent would prove nothing about a name whose first sync failed. So the name is
            // removed, and the next attempt creates it again.
            if is_made {
                let _ = fs::remove_dir(dir);
            }
        })
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        create_at(CWD, path)
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        create_log_at(CWD, path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        open_at(CWD, path)
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        open_to_rewrite_at(CWD, path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        foreground::check(Slow::Sync);
        fs::File::open(dir)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        links_at(CWD, path)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        foreground::check(Slow::Unlink);
        fs::remove_file(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        punch_hole_at(CWD, path, offset, len)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        list_at(CWD, dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        lock_at(None, path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        lock_shared_at(None, path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        Ok(free_bytes(retry_on_intr(|| statvfs(path))?))
    }

    fn descriptors(&self) -> Arc<Descriptors> {
        descriptors::measured()
    }
}

/// [`FileSystem::create`] of a path that starts at `dir`.
pub(super) fn create_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Arc<dyn File>> {
    let file = Owned::new(create_new_at(dir, path)?)?;
    Ok(Arc::new(RealFile { file, appends: Some(AtomicU64::new(0)) }))
}

/// [`FileSystem::create_log`] of a path that starts at `dir`.
pub(super) fn create_log_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Arc<dyn File>> {
    let file = Owned::new(create_new_at(dir, path)?)?;
    match mapped::overwrites_in_place(file.to_read()) {
        true => Ok(Arc::new(MappedFile::new(file))),
        false => Ok(Arc::new(RealFile { file, appends: Some(AtomicU64::new(0)) })),
    }
}

/// [`FileSystem::open`] of a path that starts at `dir`.
pub(super) fn open_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Arc<dyn File>> {
    let file = file_at(dir, path, OFlags::RDONLY)?;
    if file.metadata()?.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    Ok(Arc::new(RealFile { file: Owned::new(file)?, appends: None }))
}

/// [`FileSystem::open_to_rewrite`] of a path that starts at `dir`.
pub(super) fn open_to_rewrite_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Arc<dyn File>> {
    Ok(Arc::new(RewrittenFile { file: Owned::new(file_at(dir, path, OFlags::RDWR)?)? }))
}

/// [`FileSystem::punch_hole`] in a file whose path starts at `dir`.
pub(super) fn punch_hole_at(dir: BorrowedFd<'_>, path: &Path, offset: u64, len: u64) -> io::Result<()> {
    foreground::check(Slow::Punch);
    let file = file_at(dir, path, OFlags::WRONLY)?;
    if len == 0 {
        return Ok(());
    }
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| fallocate(&file, how, offset, len)) {
        Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
        other => Ok(other?),
    }
}

/// [`FileSystem::list`] of the directory at `path`, which starts at `dir`.
pub(super) fn list_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut stream = Dir::new(file_at(dir, path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    let mut entries = Vec::new();
    while let Some(entry) = stream.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems store no file types in directories.
            FileType::Unknown => match statat(stream.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            },
            known => known,
        };
        entries.push(DirEntry { name: name.to_string_lossy().into_owned(), is_dir: kind.is_dir() });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// [`FileSystem::lock`] of a path that starts at `dir`, or at the working directory.
pub(super) fn lock_at(dir: Option<Arc<Owned>>, path: &Path) -> io::Result<Box<dyn LockGuard>> {
    let lock = open_lock_at(dir, path, OFlags::RDWR | OFlags::CREATE)?;
    retry_on_intr(|| flock(lock.file.to_read(), FlockOperation::NonBlockingLockExclusive))?;
    Ok(Box::new(lock))
}

/// [`FileSystem::lock_shared`] of a path that starts at `dir`, or at the working directory. A missing file is made if that is possible.
pub(super) fn lock_shared_at(dir: Option<Arc<Owned>>, path: &Path) -> io::Result<Box<dyn LockGuard>> {
    let lock = match open_lock_at(dir.clone(), path, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match open_lock_at(dir, path, OFlags::RDONLY | OFlags::CREATE) {
                Err(error) if is_unwritable(error.kind()) => return Ok(Box::new(NoLock)),
                made => made?,
            }
        }
        opened => opened?,
    };
    retry_on_intr(|| flock(lock.file.to_read(), FlockOperation::NonBlockingLockShared))?;
    Ok(Box::new(lock))
}

/// Whether an error says that no file can be made here.
fn is_unwritable(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(kind, PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
}

/// Opens the file of a lock, which is not locked yet.
fn open_lock_at(dir: Option<Arc<Owned>>, path: &Path, how: OFlags) -> io::Result<RealLock> {
    let process = forks::process()?;
    let start = dir.as_ref().map_or(CWD, |dir| dir.to_read().as_fd());
    let (listed, file) = forks::listed(process, || file_at(start, path, how))?;
    Ok(RealLock { _listed: listed, file: Owned::of(file, process), dir, path: path.to_owned() })
}

/// The guard of a shared lock where no file can be locked: the file is missing and cannot be made.
#[derive(Debug)]
struct NoLock;

impl LockGuard for NoLock {
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// [`FileSystem::links`] of a path that starts at `dir`.
pub(super) fn links_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<u64> {
    let found = retry_on_intr(|| statat(dir, path, AtFlags::SYMLINK_NOFOLLOW))?;
    Ok(found.st_nlink as u64)
}

/// The bytes that this process may still write on a device.
pub(super) fn free_bytes(device: StatVfs) -> u64 {
    device.f_bavail.saturating_mul(device.f_frsize)
}

fn create_new_at(dir: BorrowedFd<'_>, path: &Path) -> io::Result<fs::File> {
    file_at(dir, path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
}

/// Opens the file at `path`, which starts at `dir`. Programs that this process starts do not inherit the descriptor. If there is no
/// descriptor left, files of readers are closed.
pub(super) fn file_at(dir: BorrowedFd<'_>, path: &Path, how: OFlags) -> io::Result<fs::File> {
    let mode = Mode::from_raw_mode(NEW_FILE_MODE);
    let open = || Ok(retry_on_intr(|| openat(dir, path, how | OFlags::CLOEXEC, mode))?.into());
    match open() {
        Err(error) if is_shortage(&error) => descriptors::current().insist(open),
        outcome => outcome,
    }
}

/// The directory that holds `path`; the working directory for a bare name.
fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}

/// How many of the first `len` bytes of a file lie in holes. Reads and appends name their offsets, so the file position that the search
/// moves is nothing to them.
fn hole_bytes(file: &fs::File, len: u64) -> io::Result<u64> {
    let (mut at, mut bytes) = (0, 0);
    while at < len {
        let hole = match retry_on_intr(|| seek(file, SeekFrom::Hole(at))) {
            Ok(hole) => hole.min(len),
            // The file system knows no holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY) => return Ok(0),
            // `at` lies beyond the end.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let data = match retry_on_intr(|| seek(file, SeekFrom::Data(hole))) {
            Ok(data) => data.min(len),
            // The file ends with a hole, or at `hole`.
            Err(Errno::NXIO) => file.metadata()?.len().clamp(hole, len),
            Err(errno) => return Err(errno.into()),
        };
        bytes += data - hole;
        at = data.max(hole + 1);
    }
    Ok(bytes)
}

/// An open file. The handle that created the file may change it; other handles may not.
#[derive(Debug)]
struct RealFile {
    file: Owned,
    /// The offset of the next append, for the handle that created the file. It moves only after a whole append, so the
    /// next append overwrites bytes of a failed one.
    appends: Option<AtomicU64>,
}

impl RealFile {
    fn end(&self) -> io::Result<&AtomicU64> {
        self.appends.as_ref().ok_or_else(|| Errno::BADF.into())
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_at(self.file.to_read(), offset, buf)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        // Only one thread at a time appends, which orders these two accesses.
        let end = self.end()?;
        let at = end.load(Ordering::Relaxed);
        self.file.to_change()?.write_all_at(data, at).map_err(full_is_full)?;
        end.store(at + data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.end()?;
        if len == 0 {
            return Ok(());
        }
        let file = self.file.to_change()?;
        match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)) {
            // The file system cannot reserve space, so a later append may fail with a full disk.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => other.map_err(|errno| full_is_full(errno.into())),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let end = self.end()?;
        self.file.to_change()?.set_len(len).map_err(full_is_full)?;
        end.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        foreground::check(Slow::Sync);
        self.file.to_change()?.sync_data()
    }

    fn write_out(&self, offset: u64, len: u64) {
        if let Ok(file) = self.file.to_change() {
            early::write_out(file, offset, len);
        }
    }

    fn forget_cached(&self, offset: u64, len: u64) {
        // To `posix_fadvise` a length of 0 would mean all bytes up to the end, and one over `i64::MAX` is an error.
        if let Some(len) = NonZeroU64::new(len.min(i64::MAX as u64)) {
            // The call is a hint, so its result is ignored.
            let _ = fadvise(self.file.to_read(), offset, Some(len), Advice::DontNeed);
        }
    }

    fn hole_bytes(&self, len: u64) -> io::Result<u64> {
        hole_bytes(self.file.to_read(), len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.to_read().metadata()?.len())
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        foreground::check(Slow::Close);
    }
}

/// A file whose bytes are rewritten in place.
#[derive(Debug)]
struct RewrittenFile {
    file: Owned,
}

impl File for RewrittenFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_at(self.file.to_read(), offset, buf)
    }

    fn rewrite(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let file = self.file.to_change()?;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| file.metadata().is_ok_and(|found| end > found.len())) {
            return Err(Errno::INVAL.into());
        }
        file.write_all_at(data, offset).map_err(full_is_full)
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
        foreground::check(Slow::Sync);
        self.file.to_change()?.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.to_read().metadata()?.len())
    }
}

/// Fills `buf` from `offset`, up to the end of the file.
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

/// Reports a used-up quota as a full disk.
pub(super) fn full_is_full(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => error,
    }
}

/// A locked file, and the place of its name.
#[derive(Debug)]
struct RealLock {
    /// Declared before the file, so that the descriptor leaves the list before it is closed.
    _listed: Listed,
    file: Owned,
    /// The directory where `path` starts; `None` for the working directory.
    dir: Option<Arc<Owned>>,
    path: PathBuf,
}

impl LockGuard for RealLock {
    fn is_in_place(&self) -> io::Result<bool> {
        // A forked child has closed the descriptor. The locked file is open otherwise, so no other file gets its inode
        // number.
        let locked = fstat(self.file.to_change()?)?;
        let start = self.dir.as_ref().map_or(CWD, |dir| dir.to_read().as_fd());
        match retry_on_intr(|| statat(start, &self.path, AtFlags::empty())) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (locked.st_dev, locked.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            // The directory may not be searched now, so the name cannot be read. A file that was removed or replaced
            // has no links left.
            Err(Errno::ACCESS) => Ok(locked.st_nlink > 0),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        foreground::check(Slow::Close);
        // Closing the file is not enough: a child of vfork or posix_spawn may still share the open file before it
        // executes another program. A forked child must not unlock, because the lock is the parent's.
        if let Ok(file) = self.file.to_change() {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}
