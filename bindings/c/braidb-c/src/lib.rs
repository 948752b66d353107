//! The C library of BraidDB: the functions that `bindings/c/include/braidb.h` declares. The header is their documentation.
//!
//! C alone calls the functions here. No module is public, so Rust code cannot reach them. `braidb-ffi` turns panics into errors, and has what
//! both C libraries know of memory. `braidb-bindings` has what all bindings share: options by name, codes of errors, reports.
//!
//! | file | subject |
//! |---|---|
//! | `failure` | errors, as handles |
//! | `guard` | what stands around the body of each function |
//! | `pointers` | slices of bytes, places and buffers for results |
//! | `options` | options by name |
//! | `database` | opening and closing, and what concerns a whole database |
//! | `family`, `snapshot`, `value` | handles with few functions |
//! | `place`, `point` | a family, at a moment or now; reads and writes of single keys |
//! | `batch`, `packed`, `cursor`, `facts`, `ranges`, `tiers`, `salvage` | a group of functions each |
//! | `staged`, `transaction`, `overlay` | writes that wait for their commit |
//!
//! # Why the unsafe code is sound
//!
//! The header makes promises for the caller. A handle is one that the library returned and that was not freed. A pointer with a length
//! leads to that many bytes. One thread at a time uses a batch, a cursor or options. On these promises, a nullable pointer of C to a handle
//! is an `Option<&T>`, an `Option<&mut T>`, or an `Option<Box<T>>` where the call frees the handle. Rust promises that all three have the
//! form of a C pointer, and that `None` is NULL. What remains unsafe lies in `braidb-ffi`, in `pointers`, and in the call of `batch` whose two
//! arguments may be one handle.

#![allow(clippy::too_many_arguments, reason = "a function of C takes all that it needs one by one")]

mod batch;
mod cursor;
mod database;
mod facts;
mod failure;
mod family;
mod guard;
mod library;
mod options;
mod overlay;
mod packed;
mod place;
mod point;
mod pointers;
mod ranges;
mod salvage;
mod snapshot;
mod staged;
mod tiers;
mod transaction;
mod value;

/// What the header promises of threads.
const _: fn() = || {
    fn may_be_shared<T: Send + Sync>() {}
    fn may_move<T: Send>() {}
    may_be_shared::<database::Database>();
    may_be_shared::<family::Family>();
    may_be_shared::<snapshot::Snapshot>();
    may_be_shared::<value::ValueHandle>();
    may_be_shared::<transaction::Transaction>();
    may_be_shared::<overlay::Overlay>();
    may_move::<batch::Batch>();
    may_move::<cursor::Cursor>();
    may_move::<failure::ErrorHandle>();
    may_move::<options::OptionsHandle>();
};
