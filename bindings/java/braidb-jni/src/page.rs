//! Pages: entries in one buffer of Java, so that a walk crosses the border once for many entries.
//!
//! ```text
//! page  = entry*
//! entry = key length u32 │ value length u32 │ key │ value        lengths are little-endian
//! ```
//!
//! A method that fills a page returns the bytes that it used, 0 at the end of the range. A negative number says that the next entry takes
//! more bytes than the whole buffer, and how many; the method is then called again with a larger buffer.

use crate::bytes;
use crate::failure::{Failure, Result};
use jni::Env;
use jni::objects::JByteArray;
use jni::sys::jint;
use std::cell::RefCell;
use std::ops::Range;

/// Bytes in front of a key.
const HEAD_BYTES: usize = 8;
/// A thread keeps the memory of its last page up to this size, the largest page that cursors ask for without a larger entry: 64 KiB.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    /// The memory of the last page that this thread filled.
    static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A page that is being filled.
#[derive(Debug)]
pub struct Page<'a> {
    bytes: &'a mut Vec<u8>,
    room: usize,
    /// Where the key of the last entry lies.
    last: Option<Range<usize>>,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    Taken,
    /// The page has other entries, and no room for this one.
    Full,
    /// The entry takes more bytes than a whole page.
    TooLarge(usize),
}

/// How the filling of a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The page holds what it could take, or nothing if the range has ended.
    Done,
    /// The next entry takes this number of bytes.
    Needs(usize),
}

impl Page<'_> {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The key of the last entry.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.last.clone().map(|range| &self.bytes[range])
    }

    /// Adds an entry, if there is room.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Pushed {
        let bytes = HEAD_BYTES + key.len() + value.len();
        if bytes > self.room - self.bytes.len() {
            return if self.is_empty() { Pushed::TooLarge(bytes) } else { Pushed::Full };
        }
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.last = Some(start..self.bytes.len());
        self.bytes.extend_from_slice(value);
        Pushed::Taken
    }
}

/// Fills the first `room` bytes of a buffer by `fill`.
pub fn fill(
    env: &Env<'_>,
    buffer: &JByteArray<'_>,
    room: jint,
    fill: impl FnOnce(&mut Page<'_>) -> Result<Filled>,
) -> Result<jint> {
    let room = (room.max(0) as usize).min(buffer.len(env)?);
    MEMORY.with_borrow_mut(|memory| {
        memory.clear();
        memory.reserve_exact(room.min(KEPT_BYTES));
        let filled = fill(&mut Page { bytes: memory, room, last: None })?;
        let used = match filled {
            Filled::Done => {
                bytes::fill(env, buffer, memory)?;
                memory.len() as jint
            }
            Filled::Needs(bytes) => -jint::try_from(bytes).map_err(|_| {
                Failure::invalid(format!(
                    "an entry has {bytes} bytes, and an array of Java holds 2,147,483,647"
                ))
            })?,
        };
        memory.shrink_to(KEPT_BYTES);
        Ok(used)
    })
}
