//! A reopening must not forget a failed sync. The page cache may show data that the device lacks. The database writes such data
//! again before it accepts a write.

use braidb::storage::inline::{Inline, SeededRandom, StepClock};
use braidb::storage::{Env, FileSystem};
use braidb::{Db, Durability, Error, Options};
use braidb_storage::sim::{Crash, Fault, Lasting, OpKind, SimFs};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// Opens the database on one thread with the simplest clock and random numbers.
fn open(fs: &SimFs, options: Options) -> Result<Db, Error> {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(fs.clone()), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    options.env(env).open(DIR)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Puts `keys` keys from `first` on, each with a value of `value_bytes` bytes.
fn put(db: &Db, first: u32, keys: u32, value_bytes: usize) {
    for number in first..first + keys {
        db.put(key(number), vec![number as u8; value_bytes]).unwrap();
    }
}

/// Whether the database has the keys 0 to `keys` (exclusive) and no others.
fn has(db: &Db, keys: u32, value_bytes: usize) -> bool {
    let found: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
    found.len() == keys as usize
        && (0..).zip(&found).all(|(number, (found, value))| {
            found[..] == key(number) && value[..] == vec![number as u8; value_bytes][..]
        })
}

/// Opens what is left after a power failure that loses all unsynced data.
fn after_a_power_failure(fs: &SimFs) -> Db {
    open(&fs.crash_image(Crash::PowerAllLost, 0), Options::new()).expect("the database opens")
}

/// A file system on a device that runs full: `persist` fails, the user mends the cause and opens again.
#[test]
fn what_a_failed_sync_dropped_is_written_anew() {
    let fs = SimFs::new();
    let db = open(&fs, Options::new()).unwrap();
    put(&db, 0, 400, 100);
    fs.fail_nth(1, Fault::Sync, Lasting::Once, 0);
    assert!(db.persist(Durability::Sync).is_err());
    assert!(matches!(db.put("more", ""), Err(Error::Poisoned { .. })));
    drop(db);
    let db = open(&fs, Options::new()).unwrap();
    assert!(has(&db, 400, 100));
    assert!(has(&after_a_power_failure(&fs), 400, 100), "the opening has shown all of it");
    put(&db, 400, 50, 100);
    db.persist(Durability::Sync).unwrap();
    assert!(has(&after_a_power_failure(&fs), 450, 100));
    assert!(db.verify().unwrap().damages.is_empty());
}

/// Each sync of the first opening fails in turn. The syncs of the second opening cannot make the lost data stable.
#[test]
fn an_opening_that_failed_is_not_believed_by_the_next() {
    let killed = {
        let fs = SimFs::new();
        let db = open(&fs, Options::new()).unwrap();
        put(&db, 0, 100, 100);
        fs.without_process()
    };
    for nth in 1.. {
        let fs = killed.without_process();
        fs.fail_nth(nth, Fault::Sync, Lasting::Once, 0);
        drop(open(&fs, Options::new()));
        if fs.faults_struck() == 0 {
            assert!(nth > 4, "an opening syncs manifest, CURRENT, directory and log");
            break;
        }
        let db = open(&fs.without_process(), Options::new()).expect("the second opening succeeds");
        assert!(has(&db, 100, 100));
        let fs = fs.without_process();
        let _db = open(&fs, Options::new()).unwrap();
        assert!(has(&after_a_power_failure(&fs), 100, 100), "sync {nth} of the first opening failed");
    }
}

/// The failed write-back is reported to no process, because the process that wrote the data is dead.
#[test]
fn what_write_back_dropped_behind_the_back_of_a_dead_process_is_written_anew() {
    // With logs of 16 KiB most of the data lies in logs that were closed and not synced.
    let options = || Options::new().tuning(|tuning| tuning.log_bytes(64 << 10)).memtable_bytes(1 << 20);
    let fs = SimFs::new();
    let db = open(&fs, options()).unwrap();
    put(&db, 0, 50, 100);
    db.persist(Durability::Sync).unwrap();
    put(&db, 50, 350, 100);
    let killed = fs.without_process();
    killed.lose_write_backs(None);
    let db = open(&killed, options()).unwrap();
    assert!(has(&db, 400, 100));
    let report = db.recovery();
    assert!(report.logs > 2, "{report:?}");
    assert!((35_000..50_000).contains(&report.rewritten_bytes), "only what no mark covered: {report:?}");
    assert!(has(&after_a_power_failure(&killed), 400, 100));
    assert!(db.verify().unwrap().damages.is_empty());
    // Another kill, before any write. The copies are in one log by now.
    let again = killed.without_process();
    again.lose_write_backs(None);
    let _db = open(&again, options()).unwrap();
    assert!(has(&after_a_power_failure(&again), 400, 100));
}

/// If 1 MiB of log data or more is not covered by a synced mark, recovery writes tables, and the next opening has nothing to write.
#[test]
fn much_that_no_mark_covers_goes_to_tables_once() {
    let fs = SimFs::new();
    let db = open(&fs, Options::new()).unwrap();
    let other = db.create_column_family("other").unwrap();
    for number in 0..300u32 {
        other.put(key(number), "synced").unwrap();
    }
    db.persist(Durability::Sync).unwrap();
    put(&db, 0, 2_000, 1_000);
    let killed = fs.without_process();
    killed.lose_write_backs(None);
    let db = open(&killed, Options::new()).unwrap();
    assert!(db.recovery().rewritten_bytes > 2_000_000);
    let tables =
        |db: &Db| db.stats().families.iter().map(|family| family.levels[0].tables).collect::<Vec<_>>();
    assert_eq!(tables(&db), [1, 0], "only the family with uncovered commits is written to tables");
    let check = |db: &Db| {
        assert!(has(db, 2_000, 1_000));
        assert_eq!(db.column_family("other").unwrap().iter().count(), 300);
    };
    check(&after_a_power_failure(&killed));
    let again = killed.without_process();
    let db = open(&again, Options::new()).unwrap();
    assert_eq!((db.recovery().rewritten_bytes, tables(&db)), (0, vec![1, 0]));
    check(&db);
    db.compact().unwrap();
    check(&db);
}

#[test]
fn nothing_is_written_anew_after_a_clean_close() {
    let fs = SimFs::new();
    let db = open(&fs, Options::new()).unwrap();
    put(&db, 0, 400, 100);
    db.close().unwrap();
    let db = open(&fs, Options::new()).unwrap();
    let before = fs.op_counts();
    assert_eq!((db.recovery().entries, db.recovery().rewritten_bytes), (400, 0));
    assert!(!before.contains_key(&OpKind::Rewrite));
    assert!(has(&after_a_power_failure(&fs), 400, 100));
}

/// The device has room for the manifest and an empty log, and for nothing else.
#[test]
fn on_a_full_device_the_same_bytes_are_written_where_they_stand() {
    let fs = SimFs::new();
    let db = open(&fs, Options::new()).unwrap();
    put(&db, 0, 4_000, 100);
    let killed = fs.without_process();
    killed.lose_write_backs(None);
    let in_place = (1..20).find_map(|blocks| {
        let fs = killed.without_process();
        fs.set_capacity(Some(fs.taken_bytes() + blocks * 4096));
        match open(&fs, Options::new()) {
            Ok(db) => Some((fs, db)),
            Err(error) => {
                assert!(error.is_full(), "{error}");
                assert!(has(&open(&killed.without_process(), Options::new()).unwrap(), 4_000, 100));
                None
            }
        }
    });
    let (fs, db) = in_place.expect("a few blocks are enough");
    assert!(fs.op_counts().contains_key(&OpKind::Rewrite));
    assert!(has(&db, 4_000, 100));
    assert!(db.recovery().rewritten_bytes > 400_000);
    let image = fs.crash_image(Crash::PowerAllLost, 0);
    image.set_capacity(None);
    assert!(has(&open(&image, Options::new()).unwrap(), 4_000, 100));
    assert!(image.list(Path::new(DIR)).unwrap().len() > 3);
}

/// Marks lie behind the data that they cover. A cut that drops marks says itself that all data before it was stable.
#[test]
fn damage_before_a_covered_cut_is_no_torn_end() {
    let options = || Options::new().tuning(|tuning| tuning.log_bytes(64 << 10)).memtable_bytes(1 << 20);
    let fs = SimFs::new();
    let db = open(&fs, options()).unwrap();
    put(&db, 0, 400, 100);
    db.persist(Durability::Sync).unwrap();
    put(&db, 400, 5, 100);
    let killed = fs.without_process();
    killed.lose_write_backs(None);
    let db = open(&killed, options()).unwrap();
    assert!(has(&db, 405, 100));
    let image = killed.crash_image(Crash::PowerAllLost, 0);
    assert!(has(&open(&image.without_process(), options()).unwrap(), 405, 100));
    let mut logs = image.files();
    logs.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
    logs.sort();
    assert!(logs.len() > 3, "{logs:?}");
    // The newest log belongs to the last opening, and the log before it is cut.
    for damaged in &logs[..logs.len() - 2] {
        let image = image.without_process();
        image.flip_bit(damaged, 8 * 10_000).unwrap();
        let opened = open(&image, options());
        let error = opened.as_ref().err();
        assert!(
            error.is_some_and(Error::is_corruption),
            "{damaged:?}: {:?}",
            opened.map(|db| db.recovery().clone())
        );
    }
}

/// The manifest lost its last edits, which no crash can do. The log of the last open still tells that it accepted writes.
#[test]
fn a_manifest_that_lost_edits_takes_no_synced_write_along() {
    for is_closed in [true, false] {
        let fs = SimFs::new();
        put(&open(&fs, Options::new()).unwrap(), 0, 3, 10);
        let db = open(&fs, Options::new()).unwrap();
        put(&db, 3, 2, 10);
        db.persist(Durability::Sync).unwrap();
        put(&db, 5, 1, 10);
        db.persist(Durability::Sync).unwrap();
        let killed = fs.crash_image(Crash::PowerAllLost, 0);
        drop(db);
        let fs = if is_closed { fs } else { killed };
        let manifests =
            fs.files().into_iter().filter(|path| path.extension().is_some_and(|it| it == "manifest"));
        let manifest = manifests.max().expect("there is one");
        let bytes = fs.read_file(&manifest).unwrap();
        let mut refused = 0;
        for len in 0..bytes.len() {
            for zeros in [false, true] {
                let fs = fs.crash_image(Crash::Process, 0);
                let mut damaged = bytes[..len].to_vec();
                damaged.resize(if zeros { bytes.len() } else { len }, 0);
                fs.write_file(&manifest, &damaged).unwrap();
                match open(&fs, Options::new()) {
                    Ok(db) => assert!(has(&db, 6, 10), "{len} of {} bytes, closed {is_closed}", bytes.len()),
                    Err(error) => {
                        assert!(error.is_corruption(), "{error}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > bytes.len(), "{refused} of {}", 2 * bytes.len());
    }
}

/// A family has synced commits in the first log. Each opening adds copies in its own log, and is killed. Only the newest copies
/// must stay.
#[test]
fn kills_in_a_row_leave_few_logs() {
    let mut fs = SimFs::new();
    let mut most_logs = 0;
    let db = open(&fs, Options::new()).unwrap();
    put(&db, 0, 3, 10);
    db.persist(Durability::Sync).unwrap();
    put(&db, 3, 2, 10);
    fs = fs.without_process();
    for _ in 0..40 {
        let db = open(&fs, Options::new()).unwrap();
        assert!(has(&db, 5, 10));
        fs = fs.without_process();
        let logs = fs.files().into_iter().filter(|path| path.extension().is_some_and(|it| it == "log"));
        most_logs = most_logs.max(logs.count());
    }
    assert!(most_logs < 5, "{most_logs}");
}
