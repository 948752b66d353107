//! The open files of tables, and of bodies that tables point into: at most as many as the option `open_files` and the process allow.
//!
//! An open table keeps its index and filter in memory, but no file. For each read the table asks [`OpenFiles`], and gives the file back at
//! the end of the read ([`Lent`]). A file that was closed to make room for others is opened again by its path. Reopening is always
//! possible. A reader of a table holds the slice, and by it the `TableFile` with its bodies. A file is unlinked only after the last of these
//! is gone (rule 1). A file is closed here before it is unlinked, so that the device gets the space back at once.
//!
//! All databases of a process share one [`Descriptors`]. A read that finds no room closes the coldest file that no read holds. If reads
//! hold all files, the pool gives up one of them: the end of the last read of this file closes it. The read without a file waits for this.
//! It holds no file itself, so reads never wait for each other in a circle.
//!
//! The *coldest* file is found by the clock algorithm: a hand goes round the files. It skips a file that was read since the hand last
//! passed it, and closes the first file that was not.

use crate::base::foreground::ForegroundRwLock;
use crate::base::ids::FileId;
use braidb_storage::{Closing, Descriptors, File, FileSystem, PATIENCE, Pool, Share};
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The file id under which [`OpenFiles::reserve`] keeps a file open. No table or body has this id.
const RESERVE: FileId = FileId(u64::MAX);

/// Recently used open files by id.
#[derive(Debug)]
pub struct OpenFiles {
    fs: Arc<dyn FileSystem>,
    descriptors: Arc<Descriptors>,
    /// The most files, even if the process allows more.
    most: u64,
    files: Arc<Files>,
}

/// The pool of one database.
#[derive(Debug)]
struct Files {
    /// The number of open files. Files that left `round`, but that a read still holds, count too.
    held: Arc<AtomicU64>,
    clock: ForegroundRwLock<Clock>,
}

#[derive(Debug, Default)]
struct Clock {
    /// The place of each file in `round`.
    places: BTreeMap<FileId, usize>,
    round: Vec<Arc<Open>>,
    /// The place in `round` to which the hand came last.
    hand: usize,
    /// The file that left `round` during a read, until its last read has ended.
    leaving: Weak<Open>,
}

/// An open file.
#[derive(Debug)]
struct Open {
    id: FileId,
    // The file is dropped, and thereby closed, before its share.
    file: Arc<dyn File>,
    /// Whether a read took the file since the hand passed it.
    is_used: AtomicBool,
    _share: Share,
}

/// A file for one read. No reader asks for a second file while it holds one.
#[derive(Debug)]
pub struct Lent<'a> {
    // `None` only during the drop.
    open: Option<Arc<Open>>,
    descriptors: &'a Descriptors,
}

impl Deref for Lent<'_> {
    type Target = dyn File;

    fn deref(&self) -> &(dyn File + 'static) {
        &*self.open.as_ref().expect("taken by the drop alone").file
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.open = None;
        self.descriptors.read_ended();
    }
}

impl OpenFiles {
    /// Holds at most `most` files open, and no more than the process has room for.
    pub fn new(fs: Arc<dyn FileSystem>, most: usize) -> OpenFiles {
        let (held, clock) = (Arc::default(), ForegroundRwLock::default());
        let (descriptors, files) = (fs.descriptors(), Arc::new(Files { held, clock }));
        let pool: Arc<dyn Pool> = files.clone();
        descriptors.join(Arc::downgrade(&pool));
        OpenFiles { fs, descriptors, most: most as u64, files }
    }

    /// Opens the file at `path` and keeps it open, so that the first read can use its descriptor even if the program has taken all others
    /// by then. If this fails, the first read may fail too.
    pub fn reserve(&self, path: &Path) {
        let _ = self.get(RESERVE, path);
    }

    /// The process's descriptors.
    pub fn descriptors(&self) -> &Arc<Descriptors> {
        &self.descriptors
    }

    /// The file `id` for one read, opened at `path` unless it is open. If several threads open it at once, they share the first file, and
    /// the others are closed.
    pub fn get(&self, id: FileId, path: &Path) -> io::Result<Lent<'_>> {
        let open = match self.files.find(id) {
            Some(open) => open,
            None => self.open(id, path)?,
        };
        Ok(Lent { open: Some(open), descriptors: &self.descriptors })
    }

    fn open(&self, id: FileId, path: &Path) -> io::Result<Arc<Open>> {
        let open = || {
            let share = self.share();
            let file = self.fs.open(path)?;
            Ok(self.files.add(Open { id, file, is_used: AtomicBool::new(true), _share: share }))
        };
        // The file system closes files of all pools, but leaves each pool its last file. This closes the last one too.
        self.descriptors.insist_with(|| self.files.close_coldest(0), PATIENCE, open)
    }

    /// Makes room for one more file: closes the coldest one, or waits for the end of a read.
    fn share(&self) -> Share {
        loop {
            if let Some(share) = self.descriptors.share(&self.files.held, self.most) {
                return share;
            }
            let is_mine = self.files.held() >= self.most;
            let is_closed = !is_mine && self.descriptors.close_coldest() == Closing::Closed
                || self.files.close_coldest(0) == Closing::Closed;
            if !is_closed {
                self.descriptors.wait();
            }
        }
    }

    /// Holds a file that a test made.
    #[cfg(test)]
    pub fn insert(&self, id: FileId, file: Arc<dyn File>) {
        let share = self.share();
        self.files.add(Open { id, file, is_used: AtomicBool::new(true), _share: share });
    }

    /// Closes a file that no thread will read any more.
    pub fn close(&self, id: FileId) {
        let closed = self.files.clock.write().remove(id);
        drop(closed);
    }
}

impl Files {
    fn find(&self, id: FileId) -> Option<Arc<Open>> {
        let clock = self.clock.read();
        let open = &clock.round[*clock.places.get(&id)?];
        // The check is cheaper than a store, which would take the cache line away from other readers.
        if !open.is_used.load(Ordering::Relaxed) {
            open.is_used.store(true, Ordering::Relaxed);
        }
        Some(open.clone())
    }

    /// Adds a file. If another thread was faster, returns its file, and closes this one.
    fn add(&self, open: Open) -> Arc<Open> {
        let mut clock = self.clock.write();
        if let Some(&place) = clock.places.get(&open.id) {
            let first = clock.round[place].clone();
            drop(clock);
            drop(open);
            return first;
        }
        let open = Arc::new(open);
        let place = clock.round.len();
        clock.places.insert(open.id, place);
        clock.round.push(open.clone());
        open
    }
}

impl Pool for Files {
    fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn close_coldest(&self, least: u64) -> Closing {
        let mut clock = self.clock.write();
        let is_leaving = clock.leaving.strong_count() > 0;
        if clock.round.len() as u64 <= least {
            return if is_leaving { Closing::Lent } else { Closing::Empty };
        }
        let removed = match clock.coldest() {
            Some(coldest) => clock.remove(coldest),
            None if is_leaving => None,
            None => clock.let_go(),
        };
        // The file is closed after the lock was given back: readers take the lock.
        drop(clock);
        match removed.and_then(Arc::into_inner) {
            Some(closed) => {
                drop(closed);
                Closing::Closed
            }
            None => Closing::Lent,
        }
    }
}

impl Clock {
    fn remove(&mut self, id: FileId) -> Option<Arc<Open>> {
        let place = self.places.remove(&id)?;
        let removed = self.round.swap_remove(place);
        if let Some(moved) = self.round.get(place) {
            self.places.insert(moved.id, place);
        }
        Some(removed)
    }

    /// Takes the next file out of `round`, although a read holds it. Later reads open the file anew, so no new read holds this handle.
    fn let_go(&mut self) -> Option<Arc<Open>> {
        let place = (self.hand + 1) % self.round.len();
        let removed = self.remove(self.round[place].id);
        self.leaving = removed.as_ref().map_or_else(Weak::new, Arc::downgrade);
        removed
    }

    /// The file that was not read for the longest time; `None` if reads hold all files. Files are lent under the lock alone, so a file that
    /// no read holds now cannot be lent before the caller gives the lock back.
    fn coldest(&mut self) -> Option<FileId> {
        for _ in 0..2 * self.round.len() {
            self.hand = (self.hand + 1) % self.round.len();
            let open = &self.round[self.hand];
            if Arc::strong_count(open) == 1 && !open.is_used.swap(false, Ordering::Relaxed) {
                return Some(open.id);
            }
        }
        None
    }
}
