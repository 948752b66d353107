//! What a read at a sequence number sees: entry kinds, cursors and their merge, the snapshot registry, THE rule for dropping
//! versions and tombstones, and gaps, the ranges in which nothing is alive.

pub mod cursor;
pub mod gaps;
pub mod merge;
mod offset_value;
pub mod past_excises;
pub mod rule;
pub mod snapshots;

pub use cursor::{
    Cursor, EntryKind, Fetched, Found, InBody, LazyValue, RawValues, Reach, Together, ValueBody,
};
