//! Tables: files of sorted entries, written once, then only read.
//!
//! "A table is a sorted index over bodies". An entry holds its value inline, or a handle to a value in another file, a
//! commit log (`value/mod.rs`). The layout, version 1:
//!
//! ```text
//! ┌──────────────┬───┬──────────────┬────────┬────────────┬───────┬────────┐
//! │ data block 0 │ … │ data block n │ filter │ properties │ index │ footer │
//! └──────────────┴───┴──────────────┴────────┴────────────┴───────┴────────┘
//! ```
//!
//! Nothing lies between the parts. Each part except the footer is a *section*: a payload and a trailer of 5 bytes. The
//! trailer holds a type and a checksum over content and place ([`section`]). The footer has its own checksum
//! ([`tail`]). So checksums cover every byte of the file. The layouts of the parts: [`block`], [`filter`],
//! [`properties`], [`index`].
//!
//! Opening a table reads the tail and keeps filter and index in memory; the file may be closed between reads
//! (`cache/open_files.rs`). A get asks the filter, searches the index and reads one block. If the versions of its key
//! go on in the next block, the get reads this block too. Blocks are shared with the cache; values are pinned in them. A block that is
//! searched twice gets a [`directory`] of its keys in memory.

mod block;
mod builder;
mod cursor;
mod cut;
mod directory;
mod filter;
mod holes;
mod index;
mod prefixes;
mod properties;
mod reader;
mod reason;
mod section;
mod tail;
#[cfg(test)]
mod tests;
mod verify;

pub use builder::{TableBuilder, UnsyncedTable};
pub use cursor::{Buffers, TableCursor};
pub use filter::{Filter, bits as filter_bits, line_of as filter_line};
pub use reader::Table;
pub use reason::Reason;
pub use verify::{Expected, verify};

/// How a table is written. Readers find their settings in the file.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Largest size of a block in bytes, without the trailer. Only a block with a single entry may be larger.
    pub block_bytes: usize,
    /// Bits of the Bloom filter per key; 0 for no filter.
    pub filter_bits_per_key: u32,
    /// Whether the table carries a sample of its keys.
    pub has_sample: bool,
}
