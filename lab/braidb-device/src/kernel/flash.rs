//! The flash cache: copies of pages of the first device on a faster one, as a cache below the page cache keeps them.
//!
//! A page that the page cache misses is looked up here. A copy is read from the fast device. Any other page is read from the first device,
//! and a copy is written to the fast device. No actor waits for this write. A page that becomes dirty loses its copy. Written pages get a
//! copy only when they are read.
//!
//! The least recently used copy makes room for a new one. The fast device is written as a log: the copies of one
//! request are one write, behind the write before. So a copy costs no seek for each page. The testbed charges nothing to
//! collect what is dead in this log, and a restart would find the cache warm. Both err in favour of the cache.

use super::devices::FIRST;
use super::{LIVES, REQUEST_PAGES, State, Wait};
use crate::cache::{NONE, PageCache};
use crate::timeline::Request;

/// The file id of the requests that write copies.
const COPIES: u64 = u64::MAX - 1;

/// The copies, and their places on the fast device.
#[derive(Debug)]
pub struct Flash {
    /// The index of the fast device.
    device: usize,
    pages: u64,
    copies: PageCache,
    /// The place of the copy in each slot of `copies`.
    places: Vec<u64>,
    /// The place of the next write.
    head: u64,
}

impl Flash {
    /// An empty cache of `pages` on a device.
    ///
    /// # Panics
    ///
    /// If the cache does not hold the pages of one request, which are 1 MiB.
    pub fn new(device: usize, pages: u64) -> Flash {
        assert!(pages >= REQUEST_PAGES, "a flash cache must have at least 1 MiB");
        Flash { device, pages, copies: PageCache::new(pages as usize), places: Vec::new(), head: 0 }
    }

    /// Uses a copy. Returns its device and its place there.
    pub fn use_copy(&mut self, slot: u32) -> (usize, u64) {
        self.copies.touch(slot);
        (self.device, self.places[slot as usize])
    }

    /// Forgets a copy.
    pub fn remove(&mut self, slot: u32) {
        self.copies.remove(slot);
    }

    /// Finds the place of a write of `pages`. The log starts again at the front if the rest of the device is too short.
    fn advance(&mut self, pages: u64) -> u64 {
        let place = if self.head + pages > self.pages { 0 } else { self.head };
        self.head = place + pages;
        place
    }

    /// Adds a copy of a page. Returns its slot, and the page whose copy made room.
    fn insert(&mut self, file: u64, page: u32, place: u64) -> (u32, Option<(u64, u32)>) {
        let oldest = self.copies.is_full().then(|| self.copies.victim()).flatten();
        let gone = oldest.map(|oldest| {
            let gone = *self.copies.slot(oldest);
            self.copies.remove(oldest);
            (gone.file, gone.page)
        });
        let slot = self.copies.insert(file, page, None);
        self.places.resize(self.places.len().max(slot as usize + 1), 0);
        self.places[slot as usize] = place;
        (slot, gone)
    }
}

impl State {
    /// The device to read a page from, and the place there.
    pub(super) fn source(&mut self, id: u64, page: u32) -> (usize, u64) {
        let inode = &self.inodes[&id];
        let found = &inode.pages[page as usize];
        match &mut self.flash {
            Some(flash) if found.flash != NONE => flash.use_copy(found.flash),
            _ => (inode.device, u64::from(found.place)),
        }
    }

    /// Writes copies of `count` pages that a device has read by `read_ns`, if there is a cache for this device.
    pub(super) fn copy_to_flash(&mut self, id: u64, first: u32, count: u64, device: usize, read_ns: u64) {
        let Some(flash) = self.flash.as_mut().filter(|_| device == FIRST) else { return };
        let place = flash.advance(count);
        for (page, place) in (first..).zip(place..place + count) {
            let (slot, gone) = flash.insert(id, page, place);
            if let Some((file, page)) = gone {
                self.inodes.get_mut(&file).expect(LIVES).pages[page as usize].flash = NONE;
            }
            self.inodes.get_mut(&id).expect(LIVES).pages[page as usize].flash = slot;
        }
        let device = flash.device;
        let request = Request { page: place, pages: count, file: COPIES, is_write: true, is_barrier: false };
        self.serve_from(device, request, Wait::No, read_ns);
    }

    /// Forgets the copy of a page whose bytes change.
    pub(super) fn forget_copy(&mut self, id: u64, page: u32) {
        let copy = &mut self.inodes.get_mut(&id).expect(LIVES).pages[page as usize].flash;
        if let Some(flash) = self.flash.as_mut().filter(|_| *copy != NONE) {
            flash.remove(*copy);
            *copy = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_used_longest_ago_makes_room_and_writes_follow_each_other() {
        let mut flash = Flash::new(1, REQUEST_PAGES);
        let places: Vec<u64> = [200, 50, 7].map(|pages| flash.advance(pages)).to_vec();
        assert_eq!(places, [0, 200, 0], "the last write does not fit behind the first two");
        let slots: Vec<u32> = (0..256).map(|page| flash.insert(9, page, 1_000 + u64::from(page)).0).collect();
        assert_eq!(flash.use_copy(slots[0]), (1, 1_000));
        let (slot, gone) = flash.insert(8, 3, 77);
        assert_eq!((gone, flash.use_copy(slot)), (Some((9, 1)), (1, 77)), "page 0 was used since");
        flash.remove(slots[2]);
        assert_eq!(flash.insert(8, 4, 78).1, None);
    }
}
