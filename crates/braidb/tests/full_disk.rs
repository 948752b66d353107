//! A real device that is full, or that fails. The log is stored into a mapping there, and any fault must be an error and never a
//! signal.
//!
//! `cargo test` mounts a small tmpfs for itself where it may. `scripts/root/full-disk` runs the tests on other file systems, and
//! breaks one under a database.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests work on real files")]

use braidb::{Db, Error, Options};
use braidb_storage::FileSystem;
use braidb_storage::real::RealFs;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Environment variable: a directory on a small device that only this test uses.
const DEVICE: &str = "BRAIDB_SMALL_DEVICE";
/// Environment variable: a shell command that makes the device fail for good.
const BREAK: &str = "BRAIDB_BREAK_DEVICE";

/// Runs the tests on a small device in a process of their own, which alone sees the mount.
#[test]
fn on_a_small_tmpfs() {
    let dir = std::env::temp_dir().join(format!("braidb-full-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let unshare = |more: &[&str], script: &str| {
        let mut command = Command::new("unshare");
        command.args(more).args(["--mount", "sh", "-ec", script]);
        command.env(DEVICE, &dir).env("SELF", std::env::current_exe().unwrap());
        command.status().is_ok_and(|status| status.success())
    };
    let mount = format!("mount -t tmpfs -o size=32m braidb-test \"${DEVICE}\"");
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    match ways.into_iter().find(|way| unshare(way, &mount)) {
        Some(way) => {
            let tests = "\"$SELF\" --ignored --exact on_the_device_that_was_named --nocapture";
            assert!(unshare(way, &format!("{mount}; {tests}")), "the tests on the small device failed");
        }
        None => eprintln!("NOT RUN: this user may not mount; run scripts/root/full-disk as root"),
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[ignore = "needs a small device of its own: scripts/root/full-disk makes one and runs it"]
fn on_the_device_that_was_named() {
    let dir = PathBuf::from(std::env::var_os(DEVICE).expect("a directory on a small device"));
    logs_go_on_to_the_last_block(&dir);
    a_database_survives(&dir);
}

/// A record of a log, 1 to 200 bytes that are not zero.
fn record(number: u64) -> Vec<u8> {
    vec![number as u8 | 1; 1 + (number * 37 % 200) as usize]
}

fn logs_go_on_to_the_last_block(dir: &Path) {
    let path = dir.join("log");
    let file = RealFs.create_log(&path).unwrap();
    let (mut allocated, mut step) = (0, 1 << 20);
    while step >= 4096 {
        match file.preallocate(allocated + step) {
            Ok(()) => allocated += step,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                assert_eq!(file.len().unwrap(), 0, "a refused allocation writes nothing");
                step /= 2;
            }
        }
    }
    assert!(allocated > 8 << 20, "only {allocated} bytes could be allocated");
    let free = RealFs.free_space(dir).unwrap();
    assert!(
        free < 1 << 20,
        "smaller steps did not use all that refused steps gave back: {free} bytes are free"
    );
    let mut expected = Vec::new();
    for number in 0.. {
        let record = record(number);
        if (expected.len() + record.len()) as u64 > allocated {
            break;
        }
        file.append(&record).unwrap();
        expected.extend(record);
        if number % 50_000 == 0 {
            file.sync_data().unwrap();
        }
    }
    assert!(file.mapped_bytes() > allocated / 2, "{} of {allocated} were stored", file.mapped_bytes());
    let refused = file.append(&vec![1; 2 << 20]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
    file.sync_data().unwrap();
    drop(file);
    assert!(fs::read(&path).unwrap().starts_with(&expected));
    fs::remove_file(&path).unwrap();
}

fn options() -> Options {
    Options::new().memtable_bytes(1 << 20).background_threads(1)
}

fn key(number: u64) -> String {
    format!("key {number:08}")
}

/// A value that no file system can compress.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..60 + number % 150).map(|_| next()).collect()
}

/// Puts from `number` on, until one is refused. Returns the number of the refused put.
fn fill(db: &Db, mut number: u64) -> u64 {
    loop {
        match db.put(key(number), value(number)) {
            Ok(()) => number += 1,
            Err(error) => {
                assert!(error.is_full(), "{error}");
                return number;
            }
        }
    }
}

/// Checks that the database holds exactly the keys from `first` to `end`, with their values.
fn check(db: &Db, first: u64, end: u64) {
    let mut number = first;
    for entry in db.iter() {
        let (found, bytes) = entry.unwrap();
        assert_eq!(found, key(number).as_bytes());
        assert!(bytes.as_ref() == value(number), "the value of key {number} is wrong");
        number += 1;
    }
    assert_eq!(number, end, "keys are missing at the end");
    assert!(db.stats().poisoned.is_none());
}

fn a_database_survives(device: &Path) {
    let dir = device.join("db");
    let db = options().open(&dir).unwrap();
    let end = fill(&db, 0);
    assert!(end > 10_000, "{end} keys found room");
    assert!(db.stats().counts.log_mapped_bytes > 0);
    check(&db, 0, end);
    // Another program takes the space that puts leave free.
    let filler = device.join("filler");
    let mut rest = fs::File::create(&filler).unwrap();
    for piece in [1 << 20, 4096] {
        while rest.write_all(&vec![b'x'; piece]).is_ok() {}
    }
    rest.sync_all().unwrap();
    drop(rest);
    let mut first = 0;
    while first < end / 4 {
        match db.delete(key(first)) {
            Ok(()) => first += 1,
            Err(error) => {
                assert!(error.is_full(), "{error}");
                break;
            }
        }
    }
    assert_eq!(fill(&db, end), end, "there is no room");
    check(&db, first, end);
    // A close needs only the room that was kept for it, or returns an error. No write is lost either way.
    if let Err(error) = db.close() {
        assert!(error.is_full(), "{error}");
    }
    drop(db);
    match options().open(&dir) {
        Ok(db) => check(&db, first, end),
        Err(error) => assert!(error.is_full(), "{error}"),
    }
    fs::remove_file(&filler).unwrap();
    let db = options().open(&dir).unwrap();
    check(&db, first, end);
    for number in first..end / 2 {
        db.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    check(&db, end / 2, end);
    let more = fill(&db, end);
    assert!(more > end + end / 8, "deletes made room for {} keys", more - end);
    check(&db, end / 2, more);
    db.close().unwrap();
    drop(db);
    let db = options().open(&dir).unwrap();
    check(&db, end / 2, more);
    assert!(db.verify().unwrap().damages.is_empty());
}

/// The file system fails under the database. The first write to a page that the kernel may have written out is an error. Later writes
/// are refused, and reads of memory still work.
#[test]
#[ignore = "breaks the device that it works on: scripts/root/full-disk makes one and runs it"]
fn on_the_device_that_fails() {
    let device = PathBuf::from(std::env::var_os(DEVICE).expect("a directory on a small device"));
    let breaks = std::env::var(BREAK).expect("a command that breaks it");
    let db = options().open(device.join("breaks")).unwrap();
    let end = 2_000;
    for number in 0..end {
        db.put(key(number), value(number)).unwrap();
    }
    assert!(db.stats().counts.log_mapped_bytes > 0);
    // The kernel writes the pages out and protects them, as it may at any time.
    assert!(Command::new("sync").status().unwrap().success());
    assert!(Command::new("sh").args(["-ec", &breaks]).status().unwrap().success());
    // Longer than the mapping trusts a page to be writable.
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..2 {
        let refused = db.put(key(end), value(end)).unwrap_err();
        let Error::Poisoned { cause } = &refused else { panic!("{refused}") };
        assert!(matches!(**cause, Error::Io { operation: "append to", .. }), "{refused}");
    }
    for number in 0..end {
        assert!(db.get(key(number)).unwrap().is_some_and(|found| found.as_ref() == value(number)));
    }
}
