//! Memory that reads need beside the blocks: indices, filters, slots, and the directories of kept blocks.
//!
//! The ignored test prints the figures of 50 million keys of 16 + 128 bytes, which take 8 GB of disk:
//!
//! ```text
//! cargo test --release -p braidb --lib memory_of_50_million_keys -- --ignored --nocapture
//! ```

use super::*;
use crate::base::key;
use std::collections::BTreeMap;

const NAMES: [&str; 4] = ["indices", "filters", "slots", "directories"];

/// A key of 16 bytes that lies anywhere.
fn key_of(number: u64) -> [u8; 16] {
    let low = key::hash(&number.to_be_bytes());
    (u128::from(low) << 64 | u128::from(number)).to_be_bytes()
}

/// Loads `keys` keys at random and reads a tenth of them, until the cache is full. Returns bytes of memory in the order of [`NAMES`].
fn memory_of(dir: &Path, keys: u64) -> [usize; 4] {
    let db = Options::new().block_cache_bytes(1 << 30).open(dir).unwrap();
    (0..keys).for_each(|number| db.put(key_of(number), [7; 128]).unwrap());
    db.flush().unwrap();
    db.settle().unwrap();
    (0..keys).step_by(10).for_each(|number| assert!(db.get(key_of(number)).unwrap().is_some()));
    let view = db.engine().unwrap().view().unwrap();
    let mut sum = [0; 4];
    let tables: BTreeMap<_, _> =
        view.families[0].version.slices().map(|slice| (slice.table.id, slice.table.clone())).collect();
    for table in tables.values() {
        let parts = table.reader().unwrap().memory_parts();
        sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    sum
}

fn check(keys: u64, memory: [usize; 4]) {
    for (name, bytes) in NAMES.into_iter().zip(memory) {
        println!("{name}-bytes-a-key {:.2}", bytes as f64 / keys as f64);
        println!("{name}-mb {:.1}", bytes as f64 / 1e6);
    }
    // A filter has 10 bits a key. A block of 4 KiB has 28 entries, one slot of 8 bytes, and one fence.
    let [indices, filters, slots, directories] = memory.map(|bytes| bytes as f64 / keys as f64);
    assert!(filters < 2.0 && slots < 0.5 && indices < 4.0 && directories < 25.0);
}

#[test]
fn reads_take_few_bytes_a_key() {
    let dir = dir("read-memory");
    check(200_000, memory_of(&dir, 200_000));
}

#[test]
#[ignore = "takes minutes and 8 GB of disk; `braidb-lab regress reads-memory`"]
fn memory_of_50_million_keys() {
    let dir = dir("read-memory-50m");
    check(50_000_000, memory_of(&dir, 50_000_000));
}
