//! The judges of BraidDB: what tries to make it lose data, from a seed that replays.
//!
//! Underneath lie the simulated file system ([`fs`]) and the machine over it ([`machine`]). A [`workload`] draws operations
//! and a [`draw`] option sets; the [`runner`] runs them on the database and the [`model`] together. The [`judge`]s decide
//! what to do to the database meanwhile: nothing, crash it anywhere, fail its storage, flip its bits, plant bugs in it.

pub mod client;
pub mod draw;
mod env;
pub mod failure;
pub mod fs;
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
