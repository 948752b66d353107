//! Tables: files of sorted entries, written once, then only read.
//!
//! "A table is a sorted index over bodies": an entry holds its value inline, or a handle to where it lies in another file, a
//! commit log (`value/mod.rs`). The layout, version 1:
//!
//! ```text
//! ┌──────────────┬───┬──────────────┬────────┬────────────┬───────┬────────┐
//! │ data block 0 │ … │ data block n │ filter │ properties │ index │ footer │
//! └──────────────┴───┴──────────────┴────────┴────────────┴───────┴────────┘
//! ```
//!
//! Nothing lies between the parts. Each but the footer is a *section*, a payload with a trailer of 5 bytes that holds a
//! type and a checksum over content and place ([`section`]); the footer has its own ([`tail`]). So every byte of the file
//! is covered. The parts describe themselves: [`block`], [`filter`], [`properties`], [`index`].
//!
//! Opening reads the tail and keeps filter and index in memory; the file itself may be closed between reads
//! (`cache/open_files.rs`). A get asks the filter, searches the index and reads one block (the next one too if the versions
//! of its key go on there). Blocks are lent by the cache; values are pinned in them.

mod block;
mod builder;
mod cursor;
mod cut;
mod filter;
mod holes;
mod index;
mod properties;
mod reader;
mod section;
mod tail;
#[cfg(test)]
mod tests;
mod verify;

pub use builder::TableBuilder;
pub use cursor::TableCursor;
pub use filter::{Filter, bits as filter_bits, line_of as filter_line};
pub use reader::Table;
pub use verify::{Expected, verify};

/// How a table is written. Readers find what they need in the file.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// A block is closed before it grows over this, trailer not counted. One that holds a single entry may be larger.
    pub block_bytes: usize,
    /// Size of the Bloom filter; 0 for none.
    pub filter_bits_per_key: u32,
    /// Whether the table carries a sketch of its keys.
    pub has_sketch: bool,
    /// Whether it carries a sample of them.
    pub has_sample: bool,
}
