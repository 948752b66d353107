//! The memory component: what was written and not yet flushed.
//!
//! ```text
//!  Memory ──► active segment ◄── SegmentWriter (the commit queue owns it; there is only one)
//!        ├──► pipeline: immutable segments, newest first, which are flattened and merged
//!        └──► flushing set ──► a flush reads it, then drops it
//! ```
//!
//! A [`Segment`] is a skiplist: one node for each user key, and in each node a chain of the key's versions, newest first.
//! Updating a hot key is a look-up and one pointer. Readers take no lock and never wait. An [`Immutable`] segment has no writer.
//! It is such a list, or a [`Flat`] array of references to the list's records, or to copies. A segment that is one of many has a
//! Bloom filter, so that a get searches only segments that may hold its key. [`Memory`] is an immutable value that a view holds;
//! changing the memory component means building another one.
//!
//! All `unsafe` lives in `arena`, `node`, and the few lines of `skiplist`, `segment`, `cursor`, `flat`, `immutable` and `separate` that
//! call them. The proof, in short; each block says which part it uses:
//!
//! 1. *Nothing moves, nothing is freed early.* The arena hands out memory in chunks that stay where they are until the arena drops. The
//!    arena of a list's nodes drops with its segment. The arena of its versions is shared by the segment and the flat segments that
//!    refer to its records, and drops with the last of them. Every holder of a pointer into an arena also holds, or borrows from, such
//!    an owner. `Ref<'a, _>` borrows it; cursors and pinned values own a share.
//! 2. *Initialised before published.* A node or a version is written whole, its links included, before a `Release`
//!    store puts its address into a link. Readers get addresses only through `Acquire` loads of links, so they see
//!    all of it. After that only its links change, and links are atomic.
//! 3. *One writer.* Links are stored to only by `SkipList::insert`, which runs only for the segment's one
//!    `SegmentWriter` (not `Clone`, `&mut self`). A read-modify-write of a link therefore needs no compare-and-swap:
//!    nothing can change between reading the successor and storing the new node in front of it.
//! 4. *Nothing goes away.* A link changes only by inserting one more node or version in front of its target. So a reader with an
//!    older copy of a link only misses newer insertions. It sees every insertion before the publication of the sequence number
//!    that it read. Newer versions are filtered by number.

mod arena;
mod cursor;
mod filter;
mod flat;
mod immutable;
#[cfg(all(test, loom))]
mod interleavings;
mod logs_by_seq;
mod node;
mod pipeline;
mod segment;
mod separate;
mod skiplist;
mod sorted;
mod survivors;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod view;

pub use cursor::SegmentCursor;
pub use flat::Flat;
pub use immutable::{Immutable, ImmutableCursor, Merged, Records, merge};
pub use logs_by_seq::{Live, LogsBySeq, count_live};
pub use pipeline::Memory;
pub use segment::{Segment, SegmentWriter};
pub use separate::{Separated, Written, count_updates, separate};
pub use survivors::Survivors;
