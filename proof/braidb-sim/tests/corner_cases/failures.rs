//! A write, a sync or a job that fails or panics: what other threads see of it, then and after the next open.

use super::*;

/// After a failed commit the database cannot know whether the manifest names the new tables, so they must stay.
#[test]
fn a_poisoned_commit_keeps_its_tables() {
    for nth in 1..=2 {
        for merges in [false, true] {
            let (env, fs, _) = sim_env(1);
            let db = small(env).open(DIR).unwrap();
            db.put("k", "1").unwrap();
            if merges {
                db.flush().unwrap();
                db.put("k", "2").unwrap();
                db.flush().unwrap();
            }
            fail_when(&fs, nth, Fault::Io, |op| is_kind(op, OpKind::Append, "manifest"));
            let outcome = if merges { db.compact() } else { db.flush() };
            assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
            drop(db);
            fs.set_hook(None);
            let db = reopen(&fs).unwrap_or_else(|error| panic!("append {nth}, merges {merges}: {error}"));
            assert_eq!(db.get("k").unwrap().unwrap(), if merges { b"2" } else { b"1" });
        }
    }
}

/// Tables that recovery writes must stay if its commit to the manifest fails.
#[test]
fn a_poisoned_recovery_keeps_its_tables() {
    let (env, fs, _) = sim_env(1);
    let db = Options::new().env(env).open(DIR).unwrap();
    (0..100u8).for_each(|n| db.put([n], [n; 200]).unwrap());
    let fs = fs.crash_image(Crash::Process, 1);
    // The appends are the snapshot, the edit of recovery, and the mark that it is synced.
    fail_when(&fs, 3, Fault::Io, |op| is_kind(op, OpKind::Append, "manifest"));
    assert!(reopen(&fs).is_err());
    fs.set_hook(None);
    let db = reopen(&fs).unwrap();
    assert_eq!(db.iter().count(), 100);
}

/// A failed sync of the directory may have lost the name of a log too, even if a merge asked for the sync.
#[test]
fn a_failed_sync_of_the_directory_is_final() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).durability(Durability::Sync).open(DIR).unwrap();
    for round in 0..2u8 {
        db.put("k", [round]).unwrap();
        db.flush().unwrap();
    }
    // While a merge is about to sync the names of its tables, a writer fills the memory. The new log has no stable name yet.
    let (writer, counter) = (db.clone(), AtomicU64::new(0));
    fs.set_hook(Some(Box::new(move |fs, op| {
        if op.kind == OpKind::SyncDir && counter.fetch_add(1, Ordering::Relaxed) == 0 {
            let logs = newest(fs, "log");
            while newest(fs, "log") == logs {
                writer.put("fill", [0; 1000]).unwrap();
            }
            fs.fail_nth(1, Fault::Sync, Lasting::Once, 1);
        }
    })));
    assert!(db.compact().is_err());
    fs.set_hook(None);
    if db.put("acknowledged", "yes").is_ok() {
        let fs = fs.crash_image(Crash::PowerAllLost, 1);
        assert!(reopen(&fs).unwrap().get("acknowledged").unwrap().is_some());
    }
}

/// A frame that may be in the log keeps its sequence numbers, even if the writer panicked after it and its caller continues.
#[test]
fn a_panic_under_the_commit_lock_is_final() {
    for (kind, what) in [(OpKind::Append, "in front of the frame"), (OpKind::SyncData, "behind the frame")] {
        let (env, fs, _) = sim_env(1);
        let db = small(env).open(DIR).unwrap();
        db.put("before", "v").unwrap();
        db.persist(Durability::Sync).unwrap();
        fs.set_hook(Some(Box::new(move |_, op| assert!(!is_kind(op, kind, "log"), "planted"))));
        let mut batch = WriteBatch::new();
        batch.put("lost", "v");
        let write = std::panic::AssertUnwindSafe(|| db.write_with(batch, Durability::Sync));
        assert!(std::panic::catch_unwind(write).is_err(), "{what}");
        fs.set_hook(None);
        assert!(matches!(db.put("after", "v"), Err(Error::Poisoned { .. })), "{what}");
        assert_eq!(db.get("before").unwrap().unwrap(), b"v");
        drop(db);
        let db = reopen(&fs).unwrap();
        assert_eq!(db.get("before").unwrap().unwrap(), b"v");
        assert_eq!(db.get("after").unwrap(), None);
    }
}

/// Writers that wait to be committed learn that their leader panicked, whether they spin or sleep.
#[test]
fn waiting_writers_learn_that_their_leader_panicked() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    let (sender, is_appending) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let mut appends = 0;
    fs.set_hook(Some(Box::new(move |_, op| {
        if is_kind(op, OpKind::Append, "log") {
            appends += 1;
            assert!(appends < 2, "planted");
            sender.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
    })));
    let outcomes = std::thread::scope(|scope| {
        scope.spawn(|| db.put("first", "v").unwrap());
        is_appending.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        let others = ["a", "b", "c"].map(|key| {
            let db = &db;
            scope.spawn(move || {
                let put = std::panic::AssertUnwindSafe(|| db.put(key, "v"));
                std::panic::catch_unwind(put)
            })
        });
        // Long enough for the writers to queue. A later writer finds the database poisoned.
        (0..20_000).for_each(|_| std::thread::yield_now());
        go_on.send(()).unwrap();
        others.map(|other| other.join().unwrap())
    });
    fs.set_hook(None);
    let panicked = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let poisoned =
        outcomes.iter().filter(|outcome| matches!(outcome, Ok(Err(Error::Poisoned { .. })))).count();
    assert_eq!((panicked, poisoned), (1, 2), "{outcomes:?}");
    drop(db);
    let db = reopen(&fs).unwrap();
    assert_eq!(db.iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [b"first"]);
}

/// The next job does not take up work that a panicked job left half done.
#[test]
fn a_panicked_job_poisons_before_its_work_is_given_back() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    db.put("k", "v").unwrap();
    fs.set_hook(Some(Box::new(|_, op| assert!(!is_kind(op, OpKind::Append, "table"), "planted"))));
    let flush = std::panic::AssertUnwindSafe(|| db.flush());
    let flushed = std::panic::catch_unwind(flush);
    assert!(!matches!(flushed, Ok(Ok(()))), "the hook was met");
    fs.set_hook(None);
    assert!(matches!(db.flush(), Err(Error::Poisoned { .. })));
    assert_eq!(db.stats().counts.flushes, 0);
    assert_eq!(db.get("k").unwrap().unwrap(), b"v");
    drop(db);
    assert_eq!(reopen(&fs).unwrap().get("k").unwrap().unwrap(), b"v");
}

/// A failing merge does not fail calls that wait for memory to be flushed.
#[test]
fn a_failing_merge_does_not_fail_a_flush() {
    let (env, fs, runtime) = sim_env(1);
    // Without hot keys, full memory is flushed and not compacted first.
    let db = leveled(env).tuning(|tuning| tuning.hot_keys_percent(0)).open(DIR).unwrap();
    // L1 covers the keys of L0, so a table of L0 cannot go down without a merge.
    ["a", "z"].iter().for_each(|key| db.put(key, [0; 100]).unwrap());
    db.compact().unwrap();
    let l0_tables = || db.stats().families[0].levels[0].tables;
    for key in b'b'..b'z' {
        if l0_tables() == 4 {
            break;
        }
        db.put([key], [1; 5_000]).unwrap();
        assert!(runtime.help(), "a flush of a full memtable, or a merge");
    }
    assert_eq!(l0_tables(), 4, "L0 is due");
    db.put("f", [2; 100]).unwrap();
    // The merge that is due runs first, and fails while the flush waits.
    fail_when(&fs, 1, Fault::Io, |op| is_kind(op, OpKind::Create, "table"));
    let flushed = db.flush();
    fs.set_hook(None);
    assert_eq!(db.stats().counts.job_failures, 1, "the merge failed");
    flushed.unwrap();
    db.settle().unwrap();
    assert_eq!(db.get("f").unwrap().unwrap(), [2; 100]);
}

/// A thread panics within `compact`, between two steps or in one. Between steps nothing is half done, and the scheduler plans
/// merges again. In a step the database is poisoned, and closing it waits for nothing.
#[test]
fn a_panic_within_compact_gives_planning_back() {
    let planted = |op: &Op, is_in_a_step: bool| match is_in_a_step {
        true => is_kind(op, OpKind::Append, "table"),
        // The tables that a step replaced are deleted after the step.
        false => is_kind(op, OpKind::Unlink, "table"),
    };
    for is_in_a_step in [false, true] {
        let (env, fs, _) = sim_env(1);
        let db = leveled(env).open(DIR).unwrap();
        let put = |keys: [&str; 2]| {
            keys.iter().for_each(|key| db.put(key, [1; 100]).unwrap());
            db.flush()
        };
        put(["a", "c"]).unwrap();
        put(["b", "d"]).unwrap();
        fs.set_hook(Some(Box::new(move |fs, op| {
            if planted(op, is_in_a_step) {
                fs.set_hook(None);
                panic!("planted");
            }
        })));
        let compact = std::panic::AssertUnwindSafe(|| db.compact());
        assert!(std::panic::catch_unwind(compact).is_err(), "the hook was met");
        if is_in_a_step {
            assert!(matches!(db.put("k", "v"), Err(Error::Poisoned { .. })));
            assert!(matches!(db.settle(), Err(Error::Poisoned { .. })));
            assert!(db.close().is_err());
        } else {
            let merges = db.stats().counts.merges;
            for _ in 0..4 {
                put(["a", "d"]).unwrap();
            }
            db.settle().unwrap();
            assert!(db.stats().counts.merges > merges, "no merge was planned");
            assert_eq!(db.iter().count(), 4);
            db.close().unwrap();
        }
        drop(db);
        assert_eq!(reopen(&fs).unwrap().get("b").unwrap().unwrap(), [1; 100]);
    }
}
