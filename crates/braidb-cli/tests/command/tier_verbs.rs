//! Databases with slow tiers: each verb works on them, finds a tier that was moved, and refuses directories that are not the tier.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::tiered::Tiered;
use crate::common::{Place, braidb, braidb_with, names};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn each_verb_works_on_a_database_with_a_tier_and_finds_a_moved_one() {
    let mut tiered = Tiered::new("tiers-verbs");
    let db = &tiered.db();
    for slow in ["slow", "moved"] {
        if slow != "slow" {
            tiered.rename("slow", slow);
        }
        let path = &tiered.path(slow);
        let run = |verb: &[&str]| {
            // The first verb names the moved tier; the others find it where the database remembers it.
            let is_known = verb[0] != "verify" || slow == "slow";
            let flags = if is_known { &[][..] } else { &["--slow-path", path] };
            braidb(&[verb, flags].concat()).exits(0)
        };
        run(&["verify", db]);
        if slow == "moved" {
            // A verb that only reads changes nothing, so the database learns the new place from the first verb that writes.
            braidb(&["get", db, "key 00001", "--slow-path", path]).prints("value 7\n");
            braidb(&["get", db, "key 00001"]).exits(2).tells("--slow-path");
            braidb(&["put", db, "new", "value", "--slow-path", path]).exits(0);
        }
        run(&["get", db, "key 00001"]).prints("value 7\n");
        run(&["put", db, "new", "value"]);
        run(&["delete", db, "new"]);
        assert_eq!(run(&["scan", db, "--limit", "1", "--reverse"]).text(), "key 01999\tvalue 13993\n");
        run(&["stats", db]);
        run(&["stats", db, "--guards"]);
        run(&["stats", db, "--values"]);
        braidb_with(&["load", db], tiered.rows.as_bytes()).exits(0);
        let compacted = run(&["compact", db]);
        assert!(!compacted.text().contains(": 0 B before") && tiered.bytes_on(1) > 0, "{compacted:?}");
        tiered.is_whole();
    }
    // What a verb writes is there for the next one.
    braidb(&["put", db, "z", "last"]).exits(0);
    tiered.rows += "z\tlast\n";
    tiered.is_whole();
}

#[test]
fn each_verb_takes_the_new_place_of_a_tier() {
    let tiered = Tiered::new("tiers-places");
    let (db, second) = (&tiered.db(), &tiered.path("second"));
    let mut now = "slow".to_owned();
    // `load` brings back the row that `delete` takes.
    for (number, verb) in [
        &["verify", db][..],
        &["get", db, "key 00001"],
        &["put", db, "key 00001", "value 7"],
        &["scan", db, "--limit", "1"],
        &["dump", db],
        &["delete", db, "key 01999"],
        &["load", db],
        &["compact", db],
        &["stats", db],
        &["stats", db, "--tiers"],
        &["stats", db, "--guards"],
        &["stats", db, "--values"],
        &["tier", "list", db],
        &["tier", "add", db, second],
        &["tier", "evacuate", db, second],
    ]
    .into_iter()
    .enumerate()
    {
        let next = format!("place {number}");
        tiered.rename(&now, &next);
        braidb(verb).exits(2).tells("--slow-path");
        let path = tiered.path(&next);
        braidb_with(&[verb, &["--slow-path", &path]].concat(), tiered.rows.as_bytes()).exits(0);
        // The database remembers a place that a verb named which writes.
        if ["put", "load", "compact"].contains(&verb[0]) || ["add", "evacuate"].contains(&verb[1]) {
            tiered.is_whole();
        }
        now = next;
    }
    // The tier that is named by its new place is emptied.
    tiered.rename(&now, "last");
    let last = &tiered.path("last");
    braidb(&["tier", "evacuate", db, last, "--slow-path", last]).exits(0).tells("100% of ");
    assert_eq!(names(&tiered.place.path("last")), ["LOCK"]);
    tiered.is_whole();
}

#[test]
fn tiers_are_listed_drawn_and_counted() {
    let tiered = Tiered::new("tiers-shown");
    let (db, slow) = (&tiered.db(), tiered.path("slow"));
    let list = braidb(&["tier", "list", db]).exits(0);
    let lines: Vec<&str> = list.text().lines().collect();
    assert!(lines[1].starts_with("0 fast ") && lines[1].ends_with(db.as_str()), "{list:?}");
    assert!(lines[2].starts_with("1 slow ") && lines[2].ends_with(&slow), "{list:?}");
    let tiers = tiered.tiers();
    assert_eq!(tiers[1]["path"], slow.as_str());
    assert!(
        (1..1 << 50).contains(&tiers[1]["free_bytes"].as_u64().unwrap()) && tiers[1]["is_closed"] == false,
        "{tiers:#}"
    );

    let drawn = braidb(&["stats", db, "--tiers", "--cells", "1"]).exits(0);
    // The free bytes of the device may change between two calls.
    let but_free = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().enumerate();
        words.filter(|(place, _)| !(5..7).contains(place)).map(|(_, word)| word.to_owned()).collect()
    };
    let shown: Vec<Vec<String>> = drawn.text().lines().take(3).map(but_free).collect();
    assert_eq!(shown, lines.iter().map(|line| but_free(line)).collect::<Vec<_>>());
    let cells: Vec<&str> = drawn.text().lines().skip(3).collect();
    assert!(cells[0] == "default" && cells[1].starts_with("  slow 1 ") && cells[1].ends_with(": tier 1"));
    assert!(cells[2].contains("(start)") && cells[2].ends_with(" tier") && cells.len() == 3, "{drawn:?}");
    let json = |flags: &[&str]| -> Value {
        serde_json::from_slice(&braidb(&[&["stats", db], flags].concat()).exits(0).out).unwrap()
    };
    let (figures, all) = (json(&["--tiers", "--json"]), json(&["--json"]));
    let cell = &figures["families"][0]["cells"][0];
    assert_eq!((&cell["tier"], &cell["reason"]), (&1.into(), &"tier".into()));
    assert_eq!((&cell["bytes"], &cell["slow_bytes"]), (&tiers[1]["bytes"], &tiers[1]["bytes"]));
    assert_eq!((&figures["tiers"][1]["cells"], &all["tiers"][1]["cells"]), (&1.into(), &1.into()));
    braidb(&["stats", db, "--tiers", "--guards"]).exits(2);
    braidb(&["stats", db, "--tiers", "--values"]).exits(2);
}

#[test]
fn a_tier_is_emptied_and_others_go_on() {
    let tiered = Tiered::new("tiers-evacuate");
    let db = &tiered.db();
    braidb(&["tier", "add", db, &tiered.path("second")]).exits(0);
    braidb(&["tier", "evacuate", db, &tiered.path("third")]).exits(2).tells("tier list");
    braidb(&["tier", "evacuate", db, db]).exits(2).tells("is no slow tier of");
    let bytes = tiered.bytes_on(1);
    let run = braidb(&["tier", "evacuate", db, &tiered.path("slow")]).exits(0).tells("100% of ");
    assert!(run.text().contains("is no tier any more"), "{run:?}");
    assert_eq!(names(&tiered.place.path("slow")), ["LOCK"]);
    let tiers = tiered.tiers();
    assert_eq!((tiers.as_array().unwrap().len(), &tiers[1]["id"]), (2, &2.into()), "{tiers:#}");
    assert!(tiers[0]["bytes"].as_u64().unwrap() + tiers[1]["bytes"].as_u64().unwrap() >= bytes / 2);
    tiered.is_whole();
    braidb(&["tier", "evacuate", db, &tiered.path("second")]).exits(0);
    braidb(&["tier", "list", db]).prints("the database has no slow tiers; `braidb tier add` adds one\n");
    braidb(&["stats", db, "--tiers"]).prints("the database has no slow tiers; `braidb tier add` adds one\n");
    tiered.is_whole();
    // The emptied directory may join again.
    braidb(&["tier", "add", db, &tiered.path("slow")]).exits(0);
    tiered.is_whole();
}

#[test]
fn a_checkpoint_takes_the_tiers_along() {
    let tiered = Tiered::new("tiers-checkpoint");
    let (db, slow) = (&tiered.db(), &tiered.path("slow"));
    let (copy, slow_copy) = (&tiered.path("monday"), &tiered.path("slow-monday"));
    let whole = braidb(&["dump", db]).exits(0).text().to_owned();
    braidb(&["checkpoint", db, copy]).exits(2).tells("--tier SLOW_DIR NEW_SLOW_DIR");
    braidb(&["checkpoint", db, copy, "--tier", db, slow_copy]).exits(2).tells("no slow tier");
    braidb(&["checkpoint", db, copy, "--tier", slow, slow_copy]).exits(0).tells("linked");
    braidb(&["put", db, "later", "v"]).exits(0);
    assert_eq!(braidb(&["dump", copy]).exits(0).text(), whole);
    braidb(&["delete", copy, "key 00000"]).exits(0);
    braidb(&["compact", copy]).exits(0);
    braidb(&["verify", copy]).exits(0);
    braidb(&["verify", db]).exits(0);
    braidb(&["get", copy, "key 00000"]).exits(1);
    braidb(&["get", db, "key 00000"]).prints("value 0\n");
    // Neither database takes the other's tier.
    braidb(&["get", copy, "key 00001", "--slow-path", slow]).exits(2).tells("another database");
    braidb(&["get", db, "key 00001", "--slow-path", slow_copy]).exits(2).tells("another database");
}

#[test]
fn a_share_that_is_not_reached_is_told() {
    let place = Place::new("tiers-share");
    let slow = place.path("slow").display().to_string();
    // Small values beside large ones stay.
    let value = |row: usize| "v".repeat(if row.is_multiple_of(10) { 5_000 } else { 20 });
    let rows: String = (0..500).map(|row| format!("key {row:05}\t{}\n", value(row))).collect();
    braidb_with(&["load", &place.db()], rows.as_bytes()).exits(0);
    braidb(&["compact", &place.db()]).exits(0);
    let told = braidb(&["tier", "add", &place.db(), &slow, "--fast-share", "0"]).exits(0).text().to_owned();
    assert!(told.contains("more than 0% stays") && told.contains("braidb compact"), "{told}");
    braidb(&["dump", &place.db()]).exits(0).prints(&rows);
}

/// The tables and value files in a directory, sorted.
fn data_files(dir: &str) -> Vec<String> {
    let mut names = names(dir.as_ref());
    names.retain(|name| name.ends_with(".table") || name.ends_with(".values"));
    names
}

/// Rows in several tables, all of them on the fast tier of a database with the slow tier `slow`.
fn with_an_empty_tier(test: &str) -> Tiered {
    let place = Place::new(test);
    let value = "v".repeat(200);
    let rows: String = (0..2000).map(|row| format!("key {row:05}\t{value}\n")).collect();
    braidb_with(&["load", &place.db()], rows.as_bytes()).exits(0);
    braidb(&["compact", &place.db()]).exits(0);
    let tiered = Tiered { place, rows };
    braidb(&["tier", "add", &tiered.db(), &tiered.path("slow")]).exits(0);
    tiered
}

#[test]
fn verbs_that_look_move_nothing() {
    let tiered = with_an_empty_tier("tiers-look");
    let (db, slow) = (&tiered.db(), &tiered.path("slow"));
    // With the default share, half of the data should leave the fast tier, and a few runs of L0 wait for a merge.
    let files = || [data_files(db), data_files(slow)];
    let before = files();
    assert!(!before[0].is_empty() && before[1].is_empty(), "{before:?}");
    for verb in [
        &["tier", "list", db][..],
        &["stats", db],
        &["stats", db, "--tiers"],
        &["stats", db, "--guards"],
        &["stats", db, "--values"],
        &["get", db, "key 00001"],
        &["scan", db],
        &["dump", db],
        &["verify", db],
    ] {
        braidb(verb).exits(0);
        assert_eq!(files(), before, "{verb:?}");
    }
    // A program that keeps the database open moves the data.
    let open = braidb::Db::open(db).unwrap();
    open.settle().unwrap();
    open.close().unwrap();
    assert!(!data_files(slow).is_empty());
    tiered.is_whole();
}

#[test]
fn a_share_is_moved_to_the_directory_that_was_named() {
    let tiered = with_an_empty_tier("tiers-second");
    let (db, second) = (&tiered.db(), &tiered.path("second"));
    let told = braidb(&["tier", "add", db, second, "--fast-share", "0"]).exits(0).text().to_owned();
    assert!(
        !told.contains("0 B on it") && told.contains(" on it, 0 B on the fast tier; the share"),
        "{told}"
    );
    let tiers = tiered.tiers();
    assert!(tiers[1]["bytes"] == 0 && tiers[2]["bytes"].as_u64() > Some(100 << 10), "{tiers:#}");
    assert_eq!(tiers[2]["path"], second.as_str());
    tiered.is_whole();
    let told =
        braidb(&["tier", "add", db, &tiered.path("slow"), "--fast-share", "0"]).exits(0).text().to_owned();
    assert!(
        told.contains("is, as before, tier 1") && told.contains("0 B on it, 0 B on the fast tier, "),
        "{told}"
    );
    assert!(told.contains(" on other slow tiers; "), "{told}");
}

#[test]
fn tiers_are_found_from_every_working_directory() {
    let tiered = Tiered::new("tiers-relative");
    let run_in = |dir: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_braidb"));
        let output = command.current_dir(tiered.path(dir)).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run_in(".", &["tier", "add", "db", "second"]);
    assert_eq!(run_in(".", &["get", "db", "key 00001"]), "value 7\n");
    assert_eq!(
        run_in("slow", &["get", "../db/../db", "key 00001", "--slow-path", ".", "--slow-path", "../second"]),
        "value 7\n"
    );
    assert!(
        run_in(
            "second",
            &["tier", "evacuate", &tiered.db(), "../slow", "--slow-path", ".", "--slow-path", "../slow"]
        )
        .contains("moved")
    );
    run_in(".", &["verify", "db"]);
    tiered.is_whole();
}

#[test]
fn a_missing_tier_is_refused_until_it_is_back() {
    let tiered = Tiered::new("tiers-missing");
    let (db, slow) = (&tiered.db(), tiered.path("slow"));
    tiered.rename("slow", "away");
    tiered.is_refused(&[], &[&slow, "mount its device", "--slow-path"]);
    // An empty directory in its place, as where nothing is mounted, is no tier.
    fs::create_dir(&slow).unwrap();
    tiered.is_refused(&[], &[&slow, "mount its device"]);
    tiered.is_refused(&["--slow-path", &slow], &["is no slow tier: it has no file `TIER`"]);
    braidb(&["tier", "add", db, &slow]).exits(2).tells("mount its device");
    assert_eq!(names(&tiered.place.path("slow")), [""; 0]);
    // A file in the tier's place is no tier either.
    fs::remove_dir(&slow).unwrap();
    fs::write(&slow, "mine").unwrap();
    tiered.is_refused(&[], &[&slow, "it is a file"]);
    fs::remove_file(&slow).unwrap();
    tiered.rename("away", "slow");
    tiered.is_whole();
}

#[test]
fn tiers_that_changed_places_are_refused_until_they_are_named() {
    let tiered = Tiered::new("tiers-swapped");
    let (db, slow, second) = (&tiered.db(), &tiered.path("slow"), &tiered.path("second"));
    braidb(&["tier", "add", db, second]).exits(0);
    tiered.rename("slow", "other");
    tiered.rename("second", "slow");
    tiered.rename("other", "second");
    tiered.is_refused(&[], &["was here, and now it is tier", "--slow-path"]);
    braidb(&["get", db, "key 00001", "--slow-path", slow, "--slow-path", second]).prints("value 7\n");
    braidb(&["compact", db, "--slow-path", slow, "--slow-path", second]).exits(0);
    assert_eq!(tiered.tiers()[1]["path"], second.as_str());
    tiered.is_whole();
}

#[test]
fn foreign_and_old_directories_are_refused_and_kept() {
    let tiered = Tiered::new("tiers-foreign");
    let (db, path) = (&tiered.db(), |name: &str| tiered.path(name));
    // Another database and its tier.
    braidb(&["put", &path("db2"), "k", "v"]).exits(0);
    braidb(&["tier", "add", &path("db2"), &path("slow2")]).exits(0);
    braidb(&["tier", "add", db, &path("slow2")]).exits(2).tells("belongs to another database");
    braidb(&["tier", "add", db, &path("db2")]).exits(2).tells("name an empty or a new directory");
    tiered.is_refused(&["--slow-path", &path("slow2")], &["belongs to another database"]);
    braidb(&["get", &path("db2"), "k"]).prints("v\n");
    // A directory with files of the user.
    fs::create_dir(path("mine")).unwrap();
    tiered.place.file("mine/notes.txt", "mine");
    braidb(&["tier", "add", db, &path("mine")]).exits(2).tells("it holds `notes.txt`");
    assert_eq!(names(&tiered.place.path("mine")), ["notes.txt"]);
    // Directories in one another.
    for dir in [db.clone(), path("db/slow"), path("slow/er")] {
        let named = ["tier", "add", db, &dir, "--slow-path", &path("slow")];
        braidb(&named).exits(2).tells("SLOW_DIR and --slow-path: ").tells("not apart");
        let run = braidb(&["tier", "add", db, &dir]).exits(2).tells("SLOW_DIR: ").tells("not apart");
        assert!(!run.err.contains("--slow-path"), "a flag that was not given: {run:?}");
    }
    // A database that does not exist is not made, and no tier for it.
    braidb(&["tier", "add", &path("nowhere"), &path("new")]).exits(2).tells("does not exist");
    braidb(&["tier", "list", &path("nowhere")]).exits(2).tells("does not exist");
    braidb(&["tier", "evacuate", &path("nowhere"), &path("slow")]).exits(2).tells("does not exist");
    assert!(!tiered.place.path("nowhere").exists() && !tiered.place.path("new").exists());
    braidb(&["tier", "add", db, &path("new"), "--fast-share", "101"]).exits(2);
    // A copy of the tier that is older than the database.
    tiered.copy("slow", "older");
    braidb(&["put", db, "k", "v"]).exits(0);
    braidb(&["delete", db, "k"]).exits(0);
    tiered.rename("slow", "newer");
    tiered.rename("older", "slow");
    tiered.is_refused(&[], &["older than the database"]);
    tiered.rename("slow", "older");
    tiered.rename("newer", "slow");
    tiered.is_whole();
}

#[test]
fn a_tier_that_cannot_be_written_or_read_loses_nothing() {
    let tiered = Tiered::new("tiers-broken");
    let (db, slow) = (&tiered.db(), tiered.place.path("slow"));
    // A read-only directory, for users whom it binds.
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o555)).unwrap();
    let binds = fs::write(slow.join("probe"), "").is_err();
    if binds {
        for verb in [&["get", db, "key 00001"][..], &["put", db, "k", "v"], &["tier", "list", db]] {
            braidb(verb).exits(3).tells(&tiered.path("slow"));
        }
    } else {
        fs::remove_file(slow.join("probe")).unwrap();
    }
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    tiered.is_whole();
    // A tier in use by the open database.
    let open = braidb::Db::open(db).unwrap();
    braidb(&["tier", "list", db]).exits(2).tells("open already");
    braidb(&["tier", "add", db, &tiered.path("second")]).exits(2).tells("open already");
    open.close().unwrap();
    // A damaged table on the slow tier is found, and keeps the tier from being emptied.
    let table = names(&slow).into_iter().find(|name| name.ends_with(".table")).unwrap();
    let whole = fs::read(slow.join(&table)).unwrap();
    let mut bytes = whole.clone();
    bytes[whole.len() / 3] ^= 1;
    fs::write(slow.join(&table), bytes).unwrap();
    let run = braidb(&["verify", db]).exits(3).tells("damaged range");
    assert!(run.text().contains(&table), "{run:?}");
    braidb(&["tier", "evacuate", db, &tiered.path("slow")]).exits(3);
    assert!(tiered.bytes_on(1) > 0, "the tier stays");
    // A read that needs a missing table fails, and names the table.
    fs::remove_file(slow.join(&table)).unwrap();
    braidb(&["get", db, "key 00001"]).exits(3).tells(&table);
    fs::write(slow.join(&table), whole).unwrap();
    tiered.is_whole();
}
