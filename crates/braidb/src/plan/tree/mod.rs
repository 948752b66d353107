//! Policies: pure functions from the shape of the tree to plans. Policies use no I/O, clock, random numbers or locks; equal
//! inputs give equal answers. The moment (which ranges are claimed, what snapshots can see) is an argument.
//!
//! One executor, in `jobs`, carries out each [`Plan`]. It claims the plan's ranges first. It builds the edit ([`edits`]) last,
//! under the lock that commits are made under, because the tree may have changed wherever the claims allow it.

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

/// The most urgent plan for a family that the claims of running jobs allow.
pub fn propose(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Option<Plan> {
    if options.is_leveled(version) {
        return leveled::propose(family, version, claims, now, options);
    }
    cells::propose(family, version, claims, now, options)
}

/// A plan that makes L0 smaller, whether it is due or not.
pub fn relieve_l0(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Option<Plan> {
    if options.is_leveled(version) {
        return leveled::relieve_l0(family, version, claims, options);
    }
    cells::relieve_l0(family, version, claims, now, options)
}

/// Bytes of values in value files that newer versions hide, by estimate, as far as no snapshot holds them. Of a thousand newer entries
/// `permille` hid an older one lately. In a leveled tree no estimate is made: its merges do not measure the share.
pub fn hidden_value_bytes(version: &Version, permille: u64, watermark: SeqNo, options: &TreeOptions) -> u64 {
    if options.is_leveled(version) { 0 } else { cells::hidden_value_bytes(version, permille, watermark) }
}

/// The next step of a manual compaction. In the end all records up to `upto` lie in the last level, one run a cell. Tombstones
/// and old versions are gone as far as readers allow. The steps end although writing goes on. Records newer than `upto` are
/// left alone, and each step brings older records down or cleans for good.
pub fn full(
    family: FamilyId,
    version: &Version,
    claims: &Claims,
    upto: SeqNo,
    now: &Now<'_>,
    options: &TreeOptions,
) -> Step {
    if options.is_leveled(version) {
        return leveled::full(family, version, claims, upto, now.watermark, options);
    }
    cells::full(family, version, claims, upto, now, options)
}

/// What [`full`] answers.
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
/// takes the place of the newest input. In L0, no run between the inputs may overlap them.
///
/// Where the levels differ, the inputs may include slices of `to`. If the plan owns its range of `to`, they must include all
/// slices that overlap. Output in a range that the plan does not own goes on top.
#[derive(Clone, Debug)]
pub struct Merge {
    pub family: FamilyId,
    pub from: usize,
    pub to: usize,
    /// Top to bottom, and newest run first.
    pub inputs: Vec<Input>,
    /// A table of the output is cut near this size.
    pub table_bytes: u64,
    /// A table of the output is cut before it overlaps more than this many bytes in the level below `to`. So it can be merged
    /// down cheaply later.
    pub grandparent_bytes: u64,
    /// Whether all values in value files are written anew, in key order.
    pub gathers: bool,
    /// Whether the merge was bought by what readers paid in vain.
    pub is_bought: bool,
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
