//! Log collections and merges with other work between their steps, and iterators after the close.

mod checkpoint;
mod compacting;
mod damaged;
mod deletions;
mod estimate;
mod excise;
mod executor;
mod footprint;
mod get_many;
mod interrupted;
mod memory_limit;
mod memory_simulator;
mod rent;
mod transactions;
mod value_holes;

use super::{Db, MemoryPolicy, Options};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId};
use crate::log::{EncodedBatch, LogSync, LogWriter};
use crate::plan::memory::logs::Goal;
use crate::table::Reason;
use crate::visible::EntryKind;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::locks::Mutex;
use braidb_storage::real::RealFs;
use braidb_storage::{Clock, Env, FileSystem, Job, Lane, Runtime};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A directory for one test. It is removed at the end, and so is the copy that [`killed`] made of it.
struct Scratch(PathBuf);

impl Scratch {
    fn remove(&self) {
        for dir in [&self.0, &self.0.with_extension("killed")] {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The path of a directory that does not exist.
fn dir(test: &str) -> Scratch {
    let dir = std::env::temp_dir().join(format!("braidb-collection-{test}-{}", std::process::id()));
    let dir = Scratch(dir);
    dir.remove();
    dir
}

/// Opens with memory that never fills up, and logs of 16 KiB each. No job runs unless a caller waits for it.
fn open(dir: &Path, active_percent: u32) -> Db {
    open_or(dir, active_percent).unwrap()
}

fn open_or(dir: &Path, active_percent: u32) -> Result<Db> {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(RealFs), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    let options =
        Options::new().memtable_bytes(1 << 20).tuning(|tuning| tuning.memory_policy(MemoryPolicy::Basic));
    options.tuning(|tuning| tuning.active_percent(active_percent).log_bytes(64 << 10)).env(env).open(dir)
}

#[test]
fn an_open_waits_for_the_lock_as_long_as_it_may() {
    let bench = executor::Bench::new(executor::options());
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env {
        fs: Arc::new(bench.fs.clone()),
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(1)),
        runtime,
    };
    let wait = Duration::from_secs(2);
    let refused = executor::options().env(env).wait_for_lock(wait).open("/db");
    assert!(matches!(refused, Err(Error::Locked { .. })));
    assert!((2_000_000..2_020_000).contains(&clock.now_us()), "{}", clock.now_us());
}

/// Copies the files that a killed process leaves, without `LOCK`.
fn killed(dir: &Path) -> PathBuf {
    let copy = dir.with_extension("killed");
    let _ = std::fs::remove_dir_all(&copy);
    RealFs.create_dir_all(&copy).unwrap();
    for entry in RealFs.list(dir).unwrap() {
        if entry.name != "LOCK" {
            let (from, to) = (RealFs.open(&dir.join(&entry.name)), RealFs.create(&copy.join(&entry.name)));
            let from = from.unwrap();
            let mut bytes = vec![0; from.len().unwrap() as usize];
            from.read_exact_at(0, &mut bytes).unwrap();
            to.unwrap().append(&bytes).unwrap();
        }
    }
    copy
}

/// Overwrites one key until the log is rotated.
fn fill_a_log(db: &Db) {
    let before = db.stats().counts.logs_rotated;
    while db.stats().counts.logs_rotated == before {
        db.put("hot", [b'h'; 100]).unwrap();
    }
}

/// Collects the logs, and calls `meanwhile` after the beginning. Returns whether there was something to do, and no memtable was switched in
/// between.
fn collect(db: &Db, meanwhile: impl FnOnce()) -> bool {
    let jobs = &db.engine().unwrap().jobs;
    let mut begun =
        db.engine().unwrap().queue.begin_log_collection().unwrap().expect("no flush is under way");
    meanwhile();
    let near_bound = jobs.parts.options.memory.log_excess(u64::MAX, 0).expect("log collection is on");
    let Some(replay_from) = jobs.choose_logs(&begun, Goal::Shorten(near_bound)) else { return false };
    let is_written = jobs.write_back(&mut begun, replay_from).unwrap();
    if is_written {
        jobs.finish_log_collection(&mut begun, replay_from).unwrap();
    }
    db.engine().unwrap().queue.end_copies();
    is_written
}

/// The bytes by family and reason have the same sum as those of flushes, merges and value files. A table of recovery counts for its family.
#[test]
fn written_bytes_tell_the_family_and_the_reason() {
    let (dir, open) = (dir("reasons"), |dir: &Path, memtable_bytes: usize| {
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let env = Env { fs: Arc::new(RealFs), clock, random: Arc::new(SeededRandom::new(1)), runtime };
        Options::new().memtable_bytes(memtable_bytes).env(env).open(dir).unwrap()
    });
    let db = open(&dir, 4 << 20);
    let other = db.create_column_family("b").unwrap();
    let fill = |byte: u8| {
        for n in 0..200_u32 {
            db.put(n.to_be_bytes(), [byte; 100]).unwrap();
            // These values go to value files.
            other.put(n.to_be_bytes(), [byte; 2000]).unwrap();
        }
    };
    let check = |db: &Db, reasons: [&[Reason]; 2]| {
        let (stats, mut sum) = (db.stats(), 0);
        for (family, reasons) in stats.families.iter().zip(reasons) {
            let written = || family.written_bytes.iter();
            assert_eq!(written().map(|(reason, _)| *reason).collect::<Vec<_>>(), reasons, "{}", family.name);
            assert!(written().all(|(_, bytes)| *bytes > 0));
            sum += written().map(|(_, bytes)| bytes).sum::<u64>();
        }
        let (counts, merged) = (&stats.counts, stats.counts.merge_bytes.iter().sum::<u64>());
        assert_eq!(sum, counts.flush_bytes + counts.value_file_bytes + merged);
        stats
            .families
            .iter()
            .map(|family| family.written_bytes.iter().map(|(_, bytes)| bytes).sum())
            .collect()
    };
    fill(1);
    db.flush().unwrap();
    let flushed: Vec<u64> = check(&db, [&[Reason::Flush], &[Reason::Flush]]);
    assert!(flushed[0] < 100_000 && flushed[1] > 400_000, "{flushed:?}");
    fill(2);
    db.compact().unwrap();
    check(&db, [&[Reason::Flush, Reason::Compact], &[Reason::Flush, Reason::Compact]]);
    fill(3);
    let recovered = open(&killed(&dir), 16 << 10);
    let written: Vec<u64> = check(&recovered, [&[Reason::Recovery], &[Reason::Recovery]]);
    assert!(written[1] > 5 * written[0], "{written:?}");
}

/// The memtable is switched after a log collection began and before it takes the view. The view's pipeline shows no segment that the flush
/// took, so there is nothing to copy, and no later step looks for a switch.
#[test]
fn a_switch_before_the_view_is_taken_ends_a_log_collection() {
    let dir = dir("freeze");
    let db = open(&dir, 1);
    db.put("cold", "v").unwrap();
    fill_a_log(&db);
    let queue = db.engine().unwrap().queue.clone();
    let collected = collect(&db, || drop(queue.switch_all_memtables().unwrap()));
    assert_eq!(db.get("cold").unwrap().unwrap(), b"v");
    let reopened = open(&killed(&dir), 1);
    assert_eq!(reopened.get("cold").unwrap().as_deref(), Some(&b"v"[..]), "collected: {collected:?}");
}

/// A log fills up while live records are counted. The next log was not there when the collection began, and must not become the log to
/// replay from. Records written meanwhile to the full log are in a segment that the view does not show.
#[test]
fn a_log_that_fills_up_during_the_count_does_not_go() {
    let dir = dir("full");
    let db = open(&dir, 1);
    fill_a_log(&db);
    let collected = collect(&db, || {
        let before = db.stats().counts.memory_flushes;
        while db.stats().counts.memory_flushes == before {
            db.put("hot", [b'h'; 100]).unwrap();
        }
        db.put("fresh", "v").unwrap();
        fill_a_log(&db);
    });
    assert_eq!(db.get("fresh").unwrap().unwrap(), b"v");
    let reopened = open(&killed(&dir), 1);
    assert_eq!(reopened.get("fresh").unwrap().as_deref(), Some(&b"v"[..]), "collected: {collected:?}");
}

/// A log fills up during the count while the segment is still active. The records of the new log are copied, since the old log is taken
/// for their home. Recovery then meets both the copy and the original record.
#[test]
fn a_log_that_begins_during_the_count_is_not_copied() {
    let dir = dir("twice");
    let db = open(&dir, 100);
    fill_a_log(&db);
    let collected = collect(&db, || {
        fill_a_log(&db);
        db.put("fresh", "v").unwrap();
    });
    assert_eq!(db.get("fresh").unwrap().unwrap(), b"v");
    let reopened = open(&killed(&dir), 100);
    assert_eq!(reopened.get("fresh").unwrap().as_deref(), Some(&b"v"[..]), "collected: {collected:?}");
}

/// Logs with right checksums in which a sequence number comes twice. A second commit with the number is damage; a copy of a record that
/// is there is left out. Neither causes a panic.
#[test]
fn a_number_that_comes_twice_in_the_logs_is_no_panic() {
    for is_copy in [false, true] {
        let dir = dir(if is_copy { "copied" } else { "committed" });
        let db = open(&dir, 1);
        let image = killed(&dir);
        let mut logs = RealFs.list(&image).unwrap();
        logs.retain(|entry| entry.name.ends_with(".log"));
        assert_eq!(logs.len(), 1);
        let id: u64 = logs[0].name.trim_end_matches(".log").parse().unwrap();
        RealFs.unlink(&image.join(&logs[0].name)).unwrap();
        drop(db);

        let sync = Arc::new(LogSync::new(Arc::new(RealFs), &image, Arc::new(Counters::default())));
        let mut log = LogWriter::create(sync, FileId(id), None, 0).unwrap();
        let mut batch = EncodedBatch::default();
        batch.push_put(FamilyId(0), b"k", b"v");
        log.append(&[(&batch, 1)], true).unwrap();
        log.rotate(FileId(id + 1), true).unwrap();
        if is_copy {
            batch.clear();
            batch.push_written_back(FamilyId(0), 1, EntryKind::Put, b"k", b"v");
            log.append_written_back(&batch, FileId(0)).unwrap();
        } else {
            log.append(&[(&batch, 1)], true).unwrap();
        }
        match open_or(&image, 1) {
            Ok(db) => assert_eq!(db.get("k").unwrap().unwrap(), b"v"),
            Err(error) => assert!(!is_copy && error.is_corruption(), "{error}"),
        }
    }
}

/// Opens with small memory, in which half of the keys may stay hot. Only the test rotates logs. No job runs unless a caller waits for
/// it.
fn open_hot(dir: &Path, memtable_bytes: usize) -> Db {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(RealFs), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    let options = Options::new()
        .memtable_bytes(memtable_bytes)
        .tuning(|tuning| tuning.memory_policy(MemoryPolicy::Basic));
    options.tuning(|tuning| tuning.hot_keys_percent(50).log_bytes(64 << 20)).env(env).open(dir).unwrap()
}

/// Collects the logs before `replay_from`, whatever it costs.
fn collect_before(db: &Db, replay_from: FileId) {
    let engine = db.engine().unwrap();
    let mut begun = engine.queue.begin_log_collection().unwrap().expect("no flush is under way");
    assert!(engine.jobs.write_back(&mut begun, replay_from).unwrap());
    engine.jobs.finish_log_collection(&mut begun, replay_from).unwrap();
    engine.queue.end_copies();
}

/// A flush copies a hot key of one family to the log. Then another family's log is collected, and this family is flushed. The log with
/// the only copy must not be taken for a log that holds nothing.
#[test]
fn a_hot_key_outlives_log_collections_and_flushes_of_another_family() {
    let dir = dir("two-families");
    let db = open_hot(&dir, 64 << 10);
    let (queue, other) = (db.engine().unwrap().queue.clone(), db.create_column_family("b").unwrap());
    let rotate = || queue.close_copies().unwrap().next;
    let big = vec![b'x'; 130 << 10];

    db.put("a1", "v").unwrap();
    let second = rotate();
    for round in 0..8u8 {
        other.put("hot", [round; 10]).unwrap();
    }
    rotate();
    db.put("a2", "v").unwrap();
    // Far more than memory holds: the memtable of `other` is switched at once, and its hot key stays.
    other.put("big", &big).unwrap();
    db.settle().unwrap();
    assert_eq!(db.stats().counts.hot_kept, 1);

    // The first log goes without a flush: it holds records of the first family only.
    collect_before(&db, second);
    // The first family is flushed; the logs up to the flush of `other` go.
    db.put("big", &big).unwrap();
    db.settle().unwrap();
    // All closed logs without live records go.
    let logs = db.stats().logs;
    let first_alive = logs.iter().position(|log| log.live_entries > 0).unwrap_or(logs.len() - 1);
    if first_alive > 0 {
        collect_before(&db, FileId(logs[first_alive].id));
    }

    assert_eq!(other.get("hot").unwrap().unwrap(), [7; 10]);
    let reopened = open_hot(&killed(&dir), 64 << 10);
    let found = reopened.column_family("b").unwrap().get("hot").unwrap();
    assert_eq!(found.as_deref(), Some(&[7; 10][..]), "{logs:?}");
}

/// The tuner's periods count all writes of the family, the bytes that stayed, and the bytes overwritten before the next flush.
#[test]
fn periods_of_flushes_tell_what_hot_keys_cost_and_save() {
    let dir = dir("tuner");
    let db = open_hot(&dir, 64 << 10);
    let (other, value) = (db.create_column_family("b").unwrap(), [7u8; 200]);
    let tuner = || db.stats().families[0].hot_keys.clone().expect("hot keys are on");
    assert_eq!((tuner().ppm, tuner().periods.len()), (500_000, 0));
    // Keys 0 to 7 are written about three times before each of four flushes, keys 8 to 15 before the first three only.
    let (mut writes, mut cold) = (0, 0u32);
    // Returns the writes between two switches. Those behind the second one count for the next flush.
    let mut flush = |hot: std::ops::Range<u8>| {
        let flushes = db.stats().counts.flushes;
        let mut counted = None;
        while counted.is_none() {
            let has_hot = cold % 8 == 0;
            cold += 1;
            let hot = hot.clone().filter(|_| has_hot).map(|key| vec![key]);
            for key in hot.chain([cold.to_be_bytes().to_vec(), b"x".to_vec()]) {
                if key == b"x" {
                    other.put(key, "y").unwrap();
                } else {
                    db.put(key, value).unwrap();
                    writes += 1;
                }
                db.settle().unwrap();
                if counted.is_none() && db.stats().counts.flushes > flushes {
                    counted = Some(std::mem::take(&mut writes));
                }
            }
        }
        counted.unwrap()
    };
    flush(0..16);
    let counted = flush(0..16) + flush(0..16) + flush(0..8);
    let period = tuner().periods[0].clone();
    assert_eq!((period.ppm, period.flushes, period.writes), (500_000, 3, counted));
    let entry_bytes = period.saved_bytes / (16 + 16 + 8);
    assert!((200..300).contains(&entry_bytes) && period.saved_bytes == 40 * entry_bytes, "{period:?}");
    assert!(period.written_back_bytes >= 40 * entry_bytes, "{period:?}");
    assert!(period.flush_bytes > 0, "{period:?}");
    assert_eq!(tuner().ppm, 0, "none is tried after the first period");
}

/// Memory that a compaction kept of a family still counts after all its keys were deleted. A writer that waits at the hard limit must be
/// admitted in the end.
#[test]
fn memory_that_was_compacted_keeps_no_writer_waiting() {
    let dir = dir("shrunk");
    let db = open_hot(&dir, 1 << 20);
    let other = db.create_column_family("b").unwrap();
    let budget = 1u64 << 20;
    let memory = |index: usize| db.stats().families[index].memory_bytes;
    let wait = || db.settle().unwrap();
    // Nearly a budget of different keys, some of them overwritten: memory is compacted once, and nearly all of it stays.
    let mut put = 0u32;
    while db.stats().memory_bytes < budget {
        db.put((put % 860).to_be_bytes(), [1; 1000]).unwrap();
        put += 1;
    }
    wait();
    assert_eq!(db.stats().counts.full_memory_compactions, 1, "{:?}", db.stats().counts);
    let kept = memory(0);
    // All keys of the first family are deleted.
    for key in (0..860u32).chain(0..860) {
        db.delete(key.to_be_bytes()).unwrap();
        if key % 64 == 0 {
            wait();
        }
    }
    wait();
    // The other family fills memory with live records.
    let mut key = 0u32;
    while db.stats().memory_bytes < (kept + budget / 2).max(budget) {
        other.put(key.to_be_bytes(), [2; 1000]).unwrap();
        key += 1;
    }
    wait();
    // One more budget of writes must be admitted.
    for n in 0..1500u32 {
        let bytes = db.stats().memory_bytes;
        assert!(
            bytes < 2 * budget || db.stats().counts.flushes > 0,
            "write {n} would wait forever: {bytes} bytes"
        );
        other.put((key + n).to_be_bytes(), [2; 1000]).unwrap();
        wait();
    }
}

/// `flush` leaves nothing in memory, even if a flush that leaves hot keys is under way and memory is full again at its end.
#[test]
fn a_flush_that_was_asked_for_leaves_nothing_in_memory() {
    let dir = dir("asked");
    let db = open_hot(&dir, 64 << 10);
    let hot = || (0..8u8).for_each(|round| db.put("hot", [round; 10]).unwrap());
    hot();
    // Memory that was full of live records is not compacted the next time.
    db.put("big", vec![b'x'; 121 << 10]).unwrap();
    db.settle().unwrap();
    hot();
    // The memtable is switched at once, and its flush waits in the queue. Meanwhile memory fills up again.
    db.put("big", vec![b'x'; 66 << 10]).unwrap();
    hot();
    db.put("large", vec![b'x'; 70 << 10]).unwrap();
    assert_eq!(db.stats().counts.flushes, 1);
    db.flush().unwrap();
    let left: u64 = db.stats().families[0].memory.iter().map(|layout| layout.entries).sum();
    assert_eq!(left, 0, "after {} flushes", db.stats().counts.flushes);
}

/// A memory compaction is due while a merge of segments is under way and the active segment is empty.
#[test]
fn memory_compaction_ends_when_full_memory_is_compacted_beside_a_merge() {
    for steps in 0..6 {
        let dir = dir(&format!("beside-{steps}"));
        let db = open_hot(&dir, 1 << 20);
        let other = db.create_column_family("b").unwrap();
        let mut key = 0u32;
        let mut put_until_rolled = || {
            let before = db.stats().counts.memory_flushes;
            while db.stats().counts.memory_flushes == before {
                db.put(key.to_be_bytes(), [1; 1000]).unwrap();
                key += 1;
            }
        };
        // Each roll leaves an empty active segment.
        let runtime = &db.engine().unwrap().jobs.parts.env.runtime;
        while db.stats().memory_bytes < 850 << 10 {
            while runtime.help() {}
            put_until_rolled();
        }
        // The segment is flattened, and then merged with the rest: two jobs each.
        (0..steps).for_each(|_| {
            runtime.help();
        });
        while db.stats().memory_bytes < 1 << 20 {
            other.put([0; 4], [2; 1000]).unwrap();
        }
        let is_done = (0..10_000).any(|_| !runtime.help());
        assert!(is_done, "after {steps} steps: {:?}", db.stats().families[0].memory);
    }
}

/// A runtime that runs jobs on the thread that waits. When a job sleeps, the runtime replaces the version of the tree.
#[derive(Debug)]
struct Interrupted {
    inline: Inline,
    /// Taken at the first sleep, so the version is replaced once.
    db: Mutex<Option<Db>>,
}

impl Runtime for Interrupted {
    fn submit(&self, lane: Lane, job: Job) {
        self.inline.submit(lane, job);
    }

    fn help(&self) -> bool {
        self.inline.help()
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn pause_us(&self, us: u64) {
        self.inline.pause_us(us);
        let Some(db) = self.db.lock().take() else { return };
        let version = Arc::downgrade(&db.engine().unwrap().view().unwrap().families[0].version);
        db.put("other", "v").unwrap();
        db.flush().unwrap();
        assert!(version.upgrade().is_none(), "a merge that holds a version keeps replaced files on disk");
    }
}

#[test]
fn a_merge_holds_no_version() {
    let dir = dir("merge");
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Interrupted { inline: Inline::new(clock.clone()), db: Mutex::default() });
    let random = Arc::new(SeededRandom::new(1));
    let env = Env { fs: Arc::new(RealFs), clock, random, runtime: runtime.clone() };
    let db = Options::new().merge_bytes_per_second(Some(1 << 20)).env(env).open(&*dir).unwrap();
    for round in 0..2 {
        (0..500u32).for_each(|key| db.put(key.to_be_bytes(), [round; 1000]).unwrap());
        db.flush().unwrap();
    }
    *runtime.db.lock() = Some(db.clone());
    db.compact().unwrap();
    assert!(runtime.db.lock().is_none(), "no merge slept");
    assert_eq!(db.get("other").unwrap().unwrap(), b"v");
}

/// An edit is synced under the catalog. A put that would wait for the catalog would wait here for ever.
#[test]
fn no_put_and_no_scan_waits_for_an_edit() {
    let dir = dir("catalog");
    let db = open(&dir, 10);
    let jobs = db.engine().unwrap().jobs.clone();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        jobs.with_files(|_, _, _| {
            scope.spawn(|| {
                let before = db.engine().unwrap().shared.counters.logs_rotated.get();
                // Memory of 1 MiB, and logs of 16 KiB: memtables are switched, and logs become full.
                (0..3_000u32).for_each(|key| db.put(key.to_be_bytes(), [7; 200]).unwrap());
                assert!(db.engine().unwrap().shared.counters.logs_rotated.get() > before + 10);
                assert_eq!(db.iter().count(), 3_000);
                (0..3_000u32).for_each(|key| db.delete(key.to_be_bytes()).unwrap());
                assert_eq!(db.iter().count(), 0);
                ended.send(()).unwrap();
            });
            end.recv_timeout(std::time::Duration::from_secs(60)).expect("a writer or a reader waits");
        });
    });
    db.settle().unwrap();
}

/// Also a range without keys fails, which reads nothing.
#[test]
fn iterators_fail_after_the_close_whatever_their_range_holds() {
    let dir = dir("closed-iterators");
    let db = open(&dir, 2);
    db.put("key", "value").unwrap();
    let held = [db.iter(), db.range("z".."a")];
    let mut cursors = [db.iter().cursor(), db.range("z".."a").cursor()];
    assert!(db.range("z".."a").next().is_none() && !cursors[1].last().unwrap());
    db.close().unwrap();
    for mut iter in held.into_iter().chain([db.iter(), db.range("z".."a")]) {
        assert!(matches!(iter.next_back(), Some(Err(Error::Closed))) && iter.next().is_none());
    }
    for cursor in &mut cursors {
        assert!([cursor.next(), cursor.seek("key"), cursor.value().map(|_| true)].iter().all(Result::is_err));
    }
}

/// Handles of other languages stay until their collector finds them.
#[test]
fn a_close_gives_the_block_cache_back() {
    let dir = dir("closed-cache");
    let db = open(&dir, 2);
    for key in 0..1000_u32 {
        db.put(key.to_be_bytes(), [7; 1000]).unwrap();
    }
    db.flush().unwrap();
    let held = db.iter();
    assert_eq!(db.iter().count(), 1000);
    assert!(db.stats().cache_bytes > 100_000, "{}", db.stats().cache_bytes);
    let engine = db.engine().unwrap();
    db.close().unwrap();
    assert_eq!(engine.cache.bytes(), 0);
    drop(held);
}

/// The runtime tells the memory; `braidb_storage` tests how.
#[test]
fn the_cache_takes_an_eighth_of_the_memory_unless_it_is_told() {
    let default = |memory_bytes| Options::new().cache_bytes(|| memory_bytes);
    assert_eq!([None, Some(0), Some(256 << 20)].map(default), [64 << 20; 3]);
    assert_eq!([Some(4 << 30), Some(8 << 30), Some(u64::MAX)].map(default), [512 << 20, 1 << 30, 1 << 30]);
    assert_eq!(Options::new().block_cache_bytes(7).cache_bytes(|| unreachable!("it is not asked")), 7);

    let dir = dir("default-cache");
    let env = braidb_storage::real::env(1).unwrap();
    let expected = default(env.runtime.memory_bytes()) as u64;
    assert_eq!(Options::new().open(&*dir).unwrap().stats().cache_limit_bytes, expected);
    assert_eq!(Options::new().block_cache_bytes(0).open(&*dir).unwrap().stats().cache_limit_bytes, 0);
}
