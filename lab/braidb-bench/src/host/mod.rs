//! Access of a benchmark to its machine: time, figures about its own process, and the space of a directory. `std::fs` and clocks are
//! allowed in this module of the crate alone, because nothing in this module needs to be replayed from a seed.

pub mod clock;
pub mod files;
pub mod machine;
pub mod process;
