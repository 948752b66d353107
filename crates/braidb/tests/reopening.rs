//! What opening costs after a death and after a clean close: seconds, processor time, and bytes written as the kernel counts them.
//!
//! `scripts/accept/faults reopen` runs each of these in a process of its own, here and at an older commit, to which it copies this
//! file. So it uses nothing but the public interface of that commit.
#![allow(clippy::disallowed_methods, reason = "these tests ask the real clock and the kernel's counts")]

use braidb::{Db, Options};
use std::path::PathBuf;
use std::time::Instant;

/// Names the directory of the database.
const DIR: &str = "BRAIDB_REOPENED_DIR";
/// `die`, or `close`: how the process ends that has the database open.
const THEN: &str = "BRAIDB_THEN";
const LOG_BYTES: u64 = 256 << 20;
const VALUE_BYTES: usize = 128;

/// All of the logs stay: memory holds what is in them.
fn open() -> Db {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("run scripts/accept/faults reopen"));
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

/// Processor time of this process, over all threads; the kernel counts it in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_the_name = stat.rsplit(')').next().unwrap();
    let ticks =
        behind_the_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap());
    ticks.sum::<f64>() / 100.0
}

#[test]
#[ignore = "one side of a comparison with an older commit: scripts/accept/faults reopen runs it"]
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
#[ignore = "one side of a comparison with an older commit: scripts/accept/faults reopen runs it"]
fn opens() {
    let (called, dirtied) = (count("wchar"), count("write_bytes"));
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let db = open();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    // Stores into a mapping are no calls; where the device is memory, nothing is written to it.
    let (called, dirtied) = (count("wchar") - called, count("write_bytes") - dirtied);
    let report = db.recovery();
    println!("figure: {seconds:.3} {cpu:.2} {called} {dirtied} {} {}", report.logs, report.entries);
    end(&db);
}
