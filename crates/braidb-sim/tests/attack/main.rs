//! Bugs found by reading the code, where random operations rarely reach. Each test is deterministic, or can fail only because
//! of its bug.

mod failures;
mod memory;

use braidb::{ColumnFamily, Db, Durability, Error, Guards, Iter, MemoryPolicy, Options, WriteBatch};
use braidb_sim::fs::{Crash, Fault, Lasting, Op, OpKind, SimFs};
use braidb_sim::{env_over, sim_env};
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use braidb_storage::{Env, Job, Lane, Runtime};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

const DIR: &str = "/db";

fn small(env: Env) -> Options {
    Options::new().memtable_bytes(4 << 10).env(env)
}

/// Like [`small`], with a tree whose L0 goes down by merges that leave the rest of a level free.
fn leveled(env: Env) -> Options {
    small(env).tuning(|tuning| tuning.max_runs_per_guard(1).guards(Guards::None))
}

/// Opens the files of `fs`, as another process would.
fn reopen(fs: &SimFs) -> Result<Db, Error> {
    small(env_over(Arc::new(fs.clone()), 2).0).open(DIR)
}

fn is_kind(op: &Op, kind: OpKind, extension: &str) -> bool {
    op.kind == kind && op.path.extension().is_some_and(|found| found == extension)
}

/// Makes one operation fail: the `nth` from now that `wanted` picks.
fn fail_when(fs: &SimFs, mut nth: u64, fault: Fault, wanted: impl Fn(&Op) -> bool + Send + 'static) {
    fs.set_hook(Some(Box::new(move |fs, op| {
        if wanted(op) && nth > 0 {
            nth -= 1;
            if nth == 0 {
                fs.fail_nth(1, fault, Lasting::Once, 1);
            }
        }
    })));
}

/// Sends what a killed process leaves before an operation: the `nth` from now that `wanted` picks.
fn image_when(
    fs: &SimFs,
    mut nth: u64,
    wanted: impl Fn(&Op) -> bool + Send + 'static,
) -> mpsc::Receiver<SimFs> {
    let (sender, receiver) = mpsc::channel();
    fs.set_hook(Some(Box::new(move |fs, op| {
        if wanted(op) && nth > 0 {
            nth -= 1;
            if nth == 0 {
                sender.send(fs.crash_image(Crash::Process, 1)).unwrap();
            }
        }
    })));
    receiver
}

fn newest(fs: &SimFs, extension: &str) -> PathBuf {
    let files = fs.files().into_iter();
    files.filter(|path| path.extension().is_some_and(|found| found == extension)).max().expect("there is one")
}

/// An open that crashes after it made its log leaves a log without a footer. A family that needs nothing of this log must not
/// make it look cut off.
#[test]
fn a_crash_while_opening_is_not_taken_for_damage_later() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    db.column_family("empty").unwrap();
    db.put("k", "v").unwrap();
    let fs = fs.crash_image(Crash::Process, 1);
    // The image is taken before the second append to the new manifest, the edit.
    let image = image_when(&fs, 2, |op| is_kind(op, OpKind::Append, "manifest"));
    drop(reopen(&fs).unwrap());
    let fs = image.try_recv().unwrap();
    for open in 1..=4 {
        let db = reopen(&fs).unwrap_or_else(|error| panic!("open {open}: {error}"));
        assert_eq!(db.get("k").unwrap().unwrap(), b"v");
        db.close().unwrap();
        let (env, _) = env_over(Arc::new(fs.clone()), 3);
        let report = small(env).verify(DIR).unwrap();
        assert!(report.damages.is_empty(), "open {open}: {report:?}");
    }
}

/// The header of a log from which a family replays was synced before the manifest said so.
#[test]
fn a_damaged_header_of_the_oldest_log_is_no_torn_one() {
    let (env, fs, runtime) = sim_env(1);
    let db = Options::new().tuning(|tuning| tuning.log_bytes(4 << 10)).env(env).open(DIR).unwrap();
    let (second, third) = (db.column_family("second").unwrap(), db.column_family("third").unwrap());
    // Logs over their bound switch the memtable of the first family, then of the second. The third has a record in the log
    // between.
    db.put("k", [0; 5000]).unwrap();
    let oldest = newest(&fs, "log");
    let mut batch = WriteBatch::new();
    batch.put_in(&second, "k", "v").put_in(&third, "k", "v");
    db.write(batch).unwrap();
    assert!(runtime.help(), "the first flush");
    second.put("large", [0; 5000]).unwrap();
    assert!(runtime.help(), "the second flush; the third waits");
    let fs = fs.crash_image(Crash::Process, 1);
    fs.flip_bit(&oldest, 100).unwrap();
    match reopen(&fs) {
        Err(error) => assert!(error.is_corruption(), "{error}"),
        Ok(db) => assert!(db.column_family("third").unwrap().get("k").unwrap().is_some(), "silently lost"),
    }
}

/// Closing lets another process in, so it must wait for a running compaction.
#[test]
fn closing_waits_for_a_compaction() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    for round in 0..3u8 {
        (0..5u8).for_each(|n| db.put([n], [round; 20]).unwrap());
        db.flush().unwrap();
    }
    let (merging, is_merging) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let waits = AtomicBool::new(true);
    fs.set_hook(Some(Box::new(move |_, op| {
        if is_kind(op, OpKind::Append, "table") && waits.swap(false, Ordering::Relaxed) {
            merging.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
    })));
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| db.compact());
        is_merging.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        scope.spawn(|| {
            db.close().unwrap();
            let again = reopen(&fs);
            closed.store(true, Ordering::Release);
            again.unwrap()
        });
        // Long enough for `close` to finish if it does not wait. The wait can miss the bug, but cannot fail without it.
        for _ in 0..20_000 {
            if closed.load(Ordering::Acquire) {
                break;
            }
            std::thread::yield_now();
        }
        go_on.send(()).unwrap();
    });
    fs.set_hook(None);
    drop(db);
    let db = reopen(&fs).unwrap();
    assert_eq!(db.iter().map(|entry| entry.unwrap().1).filter(|value| *value == [2; 20]).count(), 5);
}

/// Making a plan and claiming its ranges is one step.
#[test]
fn two_threads_may_compact_at_once() {
    for seed in 0..300 {
        let (env, _, _) = sim_env(seed);
        let db = small(env).open(DIR).unwrap();
        for round in 0..2u8 {
            (0..5u8).for_each(|n| db.put([n], [round; 20]).unwrap());
            db.flush().unwrap();
        }
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            let compact = || {
                start.wait();
                db.compact().unwrap();
            };
            let other = scope.spawn(compact);
            compact();
            other.join().unwrap();
        });
    }
}

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

/// A runtime with a writer that never stops: after each job, memory is full again.
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
        // The writer is taken out meanwhile, because a waiting writer asks for help itself.
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

/// `verify` reads every log of an open database, and logs that are still needed to their ends.
#[test]
fn verify_reads_the_logs_of_waiting_flushes() {
    for at_end in [false, true] {
        let (env, fs, _) = sim_env(1);
        let db = small(env).open(DIR).unwrap();
        let first = newest(&fs, "log");
        while newest(&fs, "log") == first {
            db.put("k", [0; 1000]).unwrap();
        }
        db.put("k", "v").unwrap();
        assert!(db.verify().unwrap().damages.is_empty());
        let log = if at_end { first } else { newest(&fs, "log") };
        let bytes = fs.written_len(&log).unwrap();
        fs.flip_bit(&log, 8 * bytes - 4).unwrap();
        assert!(!db.verify().unwrap().damages.is_empty(), "in the last byte of {}", log.display());
    }
}

/// Logs behind a cut are never read again, so `verify` reports no damage in them.
#[test]
fn verify_leaves_out_what_was_set_aside() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    let first = newest(&fs, "log");
    while newest(&fs, "log") == first {
        db.put("k", [0; 1000]).unwrap();
    }
    (0..5).for_each(|_| db.put("k", "v").unwrap());
    let fs = fs.crash_image(Crash::Process, 1);
    let bytes = fs.read_file(&first).unwrap();
    fs.write_file(&first, &bytes[..bytes.len() - 40]).unwrap();
    fs.flip_bit(&newest(&fs, "log"), 8 * 60).unwrap();
    let db = Options::new().env(env_over(Arc::new(fs.clone()), 1).0).open(DIR).unwrap();
    assert_eq!(db.recovery().set_aside.len(), 1);
    let report = db.verify().unwrap();
    assert!(report.damages.is_empty(), "{report:?}");
}

/// `verify` finds no damage while writers make the manifest roll over.
#[test]
fn verify_bears_a_manifest_that_rolls_over() {
    let (env, _, _) = sim_env(1);
    let db = small(env).tuning(|tuning| tuning.manifest_bytes(1 << 10)).open(DIR).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..300u32 {
                db.put(number.to_be_bytes(), "v").unwrap();
                db.flush().unwrap();
            }
            ends.store(true, Ordering::Release);
        });
        while !ends.load(Ordering::Acquire) {
            let report = db.verify().unwrap();
            assert!(report.damages.is_empty(), "{report:?}");
        }
    });
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

/// A call of `compact` plans the merges, but writers do not wait for its end. L0 is still emptied meanwhile.
#[test]
fn writing_goes_on_beside_a_compaction() {
    let (env, fs, _) = sim_env(1);
    let options =
        leveled(env).tuning(|tuning| tuning.l0_merge_tables(4).l0_slowdown_tables(5).l0_stop_tables(6));
    let db = options.open(DIR).unwrap();
    for _ in 0..2 {
        db.put("a", [1; 100]).unwrap();
        db.flush().unwrap();
    }
    let (writer, mut is_armed) = (db.clone(), true);
    fs.set_hook(Some(Box::new(move |_, op| {
        if is_armed && is_kind(op, OpKind::Append, "table") {
            is_armed = false;
            for number in 0..400u32 {
                writer.put([&b"z"[..], &number.to_be_bytes()].concat(), [2; 200]).unwrap();
            }
        }
    })));
    db.compact().unwrap();
    fs.set_hook(None);
    assert!(db.stats().counts.flushes > 10, "more tables than L0 may hold");
    assert_eq!(db.iter().count(), 401);
}

/// A flush gives its logs back before the database checks whether there are too many logs.
#[test]
fn a_flush_for_the_logs_makes_no_other_one() {
    let (env, _, runtime) = sim_env(1);
    let db = Options::new().tuning(|tuning| tuning.log_bytes(4 << 10)).env(env).open(DIR).unwrap();
    let other = db.column_family("other").unwrap();
    db.put("k", [0; 5000]).unwrap();
    other.put("k", "v").unwrap();
    assert!(runtime.help(), "the flush");
    while runtime.help() {}
    assert_eq!(db.stats().counts.flushes, 1, "another flush ran, of a few bytes");
}

const BATCH_KEYS: u64 = 12;
