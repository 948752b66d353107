//! A slow device that fails or is full while the database is open (item 13 of the rules): what is fast goes on, and nothing is lost.

use super::*;
use braidb_storage::sim::{Crash, Fault, Lasting};

/// Databases whose slow cells are in a deep level, and in L1 as the last one. Each with values in tables and with values apart.
fn databases() -> impl Iterator<Item = (Options, MakeOptions, usize, u32)> {
    let kinds = [(options as MakeOptions, 120), (separated, 300)];
    kinds
        .into_iter()
        .flat_map(|(options, len)| [121, 800].map(|records| (one(options(30)), options, len, records)))
}

fn filled(fs: &SimFs, options: Options, len: usize, records: u32) -> (Db, Model) {
    let db = open(fs, options).unwrap();
    let mut model = Model::default();
    for round in 0..2 {
        model.fill(&db, (0..records).map(|number| number * 333 % records), len, round);
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.settle().unwrap();
    assert!(bytes(&db).iter().all(|&bytes| bytes > 0), "{:?}", bytes(&db));
    (db, model)
}

/// Reads every key. Returns how many were read, and how many are on the failing device.
fn read_what_is_there(db: &Db, model: &Model) -> (u32, u32) {
    let (mut read, mut failed) = (0, 0);
    for ((family, key), value) in &model.0 {
        match db.column_family(family).unwrap().get(key) {
            Ok(found) => {
                assert_eq!(found.as_deref(), Some(value.as_slice()));
                read += 1;
            }
            Err(Error::Io { path: file, .. }) => {
                assert!(file.starts_with(SLOW[0]) && file.extension().is_some(), "{}", file.display());
                failed += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (read, failed)
}

/// Writes 30 memtables and more: new keys between the old ones and behind them, and old keys. Returns how many writes were refused, each
/// with an error that names a file of the slow tier.
fn go_on_writing(db: &Db, model: &mut Model, records: u32) -> u32 {
    let mut refused = 0;
    for number in 0..2_500 {
        let (key, value) = (key(number * 77 % (records + 400)), vec![number as u8; 100]);
        match db.put(&key, &value) {
            Ok(()) => drop(model.0.insert(("default", key), value)),
            Err(Error::Io { path: file, .. }) if file.starts_with(SLOW[0]) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    db.flush().unwrap();
    refused
}

#[test]
fn a_slow_device_that_fails_stops_reads_of_its_files_alone() {
    for (options, reopened, len, records) in databases() {
        let fs = machine();
        let (db, mut model) = filled(&fs, options, len, records);
        fs.fail_device(path(SLOW[0]), 1, Fault::Io, Lasting::ForEver, 0);
        let (read, failed) = read_what_is_there(&db, &model);
        assert!(read > 0 && failed > 0, "{records} records: {read} are read, {failed} are not");
        let refused = go_on_writing(&db, &mut model, records);
        // A writer that waits at the limit of L0 may get the error of a failed merge once.
        assert!(refused <= 1, "{records} {len}: {refused}");
        // `settle` may return the error of a merge that needs the failed device.
        let _ = db.settle();
        let (read, _) = read_what_is_there(&db, &model);
        assert!(read > 300, "what was written is read");
        assert!(db.stats().poisoned.is_none());
        let image = fs.crash_image(Crash::PowerTorn, 1);
        db.close().unwrap();

        fs.heal();
        let db = open(&fs, reopened(30)).unwrap();
        model.check(&db);
        assert_eq!(db.verify().unwrap().damages, []);
        db.settle().unwrap();
        assert!(bytes(&db)[1] > 0);
        model.check_reopened(&fs, db, reopened(30));
        // The flush in `go_on_writing` made everything stable, so the image after the power failure has it all.
        model.check(&open(&image, reopened(30)).unwrap());
    }
}

#[test]
fn a_slow_device_that_heals_takes_cells_again() {
    for (options, reopened, len, records) in databases() {
        let fs = machine();
        let (db, mut model) = filled(&fs, options, len, records);
        fs.fail_device(path(SLOW[0]), 1, Fault::Io, Lasting::ForEver, 0);
        let _ = go_on_writing(&db, &mut model, records);
        let _ = db.settle();
        fs.heal();
        for _ in 0..3 {
            // `settle` may return the error of a merge that ran before the device was healed.
            let _ = db.settle();
            assert_eq!(go_on_writing(&db, &mut model, records), 0);
        }
        db.compact().unwrap();
        db.settle().unwrap();
        if len == 120 {
            assert!(fast_percent(&db) <= 30, "{:?}", bytes(&db));
        }
        assert!(db.stats().tiers.iter().all(|tier| !tier.is_closed), "{:?}", db.stats().tiers);
        model.check_reopened(&fs, db, reopened(30));
    }
}

/// In a database at rest no merge ends that could show that the device works again. So a closed tier is opened after some time.
#[test]
fn a_closed_tier_is_tried_again_after_a_while() {
    const WAIT_US: u64 = 10_000_000;
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let fs = machine();
        let (db, model) = at_rest(&fs, options(100), len);
        db.close().unwrap();
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let random = Arc::new(SeededRandom::new(1));
        let env = Env { fs: Arc::new(fs.clone()), clock: clock.clone(), random, runtime };
        let db = options(30).env(env).open(DIR).unwrap();
        let is_closed = || db.stats().tiers[1].is_closed;
        // The next plans go on after the failure, so `settle` may return no error.
        let settle_without_success = || {
            let _ = db.settle();
            bytes(&db)[1] == 0 && is_closed()
        };
        fs.fail_device(path(SLOW[0]), 1, Fault::Full, Lasting::ForEver, 0);
        assert!(settle_without_success());
        // The second failure doubles the wait.
        clock.advance_us(WAIT_US);
        assert!(!is_closed() && settle_without_success());
        fs.heal();
        clock.advance_us(2 * WAIT_US - 1);
        assert!(settle_without_success());
        clock.advance_us(1);
        db.settle().unwrap();
        assert!(!is_closed() && bytes(&db)[1] > 0, "{:?}", bytes(&db));
        if len == 120 {
            assert!(fast_percent(&db) <= 30, "{:?}", bytes(&db));
        }
        model.check_reopened(&fs, db, options(30));
    }
}

#[test]
fn a_compaction_goes_on_beside_a_full_slow_device() {
    for (options, make_options, len, records) in databases() {
        let fs = machine();
        let (db, mut model) = filled(&fs, options, len, records);
        fs.set_capacity_of(path(DEVICES[0]), Some(fs.taken_bytes_of(path(DEVICES[0]))));
        model.fill(&db, 0..records, len, 7);
        db.compact().unwrap();
        model.check_reopened(&fs, db, make_options(30));
    }
}

#[test]
fn what_has_no_room_on_a_full_slow_device_stays_fast() {
    for (options, reopened, len, records) in databases() {
        let fs = machine();
        let (db, mut model) = filled(&fs, options, len, records);
        fs.set_capacity_of(path(SLOW[0]), Some(fs.taken_bytes_of(path(SLOW[0]))));
        model.check(&db);
        assert!(go_on_writing(&db, &mut model, records) <= 1);
        let _ = db.settle();
        model.check(&db);
        assert!(db.stats().poisoned.is_none());
        db.close().unwrap();
        // An open writes `TIER` there.
        fs.set_capacity_of(path(SLOW[0]), None);
        let db = open(&fs, reopened(30)).unwrap();
        model.check(&db);
        db.settle().unwrap();
        model.check_reopened(&fs, db, reopened(30));
    }
}

/// A merge that fails in the middle leaves all inputs, and no part of its output is used.
#[test]
fn a_move_that_fails_at_any_operation_loses_nothing() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let mut struck = 0;
        for nth in 1..60 {
            for fault in [Fault::Io, Fault::Full] {
                let fs = machine();
                let db = open(&fs, one(options(100))).unwrap();
                let mut model = Model::default();
                model.fill(&db, (0..60).map(|number| number * 333 % 60), len, 1);
                db.flush().unwrap();
                db.compact().unwrap();
                db.close().unwrap();
                let db = open(&fs, options(0)).unwrap();
                fs.fail_device(path(SLOW[0]), nth, fault, Lasting::Once, nth);
                let _ = db.settle();
                let _ = db.compact();
                struck += fs.faults_struck();
                assert!(db.stats().poisoned.is_none());
                fs.heal();
                model.check(&db);
                model.check_reopened(&fs, db, options(0));
            }
        }
        assert!(struck > 10, "{struck}");
    }
}
