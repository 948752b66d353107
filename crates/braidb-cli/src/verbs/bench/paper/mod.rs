//! `bench paper NAME`: the experiments of a paper at a size for minutes, its figures beside ours.
//!
//! A paper brings *experiments*, a workload each; *configurations* of the engine, the first of which is the baseline; and
//! *statements*, the figures that stand in its text. Every configuration takes its turn in every round, so that whatever
//! drifts on the machine meets all of them, and the median of the rounds counts.

mod accordion;

use super::measure::{Measured, measure};
use super::workload::{Data, Distribution, Workload};
use super::{DurabilityArg, Settings, start_empty};
use crate::failure::{Outcome, printing, storage};
use crate::figures::{bytes_text, counted, grouped, nanoseconds_text};
use crate::host::files;
use crate::store::{BENCH_DB, BENCH_MARK, open_with, require_free};
use crate::text;
use braidb::Options;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Repeat a paper's experiments in minutes, with its figures beside ours
///
/// Rows have a key of 16 bytes and a value that fills them up. Experiments with reads first write every row once.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// Which paper
    #[arg(value_enum)]
    paper: Name,
    /// A directory as for other benchmarks [default: a temporary one, which is removed]
    dir: Option<PathBuf>,
    /// Rows
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    rows: u64,
    /// Bytes of a row, its key included
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    row_bytes: u64,
    /// Writes of an experiment that only writes
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    writes: u64,
    /// Gets of an experiment with gets; one with scans has a tenth as many
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10..))]
    reads: u64,
    /// Memory for writes, in MiB
    #[arg(long, default_value_t = 64)]
    memtable_mib: usize,
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
}

/// What is repeated of one paper.
struct Paper {
    title: &'static str,
    experiments: &'static [Experiment],
    /// The first is the baseline, which takes part in every experiment.
    configurations: &'static [Configuration],
    statements: &'static [Statement],
}

/// One workload, measured with several configurations.
struct Experiment {
    title: &'static str,
    /// Where the paper has it.
    place: &'static str,
    workload: Workload,
    distribution: Distribution,
    figures: &'static [Figure],
}

/// A name for options of the engine.
struct Configuration {
    name: &'static str,
    /// Titles of the experiments that it takes part in.
    experiments: &'static [&'static str],
    /// Changes the options that all have in common.
    options: fn(Options) -> Options,
}

/// A figure that the paper's text gives for a configuration in comparison with the baseline.
struct Statement {
    experiment: &'static str,
    figure: Figure,
    configuration: &'static str,
    text: &'static str,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    SettledWrites,
    WrittenWithoutLog,
    Flushes,
    Merges,
    /// The latency that so many reads of a thousand do not exceed.
    Latency(u16),
}

impl Figure {
    fn name(self) -> String {
        match self {
            Figure::SettledWrites => "writes a second, settled".to_owned(),
            Figure::WrittenWithoutLog => "bytes written without the log".to_owned(),
            Figure::Flushes => "flushes".to_owned(),
            Figure::Merges => "merges (compactions)".to_owned(),
            Figure::Latency(permille) => format!("latency, p{}", f64::from(permille) / 10.0),
        }
    }

    fn of(self, measured: &Measured) -> f64 {
        match self {
            Figure::SettledWrites => measured.lane.operations as f64 / measured.settled_seconds,
            Figure::WrittenWithoutLog => measured.written.without_log as f64,
            Figure::Flushes => measured.flushes as f64,
            Figure::Merges => measured.merges as f64,
            Figure::Latency(permille) => {
                measured.lane.latency.value_at_quantile(f64::from(permille) / 1000.0) as f64
            }
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Figure::SettledWrites | Figure::Flushes | Figure::Merges => grouped(value as u64),
            Figure::WrittenWithoutLog => bytes_text(value as u64),
            Figure::Latency(_) => nanoseconds_text(value as u64),
        }
    }
}

/// The figures of each round, by the titles of experiments and the names of configurations.
type Rounds = BTreeMap<(&'static str, &'static str), Vec<Vec<f64>>>;

pub fn run(args: &Args) -> Outcome {
    let paper = match args.paper {
        Name::Accordion => &accordion::PAPER,
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
    let head = format!(
        "{}\n{} rows of {} bytes, {} writes, {} MiB of memory; median of {}\n",
        paper.title,
        grouped(args.rows),
        args.row_bytes,
        grouped(args.writes),
        args.memtable_mib,
        counted(args.rounds, "round", "rounds"),
    );
    let mut out = std::io::stdout();
    out.write_all((head + &tables(paper, &rounds)).as_bytes()).and_then(|()| out.flush()).map_err(printing)
}

fn run_all(paper: &Paper, args: &Args, dir: &Path) -> Outcome<Rounds> {
    let mut rounds = Rounds::new();
    for round in 0..args.rounds {
        for experiment in paper.experiments {
            let settings = args.settings(experiment, round);
            let data = Data::new(&settings)?;
            for configuration in paper.configurations {
                if !configuration.experiments.contains(&experiment.title) {
                    continue;
                }
                eprintln!("round {}: {}: {}", round + 1, experiment.title, configuration.name);
                let measured = run_one(experiment, configuration, &settings, &data, dir)?;
                let figures = experiment.figures.iter().map(|figure| figure.of(&measured)).collect();
                rounds.entry((experiment.title, configuration.name)).or_default().push(figures);
            }
        }
    }
    Ok(rounds)
}

/// One run, on a database of its own.
fn run_one(
    experiment: &Experiment,
    configuration: &Configuration,
    settings: &Settings,
    data: &Data,
    dir: &Path,
) -> Outcome<Measured> {
    start_empty(dir)?;
    let db_dir = dir.join(BENCH_DB);
    let db = open_with(&db_dir, (configuration.options)(settings.options()))?;
    if !experiment.workload.starts_empty() {
        measure(&db, &db_dir, Workload::Fillrandom, data, settings)?;
    }
    let measured = measure(&db, &db_dir, experiment.workload, data, settings)?;
    db.close()?;
    Ok(measured)
}

/// Bytes of a key.
const KEY_BYTES: usize = 16;

impl Args {
    fn settings(&self, experiment: &Experiment, round: u64) -> Settings {
        let is_of_scans = experiment.workload == Workload::Seekwhilewriting;
        Settings {
            num: self.rows,
            writes: Some(self.writes),
            reads: Some(if is_of_scans { self.reads / 10 } else { self.reads }),
            distribution: experiment.distribution,
            key_bytes: KEY_BYTES,
            value_bytes: self.row_bytes as usize - KEY_BYTES,
            threads: 1,
            write_rate: None,
            durability: DurabilityArg::Buffer,
            window: None,
            memtable_mib: self.memtable_mib,
            memtable_bytes: None,
            cache_mib: 64,
            background_threads: 2,
            runs: None,
            guards: None,
            memory: None,
            redundancy_percent: 20,
            active_percent: None,
            segments: None,
            seed: self.seed.wrapping_add(round),
        }
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

/// One figure of an experiment: a line for each configuration that was measured, or that the paper tells about.
fn table(paper: &Paper, experiment: &Experiment, figure: Figure, medians: &BTreeMap<&str, f64>) -> String {
    let is_here =
        |statement: &&Statement| statement.experiment == experiment.title && statement.figure == figure;
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

/// Where nothing was measured, or the paper's text has no figure.
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

    #[test]
    fn a_table_has_what_was_measured_beside_what_is_told() {
        let experiments = &[Experiment {
            title: "writes",
            place: "Figure 1",
            workload: Workload::Updaterandom,
            distribution: Distribution::Uniform,
            figures: &[Figure::SettledWrites, Figure::Latency(995)],
        }];
        let configuration =
            |name| Configuration { name, experiments: &["writes"], options: |options| options };
        let told =
            |figure, configuration, text| Statement { experiment: "writes", figure, configuration, text };
        let paper = Paper {
            title: "A paper",
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
        for paper in [&accordion::PAPER] {
            let titles: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.title).collect();
            let baseline = &paper.configurations[0];
            assert_eq!(baseline.experiments, titles, "the baseline takes part in all");
            for configuration in paper.configurations {
                assert!(
                    configuration.experiments.iter().all(|title| titles.contains(title)),
                    "{}",
                    configuration.name
                );
            }
            for Statement { experiment, figure, text, .. } in paper.statements {
                let found = paper.experiments.iter().find(|known| known.title == *experiment);
                assert!(found.is_some_and(|found| found.figures.contains(figure)), "{experiment}: {text}");
            }
        }
    }
}
