//! The kept blocks of one open table: a slot for each block. A reader finds a block by one load of a pointer, and takes no lock.
//!
//! Only the clock fills and empties slots, under its lock. A reader that loaded a block holds a share of it, so the block outlives its
//! eviction and the table. When a table is closed, its kept blocks are freed with its slots.

use super::block::Block;
use super::clock::{Kept, Looked, Weight};
use super::{BlockCache, Charge, Place};
use crate::base::ids::FileId;
use crate::base::mutant::mutant;
use crate::base::prefetch;
use crate::base::sync::ArcSwapOption;
use braidb_storage::foreground;
use std::sync::Arc;

/// The slots of one table.
#[derive(Debug)]
pub struct Slots {
    cache: Arc<BlockCache>,
    file: FileId,
    slots: Box<[ArcSwapOption<Block>]>,
    /// Of the blocks in the slots.
    weight: Weight,
    /// For the slots themselves.
    _charge: Charge,
}

impl Slots {
    /// Slots for the blocks of a table that is read through `cache`.
    pub fn new(cache: Arc<BlockCache>, file: FileId, blocks: usize) -> Arc<Slots> {
        // A cache that keeps nothing fills no slot.
        let count = if cache.keeps_nothing() { 0 } else { blocks };
        let slots: Box<[_]> = std::iter::repeat_with(ArcSwapOption::empty).take(count).collect();
        let charge = Charge::new(cache.clone(), size_of_val(&*slots));
        Arc::new(Slots { cache, file, slots, weight: Weight::default(), _charge: charge })
    }

    /// Block `number`, if it is kept.
    #[inline]
    pub fn get(&self, number: usize) -> Option<Arc<Block>> {
        let number = if mutant!("slot_of_a_neighbour") { number ^ 1 } else { number };
        let block = self.slots.get(number)?.load_full()?;
        block.note_use();
        Some(block)
    }

    /// Prefetches the slot of block `number`.
    #[inline]
    pub fn prefetch_slot(&self, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            prefetch::line(slot);
        }
    }

    /// Prefetches the header of block `number`, if the block is kept.
    #[inline]
    pub fn prefetch_header(&self, number: usize) {
        if let Some(block) = self.slots.get(number).and_then(|slot| slot.load().as_ref().map(Arc::as_ptr)) {
            prefetch::line(block);
        }
    }

    /// Prefetches the ends of block `number`, if the block is kept. This waits for the header unless it was prefetched.
    #[inline]
    pub fn prefetch_ends(&self, number: usize) {
        if let Some(block) =
            self.slots.get(number).map(ArcSwapOption::load).as_deref().and_then(Option::as_ref)
        {
            prefetch::ends(block);
        }
    }

    /// Keeps block `number`, which was checked, if the cache has room, or if the block was offered before.
    pub fn offer(self: &Arc<Self>, number: usize, block: &Arc<Block>) {
        if !self.slots.is_empty() && self.cache.admits(&self.place(number), block) {
            self.keep(number, block);
        }
    }

    /// Keeps block `number` at its first offer.
    pub fn keep(self: &Arc<Self>, number: usize, block: &Arc<Block>) {
        let Some(slot) = self.slots.get(number) else { return };
        let bytes = block.cached_bytes();
        let kept = Kept::Block { slots: Arc::downgrade(self), number: number as u32 };
        self.cache.keep(kept, bytes, || {
            let is_missing = slot.load().is_none();
            if is_missing {
                slot.store(Some(block.clone()));
                self.weight.add(bytes);
            }
            is_missing
        });
    }

    /// Empties slot `number`, unless its block is spared. The clock calls this under its lock.
    pub(super) fn take(&self, number: usize, is_spared: impl FnOnce(&Block) -> bool) -> Looked {
        let slot = &self.slots[number];
        let block = slot.load_full().expect("the clock holds a block that is kept");
        if is_spared(&block) {
            return Looked::Spared;
        }
        slot.store(None);
        self.weight.remove(block.cached_bytes());
        Looked::Taken(block)
    }

    fn place(&self, number: usize) -> Place {
        (self.file, number as u64)
    }

    /// Whether block `number` is kept, and no reader found it since the hand passed it.
    #[cfg(test)]
    pub fn is_idle(&self, number: usize) -> bool {
        self.slots[number].load_full().is_some_and(|block| !block.is_used())
    }

    /// Memory of what searches keep beside the blocks, in bytes.
    #[cfg(test)]
    pub fn aid_bytes(&self) -> usize {
        self.slots.iter().filter_map(|slot| Some(slot.load_full()?.kept_aid_bytes())).sum()
    }

    /// Memory of the slots themselves, in bytes.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        foreground::check_free(self.weight.bytes() as usize);
        self.cache.forget(&self.weight);
        // Dropping a slot searches the debts of all threads, at 0.3 µs a slot. An empty slot owns nothing, so forgetting it leaks nothing.
        for slot in std::mem::take(&mut self.slots) {
            if slot.load().is_none() {
                std::mem::forget(slot);
            }
        }
    }
}
