//! `load` and `dump`: every byte comes back, broken rows are refused, and a load that was killed is loaded again.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Noise, Place, braidb, braidb_with, start};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// Every byte as `\xNN`: a text that is correct and not canonical.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02X}")).collect()
}

#[test]
fn any_bytes_come_back_through_dump_and_load() {
    let place = Place::new("bytes");
    let mut noise = Noise(1);
    let rows: BTreeMap<Vec<u8>, Vec<u8>> = (0..2000).map(|_| (noise.bytes(20), noise.bytes(60))).collect();
    let input: String = rows.iter().map(|(key, value)| format!("{}\t{}\n", hex(key), hex(value))).collect();
    braidb_with(&["load", &place.db()], input.as_bytes()).exits(0);

    // The database holds the intended bytes …
    let db = braidb::Db::open(place.path("db")).unwrap();
    let stored =
        db.iter().map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect::<Result<_, _>>();
    assert_eq!(rows, stored.unwrap());
    drop(db);

    // … and its dump loads into an equal database, whose dump is equal.
    let dump = braidb(&["dump", &place.db()]).exits(0).out;
    let copy = place.path("copy").into_os_string().into_string().unwrap();
    braidb_with(&["load", &copy], &dump).exits(0);
    assert_eq!(braidb(&["dump", &copy]).exits(0).out, dump);
    assert_eq!(braidb(&["scan", &copy]).exits(0).out, dump);
    let copied = braidb::Db::open(&copy).unwrap();
    let stored =
        copied.iter().map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect::<Result<_, _>>();
    assert_eq!(rows, stored.unwrap());
}

#[test]
fn broken_rows_are_told_by_line_and_the_others_are_loaded() {
    let place = Place::new("broken");
    let long = "k".repeat(65_537);
    let input = format!("a\t1\nno tab\nb\t2\tthree\n\nc\\q\t3\nd\t4\r\n{long}\t5\ne\t6\nhalf\trow");
    let file = place.file("rows.tsv", input);
    let run = braidb(&["load", &place.db(), &file]).exits(2);
    for (line, why) in [
        (2, "no tab"),
        (3, "a second tab"),
        (4, "an empty line"),
        (5, "is not an escape"),
        (6, "carriage return"),
        (7, "the limit is 65536"),
        (9, "no newline"),
    ] {
        let told = run.err.lines().find(|told| told.starts_with(&format!("line {line}: ")));
        assert!(told.is_some_and(|told| told.contains(why)), "{line}: {why}: {run:?}");
    }
    let run = run.tells("9 rows in ").tells("2 written, 0 stored before, 7 refused");
    assert_eq!(run.err.lines().filter(|line| line.starts_with("line ")).count(), 7);
    braidb(&["dump", &place.db()]).prints("a\t1\ne\t6\n");
}

#[test]
fn cr_lf_is_hinted_at_and_one_row_is_one_row() {
    let place = Place::new("crlf");
    let run = braidb_with(&["load", &place.db()], b"a\t1\r\n").exits(2).tells("1 row in ");
    let run = run.tells("the file has CR LF line ends").tells("1 row was refused; nothing is loaded");
    assert_eq!(run.err.matches("CR LF").count(), 1, "{run:?}");
    let run = braidb_with(&["load", &place.db()], b"a\t1\nb\t2\rc\n").exits(2);
    assert!(!run.tells("1 row was refused; the others are loaded").err.contains("CR LF"));
}

#[test]
fn a_dash_is_standard_input_and_output() {
    let place = Place::new("dash");
    braidb_with(&["load", &place.db(), "-"], b"a\t1\n").exits(0).tells("1 row in ");
    braidb(&["dump", &place.db(), "-"]).prints("a\t1\n");
}

#[test]
fn many_broken_rows_are_counted_and_not_all_printed() {
    let place = Place::new("many");
    let run = braidb_with(&["load", &place.db()], "broken\n".repeat(5000).as_bytes()).exits(2);
    assert!(run.err.lines().count() < 30, "{run:?}");
    run.tells("line 20: ").tells("5,000 refused");
}

#[test]
fn of_equal_keys_the_last_row_stays_whatever_was_stored() {
    let place = Place::new("twice");
    let db = &place.db();
    braidb_with(&["load", db], b"k\tone\nk\ttwo\n").exits(0).tells("2 written");
    braidb(&["get", db, "k"]).prints("two\n");
    // The last row equals the stored value, but the row before it writes another one.
    braidb_with(&["load", db], b"k\tone\nk\ttwo\n").exits(0).tells("2 written, 0 stored before");
    braidb(&["get", db, "k"]).prints("two\n");
    braidb_with(&["load", db], b"k\ttwo\nk\tone\n").exits(0).tells("1 written, 1 stored before");
    braidb(&["get", db, "k"]).prints("one\n");
}

#[test]
fn loading_again_writes_nothing() {
    let place = Place::new("again");
    let rows: String = (0..3000).map(|row| format!("{row}\tvalue {row}\n")).collect();
    let file = place.file("rows.tsv", &rows);
    braidb(&["load", &place.db(), &file]).exits(0).tells("3,000 written, 0 stored before, 0 refused");
    braidb(&["load", &place.db(), &file]).exits(0).tells("0 written, 3,000 stored before, 0 refused");
    braidb_with(&["load", &place.db()], b"17\tother\n").exits(0);
    braidb(&["load", &place.db(), &file]).exits(0).tells("1 written, 2,999 stored before, 0 refused");
}

#[test]
fn a_load_that_was_killed_is_loaded_again() {
    let place = Place::new("killed");
    let mut noise = Noise(2);
    let rows: Vec<String> = (0..60_000)
        .map(|row| format!("key {:016x} {row}\tvalue \\\\ Київ {:064x}\n", noise.next(), noise.next()))
        .collect();
    let file = place.file("rows.tsv", rows.concat());

    let mut child = start(&["load", &place.db()]);
    let mut stdin = child.stdin.take().unwrap();
    // The child has read all of this but the content of the pipe and of its own buffer, and waits for more.
    stdin.write_all(rows[..40_000].concat().as_bytes()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);

    braidb(&["verify", &place.db()]).exits(0);
    let run = braidb(&["load", &place.db(), &file]).exits(0);
    let passed_over = run.err.split(" stored before").next().unwrap().rsplit(' ').next().unwrap();
    let passed_over: u64 = passed_over.replace(',', "").parse().unwrap();
    assert!((20_000..40_000).contains(&passed_over), "{run:?}");
    assert!(run.err.contains(" 0 refused"), "{run:?}");

    let dump = braidb(&["dump", &place.db()]).exits(0);
    let expected: BTreeSet<&str> = rows.iter().map(|row| row.trim_end_matches('\n')).collect();
    let dumped: Vec<&str> = dump.text().lines().collect();
    assert!(dumped.iter().copied().eq(expected), "{} rows of {}", dumped.len(), rows.len());
}

#[test]
fn dump_to_a_file_appears_whole_and_replaces_nothing() {
    let place = Place::new("dump");
    let db = &place.db();
    braidb_with(&["load", db], b"a\t1\nb\t2\n").exits(0);
    let file = place.path("dump.tsv").into_os_string().into_string().unwrap();
    braidb(&["dump", db, &file]).exits(0).tells("2 rows dumped");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\t1\nb\t2\n");
    assert!(!place.path("dump.tsv.partial").exists());
    std::fs::write(&file, "mine").unwrap();
    braidb(&["dump", db, &file]).exits(2).tells("exists; choose another name");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    braidb(&["dump", db, "/nonexistent/dir/dump.tsv"]).exits(2).tells("could not create");
}

#[test]
fn files_that_cannot_be_read_are_told_before_a_database_is_made() {
    let place = Place::new("nofile");
    braidb(&["load", &place.db(), "/nonexistent.tsv"]).exits(2).tells("could not read /nonexistent.tsv");
    braidb(&["load", &place.db(), "/"]).exits(2).tells("could not read /");
    assert!(!place.path("db").exists());
}

#[test]
fn escapes_that_change_a_row_are_told_and_raw_rows_stay_as_they_are() {
    let place = Place::new("raw");
    let db = &place.db();
    let rows = b"/a\tplain\n/dev/\\x2d\tC:\\\\temp\n/e\t\\t\n";
    let run = braidb_with(&["load", db], rows).exits(0).tells("line 2: `\\x2d` is an escape");
    assert_eq!(run.err.matches("line ").count(), 1, "once: {run:?}");
    run.tells("2 rows had escapes and were changed by them").tells("--raw takes rows as they are");
    braidb(&["scan", db, "--prefix", "/d"]).prints("/dev/-\tC:\\\\temp\n");

    let raw = &place.path("raw").into_os_string().into_string().unwrap();
    let run = braidb_with(&["load", raw, "--raw"], rows).exits(0);
    assert!(!run.err.contains("escape"), "{run:?}");
    braidb(&["get", raw, r"/dev/\\x2d"]).prints("C:\\\\\\\\temp\n");
    braidb_with(&["load", raw, "--raw"], b"two\ta\tb\r\n").exits(0).tells("1 row ended in CR LF");
    braidb(&["get", raw, "two"]).prints("a\\tb\\r\n");
    // Rows without escapes are loaded without a remark about escapes.
    assert!(!braidb_with(&["load", db], b"plain\trow\n").exits(0).err.contains("raw"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    let place = Place::new("mark");
    let db = &place.db();
    braidb_with(&["load", db], "\u{feff}a\t1\nb\t2\n".as_bytes()).exits(0).tells("byte order mark");
    braidb(&["dump", db]).prints("a\t1\nb\t2\n");
    // A key that begins with a byte order mark is the same after dump and load.
    braidb(&["put", db, "\u{feff}", "3"]).exits(0);
    braidb(&["delete", db, "a"]).exits(0);
    braidb(&["delete", db, "b"]).exits(0);
    let dump = braidb(&["dump", db]).exits(0).out;
    let copy = &place.path("copy").into_os_string().into_string().unwrap();
    braidb_with(&["load", copy], &dump).exits(0);
    braidb(&["get", copy, "\u{feff}"]).prints("3\n");
}

#[test]
fn lenient_takes_files_of_other_systems() {
    let place = Place::new("lenient");
    let db = &place.db();
    let rows = b"a\t1\r\n\r\n\nb\t2";
    let run = braidb_with(&["load", db], rows).exits(2).tells("--lenient takes them");
    for (line, part) in
        [(1, "takes such rows"), (2, "--lenient"), (3, "passes over empty"), (4, "takes the row")]
    {
        let told = run.err.lines().find(|told| told.starts_with(&format!("line {line}: ")));
        assert!(told.is_some_and(|told| told.contains(part)), "{line}: {part}: {run:?}");
    }
    let run = braidb_with(&["load", db, "--lenient"], rows).exits(0).tells("2 empty lines were passed over");
    run.tells("2 rows in ").tells("2 written, 0 stored before, 0 refused");
    braidb(&["dump", db]).prints("a\t1\nb\t2\n");
    braidb_with(&["load", db, "--lenient"], b"c\t3\rx\n").exits(2).tells("carriage return");
}

#[test]
fn a_load_that_overwrites_passes_over_nothing() {
    let place = Place::new("overwrite");
    let rows: String = (0..3000).map(|row| format!("{row}\tvalue {row}\n")).collect();
    for _ in 0..2 {
        let run = braidb_with(&["load", &place.db(), "--overwrite"], rows.as_bytes()).exits(0);
        run.tells("3,000 written, 0 stored before, 0 refused");
    }
    assert_eq!(braidb(&["dump", &place.db()]).exits(0).text().lines().count(), 3000);
}
