//! The page cache: an exact LRU list of the cached pages of files, 4 KiB each.
//!
//! The list holds no bytes. `inode.rs` holds the bytes of all pages, cached or not.

/// No slot.
pub const NONE: u32 = u32::MAX;

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The index of the device.
    pub device: usize,
    /// The id of the interval in the device's timeline.
    pub interval: u64,
}

/// A page in the cache.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub file: u64,
    pub page: u32,
    pub is_dirty: bool,
    /// The request that reads the page; `None` if the page is present.
    pub io: Option<Io>,
    /// The next page in the list towards the most recently used one.
    newer: u32,
    older: u32,
}

/// The slots, and their order of use.
#[derive(Debug)]
pub struct PageCache {
    slots: Vec<Slot>,
    unused: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
    used: usize,
    dirty: usize,
}

impl PageCache {
    pub fn new(capacity_pages: usize) -> PageCache {
        PageCache {
            slots: Vec::new(),
            unused: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity: capacity_pages,
            used: 0,
            dirty: 0,
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn dirty(&self) -> usize {
        self.dirty
    }

    pub fn is_full(&self) -> bool {
        self.used == self.capacity
    }

    pub fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// The least recently used clean page. Dirty pages before it are moved to the most recently used end.
    pub fn victim(&mut self) -> Option<u32> {
        for _ in 0..self.used {
            let slot = self.oldest;
            if !self.slots[slot as usize].is_dirty {
                return Some(slot);
            }
            self.touch(slot);
        }
        None
    }

    /// Adds a page, which must not be in the cache, as the most recently used one. The cache must not be full.
    pub fn insert(&mut self, file: u64, page: u32, io: Option<Io>) -> u32 {
        assert!(!self.is_full(), "a page is evicted before another is added");
        let new = Slot { file, page, is_dirty: false, io, newer: NONE, older: NONE };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        self.used += 1;
        self.push(slot);
        slot
    }

    pub fn remove(&mut self, slot: u32) {
        self.set_dirty(slot, false);
        self.unlink(slot);
        self.unused.push(slot);
        self.used -= 1;
    }

    /// Makes a page the most recently used one.
    pub fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.push(slot);
        }
    }

    /// Sets whether a page is dirty. Returns whether this changes it.
    pub fn set_dirty(&mut self, slot: u32, is_dirty: bool) -> bool {
        let slot = &mut self.slots[slot as usize];
        let changes = slot.is_dirty != is_dirty;
        slot.is_dirty = is_dirty;
        match (changes, is_dirty) {
            (true, true) => self.dirty += 1,
            (true, false) => self.dirty -= 1,
            _ => {}
        }
        changes
    }

    /// Marks a page as present.
    pub fn arrived(&mut self, slot: u32) {
        self.slots[slot as usize].io = None;
    }

    /// The slots of all clean pages, least recently used first.
    pub fn clean(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = self.oldest;
        while at != NONE {
            if !self.slots[at as usize].is_dirty {
                found.push(at);
            }
            at = self.slots[at as usize].newer;
        }
        found
    }

    fn push(&mut self, slot: u32) {
        let older = self.newest;
        self.slots[slot as usize].older = older;
        self.slots[slot as usize].newer = NONE;
        match older {
            NONE => self.oldest = slot,
            older => self.slots[older as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_used_longest_ago_goes_first_and_dirty_ones_stay() {
        let mut cache = PageCache::new(3);
        let [a, b, c] = [0, 1, 2].map(|page| cache.insert(1, page, None));
        assert!(cache.is_full());
        cache.touch(a);
        assert_eq!(cache.victim(), Some(b));
        assert!(cache.set_dirty(b, true) && !cache.set_dirty(b, true));
        assert_eq!((cache.victim(), cache.dirty()), (Some(c), 1));
        cache.remove(c);
        assert!(!cache.is_full());
        let io = Some(Io { device: 1, interval: 7 });
        let d = cache.insert(2, 9, io);
        assert_eq!((cache.slot(d).file, cache.slot(d).page, cache.slot(d).io), (2, 9, io));
        cache.arrived(d);
        assert_eq!(cache.slot(d).io, None);
        assert_eq!(cache.victim(), Some(a));
        cache.set_dirty(a, true);
        cache.set_dirty(d, true);
        assert_eq!((cache.victim(), cache.clean()), (None, vec![]));
        cache.remove(b);
        assert_eq!(cache.dirty(), 2);
    }
}
