//! Tests the planner on a tree of small tables in memory: a fill, deletes, snapshots, jobs that overlap in time. Each edit
//! passes through [`State::apply`], which checks the shape at every step. At the end every key is looked up as
//! a reader would.

mod cells;
mod leveled;
mod overlap;
mod pressure;
mod samples;
mod sizes;

use super::cells::samples::{self as sampling, Answers};
use super::claims::Ticket;
use super::edits::Moment;
use super::placement::TierMap;
use super::*;
use crate::base::counters::LEVELS;
use crate::base::ids::{FileId, SeqNo, TierId};
use crate::base::key::{Span, hash};
use crate::base::part::Part;
use crate::base::sample::Sample;
use crate::version::usage::rent::Paid;
use crate::version::{Beneath, Cell, Change, Edit, Level, NewTable, State, TableStore, Version};
use crate::visible::EntryKind;
use crate::visible::rule::{DropProof, Fate, RetentionFilter};
use braidb_storage::real::RealFs;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FAMILY: FamilyId = FamilyId::DEFAULT;
const PUT_BYTES: u64 = 100;
const DELETE_BYTES: u64 = 20;
/// Entries of a memtable, and of a table.
const MEMTABLE: usize = 100;

type Entry = (u64, SeqNo, EntryKind);

fn entries_bytes(entries: &[Entry]) -> u64 {
    let bytes = |kind| if kind == EntryKind::Put { PUT_BYTES } else { DELETE_BYTES };
    entries.iter().map(|entry| bytes(entry.2)).sum()
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A running job: its inputs are read, its outputs are not committed.
struct Running {
    plan: Plan,
    ticket: Ticket,
    outputs: Vec<NewTable>,
    /// The key in the middle of a cell, where a split cuts it.
    guard: Option<Vec<u8>>,
}

struct Simulator {
    state: State,
    claims: Claims,
    options: TreeOptions,
    tables: BTreeMap<FileId, Vec<Entry>>,
    /// Tables carry samples of keys whose hash ends in this many zero bits; `None` for no samples.
    sample_bits: Option<u32>,
    /// The answers of cells that were sampled.
    answers: Answers,
    running: Vec<Running>,
    memtable: BTreeMap<u64, (SeqNo, EntryKind)>,
    model: BTreeMap<u64, SeqNo>,
    snapshots: Vec<SeqNo>,
    garbage_hints: Vec<Garbage>,
    to_gather: BTreeSet<Vec<u8>>,
    to_rewrite: BTreeSet<FileId>,
    sampled: BTreeMap<Vec<u8>, usize>,
    shadowed_permille: u64,
    seq: SeqNo,
    next_id: u64,
    flushed_bytes: u64,
    merged_bytes: u64,
    /// Bytes merged, by target level.
    merged_into: [u64; LEVELS],
    moves: u64,
    splits: u64,
    joins: u64,
    /// Merges that ran beside another one.
    together: u64,
    deepest_cell: usize,
    commits: u64,
}

impl Simulator {
    /// A leveled tree.
    fn new() -> Simulator {
        Simulator::with(1, Guards::Balanced)
    }

    fn with(max_runs: usize, guards: Guards) -> Simulator {
        let memtable_bytes = MEMTABLE as u64 * PUT_BYTES;
        let options = TreeOptions {
            l0_slowdown_tables: 20,
            l0_stop_tables: 20,
            base_bytes: 4 * memtable_bytes,
            growth: 10,
            table_bytes: memtable_bytes,
            max_runs: [max_runs; LEVELS],
            guards,
            asks_overlap: true,
            buys_merges: true,
            cold_ops: 50_000,
        };
        let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
        Simulator {
            state: State::initial(store, FileId(1)),
            claims: Claims::default(),
            options,
            tables: BTreeMap::new(),
            // Samples hold all keys, because cells are small here.
            sample_bits: Some(0),
            answers: Answers::default(),
            running: Vec::new(),
            memtable: BTreeMap::new(),
            model: BTreeMap::new(),
            snapshots: Vec::new(),
            garbage_hints: Vec::new(),
            to_gather: BTreeSet::new(),
            to_rewrite: BTreeSet::new(),
            sampled: BTreeMap::new(),
            shadowed_permille: 1000,
            seq: 0,
            next_id: 1,
            flushed_bytes: 0,
            merged_bytes: 0,
            merged_into: [0; LEVELS],
            moves: 0,
            splits: 0,
            joins: 0,
            together: 0,
            deepest_cell: 0,
            commits: 0,
        }
    }

    fn version(&self) -> Arc<Version> {
        self.state.families()[&FAMILY].version.clone()
    }

    fn now(&self) -> Now<'_> {
        Now {
            watermark: self.watermark(),
            visible: self.seq,
            shadowed_permille: self.shadowed_permille,
            tiers: None,
            may_buy: !self
                .running
                .iter()
                .any(|job| matches!(&job.plan, Plan::Merge(merge) if merge.reason == Reason::Bought)),
            garbage_hints: &self.garbage_hints,
            to_gather: &self.to_gather,
            to_rewrite: &self.to_rewrite,
            sampled: &self.sampled,
        }
    }

    fn put(&mut self, key: u64) {
        self.seq += 1;
        self.model.insert(key, self.seq);
        self.write(key, EntryKind::Put);
    }

    /// As [`Simulator::put`], but the memtable may exceed its number of entries.
    fn keep(&mut self, key: u64) {
        self.seq += 1;
        self.model.insert(key, self.seq);
        self.memtable.insert(key, (self.seq, EntryKind::Put));
    }

    /// Begins `scans` scans at a key: each pays for a cursor in every run there but the oldest.
    fn pay(&mut self, key: u64, scans: u64) {
        let (version, key) = (self.version(), key.to_be_bytes());
        let runs = version.levels().flat_map(|level| &level.cell(&key).runs);
        let slices: Vec<_> = runs.filter_map(|run| run.find(&key)).collect();
        let newer = slices.split_last().map_or(&[][..], |(_, newer)| newer);
        newer.iter().for_each(|slice| slice.charge(Paid { cursors: scans, ..Paid::default() }));
    }

    fn delete(&mut self, key: u64) {
        self.seq += 1;
        self.model.remove(&key);
        self.write(key, EntryKind::Delete);
    }

    fn write(&mut self, key: u64, kind: EntryKind) {
        self.memtable.insert(key, (self.seq, kind));
        if self.memtable.len() == MEMTABLE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let entries: Vec<Entry> = std::mem::take(&mut self.memtable)
            .into_iter()
            .map(|(key, (seq, kind))| (key, seq, kind))
            .collect();
        if entries.is_empty() {
            return;
        }
        let table = self.new_table(vec![entries]);
        self.flushed_bytes += table.bytes;
        let mut edit = Edit::default();
        edit.add_whole_table(FAMILY, &self.version().flush_run(), &table);
        self.commit(&edit);
    }

    fn new_table(&mut self, parts: Vec<Vec<Entry>>) -> NewTable {
        let id = FileId(self.next_id);
        self.next_id += 1;
        let table = NewTable {
            id,
            bytes: parts.iter().map(|part| entries_bytes(part)).sum(),
            checksum: 0,
            tier: TierId::FAST,
            parts: parts.iter().map(|part| part_of(part).expect("a part has entries")).collect(),
            bodies: Vec::new(),
        };
        self.tables.insert(id, parts.concat());
        table
    }

    fn entries(&self, table: FileId, range: &KeyRange) -> &[Entry] {
        let entries = &self.tables[&table];
        let start = entries.partition_point(|entry| entry.0.to_be_bytes().as_slice() < range.low.as_slice());
        let end = entries.partition_point(|entry| entry.0.to_be_bytes().as_slice() <= range.high.as_slice());
        &entries[start..end]
    }

    fn commit(&mut self, edit: &Edit) {
        self.state = self.state.apply(edit).unwrap();
        for change in &edit.changes {
            if let Change::TableAdded { id, .. } = change {
                self.state.table(*id).unwrap().know_sample(self.sample(&self.tables[id]));
            }
        }
        self.ask_samples();
    }

    fn sample(&self, entries: &[Entry]) -> Option<Sample> {
        let (bits, mut sample) = (self.sample_bits?, Sample::default());
        let mut keys: Vec<[u8; 8]> = entries.iter().map(|entry| entry.0.to_be_bytes()).collect();
        keys.dedup();
        keys.iter().filter(|key| hash(*key).trailing_zeros() >= bits).for_each(|key| sample.push(key));
        Some(sample)
    }

    fn ask_samples(&mut self) {
        let version = self.version();
        let answer = |cell: &Cell| Some(sampling::estimate(cell));
        let answers = sampling::ask(&version, &self.options, self.shadowed_permille, answer);
        self.answers.cells += answers.cells;
        self.answers.spared += answers.spared;
    }

    fn watermark(&self) -> SeqNo {
        self.snapshots.iter().copied().min().unwrap_or(self.seq)
    }

    /// Does the work of a merge, except for the commit.
    fn merge(&mut self, merge: &Merge, version: &Version) -> Vec<NewTable> {
        let of_slice = |input: &Input| self.entries(input.slice.table.id, &input.slice.range);
        let mut entries: Vec<Entry> = merge.inputs.iter().flat_map(of_slice).copied().collect();
        entries.sort_unstable_by_key(|&(key, seq, _)| (key, Reverse(seq)));
        let is_input = |slice: &Slice| {
            let same = |input: &Input| {
                input.slice.table.id == slice.table.id && input.slice.range.low == slice.range.low
            };
            merge.inputs.iter().any(same)
        };
        let beneath = Beneath::new(version, merge.from, &merge.range(), is_input);
        let mut retention = RetentionFilter::new(DropProof::new(self.snapshots.clone(), self.seq));
        let mut cutter = Cutter::new(merge, version, &TierMap::fast());
        let mut outputs: Vec<Vec<Vec<Entry>>> = vec![vec![Vec::new()]];
        let (mut written, mut last, mut hidden) = (0, None, 0);
        for (key, seq, kind) in entries {
            let bytes = key.to_be_bytes();
            match retention.fate(&bytes, seq, kind, |key| !beneath.may_hold(key)) {
                Fate::Keep => {}
                fate => {
                    hidden += u64::from(fate == Fate::Shadowed);
                    continue;
                }
            }
            if last != Some(key) {
                match cutter.edge(&bytes, written) {
                    Edge::None => {}
                    Edge::Part => outputs.last_mut().unwrap().push(Vec::new()),
                    Edge::Table => {
                        outputs.push(vec![Vec::new()]);
                        written = 0;
                    }
                }
                if let Some(top) = self.options.guards.sampled_level(&bytes) {
                    self.sampled.insert(bytes.to_vec(), top);
                }
            }
            let entry = (key, seq, kind);
            written += entries_bytes(&[entry]);
            outputs.last_mut().unwrap().last_mut().unwrap().push(entry);
            last = Some(key);
        }
        outputs.retain(|parts| !parts[0].is_empty());
        if let Some(met) = Met::of(merge, version, self.watermark()) {
            self.check_met(merge, version);
            let learned = met.hiding(hidden).learn(self.shadowed_permille);
            self.shadowed_permille = learned.unwrap_or(self.shadowed_permille);
        }
        outputs.into_iter().map(|parts| self.new_table(parts)).collect()
    }

    /// A merge from which the share of newer entries that hide one is learned leaves out no older version of its keys in the last level.
    fn check_met(&self, merge: &Merge, version: &Version) {
        let keys = |slice: &Slice| self.entries(slice.table.id, &slice.range).iter().map(|entry| entry.0);
        let is_input = |slice: &Slice| {
            let is_same = |other: &Slice| other.table.id == slice.table.id && other.range == slice.range;
            merge.inputs.iter().any(|input| is_same(&input.slice))
        };
        let newer: BTreeSet<u64> = merge.inputs.iter().flat_map(|input| keys(&input.slice)).collect();
        for cell in &version.level(merge.to).cells {
            let Some(oldest) = cell.runs.last() else { continue };
            let beside = oldest.slices.iter().filter(|slice| !is_input(slice));
            assert!(
                beside.flat_map(|slice| keys(slice)).all(|key| !newer.contains(&key)),
                "not all were met"
            );
        }
    }

    fn start(&mut self, plan: Plan) {
        let ticket = self.claims.take(&plan);
        let version = self.version();
        let is_merge = |plan: &Plan| matches!(plan, Plan::Merge(_));
        self.together += u64::from(is_merge(&plan) && self.running.iter().any(|job| is_merge(&job.plan)));
        let (mut outputs, mut guard) = (Vec::new(), None);
        match &plan {
            Plan::Merge(merge) => outputs = self.merge(merge, &version),
            Plan::Split(split) => guard = split.guard.clone().or_else(|| self.middle(split, &version)),
            Plan::Move(_) | Plan::Join(_) => {}
        }
        self.running.push(Running { plan, ticket, outputs, guard });
    }

    /// A key in the middle of the largest slice of a cell.
    fn middle(&self, split: &Split, version: &Version) -> Option<Vec<u8>> {
        let cell = version.level(split.level).cell(&split.cell);
        let (_, slice) = cell.slices().max_by_key(|(_, slice)| slice.bytes)?;
        let entries = self.entries(slice.table.id, &slice.range);
        let at = entries[entries.len() / 2].0.max(entries[0].0 + 1);
        Some(at.to_be_bytes().to_vec())
    }

    fn finish(&mut self, at: usize) {
        let Running { plan, ticket, outputs, guard } = self.running.swap_remove(at);
        let version = self.version();
        let cut = |table: FileId, part: &Part, key: &[u8]| {
            let entries = self.entries(table, &part.range);
            let (before, behind) =
                entries.split_at(entries.partition_point(|entry| entry.0.to_be_bytes().as_slice() < key));
            Ok((part_of(before), part_of(behind)))
        };
        let others = self.claims.without(&ticket);
        let moment = Moment { version: &version, others: &others, cut: &cut };
        let edit = match &plan {
            Plan::Merge(merge) => merge.edit(&moment, &outputs),
            Plan::Move(moved) => moved.edit(&moment),
            Plan::Split(split) => split.edit(&moment, guard.as_ref().unwrap()),
            Plan::Join(join) => Ok(join.edit()),
        };
        self.commit(&edit.unwrap());
        self.claims.release(ticket);
        match &plan {
            Plan::Merge(merge) => {
                let bytes = outputs.iter().map(|table| table.bytes).sum::<u64>();
                self.merged_bytes += bytes;
                self.merged_into[merge.to] += bytes;
            }
            Plan::Move(_) => self.moves += 1,
            Plan::Split(_) => self.splits += 1,
            Plan::Join(_) => self.joins += 1,
        }
        let guards = self.version().guards().clone();
        self.sampled.retain(|key, top| guards.get(key).is_none_or(|stands_on| stands_on > top));
        self.check_commit();
    }

    /// Checks what holds after each commit. Looks up a few keys, different ones each time.
    fn check_commit(&mut self) {
        let version = self.version();
        let cells = version.levels().skip(1).flat_map(|level| &level.cells);
        let deepest = cells.map(|cell| cell.runs.len()).max().unwrap_or(0);
        self.deepest_cell = self.deepest_cell.max(deepest);
        self.commits += 1;
        let cells = &version.level(version.last_level()).cells;
        let cell = &cells[self.commits as usize % cells.len()];
        if let Some(answer) = cell.answer() {
            assert_eq!(answer, sampling::estimate(cell), "an answer to a cell that was another one");
        }
        for at in (self.commits % 97..5_000).step_by(97) {
            assert_eq!(self.get(at), self.model.get(&at).copied(), "key {at}");
        }
    }

    fn propose(&self) -> Option<Plan> {
        self.pick(|picker| picker.propose())
    }

    /// Asks the policy.
    fn pick<T>(&self, ask: impl FnOnce(Picker<'_>) -> T) -> T {
        let (version, now) = (self.version(), self.now());
        let (claims, options) = (&self.claims, &self.options);
        ask(Picker { family: FAMILY, version: &version, claims, now: &now, options })
    }

    /// Carries out plans until none is left.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            match self.propose() {
                Some(plan) => self.start(plan),
                None if self.running.is_empty() => return,
                None => {}
            }
            self.finish(0);
        }
        panic!("the planner never comes to rest: {:?}", self.propose());
    }

    /// A manual compaction, with up to two steps at a time.
    fn compact(&mut self) {
        self.flush();
        for _ in 0..100_000 {
            let is_beside = !self.running.is_empty();
            let ask = |picker: Picker<'_>| match is_beside {
                true => picker.compact_beside(&Span::ALL, self.seq),
                false => picker.compact(&Span::ALL, self.seq),
            };
            match self.pick(ask) {
                Step::Do(plan) => self.start(plan),
                Step::Blocked => assert!(!self.running.is_empty(), "nothing runs that could be in the way"),
                Step::Done if self.running.is_empty() => return,
                Step::Done => {}
            }
            if self.running.len() == 2 || self.running.len() == 1 && self.seq.is_multiple_of(2) {
                self.finish(0);
            } else if !self.running.is_empty() {
                self.finish(self.running.len() - 1);
            }
        }
        panic!("a compaction never ends");
    }

    /// A lookup as readers do it: top to bottom until the first hit.
    fn get(&self, key: u64) -> Option<SeqNo> {
        if let Some(&(seq, kind)) = self.memtable.get(&key) {
            return (kind == EntryKind::Put).then_some(seq);
        }
        let (version, bytes) = (self.version(), key.to_be_bytes());
        for level in version.levels() {
            for run in &level.cell(&bytes).runs {
                let Some(slice) = run.find(&bytes) else { continue };
                let entries = self.entries(slice.table.id, &slice.range);
                let at = entries.partition_point(|entry| entry.0 < key);
                if let Some(&(_, seq, kind)) = entries.get(at).filter(|entry| entry.0 == key) {
                    return (kind == EntryKind::Put).then_some(seq);
                }
            }
        }
        None
    }

    fn check(&self, keys: u64) {
        for key in 0..keys {
            assert_eq!(self.get(key), self.model.get(&key).copied(), "key {key}");
        }
    }

    fn level_bytes(&self) -> Vec<u64> {
        self.version().levels().map(|level| level.totals().bytes).collect()
    }

    fn amplification(&self) -> f64 {
        self.merged_bytes as f64 / self.flushed_bytes as f64
    }

    /// Bytes of all slices divided by live bytes.
    fn space(&self) -> f64 {
        self.level_bytes().iter().sum::<u64>() as f64 / (self.model.len() as u64 * PUT_BYTES) as f64
    }
}

/// The part of a table that holds `entries`.
fn part_of(entries: &[Entry]) -> Option<Part> {
    let key = |entry: &Entry| entry.0.to_be_bytes().to_vec();
    let seqs = entries.iter().map(|entry| entry.1);
    Some(Part {
        range: KeyRange { low: key(entries.first()?), high: key(entries.last()?) },
        seqs: (seqs.clone().min()?, seqs.max()?),
        entries: entries.len() as u64,
        tombstones: entries.iter().filter(|entry| entry.2 == EntryKind::Delete).count() as u64,
        keys: 1 + entries.windows(2).filter(|pair| pair[0].0 != pair[1].0).count() as u64,
        bytes: entries_bytes(entries),
        values: Vec::new(),
    })
}
