//! Cursors: a place among the entries of a range, which moves both ways.

use crate::code::Code;
use crate::database::{Database, Shared};
use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::guard::{ErrorOut, answer, attempt, guard, quiet};
use crate::place::Place;
use crate::pointers::{Out, Slice, give, need, out};
use crate::snapshot::Snapshot;
use std::ptr;
use std::sync::Arc;

/// `braidb_cursor_t`.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    cursor: braidb::Cursor,
    /// Why the last movement failed. The cursor then stands on no entry, and only jumps move it again.
    failed: Option<Failure>,
}

impl Cursor {
    /// The code of a movement, which is noted if it fails.
    fn moved(
        &mut self,
        function: &'static str,
        movement: impl FnOnce(&mut braidb::Cursor) -> Result<bool>,
    ) -> Result<Code> {
        let outcome = attempt(function, || {
            self.shared.check()?;
            movement(&mut self.cursor)
        });
        self.failed = outcome.as_ref().err().cloned();
        Ok(if outcome? { Code::OK } else { Code::NOT_FOUND })
    }
}

/// Jumps to another place. A jump mends a cursor whose last movement failed.
fn jump(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    err: ErrorOut<'_>,
    movement: impl FnOnce(&mut braidb::Cursor) -> Result<bool>,
) -> Code {
    answer(err, need(cursor, "cursor").and_then(|cursor| cursor.moved(function, movement)))
}

/// Moves by one entry. A cursor whose last movement failed has no place to move from: it fails again.
fn step(
    function: &'static str,
    cursor: Option<&mut Cursor>,
    err: ErrorOut<'_>,
    movement: impl FnOnce(&mut braidb::Cursor) -> braidb::Result<bool>,
) -> Code {
    let outcome = need(cursor, "cursor").and_then(|cursor| match &cursor.failed {
        Some(failure) => Err(failure.clone()),
        None => cursor.moved(function, |cursor| Ok(movement(cursor)?)),
    });
    answer(err, outcome)
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
        *handle = give(Cursor { shared: place.shared.clone(), cursor, failed: None });
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_free(cursor: Option<Box<Cursor>>) {
    quiet("braidb_cursor_free", (), || drop(cursor));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_first(cursor: Option<&mut Cursor>, err: ErrorOut<'_>) -> Code {
    jump("braidb_cursor_first", cursor, err, |cursor| Ok(cursor.first()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_last(cursor: Option<&mut Cursor>, err: ErrorOut<'_>) -> Code {
    jump("braidb_cursor_last", cursor, err, |cursor| Ok(cursor.last()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_seek(cursor: Option<&mut Cursor>, key: Slice, err: ErrorOut<'_>) -> Code {
    jump("braidb_cursor_seek", cursor, err, |cursor| Ok(cursor.seek(key.bytes("key")?)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_seek_for_prev(
    cursor: Option<&mut Cursor>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    jump("braidb_cursor_seek_for_prev", cursor, err, |cursor| Ok(cursor.seek_for_prev(key.bytes("key")?)?))
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
        cursor.shared.check()?;
        if let Some(failure) = &cursor.failed {
            return Err(failure.clone());
        }
        let Some(value) = cursor.cursor.value()? else { return Ok(Code::NOT_FOUND) };
        *place = Slice::of(value);
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_cursor_status(cursor: Option<&Cursor>, err: ErrorOut<'_>) -> Code {
    guard("braidb_cursor_status", err, || {
        let cursor = need(cursor, "cursor")?;
        cursor.failed.clone().map_or(Ok(Code::OK), Err)
    })
}
