//! The planner against a tree of small tables in memory: a fill, deletes, snapshots, jobs that overlap in time. Plans become
//! edits and edits pass through [`State::apply`], so shape, claims and recency are checked at every step, and at the end
//! every key is looked up as a reader would.

use super::claims::Ticket;
use super::*;
use crate::base::counters::LEVELS;
use crate::base::ids::{FileId, SeqNo, TierId};
use crate::version::{Beneath, Level, State, TableStore};
use crate::visible::EntryKind;
use crate::visible::rule::{DropProof, Fate, Sieve};
use braidb_storage::real::RealFs;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

const FAMILY: FamilyId = FamilyId::DEFAULT;
const ENTRY_BYTES: u64 = 100;

type Entry = (u64, SeqNo, EntryKind);

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A job under way: its inputs are read, its outputs not yet committed.
struct Running {
    plan: Plan,
    ticket: Ticket,
    outputs: Vec<NewTable>,
}

struct Simulator {
    state: State,
    claims: Claims,
    options: LeveledOptions,
    tables: BTreeMap<FileId, Vec<Entry>>,
    running: Vec<Running>,
    memtable: BTreeMap<u64, (SeqNo, EntryKind)>,
    model: BTreeMap<u64, SeqNo>,
    snapshots: Vec<SeqNo>,
    seq: SeqNo,
    next_id: u64,
    flushed_bytes: u64,
    merged_bytes: u64,
    moves: u64,
}

impl Simulator {
    /// A memtable holds 100 entries, and so does a table.
    fn new(l0_merge_tables: usize) -> Simulator {
        let memtable_bytes = 100 * ENTRY_BYTES;
        let options = LeveledOptions {
            l0_merge_tables,
            l0_stop_tables: 20,
            base_bytes: 4 * memtable_bytes,
            growth: 10,
            table_bytes: memtable_bytes,
        };
        let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
        Simulator {
            state: State::initial(store, FileId(1)),
            claims: Claims::default(),
            options,
            tables: BTreeMap::new(),
            running: Vec::new(),
            memtable: BTreeMap::new(),
            model: BTreeMap::new(),
            snapshots: Vec::new(),
            seq: 0,
            next_id: 1,
            flushed_bytes: 0,
            merged_bytes: 0,
            moves: 0,
        }
    }

    fn version(&self) -> Arc<Version> {
        self.state.families()[&FAMILY].version.clone()
    }

    fn put(&mut self, key: u64) {
        self.seq += 1;
        self.model.insert(key, self.seq);
        self.write(key, EntryKind::Put);
    }

    fn delete(&mut self, key: u64) {
        self.seq += 1;
        self.model.remove(&key);
        self.write(key, EntryKind::Delete);
    }

    fn write(&mut self, key: u64, kind: EntryKind) {
        self.memtable.insert(key, (self.seq, kind));
        if self.memtable.len() == 100 {
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
        let table = self.new_table(entries);
        self.flushed_bytes += table.bytes;
        let mut edit = Edit::default();
        edit.add_table(FAMILY, self.version().flush_run(), &table);
        self.commit(&edit);
    }

    fn new_table(&mut self, entries: Vec<Entry>) -> NewTable {
        let id = FileId(self.next_id);
        self.next_id += 1;
        let seqs = entries.iter().map(|entry| entry.1);
        let key = |entry: Option<&Entry>| entry.unwrap().0.to_be_bytes();
        let table = NewTable {
            id,
            bytes: entries.len() as u64 * ENTRY_BYTES,
            checksum: 0,
            tier: TierId::FAST,
            range: KeyRange::new(key(entries.first()), key(entries.last())),
            seqs: (seqs.clone().min().unwrap(), seqs.max().unwrap()),
            entries: entries.len() as u64,
            tombstones: entries.iter().filter(|entry| entry.2 == EntryKind::Delete).count() as u64,
            keys: 1 + entries.windows(2).filter(|pair| pair[0].0 != pair[1].0).count() as u64,
        };
        self.tables.insert(id, entries);
        table
    }

    fn commit(&mut self, edit: &Edit) {
        self.state = self.state.apply(edit).unwrap();
    }

    fn settled(&self) -> SeqNo {
        self.snapshots.iter().copied().min().unwrap_or(self.seq)
    }

    /// Does the work of a merge: everything but the commit.
    fn merge(&mut self, merge: &Merge, version: &Version) -> Vec<NewTable> {
        let of_slice = |input: &Input| &self.tables[&input.slice.table.id];
        let mut entries: Vec<Entry> = merge.inputs.iter().flat_map(of_slice).copied().collect();
        entries.sort_unstable_by_key(|&(key, seq, _)| (key, Reverse(seq)));
        let is_input =
            |slice: &Slice| merge.inputs.iter().any(|input| input.slice.table.id == slice.table.id);
        let beneath = Beneath::new(version, merge.from, &merge.range(), is_input);
        let mut sieve = Sieve::new(DropProof::new(self.snapshots.clone(), self.seq));
        let mut cutter = Cutter::new(merge, version);
        let (mut outputs, mut open, mut last) = (Vec::new(), Vec::new(), None);
        for (key, seq, kind) in entries {
            let bytes = key.to_be_bytes();
            if sieve.fate(&bytes, seq, kind, |key| !beneath.may_hold(key)) != Fate::Keep {
                continue;
            }
            if last != Some(key) && cutter.must_cut(&bytes, open.len() as u64 * ENTRY_BYTES) {
                outputs.push(std::mem::take(&mut open));
            }
            open.push((key, seq, kind));
            last = Some(key);
        }
        outputs.push(open);
        outputs.retain(|entries| !entries.is_empty());
        outputs.into_iter().map(|entries| self.new_table(entries)).collect()
    }

    fn start(&mut self, plan: Plan) {
        let ticket = self.claims.take(&plan);
        let version = self.version();
        let outputs = match &plan {
            Plan::Merge(merge) => self.merge(merge, &version),
            Plan::Move(_) => Vec::new(),
        };
        self.running.push(Running { plan, ticket, outputs });
    }

    fn finish(&mut self, at: usize) {
        let Running { plan, ticket, outputs } = self.running.swap_remove(at);
        let edit = match &plan {
            Plan::Merge(merge) => merge.edit(&self.version(), &outputs),
            Plan::Move(moved) => moved.edit(&self.version()),
        };
        self.commit(&edit);
        self.claims.release(ticket);
        self.merged_bytes += outputs.iter().map(|table| table.bytes).sum::<u64>();
        self.moves += u64::from(matches!(plan, Plan::Move(_)));
        for run in self.version().levels().skip(1).map(|level| level.runs()) {
            assert!(run <= 1, "a leveled tree has one run a cell");
        }
    }

    fn propose(&self) -> Option<Plan> {
        leveled::propose(FAMILY, &self.version(), &self.claims, self.settled(), &self.options)
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
        panic!("the planner never comes to rest");
    }

    /// A manual compaction, with up to two steps at a time.
    fn compact(&mut self) {
        self.flush();
        for _ in 0..100_000 {
            let (upto, settled) = (self.seq, self.settled());
            match leveled::full(FAMILY, &self.version(), &self.claims, upto, settled, &self.options) {
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

    /// A lookup as readers do it: top to bottom, the first hit counts.
    fn get(&self, key: u64) -> Option<SeqNo> {
        if let Some(&(seq, kind)) = self.memtable.get(&key) {
            return (kind == EntryKind::Put).then_some(seq);
        }
        let (version, bytes) = (self.version(), key.to_be_bytes());
        for level in version.levels() {
            for run in &level.cell(&bytes).runs {
                let Some(slice) = run.find(&bytes) else { continue };
                if let Some(&(_, seq, kind)) =
                    self.tables[&slice.table.id].iter().find(|entry| entry.0 == key)
                {
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
        self.version().levels().map(Level::bytes).collect()
    }
}

#[test]
fn a_sequential_fill_merges_not_a_byte() {
    let mut sim = Simulator::new(4);
    for key in 0..60_000 {
        sim.put(key);
        sim.settle();
    }
    assert_eq!(sim.merged_bytes, 0);
    assert!(sim.moves > 500);
    let bytes = sim.level_bytes();
    assert!(bytes[0] < 4 * 10_000 && bytes[3] > bytes[2], "{bytes:?}");
    assert_eq!(sim.version().slices().count(), 600);
    sim.check(60_000);
}

#[test]
fn a_random_fill_keeps_levels_at_their_targets() {
    let mut sim = Simulator::new(4);
    let mut rng = Rng(42);
    for _ in 0..60_000 {
        sim.put(rng.below(1 << 40));
        sim.settle();
    }
    let bytes = sim.level_bytes();
    // Data are 150 times L1's target, which takes four levels, each at most a tenth of the next.
    assert_eq!(sim.version().last_level(), 4, "{bytes:?}");
    assert!(bytes[0] < 40_000 && bytes[1] <= 40_000, "{bytes:?}");
    assert!(bytes[2] <= bytes[4] / 100 && bytes[3] <= bytes[4] / 10, "{bytes:?}");
    assert!(bytes.iter().sum::<u64>() <= bytes[4] * 5 / 4, "{bytes:?}");
    let amplification = sim.merged_bytes as f64 / sim.flushed_bytes as f64;
    assert!((4.0..12.0).contains(&amplification), "{amplification}");
    let keys: Vec<u64> = sim.model.keys().copied().collect();
    for key in keys {
        assert_eq!(sim.get(key), sim.model.get(&key).copied());
    }
}

#[test]
fn overlapping_jobs_keep_every_key_in_order() {
    for seed in 1..=12 {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15 ^ seed);
        let mut sim = Simulator::new(1 + seed as usize % 5);
        let keys = 5_000;
        for step in 0..20_000 {
            let key = match rng.below(4) {
                0 => step % keys,
                1 => rng.below(keys / 10),
                _ => rng.below(keys),
            };
            match rng.below(100) {
                0..30 => sim.delete(key),
                30 if sim.snapshots.len() < 3 => sim.snapshots.push(sim.seq),
                31 if !sim.snapshots.is_empty() => drop(sim.snapshots.remove(0)),
                _ => sim.put(key),
            }
            if step % 20 == 0
                && sim.running.len() < 3
                && let Some(plan) = sim.propose()
            {
                sim.start(plan);
            }
            if rng.below(40) == 0 && !sim.running.is_empty() {
                let at = rng.below(sim.running.len() as u64) as usize;
                sim.finish(at);
            }
        }
        sim.check(keys);
        sim.settle();
        sim.check(keys);
        sim.snapshots.clear();
        sim.compact();
        sim.check(keys);
        let version = sim.version();
        let filled = version.levels().filter(|level| !level.is_empty()).count();
        let totals = version.level(version.last_level()).totals();
        assert_eq!(
            (filled, totals.entries, totals.tombstones),
            (1, sim.model.len() as u64, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn a_compaction_cleans_a_lone_last_level_as_far_as_readers_allow() {
    let mut sim = Simulator::new(4);
    (0..1_000).for_each(|key| sim.put(key));
    sim.snapshots.push(sim.seq);
    (0..1_000).for_each(|key| if key % 2 == 0 { sim.put(key) } else { sim.delete(key) });
    sim.compact();
    let entries = |sim: &Simulator| sim.version().slices().map(|slice| slice.entries).sum::<u64>();
    assert_eq!(entries(&sim), 2_000, "the reader sees the first thousand");
    sim.snapshots.clear();
    let before = sim.merged_bytes;
    sim.compact();
    assert_eq!(entries(&sim), 500);
    assert!(sim.merged_bytes > before);
    let clean = sim.merged_bytes;
    sim.compact();
    assert_eq!(sim.merged_bytes, clean, "there is nothing left to do");
}

#[test]
fn deleting_gives_space_back_without_a_compaction() {
    let mut sim = Simulator::new(4);
    (0..20_000).for_each(|key| {
        sim.put(key * 7_919 % 20_000);
        sim.settle();
    });
    let full: u64 = sim.level_bytes().iter().sum();
    (0..20_000).for_each(|key| {
        sim.delete(key);
        sim.settle();
    });
    let rest: u64 = sim.level_bytes().iter().sum();
    assert!(rest < full / 10, "{rest} of {full} bytes are left");
    sim.check(20_000);
}

#[test]
fn a_heavy_slice_is_not_rewritten_while_a_reader_needs_it() {
    let mut sim = Simulator::new(4);
    (0..1_000).for_each(|key| sim.put(key));
    sim.snapshots.push(sim.seq);
    (0..1_000).for_each(|key| sim.delete(key));
    sim.compact();
    let written = sim.merged_bytes;
    sim.settle();
    assert_eq!(sim.merged_bytes, written);
    sim.snapshots.clear();
    sim.settle();
    assert_eq!(sim.level_bytes().iter().sum::<u64>(), 0);
}

#[test]
fn l0_at_its_limit_goes_first_and_is_not_kept_waiting() {
    let mut sim = Simulator::new(4);
    let mut rng = Rng(7);
    // L1 far over its target, L2 with data, and jobs that are slow to finish.
    for _ in 0..30 {
        (0..400).for_each(|_| sim.put(rng.below(100_000)));
        let Some(plan) = sim.propose() else { continue };
        sim.start(plan);
        sim.finish(0);
    }
    while sim.version().level(0).runs() < sim.options.l0_stop_tables {
        sim.put(rng.below(100_000));
    }
    assert!(matches!(sim.propose(), Some(Plan::Merge(Merge { from: 0, .. }))));
    // A job on L1 is in the way of L0: nothing else may take a part of L1.
    let slice = sim.version().level(1).slices().next().unwrap().2.range.clone();
    let ticket = sim.claims.add(vec![Claim { family: FAMILY, level: 1, range: slice }]);
    for _ in 0..LEVELS {
        let Some(plan) = sim.propose() else { break };
        assert!(plan.claims().iter().all(|claim| claim.level > 1), "{plan:?}");
        sim.start(plan);
    }
    while !sim.running.is_empty() {
        sim.finish(0);
    }
    sim.claims.release(ticket);
    assert!(matches!(sim.propose(), Some(Plan::Merge(Merge { from: 0, .. }))));
}

#[test]
fn an_empty_tree_wants_nothing() {
    let sim = Simulator::new(4);
    assert!(sim.propose().is_none());
    let done = leveled::full(FAMILY, &sim.version(), &sim.claims, SeqNo::MAX, SeqNo::MAX, &sim.options);
    assert!(matches!(done, Step::Done));
}
