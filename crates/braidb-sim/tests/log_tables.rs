//! Values stay in the log where they were written first: as long as a table leads there or anybody reads such a table, and no
//! longer.

use braidb::{Db, Error, MemoryPolicy, Options};
use braidb_sim::env_over;
use braidb_sim::fs::{Crash, SimFs};
use braidb_storage::Env;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: usize = 60;

fn options(env: Env) -> Options {
    Options::new().memtable_bytes(1 << 20).memory_policy(MemoryPolicy::None).log_table_percent(50).env(env)
}

fn open(fs: &SimFs, change: impl Fn(Options) -> Options) -> Result<Db, Error> {
    change(options(env_over(Arc::new(fs.clone()), 3).0)).open(DIR)
}

fn open_plain(fs: &SimFs) -> Db {
    open(fs, |options| options).unwrap()
}

fn key(number: usize) -> String {
    format!("key {number:03}")
}

fn value(round: usize, number: usize) -> String {
    format!("round {round}, {number:03}, {}", "long ".repeat(20))
}

fn put_round(db: &Db, round: usize) {
    (0..KEYS).for_each(|number| db.put(key(number), value(round, number)).unwrap());
}

fn check(db: &Db, round: usize) {
    for number in 0..KEYS {
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(round, number));
    }
    let read = db.iter().map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap());
    let expected = (0..KEYS).map(|number| (key(number).into_bytes(), value(round, number).into_bytes()));
    assert!(read.eq(expected));
    assert_eq!(db.verify().unwrap().damages, []);
}

/// How many logs hold the bytes.
fn logs_with(fs: &SimFs, wanted: &str) -> usize {
    let logs = fs.files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let holds = |path: &Path| {
        fs.read_file(path).unwrap().windows(wanted.len()).any(|bytes| bytes == wanted.as_bytes())
    };
    logs.filter(|path| holds(path)).count()
}

#[test]
fn a_flush_writes_an_index_and_reads_lead_to_the_log() {
    let fs = SimFs::new();
    let db = open_plain(&fs);
    put_round(&db, 1);
    db.put("small", "a value that a handle would be as long as").unwrap();
    db.delete(key(7)).unwrap();
    db.flush().unwrap();
    let stats = db.stats();
    assert_eq!((stats.counts.log_tables, stats.log_tables, stats.pinned_logs), (1, 1, 1));
    assert_eq!(stats.counts.flush_bytes, stats.counts.log_table_bytes);
    let values: usize = (0..KEYS).filter(|&n| n != 7).map(|n| value(1, n).len()).sum();
    assert_eq!(stats.log_value_bytes, (values + 41) as u64);
    assert!(stats.counts.flush_bytes < 4000 && stats.log_value_bytes > 6000);
    assert_eq!(logs_with(&fs, "round 1"), 1);
    assert_eq!(db.get(key(7)).unwrap(), None);
    assert_eq!(db.get(key(8)).unwrap().unwrap(), value(1, 8));
    assert_eq!(db.stats().counts.log_reads, 1);
    assert_eq!(db.iter().rev().count(), KEYS);
    let report = db.verify().unwrap();
    assert_eq!(report.damages, []);
}

#[test]
fn what_does_not_pay_is_a_sorted_table() {
    let sorted = |change: fn(Options) -> Options, write: fn(&Db)| {
        let fs = SimFs::new();
        let db = open(&fs, change).unwrap();
        write(&db);
        db.flush().unwrap();
        let stats = db.stats();
        assert_eq!((stats.counts.flushes, stats.counts.log_tables, stats.pinned_logs), (1, 0, 0));
        assert_eq!(logs_with(&fs, "round"), 0);
    };
    let once = |db: &Db| put_round(db, 1);
    sorted(|options| options.log_table_percent(0), once);
    sorted(|options| options.log_table_percent(95), once);
    // Less than half of the log is alive.
    sorted(|options| options, |db| (0..3).for_each(|round| put_round(db, round)));
    // Small values.
    sorted(
        |options| options,
        |db| (0..KEYS).for_each(|number| db.put(key(number), "round, but short, so short").unwrap()),
    );
}

#[test]
fn a_log_stays_under_an_iterator_and_goes_after_it() {
    let fs = SimFs::new();
    let db = open_plain(&fs);
    put_round(&db, 1);
    db.flush().unwrap();
    let mut iter = db.iter();
    assert_eq!(iter.next().unwrap().unwrap().1, value(1, 0));
    let snapshot = db.snapshot();
    put_round(&db, 2);
    db.compact().unwrap();
    db.settle().unwrap();
    assert_eq!(db.stats().log_tables, 0, "the tree points nowhere any more");
    assert_eq!(logs_with(&fs, "round 1"), 1, "but the iterator does");
    for number in 1..KEYS {
        assert_eq!(iter.next().unwrap().unwrap().1, value(1, number));
    }
    // The snapshot alone keeps versions, not files: these were merged into a table.
    drop(iter);
    assert_eq!(logs_with(&fs, "round 1"), 0);
    assert_eq!(snapshot.get(key(3)).unwrap().unwrap(), value(1, 3));
    check(&db, 2);
}

#[test]
fn one_log_serves_the_tables_of_two_families() {
    let fs = SimFs::new();
    // Both together are most of the log, and the second flush counts what the first one left there.
    let db = open(&fs, |options| options.log_table_percent(30)).unwrap();
    let other = db.column_family("other").unwrap();
    for number in 0..KEYS {
        db.put(key(number), value(1, number)).unwrap();
        other.put(key(number), value(2, number)).unwrap();
    }
    db.flush().unwrap();
    let stats = db.stats();
    assert_eq!((stats.log_tables, stats.pinned_logs), (2, 1));
    // A table that goes leaves the log to the other.
    for number in 0..KEYS {
        db.delete(key(number)).unwrap();
    }
    db.flush().unwrap();
    let stats = db.stats();
    assert!(stats.log_tables >= 1 && logs_with(&fs, "round 2") == 1, "{stats:?}");
    drop((db, other));
    let db = open_plain(&fs);
    let other = db.column_family("other").unwrap();
    for number in 0..KEYS {
        assert_eq!(other.get(key(number)).unwrap().unwrap(), value(2, number));
        assert_eq!(db.get(key(number)).unwrap(), None);
    }
    db.compact().unwrap();
    assert_eq!((db.stats().log_tables, logs_with(&fs, "round")), (0, 0));
    assert_eq!(other.get(key(9)).unwrap().unwrap(), value(2, 9));
}

#[test]
fn bodies_outlive_crashes_and_are_not_replayed() {
    for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn] {
        let fs = SimFs::new();
        let db = open_plain(&fs);
        put_round(&db, 1);
        db.flush().unwrap();
        db.put("after", "the flush").unwrap();
        let image = fs.crash_image(crash, 5);
        drop(db);
        let db = open_plain(&image);
        assert!(
            db.recovery().entries <= 1,
            "only what came after the flush is replayed: {:?}",
            db.recovery()
        );
        assert_eq!((db.stats().pinned_logs, logs_with(&image, "round 1")), (1, 1));
        assert_eq!(db.get(key(5)).unwrap().unwrap(), value(1, 5));
        drop(db);
        // Once more, from what an orderly close leaves, and without the option: tables lead to logs all the same.
        let db = open(&image, |options| options.log_table_percent(0)).unwrap();
        db.delete("after").unwrap();
        check(&db, 1);
        db.compact().unwrap();
        assert_eq!((db.stats().pinned_logs, logs_with(&image, "round 1")), (0, 0));
        check(&db, 1);
    }
}

/// What an earlier open wrote is left in its log only if the manifest tells how long that is.
#[test]
fn only_logs_whose_end_is_known_become_bodies() {
    for is_closed in [true, false] {
        let fs = SimFs::new();
        let db = open_plain(&fs);
        put_round(&db, 1);
        let image = if is_closed {
            db.close().unwrap();
            fs.crash_image(Crash::Process, 0)
        } else {
            fs.crash_image(Crash::Process, 0)
        };
        let db = open_plain(&image);
        assert_eq!(db.recovery().entries, KEYS as u64);
        db.flush().unwrap();
        assert_eq!(db.stats().counts.log_tables, u64::from(is_closed));
        assert_eq!(logs_with(&image, "round 1"), usize::from(is_closed));
        check(&db, 1);
        drop(db);
        check(&open_plain(&image), 1);
    }
}

/// A log to which one family's table leads, and which another family still replays until what is alive there is written back.
#[test]
fn a_rewritten_log_stays_while_tables_lead_to_it() {
    let fs = SimFs::new();
    let small = |options: Options| {
        let options = options.memory_policy(MemoryPolicy::Eager).active_percent(10);
        options.memtable_bytes(32 << 10).log_bytes(64 << 10)
    };
    let db = open(&fs, small).unwrap();
    let quiet = db.column_family("quiet").unwrap();
    quiet.put("cold", "a few bytes").unwrap();
    // Memory fills up, and the family that has most of it is flushed.
    let mut keys = 0;
    while db.stats().counts.log_tables == 0 {
        db.put(key(keys), value(1, keys)).unwrap();
        keys += 1;
        db.settle().unwrap();
    }
    let stats = db.stats();
    assert_eq!((stats.log_tables, stats.pinned_logs, stats.counts.written_back), (1, 0, 0), "both need it");
    for round in 0.. {
        assert!(round < 1000, "nothing was written back");
        db.put("hot", "h".repeat(300)).unwrap();
        db.settle().unwrap();
        if db.stats().counts.written_back > 0 {
            break;
        }
    }
    let stats = db.stats();
    assert!(stats.log_tables == 1 && stats.pinned_logs >= 1 && stats.counts.logs_truncated > 0, "{stats:?}");
    drop((db, quiet));
    let db = open(&fs, small).unwrap();
    assert_eq!(db.column_family("quiet").unwrap().get("cold").unwrap().unwrap(), "a few bytes");
    for number in 0..keys {
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(1, number));
    }
    assert_eq!(db.verify().unwrap().damages, []);
}

/// Damage in a log is told with its name and place, by reads and by `verify`.
#[test]
fn damage_behind_a_handle_is_told() {
    let fs = SimFs::new();
    let db = open_plain(&fs);
    put_round(&db, 1);
    db.flush().unwrap();
    db.close().unwrap();
    let log = fs.files().into_iter().find(|path| {
        let is_log = path.extension().is_some_and(|ending| ending == "log");
        is_log && fs.read_file(path).unwrap().windows(7).any(|bytes| bytes == b"round 1")
    });
    let log = log.expect("the values stayed in a log");
    let mut bytes = fs.read_file(&log).unwrap();
    let wanted = value(1, 33);
    let at = bytes.windows(wanted.len()).position(|found| found == wanted.as_bytes()).unwrap();
    bytes[at + 20] ^= 0x40;
    fs.write_file(&log, &bytes).unwrap();

    let env = env_over(Arc::new(fs.clone()), 1).0;
    let damages = options(env).verify(DIR).unwrap().damages;
    assert!(damages.iter().any(|damage| damage.path == log && damage.offset == at as u64), "{damages:?}");
    let db = open_plain(&fs);
    assert_eq!(db.get(key(32)).unwrap().unwrap(), value(1, 32));
    match db.get(key(33)) {
        Err(Error::Corruption { path, offset, .. }) => assert_eq!((path, offset), (log.clone(), at as u64)),
        other => panic!("{other:?}"),
    }
    assert_eq!(db.iter().filter(Result::is_err).count(), 1);
    assert!(db.compact().unwrap_err().is_corruption(), "a merge does not pass over it");
    assert_eq!(db.get(key(34)).unwrap().unwrap(), value(1, 34));
}
