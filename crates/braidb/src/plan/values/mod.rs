//! Where a value lies: in the table with its key, or in a value file.
//!
//! A large value is written twice in its life: to the log, and to a value file. The job that first writes it to the tree, mostly a
//! flush, separates it from its key. Later merges carry its handle and leave the value where it is. (KT-Store, section 3; a threshold of
//! infinity is the plain tree.) A merge writes a value anew for one of two reasons: its file holds much garbage ([`collection`]), or its
//! cell lies in many small places ([`gathering`]).

use crate::base::ids::FileId;
use std::collections::BTreeSet;

pub mod collection;
pub mod gathering;

/// Which value file takes a value that a flush or merge writes.
///
/// ```
/// use braidb::Options;
/// use braidb::tuning::ValueLayout;
/// // The form of the KT-Store paper: a table for each first byte of a key.
/// let trie = Options::new()
///     .tuning(|tuning| tuning.separation_threshold(Some(1024)).value_layout(ValueLayout::Trie { levels: 1 }));
/// assert!(trie.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLayout {
    /// A file of its own for each job, in key order. Cells of the last level are the leaves of KT-Store, and merges gather what lies in
    /// many small places.
    Ordered,
    /// The form of the KT-Store paper, for comparison. A trie over the first `levels` bytes of a key, 0 to 32. Each leaf has a table, to
    /// which the jobs of an open append; all keys of fewer bytes share one. A flush appends in the order of writing, a merge in key order.
    /// A scan reads each table from the smallest to the largest offset that it wants, in pieces of 16 MiB. With 0 levels there is one log
    /// of values, as in WiscKey, and a scan reads value by value.
    ///
    /// Up to 512 tables wait open for the next job, and a job holds up to 256. Other leaves get a new table from each job. So the form is
    /// for few hundred leaves. A flush holds a copy of the large values that it writes.
    Trie { levels: usize },
}

/// The options of separated values.
#[derive(Clone, Copy, Debug)]
pub struct ValueOptions {
    /// Least bytes of a value that lies in a value file; `None` if all values lie in tables.
    pub threshold: Option<u64>,
    /// Bytes at which a job starts its next value file.
    pub file_bytes: u64,
    pub layout: ValueLayout,
}

impl ValueOptions {
    /// Whether a value of this size lies in a value file.
    pub fn separates(&self, bytes: usize) -> bool {
        self.threshold.is_some_and(|threshold| bytes as u64 >= threshold)
    }
}

/// Whether most of these `bytes` are values in value files. Merges of such tables write handles alone, so they cost little.
pub fn is_separated(bytes: u64, value_bytes: u64) -> bool {
    value_bytes > bytes / 2
}

/// What a merge does with values that lie in value files.
#[derive(Clone, Debug)]
pub struct Rewrites {
    /// The files whose values are written anew.
    pub files: BTreeSet<FileId>,
    /// The files of which a value could not be read lately. Their values stay.
    pub unreadable: BTreeSet<FileId>,
    /// Whether a value below the threshold moves to a table. It stays where the device has little room, because no round bounds how
    /// many such values a merge meets.
    pub brings_home: bool,
}

impl Rewrites {
    /// Whether a value of this size stays in value file `id`.
    pub fn leave(&self, id: FileId, bytes: usize, options: &ValueOptions) -> bool {
        let is_wanted_there = options.separates(bytes) || !self.brings_home;
        self.unreadable.contains(&id) || is_wanted_there && !self.files.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_from_the_threshold_on() {
        let options = |threshold| ValueOptions { threshold, file_bytes: 1, layout: ValueLayout::Ordered };
        assert!(!options(None).separates(usize::MAX));
        assert!(options(Some(0)).separates(0));
        assert!(!options(Some(100)).separates(99) && options(Some(100)).separates(100));
    }

    #[test]
    fn a_value_leaves_its_file_for_its_size_only_where_there_is_room() {
        let options = ValueOptions { threshold: Some(100), file_bytes: 1, layout: ValueLayout::Ordered };
        let rewrites = |brings_home| Rewrites {
            files: [FileId(1), FileId(2)].into(),
            unreadable: [FileId(2), FileId(3)].into(),
            brings_home,
        };
        let stays = |brings_home, bytes| {
            (1..=4).filter(|&id| rewrites(brings_home).leave(FileId(id), bytes, &options)).collect::<Vec<_>>()
        };
        assert_eq!([stays(true, 100), stays(false, 100), stays(false, 99)], [[2, 3, 4]; 3]);
        assert_eq!(stays(true, 99), [2, 3], "values that cannot be read stay");
    }
}
