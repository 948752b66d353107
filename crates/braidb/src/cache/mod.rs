//! The block cache: uncompressed blocks of tables, and single values. Its capacity is in bytes, and entries are lent by reference count.
//!
//! A table finds its blocks in slots by their numbers ([`Slots`]). A value is found in a map by its place: file and offset. The bytes of a
//! file never change, and its number is never used again. So an entry is never wrong. One clock decides which blocks and values leave the
//! cache (`clock`). The blocks of a closed table leave with it.
//!
//! *Admission.* While the cache has room, an entry is kept when it is offered. Once it is full, an entry is kept when it is offered a second
//! time (`doorkeeper`), because most blocks of a large database are read once, and would displace others. A scan that records a gap has the
//! blocks at the end of the gap kept at once ([`Slots::keep`]), because later scans jump there.

mod block;
mod clock;
mod doorkeeper;
mod limit;
mod open_files;
mod slots;
mod values;

pub use block::Block;
pub use limit::Charge;
pub use open_files::OpenFiles;
pub use slots::Slots;

use crate::base::ids::FileId;
use clock::{Clock, Kept, Weight};
use doorkeeper::Doorkeeper;
use limit::Limit;
use std::hash::Hasher;
use std::sync::Arc;

/// Bytes of a typical block: 4 KiB. The sizes of the doorkeeper and of the clock's queue are computed from it.
const TYPICAL_BLOCK_BYTES: usize = 4096;

/// Where a block or a value lies: the file, and the number of the block or the offset of the value.
type Place = (FileId, u64);

/// Blocks and values of all files of a database.
#[derive(Debug)]
pub struct BlockCache {
    /// None when the capacity is zero: then the cache keeps nothing and locks nothing.
    kept: Option<(Clock, Doorkeeper)>,
    limit: Arc<Limit>,
}

impl BlockCache {
    /// A cache that keeps blocks and values of at most `capacity_bytes`, with what it needs for each. Slots of blocks that are not kept (8 bytes
    /// each) and the doorkeeper (2 bytes a KiB) come on top. Zero keeps nothing.
    pub fn new(capacity_bytes: usize) -> BlockCache {
        BlockCache::sharing(capacity_bytes, None)
    }

    /// As [`BlockCache::new`], of a cache that has `shared_bytes` bytes together with the open tables.
    pub fn sharing(capacity_bytes: usize, shared_bytes: Option<u64>) -> BlockCache {
        let blocks = capacity_bytes / TYPICAL_BLOCK_BYTES;
        let limit = Arc::new(Limit::new(capacity_bytes as u64, shared_bytes));
        let kept = (capacity_bytes > 0).then(|| (Clock::new(limit.clone(), blocks), Doorkeeper::new(blocks)));
        BlockCache { kept, limit }
    }

    /// Bytes that tables take, and logs that merges have loaded.
    pub fn table_bytes(&self) -> u64 {
        self.limit.table_bytes()
    }

    /// Takes out what exceeds a limit that fell.
    fn shrink(&self) {
        if let Some((clock, _)) = &self.kept {
            clock.shrink();
        }
    }

    /// Gives back all blocks and values that no reader holds, and keeps nothing from now on. Handles of a program may keep the cache of a closed
    /// database for long.
    pub fn close(&self) {
        self.limit.close();
        self.shrink();
    }

    /// Bytes that the blocks and values take now.
    pub fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(clock, _)| clock.weight().bytes())
    }

    /// Most bytes that the blocks and values take.
    pub fn limit_bytes(&self) -> u64 {
        self.limit.bytes()
    }

    fn keeps_nothing(&self) -> bool {
        self.kept.is_none()
    }

    /// The value at `offset` of `file`, if it is kept.
    pub fn value(&self, file: FileId, offset: u64) -> Option<Arc<Block>> {
        self.kept.as_ref()?.0.values.get(&(file, offset))
    }

    /// Keeps a value, which was checked, if the cache has room, or if the value was offered before.
    pub fn offer_value(&self, file: FileId, offset: u64, value: &Arc<Block>) {
        let place = (file, offset);
        if let Some((clock, _)) = &self.kept
            && self.admits(&place, value)
        {
            clock.insert(Kept::Value(place), value.cached_bytes(), || clock.values.put(place, value));
        }
    }

    /// Whether there is room for a block, or it was offered lately. Remembers this offer.
    fn admits(&self, place: &Place, block: &Block) -> bool {
        let Some((clock, doorkeeper)) = &self.kept else { return false };
        doorkeeper.admits(place) || clock.has_room(block.cached_bytes())
    }

    /// Keeps an entry that `put` stores.
    fn keep(&self, kept: Kept, bytes: u64, put: impl FnOnce() -> bool) {
        if let Some((clock, _)) = &self.kept {
            clock.insert(kept, bytes, put);
        }
    }

    /// No longer counts the entries of a closed table.
    fn forget(&self, weight: &Weight) {
        if let Some((clock, _)) = &self.kept {
            clock.weight().remove_all(weight);
        }
    }
}

/// A fast hash of two integers. The doorkeeper and the map of values take different bits of it, so all bits have to be well mixed.
#[derive(Debug, Default)]
pub struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // The product of two 64-bit numbers has the bits of both spread over its halves.
        let product = u128::from(self.0 ^ word ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(all(test, not(loom)))]
mod tests;
