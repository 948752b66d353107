//! Keys, ranges, codec, checksums, ids, errors and limits, which every other module uses.

pub mod body;
pub mod checksum;
pub mod codec;
pub mod counters;
pub mod durability;
pub mod error;
pub mod foreground;
pub mod holes;
pub mod ids;
pub mod key;
pub mod mutant;
pub mod names;
pub mod part;
pub mod prefetch;
pub mod report;
pub mod sample;
pub mod sync;
pub mod tier_dirs;
pub mod value;
pub mod write_out;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;
/// Largest batch, in encoded bytes.
pub const MAX_BATCH_BYTES: usize = (1 << 31) - 1;
