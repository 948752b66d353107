//! Purchases: a merge is bought when what readers paid in vain for its inputs reaches its price (`version/usage/rent.rs`).
//!
//! This is the rule of rent or buy. For one decision, what readers lost in vain and the merge together cost at most twice as much as the
//! best plan in hindsight. A nanosecond of a reader counts as `READER_WEIGHT` nanoseconds of a merge. Cells that readers leave alone keep
//! their runs until they are due. Cells in which scans begin, or in which gets search in vain, become one run.
//!
//! *What a merge removes.* After a merge of neighbouring runs, readers still search below the oldest of them, and go on paying its rent. So
//! the rent of a merge is the rent of its inputs without the oldest run, in each cell of the lowest level.
//!
//! *Candidates* are, for each cell, all windows of neighbouring runs, merged in place; and the whole cell, merged with all runs of the next
//! level that it meets. If it meets nothing there, its oldest run moves down, as metadata. The candidate with the most rent for its price
//! is bought first. In L0 the first remedy is to hand tables over to L1, which writes nothing.
//!
//! *One at a time.* No merge is bought while a bought one runs. So reads all over the tree cannot keep all threads from urgent work. The
//! rent of the inputs is cleared when the merge begins. So a merge that fails is not tried again until readers have paid its price once
//! more.

use super::down::{Arrival, Room};
use super::{Planner, Sum};
use crate::base::ids::SeqNo;
use crate::plan::{Merge, Plan};
use crate::version::usage::rent::MOVE_NS;
use crate::version::{Run, Slice};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// What readers paid for some slices, and what a merge of them costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    rent_ns: u64,
    price_ns: u64,
}

impl Account {
    fn of<'a>(slices: impl IntoIterator<Item = &'a Arc<Slice>>) -> Account {
        slices.into_iter().fold(Account::default(), |sum, slice| {
            sum.and(Account { rent_ns: slice.paid().ns(), price_ns: slice.price_ns() })
        })
    }

    fn and(self, other: Account) -> Account {
        Account {
            rent_ns: self.rent_ns.saturating_add(other.rent_ns),
            price_ns: self.price_ns.saturating_add(other.price_ns),
        }
    }

    /// The rent in thousandths of the price.
    fn permille(&self) -> u64 {
        let permille = u128::from(self.rent_ns) * 1000 / u128::from(self.price_ns.max(1));
        u64::try_from(permille).unwrap_or(u64::MAX)
    }

    fn is_paid(&self) -> bool {
        self.rent_ns > 0 && self.rent_ns >= self.price_ns
    }
}

/// A merge or a move whose rent has reached its price.
struct Offer {
    permille: u64,
    oldest: SeqNo,
    level: usize,
    index: usize,
    what: What,
}

enum What {
    InPlace(Range<usize>),
    Down,
    Move,
}

impl Merge {
    /// Nanoseconds that readers paid in vain for the inputs.
    pub fn paid_ns(&self) -> u64 {
        self.inputs.iter().fold(0, |sum: u64, input| sum.saturating_add(input.slice.paid().ns()))
    }
}

impl Planner<'_> {
    /// The merge or move with the most rent for its price, if its rent has reached the price.
    pub(super) fn purchase(&self) -> Option<Plan> {
        if !self.options.buys_merges || !self.now.may_buy {
            return None;
        }
        if let Some(plan) = self.purchase_of_l0() {
            return Some(plan);
        }
        let mut offers: Vec<Offer> =
            self.every_cell(1..self.last + 1).filter_map(|(level, index)| self.offer(level, index)).collect();
        offers.sort_by_key(|offer| (Reverse(offer.permille), offer.oldest, offer.level, offer.index));
        offers.into_iter().find_map(|offer| {
            let Offer { level, index, what, .. } = offer;
            match what {
                What::InPlace(window) => self.merge_window(level, index, window),
                What::Move => self.move_down(level, index, false),
                What::Down => self.allowed(Plan::Merge(self.merge_with_below(level, index)?)),
            }
        })
    }

    /// Moves tables of L0 to L1; or merges them, if each cell has one run. At first tables move only to cells of L1 that do not become due.
    /// Once the rent reaches the price of merging all of L0 and L1, cells of L1 take tables up to their hard bound. Otherwise one full cell
    /// that no reader visits could keep tables in L0 that readers search. The later merge of such a cell has the reason `Depth`.
    fn purchase_of_l0(&self) -> Option<Plan> {
        let account = Account::of(self.version.level(0).slices().map(|(_, _, slice)| slice));
        if !self.options.merges_l0() {
            if account.rent_ns < MOVE_NS {
                return None;
            }
            let with_l1 = account.and(Account::of(self.version.level(1).slices().map(|(_, _, slice)| slice)));
            let room = if with_l1.is_paid() { Room::UpToHard } else { Room::BelowDue };
            return self.move_l0_down(room);
        }
        if account.rent_ns == 0 {
            return None;
        }
        self.l0_groups().into_iter().filter_map(|group| self.merge_of_l0(&group)).find_map(|merge| {
            let newer = Account::of(
                merge.inputs.iter().filter(|input| input.run.level == 0).map(|input| &input.slice),
            );
            let all = Account::of(merge.inputs.iter().map(|input| &input.slice));
            let is_paid = Account { price_ns: all.price_ns, ..newer }.is_paid();
            if is_paid { self.allowed(Plan::Merge(merge)) } else { None }
        })
    }

    /// The best candidate of a cell, if readers have paid for it.
    fn offer(&self, level: usize, index: usize) -> Option<Offer> {
        let sum: &Sum = self.sum(level, index);
        if sum.runs == 0 || sum.is_taken {
            return None;
        }
        let runs = &self.cell(level, index).runs;
        // If the rent of a merge reaches its price, the rent of at least one input reaches its own part of the price.
        let has_paid = |slice: &Arc<Slice>| slice.paid().ns() >= slice.price_ns().min(MOVE_NS);
        if !runs.iter().any(|run| run.slices.iter().any(has_paid)) {
            return None;
        }
        let accounts: Vec<Account> = runs.iter().map(|run| Account::of(&*run.slices)).collect();
        let in_place = best_window(&accounts).map(|(window, account)| (What::InPlace(window), account));
        let down = if level < self.last { self.account_down(level, index, &accounts) } else { None };
        let candidates = in_place.into_iter().chain(down).filter(|(_, account)| account.is_paid());
        let (what, account) = candidates.max_by_key(|(_, account)| account.permille())?;
        Some(Offer { permille: account.permille(), oldest: sum.seqs.0, level, index, what })
    }

    /// How a whole cell goes down, whose runs have these `accounts`: by a merge with all that it meets in the next level. If it meets
    /// nothing there, its oldest run moves down, nearer to the runs that lie deeper. A merge within the cell would not remove the rent of
    /// its oldest run.
    fn account_down(&self, level: usize, index: usize, accounts: &[Account]) -> Option<(What, Account)> {
        let mut account = accounts.iter().fold(Account::default(), |sum, &run| sum.and(run));
        let runs = &self.cell(level, index).runs;
        let arrivals = self.arrivals(level + 1, runs, &self.span(level, index));
        let mut meets_any = false;
        for arrival in &arrivals {
            let meets = |run: &Run| Account::of(run.overlapping(&arrival.range));
            let met: Vec<Account> = self
                .cell(level + 1, arrival.index)
                .runs
                .iter()
                .map(meets)
                .filter(|met| met.price_ns > 0)
                .collect();
            let Some((oldest, newer)) = met.split_last() else { continue };
            meets_any = true;
            account = newer.iter().fold(account, |sum, &run| sum.and(run));
            account.price_ns = account.price_ns.saturating_add(oldest.price_ns);
        }
        if meets_any {
            return Some((What::Down, account));
        }
        let oldest = *accounts.last()?;
        (level + 1 < self.last).then_some((What::Move, Account { price_ns: MOVE_NS, ..oldest }))
    }

    /// The merge of a whole cell with all that it meets in the next level, where no running job works.
    fn merge_with_below(&self, level: usize, index: usize) -> Option<Merge> {
        let below = self.cells_in(level + 1, &self.span(level, index));
        let is_free = |sum: &Sum| !sum.is_taken && !sum.is_appended;
        if !below.map(|index| self.sum(level + 1, index)).all(is_free) {
            return None;
        }
        let all = |arrival: &Arrival| self.cell(level + 1, arrival.index).runs.len();
        Some(self.merge_runs_down(level, index, &self.cell(level, index).runs, all)?.merge)
    }
}

/// The neighbouring runs, newest first, whose merge has the most rent for its price. Among equals: fewer runs, then newer ones.
fn best_window(runs: &[Account]) -> Option<(Range<usize>, Account)> {
    let mut best: Option<(Range<usize>, Account)> = None;
    for start in 0..runs.len() {
        let mut newer = runs[start];
        for end in start + 2..=runs.len() {
            let oldest = runs[end - 1];
            let price_ns = newer.price_ns.saturating_add(oldest.price_ns);
            let account = Account { price_ns, ..newer };
            if best.as_ref().is_none_or(|(_, than)| account.permille() > than.permille()) {
                best = Some((start..end, account));
            }
            newer = newer.and(oldest);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(runs: &[(u64, u64)]) -> Vec<Account> {
        runs.iter().map(|&(rent_ns, price_ns)| Account { rent_ns, price_ns }).collect()
    }

    fn best(runs: &[(u64, u64)]) -> Option<(Range<usize>, u64)> {
        best_window(&accounts(runs)).map(|(window, account)| (window, account.permille()))
    }

    #[test]
    fn readers_go_on_paying_for_the_oldest_run_of_a_window() {
        assert_eq!(best(&[]), None);
        assert_eq!(best(&[(1_000, 1)]), None, "one run cannot become fewer");
        assert_eq!(best(&[(30, 10), (500, 20)]), Some((0..2, 1_000)));
        assert_eq!(best(&[(0, 10), (500, 20)]), Some((0..2, 0)));
    }

    #[test]
    fn a_window_is_as_long_as_pays() {
        // The third run is ten times as large as the others.
        assert_eq!(best(&[(20, 10), (20, 10), (20, 100)]), Some((0..2, 1_000)));
        assert_eq!(best(&[(20, 10), (20, 10), (20, 10)]), Some((0..3, 1_333)));
        assert_eq!(best(&[(1, 90), (50, 10), (50, 10), (9, 10)]), Some((1..4, 3_333)));
    }

    #[test]
    fn what_was_not_paid_is_not_bought() {
        let account = |rent_ns, price_ns| Account { rent_ns, price_ns };
        assert!(!account(0, 0).is_paid() && !account(9, 10).is_paid() && account(10, 10).is_paid());
        assert_eq!(account(u64::MAX, 0).permille(), u64::MAX);
        assert_eq!(account(u64::MAX, 1).and(account(1, 1)), account(u64::MAX, 2));
    }
}
