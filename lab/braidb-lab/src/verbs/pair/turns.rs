//! Runs the sides in turns, each run in a fresh process and a fresh directory.

use super::host::{self, Stopwatch};
use super::order::{self, Turn};
use super::side::Side;
use braidb_bench::Outcome;
use braidb_bench::host::machine::Watch;
use braidb_bench::results::Run;
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;

/// The number of rounds, unless the command line gives another.
const ROUNDS: usize = 7;

/// The number of rounds if a run takes long, unless the command line gives another.
const ROUNDS_OF_LONG_RUNS: usize = 3;

/// Seconds above which a run takes long.
const LONG_RUN_SECONDS: f64 = 30.0;

/// The most rounds that a command line may ask for. A measurement has one seed for each round.
pub const MOST_ROUNDS: usize = 1_000;

/// The plan of a measurement.
pub struct Plan {
    pub a: Prepared,
    pub b: Prepared,
    /// Workloads and their options, as the driver takes them.
    pub workloads: Vec<String>,
    /// The number of lines that are judged. All lines share the runs of A beside A.
    pub lines: usize,
    /// `None`: 7 rounds, or 3 if the first run takes more than 30 s.
    pub rounds: Option<usize>,
    /// The seed of the first round; each later round has the next one.
    pub seed: u64,
    /// The directory in which each run keeps its store. The store is removed after the run.
    pub directory: PathBuf,
    /// The file that takes a row for each run.
    pub rows: Option<PathBuf>,
}

/// A side with its driver.
pub struct Prepared {
    pub side: Side,
    pub driver: PathBuf,
}

/// The runs of one workload.
pub struct Taken {
    /// For each line, the runs of A and B in each round.
    pub judged: Vec<Vec<(Run, Run)>>,
    /// The runs of A beside A in each round.
    pub same: Vec<(Run, Run)>,
}

/// The row of a run: a line of JSON.
#[derive(Serialize)]
struct Row<'a> {
    /// When the run ended, in seconds since 1970, UTC.
    unix_seconds: u64,
    /// The number of the round, from 1 on.
    round: usize,
    /// `A`, `B`, or `A'` and `A''` for A beside A.
    place: &'static str,
    #[serde(flatten)]
    run: &'a Run,
}

/// Runs all rounds. Returns the runs of each workload, in the order of the command line.
pub fn take(plan: &Plan) -> Outcome<Vec<Taken>> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut rounds = plan.rounds;
    let mut number = 0;
    while number < rounds.unwrap_or(ROUNDS) {
        let watch = Stopwatch::start();
        let mut runs: Vec<(Turn, Vec<Run>)> = Vec::new();
        for turn in order::round(number, plan.lines) {
            let watch = Stopwatch::start();
            runs.push((turn, run_once(plan, turn, number)?));
            // The first run decides. Its time includes the start of its process.
            rounds.get_or_insert_with(|| rounds_of(watch.seconds()));
        }
        add_round(plan, &mut taken, runs)?;
        number += 1;
        let all = rounds.unwrap_or(ROUNDS);
        eprintln!("pair: round {number} of {all} took {:.1} s", watch.seconds());
    }
    Ok(taken)
}

/// The number of rounds if a run takes `seconds`.
fn rounds_of(seconds: f64) -> usize {
    match seconds > LONG_RUN_SECONDS {
        true => ROUNDS_OF_LONG_RUNS,
        false => ROUNDS,
    }
}

/// One process: a run of each workload.
fn run_once(plan: &Plan, turn: Turn, round: usize) -> Outcome<Vec<Run>> {
    let prepared = if turn.is_b() { &plan.b } else { &plan.a };
    host::remove_dir(&plan.directory)?;
    host::create_dir(&plan.directory)?;
    let mut command = Command::new(&prepared.driver);
    command.arg(&plan.directory).args(&plan.workloads);
    for (option, value) in &prepared.side.options {
        command.arg("--set").arg(format!("{option}={value}"));
    }
    if let Some(mutant) = &prepared.side.mutant {
        command.args(["--mutant", mutant]);
    }
    command.args(["--seed", &(plan.seed + round as u64).to_string(), "--side", &prepared.side.name]);
    let watch = Watch::start(&plan.directory);
    let output = command
        .output()
        .map_err(|error| format!("could not start {}: {error}", prepared.driver.display()))?;
    let machine = watch.stop();
    host::remove_dir(&plan.directory)?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed ({}): {}", output.status, complaint.trim()).into());
    }
    let mut runs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let run: Run = serde_json::from_str(line)
            .map_err(|error| format!("{command:?} printed {line:?}, which is no result: {error}"))?;
        let run = Run { machine: machine.clone(), side: prepared.side.name.clone(), ..run };
        if let Some(rows) = &plan.rows {
            let row =
                Row { unix_seconds: host::unix_seconds(), round: round + 1, place: turn.name(), run: &run };
            host::append_line(rows, &serde_json::to_string(&row)?)?;
        }
        runs.push(run);
    }
    match runs.is_empty() {
        true => Err(format!("{command:?} printed no result").into()),
        false => Ok(runs),
    }
}

/// Sorts the runs of a round by workload and line.
fn add_round(plan: &Plan, taken: &mut Vec<Taken>, runs: Vec<(Turn, Vec<Run>)>) -> Outcome {
    let workloads = runs[0].1.len();
    if taken.is_empty() {
        let nothing = || Taken { judged: vec![Vec::new(); plan.lines], same: Vec::new() };
        taken.extend((0..workloads).map(|_| nothing()));
    }
    if let Some((_, other)) = runs.iter().find(|(_, runs)| runs.len() != taken.len()) {
        return Err(format!("a driver ran {} workloads and another {}", taken.len(), other.len()).into());
    }
    let of = |turn: Turn| {
        let (_, runs) = runs.iter().find(|(taken, _)| *taken == turn).expect("each turn was taken");
        runs
    };
    for (workload, taken) in taken.iter_mut().enumerate() {
        for (line, judged) in taken.judged.iter_mut().enumerate() {
            judged.push((of(Turn::A(line))[workload].clone(), of(Turn::B(line))[workload].clone()));
        }
        taken.same.push((of(Turn::SameLeft)[workload].clone(), of(Turn::SameRight)[workload].clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_take_fewer_rounds() {
        assert_eq!([0.1, 30.0, 30.1, 600.0].map(rounds_of), [7, 7, 3, 3]);
    }
}
