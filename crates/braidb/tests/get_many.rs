//! `get_many` beside gets, of cached keys of a database that was filled and overwritten in random order.

#![allow(clippy::disallowed_methods, reason = "the time that gets take is real")]

use braidb::storage::{Clock, real::MonotonicClock};
use braidb::{Options, Value};

const KEYS: u64 = 3_000_000;
/// Keys of a call.
const MANY: usize = 32;
/// Keys of a round of each kind.
const READ: u64 = 480_000;
const ROUNDS: u64 = 7;

/// A key in the order of `number`.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A number below [`KEYS`] that follows no order.
fn drawn(number: u64) -> u64 {
    ((u128::from(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(KEYS)) >> 64) as u64
}

/// Thousands of keys a second that `read` reads.
fn rate(read: impl FnOnce() -> usize) -> f64 {
    let clock = MonotonicClock::new();
    let begun_us = clock.now_us();
    assert_eq!(read(), READ as usize, "each key has a value of 128 bytes");
    READ as f64 * 1_000.0 / (clock.now_us() - begun_us) as f64
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[test]
#[ignore = "measures for a minute; `braidb-lab regress open-get-many`"]
fn many_keys_beside_single_ones() {
    let dir = std::env::temp_dir().join(format!("braidb-get-many-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let db = Options::new().block_cache_bytes(1 << 30).open(&dir).unwrap();
    let value = |number: u64| -> Vec<u8> { key(number).iter().cycle().take(128).copied().collect() };
    for number in 0..2 * KEYS {
        let number = if number < KEYS { number * 1_000_003 % KEYS } else { drawn(number) };
        db.put(key(number), value(number)).unwrap();
    }
    db.settle().unwrap();
    let is_there = |got: &Option<Value>| usize::from(got.as_ref().is_some_and(|got| got.len() == 128));
    let keys = |round: u64| (round * READ..(round + 1) * READ).map(|number| key(drawn(number)));
    let (mut single, mut many) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // All keys were read before, by the first round, so that the cache has their blocks.
        let keys: Vec<_> = keys(round % 2).collect();
        let gets = rate(|| keys.iter().map(|key| is_there(&db.get(key).unwrap())).sum());
        let calls = rate(|| {
            keys.chunks(MANY).map(|keys| db.get_many(keys).unwrap().iter().map(is_there).sum::<usize>()).sum()
        });
        if round > 1 {
            single.push(gets);
            many.push(calls);
        }
    }
    println!("single {:.1}\nmany {:.1}", median(single), median(many));
    drop(db);
    std::fs::remove_dir_all(&dir).unwrap();
}
