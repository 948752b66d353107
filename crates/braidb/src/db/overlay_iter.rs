//! The iterator of an overlay: staged writes merged above the database's entries, from both ends.
//!
//! The staged writes stand above the walk over the database. So the walk knows nothing of them when it notes and jumps ranges of deleted keys
//! (`read/trail.rs`).

use super::bounds::Bounds;
use super::database::Db;
use super::iter::Iter;
use super::staged::{Moment, Staged};
use crate::base::error::{Error, Result};
use crate::base::ids::FamilyId;
use crate::base::value::Value;
use braidb_storage::locks::RwLock;
use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

type Entry = (Vec<u8>, Value);
/// A staged write: a delete has no value.
type Write = (Vec<u8>, Option<Value>);

/// Entries of an [`Overlay`](crate::Overlay) in key order, from both ends, as of the moment when the iterator was made.
///
/// Each item is a key and a value, or the error that ended the iteration, as for an [`Iter`](crate::Iter).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-overlayiter-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("b", "of the database")?;
/// let overlay = db.overlay();
/// overlay.put("a", "staged")?;
/// let mut entries = overlay.iter();
/// overlay.put("c", "staged later")?;
/// assert_eq!(entries.next_back().unwrap()?.0, b"b");
/// assert_eq!(entries.next().unwrap()?.0, b"a");
/// assert!(entries.next().is_none());
/// # drop((entries, overlay, db)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct OverlayIter {
    /// `None` if the iterator could not begin.
    db: Option<Db>,
    base: Iter,
    /// Entries of the database that were read and not taken.
    of_base: Ends<Entry>,
    staged: StagedIter,
    /// Staged writes that were read and not taken.
    of_staged: Ends<Write>,
    has_ended: bool,
}

/// The end from which an entry is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// The next item of a source from each end, if it was read and not taken.
struct Ends<T> {
    front: Option<T>,
    back: Option<T>,
}

impl<T> Ends<T> {
    const NONE: Ends<T> = Ends { front: None, back: None };

    /// The next item from an end. `read` reads it if it was not read yet. Where the source has no more, the item that the other end has read is
    /// the last one.
    fn peek(&mut self, end: End, read: impl FnOnce() -> Result<Option<T>>) -> Result<Option<&T>> {
        let (near, far) = match end {
            End::Front => (&mut self.front, &mut self.back),
            End::Back => (&mut self.back, &mut self.front),
        };
        if near.is_none() {
            *near = read()?.or_else(|| far.take());
        }
        Ok(near.as_ref())
    }

    fn take(&mut self, end: End) -> Option<T> {
        if end == End::Front { self.front.take() } else { self.back.take() }
    }
}

/// The staged writes of a range at a moment, from both ends.
struct StagedIter {
    staged: Arc<RwLock<Staged>>,
    moment: Moment,
    family: FamilyId,
    /// What was not read lies within these bounds.
    left: Bounds,
    has_ended: bool,
}

impl StagedIter {
    fn read(&mut self, end: End) -> Option<Write> {
        if self.has_ended {
            return None;
        }
        let staged = self.staged.read();
        let (low, high) = (self.left.0.as_ref(), self.left.1.as_ref());
        let left = (low.map(Vec::as_slice), high.map(Vec::as_slice));
        let found = match end {
            End::Front => staged.first(self.family, left, self.moment),
            End::Back => staged.last(self.family, left, self.moment),
        };
        let found = found.map(|(key, value)| (key.to_vec(), value.cloned()));
        match (&found, end) {
            (Some((key, _)), End::Front) => self.left.0 = Bound::Excluded(key.clone()),
            (Some((key, _)), End::Back) => self.left.1 = Bound::Excluded(key.clone()),
            (None, _) => self.has_ended = true,
        }
        found
    }
}

impl OverlayIter {
    pub(super) fn new(
        db: &Db,
        base: Iter,
        staged: Arc<RwLock<Staged>>,
        moment: Moment,
        family: FamilyId,
        bounds: Bounds,
    ) -> OverlayIter {
        let staged = StagedIter { staged, moment, family, left: bounds, has_ended: false };
        let db = Some(db.clone());
        OverlayIter { db, base, of_base: Ends::NONE, staged, of_staged: Ends::NONE, has_ended: false }
    }

    pub(super) fn failed(error: Error) -> OverlayIter {
        let left = (Bound::Unbounded, Bound::Unbounded);
        let (staged, family) = (Arc::default(), FamilyId::DEFAULT);
        let staged = StagedIter { staged, moment: 0, family, left, has_ended: true };
        let base = Iter::failed(error);
        OverlayIter { db: None, base, of_base: Ends::NONE, staged, of_staged: Ends::NONE, has_ended: false }
    }

    fn take(&mut self, end: End) -> Option<Result<Entry>> {
        if self.has_ended {
            return None;
        }
        // A forked child must not wait for the lock of the staged writes.
        let checked = self.db.as_ref().map_or(Ok(()), |db| db.engine()?.check_open());
        let taken = checked.and_then(|()| self.take_next(end)).transpose();
        self.has_ended = !matches!(taken, Some(Ok(_)));
        taken
    }

    fn take_next(&mut self, end: End) -> Result<Option<Entry>> {
        loop {
            let (base, staged) = (&mut self.base, &mut self.staged);
            let read = || if end == End::Front { base.next() } else { base.next_back() }.transpose();
            let base = self.of_base.peek(end, read)?;
            let Some((key, _)) = self.of_staged.peek(end, || Ok(staged.read(end)))? else {
                return Ok(self.of_base.take(end));
            };
            let order = base.map_or(Ordering::Less, |(base, _)| match end {
                End::Front => key.cmp(base),
                End::Back => base.cmp(key),
            });
            if order == Ordering::Greater {
                return Ok(self.of_base.take(end));
            }
            if order == Ordering::Equal {
                // The staged write hides the entry of the database.
                self.of_base.take(end);
            }
            if let Some((key, Some(value))) = self.of_staged.take(end) {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl Drop for OverlayIter {
    fn drop(&mut self) {
        match &self.db {
            // A thread that a forked child lacks may hold the lock, and may have been changing the staged writes.
            Some(db) if db.is_forked() => mem::forget(Arc::clone(&self.staged.staged)),
            Some(_) => self.staged.staged.write().hide(self.staged.moment),
            None => {}
        }
    }
}

impl Iterator for OverlayIter {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.take(End::Front)
    }
}

impl DoubleEndedIterator for OverlayIter {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.take(End::Back)
    }
}

impl FusedIterator for OverlayIter {}

impl fmt::Debug for OverlayIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverlayIter").field("ended", &self.has_ended).finish_non_exhaustive()
    }
}
