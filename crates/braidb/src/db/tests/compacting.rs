//! Manual compaction on the caller's thread and on merge threads: which steps run at the same time, and what a failed one leaves.

use super::executor::{Bench, is, options};
use crate::db::{ColumnFamily, Db, Options};
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::locks::Mutex;
use braidb_storage::sim::{Fault, Lasting, OpKind, SimFs};
use braidb_storage::{Env, Job, Lane, Runtime};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of merges that were claimed and have not ended.
fn merges_running(db: &Db) -> usize {
    db.engine().unwrap().jobs.merges_running()
}

#[test]
fn a_compaction_lets_idle_merge_threads_carry_out_steps() {
    for threads in 1..=3 {
        let bench = Bench::new(options().background_threads(threads).background_merges(false));
        let families: Vec<_> =
            ["a", "b", "c", "d"].map(|name| bench.db.create_column_family(name).unwrap()).into();
        for round in 0..4u8 {
            for family in &families {
                (0..400u32).for_each(|number| family.put(number.to_be_bytes(), [round; 60]).unwrap());
            }
            bench.db.flush().unwrap();
        }
        let (most, db) = (Arc::new(AtomicU64::new(0)), bench.db.clone());
        let seen = most.clone();
        bench.fs.set_hook(Some(Box::new(move |_, op| {
            if is(OpKind::Create, "table")(op) {
                let running = db.engine().unwrap().jobs.merges_running();
                seen.fetch_max(running as u64, Ordering::Relaxed);
            }
        })));
        bench.db.compact().unwrap();
        bench.fs.set_hook(None);
        assert_eq!(most.load(Ordering::Relaxed), threads as u64 + 1, "one of the caller, and one a thread");
        for (tree, family) in bench.db.tree().iter().skip(1).zip(&families) {
            let runs: Vec<usize> =
                tree.levels.iter().flat_map(|level| &level.cells).map(|cell| cell.runs.len()).collect();
            assert_eq!(runs.iter().sum::<usize>(), 1, "{runs:?}");
            assert!(family.iter().all(|row| row.unwrap().1 == [3; 60]));
            assert_eq!(family.iter().count(), 400);
        }
    }
}

#[test]
fn a_step_that_fails_on_a_merge_thread_is_done_by_the_caller() {
    let (mut done, mut failed) = (0, 0);
    for nth in 1..=6 {
        let bench = Bench::new(options().background_threads(3).background_merges(false));
        let families = ["a", "b", "c"].map(|name| bench.db.create_column_family(name).unwrap());
        for round in 0..3u8 {
            for family in &families {
                (0..400u32).for_each(|number| family.put(number.to_be_bytes(), [round; 60]).unwrap());
            }
            bench.db.flush().unwrap();
        }
        let created = AtomicU64::new(0);
        bench.fail(Fault::Io, move |op| {
            is(OpKind::Create, "table")(op) && created.fetch_add(1, Ordering::Relaxed) + 1 == nth
        });
        let outcome = bench.db.compact();
        bench.fs.set_hook(None);
        match outcome {
            Ok(()) => done += bench.fs.faults_struck(),
            Err(_) => failed += bench.fs.faults_struck(),
        }
        bench.db.compact().unwrap();
        assert!(families.iter().all(|family| family.iter().all(|row| row.unwrap().1 == [2; 60])));
        assert!(bench.db.verify().unwrap().damages.is_empty());
    }
    assert!(done > 0 && failed > 0, "{done} faults met by merge threads, {failed} by the caller");
}

/// The caller has work in another family meanwhile, so each of its steps could start the failed one anew.
#[test]
fn a_step_that_fails_for_ever_is_started_once_on_a_merge_thread() {
    let bench = Bench::new(options().background_threads(2).background_merges(false));
    let [a, b] = ["a", "b"].map(|name| bench.db.create_column_family(name).unwrap());
    let fill = |family: &ColumnFamily, flushes: u8| {
        for round in 0..flushes {
            (0..400u32).for_each(|number| family.put(number.to_be_bytes(), [round; 60]).unwrap());
            bench.db.flush().unwrap();
        }
    };
    fill(&a, 12);
    let of_a = bench.names("table");
    fill(&b, 2);
    for name in bench.names("table").iter().filter(|name| !of_a.contains(name)) {
        bench.fs.flip_bit(&Path::new("/db").join(name), 8 * 1_000).unwrap();
    }
    let error = bench.db.compact().unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let failures = bench.db.stats().counts.job_failures;
    assert!((1..=2).contains(&failures), "{failures} failures");
}

/// Two steps at a time need space for the outputs of both.
#[test]
fn on_a_full_device_one_step_runs_at_a_time() {
    for stays_full in [false, true] {
        let bench = Bench::new(options().background_threads(2).background_merges(false));
        let families = ["a", "b"].map(|name| bench.db.create_column_family(name).unwrap());
        for round in 0..4u8 {
            for family in &families {
                (0..400u32).for_each(|number| family.put(number.to_be_bytes(), [round; 60]).unwrap());
            }
            bench.db.flush().unwrap();
        }
        let (at_creates, db) = (Arc::new(Mutex::new(Vec::new())), bench.db.clone());
        let seen = at_creates.clone();
        bench.fs.set_hook(Some(Box::new(move |fs, op| {
            if is(OpKind::Create, "table")(op) {
                let is_first = seen.lock().is_empty();
                fs.set_capacity((is_first || stays_full).then(|| fs.taken_bytes()));
                seen.lock().push(merges_running(&db));
            }
        })));
        let outcome = bench.db.compact();
        bench.fs.set_hook(None);
        bench.fs.set_capacity(None);
        let at_creates = at_creates.lock().clone();
        assert!(at_creates[0] > 1 && at_creates.len() > 2, "{at_creates:?}");
        assert!(at_creates[1..].iter().all(|&running| running == 1), "{at_creates:?}");
        let failures = bench.db.stats().counts.job_failures;
        match outcome {
            Ok(()) => assert!(!stays_full && failures == 1, "{failures} failures"),
            Err(error) => assert!(stays_full && error.is_full() && failures == 3, "{failures}: {error}"),
        }
        bench.db.compact().unwrap();
        assert!(families.iter().all(|family| family.iter().all(|row| row.unwrap().1 == [3; 60])));
    }
}

/// A runtime that runs jobs on the thread that waits. While one merge thread is busy, the first merge that it was given does not go on.
#[derive(Debug)]
struct OneBusy {
    inline: Inline,
    busy: Inline,
    is_busy: AtomicBool,
}

impl Runtime for OneBusy {
    fn submit(&self, lane: Lane, job: Job) {
        let is_held = lane == Lane::Merge && self.is_busy.load(Ordering::Relaxed) && self.busy.pending() == 0;
        let queue = if is_held { &self.busy } else { &self.inline };
        queue.submit(lane, job);
    }

    fn help(&self) -> bool {
        self.inline.help() || !self.is_busy.load(Ordering::Relaxed) && self.busy.help()
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn pause_us(&self, us: u64) {
        self.inline.pause_us(us);
    }
}

/// A database with two merge threads, and none of them busy yet.
fn with_one_busy(options: Options) -> (Db, SimFs, Arc<OneBusy>) {
    let (fs, clock) = (SimFs::new(), Arc::new(StepClock::new()));
    let queue = || Inline::new(clock.clone());
    let runtime = Arc::new(OneBusy { inline: queue(), busy: queue(), is_busy: AtomicBool::new(false) });
    let random = Arc::new(SeededRandom::new(1));
    let env = Env { fs: Arc::new(fs.clone()), clock: clock.clone(), random, runtime: runtime.clone() };
    (options.background_threads(2).env(env).open("/db").unwrap(), fs, runtime)
}

/// Writes seven tables to `w`, the third family, and lets merges run. Returns the runs of its L0.
fn fill_l0(db: &Db, w: &ColumnFamily) -> usize {
    for flush in 0..7u8 {
        w.put("key", [flush]).unwrap();
        db.flush().unwrap();
        while db.engine().unwrap().jobs.parts.env.runtime.help() {}
    }
    db.tree()[3].levels[0].cells.iter().map(|cell| cell.runs.len()).sum()
}

/// What a test sees while the caller of `compact` writes its first table: merges that run, merges that do not go on, and runs of L0.
type Seen = (usize, usize, usize);

#[test]
fn l0_is_relieved_while_the_caller_and_a_merge_thread_compact() {
    let options = options().tuning(|tuning| tuning.l0_slowdown_tables(5).l0_stop_tables(20));
    let (db, fs, runtime) = with_one_busy(options);
    let [a, b, w] = ["a", "b", "w"].map(|name| db.create_column_family(name).unwrap());
    for round in 0..2u8 {
        for family in [&a, &b] {
            (0..40u8).for_each(|key| family.put([key], [round; 60]).unwrap());
        }
        db.flush().unwrap();
    }
    let seen: Arc<Mutex<Option<Seen>>> = Arc::default();
    let (hook_seen, hook_db, hook_runtime) = (seen.clone(), db.clone(), runtime.clone());
    fs.set_hook(Some(Box::new(move |_, op| {
        if !is(OpKind::Create, "table")(op) || hook_seen.lock().is_some() {
            return;
        }
        let runs = fill_l0(&hook_db, &w);
        *hook_seen.lock() = Some((merges_running(&hook_db), hook_runtime.busy.pending(), runs));
        hook_runtime.is_busy.store(false, Ordering::Relaxed);
    })));
    runtime.is_busy.store(true, Ordering::Relaxed);
    db.compact().unwrap();
    fs.set_hook(None);
    let (running, held, runs) = seen.lock().take().expect("the caller wrote a table");
    assert_eq!((running, held), (2, 1), "the steps of the caller and of the busy thread");
    assert!(runs < 5, "{runs} runs in L0");
    for family in [&a, &b] {
        assert_eq!(family.iter().filter(|row| row.as_ref().unwrap().1 == [1; 60]).count(), 40);
    }
    db.close().unwrap();
}

/// The step of a caller that gave up holds space of the device until it ends.
#[test]
fn a_step_of_another_caller_counts_as_a_step_beside() {
    let (db, fs, runtime) = with_one_busy(options().background_merges(false));
    let families = ["a", "b"].map(|name| db.create_column_family(name).unwrap());
    for round in 0..4u8 {
        for family in &families {
            (0..400u32).for_each(|number| family.put(number.to_be_bytes(), [round; 60]).unwrap());
        }
        db.flush().unwrap();
    }
    runtime.is_busy.store(true, Ordering::Relaxed);
    fs.set_hook(Some(Box::new(|fs, op| {
        if is(OpKind::Create, "table")(op) {
            fs.fail_nth(1, Fault::Io, Lasting::Once, 1);
        }
    })));
    let error = db.compact().unwrap_err();
    assert!(!error.is_full() && runtime.busy.pending() == 1, "{error}");
    let (hook_runtime, running) = (runtime.clone(), Arc::new(Mutex::new(Vec::new())));
    let (hook_running, hook_db) = (running.clone(), db.clone());
    fs.set_hook(Some(Box::new(move |fs, op| {
        if is(OpKind::Create, "table")(op) {
            let is_full = hook_runtime.is_busy.swap(false, Ordering::Relaxed);
            fs.set_capacity(is_full.then(|| fs.taken_bytes()));
            hook_running.lock().push(merges_running(&hook_db));
        }
    })));
    db.compact().unwrap();
    fs.set_hook(None);
    assert!(running.lock()[0] == 2 && running.lock()[1..].iter().all(|&running| running == 1), "{running:?}");
    assert!(families.iter().all(|family| family.iter().all(|row| row.unwrap().1 == [3; 60])));
    db.close().unwrap();
}

/// The one merge thread is idle: two callers carry out their steps themselves.
#[test]
fn l0_is_relieved_while_two_callers_compact() {
    let options = options().background_threads(1);
    let bench = Bench::new(options.tuning(|tuning| tuning.l0_slowdown_tables(5).l0_stop_tables(20)));
    let [a, b, w] = ["a", "b", "w"].map(|name| bench.db.create_column_family(name).unwrap());
    let fill = |db: &Db, family: &ColumnFamily| {
        for round in 0..2u8 {
            (0..40u8).for_each(|key| family.put([key], [round; 60]).unwrap());
            db.flush().unwrap();
        }
    };
    fill(&bench.db, &a);
    let seen: Arc<Mutex<Option<(usize, usize)>>> = Arc::default();
    let (first_seen, first_db) = (seen.clone(), bench.db.clone());
    bench.fs.set_hook(Some(Box::new(move |fs, op| {
        if !is(OpKind::Create, "table")(op) || first_seen.lock().is_some() {
            return;
        }
        fill(&first_db, &b);
        let (seen, db, w) = (first_seen.clone(), first_db.clone(), w.clone());
        fs.set_hook(Some(Box::new(move |fs, op| {
            if is(OpKind::Create, "table")(op) && seen.lock().is_none() {
                *seen.lock() = Some((merges_running(&db), fill_l0(&db, &w)));
                // The second caller would wait for the first one for ever.
                fs.fail_nth(1, Fault::Io, Lasting::Once, 1);
            }
        })));
        first_db.compact().unwrap_err();
    })));
    bench.db.compact().unwrap();
    bench.fs.set_hook(None);
    let (running, runs) = seen.lock().take().expect("the second caller wrote a table");
    assert_eq!(running, 2, "a step of each caller");
    assert!(runs < 5, "{runs} runs in L0");
    assert_eq!(bench.db.stats().counts.job_failures, 1);
}

/// What a test runs: it gets the callback for its progress.
type Work<'a> = &'a dyn Fn(&mut dyn FnMut(u64)) -> crate::Result<()>;

/// Work of a caller that `progress` ends by a panic, as a binding does for Ctrl-C.
#[test]
fn a_callback_that_panics_ends_the_work_and_leaves_the_database_in_order() {
    let bench = Bench::new(options().background_merges(false));
    for round in 0..4u8 {
        (0..400u32).for_each(|number| bench.db.put(number.to_be_bytes(), [round; 60]).unwrap());
        bench.db.flush().unwrap();
    }
    let mut ended = 0;
    for nth in 1..=3u32 {
        let works: [Work<'_>; 2] =
            [&|progress| bench.db.compact_range_with_progress(.., progress), &|progress| {
                bench.db.verify_with_progress(progress).map(|_| ())
            }];
        for work in works {
            let mut calls = 0;
            let mut progress = |_| {
                calls += 1;
                if calls == nth {
                    resume_unwind(Box::new("enough"));
                }
            };
            ended += u32::from(catch_unwind(AssertUnwindSafe(|| work(&mut progress))).is_err());
            assert!(bench.db.stats().poisoned.is_none());
            assert_eq!(bench.db.verify().unwrap().damages, []);
            bench.db.put(nth.to_be_bytes(), [3; 60]).unwrap();
        }
    }
    assert!(ended > 3, "{ended}");
    bench.db.compact().unwrap();
    assert!(bench.db.iter().all(|row| row.unwrap().1 == [3; 60]));
}
