//! Many writes in one piece of memory, so that a caller crosses into the library once for all of them.
//!
//! Each write has the length of its key and the length of its value, both as 32 bits in little-endian, and then key and value. A delete has
//! the length 0xFFFFFFFF in place of the value's, and no value.

use crate::failure::{Failure, Result};

/// The length that stands for a delete.
const DELETE: u32 = u32::MAX;

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
