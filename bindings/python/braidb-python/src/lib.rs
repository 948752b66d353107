//! The compiled part of the Python package `braidb`: the module `braidb._core`. The stubs in `bindings/python/python/braidb/_core.pyi` are
//! its reference, and `docs/python.md` its page.
//!
//! | file | subject |
//! |---|---|
//! | `errors` | errors of the engine as exceptions |
//! | `bytes` | arguments that are bytes, and bounds of ranges |
//! | `options`, `open` | options by name; opening, verifying and destroying a database by its path |
//! | `held` | a share of an open database |
//! | `place` | where reads go: a database, a family, a snapshot, a transaction |
//! | `reader` | the class `Reader`, on which all classes that read are built |
//! | `store`, `database`, `family` | the classes that also write, and what concerns a whole database |
//! | `snapshot`, `transaction`, `batch`, `cursor`, `walk`, `view` | a class each; `walk` has the iterators |
//! | `blocks` | the end of a `with` block |
//! | `interrupts` | work that Ctrl-C ends |
//! | `objects` | reports as objects of Python |
//!
//! # The interpreter's lock
//!
//! Each call releases the interpreter's lock while the engine works ([`pyo3::Python::detach`]). A lock of this crate is taken and given back
//! within one such release, or without a wait. So no thread waits for the interpreter's lock while it holds a lock of this crate.
//!
//! Interpreters without such a lock may load the module too (`gil_used`): all classes are frozen. What changes has a lock in `Batch`, `Cursor`,
//! `Walk`, `Snapshot` and `Transaction`, and is the engine's otherwise. A `View` never changes.
//!
//! # Forks
//!
//! Each call asks `Opened::check` before it takes a lock: in a forked child, a thread that the child lacks may hold the lock.

mod batch;
mod blocks;
mod bytes;
mod cursor;
mod database;
mod errors;
mod family;
mod held;
mod interrupts;
mod objects;
mod open;
mod options;
mod place;
mod reader;
mod snapshot;
mod store;
mod transaction;
mod view;
mod walk;

use pyo3::prelude::*;

/// The module `braidb._core`.
#[pymodule(name = "_core", gil_used = false)]
mod core_module {
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::cursor::Cursor;
    #[pymodule_export]
    use crate::database::Database;
    #[pymodule_export]
    use crate::family::Family;
    #[pymodule_export]
    use crate::open::{destroy, open, option_names, verify};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::transaction::Transaction;
    #[pymodule_export]
    use crate::view::View;
    #[pymodule_export]
    use crate::walk::Walk;
}
