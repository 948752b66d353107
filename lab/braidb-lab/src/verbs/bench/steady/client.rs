//! One thread of the steady load: what it does at each operation, when, and what its reads must return.

use super::lane::{Kind, Lane};
use super::load::{LARGE_EVERY, Load, THREADS, Written, key, number_of, row};
use crate::failure::{Failure, Outcome};
use braidb::{Snapshot, Value, WriteBatch};
use braidb_bench::Timer;
use braidb_bench::draws::{HotCold, mix};
use std::ops::{Bound, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many of 100 operations are of each kind. The other ten put a point.
const PUTS: u64 = 38;
const DELETES: u64 = 5;
const GETS: u64 = 37;
const SEEKS: u64 = 3;
const BATCHES: u64 = 1;
/// Pushes and pops of the thread's queue, in turns.
const QUEUE: u64 = 6;

/// The hot keys get 70 of 100 accesses and are 5 of 100 keys.
const HOT_PERCENT: u64 = 5;
const HOT_DRAWS_PERCENT: u64 = 70;

/// Entries that a seek reads.
const SEEK_ENTRIES: usize = 20;
/// Puts of a batch.
const BATCH_PUTS: u64 = 20;

/// The least time for which a thread sleeps when it is ahead of its schedule. At 60,000 operations a second a shorter sleep before each
/// operation would take a fifth of a processor from the engine.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// When a thread ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// This long after the start.
    Seconds(u64),
    /// After this many operations of the thread.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests do not end by the clock"))]
    Operations(u64),
}

/// The schedule of all threads.
pub struct Pace<'a> {
    pub timer: &'a dyn Timer,
    pub start_ns: u64,
    /// Operations a second of all threads.
    pub rate: u64,
    pub end: End,
    /// Set when something has failed.
    pub is_over: AtomicBool,
}

impl Pace<'_> {
    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
        self.timer.now_ns() - self.start_ns
    }

    /// Ends all threads at their next operation.
    pub fn give_up(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// When the operation is due, since the start. The threads take turns. A late operation moves no other one, so a thread that was held
    /// up catches up.
    fn due_ns(&self, thread: u64, operation: u64) -> u64 {
        (u128::from(operation * THREADS + thread) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// Waits until the operation is due. Returns by how much it is late, or `None` if the thread has ended.
    fn wait(&self, thread: u64, operation: u64) -> Option<u64> {
        let (due_ns, now_ns) = (self.due_ns(thread, operation), self.now_ns());
        let is_after_end = match self.end {
            End::Seconds(seconds) => due_ns.max(now_ns) >= seconds * 1_000_000_000,
            End::Operations(operations) => operation >= operations,
        };
        if is_after_end || self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        if due_ns > now_ns {
            self.timer.pause(Duration::from_nanos(due_ns - now_ns).max(LEAST_PAUSE));
        }
        Some(now_ns.saturating_sub(due_ns))
    }
}

/// A snapshot that is held, and what it must show until its end.
struct Held {
    snapshot: Snapshot,
    number: u64,
    written: Written,
    /// The first row of the queue.
    queue_row: u64,
}

/// See the module.
pub struct Client<'a> {
    load: &'a Load,
    pace: &'a Pace<'a>,
    lane: &'a Mutex<Lane>,
    thread: u64,
    /// Where the draws of this thread start.
    salt: u64,
    draws: HotCold,
    /// The numbers of the keys that the thread owns, and what it did with each of them last.
    pub owned: Range<u64>,
    pub written: Vec<Written>,
    /// The rows that are in the queue, and the place behind the last popped one.
    pub queue: Range<u64>,
    popped: Bound<[u8; 24]>,
    /// The points that are in the series.
    pub points: Range<u64>,
    held: Option<Held>,
}

impl<'a> Client<'a> {
    /// The thread with this number, on a database as [`Load::fill`] leaves it.
    pub fn new(load: &'a Load, pace: &'a Pace<'a>, lane: &'a Mutex<Lane>, thread: u64) -> Client<'a> {
        let owned = load.owned(thread);
        let keys = owned.end - owned.start;
        Client {
            load,
            pace,
            lane,
            thread,
            salt: mix(load.seed ^ mix(thread)),
            draws: HotCold::new(keys, HOT_PERCENT, HOT_DRAWS_PERCENT),
            written: vec![Written::FILLED; keys as usize],
            owned,
            queue: 0..load.sizes.queue_rows,
            popped: Bound::Included(row(thread, 0)),
            points: 0..0,
            held: None,
        }
    }

    /// Does operations until the end. Returns when the last one ended, in nanoseconds since the start.
    pub fn run(&mut self) -> Outcome<u64> {
        for operation in 0.. {
            let Some(late_ns) = self.pace.wait(self.thread, operation) else { break };
            self.perform(operation).inspect_err(|_| self.pace.give_up())?;
            self.lane.lock().expect("no thread panics with a lane").ended(late_ns);
        }
        Ok(self.pace.now_ns())
    }

    fn perform(&mut self, operation: u64) -> Outcome {
        if self.thread == 0 {
            self.hold_snapshot(operation)?;
        }
        let random = mix(self.salt.wrapping_add(operation));
        let mut rest = random % 100;
        let mut is_next = |share: u64| match rest.checked_sub(share) {
            None => true,
            Some(left) => {
                rest = left;
                false
            }
        };
        if is_next(PUTS) {
            self.put(random, operation)
        } else if is_next(DELETES) {
            self.delete(random)
        } else if is_next(GETS) {
            self.get(random)
        } else if is_next(SEEKS) {
            self.seek(random)
        } else if is_next(BATCHES) {
            self.batch(random, operation)
        } else if !is_next(QUEUE) {
            self.point()
        } else if self.queue.end - self.queue.start > self.load.sizes.queue_rows {
            self.pop()
        } else {
            self.push()
        }
    }

    /// Does one call of the engine and records how long it takes.
    fn timed<T>(&self, kind: Kind, call: impl FnOnce() -> braidb::Result<T>) -> Outcome<T> {
        let began_ns = self.pace.timer.now_ns();
        let answer = call()?;
        let took_ns = self.pace.timer.now_ns() - began_ns;
        self.lane.lock().expect("no thread panics with a lane").record(kind, took_ns);
        Ok(answer)
    }

    /// The `draw`th key that an operation draws.
    fn drawn(&self, random: u64, draw: u64) -> u64 {
        self.owned.start + self.draws.number(mix(random.wrapping_add(draw)))
    }

    fn written(&self, number: u64) -> Written {
        self.written[(number - self.owned.start) as usize]
    }

    /// Draws what the key's next put writes, and remembers it as written.
    fn write(&mut self, number: u64, random: u64, operation: u64) -> Written {
        let written = Written::by(operation, mix(!random).is_multiple_of(LARGE_EVERY));
        self.written[(number - self.owned.start) as usize] = written;
        written
    }

    fn put(&mut self, random: u64, operation: u64) -> Outcome {
        let number = self.drawn(random, 0);
        let written = self.write(number, random, operation);
        let value = self.load.value(number, written).expect("it is not deleted");
        self.timed(Kind::Put, || self.load.db.put(key(number), value))
    }

    fn delete(&mut self, random: u64) -> Outcome {
        let number = self.drawn(random, 0);
        self.written[(number - self.owned.start) as usize] = Written::DELETED;
        self.timed(Kind::Delete, || self.load.db.delete(key(number)))
    }

    fn get(&mut self, random: u64) -> Outcome {
        let number = self.drawn(random, 0);
        let found = self.timed(Kind::Get, || self.load.db.get(key(number)))?;
        self.check_value(number, self.written(number), found.as_deref(), "a get")
    }

    fn check_value(&self, number: u64, written: Written, found: Option<&[u8]>, by: &str) -> Outcome {
        match found == self.load.value(number, written) {
            true => Ok(()),
            false => Err(self.wrong(format!(
                "{by} of the key {number} returns {}, which is not what was written last",
                found.map_or("nothing".to_owned(), |value| format!("a value of {} bytes", value.len()))
            ))),
        }
    }

    fn seek(&mut self, random: u64) -> Outcome {
        let from = self.drawn(random, 0);
        let found: Vec<(Vec<u8>, Value)> = self.timed(Kind::Seek, || {
            self.load.db.range(&key(from)..).take(SEEK_ENTRIES).collect::<braidb::Result<_>>()
        })?;
        // Keys of other threads change meanwhile. The scan shows the thread's own keys first, and it must show all of them that are alive.
        let mut living = (from..self.owned.end).filter(|&number| self.written(number) != Written::DELETED);
        let mut last = None;
        for (key, value) in &found {
            let number = number_of(key).filter(|&number| last < Some(number));
            let is_right = match (living.next(), number) {
                (Some(expected), Some(number)) => {
                    number == expected && self.load.value(number, self.written(number)) == Some(&value[..])
                }
                (None, Some(number)) => number >= self.owned.end && self.load.may_be_value(number, value),
                (_, None) => false,
            };
            if !is_right {
                let key = key.escape_ascii();
                return Err(self.wrong(format!("a seek of the key {from} finds {key} behind {last:?}")));
            }
            last = number;
        }
        match found.len() == SEEK_ENTRIES || living.next().is_none() {
            true => Ok(()),
            false => Err(self.wrong(format!("a seek of the key {from} ends behind {last:?}"))),
        }
    }

    fn batch(&mut self, random: u64, operation: u64) -> Outcome {
        let mut batch = WriteBatch::new();
        for draw in 0..BATCH_PUTS {
            let number = self.drawn(random, draw);
            let written = Written::by(operation, false);
            self.written[(number - self.owned.start) as usize] = written;
            batch.put(key(number), self.load.value(number, written).expect("it is not deleted"));
        }
        self.timed(Kind::Batch, || self.load.db.write(&batch))
    }

    fn push(&mut self) -> Outcome {
        let number = self.queue.end;
        self.queue.end += 1;
        let value = self.load.row_value(self.thread, number);
        self.timed(Kind::Push, || self.load.queue.put(row(self.thread, number), value))
    }

    /// Deletes the first row behind the last popped one.
    fn pop(&mut self) -> Outcome {
        let number = self.queue.start;
        let rows = (self.popped, Bound::Excluded(row(self.thread + 1, 0)));
        let found = self.timed(Kind::Pop, || {
            let found = self.load.queue.range(rows).next().transpose()?;
            if let Some((key, _)) = &found {
                self.load.queue.delete(key)?;
            }
            Ok(found)
        })?;
        self.check_row(number, found.as_ref(), "a pop")?;
        self.queue.start += 1;
        self.popped = Bound::Excluded(row(self.thread, number));
        Ok(())
    }

    /// Checks that a read found the row of a queue, or the point of a series, with this number.
    fn check_row(&self, number: u64, found: Option<&(Vec<u8>, Value)>, by: &str) -> Outcome {
        let expected = (&row(self.thread, number)[..], self.load.row_value(self.thread, number));
        match found.is_some_and(|(key, value)| (&key[..], &value[..]) == expected) {
            true => Ok(()),
            false => Err(self.wrong(format!(
                "{by} finds {}, and not the row {number} of thread {}",
                found.map_or("nothing".to_owned(), |(key, _)| key.escape_ascii().to_string()),
                self.thread
            ))),
        }
    }

    /// Puts the next point, and deletes the oldest points when there are too many.
    fn point(&mut self) -> Outcome {
        let number = self.points.end;
        self.points.end += 1;
        let value = self.load.row_value(self.thread, number);
        self.timed(Kind::Point, || self.load.series.put(row(self.thread, number), value))?;
        match self.points.end - self.points.start >= self.load.sizes.most_points {
            true => self.sweep(),
            false => Ok(()),
        }
    }

    /// Finds the oldest points from the start of the thread's own range on, and deletes them in one batch.
    fn sweep(&mut self) -> Outcome {
        let swept = self.load.sizes.swept_points;
        let points = row(self.thread, 0)..row(self.thread + 1, 0);
        let found: Vec<(Vec<u8>, Value)> = self.timed(Kind::Sweep, || {
            let (mut batch, mut found) = (WriteBatch::new(), Vec::new());
            for entry in self.load.series.range(points).take(swept as usize) {
                let (key, value) = entry?;
                batch.delete_in(&self.load.series, &key);
                found.push((key, value));
            }
            self.load.db.write(&batch)?;
            Ok(found)
        })?;
        for number in self.points.start..self.points.start + swept {
            self.check_row(number, found.get((number - self.points.start) as usize), "a sweep")?;
        }
        self.points.start += swept;
        Ok(())
    }

    /// Takes a snapshot when it is time. Checks it and drops it when it was held for long enough.
    fn hold_snapshot(&mut self, operation: u64) -> Outcome {
        let sizes = &self.load.sizes;
        let place = operation % sizes.snapshot_every;
        if place == sizes.snapshot_every - sizes.snapshot_held {
            let number = self.drawn(operation, 0);
            let (written, queue_row) = (self.written(number), self.queue.start);
            let snapshot = self.load.db.snapshot();
            self.held = Some(Held { snapshot, number, written, queue_row });
        } else if place == 0
            && let Some(Held { snapshot, number, written, queue_row }) = self.held.take()
        {
            let found = snapshot.get(key(number))?;
            self.check_value(number, written, found.as_deref(), "a snapshot's get")?;
            let first = snapshot.first_in(&self.load.queue)?;
            self.check_row(queue_row, first.as_ref(), "a snapshot")?;
            drop(snapshot);
            self.lane.lock().expect("no thread panics with a lane").snapshots += 1;
        }
        Ok(())
    }

    fn wrong(&self, what: String) -> Failure {
        Failure::Storage(format!("steady: {what}"))
    }
}
