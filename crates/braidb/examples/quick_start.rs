//! The first five minutes: open, put, get, scan, delete.
//!
//! `cargo run --release -p braidb --example quick_start` leaves the database in the temporary directory. Look at it with `braidb scan
//! DIR`.

use braidb::Db;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("braidb-quick-start");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    // Creates the database if there is none. A `Db` is cheap to clone and works from many threads.
    let db = Db::open(dir)?;

    // Keys and values are any bytes.
    db.put("fruit/apple", "red")?;
    db.put("fruit/plum", "blue")?;
    db.put("herb/basil", "green")?;
    db.put([0xff, 0x00], 1815u32.to_le_bytes())?;

    // A value is pinned in place, not copied. It reads like a byte slice.
    let apple = db.get("fruit/apple")?.ok_or("the apple is gone")?;
    assert_eq!(&apple[..], b"red");
    assert!(db.get("fruit/pear")?.is_none());

    // Scans go in key order, from either end. Entries are results, because a disk can fail.
    for entry in db.prefix("fruit/") {
        let (key, value) = entry?;
        println!("{} is {}", key.escape_ascii(), value.escape_ascii());
    }
    let (last, _) = db.range("fruit/".."herb0").next_back().ok_or("the range is empty")??;
    assert_eq!(last, b"herb/basil");

    db.delete("fruit/plum")?;
    assert_eq!(db.prefix("fruit/").count(), 1);

    // Dropping the last handle closes the database. `close` also returns errors.
    db.close()?;
    Ok(())
}
