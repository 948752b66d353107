//! Processor time: a fixed table of the cost, in nanoseconds, of each call at the seam.
//!
//! The numbers are round estimates for a server processor at about 3 GHz with Linux; each comment names the parts. They
//! do not depend on the machine that runs the testbed. Both sides of a comparison use one table, so an error in an entry
//! moves both. The profiles include the cost of the block layer, because their rates were measured by programs.

/// The cost of a system call on an open file with cached pages, without the copy. Entry and exit with the mitigations of Spectre take 100
/// ns and more; the rest is the walk through VFS to the page.
pub const CALL_NS: u64 = 300;
/// The cost of opening a path: a call, some hash lookups of names, an allocation for the descriptor.
pub const OPEN_NS: u64 = 1_500;
/// The cost of creating, changing or removing a name: a path walk, two locked inodes, a journal handle, a change of the directory's block.
pub const NAME_NS: u64 = 5_000;
/// The cost of `fallocate` or `ftruncate`, which change the blocks of a file: as a change of a name, without the path walk.
pub const BLOCKS_NS: u64 = 3_000;
/// The cost of each directory entry that is listed: `getdents64` and the string.
pub const ENTRY_NS: u64 = 100;
/// The cost of a sync, without the device: the search for dirty pages, two context switches.
pub const SYNC_NS: u64 = 5_000;
/// The cost of a page that enters the page cache: it is allocated, put into the file's tree and the LRU list, and later freed.
pub const PAGE_NS: u64 = 150;
/// The cost of making a page of a mapping writable ahead, by `MADV_POPULATE_WRITE`: a page fault without its entry and exit.
pub const POPULATE_NS: u64 = 250;
/// The cost of an append to a log that is a store into a mapping: a lock, the coarse clock, the check of bounds.
pub const STORE_NS: u64 = 20;
/// The cost of starting a job on its thread: a wake-up through a condition variable and a context switch.
pub const JOB_NS: u64 = 5_000;

/// Time of a copy between the program and the page cache: 10 bytes per ns, which one core reaches from the second-level
/// cache on.
pub fn copy_ns(bytes: u64) -> u64 {
    bytes / 10
}

/// The engine's own work in a job: 2 ns for each byte that it writes to a file. A merge or flush of short entries
/// produces about 500 MB/s on one core: decode, compare, encode, filter and checksum.
pub fn job_ns(bytes_appended: u64) -> u64 {
    bytes_appended * 2
}
