//! What the command `braidb` and the laboratory's `braidb-lab` share: opening a database, texts of keys and values, figures, progress,
//! files, and failures with their exit statuses.
//!
//! This library is for these two programs alone. It has no stable API: any version may change all of it.

#![allow(missing_debug_implementations, reason = "no type of this library is part of an API")]

pub mod failure;
pub mod figures;
pub mod host;
pub mod hot_keys;
pub mod progress;
pub mod store;
pub mod text;
