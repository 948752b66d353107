//! The state of the whole model: files, names, page cache, space and device, and the costs of calls for the calling
//! actor.
//!
//! `reading.rs` reads bytes and `writing.rs` writes them. This file has the device and the journal, and files and their
//! names.

mod reading;
mod writing;

pub use reading::Ahead;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::actors::Actors;
use crate::cache::{NONE, PageCache};
use crate::errno::{EISDIR, errno};
use crate::figures::Figures;
use crate::inode::Inode;
use crate::names::{Names, Node};
use crate::profile::{PAGE_BYTES, Profile};
use crate::space::Space;
use crate::timeline::{Request, Timeline};

/// Most pages of one request to the device: 1 MiB, near Linux's `max_sectors_kb` of 1280. Longer accesses are several
/// requests, and another actor may have its turn between them.
const REQUEST_PAGES: u64 = 256;
/// Age of a file's first dirty page, in ns, from which on the file is written in the background: Linux's
/// `dirty_expire_centisecs`.
const EXPIRE_NS: u64 = 30_000_000_000;
/// Time, in ns, after which the journal writes changes that no sync has written: ext4's `commit`.
const COMMIT_NS: u64 = 5_000_000_000;
/// Most pages of the journal, which takes the first 64th of the device: 128 MiB, as ext4 on a large device.
const JOURNAL_PAGES: u64 = 32_768;
/// The file id of the journal's requests.
const JOURNAL: u64 = u64::MAX;
/// Files and devices have fewer pages than this: 16 TiB.
const MOST_PAGES: u64 = NONE as u64;

/// The model's state. One lock guards it; jobs run without the lock.
#[derive(Debug)]
pub struct State {
    pub actors: Actors,
    pub names: Names,
    pub(crate) space: Space,
    pub(crate) cache: PageCache,
    inodes: BTreeMap<u64, Inode>,
    next_id: u64,
    timeline: Timeline,
    /// The number of intervals at which the timeline forgets its past.
    forget_at: usize,
    /// Files with dirty pages, sorted by the time of their first dirty page.
    dirty_files: BTreeSet<(u64, u64)>,
    journal_pages: u64,
    journal_next: u64,
    /// The time of the first change that the journal has not written.
    changed_ns: Option<u64>,
    figures: Figures,
}

/// Whether the actor waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Yes,
    No,
}

impl State {
    pub fn new(profile: Profile, device_bytes: u64, cache_bytes: u64, workers: usize) -> State {
        let (pages, cache_pages) = (device_bytes / PAGE_BYTES, cache_bytes / PAGE_BYTES);
        assert!((64..MOST_PAGES).contains(&pages), "device_bytes must be 256 KiB to 16 TiB");
        assert!((64..MOST_PAGES).contains(&cache_pages), "page_cache_bytes must be 256 KiB to 16 TiB");
        let journal_pages = (pages / 64).clamp(1, JOURNAL_PAGES);
        State {
            actors: Actors::new(workers),
            names: Names::new(),
            space: Space::new(journal_pages, pages),
            cache: PageCache::new(cache_pages as usize),
            inodes: BTreeMap::new(),
            next_id: 1,
            timeline: Timeline::new(profile, pages),
            forget_at: 64,
            dirty_files: BTreeSet::new(),
            journal_pages,
            journal_next: 0,
            changed_ns: None,
            figures: Figures::default(),
        }
    }

    pub fn figures(&self) -> Figures {
        Figures {
            now_ns: self.actors.foreground().now_ns,
            end_ns: self.actors.latest_ns().max(self.timeline.end_ns()),
            foreground_cpu_ns: self.actors.foreground().cpu_ns,
            background_cpu_ns: self.actors.background_cpu_ns(),
            jobs: self.actors.jobs_run(),
            ..self.figures
        }
    }

    /// Begins a call: charges processor time, and does the periodic work of the system that is due.
    pub fn enter(&mut self, cpu_ns: u64) {
        self.actors.charge(cpu_ns);
        let now_ns = self.actors.now_ns();
        if self.changed_ns.is_some_and(|since_ns| now_ns >= since_ns + COMMIT_NS) {
            self.commit(Wait::No);
        }
        while let Some(&(since_ns, id)) = self.dirty_files.first()
            && now_ns >= since_ns.saturating_add(EXPIRE_NS)
        {
            self.write_back(id, 0..NONE, Wait::No, usize::MAX);
        }
    }

    /// Makes the device serve a request for the current actor. Returns the id of the interval.
    fn serve(&mut self, request: Request, wait: Wait) -> u64 {
        let now_ns = self.actors.now_ns();
        // A write for which the actor does not wait follows earlier ones. A read-ahead does not: its reader will wait
        // for it.
        let is_patient = wait == Wait::No && request.is_write;
        let at_ns = if is_patient { self.actors.queue_ns() } else { now_ns };
        // Intervals in the foreground's past do not move.
        let movable_ns = at_ns.max(self.actors.foreground().now_ns);
        let served = self.timeline.serve(request, now_ns, at_ns, movable_ns);
        if served.shift_ns > 0 {
            self.actors.shift(served.moved_from_ns, served.shift_ns);
        }
        if is_patient {
            self.actors.queued_until(served.end_ns);
        } else if wait == Wait::Yes {
            self.actors.wait_until(served.end_ns);
        }
        let figures = &mut self.figures;
        let (requests, bytes) = match request.is_write {
            true => (&mut figures.writes, &mut figures.written_bytes),
            false => (&mut figures.reads, &mut figures.read_bytes),
        };
        *requests += 1;
        *bytes += request.pages * PAGE_BYTES;
        figures.seeks += served.seeks;
        figures.busy_ns += served.busy_ns;
        if self.timeline.len() >= self.forget_at {
            self.timeline.forget(self.actors.horizon_ns());
            self.forget_at = 64.max(2 * self.timeline.len());
        }
        served.id
    }

    /// The journal writes the changes, and the device's own cache is flushed to the medium.
    fn commit(&mut self, wait: Wait) {
        self.changed_ns = None;
        self.figures.journal_writes += 1;
        let page = self.journal_next;
        self.journal_next = (page + 1) % self.journal_pages;
        self.serve(Request { page, pages: 1, file: JOURNAL, is_write: true, is_barrier: true }, wait);
    }

    /// Notes a change of names or blocks, which the journal writes with the next sync, or after [`COMMIT_NS`].
    pub fn changed(&mut self) {
        let now_ns = self.actors.now_ns();
        self.changed_ns.get_or_insert(now_ns);
    }

    pub fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect(LIVES)
    }

    /// Creates a file with one open handle.
    pub fn create(&mut self, path: &Path) -> io::Result<u64> {
        let place = self.names.vacant(path)?;
        let id = self.new_id();
        self.inodes.insert(id, Inode::created());
        self.names.give(place, Node::File(id));
        self.changed();
        Ok(id)
    }

    pub fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let place = self.names.vacant(path)?;
        let id = self.new_id();
        self.names.give(place, Node::Dir(id));
        self.changed();
        Ok(())
    }

    /// Opens another handle.
    pub fn open(&mut self, path: &Path) -> io::Result<u64> {
        let id = self.names.file(path)?;
        self.inode(id).handles += 1;
        Ok(id)
    }

    /// Closes a handle.
    pub fn close(&mut self, id: u64) {
        self.inode(id).handles -= 1;
        self.sweep(id);
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.names.file(from)?;
        let (from, to) = (self.names.place(from)?, self.names.place(to)?);
        let replaced = match self.names.get(&to) {
            Some(Node::Dir(_)) => return Err(errno(EISDIR)),
            // Both names lead to one file: POSIX keeps both.
            Some(Node::File(other)) if other == id => return Ok(()),
            Some(Node::File(other)) => Some(other),
            None => None,
        };
        self.names.take(&from);
        self.names.give(to, Node::File(id));
        replaced.into_iter().for_each(|other| self.unlinked(other));
        self.changed();
        Ok(())
    }

    pub fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.names.file(from)?;
        let place = self.names.vacant(to)?;
        self.inode(id).links += 1;
        self.names.give(place, Node::File(id));
        self.changed();
        Ok(())
    }

    pub fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let id = self.names.file(path)?;
        let place = self.names.place(path)?;
        self.names.take(&place);
        self.unlinked(id);
        self.changed();
        Ok(())
    }

    fn unlinked(&mut self, id: u64) {
        self.inode(id).links -= 1;
        self.sweep(id);
    }

    /// Frees a file without names and handles. Its dirty pages are never written.
    fn sweep(&mut self, id: u64) {
        let inode = self.inode(id);
        if inode.links == 0 && inode.handles == 0 {
            self.free(id, 0..NONE);
            self.inodes.remove(&id);
        }
    }

    /// Locks the file at `path`, created if missing.
    pub fn lock(&mut self, path: &Path) -> io::Result<u64> {
        let id = match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            other => other?,
        };
        if self.inode(id).is_locked {
            self.close(id);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inode(id).is_locked = true;
        Ok(id)
    }

    pub fn unlock(&mut self, id: u64) {
        self.inode(id).is_locked = false;
        self.close(id);
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}

const LIVES: &str = "a file lives as long as a name or a handle leads to it";

/// The page of a byte.
pub fn page_of(offset: u64) -> u32 {
    (offset / PAGE_BYTES) as u32
}
