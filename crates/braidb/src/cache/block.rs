//! The bytes of a block or of a value, shared by the cache and by readers.

use crate::base::prefetch;
use braidb_storage::foreground;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of a block, or of several that were read at once. A pinned value keeps them alive.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
    /// The checksum that a single value was checked against; `None` for blocks of tables.
    value_crc: Option<u32>,
    /// The most bytes that `aid` may take; 0 if searches keep nothing.
    aid_bytes: usize,
    is_searched: AtomicBool,
    /// Whether a reader found the block in the cache since the hand of the cache's clock passed it.
    is_used: AtomicBool,
    /// What searches of the block keep beside it.
    aid: OnceLock<Box<[u64]>>,
}

impl Block {
    pub fn new(bytes: Vec<u8>) -> Block {
        Block::with(bytes, None, 0)
    }

    /// A block beside which searches may keep up to `aid_bytes` bytes. The cache counts them from the beginning.
    pub fn of_table(bytes: Vec<u8>, aid_bytes: usize) -> Block {
        Block::with(bytes, None, aid_bytes)
    }

    /// A single value whose bytes have this checksum.
    pub fn of_value(bytes: Vec<u8>, crc: u32) -> Block {
        Block::with(bytes, Some(crc), 0)
    }

    fn with(bytes: Vec<u8>, value_crc: Option<u32>, aid_bytes: usize) -> Block {
        let (is_searched, is_used) = (AtomicBool::new(false), AtomicBool::new(false));
        Block { bytes, value_crc, aid_bytes, is_searched, is_used, aid: OnceLock::new() }
    }

    /// What searches keep beside the block. The first search gets nothing, and the second one has it built.
    #[inline]
    pub fn search_aid(&self, build: impl FnOnce(&[u8]) -> Box<[u64]>) -> &[u64] {
        match self.aid.get() {
            Some(aid) => aid,
            None => self.begin_aid(build),
        }
    }

    #[cold]
    fn begin_aid(&self, build: impl FnOnce(&[u8]) -> Box<[u64]>) -> &[u64] {
        if self.aid_bytes == 0 || !self.is_searched.swap(true, Ordering::Relaxed) {
            return &[];
        }
        self.aid.get_or_init(|| {
            let aid = build(&self.bytes);
            assert!(size_of_val(&*aid) <= self.aid_bytes, "the cache counted {} bytes", self.aid_bytes);
            aid
        })
    }

    /// Prefetches what a search reads first: what searches keep beside the block, or else its first entries, and its last bytes.
    #[inline]
    pub fn prefetch_for_search(&self) {
        prefetch::ends(&self.bytes);
        if let Some(aid) = self.aid.get() {
            aid.chunks(prefetch::LINE_BYTES / size_of::<u64>())
                .for_each(|line| prefetch::line(line.as_ptr()));
        }
    }

    /// Bytes of what searches keep beside the block now.
    #[cfg(test)]
    pub fn kept_aid_bytes(&self) -> usize {
        self.aid.get().map_or(0, |aid| size_of_val(&**aid))
    }

    /// Whether this is the value of `value_bytes` bytes with this checksum. The bytes were checked when they were read.
    pub fn is_value(&self, value_bytes: u32, crc: u32) -> bool {
        self.bytes.len() == value_bytes as usize && self.value_crc == Some(crc)
    }

    /// Notes that a reader found the block in the cache. A store to a line that is marked already would take it away from other readers.
    #[inline]
    pub(super) fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Whether a reader found the block since the last call.
    pub(super) fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// Memory that the cache counts for the block, with what searches may keep beside it.
    pub(super) fn cached_bytes(&self) -> u64 {
        /// Bytes that an entry costs in addition to its block: the allocations of the block's header and of the directory, the slot, and the
        /// entry in the clock.
        const OVERHEAD_BYTES: u64 = 160;
        (self.bytes.capacity() + self.aid_bytes) as u64 + OVERHEAD_BYTES
    }

    /// Whether the buffer takes more than twice `bytes` bytes.
    pub fn has_spare(&self, bytes: usize) -> bool {
        self.bytes.capacity() > 2 * bytes
    }

    /// Takes the bytes out, to be the buffer of the next read.
    pub fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        foreground::check_free(self.bytes.capacity());
    }
}
