//! Where a merge ends one table and starts the next. A table ends near a size, and at a guard if one is near. At every guard of the target
//! level a *part* ends, so that the table falls into slices that need no later cut. No table lies on two tiers, so a table also ends where
//! the next cell lies on another tier. Two versions of one key are never separated, because the job asks only in front of a new key.

use super::Merge;
use super::placement::TierMap;
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
    /// The guards of the target level, in key order.
    guards: Vec<Vec<u8>>,
    /// Index of the first guard behind the last key shown.
    next_guard: usize,
    /// The keys from which on the output goes to another tier, in key order, and the index of the first one behind the last key shown.
    edges: Vec<Vec<u8>>,
    next_edge: usize,
}

impl Cutter {
    /// The cut rule of `merge`, which reads `version` and writes where `tier_map` says.
    pub fn new(merge: &Merge, version: &Version, tier_map: &TierMap) -> Cutter {
        let range = merge.range();
        Cutter {
            table_bytes: merge.table_bytes,
            guards: version.level(merge.to).guards_inside(&range).map(<[u8]>::to_vec).collect(),
            next_guard: 0,
            edges: tier_map.edges().map(<[u8]>::to_vec).collect(),
            next_edge: 0,
        }
    }

    /// What ends in front of `key`; the open table has `written` bytes so far (0 for none).
    pub fn edge(&mut self, key: &[u8], written: u64) -> Edge {
        let before = self.next_guard;
        while self.guards.get(self.next_guard).is_some_and(|guard| guard.as_slice() <= key) {
            self.next_guard += 1;
        }
        let edge_before = self.next_edge;
        while self.edges.get(self.next_edge).is_some_and(|edge| edge.as_slice() <= key) {
            self.next_edge += 1;
        }
        if written == 0 {
            return Edge::None;
        }
        if self.next_edge > edge_before {
            return Edge::Table;
        }
        let at_guard = self.next_guard > before;
        // A table that is 3/4 full ends at a guard. A table that waits for a guard may grow to 5/4.
        let full_bytes = match (at_guard, self.guards.is_empty()) {
            (true, _) => self.table_bytes / 4 * 3,
            (false, true) => self.table_bytes,
            (false, false) => self.table_bytes / 4 * 5,
        };
        if written >= full_bytes {
            return Edge::Table;
        }
        if at_guard { Edge::Part } else { Edge::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutter(guards: &[&str]) -> Cutter {
        let guards = guards.iter().map(|guard| guard.as_bytes().to_vec()).collect();
        Cutter { table_bytes: 100, guards, next_guard: 0, edges: Vec::new(), next_edge: 0 }
    }

    #[test]
    fn parts_end_at_guards_and_full_tables_too() {
        let mut cutter = cutter(&["c", "f", "g", "m"]);
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
    fn tables_end_where_the_tier_changes() {
        let edges = vec![b"c".to_vec(), b"f".to_vec()];
        let mut cutter = Cutter { edges, ..cutter(&["c", "f"]) };
        let mut edge = |key: &str, written| cutter.edge(key.as_bytes(), written);
        assert_eq!(edge("b", 10), Edge::None);
        assert_eq!(edge("d", 11), Edge::Table, "a table of a few bytes too");
        assert_eq!(edge("e", 1), Edge::None);
        assert_eq!(edge("g", 0), Edge::None, "nothing is open");
        assert_eq!(edge("h", 1), Edge::None);
    }

    #[test]
    fn without_guards_tables_end_at_their_size() {
        let mut cutter = cutter(&[]);
        let mut edge = |key: &str, written| cutter.edge(key.as_bytes(), written);
        assert_eq!(edge("d", 0), Edge::None, "nothing is open");
        assert_eq!(edge("e", 99), Edge::None);
        assert_eq!(edge("f", 100), Edge::Table);
    }
}
