//! Checkpoints: what they hold, how the two databases live on, and what a crash in the middle leaves.

use crate::Error;
use crate::db::{Db, Options, ValueLayout, WriteBatch};
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::{Crash, Fault, Lasting, SimFs};
use braidb_storage::{Env, FileSystem};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIR: &str = "/db";
const COPY: &str = "/copies/monday";
const SLOW: &str = "/slow/db";
const SLOW_COPY: &str = "/slow/monday";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(fs: &SimFs) -> Options {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let random = Arc::new(SeededRandom::new(fs.ops()));
    let env = Env { fs: Arc::new(fs.clone()), clock, random, runtime };
    Options::new().memtable_bytes(64 << 10).env(env).tuning(|tuning| tuning.block_bytes(1 << 10))
}

/// Overwrites keys of two families, some with large values; each batch writes its number to both families.
fn write(db: &Db, rounds: std::ops::Range<u32>) {
    let second = db.create_column_family("second").unwrap();
    for round in rounds {
        let mut batch = WriteBatch::new();
        let (number, key) = (round.to_be_bytes(), format!("key {:03}", round * 37 % 400));
        let value = vec![b'a' + (round % 26) as u8; if round % 5 == 0 { 3_000 } else { 60 }];
        batch
            .put("number", number)
            .put(&key, &value)
            .put_in(&second, "number", number)
            .put_in(&second, key, value);
        db.write(&batch).unwrap();
    }
}

/// The rows of both families. The number of the last batch must be the same in both.
fn rows(db: &Db) -> [Rows; 2] {
    let second = db.column_family("second").unwrap();
    let rows = [db.iter(), second.iter()].map(|iter| {
        iter.map(|row| row.map(|(key, value)| (key, value.to_vec())))
            .collect::<crate::Result<Rows>>()
            .unwrap()
    });
    assert_eq!(rows[0].get(&b"number"[..]), rows[1].get(&b"number"[..]), "a batch is there in part");
    rows
}

fn check_whole(fs: &SimFs, dir: &str, expected: &[Rows; 2]) {
    assert_eq!(options(fs).verify(dir).unwrap().damages, []);
    let db = options(fs).open(dir).unwrap();
    assert!(rows(&db) == *expected, "{dir} differs");
    write(&db, 9_000..9_100);
    db.compact().unwrap();
    assert!(db.verify().unwrap().damages.is_empty());
    db.close().unwrap();
}

#[test]
fn both_databases_live_on_whatever_the_other_does() {
    for layout in [ValueLayout::Ordered, ValueLayout::Trie { levels: 1 }] {
        let fs = SimFs::new();
        let db = options(&fs).tuning(|tuning| tuning.value_layout(layout)).open(DIR).unwrap();
        write(&db, 0..600);
        db.flush().unwrap();
        write(&db, 600..800);
        let expected = rows(&db);
        let report = db.checkpoint(COPY).unwrap();
        assert!(report.linked_bytes > 0 && report.copied_bytes > 0 && report.files > 2, "{report:?}");
        assert!(rows(&db) == expected);
        // The source merges everything, so it drops, punches and appends where it may.
        write(&db, 800..1_600);
        db.compact().unwrap();
        db.settle().unwrap();
        let after = rows(&db);
        let copy = options(&fs).open(COPY).unwrap();
        assert!(rows(&copy) == expected, "{layout:?}");
        write(&copy, 3_000..3_400);
        copy.compact().unwrap();
        let copied = rows(&copy);
        assert!(rows(&db) == after && db.verify().unwrap().damages.is_empty());
        copy.close().unwrap();
        db.close().unwrap();
        check_whole(&fs, COPY, &copied);
        // Without the copy, the source has all that it needs.
        Options::destroy(options(&fs), COPY).unwrap();
        check_whole(&fs, DIR, &after);
    }
}

#[test]
fn a_table_with_two_names_keeps_its_blocks_until_one_is_gone() {
    let fs = SimFs::new();
    let db = options(&fs).tuning(|tuning| tuning.table_bytes(1 << 20)).open(DIR).unwrap();
    write(&db, 0..2_000);
    db.compact().unwrap();
    db.checkpoint(COPY).unwrap();
    let expected = rows(&db);
    for round in 0..40 {
        write(&db, round * 50..round * 50 + 50);
        db.flush().unwrap();
    }
    db.settle().unwrap();
    drop(db);
    assert_eq!(options(&fs).verify(COPY).unwrap().damages, []);
    let copy = options(&fs).open_read_only(COPY).unwrap();
    assert!(rows(&copy) == expected);
}

#[test]
fn a_crash_at_each_step_leaves_the_source_whole_and_the_copy_whole_or_refused() {
    let fs = SimFs::new();
    let db = options(&fs).open(DIR).unwrap();
    write(&db, 0..500);
    db.flush().unwrap();
    write(&db, 500..600);
    db.persist(crate::Durability::Sync).unwrap();
    let expected = rows(&db);
    crash_at_each_step(&fs, &db, &[], &expected);
}

#[test]
fn a_crash_at_each_step_of_a_checkpoint_with_tiers_does_too() {
    let fs = SimFs::new();
    let (db, expected) = tiered(&fs);
    crash_at_each_step(&fs, &db, &[(Path::new(SLOW), Path::new(SLOW_COPY))], &expected);
}

fn crash_at_each_step(fs: &SimFs, db: &Db, tiers: &[(&Path, &Path)], expected: &[Rows; 2]) {
    let (images, number) =
        (Arc::new(braidb_storage::locks::Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let kept = images.clone();
    fs.set_hook(Some(Box::new(move |fs: &SimFs, _: &braidb_storage::sim::Op| {
        let seed = number.fetch_add(1, Ordering::Relaxed);
        for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn] {
            kept.lock().push(fs.crash_image(crash, seed));
        }
    })));
    db.checkpoint_to(COPY, tiers).unwrap();
    fs.set_hook(None);
    let mut images = std::mem::take(&mut *images.lock());
    images.push(fs.crash_image(Crash::PowerAllLost, 1));
    let (steps, mut whole) = (images.len(), 0);
    for (step, image) in images.into_iter().enumerate() {
        let source = options(&image).open(DIR).unwrap();
        assert!(rows(&source) == *expected, "step {step}");
        assert!(source.verify().unwrap().damages.is_empty());
        drop(source);
        match options(&image).create_if_missing(false).open(COPY) {
            Ok(copy) => {
                whole += 1;
                assert!(rows(&copy) == *expected, "step {step} of {steps}");
                assert!(copy.verify().unwrap().damages.is_empty(), "step {step}");
            }
            Err(Error::Missing { .. } | Error::Corruption { .. }) => {
                assert!(step + 1 < steps, "the call had returned")
            }
            Err(error) => panic!("step {step}: {error}"),
        }
    }
    assert!(steps > 40 && whole > 1 && whole < steps / 2, "{whole} of {steps} images had a whole copy");
}

#[test]
fn an_error_at_each_step_leaves_the_source_whole_and_no_database() {
    let fs = SimFs::new();
    let (db, expected) = tiered(&fs);
    let (mut failures, mut nth) = (0, 1);
    loop {
        let (copy, slow_copy) = (format!("/copies/{nth}"), format!("/slow/copies/{nth}"));
        let is_of_copy = |path: &Path| path.starts_with("/copies") || path.starts_with("/slow/copies");
        fs.fail_nth_where(nth, Fault::Io, Lasting::Once, nth, move |op| is_of_copy(&op.path));
        let before = fs.faults_struck();
        let outcome = db.checkpoint_to(&copy, &[(Path::new(SLOW), Path::new(&slow_copy))]);
        let struck = fs.faults_struck() - before;
        fs.heal();
        if outcome.is_ok() {
            assert!(rows(&options(&fs).open_read_only(&copy).unwrap()) == expected);
            if struck == 0 {
                break;
            }
        } else {
            failures += 1;
            let opened = options(&fs).create_if_missing(false).open(&copy);
            assert!(matches!(opened, Err(Error::Missing { .. } | Error::Corruption { .. })), "{opened:?}");
            // A directory that failed to be made or listed is not there.
            let left = fs.list(Path::new(&slow_copy)).unwrap_or_default();
            assert!(left.iter().all(|entry| entry.name == "LOCK"), "step {nth} leaves {left:?}");
        }
        assert!(rows(&db) == expected);
        db.put("still", "writable").unwrap();
        db.delete("still").unwrap();
        nth += 1;
    }
    assert!(failures > 8, "{failures}");
}

#[test]
fn a_directory_in_use_is_refused() {
    let fs = SimFs::new();
    let db = options(&fs).open(DIR).unwrap();
    write(&db, 0..10);
    assert!(matches!(db.checkpoint(DIR), Err(Error::Exists { .. })));
    let inside = db.checkpoint(format!("{DIR}/monday")).unwrap_err();
    assert!(
        inside.to_string().contains("not apart") && fs.list(&Path::new(DIR).join("monday")).is_err(),
        "{inside}"
    );
    fs.create_dir_all(Path::new(COPY)).unwrap();
    fs.write_file(&Path::new(COPY).join("notes.txt"), b"mine").unwrap();
    let refused = db.checkpoint(COPY).unwrap_err();
    assert!(refused.to_string().contains("notes.txt") && refused.to_string().contains("empty"), "{refused}");
    assert_eq!(fs.read_file(&Path::new(COPY).join("notes.txt")).unwrap(), b"mine");
    let tiered = options(&fs).slow_path("/slow").open("/tiered").unwrap();
    assert!(matches!(tiered.checkpoint("/copies/tiered"), Err(Error::Tier { .. })));
    db.checkpoint("/copies/first").unwrap();
    assert!(matches!(db.checkpoint("/copies/first"), Err(Error::Exists { .. })));
}

/// A database whose one slow tier holds most tables, and what it holds.
fn tiered(fs: &SimFs) -> (Db, [Rows; 2]) {
    let db = options(fs).slow_path(SLOW).fast_share(10).open(DIR).unwrap();
    write(&db, 0..800);
    db.compact().unwrap();
    db.settle().unwrap();
    write(&db, 800..900);
    db.persist(crate::Durability::Sync).unwrap();
    assert!(db.stats().tiers[1].bytes > 10_000, "{:?}", db.stats().tiers);
    let rows = rows(&db);
    (db, rows)
}

#[test]
fn a_copy_has_tiers_of_its_own() {
    let fs = SimFs::new();
    let (db, expected) = tiered(&fs);
    let pairs = [(Path::new(SLOW), Path::new(SLOW_COPY))];
    let report = db.checkpoint_to(COPY, &pairs).unwrap();
    assert!(report.linked_bytes > 10_000, "{report:?}");
    write(&db, 900..1_500);
    db.compact().unwrap();
    let after = rows(&db);
    db.close().unwrap();
    // The two databases have different ids, so each refuses the other's tier, by its name too.
    for (dir, slow) in [(DIR, SLOW_COPY), (COPY, SLOW)] {
        let refused = options(&fs).slow_path(slow).open(dir).unwrap_err();
        assert!(refused.to_string().contains("belongs to another database"), "{refused}");
    }
    check_whole(&fs, COPY, &expected);
    check_whole(&fs, DIR, &after);
    // Evacuation leaves the source's tier as it is.
    let copy = options(&fs).open(COPY).unwrap();
    let copied = rows(&copy);
    copy.evacuate(SLOW_COPY, |_| ()).unwrap();
    copy.close().unwrap();
    check_whole(&fs, COPY, &copied);
    assert_eq!(options(&fs).verify(DIR).unwrap().damages, []);
}

#[test]
fn wrong_directories_of_tiers_are_refused_before_anything_is_made() {
    let fs = SimFs::new();
    let (db, expected) = tiered(&fs);
    fs.create_dir_all(Path::new("/notes")).unwrap();
    fs.write_file(Path::new("/notes/mine"), b"").unwrap();
    let path = Path::new;
    let wrong: [(&[(&Path, &Path)], &str); 8] = [
        (&[], "`checkpoint_to`"),
        (&[(path("/elsewhere"), path(SLOW_COPY))], "no slow tier"),
        (&[(path(SLOW), path(SLOW))], "not apart"),
        (&[(path(SLOW), path(DIR))], "not apart"),
        (&[(path(SLOW), path(COPY))], "not apart"),
        (&[(path(SLOW), path("slow/monday"))], "both relative"),
        (&[(path(SLOW), path(SLOW_COPY)), (path(SLOW), path("/other"))], "named twice"),
        (&[(path(SLOW), path("/notes"))], "`mine`"),
    ];
    for (pairs, why) in wrong {
        let refused = db.checkpoint_to(COPY, pairs).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(fs.list(Path::new(COPY)).is_err() && fs.list(Path::new(SLOW_COPY)).is_err(), "{why}");
    }
    let refused = db.checkpoint_to(format!("{SLOW}/copy"), &[(path(SLOW), path(SLOW_COPY))]).unwrap_err();
    assert!(refused.to_string().contains("not apart"), "{refused}");
    assert!(rows(&db) == expected);
    db.checkpoint_to(COPY, &[(path(SLOW), path(SLOW_COPY))]).unwrap();
    assert!(rows(&options(&fs).open_read_only(COPY).unwrap()) == expected);
}
