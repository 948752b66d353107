//! An excise of nine tenths of 2 GB: how long it takes until the device has the space back, and what part of the data is read for it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the time is real, and the space is that of real files"
)]

use braidb::Db;
use braidb::storage::{Clock, real::MonotonicClock};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Bytes of keys and values.
const DATA_BYTES: u64 = 2_000_000_000;
const KEY_BYTES: u64 = 16;
/// Ranges that are excised at once. Each has nine tenths of its part of the keys.
const RANGES: u64 = 16;
/// What of the space may be left: a tenth of the data, and what is dead in it.
const MOST_LEFT: f64 = 0.15;
/// How long the test waits for the space.
const PATIENCE_US: u64 = 120_000_000;

/// A key that no order of inserts favours. Keys are spread evenly over all first eight bytes.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Bytes that the files of a directory take on the device.
fn space(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    // A file that is deleted meanwhile takes no space.
    files.filter_map(|path| fs::metadata(path).ok()).map(|metadata| 512 * metadata.blocks()).sum()
}

/// Bytes that this process has read by system calls.
fn read_bytes() -> u64 {
    let counts = fs::read_to_string("/proc/self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

/// Prints the figures for values of this size, which are named by it.
fn excise_most(dir: &Path, value_bytes: u64) {
    let _ = fs::remove_dir_all(dir);
    let db = Db::open(dir).unwrap();
    let rows = DATA_BYTES / (KEY_BYTES + value_bytes);
    // Bytes that no compression of a file system shortens.
    let mut value: Vec<u8> = (0..value_bytes / 8 + 1).flat_map(key).take(value_bytes as usize).collect();
    for number in 0..rows {
        value[..8].copy_from_slice(&number.to_be_bytes());
        db.put(key(number), &value).unwrap();
    }
    db.settle().unwrap();
    let part = u64::MAX / RANGES;
    let ranges = (0..RANGES).map(|index| {
        let low = index * part;
        low.to_be_bytes()..(low + part / 10 * 9).to_be_bytes()
    });
    let (clock, before) = (MonotonicClock::new(), space(dir));
    let (begun_us, read_before) = (clock.now_us(), read_bytes());
    db.excise(ranges).unwrap();
    let returned_us = clock.now_us() - begun_us;
    let mut left = space(dir);
    while left as f64 > MOST_LEFT * before as f64 && clock.now_us() - begun_us < PATIENCE_US {
        std::thread::sleep(Duration::from_millis(20));
        left = space(dir);
    }
    let took_us = clock.now_us() - begun_us;
    let read = read_bytes() - read_before;
    println!("call-seconds-{value_bytes} {:.3}", returned_us as f64 / 1e6);
    println!("seconds-{value_bytes} {:.3}", took_us as f64 / 1e6);
    println!("left-{value_bytes} {:.3}", left as f64 / before as f64);
    println!("read-{value_bytes} {:.5}", read as f64 / before as f64);
    let kept = db.iter().count() as f64;
    assert!((kept / rows as f64 - 0.1).abs() < 0.01, "{kept} of {rows} entries are left");
    db.close().unwrap();
    fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "writes 8 GB; `braidb-lab regress bridges-excise`"]
fn most_of_the_data_is_excised() {
    let dir = std::env::temp_dir().join(format!("braidb-excise-{}", std::process::id()));
    excise_most(&dir, 128);
    excise_most(&dir, 4_096);
}
