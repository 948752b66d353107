//! Flushes and merges step by step: in which order they write, sync, commit and delete, and what an error leaves.
//!
//! The simulated file system records each operation. So a test sees the instant at which a record's home moves from one file to the
//! next. The heads of `jobs/mod.rs` and `jobs/flush.rs` describe the steps.

use super::{Db, MemoryPolicy, Options};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::base::key::KeyRange;
use crate::jobs::Orphans;
use crate::plan::values::gathering::Vain;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::locks::Mutex;
use braidb_storage::sim::{Fault, Lasting, Op, OpKind, SimFs};
use braidb_storage::{Env, Runtime};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A database on a simulated file system. No job runs unless a caller waits for it.
pub(super) struct Bench {
    pub db: Db,
    pub fs: SimFs,
}

/// Memory of 64 KiB. Half of the keys may stay hot. Flushes write values to tables.
pub(super) fn options() -> Options {
    let options = Options::new().memtable_bytes(64 << 10);
    options.tuning(|tuning| {
        tuning
            .memory_policy(MemoryPolicy::Basic)
            .hot_keys_percent(50)
            .log_bytes(64 << 20)
            .log_table_percent(0)
    })
}

impl Bench {
    pub fn new(options: Options) -> Bench {
        Bench::on(SimFs::new(), options)
    }

    pub fn on(fs: SimFs, options: Options) -> Bench {
        Bench::at("/db", fs, options)
    }

    pub fn at(dir: &str, fs: SimFs, options: Options) -> Bench {
        let clock = Arc::new(StepClock::new());
        let runtime: Arc<dyn Runtime> = Arc::new(Inline::new(clock.clone()));
        let random = Arc::new(SeededRandom::new(1));
        let env = Env { fs: Arc::new(fs.clone()), clock, random, runtime };
        Bench { db: options.env(env).open(dir).unwrap(), fs }
    }

    /// The names of the files that end in `extension`.
    pub fn names(&self, extension: &str) -> Vec<String> {
        let paths = self.fs.files().into_iter().filter(|path| has_extension(path, extension));
        paths.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    /// The operations of `work` that change something.
    pub fn recorded<T>(&self, work: impl FnOnce(&Db) -> T) -> (T, Vec<Op>) {
        self.fs.record_ops();
        let outcome = work(&self.db);
        let mut ops = self.fs.take_recorded_ops();
        ops.retain(|op| op.kind.mutates());
        (outcome, ops)
    }

    /// Makes one operation fail: the next that `wanted` picks.
    pub fn fail(&self, fault: Fault, wanted: impl Fn(&Op) -> bool + Send + 'static) {
        let mut is_armed = true;
        self.fs.set_hook(Some(Box::new(move |fs, op| {
            if wanted(op) && std::mem::take(&mut is_armed) {
                fs.fail_nth(1, fault, Lasting::Once, 1);
            }
        })));
    }

    /// Writes `hot` eight times, and then 130 KiB, which is more than memory holds at most.
    fn fill_beside_a_hot_key(&self) {
        for round in 0..8u8 {
            self.db.put("hot", [round; 10]).unwrap();
        }
        self.db.put("big", vec![b'x'; 130 << 10]).unwrap();
    }

    fn entries_in_memory(&self) -> u64 {
        self.db.stats().families[0].memory.iter().map(|layout| layout.entries).sum()
    }
}

pub(super) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

pub(super) fn is(kind: OpKind, extension: &'static str) -> impl Fn(&Op) -> bool + Send + Clone + 'static {
    move |op| op.kind == kind && (extension.is_empty() || has_extension(&op.path, extension))
}

fn first(ops: &[Op], wanted: impl Fn(&Op) -> bool) -> usize {
    ops.iter().position(wanted).unwrap_or_else(|| panic!("no such operation in {ops:#?}"))
}

fn last(ops: &[Op], wanted: impl Fn(&Op) -> bool) -> usize {
    ops.iter().rposition(wanted).unwrap_or_else(|| panic!("no such operation in {ops:#?}"))
}

/// Asserts that each of `places` in `ops` comes behind the one before it.
fn assert_in_order(places: &[(&str, usize)], ops: &[Op]) {
    for pair in places.windows(2) {
        assert!(pair[0].1 < pair[1].1, "{} comes before {}: {ops:#?}", pair[0].0, pair[1].0);
    }
}

#[test]
fn a_flush_syncs_log_and_table_before_its_edit_and_deletes_logs_after_it() {
    let bench = Bench::new(options());
    bench.db.put("a", "1").unwrap();
    bench.db.put("b", "2").unwrap();
    let before = bench.names("log");
    let ((), ops) = bench.recorded(|db| db.flush().unwrap());
    let edit = last(&ops, is(OpKind::SyncData, "manifest"));
    assert_in_order(
        &[
            ("the sync of the log", first(&ops, is(OpKind::SyncData, "log"))),
            ("the edit", edit),
            ("the unlink of the log", first(&ops, is(OpKind::Unlink, "log"))),
        ],
        &ops,
    );
    let table = last(&ops, is(OpKind::SyncData, "table"));
    let name = table + first(&ops[table..], is(OpKind::SyncDir, ""));
    assert_in_order(
        &[("the sync of the table", table), ("the sync of its name", name), ("the edit", edit)],
        &ops,
    );
    assert_eq!(bench.names("table").len(), 1);
    assert!(!bench.names("log").iter().any(|log| before.contains(log)), "no family needs the old logs");
    assert_eq!(bench.entries_in_memory(), 0);
    assert_eq!(bench.db.get("a").unwrap().unwrap(), b"1");
}

#[test]
fn a_flush_that_fails_changes_nothing_and_is_tried_again() {
    let bench = Bench::new(options());
    bench.db.put("a", "1").unwrap();
    let is_append = is(OpKind::Append, "table");
    bench.fail(Fault::Io, is_append);
    let outcome: Result<()> = bench.db.flush();
    assert!(outcome.is_err(), "the caller learns of it");
    assert_eq!(bench.names("table"), [""; 0], "the half table is gone");
    assert_eq!(bench.db.stats().counts.job_failures, 1);
    assert_eq!(bench.db.get("a").unwrap().unwrap(), b"1");

    bench.db.flush().unwrap();
    assert_eq!((bench.names("table").len(), bench.entries_in_memory()), (1, 0));
    assert_eq!(bench.db.get("a").unwrap().unwrap(), b"1");
}

#[test]
fn a_hot_key_is_copied_and_synced_before_the_edit_that_ends_its_old_log() {
    // A table of handles would be merged at once, by a further edit.
    let bench = Bench::new(options().tuning(|tuning| tuning.separation_threshold(None)));
    bench.fill_beside_a_hot_key();
    let ((), ops) = bench.recorded(|db| db.settle().unwrap());
    let counts = bench.db.stats().counts;
    assert_eq!((counts.flushes, counts.hot_kept, counts.written_back), (1, 1, 1));
    assert_eq!(bench.entries_in_memory(), 1, "the hot key alone");
    let copy = last(&ops, is(OpKind::Append, "log"));
    let edit = last(&ops, is(OpKind::SyncData, "manifest"));
    assert_in_order(
        &[
            ("the sync of the table", last(&ops, is(OpKind::SyncData, "table"))),
            ("the copy", copy),
            ("the sync of the copy", copy + first(&ops[copy..], is(OpKind::SyncData, "log"))),
            ("the edit", edit),
            ("the unlink of the old log", first(&ops, is(OpKind::Unlink, "log"))),
        ],
        &ops,
    );
    assert_eq!(bench.db.get("hot").unwrap().unwrap(), [7; 10]);
}

/// The device takes the table, and has no room for a log with the copies.
#[test]
fn without_room_for_copies_no_key_stays() {
    let bench = Bench::new(options());
    // A flush opens its table early once the family is read.
    bench.db.put("first", "v").unwrap();
    bench.db.flush().unwrap();
    assert!(bench.db.get("first").unwrap().is_some());
    bench.fill_beside_a_hot_key();
    let mut has_table = false;
    let mut is_armed = true;
    bench.fs.set_hook(Some(Box::new(move |fs, op| {
        has_table |= is(OpKind::SyncData, "table")(op);
        let needs_room = op.takes_space && has_extension(&op.path, "log");
        if has_table && needs_room && std::mem::take(&mut is_armed) {
            fs.fail_nth(1, Fault::Full, Lasting::Once, 1);
        }
    })));
    bench.db.settle().unwrap();
    assert_eq!(bench.fs.faults_struck(), 1);
    let counts = bench.db.stats().counts;
    assert_eq!((counts.flushes, counts.hot_kept, counts.job_failures), (2, 0, 0));
    assert_eq!((bench.names("table").len(), bench.entries_in_memory()), (2, 0));
    assert_eq!(bench.db.get("hot").unwrap().unwrap(), [7; 10]);
    let files = bench.fs.files();
    let named_bytes: u64 = files.iter().map(|path| bench.fs.allocated_bytes(path).unwrap()).sum();
    assert_eq!(bench.fs.taken_bytes(), named_bytes, "the table of the failed try is open");
}

/// A family without a write since the last flush replays no old log, so its logs go with the logs of the flushed family.
#[test]
fn a_flush_moves_idle_families_on() {
    let bench = Bench::new(options());
    let idle = bench.db.create_column_family("idle").unwrap();
    idle.put("k", "v").unwrap();
    bench.db.flush().unwrap();
    bench.fill_beside_a_hot_key();
    bench.db.settle().unwrap();
    bench.db.flush().unwrap();
    let left = bench.names("log");
    assert_eq!(left.len(), 1, "the log that is written alone: {left:?}");
}

/// Two tables of the same ten keys.
pub(super) fn two_tables() -> Bench {
    let bench = Bench::new(options());
    for round in [1u8, 2] {
        for key in 0..10u8 {
            bench.db.put([key], [round; 100]).unwrap();
        }
        bench.db.flush().unwrap();
    }
    bench
}

/// How often a get of the first key reads a file.
fn reads_of_a_get(bench: &Bench) -> usize {
    bench.fs.record_ops();
    assert!(bench.db.get([0]).unwrap().is_some());
    bench.fs.take_recorded_ops().into_iter().filter(|op| op.kind == OpKind::Read).count()
}

#[test]
fn a_merge_syncs_its_output_before_its_edit_and_deletes_its_inputs_after_it() {
    let bench = two_tables();
    let inputs = bench.names("table");
    let ((), ops) = bench.recorded(|db| db.compact().unwrap());
    let counts = bench.db.stats().counts;
    assert_eq!((counts.merges, counts.entries_dropped), (1, 10));
    let table = last(&ops, is(OpKind::SyncData, "table"));
    let name = table + first(&ops[table..], is(OpKind::SyncDir, ""));
    assert_in_order(
        &[
            ("the sync of the table", table),
            ("the sync of its name", name),
            ("the edit", last(&ops, is(OpKind::SyncData, "manifest"))),
            ("the unlink of an input", first(&ops, is(OpKind::Unlink, "table"))),
        ],
        &ops,
    );
    let outputs = bench.names("table");
    assert!(outputs.len() == 1 && !inputs.contains(&outputs[0]));
    assert!((0..10u8).all(|key| bench.db.get([key]).unwrap().unwrap()[0] == 2));
}

#[test]
fn a_merge_that_fails_leaves_its_inputs_and_gives_up_its_claims() {
    let bench = two_tables();
    let inputs = bench.names("table");
    bench.fail(Fault::Io, is(OpKind::Append, "table"));
    assert!(bench.db.compact().is_err());
    assert_eq!(bench.names("table"), inputs, "no half output is left");
    assert!((0..10u8).all(|key| bench.db.get([key]).unwrap().unwrap()[0] == 2));
    bench.db.compact().unwrap();
    assert_eq!(bench.names("table").len(), 1, "the second try may claim the inputs");
}

/// An iterator reads the tables of its view, so their files stay until it goes.
#[test]
fn the_inputs_of_a_merge_stay_as_long_as_a_reader_needs_them() {
    let bench = two_tables();
    let inputs = bench.names("table");
    let mut iter = bench.db.iter();
    assert_eq!(iter.next().unwrap().unwrap().0, [0]);
    bench.db.compact().unwrap();
    let during = bench.names("table");
    assert!(inputs.iter().all(|input| during.contains(input)), "{during:?}");
    assert_eq!(iter.count(), 9);
    bench.db.settle().unwrap();
    assert_eq!(bench.names("table").len(), 1);
}

/// A flush of a family that is read reads index and filter of its table, and so does a merge of tables that were read. The first get that
/// comes to the new table then reads one block alone. Tables that only writers meet take no memory.
#[test]
fn the_first_get_of_a_new_table_reads_one_block() {
    let bench = two_tables();
    assert!(reads_of_a_get(&bench) > 1, "no reader met the family");
    bench.db.put([0], [3; 100]).unwrap();
    bench.db.flush().unwrap();
    assert_eq!(reads_of_a_get(&bench), 1, "after a flush");
    bench.db.compact().unwrap();
    assert_eq!(reads_of_a_get(&bench), 1, "after a merge");
    let unread = two_tables();
    unread.db.compact().unwrap();
    assert!(reads_of_a_get(&unread) > 1, "no reader met the inputs");
}

/// A move that cuts a table reads the keys next to the cut. It is no reader, so flushes of a family without readers load no index.
#[test]
fn a_cut_counts_as_no_reader() {
    let bench = Bench::new(options().tuning(|tuning| tuning.table_bytes(4 << 10)));
    let flush = |keys: &[u8]| {
        keys.iter().for_each(|&key| bench.db.put([key], [1; 100]).unwrap());
        bench.db.flush().unwrap();
        bench.db.settle().unwrap();
    };
    flush(&Vec::from_iter(0..60));
    // The first table goes down and is halved. The second one is cut on its way down.
    (0..5).for_each(|_| flush(&[0, 59]));
    flush(&[0]);
    let counts = bench.db.stats().counts;
    assert!(counts.cells_split > 0 && counts.trivial_moves > 1 && counts.merges == 0, "{counts:?}");
    assert!(reads_of_a_get(&bench) > 1);
}

/// A flush reads the end of its table while the records still stand in logs. If the end is damaged or cannot be read, the flush fails, and
/// the next try writes another table. If the table cannot be opened, the flush succeeds, and the first reader of the table opens it.
#[test]
fn a_flush_reads_its_table_before_the_logs_go() {
    for (fault, fails) in [(None, true), (Some(OpKind::Read), true), (Some(OpKind::Open), false)] {
        let bench = Bench::new(options());
        bench.db.put("k", "before").unwrap();
        bench.db.flush().unwrap();
        assert_eq!(bench.db.get("k").unwrap().unwrap(), b"before"[..]);
        bench.db.put("k", "v").unwrap();
        let old = bench.names("table")[0].clone();
        let mut is_armed = true;
        bench.fs.set_hook(Some(Box::new(move |fs, op| {
            let is_new = |path: &Path| has_extension(path, "table") && !path.ends_with(&old);
            let Some(table) = fs.files().into_iter().find(|path| is_new(path)) else { return };
            if op.kind != OpKind::SyncDir || !std::mem::take(&mut is_armed) {
                return;
            }
            match fault {
                None => fs.flip_bit(&table, 8 * (fs.written_len(&table).unwrap() - 1)).unwrap(),
                Some(kind) => fs.fail_nth_where(1, Fault::Io, Lasting::Once, 1, is(kind, "table")),
            }
        })));
        let outcome = bench.db.flush();
        assert_eq!(outcome.is_err(), fails, "{fault:?}: {outcome:?}");
        assert_eq!(bench.fs.faults_struck(), u64::from(fault.is_some()));
        assert_eq!(bench.db.stats().counts.job_failures, u64::from(fails));
        bench.db.flush().unwrap();
        assert_eq!(bench.db.get("k").unwrap().unwrap(), b"v"[..]);
    }
}

/// A file system may take 100 ms to free a table's blocks: a job deletes the files that the last reader kept. A close runs the job's work.
#[test]
fn no_reader_deletes_a_file() {
    for closes in [false, true] {
        let bench = two_tables();
        let mut iter = bench.db.iter();
        assert_eq!(iter.next().unwrap().unwrap().0, [0]);
        bench.db.compact().unwrap();
        let (_, ops) = bench.recorded(|_| drop(iter));
        assert!(ops.is_empty(), "the reader changed files: {ops:?}");
        assert_eq!(bench.names("table").len(), 3);
        match closes {
            true => bench.db.close().unwrap(),
            false => while bench.db.engine().unwrap().jobs.parts.env.runtime.help() {},
        }
        assert_eq!(bench.names("table").len(), 1);
    }
}

/// The first put after a reader can use the space of the files that the reader had kept, though no job has run yet.
#[test]
fn a_put_on_a_full_device_gives_back_what_a_reader_had_kept() {
    let bench = Bench::new(options().tuning(|tuning| tuning.log_bytes(64 << 10).table_bytes(64 << 10)));
    let put = |key: u32| bench.db.put(key.to_be_bytes(), [7; 3_000]);
    for _ in 0..2 {
        (0..1_000).for_each(|key| put(key).unwrap());
        bench.db.flush().unwrap();
    }
    let mut iter = bench.db.iter();
    assert!(iter.next().unwrap().is_ok());
    bench.db.compact().unwrap();
    bench.db.settle().unwrap();
    bench.fs.set_capacity(Some(bench.fs.taken_bytes()));
    let refused = (1_000..5_000).map(put).find_map(|outcome| outcome.err()).unwrap();
    assert!(refused.is_full(), "{refused}");
    drop(iter);
    put(5_000).unwrap();
}

/// Each job for readers deletes a few tables, and asks for the next job. A close waits for one.
#[test]
fn a_reader_of_many_tables_is_cleaned_up_in_many_jobs() {
    let bench = Bench::new(options().tuning(|tuning| tuning.table_bytes(4 << 10)));
    let put = |key: u32| bench.db.put(key.to_be_bytes(), [7; 400]).unwrap();
    let rewrite = || {
        (0..100).for_each(put);
        bench.db.compact().unwrap();
        bench.db.settle().unwrap();
    };
    rewrite();
    rewrite();
    let mut iter = bench.db.iter();
    assert!(iter.next().unwrap().is_ok());
    rewrite();
    let living = bench.db.stats().families[0].levels.iter().map(|level| level.tables).sum::<u64>() as usize;
    let all = bench.names("table").len();
    assert!(all - living > 8, "{all}, {living}");
    drop(iter);
    assert_eq!(bench.names("table").len(), all);
    let runtime = &bench.db.engine().unwrap().jobs.parts.env.runtime;
    let mut left = vec![all];
    while runtime.help() {
        left.push(bench.names("table").len());
    }
    assert_eq!(*left.last().unwrap(), living, "{left:?}");
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 8), "{left:?}");
}

/// Tables with ascending keys have nothing to be merged with: the tree takes them down as metadata.
#[test]
fn a_move_writes_no_table() {
    let bench = Bench::new(options());
    for table in 0..6u8 {
        (0..10u8).for_each(|key| bench.db.put([table, key], [0; 100]).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.settle().unwrap();
    let counts = bench.db.stats().counts;
    assert!(counts.trivial_moves > 0 && counts.merges == 0, "{counts:?}");
    assert_eq!(bench.names("table").len(), 6);
}

/// A merge of several tables' length gives up inputs before it writes its last output.
#[test]
fn a_large_merge_gives_up_inputs_while_it_runs() {
    const KEYS: u32 = 2_000;
    let without_guards = |options: Options| {
        options.tuning(|tuning| {
            tuning
                .max_runs_per_guard(1)
                .guards(crate::db::Guards::None)
                .table_bytes(8 << 10)
                .hot_keys_percent(0)
        })
    };
    let bench = Bench::new(without_guards(options()));
    let fill = |round: u8| {
        (0..KEYS).for_each(|key| bench.db.put(key.to_be_bytes(), [round; 500]).unwrap());
        bench.db.flush().unwrap();
    };
    fill(1);
    bench.db.compact().unwrap();
    let tree = bench.db.tree().remove(0);
    assert!(tree.levels[2].cells.iter().any(|cell| !cell.runs.is_empty()), "L1 was over its target");
    fill(2);
    let ((), ops) = bench.recorded(|db| db.compact().unwrap());
    assert_in_order(
        &[
            ("the unlink of an input", first(&ops, is(OpKind::Unlink, "table"))),
            ("the last output", last(&ops, is(OpKind::Create, "table"))),
        ],
        &ops,
    );
    assert!((0..KEYS).all(|key| bench.db.get(key.to_be_bytes()).unwrap().unwrap()[0] == 2));
}

/// A merge that gathers values for scans and fails is not tried again before scans have lost its price once more.
#[test]
fn a_gathering_merge_that_fails_is_given_up_until_scans_pay_again() {
    let bench = Bench::new(options().tuning(|tuning| tuning.separation_threshold(Some(100))));
    for flush in 0..4u8 {
        (0..20).for_each(|key| bench.db.put([key, flush], [flush; 500]).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.compact().unwrap();
    let scattered = bench.names("values");
    assert_eq!(scattered.len(), 4);
    let jobs = &bench.db.engine().unwrap().jobs;
    let pay = || {
        let range = KeyRange { low: vec![0], high: vec![20] };
        jobs.scanned(FamilyId::DEFAULT, Some(range), None, 1, Vain { us: 1_000_000, place_us: 10 });
    };
    bench.fail(Fault::Io, is(OpKind::Append, "values"));
    pay();
    for _ in 0..3 {
        // No writer waited for the merge, so its failure is only counted.
        bench.db.settle().unwrap();
    }
    assert_eq!((bench.names("values"), bench.db.stats().counts.job_failures), (scattered, 1));
    pay();
    bench.db.settle().unwrap();
    assert_eq!(bench.names("values").len(), 1);
    assert_eq!(bench.db.get([7, 3]).unwrap().unwrap(), [3; 500]);
}

/// An orphan may disappear after the open listed it. Recovery may then give its number to a file of its own, which must stay.
#[test]
fn a_file_that_the_state_names_is_no_orphan() {
    let bench = Bench::new(options().tuning(|tuning| tuning.separation_threshold(Some(100))));
    bench.db.put("a", [1; 500]).unwrap();
    bench.db.flush().unwrap();
    let id = |name: &String| (TierId::FAST, FileId(name[..6].parse().unwrap()));
    let ids = |extension| bench.names(extension).iter().map(id).collect();
    let orphans = Orphans { tables: ids("table"), value_files: ids("values") };
    assert_eq!((orphans.tables.len(), orphans.value_files.len()), (1, 1));
    bench.db.engine().unwrap().jobs.collect_after_open(&orphans, &[]);
    assert_eq!((bench.names("table").len(), bench.names("values").len()), (1, 1));
}

/// An unlink takes up to 100 ms, and each job that commits an edit waits for the catalog.
#[test]
fn no_file_is_deleted_under_the_catalog() {
    let bench =
        Bench::new(options().tuning(|tuning| tuning.separation_threshold(Some(100)).log_table_percent(100)));
    let jobs = bench.db.engine().unwrap().jobs.clone();
    let (deleted, under_catalog) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicU64::new(0)));
    let (kinds, count) = (deleted.clone(), under_catalog.clone());
    bench.fs.set_hook(Some(Box::new(move |_, op| {
        if op.kind == OpKind::Unlink {
            kinds.lock().extend(op.path.extension().map(|kind| kind.to_owned()));
            // One thread runs all jobs. So if the catalog is locked here, the thread that unlinks holds the lock.
            count.fetch_add(u64::from(jobs.sampling_threads().is_none()), Ordering::Relaxed);
        }
    })));
    for round in 0..4u8 {
        for key in 0..200u8 {
            let bytes = if key.is_multiple_of(2) { 50 } else { 500 };
            bench.db.put([key], vec![round; bytes]).unwrap();
        }
        bench.db.flush().unwrap();
        bench.db.compact().unwrap();
    }
    bench.db.settle().unwrap();
    bench.fs.write_file(Path::new("/db/900000.table"), b"orphan").unwrap();
    let orphans = Orphans { tables: vec![(TierId::FAST, FileId(900_000))], value_files: Vec::new() };
    bench.db.engine().unwrap().jobs.collect_after_open(&orphans, &[]);
    bench.fs.set_hook(None);
    assert_eq!(under_catalog.load(Ordering::Relaxed), 0);
    let wanted: BTreeSet<_> = ["log", "table", "values"].map(OsString::from).into();
    assert!(deleted.lock().is_superset(&wanted), "{:?}", deleted.lock());
    assert!(!bench.names("table").iter().any(|name| name == "900000.table"));
}

/// Without background merges, L0 is merged only after it slowed a writer down. So a program that only reads does not wait for merges at its
/// close.
#[test]
fn without_background_merges_only_a_writer_that_is_slowed_down_has_l0_relieved() {
    let bench = Bench::new(options().background_merges(false));
    let runs = || bench.db.tree().remove(0).levels[0].cells.iter().map(|cell| cell.runs.len()).sum::<usize>();
    let merges = || bench.db.stats().counts.merges;
    for flush in 0..10u8 {
        bench.db.put("key", [flush]).unwrap();
        bench.db.flush().unwrap();
    }
    assert_eq!((runs(), merges()), (10, 0), "L0 is beyond the mark at which writes slow down");
    for flush in 0..30 {
        bench.db.put("key", vec![flush; 130 << 10]).unwrap();
        bench.db.flush().unwrap();
    }
    assert!(merges() > 0 && runs() < 20, "{} merges, {} runs", merges(), runs());
}

/// Without background merges nothing collects value files, so slowing a writer down would gain nothing.
#[test]
fn without_background_merges_no_garbage_slows_a_writer_down() {
    let is_felt = |background_merges: bool| {
        let options = options().memtable_bytes(4 << 20).background_merges(background_merges);
        let options = options.tuning(|tuning| {
            tuning.separation_threshold(Some(100)).table_bytes(64 << 10).hot_keys_percent(0)
        });
        let bench = Bench::new(options);
        // Two of three values are written again, so each value file keeps one that is alive.
        for (version, keys) in [(0, [true; 3]), (1, [false, true, true])] {
            for key in (0..120u8).filter(|&key| keys[usize::from(key % 3)]) {
                bench.db.put([key], [version; 20_000]).unwrap();
            }
            bench.db.flush().unwrap();
        }
        let jobs = &bench.db.engine().unwrap().jobs;
        // Nothing is collected between the last step of the compaction and its end.
        let mut is_felt = false;
        bench.db.compact_with_progress(|_| is_felt |= jobs.parts.shared.pressure.is_felt()).unwrap();
        is_felt
    };
    assert_eq!([true, false].map(is_felt), [true, false]);
}
