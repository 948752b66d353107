//! A cursor over a run: its slices in key order, each table opened when the walk reaches it.

use super::Slice;
use super::concat::{ConcatCursor, Parts};
use crate::base::error::Result;
use crate::table::TableCursor;
use std::sync::Arc;

/// Walks a run.
pub type RunCursor = ConcatCursor<SlicesOfRun>;

/// Disjoint slices, sorted by key.
pub struct SlicesOfRun {
    slices: Arc<Vec<Arc<Slice>>>,
    /// Whether blocks that are read stay in the cache: true for readers, false for merges.
    fill_cache: bool,
}

impl RunCursor {
    pub fn new(slices: Arc<Vec<Arc<Slice>>>, fill_cache: bool) -> RunCursor {
        debug_assert!(slices.windows(2).all(|pair| pair[0].range.high < pair[1].range.low));
        RunCursor::of(SlicesOfRun { slices, fill_cache })
    }
}

impl Parts for SlicesOfRun {
    type Cursor = TableCursor;

    fn len(&self) -> usize {
        self.slices.len()
    }

    fn open(&self, at: usize) -> Result<Option<TableCursor>> {
        let (slice, table) = (&self.slices[at], self.slices[at].table.reader()?);
        if self.fill_cache {
            table.note_reader();
        }
        Ok(Some(table.cursor(slice.bounds().clone(), self.fill_cache)))
    }

    fn before(&self, key: &[u8]) -> usize {
        self.slices.partition_point(|slice| slice.range.high.as_slice() < key)
    }

    fn with_key_before(&self, key: &[u8]) -> usize {
        self.slices.partition_point(|slice| slice.range.low.as_slice() < key)
    }
}
