//! What each durability promises for an acknowledged write, and what it costs: a sync of the disk, or none.

use braidb::storage::{Clock, real::MonotonicClock};
use braidb::{Db, Durability, Options, WriteBatch};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("braidb-durability");
    run(&dir)?;
    println!("the database is in {}", dir.display());
    Ok(())
}

const WRITES: u32 = 200;

pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let clock = MonotonicClock::new();
    for durability in [Durability::None, Durability::Buffer, Durability::Sync] {
        // The option sets what `put`, `delete` and `write` promise.
        let db = Options::new().durability(durability).open(dir)?;
        let (before, start_us) = (db.stats().counts.log_syncs, clock.now_us());
        for number in 0..WRITES {
            db.put(format!("{durability:?}/{number:04}"), "value")?;
        }
        let (syncs, us) = (db.stats().counts.log_syncs - before, clock.now_us() - start_us);
        let each = us as f64 / f64::from(WRITES);
        println!("{WRITES} puts with {durability:?} wait for {syncs} syncs: {each:.1} µs a put");
        assert_eq!(syncs, if durability == Durability::Sync { u64::from(WRITES) } else { 0 });
    }

    // Mostly quick, now and then safe: one sync covers all earlier writes at once.
    let db = Options::new().durability(Durability::None).open(dir)?;
    for number in 0..WRITES {
        db.put(format!("quick/{number:04}"), "value")?;
    }
    db.persist(Durability::Sync)?;

    // A single batch can promise more than the other writes. It covers all earlier writes.
    db.put("quick/last", "covered by the next line")?;
    let mut order = WriteBatch::new();
    order.put("order/1", "three plums").put("order/count", "1");
    db.write_with(order, Durability::Sync)?;
    let syncs = db.stats().counts.log_syncs;
    assert!(syncs >= 2, "a write in Sync waits for the disk");
    drop(db);

    // Opening reports what it found: how much was replayed, and whether an end was cut off.
    let db = Db::open(dir)?;
    let report = db.recovery();
    println!("{} logs, {} batches replayed, cut: {:?}", report.logs, report.frames, report.cut);
    assert!(report.cut.is_none());
    assert_eq!(db.prefix("quick/").count(), WRITES as usize + 1);
    Ok(())
}
