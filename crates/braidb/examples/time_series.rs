//! Readings of sensors, sorted by time. Old ones are swept away in batches, and scans pay nothing for what was swept.

use braidb::{Db, WriteBatch};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("braidb-time-series");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

/// Seconds that a reading is kept.
const KEPT_SECONDS: u64 = 3_600;

/// Time first: a sweep is then one range at the beginning, and new readings come at the end.
fn key(second: u64, sensor: u32) -> Vec<u8> {
    [&second.to_be_bytes()[..], &sensor.to_be_bytes()].concat()
}

/// Deletes all readings before `second`, 1,000 in a batch.
fn sweep(db: &Db, second: u64) -> braidb::Result<u64> {
    let mut swept = 0;
    loop {
        let mut batch = WriteBatch::new();
        for key in db.range(..key(second, 0)).keys().take(1_000) {
            batch.delete(key?);
        }
        if batch.is_empty() {
            return Ok(swept);
        }
        swept += batch.len() as u64;
        db.write(&batch)?;
    }
}

pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir)?;
    // A second run goes on where the first one ended.
    let newest = db.last()?.map_or(0, |(key, _)| u64::from_be_bytes(key[..8].try_into().expect("8 bytes")));
    for second in (newest + 10..).step_by(10).take(1_000) {
        for sensor in 0..4 {
            db.put(key(second, sensor), format!("{:.1}", f64::from(sensor) + second as f64 / 1_000.0))?;
        }
    }
    let now = newest + 10_000;
    let swept = sweep(&db, now - KEPT_SECONDS)?;
    let (oldest, _) = db.first()?.expect("there are new readings");
    assert!(oldest >= key(now - KEPT_SECONDS, 0));

    // The last minute of all sensors, newest first.
    let minute = db.range(key(now - 60, 0)..).rev().collect::<braidb::Result<Vec<_>>>()?;
    println!("{swept} readings swept, {} in the last minute", minute.len());
    assert_eq!(minute.len(), 7 * 4);
    Ok(())
}
