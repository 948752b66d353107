//! A file system in memory for the tests of the log. It keeps the synced length of each file, records the calls, counts space, and
//! fails on demand.

use braidb_storage::{DirEntry, File, FileSystem, LockGuard};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of one directory.
#[derive(Clone, Debug, Default)]
pub struct TestFs(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<PathBuf, Content>,
    /// Free bytes; `None` is boundless.
    free: Option<u64>,
    calls: Vec<String>,
    /// Start of the calls' records, successes before the failure, and its kind: one call fails.
    fault: Option<(String, usize, io::ErrorKind)>,
}

#[derive(Clone, Debug, Default)]
pub struct Content {
    pub data: Vec<u8>,
    /// The length of the stable prefix of the data.
    pub synced: usize,
    pub name_synced: bool,
    allocated: u64,
}

#[derive(Debug)]
struct TestFile {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
}

impl Disk {
    /// Records a call on a file, and fails if its turn has come.
    fn call(&mut self, what: &str, path: &Path) -> io::Result<()> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let call = format!("{what} {name}");
        let fault = self.fault.take_if(|(start, first, _)| {
            let matches = call.starts_with(start.as_str());
            let due = matches && *first == 0;
            *first -= usize::from(matches && !due);
            due
        });
        self.calls.push(call);
        fault.map_or(Ok(()), |(_, _, kind)| Err(kind.into()))
    }

    fn take_space(&mut self, bytes: u64) -> io::Result<()> {
        match &mut self.free {
            Some(free) if *free < bytes => Err(io::ErrorKind::StorageFull.into()),
            Some(free) => {
                *free -= bytes;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl TestFs {
    /// Fails the next call whose record begins with `call`, e.g. `append 000001.log`.
    pub fn fail_next(&self, call: &str, kind: io::ErrorKind) {
        self.fail_after(0, call, kind);
    }

    /// Fails the call whose record begins with `call`, after `first` of them succeeded.
    pub fn fail_after(&self, first: usize, call: &str, kind: io::ErrorKind) {
        self.0.lock().fault = Some((call.to_owned(), first, kind));
    }

    pub fn set_free(&self, free: u64) {
        self.0.lock().free = Some(free);
    }

    pub fn free(&self) -> u64 {
        self.0.lock().free.unwrap_or(u64::MAX)
    }

    /// The calls since the last time, without preallocations and reads.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().calls)
    }

    pub fn content(&self, path: &Path) -> Content {
        self.0.lock().files[path].clone()
    }

    pub fn contents(&self) -> BTreeMap<PathBuf, Content> {
        self.0.lock().files.clone()
    }

    pub fn set(&self, path: &Path, data: Vec<u8>) {
        let synced = data.len();
        self.0
            .lock()
            .files
            .insert(path.to_owned(), Content { data, synced, name_synced: true, allocated: 0 });
    }

    pub fn remove(&self, path: &Path) {
        self.0.lock().files.remove(path);
    }
}

impl FileSystem for TestFs {
    fn hold_dir(&self, _dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        unreachable!("the log opens no directories")
    }

    fn create(&self, _path: &Path) -> io::Result<Arc<dyn File>> {
        unreachable!("the log makes nothing but logs")
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut disk = self.0.lock();
        disk.call("create", path)?;
        assert!(disk.files.insert(path.to_owned(), Content::default()).is_none(), "files are created once");
        Ok(Arc::new(TestFile { disk: self.0.clone(), path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        if !self.0.lock().files.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(TestFile { disk: self.0.clone(), path: path.to_owned() }))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.call("sync_dir", dir)?;
        disk.files.values_mut().for_each(|content| content.name_synced = true);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.call("unlink", path)?;
        let content = disk.files.remove(path).ok_or(io::ErrorKind::NotFound)?;
        if let Some(free) = &mut disk.free {
            *free += content.allocated;
        }
        Ok(())
    }

    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.0.lock().free.unwrap_or(u64::MAX))
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        unreachable!("the log makes no directories")
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unreachable!("the log renames nothing")
    }

    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unreachable!("the log links nothing")
    }

    fn punch_hole(&self, _path: &Path, _offset: u64, _len: u64) -> io::Result<()> {
        unreachable!("the log is never punched")
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<DirEntry>> {
        unreachable!("the log lists nothing")
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn LockGuard>> {
        Ok(Box::new(TestLock))
    }
}

/// A lock that is never lost.
#[derive(Debug)]
struct TestLock;

impl LockGuard for TestLock {
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
}

impl TestFile {
    fn with<T>(&self, work: impl FnOnce(&mut Content) -> T) -> T {
        work(self.disk.lock().files.get_mut(&self.path).expect("the file is there"))
    }
}

impl File for TestFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.with(|content| {
            let from = content.data.get(offset as usize..).unwrap_or_default();
            let len = from.len().min(buf.len());
            buf[..len].copy_from_slice(&from[..len]);
            Ok(len)
        })
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        let failed = self.disk.lock().call("append", &self.path);
        self.with(|content| {
            // A failed append leaves half of its bytes in the file.
            let len = if failed.is_ok() { data.len() } else { data.len() / 2 };
            content.data.extend_from_slice(&data[..len]);
            assert!(content.data.len() as u64 <= content.allocated, "space comes before bytes");
        });
        failed
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let more = len.saturating_sub(disk.files[&self.path].allocated);
        disk.take_space(more)?;
        disk.files.get_mut(&self.path).expect("the file is there").allocated += more;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.lock().call("sync", &self.path)?;
        self.with(|content| content.synced = content.data.len());
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|content| content.data.len() as u64))
    }

    /// Gives back the space that was allocated behind the bytes.
    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.call("truncate", &self.path)?;
        let content = disk.files.get_mut(&self.path).expect("the file is there");
        assert_eq!(content.data.len() as u64, len, "a log is cut where its bytes end");
        let unused = content.allocated - len;
        content.allocated = len;
        if let Some(free) = &mut disk.free {
            *free += unused;
        }
        Ok(())
    }
}
