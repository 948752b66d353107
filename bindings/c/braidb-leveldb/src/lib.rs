//! LevelDB's C interface over BraidDB: the functions that `bindings/c/include/leveldb/c.h` declares. The header is their documentation, and
//! docs/c.md tells how they differ from LevelDB's.
//!
//! C alone calls the functions here. No module is public, so Rust code cannot reach them.
//!
//! | file | subject |
//! |---|---|
//! | `failure` | errors, which are texts that begin with LevelDB's words |
//! | `arguments` | bytes that C passes |
//! | `options`, `call_options` | options of an open, and of a read or write |
//! | `comparator`, `filter_policy`, `callers` | objects that have callbacks of the caller |
//! | `database`, `point` | opening, closing, deleting and repairing a database; reads and writes of single keys |
//! | `batch`, `iterator`, `snapshot` | a handle each |
//! | `facts` | properties, sizes of ranges, and compaction |
//! | `library` | the cache, the environment, memory, and versions |
//!
//! # Why the unsafe code is sound
//!
//! The header makes promises for the caller. A handle is one that the library returned and that was not destroyed. A pointer with a length
//! leads to that many bytes. One thread at a time changes a batch, an iterator or options. On these promises, a nullable pointer of C to a
//! handle is an `Option<&T>`, an `Option<&mut T>`, or an `Option<Box<T>>` where the call destroys the handle. Rust promises that all three have
//! the form of a C pointer, and that `None` is NULL. What remains unsafe lies in `braidb-ffi`, and in the call of `batch` whose two arguments may
//! be one handle.

#![allow(clippy::too_many_arguments, reason = "a function of C takes all that it needs one by one")]

mod arguments;
mod batch;
mod call_options;
mod callers;
mod comparator;
mod database;
mod facts;
mod failure;
mod filter_policy;
mod iterator;
mod library;
mod options;
mod point;
mod snapshot;

/// What the header promises of threads.
const _: fn() = || {
    fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<database::Database>();
    may_be_shared::<snapshot::Snapshot>();
    may_be_shared::<batch::Batch>();
    may_be_shared::<options::OptionsHandle>();
    may_be_shared::<call_options::ReadOptions>();
    may_be_shared::<call_options::WriteOptions>();
};
