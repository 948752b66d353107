//! Reads of a damaged database that was opened by `open_damaged`: no wrong answer, and nothing lost outside of the damage.

use crate::base::report::DamagedRange;
use crate::db::{Db, Options, Salvaged};
use crate::{Error, Result};
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::{Crash, SimFs};
use braidb_storage::{Env, FileSystem};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(fs: &SimFs) -> Options {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(fs.clone()), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    Options::new().memtable_bytes(64 << 10).env(env).tuning(|tuning| tuning.block_bytes(1 << 10))
}

/// A closed database with several levels, value files and rows in memory, and its rows. Each key was written more than once, so a damaged
/// table has older versions of its keys below it.
fn built() -> (SimFs, Rows) {
    let fs = SimFs::new();
    let db = options(&fs).open(DIR).unwrap();
    let mut rows = Rows::new();
    for round in 0..6u32 {
        for number in (round % 3..600).step_by(1 + round as usize % 3) {
            let key = format!("key {number:04}").into_bytes();
            let bytes = if number % 7 == 0 { 3_000 } else { 40 };
            let value = vec![b'a' + round as u8; bytes];
            db.put(&key, &value).unwrap();
            rows.insert(key, value);
        }
        if round < 5 {
            db.flush().unwrap();
        }
        if round == 1 {
            db.compact().unwrap();
        }
    }
    let key = b"key 0300".to_vec();
    db.delete(&key).unwrap();
    rows.remove(&key);
    db.close().unwrap();
    let kinds: BTreeSet<_> =
        fs.files().iter().filter_map(|path| path.extension().map(ToOwned::to_owned)).collect();
    assert!(
        ["table", "values", "log", "manifest"].iter().all(|kind| kinds.contains(std::ffi::OsStr::new(kind))),
        "{kinds:?}"
    );
    (fs, rows)
}

/// A kind of damage: its name, and what it does to a file. `false` if it would change nothing.
type Harm = (&'static str, fn(&SimFs, &Path, &Path) -> bool);

/// Writes other bytes to a file.
fn with_bytes(fs: &SimFs, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
    let before = fs.read_file(path).unwrap();
    let mut bytes = before.clone();
    change(&mut bytes);
    fs.unlink(path).unwrap();
    fs.write_file(path, &bytes).unwrap();
    bytes != before
}

const HARMS: [Harm; 10] = [
    ("missing", |fs, path, _| fs.unlink(path).is_ok()),
    ("emptied", |fs, path, _| with_bytes(fs, path, Vec::clear)),
    ("cut in half", |fs, path, _| with_bytes(fs, path, |bytes| bytes.truncate(bytes.len() / 2))),
    ("cut by a byte", |fs, path, _| with_bytes(fs, path, |bytes| _ = bytes.pop())),
    ("zeroed", |fs, path, _| with_bytes(fs, path, |bytes| bytes.fill(0))),
    ("zeroed in the middle", |fs, path, _| {
        with_bytes(fs, path, |bytes| {
            let middle = bytes.len() / 2;
            let end = (middle + 1_500).min(bytes.len());
            bytes[middle..end].fill(0);
        })
    }),
    ("flipped at the start", |fs, path, _| {
        with_bytes(fs, path, |bytes| bytes.iter_mut().take(1).for_each(|byte| *byte ^= 1))
    }),
    ("flipped in a third", |fs, path, _| {
        with_bytes(fs, path, |bytes| {
            let at = bytes.len() / 3;
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 4);
        })
    }),
    ("flipped at the end", |fs, path, _| {
        with_bytes(fs, path, |bytes| bytes.iter_mut().rev().take(1).for_each(|byte| *byte ^= 1))
    }),
    ("swapped", |fs, path, other| {
        let (mine, theirs) = (fs.read_file(path).unwrap(), fs.read_file(other).unwrap());
        with_bytes(fs, path, |bytes| *bytes = theirs) && with_bytes(fs, other, |bytes| *bytes = mine)
    }),
];

/// What a salvage gives: its rows and its holes.
fn salvaged(db: &Db) -> Result<(Rows, Vec<DamagedRange>)> {
    let (mut rows, mut holes, mut last) = (Rows::new(), Vec::new(), None);
    for item in db.salvage(..) {
        match item? {
            Salvaged::Row(key, value) => {
                assert!(last.is_none_or(|last| last < key), "rows come in order");
                last = Some(key.clone());
                rows.insert(key, value.to_vec());
            }
            Salvaged::Hole(hole) => holes.push(hole),
        }
    }
    Ok((rows, holes))
}

fn is_lost(holes: &[DamagedRange], key: &[u8]) -> bool {
    holes.iter().any(|hole| *hole.low <= *key && hole.high.as_ref().is_none_or(|high| *key <= **high))
}

/// All rows are there that lie outside of damaged blocks and tables, except those between the last key of a block and a damaged block
/// behind it, and those whose own value is lost.
fn check_holes(db: &Db, all: &Rows, rows: &Rows, holes: &[DamagedRange]) {
    let engine = db.engine().unwrap();
    let view = engine.view().unwrap();
    let bounds = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let damaged = crate::read::damaged_ranges(&view.families[0], &bounds).unwrap();
    let own: Vec<_> = holes.iter().filter(|hole| hole.high.as_ref() == Some(&hole.low)).cloned().collect();
    let lost = |key: &&Vec<u8>| !rows.contains_key(*key) && !is_lost(&damaged, key) && !is_lost(&own, key);
    let outside: Vec<String> = all.keys().filter(lost).map(|key| key.escape_ascii().to_string()).collect();
    assert!(outside.len() <= damaged.len(), "{outside:?} are lost beside {damaged:?}");
}

/// Every read is right or fails by name. Rows outside of the holes are all there, by gets, by scans and in the salvage.
fn check(db: &Db, all: &Rows, harmed: &[PathBuf]) -> usize {
    let (rows, holes) = salvaged(db).unwrap();
    check_holes(db, all, &rows, &holes);
    for hole in &holes {
        assert!(harmed.contains(&hole.path) && !hole.what.is_empty(), "{hole}");
    }
    for (key, value) in all {
        match db.get(key) {
            Ok(Some(found)) => assert_eq!(found, *value),
            Ok(None) => panic!("{} is gone", key.escape_ascii()),
            Err(error) => {
                assert!(is_lost(&holes, key), "{}: {error}", key.escape_ascii());
                assert!(
                    harmed.iter().any(|path| error.to_string().contains(path.to_str().unwrap())),
                    "{error}"
                );
            }
        }
        match rows.get(key) {
            Some(found) => assert_eq!(found, value),
            None => assert!(is_lost(&holes, key), "{} was left out", key.escape_ascii()),
        }
    }
    assert!(rows.keys().all(|key| all.contains_key(key)), "a row came back");
    assert!(db.get("key 0300").is_ok_and(|found| found.is_none()) || is_lost(&holes, b"key 0300"));
    // Scans between the holes give the rows of the salvage, in both directions.
    let mut low = Vec::new();
    for hole in &holes {
        let part = || db.range(low.clone()..hole.low.clone()).map(|row| row.map(|(key, _)| key));
        let (forward, backward): (Result<Vec<_>>, Result<Vec<_>>) =
            (part().collect(), part().rev().collect());
        if let (Ok(forward), Ok(mut backward)) = (forward, backward) {
            backward.reverse();
            assert_eq!(forward, backward);
            assert!(forward.iter().all(|key| rows.contains_key(key)));
        }
        low = hole.high.clone().unwrap_or_default();
    }
    all.len() - rows.len()
}

#[test]
fn each_file_is_harmed_in_each_way_and_no_read_gives_an_older_value() {
    let (fs, all) = built();
    let (mut harms, mut refused, mut lost) = (0, BTreeMap::<String, u64>::new(), 0);
    let files: Vec<PathBuf> = fs.files().into_iter().filter(|path| !path.ends_with("LOCK")).collect();
    for (number, path) in files.iter().enumerate() {
        let same_kind = |other: &&PathBuf| other.extension() == path.extension();
        let other = files[number + 1..].iter().chain(&files[..number]).find(same_kind).unwrap_or(&files[0]);
        for (name, harm) in HARMS {
            let image = fs.crash_image(Crash::Process, 1);
            if !harm(&image, path, other) {
                continue;
            }
            harms += 1;
            let harmed = match name {
                "swapped" => vec![path.clone(), other.clone()],
                _ => vec![path.clone()],
            };
            match options(&image).open_damaged(true).open_read_only(DIR) {
                Ok(db) => lost += check(&db, &all, &harmed),
                Err(error) => {
                    let kind = path.extension().unwrap_or_else(|| path.file_name().unwrap());
                    *refused.entry(kind.to_string_lossy().into_owned()).or_default() += 1;
                    assert!(kind != "table" && kind != "values", "{} {name}: {error}", path.display());
                }
            }
        }
    }
    println!("damages {harms}\nrefused {}\nrows-lost {lost}", refused.values().sum::<u64>());
    assert!(harms >= 100 && lost > 1_000, "{harms} harms, {lost} rows lost");
    // Which keys a damaged manifest, or a log that is replayed, had is unknown.
    assert!(
        refused.keys().all(|kind| ["CURRENT", "manifest", "log"].contains(&kind.as_str())),
        "{refused:?}"
    );
}

#[test]
fn without_the_option_a_missing_table_refuses_the_open() {
    let (fs, _) = built();
    let table =
        fs.files().into_iter().find(|path| path.extension().is_some_and(|kind| kind == "table")).unwrap();
    fs.unlink(&table).unwrap();
    let refused = options(&fs).open_read_only(DIR);
    assert!(matches!(&refused, Err(Error::Corruption { path, .. }) if *path == table), "{refused:?}");
}

#[test]
fn a_whole_database_salvages_as_it_reads() {
    let (fs, all) = built();
    let db = options(&fs).open(DIR).unwrap();
    let (rows, holes) = salvaged(&db).unwrap();
    assert!(rows == all && holes.is_empty(), "{holes:?}");
    let some: Vec<_> = db.salvage("key 0100"..="key 0105").collect::<Result<_>>().unwrap();
    assert_eq!(some.len(), 6);
    db.close().unwrap();
    assert!(matches!(db.salvage(..).next(), Some(Err(Error::Closed))));
}
