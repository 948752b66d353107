//! A checkpoint of 3 GB beside a writer at full speed: how long it takes, and what the writer notices.

#![allow(
    clippy::disallowed_methods,
    reason = "the writer is a thread beside the engine, and its time is real"
)]

use braidb::Db;
use braidb::storage::{Clock, real::MonotonicClock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROWS: u64 = 3_000_000;
const CHECKPOINTS: usize = 5;
const QUIET: Duration = Duration::from_secs(4);

/// A key that no order of inserts favours.
fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The time in µs that one put in 1,000 exceeds.
fn p99_9_us(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times[times.len() - 1 - times.len() / 1_000]
}

fn median(times: &mut [u64]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e6
}

#[test]
#[ignore = "writes 6 GB; `braidb-lab regress open-checkpoint`"]
fn a_checkpoint_beside_a_writer() {
    let root = std::env::temp_dir().join(format!("braidb-checkpoints-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let db = Db::open(root.join("db")).unwrap();
    let (clock, value) = (MonotonicClock::new(), vec![7; 1_000]);
    for number in 0..ROWS {
        db.put(key(number), &value).unwrap();
    }
    let (is_over, is_checkpoint) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut took_us = Vec::new();
    let mut report = None;
    let [mut quiet, mut beside] = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut times = [Vec::new(), Vec::new()];
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (begun_us, during) = (clock.now_us(), is_checkpoint.load(Ordering::Relaxed));
                db.put(key(number * 7 % ROWS), &value).unwrap();
                times[usize::from(during)].push(clock.now_us() - begun_us);
            }
            times
        });
        for number in 0..CHECKPOINTS {
            let copy = root.join(number.to_string());
            std::thread::sleep(QUIET);
            is_checkpoint.store(true, Ordering::Relaxed);
            let begun_us = clock.now_us();
            report = Some(db.checkpoint(&copy).unwrap());
            took_us.push(clock.now_us() - begun_us);
            is_checkpoint.store(false, Ordering::Relaxed);
            Db::destroy(&copy).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    let report = report.unwrap();
    println!("seconds {:.3}", median(&mut took_us));
    println!(
        "linked-gb {:.2}\ncopied-mb {:.1}",
        report.linked_bytes as f64 / 1e9,
        report.copied_bytes as f64 / 1e6
    );
    println!("puts-beside {}", beside.len());
    println!("quiet-us {}\nbeside-us {}", p99_9_us(&mut quiet), p99_9_us(&mut beside));
    db.close().unwrap();
    std::fs::remove_dir_all(&root).unwrap();
}
