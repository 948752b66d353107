//! Merges of L0 that wait for overlap, in a whole database: over reopenings, with other options, with damage.

use braidb::tuning::{Guards, MemoryPolicy};
use braidb::{Db, Error, Options};
use braidb_sim::env_over;
use braidb_sim::rng::Rng;
use braidb_storage::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: u32 = 1_000;

/// A leveled tree that merges L0 at 3 tables, or waits up to 5. Deferral below L0 is off, because with it tables have sketches
/// even without overlap.
fn open(fs: &Arc<SimFs>, percent: u32) -> Db {
    let leveled =
        Options::new().tuning(|tuning| tuning.max_runs_per_guard(1).guards(Guards::None).l0_merge_tables(3));
    leveled
        .tuning(|tuning| tuning.l0_overlap_percent(percent).defer_below_l0(false))
        .env(env_over(fs.clone(), 1).0)
        .open(DIR)
        .unwrap()
}

/// Writes table number `table` of L0: over the key range of all others, and without any of their keys.
fn write(db: &Db, table: u32) {
    for number in 0..KEYS {
        db.put((number * 100 + table).to_be_bytes(), [7; 20]).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
}

fn l0(db: &Db) -> u64 {
    db.stats().families[0].levels[0].tables
}

#[test]
fn what_l0_waits_for_is_known_after_a_reopening() {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs, 40);
    (0..4).for_each(|table| write(&db, table));
    let stats = db.stats();
    let overlap = stats.families[0].l0_overlap.clone().unwrap();
    assert!(overlap.percent < 5 && overlap.decision == "deferred", "{overlap:?}");
    assert_eq!((l0(&db), stats.counts.l0_deferrals, stats.counts.merges), (4, 2, 0));
    db.close().unwrap();
    let db = open(&fs, 40);
    db.settle().unwrap();
    assert_eq!(l0(&db), 4);
    write(&db, 4);
    let stats = db.stats();
    assert_eq!((l0(&db), stats.counts.l0_deferrals, stats.counts.merges), (5, 1, 0));
    // `verify` checks sketches too.
    assert_eq!(db.verify().unwrap().damages, []);
    write(&db, 5);
    assert_eq!((l0(&db), db.stats().counts.l0_deferrals), (6, 2));
    write(&db, 6);
    let stats = db.stats();
    assert_eq!((l0(&db), stats.counts.l0_count_merges, stats.counts.merges), (0, 1, 1));
    assert_eq!(stats.families[0].l0_overlap.as_ref().unwrap().decision, "count");
    // Of three tables two have equal keys, then three of four.
    (0..2).for_each(|_| write(&db, 0));
    write(&db, 1);
    let stats = db.stats();
    let overlap = stats.families[0].l0_overlap.clone().unwrap();
    assert!((30..37).contains(&overlap.percent) && overlap.decision == "deferred", "{overlap:?}");
    write(&db, 0);
    let stats = db.stats();
    let overlap = stats.families[0].l0_overlap.clone().unwrap();
    assert!((47..53).contains(&overlap.percent) && overlap.decision == "overlap", "{overlap:?}");
    assert_eq!((l0(&db), stats.counts.l0_overlap_merges), (0, 1));
    // With the option off no merge waits, even for tables that were written with it on.
    (10..13).for_each(|table| write(&db, table));
    assert_eq!(l0(&db), 3);
    db.close().unwrap();
    let db = open(&fs, 0);
    db.settle().unwrap();
    assert_eq!((l0(&db), db.stats().counts.l0_count_merges), (0, 1));
}

#[test]
fn tables_without_a_sketch_do_not_wait() {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs, 0);
    (0..2).for_each(|table| write(&db, table));
    db.close().unwrap();
    let db = open(&fs, 40);
    write(&db, 2);
    assert_eq!((l0(&db), db.stats().counts.l0_deferrals), (0, 0));
    (3..6).for_each(|table| write(&db, table));
    assert_eq!((l0(&db), db.stats().counts.l0_deferrals), (3, 1));
}

#[test]
fn a_recovered_table_has_a_sketch() {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs, 40);
    (0..2).for_each(|table| write(&db, table));
    db.close().unwrap();
    // 10 logs are too many to stay in memory.
    for life in 0..10 {
        let db = open(&fs, 40);
        for number in (0..KEYS).filter(|number| number % 10 == life) {
            db.put((number * 100 + 2).to_be_bytes(), [7; 20]).unwrap();
        }
        db.close().unwrap();
    }
    let db = open(&fs, 40);
    db.settle().unwrap();
    assert_eq!(l0(&db), 3, "the table of the recovery waits with the others");
}

#[test]
fn a_damaged_sketch_is_reported_by_readers_of_the_table_and_defers_no_merge() {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs, 40);
    (0..4).for_each(|table| write(&db, table));
    assert_eq!(l0(&db), 4);
    db.close().unwrap();
    let path = fs.files().into_iter().find(|path| is_table(path)).unwrap();
    let bytes = fs.read_file(&path).unwrap();
    // The footer says where the properties lie. The sketch is their last field.
    let place = |at: usize| {
        let at = bytes.len() - 64 + at;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let (properties, index) = (place(24), place(32));
    assert!(index - properties > 1_000, "there is a sketch");
    fs.flip_bit(&path, (index - 100) * 8).unwrap();
    let db = open(&fs, 40);
    let damaged = |outcome: Result<(), Error>| matches!(outcome, Err(Error::Corruption { .. }));
    assert!(damaged(db.settle()), "the merge that does not wait meets the damage");
    assert!(damaged(db.get(0u32.to_be_bytes()).map(drop)));
    assert_eq!(db.verify().unwrap().damages.len(), 1);
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "table")
}

/// The costs of a load.
#[derive(Debug)]
struct Cost {
    /// Bytes flushed and merged per byte flushed.
    written: f64,
    /// Tables read per get.
    tables_read: f64,
    /// Tables whose filters are asked or that are read, per get.
    tables_asked: f64,
}

impl Cost {
    fn of(options: Options, percent: u32, defers_below_l0: bool, load: &str) -> Cost {
        const ROWS: u64 = 40_000;
        let fs = Arc::new(SimFs::new());
        let options =
            options.tuning(|tuning| tuning.l0_overlap_percent(percent).defer_below_l0(defers_below_l0));
        let options = options.memtable_bytes(256 << 10).tuning(|tuning| tuning.table_bytes(256 << 10));
        let options = options.tuning(|tuning| {
            tuning.memory_policy(MemoryPolicy::None).active_percent(100).hot_keys_percent(0)
        });
        let db = options.env(env_over(fs.clone(), 1).0).open(DIR).unwrap();
        let mut rng = Rng::new(7);
        let draw = |rng: &mut Rng| match load {
            // A tenth of the rows gets nine of ten writes.
            "skewed" if rng.below(10) < 9 => rng.below(ROWS / 10) * 10,
            _ => rng.below(ROWS),
        };
        let key = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let (mut gets, mut written) = (0, 0);
        for number in 0..4 * ROWS {
            let row = if load == "inserts" { number } else { draw(&mut rng) };
            db.put(key(row), [number as u8; 128]).unwrap();
            written = written.max(row);
            if number % 8 == 0 {
                let row = if load == "inserts" { rng.below(written + 1) } else { draw(&mut rng) };
                db.get(key(row)).unwrap();
                gets += 1;
            }
        }
        db.flush().unwrap();
        db.settle().unwrap();
        let stats = db.stats();
        let a_get = |tables: u64| tables as f64 / gets as f64;
        Cost {
            written: stats.merge_amplification(),
            tables_read: a_get(stats.counts.table_reads),
            tables_asked: a_get(stats.counts.table_reads + stats.counts.filter_rejections),
        }
    }
}

#[test]
fn waiting_writes_less_and_reads_hardly_more() {
    let leveled = Options::new().tuning(|tuning| tuning.max_runs_per_guard(1).guards(Guards::None));
    let trees = [
        ("leveled", leveled, 0.98),
        ("guards, 1 run", Options::new().tuning(|tuning| tuning.max_runs_per_guard(1)), 0.99),
        // L0 goes down by trivial moves, and no merge waits.
        ("guards, 4 runs", Options::new(), 1.0),
    ];
    for (name, options, most) in trees {
        for load in ["inserts", "uniform", "skewed"] {
            // Measures neither and both policies, and in a leveled tree each policy alone.
            let null = Cost::of(options.clone(), 0, false, load);
            let waits = Cost::of(options.clone(), 40, true, load);
            println!("figure: {name}, {load}: {null:.2?}, waiting {waits:.2?}");
            if name == "leveled" {
                let [overlap, below] = [(40, false), (0, true)]
                    .map(|(percent, defers)| Cost::of(options.clone(), percent, defers, load));
                println!("figure: {name}, {load}: overlap alone {overlap:.2?}, below L0 alone {below:.2?}");
                assert!(overlap.written < 0.95 * null.written && waits.written < below.written, "{load}");
            }
            assert!(waits.written <= most * null.written, "{name}, {load}");
            assert!(waits.tables_read <= 1.02 * null.tables_read, "{name}, {load}");
            assert!(waits.tables_asked <= 1.35 * null.tables_asked, "{name}, {load}");
        }
    }
}
