//! Cursors: a place among the entries of a range, which moves both ways.

use crate::database::{Database, Shared};
use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::guard::{ErrorOut, answer, attempt, guard, quiet};
use crate::packed::Page;
use crate::place::Place;
use crate::pointers::{Out, Slice, give, need, out};
use crate::snapshot::Snapshot;
use braidb_bindings::code::Code;
use std::mem;
use std::ptr;
use std::sync::Arc;

/// `braidb_cursor_t`.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    cursor: braidb::Cursor,
    /// Why the last movement failed. The cursor then stands on no entry, and only jumps move it again.
    failed: Option<Failure>,
    /// The key of the last seek.
    sought: Vec<u8>,
}

impl Cursor {
    /// The outcome of a movement, which is noted if it fails.
    fn moved<T>(
        &mut self,
        function: &'static str,
        movement: impl FnOnce(&mut braidb::Cursor) -> Result<T>,
    ) -> Result<T> {
        let outcome = attempt(function, || {
            self.shared.check()?;
            movement(&mut self.cursor)
        });
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }

    /// Fails in a forked child, after a close, and where the last movement failed: the cursor then has no place to move from.
    fn check(&self) -> Result<()> {
        self.shared.check()?;
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// Jumps to another place. A jump mends a cursor whose last movement failed.
fn jump(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    err: ErrorOut<'_>,
    movement: impl FnOnce(&mut braidb::Cursor) -> braidb::Result<bool>,
) -> Code {
    let moved =
        need(cursor, "cursor").and_then(|cursor| cursor.moved(function, |cursor| Ok(movement(cursor)?)));
    answer(err, moved.map(Code::found))
}

/// Jumps to a key, which may be the key that the cursor lent: a copy is made before the cursor moves.
fn seek(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    key: Slice,
    err: ErrorOut<'_>,
    movement: impl FnOnce(&mut braidb::Cursor, &[u8]) -> braidb::Result<bool>,
) -> Code {
    let moved = need(cursor, "cursor").and_then(|cursor| {
        let mut sought = mem::take(&mut cursor.sought);
        let moved = cursor.moved(function, |cursor| {
            sought.clear();
            sought.extend_from_slice(key.bytes("key")?);
            Ok(movement(cursor, &sought)?)
        });
        cursor.sought = sought;
        moved
    });
    answer(err, moved.map(Code::found))
}

/// Moves by one entry.
fn step(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    err: ErrorOut<'_>,
    movement: impl FnOnce(&mut braidb::Cursor) -> braidb::Result<bool>,
) -> Code {
    let moved = need(cursor, "cursor").and_then(|cursor| {
        cursor.check()?;
        cursor.moved(function, |cursor| Ok(movement(cursor)?))
    });
    answer(err, moved.map(Code::found))
}

/// Packs the entry on which the cursor stands and those to which `step` comes from there, as many as fit. The cursor then stands on the first
/// one that was not packed. A cursor that stands on no entry steps first.
fn pack(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    mut page: Page,
    [used, count]: [&mut usize; 2],
    step: impl Fn(&mut braidb::Cursor) -> braidb::Result<bool>,
) -> Result<Code> {
    let cursor = need(cursor, "cursor")?;
    cursor.check()?;
    let packed = cursor.moved(function, |cursor| {
        let mut is_there = cursor.key().is_some() || step(cursor)?;
        while is_there {
            let Some((key, value)) = cursor.entry()? else { break };
            if !page.add(key, value) {
                return Ok(Some(Page::bytes_of(key, value)));
            }
            is_there = step(cursor)?;
        }
        Ok(None)
    });
    (*used, *count) = (page.bytes(), page.count());
    match packed {
        // The next call returns a failure behind the entries.
        _ if *count > 0 => Ok(Code::OK),
        Ok(Some(needed_bytes)) => {
            *used = needed_bytes;
            Ok(Code::SHORT_BUFFER)
        }
        Ok(None) => Ok(Code::NOT_FOUND),
        Err(failure) => Err(failure),
    }
}

/// Runs [`pack`] for a function of C.
fn guard_pack(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    (buffer, capacity): (*mut u8, usize),
    [used, count]: [Out<'_, usize>; 2],
    err: ErrorOut<'_>,
    step: impl Fn(&mut braidb::Cursor) -> braidb::Result<bool>,
) -> Code {
    guard(function, err, || {
        let (used, count) = (used.neutral(0), count.neutral(0));
        let results = [need(used, "used")?, need(count, "count")?];
        pack(function, cursor, Page::new(buffer, capacity)?, results, step)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_create(
    db: Option<&Database>,
    family: Option<&Family>,
    snapshot: Option<&Snapshot>,
    lower: Slice,
    upper: Slice,
    cursor: Out<'_, *mut Cursor>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_cursor_create", err, || {
        let handle = out(cursor, "cursor", ptr::null_mut())?;
        let place = Place::new(db, family, snapshot)?;
        let cursor = place.range(lower.bound("lower")?, upper.bound("upper")?).cursor();
        *handle = give(Cursor { shared: place.shared.clone(), cursor, failed: None, sought: Vec::new() });
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_free(cursor: Option<Box<Cursor>>) {
    quiet("braidb_cursor_free", (), || drop(cursor));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_first(cursor: Option<&mut Cursor>, err: ErrorOut<'_>) -> Code {
    jump("braidb_cursor_first", cursor, err, braidb::Cursor::first)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_last(cursor: Option<&mut Cursor>, err: ErrorOut<'_>) -> Code {
    jump("braidb_cursor_last", cursor, err, braidb::Cursor::last)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_seek(cursor: Option<&mut Cursor>, key: Slice, err: ErrorOut<'_>) -> Code {
    seek("braidb_cursor_seek", cursor, key, err, |cursor, key| cursor.seek(key))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_seek_for_prev(
    cursor: Option<&mut Cursor>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    seek("braidb_cursor_seek_for_prev", cursor, key, err, |cursor, key| cursor.seek_for_prev(key))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_next(cursor: Option<&mut Cursor>, err: ErrorOut<'_>) -> Code {
    step("braidb_cursor_next", cursor, err, braidb::Cursor::next)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_prev(cursor: Option<&mut Cursor>, err: ErrorOut<'_>) -> Code {
    step("braidb_cursor_prev", cursor, err, braidb::Cursor::prev)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_valid(cursor: Option<&Cursor>) -> i32 {
    quiet("braidb_cursor_valid", 0, || {
        i32::from(cursor.is_some_and(|cursor| cursor.failed.is_none() && cursor.cursor.key().is_some()))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_key(cursor: Option<&Cursor>) -> Slice {
    quiet("braidb_cursor_key", Slice::NONE, || {
        let cursor = cursor.filter(|cursor| cursor.failed.is_none());
        cursor.and_then(|cursor| cursor.cursor.key()).map_or(Slice::NONE, Slice::of)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_value(
    cursor: Option<&mut Cursor>,
    value: Out<'_, Slice>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_cursor_value", err, || {
        let place = out(value, "value", Slice::NONE)?;
        let cursor = need(cursor, "cursor")?;
        cursor.check()?;
        let Some(value) = cursor.cursor.value()? else { return Ok(Code::NOT_FOUND) };
        *place = Slice::of(value);
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_entry(
    cursor: Option<&mut Cursor>,
    key: Out<'_, Slice>,
    value: Out<'_, Slice>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_cursor_entry", err, || {
        let (key, value) = (key.neutral(Slice::NONE), value.neutral(Slice::NONE));
        let places = (need(key, "key")?, need(value, "value")?);
        let cursor = need(cursor, "cursor")?;
        cursor.check()?;
        let Some((key, value)) = cursor.cursor.entry()? else { return Ok(Code::NOT_FOUND) };
        (*places.0, *places.1) = (Slice::of(key), Slice::of(value));
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_next_packed(
    cursor: Option<&mut Cursor>,
    buffer: *mut u8,
    capacity: usize,
    used: Out<'_, usize>,
    count: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    let name = "braidb_cursor_next_packed";
    guard_pack(name, cursor, (buffer, capacity), [used, count], err, braidb::Cursor::next)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_prev_packed(
    cursor: Option<&mut Cursor>,
    buffer: *mut u8,
    capacity: usize,
    used: Out<'_, usize>,
    count: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    let name = "braidb_cursor_prev_packed";
    guard_pack(name, cursor, (buffer, capacity), [used, count], err, braidb::Cursor::prev)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_status(cursor: Option<&Cursor>, err: ErrorOut<'_>) -> Code {
    guard("braidb_cursor_status", err, || {
        need(cursor, "cursor")?.check()?;
        Ok(Code::OK)
    })
}
