//! Runs the sides in turns, each run in a fresh process and a fresh directory.

use super::host;
use super::side::Side;
use braidb_bench::Outcome;
use braidb_bench::host::clock::Stopwatch;
use braidb_bench::host::machine::Watch;
use braidb_bench::results::Run;
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

/// One run of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    A,
    B,
    /// Runs A, for the numerator of a ratio A / A.
    SameLeft,
    /// Runs A, for the denominator of a ratio A / A.
    SameRight,
}

/// The runs of four rounds in a row, which repeat. The two runs of a pair follow each other, because the machine changes with time. The
/// first run of a round takes about 2% more processor time than later ones, so each of the four runs is first once.
const ORDERS: [[Turn; 4]; 4] = [
    [Turn::A, Turn::B, Turn::SameRight, Turn::SameLeft],
    [Turn::SameRight, Turn::SameLeft, Turn::A, Turn::B],
    [Turn::B, Turn::A, Turn::SameLeft, Turn::SameRight],
    [Turn::SameLeft, Turn::SameRight, Turn::B, Turn::A],
];

/// The plan of a measurement.
pub struct Plan {
    pub a: Prepared,
    pub b: Prepared,
    /// Workloads and their options, as the driver takes them.
    pub workloads: Vec<String>,
    /// `None`: 7 rounds, or 3 if the first run takes more than 30 s.
    pub rounds: Option<usize>,
    /// The seed of the first round; each later round has the next one.
    pub seed: u64,
    /// The directory in which each run keeps its store. The store is removed after the run.
    pub directory: PathBuf,
}

/// A side with its driver.
pub struct Prepared {
    pub side: Side,
    pub driver: PathBuf,
}

/// The runs of one workload.
#[derive(Default)]
pub struct Taken {
    /// The runs of A and B in each round.
    pub judged: Vec<(Run, Run)>,
    /// The two runs of each round whose ratio is A / A.
    pub same: Vec<(Run, Run)>,
}

/// Runs all rounds. Returns the runs of each workload, in the order of the command line.
pub fn take(plan: &Plan) -> Outcome<Vec<Taken>> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut rounds = plan.rounds;
    let mut number = 0;
    while number < rounds.unwrap_or(ROUNDS) {
        let watch = Stopwatch::start();
        let mut runs: Vec<(Turn, Vec<Run>)> = Vec::new();
        for turn in ORDERS[number % ORDERS.len()] {
            let watch = Stopwatch::start();
            runs.push((turn, run_once(plan, turn, number)?));
            // The first run decides. Its time includes the start of its process.
            rounds.get_or_insert_with(|| rounds_of(watch.seconds()));
        }
        add_round(&mut taken, runs)?;
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

/// Starts one process, which runs each workload once.
fn run_once(plan: &Plan, turn: Turn, round: usize) -> Outcome<Vec<Run>> {
    let prepared = if turn == Turn::B { &plan.b } else { &plan.a };
    host::remove_dir(&plan.directory)?;
    host::create_dir(&plan.directory)?;
    let mut command = Command::new(&prepared.driver);
    command.arg(&plan.directory).args(&plan.workloads);
    for (option, value) in &prepared.side.options {
        command.arg("--set").arg(format!("{option}={value}"));
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
        runs.push(run);
    }
    match runs.is_empty() {
        true => Err(format!("{command:?} printed no result").into()),
        false => Ok(runs),
    }
}

/// Sorts the runs of a round by workload.
fn add_round(taken: &mut Vec<Taken>, runs: Vec<(Turn, Vec<Run>)>) -> Outcome {
    let workloads = runs[0].1.len();
    if taken.is_empty() {
        taken.resize_with(workloads, Taken::default);
    }
    if let Some((_, other)) = runs.iter().find(|(_, runs)| runs.len() != taken.len()) {
        return Err(format!("a driver ran {} workloads and another {}", taken.len(), other.len()).into());
    }
    let of = |turn: Turn| {
        let (_, runs) = runs.iter().find(|(taken, _)| *taken == turn).expect("each turn was taken");
        runs
    };
    for (workload, taken) in taken.iter_mut().enumerate() {
        taken.judged.push((of(Turn::A)[workload].clone(), of(Turn::B)[workload].clone()));
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
