//! `get_many` answers what gets answer, and counts and charges what they do.

use crate::base::counters::Counters;
use crate::db::{Db, Options};
use crate::{Result, Snapshot, Value};
use braidb_storage::Env;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: u64 = 800;

fn options(fs: &SimFs) -> Options {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(fs.clone()), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    Options::new()
        .memtable_bytes(32 << 10)
        .env(env)
        .tuning(|tuning| tuning.block_bytes(512).table_bytes(8 << 10))
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// Writes half of the keys once more, some as deletes and some as large values. Most of them are flushed.
fn write(db: &Db, round: u64) {
    for number in 0..KEYS / 2 {
        let number = (number * 7_919 + round * 31) % KEYS;
        match number % 11 {
            0 if round % 2 == 1 => db.delete(key(number)).unwrap(),
            1 => db.put(key(number), vec![round as u8; 2_000]).unwrap(),
            _ => db.put(key(number), vec![round as u8; 30]).unwrap(),
        }
    }
}

/// 75 keys, of which some are missing, and some come twice.
fn drawn(round: u64) -> Vec<Vec<u8>> {
    (0..75).map(|nth| key((nth * nth * 13 + round * 37) % (KEYS + 100))).chain([Vec::new()]).collect()
}

/// The values of keys, copied.
type Values = Vec<Option<Vec<u8>>>;

fn bytes(values: Vec<Option<Value>>) -> Values {
    values.into_iter().map(|value| value.map(|value| value.to_vec())).collect()
}

fn gets(keys: &[Vec<u8>], get: impl Fn(&[u8]) -> Result<Option<Value>>) -> Values {
    bytes(keys.iter().map(|key| get(key).unwrap()).collect())
}

#[test]
fn the_values_are_those_of_gets() {
    for cache_bytes in [0, 20 << 10, 8 << 20] {
        let fs = SimFs::new();
        let db = options(&fs).block_cache_bytes(cache_bytes).open(DIR).unwrap();
        let family = db.create_column_family("second").unwrap();
        let mut before: Option<(Snapshot, Vec<Vec<u8>>, Values)> = None;
        for round in 0..12 {
            let keys = drawn(round);
            assert_eq!(bytes(db.get_many(&keys).unwrap()), gets(&keys, |key| db.get(key)));
            assert!(bytes(family.get_many(&keys).unwrap()) == gets(&keys, |key| family.get(key)));
            if let Some((snapshot, of_keys, values)) = &before {
                assert_eq!(bytes(snapshot.get_many(of_keys).unwrap()), *values, "round {round}");
                assert!(bytes(snapshot.get_many_in(&family, of_keys).unwrap()) == vec![None; 76]);
            }
            if round % 4 == 1 {
                before = Some((db.snapshot(), keys.clone(), gets(&keys, |key| db.get(key))));
            }
            write(&db, round);
        }
        assert!(db.get_many(&[[0; 1]; 0]).unwrap().is_empty());
        assert!(db.stats().value_files > 0 && db.tree()[0].levels.len() > 1);
    }
}

#[test]
fn looks_are_counted_and_charged_as_those_of_gets() {
    let fs = SimFs::new();
    let db = options(&fs).open(DIR).unwrap();
    (0..20).for_each(|round| write(&db, round));
    db.settle().unwrap();
    let keys = drawn(3);
    let grown = |read: &dyn Fn()| {
        let counters: &Counters = &db.engine().unwrap().shared.counters;
        let now = || {
            let looks =
                [&counters.filter_rejections, &counters.table_reads, &counters.filter_false_positives];
            let [rejections, reads, false_positives] = looks.map(|count| count.get());
            [rejections, reads, false_positives, counters.gets.get(), counters.cache_hits.get()]
        };
        let before = now();
        read();
        let mut after = now();
        after.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        after
    };
    let gets = || keys.iter().for_each(|key| drop(db.get(key).unwrap()));
    // The first reads fill the cache.
    gets();
    let of_gets = grown(&gets);
    assert!(of_gets[0] > 75 && of_gets[1] > 30, "{of_gets:?}");
    assert_eq!(grown(&|| drop(db.get_many(&keys).unwrap())), of_gets);
}

#[test]
fn a_block_of_several_keys_is_read_once_without_a_cache() {
    let fs = SimFs::new();
    let db = options(&fs).block_cache_bytes(0).open(DIR).unwrap();
    (0..100).for_each(|number| db.put(key(number), [7; 30]).unwrap());
    db.flush().unwrap();
    db.compact().unwrap();
    let keys: Vec<_> = (0..20).map(key).collect();
    let misses = || db.stats().counts.cache_misses;
    let before = misses();
    keys.iter().for_each(|key| assert!(db.get(key).unwrap().is_some()));
    let of_gets = misses() - before;
    assert!(db.get_many(&keys).unwrap().iter().all(Option::is_some));
    let of_many = misses() - before - of_gets;
    assert!(of_gets == 20 && of_many <= 3, "{of_gets} blocks by gets, {of_many} by get_many");
}

#[test]
fn a_damaged_block_fails_a_call_that_needs_it_and_no_other() {
    let fs = SimFs::new();
    let db = options(&fs).open(DIR).unwrap();
    (0..KEYS).for_each(|number| db.put(key(number), [7; 30]).unwrap());
    db.compact().unwrap();
    db.close().unwrap();
    drop(db);
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "table");
    let table = fs.files().into_iter().find(is_table).unwrap();
    let mut content = fs.read_file(Path::new(&table)).unwrap();
    content[40] ^= 1;
    fs.write_file(&table, &content).unwrap();
    let db = options(&fs).open(DIR).unwrap();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let is_broken = |key: &Vec<u8>| db.get(key).is_err();
    let (broken, whole): (Vec<_>, Vec<_>) = keys.into_iter().partition(is_broken);
    assert!(!broken.is_empty() && broken.len() < 40, "{}", broken.len());
    assert!(db.get_many(&whole).unwrap().iter().all(Option::is_some));
    let refused = db.get_many(&[&whole[0], &broken[0]]).unwrap_err();
    assert!(refused.is_corruption() && refused.to_string().contains(".table"), "{refused}");
}
