//! Overlays: staged writes over the database, which their reads see before a commit writes them together.

use crate::database::{Database, Shared, durability, usable};
use crate::failure::Result;
use crate::family::Family;
use crate::guard::{ErrorOut, guard, quiet};
use crate::pointers::{Out, Slice, give, need, out};
use crate::staged::{self, Handle, OnEntry};
use crate::value::ValueHandle;
use braidb_bindings::code::Code;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// `braidb_overlay_t`.
#[derive(Debug)]
pub struct Overlay {
    shared: Arc<Shared>,
    overlay: braidb::Overlay,
}

impl Handle for Overlay {
    const NAME: &'static str = "overlay";
    type Staged = braidb::Overlay;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn with<T>(&self, call: impl FnOnce(&braidb::Overlay) -> Result<T>) -> Result<T> {
        self.shared.check()?;
        call(&self.overlay)
    }
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
    guard("braidb_overlay_put", err, || staged::set(overlay, family, key, Some(value)))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_delete(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_delete", err, || staged::set(overlay, family, key, None))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_get(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    value: Out<'_, *mut ValueHandle>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_get", err, || staged::get(overlay, family, key, value))
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
    guard("braidb_overlay_get_into", err, || staged::get_into(overlay, family, key, buffer, capacity, len))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_contains(
    overlay: Option<&Overlay>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_contains", err, || staged::contains(overlay, family, key))
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
        staged::scan(overlay, family, lower, upper, is_backward, on_entry, context)
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
        *count = need(overlay, "overlay")?.with(|overlay| Ok(overlay.len()))?;
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
        *bytes = need(overlay, "overlay")?.with(|overlay| Ok(overlay.bytes()))?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_clear(overlay: Option<&Overlay>, err: ErrorOut<'_>) -> Code {
    guard("braidb_overlay_clear", err, || {
        need(overlay, "overlay")?.with(|overlay| {
            overlay.clear();
            Ok(Code::OK)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_overlay_commit(
    overlay: Option<&Overlay>,
    durability: i32,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_overlay_commit", err, || {
        need(overlay, "overlay")?.with(|overlay| {
            match self::durability(durability)? {
                None => overlay.commit()?,
                Some(durability) => overlay.commit_with(durability)?,
            }
            Ok(Code::OK)
        })
    })
}
