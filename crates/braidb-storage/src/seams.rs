//! The four traits, and [`Env`], which carries one of each.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What the engine needs of a file system, and nothing more.
///
/// Durability is explicit, as in POSIX: bytes are stable after [`File::sync_data`], and a name (created, renamed,
/// linked or unlinked) is stable after [`FileSystem::sync_dir`] of its directory.
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
    /// A file system that is the directory which `dir` leads to now, whatever `dir` leads to later: after `chdir`, a rename or
    /// a changed symbolic link. Its paths are `dir` for the directory and `dir.join(name)` for a file; it refuses others with
    /// `InvalidInput`. Fails with `NotFound` when there is no such directory.
    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>>;
    /// Creates `dir` and its missing parents, and syncs the directories that gained a name.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file that must not exist yet, open for reading and appending.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// The same for a file that takes many small appends, each of which is with the operating system when
    /// [`File::append`] returns, as always, but need not be a system call. The price is in the file's length: to this handle
    /// it ends where its appends do, but others may find zeros behind that, up to what was preallocated, until
    /// [`File::truncate`] cuts them off. A process that dies during an append may leave any part of it.
    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading. It can be synced, but only the handle that created a file changes its bytes.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for [`File::rewrite`], which leaves its bytes as they are. Fails with `Unsupported` where that cannot be
    /// done.
    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the names in `dir` stable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, replacing what stood at `to`, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives the file at `from` a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name; open files stay readable.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Gives a range of a file, whoever created it, back to the device; it reads as zeros from then on. The length stays. The
    /// hole is stable after a sync of the file. Fails with `Unsupported`, and changes nothing, on a file system without holes.
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()>;
    /// The entries of `dir`, sorted by name. Fails with `NotFound` when there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Takes an exclusive lock on `path` (created if missing), held until the guard is dropped. `WouldBlock` when
    /// another process, or another open in this one, holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
    /// Bytes that this process may still write on the device that holds `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
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
    /// Reserves space for the first `len` bytes without changing the file's length, but for what
    /// [`FileSystem::create_log`] says. A full disk is an error of kind
    /// `StorageFull` and leaves the bytes as they were. Does nothing on a file system that cannot reserve.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file, or fills it up with zeros, to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes data and length stable. After an error what was not yet stable may be lost, whatever a later call says.
    fn sync_data(&self) -> io::Result<()>;
    /// Writes over bytes of a file of [`FileSystem::open_to_rewrite`] the bytes that it shows there, and that a failed sync, or a failed
    /// write-back by the system, may have kept from the device. They are stable, with the file's length, after a
    /// [`File::sync_data`] of this handle. Other handles fail with `Unsupported`.
    fn rewrite(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _ = (offset, data);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Asks the device to write these bytes soon, and waits for nothing, so that a sync later finds less to do. Nothing is stable
    /// before that sync, and what fails here, it reports. Does nothing where the system has no such call.
    fn write_out(&self, _offset: u64, _len: u64) {}
    /// Of the bytes that were appended, those that took no system call, and that the kernel does not count for the process.
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
    /// Whether it is itself a directory.
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
    /// Whether the file that is locked still has the name under which it was locked. If not, another process can lock
    /// another file of this name. Where the directory may not be searched, whether the file still has any name.
    fn is_in_place(&self) -> io::Result<bool>;
}

/// A monotonic clock.
///
/// ```
/// use braidb_storage::{Clock, real::MonotonicClock};
/// let clock: Box<dyn Clock> = Box::new(MonotonicClock::new());
/// println!("{} microseconds", clock.now_us());
/// ```
pub trait Clock: Send + Sync + Debug {
    /// Microseconds since some moment before the process used the clock first.
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

/// Which queue a job waits in. Jobs of one lane start in the order of their submission.
///
/// ```
/// use braidb_storage::Lane;
/// assert!(Lane::Flush < Lane::Merge);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Frees memory; never waits behind a merge.
    Flush,
    /// Everything else that works on files.
    Merge,
    /// Compacts memory; waits for no file.
    Memory,
}

/// Where background work runs.
///
/// A caller that waits for background work loops: check the condition; call [`Runtime::help`]; only if that returns
/// `false`, block on a condition variable with a time limit. On a stepped runtime `help` *is* the progress.
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
    /// On a stepped runtime, runs one queued job on this thread and returns whether there was one; elsewhere `false`.
    fn help(&self) -> bool;
    /// Whether jobs run only inside [`Runtime::help`] and [`Runtime::pause_us`], never by themselves.
    fn is_stepped(&self) -> bool;
    /// Lets time pass in favour of background work: sleeps, or runs one job on a stepped runtime.
    fn pause_us(&self, us: u64);
}

/// One of each seam.
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
