//! Where the values of a log lie, told by its writer as it appends: for a flush that leaves values where they are.
//!
//! Commits have their numbers in the order of the log, one after the other, so the place of one is found by counting. Records that
//! were written back have numbers of their own. Between the commits that recovery copied to the first log of an open and those of the
//! open itself numbers may be missing.
//!
//! Places take 16 bytes of memory an entry, for as long as recovery would read the log. A log whose values turn out to be small goes
//! without, since no flush would leave them there; and so do most logs where those before them went unused
//! ([`LogSync::are_used`](super::LogSync::are_used)).

use super::batch::{self, EncodedBatch};
use super::frame::Numbers;
use crate::base::ids::SeqNo;

/// After so many entries it shows whether values are small,
const ENTRIES_TO_JUDGE: usize = 1024;
/// which they are below this, on the average.
const LEAST_MEAN_BYTES: u64 = 32;

/// Where the value of an entry lies; a delete has an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePlace {
    /// In the log.
    pub offset: u64,
    pub bytes: u32,
    pub crc: u32,
}

/// Of each entry of a log, where its value lies.
#[derive(Debug, Default)]
pub struct ValuePlaces {
    /// The number of the first of `commits`.
    first: SeqNo,
    /// Commits without a missing number among them, up to the last one.
    commits: Vec<ValuePlace>,
    /// Records that were written back, and commits before a missing number; by number once the log is closed.
    copies: Vec<(SeqNo, ValuePlace)>,
    value_bytes: u64,
}

impl ValuePlaces {
    /// Adds the entries of the frame of `batch`, whose values begin at `values_at`.
    pub(super) fn add(&mut self, batch: &EncodedBatch, numbers: Numbers, values_at: u64) {
        self.value_bytes += batch.values().len() as u64;
        let places = |base| batch::value_places(batch.list(), batch.has_numbers(), base, values_at);
        match numbers {
            Numbers::From(base) => {
                let next = self.first + self.commits.len() as u64;
                assert!(base >= next, "numbers ascend");
                if base > next {
                    self.copies.extend((self.first..).zip(self.commits.drain(..)));
                    self.first = base;
                }
                match batch.only_place(values_at) {
                    Some(place) => self.commits.push(place),
                    None => self.commits.extend(places(base).map(|(_, place)| place)),
                }
            }
            Numbers::Own { .. } => self.copies.extend(places(0)),
        }
    }

    /// Whether values are large enough to be left in the log.
    pub(super) fn are_of_use(&self) -> bool {
        let entries = self.commits.len() + self.copies.len();
        entries < ENTRIES_TO_JUDGE || self.value_bytes >= LEAST_MEAN_BYTES * entries as u64
    }

    /// Nothing is added any more.
    pub(super) fn close(mut self) -> ValuePlaces {
        self.commits.shrink_to_fit();
        self.copies.sort_unstable_by_key(|&(seq, _)| seq);
        self.copies.shrink_to_fit();
        self
    }

    /// How many values of `least_bytes` and more there are, and their bytes.
    pub fn values(&self, least_bytes: usize) -> (u64, u64) {
        let places = self.commits.iter().chain(self.copies.iter().map(|(_, place)| place));
        let values = places.map(|place| place.bytes).filter(|&bytes| bytes as usize >= least_bytes);
        values.fold((0, 0), |(values, sum), bytes| (values + 1, sum + u64::from(bytes)))
    }

    /// Whether the record `seq` is in the log. Reads no place.
    #[inline]
    pub fn hold(&self, seq: SeqNo) -> bool {
        self.commit(seq).is_some() || self.copy(seq).is_some()
    }

    /// Where the value of the record `seq` lies, if it is in the log.
    #[inline]
    pub fn find(&self, seq: SeqNo) -> Option<ValuePlace> {
        let commit = self.commit(seq).map(|at| self.commits[at]);
        commit.or_else(|| self.copy(seq).map(|at| self.copies[at].1))
    }

    #[inline]
    fn commit(&self, seq: SeqNo) -> Option<usize> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        (at < self.commits.len()).then_some(at)
    }

    fn copy(&self, seq: SeqNo) -> Option<usize> {
        self.copies.binary_search_by_key(&seq, |&(seq, _)| seq).ok()
    }
}
