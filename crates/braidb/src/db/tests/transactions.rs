//! Transactions whose reads the ring of recent writes has lost, so that their commits compare versions in memory and tables. Commits on a full
//! device, which are tried again.

use super::executor::{Bench, is, options};
use crate::base::error::Error;
use crate::base::ids::FamilyId;
use crate::base::key::Span;
use crate::db::{Db, Transaction};
use crate::write::queue::pending_excises::Turn;
use braidb_storage::sim::OpKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A database whose ring remembers 8 writes.
fn bench() -> Bench {
    Bench::new(options().tuning(|tuning| tuning.gap_puts(8)))
}

/// Writes more than the ring remembers, to keys that no test reads.
fn overrun(db: &Db) {
    (0..20_u32).for_each(|number| db.put(format!("z{number}"), "").unwrap());
}

fn conflicts(transaction: Transaction) -> bool {
    match transaction.commit() {
        Ok(()) => false,
        Err(Error::Conflict) => true,
        Err(error) => panic!("{error}"),
    }
}

/// A flush copies hot keys to a newer log. If a copy had a new number, transactions that read its key would conflict for ever.
#[test]
fn a_copy_of_a_hot_key_is_no_change() {
    let bench = bench();
    let db = &bench.db;
    for number in 0..400_u32 {
        db.put(format!("hot{}", number % 4), number.to_be_bytes()).unwrap();
        db.put(format!("cold{number}"), "").unwrap();
    }
    let transaction = db.transaction().unwrap();
    assert!(transaction.get("hot1").unwrap().is_some());
    assert_eq!(transaction.prefix("hot").count(), 4);
    transaction.put("result", "").unwrap();
    let in_memory = || db.stats().memory_bytes;
    while in_memory() < 200 << 10 && db.stats().counts.flushes == 0 {
        db.put("hot0", [0; 1000]).unwrap();
        db.put("hot1", [1; 10]).unwrap();
        db.put("hot1", [2; 10]).unwrap();
    }
    assert!(conflicts(transaction), "hot1 was put");
    let transaction = db.transaction().unwrap();
    assert_eq!(transaction.prefix("hot").count(), 4);
    transaction.put("result", "").unwrap();
    let flushes = db.stats().counts.flushes;
    for number in 0..3_000_u32 {
        db.put(format!("cold{number}"), [0; 30]).unwrap();
    }
    db.settle().unwrap();
    assert!(db.stats().counts.flushes > flushes, "memory was flushed");
    assert!(in_memory() > 0, "hot keys stay in memory");
    overrun(db);
    assert!(!conflicts(transaction));
}

#[test]
fn changes_are_found_in_memory_and_in_tables() {
    for flushes in [false, true] {
        for (change, is_conflict) in
            [("put", true), ("delete", true), ("came and went", false), ("none", false)]
        {
            let bench = bench();
            let db = &bench.db;
            db.put("a", "1").unwrap();
            db.put("c", "3").unwrap();
            let of_key = db.transaction().unwrap();
            assert!(of_key.get("a").unwrap().is_some() && of_key.get("b").unwrap().is_none());
            let of_range = db.transaction().unwrap();
            assert_eq!(of_range.range("a".."d").count(), 2);
            let of_first = db.transaction().unwrap();
            assert_eq!(of_first.range("c"..).next().unwrap().unwrap().0, b"c");
            for transaction in [&of_key, &of_range, &of_first] {
                transaction.put("result", "").unwrap();
            }
            match change {
                "put" => db.put("a", "1").unwrap(),
                "delete" => db.delete("a").unwrap(),
                "came and went" => {
                    db.put("b", "2").unwrap();
                    db.delete("b").unwrap();
                }
                _ => {}
            }
            overrun(db);
            if flushes {
                db.flush().unwrap();
                db.compact().unwrap();
            }
            assert_eq!(conflicts(of_key), is_conflict, "a key, {change}");
            overrun(db);
            assert_eq!(conflicts(of_range), is_conflict, "a range, {change}");
            assert!(!conflicts(of_first), "a range that begins behind, {change}");
        }
    }
}

/// A scan leaves a gap over deleted keys. A deletion in the gap after the snapshot must still conflict.
#[test]
fn a_gap_hides_no_change() {
    let bench = Bench::new(options().tuning(|tuning| tuning.gap_puts(8).gap_entries(Some(1))));
    let db = &bench.db;
    (0..50_u32).for_each(|number| db.put(format!("k{number:02}"), "").unwrap());
    let transaction = db.transaction().unwrap();
    assert_eq!(transaction.prefix("k").count(), 50);
    transaction.put("result", "").unwrap();
    (0..50_u32).for_each(|number| db.delete(format!("k{number:02}")).unwrap());
    assert_eq!(db.prefix("k").count(), 0);
    overrun(db);
    assert!(db.stats().counts.gaps_accepted > 0, "the scan left a gap");
    assert!(conflicts(transaction));
}

#[test]
fn work_that_writes_plainly_what_it_reads_ends_in_a_conflict() {
    let bench = bench();
    let mut runs = 0;
    let outcome = bench.db.transact(|transaction| {
        runs += 1;
        transaction.get("k")?;
        bench.db.put("k", "plain")?;
        transaction.put("k", "mine")
    });
    assert!(matches!(outcome, Err(Error::Conflict)));
    assert_eq!(runs, 100);
    assert_eq!(bench.db.get("k").unwrap().unwrap(), b"plain");
}

/// An excise makes transactions conflict while it flushes, which may take longer than 100 attempts.
#[test]
fn conflicts_beside_an_excise_do_not_count() {
    let bench = bench();
    let queue = &bench.db.engine().unwrap().queue;
    let excise = queue.switch_for_excise(FamilyId::DEFAULT, Turn::First(&[Span::ALL])).unwrap();
    let mut attempts = bench.db.attempts(None);
    for _ in 0..1_000 {
        let transaction = attempts.begin().unwrap();
        transaction.get("k").unwrap();
        transaction.put("k", "").unwrap();
        assert!(matches!(attempts.commit(transaction), Err(Error::Conflict)));
        assert!(attempts.go_on().unwrap());
    }
    queue.end_excise(excise.id.unwrap());
    assert_eq!((1..).find(|_| !attempts.go_on().unwrap()), Some(100));
    bench.db.transact(|transaction| transaction.put("k", "")).unwrap();
}

#[test]
fn work_may_call_transact_and_fail() {
    let bench = bench();
    let failed: Result<(), Error> = bench.db.transact(|transaction| {
        transaction.put("outer", "")?;
        bench.db.transact(|inner| inner.put("inner", ""))?;
        Err(Error::Ended)
    });
    assert!(matches!(failed, Err(Error::Ended)));
    assert!(bench.db.contains_key("inner").unwrap() && !bench.db.contains_key("outer").unwrap());
}

#[test]
fn a_transaction_that_only_reads_never_conflicts_and_nothing_lasts_of_one_that_is_dropped() {
    let bench = bench();
    let db = &bench.db;
    let reader = db.transaction().unwrap();
    assert!(reader.get("k").unwrap().is_none());
    let dropped = db.transaction().unwrap();
    dropped.put("k", "never").unwrap();
    drop(dropped);
    db.put("k", "plain").unwrap();
    assert!(reader.get("k").unwrap().is_none());
    assert!(!conflicts(reader));
    assert_eq!(db.engine().unwrap().snapshots().held(), 0);
}

/// A commit that meets a full device flushes, and is tried again. Other writers come in between: their writes count at the second check.
#[test]
fn a_commit_is_checked_again_after_a_full_device() {
    // The ring remembers 8 writes, so 20 of them overrun it.
    for (key, writes, is_conflict) in
        [("k", 0, false), ("k", 1, true), ("k", 20, true), ("other", 1, false), ("other", 20, false)]
    {
        let bench = Bench::new(options().memtable_bytes(8 << 20).tuning(|tuning| tuning.gap_puts(8)));
        let (db, fs) = (&bench.db, &bench.fs);
        db.put("k", "old").unwrap();
        (0..700_u32).for_each(|number| db.put(format!("z{number}"), [7; 1_000]).unwrap());
        let transaction = db.transaction().unwrap();
        assert_eq!(transaction.get("k").unwrap().unwrap(), b"old");
        transaction.put("result", vec![7; 2 << 20]).unwrap();
        fs.set_capacity(Some(fs.taken_bytes() + (64 << 10)));
        let (tables, writer) = (Arc::new(AtomicU32::new(0)), db.clone());
        let seen = tables.clone();
        fs.set_hook(Some(Box::new(move |fs, op| {
            if is(OpKind::Create, "table")(op) && seen.fetch_add(1, Ordering::Relaxed) == 0 {
                fs.set_capacity(None);
                (0..writes).for_each(|_| writer.put(key, "new").unwrap());
            }
        })));
        let conflicts = conflicts(transaction);
        fs.set_hook(None);
        assert!(tables.load(Ordering::Relaxed) > 0, "the first try met a full device, and flushed");
        assert_eq!(conflicts, is_conflict, "{writes} writes of {key:?} in between");
        assert_eq!(db.contains_key("result").unwrap(), !is_conflict);
    }
}
