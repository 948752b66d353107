//! Other stores beside BraidDB, on one machine. `run` measures workloads on one store, and `table` all workloads on all stores. `fill`
//! fills stores in turns. Each run is a process of its own.

mod child;
mod fill;
mod run;
mod stores;
mod table;

/// This file is of the library that `braidb-lab bench` prints its figures by, so that figures look alike.
#[path = "../../../crates/braidb-cli/src/figures.rs"]
#[allow(dead_code, reason = "the command and the laboratory use more of it")]
mod figures;

use braidb_bench::Outcome;
use clap::{Parser, Subcommand};

/// Measure other stores and BraidDB in the same run
#[derive(Parser)]
#[command(name = "rivals", max_term_width = 100)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Fill(fill::Args),
    Run(Box<run::Args>),
    Table(table::Args),
    #[command(hide = true)]
    OneFill(fill::OneArgs),
}

fn main() -> Outcome {
    match Command::parse().verb {
        Verb::Fill(args) => fill::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Table(args) => table::run(&args),
        Verb::OneFill(args) => fill::run_one(&args),
    }
}
