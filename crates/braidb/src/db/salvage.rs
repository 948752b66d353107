//! Salvage: the rows of a damaged database that can be proved, and the key ranges that cannot.
//!
//! A damaged block may hold the newest version of each key that the block's place in the index allows. So every row in the range of such a
//! block is in doubt: an older version below it would pass for the newest. [`Salvage`] first asks each table of the family for its
//! damaged blocks. The keys of a damaged block, and of a table that cannot be opened, become a hole. The walk then reads the ranges
//! between the holes. A value that cannot be read, in a value file or a log, makes a hole of one key.

use super::bounds::{Bounds, IntoBounds};
use super::database::Db;
use super::family::ColumnFamily;
use super::iter::Iter;
use super::range_view::RangeView;
use super::snapshot::Snapshot;
use crate::base::error::{Error, Result};
use crate::base::ids::FamilyId;
use crate::base::report::DamagedRange;
use crate::base::value::Value;
use crate::memory::view::View;
use crate::read;
use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

/// One item of a [`Salvage`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Salvaged {
    /// A row, as [`Iter`](crate::Iter) would give it.
    Row(Vec<u8>, Value),
    /// A range of keys about which nothing can be told. It may overlap the holes before and behind it.
    Hole(DamagedRange),
}

/// The rows of a range that can be proved, in key order, with the holes between them.
///
/// A database with missing or cut files has to be opened by [`Options::open_damaged`](crate::Options::open_damaged). An error ends the
/// iteration; it is not about damage, but about the handle ([`Error::Closed`]).
///
/// ```
/// use braidb::Salvaged;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-salvage-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// # db.put("k", "v")?;
/// # db.close()?;
/// let damaged = braidb::Options::new().open_damaged(true).open_read_only(&dir)?;
/// for item in damaged.salvage(..) {
///     match item? {
///         Salvaged::Row(key, value) => println!("{} = {}", key.escape_ascii(), value.escape_ascii()),
///         Salvaged::Hole(hole) => eprintln!("lost: {hole}"),
///         _ => {}
///     }
/// }
/// # drop((db, damaged)); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct Salvage {
    db: Db,
    family: FamilyId,
    /// The moment of all parts; `None` if the walk could not begin.
    moment: Option<(Snapshot, Arc<View>)>,
    parts: VecDeque<Part>,
    /// The part that is being read.
    current: Option<Reading>,
    failed: Option<Error>,
}

/// A stretch of the range.
enum Part {
    Whole(Bounds),
    Hole(DamagedRange),
}

struct Reading {
    rows: Iter,
    /// From the first key that was not returned yet.
    rest: Bounds,
}

impl Db {
    /// The rows of the default family that can be proved, and the holes between them.
    pub fn salvage(&self, range: impl IntoBounds) -> Salvage {
        Salvage::new(self, Ok(FamilyId::DEFAULT), range.into_bounds())
    }
}

impl ColumnFamily {
    /// The rows of this family that can be proved, and the holes between them.
    pub fn salvage(&self, range: impl IntoBounds) -> Salvage {
        let db = self.db();
        Salvage::new(db, self.check_of(db), range.into_bounds())
    }
}

impl Salvage {
    fn new(db: &Db, family: Result<FamilyId>, bounds: Bounds) -> Salvage {
        let nothing = |failed| Salvage {
            db: db.clone(),
            family: FamilyId::DEFAULT,
            moment: None,
            parts: VecDeque::new(),
            current: None,
            failed: Some(failed),
        };
        let begin = || {
            let family = family?;
            let (snapshot, view) = loop {
                let (snapshot, view) = (db.snapshot(), db.engine()?.view()?);
                // Otherwise an excise came between, and the snapshot is of the moment before it.
                if view.excises == snapshot.as_of().excises {
                    break (snapshot, view);
                }
            };
            let damaged = read::damaged_ranges(&view.families[family.0 as usize], &bounds)?;
            Ok((family, (snapshot, view), parts(damaged, bounds)))
        };
        match begin() {
            Ok((family, moment, parts)) => {
                Salvage { family, moment: Some(moment), parts, failed: None, ..nothing(Error::Ended) }
            }
            Err(error) => nothing(error),
        }
    }

    /// The rows of a part. The walk sees the slices alone that reach into the part: it would open a damaged one behind its end, too.
    fn rows(&self, bounds: Bounds) -> Iter {
        let Some((snapshot, view)) = &self.moment else { return Iter::failed(Error::Ended) };
        let (mut view, family) = (View::clone(view), self.family.0 as usize);
        let shown = &mut view.families[family];
        shown.version =
            Arc::new(shown.version.only(|slice| read::touches(&slice.range, &bounds.0, &bounds.1)));
        Iter::over(RangeView::of_part(&self.db, Arc::new(view), self.family, bounds, snapshot.as_of().seq))
    }

    /// The next item, or the error that ends the walk.
    fn step(&mut self) -> Result<Option<Salvaged>> {
        loop {
            let Some(reading) = &mut self.current else {
                match self.parts.pop_front() {
                    None => return Ok(None),
                    Some(Part::Hole(hole)) => return Ok(Some(Salvaged::Hole(hole))),
                    Some(Part::Whole(rest)) => {
                        self.current = Some(Reading { rows: self.rows(rest.clone()), rest });
                        continue;
                    }
                }
            };
            match reading.rows.next() {
                None => self.current = None,
                Some(Ok((key, value))) => {
                    reading.rest.0 = Bound::Excluded(key.clone());
                    return Ok(Some(Salvaged::Row(key, value)));
                }
                Some(Err(error)) => return self.pass(error).map(|hole| Some(Salvaged::Hole(hole))),
            }
        }
    }

    /// Passes over the next row, which could not be read. If not even its key can be read, gives up the rest of the part.
    fn pass(&mut self, error: Error) -> Result<DamagedRange> {
        self.db.engine()?.check_open()?;
        let Some(Reading { rest: (low, high), .. }) = self.current.take() else { return Err(error) };
        let next = self.rows((low.clone(), high.clone())).keys().next();
        if let Some(Ok(key)) = next {
            let rest = (Bound::Excluded(key.clone()), high);
            self.current = Some(Reading { rows: self.rows(rest.clone()), rest });
            return Ok(DamagedRange::new(key.clone(), Some(key), &error));
        }
        let low = match low {
            Bound::Included(low) | Bound::Excluded(low) => low,
            Bound::Unbounded => Vec::new(),
        };
        let high = match high {
            Bound::Included(high) | Bound::Excluded(high) => Some(high),
            Bound::Unbounded => None,
        };
        Ok(DamagedRange::new(low, high, &error))
    }
}

/// The holes in the order of their low keys, and what lies between them.
fn parts(mut holes: Vec<DamagedRange>, (low, high): Bounds) -> VecDeque<Part> {
    holes.sort_by(|a, b| (&a.low, &a.high).cmp(&(&b.low, &b.high)));
    let mut parts = VecDeque::new();
    let mut from = Some(low);
    for hole in holes {
        if let Some(at) = &from {
            parts.push_back(Part::Whole((at.clone(), Bound::Excluded(hole.low.clone()))));
        }
        from = from.and_then(|from| behind(from, hole.high.as_deref()));
        parts.push_back(Part::Hole(hole));
    }
    parts.extend(from.map(|from| Part::Whole((from, high))));
    parts
}

/// The bound behind `from` and behind `high`; `None` if nothing lies behind `high`.
fn behind(from: Bound<Vec<u8>>, high: Option<&[u8]>) -> Option<Bound<Vec<u8>>> {
    let high = high?;
    let is_behind = match &from {
        Bound::Included(key) => key.as_slice() > high,
        Bound::Excluded(key) => key.as_slice() >= high,
        Bound::Unbounded => false,
    };
    Some(if is_behind { from } else { Bound::Excluded(high.to_vec()) })
}

impl Iterator for Salvage {
    type Item = Result<Salvaged>;

    fn next(&mut self) -> Option<Result<Salvaged>> {
        let item = match self.failed.take() {
            Some(error) => Some(Err(error)),
            None => self.step().transpose(),
        };
        if !matches!(item, Some(Ok(_))) {
            self.parts.clear();
            self.current = None;
        }
        item
    }
}

impl FusedIterator for Salvage {}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(low: &str, high: Option<&str>) -> DamagedRange {
        DamagedRange::new(low.into(), high.map(Into::into), &Error::Closed)
    }

    /// The parts in words.
    fn told(holes: &[(&str, Option<&str>)], bounds: impl IntoBounds) -> Vec<String> {
        let bound = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => format!("={}", key.escape_ascii()),
            Bound::Excluded(key) => format!("~{}", key.escape_ascii()),
            Bound::Unbounded => "*".to_owned(),
        };
        let holes = holes.iter().map(|&(low, high)| hole(low, high)).collect();
        let told = |part| match part {
            Part::Whole((low, high)) => format!("{}..{}", bound(&low), bound(&high)),
            Part::Hole(hole) => format!("hole {}", hole.low.escape_ascii()),
        };
        parts(holes, bounds.into_bounds()).into_iter().map(told).collect()
    }

    #[test]
    fn holes_that_overlap_leave_no_row_between_them() {
        assert_eq!(told(&[], ..), ["*..*"]);
        assert_eq!(
            told(&[("f", Some("m")), ("c", Some("g")), ("d", Some("e"))], ..),
            ["*..~c", "hole c", "~g..~d", "hole d", "~g..~f", "hole f", "~m..*"]
        );
        assert_eq!(told(&[("c", None), ("d", Some("e"))], "a".."z"), ["=a..~c", "hole c", "hole d"]);
        assert_eq!(
            told(&[("a", Some("b"))], "c"..),
            ["=c..~a", "hole a", "=c..*"],
            "the first part is empty"
        );
    }
}
