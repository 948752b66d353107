//! `paper NAME`: runs the experiments of a paper at a size that takes minutes, and shows the paper's figures next to ours.
//!
//! A paper has *experiments*, each with a workload. It has *configurations* of the engine, of which one or two are baselines. It has
//! *statements*, the figures in its text. Every round measures every configuration, so that changes of the machine affect all of them. The
//! median of the rounds counts.

mod accordion;
mod figure;
mod kt_store;
mod logstore;
mod pebblesdb;
mod rounds;
mod table;
mod triad;

use super::bench::engine::EngineArgs;
use super::bench::placement::DeviceArgs;
use super::bench::{Settings, page};
use super::print_text;
use crate::failure::{Failure, Outcome};
use crate::figures::{bytes_text, counted, grouped};
use crate::text;
use braidb::Options;
use braidb_bench::settings::{Course, Ranks};
use braidb_bench::{Distribution, Workload};
use clap::ValueEnum;
use figure::{Cause, Figure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use table::{change_text, factor_text};

/// Repeat a paper's experiments in minutes, and show its figures next to ours
///
/// Rows have a key and a value that fills them up. Experiments with reads first write every row once, which is not measured. Settings
/// without an option are as in the paper, at a scale that takes minutes. A modelled device has one thread, which is enough for kt-store.
/// logstore always runs on modelled devices, which its configurations name.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// Which paper
    #[arg(value_enum)]
    paper: Name,
    /// A directory as for other benchmarks [default: a temporary one, which is removed]
    dir: Option<PathBuf>,
    /// Rows [default: accordion 1,000,000; triad 500,000; kt-store 200,000; pebblesdb and logstore 100,000]
    #[arg(long, visible_alias = "num", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    rows: Option<u64>,
    /// Bytes of a row, its key included [default: accordion 100 with 16 of the key; triad 263 with 8; kt-store 4,112 with 16;
    /// pebblesdb and logstore 1,040 with 16]
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    row_bytes: Option<u64>,
    /// Writes of an experiment that only writes, operations of one that mixes [default: for each row 5 of accordion, 2 of triad,
    /// 1 of pebblesdb and logstore, a quarter of kt-store]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    writes: Option<u64>,
    /// Gets of an experiment with gets; one with scans has a tenth as many, of kt-store a fiftieth, of pebblesdb a hundredth if scans are
    /// long [default: 1,000,000; kt-store 1,000; pebblesdb 200,000; logstore 6 for each 10 rows]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..))]
    reads: Option<u64>,
    /// Memory for writes, in MiB; with threads or low memory pebblesdb has four times as much [default: accordion 64; triad 4,
    /// kt-store 320, pebblesdb 10 for each million rows, logstore 8 and at least 2]
    #[arg(long)]
    memtable_mib: Option<usize>,
    /// Only the experiments whose title contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Rounds, of which the median counts [default: 3; logstore 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: Option<u64>,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Write a report too, as Markdown, and for each experiment over time a chart as SVG next to it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Memory as a pipeline of segments (PVLDB 11(12), 2018)
    Accordion,
    /// Hot keys in memory, log tables, overlap in L0 (USENIX ATC 2017)
    Triad,
    /// Large values apart from their keys, in tables that a trie finds (KT-Store)
    KtStore,
    /// A tree cut by guards into cells of several runs (SOSP 2017)
    #[value(name = "pebblesdb")]
    PebblesDb,
    /// Hot data on a fast device, cold data on a slow one
    #[value(name = "logstore")]
    LogStore,
}

/// A title, a place in the paper, a name, or a sentence of a table.
type Text = &'static str;

/// The experiments, configurations and statements of one paper.
struct Paper {
    title: Text,
    sizes: Sizes,
    experiments: &'static [Experiment],
    configurations: &'static [Configuration],
    /// Names of the configurations with which the others are compared, in the experiments in which they take part.
    baselines: &'static [Text],
    /// The text of a figure divided by a baseline's.
    comparison: fn(f64) -> String,
    statements: &'static [Statement],
}

/// The sizes of a paper's experiments, unless the command line gives others.
struct Sizes {
    rows: u64,
    key_bytes: usize,
    row_bytes: u64,
    /// Writes, by the number of rows; operations, where reads and writes are mixed.
    writes: fn(u64) -> u64,
    /// Gets of an experiment with gets, by the number of rows.
    reads: fn(u64) -> u64,
    /// Memory for writes in bytes, by the number of rows.
    memtable_bytes: fn(u64) -> usize,
    further: Further,
}

/// What few papers set.
struct Further {
    /// The bytes that the logs may take, by the number of rows of the paper, as memory for writes. `None`: as in other benchmarks.
    log_bytes: Option<fn(u64) -> u64>,
    /// The levels of a trie of values, by the number of rows. `None`: the engine's layout of values.
    trie_levels: Option<fn(u64) -> usize>,
    /// Bytes at which merges end a table, by the number of rows. `None`: the engine's.
    table_bytes: Option<fn(u64) -> u64>,
    /// The exponent of Zipf's law. `None`: as each workload says.
    zipf_exponent: Option<f64>,
    /// Which keys the ranks of Zipf's law are.
    ranks: Ranks,
    /// Rounds, unless the command line gives others.
    rounds: u64,
    /// What a cost model predicts. `None`: nothing is predicted.
    predict: Option<Predict>,
}

/// Predicts a configuration in an experiment. Returns `None` where the model says nothing.
type Predict = fn(&Experiment, &Configuration, &Settings) -> Outcome<Option<Predicted>>;

/// Predictions of the first figure of an experiment, which is operations a second.
#[derive(Clone, Copy)]
struct Predicted {
    /// By the equations of the paper.
    by_paper: f64,
    /// By the equations as `braidb-lab model` refines them.
    refined: f64,
}

impl Further {
    /// As in other benchmarks, and the median of three rounds.
    const NOTHING: Further = Further {
        log_bytes: None,
        trie_levels: None,
        table_bytes: None,
        zipf_exponent: None,
        ranks: Ranks::Hashed,
        rounds: 3,
        predict: None,
    };
}

/// The data and operations of one experiment, relative to the paper's sizes.
struct Scale {
    /// Bytes of a value; there are fewer rows of larger values. `None`: as the sizes of the paper say.
    value_bytes: Option<u64>,
    /// The part of the rows, in percent.
    rows_percent: u64,
    /// The part of the writes, operations or gets, in percent. A scan takes longer than these, so there are fewer.
    operations_percent: u64,
    /// Entries of a scan.
    entries: u64,
    /// Random rows that are overwritten after the fill and before the measurement, in percent of the rows.
    aging_percent: u64,
    /// Multiplies the memory for writes.
    memory_times: usize,
    /// Memory for blocks, in percent of the rows' bytes. `None`: as in other benchmarks.
    cache_percent: Option<u64>,
    /// Memory for blocks and the page cache of a modelled machine together, in percent of the rows' bytes: half for each, to the nearest
    /// MiB. `None`: as `cache_percent` and the command line say.
    memory_percent: Option<u64>,
}

impl Scale {
    /// The paper's sizes, and scans as long as in other benchmarks.
    const WHOLE: Scale = Scale {
        value_bytes: None,
        rows_percent: 100,
        operations_percent: 100,
        entries: 50,
        aging_percent: 0,
        memory_times: 1,
        cache_percent: None,
        memory_percent: None,
    };

    fn operations(&self, of_paper: u64) -> Option<u64> {
        Some((of_paper.saturating_mul(self.operations_percent) / 100).max(1))
    }

    /// Memory for blocks in MiB. It is at least 1, so that a measurement of few rows has a cache too.
    fn blocks_mib(&self, rows_bytes: u64) -> usize {
        let of_cache = |percent| (rows_bytes as f64 * percent as f64 / 100.0) as usize >> 20;
        match (self.pages_mib(rows_bytes), self.cache_percent) {
            (Some(mib), _) => mib as usize,
            (None, Some(percent)) => of_cache(percent).max(1),
            (None, None) => 64,
        }
    }

    /// The page cache of a modelled machine in MiB, at least 1, if the experiment gives it.
    fn pages_mib(&self, rows_bytes: u64) -> Option<u64> {
        let half = |percent| rows_bytes as f64 * percent as f64 / 200.0 / f64::from(1 << 20);
        self.memory_percent.map(|percent| (half(percent).round() as u64).max(1))
    }
}

/// One workload, measured with several configurations.
struct Experiment {
    title: Text,
    /// The place of the experiment in the paper.
    place: Text,
    /// The name of the workload.
    workload: Text,
    distribution: Distribution,
    /// The percentage of reads in a workload that mixes reads and writes.
    read_percent: u64,
    threads: u64,
    /// The workload that runs after the fill, unmeasured. `None`: the measurement follows the fill.
    warming: Option<Text>,
    /// Seconds after which the workload ends, by the number of rows. `None`: it ends with its operations.
    seconds: Option<fn(u64) -> u64>,
    scale: Scale,
    figures: &'static [Figure],
}

/// An experiment of one thread. Half of the operations read, if the workload mixes reads and writes.
const fn experiment(
    title: Text,
    place: Text,
    (workload, distribution): (Text, Distribution),
    scale: Scale,
    figures: &'static [Figure],
) -> Experiment {
    let (read_percent, threads, warming, seconds) = (50, 1, None, None);
    Experiment {
        title,
        place,
        workload,
        distribution,
        read_percent,
        threads,
        warming,
        seconds,
        scale,
        figures,
    }
}

/// A named set of options of the engine.
struct Configuration {
    name: Text,
    /// Titles of the experiments that measure this configuration.
    experiments: &'static [Text],
    /// Changes the options that all configurations share.
    options: fn(Options) -> Options,
    /// The modelled devices of this configuration. `None`: the devices of the command line.
    devices: Option<DeviceArgs>,
}

/// A configuration without devices of its own. It runs on those of the command line.
const fn configuration(
    name: Text,
    experiments: &'static [Text],
    options: fn(Options) -> Options,
) -> Configuration {
    Configuration { name, experiments, options, devices: None }
}

/// A figure that the paper's text gives for a configuration, compared with a baseline.
struct Statement {
    /// Titles of the experiments that the statement is about.
    experiments: &'static [Text],
    figure: Figure,
    configuration: Text,
    text: Text,
}

const fn statement(
    experiments: &'static [Text],
    figure: Figure,
    configuration: Text,
    text: Text,
) -> Statement {
    Statement { experiments, figure, configuration, text }
}

/// The figures of each round, by the title of the experiment and the name of the configuration.
type Rounds = BTreeMap<(Text, Text), Vec<Vec<f64>>>;

pub fn run(args: &Args) -> Outcome {
    let paper = match args.paper {
        Name::Accordion => &accordion::PAPER,
        Name::Triad => &triad::PAPER,
        Name::KtStore => &kt_store::PAPER,
        Name::PebblesDb => &pebblesdb::PAPER,
        Name::LogStore => &logstore::PAPER,
    };
    if let Some(report) = &args.report {
        page::require_parent(report)?;
    }
    if args.experiments(paper).next().is_none() {
        let titles: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.title).collect();
        let what = format!("--only: no title contains this text; the titles are: {}", titles.join("; "));
        return Err(Failure::Use(what));
    }
    let results = match (paper.names_devices(), args.device.device.is_some()) {
        (true, true) => {
            let what = "--device: each configuration of this paper names its devices; leave the option out";
            return Err(Failure::Use(what.to_owned()));
        }
        (true, false) => rounds::measure_on_devices(paper, args, |configuration| {
            configuration.devices.clone().expect("all configurations name their devices, or none")
        })?,
        (false, true) => rounds::measure_on_devices(paper, args, |_| args.device.clone())?,
        (false, false) => rounds::measure_here(paper, args)?,
    };
    let mut text = args.head(paper);
    for experiment in args.experiments(paper) {
        text.push_str(&table::of_experiment(paper, experiment, &results.rounds));
    }
    text.push_str(&table::predictions(paper, &results));
    print_text(&text)?;
    match &args.report {
        Some(path) => {
            let timed = args.experiments(paper).filter(|experiment| experiment.seconds.is_some());
            let timed: Vec<&str> = timed.map(|experiment| experiment.title).collect();
            page::write(path, paper.title, results.runs, text, &timed)
        }
        None => Ok(()),
    }
}

impl Paper {
    /// Whether a configuration of this name takes part in the experiment of this title.
    fn has(&self, configuration: &str, title: &str) -> bool {
        let named = self.configurations.iter().find(|named| named.name == configuration);
        named.is_some_and(|named| named.experiments.contains(&title))
    }

    /// Whether each configuration names its devices, so that all is measured in modelled time.
    fn names_devices(&self) -> bool {
        self.configurations.iter().all(|configuration| configuration.devices.is_some())
    }
}

fn named(workload: &str) -> &'static Workload {
    Workload::named(workload).unwrap_or_else(|| panic!("there is no workload {workload}"))
}

impl Experiment {
    fn workload(&self) -> &'static Workload {
        named(self.workload)
    }
}

impl Args {
    /// The experiments to measure.
    fn experiments<'a>(&'a self, paper: &'a Paper) -> impl Iterator<Item = &'a Experiment> {
        let is_asked_for = |title: &str| self.only.as_ref().is_none_or(|text| title.contains(text.as_str()));
        paper.experiments.iter().filter(move |experiment| is_asked_for(experiment.title))
    }

    fn rows(&self, paper: &Paper) -> u64 {
        self.rows.unwrap_or(paper.sizes.rows)
    }

    fn writes(&self, paper: &Paper) -> u64 {
        self.writes.unwrap_or_else(|| (paper.sizes.writes)(self.rows(paper)).max(1))
    }

    fn rounds(&self, paper: &Paper) -> u64 {
        self.rounds.unwrap_or(paper.sizes.further.rounds)
    }

    fn row_bytes(&self, paper: &Paper) -> u64 {
        self.row_bytes.unwrap_or(paper.sizes.row_bytes)
    }

    fn memtable_bytes(&self, paper: &Paper) -> usize {
        match self.memtable_mib {
            Some(mib) => mib.saturating_mul(1 << 20),
            None => (paper.sizes.memtable_bytes)(self.rows(paper)),
        }
    }

    /// The bytes of a value and the number of rows.
    fn data(&self, paper: &Paper, scale: &Scale) -> (u64, u64) {
        let (key_bytes, row_bytes) = (paper.sizes.key_bytes as u64, self.row_bytes(paper));
        let value_bytes = scale.value_bytes.unwrap_or(row_bytes - key_bytes);
        let rows_of_whole = match scale.value_bytes {
            Some(_) => (self.rows(paper) as f64 * row_bytes as f64 / (key_bytes + value_bytes) as f64) as u64,
            None => self.rows(paper),
        };
        (value_bytes, (rows_of_whole.saturating_mul(scale.rows_percent) / 100).max(1))
    }

    /// The lines above the tables.
    fn head(&self, paper: &Paper) -> String {
        let is_mixed = self.experiments(paper).any(|experiment| experiment.workload().is_mixed());
        let device = match self.device.title() {
            Some(device) => format!(" on modelled {device}"),
            None if paper.names_devices() => " on modelled devices".to_owned(),
            None => String::new(),
        };
        format!(
            "{}\n{} rows of {} bytes, {} {}, {} of memory{device}; median of {}\n",
            paper.title,
            grouped(self.rows(paper)),
            self.row_bytes(paper),
            grouped(self.writes(paper)),
            if is_mixed { "operations" } else { "writes" },
            bytes_text(self.memtable_bytes(paper) as u64),
            counted(self.rounds(paper), "round", "rounds"),
        )
    }

    fn settings(&self, paper: &Paper, experiment: &Experiment, round: u64) -> Settings {
        let (sizes, scale) = (&paper.sizes, &experiment.scale);
        let (value_bytes, rows) = self.data(paper, scale);
        let rows_bytes = rows * (sizes.key_bytes as u64 + value_bytes);
        let further = &sizes.further;
        let load = braidb_bench::Settings {
            num: rows,
            writes: scale.operations(self.writes(paper)),
            operations: scale.operations(self.writes(paper)),
            seconds: 1,
            timed_seconds: experiment.seconds.map(|seconds| seconds(rows).max(1)),
            draws_on: false,
            first_operation: 0,
            unchecked: false,
            scan: Course::Forward,
            read_percent: experiment.read_percent,
            entries: scale.entries,
            reads: scale.operations(self.reads.unwrap_or_else(|| (sizes.reads)(self.rows(paper)).max(10))),
            seeks: None,
            distribution: Some(experiment.distribution),
            zipf_exponent: further.zipf_exponent,
            ranks: further.ranks,
            key_bytes: sizes.key_bytes,
            value_bytes: value_bytes as usize,
            families: 1,
            threads: experiment.threads,
            write_rate: None,
            window: None,
            seed: self.seed.wrapping_add(round),
        };
        let engine = EngineArgs {
            memtable_bytes: Some(self.memtable_bytes(paper).saturating_mul(scale.memory_times)),
            cache_mib: scale.blocks_mib(rows_bytes),
            background_threads: 2,
            log_bytes: further.log_bytes.map(|log_bytes| log_bytes(self.rows(paper))),
            table_bytes: further.table_bytes.map(|table_bytes| table_bytes(rows)),
            value_trie: further.trie_levels.map(|trie_levels| trie_levels(rows)),
            ..EngineArgs::default()
        };
        Settings { load, engine }
    }
}

/// A size that is `of_a_million` for a million rows, in proportion to `rows`.
fn scaled(rows: u64, of_a_million: u64) -> u64 {
    (rows as f64 / 1e6 * of_a_million as f64) as u64
}

/// The titles of experiments, for the configurations that take part in all of them.
const fn titles<const COUNT: usize>(experiments: &[Experiment; COUNT]) -> [Text; COUNT] {
    let mut titles = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        titles[at] = experiments[at].title;
        at += 1;
    }
    titles
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn memory_for_blocks_is_a_share_of_the_data() {
        let of_cache = |(of, percent)| Scale { cache_percent: Some(percent), ..Scale::WHOLE }.blocks_mib(of);
        assert_eq!([(104_000_000, 30), (104_000_000, 6), (1_040, 30)].map(of_cache), [29, 5, 1]);
        let of_memory = |(of, percent)| {
            let scale = Scale { memory_percent: Some(percent), ..Scale::WHOLE };
            (scale.blocks_mib(of), scale.pages_mib(of))
        };
        assert_eq!(
            [(104_000_000, 2), (104_000_000, 8), (1_040, 8)].map(of_memory),
            [(1, Some(1)), (4, Some(4)), (1, Some(1))]
        );
        assert_eq!((Scale::WHOLE.blocks_mib(1_040), Scale::WHOLE.pages_mib(1_040)), (64, None));
    }

    #[test]
    fn papers_name_what_they_have() {
        for paper in [&accordion::PAPER, &triad::PAPER, &kt_store::PAPER, &pebblesdb::PAPER, &logstore::PAPER]
        {
            let titles: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.title).collect();
            assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len(), "{}", paper.title);
            let named = paper.configurations.iter().filter(|one| one.devices.is_some()).count();
            assert!([0, paper.configurations.len()].contains(&named), "all name their devices, or none");
            for title in &titles {
                assert!(paper.has(paper.baselines[0], title), "the first baseline takes part in all");
            }
            for baseline in paper.baselines {
                assert!(titles.iter().any(|title| paper.has(baseline, title)), "{baseline}");
            }
            let known = |experiment: &Experiment| {
                Workload::named(experiment.workload).is_some()
                    && experiment.warming.is_none_or(|warming| Workload::named(warming).is_some())
            };
            assert!(paper.experiments.iter().all(known), "{}", paper.title);
            for configuration in paper.configurations {
                assert!(
                    configuration.experiments.iter().all(|title| titles.contains(title)),
                    "{}",
                    configuration.name
                );
            }
            for Statement { experiments, figure, configuration, text } in paper.statements {
                assert!(!experiments.is_empty(), "{text}");
                for title in *experiments {
                    let found = paper.experiments.iter().find(|known| known.title == *title);
                    assert!(found.is_some_and(|found| found.figures.contains(figure)), "{title}: {text}");
                    assert!(paper.has(configuration, title), "{title}: no {configuration}: {text}");
                }
            }
        }
    }
}
