//! The order in which the proposals of the fragmented tree are tried. The first one that has a plan wins.
//!
//! First comes what writes wait for, then metadata, then space, then cells and levels over their bounds. What pays in the long run
//! comes last.
//!
//! 1. `L0AtLimit`: L0 has as many tables as make writes wait. Its oldest tables go down.
//! 2. `GatherRuns`: the two newest runs of a cell do not overlap. They become one, as metadata.
//! 3. `CellsFarOverBound`: a cell has twice as many runs as make it due.
//! 4. `L1FarOverTarget`: L1 has one run a cell and twice as many bytes as its target. A merge of L0 would write all of it again.
//! 5. `L0`: L0 has enough tables. They move down as metadata, or are merged into L1 where a cell has one run. Such a merge waits for
//!    overlap ([`samples::is_l0_due`](super::samples::is_l0_due)).
//! 6. `RoomInL1`: L0 is due, and so is a cell of L1. If no cell of L1 has a plan, what a merge of L0 needs is kept free.
//! 7. `FreeMoves`: the oldest run of a cell moves down, as metadata, from a level over its target.
//! 8. `Splits`: a cell is too large, and is cut in two, as metadata.
//! 9. `LeaveFastTier`: the fast tier has more than its share. Its coldest cell goes to a slow one.
//! 10. `Garbage`: versions and tombstones that no reader needs take more space than is allowed.
//! 11. `CellsOverBound`: a cell has as many runs as make it due.
//! 12. `LevelsOverTarget`: a level has more bytes than its target.
//! 13. `Pinning`: tables point into logs or value files that are to be deleted.
//! 14. `Cold`: there are old tombstones, or tables of which little is still in use.
//! 15. `Joins`: two small neighbouring cells become one, as metadata.
//! 16. `GarbageHints`: scans read more garbage than a rewrite costs.
//! 17. `Purchase`: the time that readers lost because a merge was not made has reached its price.
//! 18. `ComeBack`: readers have waited for a slow cell as long as its move to the fast tier takes.
//! 19. `GatherHints`: scans lost more time to values in many places than it takes to gather them.

use super::Planner;
use super::down::Room;
use crate::plan::tree::Plan;
use crate::table::Reason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proposal {
    L0AtLimit,
    GatherRuns,
    CellsFarOverBound,
    L1FarOverTarget,
    L0,
    RoomInL1,
    FreeMoves,
    Splits,
    LeaveFastTier,
    Garbage,
    CellsOverBound,
    LevelsOverTarget,
    Pinning,
    Cold,
    Joins,
    GarbageHints,
    Purchase,
    ComeBack,
    GatherHints,
}

/// The most urgent proposal first.
const ORDER: [Proposal; 19] = [
    Proposal::L0AtLimit,
    Proposal::GatherRuns,
    Proposal::CellsFarOverBound,
    Proposal::L1FarOverTarget,
    Proposal::L0,
    Proposal::RoomInL1,
    Proposal::FreeMoves,
    Proposal::Splits,
    Proposal::LeaveFastTier,
    Proposal::Garbage,
    Proposal::CellsOverBound,
    Proposal::LevelsOverTarget,
    Proposal::Pinning,
    Proposal::Cold,
    Proposal::Joins,
    Proposal::GarbageHints,
    Proposal::Purchase,
    Proposal::ComeBack,
    Proposal::GatherHints,
];

impl Proposal {
    /// The reason that is noted in a merge which carries the proposal out.
    fn reason(self) -> Reason {
        match self {
            Proposal::L0AtLimit | Proposal::L0 => Reason::L0,
            Proposal::CellsFarOverBound | Proposal::RoomInL1 | Proposal::CellsOverBound => Reason::Depth,
            Proposal::L1FarOverTarget | Proposal::LevelsOverTarget => Reason::Size,
            Proposal::Garbage => Reason::Garbage,
            Proposal::Pinning => Reason::Bodies,
            Proposal::Cold => Reason::Cold,
            Proposal::GarbageHints | Proposal::GatherHints => Reason::Scans,
            Proposal::Purchase => Reason::Bought,
            Proposal::LeaveFastTier | Proposal::ComeBack => Reason::Tier,
            // Metadata alone.
            Proposal::GatherRuns | Proposal::FreeMoves | Proposal::Splits | Proposal::Joins => Reason::Size,
        }
    }
}

impl Planner<'_> {
    /// The plan of the first proposal that has one.
    pub(super) fn first_plan(&mut self) -> Option<Plan> {
        ORDER.into_iter().find_map(|proposal| self.plan_of(proposal))
    }

    fn plan_of(&mut self, proposal: Proposal) -> Option<Plan> {
        self.reason = proposal.reason();
        let all_levels = 1..self.last + 1;
        match proposal {
            Proposal::L0AtLimit => {
                let is_at_limit = self.version.level(0).runs() >= self.options.l0_stop_tables;
                if is_at_limit { self.l0(true) } else { None }
            }
            Proposal::GatherRuns => self.gather(),
            Proposal::CellsFarOverBound => self.deep_cells(all_levels, |level| self.hard_runs(level)),
            Proposal::L1FarOverTarget => self.l1_far_over_target(),
            Proposal::L0 if self.is_l0_due() => self.l0(false),
            // A move writes nothing, so it does not wait for overlap.
            Proposal::L0 if self.is_l0_waiting() => self.move_l0_down(Room::UpToDue),
            Proposal::RoomInL1 if self.is_l0_due() => {
                let plan = self.deep_cells(1..2, |level| self.due_runs(level));
                if plan.is_none() {
                    self.reserve_for_l0();
                }
                plan
            }
            Proposal::L0 | Proposal::RoomInL1 => None,
            Proposal::FreeMoves => self.free_moves(),
            Proposal::Splits => self.splits(),
            Proposal::Garbage => self.garbage(),
            Proposal::CellsOverBound => self.deep_cells(all_levels, |level| self.due_runs(level)),
            Proposal::LevelsOverTarget => self.large_levels(),
            Proposal::LeaveFastTier => self.leave_fast_tier(),
            Proposal::Pinning => self.pinning(),
            Proposal::Cold => self.cold(),
            Proposal::Joins => self.joins_of_cells(),
            Proposal::GarbageHints => self.garbage_hints(),
            Proposal::Purchase => self.purchase(),
            Proposal::ComeBack => self.come_back(),
            Proposal::GatherHints => self.gather_hints(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints the order. The list at the head of the file names each proposal, in this order.
    #[test]
    fn the_list_at_the_head_of_the_file_is_the_order() {
        let listed = |line: &'static str| line.strip_prefix("//! ")?.split_once(". `")?.1.split_once('`');
        let listed: Vec<&str> =
            include_str!("order.rs").lines().filter_map(listed).map(|(name, _)| name).collect();
        let order = ORDER.map(|proposal| format!("{proposal:?}"));
        println!("{}", order.join("\n"));
        assert_eq!(listed, order);
        assert!(ORDER.iter().enumerate().all(|(place, &proposal)| place == proposal as usize));
        assert_eq!(ORDER.len(), Proposal::GatherHints as usize + 1, "each proposal is tried once");
    }
}
