//! Opens that only read: beside each other, beside a writer, without permission to write, and without `LOCK`.

#![allow(
    clippy::disallowed_methods,
    reason = "the test makes files and threads of its own beside the engine"
)]

use braidb::storage::{Clock, real::MonotonicClock};
use braidb::{Db, Durability, Error, Options, WriteBatch};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A new directory for one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("braidb-read-only-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn db(&self) -> PathBuf {
        self.0.join("db")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The bytes and the time of the last change of each file.
fn files(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.clone(), (fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap())))
        .collect()
}

/// A database with rows in tables and in memory, and what a kill of its process leaves in `dir`.
fn killed(dir: &Path, options: Options, rows: u32) {
    let running = dir.with_extension("running");
    let db = options.open(&running).unwrap();
    for number in 0..rows / 2 {
        db.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    for number in rows / 2..rows {
        db.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.create_column_family("second").unwrap().put("k", "v").unwrap();
    fs::create_dir_all(dir).unwrap();
    for (path, (bytes, _)) in files(&running) {
        fs::write(dir.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

#[test]
fn readers_see_what_a_killed_process_left_and_change_nothing() {
    // With 64 KiB of memory for writes, the logs hold more than fits. Recovery then makes tables, here in memory.
    for (name, options) in [("small", Options::new().memtable_bytes(64 << 10)), ("large", Options::new())] {
        let scratch = Scratch::new(name);
        let dir = scratch.db();
        killed(&dir, options.clone(), 4_000);
        let before = files(&dir);
        let readers: Vec<Db> = (0..4).map(|_| options.clone().open_read_only(&dir).unwrap()).collect();
        for db in &readers {
            assert_eq!(db.iter().map(|row| row.unwrap().0).collect::<Vec<_>>().len(), 4_000);
            assert_eq!(db.iter().rev().count(), 4_000);
            assert_eq!(db.get(3_999u32.to_be_bytes()).unwrap().unwrap(), [7; 100]);
            assert_eq!(db.column_family("second").unwrap().get("k").unwrap().unwrap(), b"v");
            assert!(db.verify().unwrap().damages.is_empty());
            assert!(db.stats().poisoned.is_none());
        }
        readers[0].close().unwrap();
        assert!(matches!(readers[0].get("k"), Err(Error::Closed)));
        drop(readers);
        assert_eq!(files(&dir), before);
        let db = options.open(&dir).unwrap();
        assert_eq!(db.iter().count(), 4_000);
    }
}

#[test]
fn every_way_to_write_is_refused() {
    let scratch = Scratch::new("refused");
    let dir = scratch.db();
    killed(&dir, Options::new(), 10);
    let before = files(&dir);
    let db = Options::new().open_read_only(&dir).unwrap();
    let family = db.create_column_family("second").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("k", "v").put_in(&family, "k", "w");
    let overlay = db.overlay();
    overlay.put("k", "v").unwrap();
    let outcomes = [
        db.put("k", "v"),
        db.put_with("k", "v", Durability::None),
        db.delete("k"),
        family.put("k", "v"),
        db.write(&batch),
        db.write(WriteBatch::new()),
        overlay.commit(),
        db.transact(|t| t.get("k").map(|_| _ = t.put("k", "v"))),
        db.update("k", |_| Some(b"v".to_vec())).map(drop),
        db.put_if_absent("k", "v").map(drop),
        db.persist(Durability::Sync),
        db.flush(),
        db.compact(),
        db.settle(),
        db.create_column_family("third").map(drop),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        assert!(matches!(outcome, Err(Error::ReadOnly { .. })), "{number}: {outcome:?}");
    }
    let error = db.put("k", "v").unwrap_err().to_string();
    assert!(error.contains("opened to read") && error.contains("open it to write"), "{error}");
    // A transaction that writes nothing has nothing to refuse.
    assert_eq!(db.transact(|t| t.get(1u32.to_be_bytes())).unwrap().unwrap(), [7; 100]);
    drop((db, family));
    assert_eq!(files(&dir), before);
}

#[test]
fn readers_and_writers_keep_each_other_out() {
    let scratch = Scratch::new("locks");
    let dir = scratch.db();
    assert!(matches!(Options::new().open_read_only(&dir), Err(Error::Missing { .. })));
    assert!(!dir.exists(), "nothing was made");
    let writer = Db::open(&dir).unwrap();
    writer.put("k", "v").unwrap();
    assert!(matches!(Options::new().open_read_only(&dir), Err(Error::Locked { .. })));
    assert!(matches!(braidb::verify(&dir), Err(Error::Locked { .. })));
    writer.close().unwrap();
    let (first, second) =
        (Options::new().open_read_only(&dir).unwrap(), Options::new().open_read_only(&dir).unwrap());
    assert!(braidb::verify(&dir).unwrap().damages.is_empty(), "a verification reads, too");
    assert!(matches!(Db::open(&dir), Err(Error::Locked { .. })));
    drop(first);
    assert!(matches!(Db::open(&dir), Err(Error::Locked { .. })));
    let waiting = std::thread::spawn({
        let dir = dir.clone();
        move || Options::new().wait_for_lock(Duration::from_secs(60)).open(dir)
    });
    drop(second);
    assert_eq!(waiting.join().unwrap().unwrap().get("k").unwrap().unwrap(), b"v");
}

#[test]
fn options_that_create_or_excuse_are_refused() {
    let scratch = Scratch::new("options");
    let refused = Options::new().create_new(true).open_read_only(scratch.db());
    assert!(matches!(refused, Err(Error::InvalidOption { option: "create_new", .. })));
    let refused = Options::new().open_damaged(true).open(scratch.db());
    assert!(matches!(refused, Err(Error::InvalidOption { option: "open_damaged", .. })));
}

#[test]
fn a_directory_without_permission_to_write_is_read() {
    let scratch = Scratch::new("permissions");
    let dir = scratch.db();
    killed(&dir, Options::new(), 100);
    for path in files(&dir).keys() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    let before = files(&dir);
    let look = {
        let dir = dir.clone();
        move || {
            // Root may write everywhere, so a test that runs as root reads as another user. The call concerns this thread alone.
            if geteuid().is_root() {
                let user = Uid::from_raw(65_534);
                set_thread_res_uid(user, user, user).unwrap();
            }
            let refused = Db::open(&dir).unwrap_err().to_string();
            assert!(refused.contains("to read"), "{refused}");
            let both = [(); 2].map(|()| Options::new().open_read_only(&dir).unwrap());
            both.iter().for_each(|db| assert_eq!(db.iter().count(), 100));
        }
    };
    std::thread::spawn(look.clone()).join().unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(dir.join("LOCK")).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    std::thread::spawn(move || {
        if geteuid().is_root() {
            let user = Uid::from_raw(65_534);
            set_thread_res_uid(user, user, user).unwrap();
        }
        assert_eq!(Options::new().open_read_only(&dir).unwrap().iter().count(), 100);
        fs::metadata(dir.join("LOCK")).unwrap_err();
    })
    .join()
    .unwrap();
    let dir = scratch.db();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut after = before;
    after.remove(&dir.join("LOCK"));
    assert_eq!(files(&dir), after);
}

/// Milliseconds of opens, the two kinds in turns.
#[test]
#[ignore = "measures, with optimization; `braidb-lab regress open-speed`"]
fn an_open_to_read_beside_the_usual_one() {
    let clock = MonotonicClock::new();
    let mut took_us = [Vec::new(), Vec::new()];
    for round in 0..21 {
        let scratch = Scratch::new(&format!("speed-{round}"));
        let dir = scratch.db();
        killed(&dir, Options::new(), 600_000);
        // The open to read comes first, because the usual one changes what it finds.
        for (took_us, reads_only) in took_us.iter_mut().zip([true, false]) {
            let begun_us = clock.now_us();
            let db = if reads_only { Options::new().open_read_only(&dir) } else { Options::new().open(&dir) };
            let db = db.unwrap();
            took_us.push(clock.now_us() - begun_us);
            assert!(db.get(599_999u32.to_be_bytes()).unwrap().is_some());
        }
    }
    let [read_only, usual] = took_us.map(|mut took_us| {
        took_us.sort_unstable();
        took_us[took_us.len() / 2] as f64 / 1e3
    });
    println!("read-only-ms {read_only:.1}\nusual-ms {usual:.1}");
}
