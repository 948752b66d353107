//! What the laboratory refuses, with exit statuses and messages, and what it leaves alone.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, lab, names};
use std::fs;

#[test]
fn wrong_use_is_told() {
    let place = Place::new("usage");
    let db = &place.db();
    for wrong in [
        &["frobnicate"][..],
        &[],
        &["bench", db, "fillslow"],
        &["bench", db],
        &["bench"],
        &["bench", db, "fillseq", "paper"],
        &["bench", db, "fillseq", "--num", "0"],
        &["bench", db, "fillseq", "--key-bytes", "2"],
        &["bench", db, "fillseq", "--threads", "0"],
    ] {
        let run = lab(wrong).exits(2);
        assert!(run.out.is_empty() && !run.err.is_empty(), "{run:?}");
    }
    assert!(!place.path("db").exists());
    // The engine refuses a wrong value of its option by name.
    lab(&["bench", db, "fillseq", "--background-threads", "0"]).exits(2).tells("background_threads");
    for verb in ["bench", "simulate", "device", "model"] {
        assert!(lab(&[verb, "--help"]).exits(0).text().contains("Exit status"), "{verb}");
    }
    assert!(lab(&["--help"]).exits(0).text().contains("Exit status"));
    assert!(lab(&["--version"]).exits(0).text().starts_with("braidb-lab "));
}

#[test]
fn a_foreign_directory_is_left_as_it_is() {
    let place = Place::new("foreign");
    let db = &place.db();
    fs::create_dir(place.path("db")).unwrap();
    place.file("db/data.mdb", "mine");
    let foreign =
        [&["bench", db, "fillseq", "--num", "10"][..], &["bench", "steady", db], &["paper", "triad", db]];
    for command in foreign {
        lab(command).exits(2).tells(&format!("{db} is not empty"));
    }
    assert_eq!(names(&place.path("db")), ["data.mdb"]);
    assert_eq!(fs::read_to_string(place.path("db/data.mdb")).unwrap(), "mine");
    // A file in the place of the directory.
    let file = place.file("file", "mine");
    lab(&["bench", &file, "fillseq"]).exits(2).tells("is a file, not a directory");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_database_is_left_alone() {
    let place = Place::new("mine");
    let db = &place.db();
    braidb::Db::open(db).unwrap().put("k", "v").unwrap();
    lab(&["bench", db, "fillseq", "--num", "10"]).exits(2).tells("is not empty");
    assert_eq!(braidb::Db::open(db).unwrap().iter().count(), 1);
}

/// A benchmark empties its directory, but neither when it is refused, nor while another benchmark runs on it.
#[test]
fn a_refused_benchmark_leaves_the_filled_database() {
    let place = Place::new("bench-refused");
    let dir = place.db();
    let inner = format!("{dir}/db");
    let fill = ["bench", &dir, "fillseq", "--num", "1000"];
    lab(&fill).exits(0);
    let rows = || -> Vec<(Vec<u8>, Vec<u8>)> {
        let open = braidb::Options::new().background_merges(false).open(&inner).unwrap();
        open.iter().map(|row| row.map(|(key, value)| (key, value.to_vec())).unwrap()).collect()
    };
    let before = rows();
    lab(&[&fill[..], &["--hot-keys-percent", "101"]].concat()).exits(2).tells("hot_keys_percent");
    assert!(rows() == before);
    let db = braidb::Db::open(&inner).unwrap();
    lab(&fill).exits(2).tells("open already");
    lab(&["bench", &dir, "queue", "--num", "1000"]).exits(2).tells("open already");
    assert_eq!(db.iter().count(), 1000);
    db.close().unwrap();
    assert!(rows() == before);
    // The mark in the directory still says how its database was filled.
    lab(&["bench", &dir, "readrandom", "--num", "1000"]).exits(0);
    lab(&fill).exits(0);
    assert!(rows() == before);
    assert!(braidb::Options::new().verify(&inner).unwrap().damages.is_empty());
}
