//! The null policy of the tree, *leveled*: one run a cell below L0, and merges that rewrite only what overlaps.
//!
//! *Targets.* The last level is the deepest that holds anything; it may hold `base_bytes × growth^(level-1)`, and beyond
//! that the next level becomes the last. The target of each level above is computed upward from the last one's real size,
//! each `growth` times smaller, but never below `base_bytes`.
//!
//! *Patience.* With `defers_below_l0` the merges of the levels below L0 wait for each other. A merge of L0 is no part of it: whether
//! one waits is asked in [`super::overlap`], and either policy works without the other. What a level brings down costs the next one
//! about its whole size, so it pays to bring more at once, until the merges that come into the level cost as much as the one
//! out of it. That is where each level is larger than the one above by one and the same factor, from what a merge of L0 brings
//! to what the last level holds: the factor is a root of their quotient, and never above `growth`. A patient level goes down
//! in stretches of `STRETCH` tables, not in single ones, so that it starts anew; and before L0 comes into it, unless L0 is at its
//! hard limit.
//!
//! For the same reason tables of L0 that are small beside what they overlap in L1 are *gathered*: the newest of them become one
//! table, which stays in L0. Else a few megabytes, all that hot keys in memory and logs leave to flushes, would have all of L1
//! written again and again; and so would tables that are large but hold the same keys again and again, for what counts is what
//! would be left of them, as far as it is known. When L0 has come to a *fair part* (`FAIR`) of what it overlaps it goes down.
//! An older table is gathered again only when newer ones have come to a fair part of it, so no byte is written there often.
//! (At least two are, or nothing would go.)
//!
//! *Order.* L0 at its hard limit comes first; then levels by their score, size over target (for L0: tables over the number
//! that starts a merge); then slices heavy with tombstones, so that deleting gives space back. Within a level the slice with
//! the most benefit for the bytes that it costs goes first, ties by age.
//!
//! *L0* is taken apart into groups of tables that overlap each other. A lone table over which nothing lies in L1 moves there
//! as metadata; any other group merges with what it overlaps in L1. A group holds every L0 table over its range, so nothing
//! newer ever sinks below something older (rule 7).
//!
//! *Snapshots.* `watermark` is a number that every present and future reader is at or above. A slice is rewritten in place, to
//! rid it of tombstones and old versions, only when all of it is settled: then none of them stays, and the rewrite is never
//! proposed again.

use super::options::Now;
use super::overlap::{self, Verdict};
use super::{Claim, Claims, Input, Merge, Move, Plan, Step, TreeOptions, Use};
use crate::base::counters::LEVELS;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::version::{RunId, Slice, Version};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A level whose score, in thousandths, reaches this is due.
const DUE: u64 = 1000;
/// The bytes of so many full tables go down together where levels are patient: more would keep others from them for long.
const STRETCH: u64 = 2;
/// One byte for so many is a fair part: of what L0 overlaps in L1, or of an older table that is gathered with newer ones.
pub(super) const FAIR: u64 = 4;
/// What has one entry of garbage in so many is heavy.
const HEAVY: u64 = 4;

/// The most urgent plan for a family that no running job excludes.
pub fn propose(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Option<Plan> {
    let mut planner = Planner { family, version, claims: claims.clone(), options };
    let is_deferred = planner.l0_verdict(now) == Verdict::Deferred;
    for level in planner.due_levels() {
        let mut offers = planner.due_offers(level, now);
        if level == 0 && is_deferred {
            offers.retain(|offer| matches!(offer.plan, Plan::Move(_)));
        }
        if let Some(offer) = planner.best(&offers) {
            return Some(offer.plan.clone());
        }
        if level == 0 {
            // Keeps less urgent work out of the way of L0, which would wait for a gap for ever. What is avoided leaves none.
            for wanted in offers.iter().map(|offer| offer.plan.claims()) {
                if !claims.conflicts(&wanted[0]) && !wanted.iter().any(|claim| claims.touches_avoided(claim))
                {
                    planner.claims.add(wanted.to_vec());
                }
            }
        }
    }
    let heavy = planner.heavy_offers(now.watermark);
    let pinning = planner.pinning_offers(now.to_rewrite);
    planner.best(&heavy).or_else(|| planner.best(&pinning)).map(|offer| offer.plan.clone())
}

/// A plan that makes L0 smaller, whether that is due or not.
pub fn relieve_l0(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    options: &TreeOptions,
) -> Option<Plan> {
    let planner = Planner { family, version, claims: claims.clone(), options };
    let offers = planner.offers(0);
    planner.best(&offers).map(|offer| offer.plan.clone())
}

/// The next step towards everything up to `upto` lying in the last level, without tombstones and old versions as far as
/// readers allow, and pointing into no log. Ends although writing goes on: what is newer than `upto` is left alone, and each step
/// either brings something older down or cleans a slice for good.
pub fn full(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    upto: SeqNo,
    watermark: SeqNo,
    options: &TreeOptions,
) -> Step {
    let planner = Planner { family, version, claims: claims.clone(), options };
    let last = planner.last_level();
    let mut plans: Vec<Plan> = Vec::new();
    for level in 0..last {
        let offers = planner.offers(level).into_iter();
        plans.extend(offers.filter(|offer| offer.oldest <= upto).map(|offer| offer.plan));
        if !plans.is_empty() {
            break;
        }
    }
    if plans.is_empty() {
        let is_below_watermark = |slice: &Slice| slice.seqs.0 <= upto && slice.seqs.1 <= watermark;
        let points_away = |slice: &Slice| slice.table.pins_logs() && slice.seqs.0 <= upto;
        let unclean = |slice: &Slice| slice.garbage() > 0 && is_below_watermark(slice) || points_away(slice);
        let inputs = planner.inputs(last).filter(|input| unclean(&input.slice));
        plans = inputs.map(|input| planner.rewrite(last, input).plan).collect();
    }
    let is_done = plans.is_empty();
    match plans.into_iter().find(|plan| claims.allow(plan)) {
        Some(plan) => Step::Do(plan),
        None if is_done => Step::Done,
        None => Step::Blocked,
    }
}

/// A possible plan, what it brings and what it costs.
#[derive(Debug)]
struct Offer {
    plan: Plan,
    benefit: u64,
    /// Bytes to be merged.
    cost: u64,
    /// The smallest sequence number that it brings down.
    oldest: SeqNo,
    /// Decides between equals.
    table: FileId,
}

impl Offer {
    /// The better one is the greater: more benefit for the cost, then older, then the lower table number.
    fn compare(&self, other: &Offer) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.benefit, other.cost)
            .cmp(&product(other.benefit, self.cost))
            .then_with(|| (other.oldest, other.table).cmp(&(self.oldest, self.table)))
    }
}

struct Planner<'a> {
    family: FamilyId,
    version: &'a Version,
    /// Those of running jobs, and those kept free for something more urgent.
    claims: Claims,
    options: &'a TreeOptions,
}

impl Planner<'_> {
    /// The deepest level that holds anything, L1 at least.
    fn last_level(&self) -> usize {
        self.version.last_level().max(1)
    }

    /// The size that `level` should not exceed.
    fn target_bytes(&self, level: usize) -> u64 {
        let TreeOptions { base_bytes, growth, .. } = *self.options;
        let last = self.last_level();
        match level.cmp(&last) {
            _ if level + 1 == LEVELS => u64::MAX,
            Ordering::Less => {
                let shrunk =
                    self.version.level(last).bytes() as f64 / self.growth().powi((last - level) as i32);
                (shrunk as u64).max(base_bytes)
            }
            Ordering::Equal => (1..level).fold(base_bytes, |bytes, _| bytes.saturating_mul(growth)),
            Ordering::Greater => u64::MAX,
        }
    }

    /// How many times larger each level shall be than the one above it.
    fn growth(&self) -> f64 {
        let (last, most) = (self.last_level(), self.options.growth as f64);
        if !self.options.is_patient() {
            return most;
        }
        let whole = self.version.level(last).bytes() as f64 / self.options.base_bytes.max(1) as f64;
        libm::pow(whole, 1.0 / last as f64).min(most)
    }

    /// The levels over their targets, most urgent first.
    fn due_levels(&self) -> Vec<usize> {
        let score = |level: usize| match self.score(level) {
            // It would write all of L1 again: what is due there goes first.
            score if level == 0 && self.options.is_patient() && (DUE..u64::MAX).contains(&score) => DUE,
            score => score,
        };
        let mut due: Vec<(u64, usize)> =
            (0..LEVELS).map(|level| (score(level), level)).filter(|&(score, _)| score >= DUE).collect();
        due.sort_by_key(|&(score, level)| (Reverse(score), level));
        due.into_iter().map(|(_, level)| level).collect()
    }

    /// How pressing it is to make `level` smaller, in thousandths. What running jobs work on does not count.
    fn score(&self, level: usize) -> u64 {
        let free = self.inputs(level).filter(|input| !self.is_claimed(level, &input.slice.range));
        if level == 0 {
            let tables = free.count();
            if tables >= self.options.l0_stop_tables {
                return u64::MAX;
            }
            return tables as u64 * DUE / self.options.l0_merge_tables.max(1) as u64;
        }
        let bytes: u64 = free.map(|input| input.slice.bytes).sum();
        let target = self.target_bytes(level).max(1);
        if bytes <= target { 0 } else { (u128::from(bytes) * u128::from(DUE) / u128::from(target)) as u64 }
    }

    fn l0_verdict(&self, now: &Now<'_>) -> Verdict {
        let slices = self.version.level(0).slices().map(|(_, _, slice)| slice);
        let free = slices.filter(|slice| !self.is_claimed(0, &slice.range));
        overlap::verdict(free, now.overlap_permille, self.options)
    }

    fn is_claimed(&self, level: usize, range: &KeyRange) -> bool {
        self.claims.conflicts(&self.claim(level, range, Use::Take))
    }

    /// The best offer whose ranges are free.
    fn best<'b>(&self, offers: &'b [Offer]) -> Option<&'b Offer> {
        offers.iter().filter(|offer| self.claims.allow(&offer.plan)).max_by(|a, b| a.compare(b))
    }

    /// All slices of a level.
    fn inputs(&self, level: usize) -> impl Iterator<Item = Input> {
        self.version.level(level).slices().map(move |(cell, epoch, slice)| Input {
            run: RunId { level, cell: cell.low.clone(), epoch },
            slice: slice.clone(),
        })
    }

    /// The slices of a level that reach into `range`.
    fn overlapping(&self, level: usize, range: &KeyRange) -> Vec<Input> {
        let slices = self.version.level(level).overlapping(range);
        slices
            .map(|(cell, epoch, slice)| Input {
                run: RunId { level, cell: cell.low.clone(), epoch },
                slice: slice.clone(),
            })
            .collect()
    }

    fn overlapping_bytes(&self, level: usize, range: &KeyRange) -> u64 {
        if level >= LEVELS {
            return 0;
        }
        self.version.level(level).overlapping(range).map(|(_, _, slice)| slice.bytes).sum()
    }

    /// What could be done about a level that is due.
    fn due_offers(&self, level: usize, now: &Now<'_>) -> Vec<Offer> {
        if level > 0 {
            return self.offers(level);
        }
        let groups = self.groups_of_l0().into_iter();
        let offer = |group: Vec<Input>| self.gather(&group, now).unwrap_or_else(|| self.bring_down(0, group));
        groups.map(offer).collect()
    }

    /// What a merge of a group of L0 would leave of it, as far as is known.
    fn left_bytes(&self, group: &[Input], now: &Now<'_>) -> u64 {
        let bytes: u64 = group.iter().map(|input| input.slice.bytes).sum();
        let largest = group.iter().map(|input| input.slice.bytes).max().unwrap_or(0);
        // What is known of L0 with L1 tells nothing of L0 alone; and of keys, nothing of the versions that readers need.
        let is_of_l0 = !self.options.asks_l1();
        let are_settled = group.iter().all(|input| input.slice.seqs.1 <= now.watermark);
        let gone_permille = now.overlap_permille.filter(|_| is_of_l0 && are_settled).unwrap_or(0).min(1000);
        let left_bytes = (u128::from(bytes) * u128::from(1000 - gone_permille) / 1000) as u64;
        // The estimate is a mean over all of L0.
        left_bytes.max(largest)
    }

    /// Makes one table of the newest of a group, newest first, which is too small to be brought down.
    fn gather(&self, group: &[Input], now: &Now<'_>) -> Option<Offer> {
        let range =
            KeyRange::hull(group.iter().map(|input| &input.slice.range)).expect("a group is not empty");
        let sum = |of: fn(&Slice) -> u64| group.iter().map(|input| of(&input.slice)).sum::<u64>();
        let is_heavy = is_heavy(sum(|slice| slice.tombstones), sum(|slice| slice.entries));
        let is_small = self.left_bytes(group, now).saturating_mul(FAIR) < self.overlapping_bytes(1, &range);
        if !self.options.is_patient() || group.len() < 2 || is_heavy || !is_small {
            return None;
        }
        let mut newer_bytes = 0u64;
        let newest = group.iter().enumerate().take_while(|(rank, input)| {
            let is_taken = *rank < 2 || input.slice.bytes <= newer_bytes.saturating_mul(FAIR);
            newer_bytes += input.slice.bytes;
            is_taken
        });
        let newest = newest.map(|(_, input)| input.clone()).collect();
        // A run of L0 is one slice.
        let merge = Merge { table_bytes: u64::MAX, grandparent_bytes: u64::MAX, ..self.merge(0, 0, newest) };
        Some(self.in_place(merge))
    }

    /// What could be brought from `level` to the next.
    fn offers(&self, level: usize) -> Vec<Offer> {
        if level == 0 {
            return self.groups_of_l0().into_iter().map(|group| self.bring_down(0, group)).collect();
        }
        let mut offers: Vec<Offer> =
            self.inputs(level).map(|input| self.bring_down(level, vec![input])).collect();
        if self.options.is_patient() {
            offers.retain(|offer| matches!(offer.plan, Plan::Move(_)));
            offers.extend(self.stretches(level).into_iter().map(|inputs| self.bring_down(level, inputs)));
        }
        offers
    }

    /// The slices of a level, by key, those together that a patient one brings down at once.
    fn stretches(&self, level: usize) -> Vec<Vec<Input>> {
        let most_bytes = self.options.table_bytes.saturating_mul(STRETCH);
        let mut stretches: Vec<Vec<Input>> = Vec::new();
        let mut bytes = 0;
        for input in self.inputs(level) {
            bytes += input.slice.bytes;
            match stretches.last_mut() {
                Some(stretch) if bytes <= most_bytes => stretch.push(input),
                _ => {
                    bytes = input.slice.bytes;
                    stretches.push(vec![input]);
                }
            }
        }
        stretches
    }

    /// L0 in groups, by key: tables that overlap each other, directly or through others, newest first.
    fn groups_of_l0(&self) -> Vec<Vec<Input>> {
        let mut inputs: Vec<Input> = self.inputs(0).collect();
        if mutant!("l0_move_past_older") {
            return inputs.into_iter().map(|input| vec![input]).collect();
        }
        inputs.sort_by(|a, b| a.slice.range.low.cmp(&b.slice.range.low));
        let mut groups: Vec<(KeyRange, Vec<Input>)> = Vec::new();
        for input in inputs {
            match groups.last_mut() {
                Some((range, group)) if range.overlaps(&input.slice.range) => {
                    range.extend(&input.slice.range);
                    group.push(input);
                }
                _ => groups.push((input.slice.range.clone(), vec![input])),
            }
        }
        let newest_first = |(_, mut group): (_, Vec<Input>)| {
            group.sort_by_key(|input| Reverse(input.run.epoch));
            group
        };
        groups.into_iter().map(newest_first).collect()
    }

    /// Brings `sources` from `level` to the next: a lone slice as metadata if nothing lies there, else by a merge.
    fn bring_down(&self, level: usize, mut sources: Vec<Input>) -> Offer {
        let to = level + 1;
        let range =
            KeyRange::hull(sources.iter().map(|input| &input.slice.range)).expect("there are sources");
        let targets = self.overlapping(to, &range);
        let oldest = sources.iter().map(|input| input.slice.seqs.0).min().expect("there are sources");
        let table = sources.iter().map(|input| input.slice.table.id).min().expect("there are sources");
        let benefit = sources.iter().map(|input| benefit(&input.slice)).sum();
        let is_light = self.overlapping_bytes(to + 1, &range) <= self.grandparent_bytes();
        if sources.len() == 1 && targets.is_empty() && is_light {
            let claims = vec![self.claim(level, &range, Use::Take), self.claim(to, &range, Use::Own)];
            let moved = Move { family: self.family, inputs: sources, to, into: None, claims };
            return Offer { plan: Plan::Move(moved), benefit, cost: 0, oldest, table };
        }
        sources.extend(targets);
        let merge = self.merge(level, to, sources);
        Offer { cost: merge.bytes(), plan: Plan::Merge(merge), benefit, oldest, table }
    }

    /// Rewrites a slice where it is.
    fn rewrite(&self, level: usize, input: Input) -> Offer {
        self.in_place(self.merge(level, level, vec![input]))
    }

    /// What a merge within a level is worth.
    fn in_place(&self, merge: Merge) -> Offer {
        let slices = || merge.inputs.iter().map(|input| &input.slice);
        let oldest = slices().map(|slice| slice.seqs.0).min().expect("a merge has inputs");
        let table = slices().map(|slice| slice.table.id).min().expect("a merge has inputs");
        let benefit = slices().map(|slice| benefit(slice)).sum();
        Offer { cost: merge.bytes(), plan: Plan::Merge(merge), benefit, oldest, table }
    }

    fn merge(&self, from: usize, to: usize, inputs: Vec<Input>) -> Merge {
        let hull = |inputs: &mut dyn Iterator<Item = &Input>| {
            KeyRange::hull(inputs.map(|input| &input.slice.range)).expect("a merge has sources")
        };
        let source = hull(&mut inputs.iter().filter(|input| input.run.level == from));
        let mut claims = vec![self.claim(from, &source, Use::Take)];
        if from != to {
            claims.push(self.claim(to, &hull(&mut inputs.iter()), Use::Own));
        }
        Merge {
            family: self.family,
            from,
            to,
            inputs,
            table_bytes: self.options.table_bytes,
            grandparent_bytes: self.grandparent_bytes(),
            gathers: false,
            is_bought: false,
            claims,
        }
    }

    fn claim(&self, level: usize, range: &KeyRange, kind: Use) -> Claim {
        Claim { family: self.family, level, span: Span::from(range), kind }
    }

    fn grandparent_bytes(&self) -> u64 {
        self.options.table_bytes.saturating_mul(self.options.growth)
    }

    /// What could be done about slices that are heavy with garbage. Above the last level, tombstones are brought nearer to
    /// what they hide, unless that would cost much more than the growth of the tree makes normal; in the last level, what
    /// nobody sees is dropped by a rewrite.
    fn heavy_offers(&self, watermark: SeqNo) -> Vec<Offer> {
        let last = self.last_level();
        let is_below_watermark = |slice: &Arc<Slice>| slice.seqs.1 <= watermark;
        let mut offers = Vec::new();
        for level in 1..last {
            let heavy = |slice: &Slice| is_heavy(slice.tombstones, slice.entries);
            for input in
                self.inputs(level).filter(|input| is_below_watermark(&input.slice) && heavy(&input.slice))
            {
                let bearable = input.slice.bytes.saturating_mul(2 * self.options.growth);
                if self.overlapping_bytes(level + 1, &input.slice.range) <= bearable {
                    offers.push(self.bring_down(level, vec![input]));
                }
            }
        }
        let heavy = |slice: &Slice| is_heavy(slice.garbage(), slice.entries);
        for input in self.inputs(last).filter(|input| is_below_watermark(&input.slice) && heavy(&input.slice))
        {
            offers.push(self.rewrite(last, input));
        }
        offers
    }

    /// Takes handles out of tables whose logs are to go: a rewrite writes the values. What lies in L0 is brought down with all that
    /// overlaps it.
    fn pinning_offers(&self, to_rewrite: &BTreeSet<FileId>) -> Vec<Offer> {
        if to_rewrite.is_empty() {
            return Vec::new();
        }
        let is_pinning = |input: &Input| to_rewrite.contains(&input.slice.table.id);
        let groups = self.groups_of_l0().into_iter().filter(|group| group.iter().any(is_pinning));
        let mut offers: Vec<Offer> = groups.map(|group| self.bring_down(0, group)).collect();
        for level in 1..LEVELS {
            offers.extend(self.inputs(level).filter(is_pinning).map(|input| self.rewrite(level, input)));
        }
        offers
    }
}

/// Whether so many entries of all are too much garbage.
fn is_heavy(garbage: u64, entries: u64) -> bool {
    garbage.saturating_mul(HEAVY) > entries
}

/// What bringing a slice down is worth: its bytes, and more for garbage, which a merge may drop.
fn benefit(slice: &Slice) -> u64 {
    let garbage =
        u128::from(slice.bytes) * 2 * u128::from(slice.garbage()) / u128::from(slice.entries.max(1));
    slice.bytes.saturating_add(garbage as u64)
}
