//! Values that gets found: pinned where they lie, or copied into a buffer of the caller.

use crate::code::Code;
use crate::failure::Result;
use crate::guard::quiet;
use crate::pointers::{copy_out, give};
use braidb::Value;
use std::ptr;

/// `braidb_value_t`.
#[derive(Debug)]
pub struct ValueHandle(Value);

/// Gives the caller a handle of a value, if one was found.
#[inline]
pub fn give_value(found: Option<Value>, place: &mut *mut ValueHandle) -> Code {
    let Some(value) = found else { return Code::NOT_FOUND };
    *place = give(ValueHandle(value));
    Code::OK
}

/// Copies a value into a buffer of `capacity` bytes, if one was found and fits. `len` becomes its length.
pub fn copy_value(found: Option<Value>, buffer: *mut u8, capacity: usize, len: &mut usize) -> Result<Code> {
    let Some(value) = found else { return Ok(Code::NOT_FOUND) };
    *len = value.len();
    if value.len() > capacity {
        return Ok(Code::SHORT_BUFFER);
    }
    copy_out(&value, buffer)?;
    Ok(Code::OK)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_value_data(value: Option<&ValueHandle>) -> *const u8 {
    quiet("braidb_value_data", ptr::null(), || value.map_or(ptr::null(), |value| value.0.as_ptr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_value_len(value: Option<&ValueHandle>) -> usize {
    quiet("braidb_value_len", 0, || value.map_or(0, |value| value.0.len()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_value_free(value: Option<Box<ValueHandle>>) {
    quiet("braidb_value_free", (), || drop(value));
}
