//! The command `braidb-sim`: runs the judges, at any size, from any seed.
//!
//! ```text
//! braidb-sim model|writers|crash|errors|flips|tiers|forks|transactions|isolation|checkpoints|slots [--seed S] [--preset P] [--ops N] [--stride N] [--cases N] [--trace]
//!            model, writers: --total N   operations over all cases      crash: --points N   points over all cases
//! braidb-sim mutants [--seed S] [--rounds N] [--mutant NAME]
//! braidb-sim torture [--seed S] [--minutes M]
//! braidb-sim golden DIR
//! ```
//!
//! The command prints what was covered. For a failure it prints the one command that replays it. The exit status is 1 after a
//! failure and 2 after wrong usage. `golden` judges nothing: it writes the golden database (see [`golden`]) into a new
//! directory.

use braidb_sim::draw::Preset;
use braidb_sim::failure::Verdict;
use braidb_sim::golden;
use braidb_sim::judge::{Case, Judge, crash, mutants, torture};
use braidb_sim::report::Tally;
use braidb_storage::real::{MonotonicClock, OsRandom, RealFs};
use braidb_storage::{Clock, Random};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: braidb-sim model|writers|crash|errors|flips|tiers|forks|transactions|isolation|checkpoints|slots|mutants|torture \
[--seed S] [--preset default|small-memory|tiny-files|guards|random|short-logs|tiers] [--ops N] [--stride N] [--cases N] \
[--total N] [--points N] [--rounds N] [--mutant NAME] [--minutes M] [--trace]
       braidb-sim golden DIR";

/// The parsed command line.
#[derive(Debug, Default)]
struct Wanted {
    seed: Option<u64>,
    preset: Option<Preset>,
    ops: Option<u64>,
    stride: Option<u64>,
    cases: Option<u64>,
    total: Option<u64>,
    points: Option<u64>,
    rounds: Option<u64>,
    minutes: Option<u64>,
    mutant: Option<String>,
    trace: bool,
}

impl Wanted {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        while let Some(option) = arguments.next() {
            if option == "--trace" {
                wanted.trace = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
            let number = || match value.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{option}: {value:?} is no number")),
            };
            match option.as_str() {
                "--seed" => wanted.seed = number()?,
                "--ops" => wanted.ops = number()?,
                "--stride" => wanted.stride = number()?,
                "--cases" => wanted.cases = number()?,
                "--total" => wanted.total = number()?,
                "--points" => wanted.points = number()?,
                "--rounds" => wanted.rounds = number()?,
                "--minutes" => wanted.minutes = number()?,
                "--mutant" => wanted.mutant = Some(value),
                "--preset" => {
                    wanted.preset =
                        Some(Preset::named(&value).ok_or(format!("there is no preset {value:?}"))?)
                }
                _ => return Err(format!("there is no option {option}")),
            }
        }
        Ok(wanted)
    }

    /// The seed of the command line, or a random one.
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| OsRandom.next_u64() >> 24)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    if verb == "golden" {
        return write_golden(arguments.next());
    }
    let wanted = match Wanted::parse(arguments) {
        Ok(wanted) => wanted,
        Err(what) => return wrong_use(&what),
    };
    let verdict = match (verb.as_str(), Judge::named(&verb)) {
        (_, Some(judge)) => run_cases(judge, &wanted),
        ("mutants", _) => run_mutants(&wanted),
        ("torture", _) => run_torture(&wanted),
        _ => return wrong_use(&format!("there is no judge {verb:?}")),
    };
    match verdict {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("FAIL {failure}");
            ExitCode::FAILURE
        }
    }
}

fn write_golden(dir: Option<String>) -> ExitCode {
    let Some(dir) = dir else { return wrong_use("golden needs a directory") };
    match golden::save(&RealFs, Path::new(&dir)) {
        Ok(paths) => {
            paths.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("could not write the golden database into {dir}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn wrong_use(what: &str) -> ExitCode {
    eprintln!("{what}\n{USAGE}");
    ExitCode::from(2)
}

/// Runs cases of consecutive seeds until the wanted number of cases, operations or points is reached.
fn run_cases(judge: Judge, wanted: &Wanted) -> Verdict {
    let clock = MonotonicClock::new();
    let preset = wanted.preset.unwrap_or(Preset::Random);
    let mut case = Case::new(judge, wanted.seed(), preset);
    case.ops = wanted.ops.unwrap_or(case.ops);
    case.stride = wanted.stride.unwrap_or(case.stride).max(1);
    case.trace = wanted.trace;
    let first = case.seed;
    let (mut cases, mut ops) = (0, 0);
    let mut tally = Tally::default();
    loop {
        tally.merge(&case.run()?);
        cases += 1;
        ops += case.ops;
        case.seed += 1;
        let enough = match (wanted.cases, wanted.total, wanted.points) {
            (Some(most), ..) => cases >= most,
            (_, Some(total), _) => ops >= total,
            (.., Some(points)) => tally.get("points") >= points,
            _ => true,
        };
        if enough {
            break;
        }
    }
    println!(
        "PASS {} from seed {first}, preset {}: {cases} cases, {ops} operations, {:.1} s: {tally}",
        judge.name(),
        preset.name(),
        clock.now_us() as f64 / 1e6
    );
    match wanted.points {
        Some(_) if judge == Judge::Crash => crash::check_coverage(&tally),
        _ => Ok(()),
    }
}

fn run_mutants(wanted: &Wanted) -> Verdict {
    let seed = wanted.seed.unwrap_or(1);
    let rounds = wanted.rounds.unwrap_or(mutants::ROUNDS);
    let clock = MonotonicClock::new();
    let chosen = |name: &str| wanted.mutant.as_deref().is_none_or(|wanted| wanted == name);
    if !braidb::mutants::ALL.iter().any(|(name, _)| chosen(name)) {
        return Err("there is no mutant of that name; `mutants` without --mutant prints them all"
            .to_owned()
            .into());
    }
    let mut blind = Vec::new();
    for mutant in braidb::mutants::ALL.iter().filter(|(name, _)| chosen(name)) {
        match mutants::judge_mutant(*mutant, seed, rounds) {
            Some(caught) => {
                let what = caught.failure.what.lines().next().unwrap_or_default().to_owned();
                println!(
                    "caught {:36} by {:6} after {:2} cases ({:.1} s): {what}",
                    caught.mutant,
                    caught.by.name(),
                    caught.cases,
                    clock.now_us() as f64 / 1e6
                );
            }
            None => {
                println!("MISSED {:36} it breaks rule {}", mutant.0, mutant.1);
                blind.push(mutant.0);
            }
        }
    }
    if !blind.is_empty() {
        return Err(format!("{} mutants were not caught: {}", blind.len(), blind.join(", ")).into());
    }
    let cases = mutants::judge_control(seed, 1)?;
    println!("PASS mutants from seed {seed}; {cases} cases without a mutant found nothing");
    Ok(())
}

fn run_torture(wanted: &Wanted) -> Verdict {
    let seed = wanted.seed();
    let minutes = wanted.minutes.unwrap_or(10);
    println!("torture from seed {seed} for {minutes} minutes");
    let clock = MonotonicClock::new();
    let mut told_us = 0;
    let (covered, verdict) = torture::torture(seed, |covered| {
        let now_us = clock.now_us();
        if now_us - told_us > 60_000_000 {
            told_us = now_us;
            println!("{:3} minutes: {}", now_us / 60_000_000, summary(covered));
        }
        now_us < minutes * 60_000_000
    });
    for (judge, tally) in &covered {
        println!("{judge}: {tally}");
    }
    verdict?;
    println!("PASS torture from seed {seed}, {minutes} minutes");
    Ok(())
}

fn summary(covered: &torture::Covered) -> String {
    let crash = covered.get("crash").cloned().unwrap_or_default();
    let batches: u64 = covered.values().map(|tally| tally.get("batch") + tally.get("batches")).sum();
    format!("{batches} batches, {} crash points, {} images", crash.get("points"), crash.get("images"))
}
