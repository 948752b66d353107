//! Corner cases that random operations rarely reach, by subject. Each test is deterministic, or can fail only because of the bug
//! that it looks for.

mod batches;
mod compacting;
mod ends;
mod failures;
mod flushing;
mod memory;
mod opening;
mod reading;
mod settling;
mod verifying;

use braidb::tuning::{Guards, MemoryPolicy};
use braidb::{ColumnFamily, Db, Durability, Error, Iter, Options, WriteBatch};
use braidb_sim::{env_over, sim_env};
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use braidb_storage::sim::{Crash, Fault, Lasting, Op, OpKind, SimFs};
use braidb_storage::{Env, Job, Lane, Runtime};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

const DIR: &str = "/db";

fn small(env: Env) -> Options {
    Options::new().memtable_bytes(4 << 10).env(env)
}

/// Like [`small`], with a leveled tree: one run a level, and no guards.
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

/// Makes one operation fail: the `nth` from now on for which `wanted` is true.
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

/// Takes an image of the files as a kill of the process leaves them, before the `nth` operation from now on for which `wanted` is true. The
/// receiver gets the image.
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
