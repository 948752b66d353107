//! Names of values that lie apart from their keys: the file that holds a value, and the place in it. `value/mod.rs` reads them.

use super::ids::FileId;

/// What kind of file a body is. The numbers are part of the formats of tables and manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BodyKind {
    /// A closed commit log.
    Log = 0,
    /// A value file, which one flush or merge writes (`value/file.rs`).
    Values = 1,
    /// A value file to which the jobs of one open append, one after the other: a table of a trie (`jobs/trie.rs`).
    Trie = 2,
}

impl BodyKind {
    pub fn from_number(number: u64) -> Option<BodyKind> {
        match number {
            0 => Some(BodyKind::Log),
            1 => Some(BodyKind::Values),
            2 => Some(BodyKind::Trie),
            _ => None,
        }
    }

    pub fn is_value_file(self) -> bool {
        self != BodyKind::Log
    }
}

/// A body as an edit names it: the file and its committed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyFile {
    pub kind: BodyKind,
    pub id: FileId,
    /// The exact length of the closed log, its footer included; or of the value file. A table that leads into a trie table names the
    /// length that was committed with it, and later tables may name more.
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
