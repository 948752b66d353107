//! What a read at a sequence number sees: entry kinds, cursors and their merge, the snapshot registry, and THE rule for dropping
//! versions and tombstones.

pub mod cursor;
pub mod merge;
mod offset_value;
pub mod rule;
pub mod snapshots;

pub use cursor::{
    Cursor, EntryKind, Fetched, Found, InBody, LazyValue, RawValues, Reach, Together, ValueBody,
};
