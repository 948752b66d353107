//! `pair A B -- WORKLOAD…`: measures two sides in turns and holds their ratios to limits.

pub mod drivers;
pub mod git;
pub mod host;
mod limits;
pub mod lock;
mod side;
mod table;
mod turns;

use crate::failure::{self, Failure};
use braidb_bench::Outcome;
use braidb_bench::paired;
use braidb_bench::results::{Limit, Pair};
use limits::Limited;
use side::Side;
use std::path::{Path, PathBuf};
use turns::{Plan, Prepared};

/// Measure two sides of the engine in turns
///
/// A side is a commit, or . for the working tree, and options of the engine: "ae2ffe8 l0_overlap=0 guards=none". Every round runs A and B
/// once, and A twice more: the ratios of A to A tell how much chance changes a ratio. A limit holds if the median of the ratios A / B is
/// within the limit, or beyond it by no more than that spread. Each run is a process of its own in a fresh directory. Other measurements
/// wait until this one ends.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub struct Args {
    /// The side in the numerator
    a: String,
    /// The side in the denominator
    b: String,
    /// Rounds [default: 7; 3 if the first run takes over 30 s]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=turns::MOST_ROUNDS as u64))]
    rounds: Option<usize>,
    /// A limit on the ratio of a figure: FIGURE>=0.97, FIGURE<=1.1, or WORKLOAD/FIGURE>=0.97 for one workload
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<Limited>,
    /// Measures all once more if a limit fails; the second measurement decides
    #[arg(long, requires = "limits")]
    repeat: bool,
    /// Where chance starts; each round has the next seed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::MAX / 2))]
    seed: u64,
    /// Writes the ratios to a file, a line of JSON for each workload
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the stores lie, each of which is removed after its run [default: scratch/pair]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Workloads and their options
    #[arg(last = true, required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
}

/// The help text on exit statuses.
pub const EXIT_STATUS: &str = "Exit status: 0 all limits hold; 1 one fails; 2 wrong use or an error.";

/// Measures, prints, and returns whether all limits hold.
pub fn run(args: &Args) -> failure::Outcome<bool> {
    compare(args).map_err(of_tool)
}

/// An error of git, of a build or of a driver has exit status 2, because no database of the user is involved.
pub fn of_tool(error: Box<dyn std::error::Error + Send + Sync>) -> Failure {
    Failure::Use(error.to_string())
}

fn compare(args: &Args) -> Outcome<bool> {
    let root = git::root()?;
    let (a, b) = (Side::read(&root, &args.a)?, Side::read(&root, &args.b)?);
    let _held = lock::acquire()?;
    let prepare = |side: Side| -> Outcome<Prepared> {
        let driver = drivers::build(&root, &side)?;
        Ok(Prepared { side, driver })
    };
    let mut plan = Plan {
        a: prepare(a)?,
        b: prepare(b)?,
        workloads: args.workloads.clone(),
        rounds: args.rounds,
        seed: args.seed,
        directory: run_directory(args.dir.as_deref(), &root),
    };
    let (mut pairs, mut passed) = measure(&plan, &args.limits)?;
    if !passed && args.repeat {
        println!("A limit failed. All is measured once more; the second measurement decides.");
        // The repeat uses other seeds than the first measurement.
        plan.seed += turns::MOST_ROUNDS as u64;
        (pairs, passed) = measure(&plan, &args.limits)?;
    }
    write_pairs(args.json.as_deref(), &pairs)?;
    Ok(passed)
}

/// The directory in which each run keeps its store. The lock keeps other measurements out. The first run removes what a killed measurement
/// left there.
fn run_directory(parent: Option<&Path>, root: &Path) -> PathBuf {
    let parent = parent.map_or_else(|| root.join("scratch/pair"), Path::to_owned);
    parent.join("braidb-pair-run")
}

/// Takes all rounds and prints their ratios and verdicts. Returns the ratios, and whether all limits hold.
fn measure(plan: &Plan, limits: &[Limited]) -> Outcome<(Vec<Pair>, bool)> {
    let taken = turns::take(plan)?;
    let workloads: Vec<&str> = taken.iter().map(|taken| taken.same[0].0.workload.as_str()).collect();
    check_workloads(&workloads, limits)?;
    let (mut pairs, mut passed) = (Vec::new(), true);
    for (taken, workload) in taken.iter().zip(workloads) {
        let pair = paired::pair(&taken.judged, &taken.same, &limits_of(workload, limits))?;
        print!("{}", table::of(&pair, &taken.judged));
        let (text, all_pass) = table::verdicts(&pair);
        print!("{text}");
        passed &= all_pass;
        pairs.push(pair);
    }
    if !limits.is_empty() {
        println!("{}", if passed { "all limits hold" } else { "a limit fails" });
    }
    Ok((pairs, passed))
}

/// The limits that apply to a workload, by figure.
fn limits_of(workload: &str, limits: &[Limited]) -> Vec<(String, Limit)> {
    let meant = limits.iter().filter(|limited| limited.is_meant(workload));
    meant.map(|limited| (limited.figure.clone(), limited.limit)).collect()
}

/// Refuses a limit on a workload that did not run, because such a limit would check nothing.
fn check_workloads(ran: &[&str], limits: &[Limited]) -> Outcome {
    let meets_none = |limited: &&Limited| !ran.iter().any(|workload| limited.is_meant(workload));
    match limits.iter().find(meets_none).and_then(|limited| limited.workload.as_deref()) {
        Some(name) => {
            Err(format!("the limit names {name}, which did not run; {} did", ran.join(", ")).into())
        }
        None => Ok(()),
    }
}

fn write_pairs(file: Option<&Path>, pairs: &[Pair]) -> Outcome {
    let Some(file) = file else { return Ok(()) };
    let lines: Vec<String> = pairs.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    host::write_text(file, &format!("{}\n", lines.join("\n")))
}
