//! Arguments and results as this library has them: slices of bytes, places and buffers for results.
//!
//! # Why the unsafe code is sound
//!
//! Pointers come from C callers. The header makes them promise what a pointer leads to: bytes of the length that they pass. No thread changes
//! these during the call. References that are made of them live no longer than the call.

use crate::failure::{Failure, Result};
pub use braidb_ffi::memory::{Block, Text, elements, free, give, give_text, places};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// A place for a result, which may hold anything before, or NULL.
///
/// A pointer, and no reference, until there is something to write. So a callback of the call may pass the same place for its own errors.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut MaybeUninit<T>>);

impl<'a, T> Out<'a, T> {
    /// Writes a value to the place, if there is one.
    #[inline]
    pub fn put(self, value: impl FnOnce() -> T) {
        if !self.0.is_null() {
            let value = value();
            // SAFETY: the caller promises room for a `T`, and nothing reads what was there.
            unsafe { self.0.write(value) };
        }
    }

    /// The place, if there is one. It holds `neutral` until there is a result, and after an error.
    #[inline]
    pub fn neutral(self, neutral: T) -> Option<&'a mut T> {
        // SAFETY: the caller promises room for a `T`, which nothing else uses during the call. It may hold anything: nothing reads it.
        let place = unsafe { self.0.cast::<MaybeUninit<T>>().as_mut() };
        place.map(|place| place.write(neutral))
    }
}

/// A place that the function needs. It holds `neutral` until there is a result, and after an error.
#[inline]
pub fn out<'a, T>(place: Out<'a, T>, what: &'static str, neutral: T) -> Result<&'a mut T> {
    need(place.neutral(neutral), what)
}

/// A handle that the function needs.
#[inline]
pub fn need<T>(handle: Option<T>, what: &'static str) -> Result<T> {
    handle.ok_or_else(|| Failure::null(what))
}

/// `braidb_slice_t`: bytes that belong to the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    data: *const u8,
    len: usize,
}

impl Slice {
    /// No bytes, as opposed to zero bytes.
    pub const NONE: Slice = Slice { data: ptr::null(), len: 0 };

    pub fn new(data: *const u8, len: usize) -> Slice {
        Slice { data, len }
    }

    pub fn of(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes. NULL with the length 0 is zero bytes.
    #[inline]
    pub fn bytes(&self, what: &'static str) -> Result<&[u8]> {
        Ok(elements(self.data, self.len, what)?)
    }

    /// The bytes of a bound. NULL with the length 0 is no bound.
    pub fn bound(&self, what: &'static str) -> Result<Option<&[u8]>> {
        if self.data.is_null() && self.len == 0 { Ok(None) } else { self.bytes(what).map(Some) }
    }
}

/// A buffer of the caller, which fills from its beginning.
#[derive(Debug)]
pub struct Buffer {
    first: *mut u8,
    capacity: usize,
    used: usize,
}

impl Buffer {
    /// # Errors
    ///
    /// The buffer is NULL although it has a capacity.
    pub fn new(first: *mut u8, capacity: usize) -> Result<Buffer> {
        if first.is_null() && capacity > 0 {
            return Err(Failure::null("buffer"));
        }
        Ok(Buffer { first, capacity, used: 0 })
    }

    /// Bytes that are in the buffer.
    pub fn used(&self) -> usize {
        self.used
    }

    #[inline]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.capacity - self.used
    }

    /// Copies `part` behind what is in the buffer.
    ///
    /// # Panics
    ///
    /// If the part does not fit.
    #[inline]
    pub fn add(&mut self, part: &[u8]) {
        assert!(self.has_room_for(part.len()), "{} bytes do not fit behind {}", part.len(), self.used);
        if part.is_empty() {
            return;
        }
        // SAFETY: the caller promises `capacity` bytes, apart from all memory of the library. The part ends within them.
        unsafe { ptr::copy_nonoverlapping(part.as_ptr(), self.first.add(self.used), part.len()) };
        self.used += part.len();
    }
}
