//! From an excise to its edit: which slices go, and what is left of those that reach over the ends of its ranges.
//!
//! A slice whose entries are all at most as new as the excise loses what lies in the ranges. It is cut as for a guard, without being read:
//! its table stays for the rest. A slice that was flushed later holds newer entries alone, and stays as it is. There is no slice of both
//! kinds, because nothing is merged in the ranges from before the memtable is switched until the edit.

use super::edits::Moment;
use super::{Claim, Use};
use crate::base::counters::LEVELS;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::base::part::Part;
use crate::version::{Edit, RunId, Slice};
use std::ops::Range;

/// What leaves the tables of a family: all entries up to a number, in ranges of keys.
#[derive(Debug)]
pub struct Excise {
    pub family: FamilyId,
    /// Ascending, with keys between each two.
    pub spans: Vec<Span>,
    pub upto: SeqNo,
}

/// Sorts spans, and joins those that meet.
pub fn tidy(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| a.low.cmp(&b.low));
    spans.dedup_by(|next, last| {
        let meets = last.end.as_ref().is_none_or(|end| next.low <= *end);
        if meets && last.end.is_some() && (next.end.is_none() || next.end > last.end) {
            last.end = next.end.take();
        }
        meets
    });
    spans
}

/// What an excise claims while it waits for long merges: runs that come from L0 may still arrive.
pub fn first_claims(family: FamilyId, spans: &[Span]) -> Vec<Claim> {
    claims_of(1..LEVELS, family, spans, Use::Take)
}

/// What the edit of an excise claims: the same ranges, on more levels.
pub fn claims(family: FamilyId, spans: &[Span]) -> Vec<Claim> {
    claims_of(0..LEVELS, family, spans, Use::Own)
}

fn claims_of(levels: Range<usize>, family: FamilyId, spans: &[Span], kind: Use) -> Vec<Claim> {
    let of_level = |level| spans.iter().map(move |span| Claim { family, level, span: span.clone(), kind });
    let claims = levels.flat_map(of_level);
    claims.filter(|_| !mutant!("excise_beside_a_merge")).collect()
}

impl Excise {
    /// The change that the excise makes.
    pub fn edit(&self, moment: &Moment<'_>) -> Result<Edit> {
        let mut edit = Edit::default();
        for level in 0..LEVELS {
            for (cell, epoch, slice) in moment.version.level(level).slices() {
                let Some(rest) = self.rest(slice, moment)? else { continue };
                let run = RunId { level, cell: cell.low.clone(), epoch };
                edit.remove_slice(self.family, run.clone(), slice);
                rest.iter().for_each(|part| edit.add_slice(self.family, run.clone(), slice.table.id, part));
            }
        }
        Ok(edit)
    }

    /// The spans that keys of `range` may lie in.
    fn spans_in(&self, range: &KeyRange) -> &[Span] {
        let ends_before = |span: &Span| span.end.as_ref().is_some_and(|end| *end <= range.low);
        let from = self.spans.partition_point(ends_before);
        let count = self.spans[from..].partition_point(|span| span.low <= range.high);
        &self.spans[from..from + count]
    }

    /// What is left of a slice; `None` if it loses nothing.
    fn rest(&self, slice: &Slice, moment: &Moment<'_>) -> Result<Option<Vec<Part>>> {
        let spans = self.spans_in(&slice.range);
        if spans.is_empty() {
            return Ok(None);
        }
        let is_newer = slice.seqs.0 > self.upto;
        // An open takes its last number from all slices, so none that it read from disk is newer. Claims keep merges from mixing later ones.
        assert!(
            is_newer || slice.seqs.1 <= self.upto || mutant!("excise_beside_a_merge"),
            "claims keep merges away"
        );
        if is_newer && !mutant!("excise_takes_newer_puts") {
            return Ok(None);
        }
        let (mut rest, mut behind, mut loses) = (Vec::new(), Some(slice.part().clone()), false);
        for span in spans {
            let Some(part) = &behind else { break };
            let (before, Some(within)) = self.cut(slice, part, &span.low, moment)? else { continue };
            let (dropped, after) = match &span.end {
                Some(end) if mutant!("excise_cuts_one_key_off") => {
                    self.cut(slice, &within, &[end.as_slice(), &[0]].concat(), moment)?
                }
                Some(end) => self.cut(slice, &within, end, moment)?,
                None => (Some(within), None),
            };
            if dropped.is_some() {
                (behind, loses) = (after, true);
                rest.extend(before);
            }
        }
        rest.extend(behind);
        Ok(loses.then_some(rest))
    }

    /// Cuts a part of a slice in front of a key. A damaged table may give a part that begins before the key, which would be dropped too.
    fn cut(
        &self,
        slice: &Slice,
        part: &Part,
        key: &[u8],
        moment: &Moment<'_>,
    ) -> Result<(Option<Part>, Option<Part>)> {
        let (before, behind) = (moment.cut)(slice.table.id, part, key)?;
        if behind.as_ref().is_some_and(|behind| behind.range.low.as_slice() < key) {
            return Err(Error::corruption(
                &slice.table.path(),
                0,
                "the index lacks the first key of a slice, so no range can be excised",
            ));
        }
        Ok((before, behind))
    }
}
