//! Writing: pages become dirty in the cache, get their place, and go to the device. Also reserving and freeing space.

use std::io;
use std::ops::Range;

use super::{LIVES, MOST_PAGES, REQUEST_PAGES, State, Wait};
use crate::cache::NONE;
use crate::costs;
use crate::errno::{ENOSPC, errno};
use crate::inode::{Inode, pieces};
use crate::profile::PAGE_BYTES;
use crate::space::Extent;
use crate::timeline::Request;

/// Pages of one file that are written at a time when too many are dirty: 4 MiB, as Linux's `MIN_WRITEBACK_PAGES`.
const BATCH_PAGES: usize = 1024;
/// Percentage of dirty pages in the cache above which they are written in the background: Linux's
/// `dirty_background_ratio`.
const BACKGROUND_PERCENT: usize = 10;
/// Percentage of pages in the cache, dirty or being written, above which writers wait: Linux's `dirty_ratio`.
const LIMIT_PERCENT: usize = 20;

impl State {
    /// Writes `data` at `at`. On a full device the first part is written, and the file grows by this part.
    pub fn write(&mut self, id: u64, at: u64, data: &[u8]) -> io::Result<()> {
        let mut written = 0;
        for (page, within) in pieces(at, data.len() as u64) {
            let inode = self.inodes.get_mut(&id).expect(LIVES);
            let (device, found) = (inode.device, inode.page_mut(page));
            if !found.has_space() {
                if !self.devices[device].space.grant() {
                    return Err(errno(ENOSPC));
                }
                found.is_granted = true;
                self.changed(device);
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

    /// Brings a page into the cache before only `bytes` of it are written, if the device holds its other bytes.
    fn make_usable(&mut self, id: u64, page: u32, bytes: u64) {
        let found = &self.inode(id).pages[page as usize];
        if bytes < PAGE_BYTES && found.slot == NONE && found.is_written {
            self.bring(id, page..page + 1, Wait::Yes);
        }
    }

    /// Marks a page as dirty.
    fn soil(&mut self, id: u64, page: u32) {
        self.forget_copy(id, page);
        if self.inode(id).pages[page as usize].slot == NONE {
            self.keep(id, page, None);
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

    /// Writes back pages above the background limit, and waits while the cache is above the limit for writers.
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
            let (writing, first) = self.writing_at(now_ns);
            let Some((first_end_ns, device)) = first else { return };
            if self.cache.dirty() + writing as usize <= capacity * LIMIT_PERCENT / 100 {
                return;
            }
            self.figures.throttled_ns += first_end_ns - now_ns;
            self.wait_for(device, first_end_ns);
        }
    }

    /// Writes back a batch of the file with the oldest dirty page.
    pub(super) fn write_oldest(&mut self, wait: Wait) {
        let &(_, id) = self.dirty_files.first().expect("some file has the dirty pages");
        self.write_back(id, 0..NONE, wait, BATCH_PAGES);
    }

    /// Writes back up to `most` dirty pages of a range. Pages without a place get one.
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
            let (device, page, pages_u64) = (inode.device, u64::from(place), pages as u64);
            let request = Request { page, pages: pages_u64, file: id, is_write: true, is_barrier: false };
            self.serve(device, request, wait);
            rest = &rest[pages..];
        }
    }

    /// Allocates places for the run of granted pages at the start of `pages`.
    fn settle_run(&mut self, id: u64, pages: &[u32]) {
        let inode = self.inodes.get_mut(&id).expect(LIVES);
        let first = pages[0];
        let is_next = |(index, page): &(usize, &u32)| {
            **page as usize == first as usize + index && inode.pages[**page as usize].is_granted
        };
        let run = pages.iter().enumerate().take_while(is_next).count();
        if run > 0 {
            self.devices[inode.device].space.ungrant(run as u64);
            self.settle(id, first, run as u64);
        }
    }

    /// Gives places to `count` pages from `first` on, behind the place of the preceding page if possible.
    fn settle(&mut self, id: u64, first: u32, count: u64) {
        let inode = self.inodes.get_mut(&id).expect(LIVES);
        let before = first.checked_sub(1).map_or(NONE, |before| inode.pages[before as usize].place);
        let hint = (before != NONE).then(|| u64::from(before) + 1);
        let places = self.devices[inode.device].space.allocate(count, hint);
        let places = places.into_iter().flat_map(|extent| extent.page..extent.page + extent.pages);
        for (page, place) in inode.pages[first as usize..].iter_mut().zip(places) {
            page.place = place as u32;
            page.is_granted = false;
        }
    }

    /// Makes the bytes of a file stable: waits for its dirty pages, its running writes, and the journal.
    pub fn sync(&mut self, id: u64) {
        self.enter(costs::CALL_NS + costs::SYNC_NS);
        self.write_back(id, 0..NONE, Wait::Yes, usize::MAX);
        let device = self.inodes[&id].device;
        self.wait_for(device, self.devices[device].timeline.end_of_writes(id, self.actors.now_ns()));
        self.commit(device, Wait::Yes);
    }

    /// Makes the names in a directory stable.
    pub fn sync_names(&mut self, dir: u64) {
        self.enter(costs::CALL_NS + costs::SYNC_NS);
        self.commit(self.names.device_of(dir), Wait::Yes);
    }

    /// Reserves the first `len` bytes, with their places.
    pub fn preallocate(&mut self, id: u64, len: u64) -> io::Result<()> {
        let wanted = len.div_ceil(PAGE_BYTES);
        let has_space =
            |inode: &Inode| inode.pages.iter().take(wanted as usize).filter(|p| p.has_space()).count();
        let missing = wanted - has_space(&self.inodes[&id]) as u64;
        let device = self.inodes[&id].device;
        if missing > self.devices[device].space.available_pages() {
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
        self.changed(device);
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
        self.changed(self.inodes[&id].device);
        Ok(())
    }

    /// Makes a range a hole: whole pages lose their space, parts of pages are set to zero.
    pub fn punch(&mut self, id: u64, offset: u64, len: u64) {
        let reach = self.inodes[&id].pages.len() as u64 * PAGE_BYTES;
        let len = len.min(reach.saturating_sub(offset));
        for (page, within) in pieces(offset, len) {
            match within.len() as u64 == PAGE_BYTES {
                true => self.free(id, page..page + 1),
                false => self.zero(id, page, within),
            }
        }
        self.changed(self.inodes[&id].device);
    }

    /// Sets a part of a page to zero.
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
    pub(super) fn free(&mut self, id: u64, range: Range<u32>) {
        let inode = self.inodes.get_mut(&id).expect(LIVES);
        let (was_dirty, space) = (!inode.dirty.is_empty(), &mut self.devices[inode.device].space);
        let mut run: Option<Extent> = None;
        for page in range.start..range.end.min(inode.pages.len() as u32) {
            let found = &inode.pages[page as usize];
            if found.slot != NONE {
                self.cache.remove(found.slot);
            }
            if let Some(flash) = self.flash.as_mut().filter(|_| found.flash != NONE) {
                flash.remove(found.flash);
            }
            if found.is_granted {
                space.ungrant(1);
            }
            if found.place != NONE {
                let place = u64::from(found.place);
                match &mut run {
                    Some(run) if run.page + run.pages == place => run.pages += 1,
                    _ => {
                        let next = Extent { page: place, pages: 1 };
                        run.replace(next).into_iter().for_each(|extent| space.release(extent));
                    }
                }
            }
            inode.dirty.remove(&page);
            inode.forget(page);
        }
        run.into_iter().for_each(|extent| space.release(extent));
        if was_dirty && inode.dirty.is_empty() {
            self.dirty_files.remove(&(inode.dirty_since_ns, id));
        }
    }
}
