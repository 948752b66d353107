//! Arrays of bytes as arguments and results: keys, values, texts, paths, and ranges of keys.
//!
//! ```text
//! ranges = range*
//! range  = edge edge                                    lower, then upper
//! edge   = kind u8 │ length u32 │ key                   0: no bound, 1: the key belongs to the range, 2: it does not
//! ```
//!
//! Lengths are little-endian.

use crate::failure::{Failure, Result};
use braidb::{Durability, Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Value};
use jni::Env;
use jni::objects::{JByteArray, JLongArray};
use jni::sys::{jbyte, jint, jlong};
use smallvec::SmallVec;
use std::ffi::OsStr;
use std::ops::Bound as Edge;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// Bytes of an argument that lie on the stack: 512. Longer ones cost an allocation, and a larger stack array costs each short key a copy.
const INLINE_BYTES: usize = 512;

/// A copy of an array of Java.
pub type Bytes = SmallVec<[u8; INLINE_BYTES]>;

/// The bounds of a range of keys.
pub type Edges = (Edge<Vec<u8>>, Edge<Vec<u8>>);

/// Copies an array.
#[inline]
pub fn take(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Bytes> {
    let length = array.len(env)?;
    take_first(env, array, length)
}

/// Copies an array that is refused, before the copy, above `limit` bytes.
#[inline]
fn take_limited(env: &Env<'_>, array: &JByteArray<'_>, what: &'static str, limit: usize) -> Result<Bytes> {
    let bytes = array.len(env)?;
    if bytes > limit {
        return Err(Error::TooLarge { what, bytes, limit }.into());
    }
    take_first(env, array, bytes)
}

/// Copies a key that is to be written.
#[inline]
pub fn take_key(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Bytes> {
    take_limited(env, array, "the key", MAX_KEY_BYTES)
}

/// Copies a value that is to be written.
#[inline]
pub fn take_value(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Bytes> {
    take_limited(env, array, "the value", MAX_VALUE_BYTES)
}

/// Copies the first `length` bytes of an array.
#[inline]
pub fn take_first(env: &Env<'_>, array: &JByteArray<'_>, length: usize) -> Result<Bytes> {
    let mut bytes = Bytes::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| Failure::NoMemory("the process has no memory for an argument"))?;
    bytes.resize(length, 0);
    array.get_region(env, 0, signed_mut(&mut bytes))?;
    Ok(bytes)
}

/// A new array of Java.
#[inline]
pub fn give<'local>(env: &mut Env<'local>, bytes: &[u8]) -> jni::errors::Result<JByteArray<'local>> {
    let array = JByteArray::new(env, bytes.len())?;
    array.set_region(env, 0, signed(bytes))?;
    Ok(array)
}

/// A new array for a value, or null.
#[inline]
pub fn give_value<'local>(env: &mut Env<'local>, value: Option<Value>) -> Result<JByteArray<'local>> {
    match value {
        Some(value) => Ok(give(env, &value)?),
        None => Ok(JByteArray::default()),
    }
}

/// A new array of numbers.
pub fn give_numbers<'local>(env: &mut Env<'local>, numbers: &[u64]) -> Result<JLongArray<'local>> {
    let numbers: Vec<jlong> = numbers.iter().map(|number| number.cast_signed()).collect();
    let array = JLongArray::new(env, numbers.len())?;
    array.set_region(env, 0, &numbers)?;
    Ok(array)
}

/// Writes `page` to the start of an array, which has room for it.
pub fn fill(env: &Env<'_>, array: &JByteArray<'_>, page: &[u8]) -> Result<()> {
    Ok(array.set_region(env, 0, signed(page))?)
}

/// The text that Java passed.
pub fn text(bytes: &[u8]) -> Result<&str> {
    str::from_utf8(bytes).map_err(|error| Failure::invalid(format!("the text is not UTF-8: {error}")))
}

/// The path that Java passed.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The durability of a call: that of the options for -1, and else the constant's place in `io.github.braidb.Durability`.
#[inline]
pub fn durability(ordinal: jint) -> Result<Option<Durability>> {
    match ordinal {
        -1 => Ok(None),
        0 => Ok(Some(Durability::None)),
        1 => Ok(Some(Durability::Buffer)),
        2 => Ok(Some(Durability::Sync)),
        _ => Err(Failure::invalid(format!("there is no durability {ordinal}"))),
    }
}

/// The one range that Java passed.
pub fn range(bytes: &[u8]) -> Result<Edges> {
    let (range, rest) = split_range(bytes)?;
    match rest {
        [] => Ok(range),
        _ => Err(malformed()),
    }
}

/// The ranges that Java passed.
pub fn ranges(mut bytes: &[u8]) -> Result<Vec<Edges>> {
    let mut ranges = Vec::new();
    while !bytes.is_empty() {
        let (range, rest) = split_range(bytes)?;
        ranges.push(range);
        bytes = rest;
    }
    Ok(ranges)
}

fn split_range(bytes: &[u8]) -> Result<(Edges, &[u8])> {
    let (low, bytes) = split_edge(bytes).ok_or_else(malformed)?;
    let (high, bytes) = split_edge(bytes).ok_or_else(malformed)?;
    Ok(((low, high), bytes))
}

fn split_edge(bytes: &[u8]) -> Option<(Edge<Vec<u8>>, &[u8])> {
    let (&kind, bytes) = bytes.split_first()?;
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let (key, bytes) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let edge = match kind {
        0 => Edge::Unbounded,
        1 => Edge::Included(key.to_vec()),
        2 => Edge::Excluded(key.to_vec()),
        _ => return None,
    };
    Some((edge, bytes))
}

#[cold]
fn malformed() -> Failure {
    Failure::invalid("a range is malformed, which is a bug of the Java package")
}

/// Bytes as Java has them.
fn signed(bytes: &[u8]) -> &[jbyte] {
    // SAFETY: `i8` and `u8` have one size, one alignment, and no forbidden values. The slice borrows what `bytes` borrows.
    unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

fn signed_mut(bytes: &mut [u8]) -> &mut [jbyte] {
    // SAFETY: as in `signed`. The slice borrows `bytes` mutably, so nothing else uses them meanwhile.
    unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}
