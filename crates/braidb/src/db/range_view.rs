//! The entries of a range at one moment, for iterators and cursors. Keeps the database open, and the files and memory that hold the entries.

use super::bounds::Bounds;
use super::database::Db;
use crate::base::error::Result;
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key::Span;
use crate::memory::view::{FamilyView, View};
use crate::read::{Passed, ScanContext};
use crate::visible::past_excises::AsOf;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// A range of one column family in one view.
pub struct RangeView {
    db: Db,
    /// `None` if no key lies within the bounds. Otherwise there until the drop.
    view: Option<Arc<View>>,
    family: FamilyId,
    /// Whether the view lacks slices outside of the range. What a walk learns there is not true of the database.
    is_partial: bool,
    pub at: SeqNo,
    pub bounds: Bounds,
}

impl RangeView {
    /// Takes the view and its number (rule 8). The view pins all files and memory that walks need. A range without keys takes no view.
    pub fn new(db: &Db, family: FamilyId, bounds: Bounds, as_of: Option<AsOf>) -> Result<RangeView> {
        let engine = db.engine()?;
        if is_empty_range(&bounds) {
            let at = as_of.map_or(0, |as_of| as_of.seq);
            return Ok(RangeView { db: db.clone(), view: None, family, is_partial: false, at, bounds });
        }
        let (view, at) = match as_of {
            Some(as_of) => (engine.view()?, as_of.seq),
            None => engine.view_with_number()?,
        };
        let range = RangeView { db: db.clone(), view: Some(view), family, is_partial: false, at, bounds };
        range.check_excised(as_of)?;
        Ok(range)
    }

    /// Fails if keys of the range were excised after the moment.
    fn check_excised(&self, as_of: Option<AsOf>) -> Result<()> {
        let (Some(as_of), Some(family)) = (as_of, self.of_family()) else { return Ok(()) };
        match Span::between((self.low(), self.high())) {
            Some(span) => family.past_excises.check_span(&span, Some(as_of)),
            None => Ok(()),
        }
    }

    /// A range of a view that has all slices of the range, and maybe no others.
    pub fn of_part(db: &Db, view: Arc<View>, family: FamilyId, bounds: Bounds, at: SeqNo) -> RangeView {
        let view = (!is_empty_range(&bounds)).then_some(view);
        RangeView { db: db.clone(), view, family, is_partial: true, at, bounds }
    }

    /// Fails if the database was closed, and in a forked child.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.db.engine()?.check_open()
    }

    /// The entries of the family; `None` if no key lies within the bounds.
    pub fn of_family(&self) -> Option<&FamilyView> {
        self.view.as_ref().map(|view| &view.families[self.family.0 as usize])
    }

    /// Counts a new walk. Returns what it needs of the engine.
    pub fn begin_walk(&self) -> Result<ScanContext> {
        let context = self.db.engine()?.begin_scan(self.family);
        Ok(if self.is_partial { ScanContext { gaps: None, ..context } } else { context })
    }

    /// Tells the engine what a walk read.
    pub fn walk_ended(&self, passed: Option<Passed>) {
        if let (Ok(engine), Some(passed), false) = (self.db.engine(), passed, self.is_partial) {
            engine.scan_ended(self.family, passed);
        }
    }

    /// Whether this is a forked child. The view and all walks belong to the parent: the child forgets them.
    pub fn is_forked(&self) -> bool {
        self.db.is_forked()
    }

    /// The lower bound.
    pub fn low(&self) -> Bound<&[u8]> {
        self.bounds.0.as_ref().map(Vec::as_slice)
    }

    /// The upper bound.
    pub fn high(&self) -> Bound<&[u8]> {
        self.bounds.1.as_ref().map(Vec::as_slice)
    }

    /// Whether `key` lies before the first key of the range.
    pub fn is_before(&self, key: &[u8]) -> bool {
        match &self.bounds.0 {
            Bound::Unbounded => false,
            Bound::Included(low) => key < low.as_slice(),
            Bound::Excluded(low) => key <= low.as_slice(),
        }
    }

    /// Whether `key` lies behind the last key of the range.
    #[inline]
    pub fn is_behind(&self, key: &[u8]) -> bool {
        match &self.bounds.1 {
            Bound::Unbounded => false,
            Bound::Included(high) => key > high.as_slice(),
            Bound::Excluded(high) => key >= high.as_slice(),
        }
    }
}

impl Drop for RangeView {
    /// Releases the view, and lets a job delete the files that only this view had kept.
    fn drop(&mut self) {
        let Some(view) = self.view.take() else { return };
        match self.db.engine() {
            Ok(engine) => {
                drop(view);
                engine.reader_ended();
            }
            // A forked child: the view and its files belong to the parent.
            Err(_) => mem::forget(view),
        }
    }
}

fn is_empty_range(bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high))
        | (Bound::Excluded(low), Bound::Excluded(high)) => low >= high,
    }
}
