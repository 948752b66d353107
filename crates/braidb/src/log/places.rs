//! Where the values of a log lie. The writer records the places as it appends, for a flush that leaves values in the log.
//!
//! Commits have ascending numbers in the order of the log, so the place of a commit is found by counting. Records written back have
//! numbers of their own. Numbers may be missing between the commits that recovery copied to the first new log and the commits that came
//! after recovery.
//!
//! Places take 16 bytes of memory an entry, for as long as recovery would read the log. A log keeps none if no flush would leave values in
//! it: if it has small values, or more than [`MOST_FLUSH_LOG_BYTES`], or if the logs of the last flushes had more
//! ([`LogSync::flush_took`](super::LogSync::flush_took)). Most logs keep none after a row of logs in which flushes left no value
//! ([`LogSync::are_used`](super::LogSync::are_used)).

use super::batch::{self, EncodedBatch};
use super::frame::Numbers;
use crate::base::ids::SeqNo;

/// Entries of a log after which the mean of its values decides whether places are kept.
const ENTRIES_TO_JUDGE: usize = 1024;
/// Mean bytes of a value below which a log keeps no places: a flush would write such values to its table.
const LEAST_MEAN_BYTES: u64 = 32;
/// Most bytes of all logs of a flush that leaves values in them: 16 MiB. Most merges of L0 take the tables of about four flushes, and load
/// up to 64 MiB of logs.
pub const MOST_FLUSH_LOG_BYTES: u64 = 16 << 20;

/// Where the value of an entry lies. A delete has an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePlace {
    /// From the beginning of the log, in bytes.
    pub offset: u64,
    pub bytes: u32,
    pub crc: u32,
}

/// The place of the value of each entry of a log.
#[derive(Debug, Default)]
pub struct ValuePlaces {
    /// The sequence number of the first of `commits`.
    first: SeqNo,
    /// The places of the commits behind the last missing number.
    commits: Vec<ValuePlace>,
    /// The places of records written back and of commits before a missing number; sorted by number once the log is closed.
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

    /// Whether a flush may leave values in the log, which has `log_bytes` so far: its values are large enough, as far as is known, and the
    /// log is not too large.
    pub(super) fn are_of_use(&self, log_bytes: u64) -> bool {
        let entries = self.commits.len() + self.copies.len();
        let are_large = entries < ENTRIES_TO_JUDGE || self.value_bytes >= LEAST_MEAN_BYTES * entries as u64;
        are_large && log_bytes <= MOST_FLUSH_LOG_BYTES
    }

    /// Sorts the copies and frees spare memory. Nothing is added afterwards.
    pub(super) fn close(mut self) -> ValuePlaces {
        self.commits.shrink_to_fit();
        self.copies.sort_unstable_by_key(|&(seq, _)| seq);
        self.copies.shrink_to_fit();
        self
    }

    /// The number of values whose size `is_wanted`, and their bytes.
    pub fn values(&self, is_wanted: impl Fn(usize) -> bool) -> (u64, u64) {
        let places = self.commits.iter().chain(self.copies.iter().map(|(_, place)| place));
        let values = places.map(|place| place.bytes).filter(|&bytes| is_wanted(bytes as usize));
        values.fold((0, 0), |(values, sum), bytes| (values + 1, sum + u64::from(bytes)))
    }

    /// Whether the record `seq` is in the log. Does not read the value's place.
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
