//! Running one workload, and what is measured meanwhile.

use super::Settings;
use super::space::{Space, Worst};
use super::workload::{Data, Workload};
use crate::failure::Outcome;
use crate::host::clock::{self, Stopwatch};
use crate::host::process::{self, Usage};
use braidb::{Db, Stats};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a workload did. Differences of before and after, background work included.
pub struct Measured {
    pub workload: Workload,
    /// The workload's operations, by all its threads.
    pub lane: Lane,
    /// What the one more thread did that writes beside readers.
    pub writer: Option<Lane>,
    /// Until the last operation was done.
    pub seconds: f64,
    /// Until the background work was done too.
    pub settled_seconds: f64,
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
    pub flushes: u64,
    pub merges: u64,
    /// Since the database was opened.
    pub most_merges_at_once: u64,
}

impl Measured {
    /// Reads and writes.
    pub fn all_operations(&self) -> u64 {
        self.lane.operations + self.writer.as_ref().map_or(0, |writer| writer.operations)
    }
}

/// What one thread did, or several.
pub struct Lane {
    pub operations: u64,
    /// Entries that reads returned.
    pub found: u64,
    /// Nanoseconds of each operation.
    pub latency: Histogram<u64>,
}

impl Lane {
    fn new() -> Lane {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are right");
        Lane { operations: 0, found: 0, latency }
    }

    fn record(&mut self, found: u64, took: Duration) {
        self.operations += 1;
        self.found += found;
        self.latency.saturating_record(took.as_nanos() as u64);
    }

    fn add(&mut self, other: &Lane) {
        self.operations += other.operations;
        self.found += other.found;
        self.latency.add(&other.latency).expect("all have the same bounds");
    }
}

/// Bytes that the engine wrote, by cause.
pub struct Written {
    pub user_bytes: u64,
    pub flushed_bytes: u64,
    pub merged_bytes: u64,
    pub causes: Vec<(String, u64)>,
    pub total: u64,
    /// The same without the log, as the papers count.
    pub without_log: u64,
    /// Of it, what went through mappings, which `wchar` leaves out.
    pub mapped_bytes: u64,
}

/// Entries that one operation reads which seeks.
const ENTRIES_A_SEEK: usize = 50;
/// A thread takes so many operations at once.
const SHARE: u64 = 256;
/// The thread that writes beside readers looks after so many writes whether it is done, or ahead of its rate.
const WRITER_SHARE: u64 = 16;
/// Every so many shares a thread looks what the database takes of the machine: about 200,000 operations.
const SHARES_A_SAMPLE: u64 = 784;
/// Latencies above this (in ns) are recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

pub fn measure(
    db: &Db,
    dir: &Path,
    workload: Workload,
    data: &Data,
    settings: &Settings,
) -> Outcome<Measured> {
    let operations = settings.operations(workload);
    let live_bytes = settings.live_bytes(workload, data);
    let bar = ProgressBar::new(operations).with_style(
        ProgressStyle::with_template(
            "{prefix:16} {bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left",
        )
        .expect("the template is right"),
    );
    bar.set_prefix(workload.name());
    db.settle()?;
    process::forget_peak_memory();
    let (stats, usage, watch) = (db.stats(), Usage::now(), Stopwatch::start());
    let worst = Worst::default();
    let sample = |operation| {
        worst.sample(dir, if settings.is_steady(workload, operation) { live_bytes } else { 0 });
    };
    let run = Run { db, workload, data, settings };
    let (lane, writer) = run.on_threads(&bar, &sample)?;
    let seconds = watch.seconds();
    db.settle()?;
    let settled_seconds = watch.seconds();
    let (usage, after) = (Usage::now().since(&usage), db.stats());
    let space = Space::of(db, dir, live_bytes);
    sample(operations);
    bar.finish_and_clear();

    let (old, new) = (&stats.counts, &after.counts);
    Ok(Measured {
        workload,
        lane,
        writer,
        seconds,
        settled_seconds,
        written: written_between(&stats, &after),
        usage,
        peak_memory_bytes: process::peak_memory_bytes(),
        stall_us: new.stall_us - old.stall_us,
        space,
        worst,
        flushes: new.flushes - old.flushes,
        merges: new.merges - old.merges,
        most_merges_at_once: new.most_merges_at_once,
    })
}

/// One workload on a database.
struct Run<'a> {
    db: &'a Db,
    workload: Workload,
    data: &'a Data,
    settings: &'a Settings,
}

impl Run<'_> {
    /// What the threads of the workload did, and the one more that writes.
    fn on_threads(&self, bar: &ProgressBar, sample: &(dyn Fn(u64) + Sync)) -> Outcome<(Lane, Option<Lane>)> {
        let (next, are_done) = (AtomicU64::new(0), AtomicBool::new(false));
        let measured = || self.take_shares(&next, bar, sample);
        std::thread::scope(|scope| {
            let writer = self.workload.is_under_writes().then(|| scope.spawn(|| self.write_until(&are_done)));
            let running: Vec<_> = (0..self.settings.threads).map(|_| scope.spawn(measured)).collect();
            let lanes: Vec<Outcome<Lane>> =
                running.into_iter().map(|thread| thread.join().expect("a lane does not panic")).collect();
            are_done.store(true, Ordering::Relaxed);
            let writer = writer.map(|thread| thread.join().expect("the writer does not panic"));
            let mut all = Lane::new();
            for lane in lanes {
                all.add(&lane?);
            }
            Ok((all, writer.transpose()?))
        })
    }

    /// One thread of the workload: takes shares of its operations until none is left.
    fn take_shares(&self, next: &AtomicU64, bar: &ProgressBar, sample: &dyn Fn(u64)) -> Outcome<Lane> {
        let operations = self.settings.operations(self.workload);
        let (mut lane, mut key) = (Lane::new(), Vec::new());
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            if start >= operations {
                return Ok(lane);
            }
            if (start / SHARE).is_multiple_of(SHARES_A_SAMPLE) {
                sample(start);
            }
            let end = operations.min(start + SHARE);
            self.perform_all(self.workload, start..end, &mut key, &mut lane)?;
            bar.inc(end - start);
        }
    }

    /// The thread that writes beside readers, until these are done, and a share at least: it may begin after they ended. At a
    /// rate, it pauses when it is ahead of that.
    fn write_until(&self, are_done: &AtomicBool) -> Outcome<Lane> {
        let (mut lane, mut key) = (Lane::new(), Vec::new());
        let watch = Stopwatch::start();
        loop {
            let start = lane.operations;
            self.perform_all(Workload::Overwrite, start..start + WRITER_SHARE, &mut key, &mut lane)?;
            if let Some(rate) = self.settings.write_rate {
                let due = Duration::from_secs_f64(lane.operations as f64 / rate as f64);
                clock::pause(due.saturating_sub(watch.elapsed()));
            }
            if are_done.load(Ordering::Relaxed) {
                return Ok(lane);
            }
        }
    }

    fn perform_all(
        &self,
        workload: Workload,
        operations: Range<u64>,
        key: &mut Vec<u8>,
        lane: &mut Lane,
    ) -> Outcome {
        let mut watch = Stopwatch::start();
        for operation in operations {
            self.data.key(workload, operation, key);
            let found = perform(self.db, workload, self.data, self.settings, operation, key)?;
            lane.record(found, watch.lap());
        }
        Ok(())
    }
}

/// One operation, on `key`; returns how many entries it found.
fn perform(
    db: &Db,
    workload: Workload,
    data: &Data,
    settings: &Settings,
    operation: u64,
    key: &mut Vec<u8>,
) -> Outcome<u64> {
    match workload {
        Workload::Queue => {
            db.put(&*key, data.value(workload, operation))?;
            if let Some(oldest) = operation.checked_sub(settings.window()) {
                data.key(workload, oldest, key);
                db.delete(&*key)?;
            }
            Ok(0)
        }
        Workload::Fillseq | Workload::Fillrandom | Workload::Overwrite | Workload::Updaterandom => {
            db.put(&*key, data.value(workload, operation))?;
            Ok(0)
        }
        Workload::Readrandom | Workload::Readmissing | Workload::Getwhilewriting => {
            Ok(u64::from(db.get(&*key)?.is_some()))
        }
        Workload::Seekrandom | Workload::Seekwhilewriting => {
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
    // What is written back goes to a log, but it is the price of having flushed less.
    let written_back_bytes = new.written_back_bytes - old.written_back_bytes;
    let log_bytes = new.log_bytes - old.log_bytes - written_back_bytes;
    let mut causes = vec![
        ("log".to_owned(), log_bytes),
        ("write_back".to_owned(), written_back_bytes),
        ("flush".to_owned(), flushed_bytes),
    ];
    causes.extend(merged.clone().enumerate().map(|(level, bytes)| (format!("merge_l{level}"), bytes)));
    causes.push(("manifest".to_owned(), new.manifest_bytes - old.manifest_bytes));
    let total = after.total_written_bytes() - before.total_written_bytes();
    Written {
        user_bytes: new.user_bytes - old.user_bytes,
        flushed_bytes,
        merged_bytes: merged.sum(),
        causes,
        total,
        without_log: total - log_bytes,
        mapped_bytes: new.log_mapped_bytes - old.log_mapped_bytes,
    }
}
