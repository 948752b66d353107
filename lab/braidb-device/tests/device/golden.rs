//! The engine over the testbed: equal figures on every machine, to the nanosecond.
//!
//! `tests/golden/*.txt` hold the expected figures. If a change of the engine or the testbed changes them on purpose, run
//! `BRAIDB_DEVICE_BLESS=1 cargo test -p braidb-device golden`. Give the reason in the commit.

use std::path::{Path, PathBuf};

use braidb::{Db, Options};
use braidb_device::{Profile, Testbed};
use braidb_storage::inline::SeededRandom;

const KEYS: u64 = 20_000;
const GETS: u64 = 2_000;
const SCANS: u64 = 200;
const SCAN_ENTRIES: usize = 50;
/// Processor time of one operation of the engine without its calls, in ns: about the time of a put or get in memory.
const OP_NS: u64 = 1_000;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    let digits = format!("{number:012}");
    key[4..].copy_from_slice(digits.as_bytes());
    key
}

fn value(number: u64) -> [u8; 128] {
    let mut value = [number as u8; 128];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// The numbers below `count`, shuffled.
fn shuffled(count: u64, random: &SeededRandom) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers
}

/// One operation of the benchmark: runs the due jobs first, and charges the engine's own work.
fn operate<T>(testbed: &Testbed, operation: impl FnOnce() -> T) -> T {
    testbed.step();
    testbed.charge_cpu_ns(OP_NS);
    operation()
}

fn open(testbed: &Testbed) -> Db {
    let options = Options::new()
        .memtable_bytes(256 << 10)
        .tuning(|tuning| tuning.log_bytes(1 << 20).table_bytes(512 << 10));
    options.block_cache_bytes(128 << 10).background_threads(2).env(testbed.env()).open("/db").unwrap()
}

/// Fills a store in random order, reads from it, and scans it. Returns the figures after each of these steps.
fn run(profile: Profile, seed: u64) -> String {
    let testbed = Testbed::new(profile, 1 << 30, 1 << 20, 2, seed);
    let db = open(&testbed);
    let random = SeededRandom::new(seed);
    let mut report = String::new();
    let mut note = |what: &str| report.push_str(&format!("# after {what}\n{}\n", testbed.figures()));
    for number in shuffled(KEYS, &random) {
        operate(&testbed, || db.put(key(number), value(number))).unwrap();
    }
    note("20,000 puts");
    db.settle().unwrap();
    testbed.wait_for_jobs();
    note("settling");
    for _ in 0..GETS {
        let number = random.below(KEYS);
        let found = operate(&testbed, || db.get(key(number))).unwrap().expect("the key was put");
        assert!(found == value(number));
    }
    note("2,000 gets");
    for _ in 0..SCANS {
        let from = random.below(KEYS - SCAN_ENTRIES as u64);
        let entries =
            operate(&testbed, || db.range(key(from)..).take(SCAN_ENTRIES).collect::<Result<Vec<_>, _>>());
        let entries = entries.unwrap();
        assert_eq!(entries.len(), SCAN_ENTRIES);
        assert!(entries.iter().zip(from..).all(|((found, _), number)| *found == key(number)));
    }
    note("200 scans of 50");
    db.close().unwrap();
    note("closing");
    report
}

fn check(profile: Profile) {
    let found = run(profile, 7);
    let name = format!("{}.txt", profile.name());
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "golden", &name].iter().collect();
    if std::env::var_os("BRAIDB_DEVICE_BLESS").is_some() {
        bless(&path, &found);
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let differs = found.lines().zip(golden.lines()).find(|(found, golden)| found != golden);
    assert!(
        found == golden,
        "the figures differ from {}, first (found, golden) in {differs:?}; the head of this test says how to renew them",
        path.display(),
    );
}

#[allow(clippy::disallowed_methods, reason = "the golden files are the host's")]
fn bless(path: &Path, found: &str) {
    std::fs::write(path, found).unwrap();
}

#[test]
fn hdd_is_as_checked_in() {
    check(Profile::HDD);
}

#[test]
fn ssd_is_as_checked_in() {
    check(Profile::SSD);
}

#[test]
fn two_testbeds_on_two_threads_show_what_one_shows_alone() {
    let alone = run(Profile::NVME, 3);
    std::thread::scope(|scope| {
        let beside = [0; 2].map(|_| scope.spawn(|| run(Profile::NVME, 3)));
        for thread in beside {
            assert!(thread.join().unwrap() == alone, "the figures of a run beside another one differ");
        }
    });
    assert!(run(Profile::NVME, 4) != alone, "another seed gives another order of keys");
}
