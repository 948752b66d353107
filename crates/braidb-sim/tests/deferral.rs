//! Deferral below L0, in a whole database. Its switch is independent of the switch of overlap. At the defaults it changes
//! nothing.

use braidb::Options;
use braidb::tuning::{Guards, MemoryPolicy};
use braidb_sim::rng::Rng;
use braidb_sim::sim_env;
use std::hash::{DefaultHasher, Hash, Hasher};

const DIR: &str = "/db";
const ROWS: u64 = 10_000;
const WRITES: u64 = 40_000;

/// What a load did to its files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trace {
    flushed_bytes: u64,
    /// Bytes merged, by the level that merges wrote to.
    merged_bytes: [u64; 7],
    merges: u64,
    /// Merges of L0: by overlap, by count, and within L0.
    l0_merges: [u64; 3],
    /// Operations on files.
    ops: u64,
    /// A hash of all operations on files, in order, and of the final contents of the files.
    hash: u64,
}

/// Runs 40,000 writes to 10,000 rows on the stepped runtime. Every run gives identical bytes.
fn trace(options: Options) -> Trace {
    let (env, fs, _) = sim_env(1);
    fs.record_ops();
    let options = options.memtable_bytes(64 << 10).tuning(|tuning| tuning.table_bytes(64 << 10));
    let db = options.env(env).open(DIR).unwrap();
    let mut rng = Rng::new(7);
    for number in 0..WRITES {
        let key = rng.below(ROWS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, [number as u8; 128]).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    let counts = db.stats().counts;
    db.close().unwrap();
    let mut hasher = DefaultHasher::new();
    let ops = fs.take_recorded_ops();
    for op in &ops {
        (format!("{:?}", op.kind), &op.path, &op.to, op.bytes).hash(&mut hasher);
    }
    for path in fs.files() {
        (&path, fs.read_file(&path).unwrap()).hash(&mut hasher);
    }
    Trace {
        flushed_bytes: counts.flush_bytes,
        merged_bytes: counts.merge_bytes,
        merges: counts.merges,
        l0_merges: [counts.l0_overlap_merges, counts.l0_count_merges, counts.l0_gather_merges],
        ops: ops.len() as u64,
        hash: hasher.finish(),
    }
}

/// The traces without both policies, with overlap, with deferral below L0, and with both.
fn sides(options: &Options) -> [Trace; 4] {
    [(0, false), (40, false), (0, true), (40, true)].map(|(percent, defers)| {
        trace(options.clone().tuning(|tuning| tuning.l0_overlap_percent(percent).defer_below_l0(defers)))
    })
}

/// Trees whose cells hold several runs, or that have guards, ignore the switch.
#[test]
fn what_is_no_leveled_tree_writes_the_same_bytes_in_the_same_order() {
    let null = Options::new().tuning(|tuning| tuning.memory_policy(MemoryPolicy::None));
    for options in [Options::new(), null, Options::new().tuning(|tuning| tuning.max_runs_per_guard(1))] {
        let [none, overlap, below, both] = sides(&options);
        assert_eq!(trace(options), both, "both policies are on by default");
        assert_eq!(none, below);
        assert_eq!(overlap, both);
    }
}

/// In a leveled tree each policy changes what is written, alone and beside the other.
#[test]
fn each_of_the_two_works_without_the_other() {
    let leveled = Options::new().tuning(|tuning| tuning.max_runs_per_guard(1).guards(Guards::None));
    let leveled = leveled.tuning(|tuning| tuning.hot_keys_percent(0).log_table_percent(0));
    let [none, overlap, below, both] = sides(&leveled);
    assert_eq!(trace(leveled), both, "both policies are on by default");
    for (name, side) in [("none", &none), ("overlap", &overlap), ("below L0", &below), ("both", &both)] {
        println!("figure: {name}: {side:?}");
    }
    // L0 waits for more tables, so it merges into L1 less often. No merge stays within L0, and L2 gets about as many bytes.
    assert!(overlap.merged_bytes[1] < none.merged_bytes[1] && overlap.merged_bytes[0] == 0);
    assert!(overlap.merged_bytes[2] > none.merged_bytes[2] / 4 * 3);
    // Merges gather tables within L0, and L1 merges into L2 less often. L1 is larger, and L0 merges into it as often as without
    // deferral.
    assert!(below.merged_bytes[0] > 0 && none.merged_bytes[0] == 0);
    assert!(below.l0_merges[2] > 0 && [&none, &overlap].into_iter().all(|side| side.l0_merges[2] == 0));
    // Without the overlap policy no merge counts as one of overlap, although sketches exist.
    assert_eq!((none.l0_merges[0], below.l0_merges[0]), (0, 0));
    assert!(below.merged_bytes[2] < none.merged_bytes[2] / 2);
    let merged = |side: &Trace| side.merged_bytes.iter().sum::<u64>();
    assert!([&none, &overlap, &below].into_iter().all(|side| merged(&both) < merged(side)));
}
