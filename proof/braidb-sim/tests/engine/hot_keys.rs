//! Keys that are written all the time stay in memory at a flush. Fewer bytes are written, and after a crash at any step recovery finds
//! every write that it must, without a gap.

use braidb::tuning::{Guards, MemoryPolicy};
use braidb::{Db, Durability, Options, WriteBatch};
use braidb_sim::rng::Rng;
use braidb_sim::{env_over, sim_env};
use braidb_storage::Env;
use braidb_storage::sim::{Crash, OpKind, SimFs};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";
const KEYS: u32 = 3_000;
const HOT: u32 = 30;

/// A leveled tree with little memory and `MemoryPolicy::None`, so that only flushes empty the memory.
fn options(env: Env, hot_keys_percent: u32) -> Options {
    Options::new()
        .memtable_bytes(64 << 10)
        .tuning(|tuning| {
            tuning
                .memory_policy(MemoryPolicy::None)
                .max_runs_per_guard(1)
                .guards(Guards::None)
                .log_table_percent(0)
                .hot_keys_percent(hot_keys_percent)
        })
        .env(env)
}

/// Write number `number`: to a hot key in nine of ten cases, a deletion in one of eight. `TICK` always holds the number.
#[derive(Clone)]
struct Write {
    key: String,
    value: Option<String>,
}

const TICK: &str = "tick";

fn write(number: u32) -> Write {
    let mut rng = Rng::new(u64::from(number));
    let key = if rng.below(10) > 0 { rng.below(u64::from(HOT)) } else { rng.below(u64::from(KEYS)) };
    let value = (rng.below(8) > 0).then(|| format!("{number:080}"));
    Write { key: format!("key {key:05}"), value }
}

/// The contents after `writes` writes.
fn after(writes: u32) -> BTreeMap<String, String> {
    let mut model = BTreeMap::new();
    for number in 1..=writes {
        let Write { key, value } = write(number);
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
        model.insert(TICK.to_owned(), number.to_string());
    }
    model
}

fn put(db: &Db, number: u32) {
    let mut batch = WriteBatch::new();
    batch.put(TICK, number.to_string());
    let Write { key, value } = write(number);
    match value {
        Some(value) => batch.put(key, value),
        None => batch.delete(key),
    };
    db.write(batch).unwrap();
    // On one thread, background work runs only here.
    if number.is_multiple_of(50) {
        db.settle().unwrap();
    }
}

fn shown(entries: braidb::Iter) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    entries.map(|entry| entry.map(|(key, value)| (text(&key), text(&value))).unwrap()).collect()
}

/// The number of writes that the database holds. Panics unless it holds exactly the first writes up to that number.
fn surviving(db: &Db) -> u32 {
    let shown = shown(db.iter());
    let writes = shown.get(TICK).map_or(0, |number| number.parse().unwrap());
    assert_eq!(shown, after(writes), "after {writes} writes");
    writes
}

fn reopen(fs: &SimFs) -> Db {
    options(env_over(Arc::new(fs.clone()), 2).0, 10).open(DIR).unwrap()
}

#[test]
fn what_is_hot_is_not_flushed() {
    let written = |hot_keys_percent: u32| {
        let (env, fs, _) = sim_env(1);
        let db = options(env, hot_keys_percent).open(DIR).unwrap();
        (1..=10_000).for_each(|number| put(&db, number));
        let snapshot = db.snapshot();
        (10_001..=20_000).for_each(|number| put(&db, number));
        assert_eq!(shown(snapshot.iter()), after(10_000), "a snapshot has what was there when it was taken");
        drop(snapshot);
        (20_001..=30_000).for_each(|number| put(&db, number));
        db.settle().unwrap();
        assert_eq!(surviving(&db), 30_000);
        assert_eq!(surviving(&reopen(&fs.crash_image(Crash::Process, 1))), 30_000);
        assert_eq!(db.verify().unwrap().damages, []);
        db.stats()
    };
    let (off, on) = (written(0), written(10));
    assert_eq!((off.counts.hot_kept, off.counts.full_memory_compactions, off.counts.written_back), (0, 0, 0));
    assert!(on.counts.hot_kept > 0 && on.counts.full_memory_compactions > 0, "{:?}", on.counts);
    assert!(!on.families[0].hot_keys.as_ref().unwrap().periods.is_empty());
    let bytes = |stats: &braidb::stats::Stats| {
        let counts = &stats.counts;
        counts.flush_bytes + counts.merge_bytes.iter().sum::<u64>() + counts.written_back_bytes
    };
    assert!(2 * bytes(&on) < bytes(&off), "{} for {}", bytes(&on), bytes(&off));
}

const SYNCED: u32 = 5_000;

/// Power fails before each storage operation of flushes that leave hot keys in memory.
#[test]
fn power_may_fail_at_every_step() {
    for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn] {
        let (env, fs, _) = sim_env(1);
        let db = options(env, 10).open(DIR).unwrap();
        (1..=SYNCED).for_each(|number| put(&db, number));
        db.persist(Durability::Sync).unwrap();
        let images = Arc::new(Mutex::new((0u64, Vec::new())));
        let taken = images.clone();
        fs.set_hook(Some(Box::new(move |fs, op| {
            if op.kind.mutates() {
                let (steps, images) = &mut *taken.lock().unwrap();
                *steps += 1;
                // Appends of commits come in thousands, so only every 199th step is kept.
                if op.kind != OpKind::Append || steps.is_multiple_of(199) {
                    images.push(fs.crash_image(crash, *steps));
                }
            }
        })));
        (SYNCED + 1..=SYNCED + 8_000).for_each(|number| put(&db, number));
        fs.set_hook(None);
        let counts = db.stats().counts;
        assert!(counts.hot_kept > 0 && counts.written_back > 0, "{counts:?}");
        let images = std::mem::take(&mut images.lock().unwrap().1);
        assert!(images.len() > 50, "{}", images.len());
        let mut last = SYNCED;
        for image in images {
            let writes = surviving(&reopen(&image));
            // A killed process keeps every acknowledged write. A power failure keeps only the synced ones.
            assert!(writes >= if crash == Crash::Process { last } else { SYNCED }, "{writes} after {last}");
            last = writes;
        }
    }
}

/// Hot keys of one family take half of memory, and then only the other family is written. They must go to a table, since a flush that keeps
/// them again frees no memory.
#[test]
fn hot_keys_that_nothing_writes_any_more_leave_memory_to_other_families() {
    let (env, _, _) = sim_env(1);
    let options =
        options(env, 50).tuning(|tuning| tuning.memory_policy(MemoryPolicy::Basic).log_bytes(1 << 20));
    let db = options.open(DIR).unwrap();
    let other = db.create_column_family("other").unwrap();
    let kept = || db.stats().counts.hot_kept;
    let mut number = 0_u32;
    while kept() == 0 {
        number += 1;
        assert!(number < 50_000, "no flush kept a hot key");
        db.put(format!("hot {:03}", number % 100), [1; 300]).unwrap();
        db.put(format!("cold {number:06}"), [2; 30]).unwrap();
        db.settle().unwrap();
    }
    let (kept_before, flushes) = (kept(), db.stats().counts.flushes);
    assert!(kept_before > 50, "{kept_before} keys");
    for number in 0..1_000_u32 {
        other.put(number.to_be_bytes(), [3; 300]).unwrap();
        db.settle().unwrap();
    }
    let counts = db.stats().counts;
    assert_eq!(counts.hot_kept, kept_before, "nothing was kept again");
    // 1,000 entries of 300 bytes in memory of 64 KiB, and one flush of the hot keys.
    assert!(counts.flushes - flushes <= 12, "{} flushes", counts.flushes - flushes);
}
