//! `pair A B -- WORKLOAD…`: measures two sides in turns and holds their ratios to limits.

pub mod drivers;
pub mod git;
pub mod host;
mod limits;
pub mod lock;
mod order;
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
use turns::{Plan, Prepared, Taken};

/// Measure two sides of the engine in turns
///
/// A side is a commit, or . for the working tree, and options of the engine: "ae2ffe8 l0_overlap=0 guards=none". The option mutant=NAME
/// plants a bug. Both sides are then built with the feature, so that both pay for it. Every round runs A and B once, and A twice more: the
/// ratios of A to A tell how much chance changes a ratio. A limit holds if the median of the ratios A / B is within the limit, or beyond it
/// by no more than that spread. Each run is a process of its own in a fresh directory. Other measurements wait until this one ends.
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
    /// A limit on the ratio of a figure: FIGURE>=0.97, FIGURE<=1.1, WORKLOAD/FIGURE>=0.97 for one workload, or WORKLOAD:2/FIGURE>=0.97 for
    /// its second run
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<Limited>,
    /// Measures all once more if a limit fails; the second measurement decides
    #[arg(long, requires = "limits")]
    repeat: bool,
    /// Lines to judge: each has rounds of its own, and all share the runs of A beside A
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100))]
    lines: usize,
    /// Where chance starts; each round has the next seed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::MAX / 2))]
    seed: u64,
    /// Writes the ratios to a file, a line of JSON for each workload and line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Adds each run to a file, as a line of JSON with load, steal time, device and processor
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
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
    let has_mutants = a.mutant.is_some() || b.mutant.is_some();
    let prepare = |side: Side| -> Outcome<Prepared> {
        let driver = drivers::build(&root, &side, has_mutants)?;
        Ok(Prepared { side, driver })
    };
    let mut plan = Plan {
        a: prepare(a)?,
        b: prepare(b)?,
        workloads: args.workloads.clone(),
        lines: args.lines,
        rounds: args.rounds,
        seed: args.seed,
        directory: run_directory(args.dir.as_deref(), &root),
        rows: args.rows.clone(),
    };
    let (pairs, passed) = measure(&plan, &args.limits)?;
    if passed == args.lines || !args.repeat {
        write_pairs(args.json.as_deref(), &pairs)?;
        return Ok(passed == args.lines);
    }
    println!("A limit failed. All is measured once more; the second measurement decides.");
    // The repeat uses other seeds than the first measurement.
    plan.seed += turns::MOST_ROUNDS as u64;
    let (pairs, passed) = measure(&plan, &args.limits)?;
    write_pairs(args.json.as_deref(), &pairs)?;
    Ok(passed == args.lines)
}

/// The directory in which each run keeps its store. The lock keeps other measurements out. The first run removes what a killed measurement
/// left there.
fn run_directory(parent: Option<&Path>, root: &Path) -> PathBuf {
    let parent = parent.map_or_else(|| root.join("scratch/pair"), Path::to_owned);
    parent.join("braidb-pair-run")
}

/// Takes all rounds and prints their ratios and verdicts. Returns the ratios, and how many lines pass.
fn measure(plan: &Plan, limits: &[Limited]) -> Outcome<(Vec<Pair>, usize)> {
    let taken = turns::take(plan)?;
    let places = places_of(&taken);
    check_workloads(&places, limits)?;
    let (mut pairs, mut passed) = (Vec::new(), 0);
    for line in 0..plan.lines {
        let mut passes = true;
        for (taken, &(workload, place)) in taken.iter().zip(&places) {
            let judged = &taken.judged[line];
            let pair = paired::pair(judged, &taken.same, &limits_of(workload, place, limits))?;
            if plan.lines == 1 {
                print!("{}", table::of(&pair, judged));
            }
            let (text, all_pass) = table::verdicts(&pair);
            print!("{text}");
            passes &= all_pass;
            pairs.push(pair);
        }
        passed += usize::from(passes);
    }
    if !limits.is_empty() {
        println!("{passed} of {} lines passed", plan.lines);
    }
    Ok((pairs, passed))
}

/// The name of each workload, and which run of it this is, from 1.
fn places_of(taken: &[Taken]) -> Vec<(&str, usize)> {
    let names: Vec<&str> = taken.iter().map(|taken| taken.same[0].0.workload.as_str()).collect();
    let place = |index: usize| names[..=index].iter().filter(|name| **name == names[index]).count();
    (0..names.len()).map(|index| (names[index], place(index))).collect()
}

/// The limits that apply to a run of a workload, by figure.
fn limits_of(workload: &str, place: usize, limits: &[Limited]) -> Vec<(String, Limit)> {
    let meant = limits.iter().filter(|limited| limited.is_meant(workload, place));
    meant.map(|limited| (limited.figure.clone(), limited.limit)).collect()
}

/// Refuses a limit on a workload that did not run, because such a limit would check nothing.
fn check_workloads(places: &[(&str, usize)], limits: &[Limited]) -> Outcome {
    let meets_none =
        |limited: &&Limited| !places.iter().any(|&(workload, place)| limited.is_meant(workload, place));
    if let Some(limited) = limits.iter().find(meets_none) {
        let name = limited.workload.as_deref().unwrap_or("any workload");
        let ran: Vec<&str> = places.iter().map(|&(workload, _)| workload).collect();
        return Err(format!(
            "the limit names {name}, which did not run, or not so often; {} did",
            ran.join(", ")
        )
        .into());
    }
    Ok(())
}

fn write_pairs(file: Option<&Path>, pairs: &[Pair]) -> Outcome {
    let Some(file) = file else { return Ok(()) };
    let lines: Vec<String> = pairs.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    host::write_text(file, &format!("{}\n", lines.join("\n")))
}
