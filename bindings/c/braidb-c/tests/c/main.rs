//! Installs the library as a user would, compiles the programs below `bindings/c` against it, and runs them. Compares the lists
//! that the library has of functions, codes and options with the header and with the engine.
//!
//! Without a compiler for C or C++ its tests pass and print what they leave out. If the environment variable `BRAIDB_REQUIRE` has the word
//! `c`, they fail.
#![allow(clippy::disallowed_methods, reason = "reads sources, and starts compilers and programs")]

mod installation;
#[path = "../../../tests/support/interface.rs"]
mod interface;
mod lists;
mod programs;
mod signatures;
#[path = "../../../tests/support/tools.rs"]
mod tools;

/// The library that is tested.
const LIBRARY: tools::Library = tools::Library {
    package: "braidb",
    name: "braidb",
    file: "libbraidb.so.0",
    headers: "include",
    header: "braidb.h",
    marker: "BRAIDB_API",
};
