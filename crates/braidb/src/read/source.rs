//! The sources that a scan merges. One array holds the cursors of all parts of a view. They are variants of an enum, so a step of the merge
//! needs no virtual call.

use crate::base::body::{BodyFile, Handle};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::memory::{ImmutableCursor, SegmentCursor};
use crate::version::Cell;
use crate::version::shape::run_cursor::RunCursor;
use crate::visible::{Cursor, EntryKind, LazyValue};
use std::sync::Arc;

/// A cursor over one part of a view. Cursors of runs are boxed, because they are few and large.
pub enum Source {
    Active(SegmentCursor),
    Immutable(ImmutableCursor),
    Run(Box<RunCursor>),
    /// No source of entries: the boundary of a cell (`view_cursor.rs`).
    Fence(Fence),
}

/// One entry at the lower boundary of a cell. It is newer than all versions of its key.
pub struct Fence(pub Arc<Cell>);

impl Cursor for Fence {
    fn seek_to_first(&mut self) -> Result<()> {
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        debug_assert!(self.0.low.as_slice() > key, "a walk forward begins before the end of its cell");
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        debug_assert!(
            self.0.low.as_slice() <= key,
            "a walk backward begins behind the beginning of its cell"
        );
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        unreachable!("a fence that comes first is replaced")
    }

    fn prev(&mut self) -> Result<()> {
        unreachable!("a fence that comes first is replaced")
    }

    #[inline]
    fn valid(&self) -> bool {
        true
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.0.low
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        if mutant!("fence_behind_its_key") { 0 } else { SeqNo::MAX }
    }

    fn kind(&self) -> EntryKind {
        unreachable!("a fence that comes first is replaced")
    }

    fn value(&self) -> &[u8] {
        unreachable!("a fence has no value")
    }

    fn pin_value(&self) -> Value {
        unreachable!("a fence has no value")
    }
}

/// Calls the method of the cursor of any part.
macro_rules! of_part {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Active($cursor) => $call,
            Source::Immutable($cursor) => $call,
            Source::Run($cursor) => $call,
            Source::Fence($cursor) => $call,
        }
    };
}

impl Source {
    /// Carries out the parts of a seek that [`RunCursor`] has, but for the last one.
    #[inline]
    pub fn open_at(&mut self, key: &[u8]) -> Result<()> {
        if let Source::Run(run) = self { run.open_at(key) } else { Ok(()) }
    }

    #[inline]
    pub fn aim(&mut self, key: &[u8]) {
        if let Source::Run(run) = self {
            run.aim(key);
        }
    }

    #[inline]
    pub fn load(&mut self) -> Result<()> {
        if let Source::Run(run) = self { run.load() } else { Ok(()) }
    }

    /// The last part of a seek. Memory carries out the whole seek.
    #[inline]
    pub fn land(&mut self, key: &[u8]) -> Result<()> {
        if let Source::Run(run) = self { run.land(key) } else { self.seek(key) }
    }

    /// Sequence number and kind of the current entry.
    #[inline(always)]
    pub fn version(&self) -> (SeqNo, EntryKind) {
        of_part!(self, cursor => (cursor.seq(), cursor.kind()))
    }

    /// Whether the entries lie in tables, instead of memory.
    #[inline]
    pub fn is_in_table(&self) -> bool {
        matches!(self, Source::Run(_))
    }
}

impl Cursor for Source {
    fn keep(&self) {
        of_part!(self, cursor => cursor.keep())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        of_part!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        of_part!(self, cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        of_part!(self, cursor => cursor.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        of_part!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        of_part!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        of_part!(self, cursor => cursor.prev())
    }

    #[inline]
    fn valid(&self) -> bool {
        of_part!(self, cursor => cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        of_part!(self, cursor => cursor.key())
    }

    // Inlined as in `MergeCursor`.
    #[inline(always)]
    fn seq(&self) -> SeqNo {
        of_part!(self, cursor => cursor.seq())
    }

    #[inline(always)]
    fn kind(&self) -> EntryKind {
        of_part!(self, cursor => cursor.kind())
    }

    #[inline]
    fn is_last_of_key(&self) -> bool {
        of_part!(self, cursor => cursor.is_last_of_key())
    }

    #[inline]
    fn next_key(&mut self) -> Result<Option<&[u8]>> {
        of_part!(self, cursor => cursor.next_key())
    }

    #[inline]
    fn prev_key(&mut self) -> Result<Option<&[u8]>> {
        of_part!(self, cursor => cursor.prev_key())
    }

    #[inline(always)]
    fn has_value_beside(&self) -> bool {
        of_part!(self, cursor => cursor.has_value_beside())
    }

    #[inline]
    fn fetch(&mut self) -> Result<()> {
        of_part!(self, cursor => cursor.fetch())
    }

    #[inline]
    fn handle(&self) -> Option<(BodyFile, Handle)> {
        of_part!(self, cursor => cursor.handle())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        of_part!(self, cursor => cursor.value())
    }

    #[inline]
    fn pin_value(&self) -> Value {
        of_part!(self, cursor => cursor.pin_value())
    }

    #[inline(always)]
    fn lazy_value(&self) -> LazyValue {
        of_part!(self, cursor => cursor.lazy_value())
    }
}
