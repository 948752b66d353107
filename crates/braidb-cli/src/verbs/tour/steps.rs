//! The steps of the tour before the crash: find, load, get, scan, snapshot.

use super::narrate::Narrator;
use super::{Model, ROOT};
use crate::failure::{Failure, Outcome};
use crate::figures::{bytes_text, grouped};
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::text::escaped;
use braidb::{Db, Durability, Value, WriteBatch};
use std::path::Path;

/// Gets of keys that are there, and of some that are not.
const GETS: usize = 100_000;
/// Rows of a scan that are printed.
const SHOWN: usize = 4;

pub fn find_paths(say: &mut Narrator) -> Outcome<Model> {
    say.step(&format!("Find real data: every path below {ROOT}, with its size and time"))?;
    let watch = Stopwatch::start();
    let mut model = Model::new();
    let mut visit = |seen: files::Seen| {
        let value = format!("{} bytes, changed {}.{:09}", seen.size, seen.seconds, seen.nanoseconds);
        model.insert(seen.path, value.into_bytes());
    };
    files::walk(Path::new(ROOT), &mut visit)
        .map_err(|error| Failure::file("list", Path::new(ROOT), &error))?;
    say.line(&format!("{} paths found in {:.1} s", grouped(model.len() as u64), watch.seconds()))?;
    Ok(model)
}

pub fn load(db: &Db, model: &Model, say: &mut Narrator) -> Outcome {
    say.step("Load: batches of 1,000, then one sync for all")?;
    let watch = Stopwatch::start();
    // The gets are not in key order: the hash order of names is as good as random.
    let mut rows: Vec<(&Vec<u8>, &Vec<u8>)> = model.iter().collect();
    rows.sort_by_key(|(key, _)| scatter(key));
    for part in rows.chunks(1000) {
        let mut batch = WriteBatch::new();
        for (key, value) in part {
            batch.put(key, value);
        }
        db.write(batch)?;
    }
    db.persist(Durability::Sync)?;
    let (seconds, stats) = (watch.seconds(), db.stats());
    say.line(&format!(
        "{} of keys and values in {seconds:.2} s, {} rows a second; {} flushes and {} merges went on beside it",
        bytes_text(stats.counts.user_bytes),
        grouped((rows.len() as f64 / seconds.max(1e-9)) as u64),
        stats.counts.flushes,
        stats.counts.merges
    ))
}

/// The FNV-1a hash of a name, which puts names out of order.
fn scatter(key: &[u8]) -> u64 {
    key.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

pub fn get(db: &Db, model: &Model, say: &mut Narrator) -> Outcome {
    say.step("Get: paths that are there, and some that are not")?;
    let mut rows: Vec<(&Vec<u8>, &Vec<u8>)> = model.iter().collect();
    rows.sort_by_key(|(key, _)| scatter(key));
    rows.truncate(GETS);
    let watch = Stopwatch::start();
    for (key, value) in &rows {
        let found = db.get(key)?;
        say.check(found.as_ref().is_some_and(|found| found == *value), || {
            format!("get {} returned {found:?} and not {}", escaped(key), escaped(value))
        })?;
    }
    let present_us = watch.seconds() * 1e6 / rows.len().max(1) as f64;
    let watch = Stopwatch::start();
    for (key, _) in &rows {
        let missing = [key.as_slice(), b"~"].concat();
        if !model.contains_key(&missing) {
            let found = db.get(&missing)?;
            say.check(found.is_none(), || format!("get {} found {found:?}", escaped(&missing)))?;
        }
    }
    let missing_us = watch.seconds() * 1e6 / rows.len().max(1) as f64;
    for (key, value) in rows.iter().take(SHOWN) {
        say.line(&format!("{} → {}", escaped(key), escaped(value)))?;
    }
    say.line(&format!(
        "{} gets, every value right: {present_us:.1} µs each; as many misses: {missing_us:.1} µs each",
        grouped(rows.len() as u64)
    ))
}

pub fn scan(db: &Db, model: &Model, say: &mut Narrator) -> Outcome {
    say.step("Scan: a prefix from its start, another from its end, then everything both ways")?;
    let bin = format!("{ROOT}/bin/").into_bytes();
    let share = format!("{ROOT}/share/").into_bytes();
    for (prefix, backward) in [(&bin, false), (&share, true)] {
        let rows: Result<Vec<_>, _> = match backward {
            false => db.prefix(prefix).take(SHOWN).collect(),
            true => db.prefix(prefix).rev().take(SHOWN).collect(),
        };
        say.line(&format!("{}* {}", escaped(prefix), if backward { "backward" } else { "forward" }))?;
        for (key, value) in rows? {
            say.line(&format!("  {} → {}", escaped(&key), escaped(&value)))?;
        }
        let expected = || model.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(prefix));
        compare("a prefix scan", db.prefix(prefix), expected())?;
        let expected: Vec<_> = expected().collect();
        compare("a prefix scan backward", db.prefix(prefix).rev(), expected.into_iter().rev())?;
    }
    let watch = Stopwatch::start();
    compare("a scan", db.iter(), model.iter())?;
    compare("a scan backward", db.iter().rev(), model.iter().rev())?;
    let entries = 2 * model.len();
    say.line(&format!(
        "all {} paths forward and backward, as they should be: {:.0} ns an entry",
        grouped(model.len() as u64),
        watch.seconds() * 1e9 / entries.max(1) as f64
    ))
}

/// Overwrites all rows and deletes some while a snapshot is held. Returns what the database must
/// hold afterwards.
pub fn hold_snapshot(db: &Db, model: Model, say: &mut Narrator) -> Outcome<Model> {
    say.step("Hold a snapshot while every value is overwritten and every tenth path is deleted")?;
    let snapshot = db.snapshot();
    let mut changed = Model::new();
    for (number, (key, value)) in model.iter().enumerate() {
        if number % 10 == 0 {
            db.delete(key)?;
        } else {
            let value = [b"seen: ", value.as_slice()].concat();
            db.put(key, &value)?;
            changed.insert(key.clone(), value);
        }
    }
    compare("the snapshot, before a flush", snapshot.iter(), model.iter())?;
    db.flush()?;
    db.settle()?;
    compare("the snapshot, after flushes and merges", snapshot.iter(), model.iter())?;
    compare("the snapshot backward", snapshot.iter().rev(), model.iter().rev())?;
    compare("the database beside it", db.iter(), changed.iter())?;
    say.line(&format!(
        "the snapshot still shows the {} paths as they were; the database shows the {} that are left, changed",
        grouped(model.len() as u64),
        grouped(changed.len() as u64)
    ))?;
    Ok(changed)
}

/// Fails unless a scan yields exactly the expected rows.
pub fn compare<'a>(
    what: &str,
    seen: impl Iterator<Item = braidb::Result<(Vec<u8>, Value)>>,
    mut expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> Outcome {
    let differs =
        |seen: &str, expected: &str| Failure::Storage(format!("{what} yields {seen} and not {expected}"));
    for row in seen {
        let (key, value) = row?;
        match expected.next() {
            Some((right_key, right_value)) if key == *right_key && value == *right_value => {}
            Some((right_key, right_value)) => {
                let row = |key: &[u8], value: &[u8]| format!("{} → {}", escaped(key), escaped(value));
                return Err(differs(&row(&key, &value), &row(right_key, right_value)));
            }
            None => return Err(differs(&escaped(&key), "its end")),
        }
    }
    match expected.next() {
        None => Ok(()),
        Some((key, _)) => Err(differs("its end", &escaped(key))),
    }
}
