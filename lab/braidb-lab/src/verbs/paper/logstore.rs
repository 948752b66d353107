//! "LogStore: A Workload-aware, Adaptable Key-Value Store on Hybrid Storage Systems".
//!
//! The paper has 100 million rows of 16 + 1,024 bytes, and machines with 2 to 8 GB of memory beside 100 GB of data. Here are 100,000 rows,
//! and memory keeps its share: half of it for blocks, half for the page cache. Devices are modelled with the paper's rates (VI-A3, VI-B1),
//! so all figures are equal on every machine.
//!
//! All sides are this engine, named by their devices. *all hdd*, *all ssd* and *all nvme* stand for LevelDB (LDB), *nvme caches hdd* for
//! LDB-NVMe-$. Updates alone also run in leveled trees that keep all values, which are nearer to LevelDB: *all hdd, leveled* and *all
//! nvme, leveled*. *nvme + hdd* is LS-NH, *nvme + ssd* LS-NS and *ssd + hdd* LS-SH: the engine places the data, half of it on the fast
//! device. *nvme + hdd by chance* is LS-UO: chance places each file, cells have one run, and no policy moves anything.
//!
//! Ranks lie in key order, so that hot keys are neighbours; the paper does not tell its order. Gets are measured after as many gets at
//! rest. Figure 9 changes from a latest to a Zipfian distribution in the paper. Here all hot keys move by half of the rows at second 0.
//! Figure 14 tells which levels serve reads; here it is the slowest device that a get waits for. Only figures in the paper's text and
//! tables are repeated, since the text gives few figures of the diagrams. The predictions of Tables IV and V are computed again for these
//! sizes, by the two forms of `braidb-lab model`.

use super::figure::By;
use super::{
    Configuration, Experiment, Figure, Further, Paper, Predicted, Scale, Sizes, Statement, Text, experiment,
    factor_text, scaled, statement, titles,
};
use crate::failure::Outcome;
use crate::verbs::bench::Settings;
use crate::verbs::bench::placement::{DeviceArg, DeviceArgs, Placement};
use crate::verbs::model::simulated_amplification;
use braidb::Options;
use braidb_bench::Distribution;
use braidb_bench::settings::Ranks;
use braidb_device::cost::{Layout, Memory, Prediction, Setup, Tree};

pub const PAPER: Paper = Paper {
    title: "LogStore",
    sizes: Sizes {
        rows: 100_000,
        key_bytes: 16,
        row_bytes: 16 + (1 << 10),
        writes: |rows| rows,
        reads: |rows| rows / 10 * 6,
        memtable_bytes: |rows| (scaled(rows, 8 << 20) as usize).max(LEAST_MEMTABLE_BYTES),
        further: Further {
            table_bytes: Some(|rows| scaled(rows, TABLE_BYTES).max(LEAST_TABLE_BYTES)),
            zipf_exponent: Some(ZIPF_EXPONENT),
            ranks: Ranks::Ordered,
            rounds: 1,
            predict: Some(predict),
            ..Further::NOTHING
        },
    },
    experiments: &EXPERIMENTS,
    configurations: &CONFIGURATIONS,
    baselines: &[HDD, NVME, HDD_LEVELED, NVME_LEVELED],
    comparison: factor_text,
    statements: &STATEMENTS,
};

/// The cost model's figures for Tables IV and V, and for section VI-B1.
fn predict(
    experiment: &Experiment,
    configuration: &Configuration,
    settings: &Settings,
) -> Outcome<Option<Predicted>> {
    let read_share = match experiment.title {
        READS_8 => 1.0,
        B90 => 0.9,
        A => 0.5,
        B10 => 0.1,
        WRITES => 0.0,
        _ => return Ok(None),
    };
    let Some((fast, slow, fast_share)) = configuration.devices.as_ref().and_then(DeviceArgs::tiers) else {
        return Ok(None);
    };
    let load = &settings.load;
    let (key_bytes, value_bytes) = (load.key_bytes as u64, load.value_bytes as u64);
    let block_bytes = (settings.engine.cache_mib as u64) << 20;
    let setup = Setup {
        fast,
        slow,
        fast_share,
        records: load.num,
        key_bytes,
        value_bytes,
        zipf_exponent: ZIPF_EXPONENT,
        layout: Layout::ByHeat,
        // The page cache has as much as the block cache.
        memory: Memory { block_bytes, page_bytes: block_bytes },
        read_share,
        // Table III, with filters as in Table IV.
        tree: Tree {
            growth: 10.0,
            fast_levels: if slow.is_some() { 2 } else { 7 },
            slow_levels: 1,
            fast_probes: Some(1.0),
            slow_probes: Some(1.0),
        },
        written_per_byte: simulated_amplification(
            &(configuration.options)(settings.engine.options()),
            load.num,
            key_bytes + value_bytes,
        )?,
    };
    // A load of one kind is a mixed load with all of this kind.
    let rate = |prediction: Prediction| prediction.mixed_per_second;
    Ok(Some(Predicted { by_paper: rate(setup.by_paper()), refined: rate(setup.refined()) }))
}

/// The exponent of the paper's draws (VI).
const ZIPF_EXPONENT: f64 = 0.9;

/// The least bytes of memory for writes. With less, the syncs of small flushes would determine the figures.
const LEAST_MEMTABLE_BYTES: usize = 2 << 20;

/// Bytes of a table for a million rows: the engine's default.
const TABLE_BYTES: u64 = 64 << 20;

/// The least bytes of a table. With smaller cells, metadata would determine the figures.
const LEAST_TABLE_BYTES: u64 = 2 << 20;

const HDD: &str = "all hdd";
const SSD: &str = "all ssd";
const NVME: &str = "all nvme";
const HDD_LEVELED: &str = "all hdd, leveled";
const NVME_LEVELED: &str = "all nvme, leveled";
const CACHE: &str = "nvme caches hdd";
const NH: &str = "nvme + hdd";
const NS: &str = "nvme + ssd";
const SH: &str = "ssd + hdd";
const UO: &str = "nvme + hdd by chance";
const NH_5: &str = "nvme + hdd, 5%";
const NH_10: &str = "nvme + hdd, 10%";
const NH_20: &str = "nvme + hdd, 20%";
const NH_30: &str = "nvme + hdd, 30%";
const NH_70: &str = "nvme + hdd, 70%";

const TIERS: DeviceArgs = DeviceArgs::two(DeviceArg::Nvme, DeviceArg::Hdd, Placement::Tiers);

const CONFIGURATIONS: [Configuration; 15] = [
    on(HDD, &TITLES, DeviceArgs::one(DeviceArg::Hdd)),
    on(SSD, &[READS_2, READS_8, MOVED, WRITES, B90, A, RMW, B10, E], DeviceArgs::one(DeviceArg::Ssd)),
    on(NVME, &TITLES, DeviceArgs::one(DeviceArg::Nvme)),
    leveled(HDD_LEVELED, DeviceArg::Hdd),
    leveled(NVME_LEVELED, DeviceArg::Nvme),
    on(
        CACHE,
        &[READS_2, READS_8, MOVED, WRITES, B90, A, RMW, B10, E],
        DeviceArgs::two(DeviceArg::Nvme, DeviceArg::Hdd, Placement::Cache),
    ),
    on(NH_5, &[SHARES], TIERS.with_fast_share(5)),
    on(NH_10, &[SHARES], TIERS.with_fast_share(10)),
    on(NH_20, &[SHARES], TIERS.with_fast_share(20)),
    on(NH_30, &[SHARES], TIERS.with_fast_share(30)),
    on(NH, &TITLES, TIERS),
    on(NH_70, &[SHARES], TIERS.with_fast_share(70)),
    on(NS, &PAIRS, DeviceArgs::two(DeviceArg::Nvme, DeviceArg::Ssd, Placement::Tiers)),
    on(SH, &PAIRS, DeviceArgs::two(DeviceArg::Ssd, DeviceArg::Hdd, Placement::Tiers)),
    Configuration {
        options: |options| options.tuning(|tuning| tuning.max_runs_per_guard(1).overlap_samples(false)),
        ..on(
            UO,
            &[READS_2, READS_4, READS_6, READS_8, WRITES],
            DeviceArgs::two(DeviceArg::Nvme, DeviceArg::Hdd, Placement::Random),
        )
    },
];

/// The experiments with all pairs of devices.
const PAIRS: [&str; 8] = [READS_2, READS_8, WRITES, B90, A, RMW, B10, E];

/// The engine with its defaults on these devices.
const fn on(name: Text, experiments: &'static [Text], devices: DeviceArgs) -> Configuration {
    let options: fn(Options) -> Options = |options| options;
    Configuration { name, experiments, options, devices: Some(devices) }
}

/// A leveled tree with all values in it, as LevelDB's, on one device. It runs updates alone.
const fn leveled(name: Text, device: DeviceArg) -> Configuration {
    let options: fn(Options) -> Options = |options| {
        options.tuning(|tuning| tuning.max_runs_per_guard(1).log_table_percent(0).separation_threshold(None))
    };
    Configuration { options, ..on(name, &[WRITES], DeviceArgs::one(device)) }
}

const READS_2: &str = "Gets, memory of 2% of the data";
const READS_4: &str = "Gets, memory of 4% of the data";
const READS_6: &str = "Gets, memory of 6% of the data";
const READS_8: &str = "Gets, memory of 8% of the data";
const SHARES: &str = "Gets, shares of the fast device";
const MOVED: &str = "Gets after the hot keys moved";
const WRITES: &str = "Writes";
const B90: &str = "B-90: 90% gets, 10% writes";
const A: &str = "A: 50% gets, 50% writes";
const RMW: &str = "A-RMW: 50% gets, 50% read-modify-writes";
const B10: &str = "B-10: 10% gets, 90% writes";
const E: &str = "E: 95% scans, 5% inserts";

const EXPERIMENTS: [Experiment; 12] = [
    gets(READS_2, "VI-A; Figures 6, 7", memory(2)),
    gets(READS_4, "VI-A; Figures 6, 7", memory(4)),
    gets(READS_6, "VI-A; Figures 6, 7", memory(6)),
    gets(READS_8, "VI-A; Figures 6, 7, Table IV", memory(8)),
    gets(SHARES, "VI-A1; Figure 8", memory(8)),
    Experiment {
        workload: "readmoved",
        seconds: Some(|rows| scaled(rows, MOVED_SECONDS)),
        figures: &[FIRST, LAST, GETS, SLOW],
        ..gets(MOVED, "VI-A2; Figure 9", memory(8))
    },
    Experiment {
        figures: &[SETTLED, LATENCY, MERGES],
        ..load(WRITES, "VI-B; Figures 10, 11", "logstore-write", memory(8))
    },
    load(B90, "VI-C1; Figures 12 to 14, Table V", "logstore-b90", memory(8)),
    load(A, "VI-C2; Figures 12 to 14, Table V", "ycsb-a", memory(8)),
    load(RMW, "VI-C2; Figures 12, 13", "logstore-rmw", memory(8)),
    load(B10, "VI-C3; Figures 12 to 14, Table V", "logstore-b10", memory(8)),
    Experiment {
        figures: &[SETTLED, LATENCY],
        ..load(E, "VI-C3; Figures 12, 13", "ycsb-e", Scale { operations_percent: 5, ..memory(8) })
    },
];

const TITLES: [&str; EXPERIMENTS.len()] = titles(&EXPERIMENTS);

/// How long `readmoved` runs after the hot keys moved, in seconds of modelled time for a million rows.
const MOVED_SECONDS: u64 = 3_000;

const fn memory(percent: u64) -> Scale {
    Scale { memory_percent: Some(percent), ..Scale::WHOLE }
}

/// Gets after as many gets at rest.
const fn gets(title: Text, place: Text, scale: Scale) -> Experiment {
    Experiment {
        warming: Some("readrandom"),
        ..experiment(
            title,
            place,
            ("readrandom", Distribution::Zipfian),
            scale,
            &[GETS, LATENCY, MEMORY, FAST, SLOW],
        )
    }
}

const fn load(title: Text, place: Text, workload: Text, scale: Scale) -> Experiment {
    let figures = &[SETTLED, LATENCY, MEMORY, FAST, SLOW, MERGES];
    experiment(title, place, (workload, Distribution::Zipfian), scale, figures)
}

const GETS: Figure = Figure::Operations;
const SETTLED: Figure = Figure::SettledOperations;
const FIRST: Figure = Figure::First;
const LAST: Figure = Figure::Last;
const LATENCY: Figure = Figure::MeanLatency;
const MERGES: Figure = Figure::Merges;
const MEMORY: Figure = Figure::Served(By::Memory);
const FAST: Figure = Figure::Served(By::Fast);
const SLOW: Figure = Figure::Served(By::Slow);

const MORE_MEMORY: [&str; 3] = [READS_4, READS_6, READS_8];
const MIXED: [&str; 4] = [B90, A, RMW, B10];

/// The figures in the paper's text and tables. Figures of Tables IV and V are operations a second, first measured, then predicted.
const STATEMENTS: [Statement; 51] = [
    statement(&[READS_2], GETS, NH, "LDB-HDD 4 to 6, LS-UO up to 6"),
    statement(&[READS_2], GETS, UO, "LDB-HDD under 2"),
    statement(&[READS_2], GETS, NVME, "the most of all"),
    statement(&[READS_2], FAST, NH, "92% in memory or on NVMe"),
    statement(&[READS_2], SLOW, NH, "8%"),
    statement(&[READS_2], FAST, UO, "7%"),
    statement(&MORE_MEMORY, GETS, HDD, "rises faster than LS-NH"),
    statement(&MORE_MEMORY, GETS, NH, "rises little"),
    statement(&[READS_8], GETS, HDD, "196, predicted 200"),
    statement(&[READS_8], GETS, NH, "773, predicted 822"),
    statement(&[READS_8], GETS, SSD, "4,785, predicted 5,000"),
    statement(&[READS_8], GETS, NVME, "18,029, predicted 20,000"),
    statement(&[READS_8], MEMORY, NH, "70% (VI-A3)"),
    statement(&[READS_8], FAST, NH, "22.7% (VI-A3)"),
    statement(&[SHARES], GETS, NH, "each share adds less than the one before"),
    statement(&[MOVED], GETS, HDD, "208, stable"),
    statement(&[MOVED], GETS, SSD, "stable after a brief warm-up"),
    statement(&[MOVED], GETS, NVME, "stable after a brief warm-up"),
    statement(&[MOVED], FIRST, NH, "under LDB-HDD"),
    statement(&[MOVED], LAST, NH, "LDB-HDD over 6, stable"),
    statement(&[WRITES], SETTLED, NH, "LDB 3 to 3.8; predicted 6,658"),
    statement(&[WRITES], SETTLED, HDD, "predicted 1,110"),
    statement(&[WRITES], SETTLED, SSD, "predicted 1,776"),
    statement(&[WRITES], SETTLED, NVME, "about as LDB-SSD; predicted 3,552"),
    statement(&[WRITES], SETTLED, UO, "LS-NH 1/50"),
    statement(&[WRITES], MERGES, NH, "few beside LS-UO"),
    statement(&MIXED, SETTLED, NS, "LS-NH up to 5"),
    statement(&MIXED, SETTLED, NH, "LDB-HDD 1.5 to 5.7 (VII)"),
    statement(&[B90], SETTLED, NH, "LDB-HDD over 3.5; 656, predicted 745"),
    statement(&[B90], SETTLED, HDD, "181, predicted 180"),
    statement(&[B90], SETTLED, SSD, "25% less than gets; 2,507, predicted 2,962"),
    statement(&[B90], SETTLED, NVME, "13,641, predicted 15,586"),
    statement(&[B90, B10], MEMORY, NH, "12%"),
    statement(&[B90, A, B10], FAST, NH, "80%"),
    statement(&[B90], SLOW, NH, "8%"),
    statement(&[B90], MERGES, NH, "LDB-HDD 6%"),
    statement(&[A], SETTLED, HDD, "342.9, predicted 312"),
    statement(&[A], SETTLED, SSD, "5,575, predicted 6,148"),
    statement(&[A], SETTLED, NVME, "15,764, predicted 14,940"),
    statement(&[A], SETTLED, NH, "967, predicted 1,215"),
    statement(&[A], MERGES, CACHE, "5,823"),
    statement(&[A], MERGES, HDD, "7,042"),
    statement(&[A], MERGES, NH, "1,202"),
    statement(&[B10], SETTLED, HDD, "1,809, predicted 1,441"),
    statement(&[B10], SETTLED, SSD, "13,591, predicted 10,441"),
    statement(&[B10], SETTLED, NVME, "11,412, predicted 16,459"),
    statement(&[B10], SETTLED, NH, "3,095, predicted 3,753"),
    statement(&[B10], SETTLED, CACHE, "hardly any benefit"),
    statement(&[E], SETTLED, NH, "LDB-HDD nearly 6"),
    statement(&[E], SETTLED, NS, "LS-NH 3.6"),
    statement(&[E], SETTLED, SH, "LS-NH: 20% less"),
];
