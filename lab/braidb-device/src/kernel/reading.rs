//! Reading: the page cache first, then the device, and read-ahead for handles that read in order.

use std::ops::Range;

use super::{REQUEST_PAGES, State, Wait, page_of};
use crate::cache::{Io, NONE};
use crate::costs;
use crate::profile::PAGE_BYTES;
use crate::space::Extent;
use crate::timeline::Request;

impl State {
    /// Reads from the page cache, waiting for missing pages, and reads ahead if the handle reads in order.
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

    /// Makes the device read the pages that are not in the page cache.
    pub(super) fn bring(&mut self, id: u64, pages: Range<u32>, wait: Wait) {
        let mut missing: Vec<Missing> = Vec::new();
        for page in pages {
            let Some(found) = self.inodes[&id].pages.get(page as usize) else { break };
            let slot = found.slot;
            if slot != NONE || !found.is_written {
                if wait == Wait::Yes {
                    self.figures.cache_hits += 1;
                    self.use_slot(slot);
                }
                continue;
            }
            let (device, place) = self.source(id, page);
            match missing.last_mut() {
                Some(Missing { first, device: before, run })
                    if run.page + run.pages == place
                        && u64::from(*first) + run.pages == u64::from(page)
                        && *before == device
                        && run.pages < REQUEST_PAGES =>
                {
                    run.pages += 1;
                }
                _ => missing.push(Missing { first: page, device, run: Extent { page: place, pages: 1 } }),
            }
        }
        for Missing { first, device, run } in missing {
            let Extent { page: place, pages } = run;
            let request = Request { page: place, pages, file: id, is_write: false, is_barrier: false };
            let served = self.serve(device, request, wait);
            self.actors.charge(pages * costs::PAGE_NS);
            let (count, io) = match wait {
                Wait::Yes => (&mut self.figures.cache_misses, None),
                Wait::No => (&mut self.figures.ahead_pages, Some(Io { device, interval: served.id })),
            };
            *count += pages;
            (first..first + pages as u32).for_each(|page| self.keep(id, page, io));
            self.copy_to_flash(id, first, pages, device, served.end_ns);
        }
    }

    /// Uses a cached page. If the page is still being read, the actor waits for it. If a job that ran ahead requests
    /// the page later than now, the page counts as present, as do all effects of such a job.
    fn use_slot(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        self.cache.touch(slot);
        if let Some(Io { device, interval }) = self.cache.slot(slot).io {
            let end_ns = self.devices[device].timeline.end_of(interval, self.actors.now_ns());
            self.wait_for(device, end_ns);
            self.cache.arrived(slot);
        }
    }

    /// Puts a page into the cache, and evicts another one if the cache is full.
    pub(super) fn keep(&mut self, id: u64, page: u32, io: Option<Io>) {
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

    /// Drops the clean pages of a file that lie wholly in a range from the cache. The last page counts as whole if the
    /// range reaches the end of the file.
    pub fn forget_cached(&mut self, id: u64, offset: u64, len: u64) {
        self.enter(costs::CALL_NS);
        let inode = &self.inodes[&id];
        let end = offset.saturating_add(len);
        let end_page = if end >= inode.len { inode.pages.len() as u64 } else { end / PAGE_BYTES };
        let pages = offset.div_ceil(PAGE_BYTES)..end_page.min(inode.pages.len() as u64);
        let slots: Vec<u32> = pages.map(|page| inode.pages[page as usize].slot).collect();
        for slot in slots {
            if slot != NONE && !self.cache.slot(slot).is_dirty {
                self.evict(slot);
            }
        }
    }
}

/// A run of pages that is to be read with one request.
struct Missing {
    /// The first page in the file.
    first: u32,
    device: usize,
    /// The place of the run on the device.
    run: Extent,
}

/// The read-ahead state of a handle, like Linux's `file_ra_state`.
#[derive(Debug, Default)]
pub struct Ahead {
    /// The page behind the last read.
    next: Option<u32>,
    /// Pages of one read-ahead; 0 while reads are not in order.
    window: u32,
    /// The end of the pages that were read ahead.
    until: u32,
}

impl Ahead {
    /// The smallest window: 16 KiB.
    const LEAST_PAGES: u32 = 4;
    /// The largest: 128 KiB, Linux's `read_ahead_kb`.
    pub const MOST_PAGES: u32 = 32;

    /// The first window for a reader that reads `pages` at a time: twice as many. With reads of 128 KiB, each read is
    /// then one request.
    fn first_window(pages: u32) -> u32 {
        (2 * pages.min(Ahead::MOST_PAGES).next_power_of_two()).clamp(Ahead::LEAST_PAGES, Ahead::MOST_PAGES)
    }

    /// The pages to read ahead after a read of `first..end`.
    fn after(&mut self, first: u32, end: u32) -> Option<Range<u32>> {
        if self.next == Some(end) && first + 1 == end {
            return None;
        }
        // Two adjacent blocks may share a page.
        let is_in_order = self.next.map_or(first == 0, |next| first == next || first + 1 == next);
        self.next = Some(end);
        if !is_in_order {
            (self.window, self.until) = (0, 0);
            return None;
        }
        let from = self.until.max(end);
        if from - end > self.window / 2 {
            return None;
        }
        self.window = match self.window {
            0 => Ahead::first_window(end - first),
            window => (2 * window).min(Ahead::MOST_PAGES),
        };
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
        assert_eq!(ahead.after(103, 104), None, "a repeated read of one page");
        assert_eq!(ahead.after(103, 105), None, "half a page was read before");
        for page in 105..200 {
            ahead.after(page, page + 1);
        }
        assert_eq!(ahead.window, 32);
        assert_eq!(ahead.after(7, 8), None);
        assert_eq!((ahead.window, ahead.until), (0, 0));
        assert_eq!(Ahead::default().after(0, 1), Some(1..5), "the beginning of a file is read in order");
        let mut large = Ahead::default();
        assert_eq!(large.after(0, 32), Some(32..64));
        assert_eq!(large.after(32, 64), Some(64..96), "a read is one request");
    }
}
