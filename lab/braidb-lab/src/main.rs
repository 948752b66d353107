//! The laboratory's command: `braidb-lab VERB …`.
//!
//! It measures BraidDB, and predicts what BraidDB does. Exit statuses are those of the command `braidb`, whose library opens databases,
//! prints figures and shows progress here too. A verb that judges ends with status 1 if a limit fails.

mod verbs;

// The verbs name these modules as `crate::failure`, `crate::text` and so on.
use braidb_cli::{failure, figures, hot_keys, progress, store, text};
use clap::{Parser, Subcommand};
use failure::Outcome;
use std::process::ExitCode;

/// What the verbs use of their machine: the files of the command `braidb`, and the clock and process figures of `braidb-bench`.
mod host {
    pub use braidb_bench::host::{clock, process};
    pub use braidb_cli::host::{files, raise_limit};
}

/// The laboratory of BraidDB: measures it, and predicts what it does, also on modelled devices
#[derive(Parser)]
#[command(name = "braidb-lab", version, after_help = text::EXIT_STATUS, max_term_width = 100)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Bench(Box<verbs::bench::Args>),
    Simulate(verbs::simulate::Args),
    Device(verbs::device::Args),
    Model(verbs::model::Args),
    Pair(verbs::pair::Args),
    Paper(verbs::paper::Args),
    Regress(verbs::regress::Args),
}

impl Verb {
    /// Returns whether all limits hold, and `true` for verbs that have no limits.
    fn run(&self) -> Outcome<bool> {
        match self {
            Verb::Bench(args) => verbs::bench::run(args)?,
            Verb::Simulate(args) => verbs::simulate::run(args)?,
            Verb::Device(args) => verbs::device::run(args)?,
            Verb::Model(args) => verbs::model::run(args)?,
            Verb::Paper(args) => verbs::paper::run(args)?,
            Verb::Pair(args) => return verbs::pair::run(args),
            Verb::Regress(args) => return verbs::regress::run(args),
        }
        Ok(true)
    }
}

fn main() -> ExitCode {
    host::raise_limit();
    // A usage error ends in clap with status 2; `--help` and `--version` with 0.
    match Command::parse().verb.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => failure.report(env!("CARGO_BIN_NAME")),
    }
}
