//! Figures of a part of a table: what a slice of the tree knows without reading the file.

use super::ids::{FileId, SeqNo};
use super::key::KeyRange;

/// The entries of one table in one range of keys. The figures are exact if a job wrote the part as such. If the part was cut off a
/// larger one later, only the range and `values` are exact: the sequence numbers are those of the larger part, and the counts are
/// estimated by the share of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The lowest and the highest key.
    pub range: KeyRange,
    /// The smallest and the largest sequence number.
    pub seqs: (SeqNo, SeqNo),
    pub entries: u64,
    pub tombstones: u64,
    /// Different user keys. The other entries are older versions.
    pub keys: u64,
    pub bytes: u64,
    /// The value files that the entries lead into, ascending, and the bytes of these values' records in each. Logs are left out.
    pub values: Vec<(FileId, u64)>,
}

impl Part {
    /// Bytes of the values' records in value files.
    pub fn value_bytes(&self) -> u64 {
        self.values.iter().fold(0, |sum, &(_, bytes)| sum.saturating_add(bytes))
    }

    /// Entries that a rewrite may drop once no reader can see them: tombstones and older versions.
    pub fn garbage(&self) -> u64 {
        (self.tombstones + self.entries.saturating_sub(self.keys)).min(self.entries)
    }
}
