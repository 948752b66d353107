//! A forecast of what a load will cost. The planners run over sizes alone, without data, files or time.
//!
//! Tables have no entries here, only parts: a range of positions and a count. What a merge writes is computed from a product of
//! densities, as if keys were drawn evenly. The plans, claims and edits are the real ones, applied to a real [`State`]. So a
//! forecast differs from the engine only in what it assumes of the load, not in policy. Here jobs keep up with writes, and
//! each runs alone.
//!
//! Readers ([`readers`]) ask the tree between the writes and pay in vain, so that they buy merges.
//!
//! A tree of very many cells is forecast with fewer and larger ones. Under an even load the cells of one level fare alike, and
//! their number hardly matters.

mod readers;

use super::edits::Moment;
use super::{Claims, Guards, Merge, Met, Now, Picker, Plan, Split, TreeOptions, samples};
use crate::base::counters::LEVELS;
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo, TierId};
use crate::base::key::KeyRange;
use crate::base::part::Part;
use crate::base::sample::{LEAST, ZERO_BITS};
use crate::table::Reason;
use crate::version::{Cell, Edit, NewTable, Run, Slice, State, TableStore, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const FAMILY: FamilyId = FamilyId::DEFAULT;
/// Most cells on the last level of a forecast. With more, cells are made larger.
const MOST_CELLS: u64 = 128;

/// The writes and reads to forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub entries: u64,
    /// Bytes of a key and its value.
    pub entry_bytes: u64,
    /// The number of different keys; at `entries` or more, each write has a key of its own.
    pub keys: u64,
    /// Keys come in order instead of at random, and start again from the first after the last.
    pub is_sequential: bool,
    /// Gets of random keys that were written, evenly between the writes.
    pub gets: u64,
    /// Scans of 50 entries from random keys, evenly between the writes.
    pub scans: u64,
}

/// The forecast costs of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    pub flushed_bytes: u64,
    /// Bytes written by merges, by target level.
    pub merged_bytes: [u64; LEVELS],
    pub merges: u64,
    /// Merges that readers bought by what they paid in vain.
    pub bought_merges: u64,
    /// Changes of metadata: runs moved, cells split and joined.
    pub rearrangements: u64,
    /// How many tables gets asked. Some of them answered by their filters alone.
    pub probes: u64,
    /// Bytes of entries in tables that readers can still read, 9 for each besides its key and value.
    pub live_bytes: u64,
    /// Bytes of all tables at the end.
    pub space_bytes: u64,
    /// The largest bytes of all tables at any time, with the outputs of merges beside their inputs.
    pub peak_space_bytes: u64,
    pub levels: [LevelForecast; LEVELS],
}

/// One level of the tree at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelForecast {
    pub cells: u64,
    pub runs: u64,
    pub slices: u64,
    pub bytes: u64,
}

impl Forecast {
    /// Bytes written by flushes and merges for each byte flushed.
    pub fn merge_amplification(&self) -> f64 {
        let merged: u64 = self.merged_bytes.iter().sum();
        (self.flushed_bytes + merged) as f64 / self.flushed_bytes.max(1) as f64
    }
}

/// Forecasts a load. `store` serves no table: nothing is read.
/// `progress` gets the entries that were written.
pub fn forecast(
    load: &Load,
    memtable_bytes: u64,
    options: &TreeOptions,
    store: Arc<TableStore>,
    progress: &mut dyn FnMut(u64),
) -> Forecast {
    let mut machine = Machine::new(*load, options, store);
    let memtable_entries = (memtable_bytes / load.entry_bytes.max(1)).max(1);
    while machine.written < load.entries {
        let entries = memtable_entries.min(load.entries - machine.written);
        machine.flush(entries);
        machine.settle();
        if load.gets + load.scans > 0 {
            machine.readers_come(entries, memtable_entries.min(load.entries - machine.written));
        }
        progress(machine.written);
    }
    machine.forecast()
}

struct Machine {
    load: Load,
    options: TreeOptions,
    state: State,
    /// Always empty: jobs run one at a time.
    claims: Claims,
    shadowed_permille: u64,
    sampled: BTreeMap<Vec<u8>, usize>,
    /// By top level: the fraction of a sampled key that the flushes so far left over.
    unsampled: [f64; LEVELS],
    chance: u64,
    written: u64,
    next_file: u64,
    flushed_bytes: u64,
    merged_bytes: [u64; LEVELS],
    merges: u64,
    bought_merges: u64,
    rearrangements: u64,
    probes: f64,
    owed: readers::Owed,
    peak_space_bytes: u64,
}

impl Machine {
    fn new(load: Load, options: &TreeOptions, store: Arc<TableStore>) -> Machine {
        let load = Load { keys: load.keys.clamp(1, load.entries.max(1)), ..load };
        let least = load.keys.saturating_mul(load.entry_bytes) / MOST_CELLS;
        Machine {
            load,
            options: TreeOptions { table_bytes: options.table_bytes.max(least), ..*options },
            state: State::initial(store, FileId(1)),
            claims: Claims::default(),
            shadowed_permille: 1000,
            sampled: BTreeMap::new(),
            unsampled: [0.0; LEVELS],
            chance: 0x9e37_79b9_7f4a_7c15,
            written: 0,
            next_file: 1,
            flushed_bytes: 0,
            merged_bytes: [0; LEVELS],
            merges: 0,
            bought_merges: 0,
            rearrangements: 0,
            probes: 0.0,
            owed: readers::Owed::default(),
            peak_space_bytes: 0,
        }
    }

    fn version(&self) -> Arc<Version> {
        self.state.families()[&FAMILY].version.clone()
    }

    /// Number of different keys among this many positions.
    fn keys_in(&self, positions: f64) -> f64 {
        self.load.keys as f64 * positions / POSITIONS
    }

    /// Number of different keys among this many writes.
    fn keys_met(&self, writes: f64) -> f64 {
        let keys = self.load.keys as f64;
        if self.is_even() { writes.min(keys) } else { keys * (1.0 - libm::exp(-writes / keys)) }
    }

    /// Whether no key comes again before all have been written.
    fn is_even(&self) -> bool {
        self.load.is_sequential || self.is_unique()
    }

    /// Whether no key is written twice.
    fn is_unique(&self) -> bool {
        self.load.keys == self.load.entries
    }

    fn flush(&mut self, entries: u64) {
        let (low, high, entries) = if self.load.is_sequential {
            let (first, step) = (self.written % self.load.keys, u64::MAX / self.load.keys);
            let entries = entries.min(self.load.keys - first);
            (first * step, (first + entries) * step - 1, entries)
        } else {
            let margin = u64::MAX / entries.max(2) / 2;
            (margin, u64::MAX - margin, entries)
        };
        let first = self.written + 1;
        self.written += entries;
        let distinct = self.keys_met(entries as f64);
        let Some(part) = self.part(low, high, distinct, (first, self.written)) else { return };
        self.sample(entries);
        let table = self.new_table(vec![part]);
        self.flushed_bytes += table.bytes;
        let mut edit = Edit::default();
        edit.add_whole_table(FAMILY, &self.version().flush_run(), &table);
        self.commit(&edit);
    }

    /// Draws the keys of a flush that may become guards, as many as expected and at random positions.
    fn sample(&mut self, entries: u64) {
        let Guards::Sampled { top_level_bits, bit_decrement } = self.options.guards else { return };
        let bits = |level: usize| top_level_bits.saturating_sub(bit_decrement * (level as u32 - 1));
        let share = |level: usize| 0.5f64.powi(bits(level) as i32);
        let last = self.version().last_level().max(1);
        // Guards that stand closer to each other than cells are wide have no effect.
        let wanted = (self.load.keys as f64 * share(last)).max(1.0);
        let kept = (4.0 * MOST_CELLS as f64 / wanted).min(1.0);
        for level in 1..=last {
            let above = if level == 1 { 0.0 } else { share(level - 1) };
            self.unsampled[level] += entries as f64 * (share(level) - above) * kept;
            while self.unsampled[level] >= 1.0 {
                self.unsampled[level] -= 1.0;
                self.chance ^= self.chance << 13;
                self.chance ^= self.chance >> 7;
                self.chance ^= self.chance << 17;
                self.sampled.insert(self.chance.to_be_bytes().to_vec(), level);
            }
        }
    }

    fn part(&self, low: u64, high: u64, entries: f64, seqs: (SeqNo, SeqNo)) -> Option<Part> {
        let count = entries.round() as u64;
        let range = KeyRange { low: low.to_be_bytes().to_vec(), high: high.to_be_bytes().to_vec() };
        let bytes = count * self.load.entry_bytes;
        let values = Vec::new();
        (count > 0).then_some(Part { range, seqs, entries: count, tombstones: 0, keys: count, bytes, values })
    }

    fn new_table(&mut self, parts: Vec<Part>) -> NewTable {
        let id = FileId(self.next_file);
        self.next_file += 1;
        let bytes = parts.iter().map(|part| part.bytes).sum();
        NewTable { id, bytes, checksum: 0, tier: TierId::FAST, parts, bodies: Vec::new() }
    }

    fn commit(&mut self, edit: &Edit) {
        self.state = self.state.apply(edit).expect("the policy's edits fit");
    }

    fn settle(&mut self) {
        loop {
            let version = self.version();
            let answer = |cell: &Cell| Some(self.hidden(cell));
            samples::ask(&version, &self.options, self.shadowed_permille, answer);
            let now = Now {
                watermark: self.written,
                visible: self.written,
                shadowed_permille: self.shadowed_permille,
                may_buy: true,
                tiers: None,
                garbage_hints: &[],
                to_gather: &BTreeSet::new(),
                to_rewrite: &BTreeSet::new(),
                sampled: &self.sampled,
            };
            let (claims, options) = (&self.claims, &self.options);
            let picker = Picker { family: FAMILY, version: &version, claims, now: &now, options };
            let Some(plan) = picker.propose() else { break };
            self.execute(&plan, &version);
        }
        let guards = self.version();
        self.sampled.retain(|key, top| guards.guards().get(key).is_none_or(|stands_on| stands_on > top));
    }

    /// The estimate that exact samples would give.
    fn hidden(&self, cell: &Cell) -> Option<u64> {
        let slices = || cell.slices().map(|(_, slice)| slice);
        let entries: u64 = slices().map(|slice| slice.entries).sum();
        if entries >> ZERO_BITS < LEAST {
            return None;
        }
        Some((entries as f64 - self.distinct(slices)).max(0.0) as u64)
    }

    /// Number of different keys in slices.
    fn distinct<'a, I: Iterator<Item = &'a Arc<Slice>>>(&self, slices: impl Fn() -> I) -> f64 {
        let high = slices().map(|slice| position(&slice.range.high)).max().unwrap_or(0);
        let stretches = stretches(&edges(slices()), high).into_iter();
        stretches.map(|(low, high)| self.left(slices(), low, high)).sum()
    }

    fn execute(&mut self, plan: &Plan, version: &Version) {
        if let Plan::Merge(merge) = plan
            && let seams = merge.seams()
            && !seams.is_empty()
        {
            let cut = |_: FileId, part: &Part, key: &[u8]| Ok(self.cut(part, position(key)));
            let moment = Moment { version, others: &self.claims, cut: &cut };
            let edit = merge.cut_edit(&moment, &seams).expect("nothing is read that could fail");
            self.commit(&edit);
            let mut met = Met::default();
            for increment in merge.increments(&self.version(), &seams) {
                met = met.and(self.carry_out(&Plan::Merge(increment), &self.version()));
            }
            self.learn(met);
            return;
        }
        let met = self.carry_out(plan, version);
        self.learn(met);
    }

    fn learn(&mut self, met: Met) {
        self.shadowed_permille = met.learn(self.shadowed_permille).unwrap_or(self.shadowed_permille);
    }

    fn carry_out(&mut self, plan: &Plan, version: &Version) -> Met {
        let (outputs, met) = match plan {
            Plan::Merge(merge) => self.merge(merge, version),
            _ => (Vec::new(), Met::default()),
        };
        let cut = |_: FileId, part: &Part, key: &[u8]| Ok(self.cut(part, position(key)));
        let moment = Moment { version, others: &self.claims, cut: &cut };
        let edit = match plan {
            Plan::Merge(merge) => merge.edit(&moment, &outputs),
            Plan::Move(moved) => moved.edit(&moment),
            Plan::Split(split) => split_edit(split, version, &moment),
            Plan::Join(join) => Ok(join.edit()),
        };
        self.commit(&edit.expect("nothing is read that could fail"));
        self.rearrangements += u64::from(!matches!(plan, Plan::Merge(_)));
        met
    }

    fn cut(&self, part: &Part, at: u64) -> (Option<Part>, Option<Part>) {
        let (low, high) = (position(&part.range.low), position(&part.range.high));
        if at <= low || at > high {
            let (before, behind) = (at > high, at <= low);
            return (before.then(|| part.clone()), behind.then(|| part.clone()));
        }
        let share = (at - low) as f64 / width(low, high);
        let before = (part.entries as f64 * share).round();
        let behind = part.entries as f64 - before;
        (self.part(low, at - 1, before, part.seqs), self.part(at, high, behind, part.seqs))
    }

    /// Does the work of a merge, except for the commit.
    fn merge(&mut self, merge: &Merge, version: &Version) -> (Vec<NewTable>, Met) {
        let space = |state: &State| state.tables().map(|table| table.bytes).sum::<u64>();
        let tables = self.output(merge, version);
        let written: u64 = tables.iter().map(|table| table.bytes).sum();
        self.merges += 1;
        if merge.reason == Reason::Bought {
            self.bought_merges += 1;
            merge.inputs.iter().for_each(|input| input.slice.clear_rent());
        }
        self.merged_bytes[merge.to] += written;
        self.peak_space_bytes = self.peak_space_bytes.max(space(&self.state) + written);
        let read: u64 = merge.inputs.iter().map(|input| input.slice.entries).sum();
        let kept: u64 = tables.iter().flat_map(|table| &table.parts).map(|part| part.entries).sum();
        let met = Met::of(merge, version, self.written).map(|met| met.hiding(read.saturating_sub(kept)));
        (tables, met.unwrap_or_default())
    }

    /// The tables that a merge writes. They are evenly filled between the edges of the inputs, and cut as [`super::Cutter`]
    /// cuts.
    fn output(&mut self, merge: &Merge, version: &Version) -> Vec<NewTable> {
        let range = merge.range();
        let guards: BTreeSet<u64> = version.level(merge.to).guards_inside(&range).map(position).collect();
        let slices = || merge.inputs.iter().map(|input| &input.slice);
        let mut edges = edges(slices());
        edges.extend(&guards);
        let seqs = merge.inputs.iter().fold((SeqNo::MAX, 0), |seqs: (SeqNo, SeqNo), input| {
            (seqs.0.min(input.slice.seqs.0), seqs.1.max(input.slice.seqs.1))
        });
        let mut open = Open { tables: vec![Vec::new()], ..Open::default() };
        for (low, high) in stretches(&edges, position(&range.high)) {
            if guards.contains(&low) {
                open.end_part(self, seqs);
                if open.bytes >= self.options.table_bytes / 4 * 3 {
                    open.end_table();
                }
            }
            let full_bytes = if guards.is_empty() { merge.table_bytes } else { merge.table_bytes / 4 * 5 }
                .max(self.load.entry_bytes);
            let (mut low, mut entries) = (low, self.left(slices(), low, high));
            while entries >= 1.0 {
                let room = full_bytes.saturating_sub(open.bytes) / self.load.entry_bytes;
                if entries <= room as f64 {
                    break;
                }
                let taken = room.max(1) as f64;
                let at = (low as f64 + width(low, high) * taken / entries) as u64;
                let at = at.clamp(low, high - 1);
                open.add(low, at, taken, self.load.entry_bytes);
                open.end_part(self, seqs);
                open.end_table();
                (low, entries) = (at + 1, entries - taken);
            }
            open.add(low, high, entries, self.load.entry_bytes);
        }
        open.end_part(self, seqs);
        let tables = open.tables.into_iter().filter(|parts| !parts.is_empty());
        tables.map(|parts| self.new_table(parts)).collect()
    }

    /// Entries that a merge leaves between two positions. No slice of the merge begins or ends between them.
    fn left<'a>(&self, slices: impl Iterator<Item = &'a Arc<Slice>>, low: u64, high: u64) -> f64 {
        let inside = slices.filter_map(|slice| {
            let (first, last) = (position(&slice.range.low), position(&slice.range.high));
            let share = width(low, high) / width(first, last);
            (first <= low && last >= high).then_some(slice.entries as f64 * share)
        });
        if self.is_unique() {
            return inside.sum();
        }
        let keys = self.keys_in(width(low, high));
        let missing: f64 = inside.map(|entries| 1.0 - (entries / keys).min(1.0)).product();
        keys * (1.0 - missing)
    }

    fn forecast(self) -> Forecast {
        let version = self.version();
        let levels = std::array::from_fn(|number| {
            let level = version.level(number);
            let totals = level.totals();
            LevelForecast {
                cells: level.cells.len() as u64,
                runs: totals.runs as u64,
                slices: totals.slices as u64,
                bytes: totals.bytes,
            }
        });
        let live = self.keys_met(self.written as f64) as u64;
        let space_bytes = levels.iter().map(|level| level.bytes).sum();
        Forecast {
            flushed_bytes: self.flushed_bytes,
            merged_bytes: self.merged_bytes,
            merges: self.merges,
            bought_merges: self.bought_merges,
            rearrangements: self.rearrangements,
            probes: self.probes as u64,
            live_bytes: live * self.load.entry_bytes,
            space_bytes,
            peak_space_bytes: self.peak_space_bytes.max(space_bytes),
            levels,
        }
    }
}

/// The tables of a merge while they are written.
#[derive(Default)]
struct Open {
    /// The parts of each table; the last table is open.
    tables: Vec<Vec<Part>>,
    /// Bytes of the open table.
    bytes: u64,
    /// The open part: its ends and its entries.
    part: Option<(u64, u64, f64)>,
}

impl Open {
    fn add(&mut self, low: u64, high: u64, entries: f64, entry_bytes: u64) {
        if entries <= 0.0 {
            return;
        }
        self.bytes += (entries * entry_bytes as f64) as u64;
        let part = self.part.get_or_insert((low, high, 0.0));
        (part.1, part.2) = (high, part.2 + entries);
    }

    fn end_part(&mut self, machine: &Machine, seqs: (SeqNo, SeqNo)) {
        if let Some((low, high, entries)) = self.part.take() {
            let parts = self.tables.last_mut().expect("one is open");
            parts.extend(machine.part(low, high, entries, seqs));
        }
    }

    fn end_table(&mut self) {
        self.tables.push(Vec::new());
        self.bytes = 0;
    }
}

/// The positions at which slices begin, and the positions behind their ends.
fn edges<'a>(slices: impl Iterator<Item = &'a Arc<Slice>>) -> BTreeSet<u64> {
    let ends = |slice: &'a Arc<Slice>| {
        let after = position(&slice.range.high).checked_add(1);
        [Some(position(&slice.range.low)), after]
    };
    slices.flat_map(ends).flatten().collect()
}

/// The stretches from each edge to the next. If `high` lies behind the last edge, a stretch to the end of all positions is
/// added.
fn stretches(edges: &BTreeSet<u64>, high: u64) -> Vec<(u64, u64)> {
    let last = edges.last().filter(|&&last| last < high).map(|&last| (last, u64::MAX));
    edges.iter().zip(edges.iter().skip(1)).map(|(&low, &next)| (low, next - 1)).chain(last).collect()
}

/// Cuts a cell in the middle of its largest slice, if the policy names no guard.
fn split_edit(split: &Split, version: &Version, moment: &Moment<'_>) -> Result<Edit> {
    let middle = || {
        let cell = version.level(split.level).cell(&split.cell);
        let slices = cell.runs.iter().flat_map(|run: &Run| run.slices.iter());
        let largest = slices.max_by_key(|slice| slice.bytes).expect("a large cell has slices");
        let (low, high) = (position(&largest.range.low), position(&largest.range.high));
        (low + (high - low).div_ceil(2)).to_be_bytes().to_vec()
    };
    split.edit(moment, &split.guard.clone().unwrap_or_else(middle))
}

const POSITIONS: f64 = u64::MAX as f64;

/// The position of a key: keys stand evenly on all numbers of 64 bits.
fn position(key: &[u8]) -> u64 {
    crate::base::key::prefix_u64(key)
}

fn width(low: u64, high: u64) -> f64 {
    (high - low) as f64 + 1.0
}
