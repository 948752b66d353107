//! Deferral below L0 with every bound of the other options. No write waits for ever, and no answer is lost over reopenings that
//! change the options.

use braidb::tuning::{Guards, OverlapScope};
use braidb::{Db, Durability, Options};
use braidb_sim::env_over;
use braidb_sim::rng::Rng;
use braidb_storage::sim::{Crash, SimFs};
use std::collections::BTreeMap;
use std::sync::Arc;

const DIR: &str = "/db";

fn entries(db: &Db) -> usize {
    db.iter().collect::<Result<Vec<_>, _>>().unwrap().len()
}

fn life(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut fs = Arc::new(SimFs::new());
    let mut model: BTreeMap<u64, (u8, usize)> = BTreeMap::new();
    let memtable = [64 << 10, 128 << 10][rng.below(2) as usize];
    let rows = [300, 2_000, 20_000, u64::MAX >> 1][rng.below(4) as usize];
    let mut gathers = 0;
    for turn in 0..6_u64 {
        let (merge, slow, stop) =
            [(1, 1, 2), (1, 2, 3), (2, 2, 3), (3, 3, 4), (4, 8, 12), (1, 8, 12), (4, 30, 40)]
                [rng.below(7) as usize];
        let percent = [0, 1, 40, 90][rng.below(4) as usize];
        let tables = [1, 2, 6, 1_000][rng.below(4) as usize];
        let defers = rng.below(3) > 0;
        let hot = [0, 1, 50][rng.below(3) as usize];
        let log = [0, 50][rng.below(2) as usize];
        let (runs, guards) = [
            (1, Guards::None),
            (1, Guards::None),
            (1, Guards::None),
            (1, Guards::Balanced),
            (4, Guards::None),
        ][rng.below(5) as usize];
        let scope = [OverlapScope::L0, OverlapScope::L0AndL1][rng.below(2) as usize];
        let what = format!(
            "seed {seed} turn {turn}: memtable {memtable} rows {rows} L0 {merge}/{slow}/{stop} {percent}% {tables} defers {defers} \
             hot {hot} log {log} runs {runs} {guards:?} {scope:?}"
        );
        println!("{what}");
        let options = Options::new()
            .memtable_bytes(memtable)
            .tuning(|tuning| {
                tuning
                    .table_bytes([64 << 10, 256 << 10, 4 << 20][rng.below(3) as usize])
                    .l0_merge_tables(merge)
                    .l0_slowdown_tables(slow)
                    .l0_stop_tables(stop)
                    .l0_overlap_percent(percent)
                    .l0_overlap_tables(tables)
                    .overlap_scope(scope)
                    .defer_below_l0(defers)
                    .hot_keys_percent(hot)
                    .log_table_percent(log)
                    .max_runs_per_guard(runs)
            })
            .background_threads(1 + rng.below(3) as usize)
            .tuning(|tuning| tuning.guards(guards));
        let db = options.env(env_over(fs.clone(), seed + turn).0).open(DIR).unwrap();
        assert_eq!(entries(&db), model.len(), "after reopening: {what}");
        let (mut snapshot, flush_every) = (None, [0, 50, 700][rng.below(3) as usize]);
        let is_sequential = rng.below(4) == 0;
        for number in 0..6_000_u64 {
            let row = if is_sequential { number } else { rng.below(rows) };
            let len = rng.below(200) as usize;
            match rng.below(20) {
                0 => {
                    model.remove(&row);
                    db.delete(row.to_be_bytes()).unwrap();
                }
                1 if number % 7 == 0 => {
                    snapshot = if snapshot.is_some() { None } else { Some(db.snapshot()) }
                }
                _ => {
                    model.insert(row, (number as u8, len));
                    db.put(row.to_be_bytes(), vec![number as u8; len]).unwrap();
                }
            }
            if flush_every > 0 && number % flush_every == 0 {
                db.flush().unwrap();
            }
        }
        drop(snapshot);
        gathers += db.stats().counts.l0_gather_merges;
        if rng.below(2) == 0 {
            // Synced writes survive a power failure during any merge.
            db.persist(Durability::Sync).unwrap();
            let image = fs.crash_image(Crash::PowerTorn, seed);
            drop(db);
            fs = Arc::new(image);
            continue;
        }
        db.flush().unwrap();
        db.settle().unwrap();
        let stats = db.stats();
        let l0 = stats.families[0].levels[0].tables as usize;
        assert!(l0 <= slow.max(merge), "{l0} tables in L0 after settling: {what}");
        for (row, (byte, len)) in &model {
            assert_eq!(
                db.get(row.to_be_bytes()).unwrap().as_deref(),
                Some(&vec![*byte; *len][..]),
                "{row}: {what}"
            );
        }
        assert_eq!(entries(&db), model.len(), "{what}");
        if turn % 2 == 1 {
            db.compact().unwrap();
            assert_eq!(db.verify().unwrap().damages, []);
        }
        db.close().unwrap();
    }
    println!("gathers {gathers}");
}

#[test]
fn lives_with_the_switch_turned_over_lose_nothing_and_never_wait_for_ever() {
    (1..=12).for_each(life);
}
