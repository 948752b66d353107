//! "TRIAD: Creating Synergies Between Memory, Disk and Log in Log Structured Key-Value Stores", USENIX ATC 2017.
//!
//! The paper's synthetic loads have 1 million keys of 8 bytes with values of 255, and 4 MB of memory for writes. Here are half as many
//! keys, with memory and the bytes of logs in proportion. With far fewer keys, the syncs of small flushes would determine the figures. The
//! paper fills the tree with half of the keys before the load, and this module with all of them. The baseline is this engine with the
//! techniques off, and not RocksDB. On all sides memory is one skiplist, and each cell of the tree is one run, as in the paper.
//!
//! Only figures in the paper's text are repeated (5.3, 5.4). The text gives few figures of the diagrams. It does not tell the number of
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

const TITLES: [&str; EXPERIMENTS.len()] = titles(&EXPERIMENTS);

const WS1: Distribution = Distribution::Hot1In99;
const WS2: Distribution = Distribution::Hot20In80;
const WS3: Distribution = Distribution::Uniform;

const EXPERIMENTS: [Experiment; 12] = [
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
];

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

const ALL_WS1: [&str; 4] = [WS1_10_8, WS1_10_16, WS1_50_8, WS1_50_16];
const ALL_WS2: [&str; 4] = [WS2_10_8, WS2_10_16, WS2_50_8, WS2_50_16];
const ALL_WS3: [&str; 4] = [WS3_10_8, WS3_10_16, WS3_50_8, WS3_50_16];

/// The figures in the paper's text. The text also says that all three techniques are up to 2.5 times as fast on the skewed loads. None of
/// its single figures comes near 2.5.
const STATEMENTS: [Statement; 25] = [
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
];
