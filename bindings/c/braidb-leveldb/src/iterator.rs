//! Iterators: a place among the entries of a database, which moves both ways.
//!
//! A movement reads the value too. So an entry whose value cannot be read is never shown, and threads may share the functions that take an
//! iterator that does not change, as with LevelDB.

use crate::arguments::{Out, bytes};
use crate::call_options::ReadOptions;
use crate::database::Database;
use crate::failure::{ErrorOut, Failure, Result, guard, need};
use braidb::Cursor;
use braidb_ffi::memory::give;
use braidb_ffi::panics::{attempt, quiet};
use std::ffi::c_char;
use std::mem;
use std::ptr;

/// Bytes that the cursor lends until it moves. C alone follows the pointer.
#[derive(Clone, Copy, Debug)]
struct Lent {
    first: *const c_char,
    len: usize,
}

impl Lent {
    fn new(bytes: &[u8]) -> Lent {
        Lent { first: bytes.as_ptr().cast(), len: bytes.len() }
    }
}

/// `leveldb_iterator_t`.
#[derive(Debug)]
pub struct IteratorHandle {
    /// `None` if the iterator could not begin.
    cursor: Option<Cursor>,
    /// Key and value of the entry on which the iterator stands.
    entry: Option<(Lent, Lent)>,
    /// The first error. It stays, so that a program that looks at the end alone finds it.
    failed: Option<Failure>,
    /// The key of the last seek.
    sought: Vec<u8>,
}

impl IteratorHandle {
    fn begin(db: Option<&Database>, options: Option<&ReadOptions>) -> Result<Cursor> {
        let db = need(db, "db")?;
        let all = match ReadOptions::moment(options, db)? {
            None => db.db.iter(),
            Some(moment) => moment.snapshot.iter(),
        };
        Ok(all.cursor())
    }

    fn new(began: Result<Cursor>) -> IteratorHandle {
        let (cursor, failed) = match began {
            Ok(cursor) => (Some(cursor), None),
            Err(failure) => (None, Some(failure)),
        };
        IteratorHandle { cursor, entry: None, failed, sought: Vec::new() }
    }

    /// Moves the cursor, and lends the entry to which it comes.
    #[inline]
    fn moved(&mut self, function: &'static str, movement: impl FnOnce(&mut Cursor) -> Result<bool>) {
        let IteratorHandle { cursor, entry, failed, .. } = self;
        *entry = None;
        let Some(cursor) = cursor else { return };
        let outcome = attempt(function, || {
            if movement(cursor)? {
                *entry = cursor.entry()?.map(|(key, value)| (Lent::new(key), Lent::new(value)));
            }
            Ok::<_, Failure>(())
        });
        if let Err(failure) = outcome {
            failed.get_or_insert(failure);
        }
    }
}

/// Jumps to another place.
#[inline]
fn jump(
    function: &'static str,
    iterator: Option<&mut IteratorHandle>,
    movement: impl FnOnce(&mut Cursor) -> braidb::Result<bool>,
) {
    if let Some(iterator) = iterator {
        iterator.moved(function, |cursor| Ok(movement(cursor)?));
    }
}

/// Moves by one entry. An iterator that stands on no entry stays where it is until it jumps.
#[inline]
fn step(
    function: &'static str,
    iterator: Option<&mut IteratorHandle>,
    movement: impl FnOnce(&mut Cursor) -> braidb::Result<bool>,
) {
    if let Some(iterator) = iterator.filter(|iterator| iterator.entry.is_some()) {
        iterator.moved(function, |cursor| Ok(movement(cursor)?));
    }
}

/// Lends a part of the entry on which the iterator stands; NULL and the length 0 if it stands on none.
#[inline]
fn lend(
    function: &'static str,
    iterator: Option<&IteratorHandle>,
    len: Out<'_, usize>,
    part: impl FnOnce(&(Lent, Lent)) -> Lent,
) -> *const c_char {
    quiet(function, ptr::null(), || {
        let entry = iterator.and_then(|iterator| iterator.entry.as_ref());
        let lent = entry.map_or(Lent { first: ptr::null(), len: 0 }, part);
        if let Some(len) = len {
            len.write(lent.len);
        }
        lent.first
    })
}

/// An iterator that cannot begin is an iterator without entries, whose error tells why.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_iterator(
    db: Option<&Database>,
    options: Option<&ReadOptions>,
) -> *mut IteratorHandle {
    let began = attempt("leveldb_create_iterator", || IteratorHandle::begin(db, options));
    give(IteratorHandle::new(began))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iterator: Option<Box<IteratorHandle>>) {
    quiet("leveldb_iter_destroy", (), || drop(iterator));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iterator: Option<&IteratorHandle>) -> u8 {
    quiet("leveldb_iter_valid", 0, || u8::from(iterator.is_some_and(|iterator| iterator.entry.is_some())))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_first(iterator: Option<&mut IteratorHandle>) {
    jump("leveldb_iter_seek_to_first", iterator, Cursor::first);
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iterator: Option<&mut IteratorHandle>) {
    jump("leveldb_iter_seek_to_last", iterator, Cursor::last);
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek(iterator: Option<&mut IteratorHandle>, k: *const c_char, klen: usize) {
    let Some(iterator) = iterator else { return };
    // The key may be the one that the iterator lends, which goes when the cursor moves.
    let mut sought = mem::take(&mut iterator.sought);
    iterator.moved("leveldb_iter_seek", |cursor| {
        sought.clear();
        sought.extend_from_slice(bytes(k, klen, "k")?);
        Ok(cursor.seek(&sought)?)
    });
    iterator.sought = sought;
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iterator: Option<&mut IteratorHandle>) {
    step("leveldb_iter_next", iterator, Cursor::next);
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iterator: Option<&mut IteratorHandle>) {
    step("leveldb_iter_prev", iterator, Cursor::prev);
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(iterator: Option<&IteratorHandle>, klen: Out<'_, usize>) -> *const c_char {
    lend("leveldb_iter_key", iterator, klen, |(key, _)| *key)
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(
    iterator: Option<&IteratorHandle>,
    vlen: Out<'_, usize>,
) -> *const c_char {
    lend("leveldb_iter_value", iterator, vlen, |(_, value)| *value)
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_get_error(iterator: Option<&IteratorHandle>, errptr: ErrorOut<'_>) {
    guard("leveldb_iter_get_error", errptr, (), || {
        need(iterator, "iterator")?.failed.clone().map_or(Ok(()), Err)
    });
}
