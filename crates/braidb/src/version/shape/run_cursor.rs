//! A cursor over a run: its slices in key order. A run has thousands of slices, and a table is opened when the walk reaches it.

use super::Slice;
use super::sorted::Sorted;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::value::Value;
use crate::table::{Buffers, TableCursor};
use crate::value::{BodyFile, Handle};
use crate::visible::{Cursor, EntryKind, LazyValue};
use std::mem;
use std::sync::Arc;

/// Walks a run.
pub struct RunCursor {
    /// Disjoint, sorted by key. `None` in a cursor that was closed.
    slices: Option<Arc<Sorted<Slice>>>,
    /// Whether blocks that are read stay in the cache: true for readers, false for merges.
    fill_cache: bool,
    /// The index of the current slice.
    at: usize,
    /// A cursor over slice `at`; `None` if the slice does not exist or could not be read.
    current: Option<TableCursor>,
    /// Buffers of the table cursor that was closed last.
    buffers: Buffers,
}

impl RunCursor {
    pub fn new(slices: Arc<Sorted<Slice>>, fill_cache: bool) -> RunCursor {
        let mut cursor = RunCursor::closed(fill_cache);
        cursor.set(slices);
        cursor
    }

    /// A cursor that has no run yet.
    pub fn closed(fill_cache: bool) -> RunCursor {
        RunCursor { slices: None, fill_cache, at: 0, current: None, buffers: Buffers::default() }
    }

    /// Gives a closed cursor a run to walk.
    pub fn set(&mut self, slices: Arc<Sorted<Slice>>) {
        debug_assert!(slices.windows(2).all(|pair| pair[0].range.high < pair[1].range.low));
        assert!(self.slices.is_none(), "a cursor walks one run until it is closed");
        (self.slices, self.at) = (Some(slices), 0);
    }

    /// Gives up the run and its tables. Only buffers of at most `most_bytes` stay.
    pub fn close(&mut self, most_bytes: usize) {
        self.leave_slice();
        self.slices = None;
        self.buffers.free_large(most_bytes);
    }

    #[inline]
    fn slices(&self) -> &Sorted<Slice> {
        self.slices.as_deref().expect("a closed cursor gets a run before it is positioned")
    }

    fn leave_slice(&mut self) {
        if let Some(current) = &mut self.current {
            self.buffers = current.take_buffers();
        }
        self.current = None;
    }

    /// Makes `current` a cursor over slice `at`, not positioned. Returns `None` if the slice does not exist.
    fn open(&mut self, at: usize) -> Result<Option<&mut TableCursor>> {
        self.leave_slice();
        self.at = at;
        let Some(slice) = self.slices.as_ref().and_then(|slices| slices.get(at)) else { return Ok(None) };
        let table = slice.table.reader()?;
        if self.fill_cache {
            table.note_reader();
        }
        let (bounds, buffers) = (slice.bounds().clone(), mem::take(&mut self.buffers));
        Ok(Some(self.current.insert(table.cursor_in(bounds, self.fill_cache, buffers))))
    }

    /// The first part of [`Cursor::seek`]: opens the slice that has the first entry at or after `key`. The other parts are those of
    /// [`TableCursor::aim`].
    pub fn open_at(&mut self, key: &[u8]) -> Result<()> {
        let at = self.slices().before(key);
        self.open(at).map(drop)
    }

    /// The second part of [`Cursor::seek`].
    pub fn aim(&mut self, key: &[u8]) {
        if let Some(current) = &mut self.current {
            current.aim(key);
        }
    }

    /// The third part of [`Cursor::seek`].
    pub fn load(&mut self) -> Result<()> {
        let outcome = self.current.as_mut().map_or(Ok(()), TableCursor::load);
        self.guard(outcome)
    }

    /// The last part of [`Cursor::seek`].
    pub fn land(&mut self, key: &[u8]) -> Result<()> {
        let outcome = self.current.as_mut().map_or(Ok(()), |current| current.land(key));
        self.guard(outcome)?;
        self.skip_forward()
    }

    /// Moves to slice `at`, if it exists, and positions a cursor in it.
    fn enter(&mut self, at: usize, position: impl FnOnce(&mut TableCursor) -> Result<()>) -> Result<()> {
        let outcome = self.open(at)?.map_or(Ok(()), position);
        self.guard(outcome)
    }

    /// Moves to the following slices until one has an entry.
    fn skip_forward(&mut self) -> Result<()> {
        while !self.valid() && self.at + 1 < self.slices().len() {
            self.enter(self.at + 1, |cursor| cursor.seek_to_first())?;
        }
        Ok(())
    }

    /// Moves to the preceding slices until one has an entry.
    fn skip_backward(&mut self) -> Result<()> {
        while !self.valid() && self.at > 0 {
            self.enter(self.at - 1, |cursor| cursor.seek_to_last())?;
        }
        Ok(())
    }

    #[inline]
    fn now(&self) -> &TableCursor {
        self.current.as_ref().expect("the cursor is valid")
    }

    #[inline]
    fn now_mut(&mut self) -> &mut TableCursor {
        self.current.as_mut().expect("the cursor is valid")
    }

    /// Makes the cursor invalid after an error.
    #[inline]
    fn guard(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.leave_slice();
        }
        outcome
    }
}

impl Cursor for RunCursor {
    fn keep(&self) {
        self.current.iter().for_each(Cursor::keep);
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0, |cursor| cursor.seek_to_first())?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter(self.slices().len().saturating_sub(1), |cursor| cursor.seek_to_last())?;
        self.skip_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.open_at(key)?;
        self.aim(key);
        self.load()?;
        self.land(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.leave_slice();
        let beginning_before = self.slices().partition_point(|slice| slice.range.low.as_slice() < key);
        let Some(at) = beginning_before.checked_sub(1) else { return Ok(()) };
        self.enter(at, |cursor| cursor.seek_before(key))?;
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self.now_mut().next() {
            Ok(()) if self.valid() => Ok(()),
            moved => {
                let outcome = moved.and_then(|()| self.skip_forward());
                self.guard(outcome)
            }
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.now_mut().prev() {
            Ok(()) if self.valid() => Ok(()),
            moved => {
                let outcome = moved.and_then(|()| self.skip_backward());
                self.guard(outcome)
            }
        }
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
    fn is_last_of_key(&self) -> bool {
        self.now().is_last_of_key()
    }

    #[inline]
    fn has_value_beside(&self) -> bool {
        self.now().has_value_beside()
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
