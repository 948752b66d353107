//! Reads that search runs in vain cause merges of these runs, until no merge is due any more.

use super::{Db, Options};
use braidb_storage::Env;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::SimFs;
use std::sync::Arc;

const KEYS: u32 = 3_000;

fn key(number: u32) -> [u8; 4] {
    // A product with an odd number takes each value once, so keys come in no order.
    number.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

/// A database whose cells hold several runs: all keys were written, and a part of them once more. Memory has 32 KiB.
fn db_of_runs(merges_for_readers: bool) -> Db {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(SimFs::new()), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    let options = Options::new().memtable_bytes(32 << 10).env(env);
    let db = options.tuning(|tuning| tuning.merges_for_readers(merges_for_readers)).open("/db").unwrap();
    for number in (0..KEYS).chain(0..KEYS / 3) {
        db.put(key(number), [number as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    db
}

/// The runs that hold the keys next to `key`.
fn runs_at(db: &Db, key: &[u8]) -> usize {
    let tree = db.tree().remove(0);
    let runs = tree.levels.iter().flat_map(|level| &level.cells).flat_map(|cell| &cell.runs);
    let slices = runs.flat_map(|run| &run.slices);
    slices.filter(|slice| slice.low.as_slice() <= key && key <= slice.high.as_slice()).count()
}

fn merges(db: &Db) -> u64 {
    db.stats().counts.merges
}

/// A key at which most runs lie over each other.
fn deepest_key(db: &Db) -> [u8; 4] {
    (0..KEYS).map(key).max_by_key(|key| runs_at(db, key)).unwrap()
}

#[test]
fn scans_buy_merges_where_they_begin_and_then_no_more() {
    for holds_snapshot in [false, true] {
        let db = db_of_runs(true);
        let snapshot = holds_snapshot.then(|| db.snapshot());
        let key = deepest_key(&db);
        let scan = |times| {
            (0..times).for_each(|_| drop(db.range(key..).next().unwrap().unwrap()));
            db.settle().unwrap();
        };
        let (runs, before) = (runs_at(&db, &key), merges(&db));
        assert!(runs > 2, "{runs} runs");
        scan(0);
        assert_eq!(merges(&db), before, "no merge is wanted before readers come");
        let mut rounds = 0;
        while runs_at(&db, &key) > 1 {
            scan(20);
            rounds += 1;
            assert!(rounds < 1_000, "{} of {runs} runs", runs_at(&db, &key));
        }
        let bought = merges(&db);
        assert_eq!(bought - before, db.stats().counts.bought_merges, "nothing else was wanted");
        assert!(bought > before);
        (0..100).for_each(|_| scan(20));
        assert_eq!(merges(&db), bought, "one run owes nothing");
        drop(snapshot);
    }
}

#[test]
fn where_readers_may_buy_no_merges_reads_pay_in_vain() {
    let db = db_of_runs(false);
    let key = deepest_key(&db);
    let (runs, before) = (runs_at(&db, &key), merges(&db));
    for _ in 0..1_000 {
        (0..20).for_each(|_| drop(db.range(key..).next().unwrap().unwrap()));
        db.settle().unwrap();
    }
    assert_eq!((runs_at(&db, &key), merges(&db)), (runs, before));
    let counts = db.stats().counts;
    assert!(counts.rent_paid_ns > 0 && counts.rent_spent_ns == 0, "{counts:?}");
}

#[test]
fn gets_buy_merges_and_come_to_rest() {
    let db = db_of_runs(true);
    // These keys were written once, so gets search many newer runs in vain.
    let get_all = || {
        (KEYS / 3..KEYS).map(key).for_each(|key| assert!(db.get(key).unwrap().is_some()));
        db.settle().unwrap();
        db.stats().counts.rent_paid_ns
    };
    let before = merges(&db);
    db.settle().unwrap();
    assert_eq!(merges(&db), before, "no merge is wanted before readers come");
    let mut paid_ns = get_all();
    let is_at_rest = (0..1_000).any(|_| {
        let last_ns = std::mem::replace(&mut paid_ns, get_all());
        paid_ns == last_ns
    });
    let counts = db.stats().counts;
    assert!(is_at_rest && counts.bought_merges > 0, "{counts:?}");
    assert_eq!(counts.merges - before, counts.bought_merges, "nothing else was wanted");
    assert!(counts.rent_spent_ns > 0 && counts.rent_spent_ns <= paid_ns);
}
