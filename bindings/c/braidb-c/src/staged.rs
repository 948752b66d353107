//! What overlays and transactions have in common: writes that wait, and reads that see them over the database.

use crate::database::Shared;
use crate::failure::Result;
use crate::family::Family;
use crate::place::bounds;
use crate::pointers::{Out, Slice, need};
use crate::value::{ValueHandle, answer_copy, answer_value};
use braidb::{ColumnFamily, Value};
use braidb_bindings::code::Code;
use std::ffi::{c_int, c_void};
use std::ops::Bound;

/// What a scan calls for each entry: with the context, key and value. Anything but 0 ends the scan.
pub type OnEntry = Option<extern "C-unwind" fn(*mut c_void, Slice, Slice) -> c_int>;

/// Staged writes of the engine.
pub trait Staged {
    fn get(&self, family: &ColumnFamily, key: &[u8]) -> braidb::Result<Option<Value>>;
    fn contains(&self, family: &ColumnFamily, key: &[u8]) -> braidb::Result<bool>;
    /// Stages a put, or a delete where `value` is `None`.
    fn set(&self, family: &ColumnFamily, key: &[u8], value: Option<&[u8]>) -> braidb::Result<()>;
    fn range(
        &self,
        family: &ColumnFamily,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = braidb::Result<(Vec<u8>, Value)>>;
}

/// Declares that the methods of the engine with these names do what [`Staged`] says.
macro_rules! is_staged {
    ($($type:ty),*) => {
        $(impl Staged for $type {
            fn get(&self, family: &ColumnFamily, key: &[u8]) -> braidb::Result<Option<Value>> {
                self.get_in(family, key)
            }

            fn contains(&self, family: &ColumnFamily, key: &[u8]) -> braidb::Result<bool> {
                self.contains_key_in(family, key)
            }

            fn set(&self, family: &ColumnFamily, key: &[u8], value: Option<&[u8]>) -> braidb::Result<()> {
                match value {
                    Some(value) => self.put_in(family, key, value),
                    None => self.delete_in(family, key),
                }
            }

            fn range(
                &self,
                family: &ColumnFamily,
                range: (Bound<&[u8]>, Bound<&[u8]>),
            ) -> impl DoubleEndedIterator<Item = braidb::Result<(Vec<u8>, Value)>> {
                self.range_in(family, range)
            }
        })*
    };
}

is_staged! { braidb::Overlay, braidb::Transaction }

/// A handle of staged writes.
pub trait Handle {
    /// The name of the argument that is the handle.
    const NAME: &'static str;
    type Staged: Staged;

    /// What the handles of the database share.
    fn shared(&self) -> &Shared;
    /// Calls the staged writes. Fails if calls may not reach them any more.
    fn with<T>(&self, call: impl FnOnce(&Self::Staged) -> Result<T>) -> Result<T>;
}

/// Calls the staged writes of `handle` with a column family.
fn with<H: Handle, T>(
    handle: Option<&H>,
    family: Option<&Family>,
    call: impl FnOnce(&H::Staged, &ColumnFamily) -> Result<T>,
) -> Result<T> {
    let handle = need(handle, H::NAME)?;
    handle.with(|staged| call(staged, handle.shared().family(family)))
}

fn find<H: Handle>(handle: Option<&H>, family: Option<&Family>, key: Slice) -> Result<Option<Value>> {
    with(handle, family, |staged, family| Ok(staged.get(family, key.bytes("key")?)?))
}

pub fn get<H: Handle>(
    handle: Option<&H>,
    family: Option<&Family>,
    key: Slice,
    value: Out<'_, *mut ValueHandle>,
) -> Result<Code> {
    answer_value(value, || find(handle, family, key))
}

pub fn get_into<H: Handle>(
    handle: Option<&H>,
    family: Option<&Family>,
    key: Slice,
    buffer: *mut u8,
    capacity: usize,
    len: Out<'_, usize>,
) -> Result<Code> {
    answer_copy(buffer, capacity, len, || find(handle, family, key))
}

pub fn contains<H: Handle>(handle: Option<&H>, family: Option<&Family>, key: Slice) -> Result<Code> {
    with(handle, family, |staged, family| Ok(Code::found(staged.contains(family, key.bytes("key")?)?)))
}

/// Stages a put, or a delete where `value` is `None`.
pub fn set<H: Handle>(
    handle: Option<&H>,
    family: Option<&Family>,
    key: Slice,
    value: Option<Slice>,
) -> Result<Code> {
    with(handle, family, |staged, family| {
        let value = value.as_ref().map(|value| value.bytes("value")).transpose()?;
        staged.set(family, key.bytes("key")?, value)?;
        Ok(Code::OK)
    })
}

/// Calls `on_entry` for each entry of a range, until it returns anything but 0.
pub fn scan<H: Handle>(
    handle: Option<&H>,
    family: Option<&Family>,
    lower: Slice,
    upper: Slice,
    is_backward: i32,
    on_entry: OnEntry,
    context: *mut c_void,
) -> Result<Code> {
    let on_entry = need(on_entry, "on_entry")?;
    with(handle, family, |staged, family| {
        let mut entries = staged.range(family, bounds(lower.bound("lower")?, upper.bound("upper")?));
        while let Some(entry) = if is_backward == 0 { entries.next() } else { entries.next_back() } {
            let (key, value) = entry?;
            if on_entry(context, Slice::of(&key), Slice::of(&value)) != 0 {
                break;
            }
        }
        Ok(Code::OK)
    })
}
