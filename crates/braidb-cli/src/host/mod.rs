//! Access of the command to its machine, beside the database: files of rows, time, and figures about its own process. `std::fs` and clocks
//! are allowed in this module of the crate alone. A command line works on the real world, so nothing here needs to be replayed from a seed.

mod descriptors;
pub mod files;

pub use descriptors::raise_limit;

pub use braidb_bench::host::{clock, process};
