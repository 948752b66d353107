//! A tier that the user gives up: everything leaves it, whatever happens meanwhile.

use super::*;
use braidb::storage::real;
use braidb_storage::FileSystem;
use braidb_storage::sim::{Crash, Fault, Hook, Lasting};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kinds of values, each with its length.
fn kinds() -> [(MakeOptions, usize); 2] {
    [(options, 120), (separated, 300)]
}

/// A database of few cells, most of them slow.
fn filled(fs: &SimFs, options: Options, len: usize, records: u32) -> (Db, Model) {
    let db = open(fs, options).unwrap();
    let mut model = Model::default();
    for round in 0..2 {
        model.fill(&db, (0..records).map(|number| number * 77 % records), len, round);
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.settle().unwrap();
    (db, model)
}

/// The files in the directory of a tier, without the lock.
fn files_in(fs: &SimFs, dir: &str) -> Vec<String> {
    let files = fs.files().into_iter().filter(|file| file.starts_with(dir) && !file.ends_with("LOCK"));
    files.map(|file| file.display().to_string()).collect()
}

#[track_caller]
fn refused(outcome: Result<(), Error>, what: &str) {
    match outcome {
        Err(error @ Error::Tier { .. }) => assert!(error.to_string().contains(what), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_only_tier_is_emptied() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, model) = filled(&fs, one(options(10)), len, 200);
        let mut told = Vec::new();
        db.evacuate(SLOW[0], |left_bytes| told.push(left_bytes)).unwrap();
        assert!(told[0] > 0 && told.last() == Some(&0) && told.is_sorted_by(|a, b| a >= b), "{told:?}");
        assert_eq!(files_in(&fs, SLOW[0]), [""; 0]);
        model.check(&db);
        refused(db.evacuate(SLOW[0], drop), "no slow tier");
        db.settle().unwrap();
        let db = model.check_reopened(&fs, db, options(10));
        assert!(db.stats().tiers.is_empty());
        refused(db.evacuate(SLOW[0], drop), "no slow tier");
        db.close().unwrap();

        // The directory becomes a tier again.
        let db = open(&fs, one(options(10))).unwrap();
        db.settle().unwrap();
        assert!(bytes(&db)[1] > 0 && db.stats().tiers[1].id == 2, "{:?}", db.stats().tiers);
        model.check_reopened(&fs, db, options(10));
    }
}

#[test]
fn one_of_two_tiers_is_emptied_into_the_other() {
    for (options, len) in kinds() {
        let fs = machine();
        fs.set_capacity_of(path(DEVICES[1]), Some(400 << 10));
        let (db, mut model) = filled(&fs, one(options(10)).slow_path(SLOW[1]), len, 400);
        let before = bytes(&db);
        assert!(before[1] > 0, "{before:?}");
        db.evacuate(SLOW[0], drop).unwrap();
        let after = bytes(&db);
        assert!(after.len() == 2 && after[1] > before[1] / 2, "{before:?} became {after:?}");
        assert_eq!(files_in(&fs, SLOW[0]), [""; 0]);
        // The device may be gone by now.
        fs.record_ops();
        for _ in 0..100 {
            model.put(&db, "default", 0, vec![9; len]);
            db.flush().unwrap();
        }
        let ops = fs.take_recorded_ops();
        let asked = |device| {
            ops.iter().filter(|op| op.kind == OpKind::FreeSpace && op.path.starts_with(device)).count()
        };
        assert!(
            asked(DEVICES[0]) == 0 && asked(DEVICES[1]) > 0,
            "the tier that is out is asked for its room"
        );
        let db = model.check_reopened(&fs, db, options(10));
        db.evacuate(SLOW[1], drop).unwrap();
        model.check_reopened(&fs, db, options(10));
    }
}

#[test]
fn all_tiers_are_emptied_in_one_open() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, mut model) = filled(&fs, one(options(10)).slow_path(SLOW[1]), len, 400);
        for (left, slow) in [(2, SLOW[0]), (0, SLOW[1])] {
            db.evacuate(slow, drop).unwrap();
            assert_eq!(db.stats().tiers.len(), left);
            refused(db.evacuate(slow, drop), "no slow tier");
            // The database still has the directory open, but must put no file there.
            model.fill(&db, 0..400, len, left as u8);
            db.compact().unwrap();
            db.settle().unwrap();
            assert_eq!(files_in(&fs, slow), [""; 0]);
        }
        let db = model.check_reopened(&fs, db, options(10));
        assert!(db.stats().tiers.is_empty());
    }
}

/// If an evacuation fails because the device fails for a time, a later call of `evacuate` ends it.
#[test]
fn a_call_after_a_failed_one_goes_on() {
    for (options, len) in kinds() {
        let mut failed = 0;
        for nth in 1..40 {
            let fs = machine();
            let (db, model) = filled(&fs, one(options(10)), len, 150);
            db.close().unwrap();
            let db = open(&fs, options(10)).unwrap();
            fs.fail_device(path(SLOW[0]), nth, Fault::Io, Lasting::ForEver, nth);
            let outcome = db.evacuate(SLOW[0], drop);
            fs.heal();
            // If the tier is out of the database already, only its file `TIER` could not be deleted.
            if outcome.is_err() && !db.stats().tiers.is_empty() {
                failed += 1;
                if let Err(error) = db.evacuate(SLOW[0], drop) {
                    panic!("operation {nth}: {error}, after {outcome:?}");
                }
            }
            assert!(db.stats().tiers.is_empty());
            model.check_reopened(&fs, db, options(10));
        }
        assert!(failed > 3, "{failed}");
    }
}

/// An iterator holds files of the tier when the process dies: the next open says what to do with them.
#[test]
fn files_that_a_reader_held_are_named_if_they_stay() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, model) = filled(&fs, one(options(10)), len, 200);
        let mut held = db.iter();
        assert!(held.next().is_some());
        db.evacuate(SLOW[0], drop).unwrap();
        let image = fs.crash_image(Crash::PowerAllLost, 1);
        assert_eq!(held.count(), model.0.len() - 1);
        db.settle().unwrap();
        assert_eq!(files_in(&fs, SLOW[0]), [""; 0], "they go after the iterator");

        let left = files_in(&image, SLOW[0]);
        assert!(!left.is_empty());
        model.check(&open(&image, options(10)).unwrap());
        let refused = open(&image, one(options(10))).unwrap_err().to_string();
        let named = |file: &String| refused.contains(path(file).file_name().unwrap().to_str().unwrap());
        assert!(refused.contains("evacuated") && left.iter().any(named), "{refused}");
        left.iter().for_each(|file| image.unlink(path(file)).unwrap());
        let db = open(&image, one(options(10))).unwrap();
        model.check(&db);
        db.settle().unwrap();
        assert!(bytes(&db)[1] > 0);
    }
}

/// Other threads write and read the database while a tier is emptied. The callback that is told the progress asks for statistics.
#[test]
fn writers_and_readers_go_on() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, model) = filled(&fs, one(options(10)), len, 400);
        db.close().unwrap();
        let env = Env { fs: Arc::new(fs.clone()), ..real::env(2).unwrap() };
        let db = options(10).env(env).open(DIR).unwrap();
        let (model, is_over) = (Mutex::new(model), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0_u32;
                while !is_over.load(Ordering::Relaxed) || written < 1_000 {
                    model.lock().put(&db, "default", written * 7 % 800, vec![written as u8; len]);
                    written += 1;
                }
            });
            let mut told = Vec::new();
            // A callback may use the database.
            let evacuated =
                db.evacuate(SLOW[0], |left_bytes| told.push((left_bytes, db.stats().tiers.len())));
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            evacuated.unwrap();
            assert!(told[0].1 == 2 && told.last().is_some_and(|told| told.0 == 0), "{told:?}");
        });
        let model = model.into_inner();
        model.check(&db);
        assert_eq!(files_in(&fs, SLOW[0]), [""; 0]);
        db.close().unwrap();
        model.check(&open(&fs, options(10)).unwrap());
    }
}

/// A family that always has merges to do does not keep the cells of another one on the tier.
#[test]
fn a_busy_family_does_not_keep_the_cells_of_another() {
    let fs = machine();
    let (db, model) = filled(&fs, one(options(10)), 120, 400);
    db.close().unwrap();
    let env = Env { fs: Arc::new(fs.clone()), ..real::env(1).unwrap() };
    let db = options(10).env(env).open(DIR).unwrap();
    let busy = db.create_column_family(OTHER).unwrap();
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0_u32;
            while !is_over.load(Ordering::Relaxed) || written < 1_000 {
                busy.put(key(written * 7 % 800), [written as u8; 120]).unwrap();
                written += 1;
            }
            written
        });
        let evacuated = db.evacuate(SLOW[0], drop);
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        evacuated.unwrap();
        written
    });
    assert_eq!(files_in(&fs, SLOW[0]), [""; 0]);
    let count = |family: &str| db.column_family(family).unwrap().iter().count();
    assert_eq!((count("default"), count(OTHER)), (model.0.len(), written.min(800) as usize));
}

#[test]
fn a_crash_at_each_operation_leaves_all_records() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, model) = filled(&fs, one(options(10)), len, 60);
        let images: Arc<Mutex<Vec<SimFs>>> = Arc::default();
        let (taken, mut number) = (images.clone(), 0);
        let hook: Hook = Box::new(move |fs, _| {
            number += 1;
            let kinds = [Crash::Process, Crash::PowerTorn, Crash::PowerAllLost];
            taken.lock().extend(kinds.map(|crash| fs.crash_image(crash, number)));
            let [first, second] = [DIR, SLOW[0]].map(|dir| (path(dir), Crash::PowerAllLost));
            taken.lock().extend([first, second].map(|crash| fs.crash_image_apart(&[crash], number)));
        });
        fs.set_hook(Some(hook));
        db.evacuate(SLOW[0], drop).unwrap();
        fs.set_hook(None);
        let images = std::mem::take(&mut *images.lock());
        assert!(images.len() > 100, "{}", images.len());
        let (mut has_tier, mut has_none, mut has_a_file) = (0, 0, 0);
        for image in images {
            let db = open(&image, options(10)).unwrap();
            model.check(&db);
            let is_emptied = db.stats().tiers.is_empty();
            *(if is_emptied { &mut has_none } else { &mut has_tier }) += 1;
            db.close().unwrap();
            has_a_file += u32::from(is_emptied && image.read_file(&path(SLOW[0]).join("TIER")).is_ok());
            // The option makes the directory a tier again, if it is none any more.
            let db = open(&image, one(options(10))).unwrap();
            model.check(&db);
            db.settle().unwrap();
            assert!(bytes(&db)[1] > 0);
            db.evacuate(SLOW[0], drop).unwrap();
            model.check(&db);
        }
        assert!(has_tier > 0 && has_none > 0 && has_a_file > 0, "{has_tier} {has_none} {has_a_file}");
    }
}

#[test]
fn a_damaged_file_ends_it_with_an_error() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, model) = filled(&fs, one(options(10)), len, 200);
        db.close().unwrap();
        let files = files_in(&fs, SLOW[0]);
        let file = files.iter().find(|name| !name.ends_with("TIER")).unwrap();
        // A bit in the first block or value.
        fs.flip_bit(path(file), 8 * 60).unwrap();
        let db = open(&fs, options(10)).unwrap();
        let error = db.evacuate(SLOW[0], drop).unwrap_err();
        assert!(error.is_corruption() || matches!(error, Error::Tier { .. }), "{error}");
        // Another call meets the damage again, and does not hang.
        db.evacuate(SLOW[0], drop).unwrap_err();
        db.put("still", "writable").unwrap();
        db.flush().unwrap();
        let readable = model.0.iter().filter(|((_, key), value)| {
            db.get(key).is_ok_and(|found| found.as_deref() == Some(value.as_slice()))
        });
        assert!(readable.count() > 150, "other records are read");
        db.close().unwrap();
        fs.flip_bit(path(file), 8 * 60).unwrap();
        let db = open(&fs, options(10)).unwrap();
        assert!(db.get("still").unwrap().is_some());
        db.delete("still").unwrap();
        db.evacuate(SLOW[0], drop).unwrap();
        model.check_reopened(&fs, db, options(10));
    }
}

/// The edit that takes the tier out is stable, and its file `TIER` cannot be deleted: the tier must take nothing more.
#[test]
fn a_tier_that_is_out_takes_nothing_if_its_file_stays() {
    for (options, len) in kinds() {
        let fs = machine();
        let (db, mut model) = filled(&fs, one(options(10)), len, 200);
        fs.fail_nth_where(1, Fault::Io, Lasting::ForEver, 1, |op| {
            op.kind == OpKind::Unlink && op.path.ends_with("TIER")
        });
        assert!(matches!(db.evacuate(SLOW[0], drop), Err(Error::Io { operation: "delete", .. })));
        model.fill(&db, 0..400, len, 9);
        db.compact().unwrap();
        db.settle().unwrap();
        assert_eq!(files_in(&fs, SLOW[0]), [format!("{}/TIER", SLOW[0])]);
        fs.heal();
        let db = model.check_reopened(&fs, db, options(10));
        assert!(db.stats().tiers.is_empty());
        db.close().unwrap();
        model.check_reopened(&fs, open(&fs, one(options(10))).unwrap(), options(10));
    }
}

#[test]
fn a_second_call_is_refused_and_a_close_ends_the_first() {
    let fs = machine();
    let (db, model) = filled(&fs, one(options(10)), 120, 400);
    db.close().unwrap();
    let env = Env { fs: Arc::new(fs.clone()), ..real::env(1).unwrap() };
    let db = options(10).env(env).open(DIR).unwrap();
    let mut was_called = false;
    let outcome = std::thread::scope(|scope| {
        let mut closing = None;
        let outcome = db.evacuate(SLOW[0], |_| {
            if !std::mem::replace(&mut was_called, true) {
                refused(db.evacuate(SLOW[0], drop), "emptied already");
                closing = Some(scope.spawn(|| db.close().unwrap()));
                while db.get(key(1)).is_ok() {
                    std::thread::yield_now();
                }
            }
        });
        closing.unwrap().join().unwrap();
        outcome
    });
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    model.check(&open(&fs, options(10)).unwrap());
}

/// Upper levels and memory hold newer versions, and jobs are under way, when a tier is given up.
#[test]
fn a_tier_is_emptied_at_any_moment() {
    for (options, len) in kinds() {
        let mut emptied_bytes = 0;
        for seed in 0..12 {
            let fs = machine();
            let mut random = braidb_sim::rng::Rng::new(seed);
            let share = random.pick(&[0, 20, 60]);
            let (db, mut model) = filled(&fs, one(options(share)), len, 300);
            for step in 0..random.between(1, 12) {
                for _ in 0..random.between(1, 300) {
                    let number = random.below(700) as u32;
                    match random.below(5) {
                        0 => model.delete(&db, "default", number),
                        _ => model.put(&db, "default", number, vec![step as u8; len - 20]),
                    }
                }
                match random.below(8) {
                    0 => db.compact().unwrap(),
                    1 => db.settle().unwrap(),
                    2 => db.flush().unwrap(),
                    _ => {}
                }
            }
            let held = db.snapshot();
            emptied_bytes += bytes(&db)[1];
            if let Err(error) = db.evacuate(SLOW[0], drop) {
                panic!("seed {seed}: {error}");
            }
            assert_eq!(files_in(&fs, SLOW[0]), [""; 0], "seed {seed}");
            assert_eq!(held.iter().count(), model.0.len());
            drop(held);
            model.check_reopened(&fs, db, options(share));
        }
        assert!(emptied_bytes > 100_000, "{emptied_bytes}");
    }
}
