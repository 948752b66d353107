//! What the two C libraries share: the guard against panics, and memory as C has it. The native library of the Java package uses the guard.
//!
//! The crate exports no function to C. A library that took these parts from the crate of another library would export the functions of both.

#[cfg(panic = "abort")]
compile_error!("the libraries turn panics into errors, so they need `panic = \"unwind\"`");

pub mod memory;
pub mod panics;
