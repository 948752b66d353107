//! Each verb on an intact database, through the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, braidb, braidb_with, start};
use std::io::{BufRead, BufReader, Read};

#[test]
fn put_get_and_delete_keep_their_promises() {
    let place = Place::new("put");
    let db = &place.db();
    braidb(&["put", db, "plum", "blue"]).prints("");
    braidb(&["put", db, "plum", "dark blue"]).prints("");
    braidb(&["get", db, "plum"]).prints("dark blue\n");
    braidb(&["get", db, "pear"]).exits(1).tells("there is no key pear");
    braidb(&["delete", db, "plum"]).prints("");
    braidb(&["get", db, "plum"]).exits(1);
    braidb(&["delete", db, "plum"]).exits(1).tells("there is no key plum");
}

#[test]
fn empty_and_odd_keys_and_values_work_on_the_command_line() {
    let place = Place::new("odd");
    let db = &place.db();
    for (key, value) in [("", "empty key"), ("empty value", ""), (r"tab\t\\", r"\x00\xff"), ("-dash", "--")] {
        braidb(&["put", db, "--", key, value]).prints("");
        braidb(&["get", db, "--", key]).prints(&format!("{value}\n"));
    }
    braidb(&["get", db, r"\x74ab\x09\x5c"]).prints("\\x00\\xff\n");
    braidb(&["scan", db]).prints("\tempty key\n-dash\t--\nempty value\t\ntab\\t\\\\\t\\x00\\xff\n");
    braidb(&["get", db, r"wrong\q"]).exits(2).tells(r"KEY: `\q` is not an escape");
    braidb(&["put", db, "k", r"\x1"]).exits(2).tells("VALUE: ");
}

#[test]
fn scan_keeps_to_its_range_and_order() {
    let place = Place::new("scan");
    let db = &place.db();
    let rows: String =
        ["a", "ab", "abc", "b", "ba", "c"].iter().map(|key| format!("{key}\t{key}!\n")).collect();
    braidb_with(&["load", db], rows.as_bytes()).exits(0);
    let keys = |arguments: &[&str]| -> String {
        let run = braidb(&[&["scan", db], arguments].concat()).exits(0);
        let keys = run.text().lines().map(|line| {
            let (key, value) = line.split_once('\t').unwrap();
            assert_eq!(format!("{key}!"), value);
            key
        });
        keys.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&[]), "a ab abc b ba c");
    assert_eq!(keys(&["--reverse"]), "c ba b abc ab a");
    assert_eq!(keys(&["--limit", "2"]), "a ab");
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(keys(&["--from", "ab", "--to", "ba"]), "ab abc b");
    assert_eq!(keys(&["--from", "ab", "--to", "ba", "--reverse", "--limit", "1"]), "b");
    assert_eq!(keys(&["--from", "aa"]), "ab abc b ba c");
    assert_eq!(keys(&["--to", "ab"]), "a");
    assert_eq!(keys(&["--from", "b", "--to", "b"]), "");
    assert_eq!(keys(&["--prefix", "ab"]), "ab abc");
    assert_eq!(keys(&["--prefix", "b", "--reverse"]), "ba b");
    assert_eq!(keys(&["--prefix", "x"]), "");
    braidb(&["scan", db, "--from", "b", "--to", "a"]).exits(2).tells("--from lies behind --to");
    // Ranges within a prefix.
    for (from, keys_behind) in
        [("", "a ab abc"), ("ab", "ab abc"), (r"ab\x00", "abc"), ("abd", ""), ("c", "")]
    {
        assert_eq!(keys(&["--prefix", "a", "--from", from]), keys_behind, "{from}");
    }
    for (to, keys_before) in [("", ""), ("a", ""), ("abc", "a ab"), ("c", "a ab abc")] {
        assert_eq!(keys(&["--prefix", "a", "--to", to]), keys_before, "{to}");
    }
    assert_eq!(keys(&["--prefix", "a", "--from", "ab", "--to", "abc"]), "ab");
    assert_eq!(keys(&["--prefix", "b", "--to", "a"]), "");
}

#[test]
fn pages_of_a_prefix_show_each_row_once() {
    let place = Place::new("pages");
    let db = &place.db();
    let key = |number: u32| format!(r"\xff\xff{number:02}");
    let rows: String = (0..10).map(|number| format!("{}\tv\n", key(number))).collect();
    braidb_with(&["load", db], format!("a\tv\n\\xff\tv\n{rows}").as_bytes()).exits(0);
    for is_reverse in [false, true] {
        let (mut shown, mut last) = (Vec::new(), None);
        loop {
            let place = last.iter().flat_map(|last: &String| match is_reverse {
                true => ["--to".to_owned(), last.clone()],
                false => ["--from".to_owned(), format!(r"{last}\x00")],
            });
            let place: Vec<String> = place.collect();
            let mut arguments = vec!["scan", db, "--prefix", r"\xff\xff", "--limit", "4"];
            arguments.extend(place.iter().map(String::as_str));
            arguments.extend(is_reverse.then_some("--reverse"));
            let page = braidb(&arguments).exits(0);
            let keys: Vec<String> =
                page.text().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
            let Some(end) = keys.last() else { break };
            last = Some(end.clone());
            shown.extend(keys);
        }
        let mut expected: Vec<String> = (0..10).map(key).collect();
        if is_reverse {
            expected.reverse();
        }
        assert_eq!(shown, expected);
    }
}

#[test]
fn values_of_any_bytes_pass_as_they_are() {
    let place = Place::new("raw-values");
    let db = &place.db();
    let value: Vec<u8> = (0..=255).cycle().take(100_000).chain(*b"\\x41\r\nno newline").collect();
    braidb_with(&["put", db, "k", "--stdin"], &value).prints("");
    assert!(braidb(&["get", db, "k", "--raw"]).exits(0).out == value);
    braidb_with(&["put", db, "--stdin", "empty"], b"").prints("");
    braidb(&["get", db, "empty", "--raw"]).prints("");
    braidb(&["get", db, "empty"]).prints("\n");
    braidb(&["get", db, "none", "--raw"]).exits(1);
    braidb_with(&["put", db, "k", "value", "--stdin"], b"x").exits(2).tells("--stdin");
    braidb(&["put", db, "k"]).exits(2).tells("VALUE");
    assert!(braidb(&["get", db, "k", "--raw"]).exits(0).out == value, "a refused put changes nothing");
}

#[test]
fn families_are_apart_and_are_not_made_by_reading() {
    let place = Place::new("family");
    let db = &place.db();
    braidb(&["put", db, "k", "default"]).exits(0);
    braidb(&["put", db, "k", "users", "--family", "users"]).exits(0);
    braidb(&["get", db, "k"]).prints("default\n");
    braidb(&["get", db, "k", "--family", "users"]).prints("users\n");
    braidb(&["dump", db]).exits(0).tells("not dumped: the other column families (users)");
    for verb in [&["scan", db][..], &["get", db, "k"], &["delete", db, "k"], &["dump", db]] {
        let run = braidb(&[verb, &["--family", "typo"]].concat()).exits(2);
        run.tells("there is no column family \"typo\"")
            .tells("`put` and `load` create it; the database has default, users");
    }
    braidb(&["put", db, "k", "v", "--family", ""]).exits(2);
}

#[test]
fn a_reader_that_goes_away_ends_the_verb_quietly() {
    let place = Place::new("pipe");
    let db = &place.db();
    let rows: String = (0..50_000).map(|row| format!("key {row:06}\tvalue\n")).collect();
    braidb_with(&["load", db], rows.as_bytes()).exits(0);
    for verb in ["scan", "dump"] {
        let mut child = start(&[verb, db]);
        let mut first = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert_eq!(first, "key 000000\tvalue\n");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{verb}");
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(err, "", "{verb}");
    }
}

#[test]
fn verify_finds_a_database_in_order() {
    let place = Place::new("verify");
    let db = &place.db();
    braidb(&["put", db, "k", "v"]).exits(0);
    let files = place.db_files();
    let run = braidb(&["verify", db]).exits(0);
    assert!(run.text().contains("no damage"), "{run:?}");
    assert_eq!(place.db_files(), files, "verify changes nothing");
}

#[test]
fn the_tour_ends_well_and_keeps_a_directory_that_was_named() {
    let place = Place::new("tour");
    let db = &place.db();
    let run = braidb(&["tour", db]).exits(0);
    let last = run.text().lines().last().unwrap();
    assert!(last.starts_with("Done in ") && last.ends_with("all as they should be."), "{last}");
    braidb(&["verify", db]).exits(0);
    assert!(braidb(&["scan", db, "--prefix", "/usr/", "--limit", "3"]).exits(0).text().lines().count() == 3);
    // The directory of an earlier tour is not touched.
    braidb(&["tour", db]).exits(2).tells("is not empty");
}

#[test]
fn wrong_use_is_told() {
    let place = Place::new("usage");
    let db = &place.db();
    for wrong in
        [&["frobnicate"][..], &[], &["get", db], &["get", db, "k", "extra"], &["scan", db, "--limit", "x"]]
    {
        let run = braidb(wrong).exits(2);
        assert!(run.out.is_empty() && !run.err.is_empty(), "{run:?}");
    }
    assert!(!place.path("db").exists());
    for verb in ["put", "load", "stats", "verify", "compact", "tour"] {
        assert!(braidb(&[verb, "--help"]).exits(0).text().contains("Exit status"), "{verb}");
    }
    assert!(braidb(&["--help"]).exits(0).text().contains("Exit status"));
    assert!(braidb(&["--version"]).exits(0).text().starts_with("braidb "));
}

/// Each of the verbs that moved to the laboratory takes any arguments, and answers with one line.
#[test]
fn verbs_that_moved_say_where_they_are() {
    let place = Place::new("moved");
    let db = place.db();
    let db = db.as_str();
    for verb in ["bench", "simulate", "device", "model"] {
        for arguments in [
            &[][..],
            &[db],
            &["--help"],
            &["-h", db],
            &["--json", db, "--num=5", "--", "-x"],
            &["help", "paper"],
        ] {
            let run = braidb(&[&[verb], arguments].concat()).exits(2);
            let told = format!(
                "braidb: `{verb}` moved to braidb-lab; in a clone of BraidDB, run: \
                 cargo run --release -p braidb-lab -- {verb} …\n"
            );
            assert_eq!((run.err.as_str(), run.text()), (told.as_str(), ""), "{arguments:?}");
        }
        let help = braidb(&["--help"]).exits(0);
        assert!(!help.text().lines().any(|line| line.trim_start().starts_with(verb)), "{help:?}");
    }
    assert!(!place.path("db").exists());
}
