//! Overlays: staged writes over the database, which their reads see before a commit writes them together.

use crate::code::Code;
use crate::database::{Database, Shared, durability, usable};
use crate::failure::Result;
use crate::family::{Family, family_of};
use crate::guard::{ErrorOut, guard, quiet};
use crate::place::bounds;
use crate::pointers::{Out, Slice, give, need, out};
use crate::value::{ValueHandle, copy_value, give_value};
use braidb::Value;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// What a scan calls for each entry: with the context, key and value. Anything but 0 ends the scan.
pub type OnEntry = Option<extern "C" fn(*mut c_void, Slice, Slice) -> c_int>;

/// Calls `on_entry` for each entry, until it returns something else than 0.
pub fn visit<I>(mut entries: I, is_backward: bool, on_entry: impl Fn(Slice, Slice) -> c_int) -> Result<Code>
where
    I: DoubleEndedIterator<Item = braidb::Result<(Vec<u8>, Value)>>,
{
    while let Some(entry) = if is_backward { entries.next_back() } else { entries.next() } {
        let (key, value) = entry?;
        if on_entry(Slice::of(&key), Slice::of(&value)) != 0 {
            break;
        }
    }
    Ok(Code::OK)
}

/// `braidb_overlay_t`.
#[derive(Debug)]
pub struct Overlay {
    shared: Arc<Shared>,
    overlay: braidb::Overlay,
}

impl Overlay {
    fn get(&self, family: Option<&Family>, key: &[u8]) -> Result<Option<Value>> {
        Ok(match family_of(family) {
            None => self.overlay.get(key),
            Some(family) => self.overlay.get_in(family, key),
        }?)
    }
}

/// The overlay of a handle, if calls may reach its database.
fn open_overlay(overlay: Option<&Overlay>) -> Result<&Overlay> {
    let overlay = need(overlay, "overlay")?;
    overlay.shared.check()?;
    Ok(overlay)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_create(
    db: Option<&Database>,
    overlay: Out<'_, *mut Overlay>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_create", err, || {
        let place = out(overlay, "overlay", ptr::null_mut())?;
        let shared = usable(db)?.clone();
        let overlay = shared.db.overlay();
        *place = give(Overlay { shared, overlay });
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_free(overlay: Option<Box<Overlay>>) {
    quiet("braidb_overlay_free", (), || drop(overlay));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_put(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    value: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_put", err, || {
        let (overlay, key, value) = (open_overlay(overlay)?, key.bytes("key")?, value.bytes("value")?);
        match family_of(family) {
            None => overlay.overlay.put(key, value),
            Some(family) => overlay.overlay.put_in(family, key, value),
        }?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_delete(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_delete", err, || {
        let (overlay, key) = (open_overlay(overlay)?, key.bytes("key")?);
        match family_of(family) {
            None => overlay.overlay.delete(key),
            Some(family) => overlay.overlay.delete_in(family, key),
        }?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_get(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    value: Out<'_, *mut ValueHandle>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_get", err, || {
        let value = out(value, "value", ptr::null_mut())?;
        Ok(give_value(open_overlay(overlay)?.get(family, key.bytes("key")?)?, value))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_get_into(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    buffer: *mut u8,
    capacity: usize,
    len: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_get_into", err, || {
        let len = out(len, "len", 0)?;
        copy_value(open_overlay(overlay)?.get(family, key.bytes("key")?)?, buffer, capacity, len)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_contains(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_contains", err, || {
        let (overlay, key) = (open_overlay(overlay)?, key.bytes("key")?);
        let is_there = match family_of(family) {
            None => overlay.overlay.contains_key(key),
            Some(family) => overlay.overlay.contains_key_in(family, key),
        };
        Ok(if is_there? { Code::OK } else { Code::NOT_FOUND })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_scan(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    lower: Slice,
    upper: Slice,
    is_backward: i32,
    on_entry: OnEntry,
    context: *mut c_void,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_scan", err, || {
        let (overlay, on_entry) = (open_overlay(overlay)?, need(on_entry, "on_entry")?);
        let range = bounds(lower.bound("lower")?, upper.bound("upper")?);
        let entries = match family_of(family) {
            None => overlay.overlay.range(range),
            Some(family) => overlay.overlay.range_in(family, range),
        };
        visit(entries, is_backward != 0, |key, value| on_entry(context, key, value))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_count(
    overlay: Option<&Overlay>,
    count: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_count", err, || {
        let count = out(count, "count", 0)?;
        *count = open_overlay(overlay)?.overlay.len();
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_bytes(
    overlay: Option<&Overlay>,
    bytes: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_bytes", err, || {
        let bytes = out(bytes, "bytes", 0)?;
        *bytes = open_overlay(overlay)?.overlay.bytes();
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_clear(overlay: Option<&Overlay>, err: ErrorOut<'_>) -> Code {
    guard("braidb_overlay_clear", err, || {
        open_overlay(overlay)?.overlay.clear();
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_commit(
    overlay: Option<&Overlay>,
    durability: i32,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_commit", err, || {
        let (overlay, durability) = (open_overlay(overlay)?, self::durability(durability)?);
        match durability {
            None => overlay.overlay.commit()?,
            Some(durability) => overlay.overlay.commit_with(durability)?,
        }
        Ok(Code::OK)
    })
}
