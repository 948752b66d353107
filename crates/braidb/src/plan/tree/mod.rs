//! Policies: pure functions from the shape of the tree to plans. Policies use no I/O, clock, random numbers or locks; equal
//! inputs give equal answers. The moment (which ranges are claimed, what snapshots can see) is an argument.
//!
//! One executor, in `jobs`, carries out each [`Plan`]. It claims the plan's ranges first. It builds the edit ([`edits`]) last,
//! under the lock that commits are made under, because the tree may have changed wherever the claims allow it.

mod cells;
mod claims;
mod cutter;
pub mod edits;
pub mod excise;
mod incremental;
mod options;
pub mod placement;
#[cfg(test)]
mod simulator;
pub mod sizes;

pub use cells::{Met, Picker, samples, space_of};
pub use claims::{Claim, Claims, Ticket, Use};
pub use cutter::{Cutter, Edge};
pub use options::{Garbage, Guards, MoveTimes, Now, Tiers, TreeOptions};
pub use placement::Placement;

use crate::base::ids::FamilyId;
use crate::base::key::KeyRange;
use crate::table::Reason;
use crate::version::{RunId, Slice};
use std::sync::Arc;

/// What [`Picker::compact`] answers.
#[derive(Clone, Debug)]
pub enum Step {
    Do(Plan),
    /// Running jobs are in the way of the next step.
    Blocked,
    Done,
}

/// A slice that a plan removes from its run.
#[derive(Clone, Debug)]
pub struct Input {
    pub run: RunId,
    pub slice: Arc<Slice>,
}

/// A change of the tree that a policy wants.
#[derive(Clone, Debug)]
pub enum Plan {
    Merge(Merge),
    Move(Move),
    Split(Split),
    Join(Join),
}

/// Reads the inputs, and writes the surviving entries to `to`.
///
/// Where `from` and `to` are one level, the inputs are whole neighbouring runs of one cell, or slices of one run. The output
/// takes the place of the newest input.
///
/// Where the levels differ, the inputs may include slices of the newest runs of cells of `to`, in ranges that the plan owns. Output goes to
/// the oldest run that it can join ([`edits`]), else on top.
#[derive(Clone, Debug)]
pub struct Merge {
    pub family: FamilyId,
    pub from: usize,
    pub to: usize,
    /// Top to bottom, and newest run first.
    pub inputs: Vec<Input>,
    /// A table of the output is cut near this size.
    pub table_bytes: u64,
    /// Whether all values in value files are written anew, in key order.
    pub gathers: bool,
    /// The tiers that take the output.
    pub placement: Placement,
    /// Why the merge is made.
    pub reason: Reason,
    pub claims: Vec<Claim>,
}

/// Gives slices another place, as metadata. The place is the next level, where all slices that overlap them are older. Or it is
/// the run `into` of their own cell: neither `into` nor any run between the two overlaps them.
#[derive(Clone, Debug)]
pub struct Move {
    pub family: FamilyId,
    /// Slices of one run.
    pub inputs: Vec<Input>,
    pub to: usize,
    pub into: Option<RunId>,
    pub claims: Vec<Claim>,
}

/// Cuts one cell in two, as metadata: `guard` stands on `level` from now on. It stands on the next level already, unless
/// nothing lies there and deeper.
#[derive(Clone, Debug)]
pub struct Split {
    pub family: FamilyId,
    pub level: usize,
    /// A key inside of the cell; `None` lets the executor look for one in the middle of its bytes.
    pub guard: Option<Vec<u8>>,
    /// The low key of the cell.
    pub cell: Vec<u8>,
    pub claims: Vec<Claim>,
}

/// Joins two cells, as metadata: `guard` no longer stands on `level`, its top level. With `everywhere` it also goes from the
/// deeper levels, where nothing lies.
#[derive(Clone, Debug)]
pub struct Join {
    pub family: FamilyId,
    pub level: usize,
    pub guard: Vec<u8>,
    pub everywhere: bool,
    pub claims: Vec<Claim>,
}

impl Merge {
    /// Whether the merge moves a cell to another tier.
    pub fn changes_tier(&self) -> bool {
        self.placement != Placement::OfCells
    }

    /// All keys that may be read or written.
    pub fn range(&self) -> KeyRange {
        KeyRange::hull(self.inputs.iter().map(|input| &input.slice.range)).expect("a merge has inputs")
    }

    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.slice.bytes).sum()
    }
}

impl Plan {
    /// The ranges that the plan touches, the range of the sources first.
    pub fn claims(&self) -> &[Claim] {
        match self {
            Plan::Merge(merge) => &merge.claims,
            Plan::Move(moved) => &moved.claims,
            Plan::Split(split) => &split.claims,
            Plan::Join(join) => &join.claims,
        }
    }

    pub fn family(&self) -> FamilyId {
        match self {
            Plan::Merge(merge) => merge.family,
            Plan::Move(moved) => moved.family,
            Plan::Split(split) => split.family,
            Plan::Join(join) => join.family,
        }
    }
}
