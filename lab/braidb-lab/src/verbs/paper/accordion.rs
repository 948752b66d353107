//! "Accordion: Better Memory Organization for LSM Key-Value Stores", PVLDB 11(12), 2018.
//!
//! The paper writes 500 million rows of 100 bytes over 100 million keys into HBase. It uses two servers with 3 GB of memory for writes
//! each; all sizes here are a hundredth. Its gets run while other threads write, as here. Its scans have 1 to 100 keys with a write after
//! every 19 scans. Here a scan has 50 keys and one thread writes all the time. Only figures in the paper's text are repeated. The text
//! gives few figures of its Tables 1 and 2 and its diagrams.

use super::{
    Configuration, Experiment, Figure, Further, Paper, Scale, Sizes, Statement, Text, change_text,
    configuration, experiment, statement,
};
use braidb::Options;
use braidb::tuning::MemoryPolicy;
use braidb_bench::Distribution;

pub const PAPER: Paper = Paper {
    title: "Accordion (PVLDB 11(12), 2018)",
    sizes: Sizes {
        rows: 1_000_000,
        key_bytes: 16,
        row_bytes: 100,
        writes: |rows| 5 * rows,
        reads: |_| 1_000_000,
        memtable_bytes: |_| 64 << 20,
        further: Further::NOTHING,
    },
    experiments: &EXPERIMENTS,
    configurations: &CONFIGURATIONS,
    baselines: &["none"],
    comparison: change_text,
    statements: &STATEMENTS,
};

const ZIPFIAN_WRITES: &str = "Write-only, Zipfian";
const UNIFORM_WRITES: &str = "Write-only, uniform";
const GETS: &str = "Gets under writes, Zipfian";
const SCANS: &str = "Scans under writes, Zipfian";

const EVERYWHERE: [&str; 4] = [ZIPFIAN_WRITES, UNIFORM_WRITES, GETS, SCANS];

/// Sets the paper's A and S, unless the name of the configuration gives others.
fn of_paper(options: Options, policy: MemoryPolicy) -> Options {
    options.tuning(|tuning| {
        tuning
            .memory_policy(policy)
            .hot_keys_percent(0)
            .log_table_percent(0)
            .active_percent(2)
            .pipeline_segments(5)
    })
}

/// Basic with another A, in percent of the memory.
fn basic(options: Options, active_percent: u32) -> Options {
    of_paper(options, MemoryPolicy::Basic).tuning(|tuning| tuning.active_percent(active_percent))
}

fn adaptive(options: Options, redundancy_percent: u32) -> Options {
    of_paper(options, MemoryPolicy::Adaptive { redundancy_percent })
}

/// The configurations: a name, the experiments that use it, and the options of the engine. [`STATEMENTS`] refers to the names.
const CONFIGURATIONS: [Configuration; 13] = [
    // The paper's NoCompaction.
    configuration("none", &EVERYWHERE, |options| {
        options.tuning(|tuning| {
            tuning.memory_policy(MemoryPolicy::None).hot_keys_percent(0).log_table_percent(0)
        })
    }),
    // The defaults of the engine.
    configuration("default", &EVERYWHERE, |options| options),
    configuration("basic", &EVERYWHERE, |options| of_paper(options, MemoryPolicy::Basic)),
    configuration("basic S 2", &[ZIPFIAN_WRITES, SCANS], |options| {
        of_paper(options, MemoryPolicy::Basic).tuning(|tuning| tuning.pipeline_segments(2))
    }),
    configuration("basic S 4", &[ZIPFIAN_WRITES], |options| {
        of_paper(options, MemoryPolicy::Basic).tuning(|tuning| tuning.pipeline_segments(4))
    }),
    configuration("basic A 0.05", &[ZIPFIAN_WRITES], |options| basic(options, 5)),
    configuration("basic A 0.1", &[ZIPFIAN_WRITES], |options| basic(options, 10)),
    configuration("basic A 0.25", &[ZIPFIAN_WRITES], |options| basic(options, 25)),
    configuration("eager", &[ZIPFIAN_WRITES], |options| of_paper(options, MemoryPolicy::Eager)),
    configuration("eager A 0.25", &[ZIPFIAN_WRITES], |options| {
        of_paper(options, MemoryPolicy::Eager).tuning(|tuning| tuning.active_percent(25))
    }),
    configuration("adaptive R 0.2", &EVERYWHERE, |options| adaptive(options, 20)),
    configuration("adaptive R 0.35", &[ZIPFIAN_WRITES, UNIFORM_WRITES], |options| adaptive(options, 35)),
    configuration("adaptive R 0.5", &[ZIPFIAN_WRITES, UNIFORM_WRITES], |options| adaptive(options, 50)),
];

const EXPERIMENTS: [Experiment; 4] = [
    writes(
        ZIPFIAN_WRITES,
        "4.2.1 and 4.2.4; Figures 5, 6, 8, 11 to 13, Tables 1 and 2",
        Distribution::Zipfian,
    ),
    writes(UNIFORM_WRITES, "4.2.1; Figure 5, Table 1", Distribution::Uniform),
    reads(GETS, "4.2.2; Figure 9", "getwhilewriting", Scale::WHOLE),
    reads(SCANS, "4.2.3; Figure 10", "seekwhilewriting", Scale { operations_percent: 10, ..Scale::WHOLE }),
];

const fn writes(title: Text, place: Text, distribution: Distribution) -> Experiment {
    experiment(title, place, ("updaterandom", distribution), Scale::WHOLE, &WRITE_FIGURES)
}

const fn reads(title: Text, place: Text, workload: Text, scale: Scale) -> Experiment {
    experiment(title, place, (workload, Distribution::Zipfian), scale, &LATENCIES)
}

const RATE: Figure = Figure::SettledWrites;
const BYTES: Figure = Figure::WrittenWithoutLog;
const MEDIAN: Figure = Figure::Latency(500);
const P95: Figure = Figure::Latency(950);
const P99: Figure = Figure::Latency(990);

const WRITE_FIGURES: [Figure; 4] = [RATE, BYTES, Figure::Flushes, Figure::Merges];

const LATENCIES: [Figure; 5] = [MEDIAN, Figure::Latency(750), Figure::Latency(900), P95, P99];

/// The figures in the paper's text. Basic and Adaptive have A 0.02 and S 5 unless the name gives others. The text does not tell R for
/// Adaptive's flushes, compactions and bytes, and for its distance to Basic. The paper compares flat with serialized segments (Figure 8),
/// under a synchronous log. This engine has no option for the layout: it serializes a segment that is sparse or compacted. So these two
/// figures stand beside Basic with the paper's A of each layout.
const STATEMENTS: [Statement; 21] = [
    statement(&[ZIPFIAN_WRITES], RATE, "basic", "+47.6% (SSD), +25.4% (HDD)"),
    statement(&[ZIPFIAN_WRITES], RATE, "basic S 4", "the peak over S (HDD)"),
    statement(&[ZIPFIAN_WRITES], RATE, "basic", "the peak over S (SSD)"),
    statement(&[ZIPFIAN_WRITES], RATE, "basic S 2", "the best A of 0.25, 0.1, 0.05, 0.02 (SSD)"),
    statement(&[ZIPFIAN_WRITES], RATE, "basic", "flat, in chunks: +27% (on the heap), +29% (off it)"),
    statement(&[ZIPFIAN_WRITES], RATE, "basic A 0.1", "serialized: +33% (on the heap), +44% (off it)"),
    statement(&[ZIPFIAN_WRITES], RATE, "eager", "below the baseline"),
    statement(&[ZIPFIAN_WRITES], RATE, "eager A 0.25", "+20%"),
    statement(&[ZIPFIAN_WRITES], RATE, "adaptive R 0.2", "3% to 7% less than basic (SSD)"),
    statement(&[ZIPFIAN_WRITES], BYTES, "basic", "-13% (SSD), -8% (HDD)"),
    statement(&[ZIPFIAN_WRITES], BYTES, "adaptive R 0.2", "almost -30%"),
    statement(&[ZIPFIAN_WRITES], Figure::Flushes, "adaptive R 0.2", "-58%"),
    statement(&[ZIPFIAN_WRITES], Figure::Merges, "adaptive R 0.2", "-61%"),
    statement(&[UNIFORM_WRITES], RATE, "basic", "+23.8% (SSD), +8.9% (HDD)"),
    statement(&[UNIFORM_WRITES], RATE, "adaptive R 0.2", "as basic"),
    statement(&[GETS], MEDIAN, "adaptive R 0.2", "slightly more (SSD)"),
    statement(&[GETS], P95, "adaptive R 0.2", "2.13 ms to 2.26 ms (SSD)"),
    statement(&[GETS], P99, "adaptive R 0.2", "tails -15% to -40% (HDD), slightly more (SSD)"),
    statement(&[SCANS], MEDIAN, "basic S 2", "up to +3% over all percentiles (SSD)"),
    statement(&[SCANS], MEDIAN, "basic", "+2% to +8% over all percentiles (SSD)"),
    statement(&[SCANS], P99, "basic", "as at p50"),
];
