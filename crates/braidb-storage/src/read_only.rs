//! A file system that changes nothing below it: what a program writes stays in this process's memory.
//!
//! [`ReadOnly`] lets code that writes run on a medium that must not change. Each file that the code creates is a buffer in memory. A rename or
//! an unlink is a note in memory. Reads find the notes and buffers first, and then the files below. Syncs do nothing. The code that makes a
//! database ready after a crash so runs unchanged, and what it would have written to the device is gone when the process ends.
//!
//! A missing file of a lock is the exception: it is made if that is possible.
//!
//! This file calls only these operations of the file system below: `process`, `hold_dir`, `open`, `list`, `lock_shared` and `descriptors`. Of
//! an open file it calls only `read_at`, `forget_cached` and `len`. No other path leads to the medium.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::locks::{Mutex, RwLock};
use crate::{Descriptors, DirEntry, File, FileSystem, LockGuard, Process};

/// A file system over another one, which it only reads. Its locks are shared ones.
///
/// ```
/// use braidb_storage::{FileSystem, ReadOnly, real::RealFs};
/// use std::sync::Arc;
/// let dir = std::env::temp_dir().join(format!("braidb-storage-doc-ro-{}", std::process::id()));
/// RealFs.create_dir_all(&dir)?;
/// RealFs.create(&dir.join("old"))?;
/// let fs = ReadOnly::new(Arc::new(RealFs));
/// fs.create(&dir.join("new"))?.append(b"bytes")?;
/// fs.unlink(&dir.join("old"))?;
/// assert_eq!(fs.list(&dir)?[0].name, "new");
/// assert_eq!(RealFs.list(&dir)?[0].name, "old");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadOnly {
    below: Arc<dyn FileSystem>,
    changes: Arc<Mutex<BTreeMap<PathBuf, Change>>>,
}

/// What became of a name.
#[derive(Clone, Debug)]
enum Change {
    Made(Arc<Buffer>),
    Gone,
}

impl ReadOnly {
    /// Reads `below`, and changes nothing there.
    pub fn new(below: Arc<dyn FileSystem>) -> ReadOnly {
        ReadOnly { below, changes: Arc::default() }
    }

    fn change(&self, path: &Path) -> Option<Change> {
        self.changes.lock().get(path).cloned()
    }

    fn check_exists(&self, path: &Path) -> io::Result<()> {
        self.open(path).map(drop)
    }
}

impl FileSystem for ReadOnly {
    fn process(&self) -> io::Result<Process> {
        self.below.process()
    }

    /// The directory below, with the changes that were made in it before. They are found by the path `dir`.
    fn hold_dir(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(ReadOnly { below: self.below.hold_dir(dir)?, changes: self.changes.clone() }))
    }

    /// Creates nothing: fails unless the directory exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.below.list(dir).map(drop)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        if self.check_exists(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let buffer = Arc::new(Buffer::default());
        self.changes.lock().insert(path.to_owned(), Change::Made(buffer.clone()));
        Ok(buffer)
    }

    fn create_log(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        match self.change(path) {
            Some(Change::Made(buffer)) => Ok(buffer),
            Some(Change::Gone) => Err(io::ErrorKind::NotFound.into()),
            None => Ok(Arc::new(Below(self.below.open(path)?))),
        }
    }

    /// Does nothing: a buffer is as stable as it gets.
    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Renames a file that was created here. A file below keeps its name, and the call fails with `Unsupported`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut changes = self.changes.lock();
        let Some(made @ Change::Made(_)) = changes.get(from).cloned() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        changes.insert(from.to_owned(), Change::Gone);
        changes.insert(to.to_owned(), made);
        Ok(())
    }

    /// Fails with `Unsupported`.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Always 1: no file is linked here.
    fn links(&self, path: &Path) -> io::Result<u64> {
        self.check_exists(path).map(|()| 1)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.check_exists(path)?;
        self.changes.lock().insert(path.to_owned(), Change::Gone);
        Ok(())
    }

    /// Fails with `Unsupported`.
    fn punch_hole(&self, _path: &Path, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let below = self.below.list(dir)?.into_iter().map(|entry| (entry.name.clone(), entry));
        let mut entries: BTreeMap<String, DirEntry> = below.collect();
        for (path, change) in self.changes.lock().iter().filter(|(path, _)| path.parent() == Some(dir)) {
            let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
                continue;
            };
            match change {
                Change::Made(_) => _ = entries.insert(name.clone(), DirEntry { name, is_dir: false }),
                Change::Gone => _ = entries.remove(&name),
            }
        }
        Ok(entries.into_values().collect())
    }

    /// Takes a shared lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.below.lock_shared(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.below.lock_shared(path)
    }

    /// Without a limit: what is written takes no space on a device.
    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        Ok(u64::MAX / 2)
    }

    fn device_free_space(&self, path: &Path) -> io::Result<u64> {
        self.below.device_free_space(path)
    }

    fn descriptors(&self) -> Arc<Descriptors> {
        self.below.descriptors()
    }
}

/// A file of the file system below.
#[derive(Debug)]
struct Below(Arc<dyn File>);

impl File for Below {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn append(&self, _data: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn preallocate(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Does nothing: nothing relies on the file below being stable, since nothing is written there.
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn forget_cached(&self, offset: u64, len: u64) {
        self.0.forget_cached(offset, len);
    }

    fn hole_bytes(&self, len: u64) -> io::Result<u64> {
        self.0.hole_bytes(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// A file in memory.
#[derive(Debug, Default)]
struct Buffer(RwLock<Vec<u8>>);

impl File for Buffer {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.read();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let read = buf.len().min(bytes.len() - from);
        buf[..read].copy_from_slice(&bytes[from..from + read]);
        Ok(read)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.0.write().extend_from_slice(data);
        Ok(())
    }

    fn preallocate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.0.write().resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().len() as u64)
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::sim::SimFs;

    /// A database's directory with two files, and its read-only view.
    fn made() -> (SimFs, ReadOnly, PathBuf) {
        let (fs, dir) = (SimFs::new(), PathBuf::from("/db"));
        fs.create_dir_all(&dir).unwrap();
        fs.write_file(&dir.join("a"), b"first").unwrap();
        fs.write_file(&dir.join("b"), b"second").unwrap();
        let view = ReadOnly::new(Arc::new(fs.clone()));
        (fs, view, dir)
    }

    fn names(fs: &dyn FileSystem, dir: &Path) -> Vec<String> {
        fs.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    fn text(fs: &dyn FileSystem, path: &Path) -> String {
        let file = fs.open(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn changes_are_seen_here_and_nowhere_else() {
        let (fs, view, dir) = made();
        let held = view.hold_dir(&dir).unwrap();
        let new = held.create(&dir.join("c.tmp")).unwrap();
        new.append(b"third").unwrap();
        new.sync_data().unwrap();
        held.rename(&dir.join("c.tmp"), &dir.join("b")).unwrap();
        held.unlink(&dir.join("a")).unwrap();
        held.sync_dir(&dir).unwrap();
        assert_eq!(
            (names(&view, &dir), text(&view, &dir.join("b"))),
            (vec!["b".to_owned()], "third".to_owned())
        );
        assert_eq!(view.open(&dir.join("a")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(names(&fs, &dir), ["a", "b"]);
        assert_eq!(
            (text(&fs, &dir.join("a")), text(&fs, &dir.join("b"))),
            ("first".to_owned(), "second".to_owned())
        );
        // A name that is free again can be used again.
        view.create(&dir.join("a")).unwrap();
        assert_eq!(view.create(&dir.join("a")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(view.create(&dir.join("b")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_below_refuses_every_change() {
        let (fs, view, dir) = made();
        let (path, before) = (dir.join("a"), fs.ops());
        let file = view.open(&path).unwrap();
        for refused in [file.append(b"x"), file.truncate(0), file.preallocate(9)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        for refused in [
            view.punch_hole(&path, 0, 5),
            view.link(&path, &dir.join("d")),
            view.rename(&path, &dir.join("d")),
        ] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
        }
        assert!(file.rewrite(0, b"first").is_err() && view.open_to_rewrite(&path).is_err());
        file.sync_data().unwrap();
        assert_eq!(view.create_dir_all(&dir.join("sub")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(
            (text(&fs, &path), names(&fs, &dir)),
            ("first".to_owned(), vec!["a".to_owned(), "b".to_owned()])
        );
        assert!(fs.ops() > before, "the reads below are counted");
    }

    #[test]
    fn a_buffer_reads_as_a_file() {
        let buffer = Buffer::default();
        buffer.append(b"hello").unwrap();
        buffer.truncate(3).unwrap();
        buffer.append(b"p!").unwrap();
        let mut bytes = [0; 4];
        assert_eq!((buffer.read_at(3, &mut bytes).unwrap(), &bytes[..2]), (2, b"p!".as_slice()));
        assert_eq!(
            (buffer.read_at(5, &mut bytes).unwrap(), buffer.read_at(u64::MAX, &mut bytes).unwrap()),
            (0, 0)
        );
        assert_eq!(buffer.len().unwrap(), 5);
    }

    #[test]
    fn readers_share_a_lock_that_keeps_a_writer_out() {
        let (fs, view, dir) = made();
        let path = dir.join("LOCK");
        let first = view.lock(&path).unwrap();
        let second = view.lock(&path).unwrap();
        assert_eq!(fs.lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        assert_eq!(fs.lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(second);
        let writer = fs.lock(&path).unwrap();
        assert_eq!(view.lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        view.lock(&path).unwrap();
    }
}
