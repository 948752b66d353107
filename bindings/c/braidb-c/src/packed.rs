//! Many entries in one piece of memory, so that a caller crosses into the library once for all of them: writes of a batch, and entries of a
//! cursor.
//!
//! Each entry has the length of its key and the length of its value, both as 32 bits in little-endian, and then key and value. A delete has
//! the length 0xFFFFFFFF in place of the value's, and no value.

use crate::failure::{Failure, Result};
use crate::pointers::Buffer;

/// The length that stands for a delete. No value is as long: the limit is 1 GiB.
const DELETE: u32 = u32::MAX;
/// Bytes of an entry in front of its key: two lengths.
const HEAD_BYTES: usize = 8;

/// The writes of a packed piece of memory. A delete has no value.
pub struct Packed<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Packed<'a> {
    pub fn new(all: &'a [u8]) -> Packed<'a> {
        Packed { all, at: 0 }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let rest = &self.all[self.at..];
        let taken = rest.get(..bytes).ok_or_else(|| {
            Failure::invalid(format!(
                "the packed writes end at byte {}, within a write that needs {bytes} bytes from byte {} on",
                self.all.len(),
                self.at
            ))
        })?;
        self.at += bytes;
        Ok(taken)
    }

    fn take_length(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    fn take_write(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>)> {
        let (key_bytes, value_bytes) = (self.take_length()?, self.take_length()?);
        let key = self.take(key_bytes as usize)?;
        match value_bytes {
            DELETE => Ok((key, None)),
            _ => Ok((key, Some(self.take(value_bytes as usize)?))),
        }
    }
}

impl<'a> Iterator for Packed<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.all.len() {
            return None;
        }
        let write = self.take_write();
        if write.is_err() {
            self.at = self.all.len();
        }
        Some(write)
    }
}

/// A buffer of the caller that fills with entries.
#[derive(Debug)]
pub struct Page {
    buffer: Buffer,
    count: usize,
}

impl Page {
    /// # Errors
    ///
    /// As [`Buffer::new`].
    pub fn new(buffer: *mut u8, capacity: usize) -> Result<Page> {
        Ok(Page { buffer: Buffer::new(buffer, capacity)?, count: 0 })
    }

    /// Bytes that an entry takes.
    #[inline]
    pub fn bytes_of(key: &[u8], value: &[u8]) -> usize {
        HEAD_BYTES + key.len() + value.len()
    }

    /// Adds an entry, if it fits. Returns whether it did.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        if !self.buffer.has_room_for(Page::bytes_of(key, value)) {
            return false;
        }
        self.buffer.add(&(key.len() as u32).to_le_bytes());
        self.buffer.add(&(value.len() as u32).to_le_bytes());
        self.buffer.add(key);
        self.buffer.add(value);
        self.count += 1;
        true
    }

    /// Bytes of the entries.
    pub fn bytes(&self) -> usize {
        self.buffer.used()
    }

    /// Entries that were added.
    pub fn count(&self) -> usize {
        self.count
    }
}
