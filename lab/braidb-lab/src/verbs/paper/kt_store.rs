//! "KT-Store: A Key-Order and Write-Order Hybrid Key-Value Store with High Write and Range-query Performance".
//!
//! The paper loads 100 GB into RocksDB with its defaults, and into two stores that use RocksDB for keys. The data here have 0.8 GB, and
//! memory for writes has RocksDB's 64 MiB. Smaller memory makes a trie slower, because a flush writes to each of its leaves. The smallest
//! data of Figures 7 and 10, a twentieth of the largest, are left out. They would fit into memory.
//!
//! All sides are this engine. *leveled* stands for RocksDB: it has one run a cell and keeps values in its tree. *plain* keeps them there
//! too, in the engine's tree of many runs. In both no value stays in a log, as it would by default.
//! *WiscKey* and *trie* are the layouts of the papers, *ordered* is the layout of this engine. A scan reads as its layout does: in a trie
//! each table from the smallest to the largest offset, with WiscKey value by value. The paper's stores collect no garbage, and here all
//! sides do.
//!
//! The paper does not tell the levels of its trie. Here they make 16 to 160 leaves, whatever the number of rows. It does not tell how many
//! ranges and YCSB operations it measures. Workload E has a tenth of the others' operations, since a scan of the trie reads a whole leaf.
//! The paper's load for YCSB draws Zipfian keys, and here each key is written once. The text has few figures of the diagrams, so one
//! statement is shown for several lengths, sizes or workloads.

use super::{
    Configuration, Experiment, Figure, Further, Paper, Scale, Sizes, Statement, Text, configuration,
    experiment, factor_text, titles,
};
use braidb::Options;
use braidb::tuning::ValueLayout;
use braidb_bench::Distribution;

pub const PAPER: Paper = Paper {
    title: "KT-Store",
    sizes: Sizes {
        rows: 200_000,
        key_bytes: KEY_BYTES,
        row_bytes: KEY_BYTES as u64 + (4 << 10),
        writes: |rows| rows / 4,
        reads: |_| 1_000,
        memtable_bytes: |rows| ((rows as f64 / 2e5 * MEMTABLE_BYTES) as usize).max(LEAST_MEMTABLE_BYTES),
        further: Further { trie_levels: Some(trie_levels), ..Further::NOTHING },
    },
    experiments: &EXPERIMENTS,
    configurations: &CONFIGURATIONS,
    baselines: &[LEVELED, PLAIN, WISCKEY],
    comparison: factor_text,
    statements: &STATEMENTS,
};

const KEY_BYTES: usize = 16;

/// Bytes of memory for 200,000 rows.
const MEMTABLE_BYTES: f64 = (64 << 20) as f64;

/// The least bytes of memory. With less, a flush of the largest values has hardly any of them.
const LEAST_MEMTABLE_BYTES: usize = 256 << 10;

/// The most leaves of a trie. One level less makes a tenth as many.
const MOST_LEAVES: u64 = 160;

/// The levels over a fill's keys, which are the even decimal numbers below twice the rows, with leading zeros.
fn trie_levels(rows: u64) -> usize {
    let digits_in_leaf = (0..).find(|&digits| (2 * rows).div_ceil(10_u64.pow(digits)) <= MOST_LEAVES);
    KEY_BYTES - digits_in_leaf.expect("a number has few digits") as usize
}

const LEVELED: &str = "leveled";
const PLAIN: &str = "plain";
const WISCKEY: &str = "WiscKey";
const TRIE: &str = "trie";
const ORDERED: &str = "ordered";

/// The shared options have the layout of the trie. It has no effect where no value is separated.
const CONFIGURATIONS: [Configuration; 5] = [
    configuration(LEVELED, &TITLES, |options| plain(options).tuning(|tuning| tuning.max_runs_per_guard(1))),
    configuration(PLAIN, &TITLES, plain),
    configuration(WISCKEY, &TITLES, |options| with_layout(options, ValueLayout::Trie { levels: 0 })),
    configuration(TRIE, &TITLES, separated),
    configuration(ORDERED, &TITLES, |options| with_layout(options, ValueLayout::Ordered)),
];

fn plain(options: Options) -> Options {
    options.tuning(|tuning| tuning.log_table_percent(0).separation_threshold(None))
}

fn separated(options: Options) -> Options {
    options.tuning(|tuning| tuning.separation_threshold(Some(1 << 10)))
}

fn with_layout(options: Options, layout: ValueLayout) -> Options {
    separated(options).tuning(|tuning| tuning.value_layout(layout))
}

const LOAD_1K: &str = "Load, values of 1 KiB";
const LOAD: &str = "Load, values of 4 KiB";
const LOAD_16K: &str = "Load, values of 16 KiB";
const LOAD_64K: &str = "Load, values of 64 KiB";
const LOAD_20: &str = "Load, 20% of the data";
const LOAD_50: &str = "Load, 50% of the data";
const RANGES_2000: &str = "Ranges of 2,000 values";
const RANGES_3000: &str = "Ranges of 3,000 values";
const RANGES_5000: &str = "Ranges of 5,000 values";
const RANGES_15000: &str = "Ranges of 15,000 values";
const RANGES_20000: &str = "Ranges of 20,000 values";
const RANGES_1K: &str = "Ranges of 40 MiB, values of 1 KiB";
const RANGES_4K: &str = "Ranges of 40 MiB, values of 4 KiB";
const RANGES_16K: &str = "Ranges of 40 MiB, values of 16 KiB";
const GETS_20: &str = "Gets, 20% of the data";
const GETS_50: &str = "Gets, 50% of the data";
const GETS: &str = "Gets, all data";
const YCSB_A: &str = "YCSB A";
const YCSB_B: &str = "YCSB B";
const YCSB_C: &str = "YCSB C";
const YCSB_D: &str = "YCSB D";
const YCSB_E: &str = "YCSB E";
const YCSB_F: &str = "YCSB F";

const EXPERIMENTS: [Experiment; 23] = [
    load(LOAD_1K, "4.2; Figure 6", of_values(1 << 10)),
    load(LOAD, "4.2 and 4.5; Figures 6, 7, 11", Scale::WHOLE),
    load(LOAD_16K, "4.2; Figure 6", of_values(16 << 10)),
    load(LOAD_64K, "4.2; Figure 6", of_values(64 << 10)),
    load(LOAD_20, "4.2; Figure 7", of_rows(20)),
    load(LOAD_50, "4.2; Figure 7", of_rows(50)),
    ranges(RANGES_2000, "4.3; Figure 8", Scale::WHOLE, 2_000),
    ranges(RANGES_3000, "4.3; Figure 8", Scale::WHOLE, 3_000),
    ranges(RANGES_5000, "4.3; Figure 8", Scale::WHOLE, 5_000),
    ranges(RANGES_15000, "4.3; Figure 8", Scale::WHOLE, 15_000),
    ranges(RANGES_20000, "4.3; Figure 8", Scale::WHOLE, 20_000),
    ranges(RANGES_1K, "4.3; Figure 9", of_values(1 << 10), 40 << 10),
    ranges(RANGES_4K, "4.3; Figure 9", Scale::WHOLE, 10 << 10),
    ranges(RANGES_16K, "4.3; Figure 9", of_values(16 << 10), 5 << 9),
    gets(GETS_20, of_rows(20)),
    gets(GETS_50, of_rows(50)),
    gets(GETS, Scale::WHOLE),
    ycsb(YCSB_A, "ycsb-a", Distribution::Zipfian, Scale::WHOLE),
    ycsb(YCSB_B, "ycsb-b", Distribution::Zipfian, Scale::WHOLE),
    ycsb(YCSB_C, "ycsb-c", Distribution::Zipfian, Scale::WHOLE),
    ycsb(YCSB_D, "ycsb-d", Distribution::Latest, Scale::WHOLE),
    ycsb(YCSB_E, "ycsb-e", Distribution::Zipfian, Scale { operations_percent: 10, ..Scale::WHOLE }),
    ycsb(YCSB_F, "ycsb-f", Distribution::Zipfian, Scale::WHOLE),
];

const TITLES: [&str; EXPERIMENTS.len()] = titles(&EXPERIMENTS);

const fn of_values(bytes: u64) -> Scale {
    Scale { value_bytes: Some(bytes), ..Scale::WHOLE }
}

const fn of_rows(percent: u64) -> Scale {
    Scale { rows_percent: percent, ..Scale::WHOLE }
}

const fn load(title: Text, place: Text, scale: Scale) -> Experiment {
    experiment(title, place, ("fillrandom", Distribution::Uniform), scale, &LOAD_FIGURES)
}

/// Twenty ranges, unless the command line gives other reads.
const fn ranges(title: Text, place: Text, scale: Scale, entries: u64) -> Experiment {
    let scale = Scale { operations_percent: 2, entries, ..scale };
    experiment(title, place, ("seekrandom", Distribution::Uniform), scale, &[LATENCY])
}

const fn gets(title: Text, scale: Scale) -> Experiment {
    experiment(title, "4.4; Figure 10", ("readrandom", Distribution::Uniform), scale, &[LATENCY])
}

const fn ycsb(title: Text, workload: Text, distribution: Distribution, scale: Scale) -> Experiment {
    experiment(title, "4.5; Figure 11", (workload, distribution), scale, &[OPERATIONS])
}

const WRITES: Figure = Figure::SettledWrites;
const OPERATIONS: Figure = Figure::SettledOperations;
const LATENCY: Figure = Figure::MeanLatency;

const LOAD_FIGURES: [Figure; 2] = [WRITES, Figure::WrittenPerUserByte];

const fn of(experiments: &'static [Text], figure: Figure, text: Text) -> Statement {
    Statement { experiments, figure, configuration: TRIE, text }
}

const LOADS_BY_VALUE: [&str; 4] = [LOAD_1K, LOAD, LOAD_16K, LOAD_64K];
const LOADS_BY_DATA: [&str; 3] = [LOAD_20, LOAD_50, LOAD];
const RANGES_BY_LENGTH: [&str; 5] = [RANGES_2000, RANGES_3000, RANGES_5000, RANGES_15000, RANGES_20000];
const RANGES_BY_VALUE: [&str; 3] = [RANGES_1K, RANGES_4K, RANGES_16K];
const ALL_GETS: [&str; 3] = [GETS_20, GETS_50, GETS];
const YCSB_BUT_E: [&str; 5] = [YCSB_A, YCSB_B, YCSB_C, YCSB_D, YCSB_F];

/// The figures in the paper's text. All compare KT-Store with RocksDB or WiscKey. They are of hard disks, unless they name SSDs.
const STATEMENTS: [Statement; 13] = [
    of(&LOADS_BY_VALUE, WRITES, "RocksDB 4.3 to 12.6, more with larger values"),
    of(&LOADS_BY_VALUE, WRITES, "WiscKey 0.84 at best"),
    of(&LOADS_BY_VALUE, WRITES, "SSD: more than RocksDB, at best as WiscKey"),
    of(&LOADS_BY_DATA, WRITES, "RocksDB more with more data"),
    of(&LOADS_BY_DATA, WRITES, "WiscKey about 0.77"),
    of(&RANGES_BY_LENGTH, LATENCY, "RocksDB 1/3.4 to 1/5.8"),
    of(&RANGES_BY_LENGTH, LATENCY, "WiscKey 1/54.2 to 1/112.6"),
    of(&RANGES_BY_VALUE, LATENCY, "WiscKey less, on SSD too"),
    of(&ALL_GETS, LATENCY, "between RocksDB and WiscKey"),
    of(&[LOAD], WRITES, "YCSB: RocksDB 1.8 to 7.0, as WiscKey"),
    of(&YCSB_BUT_E, OPERATIONS, "RocksDB 1.8 to 7.0, as WiscKey"),
    of(&[YCSB_E], OPERATIONS, "RocksDB a little less"),
    of(&[YCSB_E], OPERATIONS, "WiscKey 2.32"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trie_has_enough_leaves_and_not_too_many() {
        for rows in [12_000, 50_000, 200_000, 790_000, 25_000_000] {
            let leaves = (2 * rows) as f64 / 10_f64.powi((KEY_BYTES - trie_levels(rows)) as i32);
            assert!((16.0..=160.0).contains(&leaves), "{rows} rows: {leaves}");
        }
        assert_eq!(trie_levels(1), KEY_BYTES, "a leaf for each key");
    }
}
