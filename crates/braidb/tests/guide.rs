//! The snippets of docs/guide.md. Each one stands here word for word, and runs.

#![allow(clippy::disallowed_methods, reason = "the guide shows a program with threads of its own")]

use braidb::{Db, Durability, Error, Options, Result, Salvaged, WriteBatch};
use std::path::{Path, PathBuf};

const GUIDE: &str = include_str!("../../../docs/guide.md");
const SELF: &str = include_str!("guide.rs");

/// A directory of one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("braidb-guide-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl std::ops::Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The lines of a text without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn every_snippet_of_the_guide_stands_here() {
    let (here, mut snippets) = (lines(SELF), 0);
    for block in GUIDE.split("```rust\n").skip(1) {
        let snippet = lines(block.split("```").next().expect("a block ends"));
        let is_here = here.windows(snippet.len()).any(|window| *window == snippet[..]);
        assert!(is_here, "this snippet is not in tests/guide.rs:\n{}", snippet.join("\n"));
        snippets += 1;
    }
    assert!(snippets >= 10, "{snippets}");
}

#[test]
fn data_model() -> Result<()> {
    let dir = Scratch::new("model");
    let db = Db::open(&*dir)?;
    let readings = db.create_column_family("readings")?;
    for (sensor, second, value) in [(7u32, 100u64, "20.5"), (7, 160, "20.7"), (8, 100, "3.1")] {
        let key = [&sensor.to_be_bytes()[..], &second.to_be_bytes()].concat();
        readings.put(key, value)?;
    }
    let of_sensor = readings.prefix(7u32.to_be_bytes());
    assert_eq!(of_sensor.count(), 2);
    let newest = readings.prefix(7u32.to_be_bytes()).next_back().transpose()?;
    assert_eq!(newest.unwrap().1, b"20.7");
    Ok(())
}

#[test]
fn durability() -> Result<()> {
    let dir = Scratch::new("durability");
    let db = Options::new().durability(Durability::Buffer).open(&*dir)?;
    db.put("view", "1")?; // survives a kill
    db.put_with("order", "paid", Durability::Sync)?; // survives a power failure, and so does "view" now
    db.persist(Durability::Sync)?; // or once for many writes
    Ok(())
}

#[test]
fn batches_and_snapshots() -> Result<()> {
    let dir = Scratch::new("batches");
    let db = Db::open(&*dir)?;
    let index = db.create_column_family("by_city")?;
    let mut batch = WriteBatch::new();
    batch.put("ada", "London").put_in(&index, "London/ada", "");
    db.write(&batch)?;
    let before = db.snapshot();
    db.delete("ada")?;
    assert_eq!(before.get("ada")?.unwrap(), b"London");
    Ok(())
}

#[test]
fn transactions() -> Result<()> {
    let dir = Scratch::new("transactions");
    let db = Db::open(&*dir)?;
    db.put("from", "100")?;
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
    let is_paid = db.transact(|t| {
        let from = t.get("from")?.map_or(0, |value| number(&value));
        if from < 10 {
            return Ok(false);
        }
        let to = t.get("to")?.map_or(0, |value| number(&value));
        t.put("from", (from - 10).to_string())?;
        t.put("to", (to + 10).to_string())?;
        Ok::<_, Error>(true)
    })?;
    assert!(is_paid);
    db.update("visits", |old| Some((old.map_or(0, number) + 1).to_string()))?;
    Ok(())
}

#[test]
fn overlays() -> Result<()> {
    let dir = Scratch::new("overlays");
    let db = Db::open(&*dir)?;
    let staged = db.overlay();
    staged.put("plum", "blue")?;
    assert_eq!(staged.get("plum")?.unwrap(), b"blue"); // the database has no plum yet
    staged.commit()?;
    Ok(())
}

#[test]
fn reading_without_writing() -> Result<()> {
    let dir = Scratch::new("reading");
    Db::open(&*dir)?.put("plum", "blue")?;
    let reader = Options::new().open_read_only(&*dir)?;
    assert_eq!(reader.get("plum")?.unwrap(), b"blue");
    Ok(())
}

#[test]
fn whole_ranges() -> Result<()> {
    let dir = Scratch::new("ranges");
    let db = Db::open(&*dir)?;
    db.put("2026-10-07/event", "old")?;
    db.put("2026-11-01/event", "new")?;
    db.excise(["2026-10-01".."2026-11-01"])?;
    assert_eq!(db.iter().count(), 1);
    Ok(())
}

#[test]
fn backup() -> Result<()> {
    let root = Scratch::new("backup");
    let (live, monday) = (root.join("live"), root.join("monday"));
    let db = Db::open(live)?;
    db.put("plum", "blue")?;
    db.checkpoint(&monday)?;
    assert!(braidb::verify(&monday)?.damages.is_empty());
    Ok(())
}

#[test]
fn damage() -> Result<()> {
    let dir = Scratch::new("damage");
    Db::open(&*dir)?.put("plum", "blue")?;
    let (mut rows, mut holes) = (0, 0);
    let damaged = Options::new().open_damaged(true).open_read_only(&*dir)?;
    for item in damaged.salvage(..) {
        match item? {
            Salvaged::Row(_key, _value) => rows += 1,
            Salvaged::Hole(hole) => {
                eprintln!("lost: {hole}");
                holes += 1;
            }
            _ => {}
        }
    }
    assert_eq!((rows, holes), (1, 0));
    Ok(())
}

#[test]
fn operation() -> Result<()> {
    let dir = Scratch::new("operation");
    let db = Db::open(&*dir)?;
    let stats = db.stats();
    let trouble = stats.poisoned.or(stats.job_error);
    assert!(trouble.is_none(), "{trouble:?}");
    println!("{} stalls, {} merges", stats.counts.stalls, stats.counts.merges);
    Ok(())
}

#[test]
fn threads() -> Result<()> {
    let dir = Scratch::new("threads");
    let db = Db::open(&*dir)?;
    let writers: Vec<_> = (0..4u8)
        .map(|number| {
            let db = db.clone();
            std::thread::spawn(move || db.put([number], "here"))
        })
        .collect();
    writers.into_iter().try_for_each(|writer| writer.join().unwrap())?;
    assert_eq!(db.iter().count(), 4);
    Ok(())
}
