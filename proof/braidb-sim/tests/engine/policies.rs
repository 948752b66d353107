//! Every shape of the tree gives the same answers. One workload runs through leveled trees, trees of one cell, of several runs,
//! of sampled and of balanced guards, and through a plain map. Only what is written, and where, may differ.

use braidb::stats::FamilyTree;
use braidb::tuning::Guards;
use braidb::{Options, Snapshot, WriteBatch};
use braidb_sim::env_over;
use braidb_sim::rng::Rng;
use braidb_storage::Env;
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use braidb_storage::sim::SimFs;
use std::collections::BTreeMap;
use std::sync::Arc;

const DIR: &str = "/db";

type Rows = Vec<(Vec<u8>, Vec<u8>)>;
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// One operation. Snapshots are named by an index that does not depend on the policy.
#[derive(Clone, Debug)]
enum Op {
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Get(Vec<u8>, Option<usize>),
    /// First key, number of rows, whether backward, and the snapshot.
    Scan(Vec<u8>, usize, bool, Option<usize>),
    TakeSnapshot,
    DropSnapshot(usize),
    Step(usize),
    Flush,
    Settle,
    Compact,
    Reopen,
}

/// Keys are the numbers below 5,000.
const KEYS: u64 = 5_000;

fn key(number: u64) -> Vec<u8> {
    format!("row/{number:07}").into_bytes()
}

/// The workload: all keys once, then updates and deletes of all keys, of a hot tenth and of a moving stretch. Batches, reads,
/// snapshots and reopenings come in between.
fn workload(seed: u64, ops: u64) -> impl Iterator<Item = Op> {
    let mut rng = Rng::new(seed);
    let mut snapshots = 0_usize;
    (0..ops).map(move |number| {
        let draw_key = |rng: &mut Rng| match rng.below(10) {
            _ if number < KEYS => number * 4_801 % KEYS,
            0..4 => rng.below(KEYS),
            4..7 => rng.below(KEYS / 10),
            _ => (number / 4 + rng.below(50)) % KEYS,
        };
        let change = |rng: &mut Rng| {
            let key = key(draw_key(rng));
            let bytes = rng.between(10, 90) as usize;
            let is_delete = number >= KEYS && rng.one_in(4);
            (key, (!is_delete).then(|| format!("{number:>0$}", bytes).into_bytes()))
        };
        let which =
            |rng: &mut Rng| (snapshots > 0 && rng.one_in(3)).then(|| rng.below(snapshots as u64) as usize);
        match rng.below(1_000) {
            0..800 => Op::Write(vec![change(&mut rng)]),
            800..840 => Op::Write((0..rng.between(2, 8)).map(|_| change(&mut rng)).collect()),
            840..900 => Op::Get(key(draw_key(&mut rng)), which(&mut rng)),
            900..940 => {
                let rows = rng.pick(&[1, 10, 100, 1_000]);
                Op::Scan(key(draw_key(&mut rng)), rows, rng.one_in(2), which(&mut rng))
            }
            940..945 if snapshots < 3 => {
                snapshots += 1;
                Op::TakeSnapshot
            }
            945..950 if snapshots > 0 => {
                snapshots -= 1;
                Op::DropSnapshot(rng.below(snapshots as u64 + 1) as usize)
            }
            950..952 => Op::Flush,
            952 => Op::Settle,
            953 if rng.one_in(8) => Op::Compact,
            954 if rng.one_in(2) => {
                snapshots = 0;
                Op::Reopen
            }
            _ => Op::Step(rng.between(1, 4) as usize),
        }
    })
}

/// The answers of all reads, in order. The last two are everything forward and everything backward.
#[derive(Default)]
struct Answers(Vec<Rows>);

impl Answers {
    /// Panics at the first answer that differs.
    #[track_caller]
    fn expect(&self, expected: &Answers, policy: &str) {
        for (number, (answer, expected)) in self.0.iter().zip(&expected.0).enumerate() {
            let at = answer.iter().zip(expected).position(|(a, e)| a != e);
            let lengths = (answer.len(), expected.len());
            assert!(
                at.is_none() && lengths.0 == lengths.1,
                "{policy}: read {number} differs: {lengths:?} rows; {:?}",
                at.map(|at| (answer[at].clone(), expected[at].clone()))
            );
        }
        assert_eq!(self.0.len(), expected.0.len());
    }
}

/// The answers of a plain map.
fn expected(ops: impl Iterator<Item = Op>) -> Answers {
    let mut answers = Answers::default();
    let (mut map, mut snapshots) = (Map::new(), Vec::<Map>::new());
    for op in ops {
        match op {
            Op::Write(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => map.insert(key, value),
                        None => map.remove(&key),
                    };
                }
            }
            Op::Get(key, at) => {
                let found = at.map_or(&map, |at| &snapshots[at]).get_key_value(&key);
                answers.0.push(found.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect());
            }
            Op::Scan(from, rows, is_backward, at) => {
                let map = at.map_or(&map, |at| &snapshots[at]);
                let own = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                answers.0.push(match is_backward {
                    true => map.range(..from).rev().take(rows).map(own).collect(),
                    false => map.range(from..).take(rows).map(own).collect(),
                });
            }
            Op::TakeSnapshot => snapshots.push(map.clone()),
            Op::DropSnapshot(at) => drop(snapshots.remove(at)),
            Op::Reopen => snapshots.clear(),
            Op::Step(_) | Op::Flush | Op::Settle | Op::Compact => {}
        }
    }
    let all: Rows = map.into_iter().collect();
    answers.0.extend([all.clone(), all.into_iter().rev().collect()]);
    answers
}

/// The result of one policy's run.
struct Run {
    answers: Answers,
    /// The most levels that held something at one time.
    levels: usize,
    /// The most cells of one level at one time.
    cells: usize,
    /// Counts since the last opening.
    merges_at_once: u64,
    merges_shared: u64,
}

/// The files and the runtime of a database, over all its lives.
struct World {
    fs: SimFs,
    /// The number of background threads. `None` runs jobs on the caller's thread.
    threads: Option<usize>,
    lives: u64,
}

impl World {
    fn new(threads: Option<usize>) -> World {
        World { fs: SimFs::new(), threads, lives: 0 }
    }

    fn env(&mut self) -> Env {
        self.lives += 1;
        match self.threads {
            None => env_over(Arc::new(self.fs.clone()), self.lives).0,
            Some(threads) => Env {
                fs: Arc::new(self.fs.clone()),
                clock: Arc::new(MonotonicClock::new()),
                random: Arc::new(SeededRandom::new(self.lives)),
                runtime: Arc::new(Threads::new(threads).unwrap()),
            },
        }
    }
}

fn rows(iter: impl Iterator<Item = braidb::Result<(Vec<u8>, braidb::Value)>>) -> Rows {
    iter.map(|row| row.map(|(key, value)| (key, value.to_vec())).unwrap()).collect()
}

/// Runs a database through the workload. Each open may have other options: `options` gets the number of the open.
fn run(ops: impl Iterator<Item = Op>, mut world: World, options: impl Fn(u64) -> Options) -> Run {
    let mut answers = Answers::default();
    let (mut levels, mut cells) = (0, 0);
    let mut env = world.env();
    let mut db = options(1).env(env.clone()).open(DIR).unwrap();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for (number, op) in ops.enumerate() {
        match op {
            Op::Write(changes) => {
                let mut batch = WriteBatch::new();
                for (key, value) in changes {
                    match value {
                        Some(value) => batch.put(key, value),
                        None => batch.delete(key),
                    };
                }
                db.write(batch).unwrap();
            }
            Op::Get(key, at) => {
                let found = match at {
                    Some(at) => snapshots[at].get(&key).unwrap(),
                    None => db.get(&key).unwrap(),
                };
                answers.0.push(found.into_iter().map(|value| (key.clone(), value.to_vec())).collect());
            }
            Op::Scan(from, limit, is_backward, at) => {
                let range = |low, high| match at {
                    Some(at) => snapshots[at].range((low, high)),
                    None => db.range((low, high)),
                };
                use std::ops::Bound::{Excluded, Included, Unbounded};
                answers.0.push(match is_backward {
                    true => rows(range(Unbounded, Excluded(from)).rev().take(limit)),
                    false => rows(range(Included(from), Unbounded).take(limit)),
                });
            }
            Op::TakeSnapshot => snapshots.push(db.snapshot()),
            Op::DropSnapshot(at) => drop(snapshots.remove(at)),
            Op::Step(jobs) => {
                for _ in 0..jobs {
                    env.runtime.help();
                }
            }
            Op::Flush => db.flush().unwrap(),
            Op::Settle => db.settle().unwrap(),
            Op::Compact => db.compact().unwrap(),
            Op::Reopen => {
                snapshots.clear();
                db.close().unwrap();
                env = world.env();
                db = options(world.lives).env(env.clone()).open(DIR).unwrap();
            }
        }
        if number % 64 == 0 {
            let shape = Shape::of(&db.tree());
            (levels, cells) = (levels.max(shape.levels), cells.max(shape.cells));
        }
    }
    answers.0.extend([rows(db.iter()), rows(db.iter().rev())]);
    let report = db.verify().unwrap();
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    let counts = db.stats().counts;
    let (merges_at_once, merges_shared) = (counts.most_merges_at_once, counts.merges_shared);
    db.close().unwrap();
    Run { answers, levels, cells, merges_at_once, merges_shared }
}

/// The shape of a tree.
struct Shape {
    levels: usize,
    cells: usize,
}

impl Shape {
    fn of(trees: &[FamilyTree]) -> Shape {
        let levels = || trees.iter().flat_map(|tree| &tree.levels);
        let filled = levels().filter(|level| level.cells.iter().any(|cell| !cell.runs.is_empty()));
        let cells = levels().map(|level| level.cells.len()).max().unwrap_or(0);
        Shape { levels: filled.count(), cells }
    }
}

/// Options so small that a few hundred kilobytes make deep levels of many cells.
fn small() -> Options {
    Options::new()
        .memtable_bytes(4 << 10)
        .tuning(|tuning| tuning.table_bytes(8 << 10).block_bytes(256).manifest_bytes(64 << 10))
}

const SAMPLED: Guards = Guards::Sampled { top_level_bits: 7, bit_decrement: 2 };

/// Every policy, by name.
fn policies() -> Vec<(&'static str, Options)> {
    let policy = |runs, guards| small().tuning(|tuning| tuning.max_runs_per_guard(runs).guards(guards));
    vec![
        ("one guard, 1 run", policy(1, Guards::None)),
        ("one guard, 4 runs", policy(4, Guards::None)),
        ("2 runs, balanced", policy(2, Guards::Balanced)),
        ("4 runs, balanced", policy(4, Guards::Balanced)),
        (
            "8 runs, balanced",
            policy(8, Guards::Balanced).tuning(|tuning| tuning.hot_keys_percent(30).log_table_percent(40)),
        ),
        ("1 run, balanced", policy(1, Guards::Balanced)),
        ("4 runs, sampled", policy(4, SAMPLED)),
        (
            "8 runs, but 1 on L1 and 2 on L3",
            policy(8, SAMPLED)
                .tuning(|tuning| tuning.max_runs_per_guard_at(1, 1).max_runs_per_guard_at(3, 2)),
        ),
    ]
}

#[test]
fn all_policies_answer_alike() {
    let ops = || workload(3, 16_000);
    let expected = expected(ops());
    let run = |name: &str, options: &(dyn Fn(u64) -> Options + Sync)| {
        let run = run(ops(), World::new(None), options);
        run.answers.expect(&expected, name);
        println!("{name}: {} levels, {} cells", run.levels, run.cells);
        assert!(run.levels >= 4, "{name}: {} levels", run.levels);
        run
    };
    let runs = std::thread::scope(|scope| {
        let one = |(name, options): (&'static str, Options)| {
            scope.spawn(move || run(name, &move |_| options.clone()))
        };
        let running: Vec<_> = policies().into_iter().map(one).collect();
        // One database whose options change with each life.
        let all = || policies().into_iter().map(|(_, options)| options).collect::<Vec<_>>();
        let switching = scope.spawn(move || run("switching", &move |life| all()[life as usize % 8].clone()));
        let mut runs: Vec<Run> = running.into_iter().map(|run| run.join().unwrap()).collect();
        runs.push(switching.join().unwrap());
        runs
    });
    let cells = runs.iter().map(|run| run.cells).max().unwrap();
    assert!(cells >= 8, "guards cut levels: {cells} cells");
}

/// In a leveled tree, large merges of L0 run in subcompactions and merges of deeper levels in increments. Any thread may take
/// one.
#[test]
fn threads_share_large_merges() {
    let ops = || workload(6, 24_000);
    let expected = expected(ops());
    let options = |_| {
        small()
            .tuning(|tuning| tuning.max_runs_per_guard(1).guards(Guards::None))
            .background_threads(3)
            .tuning(|tuning| tuning.log_table_percent(40))
    };
    let run = run(ops(), World::new(Some(3)), options);
    run.answers.expect(&expected, "on threads");
    assert!(run.levels >= 3 && run.merges_shared > 0, "{} levels, {} shared", run.levels, run.merges_shared);
    println!("{} levels; {} merges shared in the last life", run.levels, run.merges_shared);
}

#[test]
fn deep_levels_and_merges_at_once() {
    let ops = || workload(5, 24_000);
    let expected = expected(ops());
    let options =
        |_| small().tuning(|tuning| tuning.max_runs_per_guard(4).guards(SAMPLED)).background_threads(3);
    let run = run(ops(), World::new(Some(3)), options);
    run.answers.expect(&expected, "on threads");
    assert!(
        run.levels >= 4 && run.merges_at_once >= 2,
        "{} levels, {} merges at once",
        run.levels,
        run.merges_at_once
    );
}
