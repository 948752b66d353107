//! Access of the command to its machine, apart from the database: files of rows, time, and the limit of open files. `std::fs` and clocks
//! are allowed in this module of the crate alone. A command line works on the real world, so nothing here needs to be replayed from a
//! seed.

pub mod clock;
mod descriptors;
pub mod files;

pub use descriptors::raise_limit;
