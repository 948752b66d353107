//! Workloads as data, for any ordered store, and what is measured while they run.
//!
//! Nothing here knows BraidDB: `braidb bench` runs the workloads over the engine, `rivals` over other stores, and `scripts/pair` over
//! the engine of any commit. So every store is given the same keys in the same order with the same values.

pub mod draws;
pub mod results;
pub mod store;

pub use store::{Outcome, Store};
