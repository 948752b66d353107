//! The seams of BraidDB.
//!
//! Whatever makes one run of the engine differ from the next passes through one of the four traits here: files
//! ([`FileSystem`], [`File`]), time ([`Clock`]), chance ([`Random`]) and threads ([`Runtime`]). The real ones live in
//! [`real`]; `braidb-sim` has simulated ones, so that a test replays a run, with its crashes and errors, from a seed.
//! Clippy forbids the back doors (`std::fs`, `Instant::now`, `thread::spawn`) everywhere else.

pub mod inline;
pub mod real;
mod seams;

pub use seams::*;
