//! How much of the device log tables and their logs may take, with readers and after failures.

use braidb::tuning::{Guards, MemoryPolicy};
use braidb::{Db, Durability, Error, Options};
use braidb_sim::env_over;
use braidb_sim::rng::Rng;
use braidb_storage::Env;
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use braidb_storage::sim::{Crash, Fault, Lasting, SimFs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DIR: &str = "/db";
/// Random cases of `nothing_leaks_and_nothing_is_lost`.
const SEEDS: u64 = 20;
/// `errors_leave_no_file_behind` fails every `STRIDE`-th file operation, one per run.
const STRIDE: usize = 11;

fn options(env: Env) -> Options {
    Options::new()
        .memtable_bytes(1 << 20)
        .tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).log_table_percent(50))
        .env(env)
}

fn open(fs: &SimFs, change: impl Fn(Options) -> Options) -> Result<Db, Error> {
    change(options(env_over(Arc::new(fs.clone()), 3).0)).open(DIR)
}

fn key(number: usize) -> String {
    format!("key {number:03}")
}

fn value(round: usize, number: usize) -> String {
    format!("round {round}, {number:03}, {}", "long ".repeat(20))
}

/// A disk is full of log tables and their logs. Deletes and a compaction make room, as they do without log tables.
#[test]
fn deletes_make_room_on_a_disk_full_of_log_tables() {
    for percent in [0, 1] {
        let fs = SimFs::new();
        fs.set_capacity(Some(8 << 20));
        let config = |options: Options| {
            options.memtable_bytes(128 << 10).tuning(|tuning| {
                tuning.table_bytes(64 << 10).log_bytes(4 << 20).log_table_percent(percent).block_bytes(1024)
            })
        };
        let db = open(&fs, config).unwrap();
        let mut end = 0;
        while db.put(format!("key {end:06}"), value(1, end)).is_ok() {
            end += 1;
        }
        assert_eq!(db.stats().counts.log_tables > 0, percent > 0);
        let mut first = 0;
        while first < end / 2 {
            db.delete(format!("key {first:06}"))
                .unwrap_or_else(|error| panic!("{percent}: delete {first}: {error}"));
            first += 1;
        }
        db.close().unwrap();
        drop(db);
        let db = open(&fs, config).unwrap();
        db.compact().unwrap_or_else(|error| panic!("{percent}: {error}"));
        assert_eq!(db.iter().count(), end - first, "{percent}");
        let mut more = 0;
        while db.put(format!("more {more:06}"), value(1, more)).is_ok() {
            more += 1;
        }
        assert!(more > end / 4, "{percent}: {more} of {end}");
    }
}

/// A merge would read the values of too large logs one by one. So values stay neither in logs of more than 16 MiB a flush, nor where memory
/// has so much room that flushes have such logs.
#[test]
fn large_logs_keep_no_values() {
    for (memtable_bytes, bytes, written_bytes, log_tables) in [
        (24 << 20, 255, 10 << 20, 1),
        (24 << 20, 2000, 10 << 20, 1),
        (24 << 20, 255, 17 << 20, 0),
        (24 << 20, 2000, 17 << 20, 0),
        (32 << 20, 2000, 10 << 20, 0),
    ] {
        let config = |options: Options| {
            let options = options.memtable_bytes(memtable_bytes);
            options.tuning(|tuning| tuning.log_bytes(128 << 20).separation_threshold(None))
        };
        let db = open(&SimFs::new(), config).unwrap();
        let value = vec![7; bytes];
        for number in 0..written_bytes / bytes {
            db.put(format!("key {number:06}"), &value).unwrap();
        }
        db.flush().unwrap();
        let counts = db.stats().counts;
        assert_eq!(
            (counts.flushes, counts.log_tables),
            (1, log_tables),
            "{memtable_bytes} {bytes} {written_bytes}"
        );
    }
}

/// Checks that, without readers and pending work, the device holds only files that the database needs.
fn check_files(fs: &SimFs, db: &Db, what: &str) {
    let stats = db.stats();
    let mut tables: Vec<u64> = Vec::new();
    for level in db.tree().iter().flat_map(|tree| &tree.levels) {
        for slice in level.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.slices) {
            tables.push(slice.table);
        }
    }
    tables.sort_unstable();
    tables.dedup();
    let number = |ending: &str| -> Vec<u64> {
        let files =
            fs.files().into_iter().filter(|path| path.extension().is_some_and(|found| found == ending));
        let mut ids: Vec<u64> =
            files.map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(number("table"), tables, "{what}: tables");
    let live: Vec<u64> = stats.logs.iter().map(|log| log.id).collect();
    let behind: Vec<u64> = number("log").into_iter().filter(|id| !live.contains(id)).collect();
    assert_eq!(behind.len() as u64, stats.pinned_logs, "{what}: {behind:?} stay, live {live:?}: {stats:?}");
    assert_eq!(number("manifest").len(), 1, "{what}");
}

type Model = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

fn check_model(families: &[braidb::ColumnFamily], model: &Model, what: &str) {
    for (index, family) in families.iter().enumerate() {
        let expected: Vec<_> = model
            .iter()
            .filter(|((at, _), _)| *at == index)
            .map(|((_, k), v)| (k.clone(), v.clone()))
            .collect();
        let found: Vec<_> = family
            .iter()
            .map(|e| e.map(|(k, v)| (k, v.to_vec())).unwrap_or_else(|e| panic!("{what}: {e}")))
            .collect();
        assert!(
            found == expected,
            "{what}: family {index}: {} entries instead of {}",
            found.len(),
            expected.len()
        );
        let back: Vec<_> = family
            .iter()
            .rev()
            .map(|e| e.map(|(k, v)| (k, v.to_vec())).unwrap_or_else(|e| panic!("{what}: {e}")))
            .collect();
        assert!(back.into_iter().rev().eq(expected), "{what}: family {index} backward");
    }
}

fn one_case(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut fs = SimFs::new();
    let names = ["default", "beta", "gamma"];
    let mut model = Model::new();
    let mut config = None;
    for life in 0..5 {
        // Half of the lives keep the options of the previous life.
        if config.is_none() || rng.one_in(2) {
            let guards = match rng.below(3) {
                0 => Guards::None,
                1 => Guards::Balanced,
                _ => Guards::Sampled { top_level_bits: rng.between(3, 7) as u32, bit_decrement: 1 },
            };
            config = Some((
                rng.pick(&[1u32, 1, 10, 30, 60, 0]),
                rng.pick(&[0u32, 10, 50]),
                rng.pick(&[4usize << 10, 8 << 10, 32 << 10]),
                rng.pick(&[4u64 << 10, 16 << 10, 64 << 10, 256 << 10]),
                rng.pick(&[1usize, 2, 4]),
                guards,
                rng.pick(&[0u32, 25, 90]),
                rng.pick(&[64usize, 256, 4096]),
                rng.pick(&[Durability::None, Durability::Buffer, Durability::Sync]),
                rng.pick(&[4u64 << 10, 64 << 10]),
                rng.pick(&[1u64 << 10, 64 << 10]),
            ));
        }
        let (percent, hot, memtable, log, runs, guards, rewrite, block, durability, table, manifest) =
            config.unwrap();
        let what = format!("seed {seed} life {life} {config:?}");
        let env = env_over(Arc::new(fs.clone()), seed + life).0;
        let db = Options::new()
            .memtable_bytes(memtable)
            .tuning(|tuning| {
                tuning
                    .log_table_percent(percent)
                    .hot_keys_percent(hot)
                    .log_bytes(log)
                    .max_runs_per_guard(runs)
                    .guards(guards)
                    .log_rewrite_percent(rewrite)
                    .block_bytes(block)
            })
            .durability(durability)
            .tuning(|tuning| tuning.table_bytes(table).manifest_bytes(manifest))
            .open_files(16)
            .tuning(|tuning| {
                tuning
                    .overlap_samples(rng.pick(&[false, true, true]))
                    .active_percent(rng.pick(&[4, 25, 100]))
                    .memory_policy(rng.pick(&[MemoryPolicy::None, MemoryPolicy::Eager, MemoryPolicy::Basic]))
            })
            .env(env)
            .open(DIR)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let families: Vec<_> = names.iter().map(|name| db.create_column_family(name).unwrap()).collect();
        check_model(&families, &model, &what);
        let (keys, largest) = (rng.between(3, 200), rng.pick(&[64u64, 300, 2000]));
        let mut readers = Vec::new();
        for _ in 0..rng.between(50, 600) {
            match rng.below(60) {
                0 => db.flush().unwrap(),
                1 if rng.one_in(3) => db.compact().unwrap(),
                2 => db.settle().unwrap(),
                3 => {
                    let family = rng.below(3) as usize;
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|((at, _), _)| *at == family)
                        .map(|((_, k), v)| (k.clone(), v.clone()))
                        .collect();
                    let mut iter = families[family].iter();
                    let skip = rng.below(expected.len() as u64 / 2 + 1) as usize;
                    for wanted in &expected[..skip] {
                        let (k, v) = iter.next().unwrap().unwrap();
                        assert!((&k, v.as_ref()) == (&wanted.0, wanted.1.as_slice()), "{what}");
                    }
                    readers.push((iter, expected[skip..].to_vec()));
                }
                4 | 5 if !readers.is_empty() => {
                    let (iter, expected) = readers.swap_remove(rng.below(readers.len() as u64) as usize);
                    let found: Vec<_> = iter
                        .map(|e| e.map(|(k, v)| (k, v.to_vec())).unwrap_or_else(|e| panic!("{what}: {e}")))
                        .collect();
                    assert!(found == expected, "{what}: an iterator");
                }
                6 => assert_eq!(db.verify().unwrap().damages, [], "{what}"),
                _ => {
                    let family = rng.pick(&[0usize, 0, 0, 1, 1, 2]);
                    let skewed = if rng.one_in(2) { rng.below(3) } else { rng.below(keys) };
                    let key = format!("key {skewed:04}").into_bytes();
                    if rng.one_in(8) {
                        families[family].delete(&key).unwrap();
                        model.remove(&(family, key));
                    } else {
                        let len = rng.between(1, largest) as usize;
                        let value: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
                        families[family].put(&key, &value).unwrap();
                        model.insert((family, key), value);
                    }
                }
            }
        }
        drop(readers);
        db.settle().unwrap();
        check_files(&fs, &db, &what);
        let pinned_bytes = db.stats().pinned_log_bytes;
        assert!(pinned_bytes <= log, "{what}: tables keep {pinned_bytes} bytes of logs");
        check_model(&families, &model, &what);
        if rng.one_in(3) {
            db.compact().unwrap();
            db.settle().unwrap();
            assert_eq!(db.stats().log_tables, 0, "{what}");
            assert_eq!(db.stats().pinned_logs, 0, "{what}");
            check_files(&fs, &db, &what);
        }
        match rng.below(4) {
            0 => drop((db, families)),
            1 => {
                db.close().unwrap();
            }
            2 => {
                db.persist(Durability::Sync).unwrap();
                let image = fs.crash_image(rng.pick(&[Crash::PowerAllLost, Crash::PowerTorn]), seed);
                drop((db, families));
                fs = image;
            }
            _ => {
                db.persist(Durability::Buffer).unwrap();
                let image = fs.crash_image(Crash::Process, seed);
                drop((db, families));
                fs = image;
            }
        }
        assert_eq!(
            Options::new().env(env_over(Arc::new(fs.clone()), 1).0).verify(DIR).unwrap().damages,
            [],
            "{what}"
        );
    }
}

#[test]
fn nothing_leaks_and_nothing_is_lost() {
    (1..=SEEDS).for_each(one_case);
}

/// Log tables that no merge touches must not use up all the log space that tables may keep.
#[test]
fn cold_log_tables_do_not_end_log_tables_for_all_others() {
    let log_tables_of_the_second_half = |cold: bool| {
        let fs = SimFs::new();
        let db = open(&fs, |options| {
            options.memtable_bytes(64 << 10).tuning(|tuning| tuning.log_bytes(256 << 10))
        })
        .unwrap();
        let busy = db.create_column_family("busy").unwrap();
        // Keys in order, each written once: tables go down by trivial moves.
        for number in 0..if cold { 4000 } else { 0 } {
            db.put(format!("key {number:06}"), value(1, number)).unwrap();
        }
        let mut rng = Rng::new(1);
        let mut half = 0;
        for write in 0..40_000 {
            if write == 20_000 {
                db.settle().unwrap();
                half = db.stats().counts.log_tables;
            }
            let number = rng.below(4000) as usize;
            busy.put(format!("key {number:06}"), value(2, number)).unwrap();
        }
        db.settle().unwrap();
        db.stats().counts.log_tables - half
    };
    let (alone, beside_cold) = (log_tables_of_the_second_half(false), log_tables_of_the_second_half(true));
    assert!(beside_cold * 2 >= alone, "{beside_cold} log tables beside cold ones, {alone} without");
}

/// Without other merges, only a small part of the written bytes is left in logs and rewritten to tables later.
#[test]
fn logs_of_cold_tables_are_not_let_go_again_and_again() {
    let fs = SimFs::new();
    let db =
        open(&fs, |options| options.memtable_bytes(64 << 10).tuning(|tuning| tuning.log_bytes(256 << 10)))
            .unwrap();
    for number in 0..30_000 {
        db.put(format!("key {number:06}"), value(1, number)).unwrap();
        if number % 1000 == 999 {
            db.settle().unwrap();
        }
    }
    let counts = db.stats().counts;
    let (merged, written): (u64, u64) = (counts.merge_bytes.iter().sum(), counts.user_bytes);
    assert!(counts.log_tables > 10, "{counts:?}");
    assert!(merged > 0 && merged < written / 3, "{merged} of {written}");
}

/// Threads read while logs come and go, on a file system where an unlinked file becomes unreadable at once.
#[test]
fn readers_never_lose_a_log() {
    for seed in 0..3 {
        let fs = SimFs::new();
        fs.set_unlinked_are_gone(true);
        let env = Env {
            fs: Arc::new(fs.clone()),
            clock: Arc::new(MonotonicClock::new()),
            random: Arc::new(SeededRandom::new(seed)),
            runtime: Arc::new(Threads::new(2).unwrap()),
        };
        let runs = [1, 2, 4][seed as usize % 3];
        let db = Options::new()
            .memtable_bytes(16 << 10)
            .tuning(|tuning| {
                tuning
                    .table_bytes(8 << 10)
                    .log_bytes([8 << 10, 64 << 10][seed as usize % 2])
                    .log_table_percent(1)
                    .hot_keys_percent([0, 20][seed as usize % 2])
                    .max_runs_per_guard(runs)
            })
            // Guards would give L1 many cells, and these values are too small to stay in logs then.
            .tuning(|tuning| tuning.guards(Guards::None))
            .open_files(16)
            .block_cache_bytes(0)
            .env(env)
            .open(DIR)
            .unwrap();
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for reader in 0..3u64 {
                let (db, stop, written) = (&db, &stop, &written);
                scope.spawn(move || {
                    let (mut rng, mut from) = (Rng::new(seed * 10 + reader), 0);
                    while !stop.load(Ordering::Relaxed) {
                        // Readers scan no more than the writer writes. Otherwise flushes would leave no values in logs.
                        if written.load(Ordering::Relaxed) < from {
                            std::thread::yield_now();
                            continue;
                        }
                        from = written.load(Ordering::Relaxed) + 20;
                        let number = rng.below(300) as usize;
                        match reader {
                            0 => drop(db.get(key(number)).unwrap()),
                            1 => db.range(key(number)..).take(20).for_each(|entry| drop(entry.unwrap())),
                            _ => {
                                let mut last = None;
                                for entry in db.iter().rev() {
                                    let (key, value) = entry.unwrap();
                                    assert!(last.as_ref().is_none_or(|last| *last > key));
                                    assert!(value.starts_with(b"round"));
                                    last = Some(key);
                                }
                            }
                        }
                    }
                });
            }
            let mut rng = Rng::new(seed);
            for round in 0..12_000 {
                let number = if rng.one_in(3) { rng.below(5) } else { rng.below(300) } as usize;
                db.put(key(number), value(round, number)).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
                if round % 3000 == 2999 {
                    db.compact().unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        db.settle().unwrap();
        assert!(db.stats().counts.log_tables > 5);
        check_files(&fs, &db, "threads");
    }
}

/// Each fault strikes once or for ever. After the next open every acknowledged write is there, and no unneeded file stays.
#[test]
fn errors_leave_no_file_behind() {
    let change = |options: Options| {
        let options = options
            .memtable_bytes(8 << 10)
            .tuning(|tuning| tuning.log_bytes(32 << 10).table_bytes(4 << 10))
            .open_files(16);
        options.tuning(|tuning| {
            tuning.log_table_percent(10).hot_keys_percent(10).max_runs_per_guard(2).block_bytes(256)
        })
    };
    for fault in [Fault::Io, Fault::Full, Fault::Sync] {
        for lasting in [Lasting::Once, Lasting::ForEver] {
            for nth in (1..).step_by(STRIDE) {
                let what = format!("{fault:?} {lasting:?} {nth}");
                let fs = SimFs::new();
                drop(open(&fs, change).unwrap());
                fs.fail_nth(nth, fault, lasting, nth);
                // What each key may hold: the last acknowledged value, and the values of later failed writes.
                let mut may: BTreeMap<(usize, usize), Vec<Option<String>>> = BTreeMap::new();
                let mut log_tables = 0;
                if let Ok(db) = open(&fs, change)
                    && let Ok(other) = db.create_column_family("other")
                {
                    let mut rng = Rng::new(5);
                    for round in 0..400 {
                        let number = if rng.one_in(3) { rng.below(3) } else { rng.below(100) } as usize;
                        let family = usize::from(rng.one_in(4));
                        let new = (!rng.one_in(9)).then(|| value(round, number));
                        let outcome = match (&new, family) {
                            (Some(value), 0) => db.put(key(number), value),
                            (Some(value), _) => other.put(key(number), value),
                            (None, 0) => db.delete(key(number)),
                            (None, _) => other.delete(key(number)),
                        };
                        let values = may.entry((family, number)).or_insert_with(|| vec![None]);
                        if outcome.is_ok() {
                            values.clear();
                        }
                        values.push(new);
                        match round {
                            100 | 250 => drop(db.flush()),
                            200 | 350 => drop(db.compact()),
                            _ => {}
                        }
                    }
                    log_tables = db.stats().counts.log_tables;
                    if nth % 2 == 0 {
                        let _ = db.close();
                    }
                }
                let is_over = fs.faults_struck() == 0;
                fs.heal();
                let check = |db: &Db, when: &str| {
                    let other = db.create_column_family("other").unwrap();
                    for ((family, number), values) in &may {
                        let family =
                            if *family == 0 { db.column_family("default").unwrap() } else { other.clone() };
                        let found = family
                            .get(key(*number))
                            .unwrap_or_else(|error| panic!("{what}, {when}: {error}"));
                        let found = found.map(|value| String::from_utf8(value.to_vec()).unwrap());
                        assert!(
                            values.contains(&found),
                            "{what}, {when}: key {number} is {found:?}, not {values:?}"
                        );
                    }
                    assert_eq!(db.verify().unwrap().damages, [], "{what}, {when}");
                    db.settle().unwrap();
                    check_files(&fs, db, &format!("{what}, {when}"));
                };
                let db = open(&fs, change).unwrap_or_else(|error| panic!("{what}: {error}"));
                check(&db, "reopened");
                db.put("one more", "x".repeat(300)).unwrap();
                db.compact().unwrap();
                assert_eq!(db.stats().log_tables, 0);
                check(&db, "compacted");
                drop(db);
                check(&open(&fs, change).unwrap(), "again");
                if is_over {
                    assert!(log_tables > 2);
                    break;
                }
            }
        }
    }
}
