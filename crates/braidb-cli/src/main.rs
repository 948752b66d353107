//! The `braidb` command: `braidb VERB DIR …`.
//!
//! This file maps arguments to verbs and failures to exit statuses: 0 done, 1 no such key, 2 wrong use, 3 damage or I/O error. [`text`]
//! describes the form of keys and values.

mod verbs;

// The verbs name these modules of the library as `crate::failure`, `crate::text` and so on.
use braidb_cli::{failure, figures, host, hot_keys, progress, store, text};
use clap::{Parser, Subcommand};
use failure::Outcome;
use std::process::ExitCode;

/// BraidDB: an embedded, ordered, persistent key-value store
#[derive(Parser)]
#[command(name = "braidb", version, after_help = text::HELP, max_term_width = 100)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Put(verbs::put::Args),
    Get(verbs::get::Args),
    Delete(verbs::delete::Args),
    Scan(verbs::scan::Args),
    Load(verbs::load::Args),
    Dump(verbs::dump::Args),
    Stats(verbs::stats::Args),
    Verify(verbs::verify::Args),
    Compact(verbs::compact::Args),
    Checkpoint(verbs::checkpoint::Args),
    Tier(verbs::tier::Args),
    Tour(verbs::tour::Args),
    #[command(hide = true)]
    TourWriter(verbs::tour::writer::Args),
    #[command(hide = true)]
    Bench(verbs::moved::Args),
    #[command(hide = true)]
    Simulate(verbs::moved::Args),
    #[command(hide = true)]
    Device(verbs::moved::Args),
    #[command(hide = true)]
    Model(verbs::moved::Args),
}

impl Verb {
    fn run(&self) -> Outcome {
        match self {
            Verb::Put(args) => verbs::put::run(args),
            Verb::Get(args) => verbs::get::run(args),
            Verb::Delete(args) => verbs::delete::run(args),
            Verb::Scan(args) => verbs::scan::run(args),
            Verb::Load(args) => verbs::load::run(args),
            Verb::Dump(args) => verbs::dump::run(args),
            Verb::Stats(args) => verbs::stats::run(args),
            Verb::Verify(args) => verbs::verify::run(args),
            Verb::Compact(args) => verbs::compact::run(args),
            Verb::Checkpoint(args) => verbs::checkpoint::run(args),
            Verb::Tier(args) => verbs::tier::run(args),
            Verb::Tour(args) => verbs::tour::run(args),
            Verb::TourWriter(args) => verbs::tour::writer::run(args),
            Verb::Bench(_) => verbs::moved::run("bench"),
            Verb::Simulate(_) => verbs::moved::run("simulate"),
            Verb::Device(_) => verbs::moved::run("device"),
            Verb::Model(_) => verbs::moved::run("model"),
        }
    }
}

fn main() -> ExitCode {
    host::raise_limit();
    // A usage error ends in clap with status 2; `--help` and `--version` with 0.
    match Command::parse().verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(env!("CARGO_BIN_NAME")),
    }
}
