//! Threads that delete files: which callers wait for them, which do not, and that none deletes after the close.

use super::executor::{Bench, has_extension, is, options, two_tables};
use crate::base::error::Error;
use crate::base::names;
use crate::db::ValueLayout;
use braidb_storage::inline::{SeededRandom, StepClock};
use braidb_storage::real::Threads;
use braidb_storage::sim::{OpKind, SimFs};
use braidb_storage::{Env, Lane};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long a test waits for a thread that may hang.
const WATCHDOG: Duration = Duration::from_secs(30);

impl Bench {
    /// Keeps the thread that unlinks the next file with this name or extension from going on. The receiver tells that the thread is there,
    /// and the drop of the sender lets it go on.
    fn block_unlink(&self, name: &'static str) -> (Receiver<()>, Sender<()>) {
        let (reached, is_reached) = channel();
        let (release, is_released) = channel::<()>();
        let mut is_armed = true;
        self.fs.set_hook(Some(Box::new(move |_, op| {
            let is_it = has_extension(&op.path, name) || op.path.ends_with(name);
            if op.kind == OpKind::Unlink && is_it && std::mem::take(&mut is_armed) {
                reached.send(()).unwrap();
                let _ = is_released.recv();
            }
        })));
        (is_reached, release)
    }
}

/// One thread deletes a table, and another one flushes. If a flush job fails after the table of the flush is synced, the flush has succeeded.
#[test]
fn a_flush_waits_for_no_deletion_of_others() {
    for fails in [false, true] {
        let bench = two_tables();
        let mut iter = bench.db.iter();
        assert!(iter.next().unwrap().is_ok());
        bench.db.compact().unwrap();
        drop(iter);
        let jobs = bench.db.engine().unwrap().jobs.clone();
        let (is_reached, release) = bench.block_unlink("table");
        let flushes = bench.db.stats().counts.flushes;
        let (ended, outcome) = channel();
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| jobs.collect_garbage_now());
            is_reached.recv().unwrap();
            bench.db.put("first", "v").unwrap();
            let db = &bench.db;
            scope.spawn(move || ended.send(db.flush()));
            while bench.db.stats().counts.flushes == flushes {
                std::thread::yield_now();
            }
            if fails {
                let full = std::io::ErrorKind::StorageFull.into();
                jobs.parts
                    .shared
                    .pressure
                    .failed(Lane::Flush, Error::io("write", Path::new("a table"), full));
            }
            let outcome = outcome.recv_timeout(WATCHDOG);
            drop(release);
            assert!(collector.join().unwrap());
            outcome.expect("the flush waited for the deletion").expect("its table is synced");
        });
        assert_eq!(bench.names("table").len(), 2, "the merged table, and that of the flush");
        bench.db.flush().unwrap();
    }
}

/// A put on a full device has memory flushed. It is tried again when the flush has deleted its logs, on another thread.
#[test]
fn a_put_on_a_full_device_waits_for_the_logs_of_its_flush() {
    let (fs, clock, random) = (SimFs::new(), Arc::new(StepClock::new()), Arc::new(SeededRandom::new(1)));
    fs.set_capacity(Some(4 << 20));
    let env = Env { fs: Arc::new(fs.clone()), clock, random, runtime: Arc::new(Threads::new(1).unwrap()) };
    let db = options().memtable_bytes(8 << 20).env(env).open("/db").unwrap();
    let (ended, has_ended) = channel::<()>();
    let mut is_armed = true;
    fs.set_hook(Some(Box::new(move |_, op| {
        if is(OpKind::Unlink, "log")(op) && std::mem::take(&mut is_armed) {
            // A put that does not wait is refused by then.
            let _ = has_ended.recv_timeout(Duration::from_millis(200));
        }
    })));
    let mut puts = 0u32;
    while db.stats().counts.flushes == 0 {
        db.put([puts as u8 % 10], [7; 1_000]).unwrap();
        puts += 1;
    }
    assert!(puts > 500, "{puts} puts filled the device");
    drop(ended);
}

/// A program may call the engine on another thread while it closes the database, and drop an iterator afterwards.
#[test]
fn no_thread_deletes_a_file_after_the_close() {
    let bench = two_tables();
    let mut iter = bench.db.iter();
    assert!(iter.next().unwrap().is_ok());
    bench.db.compact().unwrap();
    let jobs = bench.db.engine().unwrap().jobs.clone();
    bench.db.close().unwrap();
    let (_, ops) = bench.recorded(|_| {
        drop(iter);
        jobs.collect_garbage_now();
        jobs.collect_garbage();
    });
    assert!(ops.is_empty(), "{ops:?}");
    assert_eq!(bench.names("table").len(), 3, "the inputs stay for the next open");
}

/// After the close another database may take the directory of a tier, or delete it.
#[test]
fn a_close_waits_until_an_evacuated_directory_is_left() {
    let bench = Bench::new(options().slow_path("/slow"));
    let (is_reached, release) = bench.block_unlink(names::TIER);
    let (closed, is_closed) = channel();
    std::thread::scope(|scope| {
        let evacuation = scope.spawn(|| bench.db.evacuate("/slow", drop));
        is_reached.recv().unwrap();
        let db = &bench.db;
        scope.spawn(move || closed.send(db.close()));
        // A close that does not wait is through by then.
        let early = is_closed.recv_timeout(Duration::from_millis(300));
        drop(release);
        early.expect_err("the close returned before TIER was deleted");
        evacuation.join().unwrap().unwrap();
        is_closed.recv_timeout(WATCHDOG).unwrap().unwrap();
    });
    assert!(!bench.fs.files().iter().any(|path| path.starts_with("/slow") && !path.ends_with(names::LOCK)));
}

/// A thread panics between the sync of an edit and the return of the commit. The next open needs the files that the edit names.
#[test]
fn a_panic_after_the_sync_of_an_edit_deletes_no_file() {
    for (layout, merges) in [ValueLayout::Ordered, ValueLayout::Trie { levels: 0 }]
        .into_iter()
        .flat_map(|it| [(it, false), (it, true)])
    {
        let options =
            || options().tuning(|tuning| tuning.separation_threshold(Some(100)).value_layout(layout));
        let bench = Bench::new(options());
        let put = |round: u8| (0..20u8).for_each(|key| bench.db.put([key], [round; 200]).unwrap());
        put(1);
        bench.db.flush().unwrap();
        put(2);
        if merges {
            bench.db.flush().unwrap();
        }
        let (mut has_table, mut is_synced) = (false, false);
        bench.fs.set_hook(Some(Box::new(move |_, op| {
            has_table |= is(OpKind::Create, "table")(op);
            is_synced |= has_table && is(OpKind::SyncData, "manifest")(op);
            assert!(!(is_synced && is(OpKind::Append, "manifest")(op)), "planted");
        })));
        let work = || if merges { bench.db.compact() } else { bench.db.flush() };
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        assert!(bench.db.stats().poisoned.is_some());
        let Bench { db, fs } = bench;
        drop(db);
        fs.set_hook(None);
        let bench = Bench::on(fs, options());
        assert!((0..20u8).all(|key| bench.db.get([key]).unwrap().unwrap() == [2; 200]));
        assert_eq!(bench.db.verify().unwrap().damages, []);
    }
}
