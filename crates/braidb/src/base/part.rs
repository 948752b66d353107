//! A part of a table, in figures: what a slice of the tree knows without reading the file.

use super::ids::SeqNo;
use super::key::KeyRange;

/// The entries of one table in one range of keys. For a part that a job wrote as such the figures are exact. Where a part was
/// cut later, without reading it, the range is exact, the sequence numbers are those of the whole, and the counts are
/// estimates by the share of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The lowest and the highest key.
    pub range: KeyRange,
    /// The smallest and the largest sequence number.
    pub seqs: (SeqNo, SeqNo),
    pub entries: u64,
    pub tombstones: u64,
    /// Different user keys; what `entries` has beyond them are older versions.
    pub keys: u64,
    pub bytes: u64,
}

impl Part {
    /// Entries that a rewrite may drop once nobody can see them: tombstones and older versions.
    pub fn garbage(&self) -> u64 {
        (self.tombstones + self.entries.saturating_sub(self.keys)).min(self.entries)
    }
}
