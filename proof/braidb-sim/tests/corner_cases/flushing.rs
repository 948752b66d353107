//! Flushes and syncs: when they end, what they make stable, and what they give back.

use super::*;

/// An empty batch with `Sync` makes all earlier writes stable.
#[test]
fn an_empty_batch_syncs_too() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    db.put("k", "v").unwrap();
    db.write_with(WriteBatch::new(), Durability::Sync).unwrap();
    let db = reopen(&fs.crash_image(Crash::PowerAllLost, 1)).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"v");
}

/// A runtime that plays a writer which never stops: after each job it fills the memory again.
#[derive(Debug)]
struct Busy {
    inline: Arc<dyn Runtime>,
    writer: Mutex<Option<Db>>,
    steps: AtomicU64,
}

impl Runtime for Busy {
    fn submit(&self, lane: Lane, job: Job) {
        self.inline.submit(lane, job);
    }

    fn help(&self) -> bool {
        let helped = self.inline.help();
        // Takes the handle out while it writes. A `put` that waits calls `help` itself, and this inner call must not write too.
        let writer = self.writer.lock().unwrap().take();
        if let Some(db) = writer {
            assert!(self.steps.fetch_add(1, Ordering::Relaxed) < 1_000, "a call waits without end");
            db.put("k", [0; 5_000]).unwrap();
            *self.writer.lock().unwrap() = Some(db);
        }
        helped
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn pause_us(&self, us: u64) {
        self.inline.pause_us(us);
    }
}

/// A flush does not wait for writes that came after its call.
#[test]
fn a_flush_ends_although_writing_goes_on() {
    let (mut env, _, _) = sim_env(1);
    let busy = Arc::new(Busy { inline: env.runtime, writer: Mutex::default(), steps: AtomicU64::new(0) });
    env.runtime = busy.clone();
    let db = small(env).open(DIR).unwrap();
    db.put("first", "v").unwrap();
    *busy.writer.lock().unwrap() = Some(db.clone());
    db.flush().unwrap();
    db.compact().unwrap();
    busy.writer.lock().unwrap().take();
    assert_eq!(db.get("first").unwrap().unwrap(), b"v");
}

/// Fills a device that is smaller than the memory budget. Accepted writes stay, and the database opens any number of times.
/// Deleting and compacting make room for new writes.
#[test]
fn a_device_smaller_than_memory_fills_and_empties() {
    let (env, fs, _) = sim_env(1);
    fs.set_capacity(Some(4 << 20));
    let options = |env: Env| {
        Options::new().memtable_bytes(8 << 20).tuning(|tuning| tuning.table_bytes(64 << 10)).env(env)
    };
    let db = options(env).open(DIR).unwrap();
    let key = |number: u32| number.to_be_bytes();
    let value = [7; 1000];
    let mut accepted = 0;
    let refused = loop {
        match db.put(key(accepted), value) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.is_full(), "{refused}");
    assert!(accepted > 1000, "only {accepted} writes of 1 KB fit in 4 MiB");
    drop(db);
    let reopen = || options(env_over(fs.clone(), 2).0).open(DIR).unwrap();
    for _ in 0..8 {
        assert_eq!(reopen().iter().count(), accepted as usize);
    }
    let db = reopen();
    for number in 0..accepted / 2 {
        db.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    for number in 0..accepted / 4 {
        db.put(key(number), value).unwrap();
    }
    assert_eq!(db.iter().count(), (accepted - accepted / 2 + accepted / 4) as usize);
    assert!(db.verify().unwrap().damages.is_empty());
}

/// A flush gives its logs back before the database checks whether there are too many logs.
#[test]
fn a_flush_for_the_logs_makes_no_other_one() {
    let (env, _, runtime) = sim_env(1);
    let db = Options::new().tuning(|tuning| tuning.log_bytes(4 << 10)).env(env).open(DIR).unwrap();
    let other = db.create_column_family("other").unwrap();
    db.put("k", [0; 5000]).unwrap();
    other.put("k", "v").unwrap();
    assert!(runtime.help(), "the flush");
    while runtime.help() {}
    assert_eq!(db.stats().counts.flushes, 1, "another flush ran, of a few bytes");
}

/// A flush that failed once is tried again while memory compaction keeps memory small. Otherwise logs would grow until the device is full.
#[test]
fn logs_stay_bounded_after_a_flush_failed_once() {
    const LOG_BYTES: u64 = 64 << 10;
    for policy in [MemoryPolicy::Eager, MemoryPolicy::Adaptive { redundancy_percent: 20 }] {
        let (env, fs, _) = sim_env(1);
        let runtime = env.runtime.clone();
        let options = Options::new().memtable_bytes(256 << 10).env(env);
        let options = options.tuning(|tuning| {
            tuning.memory_policy(policy).log_bytes(LOG_BYTES).log_rewrite_percent(0).hot_keys_percent(0)
        });
        let db = options.open(DIR).unwrap();
        fail_when(&fs, 1, Fault::Full, |op| is_kind(op, OpKind::Append, "table"));
        for number in 0..20_000u32 {
            db.put("hot", [number as u8; 100]).unwrap();
            while runtime.help() {}
            assert!(db.stats().log_bytes_live < 8 * LOG_BYTES, "{policy:?}: at put {number}");
        }
        let counts = db.stats().counts;
        assert_eq!(counts.job_failures, 1, "{policy:?}: the first flush failed");
        assert!(counts.flushes > 10, "{policy:?}: {} flushes", counts.flushes);
    }
}
