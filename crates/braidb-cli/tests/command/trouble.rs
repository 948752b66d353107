//! Errors around a database: each with its exit status and a message that tells what to do.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, braidb, braidb_with, names};
use std::fs;

/// A database with one table of some blocks, closed.
fn with_a_table(test: &str) -> Place {
    let place = Place::new(test);
    let rows: String = (0..5000).map(|row| format!("key {row:05}\tvalue {}\n", row * 7)).collect();
    braidb_with(&["load", &place.db()], rows.as_bytes()).exits(0);
    braidb(&["compact", &place.db()]).exits(0);
    place
}

#[test]
fn a_missing_directory_is_not_made_by_reading() {
    let place = Place::new("missing");
    let db = &place.db();
    for verb in [&["get", db, "k"][..], &["delete", db, "k"], &["scan", db], &["dump", db], &["stats", db]] {
        braidb(verb).exits(2).tells("does not exist");
    }
    braidb(&["verify", db]).exits(2).tells("does not exist");
    braidb(&["compact", db]).exits(2).tells("does not exist");
    assert!(!place.path("db").exists());
    // An empty directory is no database either, and stays empty.
    fs::create_dir(place.path("db")).unwrap();
    for verb in [&["get", db, "k"][..], &["scan", db], &["stats", db], &["verify", db]] {
        braidb(verb).exits(2);
    }
    assert_eq!(place.db_files(), [""; 0]);
}

#[test]
fn a_foreign_directory_is_left_as_it_is() {
    let place = Place::new("foreign");
    let db = &place.db();
    fs::create_dir(place.path("db")).unwrap();
    place.file("db/data.mdb", "mine");
    for verb in [
        &["put", db, "k", "v"][..],
        &["get", db, "k"],
        &["load", db],
        &["tour", db],
        &["verify", db],
        &["compact", db],
    ] {
        let run = braidb(verb).exits(2);
        assert!(run.err.contains(db.as_str()), "{run:?}");
    }
    assert_eq!(names(&place.path("db")), ["data.mdb"]);
    assert_eq!(fs::read_to_string(place.path("db/data.mdb")).unwrap(), "mine");
    // A file in the place of the directory.
    let file = place.file("file", "mine");
    for verb in [
        &["put", &file, "k", "v"][..],
        &["get", &file, "k"],
        &["load", &file],
        &["stats", &file],
        &["verify", &file],
        &["tour", &file],
    ] {
        braidb(verb).exits(2).tells("is a file, not a directory");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn verify_notes_bytes_behind_the_end_of_a_log() {
    let place = Place::new("notes");
    let db = &place.db();
    braidb(&["put", db, "k", "v"]).exits(0);
    let log = place.db_files().into_iter().find(|name| name.ends_with(".log")).unwrap();
    let path = place.path("db").join(log);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    let run = braidb(&["verify", db]).exits(0);
    let note = format!("note: {}: bytes {} to {}: ", path.display(), bytes.len(), bytes.len() + 4);
    let out = String::from_utf8_lossy(&run.out);
    assert!(out.starts_with(&note) && out.contains("no damage"), "{run:?}");
}

#[test]
fn bench_and_tour_leave_a_database_alone() {
    let place = Place::new("mine");
    let db = &place.db();
    braidb(&["put", db, "k", "v"]).exits(0);
    braidb(&["bench", db, "fillseq", "--num", "10"]).exits(2);
    braidb(&["tour", db]).exits(2).tells("is not empty");
    braidb(&["scan", db]).prints("k\tv\n");
}

#[test]
fn a_file_in_the_place_of_a_directory_is_refused_and_kept() {
    let place = Place::new("file-for-directory");
    let file = place.file("rows", "precious");
    for path in [file.clone(), format!("{file}/below")] {
        let refused = braidb::Db::open(&path).unwrap_err();
        assert!(matches!(refused, braidb::Error::NotADatabase { .. }), "{refused}");
        assert!(
            refused.to_string().contains(&path) && refused.to_string().contains("new directory"),
            "{refused}"
        );
        braidb(&["put", &path, "k", "v"]).exits(2).tells(&file);
        braidb(&["verify", &path]).exits(2).tells(&file);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_database_in_use_is_refused() {
    let place = Place::new("locked");
    let db = braidb::Db::open(place.path("db")).unwrap();
    db.put("k", "v").unwrap();
    braidb(&["get", &place.db(), "k"]).exits(2).tells("open already");
    braidb(&["put", &place.db(), "k", "w"]).exits(2).tells("open already");
    db.close().unwrap();
    braidb(&["get", &place.db(), "k"]).prints("v\n");
}

/// The directory that `braidb-lab bench` made is no database; its database is one level deeper.
#[test]
fn the_directory_of_a_benchmark_is_told() {
    let place = Place::new("benchmark");
    let db = &place.db();
    let inner = &format!("{db}/db");
    fs::create_dir(place.path("db")).unwrap();
    braidb(&["put", inner, "k", "v"]).exits(0);
    place.file("db/BRAIDB-BENCH", "");
    for verb in ["verify", "stats", "scan", "dump", "compact"] {
        braidb(&[verb, db]).exits(2).tells(&format!("its database is in {inner}"));
        braidb(&[verb, inner]).exits(0);
    }
    assert_eq!(place.db_files(), ["BRAIDB-BENCH", "db"]);
}

#[test]
fn keys_over_the_limit_are_refused_and_those_at_it_are_kept() {
    let place = Place::new("limits");
    let db = &place.db();
    let (most, over) = ("k".repeat(65_536), "k".repeat(65_537));
    braidb(&["put", db, &most, "v"]).exits(0);
    braidb(&["get", db, &most]).prints("v\n");
    braidb(&["put", db, &over, "v"]).exits(2).tells("the limit is 65536");
    braidb(&["get", db, &over]).exits(1);
}

#[test]
fn a_torn_end_of_the_log_is_told() {
    let place = Place::new("torn");
    let db = braidb::Db::open(place.path("db")).unwrap();
    db.put("k", "v").unwrap();
    db.put("l", "w").unwrap();
    // A crash leaves the files as they are while the database is open. Here the last bytes of the last write are missing.
    let crashed = place.path("crashed");
    fs::create_dir(&crashed).unwrap();
    for name in place.db_files() {
        let mut bytes = fs::read(place.path("db").join(&name)).unwrap();
        if name.ends_with(".log") {
            let written = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
            bytes.truncate(written - 3);
        }
        fs::write(crashed.join(&name), bytes).unwrap();
    }
    db.close().unwrap();
    let crashed = crashed.to_str().unwrap();
    let run = braidb(&["stats", crashed, "--json"]).exits(0);
    let run = run.tells("the log's last ").tells(" bytes were not whole and were left out");
    let json: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert!(json["recovery"]["cut"]["bytes"].as_u64() > Some(0), "{json:#}");
    assert_eq!(json["recovery"]["entries"], 1);
    braidb(&["get", crashed, "k"]).prints("v\n");
    braidb(&["get", crashed, "l"]).exits(1);
}

#[test]
fn a_flipped_bit_in_a_table_is_found() {
    let place = with_a_table("flip");
    let table = place.table();
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&table, bytes).unwrap();
    let name = table.file_name().unwrap().to_str().unwrap();

    let run = braidb(&["verify", &place.db()]).exits(3).tells("damaged range");
    assert!(run.text().contains(name) && run.text().contains(": bytes "), "{run:?}");
    let run = braidb(&["dump", &place.db()]).exits(3).tells(name);
    assert!(run.text().lines().count() < 5000);
    // A dump that could not be written whole does not appear.
    let file = place.path("dump.tsv");
    braidb(&["dump", &place.db(), file.to_str().unwrap()]).exits(3).tells(name);
    assert_eq!(names(&place.path("")), ["db"]);
}

#[test]
fn a_table_that_is_cut_or_gone_is_found() {
    let place = with_a_table("cut");
    let table = place.table();
    let name = table.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(&table).unwrap();

    fs::write(&table, &bytes[..bytes.len() - 100]).unwrap();
    braidb(&["get", &place.db(), "key 00001"]).exits(3).tells(name);
    assert!(braidb(&["verify", &place.db()]).exits(3).text().contains(name));

    fs::remove_file(&table).unwrap();
    braidb(&["get", &place.db(), "key 00001"]).exits(3).tells(name);
    assert!(braidb(&["verify", &place.db()]).exits(3).text().contains(name));

    fs::write(&table, &bytes).unwrap();
    braidb(&["get", &place.db(), "key 00001"]).prints("value 7\n");
    braidb(&["verify", &place.db()]).exits(0);
}

#[test]
fn a_damaged_manifest_is_found() {
    let place = with_a_table("manifest");
    let manifest = place.db_files().into_iter().find(|name| name.ends_with(".manifest")).unwrap();
    let path = place.path("db").join(&manifest);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    // `put` may create a database, but never over a damaged one.
    for verb in [&["get", &place.db(), "key 00001"][..], &["put", &place.db(), "k", "v"]] {
        braidb(verb).exits(3).tells(&manifest);
    }
    assert!(braidb(&["verify", &place.db()]).exits(3).text().contains(&manifest));
}

#[test]
fn a_dump_passes_over_damage_and_names_what_is_lost() {
    let place = with_a_table("skip-damaged");
    let db = &place.db();
    let whole = braidb(&["dump", db]).exits(0).text().to_owned();
    assert_eq!(braidb(&["dump", db, "--skip-damaged"]).exits(0).text(), whole);
    let table = names(&place.path("db")).into_iter().find(|name| name.ends_with(".table")).unwrap();
    let path = place.path("db").join(&table);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    braidb(&["dump", db]).exits(3).tells("damaged");
    let run = braidb(&["dump", db, "--skip-damaged"]).exits(3).tells("1 range of keys is lost");
    assert!(
        run.err.contains("lost: keys key ") && run.err.contains(&table) && run.err.contains(" at byte "),
        "{run:?}"
    );
    let kept = run.text().lines().count();
    assert!((4_000..5_000).contains(&kept) && run.text().lines().all(|row| whole.contains(row)), "{kept}");
    // A table that is missing loses all its keys, and no more.
    fs::remove_file(&path).unwrap();
    braidb(&["dump", db]).exits(3).tells(&table);
    let file = place.path("rows.tsv").display().to_string();
    let run =
        braidb(&["dump", db, "--skip-damaged", &file]).exits(3).tells("lost: keys key 00000 to key 04999");
    assert_eq!(fs::read_to_string(&file).unwrap(), "", "{run:?}");
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let place = with_a_table("checkpoint");
    let (db, copy) = (&place.db(), &place.path("monday").display().to_string());
    let whole = braidb(&["dump", db]).exits(0).text().to_owned();
    braidb(&["checkpoint", db, copy]).exits(0).tells("linked");
    braidb(&["put", db, "later", "v"]).exits(0);
    assert_eq!(braidb(&["dump", copy]).exits(0).text(), whole);
    braidb(&["verify", copy]).exits(0);
    braidb(&["delete", copy, "key 00000"]).exits(0);
    braidb(&["compact", copy]).exits(0);
    braidb(&["verify", db]).exits(0);
    braidb(&["get", db, "key 00000"]).prints("value 0\n");
    braidb(&["checkpoint", db, copy]).exits(2).tells("already");
    braidb(&["checkpoint", &place.path("nowhere").display().to_string(), copy])
        .exits(2)
        .tells("does not exist");
}
