//! A position in a list of records that are in order: the one cursor of all types that hold such a list.

use super::node::{Record, Ref};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::value::Value;
use crate::visible::{Cursor, EntryKind};
use std::fmt;
use std::sync::Arc;

/// Records in order, which live as long as the list is held.
pub trait Sorted: Send + Sync + 'static {
    /// How many steps ahead of the cursor a record is prefetched, since records lie anywhere in memory.
    const STEPS_AHEAD: usize;

    fn len(&self) -> usize;

    fn record(&self, at: usize) -> Ref<'static, Record>;

    /// Fetches what a cursor will read of a record.
    fn prefetch(&self, at: usize);

    /// How many entries come before `key`.
    fn lower_bound(&self, key: &[u8]) -> usize;
}

/// A position, which keeps the records alive.
pub struct SortedCursor<S> {
    sorted: Arc<S>,
    /// The number of entries if the cursor stands on none.
    at: usize,
    is_backward: bool,
}

impl<S: Sorted> SortedCursor<S> {
    pub(super) fn new(sorted: Arc<S>) -> SortedCursor<S> {
        SortedCursor { at: sorted.len(), sorted, is_backward: false }
    }

    pub(super) fn sorted(&self) -> &S {
        &self.sorted
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The entry that the cursor stands on.
    #[inline]
    pub(super) fn record(&self) -> Ref<'static, Record> {
        self.sorted.record(self.at)
    }

    fn go_forward(&mut self, at: usize) {
        (self.at, self.is_backward) = (at, false);
        // While these records are being fetched, a merge positions its other cursors.
        let end = self.sorted.len().min(at + S::STEPS_AHEAD + 1);
        (at..end).for_each(|at| self.sorted.prefetch(at));
    }

    fn go_backward(&mut self, behind: usize) {
        self.is_backward = true;
        self.at = behind.checked_sub(1).unwrap_or(self.sorted.len());
    }
}

impl<S: Sorted> Cursor for SortedCursor<S> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.go_forward(0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go_backward(self.sorted.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go_forward(self.sorted.lower_bound(key));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go_backward(self.sorted.lower_bound(key));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(!self.is_backward && self.valid(), "seek again before turning round");
        self.at += 1;
        // The record at `at` was fetched a while ago.
        if self.at + S::STEPS_AHEAD < self.sorted.len() {
            self.sorted.prefetch(self.at + S::STEPS_AHEAD);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.is_backward && self.valid(), "seek again before turning round");
        self.go_backward(self.at);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at < self.sorted.len()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.record().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.record().seq()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.record().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.record().value()
    }

    fn pin_value(&self) -> Value {
        let record = self.record();
        Value::pin(Arc::clone(&self.sorted), |_| record.value())
    }
}

impl<S> fmt::Debug for SortedCursor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedCursor").field("at", &self.at).finish_non_exhaustive()
    }
}
