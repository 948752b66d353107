//! Arguments as LevelDB's interface has them: bytes by a pointer to `char` and a length, and places for results.

use crate::failure::Result;
use braidb_ffi::memory::elements;
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// A place for a result, which may hold anything before. `None` is NULL.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// The bytes that a pointer and a length stand for. NULL with the length 0 is zero bytes.
#[inline]
pub fn bytes<'a>(first: *const c_char, len: usize, what: &'static str) -> Result<&'a [u8]> {
    Ok(elements(first.cast(), len, what)?)
}
