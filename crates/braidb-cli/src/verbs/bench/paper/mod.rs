//! `bench paper NAME`: the experiments of a paper at a size that takes minutes, its figures beside ours.
//!
//! A paper has *experiments*, each with a workload. It has *configurations* of the engine, of which one or two are baselines. It has
//! *statements*, the figures in its text. Every configuration takes its turn in every round, so that changes of the machine affect all of
//! them. The median of the rounds counts.

mod accordion;
mod figure;
mod kt_store;
mod pebblesdb;
mod triad;

use super::device::Modelled;
use super::engine::{DurabilityArg, Engine, EngineArgs};
use super::measure::{Measured, measure};
use super::placement::{DeviceArg, DeviceArgs};
use super::{Settings, start_empty};
use crate::failure::{Failure, Outcome, printing, storage};
use crate::figures::{bytes_text, counted, grouped};
use crate::host::files;
use crate::store::{BENCH_DB, BENCH_MARK, open_with, require_free};
use crate::text;
use braidb::Options;
use braidb_bench::settings::Ranks;
use braidb_bench::{Distribution, Workload};
use clap::ValueEnum;
use figure::{Cause, Figure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Repeat a paper's experiments in minutes, with its figures beside ours
///
/// Rows have a key and a value that fills them up. Experiments with reads first write every row once, which is not measured. Settings
/// without an option are as in the paper, at a scale that takes minutes. A modelled device has one thread, which is enough for kt-store
/// alone.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// Which paper
    #[arg(value_enum)]
    paper: Name,
    /// A directory as for other benchmarks [default: a temporary one, which is removed]
    dir: Option<PathBuf>,
    /// Rows [default: accordion 1,000,000; triad 500,000; kt-store 200,000; pebblesdb 100,000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    rows: Option<u64>,
    /// Bytes of a row, its key included [default: accordion 100 with 16 of the key; triad 263 with 8; kt-store 4,112 with 16;
    /// pebblesdb 1,040 with 16]
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    row_bytes: Option<u64>,
    /// Writes of an experiment that only writes, operations of one that mixes [default: for each row 5 of accordion, 2 of triad,
    /// 1 of pebblesdb, a quarter of kt-store]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    writes: Option<u64>,
    /// Gets of an experiment with gets; one with scans has a tenth as many, of kt-store a fiftieth, of pebblesdb a hundredth if scans are
    /// long [default: 1,000,000; kt-store 1,000; pebblesdb 200,000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..))]
    reads: Option<u64>,
    /// Memory for writes, in MiB; with threads or low memory pebblesdb has four times as much [default: accordion 64; triad 4,
    /// kt-store 320, pebblesdb 10 for each million rows]
    #[arg(long)]
    memtable_mib: Option<usize>,
    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: u64,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
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
}

/// The experiments, configurations and statements of one paper.
struct Paper {
    title: &'static str,
    sizes: Sizes,
    experiments: &'static [Experiment],
    configurations: &'static [Configuration],
    /// Names of the configurations that others stand beside. They take part in every experiment.
    baselines: &'static [&'static str],
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
    /// Gets of an experiment with gets.
    reads: u64,
    /// Memory for writes in bytes, by the number of rows.
    memtable_bytes: fn(u64) -> usize,
    /// The bytes that the logs may take, by the number of rows. `None`: as in other benchmarks.
    log_bytes: Option<fn(u64) -> u64>,
    /// The levels of a trie of values, by the number of rows. `None`: the engine's layout of values.
    trie_levels: Option<fn(u64) -> usize>,
}

/// The data and operations of one experiment, beside the paper's sizes.
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
    };

    fn operations(&self, of_paper: u64) -> Option<u64> {
        Some((of_paper.saturating_mul(self.operations_percent) / 100).max(1))
    }
}

/// One workload, measured with several configurations.
struct Experiment {
    title: &'static str,
    /// The place of the experiment in the paper.
    place: &'static str,
    /// The name of the workload.
    workload: &'static str,
    distribution: Distribution,
    /// The percentage of reads in a workload that mixes reads and writes.
    read_percent: u64,
    threads: u64,
    scale: Scale,
    figures: &'static [Figure],
}

/// An experiment of one thread. Half of the operations read, if the workload mixes reads and writes.
const fn experiment(
    title: &'static str,
    place: &'static str,
    (workload, distribution): (&'static str, Distribution),
    scale: Scale,
    figures: &'static [Figure],
) -> Experiment {
    Experiment { title, place, workload, distribution, read_percent: 50, threads: 1, scale, figures }
}

/// A name with its options of the engine.
struct Configuration {
    name: &'static str,
    /// Titles of the experiments that measure this configuration.
    experiments: &'static [&'static str],
    /// Changes the options that all configurations share.
    options: fn(Options) -> Options,
}

/// A figure that the paper's text gives for a configuration, compared with a baseline.
struct Statement {
    /// Titles of the experiments that the statement is about.
    experiments: &'static [&'static str],
    figure: Figure,
    configuration: &'static str,
    text: &'static str,
}

/// The figures of each round, by the title of the experiment and the name of the configuration.
type Rounds = BTreeMap<(&'static str, &'static str), Vec<Vec<f64>>>;

pub fn run(args: &Args) -> Outcome {
    let paper = match args.paper {
        Name::Accordion => &accordion::PAPER,
        Name::Triad => &triad::PAPER,
        Name::KtStore => &kt_store::PAPER,
        Name::PebblesDb => &pebblesdb::PAPER,
    };
    let rounds = match args.device.device {
        Some(device) => run_on_device(paper, args, device)?,
        None => run_here(paper, args)?,
    };
    let mut out = std::io::stdout();
    out.write_all((args.head(paper) + &tables(paper, &rounds)).as_bytes())
        .and_then(|()| out.flush())
        .map_err(printing)
}

fn run_here(paper: &Paper, args: &Args) -> Outcome<Rounds> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("braidb-paper-{}", std::process::id())),
    };
    if !dir.join(BENCH_MARK).exists() {
        require_free(&dir)?;
    }
    let rounds = run_all(paper, args, |experiment, options, settings| {
        start_empty(&dir, &options)?;
        let db_dir = dir.join(BENCH_DB);
        let engine = Engine::new(open_with(&db_dir, options)?, settings.load.families)?;
        let measured = run_one(experiment, settings, |workload, settings| {
            measure(&engine, &db_dir, workload, settings)
        })?;
        engine.db.close()?;
        Ok(measured)
    })?;
    if args.dir.is_none() {
        files::remove_dir(&dir)
            .map_err(|error| storage(&format!("could not remove {}", dir.display()), error))?;
    }
    Ok(rounds)
}

/// Each configuration has a device of its own.
fn run_on_device(paper: &Paper, args: &Args, device: DeviceArg) -> Outcome<Rounds> {
    let needs_threads =
        |experiment: &Experiment| experiment.threads > 1 || experiment.workload().is_beside_writer;
    if let Some(experiment) = paper.experiments.iter().find(|experiment| needs_threads(experiment)) {
        let title = experiment.title;
        return Err(Failure::Use(format!(
            "--device: a modelled device has one thread, and {title} has more"
        )));
    }
    run_all(paper, args, |experiment, options, settings| {
        let modelled = Modelled::begin(&args.device, device, Path::new("paper"), options, settings)?;
        run_one(experiment, settings, |workload, settings| modelled.measure(workload, settings))
    })
}

/// Measures all with `measured`, which gets the experiment, the options of the database, and the settings.
fn run_all(
    paper: &Paper,
    args: &Args,
    measured: impl Fn(&Experiment, Options, &Settings) -> Outcome<Measured>,
) -> Outcome<Rounds> {
    let mut rounds = Rounds::new();
    for round in 0..args.rounds {
        for experiment in paper.experiments {
            let settings = args.settings(paper, experiment, round);
            for configuration in paper.configurations {
                if !configuration.experiments.contains(&experiment.title) {
                    continue;
                }
                eprintln!("round {}: {}: {}", round + 1, experiment.title, configuration.name);
                let options = (configuration.options)(settings.engine.options());
                let measured = measured(experiment, options, &settings)?;
                let figures = experiment.figures.iter().map(|figure| figure.of(&measured)).collect();
                rounds.entry((experiment.title, configuration.name)).or_default().push(figures);
            }
        }
    }
    Ok(rounds)
}

/// Measures the workload of an experiment on an empty database, which is first filled and aged if the experiment needs it.
fn run_one(
    experiment: &Experiment,
    settings: &Settings,
    measure: impl Fn(&'static Workload, &Settings) -> Outcome<Measured>,
) -> Outcome<Measured> {
    if !experiment.workload().starts_empty() {
        measure(named("fillrandom"), settings)?;
    }
    if experiment.scale.aging_percent > 0 {
        measure(named(AGING), &aging(settings, experiment.scale.aging_percent))?;
    }
    measure(experiment.workload(), settings)
}

/// The workload that ages a database. It overwrites rows, and its draws differ from those of overwrite, which may be measured next.
const AGING: &str = "logstore-write";

/// The settings under which [`AGING`] overwrites this share of the rows.
fn aging(settings: &Settings, percent_of_rows: u64) -> Settings {
    let mut aging = settings.clone();
    aging.load.operations = Some((settings.load.num.saturating_mul(percent_of_rows) / 100).max(1));
    aging.load.distribution = Some(Distribution::Uniform);
    aging
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
    fn rows(&self, paper: &Paper) -> u64 {
        self.rows.unwrap_or(paper.sizes.rows)
    }

    fn writes(&self, paper: &Paper) -> u64 {
        self.writes.unwrap_or_else(|| (paper.sizes.writes)(self.rows(paper)).max(1))
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
        let is_mixed = paper.experiments.iter().any(|experiment| experiment.workload().is_mixed());
        let device = match self.device.title() {
            Some(device) => format!(" on modelled {device}"),
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
            counted(self.rounds, "round", "rounds"),
        )
    }

    fn settings(&self, paper: &Paper, experiment: &Experiment, round: u64) -> Settings {
        let (sizes, scale) = (&paper.sizes, &experiment.scale);
        let (value_bytes, rows) = self.data(paper, scale);
        let row_bytes = sizes.key_bytes as u64 + value_bytes;
        let load = braidb_bench::Settings {
            num: rows,
            writes: scale.operations(self.writes(paper)),
            operations: scale.operations(self.writes(paper)),
            seconds: 1,
            read_percent: experiment.read_percent,
            entries: scale.entries,
            reads: scale.operations(self.reads.unwrap_or(sizes.reads)),
            seeks: None,
            distribution: Some(experiment.distribution),
            zipf_exponent: None,
            ranks: Ranks::Hashed,
            key_bytes: sizes.key_bytes,
            value_bytes: value_bytes as usize,
            families: 1,
            threads: experiment.threads,
            write_rate: None,
            window: None,
            seed: self.seed.wrapping_add(round),
        };
        let engine = EngineArgs {
            durability: DurabilityArg::Buffer,
            memtable_mib: 0,
            memtable_bytes: Some(self.memtable_bytes(paper).saturating_mul(scale.memory_times)),
            cache_mib: scale.cache_percent.map_or(64, |percent| cache_mib(rows * row_bytes, percent)),
            background_threads: 2,
            runs: None,
            guards: None,
            overlap_samples: None,
            memory: None,
            redundancy_percent: 20,
            active_percent: None,
            segments: None,
            log_bytes: sizes.log_bytes.map(|log_bytes| log_bytes(rows)),
            hot_keys_percent: None,
            log_tables: None,
            separation_threshold: None,
            table_bytes: None,
            value_trie: sizes.trie_levels.map(|trie_levels| trie_levels(rows)),
        };
        Settings { load, engine }
    }
}

/// Memory for blocks in MiB, and at least 1: few rows are measured with a cache too.
fn cache_mib(data_bytes: u64, percent: u64) -> usize {
    ((data_bytes as f64 * percent as f64 / 100.0) as usize >> 20).max(1)
}

/// The titles of experiments, for the configurations that take part in all of them.
const fn titles<const COUNT: usize>(experiments: &[Experiment; COUNT]) -> [&'static str; COUNT] {
    let mut titles = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        titles[at] = experiments[at].title;
        at += 1;
    }
    titles
}

fn tables(paper: &Paper, rounds: &Rounds) -> String {
    let mut text = String::new();
    for experiment in paper.experiments {
        let beside: String =
            paper.baselines.iter().map(|name| format!(" {:>14}", format!("beside {name}"))).collect();
        let head = format!(
            "\n{} ({})\n{:36} {:>14}{beside}   paper\n",
            experiment.title, experiment.place, "", "here"
        );
        text.push_str(&head);
        for (at, &figure) in experiment.figures.iter().enumerate() {
            let medians: BTreeMap<&str, f64> = rounds
                .iter()
                .filter(|((title, _), _)| *title == experiment.title)
                .map(|((_, name), rounds)| (*name, median(rounds.iter().map(|figures| figures[at]))))
                .collect();
            text.push_str(&table(paper, experiment, figure, &medians));
        }
    }
    text
}

/// One figure of an experiment. It has a line for each configuration that was measured, or that the paper tells about.
fn table(paper: &Paper, experiment: &Experiment, figure: Figure, medians: &BTreeMap<&str, f64>) -> String {
    let is_here = |told: &&Statement| told.experiments.contains(&experiment.title) && told.figure == figure;
    let stated: Vec<&Statement> = paper.statements.iter().filter(is_here).collect();
    let measured = paper.configurations.iter().map(|configuration| configuration.name);
    let mut names: Vec<&str> = measured.filter(|name| medians.contains_key(name)).collect();
    for statement in &stated {
        if !names.contains(&statement.configuration) {
            names.push(statement.configuration);
        }
    }
    let mut text = format!("  {}\n", figure.name());
    for name in names {
        let here = medians.get(name).copied();
        let beside = |&baseline: &&str| match (here, medians.get(baseline)) {
            (Some(here), Some(of_baseline)) if name != baseline => (paper.comparison)(here / of_baseline),
            _ => none(),
        };
        let beside: String =
            paper.baselines.iter().map(|baseline| format!(" {:>14}", beside(baseline))).collect();
        let told: Vec<&str> =
            stated.iter().filter(|statement| statement.configuration == name).map(|told| told.text).collect();
        let line = writeln!(
            text,
            "    {name:32} {:>14}{beside}   {}",
            here.map_or_else(none, |here| figure.text(here)),
            if told.is_empty() { none() } else { told.join("; ") },
        );
        line.expect("a string takes everything");
    }
    text
}

/// The text where nothing was measured, or the paper's text has no figure.
fn none() -> String {
    "–".to_owned()
}

fn change_text(ratio: f64) -> String {
    if ratio.is_finite() { format!("{:+.1}%", (ratio - 1.0) * 100.0) } else { none() }
}

/// The text for ratios of very different figures.
fn factor_text(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() || ratio == 0.0 => none(),
        ratio if ratio < 0.1 => format!("1/{:.1}", 1.0 / ratio),
        ratio => format!("{ratio:.2}"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_table_has_what_was_measured_beside_what_is_told() {
        let experiments = &[Experiment {
            title: "writes",
            place: "Figure 1",
            workload: "updaterandom",
            distribution: Distribution::Uniform,
            read_percent: 0,
            threads: 1,
            scale: Scale::WHOLE,
            figures: &[Figure::SettledWrites, Figure::Latency(995)],
        }];
        let configuration =
            |name| Configuration { name, experiments: &["writes"], options: |options| options };
        let told =
            |figure, configuration, text| Statement { experiments: &["writes"], figure, configuration, text };
        let paper = Paper {
            title: "A paper",
            sizes: Sizes {
                rows: 1,
                key_bytes: 8,
                row_bytes: 9,
                writes: |rows| rows,
                reads: 1,
                memtable_bytes: |_| 1 << 20,
                log_bytes: None,
                trie_levels: None,
            },
            experiments,
            baselines: &["plain"],
            comparison: change_text,
            configurations: Box::leak(Box::new([configuration("plain"), configuration("braided")])),
            statements: Box::leak(Box::new([
                told(Figure::SettledWrites, "braided", "+47%"),
                told(Figure::SettledWrites, "knotted", "slower"),
            ])),
        };
        let rounds = Rounds::from([
            (("writes", "plain"), vec![vec![1000.0, 2000.0], vec![9.0, 9.0], vec![2000.0, 3000.0]]),
            (("writes", "braided"), vec![vec![1500.0, 1000.0]]),
        ]);
        let text = tables(&paper, &rounds);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            &[][..],
            &["writes", "(Figure", "1)"],
            &["here", "beside", "plain", "paper"],
            &["writes", "a", "second,", "settled"],
            &["plain", "1,000", "–", "–"],
            &["braided", "1,500", "+50.0%", "+47%"],
            &["knotted", "–", "–", "slower"],
            &["latency,", "p99.5"],
            &["plain", "2.0", "µs", "–", "–"],
            &["braided", "1.0", "µs", "-50.0%", "–"],
        ];
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn a_factor_far_below_one_is_a_fraction() {
        assert_eq!([4.314, 0.84, 1.0 / 54.0, f64::NAN].map(factor_text), ["4.31", "0.84", "1/54.0", "–"]);
    }

    #[test]
    fn memory_for_blocks_is_a_share_of_the_data() {
        assert_eq!(
            [(104_000_000, 30), (104_000_000, 6), (1_040, 30)].map(|(of, at)| cache_mib(of, at)),
            [29, 5, 1]
        );
    }

    #[test]
    fn papers_name_what_they_have() {
        for paper in [&accordion::PAPER, &triad::PAPER, &kt_store::PAPER, &pebblesdb::PAPER] {
            let titles: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.title).collect();
            assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len(), "{}", paper.title);
            for name in paper.baselines {
                let baseline = paper.configurations.iter().find(|configuration| configuration.name == *name);
                assert_eq!(baseline.unwrap().experiments, titles, "a baseline takes part in all");
            }
            let known = |experiment: &Experiment| Workload::named(experiment.workload).is_some();
            assert!(paper.experiments.iter().all(known), "{}", paper.title);
            for configuration in paper.configurations {
                assert!(
                    configuration.experiments.iter().all(|title| titles.contains(title)),
                    "{}",
                    configuration.name
                );
            }
            for Statement { experiments, figure, text, .. } in paper.statements {
                assert!(!experiments.is_empty(), "{text}");
                for title in *experiments {
                    let found = paper.experiments.iter().find(|known| known.title == *title);
                    assert!(found.is_some_and(|found| found.figures.contains(figure)), "{title}: {text}");
                }
            }
        }
    }
}
