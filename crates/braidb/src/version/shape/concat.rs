//! One cursor over parts that lie beside each other in key order: the slices of a run, the cells of a level.
//!
//! A run has thousands of slices and a level thousands of cells. A part is opened when the walk reaches it, so a scan pays only for the parts
//! that it reaches.

use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::value::Value;
use crate::value::{BodyFile, Handle};
use crate::visible::{Cursor, EntryKind, LazyValue};

/// Parts in key order. No key lies in two of them.
pub trait Parts: Send {
    type Cursor: Cursor;
    fn len(&self) -> usize;
    /// A cursor over part `at`, which exists; `None` if the part is empty.
    fn open(&self, at: usize) -> Result<Option<Self::Cursor>>;
    /// The number of parts whose keys all lie before `key`: the first ones.
    fn before(&self, key: &[u8]) -> usize;
    /// The number of parts that may hold a key before `key`: the first ones.
    fn with_key_before(&self, key: &[u8]) -> usize;
}

/// Walks the entries of all parts.
pub struct ConcatCursor<P: Parts> {
    parts: P,
    /// The index of the current part.
    at: usize,
    /// A cursor over part `at`; `None` if the part is empty, does not exist, or could not be read.
    current: Option<P::Cursor>,
}

impl<P: Parts> ConcatCursor<P> {
    pub fn of(parts: P) -> ConcatCursor<P> {
        ConcatCursor { parts, at: 0, current: None }
    }

    /// Moves to part `at`, if it exists, and positions a cursor in it.
    fn enter(&mut self, at: usize, position: impl FnOnce(&mut P::Cursor) -> Result<()>) -> Result<()> {
        self.current = None;
        self.at = at;
        if at < self.parts.len()
            && let Some(mut cursor) = self.parts.open(at)?
        {
            position(&mut cursor)?;
            self.current = Some(cursor);
        }
        Ok(())
    }

    /// Moves to the following parts until one has an entry.
    fn skip_forward(&mut self) -> Result<()> {
        while !self.valid() && self.at + 1 < self.parts.len() {
            self.enter(self.at + 1, |cursor| cursor.seek_to_first())?;
        }
        Ok(())
    }

    /// Moves to the preceding parts until one has an entry.
    fn skip_backward(&mut self) -> Result<()> {
        while !self.valid() && self.at > 0 {
            self.enter(self.at - 1, |cursor| cursor.seek_to_last())?;
        }
        Ok(())
    }

    #[inline]
    fn now(&self) -> &P::Cursor {
        self.current.as_ref().expect("the cursor is valid")
    }

    #[inline]
    fn now_mut(&mut self) -> &mut P::Cursor {
        self.current.as_mut().expect("the cursor is valid")
    }

    /// Makes the cursor invalid after an error.
    #[inline]
    fn guard(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.current = None;
        }
        outcome
    }
}

impl<P: Parts> Cursor for ConcatCursor<P> {
    fn keep(&self) {
        self.current.iter().for_each(Cursor::keep);
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0, |cursor| cursor.seek_to_first())?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter(self.parts.len().saturating_sub(1), |cursor| cursor.seek_to_last())?;
        self.skip_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.enter(self.parts.before(key), |cursor| cursor.seek(key))?;
        self.skip_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        let Some(at) = self.parts.with_key_before(key).checked_sub(1) else { return Ok(()) };
        self.enter(at, |cursor| cursor.seek_before(key))?;
        self.skip_backward()
    }

    fn next(&mut self) -> Result<()> {
        let outcome = self.now_mut().next().and_then(|()| self.skip_forward());
        self.guard(outcome)
    }

    fn prev(&mut self) -> Result<()> {
        let outcome = self.now_mut().prev().and_then(|()| self.skip_backward());
        self.guard(outcome)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.now().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.now().seq()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.now().kind()
    }

    #[inline]
    fn fetch(&mut self) -> Result<()> {
        self.now_mut().fetch()
    }

    fn handle(&self) -> Option<(BodyFile, Handle)> {
        self.now().handle()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.now().value()
    }

    fn pin_value(&self) -> Value {
        self.now().pin_value()
    }

    fn lazy_value(&self) -> LazyValue {
        self.now().lazy_value()
    }
}
