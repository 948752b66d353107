//! People by name, with an index by city. A transaction changes both together, from the row that it has read.

use braidb::{ColumnFamily, Db, Result};
use std::error::Error;
use std::path::Path;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("braidb-secondary-index");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

/// The city ends with a zero byte, so that one city is no prefix of another.
fn index_key(city: &[u8], name: &str) -> Vec<u8> {
    [city, b"\0", name.as_bytes()].concat()
}

/// Moves a person to another city. The old row of the index goes in the same batch.
fn move_to(db: &Db, by_city: &ColumnFamily, name: &str, city: &str) -> Result<()> {
    db.transact(|t| {
        if let Some(old) = t.get(name)? {
            t.delete_in(by_city, index_key(&old, name))?;
        }
        t.put(name, city)?;
        t.put_in(by_city, index_key(city.as_bytes(), name), "")
    })
}

fn people_in(by_city: &ColumnFamily, city: &str) -> Result<Vec<String>> {
    let prefix = index_key(city.as_bytes(), "");
    let name = |key: Vec<u8>| String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
    by_city.prefix(&prefix).keys().map(|key| key.map(name)).collect()
}

pub fn run(dir: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let db = Db::open(dir)?;
    let by_city = db.create_column_family("by_city")?;
    for (name, city) in [("ada", "London"), ("alan", "London"), ("grace", "New York")] {
        move_to(&db, &by_city, name, city)?;
    }
    assert_eq!(people_in(&by_city, "London")?, ["ada", "alan"]);

    // Two threads move the same person; each transaction sees the other one or runs again.
    std::thread::scope(|scope| {
        let movers = ["Princeton", "Manchester"].map(|city| {
            let (db, by_city) = (&db, &by_city);
            scope.spawn(move || move_to(db, by_city, "alan", city))
        });
        movers.into_iter().try_for_each(|mover| mover.join().expect("no panic"))
    })?;
    let city = db.get("alan")?.expect("he lives somewhere");
    println!("alan is in {}", city.escape_ascii());
    assert_eq!(people_in(&by_city, std::str::from_utf8(&city)?)?, ["alan"]);
    assert_eq!(by_city.iter().count(), 3, "one row for each person");
    Ok(())
}
