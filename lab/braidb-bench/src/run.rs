//! Runs one workload on a store, measures it, and checks what it reads.
//!
//! The threads share the operations, so that all end together. One more thread may write while they read. The run ends when the store has
//! settled: figures of bytes and time include background work. The run checks every answer:
//! - A key that was written must be there with a value that belongs to it.
//! - A scan must go upwards and contain every key that must be there.
//! - A missing key must stay missing.
//!
//! A wrong answer ends the run with an error. With `--unchecked` the run compares no bytes: comparing an entry of 144 bytes takes 54 ns,
//! and LMDB's scan of it 70 ns. The run always adds up all bytes of entries and values that the store returns, so that every store has to
//! fetch them.

use crate::host::process::{self, Usage};
use crate::keys::{Data, TIMELINE_BLOCK};
use crate::lane::{Ended, Lane};
use crate::settings::{Course, Settings};
use crate::store::{Outcome, Store};
use crate::timer::Timer;
use crate::workload::{Action, BESIDE_READERS, Mix, Workload};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The measurement of a workload. Its counters are differences of two readings, background work included.
#[derive(Debug)]
pub struct Measured {
    /// The workload's operations, by all its threads.
    pub lane: Lane,
    /// The operations of the additional thread that writes beside readers.
    pub writer: Option<Lane>,
    /// The number of keys that were inserted.
    pub inserted: u64,
    /// Seconds until the last operation was done.
    pub seconds: f64,
    /// Seconds until the background work was done too.
    pub settled_seconds: f64,
    /// The kernel's figures about this process.
    pub usage: Usage,
    /// Processor time of all threads except the workload's: the store's background work, and this program's sampling.
    pub background_cpu_us: u64,
    pub peak_memory_bytes: u64,
    /// The store's own counters: their growth during the workload.
    pub counts: Vec<(String, u64)>,
}

impl Measured {
    /// Reads and writes.
    pub fn all_operations(&self) -> u64 {
        self.lane.operations + self.writer.as_ref().map_or(0, |writer| writer.operations)
    }
}

/// Callbacks that run while the operations run.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// Samples, every 50 ms, what resources of the machine the store uses. Its argument is the number of operations that have begun.
    pub sample: &'a (dyn Fn(u64) + Sync),
    /// Gets the number of operations that ended, 256 at once.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for Beside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

/// Operations that a thread takes at once.
const SHARE: u64 = 256;
/// After 16 writes the thread that writes beside readers checks whether the readers are done, and whether it is ahead of its rate.
const WRITER_SHARE: u64 = 16;
/// The time between two samples of the machine's resources that the store uses. A sample takes about 0.2 ms.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(50);
/// How many entries [`Action::SeekRecent`] reads, and how many [`Action::SeekUpTo100`] reads at most.
const SCANNED: u64 = 100;

/// Entries of [`Action::SeekLong`].
const LONG: u64 = 1_000;

/// Runs `workload` on `store`, which must hold what the workload starts with.
///
/// # Errors
///
/// An error of the store, or a wrong answer of the store.
pub fn run(
    workload: &'static Workload,
    store: &dyn Store,
    settings: &Settings,
    data: &Data,
    timer: &dyn Timer,
    beside: Beside<'_>,
) -> Outcome<Measured> {
    let is_alone = settings.threads == 1 && !workload.is_beside_writer;
    if timer.is_modelled() && !is_alone {
        return Err(
            format!("{}: a modelled device has one thread, and no writer beside it", workload.name).into()
        );
    }
    store.settle(&mut || {})?;
    process::forget_peak_memory();
    let writer_data = workload.is_beside_writer.then(|| Data::new(BESIDE_READERS, settings));
    let (counts, usage, start_ns) = (store.counts(), Usage::now(), timer.now_ns());
    let cpu_us = timer.modelled_cpu_us();
    let next = AtomicU64::new(settings.first_operation);
    let writer_data = writer_data.as_ref();
    let inserted = Inserted::default();
    let run =
        Run { workload, store, settings, data, writer_data, timer, start_ns, next: &next, inserted, beside };
    let measure = || {
        let (lane, writer) = run.on_threads()?;
        let ended_ns = timer.now_ns();
        let (mut settled_ns, mut settled_usage) = (ended_ns, Usage::now());
        store.settle(&mut || (settled_ns, settled_usage) = (timer.now_ns(), Usage::now()))?;
        Outcome::Ok((lane, writer, ended_ns, settled_ns, settled_usage))
    };
    let (lane, writer, ended_ns, settled_ns, settled_usage) = match timer.is_modelled() {
        true => measure()?,
        false => sampled(&|| (beside.sample)(next.load(Ordering::Relaxed)), measure)?,
    };
    let mut usage = settled_usage.since(&usage);
    if let (Some(before), Some(after)) = (cpu_us, timer.modelled_cpu_us()) {
        usage.cpu_us = after - before;
    }
    let foreground_cpu_us = lane.cpu_us + writer.as_ref().map_or(0, |writer| writer.cpu_us);
    let since_start = |ns: u64| (ns - start_ns) as f64 / 1e9;
    let grown = |((name, before), (_, after)): ((String, u64), (String, u64))| (name, after - before);
    Ok(Measured {
        background_cpu_us: usage.cpu_us.saturating_sub(foreground_cpu_us),
        lane,
        writer,
        inserted: run.inserted.next.load(Ordering::Relaxed),
        seconds: since_start(ended_ns),
        settled_seconds: since_start(settled_ns),
        usage,
        peak_memory_bytes: process::peak_memory_bytes(),
        counts: counts.into_iter().zip(store.counts()).map(grown).collect(),
    })
}

/// Does `work`. Samples every [`BETWEEN_SAMPLES`] meanwhile, and once at the end.
fn sampled<T>(sample: &(dyn Fn() + Sync), work: impl FnOnce() -> T) -> T {
    let done = std::thread::scope(|scope| {
        // The channel carries no message. It is closed when the work ends, also by a panic, and then the sampling thread stops.
        let (_working, done) = mpsc::channel::<()>();
        scope.spawn(move || {
            while done.recv_timeout(BETWEEN_SAMPLES) == Err(RecvTimeoutError::Timeout) {
                sample();
            }
        });
        work()
    });
    sample();
    done
}

/// Keys that threads insert.
#[derive(Debug, Default)]
struct Inserted {
    /// The index of the next insert.
    next: AtomicU64,
    /// All inserts with a lower index are done.
    all_below: AtomicU64,
    /// The inserts above `all_below` that are done too.
    above: Mutex<BTreeSet<u64>>,
}

impl Inserted {
    fn ended(&self, index: u64) {
        let mut above = self.above.lock();
        above.insert(index);
        let mut all_below = self.all_below.load(Ordering::Relaxed);
        while above.remove(&all_below) {
            all_below += 1;
        }
        self.all_below.store(all_below, Ordering::Release);
    }
}

/// The state of one workload on a store.
struct Run<'a> {
    workload: &'static Workload,
    store: &'a dyn Store,
    settings: &'a Settings,
    data: &'a Data,
    /// The data of the thread that writes beside readers.
    writer_data: Option<&'a Data>,
    timer: &'a dyn Timer,
    start_ns: u64,
    /// The number of the next operation.
    next: &'a AtomicU64,
    inserted: Inserted,
    beside: Beside<'a>,
}

impl Run<'_> {
    /// Runs the threads of the workload, and the thread that writes beside readers. Returns their operations.
    fn on_threads(&self) -> Outcome<(Lane, Option<Lane>)> {
        if self.timer.is_modelled() {
            return Ok((self.take_shares()?, None));
        }
        let are_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = self.workload.is_beside_writer.then(|| scope.spawn(|| self.write_until(&are_done)));
            let running: Vec<_> =
                (0..self.settings.threads).map(|_| scope.spawn(|| self.take_shares())).collect();
            let lanes: Vec<Outcome<Lane>> =
                running.into_iter().map(|thread| thread.join().expect("a lane does not panic")).collect();
            are_done.store(true, Ordering::Relaxed);
            let writer = writer.map(|thread| thread.join().expect("the writer does not panic"));
            let mut all = Lane::default();
            for lane in lanes {
                all.add(&lane?);
            }
            Ok((all, writer.transpose()?))
        })
    }

    /// Runs one thread of the workload: takes shares of the operations until none is left or the time is over.
    fn take_shares(&self) -> Outcome<Lane> {
        let operations = self.settings.operations(self.workload);
        let until_ns = match operations {
            None => {
                self.start_ns + self.settings.timed_seconds.unwrap_or(self.settings.seconds) * 1_000_000_000
            }
            Some(_) => u64::MAX,
        };
        let operations = operations.map_or(u64::MAX, |count| self.settings.first_operation + count);
        let mut worker = Worker { run: self, lane: Lane::default(), key: Vec::new() };
        let cpu_us = process::thread_cpu_us();
        loop {
            let start = self.next.fetch_add(SHARE, Ordering::Relaxed);
            let mut last_ns = self.timer.now_ns();
            if start >= operations || last_ns >= until_ns {
                worker.lane.cpu_us = process::thread_cpu_us() - cpu_us;
                return Ok(worker.lane);
            }
            let end = operations.min(start + SHARE);
            for operation in start..end {
                if last_ns >= until_ns {
                    break;
                }
                self.timer.begin_operation();
                let ended = worker.perform(self.action(operation, last_ns), operation)?;
                last_ns = worker.record(ended, last_ns);
            }
            (self.beside.progress)(end - start);
        }
    }

    /// Runs the thread that writes beside readers until the readers are done. It writes at least one share, because it may begin after the
    /// readers ended. With `--write-rate` it pauses when it is ahead of the rate.
    fn write_until(&self, are_done: &AtomicBool) -> Outcome<Lane> {
        let data = self.writer_data.expect("the workload has a writer");
        let mut worker = Worker { run: self, lane: Lane::default(), key: Vec::new() };
        let (start_ns, cpu_us) = (self.timer.now_ns(), process::thread_cpu_us());
        loop {
            let mut last_ns = self.timer.now_ns();
            let start = worker.lane.operations;
            for operation in start..start + WRITER_SHARE {
                worker.put(data, data.drawn(operation, 0), operation)?;
                last_ns = worker.record(Ended::default(), last_ns);
            }
            if let Some(rate) = self.settings.write_rate {
                let due_ns = start_ns + (worker.lane.operations as f64 / rate as f64 * 1e9) as u64;
                self.timer.pause(Duration::from_nanos(due_ns.saturating_sub(last_ns)));
            }
            if are_done.load(Ordering::Relaxed) {
                worker.lane.cpu_us = process::thread_cpu_us() - cpu_us;
                return Ok(worker.lane);
            }
        }
    }

    /// The action of an operation that begins at `now_ns`.
    fn action(&self, operation: u64, now_ns: u64) -> Action {
        match self.workload.mix {
            Mix::Only(action) => action,
            Mix::ByReadPercent if self.data.reads(operation) => Action::Get,
            Mix::ByReadPercent => Action::Put,
            Mix::Shares(shares) => {
                let mut chance = self.data.chance(operation) % 100;
                let is_drawn = |(share, _): &&(u64, Action)| match chance.checked_sub(*share) {
                    Some(rest) => {
                        chance = rest;
                        false
                    }
                    None => true,
                };
                shares.iter().find(is_drawn).expect("shares make a hundred").1
            }
            Mix::Turns { seconds } => match (now_ns - self.start_ns) / (seconds * 1_000_000_000) % 2 {
                0 => Action::Put,
                _ => Action::Get,
            },
        }
    }
}

/// The sum of the bytes. The sum of 256 bytes fits into 16 bits, so that the processor adds many bytes at once.
fn sum_of(bytes: &[u8]) -> u64 {
    let of_part = |part: &[u8]| part.iter().map(|byte| u16::from(*byte)).sum::<u16>();
    bytes.chunks(256).map(|part| u64::from(of_part(part))).sum()
}

/// Which keys must follow each other in a scan.
#[derive(Clone, Copy)]
enum Neighbours {
    /// Neighbouring keys have this distance.
    Apart(u64),
    /// Every even number is a key; odd numbers may be.
    FillAndInserts,
    Unknown,
}

/// One thread of a run.
struct Worker<'a> {
    run: &'a Run<'a>,
    lane: Lane,
    key: Vec<u8>,
}

impl Worker<'_> {
    /// Counts an operation that ends now. Returns the time.
    fn record(&mut self, ended: Ended, began_ns: u64) -> u64 {
        let now_ns = self.run.timer.now_ns();
        self.lane.record(ended, now_ns - self.run.start_ns, now_ns - began_ns);
        now_ns
    }

    fn perform(&mut self, action: Action, operation: u64) -> Outcome<Ended> {
        let data = self.run.data;
        let known = || self.run.inserted.all_below.load(Ordering::Acquire);
        let is_write_among_reads = self.run.workload.is_mixed() && action.writes();
        let found = match action {
            Action::PutInOrder => self.put(data, operation * 2, operation)?,
            Action::PutShuffled => self.put(data, data.shuffled(operation), operation)?,
            Action::Put => self.put(data, data.drawn(operation, known()), operation)?,
            Action::Get => self.get(data.drawn(operation, known()))?,
            Action::GetMissing => self.get_missing(data.drawn(operation, known()) + 1)?,
            Action::Seek => {
                let entries = self.run.settings.entries;
                self.scan_fill(data.drawn(operation, known()), entries)?
            }
            Action::SeekLong => self.scan_fill(data.drawn(operation, known()), LONG)?,
            Action::SeekUpTo100 => {
                let entries = data.chance(!operation) % SCANNED + 1;
                self.scan_fill(data.drawn(operation, known()), entries)?
            }
            Action::ReadModifyWrite => {
                let number = data.drawn(operation, known());
                let found = self.get(number)?;
                self.put(data, number, operation)?;
                found
            }
            Action::Insert => self.insert(operation, Data::inserted)?,
            Action::Slide => self.slide(operation)?,
            Action::PushOrPop => self.push_or_pop(operation)?,
            Action::Append => self.insert(operation, Data::appended)?,
            Action::SeekRecent if known() == 0 => self.insert(operation, Data::appended)?,
            Action::SeekRecent => self.scan_recent(operation, known())?,
        };
        let is_checked = !matches!(
            action,
            Action::PutInOrder
                | Action::PutShuffled
                | Action::Put
                | Action::Insert
                | Action::Append
                | Action::Slide
        ) && (!self.run.settings.unchecked || action == Action::GetMissing);
        Ok(Ended { found, is_checked, is_write_among_reads })
    }

    fn put(&mut self, data: &Data, number: u64, operation: u64) -> Outcome<u64> {
        data.write_key(number, &mut self.key);
        let value = data.value(number, operation);
        self.run.store.put(data.family(number), &self.key, value)?;
        self.lane.user_bytes += (self.key.len() + value.len()) as u64;
        Ok(0)
    }

    fn get(&mut self, number: u64) -> Outcome<u64> {
        let data = self.run.data;
        data.write_key(number, &mut self.key);
        let (mut is_right, mut byte_sum) = (false, 0);
        let see = &mut |value: &[u8]| {
            byte_sum = sum_of(value);
            is_right = self.run.settings.unchecked || data.is_value(number, value);
        };
        let is_there = self.run.store.get(data.family(number), &self.key, see)?;
        self.lane.byte_sum += byte_sum;
        match is_there {
            true if is_right => Ok(1),
            true => Err(self.wrong(number, "has a value that was never written under it")),
            false => Err(self.wrong(number, "is missing, although it was written")),
        }
    }

    fn get_missing(&mut self, number: u64) -> Outcome<u64> {
        let data = self.run.data;
        data.write_key(number, &mut self.key);
        match self.run.store.get(data.family(number), &self.key, &mut |_| {})? {
            true => Err(self.wrong(number, "is there, although it was never written")),
            false => Ok(0),
        }
    }

    fn wrong(&self, number: u64, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        format!("{}: the key {number} {what}", self.run.workload.name).into()
    }

    fn insert(&mut self, operation: u64, number: fn(&Data, u64) -> u64) -> Outcome<u64> {
        let index = self.run.inserted.next.fetch_add(1, Ordering::Relaxed);
        self.put(self.run.data, number(self.run.data, index), operation)?;
        self.run.inserted.ended(index);
        Ok(0)
    }

    /// Reads `entries` entries, starting at a key of a fill or of an insert.
    fn scan_fill(&mut self, from: u64, entries: u64) -> Outcome<u64> {
        let data = self.run.data;
        // The keys of a family are not counted. Inserted keys lie between the keys of the fill.
        let neighbours = match data.is_of_one_family() {
            true if self.run.workload.inserts() => Neighbours::FillAndInserts,
            true => Neighbours::Apart(2),
            false => Neighbours::Unknown,
        };
        let count = self.scan(from, entries, neighbours, u64::MAX)?;
        let course = self.run.settings.scan;
        let of_fill = if course.is_backward() { from / 2 + 1 } else { data.keys() - from.div_ceil(2) };
        let expected = if data.is_of_one_family() { entries.min(of_fill.max(1)) } else { 1 };
        self.at_least(from, count, expected)
    }

    /// Returns the count of a scan, or an error if it is below `expected`.
    fn at_least(&self, from: u64, count: u64, expected: u64) -> Outcome<u64> {
        match count >= expected {
            true => Ok(count),
            false => Err(self.wrong(from, &format!("begins a scan of {count} entries, and not {expected}"))),
        }
    }

    /// Reads 100 entries of a timeline, from a key that lies 100 to 1,099 keys before its end.
    fn scan_recent(&mut self, operation: u64, known: u64) -> Outcome<u64> {
        const RECENT: u64 = 1_000;
        let back = SCANNED + self.run.data.chance(!operation) % RECENT;
        let from = known.saturating_sub(back);
        // Keys of the last block may still be missing.
        let whole_below = known / TIMELINE_BLOCK * TIMELINE_BLOCK;
        match from < whole_below {
            true => {
                let is_of_one_family = self.run.data.is_of_one_family();
                let neighbours = if is_of_one_family { Neighbours::Apart(1) } else { Neighbours::Unknown };
                let count = self.scan(from, SCANNED, neighbours, whole_below)?;
                self.at_least(from, count, if is_of_one_family { SCANNED.min(whole_below - from) } else { 1 })
            }
            false => Ok(0),
        }
    }

    /// Reads up to `entries` entries from the existing key `from` on. Below `whole_below` all neighbours exist.
    fn scan(&mut self, from: u64, entries: u64, neighbours: Neighbours, whole_below: u64) -> Outcome<u64> {
        let data = self.run.data;
        data.write_key(from, &mut self.key);
        let (mut last, mut trouble, mut byte_sum) = (None, None, 0);
        let course = self.run.settings.scan;
        let see = &mut |key: &[u8], value: &[u8]| {
            byte_sum += sum_of(key) + sum_of(value);
            if self.run.settings.unchecked {
                return;
            }
            let number = data.number_of(key);
            // Backward, the pair of neighbours is turned round.
            let (low, high) =
                if course.is_backward() && last.is_some() { (number, last) } else { (last, number) };
            let is_next = high.is_some_and(|high| match (low, neighbours) {
                (None, _) => last.is_none() && high == from,
                (Some(low), Neighbours::Apart(step)) if low + step < whole_below => high == low + step,
                // The next even number is a key of the fill.
                (Some(low), Neighbours::FillAndInserts) => low < high && high <= (low / 2 + 1) * 2,
                (Some(low), _) => low < high,
            });
            let is_right = !course.has_values() || number.is_some_and(|number| data.is_value(number, value));
            if !is_next || !is_right {
                trouble.get_or_insert_with(|| {
                    let value = if is_right { "" } else { ", or has a foreign value" };
                    format!("begins a scan in which {} comes behind {last:?}{value}", key.escape_ascii())
                });
            }
            last = number;
        };
        let limit = usize::try_from(entries).expect("the settings limit entries");
        let (store, family) = (self.run.store, data.family(from));
        let count = match course {
            Course::Forward => store.scan(family, &self.key, limit, see)?,
            _ => store.scan_on(course, family, &self.key, limit, see)?,
        } as u64;
        self.lane.byte_sum += byte_sum;
        match trouble {
            None => Ok(count),
            Some(trouble) => Err(self.wrong(from, &trouble)),
        }
    }

    fn slide(&mut self, operation: u64) -> Outcome<u64> {
        let data = self.run.data;
        self.put(data, operation, operation)?;
        if let Some(oldest) = operation.checked_sub(self.run.settings.window()) {
            data.write_key(oldest, &mut self.key);
            self.run.store.delete(data.family(oldest), &self.key)?;
            self.lane.user_bytes += self.key.len() as u64;
        }
        Ok(0)
    }

    fn push_or_pop(&mut self, operation: u64) -> Outcome<u64> {
        let (data, window) = (self.run.data, self.run.settings.window());
        let Some(behind) = operation.checked_sub(window) else { return self.put(data, operation, operation) };
        if behind % 2 == 0 {
            return self.put(data, window + behind / 2, operation);
        }
        let expected = behind / 2;
        let mut smallest = None;
        let (key, byte_sum) = (&mut self.key, &mut self.lane.byte_sum);
        let see = &mut |found: &[u8], value: &[u8]| {
            *byte_sum += sum_of(found) + sum_of(value);
            smallest = data.number_of(found).filter(|number| data.is_value(*number, value));
            key.clear();
            key.extend_from_slice(found);
        };
        self.run.store.scan(data.family(expected), b"", 1, see)?;
        if smallest != Some(expected) {
            return Err(self.wrong(expected, &format!("should be the smallest, which is {smallest:?}")));
        }
        self.run.store.delete(data.family(expected), &self.key)?;
        self.lane.user_bytes += self.key.len() as u64;
        Ok(1)
    }
}
