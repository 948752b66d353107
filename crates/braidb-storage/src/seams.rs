//! The traits for files, time, chance and threads, and [`Env`], which carries one implementation of each.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Descriptors;

/// A file system: the operations that the engine needs.
///
/// Durability is explicit, as in POSIX. Bytes are stable after [`File::sync_data`]. A name (created, renamed, linked or
/// unlinked) is stable after [`FileSystem::sync_dir`] of its directory.
///
/// ```
/// use braidb_storage::{FileSystem, real::RealFs};
/// let dir = std::env::temp_dir().join(format!("braidb-storage-doc-fs-{}", std::process::id()));
/// RealFs.create_dir_all(&dir)?;
/// let file = RealFs.create(&dir.join("a"))?;
/// file.append(b"bytes")?;
/// file.sync_data()?; // the bytes are stable,
/// RealFs.sync_dir(&dir)?; // and so is the name
/// assert_eq!(RealFs.list(&dir)?[0].name, "a");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait FileSystem: Send + Sync + Debug {
    /// The process that uses the file system now. A child that is forked later must not use what was opened before the fork. A file system
    /// that wraps another one returns what the wrapped one returns.
    fn process(&self) -> io::Result<Process>;
    /// Returns a file system with only the directory that is at `dir` now. It stays with this directory, even if `dir`
    /// later leads elsewhere: after `chdir`, a rename or a changed symbolic link. Its paths are `dir` for the directory
    /// and `dir.join(name)` for a file; it refuses others with `InvalidInput`. Fails with `NotFound` if the directory
    /// does not exist.
    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>>;
    /// Creates `dir` and its missing parents, and syncs the directories that gained a name.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file that must not exist yet, open for reading and appending.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Like [`FileSystem::create`], for a file of many small appends. When [`File::append`] returns, the bytes are with
    /// the operating system, as always, but without a system call for each append. To this handle, the file ends at its
    /// last append. Other handles may find zeros behind it, up to the preallocated length, until [`File::truncate`]
    /// cuts them off. A process that dies during an append may leave any part of the append.
    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading. It can be synced, but only the handle that created a file changes its bytes.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for [`File::rewrite`], and leaves its bytes as they are. Fails with `Unsupported` on a
    /// file system that cannot rewrite files.
    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the names in `dir` stable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file atomically, replacing a file at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives the file at `from` a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// As [`FileSystem::link`]. A file of a held directory may get a name in another directory, where `to` leads now.
    fn link_out(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.link(from, to)
    }
    /// How many names a file has. 1 on a file system without links.
    fn links(&self, path: &Path) -> io::Result<u64>;
    /// Removes a name; open files stay readable.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Gives a range of any file back to the device; the range then reads as zeros. The length stays. The hole is
    /// stable after a sync of the file. Fails with `Unsupported`, and changes nothing, on a file system without holes.
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()>;
    /// The entries of `dir`, sorted by name. Fails with `NotFound` if the directory does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Takes an exclusive lock on `path` (created if missing), held until the guard is dropped. Fails with `WouldBlock`
    /// if another process, or another open in this process, holds the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Takes a shared lock on `path`: many may hold one at once, and none may hold the exclusive lock meanwhile. A missing file is created. If the
    /// medium or the permissions do not allow this, there is nothing to lock, and the guard holds nothing. Fails with `WouldBlock` if the
    /// exclusive lock is held. A file system without shared locks takes the exclusive one.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.lock(path)
    }
    /// Bytes that this process may still write on the device that holds `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Bytes that are free on the device that holds `path`, to be shown. Differs from [`FileSystem::free_space`] where writes take no space
    /// on the device.
    fn device_free_space(&self, path: &Path) -> io::Result<u64> {
        self.free_space(path)
    }
    /// How many files the readers of this process may hold open, measured now. A process has one [`Descriptors`], so all file systems of a
    /// machine return the same. A file system that knows no limit returns one without a limit.
    fn descriptors(&self) -> Arc<Descriptors> {
        Arc::default()
    }
}

/// An open file. Reads may run beside appends; appends to one file come from one thread at a time.
///
/// ```
/// use braidb_storage::{File, FileSystem, real::RealFs};
/// let path = std::env::temp_dir().join(format!("braidb-storage-doc-file-{}", std::process::id()));
/// let file = RealFs.create(&path)?;
/// file.append(b"hello world")?;
/// let mut word = [0; 5];
/// file.read_exact_at(6, &mut word)?;
/// assert_eq!(&word, b"world");
/// # RealFs.unlink(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait File: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `data` at the end. After an error the tail of the file is undefined.
    fn append(&self, data: &[u8]) -> io::Result<()>;
    /// Reserves space for the first `len` bytes without changing the file's length, except for files of
    /// [`FileSystem::create_log`]. A full disk is an error of kind `StorageFull` and leaves the bytes as they were.
    /// Does nothing on a file system that cannot reserve.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file, or fills it up with zeros, to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes data and length stable. After an error, bytes that were not yet stable may be lost, even if a later call
    /// succeeds.
    fn sync_data(&self) -> io::Result<()>;
    /// Writes bytes again in place, through a handle of [`FileSystem::open_to_rewrite`]. `data` must be the bytes that
    /// the file shows at `offset`: a failed sync or write-back may have kept them from the device. The bytes and the
    /// file's length are stable after a [`File::sync_data`] of this handle. Other handles fail with `Unsupported`.
    fn rewrite(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _ = (offset, data);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Asks the device to write these bytes soon, without waiting, so that a later sync has less to do. Bytes are
    /// stable only after a sync, which also reports errors of this write. Does nothing if the system has no such call.
    fn write_out(&self, _offset: u64, _len: u64) {}
    /// How many of the first `len` bytes lie in holes, which take no space and read as zeros. 0 if the file system does not tell.
    /// Some file systems and copying programs make holes of zeros that were written.
    fn hole_bytes(&self, _len: u64) -> io::Result<u64> {
        Ok(0)
    }
    /// Drops clean pages of this range from the operating system's page cache: the caller will not read these bytes soon. The next read of
    /// them goes to the device. This is a hint, and returns no error. Pages that lie only partly in the range may stay. Linux also keeps a
    /// folio of many pages if one of them lies outside of the range, so long ranges work best. Does nothing on a file system without a
    /// page cache.
    fn forget_cached(&self, _offset: u64, _len: u64) {}
    /// Appended bytes that took no system call; the kernel does not count them for the process.
    fn mapped_bytes(&self) -> u64 {
        0
    }

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` from `offset`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(offset, buf)? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early")),
                n => {
                    offset += n as u64;
                    buf = &mut buf[n..];
                }
            }
        }
        Ok(())
    }
}

/// One name in a directory.
///
/// ```
/// use braidb_storage::{FileSystem, real::RealFs};
/// for entry in RealFs.list(std::path::Path::new("/"))? {
///     println!("{}{}", entry.name, if entry.is_dir { "/" } else { "" });
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory. Names that are not UTF-8 are shown lossily; the engine writes none.
    pub name: String,
    /// Whether the entry is a directory.
    pub is_dir: bool,
}

/// Holds a lock on a file until it is dropped.
///
/// ```
/// use braidb_storage::{FileSystem, LockGuard, real::RealFs};
/// let path = std::env::temp_dir().join(format!("braidb-storage-doc-lock-{}", std::process::id()));
/// let guard: Box<dyn LockGuard> = RealFs.lock(&path)?;
/// assert!(RealFs.lock(&path).is_err());
/// assert!(guard.is_in_place()?);
/// RealFs.unlink(&path)?;
/// assert!(!guard.is_in_place()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait LockGuard: Send + Sync + Debug {
    /// Whether the locked file still has the name under which it was locked. If not, another process can lock another
    /// file of this name. If the directory may not be searched, whether the locked file still has any name.
    fn is_in_place(&self) -> io::Result<bool>;
}

/// The process that opened something, as opposed to its forked children, which have copies of it.
///
/// ```
/// use braidb_storage::{FileSystem, real::RealFs};
/// let process = RealFs.process()?;
/// assert!(!process.is_forked()); // true in a child that is forked from here on
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The value of `now` in the process that opened something.
    generation: u32,
    /// Rises in each forked child.
    now: &'static AtomicU32,
}

impl Process {
    /// The process that runs now. `generation` rises in each child, in its copy of the memory.
    pub fn new(generation: &'static AtomicU32) -> Process {
        Process { generation: generation.load(Ordering::Relaxed), now: generation }
    }

    /// A process without children, for files that no child can reach.
    pub fn without_forks() -> Process {
        static GENERATION: AtomicU32 = AtomicU32::new(0);
        Process::new(&GENERATION)
    }

    /// Whether this code runs in a child of the process, or in a child of a child. Costs one relaxed load: the child
    /// itself stored the value before its `fork` returned.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.now.load(Ordering::Relaxed) != self.generation
    }

    /// Fails in a forked child.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.is_forked() {
            false => Ok(()),
            true => Err(io::Error::other(
                "it was opened before this process was forked, and belongs to the parent",
            )),
        }
    }
}

/// A monotonic clock.
///
/// ```
/// use braidb_storage::{Clock, real::MonotonicClock};
/// let clock: Box<dyn Clock> = Box::new(MonotonicClock::new());
/// println!("{} microseconds", clock.now_us());
/// ```
pub trait Clock: Send + Sync + Debug {
    /// Microseconds since a moment before the process first used the clock.
    fn now_us(&self) -> u64;
}

/// A source of chance.
///
/// ```
/// use braidb_storage::{Random, inline::SeededRandom};
/// let random: Box<dyn Random> = Box::new(SeededRandom::new(1));
/// println!("{}", random.next_u64());
/// ```
pub trait Random: Send + Sync + Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// A unit of background work.
///
/// ```
/// let job: braidb_storage::Job = Box::new(|| println!("done"));
/// job();
/// ```
pub type Job = Box<dyn FnOnce() + Send>;

/// The queue in which a job waits. Jobs of one lane start in the order of their submission.
///
/// ```
/// use braidb_storage::Lane;
/// assert!(Lane::Flush < Lane::Merge);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Jobs that free memory; they never wait behind a merge.
    Flush,
    /// All other jobs that work on files.
    Merge,
    /// Memory compaction; its jobs wait for no file.
    Memory,
}

/// The executor of background work.
///
/// A caller that waits for background work loops in three steps. Check the condition. Call [`Runtime::help`]. If `help`
/// returned `false`, block on a condition variable with a time limit. On a stepped runtime, `help` runs the jobs for
/// which the caller waits.
///
/// ```
/// use braidb_storage::{Lane, Runtime, inline::{Inline, StepClock}};
/// let runtime: Box<dyn Runtime> = Box::new(Inline::new(std::sync::Arc::new(StepClock::new())));
/// runtime.submit(Lane::Flush, Box::new(|| println!("flushed")));
/// while runtime.help() {}
/// ```
pub trait Runtime: Send + Sync + Debug {
    /// Queues a job.
    fn submit(&self, lane: Lane, job: Job);
    /// On a stepped runtime, runs one queued job on this thread and returns whether there was one. Elsewhere returns
    /// `false`.
    fn help(&self) -> bool;
    /// Whether jobs run only inside [`Runtime::help`] and [`Runtime::pause_us`], and never on threads of their own.
    fn is_stepped(&self) -> bool;
    /// Waits in favour of background work: sleeps, or runs one job on a stepped runtime.
    fn pause_us(&self, us: u64);
    /// Whether this process was forked after the runtime was made. Then it has none of the runtime's threads.
    fn is_forked(&self) -> bool {
        false
    }
    /// Bytes of memory that this process may use, if they are known. A runtime that replays runs must give the same answer each time.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// One implementation of each seam.
///
/// ```
/// use braidb_storage::Env;
/// use braidb_storage::inline::{Inline, SeededRandom, StepClock};
/// use braidb_storage::real::RealFs;
/// use std::sync::Arc;
/// let clock = Arc::new(StepClock::new());
/// let runtime = Arc::new(Inline::new(clock.clone()));
/// let env = Env { fs: Arc::new(RealFs), clock, random: Arc::new(SeededRandom::new(1)), runtime };
/// assert!(env.runtime.is_stepped());
/// ```
#[derive(Clone, Debug)]
pub struct Env {
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub runtime: Arc<dyn Runtime>,
}
