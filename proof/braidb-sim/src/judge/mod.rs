//! The judges.
//!
//! Each judge runs *cases*. A case is small and follows from one seed, a preset of options and a size, so that one command
//! replays it. For a larger size a judge runs the cases of consecutive seeds, one after the other.

pub mod checkpoints;
pub mod crash;
pub mod errors;
pub mod flips;
pub mod forks;
pub mod isolation;
pub mod model;
pub mod mutants;
mod reopenings;
pub mod slots;
pub mod tiers;
pub mod torture;
pub mod transactions;
pub mod writers;

use crate::draw::Preset;
use crate::failure::{Failure, Verdict, no_panic};
use crate::report::Tally;
use std::fmt;

/// The kinds of judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    Model,
    Writers,
    Crash,
    Errors,
    Flips,
    Tiers,
    Forks,
    Transactions,
    Isolation,
    Checkpoints,
    Slots,
}

impl Judge {
    pub const ALL: [Judge; 11] = [
        Judge::Model,
        Judge::Writers,
        Judge::Crash,
        Judge::Errors,
        Judge::Flips,
        Judge::Tiers,
        Judge::Forks,
        Judge::Transactions,
        Judge::Isolation,
        Judge::Checkpoints,
        Judge::Slots,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Judge::Model => "model",
            Judge::Writers => "writers",
            Judge::Crash => "crash",
            Judge::Errors => "errors",
            Judge::Flips => "flips",
            Judge::Tiers => "tiers",
            Judge::Forks => "forks",
            Judge::Transactions => "transactions",
            Judge::Isolation => "isolation",
            Judge::Checkpoints => "checkpoints",
            Judge::Slots => "slots",
        }
    }

    /// The judge called `name`.
    pub fn named(name: &str) -> Option<Judge> {
        Judge::ALL.into_iter().find(|judge| judge.name() == name)
    }

    /// The default number of operations of a case.
    pub fn usual_ops(self) -> u64 {
        match self {
            Judge::Model => 5_000,
            Judge::Writers => 5_000,
            Judge::Crash => 400,
            Judge::Errors => 60,
            Judge::Flips => 30,
            Judge::Tiers => 1,
            Judge::Forks => 300,
            Judge::Transactions => 2_000,
            Judge::Isolation => 2_000,
            Judge::Checkpoints => 400,
            Judge::Slots => 400,
        }
    }
}

/// One case of a judge.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub judge: Judge,
    pub seed: u64,
    pub preset: Preset,
    /// Operations of its workload.
    pub ops: u64,
    /// The case tries every `stride`-th of the things that it can try one by one: operations to fail, bits to flip.
    pub stride: u64,
    /// Prints every operation.
    pub trace: bool,
}

impl Case {
    /// A case of the default size that leaves nothing out.
    pub fn new(judge: Judge, seed: u64, preset: Preset) -> Case {
        Case { judge, seed, preset, ops: judge.usual_ops(), stride: 1, trace: false }
    }

    /// Judges the case. A failure ends with the command that replays it.
    pub fn run(&self) -> Verdict<Tally> {
        let judged = no_panic(|| match self.judge {
            Judge::Model => model::judge(self),
            Judge::Writers => writers::judge(self),
            Judge::Crash => crash::judge(self),
            Judge::Errors => errors::judge(self),
            Judge::Flips => flips::judge(self),
            Judge::Tiers => tiers::judge(self),
            Judge::Forks => forks::judge(self),
            Judge::Transactions => transactions::judge(self),
            Judge::Isolation => isolation::judge(self),
            Judge::Checkpoints => checkpoints::judge(self),
            Judge::Slots => slots::judge(self),
        });
        judged.map_err(|failure| Failure::new(format!("{failure}\n  replay: {self}")))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cargo run -p braidb-sim -- {} --seed {} --preset {} --ops {} --stride {} --cases 1",
            self.judge.name(),
            self.seed,
            self.preset.name(),
            self.ops,
            self.stride
        )
    }
}
