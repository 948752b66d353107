//! The cursor that users hold: one place among the entries of a range. It moves both ways, jumps, and lends keys and values.
//!
//! A walk of `read/scan.rs` goes one way. A cursor that turns ends its walk, and begins another one beside the entry where it stands.

use super::range_view::RangeView;
use crate::base::error::{Error, Result};
use crate::base::mutant::mutant;
use crate::memory::view::FamilyView;
use crate::read::{Backward, Forward};
use std::fmt;
use std::mem;
use std::ops::Bound;

/// A place among the entries of a range, as of the moment when the iterator was made from which the cursor comes ([`Iter::cursor`]).
///
/// A new cursor stands on no entry; [`next`](Cursor::next) moves it to the first one, and [`prev`](Cursor::prev) to the last. Each movement
/// returns whether the cursor stands on an entry afterwards. A cursor that ran over an end stands behind it, and comes back by a movement the
/// other way. Movements in one direction are cheap. A turn costs about as much as a seek.
///
/// Keys and values are lent until the next movement. A value is read when it is asked for, so a walk over keys alone reads no values of
/// value files. A walk that asks for them reads them ahead, as an [`Iter`] does.
///
/// A cursor keeps the database open and keeps the files that it reads from being deleted.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-cursor-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for (key, value) in [("apple", "red"), ("lemon", "yellow"), ("plum", "blue")] {
///     db.put(key, value)?;
/// }
/// let mut cursor = db.iter().cursor();
/// assert!(cursor.seek("b")?);
/// assert_eq!(cursor.key(), Some(&b"lemon"[..]));
/// assert_eq!(cursor.value()?, Some(&b"yellow"[..]));
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.key(), Some(&b"apple"[..]));
/// assert!(!cursor.prev()?, "no entry lies before apple");
/// assert!(cursor.seek_for_prev("melon")?);
/// assert_eq!(cursor.key(), Some(&b"lemon"[..]));
/// # drop((cursor, db)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
///
/// # Errors
///
/// Every movement, and the reading of a value, can fail as [`Db::get`](crate::Db::get) does. After a movement that failed the cursor stands
/// on no entry, and only `first`, `last` and the seeks move it again.
///
/// [`Iter`]: crate::Iter
/// [`Iter::cursor`]: crate::Iter::cursor
pub struct Cursor {
    /// `None` if the iterator could not begin, or has ended.
    range: Option<RangeView>,
    place: Place,
    /// What each movement returns, if the iterator could not begin.
    failed: Option<Error>,
}

enum Place {
    /// Not moved yet.
    New,
    /// A movement failed.
    Lost,
    BeforeFirst,
    BehindLast,
    /// On the entry to which the walk came last.
    Forward(Forward),
    Backward(Backward),
}

impl Cursor {
    pub(super) fn new(range: Option<RangeView>, failed: Option<Error>) -> Cursor {
        debug_assert!(range.is_none() || failed.is_none(), "an iterator that failed has given up its range");
        Cursor { range, place: Place::New, failed }
    }

    /// Moves to the first entry.
    pub fn first(&mut self) -> Result<bool> {
        self.walk_forward(None)
    }

    /// Moves to the last entry.
    pub fn last(&mut self) -> Result<bool> {
        self.walk_backward(None)
    }

    /// Moves to the first entry whose key is `key` or larger.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match &self.range {
            Some(range) if range.is_before(key) => self.first(),
            _ => self.walk_forward(Some(Bound::Included(key))),
        }
    }

    /// Moves to the last entry whose key is `key` or smaller.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match &self.range {
            Some(range) if range.is_behind(key) => self.last(),
            _ => self.walk_backward(Some(Bound::Included(key))),
        }
    }

    /// Moves to the next entry in key order.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend its entries")]
    pub fn next(&mut self) -> Result<bool> {
        if let Place::Forward(_) = self.place { self.step_forward() } else { self.turn_forward() }
    }

    /// As [`Cursor::next`], from any place but that of a walk forward.
    #[inline(never)]
    fn turn_forward(&mut self) -> Result<bool> {
        match &self.place {
            Place::Forward(_) => unreachable!("a walk forward steps"),
            Place::Backward(walk) => {
                let key = walk.key().to_vec();
                let is_repeated = mutant!("cursor_turn_repeats_a_key");
                let low = if is_repeated { Bound::Included(&key[..]) } else { Bound::Excluded(&key[..]) };
                self.walk_forward(Some(low))
            }
            Place::New | Place::BeforeFirst => self.first(),
            Place::BehindLast | Place::Lost => self.begin().map(|_| false),
        }
    }

    /// Moves to the next entry against key order.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        if let Place::Backward(_) = self.place { self.step_backward() } else { self.turn_backward() }
    }

    /// As [`Cursor::prev`], from any place but that of a walk backward.
    #[inline(never)]
    fn turn_backward(&mut self) -> Result<bool> {
        match &self.place {
            Place::Backward(_) => unreachable!("a walk backward steps"),
            Place::Forward(walk) => {
                let key = walk.key().to_vec();
                self.walk_backward(Some(Bound::Excluded(&key)))
            }
            Place::New | Place::BehindLast => self.last(),
            Place::BeforeFirst | Place::Lost => self.begin().map(|_| false),
        }
    }

    /// The key of the entry on which the cursor stands.
    pub fn key(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Forward(walk) => Some(walk.key()),
            Place::Backward(walk) => Some(walk.key()),
            _ => None,
        }
    }

    /// The value of the entry on which the cursor stands. An error does not move the cursor.
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.entry()?.map(|(_, value)| value))
    }

    /// The key and the value of the entry on which the cursor stands. An error does not move the cursor.
    #[inline]
    pub fn entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some(range) = &self.range else { return self.begin().map(|_| None) };
        range.check()?;
        match &mut self.place {
            Place::Forward(walk) => walk.entry(|key| !range.is_behind(key)).map(Some),
            Place::Backward(walk) => walk.entry(|key| !range.is_before(key)).map(Some),
            _ => Ok(None),
        }
    }

    /// Ends the walk, and begins one forward from `low`, or from the lower bound of the range.
    fn walk_forward(&mut self, low: Option<Bound<&[u8]>>) -> Result<bool> {
        self.end_walk();
        let Some((range, view)) = self.begin()? else { return Ok(false) };
        let walk = Forward::new(view, range.at, low.unwrap_or(range.low()), range.begin_walk()?)?;
        self.place = Place::Forward(walk);
        self.step_forward()
    }

    /// Ends the walk, and begins one backward from `high`, or from the upper bound of the range.
    fn walk_backward(&mut self, high: Option<Bound<&[u8]>>) -> Result<bool> {
        self.end_walk();
        let Some((range, view)) = self.begin()? else { return Ok(false) };
        let walk = Backward::new(view, range.at, high.unwrap_or(range.high()), range.begin_walk()?)?;
        self.place = Place::Backward(walk);
        self.step_backward()
    }

    /// The range and its entries, if it has keys. Fails as the iterator did that could not begin, after a close, and in a forked child.
    fn begin(&self) -> Result<Option<(&RangeView, &FamilyView)>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.range.iter().try_for_each(RangeView::check)?;
        Ok(self.range.as_ref().and_then(|range| Some((range, range.of_family()?))))
    }

    fn step_forward(&mut self) -> Result<bool> {
        let (Some(range), Place::Forward(walk)) = (&self.range, &mut self.place) else { return Ok(false) };
        match range.check().and_then(|()| walk.advance(|key| !range.is_behind(key))) {
            Ok(true) => Ok(true),
            moved => self.moved_off(moved, Place::BehindLast),
        }
    }

    fn step_backward(&mut self) -> Result<bool> {
        let (Some(range), Place::Backward(walk)) = (&self.range, &mut self.place) else { return Ok(false) };
        match range.check().and_then(|()| walk.advance(|key| !range.is_before(key))) {
            Ok(true) => Ok(true),
            moved => self.moved_off(moved, Place::BeforeFirst),
        }
    }

    /// Ends the walk, which did not move to an entry.
    #[inline(never)]
    fn moved_off(&mut self, moved: Result<bool>, beyond: Place) -> Result<bool> {
        self.end_walk();
        if moved.is_ok() {
            self.place = beyond;
        }
        moved
    }

    /// Ends the walk. The cursor stands on no entry.
    fn end_walk(&mut self) {
        let Some(range) = &self.range else { return };
        if range.is_forked() {
            mem::forget(mem::replace(&mut self.place, Place::Lost));
            return;
        }
        let passed = match &mut self.place {
            Place::Forward(walk) => {
                walk.leave_gap(&range.bounds.1);
                walk.passed()
            }
            Place::Backward(walk) => {
                walk.leave_gap(&range.bounds.0);
                walk.passed()
            }
            _ => None,
        };
        self.place = Place::Lost;
        range.walk_ended(passed);
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.end_walk();
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("key", &self.key()).finish_non_exhaustive()
    }
}
