//! Policies: pure functions from the shape of the tree to plans. No I/O, clock, dice or locks; the same question has the
//! same answer, and what it needs of the moment (which ranges are claimed, what snapshots can see) is an argument.
//!
//! A [`Plan`] is carried out by the one executor, in `jobs`, which claims its ranges first and builds its edit ([`edits`])
//! last, under the lock that commits are made under: the tree may have changed meanwhile wherever the claims allow it.

mod cells;
mod claims;
mod cutter;
pub mod edits;
mod incremental;
mod leveled;
mod options;
pub mod overlap;
#[cfg(test)]
mod simulator;
pub mod sizes;

pub use cells::samples;
pub use claims::{Claim, Claims, Ticket, Use};
pub use cutter::{Cutter, Edge};
pub use options::{Garbage, Guards, Now, TreeOptions};

use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key::KeyRange;
use crate::version::{RunId, Slice, Version};
use std::sync::Arc;

/// The most urgent plan for a family that no running job excludes.
pub fn propose(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Option<Plan> {
    if is_leveled(version, options) {
        return leveled::propose(family, version, claims, now, options);
    }
    cells::propose(family, version, claims, now, options)
}

/// A plan that makes L0 smaller, whether that is due or not.
pub fn relieve_l0(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Option<Plan> {
    if is_leveled(version, options) {
        return leveled::relieve_l0(family, version, claims, options);
    }
    cells::relieve_l0(family, version, claims, now, options)
}

/// The next step towards everything up to `upto` lying in the last level, one run a cell, without tombstones and old versions
/// as far as readers allow. Ends although writing goes on: what is newer than `upto` is left alone, and each step either
/// brings something older down or cleans something for good.
pub fn full(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    upto: SeqNo,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Step {
    if is_leveled(version, options) {
        return leveled::full(family, version, claims, upto, now.watermark, options);
    }
    cells::full(family, version, claims, upto, now, options)
}

/// Whether the options want a leveled tree and the tree is one: other options may have shaped it.
fn is_leveled(version: &Version, options: &TreeOptions) -> bool {
    options.guards == Guards::None
        && options.max_runs[1..].iter().all(|&runs| runs <= 1)
        && version.guards().is_empty()
        && version.levels().skip(1).all(|level| level.runs() <= 1)
}

/// What [`full`] answers.
#[derive(Clone, Debug)]
pub enum Step {
    Do(Plan),
    /// More is to do, but running jobs are in the way.
    Blocked,
    Done,
}

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
    Split(Split),
    Join(Join),
}

/// Read the inputs, and write what is left of them to `to`.
///
/// Where `from` and `to` are one level, the inputs are one or several whole neighbouring runs of one cell, or slices of one
/// run, and the output takes the place of the newest of them. In L0 runs that overlap none of them may lie between. Else
/// the inputs may include slices of `to`, and must include all that overlap if the plan owns its range there; what it does
/// not own, it puts on top.
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
    pub claims: Vec<Claim>,
}

/// Give slices another place, as metadata: the next level, where whatever overlaps them is older; or the run `into` of their
/// own cell, which they do not overlap, nor any run between the two.
#[derive(Clone, Debug)]
pub struct Move {
    pub family: FamilyId,
    /// Of one run.
    pub inputs: Vec<Input>,
    pub to: usize,
    pub into: Option<RunId>,
    pub claims: Vec<Claim>,
}

/// Make two cells of one, as metadata: `guard` stands on `level` from now on. It stands on the next level already, unless
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

/// Make one cell of two, as metadata: `guard` stands on `level` no more, where it is the guard's top level. With
/// `everywhere` it goes from the deeper levels too, where nothing lies.
#[derive(Clone, Debug)]
pub struct Join {
    pub family: FamilyId,
    pub level: usize,
    pub guard: Vec<u8>,
    pub everywhere: bool,
    pub claims: Vec<Claim>,
}

impl Merge {
    /// All keys that may be read or written.
    pub fn range(&self) -> KeyRange {
        KeyRange::hull(self.inputs.iter().map(|input| &input.slice.range)).expect("a merge has inputs")
    }

    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.slice.bytes).sum()
    }
}

impl Plan {
    /// The ranges that the plan touches; first that of the sources.
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
