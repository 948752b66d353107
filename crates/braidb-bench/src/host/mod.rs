//! What a benchmark takes from the machine that it runs on: time, figures about its own process, and what a directory takes.
//! The only home of `std::fs` and of clocks in this crate: nothing here needs to be replayed from a seed.

pub mod clock;
pub mod files;
pub mod machine;
pub mod process;
