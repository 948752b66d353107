//! Cells that sample how much their runs overlap, in a whole database: over reopenings, with older tables, with damage, and in L0 of a
//! leveled tree.

use braidb::tuning::MemoryPolicy;
use braidb::{Db, Error, Options};
use braidb_sim::env_over;
use braidb_sim::rng::Rng;
use braidb_storage::sim::SimFs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

fn open(fs: &Arc<SimFs>, runs: usize) -> Db {
    open_with(fs, 256, runs, true)
}

fn open_with(fs: &Arc<SimFs>, memtable_kib: usize, runs: usize, has_samples: bool) -> Db {
    let options = Options::new()
        .memtable_bytes(memtable_kib << 10)
        .tuning(|tuning| tuning.table_bytes(1 << 20).hot_keys_percent(0).overlap_samples(has_samples));
    let options = options.tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).max_runs_per_guard(runs));
    options.env(env_over(fs.clone(), 1).0).open(DIR).unwrap()
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Inserts new keys, in random order, and settles.
fn insert(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.put(key(number), [7; 20]).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
}

fn asked(db: &Db) -> (u64, u64) {
    let counts = db.stats().counts;
    (counts.cells_sampled, counts.rewrites_spared)
}

fn tables(fs: &SimFs) -> Vec<PathBuf> {
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "table");
    fs.files().into_iter().filter(|path| is_table(path)).collect()
}

#[test]
fn inserts_are_not_feared_after_a_reopening_either() {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs, 8);
    let mut number = 0;
    // Inserts until a cell has spared a rewrite and still has several runs.
    while asked(&db).1 == 0 || db.stats().families[0].levels.iter().all(|level| level.most_runs <= 1) {
        insert(&db, number..number + 3_000);
        number += 3_000;
        assert!(number < 600_000, "no cell was spared");
    }
    assert_eq!(db.verify().unwrap().damages, [], "`verify` checks samples too");
    db.close().unwrap();
    let db = open(&fs, 8);
    db.settle().unwrap();
    let counts = db.stats().counts;
    assert!(counts.cells_sampled > 0 && counts.rewrites_spared > 0, "{counts:?}");
    assert_eq!(counts.merges, 0, "samples are read from the tables");
    (0..number).step_by(97).for_each(|number| assert!(db.contains_key(key(number)).unwrap()));
}

#[test]
fn tables_without_samples_are_guessed_about() {
    let fs = Arc::new(SimFs::new());
    let db = open_with(&fs, 256, 1, false);
    insert(&db, 0..60_000);
    assert_eq!(asked(&db), (0, 0));
    db.close().unwrap();
    let db = open(&fs, 8);
    // The new tables overlap all older tables.
    insert(&db, 60_000..90_000);
    assert_eq!(asked(&db), (0, 0), "a cell with an old table has no samples");
    (0..90_000).step_by(97).for_each(|number| assert!(db.contains_key(key(number)).unwrap()));
    assert_eq!(db.verify().unwrap().damages, []);
}

/// Keys of a leveled tree that is overwritten evenly, those of 80 memtables. With a fourth of them, space would not let L0 wait.
const OVERWRITTEN: u64 = 240_000;

/// Bytes merged, flushed, and cells of L0 that were asked, where a leveled tree is overwritten evenly.
fn overwritten(has_samples: bool) -> (u64, u64, u64) {
    let fs = Arc::new(SimFs::new());
    let mut db = open_with(&fs, 512, 1, has_samples);
    let mut rng = Rng::new(7);
    let mut last = BTreeMap::new();
    let (mut merged, mut flushed, mut asked) = (0, 0, 0);
    for round in 0..120u8 {
        for _ in 0..3_000 {
            let number = rng.below(OVERWRITTEN) as u32;
            db.put(key(number), [round; 20]).unwrap();
            last.insert(number, round);
        }
        db.flush().unwrap();
        db.settle().unwrap();
        assert!(db.stats().families[0].levels[0].runs < 6, "no more tables wait");
        // The next life of the database reads samples from tables.
        if round % 20 == 19 {
            let counts = db.stats().counts;
            merged += counts.merge_bytes.iter().sum::<u64>();
            flushed += counts.flush_bytes;
            asked += counts.cells_sampled;
            db.close().unwrap();
            db = open_with(&fs, 512, 1, has_samples);
        }
    }
    assert!(last.iter().all(|(&number, &round)| db.get(key(number)).unwrap().unwrap()[0] == round));
    assert_eq!(db.verify().unwrap().damages, []);
    (merged, flushed, asked)
}

/// Prints bytes merged and flushed. In a leveled tree L0 waits until its tables overlap, and meets L1 less often.
#[test]
fn l0_of_a_leveled_tree_waits_for_overlap() {
    let (at_once, waiting) = (overwritten(false), overwritten(true));
    println!("{at_once:?} merged at once, {waiting:?} after waiting");
    assert!(at_once.2 == 0 && waiting.2 > 10);
    assert!(waiting.0 * 100 < at_once.0 * 95, "{waiting:?} {at_once:?}");
}

#[test]
fn a_damaged_sample_is_reported_by_readers_of_the_table() {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs, 8);
    insert(&db, 0..60_000);
    db.close().unwrap();
    for path in tables(&fs) {
        // The footer says where the properties end. The sample is their last field.
        let bytes = fs.read_file(&path).unwrap();
        let at = bytes.len() - 64 + 32;
        let index = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        fs.flip_bit(&path, (index - 20) * 8).unwrap();
    }
    let db = open(&fs, 8);
    // So far the database needs only the samples of the tables, and they are missing now.
    let settled = db.settle();
    assert_eq!(asked(&db), (0, 0));
    let is_damage = |outcome: Result<(), Error>| matches!(outcome, Err(Error::Corruption { .. }));
    assert!(settled.is_ok() || is_damage(settled));
    assert!(is_damage(db.get(key(7)).map(drop)));
    assert_eq!(db.verify().unwrap().damages.len(), tables(&fs).len());
}
