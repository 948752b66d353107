//! Values in files of their own: merges leave them where they are, thresholds may change, garbage is collected, readers keep what they
//! read.

use braidb::{Db, Options};
use braidb_sim::{env_over, sim_env};
use braidb_storage::Env;
use braidb_storage::sim::SimFs;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: u64 = 2_000;
const VALUE_BYTES: usize = 1_000;

/// Small memory and files, so that some megabytes make a tree of several levels.
fn options(env: Env, threshold: Option<u64>) -> Options {
    Options::new().memtable_bytes(64 << 10).env(env).tuning(|tuning| {
        let tuning = tuning.table_bytes(64 << 10).hot_keys_percent(0);
        tuning.separation_threshold(threshold)
    })
}

fn reopen(fs: &SimFs, threshold: Option<u64>) -> Db {
    options(env_over(Arc::new(fs.clone()), 2).0, threshold).open(DIR).unwrap()
}

/// Keys in an order that looks random.
fn key(number: u64) -> [u8; 8] {
    (number % KEYS * 1_237 % KEYS).to_be_bytes()
}

/// The value of `key` in a round.
fn value(key: [u8; 8], round: u8) -> Vec<u8> {
    let mut value = vec![round; VALUE_BYTES];
    value[..8].copy_from_slice(&key);
    value
}

fn write_round(db: &Db, round: u8) {
    for number in 0..KEYS {
        let key = key(number);
        db.put(key, value(key, round)).unwrap();
    }
}

/// Checks gets and scans from both ends against `round`, and verifies.
fn check(db: &Db, round: u8) {
    let expected: Vec<(Vec<u8>, Vec<u8>)> =
        (0..KEYS).map(|number| (number.to_be_bytes().to_vec(), value(number.to_be_bytes(), round))).collect();
    let rows = |entries: Vec<braidb::Result<(Vec<u8>, braidb::Value)>>| -> Vec<(Vec<u8>, Vec<u8>)> {
        entries.into_iter().map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap()).collect()
    };
    assert_eq!(rows(db.iter().collect()), expected);
    let mut backward = rows(db.iter().rev().collect());
    backward.reverse();
    assert_eq!(backward, expected);
    // From both ends in turns: what one end read ahead, the other end gets.
    let (mut entries, mut front, mut back) = (db.iter(), Vec::new(), Vec::new());
    for turn in 0_u64.. {
        let from_the_front = turn % 7 != 3 && turn % 5 != 1;
        let Some(entry) = (if from_the_front { entries.next() } else { entries.next_back() }) else { break };
        if from_the_front { &mut front } else { &mut back }.push(entry);
    }
    front.extend(back.into_iter().rev());
    assert_eq!(rows(front), expected);
    for (key, value) in expected.iter().step_by(17) {
        assert_eq!(db.get(key).unwrap().unwrap(), *value);
    }
    assert_eq!(db.verify().unwrap().damages, []);
}

fn files(fs: &SimFs, ending: &str) -> usize {
    fs.files().iter().filter(|path| path.to_string_lossy().ends_with(ending)).count()
}

#[test]
fn merges_leave_values_where_they_are() {
    let (env, fs, _) = sim_env(1);
    let db = options(env, Some(512)).open(DIR).unwrap();
    write_round(&db, 1);
    db.compact().unwrap();
    check(&db, 1);
    let stats = db.stats();
    let user_bytes = KEYS * (8 + VALUE_BYTES as u64);
    assert!(stats.counts.merges > 0, "the tree has levels");
    let values_bytes = stats.counts.value_file_bytes;
    assert!(values_bytes >= user_bytes * 98 / 100 && values_bytes < user_bytes * 104 / 100, "{values_bytes}");
    let merged: u64 = stats.counts.merge_bytes.iter().sum();
    assert!(merged < user_bytes / 4, "merges write keys and handles: {merged} bytes");
    assert_eq!((files(&fs, ".values") as u64, stats.value_files), (stats.value_files, stats.value_files));
    drop(db);
    check(&reopen(&fs, Some(512)), 1);
}

#[test]
fn values_cross_the_threshold_both_ways() {
    let (env, fs, _) = sim_env(1);
    let db = options(env, Some(0)).open(DIR).unwrap();
    write_round(&db, 1);
    db.compact().unwrap();
    assert!(db.stats().value_files > 0);
    drop(db);
    let db = reopen(&fs, None);
    write_round(&db, 2);
    db.compact().unwrap();
    db.settle().unwrap();
    check(&db, 2);
    assert_eq!((db.stats().value_files, files(&fs, ".values")), (0, 0), "all values were written to tables");
    drop(db);
    let db = reopen(&fs, Some(1_000));
    write_round(&db, 3);
    db.compact().unwrap();
    check(&db, 3);
    assert!(db.stats().value_files > 0);
    drop(db);
    let db = reopen(&fs, Some(1_001));
    check(&db, 3);
}

#[test]
fn garbage_is_collected_while_values_are_overwritten() {
    let (env, fs, _) = sim_env(1);
    let db = options(env, Some(512)).open(DIR).unwrap();
    for round in 1..=6 {
        write_round(&db, round);
        db.settle().unwrap();
        let stats = db.stats();
        let (bytes, live_bytes) = (stats.value_file_bytes, stats.value_live_bytes);
        // Each file has a header of 30 bytes.
        let most = live_bytes + live_bytes / 2 + 30 * stats.value_files;
        assert!(bytes <= most, "round {round}: {bytes} bytes of value files, {live_bytes} alive");
        assert_eq!(files(&fs, ".values") as u64, stats.value_files, "round {round}");
    }
    check(&db, 6);
    db.compact().unwrap();
    check(&db, 6);
}

#[test]
fn an_iterator_keeps_the_values_that_it_reads() {
    let (env, fs, _) = sim_env(1);
    let db = options(env, Some(512)).open(DIR).unwrap();
    write_round(&db, 1);
    db.compact().unwrap();
    let old_files = files(&fs, ".values");
    let mut entries = db.iter();
    let first = entries.next().unwrap().unwrap();
    for round in 2..=4 {
        write_round(&db, round);
        db.compact().unwrap();
    }
    assert!(files(&fs, ".values") as u64 >= old_files as u64 + db.stats().value_files / 2);
    let rest = entries.by_ref().map(Result::unwrap);
    let seen: Vec<_> = std::iter::once(first).chain(rest).collect();
    assert!(seen.iter().all(|(key, seen)| *seen == value(key.as_slice().try_into().unwrap(), 1)));
    assert_eq!(seen.len() as u64, KEYS);
    drop((entries, seen));
    db.settle().unwrap();
    assert_eq!(files(&fs, ".values") as u64, db.stats().value_files, "the last reader is gone");
    check(&db, 4);
}

/// A full device empties again: values of collected files are written anew in rounds that fit into the reserve. If all files were collected
/// at once, each merge would keep them, and the device would stay full.
#[test]
fn a_full_device_empties_after_half_was_deleted() {
    let (env, fs, _) = sim_env(1);
    let opened = |env: Env| {
        let options = Options::new().memtable_bytes(256 << 10).env(env).tuning(|tuning| {
            let tuning = tuning.table_bytes(512 << 10).hot_keys_percent(0).manifest_bytes(256 << 10);
            tuning.separation_threshold(Some(512))
        });
        options.open(DIR).unwrap()
    };
    fs.set_capacity(Some(96 << 20));
    let db = opened(env);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let put = |db: &Db, number: u64| db.put(key(number), vec![number as u8; 8_000]);
    let filled = (0..).find(|&number| put(&db, number).is_err()).unwrap();
    assert!(filled > 8_000, "{filled} values");
    db.settle().unwrap();
    (0..filled).step_by(2).for_each(|number| db.delete(key(number)).unwrap());
    db.compact().unwrap();
    db.settle().unwrap();
    let stats = db.stats();
    assert!(stats.value_file_bytes <= stats.value_live_bytes / 2 * 3 + 30 * stats.value_files);
    (filled..filled + filled / 8).for_each(|number| put(&db, number).unwrap());
    drop(db);
    let db = opened(env_over(fs.clone(), 3).0);
    for number in 0..filled {
        let value = db.get(key(number)).unwrap();
        assert_eq!(value.is_some(), number % 2 == 1, "value {number}");
    }
    (0..filled).for_each(|number| db.delete(key(number)).unwrap());
    db.compact().unwrap();
}
