//! "PebblesDB: Building Key-Value Stores using Fragmented Log-Structured Merge Trees", SOSP 2017.
//!
//! The paper writes 50 million rows with values of 1,024 bytes. Here are 100,000, and memory and tables are smaller too, so that the tree
//! has four levels. All sides are this engine. *leveled* has one run a cell and stands for HyperLevelDB, LevelDB and RocksDB. The paper
//! says that its tree behaves like theirs then (3.5). *sampled* has the paper's guards, so the paper's figures stand there. *8 runs* is the
//! engine's default tree. On all sides values lie in the tree and memory is one skiplist, as in the paper.
//!
//! Only figures in the paper's text are repeated (1, 4.6, 5.2, 5.3). A seek of the paper reads no entry, and here it reads one. Here every
//! measurement begins with a tree at rest, and no seek has threads of its own. A read that misses the cache of blocks finds its block in
//! the kernel's page cache. The paper bounds the memory of the whole machine, so its misses cost more.
//!
//! The text has no figure of deletes, so they are left out. The paper also ages the file system, and its aging deletes rows, which are
//! overwritten here. YCSB's two loads are one, because they write alike. E without inserts reads 50 entries a scan, E's mean. Empty guards
//! (5.2), HyperDex and MongoDB (5.4) are left out.

use super::{
    Configuration, Experiment, Figure, Further, Paper, Scale, Sizes, Statement, Text, configuration,
    experiment, factor_text, titles,
};
use braidb::Options;
use braidb::tuning::{Guards, MemoryPolicy};
use braidb_bench::Distribution;

pub const PAPER: Paper = Paper {
    title: "PebblesDB (SOSP 2017)",
    sizes: Sizes {
        rows: 100_000,
        key_bytes: 16,
        row_bytes: 16 + (1 << 10),
        writes: |rows| rows,
        reads: |_| 200_000,
        memtable_bytes: |rows| ((rows as f64 / 1e5 * MEMTABLE_BYTES) as usize).max(LEAST_MEMTABLE_BYTES),
        further: Further::NOTHING,
    },
    experiments: &EXPERIMENTS,
    configurations: &CONFIGURATIONS,
    baselines: &[LEVELED],
    comparison: factor_text,
    statements: &STATEMENTS,
};

/// Bytes of memory for 100,000 rows. The paper's share of the data would be 8 KiB, and syncs of such small flushes would determine the
/// figures.
const MEMTABLE_BYTES: f64 = (1 << 20) as f64;

/// The least bytes of memory. With less, hardly any write behaves as in a real run.
const LEAST_MEMTABLE_BYTES: usize = 64 << 10;

/// Bytes of a table, near which cells are cut. A last level of 100 MB has as many cells as one of 3 GB by default.
const TABLE_BYTES: u64 = 2 << 20;

/// One bits of a guard's hash on L1, and how many fewer each deeper level asks for. The paper has 27 for 100 million keys. For 100,000 keys
/// 17 make as many guards.
const SAMPLED_GUARDS: Guards = Guards::Sampled { top_level_bits: 17, bit_decrement: 2 };

/// The options that all configurations share: TRIAD's and Accordion's techniques are off, and no value lies outside of the tree.
fn shared(options: Options) -> Options {
    let options = options.tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).hot_keys_percent(0));
    let options = options.tuning(|tuning| tuning.log_table_percent(0).separation_threshold(None));
    options.tuning(|tuning| tuning.table_bytes(TABLE_BYTES))
}

const LEVELED: &str = "leveled";
const SAMPLED: &str = "sampled, 8 runs";

const CONFIGURATIONS: [Configuration; 4] = [
    configuration(LEVELED, &TITLES, |options| {
        shared(options).tuning(|tuning| tuning.max_runs_per_guard(1).overlap_samples(false))
    }),
    configuration("8 runs", &TITLES, shared),
    configuration("4 runs", &TITLES, |options| shared(options).tuning(|tuning| tuning.max_runs_per_guard(4))),
    configuration(SAMPLED, &TITLES, |options| shared(options).tuning(|tuning| tuning.guards(SAMPLED_GUARDS))),
];

const SEQUENTIAL: &str = "Sequential writes";
const WRITES: &str = "Random writes";
const READS: &str = "Random reads";
const SEEKS: &str = "Seeks";
const SCANS_50: &str = "Ranges of 50 entries";
const SCANS_1000: &str = "Ranges of 1,000 entries";
const UPDATES: &str = "Updates, two for each row";
const UPDATED_SPACE: &str = "Ten updates for each of a tenth of the rows";
const THREADS_WRITES: &str = "Random writes, 4 threads";
const THREADS_READS: &str = "Random reads, 4 threads";
const THREADS_MIXED: &str = "Reads and writes, 4 threads";
const CACHED_WRITES: &str = "Random writes, cached data";
const CACHED_READS: &str = "Random reads, cached data";
const CACHED_SEEKS: &str = "Seeks, cached data";
const SMALL_WRITES: &str = "Random writes, values of 128 bytes";
const SMALL_READS: &str = "Random reads, values of 128 bytes";
const SMALL_SEEKS: &str = "Seeks, values of 128 bytes";
const AGED_WRITES: &str = "Random writes, aged store";
const AGED_READS: &str = "Random reads, aged store";
const AGED_SEEKS: &str = "Seeks, aged store";
const LOW_WRITES: &str = "Random writes, low memory";
const LOW_READS: &str = "Random reads, low memory";
const LOW_SEEKS: &str = "Seeks, low memory";
const YCSB_LOAD: &str = "YCSB load";
const YCSB_A: &str = "YCSB A";
const YCSB_B: &str = "YCSB B";
const YCSB_C: &str = "YCSB C";
const YCSB_D: &str = "YCSB D";
const YCSB_E: &str = "YCSB E";
const YCSB_SCANS: &str = "YCSB E without inserts";
const YCSB_F: &str = "YCSB F";

const SINGLE: &str = "5.2; Figure 4 (b)";
const THREADS: &str = "5.2; Figure 4 (c)";
const CACHED: &str = "5.2; Figure 4 (d)";
const SMALL: &str = "5.2; Figure 4 (e)";
const AGED: &str = "5.2; Figure 4 (f)";
const LOW: &str = "5.2; Figure 4 (g)";
const YCSB: &str = "5.3; Figure 5";

const EXPERIMENTS: [Experiment; 31] = [
    Experiment { workload: "fillseq", ..writes(SEQUENTIAL, "4.6 and 5.2; Figure 4 (b)", WHOLE) },
    Experiment { figures: &WITH_SPACE, ..writes(WRITES, "1 and 5.2; Figure 4 (b)", WHOLE) },
    reads(READS, "1 and 5.2; Figure 4 (b)", WHOLE),
    seeks(SEEKS, SINGLE, WHOLE),
    scans(SCANS_50, "5.2", WHOLE, 50),
    scans(SCANS_1000, "5.2", Scale { operations_percent: 1, ..WHOLE }, 1_000),
    overwrites(UPDATES, "5.2; Table 2", Scale { operations_percent: 200, ..WHOLE }),
    Experiment {
        workload: "updaterandom",
        figures: &WITH_SPACE,
        ..writes(UPDATED_SPACE, "5.2", Scale { rows_percent: 10, ..WHOLE })
    },
    by_threads(writes(THREADS_WRITES, THREADS, MUCH_MEMORY)),
    by_threads(reads(THREADS_READS, THREADS, MUCH_MEMORY)),
    by_threads(mixed(THREADS_MIXED, THREADS, ("mixed", Distribution::Uniform), MUCH_MEMORY)),
    writes(CACHED_WRITES, CACHED, FEW_ROWS),
    reads(CACHED_READS, CACHED, FEW_ROWS),
    seeks(CACHED_SEEKS, CACHED, FEW_ROWS),
    writes(SMALL_WRITES, "5.2; Figures 4 (a), 4 (e)", SMALL_VALUES),
    reads(SMALL_READS, SMALL, SMALL_VALUES),
    seeks(SMALL_SEEKS, SMALL, SMALL_VALUES),
    overwrites(AGED_WRITES, AGED, OLD),
    reads(AGED_READS, AGED, OLD),
    seeks(AGED_SEEKS, AGED, OLD),
    writes(LOW_WRITES, LOW, LITTLE_CACHE),
    reads(LOW_READS, LOW, LITTLE_CACHE),
    seeks(LOW_SEEKS, LOW, LITTLE_CACHE),
    Experiment { workload: "ycsb-load", ..by_threads(writes(YCSB_LOAD, YCSB, MUCH_MEMORY)) },
    ycsb(YCSB_A, "ycsb-a"),
    ycsb(YCSB_B, "ycsb-b"),
    Experiment { figures: &[OPERATIONS, READS_PER_GET], ..ycsb(YCSB_C, "ycsb-c") },
    Experiment { distribution: Distribution::Latest, ..ycsb(YCSB_D, "ycsb-d") },
    Experiment { scale: FEW_SCANS, ..ycsb(YCSB_E, "ycsb-e") },
    Experiment { scale: FEW_SCANS, figures: &[OPERATIONS], ..ycsb(YCSB_SCANS, "seekrandom") },
    ycsb(YCSB_F, "ycsb-f"),
];

const TITLES: [&str; EXPERIMENTS.len()] = titles(&EXPERIMENTS);

/// As in the paper, memory for blocks is 30% of the data.
const WHOLE: Scale = Scale { cache_percent: Some(30), ..Scale::WHOLE };

/// 64 MB of memory for writes in the paper, instead of 4 MB. Here it is less, because the levels grow with it and would be two.
const MUCH_MEMORY: Scale = Scale { memory_times: 4, ..WHOLE };

/// The data fit into memory for blocks, which is 64 MiB here.
const FEW_ROWS: Scale = Scale { rows_percent: 50, cache_percent: None, ..WHOLE };

const SMALL_VALUES: Scale = Scale { value_bytes: Some(128), ..WHOLE };

/// The paper's aging updates 20 million of 50 million rows and deletes as many.
const OLD: Scale = Scale { aging_percent: 80, ..WHOLE };

const LITTLE_CACHE: Scale = Scale { cache_percent: Some(6), ..MUCH_MEMORY };

/// A tenth of the operations, since each scan reads 50 entries on average.
const FEW_SCANS: Scale = Scale { operations_percent: 10, ..MUCH_MEMORY };

const fn writes(title: Text, place: Text, scale: Scale) -> Experiment {
    experiment(title, place, ("fillrandom", Distribution::Uniform), scale, &[RATE, WRITTEN])
}

const fn overwrites(title: Text, place: Text, scale: Scale) -> Experiment {
    Experiment { workload: "overwrite", ..writes(title, place, scale) }
}

const fn reads(title: Text, place: Text, scale: Scale) -> Experiment {
    let figures = &[OPERATIONS, READS_PER_GET];
    experiment(title, place, ("readrandom", Distribution::Uniform), scale, figures)
}

const fn seeks(title: Text, place: Text, scale: Scale) -> Experiment {
    scans(title, place, Scale { operations_percent: 10, ..scale }, 1)
}

const fn scans(title: Text, place: Text, scale: Scale, entries: u64) -> Experiment {
    let scale = Scale { entries, ..scale };
    experiment(title, place, ("seekrandom", Distribution::Uniform), scale, &[OPERATIONS])
}

const fn mixed(title: Text, place: Text, workload: (Text, Distribution), scale: Scale) -> Experiment {
    experiment(title, place, workload, scale, &[SETTLED, WRITTEN])
}

const fn ycsb(title: Text, workload: Text) -> Experiment {
    by_threads(mixed(title, YCSB, (workload, Distribution::Zipfian), MUCH_MEMORY))
}

const fn by_threads(experiment: Experiment) -> Experiment {
    Experiment { threads: 4, ..experiment }
}

const RATE: Figure = Figure::SettledWrites;
const SETTLED: Figure = Figure::SettledOperations;
const OPERATIONS: Figure = Figure::Operations;
const WRITTEN: Figure = Figure::WrittenPerUserByte;
const READS_PER_GET: Figure = Figure::ReadsPerGet;
const SPACE: Figure = Figure::TableBytes;

const WITH_SPACE: [Figure; 3] = [RATE, WRITTEN, SPACE];

const fn of(experiments: &'static [Text], figure: Figure, text: Text) -> Statement {
    Statement { experiments, figure, configuration: SAMPLED, text }
}

/// What the paper says of other stores, or of its own with one run a cell.
const fn of_leveled(experiments: &'static [Text], figure: Figure, text: Text) -> Statement {
    Statement { configuration: LEVELED, ..of(experiments, figure, text) }
}

/// The figures in the paper's text. They compare PebblesDB with the store that they name. An overhead lowers the operations a second.
const STATEMENTS: [Statement; 38] = [
    of(&[SEQUENTIAL], RATE, "HyperLevelDB 1/3"),
    of(&[SEQUENTIAL], WRITTEN, "more (4.6)"),
    of(&[WRITES], RATE, "HyperLevelDB 2.7; compaction ends 2.5 times as fast"),
    of(&[WRITES], RATE, "RocksDB 6.7 (1)"),
    of(&[WRITES], WRITTEN, "RocksDB 1/2.4 to 1/3 (1)"),
    of(&[WRITES], SPACE, "RocksDB, LevelDB within 2%"),
    of(&[READS], OPERATIONS, "HyperLevelDB 1.2, similar with more indices cached"),
    of(&[READS], OPERATIONS, "RocksDB 1.27 (1)"),
    of(&[SEEKS], OPERATIONS, "HyperLevelDB: 30% overhead"),
    of(&[SCANS_50], OPERATIONS, "HyperLevelDB: 15% overhead"),
    of(&[SCANS_1000], OPERATIONS, "HyperLevelDB: 11% overhead"),
    of(&[UPDATES], RATE, "HyperLevelDB 2.15"),
    of(&[UPDATES], RATE, "47,850, then 42,550; inserts 56,180"),
    of_leveled(&[UPDATES], RATE, "HyperLevelDB 24,550, then 19,760; inserts 40,000"),
    of(&[UPDATED_SPACE], SPACE, "7.9 GB"),
    of_leveled(&[UPDATED_SPACE], SPACE, "LevelDB 7.8 GB, RocksDB 7.1 GB"),
    of(&[THREADS_WRITES], RATE, "HyperLevelDB 1.7, RocksDB 3.3"),
    of(&[THREADS_READS], OPERATIONS, "the most of all"),
    of(&[THREADS_MIXED], SETTLED, "the most of all"),
    of(&[CACHED_WRITES], RATE, "HyperLevelDB: more"),
    of(&[CACHED_READS], OPERATIONS, "HyperLevelDB: 7% overhead"),
    of_leveled(&[CACHED_READS], OPERATIONS, "PebblesDB-1: 11% more"),
    of(&[CACHED_SEEKS], OPERATIONS, "HyperLevelDB: 47% overhead"),
    of_leveled(&[CACHED_SEEKS], OPERATIONS, "PebblesDB-1: 13% overhead"),
    of(&[SMALL_WRITES], RATE, "more than others"),
    of(&[SMALL_WRITES], WRITTEN, "HyperLevelDB, RocksDB 1/2.5; LevelDB 1/1.6"),
    of(&[SMALL_READS, SMALL_SEEKS], OPERATIONS, "as others"),
    of(&[AGED_WRITES], RATE, "HyperLevelDB 2, fresh 2.7"),
    of(&[AGED_READS], OPERATIONS, "HyperLevelDB 1.08, fresh 1.2"),
    of(&[AGED_SEEKS], OPERATIONS, "HyperLevelDB: 40% overhead, fresh 30%"),
    of(&[LOW_WRITES], RATE, "HyperLevelDB 1.64"),
    of(&[LOW_READS], OPERATIONS, "HyperLevelDB 1.63"),
    of(&[LOW_SEEKS], OPERATIONS, "HyperLevelDB: 40% overhead"),
    of(&[YCSB_LOAD], RATE, "others 1.5 to 2"),
    of(&[YCSB_A, YCSB_B, YCSB_D, YCSB_F], SETTLED, "about as others"),
    of(&[YCSB_C], OPERATIONS, "more than others, similar with more indices cached"),
    of(&[YCSB_E], SETTLED, "others: 6% overhead"),
    of(&[YCSB_SCANS], OPERATIONS, "HyperLevelDB: 18% less"),
];
