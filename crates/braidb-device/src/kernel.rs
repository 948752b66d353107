//! The whole model as a value: files, names, page cache, space and device, and what a call costs the actor that makes it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::actors::Actors;
use crate::cache::{NONE, PageCache};
use crate::costs;
use crate::errno::{EISDIR, ENOSPC, errno};
use crate::figures::Figures;
use crate::inode::{Inode, pieces};
use crate::names::{Names, Node};
use crate::profile::{PAGE_BYTES, Profile};
use crate::space::{Extent, Space};
use crate::timeline::{Request, Timeline};

/// Pages in one request to the device: 1 MiB, near Linux's `max_sectors_kb` of 1280. What is longer is several requests, between
/// which another actor may have its turn.
const REQUEST_PAGES: u64 = 256;
/// Pages that a file gives at a time when too many are dirty: 4 MiB, as Linux's `MIN_WRITEBACK_PAGES`.
const BATCH_PAGES: usize = 1024;
/// Of the page cache, what may be dirty before it is written in the background: Linux's `dirty_background_ratio`.
const BACKGROUND_PERCENT: usize = 10;
/// Of the page cache, what may be dirty or under write before writers wait: Linux's `dirty_ratio`.
const LIMIT_PERCENT: usize = 20;
/// A file whose first dirty page is so old is written in the background: Linux's `dirty_expire_centisecs`.
const EXPIRE_NS: u64 = 30_000_000_000;
/// The journal writes changes that nobody syncs after this time: ext4's `commit`.
const COMMIT_NS: u64 = 5_000_000_000;
/// The journal has a part of the device, at its beginning: a 64th, up to 128 MiB, which ext4 takes for a large device.
const JOURNAL_PAGES: u64 = 32_768;
/// The file number of the journal's requests.
const JOURNAL: u64 = u64::MAX;
/// Files end before page `NONE`: 16 TiB.
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
    /// The timeline is cut when it has so many intervals.
    forget_at: usize,
    /// Files with dirty pages, by the age of the first one.
    dirty_files: BTreeSet<(u64, u64)>,
    journal_pages: u64,
    journal_next: u64,
    /// When the first change was made that the journal has not written.
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

    /// A call begins: it costs processor time, and what the system does by itself from time to time is done.
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

    // ---- The device.

    /// Has the device serve a request for the current actor. Returns the interval.
    fn serve(&mut self, request: Request, wait: Wait) -> u64 {
        let now_ns = self.actors.now_ns();
        // A write that no actor waits for goes where there is room. A read ahead does not: its reader will wait for it.
        let is_patient = wait == Wait::No && request.is_write;
        let served = match is_patient {
            true => self.timeline.serve(request, self.actors.queue_ns(), None),
            false => {
                // What the foreground has lived through stays as it was.
                let movable_ns = now_ns.max(self.actors.foreground().now_ns);
                self.timeline.serve(request, now_ns, Some(movable_ns))
            }
        };
        if served.shift_ns > 0 {
            self.actors.shift(served.start_ns, served.shift_ns);
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

    /// The journal writes what has changed, and the device's own cache goes to the medium.
    fn commit(&mut self, wait: Wait) {
        self.changed_ns = None;
        self.figures.journal_writes += 1;
        let page = self.journal_next;
        self.journal_next = (page + 1) % self.journal_pages;
        self.serve(Request { page, pages: 1, file: JOURNAL, is_write: true, is_barrier: true }, wait);
    }

    /// Names or blocks change. The journal writes it with the next sync, or after a while.
    pub fn changed(&mut self) {
        let now_ns = self.actors.now_ns();
        self.changed_ns.get_or_insert(now_ns);
    }

    // ---- Reading.

    /// Reads, waiting for what is not in the page cache, and asks for more if the handle reads in order.
    pub fn read(&mut self, id: u64, ahead: &mut Ahead, offset: u64, buf: &mut [u8]) -> usize {
        let read = self.inodes[&id].read(offset, buf);
        self.enter(costs::CALL_NS + costs::copy_ns(read as u64));
        if read == 0 {
            return 0;
        }
        let (first, end) = (page_of(offset), page_of(offset + read as u64 - 1) + 1);
        self.bring(id, first..end, Wait::Yes);
        if let Some(more) = ahead.after(first, end) {
            let file_pages = self.inode(id).len.div_ceil(PAGE_BYTES) as u32;
            self.bring(id, more.start..more.end.min(file_pages), Wait::No);
        }
        read
    }

    /// Has the device read the pages that are not in the page cache.
    fn bring(&mut self, id: u64, pages: Range<u32>, wait: Wait) {
        let mut missing: Vec<(u32, Extent)> = Vec::new();
        for page in pages {
            let Some(found) = self.inodes[&id].pages.get(page as usize) else { break };
            let (slot, place) = (found.slot, u64::from(found.place));
            if slot != NONE || !found.is_written {
                if wait == Wait::Yes {
                    self.figures.cache_hits += 1;
                    self.use_slot(slot);
                }
                continue;
            }
            match missing.last_mut() {
                Some((first, run))
                    if run.page + run.pages == place
                        && u64::from(*first) + run.pages == u64::from(page)
                        && run.pages < REQUEST_PAGES =>
                {
                    run.pages += 1;
                }
                _ => missing.push((page, Extent { page: place, pages: 1 })),
            }
        }
        for (first, run) in missing {
            let Extent { page: place, pages } = run;
            let request = Request { page: place, pages, file: id, is_write: false, is_barrier: false };
            let io = self.serve(request, wait);
            self.actors.charge(pages * costs::PAGE_NS);
            let (count, io) = match wait {
                Wait::Yes => (&mut self.figures.cache_misses, 0),
                Wait::No => (&mut self.figures.ahead_pages, io),
            };
            *count += pages;
            (first..first + pages as u32).for_each(|page| self.keep(id, page, io));
        }
    }

    /// A page of the cache is read: if it is on its way, the actor waits for it.
    fn use_slot(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        self.cache.touch(slot);
        let io = self.cache.slot(slot).io;
        if io != 0 {
            self.actors.wait_until(self.timeline.end_of(io));
            self.cache.arrived(slot);
        }
    }

    /// Puts a page into the cache, from which another one goes if it is full.
    fn keep(&mut self, id: u64, page: u32, io: u64) {
        while self.cache.is_full() {
            match self.cache.victim() {
                Some(slot) => self.evict(slot),
                None => self.write_oldest(Wait::Yes),
            }
        }
        let slot = self.cache.insert(id, page, io);
        self.inode(id).pages[page as usize].slot = slot;
    }

    fn evict(&mut self, slot: u32) {
        let gone = *self.cache.slot(slot);
        self.inode(gone.file).pages[gone.page as usize].slot = NONE;
        self.cache.remove(slot);
    }

    /// Drops all clean pages from the cache.
    pub fn drop_cache(&mut self) {
        self.cache.clean().into_iter().for_each(|slot| self.evict(slot));
    }

    // ---- Writing.

    /// Writes at `at`. On a full device the first part is written, and the file grows by it.
    pub fn write(&mut self, id: u64, at: u64, data: &[u8]) -> io::Result<()> {
        let mut written = 0;
        for (page, within) in pieces(at, data.len() as u64) {
            let found = self.inodes.get_mut(&id).expect(LIVES).page_mut(page);
            if !found.has_space() {
                if !self.space.grant() {
                    return Err(errno(ENOSPC));
                }
                found.is_granted = true;
                self.changed();
            }
            let piece = &data[written..written + within.len()];
            self.make_usable(id, page, within.len() as u64);
            written += within.len();
            let inode = self.inode(id);
            inode.write(page, within, piece);
            inode.len = inode.len.max(at + written as u64);
            self.soil(id, page);
        }
        Ok(())
    }

    /// A page of which only `bytes` are written must be in the cache, if the device holds the others.
    fn make_usable(&mut self, id: u64, page: u32, bytes: u64) {
        let found = &self.inode(id).pages[page as usize];
        if bytes < PAGE_BYTES && found.slot == NONE && found.is_written {
            self.bring(id, page..page + 1, Wait::Yes);
        }
    }

    /// The bytes of a page have changed.
    fn soil(&mut self, id: u64, page: u32) {
        if self.inode(id).pages[page as usize].slot == NONE {
            self.keep(id, page, 0);
            self.actors.charge(costs::PAGE_NS);
        }
        let (now_ns, inode) = (self.actors.now_ns(), self.inodes.get_mut(&id).expect(LIVES));
        let slot = inode.pages[page as usize].slot;
        self.cache.touch(slot);
        if self.cache.set_dirty(slot, true) {
            if inode.dirty.is_empty() {
                inode.dirty_since_ns = now_ns;
                self.dirty_files.insert((now_ns, id));
            }
            inode.dirty.insert(page);
            self.balance();
        }
    }

    /// Writes back what is too much, and waits if that is not enough.
    fn balance(&mut self) {
        let capacity = self.cache.capacity();
        if self.cache.dirty() <= capacity * BACKGROUND_PERCENT / 100 {
            return;
        }
        while self.cache.dirty() > capacity * BACKGROUND_PERCENT / 100 {
            self.write_oldest(Wait::No);
        }
        loop {
            let now_ns = self.actors.now_ns();
            let (writing, first_end_ns) = self.timeline.writing_at(now_ns);
            if self.cache.dirty() + writing as usize <= capacity * LIMIT_PERCENT / 100 {
                return;
            }
            self.figures.throttled_ns += first_end_ns - now_ns;
            self.actors.wait_until(first_end_ns);
        }
    }

    /// Writes back a batch of the file that has been dirty for the longest time.
    fn write_oldest(&mut self, wait: Wait) {
        let &(_, id) = self.dirty_files.first().expect("some file has the dirty pages");
        self.write_back(id, 0..NONE, wait, BATCH_PAGES);
    }

    /// Writes back up to `most` dirty pages of a range. Those without a place get one.
    pub fn write_back(&mut self, id: u64, range: Range<u32>, wait: Wait, most: usize) {
        let dirty: Vec<u32> = self.inodes[&id].dirty.range(range).take(most).copied().collect();
        let mut rest = &dirty[..];
        while let Some(&first) = rest.first() {
            self.settle_run(id, rest);
            let inode = self.inodes.get_mut(&id).expect(LIVES);
            let place = inode.pages[first as usize].place;
            let follows = |(index, page): &(usize, &u32)| {
                **page as usize == first as usize + index
                    && inode.pages[**page as usize].place == place.wrapping_add(*index as u32)
            };
            let pages = rest.iter().take(REQUEST_PAGES as usize).enumerate().take_while(follows).count();
            for page in &rest[..pages] {
                inode.dirty.remove(page);
                let page = &mut inode.pages[*page as usize];
                page.is_written = true;
                self.cache.set_dirty(page.slot, false);
            }
            if inode.dirty.is_empty() {
                self.dirty_files.remove(&(inode.dirty_since_ns, id));
            }
            let (page, pages_u64) = (u64::from(place), pages as u64);
            self.serve(Request { page, pages: pages_u64, file: id, is_write: true, is_barrier: false }, wait);
            rest = &rest[pages..];
        }
    }

    /// Finds places for the run of pages without one with which `pages` begins.
    fn settle_run(&mut self, id: u64, pages: &[u32]) {
        let inode = self.inodes.get_mut(&id).expect(LIVES);
        let first = pages[0];
        let is_next = |(index, page): &(usize, &u32)| {
            **page as usize == first as usize + index && inode.pages[**page as usize].is_granted
        };
        let run = pages.iter().enumerate().take_while(is_next).count();
        if run > 0 {
            self.space.ungrant(run as u64);
            self.settle(id, first, run as u64);
        }
    }

    /// Gives places to `count` pages from `first` on, behind the place of the page before if possible.
    fn settle(&mut self, id: u64, first: u32, count: u64) {
        let inode = self.inodes.get_mut(&id).expect(LIVES);
        let before = first.checked_sub(1).map_or(NONE, |before| inode.pages[before as usize].place);
        let hint = (before != NONE).then(|| u64::from(before) + 1);
        let places = self.space.allocate(count, hint);
        let places = places.into_iter().flat_map(|extent| extent.page..extent.page + extent.pages);
        for (page, place) in inode.pages[first as usize..].iter_mut().zip(places) {
            page.place = place as u32;
            page.is_granted = false;
        }
    }

    /// Makes the bytes of a file stable: all that is dirty, all that is under way, and the journal.
    pub fn sync(&mut self, id: u64) {
        self.enter(costs::CALL_NS + costs::SYNC_NS);
        self.write_back(id, 0..NONE, Wait::Yes, usize::MAX);
        self.actors.wait_until(self.timeline.end_of_writes(id));
        self.commit(Wait::Yes);
    }

    /// Makes names stable.
    pub fn sync_names(&mut self) {
        self.enter(costs::CALL_NS + costs::SYNC_NS);
        self.commit(Wait::Yes);
    }

    /// Reserves the first `len` bytes, with their places.
    pub fn preallocate(&mut self, id: u64, len: u64) -> io::Result<()> {
        let wanted = len.div_ceil(PAGE_BYTES);
        let has_space =
            |inode: &Inode| inode.pages.iter().take(wanted as usize).filter(|p| p.has_space()).count();
        let missing = wanted - has_space(&self.inodes[&id]) as u64;
        if missing > self.space.available_pages() {
            return Err(errno(ENOSPC));
        }
        if missing == 0 {
            return Ok(());
        }
        let inode = self.inode(id);
        inode.page_mut(wanted as u32 - 1);
        let mut page = 0;
        while page < wanted as usize {
            let inode = self.inode(id);
            let run = inode.pages[page..wanted as usize].iter().take_while(|p| !p.has_space()).count();
            if run > 0 {
                self.settle(id, page as u32, run as u64);
            }
            page += run.max(1);
        }
        self.changed();
        Ok(())
    }

    /// Makes a file `len` long.
    pub fn truncate(&mut self, id: u64, len: u64) -> io::Result<()> {
        if len.div_ceil(PAGE_BYTES) >= MOST_PAGES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let kept = len.div_ceil(PAGE_BYTES) as u32;
        self.free(id, kept..NONE);
        let inode = self.inode(id);
        inode.pages.truncate(kept as usize);
        inode.len = len;
        let within = (len % PAGE_BYTES) as usize;
        if within > 0 {
            self.zero(id, kept - 1, within..PAGE_BYTES as usize);
        }
        self.changed();
        Ok(())
    }

    /// Makes a range a hole: whole pages lose their space, parts of pages are zeroed.
    pub fn punch(&mut self, id: u64, offset: u64, len: u64) {
        let reach = self.inodes[&id].pages.len() as u64 * PAGE_BYTES;
        let len = len.min(reach.saturating_sub(offset));
        for (page, within) in pieces(offset, len) {
            match within.len() as u64 == PAGE_BYTES {
                true => self.free(id, page..page + 1),
                false => self.zero(id, page, within),
            }
        }
        self.changed();
    }

    /// Zeros a part of a page.
    fn zero(&mut self, id: u64, page: u32, within: Range<usize>) {
        let has_data =
            self.inode(id).pages.get(page as usize).is_some_and(|p| p.is_written || p.slot != NONE);
        if has_data {
            self.make_usable(id, page, within.len() as u64);
            self.inode(id).zero(page, within);
            self.soil(id, page);
        }
    }

    /// Makes whole pages holes.
    fn free(&mut self, id: u64, range: Range<u32>) {
        let inode = self.inodes.get_mut(&id).expect(LIVES);
        let was_dirty = !inode.dirty.is_empty();
        let mut run: Option<Extent> = None;
        for page in range.start..range.end.min(inode.pages.len() as u32) {
            let found = &inode.pages[page as usize];
            if found.slot != NONE {
                self.cache.remove(found.slot);
            }
            if found.is_granted {
                self.space.ungrant(1);
            }
            if found.place != NONE {
                let place = u64::from(found.place);
                match &mut run {
                    Some(run) if run.page + run.pages == place => run.pages += 1,
                    _ => {
                        let next = Extent { page: place, pages: 1 };
                        run.replace(next).into_iter().for_each(|extent| self.space.release(extent));
                    }
                }
            }
            inode.dirty.remove(&page);
            inode.forget(page);
        }
        run.into_iter().for_each(|extent| self.space.release(extent));
        if was_dirty && inode.dirty.is_empty() {
            self.dirty_files.remove(&(inode.dirty_since_ns, id));
        }
    }

    // ---- Files and names.

    pub fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect(LIVES)
    }

    /// Makes a file with one handle open on it.
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
            // Two names of one file: POSIX leaves both.
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

    /// Frees a file that nothing leads to. What of it is dirty is never written.
    fn sweep(&mut self, id: u64) {
        let inode = self.inode(id);
        if inode.links == 0 && inode.handles == 0 {
            self.free(id, 0..NONE);
            self.inodes.remove(&id);
        }
    }

    /// Locks the file at `path`, made if there is none.
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

/// What a handle has read, and asked for ahead of its reader: as Linux's `file_ra_state`.
#[derive(Debug, Default)]
pub struct Ahead {
    /// The page behind the last read.
    next: Option<u32>,
    /// Pages asked for at a time; 0 while reads are not in order.
    window: u32,
    /// Pages before this one were asked for.
    until: u32,
}

impl Ahead {
    /// The first window: 16 KiB.
    const LEAST_PAGES: u32 = 4;
    /// The largest: 128 KiB, Linux's `read_ahead_kb`.
    const MOST_PAGES: u32 = 32;

    /// The pages to ask for after a read of `first..end`.
    fn after(&mut self, first: u32, end: u32) -> Option<Range<u32>> {
        if self.next == Some(end) && first + 1 == end {
            return None;
        }
        // Two blocks side by side may share a page.
        let is_in_order = self.next.is_some_and(|next| first == next || first + 1 == next);
        self.next = Some(end);
        if !is_in_order {
            (self.window, self.until) = (0, 0);
            return None;
        }
        let from = self.until.max(end);
        if from - end > self.window / 2 {
            return None;
        }
        self.window = (2 * self.window).clamp(Ahead::LEAST_PAGES, Ahead::MOST_PAGES);
        self.until = from + self.window;
        Some(from..self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_while_reads_are_in_order_and_stays_ahead() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.after(100, 101), None);
        assert_eq!(ahead.after(101, 102), Some(102..106));
        assert_eq!(ahead.after(102, 103), None);
        assert_eq!(ahead.after(103, 104), Some(106..114));
        assert_eq!(ahead.after(103, 104), None, "the page again");
        assert_eq!(ahead.after(103, 105), None, "half a page was read before");
        for page in 105..200 {
            ahead.after(page, page + 1);
        }
        assert_eq!(ahead.window, 32);
        assert_eq!(ahead.after(7, 8), None);
        assert_eq!((ahead.window, ahead.until), (0, 0));
    }
}
