//! The seams of BraidDB.
//!
//! Everything that makes one run of the engine differ from the next passes through the traits here. They cover files
//! ([`FileSystem`], [`File`]), time ([`Clock`]), chance ([`Random`]) and threads ([`Runtime`]). [`real`] has the real
//! ones. `braidb-sim` has simulated ones, so a test replays a run, with its crashes and errors, from a seed. Clippy
//! forbids the back doors (`std::fs`, `Instant::now`, `thread::spawn`) everywhere else.

pub mod inline;
pub mod real;
mod seams;

pub use seams::*;
