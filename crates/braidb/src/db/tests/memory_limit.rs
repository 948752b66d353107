//! The option `memory_limit`: how its memory is divided, and that blocks make room for tables.

use crate::base::error::Error;
use crate::db::Options;
use braidb_storage::Env;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::SimFs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The least limit with the default number of threads.
const LEAST: usize = 32 << 20;

fn env(fs: &SimFs) -> Env {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    Env { fs: Arc::new(fs.clone()), clock, random: Arc::new(SeededRandom::new(1)), runtime }
}

fn limited(bytes: usize) -> Options {
    Options::new().memory_limit(Some(bytes))
}

#[test]
fn a_limit_is_divided_among_writes_threads_and_reads() {
    let options = limited(256 << 20);
    assert_eq!(options.full_memory_bytes(), 32 << 20, "an eighth");
    let shared_bytes = (256 - 2 * 32 - 4 * 4) << 20;
    assert_eq!(options.shared_bytes(), Some(shared_bytes));
    assert_eq!(options.cache_bytes(|| unreachable!("it is not asked")), shared_bytes);
    let small = options.memtable_bytes(1 << 20).block_cache_bytes(3 << 20);
    assert_eq!(small.full_memory_bytes(), 1 << 20, "less than an eighth, as the program said");
    assert_eq!(small.shared_bytes(), Some((256 - 2 - 4 * 4) << 20));
    assert_eq!(small.cache_bytes(|| unreachable!("it is not asked")), 3 << 20);
    let large = small.block_cache_bytes(64 << 30);
    assert_eq!(large.cache_bytes(|| unreachable!("it is not asked")), (256 - 2 - 4 * 4) << 20);
    assert_eq!(Options::new().shared_bytes(), None);
}

/// All merges together load half of what tables and blocks share.
#[test]
fn merges_load_less_of_logs_beneath_a_limit() {
    let loaded_bytes = |options: Options| options.form_options().loaded_bytes;
    assert_eq!((loaded_bytes(Options::new()), loaded_bytes(limited(8 << 30))), (64 << 20, 64 << 20));
    assert_eq!(loaded_bytes(limited(LEAST)), 2 << 20, "8 MiB for two merges");
    assert_eq!(loaded_bytes(limited(LEAST).memtable_bytes(1 << 20).background_threads(1)), 9 << 20);
}

/// 300 families with equal memory fill it. Three quarters of them are flushed with one log.
#[test]
fn many_small_families_are_flushed_together() {
    let (fs, dir) = (SimFs::new(), Path::new("db"));
    let db = Options::new().memtable_bytes(1 << 20).env(env(&fs)).open(dir).unwrap();
    let families: Vec<_> =
        (0..300).map(|number| db.create_column_family(&format!("family {number}")).unwrap()).collect();
    let mut puts = 0u64;
    while db.stats().counts.flushes == 0 {
        families[(puts % 300) as usize].put(puts.to_be_bytes(), [7; 100]).unwrap();
        puts += 1;
    }
    let stats = db.stats();
    assert!((220..=240).contains(&stats.counts.flushes), "{} sets", stats.counts.flushes);
    assert!(puts > 3_000 && stats.logs.len() < 10, "{puts} puts, {:?}", stats.logs);
    for put in 0..puts {
        assert_eq!(families[(put % 300) as usize].get(put.to_be_bytes()).unwrap().unwrap(), [7; 100]);
    }
}

#[test]
fn a_limit_that_cannot_work_is_refused_with_one_that_can() {
    assert!(limited(LEAST).check().is_ok());
    let few = limited(LEAST).memtable_bytes(1 << 20);
    assert!(few.clone().background_threads(3).check().is_ok() && few.background_threads(9).check().is_err());
    let refused = limited(LEAST).background_threads(usize::MAX).check();
    assert!(matches!(refused, Err(Error::InvalidOption { option: "background_threads", .. })));
    for options in [limited(LEAST - 8), limited(64 << 20).background_threads(64)] {
        let Err(Error::InvalidOption { option: "memory_limit", why }) = options.check() else { panic!() };
        let (_, enough) = why.split_once("set at least ").unwrap();
        let enough = enough.split(',').next().unwrap().parse().unwrap();
        assert!(options.memory_limit(Some(enough)).check().is_ok(), "{why}");
    }
}

/// Tables that need most of the shared memory: the cache keeps what they leave.
#[test]
fn blocks_make_room_for_tables() {
    let (dir, fs) = (Path::new("/db"), SimFs::new());
    let options = limited(LEAST).memtable_bytes(1 << 20);
    // Blocks of 64 bytes make indices as large as the data.
    let options = options.tuning(|tuning| tuning.block_bytes(64).table_bytes(1 << 20));
    let db = options.env(env(&fs)).open(dir).unwrap();
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    (0..150_000u64).for_each(|number| db.put(key(number), [7; 64]).unwrap());
    db.flush().unwrap();
    db.settle().unwrap();
    let shared_bytes = limited(LEAST).memtable_bytes(1 << 20).shared_bytes().unwrap() as u64;
    let mut seen_bytes = 0;
    for number in 0..150_000u64 {
        assert!(db.get(key(number)).unwrap().is_some());
        if number % 10_000 == 0 {
            let stats = db.stats();
            assert!(stats.cache_bytes <= stats.cache_limit_bytes);
            assert!(stats.cache_limit_bytes + stats.table_memory_bytes <= shared_bytes, "{stats:?}");
            seen_bytes = stats.table_memory_bytes;
        }
    }
    let version = db.engine().unwrap().view().unwrap().families[0].version.clone();
    let tables: BTreeMap<_, _> =
        version.slices().map(|slice| (slice.table.id, slice.table.clone())).collect();
    let held_bytes: u64 = tables.values().map(|table| table.memory_bytes()).sum();
    assert_eq!(db.stats().table_memory_bytes, held_bytes, "the charges are what the tables hold");
    assert!(seen_bytes > 4 << 20, "the tables take {seen_bytes} bytes");
    assert!(db.stats().cache_bytes > shared_bytes / 4);
}
