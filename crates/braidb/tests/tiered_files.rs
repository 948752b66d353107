//! Slow tiers on a real file system. A process is killed while cells move or a tier is emptied. Directories are moved, missing or
//! exchanged.
#![allow(clippy::disallowed_methods, reason = "these tests move and remove directories as users do")]

use braidb::{Db, Error, Options};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable: the directory above the database and its tier.
const DIR: &str = "BRAIDB_TIERED_DIR";
/// Environment variable: at which call of its `progress` an evacuation stops for ever.
const STOPS_AT: &str = "BRAIDB_TIERED_STOPS_AT";
/// Keys that the child overwrites again and again.
const KEYS: u64 = 2_000;

/// A new directory that is removed when the test ends well.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let root = std::env::temp_dir().join(format!("braidb-tiered-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).unwrap();
        Root(root)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

/// Small cells, a fifth of them fast, and large values in value files.
fn options() -> Options {
    let options = Options::new().memtable_bytes(64 << 10).fast_share(20);
    options.tuning(|tuning| tuning.table_bytes(16 << 10).separation_threshold(Some(400)))
}

fn key(number: u64) -> [u8; 8] {
    (number % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A value that begins with the number of the write.
fn value(number: u64) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(if number.is_multiple_of(3) { 500 } else { 100 }, number as u8);
    value
}

/// Runs an ignored test of this file in a process of its own, which tells its progress on standard error.
fn child(test: &str, root: &Root) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]).env(DIR, &root.0);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The directory that the parent gave to this child.
fn root_of_child() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("started by another test"))
}

/// Writes `records` records and waits until the slow tier has its share.
fn fill(db: &Db, records: u64) {
    (0..records).for_each(|number| db.put(key(number), value(number)).unwrap());
    db.compact().unwrap();
    db.settle().unwrap();
    assert!(db.stats().tiers[1].bytes > 0, "{:?}", db.stats().tiers);
}

#[track_caller]
fn is_filled(db: &Db, records: u64) {
    (0..records).for_each(|number| assert_eq!(db.get(key(number)).unwrap().unwrap(), value(number)));
    assert_eq!(db.iter().filter(|entry| entry.is_ok()).count() as u64, records);
    assert_eq!(db.verify().unwrap().damages, []);
}

#[track_caller]
fn refused(outcome: Result<Db, Error>, dir: &Path) {
    match outcome {
        Err(Error::Tier { path, .. }) => assert_eq!(path, dir),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_while_cells_move() {
    let root = Root::new("killed");
    let mut acknowledged = 0;
    for round in 1..=3_u64 {
        let mut child = child("writes_until_it_is_killed", &root).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut told = || lines.next().map(|line| line.unwrap().parse::<u64>().unwrap());
        for _ in 0..2_000 + round * 377 {
            acknowledged = told().expect("the child writes");
        }
        child.kill().unwrap();
        while let Some(more) = told() {
            acknowledged = more;
        }
        child.wait().unwrap();
        // The manifest remembers the tier.
        let db = options().open(root.dir("db")).unwrap();
        assert!(db.stats().tiers[1].bytes > 0, "cells moved: {:?}", db.stats().tiers);
        for slot in 0..KEYS {
            // The newest acknowledged write of the key. A later write, which was under way when the process died, may be there instead.
            let newest = acknowledged - (acknowledged + KEYS - slot) % KEYS;
            let found = db.get(key(slot)).unwrap().unwrap();
            let number = u64::from_be_bytes(found[..8].try_into().unwrap());
            assert!(number == newest || number == newest + KEYS, "{number} in place of {newest}");
            assert!(number <= acknowledged + 2 && found == value(number));
        }
        assert_eq!(db.iter().filter(|entry| entry.is_ok()).count() as u64, KEYS);
        assert_eq!(db.verify().unwrap().damages, []);
    }
}

#[test]
#[ignore = "writes until it is killed: the test above runs it, by cargo test -p braidb --test tiered_files"]
fn writes_until_it_is_killed() {
    let root = root_of_child();
    let db = options().slow_path(root.join("slow")).open(root.join("db")).unwrap();
    let numbers = db.iter().map(|entry| u64::from_be_bytes(entry.unwrap().1[..8].try_into().unwrap()));
    let first = numbers.max().map_or(0, |last| last + 1);
    let mut parent = std::io::stderr();
    for number in first.. {
        db.put(key(number), value(number)).unwrap();
        parent.write_all(format!("{number}\n").as_bytes()).unwrap();
        // Cells leave when merges have nothing more urgent to do, so mostly not beside a writer. The parent kills at any time.
        if number.is_multiple_of(400) {
            db.settle().unwrap();
        }
    }
}

#[test]
fn a_kill_while_a_tier_is_emptied_loses_nothing() {
    let root = Root::new("emptied");
    let (dir, slow) = (root.dir("db"), root.dir("slow"));
    let db = options().slow_path(&slow).open(&dir).unwrap();
    fill(&db, 1_000);
    db.close().unwrap();
    for stops_at in [1, 2, 4, 7] {
        let mut command = child("empties_until_it_is_killed", &root);
        let mut child = command.env(STOPS_AT, stops_at.to_string()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..stops_at {
            let left_bytes: u64 = lines.next().expect("it goes on").unwrap().parse().unwrap();
            assert!(left_bytes > 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let db = options().open(&dir).unwrap();
        assert_eq!(db.stats().tiers.len(), 2, "the tier stays a tier");
        is_filled(&db, 1_000);
        // What came to the fast tier leaves again.
        db.settle().unwrap();
        assert!(db.stats().tiers[1].bytes > 0);
        db.close().unwrap();
    }
    let db = options().open(&dir).unwrap();
    db.evacuate(&slow, drop).unwrap();
    db.close().unwrap();
    let names = std::fs::read_dir(&slow).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["LOCK"]);
    std::fs::remove_dir_all(&slow).unwrap();
    is_filled(&options().open(&dir).unwrap(), 1_000);
}

#[test]
#[ignore = "empties a tier until it is killed: the test above runs it, by cargo test -p braidb --test tiered_files"]
fn empties_until_it_is_killed() {
    let root = root_of_child();
    let stops_at: u32 = std::env::var(STOPS_AT).expect("started by the other test").parse().unwrap();
    let db = options().open(root.join("db")).unwrap();
    let (mut parent, mut calls) = (std::io::stderr(), 0);
    let outcome = db.evacuate(root.join("slow"), |left_bytes| {
        parent.write_all(format!("{left_bytes}\n").as_bytes()).unwrap();
        calls += 1;
        // Merges go on meanwhile. The parent kills at any time.
        if calls == stops_at {
            loop {
                std::thread::park();
            }
        }
    });
    panic!("it is killed before it has emptied the tier: {outcome:?}");
}

#[test]
fn a_renamed_directory_is_named_by_its_new_path() {
    let root = Root::new("renamed");
    let (dir, slow, moved) = (root.dir("db"), root.dir("slow"), root.dir("moved"));
    let db = options().slow_path(&slow).open(&dir).unwrap();
    fill(&db, 1_000);
    db.close().unwrap();
    std::fs::rename(&slow, &moved).unwrap();
    refused(options().open(&dir), &slow);
    // A new empty directory in the place of the tier is not the tier.
    std::fs::create_dir(&slow).unwrap();
    refused(options().open(&dir), &slow);
    refused(options().slow_path(&slow).open(&dir), &slow);
    let db = options().slow_path(&moved).open(&dir).unwrap();
    is_filled(&db, 1_000);
    db.close().unwrap();
    is_filled(&options().open(&dir).unwrap(), 1_000);
    assert_eq!(std::fs::read_dir(&slow).unwrap().count(), 0, "a refused open leaves nothing");
}

#[test]
fn the_tier_of_another_database_is_refused() {
    let root = Root::new("swapped");
    let dirs: Vec<_> = ["a", "b"].map(|name| (root.dir(name), root.dir(&format!("slow-{name}")))).into();
    for ((dir, slow), records) in dirs.iter().zip([800, 900]) {
        let db = options().slow_path(slow).open(dir).unwrap();
        fill(&db, records);
        db.close().unwrap();
    }
    let swap = || {
        std::fs::rename(&dirs[0].1, root.dir("swapped")).unwrap();
        std::fs::rename(&dirs[1].1, &dirs[0].1).unwrap();
        std::fs::rename(root.dir("swapped"), &dirs[1].1).unwrap();
    };
    swap();
    for (dir, slow) in &dirs {
        refused(options().open(dir), slow);
        refused(options().slow_path(slow).open(dir), slow);
    }
    swap();
    for ((dir, _), records) in dirs.iter().zip([800, 900]) {
        is_filled(&options().open(dir).unwrap(), records);
    }
}

/// A handle works in the directories that it locked, wherever their paths lead later.
#[test]
fn a_tier_that_is_renamed_while_it_is_open_goes_on() {
    let root = Root::new("moving");
    let (dir, slow, moved) = (root.dir("db"), root.dir("slow"), root.dir("moved"));
    let db = options().slow_path(&slow).open(&dir).unwrap();
    fill(&db, 500);
    std::fs::rename(&slow, &moved).unwrap();
    fill(&db, 1_000);
    is_filled(&db, 1_000);
    db.close().unwrap();
    assert!(!slow.exists());
    is_filled(&options().slow_path(&moved).open(&dir).unwrap(), 1_000);
}
