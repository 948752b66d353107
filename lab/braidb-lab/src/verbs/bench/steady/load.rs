//! The data of the steady load: sizes, keys and values, and the fill.
//!
//! Each thread owns a quarter of the keys, a queue and a series. Only the owner writes there, so it knows what each of its reads must
//! return. The hot keys of a quarter are spread over it.

use crate::failure::Outcome;
use braidb::{ColumnFamily, Db, WriteBatch};
use braidb_bench::draws::{Noise, mix, write_decimal};
use std::ops::Range;

/// Threads of the load.
pub const THREADS: u64 = 4;
/// Bytes of a value, and of one value in [`LARGE_EVERY`] puts of a key. The engine keeps large values apart from their keys.
pub const VALUE_BYTES: usize = 100;
const LARGE_BYTES: usize = 4 << 10;
pub const LARGE_EVERY: u64 = 95;
/// Writes of a batch of the fill. Larger batches do not make the fill faster.
const FILL_BATCH: u64 = 1_000;

/// How much the load holds.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Keys that the fill writes. The threads write them again, and delete them.
    pub keys: u64,
    /// Rows of each queue.
    pub queue_rows: u64,
    /// When a series has `most_points` points, its thread deletes the `swept_points` oldest ones.
    pub most_points: u64,
    pub swept_points: u64,
    /// Every `snapshot_every` operations the first thread drops a snapshot, which it has held for the last `snapshot_held` operations.
    pub snapshot_every: u64,
    pub snapshot_held: u64,
}

impl Sizes {
    /// The sizes for `rate` operations a second. A snapshot is held for two of three minutes.
    pub fn usual(keys: u64, rate: u64) -> Sizes {
        let minute = (rate * 60).div_ceil(THREADS);
        Sizes {
            keys,
            queue_rows: 10_000,
            most_points: 202_000,
            swept_points: 2_000,
            snapshot_every: 3 * minute,
            snapshot_held: 2 * minute,
        }
    }
}

/// The database under load.
#[derive(Debug)]
pub struct Load {
    pub db: Db,
    pub queue: ColumnFamily,
    pub series: ColumnFamily,
    pub sizes: Sizes,
    pub seed: u64,
    noise: Noise,
}

impl Load {
    /// Takes an empty database.
    pub fn new(db: Db, sizes: Sizes, seed: u64) -> Outcome<Load> {
        let (queue, series) = (db.create_column_family("queue")?, db.create_column_family("series")?);
        Ok(Load { db, queue, series, sizes, seed, noise: Noise::new(seed, LARGE_BYTES) })
    }

    /// Writes every key once, in order, and the rows of the queues. Ends when the engine has settled. `progress` gets the number of keys
    /// that are written.
    pub fn fill(&self, progress: impl Fn(u64)) -> Outcome {
        let mut batch = WriteBatch::new();
        for first in (0..self.sizes.keys).step_by(FILL_BATCH as usize) {
            for number in first..self.sizes.keys.min(first + FILL_BATCH) {
                let value = self.value(number, Written::FILLED).expect("a fill deletes nothing");
                batch.put(key(number), value);
            }
            self.db.write(&mut batch)?;
            progress(first);
        }
        for thread in 0..THREADS {
            for number in 0..self.sizes.queue_rows {
                batch.put_in(&self.queue, row(thread, number), self.row_value(thread, number));
            }
            self.db.write(&mut batch)?;
        }
        Ok(self.db.settle()?)
    }

    /// The numbers of the keys that a thread owns.
    pub fn owned(&self, thread: u64) -> Range<u64> {
        let first = |thread: u64| self.sizes.keys * thread / THREADS;
        first(thread)..first(thread + 1)
    }

    /// The value of a key; `None` if it was deleted.
    pub fn value(&self, number: u64, written: Written) -> Option<&[u8]> {
        let code = u64::from(written.0.checked_sub(1)?);
        let bytes = if code % 2 == 1 { LARGE_BYTES } else { VALUE_BYTES };
        Some(self.noise.version(number, code / 2, bytes))
    }

    /// Whether `value` is one that a thread writes under the key.
    pub fn may_be_value(&self, number: u64, value: &[u8]) -> bool {
        [VALUE_BYTES, LARGE_BYTES].contains(&value.len()) && self.noise.is_version(number, value)
    }

    /// The value of a row of a queue, or of a point of a series.
    pub fn row_value(&self, thread: u64, number: u64) -> &[u8] {
        self.noise.value(mix(number) ^ thread, VALUE_BYTES)
    }
}

/// What was last done with a key: 0 if it was deleted, otherwise 1 + twice the version of its value, and 1 more if the value is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written(u8);

impl Written {
    pub const DELETED: Written = Written(0);
    pub const FILLED: Written = Written(1);

    /// A put. Puts of neighbouring `operation`s have different values.
    pub fn by(operation: u64, is_large: bool) -> Written {
        // `Noise` has eight versions of a value.
        Written(1 + 2 * (operation % 8) as u8 + u8::from(is_large))
    }
}

/// A key: 16 decimal digits.
pub fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    write_decimal(number, &mut key);
    key
}

/// The number of a key; `None` for other bytes.
pub fn number_of(key: &[u8]) -> Option<u64> {
    if key.len() == 16 { std::str::from_utf8(key).ok()?.parse().ok() } else { None }
}

/// The key of a row of a queue, or of a point of a series: 8 decimal digits of the thread, and 16 of the number.
pub fn row(thread: u64, number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    write_decimal(thread, &mut key[..8]);
    write_decimal(number, &mut key[8..]);
    key
}
