//! Measures other stores and BraidDB on one machine. `run` measures workloads on one store, and `table` courses of workloads on many
//! stores, each in a process of its own. `transactions` measures optimistic transactions on one store.

mod run;
mod stores;
mod table;
mod transactions;

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
    Run(Box<run::Args>),
    Table(table::Args),
    Transactions(transactions::Args),
}

fn main() -> Outcome {
    match Command::parse().verb {
        Verb::Run(args) => run::run(&args),
        Verb::Table(args) => table::run(&args),
        Verb::Transactions(args) => transactions::run(&args),
    }
}
