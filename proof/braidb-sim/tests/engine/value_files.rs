//! Values in files of their own: merges leave them where they are, thresholds may change, garbage is collected, readers keep what they
//! read.

use braidb::tuning::ValueLayout;
use braidb::{Db, Options};
use braidb_sim::rng::Rng;
use braidb_sim::{env_over, sim_env};
use braidb_storage::sim::{Fault, Lasting, Op, OpKind, SimFs};
use braidb_storage::{Clock, Env};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Memory and files of such a size that a few flushes write all keys: merges find too few places in a cell to gather.
fn few_flushes(env: Env) -> Options {
    Options::new()
        .memtable_bytes(256 << 10)
        .env(env)
        .tuning(|tuning| tuning.table_bytes(512 << 10).hot_keys_percent(0).separation_threshold(Some(512)))
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

/// Puts the value of `key` in a round. At a hard limit a write returns the error of a merge that failed, and is then tried again.
fn put_retrying(db: &Db, key: [u8; 8], round: u8) {
    (0..3).find(|_| db.put(key, value(key, round)).is_ok()).unwrap();
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
    // Reads from both ends in turns. When the ends meet, one end must return what the other one has read ahead.
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
    let db = few_flushes(env).open(DIR).unwrap();
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

/// A clock on which time passes whenever it is asked, so that each window of a scan takes as long.
#[derive(Debug, Default)]
struct SlowClock {
    now_us: AtomicU64,
    step_us: u64,
}

impl Clock for SlowClock {
    fn now_us(&self) -> u64 {
        self.now_us.fetch_add(self.step_us, Ordering::Relaxed)
    }
}

fn slow(env: Env, step_us: u64) -> Env {
    Env { clock: Arc::new(SlowClock { step_us, ..SlowClock::default() }), ..env }
}

/// Scans that lose time to values in many places pay for a merge that gathers the values. There is no cache, so each scan reads from every
/// place.
#[test]
fn scans_pay_for_gathering() {
    let (env, _, _) = sim_env(1);
    let db = few_flushes(slow(env, 1_000)).block_cache_bytes(0).open(DIR).unwrap();
    write_round(&db, 1);
    db.compact().unwrap();
    let scan = || {
        let before = db.stats().counts.scan_places;
        assert_eq!(db.iter().count() as u64, KEYS);
        db.settle().unwrap();
        db.stats().counts.scan_places - before
    };
    let (written_bytes, first) = (db.stats().counts.value_file_bytes, scan());
    (0..60).for_each(|_| _ = scan());
    let last = scan();
    assert!(last * 3 < first, "{first} places, then {last}");
    let gathered_bytes = db.stats().counts.value_file_bytes - written_bytes;
    assert!(gathered_bytes > KEYS * VALUE_BYTES as u64 / 2, "{gathered_bytes} bytes");
    (0..60).for_each(|_| _ = scan());
    let later_bytes = db.stats().counts.value_file_bytes - written_bytes;
    assert!(
        later_bytes < 2 * gathered_bytes,
        "values in order are left alone: {later_bytes} of {gathered_bytes} bytes"
    );
    check(&db, 1);
}

/// A value that cannot be read stays in its file, and the other files are collected.
#[test]
fn a_damaged_value_does_not_keep_other_files_from_collection() {
    let (env, fs, _) = sim_env(1);
    let db = few_flushes(env).open(DIR).unwrap();
    write_round(&db, 1);
    db.settle().unwrap();
    let (damaged, content) = (key(0), value(key(0), 1));
    let holds_it = |path: &Path| {
        let bytes = fs.read_file(path).unwrap();
        bytes.windows(VALUE_BYTES).position(|window| window == content)
    };
    let value_files =
        fs.files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "values"));
    let places: Vec<(PathBuf, usize)> =
        value_files.filter_map(|path| holds_it(&path).map(|at| (path, at))).collect();
    for (path, at) in &places {
        fs.flip_bit(path, *at as u64 * 8 + 4_000).unwrap();
    }
    for round in 2..=6 {
        for number in (1..KEYS).filter(|number| number % 4 > 0) {
            put_retrying(&db, key(number), round);
        }
        let _ = db.settle();
    }
    db.settle().unwrap();
    let stats = db.stats();
    assert!(stats.counts.job_failures > 0, "a merge met the value");
    let spared_bytes = (2 << 20) * places.len() as u64;
    assert!(stats.value_file_bytes <= stats.value_live_bytes / 3 * 4 + spared_bytes, "{stats:?}");
    assert!(db.get(damaged).unwrap_err().is_corruption());
    for number in 1..KEYS {
        let key = key(number);
        let round = if number % 4 > 0 { 6 } else { 1 };
        assert_eq!(db.get(key).unwrap().unwrap(), value(key, round), "key {number}");
    }
}

/// A block of a last-level table that cannot be read keeps the value files that its cell leads into, and the other files are collected.
#[test]
fn a_damaged_table_does_not_keep_other_files_from_collection() {
    const MANY_KEYS: u64 = 6_000;
    let spread = |number: u64| (number * 7_919 % MANY_KEYS).to_be_bytes();
    // Without settling the last level is one cell, and is to be split, which meets the block.
    for (background_threads, settles) in [(1, true), (2, false)] {
        let (env, fs, _) = sim_env(1);
        let opened = |env| options(env, Some(512)).background_threads(background_threads).open(DIR).unwrap();
        let db = opened(env);
        (0..MANY_KEYS).for_each(|number| db.put(spread(number), value(spread(number), 1)).unwrap());
        db.compact().unwrap();
        if settles {
            db.settle().unwrap();
        }
        let (first_bytes, tree) = (db.stats().value_file_bytes, db.tree());
        let mut cells = tree[0].levels.iter().flat_map(|level| &level.cells);
        let damaged = cells.find(|cell| !cell.runs.is_empty()).unwrap().runs[0].slices[0].table;
        drop(db);
        fs.flip_bit(Path::new(&format!("{DIR}/{damaged:06}.table")), 1_000).unwrap();
        // A fresh cache lacks the block.
        let db = opened(env_over(fs.clone(), 2).0);
        let lost = (0..MANY_KEYS).filter(|number| db.get(number.to_be_bytes()).is_err()).count();
        assert!((1..MANY_KEYS as usize / 10).contains(&lost), "{lost} keys are in the damaged block");
        for round in 2..=6 {
            for key in (0..MANY_KEYS).map(spread).filter(|key| u64::from_be_bytes(*key) > MANY_KEYS / 4) {
                put_retrying(&db, key, round);
            }
            // `settle` returns at the first failure, while other merges go on. So the test calls it twice.
            (0..2).for_each(|_| _ = db.settle());
        }
        let stats = db.stats();
        assert!(stats.counts.job_failures > 0, "a merge met the block");
        // The damaged table names nearly all files of the first life.
        let most_bytes = stats.value_live_bytes / 3 * 4 + first_bytes;
        assert!(stats.value_file_bytes <= most_bytes, "{} bytes", stats.value_file_bytes);
        let live_bytes = first_bytes / 8 * 9;
        assert!(stats.value_live_bytes <= live_bytes, "merges went on: {}", stats.value_live_bytes);
    }
}

/// Temporary read errors only delay merges and collection. Once later merges have ended, no value file is kept because of the errors.
#[test]
fn passing_read_errors_do_not_keep_garbage() {
    for ending in ["table", "values"] {
        let (env, fs, _) = sim_env(1);
        // Without a cache each merge reads files.
        let db = options(env, Some(512)).block_cache_bytes(0).open(DIR).unwrap();
        write_round(&db, 1);
        db.compact().unwrap();
        for key in (0..KEYS).map(key).filter(|key| u64::from_be_bytes(*key) % 3 > 0) {
            db.put(key, value(key, 2)).unwrap();
        }
        let is_read =
            move |op: &Op| op.kind == OpKind::Read && op.path.extension().is_some_and(|end| end == ending);
        fs.fail_nth_where(1, Fault::Io, Lasting::ForEver, 1, is_read);
        (0..40).for_each(|_| _ = db.settle());
        fs.heal();
        assert!(db.stats().damages_waiting > 0, "merges met errors in {ending}");
        for round in 3..=12 {
            (0..KEYS / 20).map(u64::to_be_bytes).for_each(|key| db.put(key, value(key, round)).unwrap());
        }
        db.settle().unwrap();
        let stats = db.stats();
        let most_bytes = stats.value_live_bytes / 2 * 3 + 30 * stats.value_files;
        assert!(stats.value_file_bytes <= most_bytes, "errors in {ending}: {} bytes", stats.value_file_bytes);
        assert_eq!(db.verify().unwrap().damages, []);
    }
}

/// A damaged table of L0 that covers few keys keeps neither other tables of L0 from going down nor values from being collected.
#[test]
fn a_damaged_table_of_l0_does_not_keep_other_plans_waiting() {
    let (env, fs, _) = sim_env(1);
    let db = options(env, Some(512)).open(DIR).unwrap();
    write_round(&db, 1);
    db.compact().unwrap();
    (0..20_u64).map(u64::to_be_bytes).for_each(|key| db.put(key, value(key, 2)).unwrap());
    db.flush().unwrap();
    let damaged = db.tree()[0].levels[0].cells[0].runs[0].slices[0].table;
    drop(db);
    fs.flip_bit(Path::new(&format!("{DIR}/{damaged:06}.table")), 1_000).unwrap();
    let db = reopen(&fs, Some(512));
    assert!(db.get(0_u64.to_be_bytes()).unwrap_err().is_corruption());
    for round in 3..=8 {
        for key in (0..KEYS).map(key).filter(|key| u64::from_be_bytes(*key) >= 100) {
            put_retrying(&db, key, round);
        }
        (0..2).for_each(|_| _ = db.settle());
    }
    let stats = db.stats();
    assert!(stats.families[0].levels[0].tables < 4, "{} tables in L0", stats.families[0].levels[0].tables);
    assert!(stats.value_file_bytes <= stats.value_live_bytes / 2 * 3 + (1 << 20));
    for key in (100..KEYS).map(u64::to_be_bytes) {
        assert_eq!(db.get(key).unwrap().unwrap(), value(key, 8));
    }
}

/// Fills a device with values of `value_bytes`, deletes half of them, and checks that their space is freed. The database is opened with
/// `thresholds`: the first fills, the second deletes.
fn fill_and_empty(
    capacity_bytes: u64,
    memtable_bytes: usize,
    table_bytes: u64,
    value_bytes: usize,
    thresholds: [Option<u64>; 2],
) {
    let (env, fs, _) = sim_env(1);
    let opened = |env: Env, threshold: Option<u64>| {
        let options = Options::new().memtable_bytes(memtable_bytes).env(env).tuning(|tuning| {
            let tuning = tuning.table_bytes(table_bytes).hot_keys_percent(0).manifest_bytes(256 << 10);
            tuning.separation_threshold(threshold)
        });
        options.open(DIR).unwrap()
    };
    fs.set_capacity(Some(capacity_bytes));
    let mut db = opened(env, thresholds[0]);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let put = |db: &Db, number: u64| db.put(key(number), vec![number as u8; value_bytes]);
    let filled = (0..).find(|&number| put(&db, number).is_err()).unwrap();
    assert!(filled * value_bytes as u64 > capacity_bytes / 2, "{filled} values");
    if thresholds[0] != thresholds[1] {
        drop(db);
        db = opened(env_over(fs.clone(), 2).0, thresholds[1]);
    }
    // A job may find no room, and each delete gives some back.
    let mut left: Vec<u64> = (0..filled).step_by(2).collect();
    for round in 0.. {
        left.retain(|&number| db.delete(key(number)).is_err());
        let outcome = db.compact().and_then(|()| db.settle());
        if left.is_empty() && outcome.is_ok() {
            break;
        }
        assert!(round < 5, "{outcome:?}, {} values could not be deleted", left.len());
    }
    let stats = db.stats();
    // Garbage may be half as large as the live values in value files, plus 30% of the values that were left at most.
    let most_garbage_bytes = stats.value_live_bytes / 2 + filled / 2 * value_bytes as u64 * 3 / 10;
    let garbage_bytes = stats.value_file_bytes - stats.value_live_bytes;
    assert!(garbage_bytes <= most_garbage_bytes + 30 * stats.value_files, "{garbage_bytes}");
    (filled..filled + filled / 8).for_each(|number| put(&db, number).unwrap());
    drop(db);
    let db = opened(env_over(fs.clone(), 3).0, thresholds[1]);
    for number in 0..filled {
        let value = db.get(key(number)).unwrap();
        assert_eq!(value.is_some(), number % 2 == 1, "value {number}");
    }
    (0..filled).for_each(|number| db.delete(key(number)).unwrap());
    db.compact().unwrap();
}

/// A full device empties again: the bytes of collected files fit into the reserve. If all files were collected at once, each merge would
/// keep them, and the device would stay full.
#[test]
fn a_full_device_empties_after_half_was_deleted() {
    fill_and_empty(96 << 20, 256 << 10, 512 << 10, 8_000, [Some(512); 2]);
}

/// A table of handles is no smaller than a fourth of a table. If it ended with 64 KiB of values, a full device would hold a thousand tables
/// of one block each, and no merge would find room.
#[test]
fn a_full_device_of_small_tables_empties_after_half_was_deleted() {
    fill_and_empty(48 << 20, 64 << 10, 64 << 10, 2_000, [Some(512); 2]);
}

/// All trie layouts keep what was written, over opens with other layouts too, and stay within the bound of garbage.
#[test]
fn a_trie_keeps_values_over_overwrites_and_opens() {
    let (env, fs, _) = sim_env(1);
    let layouts = [ValueLayout::Trie { levels: 0 }, ValueLayout::Trie { levels: 7 }, ValueLayout::Ordered];
    let open = |env: Env, layout| {
        options(env, Some(512))
            .tuning(|tuning| tuning.value_layout(layout).table_bytes(256 << 10))
            .open(DIR)
            .unwrap()
    };
    let mut db = open(env, layouts[0]);
    for round in 1..=6 {
        write_round(&db, round);
        db.settle().unwrap();
        check(&db, round);
        let stats = db.stats();
        let most = stats.value_live_bytes / 2 * 3 + (2 << 18);
        assert!(stats.value_file_bytes <= most, "round {round}: {} of {most} bytes", stats.value_file_bytes);
        drop(db);
        db = open(env_over(fs.clone(), round.into()).0, layouts[round as usize % 3]);
    }
    check(&db, 6);
}

/// Jobs append to the table of a leaf, so a leaf has few files. Without a trie each flush writes its own.
#[test]
fn a_leaf_has_one_table_until_it_is_full() {
    let files_after = |layout| {
        let (env, fs, _) = sim_env(1);
        let db = options(env, Some(512))
            .tuning(|tuning| tuning.value_layout(layout).table_bytes(4 << 20))
            .open(DIR);
        let db = db.unwrap();
        for flush in 0..10u8 {
            for leaf in 0..5u8 {
                db.put([leaf, flush], [flush; VALUE_BYTES]).unwrap();
            }
            db.put([], [flush; VALUE_BYTES]).unwrap();
            db.flush().unwrap();
        }
        files(&fs, ".values")
    };
    assert_eq!(files_after(ValueLayout::Trie { levels: 0 }), 1);
    assert_eq!(files_after(ValueLayout::Trie { levels: 1 }), 6, "five leaves, and the empty key");
    assert_eq!(files_after(ValueLayout::Ordered), 10);
}

/// Values below a new threshold stay in their files while the device is full. Otherwise each merge would write all values of its inputs,
/// and no round would bound them.
#[test]
fn a_full_device_empties_after_an_open_with_another_threshold() {
    fill_and_empty(48 << 20, 64 << 10, 64 << 10, 2_000, [Some(512), Some(4_000)]);
    fill_and_empty(48 << 20, 64 << 10, 64 << 10, 2_000, [Some(512), None]);
}

/// The collection of large values rewrites tables of small ones. One value in 100 has 4 KiB, and most puts go to few keys.
#[test]
fn garbage_of_few_large_values_rewrites_few_small_ones() {
    const SMALL_KEYS: u64 = 20_000;
    let (env, _, _) = sim_env(1);
    let options = Options::new().memtable_bytes(256 << 10).env(env);
    let db = options.tuning(|tuning| tuning.table_bytes(256 << 10)).open(DIR).unwrap();
    let mut random = Rng::new(5);
    let put = |number: u64| {
        let bytes = if number.is_multiple_of(100) { 4_096 } else { 100 };
        db.put((number * 7_919 % SMALL_KEYS).to_be_bytes(), vec![number as u8; bytes]).unwrap();
        8 + bytes as u64
    };
    (0..SMALL_KEYS).map(put).sum::<u64>();
    db.settle().unwrap();
    let (before, mut user_bytes) = (db.stats().counts, 0);
    for _ in 0..240_000 {
        let ranks = if random.below(10) < 7 { SMALL_KEYS / 20 } else { SMALL_KEYS };
        user_bytes += put(random.below(ranks) * 3_001 % SMALL_KEYS);
    }
    db.settle().unwrap();
    let counts = db.stats().counts;
    let merged = counts.merge_bytes.iter().sum::<u64>() - before.merge_bytes.iter().sum::<u64>();
    // Measured were 0.96 and 0.98 bytes a user byte with two seeds. If the bound compared garbage with separated values alone, it was 1.16
    // and 1.18.
    assert!(merged * 100 < user_bytes * 107, "merges wrote {merged} bytes for {user_bytes}");
    assert_eq!(db.verify().unwrap().damages, []);
}
