//! Other stores beside BraidDB, in one run on one machine: `fill` fills databases on disk, `memory` and `instructions` look at
//! maps in memory. Sides take turns, each run is a process of its own, and the medians are compared.

mod child;
mod fill;
mod memory;
mod stores;

/// These files are the command's own (`braidb bench`): the same keys, order, values and figures.
#[path = "../../crates/braidb-cli/src/host/clock.rs"]
#[allow(dead_code, reason = "the command uses more of it")]
mod clock;
#[path = "../../crates/braidb-cli/src/verbs/bench/draws.rs"]
#[allow(dead_code, reason = "the command uses more of it")]
mod draws;
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
    Memory(memory::Args),
    Instructions(memory::Sizes),
    #[command(hide = true)]
    OneFill(fill::OneArgs),
    #[command(hide = true)]
    OneMemory(memory::OneArgs),
}

fn main() -> Outcome {
    match Command::parse().verb {
        Verb::Fill(args) => fill::run(&args),
        Verb::Memory(args) => memory::run(&args),
        Verb::Instructions(sizes) => memory::count_instructions(&sizes),
        Verb::OneFill(args) => fill::run_one(&args),
        Verb::OneMemory(args) => memory::run_one(&args),
    }
}
