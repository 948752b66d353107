//! Puts, deletes and gets of single keys, and of many keys at once.

use crate::database::{Database, durability};
use crate::failure::Result;
use crate::family::Family;
use crate::guard::{ErrorOut, guard};
use crate::place::Place;
use crate::pointers::{Block, Out, Slice, elements, need, out, places};
use crate::snapshot::Snapshot;
use crate::value::{ValueHandle, answer_copy, answer_value, give_value};
use braidb_bindings::code::Code;
use std::ffi::c_void;
use std::ptr;

#[unsafe(no_mangle)]
pub extern "C" fn braidb_put(
    db: Option<&Database>,
    family: Option<&Family>,
    key: Slice,
    value: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_put", err, || {
        Place::new(db, family, None)?.put(key.bytes("key")?, value.bytes("value")?, None)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_put_with(
    db: Option<&Database>,
    family: Option<&Family>,
    key: Slice,
    value: Slice,
    durability: i32,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_put_with", err, || {
        let durability = self::durability(durability)?;
        Place::new(db, family, None)?.put(key.bytes("key")?, value.bytes("value")?, durability)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_delete(
    db: Option<&Database>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_delete", err, || {
        Place::new(db, family, None)?.delete(key.bytes("key")?, None)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_delete_with(
    db: Option<&Database>,
    family: Option<&Family>,
    key: Slice,
    durability: i32,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_delete_with", err, || {
        let durability = self::durability(durability)?;
        Place::new(db, family, None)?.delete(key.bytes("key")?, durability)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_get(
    db: Option<&Database>,
    family: Option<&Family>,
    snapshot: Option<&Snapshot>,
    key: Slice,
    value: Out<'_, *mut ValueHandle>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_get", err, || {
        answer_value(value, || Place::new(db, family, snapshot)?.get(key.bytes("key")?))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_get_into(
    db: Option<&Database>,
    family: Option<&Family>,
    snapshot: Option<&Snapshot>,
    key: Slice,
    buffer: *mut u8,
    capacity: usize,
    len: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_get_into", err, || {
        answer_copy(buffer, capacity, len, || Place::new(db, family, snapshot)?.get(key.bytes("key")?))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_contains(
    db: Option<&Database>,
    family: Option<&Family>,
    snapshot: Option<&Snapshot>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_contains", err, || {
        Ok(Code::found(Place::new(db, family, snapshot)?.contains(key.bytes("key")?)?))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_get_many(
    db: Option<&Database>,
    family: Option<&Family>,
    snapshot: Option<&Snapshot>,
    keys: *const Slice,
    count: usize,
    values: *mut Slice,
    memory: Out<'_, *mut c_void>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_get_many", err, || {
        let memory = memory.neutral(ptr::null_mut());
        // Copied before the places of the values are written: the caller may pass one array for both.
        let keys = elements(keys, count, "keys").map(<[Slice]>::to_vec);
        let values = places(values, count, "values", Slice::NONE)?;
        let (keys, memory) = (keys?, need(memory, "memory")?);
        let keys = keys.iter().map(|key| key.bytes("a key")).collect::<Result<Vec<&[u8]>>>()?;
        let found = Place::new(db, family, snapshot)?.get_many(&keys)?;
        let mut block = Block::new(found.iter().flatten().map(|value| value.len()).sum());
        let mut end = 0;
        for value in found.iter().flatten() {
            block.put(end, value);
            end += value.len();
        }
        // Nothing can fail from here on, so the places lead into the block only if the caller gets it.
        let mut next = block.give();
        *memory = next.cast();
        for (value, place) in found.iter().zip(values) {
            if let Some(value) = value {
                *place = Slice::new(next, value.len());
                next = next.wrapping_add(value.len());
            }
        }
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_put_if_absent(
    db: Option<&Database>,
    family: Option<&Family>,
    key: Slice,
    value: Slice,
    present: Out<'_, *mut ValueHandle>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_put_if_absent", err, || {
        let present = present.neutral(ptr::null_mut());
        let place = Place::new(db, family, None)?;
        let found = place.put_if_absent(key.bytes("key")?, value.bytes("value")?)?;
        if let Some(present) = present {
            give_value(found, present);
        }
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_compare_and_swap(
    db: Option<&Database>,
    family: Option<&Family>,
    key: Slice,
    old: Option<&Slice>,
    new: Option<&Slice>,
    is_swapped: Out<'_, i32>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_compare_and_swap", err, || {
        let is_swapped = out(is_swapped, "is_swapped", 0)?;
        let old = old.map(|old| old.bytes("old")).transpose()?;
        let new = new.map(|new| new.bytes("new")).transpose()?;
        *is_swapped =
            i32::from(Place::new(db, family, None)?.compare_and_swap(key.bytes("key")?, old, new)?);
        Ok(Code::OK)
    })
}
