//! `bench paper NAME`: the experiments of a paper at a size that takes minutes, its figures beside ours.
//!
//! A paper has *experiments*, each with a workload. It has *configurations* of the engine, of which the first is the baseline. It has
//! *statements*, the figures in its text. Every configuration takes its turn in every round, so that changes of the machine affect all of
//! them. The median of the rounds counts.

mod accordion;
mod triad;

use super::engine::{DurabilityArg, Engine, EngineArgs};
use super::measure::{Measured, measure};
use super::{Settings, start_empty};
use crate::failure::{Outcome, printing, storage};
use crate::figures::{bytes_text, counted, grouped, nanoseconds_text, ratio};
use crate::host::files;
use crate::store::{BENCH_DB, BENCH_MARK, open_with, require_free};
use crate::text;
use braidb::Options;
use braidb_bench::settings::Ranks;
use braidb_bench::{Distribution, Workload};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Repeat a paper's experiments in minutes, with its figures beside ours
///
/// Rows have a key and a value that fills them up. Experiments with reads first write every row once, which is not measured. Settings
/// without an option are as in the paper, at a scale that takes minutes.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// Which paper
    #[arg(value_enum)]
    paper: Name,
    /// A directory as for other benchmarks [default: a temporary one, which is removed]
    dir: Option<PathBuf>,
    /// Rows [default: accordion 1,000,000; triad 500,000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    rows: Option<u64>,
    /// Bytes of a row, its key included [default: accordion 100 with 16 of the key; triad 263 with 8]
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    row_bytes: Option<u64>,
    /// Writes of an experiment that only writes, operations of one that mixes [default: for each row 5 of accordion, 2 of triad]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    writes: Option<u64>,
    /// Gets of an experiment with gets; one with scans has a tenth as many
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10..))]
    reads: u64,
    /// Memory for writes, in MiB [default: accordion 64; triad 4 for each million rows]
    #[arg(long)]
    memtable_mib: Option<usize>,
    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: u64,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Memory as a pipeline of segments (PVLDB 11(12), 2018)
    Accordion,
    /// Hot keys in memory, log tables, overlap in L0 (USENIX ATC 2017)
    Triad,
}

/// The experiments, configurations and statements of one paper.
struct Paper {
    title: &'static str,
    sizes: Sizes,
    experiments: &'static [Experiment],
    /// The configurations. The first is the baseline, which takes part in every experiment.
    configurations: &'static [Configuration],
    statements: &'static [Statement],
}

/// The sizes of a paper's experiments, unless the command line gives others.
struct Sizes {
    rows: u64,
    key_bytes: usize,
    row_bytes: u64,
    /// Writes for each row; operations, where reads and writes are mixed.
    writes_per_row: u64,
    /// Memory for writes in bytes, by the number of rows.
    memtable_bytes: fn(u64) -> usize,
    /// The bytes that the logs may take, by the number of rows. `None`: as in other benchmarks.
    log_bytes: Option<fn(u64) -> u64>,
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
    figures: &'static [Figure],
}

/// A name with its options of the engine.
struct Configuration {
    name: &'static str,
    /// Titles of the experiments that measure this configuration.
    experiments: &'static [&'static str],
    /// Changes the options that all configurations share.
    options: fn(Options) -> Options,
}

/// A figure that the paper's text gives for a configuration, compared with the baseline.
struct Statement {
    /// Titles of the experiments that the statement is about.
    experiments: &'static [&'static str],
    figure: Figure,
    configuration: &'static str,
    text: &'static str,
}

/// The figure that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    SettledWrites,
    SettledOperations,
    WrittenWithoutLog,
    Written(Cause),
    /// All bytes written, the log's included, for each byte of the user.
    WrittenPerUserByte,
    /// (Flushed + merged) / flushed, in bytes.
    MergeAmplification,
    /// Tables read for each get.
    ReadsPerGet,
    /// Processor time of background work.
    BackgroundCpu,
    Flushes,
    Merges,
    /// The latency that this many reads of a thousand do not exceed.
    Latency(u16),
}

/// The reason for which bytes were written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Log,
    Flush,
    Merge,
    WriteBack,
}

impl Figure {
    fn name(self) -> String {
        match self {
            Figure::SettledWrites => "writes a second, settled".to_owned(),
            Figure::SettledOperations => "operations a second, settled".to_owned(),
            Figure::WrittenWithoutLog => "bytes written without the log".to_owned(),
            Figure::Written(Cause::Log) => "bytes written to the log".to_owned(),
            Figure::Written(Cause::Flush) => "bytes flushed".to_owned(),
            Figure::Written(Cause::Merge) => "bytes merged".to_owned(),
            Figure::Written(Cause::WriteBack) => "bytes written back to the log".to_owned(),
            Figure::WrittenPerUserByte => "bytes written for each user byte, the log's too".to_owned(),
            Figure::MergeAmplification => "write amplification, (flushed + merged) / flushed".to_owned(),
            Figure::ReadsPerGet => "read amplification, reads of files a get".to_owned(),
            Figure::BackgroundCpu => "processor time of background work".to_owned(),
            Figure::Flushes => "flushes".to_owned(),
            Figure::Merges => "merges (compactions)".to_owned(),
            Figure::Latency(permille) => format!("latency, p{}", f64::from(permille) / 10.0),
        }
    }

    fn of(self, measured: &Measured) -> f64 {
        let written = &measured.written;
        match self {
            Figure::SettledWrites | Figure::SettledOperations => {
                measured.run.lane.operations as f64 / measured.run.settled_seconds
            }
            Figure::WrittenWithoutLog => written.without_log as f64,
            Figure::Written(Cause::Log) => (written.total - written.without_log) as f64,
            Figure::Written(Cause::Flush) => written.flushed_bytes as f64,
            Figure::Written(Cause::Merge) => written.merged_bytes as f64,
            Figure::Written(Cause::WriteBack) => written.written_back_bytes as f64,
            Figure::WrittenPerUserByte => ratio(written.total, written.user_bytes),
            Figure::MergeAmplification => written.merge_amplification(),
            Figure::ReadsPerGet => measured.lookups.reads_per_get(),
            Figure::BackgroundCpu => measured.run.background_cpu_us as f64 * 1e3,
            Figure::Flushes => measured.flushes as f64,
            Figure::Merges => measured.merges as f64,
            Figure::Latency(permille) => {
                measured.run.lane.latency.value_at_quantile(f64::from(permille) / 1000.0) as f64
            }
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Figure::SettledWrites | Figure::SettledOperations | Figure::Flushes | Figure::Merges => {
                grouped(value as u64)
            }
            Figure::WrittenWithoutLog | Figure::Written(_) => bytes_text(value as u64),
            Figure::WrittenPerUserByte | Figure::MergeAmplification | Figure::ReadsPerGet => {
                format!("{value:.3}")
            }
            Figure::BackgroundCpu | Figure::Latency(_) => nanoseconds_text(value as u64),
        }
    }
}

/// The figures of each round, by the title of the experiment and the name of the configuration.
type Rounds = BTreeMap<(&'static str, &'static str), Vec<Vec<f64>>>;

pub fn run(args: &Args) -> Outcome {
    let paper = match args.paper {
        Name::Accordion => &accordion::PAPER,
        Name::Triad => &triad::PAPER,
    };
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("braidb-paper-{}", std::process::id())),
    };
    if !dir.join(BENCH_MARK).exists() {
        require_free(&dir)?;
    }
    let rounds = run_all(paper, args, &dir)?;
    if args.dir.is_none() {
        files::remove_dir(&dir)
            .map_err(|error| storage(&format!("could not remove {}", dir.display()), error))?;
    }
    let settings = args.settings(paper, &paper.experiments[0], 0);
    let head = format!(
        "{}\n{} rows of {} bytes, {} {}, {} of memory; median of {}\n",
        paper.title,
        grouped(settings.load.num),
        settings.load.key_bytes + settings.load.value_bytes,
        grouped(args.writes(paper)),
        if paper.experiments[0].workload().is_mixed() { "operations" } else { "writes" },
        bytes_text(settings.engine.memtable_bytes() as u64),
        counted(args.rounds, "round", "rounds"),
    );
    let mut out = std::io::stdout();
    out.write_all((head + &tables(paper, &rounds)).as_bytes()).and_then(|()| out.flush()).map_err(printing)
}

fn run_all(paper: &Paper, args: &Args, dir: &Path) -> Outcome<Rounds> {
    let mut rounds = Rounds::new();
    for round in 0..args.rounds {
        for experiment in paper.experiments {
            let settings = args.settings(paper, experiment, round);
            for configuration in paper.configurations {
                if !configuration.experiments.contains(&experiment.title) {
                    continue;
                }
                eprintln!("round {}: {}: {}", round + 1, experiment.title, configuration.name);
                let measured = run_one(experiment, configuration, &settings, dir)?;
                let figures = experiment.figures.iter().map(|figure| figure.of(&measured)).collect();
                rounds.entry((experiment.title, configuration.name)).or_default().push(figures);
            }
        }
    }
    Ok(rounds)
}

/// Measures one configuration, on a database of its own.
fn run_one(
    experiment: &Experiment,
    configuration: &Configuration,
    settings: &Settings,
    dir: &Path,
) -> Outcome<Measured> {
    let options = (configuration.options)(settings.engine.options());
    start_empty(dir, &options)?;
    let db_dir = dir.join(BENCH_DB);
    let engine = Engine::new(open_with(&db_dir, options)?, settings.load.families)?;
    if !experiment.workload().starts_empty() {
        measure(&engine, &db_dir, named("fillrandom"), settings)?;
    }
    let measured = measure(&engine, &db_dir, experiment.workload(), settings)?;
    engine.db.close()?;
    Ok(measured)
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
        self.writes.unwrap_or_else(|| self.rows(paper) * paper.sizes.writes_per_row)
    }

    fn settings(&self, paper: &Paper, experiment: &Experiment, round: u64) -> Settings {
        let is_of_scans = experiment.workload == "seekwhilewriting";
        let (sizes, rows) = (&paper.sizes, self.rows(paper));
        let memtable_bytes = match self.memtable_mib {
            Some(mib) => mib.saturating_mul(1 << 20),
            None => (sizes.memtable_bytes)(rows),
        };
        let load = braidb_bench::Settings {
            num: rows,
            writes: Some(self.writes(paper)),
            operations: Some(self.writes(paper)),
            seconds: 1,
            read_percent: experiment.read_percent,
            entries: 50,
            reads: Some(if is_of_scans { self.reads / 10 } else { self.reads }),
            distribution: Some(experiment.distribution),
            zipf_exponent: None,
            ranks: Ranks::Hashed,
            key_bytes: sizes.key_bytes,
            value_bytes: self.row_bytes.unwrap_or(sizes.row_bytes) as usize - sizes.key_bytes,
            families: 1,
            threads: experiment.threads,
            write_rate: None,
            window: None,
            seed: self.seed.wrapping_add(round),
        };
        let engine = EngineArgs {
            durability: DurabilityArg::Buffer,
            memtable_mib: 0,
            memtable_bytes: Some(memtable_bytes),
            cache_mib: 64,
            background_threads: 2,
            runs: None,
            guards: None,
            l0_overlap: None,
            defer_below_l0: None,
            memory: None,
            redundancy_percent: 20,
            active_percent: None,
            segments: None,
            log_bytes: sizes.log_bytes.map(|log_bytes| log_bytes(rows)),
            hot_keys_percent: None,
            l0_merge_tables: None,
            log_tables: None,
            separation_threshold: None,
            value_trie: None,
        };
        Settings { load, engine }
    }
}

fn tables(paper: &Paper, rounds: &Rounds) -> String {
    let mut text = String::new();
    let baseline = paper.configurations[0].name;
    for experiment in paper.experiments {
        let beside = format!("beside {baseline}");
        let head = format!(
            "\n{} ({})\n{:36} {:>14} {beside:>14}   paper\n",
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
    let baseline = paper.configurations[0].name;
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
        let of_baseline = here.zip(medians.get(baseline).copied()).filter(|_| name != baseline);
        let told: Vec<&str> =
            stated.iter().filter(|statement| statement.configuration == name).map(|told| told.text).collect();
        let line = writeln!(
            text,
            "    {name:32} {:>14} {:>14}   {}",
            here.map_or_else(none, |here| figure.text(here)),
            of_baseline.map_or_else(none, |(here, baseline)| change_text(here / baseline)),
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
                writes_per_row: 1,
                memtable_bytes: |_| 1 << 20,
                log_bytes: None,
            },
            experiments,
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
    fn papers_name_what_they_have() {
        for paper in [&accordion::PAPER, &triad::PAPER] {
            let titles: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.title).collect();
            let baseline = &paper.configurations[0];
            assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len(), "{}", paper.title);
            assert_eq!(baseline.experiments, titles, "the baseline takes part in all");
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
