//! Processor time: a fixed table, in nanoseconds, of what each call at the seam costs.
//!
//! The numbers are round estimates for a server processor at about 3 GHz with Linux; each says what it is made of. They are no
//! measurement of the machine that runs the model. Two runs are compared under one table, so an error in an entry moves both.
//! What a request costs the block layer is in the profiles, whose rates were measured by programs.

/// A system call that finds its file open and its pages cached, without the copy: entry and exit with the mitigations of Spectre
/// on (100 ns and more), and the walk through VFS to the page.
pub const CALL_NS: u64 = 300;
/// A path is walked and a descriptor made: a call, some hash look-ups of names, an allocation.
pub const OPEN_NS: u64 = 1_500;
/// A name is made, changed or removed: a walk, two locked inodes, a handle of the journal, a change of the directory's block.
pub const NAME_NS: u64 = 5_000;
/// The blocks of a file are changed by `fallocate` or `ftruncate`: as for a name, without a walk.
pub const BLOCKS_NS: u64 = 3_000;
/// An entry of a directory is listed: `getdents64` and the string.
pub const ENTRY_NS: u64 = 100;
/// A sync, without the device: the search for dirty pages, two switches of the context.
pub const SYNC_NS: u64 = 5_000;
/// A page comes into the page cache: allocated, put into the file's tree and the LRU list, and later freed.
pub const PAGE_NS: u64 = 150;
/// A page of a mapping is made writable ahead, by `MADV_POPULATE_WRITE`: a fault without its entry and exit.
pub const POPULATE_NS: u64 = 250;
/// An append to a log that is a store: a lock, the coarse clock, the bounds.
pub const STORE_NS: u64 = 20;
/// A job starts on its thread: a wake-up through a condition variable and a switch of the context.
pub const JOB_NS: u64 = 5_000;

/// A copy between the program and the page cache: 10 bytes a nanosecond, which one core reaches from the second-level cache on.
pub fn copy_ns(bytes: u64) -> u64 {
    bytes / 10
}

/// The engine's own work in a job, for each byte that it writes to a file: 2 ns. A merge or flush of short entries produces
/// about 500 MB/s on one core: decode, compare, encode, filter and checksum.
pub fn job_ns(bytes_appended: u64) -> u64 {
    bytes_appended * 2
}
