//! Where a merge ends one table and starts the next: at a size, and before the table would overlap too much of the level
//! below its own. Never between two versions of one key: the job asks only in front of a new key.

use super::Merge;
use crate::version::Version;

/// The cut rule of one merge. Keys are shown to it in ascending order.
#[derive(Debug)]
pub struct Cutter {
    table_bytes: u64,
    grandparent_bytes: u64,
    /// The highest key and the size of each slice below, in key order.
    grandparents: Vec<(Vec<u8>, u64)>,
    /// The first of them that does not end in front of the last key shown.
    next: usize,
    /// Bytes of grandparents that the open table has passed.
    passed_bytes: u64,
}

impl Cutter {
    /// The rule for `merge`, by the level below its target in the version that it reads.
    pub fn new(merge: &Merge, version: &Version) -> Cutter {
        let range = merge.range();
        let mut grandparents: Vec<(Vec<u8>, u64)> = if merge.to + 1 < version.levels().len() {
            let below = version.level(merge.to + 1).overlapping(&range);
            below.map(|(_, _, slice)| (slice.range.high.clone(), slice.bytes)).collect()
        } else {
            Vec::new()
        };
        grandparents.sort();
        let (table_bytes, grandparent_bytes) = (merge.table_bytes, merge.grandparent_bytes);
        Cutter { table_bytes, grandparent_bytes, grandparents, next: 0, passed_bytes: 0 }
    }

    /// Whether the open table, of `written` bytes so far (0 for none), ends in front of `key`.
    pub fn must_cut(&mut self, key: &[u8], written: u64) -> bool {
        while let Some((high, bytes)) = self.grandparents.get(self.next)
            && high.as_slice() < key
        {
            // What lies in front of a table's first key does not overlap it.
            if written > 0 {
                self.passed_bytes += bytes;
            }
            self.next += 1;
        }
        let cut = written > 0 && (written >= self.table_bytes || self.passed_bytes > self.grandparent_bytes);
        if cut {
            self.passed_bytes = 0;
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_cut_by_size_and_by_what_they_overlap_below() {
        let grandparents = ["c", "f", "i", "l"].map(|high| (high.as_bytes().to_vec(), 10)).to_vec();
        let mut cutter =
            Cutter { table_bytes: 100, grandparent_bytes: 15, grandparents, next: 0, passed_bytes: 0 };
        let mut cut = |key: &str, written| cutter.must_cut(key.as_bytes(), written);
        assert!(!cut("d", 0), "nothing is open");
        assert!(!cut("e", 99));
        assert!(cut("f", 100), "the size");
        assert!(!cut("g", 1), "one slice below is passed");
        assert!(cut("j", 2), "two are");
        assert!(!cut("m", 3), "the count starts anew with each table");
    }
}
