//! Arguments and results as C has them: arrays with a length, texts that end with NUL, and memory of `malloc`.
//!
//! # Why the unsafe code is sound
//!
//! Pointers come from C callers. The header of each library makes them promise what a pointer leads to: elements of the number that they
//! pass, or a text that ends with NUL. No thread changes these during the call. References that are made of them live no longer than the call.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "all callers are functions of C, whose callers make the promise"
)]

use std::ffi::{CStr, OsStr, c_char};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;

/// Why a function does not take an argument.
#[derive(Clone, Debug)]
pub struct Refused(pub String);

impl Refused {
    /// The caller passed NULL where the function needs `what`.
    #[cold]
    pub fn null(what: &'static str) -> Refused {
        Refused(format!("`{what}` is NULL"))
    }
}

/// A handle of its own for the caller, who frees it.
pub fn give<T>(handle: T) -> *mut T {
    Box::into_raw(Box::new(handle))
}

/// A text of C: bytes up to a NUL.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    fn c_str(&self, what: &'static str) -> Result<&CStr, Refused> {
        if self.0.is_null() {
            return Err(Refused::null(what));
        }
        // SAFETY: the caller promises a text that ends with NUL and stays during the call.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    pub fn str(&self, what: &'static str) -> Result<&str, Refused> {
        self.c_str(what)?.to_str().map_err(|_| Refused(format!("`{what}` is not UTF-8")))
    }

    pub fn path(&self, what: &'static str) -> Result<&Path, Refused> {
        Ok(Path::new(OsStr::from_bytes(self.c_str(what)?.to_bytes())))
    }
}

/// The elements of an array that the caller passed. NULL is refused unless there are none.
#[inline]
pub fn elements<'a, T>(first: *const T, count: usize, what: &'static str) -> Result<&'a [T], Refused> {
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
) -> Result<&'a mut [T], Refused> {
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
fn check_array<T>(is_null: bool, count: usize, what: &'static str) -> Result<(), Refused> {
    if is_null && count > 0 {
        return Err(Refused::null(what));
    }
    if count > isize::MAX as usize / mem::size_of::<T>().max(1) {
        return Err(Refused(format!("`{what}` has {count} elements, more than memory can hold")));
    }
    Ok(())
}

/// A block of memory of `malloc`, which the caller gives back.
#[derive(Debug)]
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
    // SAFETY: the caller passes a block that came from `malloc` and that was not freed, or NULL.
    unsafe { libc::free(memory.cast()) };
}

/// A text in memory of its own, which the caller frees. No text of the libraries has a NUL.
pub fn give_text(text: &str) -> *mut c_char {
    let mut block = Block::new(text.len() + 1);
    block.put(0, text.as_bytes());
    block.put(text.len(), &[0]);
    block.give().cast()
}
