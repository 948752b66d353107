//! The library itself: its version, and memory that it gave away.

use crate::guard::quiet;
use crate::pointers;
use std::ffi::{c_char, c_void};
use std::ptr;

/// Rises when a function is removed, or changes what it takes or returns. `BRAIDB_ABI_VERSION` of the header.
const ABI_VERSION: u32 = 0;

#[unsafe(no_mangle)]
pub extern "C" fn braidb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    quiet("braidb_version", ptr::null(), || VERSION.as_ptr().cast())
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_abi_version() -> u32 {
    quiet("braidb_abi_version", u32::MAX, || ABI_VERSION)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_free(memory: *mut c_void) {
    quiet("braidb_free", (), || pointers::free(memory.cast()));
}
