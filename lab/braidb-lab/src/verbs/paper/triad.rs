//! "TRIAD: Creating Synergies Between Memory, Disk and Log in Log Structured Key-Value Stores", USENIX ATC 2017.
//!
//! The paper's synthetic loads have 1 million keys of 8 bytes with values of 255, and 4 MB of memory for writes. Here are half as many
//! keys, with memory and the bytes of logs in proportion. With far fewer keys, the syncs of small flushes would determine the figures. The
//! paper fills the tree with half of the keys before the load, and this module with all of them. The baseline is this engine with the
//! techniques off, and not RocksDB. On all sides memory is one skiplist, and each cell of the tree is one run, as in the paper. *overlap*
//! differs from *none* in L0: *none* merges it at 4 tables, and *overlap* at 4 to 6, by the paper's rule on samples.
//!
//! The production loads W1 to W4 keep the paper's numbers of updates and keys (Figure 8), divided like RocksDB's default of 64 MiB of
//! memory: by 32 with 500,000 rows. The rest is assumed, since the paper tells no more than that W2 and W4 have more skew: rows of the
//! synthetic loads, no reads, 8 threads, Zipf's law for W2 and W4, and 80% of the updates to 20% of the keys for W1 and W3.
//!
//! Only figures in the paper's text are repeated (5.2 to 5.4). The text gives few figures of the diagrams. It does not tell the number of
//! threads for Figure 9, so its figures are shown with 8 and with 16 threads. "Up to" is over several loads or proportions. Time spent in
//! compaction is compared with the processor time of background work.

use super::{
    Cause, Configuration, Experiment, Figure, Further, Paper, Scale, Sizes, Statement, Text, change_text,
    configuration, experiment, scaled, statement, titles,
};
use braidb::Options;
use braidb::tuning::MemoryPolicy;
use braidb_bench::Distribution;

pub const PAPER: Paper = Paper {
    title: "TRIAD (USENIX ATC 2017)",
    sizes: Sizes {
        rows: 500_000,
        key_bytes: 8,
        row_bytes: 263,
        writes: |rows| 2 * rows,
        reads: |_| 1_000_000,
        memtable_bytes: |rows| (scaled(rows, 4 << 20) as usize).max(LEAST_BYTES),
        further: Further { log_bytes: Some(log_bytes), ..Further::NOTHING },
    },
    experiments: &EXPERIMENTS,
    configurations: &CONFIGURATIONS,
    baselines: &[NONE],
    comparison: change_text,
    statements: &STATEMENTS,
};

/// The bytes that the logs may take.
fn log_bytes(rows: u64) -> u64 {
    scaled(rows, 64 << 20).max(4 * LEAST_BYTES as u64)
}

/// The least bytes of memory or logs. With less, hardly any write behaves as in a real run.
const LEAST_BYTES: usize = 64 << 10;

/// The options of the baseline: every technique off. A configuration turns its techniques on.
fn plain(options: Options) -> Options {
    let options = options.tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).max_runs_per_guard(1));
    options.tuning(|tuning| tuning.hot_keys_percent(0).overlap_samples(false).log_table_percent(0))
}

/// Turns on the three techniques of the paper.
fn all(options: Options) -> Options {
    plain(options).tuning(|tuning| tuning.hot_keys_percent(1).overlap_samples(true).log_table_percent(50))
}

const NONE: &str = "none";
const HOT_KEYS: &str = "hot keys";
const OVERLAP: &str = "overlap";
const LOG_TABLES: &str = "log tables";
const ALL: &str = "all";

const CONFIGURATIONS: [Configuration; 5] = [
    configuration(NONE, &TITLES, plain),
    configuration(HOT_KEYS, &TITLES, |options| plain(options).tuning(|tuning| tuning.hot_keys_percent(1))),
    configuration(OVERLAP, &TITLES, |options| plain(options).tuning(|tuning| tuning.overlap_samples(true))),
    configuration(LOG_TABLES, &TITLES, |options| {
        plain(options).tuning(|tuning| tuning.log_table_percent(50))
    }),
    configuration(ALL, &TITLES, all),
];

const WS1_10_8: &str = "WS1, 10% reads, 8 threads";
const WS1_10_16: &str = "WS1, 10% reads, 16 threads";
const WS1_50_8: &str = "WS1, 50% reads, 8 threads";
const WS1_50_16: &str = "WS1, 50% reads, 16 threads";
const WS2_10_8: &str = "WS2, 10% reads, 8 threads";
const WS2_10_16: &str = "WS2, 10% reads, 16 threads";
const WS2_50_8: &str = "WS2, 50% reads, 8 threads";
const WS2_50_16: &str = "WS2, 50% reads, 16 threads";
const WS3_10_8: &str = "WS3, 10% reads, 8 threads";
const WS3_10_16: &str = "WS3, 10% reads, 16 threads";
const WS3_50_8: &str = "WS3, 50% reads, 8 threads";
const WS3_50_16: &str = "WS3, 50% reads, 16 threads";

const W1: &str = "Production W1, 8 threads";
const W2: &str = "Production W2, 8 threads";
const W3: &str = "Production W3, 8 threads";
const W4: &str = "Production W4, 8 threads";

const TITLES: [&str; EXPERIMENTS.len()] = titles(&EXPERIMENTS);

const WS1: Distribution = Distribution::Hot1In99;
const WS2: Distribution = Distribution::Hot20In80;
const WS3: Distribution = Distribution::Uniform;

const EXPERIMENTS: [Experiment; 16] = [
    load(WS1_10_8, "5.3 and 5.4; Figures 9, 11", WS1, 10, 8),
    load(WS1_10_16, "5.3 and 5.4; Figures 9, 10", WS1, 10, 16),
    load(WS1_50_8, "5.3; Figure 9", WS1, 50, 8),
    load(WS1_50_16, "5.3; Figure 9", WS1, 50, 16),
    load(WS2_10_8, "5.3; Figures 9, 11", WS2, 10, 8),
    load(WS2_10_16, "5.3; Figure 9", WS2, 10, 16),
    load(WS2_50_8, "5.3; Figure 9", WS2, 50, 8),
    load(WS2_50_16, "5.3; Figure 9", WS2, 50, 16),
    load(WS3_10_8, "5.3 and 5.4; Figures 9, 11", WS3, 10, 8),
    load(WS3_10_16, "5.3 and 5.4; Figures 9, 10", WS3, 10, 16),
    load(WS3_50_8, "5.3; Figure 9", WS3, 50, 8),
    load(WS3_50_16, "5.3; Figure 9", WS3, 50, 16),
    production(W1, LESS_SKEW, 250, 40),
    production(W2, MORE_SKEW, 75, 9),
    production(W3, LESS_SKEW, 200, 30),
    production(W4, MORE_SKEW, 75, 8),
];

const LESS_SKEW: Distribution = Distribution::Hot20In80;
const MORE_SKEW: Distribution = Distribution::Zipfian;

/// A production load, by its updates and keys in millions. A million rows have a sixteenth of the paper's memory. So they stand for 16
/// million keys, and the two million operations of the other loads for 32 million updates.
const fn production(title: Text, distribution: Distribution, updates: u64, keys: u64) -> Experiment {
    let scale =
        Scale { rows_percent: 100 * keys / 16, operations_percent: 100 * updates / 32, ..Scale::WHOLE };
    let experiment =
        experiment(title, "5.2; Figures 8, 9", ("mixed", distribution), scale, &PRODUCTION_FIGURES);
    Experiment { read_percent: 0, threads: 8, ..experiment }
}

const fn load(
    title: Text,
    place: Text,
    distribution: Distribution,
    read_percent: u64,
    threads: u64,
) -> Experiment {
    let experiment = experiment(title, place, ("mixed", distribution), Scale::WHOLE, &FIGURES);
    Experiment { read_percent, threads, ..experiment }
}

const RATE: Figure = Figure::SettledOperations;
const BYTES: Figure = Figure::WrittenWithoutLog;
const WA: Figure = Figure::MergeAmplification;
const RA: Figure = Figure::ReadsPerGet;
const TIME: Figure = Figure::BackgroundCpu;

const FIGURES: [Figure; 10] = [
    RATE,
    BYTES,
    Figure::Written(Cause::Flush),
    Figure::Written(Cause::Merge),
    Figure::Written(Cause::WriteBack),
    Figure::Written(Cause::Log),
    Figure::WrittenPerUserByte,
    WA,
    RA,
    TIME,
];

const PRODUCTION_FIGURES: [Figure; 3] = [RATE, BYTES, WA];

const PRODUCTION: [&str; 4] = [W1, W2, W3, W4];

const ALL_WS1: [&str; 4] = [WS1_10_8, WS1_10_16, WS1_50_8, WS1_50_16];
const ALL_WS2: [&str; 4] = [WS2_10_8, WS2_10_16, WS2_50_8, WS2_50_16];
const ALL_WS3: [&str; 4] = [WS3_10_8, WS3_10_16, WS3_50_8, WS3_50_16];

/// The figures in the paper's text. The text also says that all three techniques are up to 2.5 times as fast on the skewed loads. None of
/// its single figures comes near 2.5.
const STATEMENTS: [Statement; 29] = [
    statement(&ALL_WS1, RATE, ALL, "+50%"),
    statement(&[WS2_10_8, WS2_10_16], RATE, ALL, "+51%"),
    statement(&[WS2_50_8, WS2_50_16], RATE, ALL, "+25%"),
    statement(&ALL_WS3, RATE, ALL, "up to 2.2 times"),
    statement(&[WS1_10_16], RATE, HOT_KEYS, "97% of what all have"),
    statement(&[WS1_10_16], RATE, OVERLAP, "more"),
    statement(&[WS1_10_16], RATE, LOG_TABLES, "more"),
    statement(&[WS3_10_16], RATE, HOT_KEYS, "more"),
    statement(&[WS3_10_16], RATE, OVERLAP, "85% of what all have"),
    statement(&[WS3_10_16], RATE, LOG_TABLES, "97% of what all have"),
    statement(&ALL_WS1, BYTES, ALL, "an order of magnitude less"),
    statement(&ALL_WS1, WA, ALL, "as none"),
    statement(&ALL_WS2, WA, ALL, "up to 4 times less"),
    statement(&ALL_WS3, WA, ALL, "up to 4 times less"),
    statement(&[WS1_10_8, WS1_50_8], WA, HOT_KEYS, "the least of the three"),
    statement(&[WS3_10_8, WS3_50_8], WA, HOT_KEYS, "close to no effect"),
    statement(&[WS3_10_8, WS3_50_8], WA, OVERLAP, "up to -60%"),
    statement(&[WS3_10_8, WS3_50_8], WA, LOG_TABLES, "up to -40%"),
    statement(&[WS3_10_8], RA, HOT_KEYS, "less"),
    statement(&[WS3_10_8], RA, OVERLAP, "more"),
    statement(&[WS3_10_8], RA, LOG_TABLES, "no effect"),
    statement(&[WS3_10_8], RA, ALL, "at most +5%"),
    statement(&ALL_WS1, TIME, ALL, "an order of magnitude less"),
    statement(&ALL_WS2, TIME, ALL, "-48%"),
    statement(&ALL_WS3, TIME, ALL, "-72%"),
    statement(&PRODUCTION, RATE, ALL, "up to +193% (skew, sizes, no reads: assumed here)"),
    statement(&PRODUCTION, WA, ALL, "up to 4 times less, alike in W1 to W4"),
    statement(&[W1, W3], RATE, NONE, "less than W2, W4"),
    statement(&[W1, W3], WA, NONE, "more than W2, W4"),
];
