//! Cells that move between tiers (LogStore): the coldest cells leave the fast tier when it has more than its share, and a slow cell that is
//! read often returns to the fast tier.
//!
//! *Which cells.* Only a *bottom cell* may be slow: one beneath which nothing lies, mostly of the last level. It has one run. So a get
//! meets slow files once, at its end. A cell whose values all lie in its tables leaves with them. A cell that leads into value files keeps
//! its tables on the fast tier, and its values leave: a get then reads one slow value.
//!
//! *How.* A move of a cell is a merge of all its runs into one (`plan/tree/placement.rs`), so it drops what is hidden too. One cell moves
//! at a time: the next is chosen when the fast tier has what the last one left.
//!
//! *A slow cell stays where it is.* A merge from above takes its run along and writes the whole to the slow tier, or to the fast one while
//! it has room (`plan/tree/placement.rs`). What comes from above waits until it is enough (`plan/tree/cells/down.rs`). No run joins a slow
//! cell from above by metadata, and it is not joined with a neighbour. When it is no longer in the last level, its run goes down as
//! metadata.
//!
//! *L1 keeps its tables.* L0 goes down to L1 without a read of a slow device, so writers never wait for one. What is to leave from L1 first
//! goes down to L2, as metadata.
//!
//! *Leaving.* The coldest cell by reads for each byte leaves first. Where nothing is read, writes count (`version/usage/heat.rs`). Where no
//! bottom cell can leave, the coldest cell above goes down.
//!
//! *Coming back* (LogStore, equation 10). A slow cell returns to the fast tier when two things hold. Readers have waited for its files as
//! long as the move takes. And it is hotter than the cells that would have to leave for it, by more than chance explains. The paper lifts
//! such a cell to level 1; here it stays at its level, and never passes a newer version (docs/decisions/slow-cells-stay.md).

use super::Planner;
use crate::base::ids::{FileId, TierId};
use crate::plan::tree::{Placement, Tiers};
use crate::plan::{Merge, Plan, Use};
use crate::version::Slice;
use crate::version::usage::rent::CHARGED_BITS;
use std::cmp::Ordering;
use std::sync::Arc;

/// Standard deviations by which a slow cell must be hotter than cells that would leave for it: 4. By chance one comparison in 30,000
/// passes.
const DEVIATIONS: u128 = 4;
/// The same while readers have just turned to other keys: 2. In this time a cell that stays on the wrong tier costs more than a cell that
/// moves in vain.
const SETTLING_DEVIATIONS: u128 = 2;
/// Reads that one count of a fast slice's heat stands for: readers count one read in 8, for all of them (`version/usage/rent.rs`). A slow
/// slice counts each read.
const READS_OF_A_COUNT: u128 = 1 << CHARGED_BITS;

/// A cell that may move.
#[derive(Clone, Copy, Debug)]
struct Site {
    level: usize,
    index: usize,
    /// Bytes that would move.
    bytes: u64,
    /// Bytes that the move writes. A cell that is slow in part is written as a whole.
    written_bytes: u64,
    heat: u64,
    /// Whether its tables move, or its values alone.
    with_tables: bool,
}

impl Site {
    /// Which of two sites has fewer reads for each byte.
    fn colder(&self, other: &Site) -> Ordering {
        let of = |one: &Site, other: &Site| u128::from(one.heat) * u128::from(other.bytes.max(1));
        of(self, other).cmp(&of(other, self)).then((self.level, self.index).cmp(&(other.level, other.index)))
    }
}

impl Planner<'_> {
    /// The coldest cells leave the fast tier while it has more than its share.
    pub(super) fn leave_fast_tier(&self) -> Option<Plan> {
        let tiers = self.now.tiers.filter(|tiers| !tiers.is_moving)?;
        if let Some(plan) = self.leave_given_up_tier(tiers) {
            return Some(plan);
        }
        if tiers.fast_bytes <= tiers.fast_bound_bytes {
            return None;
        }
        if tiers.targets.is_empty() {
            return None;
        }
        let mut sites: Vec<Site> =
            self.bottom_cells().filter_map(|(level, index)| self.fast_site(level, index)).collect();
        sites.sort_by(Site::colder);
        let mut leaving = sites.iter().filter_map(|site| Some((site, tiers.target_of(site.written_bytes)?)));
        let leaving = leaving.find_map(|(site, target)| match site {
            Site { level: 1, with_tables: true, .. } => self.move_down(1, site.index, false),
            Site { with_tables: true, .. } => self.move_cell(site, Placement::Tables(target)),
            _ => self.move_cell(site, Placement::Values(target)),
        });
        let is_busy = |&(level, index): &(usize, usize)| {
            let sum = self.sum(level, index);
            sum.runs > 0 && (sum.is_taken || sum.is_appended)
        };
        let may_sink = sites.is_empty() && !self.every_cell(1..self.last + 1).any(|cell| is_busy(&cell));
        leaving.or_else(|| if may_sink { self.sink_coldest() } else { None })
    }

    /// Moves a slow cell to the fast tier if its readers have waited as long as the move takes, and if it is hotter than what would leave.
    pub(super) fn come_back(&self) -> Option<Plan> {
        let tiers =
            self.now.tiers.filter(|tiers| !tiers.is_moving && tiers.fast_bytes <= tiers.fast_bound_bytes)?;
        let mut slow: Vec<Site> = self
            .bottom_cells()
            .filter_map(|(level, index)| self.slow_site(level, index))
            .filter(|site| self.is_paid(site, tiers))
            .collect();
        if slow.is_empty() {
            return None;
        }
        slow.sort_by(|one, other| other.colder(one));
        let mut fast: Vec<Site> =
            self.bottom_cells().filter_map(|(level, index)| self.fast_site(level, index)).collect();
        fast.sort_by(Site::colder);
        let room = tiers.fast_bound_bytes - tiers.fast_bytes;
        let deviations = if tiers.is_settling { SETTLING_DEVIATIONS } else { DEVIATIONS };
        slow.iter()
            .filter(|site| is_hotter(site, &fast, room, deviations))
            .find_map(|site| self.move_cell(site, Placement::Fast))
    }

    /// Moves a cell off a tier that the user gives up: to another slow tier, or else to the fast tier. It need not be a bottom cell: a
    /// table may still name a value file of the tier although none of its slices leads into the file any more.
    pub(super) fn leave_given_up_tier(&self, tiers: &Tiers) -> Option<Plan> {
        let given_up = tiers.given_up?;
        let is_there = |slice: &Arc<Slice>| {
            let mut bodies = slice.table.bodies().iter();
            slice.table.tier == given_up || bodies.any(|held| held.body.file.tier == given_up)
        };
        let cells = self.every_cell(1..self.last + 1).filter(|&(level, index)| {
            self.is_at_rest(level, index)
                && self.cell(level, index).slices().any(|(_, slice)| is_there(slice))
        });
        let mut cells = cells.filter(|&(level, index)| self.is_readable(level, index));
        cells.find_map(|(level, index)| {
            let mut slices = self.cell(level, index).slices();
            let with_tables = slices.any(|(_, slice)| slice.table.tier != TierId::FAST);
            let site = self.site(level, index, with_tables, |slice| slice.slow_bytes());
            let is_bottom = self.version.is_empty_beneath(level, index);
            let target = tiers.target_of(site.written_bytes).filter(|_| is_bottom);
            let placement = match target {
                Some(target) if site.with_tables => Placement::Tables(target),
                Some(target) => Placement::Values(target),
                None => Placement::Fast,
            };
            self.move_cell(&site, placement)
        })
    }

    /// Whether a cell holds something, and no job works in it.
    fn is_at_rest(&self, level: usize, index: usize) -> bool {
        let sum = self.sum(level, index);
        sum.runs > 0 && !sum.is_taken && !sum.is_appended
    }

    /// The cells beneath which nothing lies, and in which no job works.
    fn bottom_cells(&self) -> impl Iterator<Item = (usize, usize)> {
        self.every_cell(1..self.last + 1).filter(|&(level, index)| {
            self.is_at_rest(level, index) && self.version.is_empty_beneath(level, index)
        })
    }

    /// A cell with something to leave the fast tier.
    fn fast_site(&self, level: usize, index: usize) -> Option<Site> {
        let slices = || self.cell(level, index).slices().map(|(_, slice)| slice);
        let with_tables = slices().all(|slice| slice.values.is_empty());
        let leaving = |slice: &Arc<Slice>| {
            let all_bytes = if with_tables { slice.bytes } else { slice.value_bytes() };
            all_bytes - slice.slow_bytes().min(all_bytes)
        };
        let site = self.site(level, index, with_tables, leaving);
        (site.bytes > 0 && self.is_readable(level, index)).then_some(site)
    }

    /// A cell with something on a slow tier.
    fn slow_site(&self, level: usize, index: usize) -> Option<Site> {
        let mut slices = self.cell(level, index).slices();
        let with_tables = slices.any(|(_, slice)| slice.table.tier != TierId::FAST);
        let site = self.site(level, index, with_tables, |slice| slice.slow_bytes());
        (site.bytes > 0 && self.is_readable(level, index)).then_some(site)
    }

    fn site(
        &self,
        level: usize,
        index: usize,
        with_tables: bool,
        bytes: impl Fn(&Arc<Slice>) -> u64,
    ) -> Site {
        let slices = self.cell(level, index).slices().map(|(_, slice)| slice);
        let site = Site { level, index, bytes: 0, written_bytes: 0, heat: 0, with_tables };
        let written = |slice: &Arc<Slice>| if with_tables { slice.bytes } else { bytes(slice) };
        slices.fold(site, |site, slice| Site {
            bytes: site.bytes.saturating_add(bytes(slice)),
            written_bytes: site.written_bytes.saturating_add(written(slice)),
            heat: site.heat.saturating_add(slice.heat()),
            ..site
        })
    }

    /// Whether no value file of the cell is known to be unreadable. The values of such a file would stay where they are, and the cell would
    /// be moved again and again.
    fn is_readable(&self, level: usize, index: usize) -> bool {
        let unreadable = |id: &FileId| self.now.tiers.is_some_and(|tiers| tiers.unreadable.contains(id));
        let mut slices = self.cell(level, index).slices();
        slices.all(|(_, slice)| !slice.values.iter().any(|(id, _)| unreadable(id)))
    }

    /// Whether readers have waited for the files of a slow cell as long as its move takes.
    fn is_paid(&self, site: &Site, tiers: &Tiers) -> bool {
        let slices = self.cell(site.level, site.index).slices();
        let reads = slices.fold(0, |sum: u64, (_, slice)| sum.saturating_add(slice.slow_reads()));
        let files = self.cell(site.level, site.index).slices().count() as u64;
        u128::from(reads) * u128::from(tiers.times.seek_ns) >= tiers.times.move_ns(site.bytes, files)
    }

    /// The merge of all runs of a cell that takes it to another tier.
    fn move_cell(&self, site: &Site, placement: Placement) -> Option<Plan> {
        let Site { level, index, .. } = *site;
        let runs = 0..self.cell(level, index).runs.len();
        let inputs = runs.flat_map(|run| self.inputs(level, index, run)).collect();
        // Nothing may come to lie on top: a slow cell has one run.
        let claims = vec![self.claim(level, self.span(level, index), Use::Own)];
        self.allowed(Plan::Merge(Merge { placement, ..self.merge(level, level, inputs, claims) }))
    }

    /// No bottom cell can leave: the coldest cell above goes down, and leaves later.
    fn sink_coldest(&self) -> Option<Plan> {
        let mut above: Vec<Site> = self
            .every_cell(1..self.last)
            .filter(|&(level, index)| {
                let sum = self.sum(level, index);
                sum.runs > 0 && !sum.is_taken && !self.version.is_empty_beneath(level, index)
            })
            .map(|(level, index)| self.site(level, index, true, |slice| slice.bytes))
            .collect();
        above.sort_by(Site::colder);
        above.into_iter().find_map(|site| self.bring_down(site.level, site.index))
    }
}

/// Whether a slow cell is hotter, by `deviations`, than the coldest of `fast`, which would leave for what has no room on the fast tier.
fn is_hotter(slow: &Site, fast: &[Site], room: u64, deviations: u128) -> bool {
    let needed = slow.bytes.saturating_sub(room);
    let (mut heat, mut bytes) = (0u64, 0u64);
    for site in fast {
        if bytes >= needed {
            break;
        }
        heat = heat.saturating_add(site.heat);
        bytes = bytes.saturating_add(site.bytes);
    }
    if needed > bytes {
        return false;
    }
    if needed == 0 {
        return true;
    }
    // The heat of as many bytes of the cells that would leave.
    let cold = u128::from(heat) * u128::from(slow.bytes) / u128::from(bytes.max(1));
    // The square root of a count has a standard deviation of about 1/2, however large the count is. The root of a heat of sampled reads has
    // sqrt(8)/2, and the difference of both roots has sqrt(1 + 8)/2 = 1.5. So for 4 deviations the root of the slow heat must be larger by
    // 6. Half a sampled read is added to the cold heat, so that this also holds for the smallest counts.
    let cold = cold + READS_OF_A_COUNT / 2;
    let least = deviations * deviations * (1 + READS_OF_A_COUNT) / 4;
    u128::from(slow.heat) > cold + least + 2 * (cold * least).isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(bytes: u64, heat: u64) -> Site {
        Site { level: 1, index: bytes as usize, bytes, written_bytes: bytes, heat, with_tables: true }
    }

    #[test]
    fn a_cell_comes_back_only_if_it_is_hotter_beyond_chance() {
        let is_hotter = |slow: &Site, fast: &[Site], room| is_hotter(slow, fast, room, DEVIATIONS);
        let hot = site(100, 1_000);
        assert!(is_hotter(&hot, &[], 100), "there is room");
        assert!(!is_hotter(&hot, &[site(50, 0)], 0), "what would leave is too little");
        assert!(is_hotter(&hot, &[site(60, 100), site(60, 200)], 0));
        assert!(
            !is_hotter(&hot, &[site(60, 100), site(60, 900)], 0),
            "833 reads of 100 bytes are not far from 1,000"
        );
        assert!(
            !is_hotter(&site(100, 50), &[site(100, 0)], 0),
            "50 reads may have met no sampled one by chance"
        );
        assert!(!is_hotter(&site(100, 0), &[site(100, 0)], 0));
        assert!(is_hotter(&site(100, 200), &[site(100, 0)], 0));
        assert!(super::is_hotter(&site(100, 50), &[site(100, 0)], 0, SETTLING_DEVIATIONS));
    }

    #[test]
    fn of_two_cells_the_one_with_fewer_reads_for_each_byte_is_colder() {
        assert_eq!(site(100, 10).colder(&site(10, 10)), Ordering::Less);
        assert_eq!(site(100, 10).colder(&site(1_000, 10)), Ordering::Greater);
        assert_eq!(site(7, 0).colder(&site(8, 0)), Ordering::Less, "of equals the first");
    }
}
