//! A small search index: the lines in which each word of a text stands, how often words occur, and the words with a prefix.
//!
//! `cargo run --release -p braidb --example word_index < FILE` indexes your text. On a terminal, or if the text has no words, the
//! example indexes its own source.

use braidb::{Db, Options, WriteBatch};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{IsTerminal, Read};
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    match std::io::stdin().is_terminal() {
        true => text.push_str(SOURCE),
        false => drop(std::io::stdin().read_to_string(&mut text)?),
    }
    if words(&text).next().is_none() {
        println!("there are no words on standard input; this program's own source is indexed instead");
        SOURCE.clone_into(&mut text);
    }
    let dir = std::env::temp_dir().join("braidb-word-index");
    run_on(&dir, &text)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

const SOURCE: &str = include_str!("word_index.rs");

pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    run_on(dir, SOURCE)
}

fn run_on(dir: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    // Memory can be small: it bounds the data that is not yet in tables, not the database.
    let db = Options::new().memtable_bytes(1 << 20).open(dir)?;
    // An index of another text may lie there from an earlier run.
    for entry in db.iter() {
        db.delete(entry?.0)?;
    }
    load(&db, text)?;

    // The key `w/WORD/LINE` stands for an occurrence, so the lines of a word are the keys with a prefix, in order.
    let lines = |word: &str| db.prefix(format!("w/{word}/")).count();
    println!("`the` stands in {} lines", lines("the"));
    assert_eq!(lines("no-such-word"), 0);

    // All words that start with `de`, each with its count.
    for entry in db.prefix("c/de") {
        let (key, count) = entry?;
        println!("{:>6} {}", u64::from_le_bytes(count[..].try_into()?), key[2..].escape_ascii());
    }

    // The last word: a scan from the other end.
    let (last, _) = db.prefix("c/").next_back().ok_or("the text has no words")??;
    println!("the last word is {}", last[2..].escape_ascii());

    // The count over keys and the count while loading must agree.
    let mut counted = 0;
    for entry in db.prefix("c/") {
        counted += u64::from_le_bytes(entry?.1[..].try_into()?);
    }
    assert_eq!(counted, words(text).count() as u64);
    Ok(())
}

/// Loads the text in batches of about a thousand words; each batch is atomic.
fn load(db: &Db, text: &str) -> Result<(), Box<dyn Error>> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut batch = WriteBatch::new();
    for (number, line) in text.lines().enumerate() {
        for word in words(line) {
            batch.put(format!("w/{word}/{number:08}"), "");
            *counts.entry(word).or_default() += 1;
        }
        if batch.len() > 1000 {
            db.write(&mut batch)?; // which empties it
        }
    }
    for (word, count) in counts {
        batch.put(format!("c/{word}"), count.to_le_bytes());
    }
    db.write(batch)?;
    Ok(())
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}
