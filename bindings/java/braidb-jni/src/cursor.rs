//! The native part of the Java class `Cursor`: a cursor of the engine, which fills pages from the place where it stands.
//!
//! The Java object reads its entries out of the page. So the engine's cursor stands behind the entry that the Java object shows, and Java
//! says by the movement from where the next page goes on.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use crate::page::{self, Filled, Page, Pushed};
use crate::snapshot::Snapshot;
use braidb::Cursor;
use braidb_bindings::opened::Opened;
use jni::objects::JByteArray;
use jni::sys::{jint, jlong};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a page begins, and in which order it goes. The numbers are those of the Java class `Cursor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Movement {
    /// Behind the last page, as before.
    Next,
    Prev,
    First,
    Last,
    /// At the first entry whose key is the given one or larger.
    Seek,
    /// At the last entry whose key is the given one or smaller, backward.
    SeekForPrev,
    /// Behind the entry with the given key: a turn.
    After,
    /// In front of the entry with the given key, backward: a turn.
    Before,
}

impl Movement {
    fn of(number: jint) -> Result<Movement> {
        Ok(match number {
            0 => Movement::Next,
            1 => Movement::Prev,
            2 => Movement::First,
            3 => Movement::Last,
            4 => Movement::Seek,
            5 => Movement::SeekForPrev,
            6 => Movement::After,
            7 => Movement::Before,
            _ => return Err(Failure::invalid(format!("there is no movement {number}"))),
        })
    }

    fn is_backward(self) -> bool {
        matches!(self, Movement::Prev | Movement::Last | Movement::SeekForPrev | Movement::Before)
    }

    fn has_key(self) -> bool {
        matches!(self, Movement::Seek | Movement::SeekForPrev | Movement::After | Movement::Before)
    }
}

/// What a Java cursor owns.
#[derive(Debug)]
struct Shell {
    opened: Arc<Opened>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cursor: Cursor,
    /// The cursor stands on an entry that is in no page yet.
    is_waiting: bool,
    /// What the next page that goes on returns: entries before the error were handed out.
    failed: Option<Failure>,
}

native! {
    /// A cursor over a range of a family, at the moment of a snapshot or, if there is none, now.
    fn Java_io_github_braidb_Native_cursor<'local>(
        env,
        home: jlong,
        snapshot: jlong,
        range: JByteArray<'local>,
    ) -> jlong {
        let home = Home::lent(home)?;
        let range = bytes::range(&bytes::take(env, &range)?)?;
        let iter = match snapshot {
            0 => home.family.range(range),
            snapshot => {
                let snapshot = Snapshot::lent(snapshot)?;
                home.check_of(&snapshot.opened)?;
                snapshot.snapshot.range_in(&home.family, range)
            }
        };
        let state = State { cursor: iter.cursor(), is_waiting: false, failed: None };
        Ok(handles::give(Shell { opened: home.opened.clone(), state: Mutex::new(state) }))
    }
}

native! {
    /// Fills the first `room` bytes of a buffer. Returns what `page` says.
    fn Java_io_github_braidb_Native_cursorFill<'local>(
        env,
        cursor: jlong,
        movement: jint,
        key: JByteArray<'local>,
        buffer: JByteArray<'local>,
        room: jint,
    ) -> jint {
        let shell: &Shell = handles::lent(cursor);
        shell.opened.check()?;
        let movement = Movement::of(movement)?;
        let key = if movement.has_key() { bytes::take(env, &key)? } else { bytes::Bytes::new() };
        let mut state = shell.state.lock().unwrap_or_else(PoisonError::into_inner);
        page::fill(env, &buffer, room, |page| state.fill(movement, &key, page))
    }
}

native! {
    fn Java_io_github_braidb_Native_freeCursor<'local>(_env, cursor: jlong) -> () {
        handles::free::<Shell>(cursor);
        Ok(())
    }
}

impl State {
    /// Moves, and fills a page from there on.
    fn fill(&mut self, movement: Movement, key: &[u8], page: &mut Page<'_>) -> Result<Filled> {
        let failed = self.failed.take();
        let is_waiting = std::mem::take(&mut self.is_waiting);
        let mut is_on = match movement {
            Movement::Next | Movement::Prev => match failed {
                Some(failure) => return Err(failure),
                None => is_waiting || self.step(movement)?,
            },
            Movement::First => self.cursor.first()?,
            Movement::Last => self.cursor.last()?,
            Movement::Seek => self.cursor.seek(key)?,
            Movement::SeekForPrev => self.cursor.seek_for_prev(key)?,
            // The view of a cursor never changes, so the entry from which the caller turns is there.
            Movement::After => self.cursor.seek(key)? && self.step(movement)?,
            Movement::Before => self.cursor.seek_for_prev(key)? && self.step(movement)?,
        };
        while is_on {
            let pushed = match self.cursor.entry() {
                Ok(Some((key, value))) => page.push(key, value),
                Ok(None) => break,
                Err(error) => return self.fail(error.into(), page),
            };
            if pushed != Pushed::Taken {
                self.is_waiting = true;
                return Ok(match pushed {
                    Pushed::TooLarge(bytes) => Filled::Needs(bytes),
                    _ => Filled::Done,
                });
            }
            is_on = match self.step(movement) {
                Ok(is_on) => is_on,
                Err(failure) => return self.fail(failure, page),
            };
        }
        Ok(Filled::Done)
    }

    /// Moves by one entry in the order of a movement.
    #[inline]
    fn step(&mut self, movement: Movement) -> Result<bool> {
        Ok(if movement.is_backward() { self.cursor.prev() } else { self.cursor.next() }?)
    }

    /// Keeps a failure until the entries in front of it were handed out.
    fn fail(&mut self, failure: Failure, page: &Page<'_>) -> Result<Filled> {
        if page.is_empty() {
            return Err(failure);
        }
        self.failed = Some(failure);
        Ok(Filled::Done)
    }
}
