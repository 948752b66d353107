//! Other programs change the directory of an open database. They rename it, replace it, redirect the symbolic link that leads to it, or
//! remove it. Or they remove `LOCK`, and a second process opens the database.
#![allow(clippy::disallowed_methods, reason = "it does to real directories what other programs do")]

use braidb::{Db, Durability, Error, Options};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Entries written under each prefix.
const ENTRIES: u32 = 3_000;

/// Bytes of all logs. A log is closed at a quarter of them.
const LOG_BYTES: u64 = 16 << 20;

/// Environment variable: the directory of the database, for the second process.
const DIR: &str = "BRAIDB_MOVED_DIR";

/// An empty directory for a test.
fn root(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("braidb-moved-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

fn fill(db: &Db, prefix: &str) {
    for number in 0..ENTRIES {
        db.put(format!("{prefix} {number:05}"), vec![number as u8; 100]).unwrap();
    }
}

/// Creates a closed database with the entries of `prefix`.
fn make(dir: &Path, prefix: &str) {
    let db = Db::open(dir).unwrap();
    fill(&db, prefix);
    db.close().unwrap();
}

/// Makes edits of every kind that deletes files: a flush, merges, the seal of the log.
fn work_and_close(db: Db) {
    fill(&db, "later");
    db.flush().unwrap();
    fill(&db, "later");
    db.compact().unwrap();
    assert_eq!(db.verify().unwrap().damages, []);
    db.close().unwrap();
}

fn keys(db: &Db) -> Vec<String> {
    db.iter().map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
}

/// Opens a database that must be whole, with the entries of `prefixes` and no others.
fn check(dir: &Path, prefixes: &[&str]) {
    let options = Options::new().create_if_missing(false);
    assert_eq!(options.clone().verify(dir).unwrap().damages, []);
    let db = options.open(dir).unwrap();
    let (found, expected) = (keys(&db), keys_of(prefixes));
    assert!(found == expected, "{} entries in {}, {} expected", found.len(), dir.display(), expected.len());
    db.close().unwrap();
}

fn keys_of(prefixes: &[&str]) -> Vec<String> {
    prefixes.iter().flat_map(|prefix| (0..ENTRIES).map(move |n| format!("{prefix} {n:05}"))).collect()
}

/// All files of a directory, with their contents.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_directory_that_is_renamed_is_written_where_it_is() {
    let root = root("renamed");
    let (dir, renamed) = (root.join("db"), root.join("renamed"));
    make(&dir, "before");
    let db = Db::open(&dir).unwrap();
    fs::rename(&dir, &renamed).unwrap();
    assert!(matches!(Db::open(&renamed), Err(Error::Locked { .. })));
    work_and_close(db);
    assert!(!dir.exists());
    check(&renamed, &["before", "later"]);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_directory_whose_parent_moves_is_written_where_it_is() {
    let root = root("parent");
    let parent = root.join("parent");
    make(&parent.join("db"), "before");
    let db = Db::open(parent.join("db")).unwrap();
    fs::create_dir(root.join("elsewhere")).unwrap();
    fs::rename(&parent, root.join("elsewhere/moved")).unwrap();
    work_and_close(db);
    assert!(!parent.exists());
    check(&root.join("elsewhere/moved/db"), &["before", "later"]);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_database_that_takes_the_place_of_an_open_one_is_left_alone() {
    let root = root("replaced");
    let (dir, aside, other) = (root.join("db"), root.join("aside"), root.join("other"));
    make(&dir, "before");
    make(&other, "other");
    let db = Db::open(&dir).unwrap();
    fs::rename(&dir, &aside).unwrap();
    fs::rename(&other, &dir).unwrap();
    let theirs = files(&dir);
    work_and_close(db);
    assert!(files(&dir) == theirs, "files of the other database changed");
    check(&aside, &["before", "later"]);
    check(&dir, &["other"]);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_symbolic_link_that_turns_takes_no_open_database_along() {
    let root = root("symlink");
    let (first, second, link) = (root.join("first"), root.join("second"), root.join("link"));
    make(&first, "before");
    make(&second, "other");
    symlink(&first, &link).unwrap();
    let db = Db::open(&link).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&second, &link).unwrap();
    let theirs = files(&second);
    work_and_close(db);
    assert!(files(&second) == theirs, "files of the other database changed");
    check(&first, &["before", "later"]);
    check(&link, &["other"]);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_directory_that_is_gone_is_not_made_again() {
    let root = root("gone");
    let dir = root.join("db");
    make(&dir, "before");
    let db = Db::open(&dir).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    fill(&db, "later");
    let error = db.flush().unwrap_err();
    assert!(is_lock_lost(&error), "{error}");
    assert!(is_lock_lost(&db.put("key", "value").unwrap_err()));
    assert_eq!(&db.get("before 00000").unwrap().unwrap()[..], [0; 100]);
    assert!(is_lock_lost(&db.close().unwrap_err()));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir_all(&root).unwrap();
}

/// Whether an error names the lost lock and tells what to do.
fn is_lock_lost(error: &Error) -> bool {
    let text = error.to_string();
    let helps =
        text.contains("LOCK was removed or replaced") && text.contains("make sure that no other process");
    match error {
        Error::LockLost { .. } => helps,
        Error::Poisoned { cause } => matches!(**cause, Error::LockLost { .. }) && helps,
        _ => false,
    }
}

/// A second process that has the database open, and ends when it is told to.
struct Second {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Second {
    fn start(dir: &Path) -> Second {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "the_second_process", "--nocapture"]).env(DIR, dir);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut second = Second { child, lines };
        second.expect("in");
        second
    }

    fn expect(&mut self, line: &str) {
        let rest: Vec<String> = self.lines.by_ref().map(Result::unwrap).take(1).collect();
        if rest != [line] {
            let told: Vec<String> = self.lines.by_ref().map(Result::unwrap).collect();
            panic!("{rest:?} instead of {line:?}: {told:?}");
        }
    }

    /// Lets the process go on writing and close the database, and waits for its end.
    fn end(mut self) {
        self.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        self.expect("closed");
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
#[ignore = "waits for its standard input: the test below runs it, by cargo test -p braidb --test moved"]
fn the_second_process() {
    let db = Db::open(std::env::var_os(DIR).expect("started by the other test")).unwrap();
    assert_eq!(keys(&db), keys_of(&["before", "first"]));
    fill(&db, "second");
    db.flush().unwrap();
    fill(&db, "third");
    // One call for each line, so that the parent reads whole lines.
    std::io::stderr().write_all(b"in\n").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    fill(&db, "zenith");
    db.compact().unwrap();
    assert_eq!(keys(&db), keys_of(&["before", "first", "second", "third", "zenith"]));
    db.close().unwrap();
    std::io::stderr().write_all(b"closed\n").unwrap();
}

type FindOut = fn(&Db) -> Result<(), Error>;

/// The calls that detect the removal of `LOCK`, and what the first process does to reach them.
const WAYS: [(&str, FindOut); 6] = [
    ("sync", |db| db.persist(Durability::Sync)),
    ("flush", |db| db.flush()),
    ("compact", |db| db.compact()),
    ("family", |db| db.create_column_family("new").map(drop)),
    // More bytes than a log holds, and fewer than memory does.
    ("log", |db| (0..10).try_for_each(|n| db.put(format!("large {n}"), vec![n; 1 << 20]))),
    ("close", |db| db.clone().close()),
];

#[test]
fn a_process_that_lost_the_lock_writes_and_deletes_nothing_more() {
    for (way, find_out) in WAYS {
        let root = root(way);
        let dir = root.join("db");
        make(&dir, "before");
        let db = Options::new().tuning(|tuning| tuning.log_bytes(LOG_BYTES)).open(&dir).unwrap();
        fill(&db, "first");
        db.flush().unwrap();
        db.compact().unwrap();
        // The delete and the put are only in the log when the second process comes.
        db.delete("first 00000").unwrap();
        db.put("first 00000", vec![0; 100]).unwrap();
        let reader = db.iter();

        fs::remove_file(dir.join("LOCK")).unwrap();
        let second = Second::start(&dir);
        let theirs = files(&dir);
        // The write is lost: without a sync, and within the log, no call detects the removed lock.
        db.put("lost", "value").unwrap();
        let error = find_out(&db).expect_err(way);
        assert!(is_lock_lost(&error), "{way}: {error}");
        if way != "close" {
            assert!(is_lock_lost(&db.put("key", "value").unwrap_err()), "{way}");
            assert!(is_lock_lost(&db.flush().unwrap_err()), "{way}");
            assert_eq!(&db.get("first 00001").unwrap().unwrap()[..], [1; 100], "{way}");
            assert!(db.stats().poisoned.unwrap().contains("LOCK"), "{way}");
        }
        drop(reader);
        assert!(db.close().is_err() || way == "close");
        let gone: Vec<_> = theirs.keys().filter(|path| !path.exists()).collect();
        assert!(gone.is_empty(), "{way}: {gone:?}");
        second.end();
        check(&dir, &["before", "first", "second", "third", "zenith"]);
        fs::remove_dir_all(&root).unwrap();
    }
}
