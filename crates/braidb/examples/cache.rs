//! A cache of computed values that survives the process. Losing the last entries in a crash costs nothing, so writes wait for no device.

use braidb::{Db, Durability, Options, Result};
use std::error::Error;
use std::path::Path;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("braidb-cache");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

/// Entries that the cache keeps.
const MOST: u64 = 500;

/// The value of `key`: from the cache, or computed and kept.
fn cached(db: &Db, key: u64, compute: impl FnOnce() -> String) -> Result<String> {
    if let Some(value) = db.get(key.to_be_bytes())? {
        return Ok(String::from_utf8_lossy(&value).into_owned());
    }
    let value = compute();
    db.put(key.to_be_bytes(), &value)?;
    Ok(value)
}

/// Deletes the entries with the smallest keys until about `MOST` are left. A real cache would sort its keys by the time of the last use.
fn shrink(db: &Db) -> Result<()> {
    // An estimate reads no block. Exact numbers need a walk over the keys.
    let excess = db.estimate(..)?.entries.saturating_sub(MOST);
    for key in db.iter().keys().take(excess as usize) {
        db.delete(key?)?;
    }
    Ok(())
}

pub fn run(dir: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let db = Options::new().durability(Durability::None).open(dir)?;
    let mut computed = 0;
    for key in (0..2_000).map(|number| number % 700) {
        let square = cached(&db, key, || {
            computed += 1;
            (key * key).to_string()
        })?;
        assert_eq!(square, (key * key).to_string());
    }
    shrink(&db)?;
    let left = db.iter().keys().count() as u64;
    println!("{computed} of 2,000 values were computed, {left} are kept");
    assert!(computed <= 700 && left <= 700);
    Ok(())
}
