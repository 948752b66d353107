//! Names of values that lie apart from their keys: the file that holds a value, and the place in it. `value/mod.rs` reads them.

use super::ids::{FileId, TierId};

/// What kind of file a body is. The numbers, below 16, are part of the formats of tables and manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BodyKind {
    /// A closed commit log.
    Log = 0,
    /// A value file, which one flush or merge writes (`value/file.rs`).
    Values = 1,
    /// A value file to which several jobs append, one after the other, while the database is open: a table of a trie
    /// (`jobs/trie.rs`).
    Trie = 2,
}

impl BodyKind {
    fn from_number(number: u64) -> Option<BodyKind> {
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

/// A list of bodies stores kind and tier as one number: kind + 16 × tier. The fast tier is 0, so a list of files on it has the bytes
/// that versions without tiers wrote.
const TIER_FACTOR: u64 = 16;

/// A body as an edit names it: the file and its committed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyFile {
    pub kind: BodyKind,
    /// Where the file is. Logs are on the fast tier.
    pub tier: TierId,
    pub id: FileId,
    /// The committed length. For a log this is its exact length, the footer included. A trie table grows: each table with handles
    /// into it names the length that was committed with the table, so later tables may name a larger one.
    pub bytes: u64,
}

impl BodyFile {
    /// The number that stands for kind and tier in a list of bodies.
    pub fn kind_and_tier(&self) -> u64 {
        self.kind as u64 + TIER_FACTOR * u64::from(self.tier.0)
    }

    /// The kind and tier for which `number` stands in a list of bodies. `None` if there is no such kind, or for a log that is not on
    /// the fast tier.
    pub fn of_kind_and_tier(number: u64) -> Option<(BodyKind, TierId)> {
        let kind = BodyKind::from_number(number % TIER_FACTOR)?;
        let tier = TierId(u8::try_from(number / TIER_FACTOR).ok()?);
        (kind.is_value_file() || tier == TierId::FAST).then_some((kind, tier))
    }
}

/// Where a value lies in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub offset: u64,
    pub bytes: u32,
    /// Checksum of the value's bytes, not of their place: it stays valid when the value is copied to another file.
    pub crc: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_and_a_tier_are_one_number() {
        for (kind, tier) in
            [(BodyKind::Log, 0), (BodyKind::Trie, 0), (BodyKind::Values, 1), (BodyKind::Trie, 255)]
        {
            let file = BodyFile { kind, tier: TierId(tier), id: FileId(7), bytes: 9 };
            assert_eq!(BodyFile::of_kind_and_tier(file.kind_and_tier()), Some((kind, file.tier)));
        }
        for bad in [3, 15, 16, 16 + 3, 16 * 256 + 1, u64::MAX] {
            assert_eq!(BodyFile::of_kind_and_tier(bad), None, "{bad}");
        }
        assert_eq!(BodyFile::of_kind_and_tier(2), Some((BodyKind::Trie, TierId::FAST)), "as before tiers");
    }
}
