//! The readers of a forecast: what gets and scans ask of the tree, and what they pay in vain.
//!
//! Readers come evenly to all keys that have been written. Between two positions at which slices begin or end, a get asks the slices from
//! the newest to the one that holds its key. The share of keys that a slice holds there is its share of the entries. So the expected number
//! of slices that are asked follows from the counts of entries alone. What a slice is owed is charged as the engine charges it
//! (`read/get.rs`, `read/scan.rs`), in whole units; the rest is kept for the next round.

use super::{Machine, edges, position, stretches, width};
use crate::base::ids::FileId;
use crate::version::usage::rent::{CHARGED_BITS, Paid};
use crate::version::{Slice, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries that a scan of a forecast reads, as in `braidb-lab bench`.
const SCAN_ENTRIES: f64 = 50.0;
/// A reader that is charged pays for this many readers.
const WEIGHT: f64 = (1 << CHARGED_BITS) as f64;
/// Rounds in which readers come between two flushes. The planner is asked after each, so that a merge is bought at most a quarter of a
/// memtable too late.
const ROUNDS: u32 = 4;
/// How many of the keys that a table does not hold its filter lets pass, at 10 bits a key.
const FALSE_POSITIVES: f64 = 0.01;

/// What slices are owed, in fractions of a unit, by table and lowest key.
#[derive(Debug, Default)]
pub(super) struct Owed(BTreeMap<(FileId, Vec<u8>), Units>);

#[derive(Clone, Copy, Debug, Default)]
struct Units {
    filters: f64,
    blocks: f64,
    cursors: f64,
    steps: f64,
}

impl Units {
    /// Takes the whole units, as many at once as a reader is charged for. Where a merge is cheap, readers pay a little more than its price.
    fn take(&mut self) -> Paid {
        let take = |owed: &mut f64| {
            let whole = (*owed / WEIGHT).floor() * WEIGHT;
            *owed -= whole;
            whole as u64
        };
        Paid {
            filters: take(&mut self.filters),
            blocks: take(&mut self.blocks),
            cursors: take(&mut self.cursors),
            steps: take(&mut self.steps),
        }
    }
}

impl Machine {
    /// The readers that come while the memtable fills up to `next` entries, as many as belong to the `entries` flushed last. Gets of keys
    /// in memory ask no table.
    pub(super) fn readers_come(&mut self, entries: u64, next: u64) {
        let share = entries as f64 / self.load.entries as f64 / f64::from(ROUNDS);
        for round in 0..ROUNDS {
            let in_memory = next as f64 * (f64::from(round) + 0.5) / f64::from(ROUNDS);
            let all = self.keys_met(self.written as f64 + in_memory);
            let of_tables = 1.0 - (self.keys_met(in_memory) / all).min(1.0);
            self.read(self.load.gets as f64 * share * of_tables, self.load.scans as f64 * share);
            self.settle();
        }
    }

    /// Gets and scans of random keys, fractions of a reader included.
    fn read(&mut self, gets: f64, scans: f64) {
        let version = self.version();
        let slices = || version.levels().flat_map(|level| level.slices()).map(|(_, _, slice)| slice);
        let Some(high) = slices().map(|slice| position(&slice.range.high)).max() else { return };
        let (mut owed, mut probes) = (Owed::default(), 0.0);
        for (low, high) in stretches(&edges(slices()), high) {
            let stack = under(&version, low);
            let share = self.keys_between(low, high) / self.keys_met(self.written as f64).max(1.0);
            probes += self.read_between((low, high), &stack, (gets * share, scans * share), &mut owed);
        }
        self.probes += probes;
        let before = std::mem::replace(&mut self.owed, owed);
        for slice in slices() {
            let name = (slice.table.id, slice.range.low.clone());
            let Some(units) = self.owed.0.get_mut(&name) else { continue };
            if let Some(rest) = before.0.get(&name) {
                units.filters += rest.filters;
                units.blocks += rest.blocks;
                units.cursors += rest.cursors;
                units.steps += rest.steps;
            }
            slice.charge(units.take());
        }
    }

    /// Adds what readers of a stretch owe to the slices that hold it, newest first. Returns how many slices gets ask.
    fn read_between(
        &self,
        (low, high): (u64, u64),
        stack: &[Arc<Slice>],
        (gets, scans): (f64, f64),
        owed: &mut Owed,
    ) -> f64 {
        let keys = self.keys_between(low, high);
        if stack.is_empty() || keys <= 0.0 {
            return 0.0;
        }
        let held: Vec<f64> = stack.iter().map(|slice| entries_between(slice, low, high) / keys).collect();
        // For each `count`: the share of keys that the first `count` slices do not hold.
        let missing: Vec<f64> = (0..=held.len()).map(|count| self.missing(&held[..count])).collect();
        let nowhere = missing[held.len()];
        let hidden_of_key = held.iter().sum::<f64>() - (1.0 - nowhere);
        let payers = held.len() - 1;
        for (slice, behind) in stack.iter().zip(&missing[1..]).take(payers) {
            let units = owed.0.entry((slice.table.id, slice.range.low.clone())).or_default();
            let in_vain = gets * (behind - nowhere).max(0.0);
            units.filters += in_vain * (1.0 - FALSE_POSITIVES);
            units.blocks += in_vain * FALSE_POSITIVES;
            units.cursors += scans;
            units.steps += scans * SCAN_ENTRIES * hidden_of_key.max(0.0) / payers as f64;
        }
        missing[..held.len()].iter().map(|reached| gets * (reached - nowhere).max(0.0)).sum()
    }

    /// The share of keys that none of these slices holds.
    fn missing(&self, held: &[f64]) -> f64 {
        match self.is_unique() {
            true => (1.0 - held.iter().sum::<f64>()).max(0.0),
            false => held.iter().map(|share| 1.0 - share.min(1.0)).product(),
        }
    }

    /// Number of different keys that were written between two positions.
    fn keys_between(&self, low: u64, high: u64) -> f64 {
        if self.load.is_sequential {
            let end = self.written as f64 / self.load.keys as f64 * super::POSITIONS;
            return self.keys_in((width(low, high)).min((end - low as f64).max(0.0)));
        }
        self.keys_met(self.written as f64) * width(low, high) / super::POSITIONS
    }
}

/// The slices that hold a position, newest first.
fn under(version: &Version, at: u64) -> Vec<Arc<Slice>> {
    let key = at.to_be_bytes();
    let runs = version.levels().flat_map(|level| &level.cell(&key).runs);
    runs.filter_map(|run| run.find(&key)).cloned().collect()
}

/// The entries of a slice between two positions that it reaches over.
fn entries_between(slice: &Slice, low: u64, high: u64) -> f64 {
    let (first, last) = (position(&slice.range.low), position(&slice.range.high));
    slice.entries as f64 * width(low, high) / width(first, last)
}
