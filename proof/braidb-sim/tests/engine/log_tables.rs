//! Values stay in the log where they were first written, as long as a table points there or a reader uses such a table. Then the log is
//! deleted.

use braidb::tuning::MemoryPolicy;
use braidb::{Db, Error, Options};
use braidb_sim::env_over;
use braidb_storage::sim::{Beside, BesideFs, Crash, SimFs};
use braidb_storage::{Env, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";
const KEYS: usize = 60;

fn options(env: Env) -> Options {
    Options::new()
        .memtable_bytes(1 << 20)
        .tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).log_table_percent(50))
        .env(env)
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

/// The number of logs that contain the text.
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
    sorted(|options| options.tuning(|tuning| tuning.log_table_percent(0)), once);
    sorted(|options| options.tuning(|tuning| tuning.log_table_percent(95)), once);
    // Less than half of the log is live.
    sorted(|options| options, |db| (0..3).for_each(|round| put_round(db, round)));
    // Small values.
    sorted(
        |options| options,
        |db| (0..KEYS).for_each(|number| db.put(key(number), "round, but short, so short").unwrap()),
    );
}

/// A fill in key order: its tables do not overlap and go down by trivial moves. The values stay where they were first written.
#[test]
fn logs_in_key_order_move_down_as_they_are() {
    let fs = SimFs::new();
    let (db, value) = (open_plain(&fs), [7; 1000]);
    (0..10_000u32).for_each(|number| db.put(number.to_be_bytes(), value).unwrap());
    db.flush().unwrap();
    db.settle().unwrap();
    let stats = db.stats();
    assert!(stats.counts.log_tables >= 8 && stats.counts.trivial_moves > 0, "{:?}", stats.counts);
    assert_eq!((stats.counts.merges, stats.log_value_bytes), (0, 10_000_000));
    assert!(stats.counts.flush_bytes < 500_000, "{:?}", stats.counts);
    let below_l0 = stats.families[0].levels[1..].iter().map(|level| level.tables).sum::<u64>();
    assert!(below_l0 > 0 && stats.pinned_logs > below_l0, "{stats:?}");
    drop(db);
    let db = open_plain(&fs);
    assert_eq!(db.iter().filter(|entry| entry.as_ref().unwrap().1 == value).count(), 10_000);
    assert_eq!(db.verify().unwrap().damages, []);
}

/// A scan reads each value in a log separately, so flushes of scanned families write the values to tables.
#[test]
fn what_is_scanned_is_written_to_tables() {
    let fs = SimFs::new();
    let db = open(&fs, |options| options.tuning(|tuning| tuning.log_table_percent(30))).unwrap();
    let other = db.create_column_family("other").unwrap();
    let scan = |entries: usize| {
        let shown: usize = (0..entries.div_ceil(KEYS)).map(|_| db.iter().count()).sum();
        assert!(shown >= entries);
    };
    let log_tables = |round: usize, scanned: usize| {
        let before = db.stats().counts.log_tables;
        put_round(&db, round);
        (0..KEYS).for_each(|number| other.put(key(number), value(round, number)).unwrap());
        scan(scanned);
        db.flush().unwrap();
        check(&db, round);
        db.stats().counts.log_tables - before
    };
    assert_eq!(log_tables(1, 5_000), 2);
    assert_eq!(log_tables(2, 10_000), 1, "the family `other` is not scanned");
    assert_eq!(log_tables(3, 0), 2);
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
    assert_eq!(db.stats().log_tables, 0, "the tree points into no log");
    assert_eq!(logs_with(&fs, "round 1"), 1, "the iterator keeps the log");
    for number in 1..KEYS {
        assert_eq!(iter.next().unwrap().unwrap().1, value(1, number));
    }
    // A snapshot alone keeps versions, not files: the merge wrote these versions to a table.
    drop(iter);
    db.settle().unwrap();
    assert_eq!(logs_with(&fs, "round 1"), 0);
    assert_eq!(snapshot.get(key(3)).unwrap().unwrap(), value(1, 3));
    check(&db, 2);
}

#[test]
fn one_log_serves_the_tables_of_two_families() {
    let fs = SimFs::new();
    // Both families together are most of the log. The second flush counts what the first one left in it.
    let db = open(&fs, |options| options.tuning(|tuning| tuning.log_table_percent(30))).unwrap();
    let other = db.create_column_family("other").unwrap();
    for number in 0..KEYS {
        db.put(key(number), value(1, number)).unwrap();
        other.put(key(number), value(2, number)).unwrap();
    }
    db.flush().unwrap();
    let stats = db.stats();
    assert_eq!((stats.log_tables, stats.pinned_logs), (2, 1));
    // When one family's table goes, the log stays for the other family's table.
    for number in 0..KEYS {
        db.delete(key(number)).unwrap();
    }
    db.flush().unwrap();
    let stats = db.stats();
    assert!(stats.log_tables >= 1 && logs_with(&fs, "round 2") == 1, "{stats:?}");
    drop((db, other));
    let db = open_plain(&fs);
    let other = db.create_column_family("other").unwrap();
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
        // Opens again after an orderly close, with log tables switched off. Tables still point to logs.
        let db = open(&image, |options| options.tuning(|tuning| tuning.log_table_percent(0))).unwrap();
        db.delete("after").unwrap();
        check(&db, 1);
        db.compact().unwrap();
        assert_eq!((db.stats().pinned_logs, logs_with(&image, "round 1")), (0, 0));
        check(&db, 1);
    }
}

/// Only the open that wrote a log knows where its values lie. A flush writes the values of earlier logs to the table.
#[test]
fn only_logs_of_this_open_become_bodies() {
    for is_closed in [true, false] {
        let fs = SimFs::new();
        let db = open_plain(&fs);
        put_round(&db, 1);
        if is_closed {
            db.close().unwrap();
        }
        let image = fs.crash_image(Crash::Process, 0);
        let db = open_plain(&image);
        assert_eq!(db.recovery().entries, KEYS as u64);
        for number in 0..KEYS {
            db.put(format!("later {number}"), value(2, number)).unwrap();
        }
        db.flush().unwrap();
        let stats = db.stats();
        assert_eq!((stats.counts.log_tables, stats.pinned_logs), (1, 1));
        // After a kill, recovery has copied the first round to the log of this open.
        let copied = usize::from(!is_closed);
        assert_eq!((logs_with(&image, "round 1"), logs_with(&image, "round 2")), (copied, 1));
        for number in 0..KEYS {
            assert_eq!(db.get(key(number)).unwrap().unwrap(), value(1, number));
            assert_eq!(db.get(format!("later {number}")).unwrap().unwrap(), value(2, number));
        }
        assert_eq!(db.verify().unwrap().damages, []);
        drop(db);
        assert_eq!(open_plain(&image).iter().count(), 2 * KEYS);
    }
}

/// One family's table points to a log that another family still replays, until the log's live records are written back.
#[test]
fn a_rewritten_log_stays_while_tables_lead_to_it() {
    let fs = SimFs::new();
    let small = |options: Options| {
        let options = options.tuning(|tuning| tuning.memory_policy(MemoryPolicy::Eager).active_percent(10));
        // A short log has 64 KiB, so the logs of one memtable do not outgrow memory.
        options.memtable_bytes(32 << 10).tuning(|tuning| tuning.log_bytes(256 << 10))
    };
    let db = open(&fs, small).unwrap();
    let quiet = db.create_column_family("quiet").unwrap();
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
    assert!(stats.log_tables == 1 && stats.pinned_logs >= 1 && stats.counts.logs_collected > 0, "{stats:?}");
    drop((db, quiet));
    let db = open(&fs, small).unwrap();
    assert_eq!(db.column_family("quiet").unwrap().get("cold").unwrap().unwrap(), "a few bytes");
    for number in 0..keys {
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(1, number));
    }
    assert_eq!(db.verify().unwrap().damages, []);
}

/// Reads and `verify` report damage in a log with its file and offset.
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
    assert!(db.compact().unwrap_err().is_corruption(), "a merge does not skip the damage");
    assert_eq!(db.get(key(34)).unwrap().unwrap(), value(1, 34));
}

/// A backward scan passes every version of a key, and shows one.
#[test]
fn a_backward_scan_reads_only_the_values_that_it_shows() {
    let fs = SimFs::new();
    let db = open(&fs, |options| options).unwrap();
    // Three flushes, because four tables of L0 would be merged into L1.
    for round in 0..3 {
        (0..10).for_each(|number| db.put(key(number), value(round, number)).unwrap());
        db.flush().unwrap();
    }
    assert_eq!(db.stats().log_tables, 3);
    let before = db.stats().counts.log_reads;
    assert_eq!(db.iter().count(), 10);
    let forward = db.stats().counts.log_reads - before;
    assert_eq!(db.iter().rev().count(), 10);
    let backward = db.stats().counts.log_reads - before - forward;
    assert_eq!((forward, backward), (10, 10));
}

/// A backward scan meets the overwritten value first.
#[test]
fn damage_to_an_overwritten_value_does_not_end_a_backward_scan() {
    let fs = SimFs::new();
    let db = open(&fs, |options| options).unwrap();
    for round in 0..2 {
        (0..10).for_each(|number| db.put(key(number), value(round, number)).unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let wanted = value(0, 5).into_bytes();
    for path in fs.files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "log")) {
        let mut bytes = fs.read_file(&path).unwrap();
        if let Some(at) = bytes.windows(wanted.len()).position(|found| found == wanted) {
            bytes[at + 20] ^= 0x40;
            fs.write_file(&path, &bytes).unwrap();
        }
    }
    let db = open(&fs, |options| options).unwrap();
    assert_eq!(db.get(key(5)).unwrap().unwrap(), value(1, 5));
    assert_eq!(db.iter().filter(Result::is_ok).count(), 10);
    assert_eq!(db.iter().rev().filter(Result::is_ok).count(), 10);
}

/// A bad sector in one file: reads that touch it fail.
#[derive(Debug, Default)]
struct BadSector(Arc<Mutex<Option<(PathBuf, u64)>>>);

#[derive(Debug)]
struct BadFile {
    file: Arc<dyn File>,
    path: PathBuf,
    bad: Arc<Mutex<Option<(PathBuf, u64)>>>,
}

impl Beside for BadSector {
    fn opened(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(BadFile { file, path: path.to_owned(), bad: self.0.clone() })
    }
}

impl File for BadFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if let Some((path, at)) = &*self.bad.lock().unwrap()
            && *path == self.path
            && (offset..offset + buf.len() as u64).contains(at)
        {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.file.read_at(offset, buf)
    }
    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.file.append(data)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.file.preallocate(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// A merge reads only the needed values of a log. A merge that loaded the whole log would fail at the unreadable sector.
#[test]
fn a_merge_needs_only_the_values_of_a_log() {
    let fs = SimFs::new();
    let bad = Arc::new(BadSector::default());
    let mut env = env_over(Arc::new(fs.clone()), 3).0;
    env.fs = Arc::new(BesideFs::new(fs.clone(), bad.clone()));
    let db = options(env).tuning(|tuning| tuning.log_table_percent(20)).open(DIR).unwrap();
    for round in 0..2 {
        (0..40).for_each(|number| db.put(key(number), value(round, number)).unwrap());
    }
    db.flush().unwrap();
    assert_eq!(db.stats().log_tables, 1);
    // The bad sector is in the values of round 0, which no reader needs.
    let wanted = value(0, 20).into_bytes();
    let log = fs.files().into_iter().find_map(|path| {
        let bytes = fs.read_file(&path).unwrap();
        Some((path, bytes.windows(wanted.len()).position(|found| found == wanted)? as u64))
    });
    *bad.0.lock().unwrap() = log;
    for number in 0..40 {
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(1, number));
    }
    assert_eq!(db.iter().filter(Result::is_ok).count(), 40);
    db.compact().unwrap();
}

#[test]
fn a_scan_reads_no_value_beyond_its_bound() {
    let fs = SimFs::new();
    let db = open(&fs, |options| options).unwrap();
    (0..10).for_each(|number| db.put(key(number), value(0, number)).unwrap());
    db.flush().unwrap();
    assert_eq!(db.range(key(3)..key(5)).count(), 2);
    assert_eq!(db.stats().counts.log_reads, 2);
    assert_eq!(db.range(key(3)..key(5)).rev().count(), 2);
    assert_eq!(db.stats().counts.log_reads, 4);
}

/// The index of a log table tells whether a key exists.
#[test]
fn whether_a_key_is_there_reads_no_value() {
    let fs = SimFs::new();
    let db = open(&fs, |options| options).unwrap();
    (0..10).for_each(|number| db.put(key(number), value(0, number)).unwrap());
    db.flush().unwrap();
    assert!(db.contains_key(key(3)).unwrap());
    assert_eq!(db.stats().counts.log_reads, 0);
}

/// If the second half of a log is zeros, `verify` must not report one damage for each value.
#[test]
fn a_destroyed_log_is_not_told_value_by_value() {
    const VALUES: usize = 8_000;
    let fs = SimFs::new();
    let config = |options: Options| {
        options.memtable_bytes(8 << 20).tuning(|tuning| tuning.log_bytes(64 << 20).log_rewrite_percent(0))
    };
    let db = open(&fs, config).unwrap();
    (0..VALUES).for_each(|number| db.put(format!("{number:06}"), value(0, number)).unwrap());
    db.flush().unwrap();
    assert_eq!(db.stats().log_tables, 1);
    db.close().unwrap();
    drop(db);
    let log = fs
        .files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|found| found == "log"))
        .min()
        .unwrap();
    let mut bytes = fs.read_file(&log).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0);
    fs.write_file(&log, &bytes).unwrap();
    let damages = options(env_over(Arc::new(fs.clone()), 1).0).verify(DIR).unwrap().damages;
    assert!(damages.len() < 100, "{}", damages.len());
    let others = damages.iter().find(|damage| damage.what.contains("more values")).unwrap();
    assert!(others.bytes > half as u64 * 9 / 10, "{others:?}");
    assert!(others.offset + others.bytes > bytes.len() as u64 * 9 / 10, "{others:?}");
}
