//! Transactions whose reads the ring of recent writes has lost, so that their commits compare versions in memory and tables.

use super::executor::{Bench, options};
use crate::base::error::Error;
use crate::db::{Db, Transaction};

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
