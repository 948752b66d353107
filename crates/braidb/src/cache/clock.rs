//! Which entries the cache gives up, and when: one clock over the blocks of all tables and over single values.
//!
//! The clock is a queue of entries. The entry at its front is where the hand points. If a reader found the entry since the hand passed it last,
//! the entry goes to the back. Otherwise it leaves the cache. The clock holds each kept block or value once. It does not hold the blocks
//! themselves: they are in the slots of their tables ([`Slots`]) and in the map of values.
//!
//! A table that is closed takes its blocks along, and their bytes leave the count at once. Its entries stay in the queue until the hand meets
//! them. Each insertion looks at two entries for this reason, so the queue does not grow while tables come and go.

use super::Place;
use super::block::Block;
use super::limit::Limit;
use super::slots::Slots;
use super::values::Values;
use crate::base::sync::{AtomicU64, Mutex, Ordering};
use braidb_storage::{foreground, heap};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Most entries that the hand passes over during one insertion: 64. Behind these it takes each entry, used or not. Each costs the insertion up
/// to three cache misses, so 64 cost it 20 µs at worst. Readers that insert too wait for the lock.
const MOST_PASSED: usize = 64;
/// Entries of closed tables that an insertion can take out of the queue: 2. An insertion adds one entry, so the queue shrinks.
const DEAD_LOOKED_FOR: usize = 2;

/// Each time that the entries grow by 112 KiB, the reader takes as much memory for the entries to come (`heap.rs` in `braidb-storage`).
const PIECE_BYTES: u64 = heap::PIECE_BYTES as u64;

/// Entries that leave under one lock when the limit falls: 64. They take about 20 µs, for which readers that insert wait.
const MOST_SHED: usize = 64;

/// An entry takes at most a sixteenth of the cache.
const LARGEST_SHARE: u64 = 16;

/// Where the cache keeps an entry.
#[derive(Debug)]
pub enum Kept {
    Block { slots: Weak<Slots>, number: u32 },
    Value(Place),
}

/// What an insertion took out of the cache or held on to. The caller drops it after the lock is released: gets wait for the lock.
pub type Evicted = SmallVec<[(Option<Arc<Slots>>, Option<Arc<Block>>); 2]>;

/// Bytes and number of the kept entries.
#[derive(Debug, Default)]
pub struct Weight {
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl Weight {
    /// Returns the bytes before.
    pub fn add(&self, bytes: u64) -> u64 {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed)
    }

    pub fn remove(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn remove_all(&self, other: &Weight) {
        self.bytes.fetch_sub(other.bytes(), Ordering::Relaxed);
        self.entries.fetch_sub(other.entries.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What the hand did with an entry.
#[derive(Debug)]
pub enum Looked {
    Spared,
    Taken(Arc<Block>),
}

/// The clock.
#[derive(Debug)]
pub struct Clock {
    limit: Arc<Limit>,
    weight: Weight,
    /// A foreground lock: gets insert what they read.
    queue: Mutex<VecDeque<Kept>>,
    pub values: Values,
}

impl Clock {
    /// A clock with room for this many entries of a typical size.
    pub fn new(limit: Arc<Limit>, entries: usize) -> Clock {
        let (weight, values) = (Weight::default(), Values::default());
        let queue = Mutex::new(VecDeque::with_capacity(entries));
        Clock { limit, weight, queue, values }
    }

    pub fn weight(&self) -> &Weight {
        &self.weight
    }

    /// Whether an entry of `bytes` bytes fits without an eviction.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.weight.bytes() + bytes <= self.limit.bytes()
    }

    /// Takes out what exceeds a limit that fell.
    pub fn shrink(&self) {
        while self.weight.bytes() > self.limit.bytes() {
            let mut later = Evicted::new();
            let is_empty = {
                let _held = foreground::enter();
                let mut queue = self.queue.lock();
                self.make_room(&mut queue, &mut later, MOST_SHED);
                queue.is_empty()
            };
            drop(later);
            if is_empty {
                return;
            }
        }
    }

    /// Keeps an entry of `bytes` bytes. `put` stores it where readers find it, and returns whether it was missing there. An entry larger than a
    /// sixteenth of the cache is not kept, because it would displace too much.
    pub fn insert(&self, kept: Kept, bytes: u64, put: impl FnOnce() -> bool) {
        if bytes > self.limit.bytes() / LARGEST_SHARE {
            return;
        }
        let mut later = Evicted::new();
        let mut is_growing = false;
        {
            let _held = foreground::enter();
            let mut queue = self.queue.lock();
            if put() {
                let before = self.weight.add(bytes);
                is_growing = before / PIECE_BYTES != (before + bytes) / PIECE_BYTES;
                self.drop_dead(&mut queue);
                queue.push_back(kept);
                self.make_room(&mut queue, &mut later, usize::MAX);
            }
        }
        drop(later);
        if is_growing && self.has_room(PIECE_BYTES) {
            heap::grow();
        }
    }

    /// Takes entries of closed tables from the front of the queue. The hand moves past other entries, and leaves their marks as they are.
    fn drop_dead(&self, queue: &mut VecDeque<Kept>) {
        for _ in 0..DEAD_LOOKED_FOR {
            if (queue.len() as u64) < self.weight.entries.load(Ordering::Relaxed) {
                return;
            }
            let Some(kept) = queue.pop_front() else { return };
            let is_dead = matches!(&kept, Kept::Block { slots, .. } if slots.strong_count() == 0);
            if !is_dead {
                queue.push_back(kept);
            }
        }
    }

    /// Moves the hand until the kept entries fit into the limit, or the hand took `most` entries.
    fn make_room(&self, queue: &mut VecDeque<Kept>, later: &mut Evicted, most: usize) {
        let (limit_bytes, mut passed, mut taken) = (self.limit.bytes(), 0, 0);
        while self.weight.bytes() > limit_bytes && taken < most {
            let Some(kept) = queue.pop_front() else { return };
            let is_spared = |block: &Block| block.take_use() && passed < MOST_PASSED;
            let (slots, looked) = match &kept {
                Kept::Value(place) => (None, self.values.take(place, is_spared)),
                Kept::Block { slots, number } => {
                    let Some(slots) = slots.upgrade() else { continue };
                    let looked = slots.take(*number as usize, is_spared);
                    (Some(slots), looked)
                }
            };
            let block = match looked {
                Looked::Spared => {
                    passed += 1;
                    queue.push_back(kept);
                    None
                }
                Looked::Taken(block) => {
                    self.weight.remove(block.cached_bytes());
                    taken += 1;
                    Some(block)
                }
            };
            // All blocks of a table may go with its last share, so the shares are kept until the lock is released. One is enough.
            let is_held = later
                .last()
                .is_some_and(|(last, _)| last.as_ref().map(Arc::as_ptr) == slots.as_ref().map(Arc::as_ptr));
            if block.is_some() || !is_held {
                later.push((slots, block));
            }
        }
    }
}

#[cfg(test)]
impl Clock {
    /// Entries in the queue, with those of closed tables.
    pub fn queued(&self) -> usize {
        self.queue.lock().len()
    }
}
