//! Numbers that identify databases, writes, files, families and tiers. No number is used twice.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Orders all writes; assigned by the commit queue. 0 is before every write.
pub type SeqNo = u64;
/// The largest sequence number. A read at it sees every write.
pub const MAX_SEQ: SeqNo = (1 << 56) - 1;

/// The id of a log, table, value file or manifest. All of them are drawn from one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// The id of a column family. 0 is the default family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(pub u32);

impl FamilyId {
    pub const DEFAULT: FamilyId = FamilyId(0);
}

/// The age of a run in its cell: a larger epoch is newer.
pub type Epoch = u64;

/// The id of a tier. 0 is the fast tier, the database's own directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TierId(pub u8);

impl TierId {
    pub const FAST: TierId = TierId(0);
}

/// Tells a database from all others: 128 random bits, drawn when the database gets its first slow tier. A copy of the directory has the
/// id of the original; epochs tell the two apart (`version/directory/tier_file.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseId(pub [u8; 16]);

/// Hands out file ids.
#[derive(Debug)]
pub struct FileIds(AtomicU64);

impl FileIds {
    /// The next id will be `next`.
    pub fn new(next: FileId) -> FileIds {
        FileIds(AtomicU64::new(next.0))
    }

    /// An id that no file had before.
    pub fn take(&self) -> FileId {
        FileId(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// The id that `take` will give next.
    pub fn next(&self) -> FileId {
        FileId(self.0.load(Ordering::Relaxed))
    }
}
