//! The native library of the Java package `io.github.braidb`. Its functions are the methods of the class `Native`, which is private to the
//! package. `docs/java.md` introduces the package.
//!
//! | file | subject |
//! |---|---|
//! | `guard` | what stands around each native method |
//! | `failure` | errors as exceptions |
//! | `start` | the first call: the version, and the exception for times of need |
//! | `bytes` | arrays of bytes as arguments and results, and ranges of keys |
//! | `handles` | objects of Rust that objects of Java own |
//! | `home` | a database or one of its families |
//! | `open`, `database`, `facts` | opening and closing; what concerns a whole database; what it tells about itself |
//! | `entries`, `batch` | reads and writes of single keys, and batches |
//! | `cursor`, `scan`, `page` | cursors, and iterators over staged writes, which hand over pages of entries |
//! | `snapshot`, `staged` | snapshots; overlays and transactions |
//!
//! # Bytes across the border
//!
//! Keys, values, texts and paths cross as arrays of bytes, texts in UTF-8. Arrays are copied by `GetByteArrayRegion` and
//! `SetByteArrayRegion`. No method uses a critical region: the engine may wait for a disk, and the JVM would wait with all its threads.

mod batch;
mod bytes;
mod cursor;
mod database;
mod entries;
mod facts;
mod failure;
mod guard;
mod handles;
mod home;
mod open;
mod page;
mod scan;
mod snapshot;
mod staged;
mod start;
