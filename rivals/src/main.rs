//! Other stores beside BraidDB, in one run on one machine: `fill` fills databases on disk, `memory` and `instructions` look at
//! maps in memory, `active` at another active segment. Sides take turns, each run is a process of its own, and the medians are compared.

mod active;
mod child;
mod fill;
mod hash_index;
mod maps;
mod stores;

/// These files are the command's own (`braidb bench`): the same keys, order, values and figures.
#[path = "../../crates/braidb-cli/src/host/clock.rs"]
#[allow(dead_code, reason = "the command uses more of it")]
mod clock;
#[path = "../../crates/braidb-cli/src/figures.rs"]
#[allow(dead_code, reason = "the command uses more of it")]
mod figures;
#[path = "../../crates/braidb-cli/src/host/process.rs"]
#[allow(dead_code, reason = "the command uses more of it")]
mod process;

use clap::{Parser, Subcommand};

/// What a part of the program returns.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

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
        Verb::Memory(args) => maps::run(&args),
        Verb::Instructions(sizes) => maps::count_instructions(&sizes),
        Verb::Active(args) => active::run(&args),
        Verb::OneFill(args) => fill::run_one(&args),
        Verb::OneMemory(args) => maps::run_one(&args),
        Verb::OneActive(args) => active::run_one(&args),
    }
}
