//! Running one workload, and what is measured meanwhile.

use super::Args;
use super::space::{Space, Worst};
use super::workload::{Data, Workload};
use crate::failure::Outcome;
use crate::host::clock::Stopwatch;
use crate::host::process::{self, Usage};
use braidb::{Db, Stats};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a workload did. Differences of before and after, background work included.
pub struct Measured {
    pub workload: Workload,
    pub operations: u64,
    /// Entries that reads returned.
    pub found: u64,
    /// Until the last operation was done.
    pub seconds: f64,
    /// Until the background work was done too.
    pub settled_seconds: f64,
    /// Nanoseconds of each operation.
    pub latency: Histogram<u64>,
    /// What the engine says that it wrote.
    pub written: Written,
    /// What the kernel says.
    pub usage: Usage,
    pub peak_memory_bytes: u64,
    pub stall_us: u64,
    /// At the end.
    pub space: Space,
    /// While it ran and at the end.
    pub worst: Worst,
    /// Since the database was opened.
    pub most_merges_at_once: u64,
}

/// Bytes that the engine wrote, by cause.
pub struct Written {
    pub user_bytes: u64,
    pub flushed_bytes: u64,
    pub merged_bytes: u64,
    pub causes: Vec<(String, u64)>,
    pub total: u64,
}

/// Entries that one operation of `seekrandom` reads.
const ENTRIES_A_SEEK: usize = 50;
/// A thread takes so many operations at once.
const SHARE: u64 = 256;
/// Every so many shares a thread looks what the database takes of the machine: about 200,000 operations.
const SHARES_A_SAMPLE: u64 = 784;
/// Latencies above this (in ns) are recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

pub fn measure(db: &Db, dir: &Path, workload: Workload, data: &Data, args: &Args) -> Outcome<Measured> {
    let operations = args.operations(workload);
    let bar = ProgressBar::new(operations).with_style(
        ProgressStyle::with_template(
            "{prefix:11} {bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left",
        )
        .expect("the template is right"),
    );
    bar.set_prefix(workload.name());
    db.settle()?;
    process::forget_peak_memory();
    let (stats, usage, watch) = (db.stats(), Usage::now(), Stopwatch::start());
    let worst = Worst::default();
    let sample = |operation| worst.sample(dir, args.live_bytes_meanwhile(workload, operation));
    let lanes = run_threads(db, workload, data, args, &bar, &sample)?;
    let seconds = watch.seconds();
    db.settle()?;
    let settled_seconds = watch.seconds();
    let (usage, after) = (Usage::now().since(&usage), db.stats());
    let space = Space::of(db, dir, args.live_bytes(workload));
    sample(operations);
    bar.finish_and_clear();

    let mut latency = new_histogram();
    lanes.iter().for_each(|lane| latency.add(&lane.latency).expect("all have the same bounds"));
    Ok(Measured {
        workload,
        operations,
        found: lanes.iter().map(|lane| lane.found).sum(),
        seconds,
        settled_seconds,
        latency,
        written: written_between(&stats, &after),
        usage,
        peak_memory_bytes: process::peak_memory_bytes(),
        stall_us: after.counts.stall_us - stats.counts.stall_us,
        space,
        worst,
        most_merges_at_once: after.counts.most_merges_at_once,
    })
}

/// What one thread did.
struct Lane {
    found: u64,
    latency: Histogram<u64>,
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are right")
}

fn run_threads(
    db: &Db,
    workload: Workload,
    data: &Data,
    args: &Args,
    bar: &ProgressBar,
    sample: &(dyn Fn(u64) + Sync),
) -> Outcome<Vec<Lane>> {
    let operations = args.operations(workload);
    let next = AtomicU64::new(0);
    let lane = || -> Outcome<Lane> {
        let mut lane = Lane { found: 0, latency: new_histogram() };
        let mut key = Vec::new();
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            if start >= operations {
                return Ok(lane);
            }
            if (start / SHARE).is_multiple_of(SHARES_A_SAMPLE) {
                sample(start);
            }
            let end = operations.min(start + SHARE);
            let mut watch = Stopwatch::start();
            for operation in start..end {
                data.key(workload, operation, &mut key);
                lane.found += perform(db, workload, data, args, operation, &mut key)?;
                lane.latency.saturating_record(watch.lap().as_nanos() as u64);
            }
            bar.inc(end - start);
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..args.threads).map(|_| scope.spawn(lane)).collect();
        running.into_iter().map(|thread| thread.join().expect("a lane does not panic")).collect()
    })
}

/// One operation, on `key`; returns how many entries it found.
fn perform(
    db: &Db,
    workload: Workload,
    data: &Data,
    args: &Args,
    operation: u64,
    key: &mut Vec<u8>,
) -> Outcome<u64> {
    match workload {
        Workload::Queue => {
            db.put(&*key, data.value(workload, operation))?;
            if let Some(oldest) = operation.checked_sub(args.window()) {
                data.key(workload, oldest, key);
                db.delete(&*key)?;
            }
            Ok(0)
        }
        Workload::Fillseq | Workload::Fillrandom | Workload::Overwrite => {
            db.put(&*key, data.value(workload, operation))?;
            Ok(0)
        }
        Workload::Readrandom | Workload::Readmissing => Ok(u64::from(db.get(&*key)?.is_some())),
        Workload::Seekrandom => {
            let mut found = 0;
            for entry in db.range(&**key..).take(ENTRIES_A_SEEK) {
                entry?;
                found += 1;
            }
            Ok(found)
        }
    }
}

fn written_between(before: &Stats, after: &Stats) -> Written {
    let (old, new) = (&before.counts, &after.counts);
    let merged = old.merge_bytes.iter().zip(&new.merge_bytes).map(|(old, new)| new - old);
    let flushed_bytes = new.flush_bytes - old.flush_bytes;
    let mut causes =
        vec![("log".to_owned(), new.log_bytes - old.log_bytes), ("flush".to_owned(), flushed_bytes)];
    causes.extend(merged.clone().enumerate().map(|(level, bytes)| (format!("merge_l{level}"), bytes)));
    causes.push(("manifest".to_owned(), new.manifest_bytes - old.manifest_bytes));
    Written {
        user_bytes: new.user_bytes - old.user_bytes,
        flushed_bytes,
        merged_bytes: merged.sum(),
        causes,
        total: after.total_written_bytes() - before.total_written_bytes(),
    }
}
