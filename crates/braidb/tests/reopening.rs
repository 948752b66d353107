//! The cost of opening after the process died and after a clean close: seconds, processor time, and bytes written as the kernel counts
//! them.
//!
//! `scripts/root/faults reopen` runs each test in a process of its own, here and at an older commit, to which it copies this file.
//! The file therefore uses only the public interface of the older commit.
#![allow(clippy::disallowed_methods, reason = "these tests ask the real clock and the kernel's counts")]

use braidb::{Db, Options};
use std::path::PathBuf;
use std::time::Instant;

/// Environment variable: the directory of the database.
const DIR: &str = "BRAIDB_REOPENED_DIR";
/// Environment variable: `die` or `close`, the way in which the process ends while it has the database open.
const THEN: &str = "BRAIDB_THEN";
const LOG_BYTES: u64 = 256 << 20;
const VALUE_BYTES: usize = 128;

/// Opens with memory that holds all records of the logs, so that every log stays.
fn open() -> Db {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("run scripts/root/faults reopen"));
    Options::new().memtable_bytes(512 << 20).tuning(|tuning| tuning.log_bytes(2 << 30)).open(dir).unwrap()
}

fn end(db: &Db) {
    match std::env::var(THEN).as_deref() {
        Ok("die") => std::process::abort(),
        Ok("close") => db.close().unwrap(),
        other => panic!("{THEN} is {other:?}, not `die` or `close`"),
    }
}

/// A count of this process in `/proc/self/io`.
fn count(name: &str) -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.expect("the kernel counts it").parse().unwrap()
}

/// Processor seconds of this process, over all threads. The kernel counts hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_the_name = stat.rsplit(')').next().unwrap();
    let ticks =
        behind_the_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap());
    ticks.sum::<f64>() / 100.0
}

#[test]
#[ignore = "one side of a comparison with an older commit: scripts/root/faults reopen runs it"]
fn writes() {
    let db = open();
    let mut number: u64 = 0;
    while db.stats().counts.log_bytes < LOG_BYTES {
        for _ in 0..10_000 {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            db.put((u128::from(key) << 64 | u128::from(number)).to_be_bytes(), [key as u8; VALUE_BYTES])
                .unwrap();
            number += 1;
        }
    }
    println!("writes {number}");
    end(&db);
}

#[test]
#[ignore = "one side of a comparison with an older commit: scripts/root/faults reopen runs it"]
fn opens() {
    let (called, dirtied) = (count("wchar"), count("write_bytes"));
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let db = open();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    // Stores into a mapping are no calls, and a device in memory counts no written bytes.
    let (called, dirtied) = (count("wchar") - called, count("write_bytes") - dirtied);
    let report = db.recovery();
    println!("figure: {seconds:.3} {cpu:.2} {called} {dirtied} {} {}", report.logs, report.entries);
    end(&db);
}
