//! Policies: pure functions from a state to a plan. Policies use no I/O, clock, random numbers or locks; equal inputs give
//! equal answers. The moment (which ranges are claimed, what snapshots can see) is an argument.
//!
//! [`memory`] decides what full memory needs. [`form`] decides whether a flush leaves values in logs, [`values`] which values lie in
//! value files, and [`tree`] which tables are merged.

pub mod form;
pub mod memory;
pub mod tree;
pub mod values;

pub use tree::{
    Claim, Claims, Cutter, Edge, Garbage, Guards, Input, Join, Merge, Met, Move, Now, Picker, Plan, Split,
    Step, Ticket, TreeOptions, Use,
};
