//! A cursor over a run: its slices in key order, each table opened when the walk reaches it.

use super::shape::Slice;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::value::Value;
use crate::table::TableCursor;
use crate::value::{BodyFile, Handle};
use crate::visible::{Cursor, EntryKind, LazyValue};
use std::sync::Arc;

/// Walks disjoint slices that are sorted by key.
pub struct RunCursor {
    slices: Arc<Vec<Arc<Slice>>>,
    /// The index of the slice that `current` walks.
    at: usize,
    current: Option<TableCursor>,
    /// Whether blocks that are read stay in the cache: true for readers, false for merges.
    fill_cache: bool,
}

impl RunCursor {
    pub fn new(slices: Arc<Vec<Arc<Slice>>>, fill_cache: bool) -> RunCursor {
        debug_assert!(slices.windows(2).all(|pair| pair[0].range.high < pair[1].range.low));
        RunCursor { slices, at: 0, current: None, fill_cache }
    }

    /// Moves to slice `at`, if it exists, and positions its cursor.
    fn enter(&mut self, at: usize, position: impl FnOnce(&mut TableCursor) -> Result<()>) -> Result<()> {
        self.current = None;
        self.at = at;
        if let Some(slice) = self.slices.get(at) {
            let mut cursor = slice.table.reader()?.cursor(slice.bounds().clone(), self.fill_cache);
            position(&mut cursor)?;
            self.current = Some(cursor);
        }
        Ok(())
    }

    /// Moves to the following slices until one has an entry.
    fn skip_forward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|cursor| !cursor.valid()) {
            self.enter(self.at + 1, |cursor| cursor.seek_to_first())?;
        }
        Ok(())
    }

    /// Moves to the preceding slices until one has an entry.
    fn skip_backward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|cursor| !cursor.valid()) {
            match self.at.checked_sub(1) {
                Some(before) => self.enter(before, |cursor| cursor.seek_to_last())?,
                None => self.current = None,
            }
        }
        Ok(())
    }

    fn now(&self) -> &TableCursor {
        self.current.as_ref().expect("the cursor is valid")
    }

    /// Makes the cursor invalid after an error.
    fn guard(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.current = None;
        }
        outcome
    }
}

impl Cursor for RunCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        let outcome = self.enter(0, |cursor| cursor.seek_to_first()).and_then(|()| self.skip_forward());
        self.guard(outcome)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.slices.len().checked_sub(1) else { return Ok(()) };
        let outcome = self.enter(last, |cursor| cursor.seek_to_last()).and_then(|()| self.skip_backward());
        self.guard(outcome)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.slices.partition_point(|slice| slice.range.high.as_slice() < key);
        let outcome = self.enter(at, |cursor| cursor.seek(key)).and_then(|()| self.skip_forward());
        self.guard(outcome)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let before = self.slices.partition_point(|slice| slice.range.low.as_slice() < key);
        let Some(at) = before.checked_sub(1) else {
            self.current = None;
            return Ok(());
        };
        let outcome = self.enter(at, |cursor| cursor.seek_before(key)).and_then(|()| self.skip_backward());
        self.guard(outcome)
    }

    fn next(&mut self) -> Result<()> {
        let outcome = self.current.as_mut().expect("the cursor is valid").next();
        let outcome = outcome.and_then(|()| self.skip_forward());
        self.guard(outcome)
    }

    fn prev(&mut self) -> Result<()> {
        let outcome = self.current.as_mut().expect("the cursor is valid").prev();
        let outcome = outcome.and_then(|()| self.skip_backward());
        self.guard(outcome)
    }

    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(TableCursor::valid)
    }

    fn key(&self) -> &[u8] {
        self.now().key()
    }

    fn seq(&self) -> SeqNo {
        self.now().seq()
    }

    fn kind(&self) -> EntryKind {
        self.now().kind()
    }

    fn fetch(&mut self) -> Result<()> {
        self.current.as_mut().expect("the cursor is valid").fetch()
    }

    fn handle(&self) -> Option<(BodyFile, Handle)> {
        self.now().handle()
    }

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
