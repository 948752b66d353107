//! The sources that a scan merges. One array holds the cursors of all parts of a view. They are variants of an enum, so a step of the merge
//! needs no virtual call.

use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::value::Value;
use crate::memory::{ImmutableCursor, SegmentCursor};
use crate::version::shape::level_cursor::LevelCursor;
use crate::version::shape::run_cursor::RunCursor;
use crate::visible::{Cursor, EntryKind, LazyValue};

/// A cursor over one part of a view. Cursors of runs are boxed, because they are few and large.
pub enum Source {
    Active(SegmentCursor),
    Immutable(ImmutableCursor),
    Run(Box<RunCursor>),
    Level(LevelCursor),
}

/// Calls the method of the cursor of any part.
macro_rules! of_part {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Active($cursor) => $call,
            Source::Immutable($cursor) => $call,
            Source::Run($cursor) => $call,
            Source::Level($cursor) => $call,
        }
    };
}

impl Source {
    /// Whether the entries lie in tables, and not in memory.
    #[inline]
    pub fn is_in_table(&self) -> bool {
        matches!(self, Source::Run(_) | Source::Level(_))
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
    fn fetch(&mut self) -> Result<()> {
        of_part!(self, cursor => cursor.fetch())
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
