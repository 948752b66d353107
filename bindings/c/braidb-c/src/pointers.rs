//! Arguments and results as C has them: bytes with a length, texts, places and buffers for results, and memory of `malloc`.
//!
//! # Why the unsafe code is sound
//!
//! Pointers come from C callers. The header makes them promise what a pointer leads to: bytes or elements of the length that they pass, or
//! a text that ends with NUL. No thread changes these during the call. References that are made of them live no longer than the call.

use crate::failure::{Failure, Result};
use std::ffi::{CStr, OsStr, c_char};
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;

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

/// A handle of its own for the caller, who frees it.
pub fn give<T>(handle: T) -> *mut T {
    Box::into_raw(Box::new(handle))
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
        if self.data.is_null() && self.len == 0 {
            return Ok(&[]);
        }
        elements(self.data, self.len, what)
    }

    /// The bytes of a bound. NULL with the length 0 is no bound.
    pub fn bound(&self, what: &'static str) -> Result<Option<&[u8]>> {
        if self.data.is_null() && self.len == 0 { Ok(None) } else { self.bytes(what).map(Some) }
    }
}

/// A text of C: bytes up to a NUL.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    fn c_str(&self, what: &'static str) -> Result<&CStr> {
        if self.0.is_null() {
            return Err(Failure::null(what));
        }
        // SAFETY: the caller promises a text that ends with NUL and stays during the call.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    pub fn str(&self, what: &'static str) -> Result<&str> {
        let text = self.c_str(what)?.to_str();
        text.map_err(|_| Failure::invalid(format!("`{what}` is not UTF-8")))
    }

    pub fn path(&self, what: &'static str) -> Result<&Path> {
        Ok(Path::new(OsStr::from_bytes(self.c_str(what)?.to_bytes())))
    }
}

/// The elements of an array that the caller passed. NULL is refused unless there are none.
#[inline]
pub fn elements<'a, T>(first: *const T, count: usize, what: &'static str) -> Result<&'a [T]> {
    check_array::<T>(first.is_null(), count, what)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller promises `count` elements, which stay unchanged during the call. Together they are no larger than `isize::MAX`.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// The places of an array for results. Each holds `neutral` until there is a result, and after an error.
pub fn places<'a, T: Copy>(
    first: *mut T,
    count: usize,
    what: &'static str,
    neutral: T,
) -> Result<&'a mut [T]> {
    check_array::<T>(first.is_null(), count, what)?;
    if count == 0 {
        return Ok(&mut []);
    }
    for index in 0..count {
        // SAFETY: the caller promises `count` places. They may hold anything: nothing reads them before they are written.
        unsafe { first.add(index).write(neutral) };
    }
    // SAFETY: all places were written. The caller promises that nothing else uses them during the call.
    Ok(unsafe { slice::from_raw_parts_mut(first, count) })
}

#[inline]
fn check_array<T>(is_null: bool, count: usize, what: &'static str) -> Result<()> {
    if is_null && count > 0 {
        return Err(Failure::null(what));
    }
    if count > isize::MAX as usize / mem::size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("`{what}` has {count} elements, more than memory can hold")));
    }
    Ok(())
}

/// A block of memory of `malloc`, which `braidb_free` gives back.
pub struct Block {
    first: *mut u8,
    bytes: usize,
}

impl Block {
    pub fn new(bytes: usize) -> Block {
        // SAFETY: any size is allowed; a size of 0 may return NULL, so it is 1 at least.
        let first = unsafe { libc::malloc(bytes.max(1)) }.cast::<u8>();
        if first.is_null() {
            let layout = std::alloc::Layout::from_size_align(bytes.max(1), 1);
            std::alloc::handle_alloc_error(layout.expect("no block is that large"));
        }
        Block { first, bytes }
    }

    /// Copies `part` to the offset `at`. Returns the place.
    ///
    /// # Panics
    ///
    /// If the part does not fit.
    pub fn put(&mut self, at: usize, part: &[u8]) -> *mut u8 {
        assert!(
            at <= self.bytes && part.len() <= self.bytes - at,
            "{} bytes at {at} of {}",
            part.len(),
            self.bytes
        );
        // SAFETY: `at` and the end of the part lie within the block, which is new, so `part` lies elsewhere.
        unsafe {
            let place = self.first.add(at);
            ptr::copy_nonoverlapping(part.as_ptr(), place, part.len());
            place
        }
    }

    /// The block for the caller, who frees it.
    pub fn give(self) -> *mut u8 {
        let first = self.first;
        mem::forget(self);
        first
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        free(self.first);
    }
}

/// Gives memory back to `malloc`. NULL is fine.
pub fn free(memory: *mut u8) {
    // SAFETY: the caller passes a block that this library took from `malloc` and that was not freed, or NULL.
    unsafe { libc::free(memory.cast()) };
}

/// A text in memory of its own, which the caller frees by `braidb_free`. No text of this library has a NUL.
pub fn give_text(text: &str) -> *mut c_char {
    let mut block = Block::new(text.len() + 1);
    block.put(0, text.as_bytes());
    block.put(text.len(), &[0]);
    block.give().cast()
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
