//! Running one workload, and what is measured meanwhile.

use super::Settings;
use super::space::{Space, Worst};
use super::workload::{Data, Workload};
use crate::failure::Outcome;
use crate::figures::ratio;
use crate::host::clock::{self, Stopwatch};
use crate::host::process::{self, Usage};
use braidb::{Db, HotKeyStats, Stats};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// What a workload did. Differences of before and after, background work included.
pub struct Measured {
    pub workload: Workload,
    /// The workload's operations, by all its threads.
    pub lane: Lane,
    /// What gets looked into.
    pub lookups: Lookups,
    /// Processor time that the threads of the workload did not take: flushes and merges, tidying, and this program's looking on.
    pub background_cpu_us: u64,
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
    /// Full memories that were made smaller instead.
    pub memory_condensed: u64,
    /// Keys that flushes left in memory.
    pub hot_kept: u64,
    /// How many may be left, and what was measured on the way to that.
    pub hot_keys: Option<HotKeyStats>,
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
    /// Nanoseconds of each operation; of `mixed`, of those that read.
    pub latency: Histogram<u64>,
    /// Of `mixed`, nanoseconds of each operation that writes.
    pub write_latency: Histogram<u64>,
    /// Processor time of the threads.
    cpu_us: u64,
}

impl Lane {
    fn new() -> Lane {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are right");
        Lane { operations: 0, found: 0, write_latency: latency.clone(), latency, cpu_us: 0 }
    }

    fn record(&mut self, is_mixed_write: bool, found: u64, took: Duration) {
        self.operations += 1;
        self.found += found;
        let latency = if is_mixed_write { &mut self.write_latency } else { &mut self.latency };
        latency.saturating_record(took.as_nanos() as u64);
    }

    fn add(&mut self, other: &Lane) {
        self.operations += other.operations;
        self.found += other.found;
        self.latency.add(&other.latency).expect("all have the same bounds");
        self.write_latency.add(&other.write_latency).expect("all have the same bounds");
        self.cpu_us += other.cpu_us;
    }
}

/// What gets looked into: their price, which memory and filters keep low.
pub struct Lookups {
    pub gets: u64,
    /// Tables, after their filters let the key pass.
    pub table_reads: u64,
    /// Values in logs.
    pub log_reads: u64,
    /// Of both, those that the block cache did not have.
    pub file_reads: u64,
}

impl Lookups {
    /// Read amplification: reads of files for each get. (TRIAD, section 5.1, counts accesses of the disk.)
    pub fn reads_per_get(&self) -> f64 {
        ratio(self.file_reads, self.gets)
    }

    /// Tables and logs looked into for each get, whether the block cache had them or not.
    pub fn looks_per_get(&self) -> f64 {
        ratio(self.table_reads + self.log_reads, self.gets)
    }
}

/// Bytes that the engine wrote, by cause.
pub struct Written {
    pub user_bytes: u64,
    pub flushed_bytes: u64,
    pub merged_bytes: u64,
    /// To newer logs, from old ones.
    pub written_back_bytes: u64,
    pub causes: Vec<(String, u64)>,
    pub total: u64,
    /// The same without the log, as the papers count.
    pub without_log: u64,
    /// Of it, what went through mappings, which `wchar` leaves out.
    pub mapped_bytes: u64,
}

impl Written {
    /// Write amplification as TRIAD has it: (flushed + merged) / flushed, which leaves the log out.
    pub fn merge_amplification(&self) -> f64 {
        ratio(self.flushed_bytes + self.merged_bytes, self.flushed_bytes)
    }
}

/// Entries that one operation reads which seeks.
const ENTRIES_A_SEEK: usize = 50;
/// A thread takes so many operations at once.
const SHARE: u64 = 256;
/// The thread that writes beside readers looks after so many writes whether it is done, or ahead of its rate.
const WRITER_SHARE: u64 = 16;
/// So often it is looked what the database takes of the machine, which takes a thread about 0.2 ms.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(50);
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
    let next = AtomicU64::new(0);
    let sample = || {
        let is_steady = settings.is_steady(workload, next.load(Ordering::Relaxed));
        worst.sample(dir, if is_steady { live_bytes } else { 0 });
    };
    let run = Run { db, workload, data, settings };
    let (lane, writer, seconds, settled_seconds) = beside(&sample, || {
        let (lane, writer) = run.on_threads(&bar, &next)?;
        let seconds = watch.seconds();
        db.settle()?;
        Outcome::Ok((lane, writer, seconds, watch.seconds()))
    })?;
    let (usage, after) = (Usage::now().since(&usage), db.stats());
    let space = Space::of(db, dir, live_bytes);
    sample();
    bar.finish_and_clear();

    let (old, new) = (&stats.counts, &after.counts);
    let foreground_cpu_us = lane.cpu_us + writer.as_ref().map_or(0, |writer| writer.cpu_us);
    Ok(Measured {
        workload,
        lookups: Lookups {
            gets: new.gets - old.gets,
            table_reads: new.table_reads - old.table_reads,
            log_reads: new.log_reads - old.log_reads,
            file_reads: new.cache_misses - old.cache_misses,
        },
        background_cpu_us: usage.cpu_us.saturating_sub(foreground_cpu_us),
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
        memory_condensed: new.memory_condensed - old.memory_condensed,
        hot_kept: new.hot_kept - old.hot_kept,
        hot_keys: after.families[0].hot_keys.clone(),
        merges: new.merges - old.merges,
        most_merges_at_once: new.most_merges_at_once,
    })
}

/// Does `work`, and looks on now and then meanwhile.
fn beside<T>(sample: &(dyn Fn() + Sync), work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        // Nothing is ever sent: the channel tells, by its end, that the work has ended, if in a panic.
        let (_working, done) = mpsc::channel::<()>();
        scope.spawn(move || {
            while done.recv_timeout(BETWEEN_SAMPLES) == Err(RecvTimeoutError::Timeout) {
                sample();
            }
        });
        work()
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
    fn on_threads(&self, bar: &ProgressBar, next: &AtomicU64) -> Outcome<(Lane, Option<Lane>)> {
        let are_done = AtomicBool::new(false);
        let measured = || self.take_shares(next, bar);
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

    /// One thread of the workload: takes shares of its operations, from `next` on, until none is left.
    fn take_shares(&self, next: &AtomicU64, bar: &ProgressBar) -> Outcome<Lane> {
        let operations = self.settings.operations(self.workload);
        let (mut lane, mut key) = (Lane::new(), Vec::new());
        let cpu_us = process::thread_cpu_us();
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            if start >= operations {
                lane.cpu_us = process::thread_cpu_us() - cpu_us;
                return Ok(lane);
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
        let (watch, cpu_us) = (Stopwatch::start(), process::thread_cpu_us());
        loop {
            let start = lane.operations;
            self.perform_all(Workload::Overwrite, start..start + WRITER_SHARE, &mut key, &mut lane)?;
            if let Some(rate) = self.settings.write_rate {
                let due = Duration::from_secs_f64(lane.operations as f64 / rate as f64);
                clock::pause(due.saturating_sub(watch.elapsed()));
            }
            if are_done.load(Ordering::Relaxed) {
                lane.cpu_us = process::thread_cpu_us() - cpu_us;
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
            let is_mixed_write = workload == Workload::Mixed && !self.data.mixed_reads(operation);
            lane.record(is_mixed_write, found, watch.lap());
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
        Workload::Mixed if data.mixed_reads(operation) => Ok(u64::from(db.get(&*key)?.is_some())),
        Workload::Mixed
        | Workload::Fillseq
        | Workload::Fillrandom
        | Workload::Overwrite
        | Workload::Updaterandom => {
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
        written_back_bytes,
        causes,
        total,
        without_log: total - log_bytes,
        mapped_bytes: new.log_mapped_bytes - old.log_mapped_bytes,
    }
}
