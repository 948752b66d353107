//! Which tier takes what a merge writes.
//!
//! A merge leaves each cell of its target level where it is: what it writes into a slow cell goes to the tier of this cell, all else to the
//! fast one. A move of a cell between tiers is a merge too, of all its runs, and its [`Placement`] says where it goes.
//!
//! *Staging.* While the fast tier has less than its share, what a merge writes into a slow cell comes to the fast tier, as far as there is
//! room. It was read anyway, and is written where writing is cheap. If it is cold, it leaves when the room is needed. A merge that takes a
//! part of the cell's one run leaves the rest of this run on the slow tier.
//!
//! *One slow read a get.* A table on a slow tier holds its values, or leads to values on the fast tier. So a merge that brings handles of
//! slow values into a slow cell writes the table of this cell to the fast tier.

use super::Merge;
use crate::base::ids::TierId;
use crate::base::key::KeyRange;
use crate::version::{Cell, Version};
use std::collections::BTreeSet;

/// Where a merge writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Where the cells of the target level are.
    OfCells,
    /// Tables, with all their values, go to this tier.
    Tables(TierId),
    /// Tables stay on the fast tier, and values of value files go to this tier.
    Values(TierId),
    /// Everything goes to the fast tier.
    Fast,
}

impl Placement {
    /// The tier that takes the values of value files when a cell moves.
    pub fn home_of_values(self) -> TierId {
        match self {
            Placement::Values(tier) => tier,
            Placement::OfCells | Placement::Tables(_) | Placement::Fast => TierId::FAST,
        }
    }
}

/// The tiers of one merge's outputs.
#[derive(Clone, Debug)]
pub struct TierMap {
    placement: Placement,
    /// The tier of tables from each key on, in key order. Neighbours differ.
    tables: Vec<(Vec<u8>, TierId)>,
    /// Tiers that take nothing now.
    closed: BTreeSet<TierId>,
    /// Bytes of slow cells that come to the fast tier.
    staged_bytes: u64,
}

impl TierMap {
    /// The fast tier alone, for flushes and recovery.
    pub fn fast() -> TierMap {
        TierMap { placement: Placement::Fast, tables: Vec::new(), closed: BTreeSet::new(), staged_bytes: 0 }
    }

    /// A merge that brings bytes of slow cells to the fast tier.
    #[cfg(test)]
    pub fn staging(staged_bytes: u64) -> TierMap {
        TierMap { staged_bytes, ..TierMap::fast() }
    }

    /// The tiers of a merge that reads `version`, where `closed` tiers take nothing and the fast tier has room for `room_bytes` within its
    /// share.
    pub fn of(merge: &Merge, version: &Version, closed: BTreeSet<TierId>, room_bytes: u64) -> TierMap {
        let placement = merge.placement;
        let mut tier_map = TierMap { placement, tables: Vec::new(), closed, staged_bytes: 0 };
        match merge.placement {
            Placement::Fast | Placement::Values(_) => {}
            Placement::Tables(tier) => tier_map.tables.push((Vec::new(), tier)),
            Placement::OfCells => {
                (tier_map.tables, tier_map.staged_bytes) = tier_map.of_cells(merge, version, room_bytes);
            }
        }
        tier_map
    }

    /// The tiers of tables, and the bytes of slow cells that come to the fast tier.
    fn of_cells(&self, merge: &Merge, version: &Version, room_bytes: u64) -> (Vec<(Vec<u8>, TierId)>, u64) {
        let (range, level) = (merge.range(), version.level(merge.to));
        let first = level.cell_index(&range.low);
        let mut tables: Vec<(Vec<u8>, TierId)> = Vec::new();
        let mut staged_bytes = 0;
        for (index, cell) in level.cells.iter().enumerate().skip(first) {
            if cell.low > range.high {
                break;
            }
            let end = level.cells.get(index + 1).map(|next| next.low.as_slice());
            let mut tier = self.of_cell(merge, cell, end);
            let slow_bytes: u64 = cell.slices().map(|(_, slice)| slice.slow_bytes()).sum();
            if tier != TierId::FAST && slow_bytes <= room_bytes - staged_bytes {
                staged_bytes += slow_bytes;
                tier = TierId::FAST;
            }
            if tables.last().map_or(TierId::FAST, |&(_, last)| last) != tier {
                tables.push((cell.low.clone(), tier));
            }
        }
        (tables, staged_bytes)
    }

    /// Bytes of slow cells that come to the fast tier.
    pub fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    fn of_cell(&self, merge: &Merge, cell: &Cell, end: Option<&[u8]>) -> TierId {
        let reaches =
            |range: &KeyRange| range.high >= cell.low && end.is_none_or(|end| range.low.as_slice() < end);
        let leads_to_slow_values = merge
            .inputs
            .iter()
            .any(|input| reaches(&input.slice.range) && input.slice.slow_value_bytes() > 0);
        let tier = cell.slow_tier().filter(|tier| !leads_to_slow_values && !self.closed.contains(tier));
        tier.unwrap_or(TierId::FAST)
    }

    /// The tier of the table that begins at `key`.
    pub fn table(&self, key: &[u8]) -> TierId {
        let at = self.tables.partition_point(|(low, _)| low.as_slice() <= key);
        at.checked_sub(1).map_or(TierId::FAST, |at| self.tables[at].1)
    }

    /// The tier of a value that is written to a value file, and that lies in a value file on tier `now`, if in any.
    pub fn value(&self, now: Option<TierId>) -> TierId {
        match self.placement {
            Placement::OfCells => now.filter(|tier| !self.closed.contains(tier)).unwrap_or(TierId::FAST),
            moved => moved.home_of_values(),
        }
    }

    /// Whether the merge may write to a slow tier.
    pub fn may_take(&self, tier: TierId) -> bool {
        match self.placement {
            Placement::OfCells => !self.closed.contains(&tier),
            Placement::Tables(to) | Placement::Values(to) => to == tier,
            Placement::Fast => false,
        }
    }

    /// The keys at which a table has to end, because the next one lies on another tier, in key order.
    pub fn edges(&self) -> impl Iterator<Item = &[u8]> {
        self.tables.iter().map(|(low, _)| low.as_slice()).filter(|low| !low.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_values_go_where_the_home_says() {
        let slow = TierId(2);
        let tier_map = |placement, tables: &[(&str, TierId)], closed: &[TierId]| TierMap {
            placement,
            tables: tables.iter().map(|&(low, tier)| (low.as_bytes().to_vec(), tier)).collect(),
            closed: closed.iter().copied().collect(),
            staged_bytes: 0,
        };
        let mixed = tier_map(Placement::OfCells, &[("f", slow), ("m", TierId::FAST)], &[]);
        assert_eq!(["a", "f", "l", "m"].map(|key| mixed.table(key.as_bytes()).0), [0, 2, 2, 0]);
        assert_eq!(mixed.edges().collect::<Vec<_>>(), [b"f", b"m"]);
        assert_eq!((mixed.value(Some(slow)), mixed.value(None)), (slow, TierId::FAST));
        assert_eq!(tier_map(Placement::OfCells, &[], &[slow]).value(Some(slow)), TierId::FAST);
        let leaving = tier_map(Placement::Tables(slow), &[("", slow)], &[]);
        assert_eq!((leaving.table(b"a"), leaving.value(Some(slow))), (slow, TierId::FAST));
        assert_eq!(leaving.edges().count(), 0);
        let values = tier_map(Placement::Values(slow), &[], &[]);
        assert_eq!((values.table(b"a"), values.value(Some(TierId::FAST))), (TierId::FAST, slow));
        assert_eq!(values.value(None), slow, "a value that lay in a table until now");
        assert_eq!(TierMap::fast().value(Some(slow)), TierId::FAST);
    }
}
