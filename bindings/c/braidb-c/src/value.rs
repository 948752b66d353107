//! Values that gets found: pinned where they lie, or copied into a buffer of the caller.

use crate::failure::Result;
use crate::guard::quiet;
use crate::pointers::{Buffer, Out, give, out};
use braidb::Value;
use braidb_bindings::code::Code;
use std::ptr;

/// `braidb_value_t`.
#[derive(Debug)]
pub struct ValueHandle(Value);

/// Writes a handle of a value to its place, if one was found.
#[inline]
pub fn give_value(found: Option<Value>, place: &mut *mut ValueHandle) -> Code {
    let Some(value) = found else { return Code::NOT_FOUND };
    *place = give(ValueHandle(value));
    Code::OK
}

/// Gives the caller a handle of the value that `find` finds.
#[inline]
pub fn answer_value(
    place: Out<'_, *mut ValueHandle>,
    find: impl FnOnce() -> Result<Option<Value>>,
) -> Result<Code> {
    let place = out(place, "value", ptr::null_mut())?;
    Ok(give_value(find()?, place))
}

/// Copies the value that `find` finds into a buffer of `capacity` bytes, if it fits. `len` becomes its length.
#[inline]
pub fn answer_copy(
    buffer: *mut u8,
    capacity: usize,
    len: Out<'_, usize>,
    find: impl FnOnce() -> Result<Option<Value>>,
) -> Result<Code> {
    let len = out(len, "len", 0)?;
    let mut buffer = Buffer::new(buffer, capacity)?;
    let Some(value) = find()? else { return Ok(Code::NOT_FOUND) };
    *len = value.len();
    if !buffer.has_room_for(value.len()) {
        return Ok(Code::SHORT_BUFFER);
    }
    buffer.add(&value);
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
