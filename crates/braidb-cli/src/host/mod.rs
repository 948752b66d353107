//! What the command takes from the machine that it runs on, beside the database: files of rows, time, and figures
//! about its own process. The only home of `std::fs` and of clocks in this crate: a command line is where the world
//! comes in, so nothing here needs to be replayed from a seed.

pub mod files;

pub use braidb_bench::host::{clock, process};
