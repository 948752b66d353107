//! Salvage: the entries of a damaged database that can be proved, and the ranges of keys about which it tells nothing.

use crate::database::Database;
use crate::failure::{Failure, without_nul};
use crate::family::Family;
use crate::guard::{ErrorOut, guard};
use crate::place::Place;
use crate::pointers::{Slice, need};
use crate::staged::OnEntry;
use braidb::Salvaged;
use braidb::stats::DamagedRange;
use braidb_bindings::code::Code;
use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

/// `braidb_hole_t`.
#[repr(C)]
pub struct Hole {
    low: Slice,
    high: Slice,
    path: *const c_char,
    offset: u64,
    what: *const c_char,
}

/// What [`braidb_salvage`] calls for a range that is lost. Anything but 0 ends the salvage.
type OnHole = Option<extern "C-unwind" fn(*mut c_void, &Hole) -> c_int>;

fn show(hole: &DamagedRange, on_hole: impl Fn(&Hole) -> c_int) -> c_int {
    let (path, what) = (without_nul(hole.path.as_os_str().as_bytes()), without_nul(hole.what.as_bytes()));
    on_hole(&Hole {
        low: Slice::of(&hole.low),
        high: hole.high.as_deref().map_or(Slice::NONE, Slice::of),
        path: path.as_ptr(),
        offset: hole.offset,
        what: what.as_ptr(),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_salvage(
    db: Option<&Database>,
    family: Option<&Family>,
    lower: Slice,
    upper: Slice,
    on_entry: OnEntry,
    on_hole: OnHole,
    context: *mut c_void,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_salvage", err, || {
        let (on_entry, on_hole) = (need(on_entry, "on_entry")?, need(on_hole, "on_hole")?);
        let place = Place::new(db, family, None)?;
        for salvaged in place.salvage(lower.bound("lower")?, upper.bound("upper")?) {
            let stop = match salvaged? {
                Salvaged::Row(key, value) => on_entry(context, Slice::of(&key), Slice::of(&value)),
                Salvaged::Hole(hole) => show(&hole, |hole| on_hole(context, hole)),
                other => return Err(Failure::new(Code::OTHER, format!("salvage found {other:?}"))),
            };
            if stop != 0 {
                break;
            }
        }
        Ok(Code::OK)
    })
}
