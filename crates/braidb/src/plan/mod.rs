//! Policies: pure functions from the shape of the tree to plans. No I/O, clock, dice or locks; the same question has the
//! same answer, and what it needs of the moment (which ranges are claimed, what snapshots can see) is an argument.
//!
//! A [`Plan`] is carried out by the one executor, in `jobs`, which claims its ranges first and builds its edit last.

mod claims;
mod cutter;
pub mod leveled;
#[cfg(test)]
mod simulator;

pub use claims::{Claim, Claims, Ticket};
pub use cutter::Cutter;
pub use leveled::{LeveledOptions, Step};

use crate::base::ids::FamilyId;
use crate::base::key::KeyRange;
use crate::version::{Edit, NewTable, RunId, Slice, Version};
use std::sync::Arc;

/// A slice that a plan takes away from where it is.
#[derive(Clone, Debug)]
pub struct Input {
    pub run: RunId,
    pub slice: Arc<Slice>,
}

/// What a policy wants done.
#[derive(Clone, Debug)]
pub enum Plan {
    Merge(Merge),
    Move(Move),
}

/// Read the inputs, and write what is left of them to `to`. `from` and `to` are one level when a slice is rewritten in
/// place.
#[derive(Clone, Debug)]
pub struct Merge {
    pub family: FamilyId,
    pub from: usize,
    pub to: usize,
    /// Top to bottom, and newest run first.
    pub inputs: Vec<Input>,
    /// A table of the output is cut near this size.
    pub table_bytes: u64,
    /// A table of the output is cut before it overlaps more than this in the level below `to`, so that it can be merged
    /// down cheaply later.
    pub grandparent_bytes: u64,
}

/// Give a slice another level, as metadata; nothing there overlaps it.
#[derive(Clone, Debug)]
pub struct Move {
    pub family: FamilyId,
    pub input: Input,
    pub to: usize,
}

impl Merge {
    /// All keys that may be read or written.
    pub fn range(&self) -> KeyRange {
        KeyRange::hull(self.inputs.iter().map(|input| &input.slice.range)).expect("a merge has inputs")
    }

    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.slice.bytes).sum()
    }

    fn claims(&self) -> Vec<Claim> {
        let sources = self.inputs.iter().filter(|input| input.run.level == self.from);
        let source = KeyRange::hull(sources.map(|input| &input.slice.range)).expect("a merge has sources");
        let claim = |level, range| Claim { family: self.family, level, range };
        if self.from == self.to {
            return vec![claim(self.from, source)];
        }
        vec![claim(self.from, source), claim(self.to, self.range())]
    }

    /// The change that a finished merge makes to `version`, the current one: the commit lock is held.
    pub fn edit(&self, version: &Version, outputs: &[NewTable]) -> Edit {
        let mut edit = Edit::default();
        for Input { run, slice } in &self.inputs {
            edit.remove_slice(self.family, run.clone(), slice);
        }
        for table in outputs {
            edit.add_table(self.family, version.only_run(self.to, &table.range.low), table);
        }
        edit
    }
}

impl Move {
    fn claims(&self) -> Vec<Claim> {
        [self.input.run.level, self.to]
            .map(|level| Claim { family: self.family, level, range: self.input.slice.range.clone() })
            .to_vec()
    }

    /// The change that the move makes to `version`, the current one: the commit lock is held.
    pub fn edit(&self, version: &Version) -> Edit {
        let mut edit = Edit::default();
        let Input { run, slice } = &self.input;
        edit.remove_slice(self.family, run.clone(), slice);
        edit.add_slice(self.family, version.only_run(self.to, &slice.range.low), slice);
        edit
    }
}

impl Plan {
    /// The ranges that nobody else may touch while the plan is carried out; first that of the sources.
    pub fn claims(&self) -> Vec<Claim> {
        match self {
            Plan::Merge(merge) => merge.claims(),
            Plan::Move(moved) => moved.claims(),
        }
    }
}
