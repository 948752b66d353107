//! The places of files on the device: a first-fit allocator of extents.
//!
//! Appended pages are only counted at first, as by a file system with delayed allocation. A whole run of pages gets its
//! place at write-back. So two files that grow side by side are not interleaved page by page. Granted pages can always
//! be placed.

use std::collections::BTreeMap;

/// A run of pages on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub page: u64,
    pub pages: u64,
}

/// The free pages of a device.
#[derive(Debug)]
pub struct Space {
    /// Free extents by their first page. No two of them touch.
    free: BTreeMap<u64, u64>,
    free_pages: u64,
    /// The free pages that were granted and have no place yet.
    granted_pages: u64,
}

impl Space {
    /// Pages from `first` up to `end`, all free.
    pub fn new(first: u64, end: u64) -> Space {
        assert!(first < end, "a device needs space behind its journal");
        Space { free: BTreeMap::from([(first, end - first)]), free_pages: end - first, granted_pages: 0 }
    }

    /// Pages that can still be granted.
    pub fn available_pages(&self) -> u64 {
        self.free_pages - self.granted_pages
    }

    /// Grants one page, to be placed later. Returns whether there was one.
    pub fn grant(&mut self) -> bool {
        let is_granted = self.available_pages() > 0;
        self.granted_pages += u64::from(is_granted);
        is_granted
    }

    /// Withdraws the grant of pages, because they are about to be placed, or their file gives them up before write-back.
    pub fn ungrant(&mut self, pages: u64) {
        assert!(pages <= self.granted_pages, "at most the granted pages are given back");
        self.granted_pages -= pages;
    }

    /// Allocates `pages`, which must be available. Begins at `hint` if this page is free, which continues a file.
    /// Otherwise uses the first free extent that holds the rest; if none does, first uses up the first free extent.
    pub fn allocate(&mut self, pages: u64, hint: Option<u64>) -> Vec<Extent> {
        assert!(pages <= self.available_pages(), "pages are available before they are allocated");
        let mut taken = Vec::new();
        let mut left = pages;
        if let Some((page, free)) = hint.and_then(|hint| self.free.get_key_value(&hint)) {
            let part = Extent { page: *page, pages: left.min(*free) };
            self.take(part);
            taken.push(part);
            left -= part.pages;
        }
        while left > 0 {
            let whole = self.free.iter().find(|(_, free)| **free >= left);
            let (page, free) = whole.or_else(|| self.free.iter().next()).expect("the pages are available");
            let part = Extent { page: *page, pages: left.min(*free) };
            self.take(part);
            taken.push(part);
            left -= part.pages;
        }
        taken
    }

    /// Takes the first pages of a free extent.
    fn take(&mut self, part: Extent) {
        let free = self.free.remove(&part.page).expect("a free extent begins there");
        if free > part.pages {
            self.free.insert(part.page + part.pages, free - part.pages);
        }
        self.free_pages -= part.pages;
    }

    /// Gives pages back.
    pub fn release(&mut self, extent: Extent) {
        let Extent { mut page, mut pages } = extent;
        self.free_pages += pages;
        if let Some((&before, &free)) = self.free.range(..page).next_back() {
            assert!(before + free <= page, "page {page} is free already");
            if before + free == page {
                self.free.remove(&before);
                (page, pages) = (before, free + pages);
            }
        }
        if let Some((&after, &free)) = self.free.range(page..).next() {
            assert!(page + pages <= after, "page {after} is free already");
            if page + pages == after {
                self.free.remove(&after);
                pages += free;
            }
        }
        self.free.insert(page, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(page: u64, pages: u64) -> Extent {
        Extent { page, pages }
    }

    #[test]
    fn the_first_extent_that_holds_all_is_taken_and_reused() {
        let mut space = Space::new(10, 110);
        assert_eq!(space.allocate(20, None), [extent(10, 20)]);
        assert_eq!(space.allocate(30, None), [extent(30, 30)]);
        assert_eq!(space.allocate(10, None), [extent(60, 10)]);
        space.release(extent(10, 20));
        assert_eq!(space.allocate(21, None), [extent(70, 21)], "the hole at 10 is too small");
        assert_eq!(space.allocate(20, None), [extent(10, 20)]);
        assert_eq!(space.available_pages(), 19);
    }

    #[test]
    fn a_hint_continues_a_file() {
        let mut space = Space::new(0, 100);
        let first = space.allocate(10, None)[0];
        assert_eq!(space.allocate(5, Some(first.page + first.pages)), [extent(10, 5)]);
        let other = space.allocate(5, None)[0];
        assert_eq!(other, extent(15, 5));
        assert_eq!(space.allocate(5, Some(15)), [extent(20, 5)], "the hint is taken");
        space.release(other);
        assert_eq!(space.allocate(8, Some(15)), [extent(15, 5), extent(25, 8 - 5)], "up to a used page");
    }

    #[test]
    fn without_a_whole_extent_the_parts_are_used() {
        let mut space = Space::new(0, 30);
        space.allocate(30, None);
        space.release(extent(0, 5));
        space.release(extent(10, 5));
        space.release(extent(20, 10));
        assert_eq!(space.allocate(12, None), [extent(0, 5), extent(20, 7)]);
    }

    #[test]
    fn neighbours_join() {
        let mut space = Space::new(0, 30);
        space.allocate(30, None);
        space.release(extent(10, 10));
        space.release(extent(0, 10));
        space.release(extent(20, 10));
        assert_eq!(space.allocate(30, None), [extent(0, 30)]);
    }

    #[test]
    fn granted_pages_are_no_longer_available() {
        let mut space = Space::new(0, 2);
        assert!(space.grant() && space.grant() && !space.grant());
        space.ungrant(1);
        assert_eq!(space.available_pages(), 1);
    }
}
