//! Threads that delete files: which callers wait for them, and which do not.

use super::executor::{Bench, has_extension, two_tables};
use crate::base::error::Error;
use braidb_storage::Lane;
use braidb_storage::sim::OpKind;
use std::path::Path;
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
                jobs.parts.shared.pressure.failed(Lane::Flush, Error::io("write", Path::new("a table"), full));
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
