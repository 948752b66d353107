//! Installs the library as a user would, compiles the programs below `bindings/c/tests/leveldb` against it, and runs them. Compares the
//! functions of the library with those of the header.
//!
//! Without a compiler for C or C++ its tests pass and print what they leave out. If the environment variable `BRAIDB_REQUIRE` has the word
//! `c`, they fail.
#![allow(clippy::disallowed_methods, reason = "reads sources, and starts compilers and programs")]

#[path = "../../../tests/support/interface.rs"]
mod interface;
mod lists;
mod programs;
mod signatures;
#[path = "../../../tests/support/tools.rs"]
mod tools;

/// The library that is tested.
const LIBRARY: tools::Library = tools::Library {
    package: "braidb-leveldb",
    name: "braidb_leveldb",
    file: "libbraidb_leveldb.so.1",
    headers: "include/braidb-leveldb",
    header: "leveldb/c.h",
    marker: "BRAIDB_LEVELDB_API",
};
