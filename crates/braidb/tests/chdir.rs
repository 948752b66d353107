//! The working directory changes while a database is open by a relative path: the handle stays with its own directory.
//!
//! `chdir` concerns the whole process, so this test has a binary of its own.
#![allow(clippy::disallowed_methods, reason = "it does to real directories what other programs do")]

use braidb::{Db, Options};
use std::env::set_current_dir;
use std::path::Path;

/// Entries written under each prefix.
const ENTRIES: u32 = 3_000;

fn fill(db: &Db, prefix: &str) {
    for number in 0..ENTRIES {
        db.put(format!("{prefix} {number:05}"), vec![number as u8; 100]).unwrap();
    }
}

/// Opens a database that must be whole, with the entries of `prefixes` and no others.
fn check(dir: &Path, prefixes: &[&str]) {
    let options = Options::new().create_if_missing(false);
    assert_eq!(options.clone().verify(dir).unwrap().damages, []);
    let db = options.open(dir).unwrap();
    let keys: Vec<String> =
        db.iter().map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect();
    let expected: Vec<String> =
        prefixes.iter().flat_map(|prefix| (0..ENTRIES).map(move |n| format!("{prefix} {n:05}"))).collect();
    assert!(keys == expected, "{} entries in {}, {} expected", keys.len(), dir.display(), expected.len());
    db.close().unwrap();
}

#[test]
fn two_databases_of_the_same_relative_path_are_both_whole() {
    let root = std::env::temp_dir().join(format!("braidb-chdir-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let (a, b) = (root.join("a"), root.join("b"));
    for dir in [&a, &b] {
        std::fs::create_dir_all(dir).unwrap();
        set_current_dir(dir).unwrap();
        let db = Db::open("db").unwrap();
        fill(&db, "before");
        db.close().unwrap();
    }

    set_current_dir(&a).unwrap();
    let db = Db::open("db").unwrap();
    fill(&db, "before");
    set_current_dir(&b).unwrap();
    fill(&db, "later");
    db.flush().unwrap();
    fill(&db, "later");
    db.compact().unwrap();
    db.close().unwrap();

    check(&a.join("db"), &["before", "later"]);
    check(&b.join("db"), &["before"]);
    set_current_dir(std::env::temp_dir()).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
}
