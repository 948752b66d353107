//! Buffers that walks leave behind, for the next walks of the thread. With them, a seek between living keys allocates nothing.
//!
//! A walk that ends gives up its files, tables and memory first. So the buffers hold no reference to a database, and no content.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Keys that a thread keeps: 8. An iterator that walks from both ends uses 7.
const KEPT_KEYS: usize = 8;
/// A thread keeps buffers of at most 4 KiB. A key of a megabyte is rare, and its buffer would stay as long as the thread.
pub const MOST_KEPT_BYTES: usize = 4 << 10;

thread_local! {
    static KEYS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Takes a spare buffer of this thread, or makes one.
pub fn take<T: Default>(spare: &'static std::thread::LocalKey<RefCell<Vec<T>>>) -> T {
    // A thread that ends has dropped its buffers, so it gets a new one.
    spare.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Leaves a buffer to the next walk of this thread, unless `most` are left already.
pub fn leave<T>(spare: &'static std::thread::LocalKey<RefCell<Vec<T>>>, buffer: T, most: usize) {
    let mut buffer = Some(buffer);
    let _ = spare.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        let left = most.saturating_sub(spare.len());
        spare.reserve_exact(left);
        if left > 0 {
            spare.extend(buffer.take());
        }
    });
}

/// A key of a walk, in a buffer that the thread's next walk uses again.
pub struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    pub fn new() -> KeyBuffer {
        KeyBuffer(take(&KEYS))
    }

    // Called once a walk. Inlined, it would make the step of a walk longer.
    #[inline(never)]
    pub fn of(key: &[u8]) -> KeyBuffer {
        let mut buffer = KeyBuffer::new();
        buffer.set(key);
        buffer
    }

    /// The least key behind `key`: `key` with a zero byte behind it.
    pub fn successor_of(key: &[u8]) -> KeyBuffer {
        let mut buffer = KeyBuffer::of(key);
        buffer.push(0);
        buffer
    }

    #[inline]
    pub fn set(&mut self, key: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(key);
    }
}

impl Deref for KeyBuffer {
    type Target = Vec<u8>;

    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for KeyBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for KeyBuffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        if (1..=MOST_KEPT_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            leave(&KEYS, buffer, KEPT_KEYS);
        }
    }
}
