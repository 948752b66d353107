//! Other stores beside BraidDB, on one machine. `run` measures workloads on one store, and `table` all workloads on all stores. `fill`
//! fills BraidDB and fjall in turns. `memory` and `instructions` measure maps in memory, and `active` another active segment. Each run is a
//! process of its own.

mod active;
mod child;
mod fill;
mod hash_index;
mod maps;
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
    Memory(maps::Args),
    Instructions(maps::Sizes),
    Active(active::Args),
    #[command(hide = true)]
    OneFill(fill::OneArgs),
    #[command(hide = true)]
    OneMemory(maps::OneArgs),
    #[command(hide = true)]
    OneActive(active::OneArgs),
}

fn main() -> Outcome {
    match Command::parse().verb {
        Verb::Fill(args) => fill::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Table(args) => table::run(&args),
        Verb::Memory(args) => maps::run(&args),
        Verb::Instructions(sizes) => maps::count_instructions(&sizes),
        Verb::Active(args) => active::run(&args),
        Verb::OneFill(args) => fill::run_one(&args),
        Verb::OneMemory(args) => maps::run_one(&args),
        Verb::OneActive(args) => active::run_one(&args),
    }
}
