//! What a read at a sequence number sees: entry kinds, cursors, the snapshot registry, and THE rule for dropping versions
//! and tombstones.

pub mod cursor;
pub mod rule;
pub mod snapshots;

pub use cursor::{Cursor, EntryKind, Found};
