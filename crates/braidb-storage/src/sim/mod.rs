//! A file system in memory that can crash, fail, fill up and be damaged, all from a seed.
//!
//! [`SimFs`] keeps for each file and directory the stable state and the ordered list of unsynced changes (`inode.rs`,
//! `names.rs`). [`SimFs::crash_image`] turns them into a file system that a crash at this moment may leave. A hook before each
//! change lets a judge take images at every point of a run. Images share their blocks with their origin, so thousands of them
//! cost little (`content.rs`). A machine may have several devices, which lose power, fail and fill up together or apart
//! (`devices.rs`).
//!
//! ```
//! use std::path::Path;
//! use braidb_storage::sim::{Crash, SimFs};
//! use braidb_storage::FileSystem;
//!
//! let fs = SimFs::new();
//! let (log, dir) = (Path::new("/db/log"), Path::new("/db"));
//! fs.create_dir_all(dir)?;
//! let file = fs.create(log)?;
//! file.append(b"first")?;
//! file.sync_data()?;
//! fs.sync_dir(dir)?;
//! file.append(b"second")?;
//! assert_eq!(fs.crash_image(Crash::Process, 0).read_file(log)?, b"firstsecond");
//! assert_eq!(fs.crash_image(Crash::PowerAllLost, 0).read_file(log)?, b"first");
//! # Ok::<(), std::io::Error>(())
//! ```

mod beside;
mod content;
mod crash;
mod devices;
mod inode;
mod lock;
mod names;
mod ops;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::foreground::{self, Slow};
use crate::locks::Mutex;
use crate::{Descriptors, DirEntry, File, FileSystem, LockGuard, Process};

pub use beside::{Beside, BesideFs};
use content::BLOCK_BYTES;
pub use crash::Crash;
use devices::device_of;
use lock::SimLock;
use names::Node;
pub use ops::{Fault, Hook, Lasting, Op, OpKind};
use ops::{Gate, HookSlot, Strike};
use state::State;

// Linux's error numbers, so that errors look as on Linux.
const EIO: i32 = 5;
const EBADF: i32 = 9;
const EEXIST: i32 = 17;
const EXDEV: i32 = 18;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ENOSPC: i32 = 28;
const ESTALE: i32 = 116;

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The simulated file system. Clones are handles to one file system.
#[derive(Clone)]
pub struct SimFs {
    shared: Arc<Shared>,
}

struct Shared {
    // No thread ever holds two of these locks, and none while the hook runs.
    state: Mutex<State>,
    gate: Mutex<Gate>,
    hook: Mutex<HookSlot>,
    /// Reads of logs.
    log_reads: AtomicU64,
    /// Rises at each simulated fork; not set before [`SimFs::may_fork`].
    generation: OnceLock<&'static AtomicU32>,
    descriptors: Arc<Descriptors>,
}

impl std::fmt::Debug for SimFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFs").field("ops", &self.ops()).finish_non_exhaustive()
    }
}

impl Default for SimFs {
    fn default() -> SimFs {
        SimFs::new()
    }
}

/// The judge's side: crashes, faults, damage and counts.
impl SimFs {
    /// An empty file system with one directory, the root. Relative paths start there too.
    pub fn new() -> SimFs {
        SimFs::over(State::new())
    }

    fn over(state: State) -> SimFs {
        let shared = Shared {
            state: Mutex::new(state),
            gate: Mutex::default(),
            hook: Mutex::default(),
            log_reads: AtomicU64::new(0),
            generation: OnceLock::new(),
            descriptors: Arc::default(),
        };
        SimFs { shared: Arc::new(shared) }
    }

    /// The file system that a crash of the whole machine now may leave: all devices meet it together, and each keeps or drops
    /// its own unsynced changes. All of it is stable. It has no locks, faults or hook, and counts operations
    /// from 0. The result depends only on the calls and seeds.
    pub fn crash_image(&self, crash: Crash, seed: u64) -> SimFs {
        SimFs::over(self.shared.state.lock().after(crash, seed))
    }

    /// The file system that the next process finds if this one is killed now and the system lives on. Unlike the image of a
    /// [`Crash::Process`], unsynced changes stay unsynced: power may fail later. It has no locks, faults or hook, and counts
    /// operations from 0.
    pub fn without_process(&self) -> SimFs {
        SimFs::over(self.shared.state.lock().without_process())
    }

    /// Prepares for [`SimFs::fork`]: handles that are opened from now on notice the fork. Leaks a few bytes for each file system.
    pub fn may_fork(&self) {
        self.shared.generation.get_or_init(|| Box::leak(Box::default()));
    }

    /// From here on this program acts for a child that a process forked: what was opened before belongs to the parent. The
    /// files stay those of the parent, so a change that the child makes to them shows.
    pub fn fork(&self) {
        let generation = self.shared.generation.get().expect("`may_fork` was called before the open");
        generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a file without a name becomes unreadable through open handles. POSIX keeps it readable; some network file
    /// systems do not. Setting this finds deletions of files that are still in use.
    pub fn set_unlinked_are_gone(&self, gone: bool) {
        self.shared.state.lock().unlinked_are_gone = gone;
    }

    /// Makes write-back of all unsynced data and names fail. With a seed, each pending change is lost for later syncs with a
    /// drawn chance. Without a seed all are lost. Reads still show the data. No handle reports the error: the process is
    /// expected to die.
    pub fn lose_write_backs(&self, seed: Option<u64>) {
        self.shared.state.lock().lose_write_backs(seed);
    }

    /// Makes write-back of all pending file data fail. Names are not affected.
    pub fn lose_data_write_backs(&self) {
        self.shared.state.lock().lose_data_write_backs(None);
    }

    /// Whether an append panics if its file has no preallocated space for it, to the byte. Setting this finds writers that
    /// could meet a full device in the middle of an append.
    pub fn set_appends_need_space(&self, needed: bool) {
        self.shared.state.lock().appends_need_space = needed;
    }

    /// Sets how many files and locks the process may have open. An open or creation beyond them fails with `EMFILE`. `None`, as at first,
    /// is no limit. Crash images have the same limit.
    pub fn set_descriptor_limit(&self, limit: Option<u64>) {
        self.shared.state.lock().descriptor_limit = limit;
    }

    /// The files and locks that the process has open.
    pub fn open_descriptors(&self) -> u64 {
        self.shared.state.lock().open_descriptors
    }

    /// Makes an operation fail: the `nth` one from now that `fault` can strike (1 is the next). The seed decides how much of a
    /// failing append is written. Replaces any earlier plan.
    pub fn fail_nth(&self, nth: u64, fault: Fault, lasting: Lasting, seed: u64) {
        self.fail_nth_where(nth, fault, lasting, seed, |_| true);
    }

    /// Makes an operation fail, like [`SimFs::fail_nth`]. Only operations that `filter` accepts are counted and fail. The
    /// filter must not use the file system.
    pub fn fail_nth_where(
        &self,
        nth: u64,
        fault: Fault,
        lasting: Lasting,
        seed: u64,
        filter: impl Fn(&Op) -> bool + Send + 'static,
    ) {
        self.shared.gate.lock().plan(nth, fault, lasting, seed, Box::new(filter));
    }

    /// Ends all faults, as a repaired device would. Lost changes stay lost.
    pub fn heal(&self) {
        self.shared.gate.lock().heal();
    }

    /// Operations that were made to fail.
    pub fn faults_struck(&self) -> u64 {
        self.shared.gate.lock().struck
    }

    /// Operations made.
    pub fn ops(&self) -> u64 {
        self.shared.gate.lock().number()
    }

    /// Operations made, by kind.
    pub fn op_counts(&self) -> BTreeMap<OpKind, u64> {
        self.shared.gate.lock().counts.clone()
    }

    /// Reads of logs.
    pub fn log_reads(&self) -> u64 {
        self.shared.log_reads.load(Ordering::Relaxed)
    }

    /// Starts to record operations.
    pub fn record_ops(&self) {
        self.shared.gate.lock().recorded = Some(Vec::new());
    }

    /// Stops recording, and returns the operations since [`SimFs::record_ops`].
    pub fn take_recorded_ops(&self) -> Vec<Op> {
        self.shared.gate.lock().recorded.take().unwrap_or_default()
    }

    /// Sets the hook that runs before each operation that changes something. `None` removes it.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.shared.hook.lock() = hook.map_or(HookSlot::Empty, HookSlot::Waiting);
    }

    /// All files, sorted by path.
    pub fn files(&self) -> Vec<PathBuf> {
        self.shared.state.lock().names.now.files().into_keys().collect()
    }

    /// The length of a file.
    pub fn file_len(&self, path: &Path) -> io::Result<u64> {
        Ok(self.shared.state.lock().file_at(path)?.now.len())
    }

    /// The end of the bytes appended to a file. A log that is being written is longer by the zeros of its preallocated space.
    pub fn written_len(&self, path: &Path) -> io::Result<u64> {
        Ok(self.shared.state.lock().file_at(path)?.written)
    }

    /// The blocks that a file takes, in bytes. Holes are free. Space reserved behind the end counts.
    pub fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(self.shared.state.lock().file_at(path)?.now.taken_blocks() * BLOCK_BYTES)
    }

    /// The bytes of a file.
    pub fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.shared.state.lock();
        let content = &state.file_at(path)?.now;
        let mut bytes = vec![0; content.len() as usize];
        content.read(0, &mut bytes);
        Ok(bytes)
    }

    /// Replaces the bytes of a file, or makes the file. Contents and name are stable at once.
    pub fn write_file(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.shared.state.lock().put_stable(path, data)
    }

    /// Flips bit `bit % 8` of byte `bit / 8`. The file is stable afterwards, as reads show it.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let inode = state.file_at(path)?;
        let mut byte = [0];
        if inode.now.read(bit / 8, &mut byte) == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut content = inode.now.clone();
        content.write(bit / 8, &[byte[0] ^ 1 << (bit % 8)]);
        inode.replace(content);
        Ok(())
    }

    /// Admits an operation: counts it, shows it to the hook, and says whether it fails. Holds no lock during the hook.
    fn enter(&self, kind: OpKind, path: Arc<Path>, bytes: u64, takes_space: bool) -> Option<Strike> {
        self.enter_with(kind, path, None, bytes, takes_space)
    }

    fn enter_with(
        &self,
        kind: OpKind,
        path: Arc<Path>,
        to: Option<Arc<Path>>,
        bytes: u64,
        takes_space: bool,
    ) -> Option<Strike> {
        let op = {
            let mut gate = self.shared.gate.lock();
            let op = Op { number: gate.enter(kind), kind, path, to, bytes, takes_space };
            gate.record(&op);
            op
        };
        if kind.mutates() {
            self.call_hook(&op);
        } else if kind == OpKind::Read && op.path.extension().is_some_and(|extension| extension == "log") {
            self.shared.log_reads.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.gate.lock().strike(&op)
    }

    fn call_hook(&self, op: &Op) {
        let mut hook = {
            let mut slot = self.shared.hook.lock();
            match mem::take(&mut *slot) {
                HookSlot::Waiting(hook) => {
                    *slot = HookSlot::Running;
                    hook
                }
                other => {
                    *slot = other;
                    return;
                }
            }
        };
        foreground::apart(|| hook(self, op));
        let mut slot = self.shared.hook.lock();
        // The hook may have set another hook, or none.
        if matches!(*slot, HookSlot::Running) {
            *slot = HookSlot::Waiting(hook);
        }
    }

    /// [`SimFs::enter`] for operations that a fault leaves without effect.
    fn admit(&self, kind: OpKind, path: &Path, takes_space: bool) -> io::Result<()> {
        self.enter(kind, path.into(), 0, takes_space).map_or(Ok(()), |strike| Err(strike.fault.error()))
    }

    fn admit_pair(&self, kind: OpKind, from: &Path, to: &Path) -> io::Result<()> {
        let strike = self.enter_with(kind, from.into(), Some(to.into()), 0, true);
        strike.map_or(Ok(()), |strike| Err(strike.fault.error()))
    }

    fn handle(&self, id: u64, path: &Path, access: Access) -> Arc<dyn File> {
        Arc::new(SimFile { fs: self.clone(), id, path: path.into(), access })
    }

    fn create_with(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.admit(OpKind::Create, path, true)?;
        let id = self.insist(|state| state.create(path))?;
        Ok(self.handle(id, path, access))
    }

    /// Takes a descriptor. If there is none left, files of readers are closed.
    fn insist<T>(&self, take: impl Fn(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.shared.descriptors.insist(|| take(&mut self.shared.state.lock()))
    }
}

impl FileSystem for SimFs {
    fn process(&self) -> io::Result<Process> {
        let generation = self.shared.generation.get();
        Ok(generation.map_or_else(Process::without_forks, |generation| Process::new(generation)))
    }

    /// Holding a directory has no effect here, because directories cannot be moved. It counts as no operation.
    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        self.shared.state.lock().names.now.dir(dir)?;
        Ok(Arc::new(self.clone()))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let found = self.shared.state.lock().names.now.dir(dir);
        match found {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let parent = dir.parent().unwrap_or(Path::new("/"));
        self.create_dir_all(parent)?;
        self.admit(OpKind::CreateDir, dir, true)?;
        self.shared.state.lock().create_dir(dir)?;
        self.sync_dir(parent).inspect_err(|_| {
            // The real file system does this too, so that the next try makes and syncs the name again.
            self.shared.state.lock().remove_dir(dir);
        })
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create_with(path, Access::Append { end: AtomicU64::new(0) })
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create_with(path, Access::Store { end: AtomicU64::new(0) })
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.admit(OpKind::Open, path, false)?;
        let id = self.insist(|state| state.open(path))?;
        Ok(self.handle(id, path, Access::Read))
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.admit(OpKind::Open, path, false)?;
        let id = self.insist(|state| state.open(path))?;
        Ok(self.handle(id, path, Access::Rewrite))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        foreground::check(Slow::Sync);
        let strike = self.enter(OpKind::SyncDir, dir.into(), 0, false);
        self.shared.state.lock().sync_dir(dir, strike.is_some())?;
        strike.map_or(Ok(()), |strike| Err(strike.fault.error()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admit_pair(OpKind::Rename, from, to)?;
        self.shared.state.lock().rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admit_pair(OpKind::Link, from, to)?;
        self.shared.state.lock().link(from, to)
    }

    /// Counts as no operation: it changes nothing, and no fault strikes it.
    fn links(&self, path: &Path) -> io::Result<u64> {
        Ok(self.shared.state.lock().file_at(path)?.links as u64)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        foreground::check(Slow::Unlink);
        self.admit(OpKind::Unlink, path, false)?;
        self.shared.state.lock().unlink(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        foreground::check(Slow::Punch);
        if let Some(strike) = self.enter(OpKind::PunchHole, path.into(), len, false) {
            return Err(strike.fault.error());
        }
        self.insist(|state| state.check_descriptor())?;
        self.shared.state.lock().file_at(path)?.punch(offset, len);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.admit(OpKind::List, dir, false)?;
        self.insist(|state| state.check_descriptor())?;
        let state = self.shared.state.lock();
        let names = &state.names.now;
        let entry = |(name, node): (&String, Node)| DirEntry {
            name: name.clone(),
            is_dir: matches!(node, Node::Dir(_)),
        };
        Ok(names.names(names.dir(dir)?).map(entry).collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let is_new = self.shared.state.lock().names.now.file(path).is_err();
        self.admit(OpKind::Lock, path, is_new)?;
        let id = self.insist(|state| state.lock(path))?;
        Ok(Box::new(SimLock::new(self.clone(), id, path)))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let is_new = self.shared.state.lock().names.now.file(path).is_err();
        self.admit(OpKind::Lock, path, is_new)?;
        let id = self.insist(|state| state.lock_shared(path))?;
        Ok(Box::new(SimLock::new(self.clone(), id, path)))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.admit(OpKind::FreeSpace, path, false)?;
        let state = self.shared.state.lock();
        Ok(state.free_blocks(state.devices.at(path)) * BLOCK_BYTES)
    }

    fn descriptors(&self) -> Arc<Descriptors> {
        let (limit, open) = {
            let state = self.shared.state.lock();
            (state.descriptor_limit, state.open_descriptors)
        };
        if let Some(limit) = limit {
            self.shared.descriptors.measured(limit, open);
        }
        self.shared.descriptors.clone()
    }
}

/// What a handle may do. Only the handle that created a file may append to it.
#[derive(Debug)]
enum Access {
    Read,
    /// Existing bytes may be written again in place.
    Rewrite,
    /// The next append goes to `end`, the end of the file.
    Append {
        end: AtomicU64,
    },
    /// Appends are stores into a mapping, and the next one goes to `end`. The file's length includes its preallocated space. A
    /// dying process may have stored a part.
    Store {
        end: AtomicU64,
    },
}

/// An open file.
#[derive(Debug)]
struct SimFile {
    fs: SimFs,
    id: u64,
    path: Arc<Path>,
    access: Access,
}

impl SimFile {
    fn end(&self) -> io::Result<&AtomicU64> {
        match &self.access {
            Access::Read | Access::Rewrite => Err(errno(EBADF)),
            Access::Append { end } | Access::Store { end } => Ok(end),
        }
    }

    /// Where the file ends for this handle, if it differs from the file's length.
    fn own_end(&self) -> Option<u64> {
        match &self.access {
            Access::Store { end } => Some(end.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    fn enter(&self, kind: OpKind, bytes: u64, takes_space: bool) -> Option<Strike> {
        self.fs.enter(kind, Arc::clone(&self.path), bytes, takes_space)
    }

    fn admit(&self, kind: OpKind, bytes: u64, takes_space: bool) -> io::Result<()> {
        self.enter(kind, bytes, takes_space).map_or(Ok(()), |strike| Err(strike.fault.error()))
    }

    /// How many of `len` bytes at `offset` find room on the device.
    fn room(&self, offset: u64, len: u64) -> u64 {
        let mut state = self.fs.shared.state.lock();
        let free_blocks = state.free_blocks(device_of(self.id));
        state.inode(self.id).now.fitting(offset, len, free_blocks)
    }

    fn takes_space(&self, offset: u64, len: u64) -> bool {
        self.fs.shared.state.lock().inode(self.id).now.fitting(offset, len, 0) < len
    }

    /// Panics if an append up to `end` goes beyond the preallocated space where [`SimFs::set_appends_need_space`] asks for it.
    fn check_space(&self, end: u64) {
        let (needed, preallocated) = {
            let mut state = self.fs.shared.state.lock();
            (state.appends_need_space, state.inode(self.id).preallocated)
        };
        assert!(
            !needed || end <= preallocated,
            "{:?} has space for {preallocated} of {end} bytes",
            self.path
        );
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.admit(OpKind::Read, buf.len() as u64, false)?;
        let mut state = self.fs.shared.state.lock();
        let unlinked_are_gone = state.unlinked_are_gone;
        let inode = state.inode(self.id);
        match unlinked_are_gone && inode.links == 0 {
            true => Err(errno(ESTALE)),
            false => {
                let end = self.own_end().unwrap_or(u64::MAX);
                let len = end.saturating_sub(offset).min(buf.len() as u64);
                Ok(inode.now.read(offset, &mut buf[..len as usize]))
            }
        }
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        let end = self.end()?;
        let at = end.load(Ordering::Relaxed);
        let len = data.len() as u64;
        self.check_space(at + len);
        let takes_space = self.takes_space(at, len);
        if self.own_end().is_some() {
            self.fs.shared.state.lock().inode(self.id).begin_store(at, data);
        }
        let strike = self.enter(OpKind::Append, len, takes_space);
        self.fs.shared.state.lock().inode(self.id).end_store();
        let (written, error) = match strike {
            // Half of the failing appends write nothing. The others write a random prefix.
            Some(Strike { fault, draw }) if draw % 2 == 0 => (0, Some(fault.error())),
            Some(Strike { fault, draw }) => (draw / 2 % (len + 1), Some(fault.error())),
            None => (len, None),
        };
        let fitting = self.room(at, written);
        self.fs.shared.state.lock().inode(self.id).write(at, &data[..fitting as usize]);
        if fitting < written {
            return Err(errno(ENOSPC));
        }
        if let Some(error) = error {
            return Err(error);
        }
        end.store(at + len, Ordering::Relaxed);
        Ok(())
    }

    fn rewrite(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !matches!(self.access, Access::Rewrite) {
            return Err(errno(EBADF));
        }
        let strike = self.enter(OpKind::Rewrite, data.len() as u64, false);
        let written = match strike {
            Some(Strike { draw, .. }) => (draw % (data.len() as u64 + 1)) as usize,
            None => data.len(),
        };
        self.fs.shared.state.lock().inode(self.id).rewrite(offset, &data[..written]);
        strike.map_or(Ok(()), |strike| Err(strike.fault.error()))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.end()?;
        self.admit(OpKind::Preallocate, len, self.takes_space(0, len))?;
        if self.room(0, len) < len {
            return Err(errno(ENOSPC));
        }
        let mut state = self.fs.shared.state.lock();
        let inode = state.inode(self.id);
        inode.now.reserve(len);
        inode.preallocated = inode.preallocated.max(len);
        if self.own_end().is_some() {
            inode.grow(len);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let end = self.end()?;
        self.admit(OpKind::Truncate, len, false)?;
        self.fs.shared.state.lock().inode(self.id).truncate(len);
        end.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        foreground::check(Slow::Sync);
        let strike = self.enter(OpKind::SyncData, 0, false);
        let mut state = self.fs.shared.state.lock();
        match strike {
            Some(strike) => {
                state.inode(self.id).fail_sync();
                Err(strike.fault.error())
            }
            None => {
                state.inode(self.id).sync();
                Ok(())
            }
        }
    }

    /// Counts as no operation: it changes nothing, and no fault strikes it.
    fn hole_bytes(&self, len: u64) -> io::Result<u64> {
        Ok(self.fs.shared.state.lock().inode(self.id).now.hole_bytes(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.admit(OpKind::Len, 0, false)?;
        if let Some(end) = self.own_end() {
            return Ok(end);
        }
        Ok(self.fs.shared.state.lock().inode(self.id).now.len())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        foreground::check(Slow::Close);
        self.fs.shared.state.lock().close(self.id);
    }
}
