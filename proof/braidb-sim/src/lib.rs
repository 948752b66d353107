//! The judges of BraidDB: tests that try to make it lose data, from a seed that replays.
//!
//! The base is the simulated file system ([`braidb_storage::sim`]) and the machine over it ([`machine`]). A [`workload`] draws operations
//! and [`draw`] draws option sets. The [`runner`] runs them on the database and the [`model`] together. A [`judge`] decides what else
//! happens to the database: nothing, crashes anywhere, failing storage, flipped bits, planted bugs.

pub mod client;
pub mod draw;
mod env;
pub mod failure;
pub mod golden;
pub mod judge;
pub mod machine;
pub mod model;
pub mod readers;
pub mod report;
pub mod rng;
pub mod runner;
pub mod workload;

pub use env::{env_over, sim_env};

/// The example of README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
