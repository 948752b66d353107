//! Ranges that were excised (`jobs/excise.rs`), and what readers of earlier moments must not read.
//!
//! An excise takes old versions away that a snapshot may still want. So a snapshot counts the excises before it, and a read in a range that
//! was excised later fails by name. Reads without a snapshot see a moment after the excise. An iterator that is open keeps its view, which has
//! the old versions.
//!
//! The view has the list of ranges, so that a reader finds range and tree as one edit left them. Only memory holds the list: no snapshot
//! survives the end of the process.

use crate::base::error::{Error, Result};
use crate::base::ids::SeqNo;
use crate::base::key::Span;

/// The moment of a snapshot: all writes up to the number `seq`, and the first `excises` excises of this open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsOf {
    pub seq: SeqNo,
    pub excises: u64,
}

/// The ranges of one family that were excised, as long as a snapshot may be older.
#[derive(Clone, Debug, Default)]
pub struct PastExcises(Vec<PastRange>);

/// A range of one excise.
#[derive(Clone, Debug)]
struct PastRange {
    /// Counts all excises of this open, from 1.
    number: u64,
    /// The number that was visible before the excise took effect. Every older snapshot has at most this number.
    visible: SeqNo,
    span: Span,
}

impl PastExcises {
    /// The list with the ranges of excise `number`, and without ranges that no registered snapshot can be older than. `watermark` is at or
    /// below the number of each snapshot.
    pub fn with(&self, number: u64, spans: &[Span], visible: SeqNo, watermark: SeqNo) -> PastExcises {
        let kept = self.0.iter().filter(|past| past.visible >= watermark).cloned();
        let added = spans.iter().map(|span| PastRange { number, visible, span: span.clone() });
        PastExcises(kept.chain(added).collect())
    }

    /// The ranges that were excised after the first `excises` excises.
    pub fn since(&self, excises: u64) -> impl Iterator<Item = &Span> {
        self.0.iter().filter(move |past| past.number > excises).map(|past| &past.span)
    }

    /// Fails if the key was excised after the moment.
    #[inline]
    pub fn check_key(&self, key: &[u8], as_of: Option<AsOf>) -> Result<()> {
        match as_of {
            Some(as_of) if !self.0.is_empty() => self.check(as_of, |span| span.contains(key)),
            _ => Ok(()),
        }
    }

    /// Fails if keys of the range were excised after the moment.
    pub fn check_span(&self, span: &Span, as_of: Option<AsOf>) -> Result<()> {
        match as_of {
            Some(as_of) if !self.0.is_empty() => self.check(as_of, |excised| excised.overlaps(span)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check(&self, as_of: AsOf, touches: impl Fn(&Span) -> bool) -> Result<()> {
        match self.since(as_of.excises).any(touches) {
            true => Err(Error::Excised),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(low: &str, end: &str) -> Span {
        Span { low: low.into(), end: Some(end.into()) }
    }

    #[test]
    fn a_snapshot_reads_no_range_that_was_excised_after_it() {
        let ranges =
            PastExcises::default().with(1, &[span("b", "d")], 10, 0).with(2, &[span("m", "n")], 20, 0);
        let fails =
            |key: &str, excises| ranges.check_key(key.as_bytes(), Some(AsOf { seq: 5, excises })).is_err();
        assert_eq!(
            [fails("b", 0), fails("c", 1), fails("d", 0), fails("m", 1), fails("m", 2)],
            [true, false, false, true, false]
        );
        assert!(ranges.check_key(b"b", None).is_ok(), "a read without a snapshot is of a later moment");
        let of_range =
            |low, end, excises| ranges.check_span(&span(low, end), Some(AsOf { seq: 5, excises })).is_err();
        assert_eq!(
            [of_range("a", "b", 0), of_range("a", "ba", 0), of_range("a", "z", 1), of_range("a", "m", 1)],
            [false, true, true, false]
        );
    }

    #[test]
    fn a_range_is_forgotten_once_no_snapshot_can_be_older() {
        let ranges = PastExcises::default().with(1, &[span("a", "b")], 10, 0);
        assert_eq!(
            ranges.with(2, &[span("c", "d")], 30, 10).0.len(),
            2,
            "a snapshot at 10 may be older than the first excise"
        );
        assert_eq!(ranges.with(2, &[span("c", "d")], 30, 11).0.len(), 1);
    }
}
