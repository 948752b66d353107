//! The file system behind the seam: the checks and the costs of each method.

use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use braidb_storage::{DirEntry, File, FileSystem, LockGuard, Process};
use parking_lot::Mutex;

use crate::actors::FOREGROUND;
use crate::costs;
use crate::errno::{EBADF, EINVAL, errno};
use crate::kernel::{Ahead, State, Wait, page_of};
use crate::log::LogState;
use crate::names::Node;

/// The files of the testbed. At first there is only the root directory; relative paths start there too.
#[derive(Clone, Debug)]
pub struct TestbedFs {
    pub(crate) state: Arc<Mutex<State>>,
    /// The only directory whose paths are served, after [`FileSystem::hold_dir`].
    pub(crate) held: Option<Arc<Path>>,
}

impl TestbedFs {
    /// Refuses all paths except the held directory and files directly in it.
    fn check(&self, path: &Path) -> io::Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let mut below = path.strip_prefix(held).map_err(|_| refuse(path, held))?.components();
        match (below.next(), below.next()) {
            (None | Some(Component::Normal(_)), None) => Ok(()),
            _ => Err(refuse(path, held)),
        }
    }

    /// Checks `path` and locks the state for a call that costs `cpu_ns`.
    fn enter(&self, path: &Path, cpu_ns: u64) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        self.check(path)?;
        let mut state = self.state.lock();
        state.enter(cpu_ns);
        Ok(state)
    }

    fn handle(&self, id: u64, access: Access) -> Arc<dyn File> {
        Arc::new(TestbedFile { state: self.state.clone(), id, access, ahead: Mutex::default() })
    }
}

fn refuse(path: &Path, held: &Path) -> io::Error {
    let what = format!("{} is no file directly in {}, which is held", path.display(), held.display());
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl FileSystem for TestbedFs {
    fn process(&self) -> io::Result<Process> {
        Ok(Process::without_forks())
    }

    /// Directories cannot be moved in the testbed, so the path always leads to one directory.
    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        self.enter(dir, costs::OPEN_NS)?.names.dir(dir)?;
        Ok(Arc::new(TestbedFs { state: self.state.clone(), held: Some(dir.into()) }))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let found = self.enter(dir, costs::CALL_NS)?.names.dir(dir);
        match found {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let parent = dir.parent().unwrap_or(Path::new("/"));
        self.create_dir_all(parent)?;
        self.enter(dir, costs::NAME_NS)?.create_dir(dir)?;
        self.sync_dir(parent)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let id = self.enter(path, costs::NAME_NS)?.create(path)?;
        Ok(self.handle(id, Access::Append { end: AtomicU64::new(0) }))
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let id = self.enter(path, costs::NAME_NS)?.create(path)?;
        Ok(self.handle(id, Access::Log(Mutex::default())))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let id = self.enter(path, costs::OPEN_NS)?.open(path)?;
        Ok(self.handle(id, Access::Read))
    }

    fn open_to_rewrite(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let id = self.enter(path, costs::OPEN_NS)?.open(path)?;
        Ok(self.handle(id, Access::Rewrite))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.enter(dir, costs::OPEN_NS)?;
        let dir = state.names.dir(dir)?;
        state.sync_names(dir);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(to)?;
        self.enter(from, costs::NAME_NS)?.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(to)?;
        self.enter(from, costs::NAME_NS)?.link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.enter(path, costs::NAME_NS)?.unlink(path)
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.enter(path, costs::OPEN_NS + costs::BLOCKS_NS)?;
        let id = state.names.file(path)?;
        state.punch(id, offset, len);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.enter(dir, costs::OPEN_NS)?;
        let entry = |(name, node): (&String, Node)| DirEntry {
            name: name.clone(),
            is_dir: matches!(node, Node::Dir(_)),
        };
        let entries: Vec<DirEntry> = state.names.list(state.names.dir(dir)?).map(entry).collect();
        state.enter(entries.len() as u64 * costs::ENTRY_NS);
        Ok(entries)
    }

    /// Always 1: no database of the model is linked.
    fn links(&self, _path: &Path) -> io::Result<u64> {
        Ok(1)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let id = self.enter(path, costs::OPEN_NS + costs::CALL_NS)?.lock(path)?;
        Ok(Box::new(TestbedLock { state: self.state.clone(), id, path: path.into() }))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.enter(path, costs::CALL_NS)?.free_space(path)
    }
}

/// The access of a handle: a handle that created its file may change it, other handles may not.
#[derive(Debug)]
enum Access {
    Read,
    /// Bytes may be rewritten in place.
    Rewrite,
    /// The next append goes to `end`, which moves only after a whole append.
    Append {
        end: AtomicU64,
    },
    /// The file is a log. An append costs as much as a store into a memory mapping if its pages are ready, and otherwise a system call.
    Log(Mutex<LogState>),
}

/// An open file.
#[derive(Debug)]
struct TestbedFile {
    state: Arc<Mutex<State>>,
    id: u64,
    access: Access,
    ahead: Mutex<Ahead>,
}

impl TestbedFile {
    /// Locks the state for a call that only the handle that created the file may make.
    fn change(&self, cpu_ns: u64) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        match self.access {
            Access::Read | Access::Rewrite => Err(errno(EBADF)),
            Access::Append { .. } | Access::Log(_) => {
                let mut state = self.state.lock();
                state.enter(cpu_ns);
                Ok(state)
            }
        }
    }
}

impl File for TestbedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let end = match &self.access {
            Access::Log(log) => log.lock().end(),
            _ => u64::MAX,
        };
        let len = end.saturating_sub(offset).min(buf.len() as u64);
        Ok(self.state.lock().read(self.id, &mut self.ahead.lock(), offset, &mut buf[..len as usize]))
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        let len = data.len() as u64;
        let mut state = self.change(0)?;
        if state.actors.current() != FOREGROUND {
            state.enter(costs::job_ns(len));
        }
        match &self.access {
            Access::Log(log) => {
                let mut log = log.lock();
                let (cpu_ns, is_store) = log.price(len, state.actors.now_ns());
                state.enter(cpu_ns + costs::copy_ns(len));
                state.write(self.id, log.end(), data)?;
                log.appended(len, is_store);
            }
            Access::Append { end } => {
                // Only one thread at a time appends, which orders these two accesses.
                let at = end.load(Ordering::Relaxed);
                state.enter(costs::CALL_NS + costs::copy_ns(len));
                state.write(self.id, at, data)?;
                end.store(at + len, Ordering::Relaxed);
            }
            Access::Read | Access::Rewrite => unreachable!("such a handle was refused above"),
        }
        Ok(())
    }

    fn rewrite(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !matches!(self.access, Access::Rewrite) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut state = self.state.lock();
        state.enter(costs::CALL_NS + costs::copy_ns(data.len() as u64));
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > state.inode(self.id).len) {
            return Err(errno(EINVAL));
        }
        state.write(self.id, offset, data)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.change(costs::BLOCKS_NS)?;
        state.preallocate(self.id, len)?;
        if let Access::Log(log) = &self.access {
            log.lock().allocated(len);
            let inode = state.inode(self.id);
            inode.len = inode.len.max(len);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.change(costs::BLOCKS_NS)?.truncate(self.id, len)?;
        match &self.access {
            Access::Append { end } => end.store(len, Ordering::Relaxed),
            Access::Log(log) => log.lock().truncated(len),
            Access::Read | Access::Rewrite => unreachable!("such a handle was refused above"),
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Access::Log(log) = &self.access {
            log.lock().synced();
        }
        self.state.lock().sync(self.id);
        Ok(())
    }

    fn write_out(&self, offset: u64, len: u64) {
        let mut state = self.state.lock();
        state.enter(costs::CALL_NS);
        if len > 0 {
            let last = page_of(offset.saturating_add(len - 1).min(state.inode(self.id).len));
            let first = page_of(offset.min(state.inode(self.id).len));
            state.write_back(self.id, first..last + 1, Wait::No, usize::MAX);
        }
    }

    fn forget_cached(&self, offset: u64, len: u64) {
        self.state.lock().forget_cached(self.id, offset, len);
    }

    fn mapped_bytes(&self) -> u64 {
        match &self.access {
            Access::Log(log) => log.lock().stored_bytes(),
            _ => 0,
        }
    }

    fn len(&self) -> io::Result<u64> {
        if let Access::Log(log) = &self.access {
            return Ok(log.lock().end());
        }
        let mut state = self.state.lock();
        state.enter(costs::CALL_NS);
        Ok(state.inode(self.id).len)
    }
}

impl Drop for TestbedFile {
    fn drop(&mut self) {
        self.state.lock().close(self.id);
    }
}

/// A locked file, and the place of its name.
#[derive(Debug)]
struct TestbedLock {
    state: Arc<Mutex<State>>,
    id: u64,
    path: Arc<Path>,
}

impl LockGuard for TestbedLock {
    fn is_in_place(&self) -> io::Result<bool> {
        let mut state = self.state.lock();
        state.enter(2 * costs::CALL_NS);
        match state.names.file(&self.path) {
            Ok(id) => Ok(id == self.id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for TestbedLock {
    fn drop(&mut self) {
        self.state.lock().unlock(self.id);
    }
}
