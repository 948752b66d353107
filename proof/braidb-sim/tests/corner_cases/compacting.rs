//! `compact` while writers write, while another `compact` runs, and at the close of the database.

use super::*;

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

/// Two calls of `compact` never plan merges of the same ranges, because a thread plans and claims the ranges in one step.
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

/// A call of `compact` plans the merges, but writers do not wait for its end. L0 is still emptied meanwhile.
#[test]
fn writing_goes_on_beside_a_compaction() {
    let (env, fs, _) = sim_env(1);
    let options = leveled(env).tuning(|tuning| tuning.l0_slowdown_tables(5).l0_stop_tables(6));
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
