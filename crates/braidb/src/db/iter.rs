//! The iterator that users hold: a forward and a backward walk over one view. Each walk starts when it is first asked, and both stop
//! where they meet.

use super::bounds::Bounds;
use super::cursor::Cursor;
use super::database::Db;
use super::keys::Keys;
use super::range_view::RangeView;
use crate::base::error::{Error, Result};
use crate::base::ids::FamilyId;
use crate::base::value::Value;
use crate::read::{Backward, Forward};
use crate::visible::past_excises::AsOf;
use std::fmt;
use std::iter::FusedIterator;
use std::mem;

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
    /// `None` once the iterator has ended, and if it could not begin.
    walk: Option<Walk>,
    has_ended: bool,
    /// Before the iterator has ended: the error that it returns first. Afterwards: why there is no cursor.
    failed: Option<Error>,
}

struct Walk {
    range: RangeView,
    front: Option<Forward>,
    back: Option<Backward>,
}

impl Iter {
    pub(crate) fn new(db: &Db, family: FamilyId, bounds: Bounds, as_of: Option<AsOf>) -> Iter {
        match RangeView::new(db, family, bounds, as_of) {
            Ok(range) => Iter::over(range),
            Err(error) => Iter::failed(error),
        }
    }

    /// The entries of a range that was made before.
    pub(super) fn over(range: RangeView) -> Iter {
        let walk = Walk { range, front: None, back: None };
        Iter { walk: Some(walk), has_ended: false, failed: None }
    }

    pub(crate) fn failed(error: Error) -> Iter {
        Iter { walk: None, has_ended: false, failed: Some(error) }
    }

    /// A [`Cursor`] over all entries of the range, also over those that the iterator has returned. Once the iterator has returned an error or
    /// the end, each movement of its cursor fails: with this error, or with [`Error::Ended`](crate::Error::Ended).
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-iter-cursor-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// for key in ["a1", "a3", "b1"] {
    ///     db.put(key, "")?;
    /// }
    /// let mut cursor = db.prefix("a").cursor();
    /// assert!(cursor.seek("a2")?);
    /// assert_eq!(cursor.key(), Some(&b"a3"[..]));
    /// assert!(!cursor.next()?, "b1 lies outside of the range");
    /// # drop((cursor, db)); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn cursor(mut self) -> Cursor {
        let range = self.walk.take().map(|mut walk| {
            walk.end();
            walk.range
        });
        Cursor::new(range, self.failed.clone())
    }

    /// The keys of the range alone, also of entries that the iterator has returned. No value is read. After the end of the iterator there
    /// are none; after an error the keys begin with it.
    pub fn keys(mut self) -> Keys {
        let range = self.walk.take().map(|mut walk| {
            walk.end();
            walk.range
        });
        let failed = self.failed.take().filter(|error| !matches!(error, Error::Ended));
        Keys::new(range, failed)
    }

    /// The first entry alone.
    pub(crate) fn into_first(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        self.next().transpose()
    }

    /// The last entry alone.
    pub(crate) fn into_last(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        self.next_back().transpose()
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut Walk) -> Result<Option<(Vec<u8>, Value)>>,
    ) -> Option<Result<(Vec<u8>, Value)>> {
        if self.has_ended {
            return None;
        }
        let item = match (&self.failed, &mut self.walk) {
            (Some(error), _) => Some(Err(error.clone())),
            (None, Some(walk)) => step(walk).transpose(),
            (None, None) => None,
        };
        if !matches!(item, Some(Ok(_))) {
            self.has_ended = true;
            self.failed = Some(match &item {
                Some(Err(error)) => error.clone(),
                _ => Error::Ended,
            });
            // Releases the view, so that files which only this view had kept can go.
            self.walk.take().iter_mut().for_each(Walk::end);
        }
        item
    }
}

impl Walk {
    /// Ends the walks from both ends. The range stays.
    fn end(&mut self) {
        let (mut front, mut back) = (self.front.take(), self.back.take());
        let range = &self.range;
        if range.is_forked() {
            mem::forget((front, back));
            return;
        }
        if let Some(front) = &mut front {
            front.leave_gap(&range.bounds.1);
        }
        if let Some(back) = &mut back {
            back.leave_gap(&range.bounds.0);
        }
        let passed = [front.as_ref().and_then(Forward::passed), back.as_ref().and_then(Backward::passed)];
        drop((front, back));
        passed.into_iter().for_each(|passed| range.walk_ended(passed));
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        self.range.check()?;
        if self.front.is_none() {
            let Some(view) = self.range.of_family() else { return Ok(None) };
            let (low, context) = (self.range.low(), self.range.begin_walk()?);
            self.front = Some(Forward::new(view, self.range.at, low, context)?);
        }
        let back = self.back.as_ref().and_then(Backward::last_key);
        let range = &self.range;
        let within = |key: &[u8]| !range.is_behind(key) && back.is_none_or(|back| key < back);
        match self.front.as_mut().expect("made above").step(within)? {
            Some(entry) => Ok(Some(entry)),
            // The walk from the other end has already read the entry that is left.
            None => self.back.as_mut().and_then(Backward::take_last).transpose(),
        }
    }

    fn next_back(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        self.range.check()?;
        if self.back.is_none() {
            let Some(view) = self.range.of_family() else { return Ok(None) };
            let (high, context) = (self.range.high(), self.range.begin_walk()?);
            self.back = Some(Backward::new(view, self.range.at, high, context)?);
        }
        let front = self.front.as_ref().and_then(Forward::last_key);
        let range = &self.range;
        let within = |key: &[u8]| !range.is_before(key) && front.is_none_or(|front| key > front);
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
        self.walk.iter_mut().for_each(Walk::end);
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("ended", &self.has_ended).finish_non_exhaustive()
    }
}
