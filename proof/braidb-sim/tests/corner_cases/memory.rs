//! Readers and memory compaction while writers write.

use super::*;

const BATCH_KEYS: u64 = 12;

/// A scan does not walk through all versions of a hot key, and still shows the right ones.
#[test]
fn a_scan_passes_a_hot_key_by_its_next_one() {
    for policy in [MemoryPolicy::None, MemoryPolicy::Basic] {
        let (env, ..) = sim_env(1);
        let db = Options::new().tuning(|tuning| tuning.memory_policy(policy)).env(env).open(DIR).unwrap();
        for key in ["a", "hot\0", "hot\x01", "z"] {
            db.put(key, key).unwrap();
        }
        let mut snapshots = Vec::new();
        for version in 0..500u32 {
            db.put("hot", version.to_be_bytes()).unwrap();
            if version % 100 == 0 {
                snapshots.push((version, db.snapshot()));
            }
        }
        db.delete("hot\x01").unwrap();
        let keys = |rows: Vec<(Vec<u8>, braidb::Value)>| -> Vec<Vec<u8>> {
            rows.into_iter().map(|(key, _)| key).collect()
        };
        let rows: Vec<_> = db.iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows[1].1, 499u32.to_be_bytes());
        assert_eq!(keys(rows), [&b"a"[..], b"hot", b"hot\0", b"z"]);
        for (version, snapshot) in &snapshots {
            let rows: Vec<_> = snapshot.iter().collect::<Result<_, _>>().unwrap();
            assert_eq!(rows[1].1, version.to_be_bytes());
            assert_eq!(keys(rows), [&b"a"[..], b"hot", b"hot\0", b"hot\x01", b"z"]);
        }
    }
}

/// A family's memory is compacted although another family always needs a compaction step too.
#[test]
fn a_busy_family_does_not_keep_others_from_being_compacted() {
    let (env, _, runtime) = sim_env(1);
    let options = Options::new()
        .memtable_bytes(256 << 10)
        .tuning(|tuning| tuning.memory_policy(MemoryPolicy::Basic))
        .env(env);
    let db = options.tuning(|tuning| tuning.pipeline_segments(16)).open(DIR).unwrap();
    let busy = db.create_column_family("busy").unwrap();
    let quiet = db.create_column_family("quiet").unwrap();
    let roll = |family: &ColumnFamily| {
        let before = db.stats().counts.memory_flushes;
        while db.stats().counts.memory_flushes == before {
            family.put("k", [0; 1_000]).unwrap();
        }
    };
    let quiet_bytes = || db.stats().families.iter().find(|f| f.name == "quiet").unwrap().memory_bytes;
    roll(&busy);
    (0..6).for_each(|_| roll(&quiet));
    let before = quiet_bytes();
    for _ in 0..10 {
        // One step of memory compaction is two jobs.
        assert!(runtime.help() && runtime.help());
        roll(&busy);
    }
    assert_eq!(db.stats().counts.flushes, 0);
    assert!(quiet_bytes() < before / 2, "{} of {before} bytes", quiet_bytes());
}

/// Whether `batch` deletes `key`. Each batch deletes one key and puts all others.
fn is_deleted(key: u64, batch: u64) -> bool {
    key == 1 + batch % (BATCH_KEYS - 1)
}

fn write_batch(db: &Db, number: u64) {
    let mut batch = WriteBatch::new();
    for key in 0..BATCH_KEYS {
        match is_deleted(key, number) {
            true => batch.delete(key.to_be_bytes()),
            false => batch.put(key.to_be_bytes(), number.to_le_bytes().repeat(1 + (number % 7) as usize)),
        };
    }
    db.write(batch).unwrap();
}

/// The number of the batch that an iterator shows; 0 if it shows nothing. Panics unless the iterator shows one batch, whole and alone.
fn batch_shown(iter: Iter, is_backward: bool) -> u64 {
    let mut rows: Vec<_> = if is_backward {
        iter.rev().map(Result::unwrap).collect()
    } else {
        iter.map(Result::unwrap).collect()
    };
    if is_backward {
        rows.reverse();
    }
    let Some((_, first)) = rows.first() else { return 0 };
    let number = u64::from_le_bytes(first[..8].try_into().unwrap());
    let keys: Vec<u64> = (0..BATCH_KEYS).filter(|&key| !is_deleted(key, number)).collect();
    assert!(rows.iter().map(|row| &row.0[..]).eq(keys.iter().map(|key| key.to_be_bytes())), "batch {number}");
    assert!(rows.iter().all(|row| row.1[..8] == number.to_le_bytes()), "batch {number}");
    number
}

/// Iterators show whole batches, even if their segments are compacted before the walk. In the end memory is counted right.
#[test]
fn iterators_beside_memory_compaction_show_whole_batches() {
    let policies =
        [MemoryPolicy::Basic, MemoryPolicy::Eager, MemoryPolicy::Adaptive { redundancy_percent: 1 }];
    for policy in policies {
        let env = Env {
            fs: Arc::new(SimFs::new()),
            clock: Arc::new(MonotonicClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            runtime: Arc::new(Threads::new(1).unwrap()),
        };
        let options = Options::new()
            .memtable_bytes(16 << 10)
            .tuning(|tuning| tuning.memory_policy(policy).pipeline_segments(1));
        let db = options.durability(Durability::None).env(env).open(DIR).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut waiting, mut last) = (VecDeque::new(), 0);
                while !is_done.load(Ordering::Relaxed) {
                    waiting.push_back(db.iter());
                    if waiting.len() == 5 {
                        let number = batch_shown(waiting.pop_front().unwrap(), last % 2 == 1);
                        assert!(number >= last, "{number} after {last}");
                        last = number;
                    }
                }
            });
            for number in (1..3_000).take_while(|_| !reader.is_finished()) {
                write_batch(&db, number);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        db.settle().unwrap();
        let stats = db.stats();
        assert_eq!(stats.memory_bytes, stats.families.iter().map(|family| family.memory_bytes).sum::<u64>());
        db.flush().unwrap();
        assert_eq!(db.stats().memory_bytes, 0);
    }
}

/// Each memory compaction rewrites all of memory, and an older iterator holds the earlier copy. However many iterators exist,
/// the copies held for them must not exceed the memory budget.
#[test]
fn iterators_do_not_pin_one_copy_of_memory_each() {
    for policy in [MemoryPolicy::Eager, MemoryPolicy::Adaptive { redundancy_percent: 1 }] {
        let (env, _, runtime) = sim_env(1);
        let budget = 256 << 10;
        let options = Options::new()
            .memtable_bytes(budget)
            .tuning(|tuning| tuning.memory_policy(policy).pipeline_segments(1));
        let db = options.env(env).open(DIR).unwrap();
        let mut kept = Vec::new();
        let mut most = 0;
        for number in 0..20_000u32 {
            db.put((number % 500).to_be_bytes(), [number as u8; 200]).unwrap();
            while runtime.help() {}
            if number % 100 == 0 {
                kept.push(db.iter());
            }
            most = most.max(db.stats().memory_held_bytes);
        }
        let counts = db.stats().counts;
        assert!(counts.memory_compactions > 2 && most > 0, "{policy:?}: {counts:?}");
        assert!(most <= 2 * budget as u64, "{policy:?}: {most}");
        drop(kept);
        assert_eq!(db.stats().memory_held_bytes, 0);
    }
}
