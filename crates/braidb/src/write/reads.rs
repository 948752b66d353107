//! What a transaction has read, and whether a write may have changed it.

use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key::{self, Span};
use crate::base::mutant::mutant;
use crate::visible::past_excises::AsOf;
use std::ops::Bound;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Points that a new read set takes before it drops doubles for the first time.
const FIRST_TIDY_POINTS: usize = 64;

/// A key that was read. Points sort by family and hash, so that a write finds its point without its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub family: FamilyId,
    hash: u64,
    pub key: Box<[u8]>,
}

/// A range of keys that a scan has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRange {
    pub family: FamilyId,
    pub low: Bound<Vec<u8>>,
    pub high: Bound<Vec<u8>>,
}

impl ReadRange {
    /// The lower bound as a place between keys: the key, and whether the place is behind it.
    fn start(&self) -> (FamilyId, &[u8], bool) {
        match &self.low {
            Bound::Unbounded => (self.family, &[], false),
            Bound::Included(low) => (self.family, low, false),
            Bound::Excluded(low) => (self.family, low, true),
        }
    }

    /// The upper bound as a place between keys. `None` has no end.
    fn end(&self) -> Option<(&[u8], bool)> {
        match &self.high {
            Bound::Unbounded => None,
            Bound::Included(high) => Some((high, true)),
            Bound::Excluded(high) => Some((high, false)),
        }
    }

    /// Whether no key lies within the bounds.
    fn is_empty(&self) -> bool {
        let (_, low, is_behind) = self.start();
        self.end().is_some_and(|end| end <= (low, is_behind))
    }

    /// Whether the key, or a key that begins with `key` if `is_cut`, may lie before the upper bound.
    fn ends_behind(&self, key: &[u8], is_cut: bool) -> bool {
        match self.end() {
            None => true,
            Some((high, _)) if is_cut => key <= &high[..high.len().min(key.len())],
            Some(end) => (key, false) < end,
        }
    }
}

/// The keys and ranges that a transaction has read, keys without a value included.
#[derive(Clone, Debug, Default)]
pub struct ReadSet {
    points: Vec<Point>,
    ranges: Vec<ReadRange>,
    /// Doubles are dropped when there are as many points.
    tidy_at: usize,
}

impl ReadSet {
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    pub fn ranges(&self) -> &[ReadRange] {
        &self.ranges
    }

    pub fn add_point(&mut self, family: FamilyId, key: &[u8]) {
        self.points.push(Point { family, hash: key::hash(key), key: key.into() });
        if self.points.len() >= self.tidy_at.max(FIRST_TIDY_POINTS) {
            self.tidy();
            self.tidy_at = 2 * self.points.len();
        }
    }

    /// Adds a range. Returns its place, for [`ReadSet::narrow`].
    pub fn add_range(&mut self, family: FamilyId, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> usize {
        self.ranges.push(ReadRange { family, low, high });
        self.ranges.len() - 1
    }

    /// Replaces the range at `place` by the parts of it that were read: up to `front`, and from `back` on.
    pub fn narrow(&mut self, place: usize, front: Option<Vec<u8>>, back: Option<Vec<u8>>) {
        let range = &mut self.ranges[place];
        let family = range.family;
        let (low, high) = (range.low.clone(), range.high.clone());
        let mut parts = [
            front.map(|front| ReadRange { family, low, high: Bound::Included(front) }),
            back.map(|back| ReadRange { family, low: Bound::Included(back), high }),
        ]
        .into_iter()
        .flatten();
        // A scan that returned no entry before it was dropped has read nothing.
        *range = parts.next().unwrap_or(ReadRange {
            family,
            low: Bound::Excluded(Vec::new()),
            high: Bound::Excluded(Vec::new()),
        });
        self.ranges.extend(parts);
    }

    /// Sorts the points and drops doubles.
    fn tidy(&mut self) {
        self.points.sort_unstable();
        self.points.dedup();
    }

    /// Sorts points and ranges, and joins ranges that meet. Call it when all reads are noted, and before [`ReadSet::may_touch`].
    pub fn finish(&mut self) {
        self.tidy();
        self.ranges.retain(|range| !range.is_empty());
        self.ranges.sort_by(|a, b| a.start().cmp(&b.start()));
        self.ranges.dedup_by(|next, last| {
            let (family, low, is_behind) = next.start();
            let meets = family == last.family && last.end().is_none_or(|end| (low, is_behind) <= end);
            if meets && last.end().is_some_and(|end| next.end().is_none_or(|other| other > end)) {
                last.high = next.high.clone();
            }
            meets
        });
    }

    /// Whether a write of the key concerns the reads. `key` may be cut; `hash` is of the whole key.
    pub fn may_touch(&self, family: FamilyId, hash: u64, key: &[u8], is_cut: bool) -> bool {
        let at = self.points.partition_point(|point| (point.family, point.hash) < (family, hash));
        if self.points.get(at).is_some_and(|point| (point.family, point.hash) == (family, hash)) {
            return true;
        }
        !mutant!("phantom_unseen") && self.may_lie_in_a_range(family, key, is_cut)
    }

    /// Whether keys of a span are among the reads.
    pub fn meets(&self, family: FamilyId, span: &Span) -> bool {
        let bounds = |range: &ReadRange| {
            Span::between((range.low.as_ref().map(Vec::as_slice), range.high.as_ref().map(Vec::as_slice)))
        };
        self.points.iter().any(|point| point.family == family && span.contains(&point.key))
            || self
                .ranges
                .iter()
                .any(|range| range.family == family && bounds(range).is_some_and(|read| read.overlaps(span)))
    }

    fn may_lie_in_a_range(&self, family: FamilyId, key: &[u8], is_cut: bool) -> bool {
        // The last range that begins before the key. Ranges are disjoint, so earlier ones end before this one begins.
        let next = self.ranges.partition_point(|range| range.start() <= (family, key, false));
        let before = next.checked_sub(1).map(|last| &self.ranges[last]);
        if before.is_some_and(|range| range.family == family && range.ends_behind(key, is_cut)) {
            return true;
        }
        // A cut key may go on so that it lies in the next range.
        let begins_alike = |range: &ReadRange| {
            let (of, low, _) = range.start();
            of == family && low.starts_with(key)
        };
        is_cut && self.ranges.get(next).is_some_and(begins_alike)
    }
}

/// What the holder of the commit lock found out about a check.
const PASSED: u8 = 0;
const CHANGED: u8 = 1;
const UNKNOWN: u8 = 2;

/// The reads of a transaction that wants to commit. The holder of the commit lock checks them right before the commit.
#[derive(Debug)]
pub struct Check {
    reads: ReadSet,
    /// The reads are true at this number.
    true_at: AtomicU64,
    /// How many excises of this open came before the reads.
    excises: u64,
    verdict: AtomicU8,
}

impl Check {
    /// A check of the reads of a snapshot.
    pub fn new(mut reads: ReadSet, as_of: AsOf) -> Check {
        reads.finish();
        let AsOf { seq, excises } = as_of;
        Check { reads, true_at: AtomicU64::new(seq), excises, verdict: AtomicU8::new(PASSED) }
    }

    /// How many excises of this open came before the reads.
    pub fn excises(&self) -> u64 {
        self.excises
    }

    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    pub fn true_at(&self) -> SeqNo {
        self.true_at.load(Ordering::Relaxed)
    }

    /// The transaction has compared its reads again: they are true at the number `at` too.
    pub fn is_true_at(&self, at: SeqNo) {
        self.true_at.store(at, Ordering::Relaxed);
    }

    /// Notes that no write since has concerned the reads.
    pub(super) fn pass(&self) {
        self.verdict.store(PASSED, Ordering::Relaxed);
    }

    /// Notes that a write has changed what the transaction read.
    pub(super) fn refuse(&self) {
        self.verdict.store(CHANGED, Ordering::Relaxed);
    }

    /// Notes that the queue does not know all writes since.
    pub(super) fn overrun(&self) {
        self.verdict.store(UNKNOWN, Ordering::Relaxed);
    }

    /// Whether the queue refused the commit because it does not know all writes since.
    pub fn is_overrun(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) == UNKNOWN
    }

    /// `Conflict` unless the check passed.
    pub(super) fn outcome(&self) -> Result<()> {
        match self.verdict.load(Ordering::Relaxed) {
            PASSED => Ok(()),
            _ => Err(Error::Conflict),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: FamilyId = FamilyId(0);

    fn touches(reads: &ReadSet, key: &[u8]) -> bool {
        reads.may_touch(FAMILY, key::hash(key), key, false)
    }

    #[test]
    fn doubles_are_dropped_as_points_come() {
        let mut reads = ReadSet::default();
        for number in 0..100_000_u32 {
            reads.add_point(FAMILY, &(number % 10).to_be_bytes());
        }
        assert!(reads.points().len() <= FIRST_TIDY_POINTS);
        reads.finish();
        assert_eq!(reads.points().len(), 10);
    }

    #[test]
    fn a_range_narrows_to_what_was_read_of_it() {
        let mut reads = ReadSet::default();
        let place = reads.add_range(FAMILY, Bound::Excluded(b"b".to_vec()), Bound::Excluded(b"y".to_vec()));
        let mut whole = reads.clone();
        whole.finish();
        assert!(touches(&whole, b"m") && !touches(&whole, b"b") && !touches(&whole, b"y"));
        reads.narrow(place, Some(b"d".to_vec()), Some(b"x".to_vec()));
        let unread = reads.add_range(FAMILY, Bound::Unbounded, Bound::Unbounded);
        reads.narrow(unread, None, None);
        reads.finish();
        for (key, is_read) in
            [("b", false), ("c", true), ("d", true), ("e", false), ("x", true), ("y", false)]
        {
            assert_eq!(touches(&reads, key.as_bytes()), is_read, "{key}");
        }
        assert!(!touches(&reads, b"m") && !touches(&reads, b"") && reads.ranges().len() == 2);
    }

    #[test]
    fn ranges_that_meet_are_joined() {
        let key = |letter: &str| letter.as_bytes().to_vec();
        let mut reads = ReadSet::default();
        for (family, low, high) in [
            (0, Bound::Included(key("m")), Bound::Unbounded),
            (0, Bound::Included(key("b")), Bound::Included(key("d"))),
            (0, Bound::Excluded(key("d")), Bound::Excluded(key("f"))),
            (0, Bound::Included(key("c")), Bound::Included(key("c"))),
            (0, Bound::Excluded(key("f")), Bound::Included(key("h"))),
            (1, Bound::Unbounded, Bound::Excluded(key("c"))),
            (0, Bound::Included(key("z")), Bound::Included(key("a"))),
        ] {
            reads.add_range(FamilyId(family), low, high);
        }
        reads.finish();
        assert_eq!(reads.ranges().len(), 4, "{:?}", reads.ranges());
        for (letter, is_read) in [
            ("a", false),
            ("b", true),
            ("d", true),
            ("e", true),
            ("f", false),
            ("g", true),
            ("i", false),
            ("x", true),
        ] {
            assert_eq!(touches(&reads, letter.as_bytes()), is_read, "{letter}");
        }
        let of_next = |letter: &str| reads.may_touch(FamilyId(1), 0, letter.as_bytes(), false);
        assert!(of_next("") && of_next("b") && !of_next("c"));
        assert!(!reads.may_touch(FamilyId(2), 0, b"b", false));
    }
}
