//! The iterator over keys alone. It reads no values, so values in value files and logs cost it nothing.

use super::range_view::RangeView;
use crate::base::error::{Error, Result};
use crate::read::{Backward, Forward};
use std::fmt;
use std::iter::FusedIterator;
use std::mem;

/// Keys of a range in key order, from both ends, as of the moment when the iterator was made from which they come ([`Iter::keys`]).
///
/// Each item is a key, or the error that ended the iteration.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-keys-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for key in ["a1", "a2", "b1"] {
///     db.put(key, "a large value")?;
/// }
/// let keys: Result<Vec<_>, _> = db.prefix("a").keys().rev().collect();
/// assert_eq!(keys?, [b"a2", b"a1"]);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
///
/// [`Iter::keys`]: crate::Iter::keys
pub struct Keys {
    /// `None` once the iterator has ended, and if it could not begin.
    range: Option<RangeView>,
    front: Option<Forward>,
    back: Option<Backward>,
    /// Returned first, if the iterator could not begin.
    failed: Option<Error>,
}

impl Keys {
    pub(super) fn new(range: Option<RangeView>, failed: Option<Error>) -> Keys {
        Keys { range, front: None, back: None, failed }
    }

    fn step(&mut self, step: impl FnOnce(&mut Keys) -> Result<Option<Vec<u8>>>) -> Option<Result<Vec<u8>>> {
        if let Some(error) = self.failed.take() {
            self.end();
            return Some(Err(error));
        }
        let item = step(self).transpose();
        if !matches!(item, Some(Ok(_))) {
            self.end();
        }
        item
    }

    fn next_key(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(range) = &self.range else { return Ok(None) };
        range.check()?;
        if self.front.is_none() {
            let Some(view) = range.of_family() else { return Ok(None) };
            self.front = Some(Forward::new(view, range.at, range.low(), range.begin_walk()?)?);
        }
        let front = self.front.as_mut().expect("made above");
        let back = self.back.as_ref().and_then(Backward::last_key);
        let is_there = front.advance(|key| !range.is_behind(key) && back.is_none_or(|back| key < back))?;
        Ok(is_there.then(|| front.key().to_vec()))
    }

    fn next_key_back(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(range) = &self.range else { return Ok(None) };
        range.check()?;
        if self.back.is_none() {
            let Some(view) = range.of_family() else { return Ok(None) };
            self.back = Some(Backward::new(view, range.at, range.high(), range.begin_walk()?)?);
        }
        let back = self.back.as_mut().expect("made above");
        let front = self.front.as_ref().and_then(Forward::last_key);
        let is_there = back.advance(|key| !range.is_before(key) && front.is_none_or(|front| key > front))?;
        Ok(is_there.then(|| back.key().to_vec()))
    }

    /// Ends the walks and releases the view, so that files which only this view had kept can go.
    fn end(&mut self) {
        let (Some(range), mut front, mut back) = (self.range.take(), self.front.take(), self.back.take())
        else {
            return;
        };
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
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        self.step(Keys::next_key)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Result<Vec<u8>>> {
        self.step(Keys::next_key_back)
    }
}

impl FusedIterator for Keys {}

impl Drop for Keys {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("ended", &self.range.is_none()).finish_non_exhaustive()
    }
}
