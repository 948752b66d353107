//! BraidDB: an embedded, ordered, persistent key-value store.

mod base;
mod cache;
mod db;
mod jobs;
mod log;
mod memory;
mod plan;
mod read;
mod table;
mod version;
mod visible;
mod write;

pub use base::error::{Error, Result};
pub use base::value::Value;
