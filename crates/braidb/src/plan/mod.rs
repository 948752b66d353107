//! Policies: pure functions from a state to a plan. No I/O, clock, dice or locks; the same question has the same answer, and what
//! a policy needs of the moment (which ranges are claimed, what snapshots can see) is an argument.
//!
//! [`memory`] decides what a full memory needs, [`form`] whether a flush leaves values in logs, [`tree`] which tables are merged.

pub mod form;
pub mod memory;
pub mod tree;

pub use tree::{
    Claim, Claims, Cutter, Edge, Garbage, Guards, Input, Join, Merge, Move, Now, Plan, Split, Step, Ticket,
    TreeOptions, Use, full, propose, relieve_l0,
};
