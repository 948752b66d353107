//! Where a merge ends one table and starts the next. A table ends at a size, before it would overlap too much of the level
//! below its own. It rather ends at a guard than behind it. At every guard of the target level a *part* ends, so that a table
//! falls into slices without being cut later. Two versions of one key are never separated, because the job asks only in front
//! of a new key.

use super::Merge;
use crate::version::Version;

/// What ends in front of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    None,
    /// A part of the table; the table goes on.
    Part,
    Table,
}

/// The cut rule of one merge. Keys are shown to it in ascending order.
#[derive(Clone, Debug)]
pub struct Cutter {
    table_bytes: u64,
    grandparent_bytes: u64,
    /// The highest key and the size of each slice below, in key order.
    grandparents: Vec<(Vec<u8>, u64)>,
    /// Index of the first grandparent that does not end in front of the last key shown.
    next: usize,
    /// Bytes of grandparents that the open table has passed.
    passed_bytes: u64,
    /// The guards of the target level, in key order.
    guards: Vec<Vec<u8>>,
    /// Index of the first guard behind the last key shown.
    next_guard: usize,
}

impl Cutter {
    /// The cut rule of `merge`, which reads `version`.
    pub fn new(merge: &Merge, version: &Version) -> Cutter {
        let range = merge.range();
        let mut grandparents: Vec<(Vec<u8>, u64)> = if merge.to + 1 < version.levels().len() {
            let below = version.level(merge.to + 1).overlapping(&range);
            below.map(|(_, _, slice)| (slice.range.high.clone(), slice.bytes)).collect()
        } else {
            Vec::new()
        };
        grandparents.sort();
        Cutter {
            table_bytes: merge.table_bytes,
            grandparent_bytes: merge.grandparent_bytes,
            grandparents,
            next: 0,
            passed_bytes: 0,
            guards: version.level(merge.to).guards_inside(&range).map(<[u8]>::to_vec).collect(),
            next_guard: 0,
        }
    }

    /// What ends in front of `key`; the open table has `written` bytes so far (0 for none).
    pub fn edge(&mut self, key: &[u8], written: u64) -> Edge {
        self.pass_grandparents(key, written);
        let before = self.next_guard;
        while self.guards.get(self.next_guard).is_some_and(|guard| guard.as_slice() <= key) {
            self.next_guard += 1;
        }
        if written == 0 {
            return Edge::None;
        }
        let at_guard = self.next_guard > before;
        // A table that is 3/4 full ends at a guard. A table that waits for a guard may grow to 5/4.
        let full_bytes = match (at_guard, self.guards.is_empty()) {
            (true, _) => self.table_bytes / 4 * 3,
            (false, true) => self.table_bytes,
            (false, false) => self.table_bytes / 4 * 5,
        };
        if written >= full_bytes || self.passed_bytes > self.grandparent_bytes {
            self.passed_bytes = 0;
            return Edge::Table;
        }
        if at_guard { Edge::Part } else { Edge::None }
    }

    fn pass_grandparents(&mut self, key: &[u8], written: u64) {
        while let Some((high, bytes)) = self.grandparents.get(self.next)
            && high.as_slice() < key
        {
            // A slice in front of a table's first key does not overlap the table.
            if written > 0 {
                self.passed_bytes += bytes;
            }
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutter(grandparent_bytes: u64, grandparents: Vec<(Vec<u8>, u64)>, guards: &[&str]) -> Cutter {
        let guards = guards.iter().map(|guard| guard.as_bytes().to_vec()).collect();
        let (next, passed_bytes, next_guard) = (0, 0, 0);
        Cutter { table_bytes: 100, grandparent_bytes, grandparents, next, passed_bytes, guards, next_guard }
    }

    #[test]
    fn parts_end_at_guards_and_full_tables_too() {
        let mut cutter = cutter(u64::MAX, Vec::new(), &["c", "f", "g", "m"]);
        let mut edge = |key: &str, written| cutter.edge(key.as_bytes(), written);
        assert_eq!(edge("b", 0), Edge::None);
        assert_eq!(edge("c", 10), Edge::Part);
        assert_eq!(edge("d", 99), Edge::None, "a guard may come soon");
        assert_eq!(edge("h", 75), Edge::Table, "two guards were passed");
        assert_eq!(edge("i", 100), Edge::None);
        assert_eq!(edge("j", 125), Edge::Table, "no guard came");
        assert_eq!(edge("z", 0), Edge::None, "nothing is open");
    }

    #[test]
    fn tables_are_cut_by_size_and_by_what_they_overlap_below() {
        let grandparents = ["c", "f", "i", "l"].map(|high| (high.as_bytes().to_vec(), 10)).to_vec();
        let mut cutter = cutter(15, grandparents, &[]);
        let mut cut = |key: &str, written| cutter.edge(key.as_bytes(), written) == Edge::Table;
        assert!(!cut("d", 0), "nothing is open");
        assert!(!cut("e", 99));
        assert!(cut("f", 100), "the size");
        assert!(!cut("g", 1), "one slice below is passed");
        assert!(cut("j", 2), "two are");
        assert!(!cut("m", 3), "the count starts anew with each table");
    }
}
