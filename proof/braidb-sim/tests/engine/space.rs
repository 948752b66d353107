//! Limits of tables with many slices: a cold slice must not keep a whole table, and not every table may have an open
//! descriptor.

#![allow(clippy::disallowed_methods, reason = "one test asks what the real file system holds open")]

use braidb::tuning::Guards;
use braidb::{Db, Options};
use braidb_sim::sim_env;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn key(number: u64) -> Vec<u8> {
    format!("row/{number:08}").into_bytes()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("{round}/{number:>98}").into_bytes()
}

/// The bytes that slices refer to, by table.
fn tables(db: &Db) -> BTreeMap<u64, u64> {
    let mut tables = BTreeMap::new();
    for level in db.tree().iter().flat_map(|tree| &tree.levels) {
        for slice in level.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.slices) {
            *tables.entry(slice.table).or_default() += slice.bytes;
        }
    }
    tables
}

#[test]
fn a_cold_slice_does_not_pin_a_dead_table() {
    const ROWS: u64 = 20_000;
    /// Rows of a stretch, which are neighbours. The rows of one stretch in four are written once, those of the others in each round.
    const STRETCH: u64 = 250;
    let (env, fs, _) = sim_env(1);
    let options = Options::new()
        .memtable_bytes(32 << 10)
        .tuning(|tuning| tuning.table_bytes(256 << 10).block_bytes(1 << 10));
    let sampled = Guards::Sampled { top_level_bits: 9, bit_decrement: 2 };
    let db = options.tuning(|tuning| tuning.guards(sampled)).env(env).open("/db").unwrap();
    let is_cold = |number: &u64| (number / STRETCH).is_multiple_of(4);
    for round in 0..4 {
        let rows = (0..ROWS).map(|number| number * 7_919 % ROWS);
        for number in rows.filter(|number| round == 0 || !is_cold(number)) {
            db.put(key(number), value(number, round)).unwrap();
        }
    }
    db.flush().unwrap();
    db.settle().unwrap();
    // Space beyond what slices refer to: indexes, filters, and dead data.
    let (mut alive, mut pinned) = (0, 0);
    for (table, bytes) in tables(&db) {
        let path = PathBuf::from(format!("/db/{table:06}.table"));
        let allocated = fs.allocated_bytes(&path).unwrap();
        alive += bytes;
        pinned += allocated.saturating_sub(bytes);
    }
    // Without holes, `pinned` would be half of `alive`. It would be several times as much if nearly dead tables were not
    // rewritten either.
    assert!(pinned < alive / 3, "slices refer to {alive} bytes and keep {pinned} more");
    for number in 0..ROWS {
        let round = if is_cold(&number) { 0 } else { 3 };
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(number, round));
    }
    assert!(db.verify().unwrap().damages.is_empty());
}

/// Files in `dir` that this process has open.
fn open_in(dir: &std::path::Path) -> u64 {
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| std::fs::read_link(entry.unwrap().path()));
    // A descriptor that was closed meanwhile gives an error and does not count.
    links.filter(|link| link.as_ref().is_ok_and(|link| link.starts_with(dir))).count() as u64
}

#[test]
fn open_descriptors_are_bounded() {
    const OPEN_FILES: usize = 16;
    /// Files that may be open besides tables that readers use. Five are the lock, the directory, the manifest, the log, and a log that is
    /// being synced. Three are the outputs of three jobs.
    const BESIDES: u64 = 5 + 3;
    let dir = std::env::temp_dir().join(format!("braidb-descriptors-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let options = Options::new()
        .memtable_bytes(64 << 10)
        .tuning(|tuning| tuning.table_bytes(16 << 10))
        .block_cache_bytes(0);
    let db = options.open_files(OPEN_FILES).open(&dir).unwrap();
    let mut most = 0;
    for number in 0..40_000_u64 {
        let number = number * 7_919 % 40_000;
        db.put(key(number), value(number, 0)).unwrap();
        if number % 500 == 0 {
            assert_eq!(db.range(key(number)..).next().unwrap().unwrap().0, key(number));
            most = most.max(open_in(&dir));
        }
    }
    db.settle().unwrap();
    for number in (0..40_000).step_by(7) {
        assert!(db.contains_key(key(number)).unwrap());
        most = most.max(if number % 50 == 0 { open_in(&dir) } else { 0 });
    }
    assert_eq!(db.iter().rev().map(Result::unwrap).count(), 40_000);
    most = most.max(open_in(&dir));
    let tables = tables(&db).len();
    assert!(tables > 4 * OPEN_FILES, "{tables} tables");
    // `+ 1` because this thread may hold one more file open while it reads.
    assert!(most <= OPEN_FILES as u64 + BESIDES + 1, "{most} files of the database were open at once");
    db.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
