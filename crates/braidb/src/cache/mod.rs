//! The block cache: uncompressed blocks of tables, and single values. Its capacity is in bytes, and entries are lent by reference count.
//!
//! A block is found by its place: file and offset. The bytes of a file never change, and its number is never used again. So an entry is
//! never wrong. Blocks of a deleted table are evicted in time.
//!
//! *Admission.* An entry is kept when it is offered a second time (`doorkeeper`). Most blocks of a large database are read once. They would
//! displace others, and each would take new memory while the cache fills. A scan that records a gap has the blocks at the end of the gap
//! kept at once ([`BlockCache::insert_known`]), because later scans jump there.
//!
//! The number of shards and the hash do not depend on the machine, so a simulated run evicts the same blocks on every machine.

mod doorkeeper;
mod open_files;

pub use open_files::OpenFiles;

use crate::base::ids::FileId;
use braidb_storage::foreground;
use doorkeeper::Doorkeeper;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use smallvec::SmallVec;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The bytes of a block, or of several that were read at once. A pinned value keeps them alive.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
    /// The checksum that a single value was checked against; `None` for blocks of tables.
    value_crc: Option<u32>,
    /// The most bytes that `aid` may take; 0 if searches keep nothing.
    aid_bytes: usize,
    is_searched: AtomicBool,
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
        Block { bytes, value_crc, aid_bytes, is_searched: AtomicBool::new(false), aid: OnceLock::new() }
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

    /// Whether this is the value of `value_bytes` bytes with this checksum. The bytes were checked when they were read.
    pub fn is_value(&self, value_bytes: u32, crc: u32) -> bool {
        self.bytes.len() == value_bytes as usize && self.value_crc == Some(crc)
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

/// Bytes of a typical block: 4 KiB. The sizes of the map and of the doorkeeper are computed from it.
const TYPICAL_BLOCK_BYTES: usize = 4096;

/// The kept blocks, in shards.
type Blocks = Cache<Place, Arc<Block>, ByBytes, BuildHasherDefault<PlaceHasher>, KeepEvicted>;

/// Where a block lies.
type Place = (FileId, u64);

/// Blocks by place. Lookups from many threads are cheap.
#[derive(Debug)]
pub struct BlockCache {
    /// None when the capacity is zero: then the cache keeps nothing and locks nothing.
    blocks: Option<(Blocks, Doorkeeper)>,
}

impl BlockCache {
    /// A cache that keeps at most about `capacity_bytes`, its own overhead included. Zero keeps nothing.
    pub fn new(capacity_bytes: usize) -> BlockCache {
        const SHARDS: usize = 16;
        if capacity_bytes == 0 {
            return BlockCache { blocks: None };
        }
        let options = OptionsBuilder::new()
            .estimated_items_capacity(capacity_bytes / TYPICAL_BLOCK_BYTES)
            .weight_capacity(capacity_bytes as u64)
            .shards(SHARDS)
            .build()
            .expect("both capacities are set");
        let hasher = BuildHasherDefault::default();
        let blocks = Cache::with_options(options, ByBytes, hasher, KeepEvicted);
        BlockCache { blocks: Some((blocks, Doorkeeper::new(capacity_bytes / TYPICAL_BLOCK_BYTES))) }
    }

    /// Bytes that the blocks take now.
    pub fn bytes(&self) -> u64 {
        self.blocks.as_ref().map_or(0, |(blocks, _)| blocks.weight())
    }

    pub fn get(&self, file: FileId, offset: u64) -> Option<Arc<Block>> {
        self.blocks.as_ref()?.0.get(&(file, offset))
    }

    /// Keeps the block, if it was offered before and is not larger than a shard.
    pub fn insert(&self, file: FileId, offset: u64, block: &Arc<Block>) {
        if let Some((_, doorkeeper)) = &self.blocks
            && doorkeeper.admits(&(file, offset))
        {
            self.insert_known(file, offset, block);
        }
    }

    /// Keeps the block at its first offer, if it is not larger than a shard.
    pub fn insert_known(&self, file: FileId, offset: u64, block: &Arc<Block>) {
        if let Some((blocks, _)) = &self.blocks {
            let evicted = {
                let _held = foreground::enter();
                blocks.insert_with_lifecycle((file, offset), block.clone())
            };
            drop(evicted);
        }
    }
}

/// Hands evicted blocks to the caller, which drops them after the shard's lock is released: gets wait for the lock, and a large value may
/// displace many blocks. The library's own lifecycle does so for two blocks only.
#[derive(Clone, Debug)]
struct KeepEvicted;

impl Lifecycle<Place, Arc<Block>> for KeepEvicted {
    type RequestState = SmallVec<[Arc<Block>; 2]>;

    fn begin_request(&self) -> Self::RequestState {
        SmallVec::new()
    }

    fn on_evict(&self, evicted: &mut Self::RequestState, _: Place, block: Arc<Block>) {
        evicted.push(block);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        foreground::check_free(self.bytes.capacity());
    }
}

/// Weighs a block by the memory that it holds.
#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Place, Arc<Block>> for ByBytes {
    fn weight(&self, _: &Place, block: &Arc<Block>) -> u64 {
        /// Bytes that an entry costs in addition to its block: the allocation of the `Arc`, the cache's own entry and its share of the map.
        const OVERHEAD_BYTES: u64 = 128;
        (block.bytes.capacity() + block.aid_bytes) as u64 + OVERHEAD_BYTES
    }
}

/// A fast hash of two integers. The cache takes shard, slot and tag from different bits of it, so all bits have to be well mixed.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Arc<Block> {
        Arc::new(Block::new(vec![7; len]))
    }

    fn kept(cache: &BlockCache, count: u64) -> u64 {
        (0..count).filter(|&i| cache.get(FileId(i % 3), i * 4096).is_some()).count() as u64
    }

    /// Offers a block as often as it takes.
    fn insert(cache: &BlockCache, file: u64, offset: u64, len: usize) {
        (0..2).for_each(|_| cache.insert(FileId(file), offset, &block(len)));
    }

    #[test]
    fn blocks_are_found_by_file_and_offset() {
        let cache = BlockCache::new(1 << 20);
        insert(&cache, 1, 0, 10);
        insert(&cache, 1, 100, 20);
        insert(&cache, 2, 0, 30);
        assert_eq!(cache.get(FileId(1), 0).map(|b| b.len()), Some(10));
        assert_eq!(cache.get(FileId(1), 100).map(|b| b.len()), Some(20));
        assert_eq!(cache.get(FileId(2), 0).map(|b| b.len()), Some(30));
        assert!(cache.get(FileId(2), 100).is_none());
    }

    #[test]
    fn a_block_that_is_offered_once_is_not_kept() {
        let cache = BlockCache::new(1 << 20);
        (0..50).for_each(|i| cache.insert(FileId(1), i * 4096, &block(4096)));
        assert_eq!((0..50).filter(|i| cache.get(FileId(1), i * 4096).is_some()).count(), 0);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn the_capacity_counts_bytes() {
        let cache = BlockCache::new(1 << 20);
        (0..2000).for_each(|i| insert(&cache, i % 3, i * 4096, 4096));
        let kept = kept(&cache, 2000);
        assert!((150..=256).contains(&kept), "{kept} blocks of 4 KiB in 1 MiB");
    }

    #[test]
    fn without_capacity_nothing_is_kept_and_all_works() {
        let cache = BlockCache::new(0);
        insert(&cache, 1, 0, 10);
        assert!(cache.get(FileId(1), 0).is_none());
        let tiny = BlockCache::new(1);
        insert(&tiny, 1, 0, 10);
        assert!(tiny.get(FileId(1), 0).is_none());
    }

    #[test]
    fn a_lent_block_outlives_its_eviction() {
        let cache = BlockCache::new(64 << 10);
        insert(&cache, 0, 0, 4096);
        let lent = cache.get(FileId(0), 0).unwrap();
        for i in 1..2000 {
            insert(&cache, i % 3, i * 4096, 4096);
            // Asked for again, so that new entries win.
            cache.get(FileId(i % 3), i * 4096);
        }
        assert!(kept(&cache, 2000) <= 16);
        assert_eq!(lent.len(), 4096);
    }

    /// Gets wait for the lock of a shard. `check_free` panics if a block of more than 1 MiB is dropped under it.
    #[test]
    fn all_that_a_large_block_displaces_is_dropped_after_the_lock() {
        let cache = BlockCache::new(128 << 20);
        let shards = (0..64).map(|offset| (offset, 3 << 19));
        let large = (64..128).map(|offset| (offset, 7 << 20));
        shards.chain(large).for_each(|(offset, len)| insert(&cache, 0, offset, len));
        assert!(cache.bytes() <= 128 << 20 && (64..128).any(|at| cache.get(FileId(0), at).is_some()));
    }
}
