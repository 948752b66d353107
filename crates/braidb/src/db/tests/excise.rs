//! Excises: which entries go, what snapshots and transactions see, and what waits.

use super::Db;
use super::executor::{Bench, is, options};
use crate::base::error::Error;
use crate::base::ids::FamilyId;
use braidb_storage::Lane;
use braidb_storage::sim::{Crash, Fault, Lasting, OpKind};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u32 = 2_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A database with all keys in several runs and levels, some of them in memory.
fn filled() -> Bench {
    let bench = Bench::new(options());
    for round in 0..4u8 {
        for number in (0..KEYS).filter(|number| round == 0 || number % 3 == u32::from(round) - 1) {
            bench.db.put(key(number), [round; 60]).unwrap();
        }
    }
    bench
}

/// The database as the next open finds it if this process is killed now.
fn killed(bench: &Bench) -> Bench {
    Bench::on(bench.fs.crash_image(Crash::Process, 1), options())
}

fn keys(bench: &Bench) -> Vec<u32> {
    let number = |key: Vec<u8>| u32::from_be_bytes(key.try_into().unwrap());
    bench.db.iter().map(|row| number(row.unwrap().0)).collect()
}

#[test]
fn an_excise_takes_its_ranges_and_no_key_beside_them() {
    let bench = filled();
    let ranges = [
        (Bound::Included(key(10)), Bound::Excluded(key(20))),
        (Bound::Excluded(key(1_500)), Bound::Unbounded),
        (Bound::Included(key(400)), Bound::Included(key(900))),
        (Bound::Included(key(15)), Bound::Included(key(30))),
        (Bound::Included(key(300)), Bound::Included(key(200))),
    ];
    bench.db.excise(ranges).unwrap();
    let is_left = |number: &u32| !matches!(number, 10..=30 | 400..=900 | 1_501..);
    assert_eq!(keys(&bench), (0..KEYS).filter(is_left).collect::<Vec<_>>());
    bench.db.put(key(500), "again").unwrap();
    assert_eq!(bench.db.get(key(500)).unwrap().unwrap(), b"again");
    assert!(bench.db.verify().unwrap().damages.is_empty());
}

/// Merges have not mixed the runs of L0, and each of them falls into two.
#[test]
fn tables_of_l0_are_cut_in_the_middle() {
    let bench = Bench::new(options().background_merges(false));
    for round in 0..3u8 {
        (0..100u32).for_each(|number| bench.db.put(key(number), [round]).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.excise([key(40)..key(60)]).unwrap();
    bench.db.put(key(0), "newest").unwrap();
    bench.db.flush().unwrap();
    assert_eq!(bench.db.get(key(0)).unwrap().unwrap(), b"newest");
    assert!(
        (1..100).filter(|number| !(40..60).contains(number)).all(|number| bench
            .db
            .get(key(number))
            .unwrap()
            .unwrap()
            == [2])
    );
    bench.db.compact().unwrap();
    assert_eq!(keys(&bench).len(), 80);
    assert_eq!(bench.db.get(key(99)).unwrap().unwrap(), [2]);
}

/// How often `work` reads tables, and how often of these while a thread holds the catalog.
fn table_reads(bench: &Bench, work: impl FnOnce(&Db)) -> (u64, u64) {
    let jobs = bench.db.engine().unwrap().jobs.clone();
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let noted = counts.clone();
    bench.fs.fail_nth_where(1, Fault::Io, Lasting::Once, 1, move |op| {
        if is(OpKind::Read, "table")(op) {
            noted[0].fetch_add(1, Ordering::Relaxed);
            noted[1].fetch_add(u64::from(jobs.is_catalog_held()), Ordering::Relaxed);
        }
        false
    });
    work(&bench.db);
    bench.fs.heal();
    (counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed))
}

/// An excise, a split, and a move that cuts a table at a guard know their cuts before they lock the catalog.
#[test]
fn cuts_read_no_table_under_the_catalog() {
    // Without a cache a cut that is made twice reads twice.
    let options = || options().block_cache_bytes(0);
    let bench = Bench::new(options().background_merges(false));
    (0..100u32).for_each(|number| bench.db.put(key(number), "v").unwrap());
    bench.db.flush().unwrap();
    let excise = table_reads(&bench, |db| db.excise([key(40)..key(60), key(70)..key(71)]).unwrap());
    assert!(excise.0 > 0 && excise.1 == 0, "{excise:?}");
    assert_eq!(keys(&bench).len(), 79);

    let bench = Bench::new(options().tuning(|tuning| tuning.table_bytes(4 << 10)));
    let flush = |keys: &[u8]| {
        keys.iter().for_each(|&key| bench.db.put([key], [1; 100]).unwrap());
        bench.db.flush().unwrap();
        bench.db.settle().unwrap();
    };
    // The first table goes down and is halved. The second one is cut on its way down.
    flush(&Vec::from_iter(0..60));
    let moves = table_reads(&bench, |_| (0..6).for_each(|_| flush(&[0, 59])));
    let counts = bench.db.stats().counts;
    assert!(counts.cells_split > 0 && counts.trivial_moves > 1, "{counts:?}");
    assert!(moves.0 > 0 && moves.1 == 0, "{moves:?}");
}

/// Each table of L0 falls into many slices, which are one run still: writers are not stopped.
#[test]
fn many_ranges_make_no_more_runs() {
    let bench = Bench::new(options().background_merges(false));
    for round in 0..3u8 {
        (0..KEYS).for_each(|number| bench.db.put(key(number), [round]).unwrap());
        bench.db.flush().unwrap();
    }
    let runs = || bench.db.tree()[0].levels[0].cells[0].runs.len();
    let before = runs();
    bench.db.excise((0..KEYS / 4).map(|number| key(4 * number)..key(4 * number + 1))).unwrap();
    assert_eq!(runs(), before);
    assert_eq!(keys(&bench).len(), KEYS as usize * 3 / 4);
    assert_eq!(keys(&killed(&bench)).len(), KEYS as usize * 3 / 4);
    bench.db.compact().unwrap();
    assert_eq!((runs(), keys(&bench).len()), (0, KEYS as usize * 3 / 4));
}

#[test]
fn older_snapshots_fail_by_name_in_the_ranges_alone() {
    let bench = filled();
    let db = &bench.db;
    let (before, open) = (db.snapshot(), db.iter());
    db.excise([key(100)..key(200)]).unwrap();
    let after = db.snapshot();
    assert!(matches!(before.get(key(150)), Err(Error::Excised)));
    assert!(matches!(before.clone().contains_key(key(100)), Err(Error::Excised)));
    assert!(matches!(before.get_many(&[key(5), key(199)]), Err(Error::Excised)));
    assert!(matches!(before.iter().next(), Some(Err(Error::Excised))));
    assert!(before.get(key(200)).unwrap().is_some() && before.get(key(99)).unwrap().is_some());
    assert_eq!(before.range(key(200)..).count(), KEYS as usize - 200);
    assert!(after.get(key(150)).unwrap().is_none() && after.iter().count() == KEYS as usize - 100);
    assert_eq!(open.count(), KEYS as usize, "an open iterator keeps its view");
    drop(before);
    db.put(key(150), "new").unwrap();
    db.excise([key(0)..key(1)]).unwrap();
    assert!(matches!(after.get(key(0)), Err(Error::Excised)) && after.get(key(150)).unwrap().is_none());
}

#[test]
fn transactions_that_read_in_the_ranges_conflict_and_others_commit() {
    let bench = filled();
    let db = &bench.db;
    let begin = |number| {
        let transaction = db.transaction().unwrap();
        transaction.get(key(number)).unwrap();
        transaction.put("done", "yes").unwrap();
        transaction
    };
    let (reader, other, blind) = (begin(150), begin(500), db.transaction().unwrap());
    blind.put(key(160), "blind").unwrap();
    let late = begin(500);
    db.excise([key(100)..key(200)]).unwrap();
    assert!(matches!(reader.commit(), Err(Error::Conflict)));
    assert!(matches!(late.get(key(150)), Err(Error::Conflict)));
    assert!(matches!(late.range(key(0)..).next(), Some(Err(Error::Conflict))));
    assert!(matches!(late.commit(), Err(Error::Conflict)));
    other.commit().unwrap();
    blind.commit().unwrap();
    assert_eq!(db.get(key(160)).unwrap().unwrap(), b"blind");
    begin(150).commit().unwrap();
}

#[test]
fn transact_begins_again_after_it_met_excised_keys() {
    let bench = filled();
    let db = &bench.db;
    let mut runs = 0;
    let was_there = db
        .transact(|transaction| {
            runs += 1;
            if runs == 1 {
                db.excise([key(100)..key(200)])?;
            }
            let is_there = transaction.contains_key(key(150))?;
            transaction.put("done", "yes")?;
            Ok::<_, Error>(is_there)
        })
        .unwrap();
    assert!(!was_there && runs == 2, "{runs} runs");
}

#[test]
fn an_excise_with_empty_memory_leaves_nothing_for_a_recovery() {
    let bench = filled();
    bench.db.flush().unwrap();
    bench.db.excise([..]).unwrap();
    assert_eq!(bench.db.stats().families[0].levels.iter().map(|level| level.tables).sum::<u64>(), 0);
    assert!(keys(&killed(&bench)).is_empty());
}

/// A fault at each operation in turn: the ranges are whole, or empty.
#[test]
fn a_failed_excise_takes_nothing_or_all() {
    let (mut failed, mut done) = (0, 0);
    for nth in 1..40 {
        let bench = filled();
        bench.fs.fail_nth(nth, Fault::Io, Lasting::Once, 1);
        let excised = bench.db.excise([key(100)..key(1_900)]);
        bench.fs.heal();
        let is_undecided = bench.db.stats().poisoned.is_some();
        match (excised, keys(&bench).len()) {
            (Ok(()), 200) => done += 1,
            (Err(_), count) if count == KEYS as usize => failed += 1,
            (excised, count) => panic!("operation {nth}: {excised:?}, and {count} keys are left"),
        }
        let after = keys(&killed(&bench)).len();
        assert!(after == keys(&bench).len() || is_undecided && after == 200, "operation {nth}: {after} keys");
    }
    assert!(failed > 3 && done > 0, "{failed} failed, {done} done");
}

/// Runs `work` on the thread of the next excise, behind its first switch of the memtable.
fn behind_the_first_switch(db: Db, work: impl FnOnce(&Db) + Send + 'static) {
    let engine = db.engine().unwrap();
    let (queue, runtime) = (engine.queue.clone(), engine.jobs.parts.env.runtime.clone());
    let job = move || match queue.has_pending_excise() {
        true => work(&db),
        false => behind_the_first_switch(db, work),
    };
    runtime.submit(Lane::Flush, Box::new(job));
}

/// A writer switches the memtable between the two switches of an excise. The excise takes what the writer's flush has, and nothing newer,
/// although the newer put comes to a table before the edit. Transactions that read in the range are refused meanwhile.
#[test]
fn an_excise_ends_at_a_foreign_switch_between_its_own() {
    let bench = filled();
    bench.db.flush().unwrap();
    bench.db.settle().unwrap();
    let begin = |read, written| {
        let transaction = bench.db.transaction().unwrap();
        transaction.get(key(read)).unwrap();
        transaction.put(key(written), "of a transaction").unwrap();
        transaction
    };
    let (inside, beside) = (begin(150, KEYS), begin(250, KEYS + 1));
    let has_flushed = Arc::new(AtomicBool::new(false));
    let noted = has_flushed.clone();
    behind_the_first_switch(bench.db.clone(), move |db| {
        let engine = db.engine().unwrap();
        let (queue, flusher) = (engine.queue.clone(), db.clone());
        // Submitted in front of the flush that the switch brings: it runs both flushes.
        let flush = move || {
            flusher.flush().unwrap();
            assert!(flusher.engine().unwrap().queue.has_pending_excise(), "both flushes end before the edit");
            noted.store(true, Ordering::Relaxed);
        };
        engine.jobs.parts.env.runtime.submit(Lane::Flush, Box::new(flush));
        db.put(key(150), "in front of the foreign switch").unwrap();
        queue.switch_all_memtables().unwrap();
        db.put(key(160), "behind the foreign switch").unwrap();
        assert!(queue.room().flushing_seq(FamilyId::DEFAULT).is_some(), "the last switch finds a flush");
        assert!(matches!(inside.commit(), Err(Error::Conflict)));
        beside.commit().unwrap();
    });
    bench.db.excise([key(100)..key(200)]).unwrap();
    assert!(has_flushed.load(Ordering::Relaxed));
    let is_left = |number: &u32| !(100..200).contains(number) || *number == 160;
    let wanted: Vec<u32> = (0..KEYS).filter(is_left).chain([KEYS + 1]).collect();
    for bench in [&bench, &killed(&bench)] {
        assert_eq!(keys(bench), wanted);
        assert_eq!(bench.db.get(key(160)).unwrap().unwrap(), b"behind the foreign switch");
    }
}

/// The flush that is under way when an excise begins leaves a hot key in memory. The second switch takes the key.
#[test]
fn an_excise_takes_the_hot_key_of_a_flush_under_way() {
    let bench = Bench::new(options());
    for round in 0..8u8 {
        bench.db.put("hot", [round; 10]).unwrap();
    }
    bench.db.put("large", vec![b'x'; 130 << 10]).unwrap();
    let queue = bench.db.engine().unwrap().queue.clone();
    assert!(queue.room().flushing_seq(FamilyId::DEFAULT).is_some());
    bench.db.excise([..]).unwrap();
    assert_eq!(bench.db.stats().counts.hot_kept, 1);
    assert_eq!((bench.db.iter().count(), killed(&bench).db.iter().count()), (0, 0));
}

#[test]
fn empty_ranges_change_nothing() {
    let bench = filled();
    let before = bench.db.stats().counts.flushes;
    bench.db.excise([key(9)..key(9)]).unwrap();
    bench.db.excise(Vec::<std::ops::Range<[u8; 4]>>::new()).unwrap();
    assert_eq!((bench.db.stats().counts.flushes, keys(&bench).len()), (before, KEYS as usize));
    let family = bench.db.create_column_family("other").unwrap();
    family.put("k", "v").unwrap();
    family.excise([..]).unwrap();
    assert!(family.first().unwrap().is_none() && keys(&bench).len() == KEYS as usize);
}

/// The cells beside a compacted range keep their runs.
#[test]
fn a_compact_of_a_range_leaves_other_cells_alone() {
    let bench = Bench::new(options().background_merges(false));
    for round in 0..6u8 {
        (0..KEYS).for_each(|number| bench.db.put(key(number), [round; 60]).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.compact().unwrap();
    for round in 6..8u8 {
        (0..KEYS).for_each(|number| bench.db.put(key(number), [round; 60]).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.compact_range(key(0)..key(10)).unwrap();
    let tree = bench.db.tree().remove(0);
    let runs_at = |number: u32| {
        let runs = tree.levels.iter().flat_map(|level| &level.cells).flat_map(|cell| &cell.runs);
        let slices = runs.flat_map(|run| &run.slices);
        slices.filter(|slice| slice.low[..] <= key(number)[..] && key(number)[..] <= slice.high[..]).count()
    };
    assert_eq!(runs_at(5), 1);
    assert!(runs_at(KEYS - 5) > 1, "{}", runs_at(KEYS - 5));
}
