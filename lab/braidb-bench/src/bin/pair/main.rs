//! Measures two sides of the engine in turns, and keeps the rows of acceptance. `scripts/pair` and `scripts/accept` start it.
//!
//! Exit statuses: 0 passed or done, 1 a limit failed or there is no row, 2 wrong use or an error.

mod compare;
mod drivers;
mod git;
mod host;
mod limits;
mod lock;
mod order;
mod rows;
mod side;
mod table;
mod turns;

use braidb_bench::Outcome;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures two sides of the engine in turns, and keeps the rows of acceptance
#[derive(Parser)]
#[command(name = "pair", max_term_width = 100)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Compare(compare::Args),
    #[command(subcommand)]
    Row(rows::Verb),
}

/// Returns whether the limits passed, or the row was found.
fn run(verb: &Verb) -> Outcome<bool> {
    match verb {
        Verb::Compare(args) => compare::run(args),
        Verb::Row(verb) => rows::run(verb),
    }
}

fn main() -> ExitCode {
    match run(&Command::parse().verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("pair: {error}");
            ExitCode::from(2)
        }
    }
}
