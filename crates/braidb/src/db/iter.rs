//! The iterator that users hold: a forward and a backward walk over one view. Each walk starts when it is first asked, and both stop
//! where they meet.

use super::bounds::Bounds;
use super::database::Db;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::value::Value;
use crate::memory::view::View;
use crate::read::{Backward, Forward};
use std::fmt;
use std::iter::FusedIterator;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// Entries of a range in key order, from both ends, as of the moment when the iterator was made.
///
/// Each item is a key and a pinned value, or the error that ended the iteration. Nothing follows an error. An iterator keeps the
/// database open and keeps the files that it reads from being deleted. After [`Db::close`], and in a forked child, it fails.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-iterator-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for key in ["a", "b", "c"] {
///     db.put(key, key)?;
/// }
/// let mut entries = db.iter();
/// assert_eq!(entries.next().unwrap()?.0, b"a");
/// assert_eq!(entries.next_back().unwrap()?.0, b"c");
/// assert_eq!(entries.next().unwrap()?.0, b"b");
/// assert!(entries.next().is_none() && entries.next_back().is_none());
/// # drop((db, entries)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct Iter {
    /// `None` when the iterator has ended.
    walk: Option<Walk>,
    /// Returned first; the iterator ends after it.
    failed: Option<Error>,
}

struct Walk {
    /// Keeps the database open while the walk reads its files.
    db: Db,
    view: Arc<View>,
    family: FamilyId,
    at: SeqNo,
    bounds: Bounds,
    front: Option<Forward>,
    back: Option<Backward>,
}

impl Iter {
    /// Registers the number first, then takes the view (rule 8). The view pins all files and memory that the walk needs.
    pub(crate) fn new(db: &Db, family: FamilyId, bounds: Bounds, at: Option<SeqNo>) -> Iter {
        let engine = match db.engine() {
            Ok(engine) => engine,
            Err(error) => return Iter::failed(error),
        };
        if is_empty_range(&bounds) {
            return Iter { walk: None, failed: None };
        }
        let registered = at.is_none().then(|| engine.snapshots().register());
        let view = engine.view();
        if let Some(seq) = registered {
            engine.snapshots().release(seq);
        }
        match view {
            Err(error) => Iter::failed(error),
            Ok(view) => {
                let at = at.or(registered).expect("one of them is there");
                let walk = Walk { db: db.clone(), view, family, at, bounds, front: None, back: None };
                Iter { walk: Some(walk), failed: None }
            }
        }
    }

    pub(crate) fn failed(error: Error) -> Iter {
        Iter { walk: None, failed: Some(error) }
    }

    /// The first entry alone.
    pub(crate) fn into_first(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        self.next().transpose()
    }

    /// The last entry alone.
    pub(crate) fn into_last(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        self.next_back().transpose()
    }

    /// Releases the view, and lets a job delete the files that only this view had kept.
    fn end(&mut self) {
        let Some(walk) = self.walk.take() else { return };
        if walk.db.is_forked() {
            // This is a forked child: the view and its files belong to the parent, so they are not released.
            mem::forget(walk);
            return;
        }
        let Walk { db, view, mut front, mut back, family, bounds, .. } = walk;
        if let Ok(engine) = db.engine() {
            if let Some(front) = &mut front {
                front.leave_gap(&bounds.1);
            }
            if let Some(back) = &mut back {
                back.leave_gap(&bounds.0);
            }
            let passed = [front.as_ref().and_then(Forward::passed), back.as_ref().and_then(Backward::passed)];
            drop((view, front, back));
            passed.into_iter().flatten().for_each(|passed| engine.scan_ended(family, passed));
            engine.reader_ended();
        }
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut Walk) -> Result<Option<(Vec<u8>, Value)>>,
    ) -> Option<Result<(Vec<u8>, Value)>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let item = step(self.walk.as_mut()?).transpose();
        if !matches!(item, Some(Ok(_))) {
            self.end();
        }
        item
    }
}

impl Walk {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        let engine = self.db.engine()?;
        engine.check_open()?;
        if self.front.is_none() {
            let view = &self.view.families[self.family.0 as usize];
            self.front = Some(Forward::new(view, self.at, &self.bounds.0, engine.begin_scan(self.family))?);
        }
        let back = self.back.as_ref().and_then(Backward::last_key);
        let within = |key: &[u8]| {
            let is_beyond = match &self.bounds.1 {
                Bound::Unbounded => false,
                Bound::Included(high) => key > high.as_slice(),
                Bound::Excluded(high) => key >= high.as_slice(),
            };
            !is_beyond && back.is_none_or(|back| key < back)
        };
        match self.front.as_mut().expect("made above").step(within)? {
            Some(entry) => Ok(Some(entry)),
            // The walk from the other end has already read the entry that is left.
            None => self.back.as_mut().and_then(Backward::take_last).transpose(),
        }
    }

    fn next_back(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        let engine = self.db.engine()?;
        engine.check_open()?;
        if self.back.is_none() {
            let view = &self.view.families[self.family.0 as usize];
            self.back = Some(Backward::new(view, self.at, &self.bounds.1, engine.begin_scan(self.family))?);
        }
        let front = self.front.as_ref().and_then(Forward::last_key);
        let within = |key: &[u8]| {
            let is_beyond = match &self.bounds.0 {
                Bound::Unbounded => false,
                Bound::Included(low) => key < low.as_slice(),
                Bound::Excluded(low) => key <= low.as_slice(),
            };
            !is_beyond && front.is_none_or(|front| key > front)
        };
        match self.back.as_mut().expect("made above").step(within)? {
            Some(entry) => Ok(Some(entry)),
            // The walk from the other end has already read the entry that is left.
            None => self.front.as_mut().and_then(Forward::take_last).transpose(),
        }
    }
}

impl IntoIterator for &Db {
    type Item = Result<(Vec<u8>, Value)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Walk::next)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Walk::next_back)
    }
}

impl FusedIterator for Iter {}

impl Drop for Iter {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("ended", &self.walk.is_none()).finish_non_exhaustive()
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
