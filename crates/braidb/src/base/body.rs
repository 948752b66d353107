//! Names of values that lie apart from their keys: the file that holds a value, and the place in it. `value/mod.rs` reads them.

use super::ids::FileId;

/// What kind of file a body is. The numbers are part of the formats of tables and manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BodyKind {
    /// A closed commit log.
    Log = 0,
    /// A value file, which flushes and merges write (`value/file.rs`).
    Values = 1,
}

impl BodyKind {
    pub fn from_number(number: u64) -> Option<BodyKind> {
        match number {
            0 => Some(BodyKind::Log),
            1 => Some(BodyKind::Values),
            _ => None,
        }
    }
}

/// A body as an edit names it: the file and its committed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyFile {
    pub kind: BodyKind,
    pub id: FileId,
    /// The exact length of the closed log, its footer included; or of the value file.
    pub bytes: u64,
}

/// Where a value lies in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub offset: u64,
    pub bytes: u32,
    /// Checksum of the content alone: a value keeps it when the value moves.
    pub crc: u32,
}
