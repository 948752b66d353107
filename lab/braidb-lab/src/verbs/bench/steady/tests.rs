//! The steady load at a small size: by a number of operations, not by the clock.

use super::client::{Client, End};
use super::lane::{KINDS, Kind};
use super::load::{Load, Sizes, THREADS, Written, key, row};
use super::report::Causes;
use super::{clients, lanes, measure, pace};
use braidb::{Db, Options};
use braidb_bench::{Timer, WallTimer};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SIZES: Sizes = Sizes {
    keys: 4_000,
    queue_rows: 30,
    most_points: 120,
    swept_points: 40,
    snapshot_every: 1_000,
    snapshot_held: 700,
};

/// A rate that is so high that every thread is late, and none waits for its next operation.
const ANY_RATE: u64 = 1_000_000_000;

/// A directory that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let place = Place(std::env::temp_dir().join(format!("braidb-steady-{test}-{}", std::process::id())));
        place.remove();
        place
    }

    /// A filled database with little memory, so that it flushes and merges.
    fn load(&self) -> Load {
        let db: Db = Options::new().memtable_bytes(256 << 10).open(&self.0).unwrap();
        let load = Load::new(db, SIZES, 7).unwrap();
        load.fill(|_| {}).unwrap();
        load
    }

    fn remove(&self) {
        let _ = braidb_bench::host::files::remove_if_there(&self.0);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Every kind of operation happens in its proportion, all reads are right, and the database then holds what the threads remember.
#[test]
fn a_small_load_does_all_that_it_should_and_finds_what_it_wrote() {
    const OPERATIONS: u64 = 6_000;
    let place = Place::new("all");
    let load = place.load();
    let (timer, lanes) = (WallTimer::start(), lanes());
    let pace = pace(&timer, ANY_RATE, End::Operations(OPERATIONS));
    let mut clients = clients(&load, &pace, &lanes);
    let report = measure(&load, &pace, &lanes, &mut clients, |_| Ok(())).unwrap();

    let all = report.all();
    assert_eq!(
        (all.operations, all.snapshots),
        (THREADS * OPERATIONS, OPERATIONS / SIZES.snapshot_every - 1)
    );
    let shares = [38, 5, 37, 3, 1, 3, 3, 10];
    for ((kind, name), share) in KINDS.into_iter().zip(shares) {
        let (calls, expected) = (all.latency(kind).len(), share * THREADS * OPERATIONS / 100);
        assert!(calls.abs_diff(expected) < 30 + expected / 10, "{name}: {calls} and not {expected}");
    }
    let points = clients.iter().map(|client| client.points.end);
    let sweeps = points.map(|points| (points - SIZES.most_points) / SIZES.swept_points + 1).sum::<u64>();
    assert_eq!(all.latency(Kind::Sweep).len(), sweeps);

    for (thread, client) in (0..).zip(&clients) {
        for (family, numbers) in [(&load.queue, &client.queue), (&load.series, &client.points)] {
            let found: Vec<_> =
                family.range(row(thread, 0)..row(thread + 1, 0)).map(Result::unwrap).collect();
            assert_eq!(found.len() as u64, numbers.end - numbers.start);
            for ((found, value), number) in found.iter().zip(numbers.clone()) {
                assert_eq!(
                    (&found[..], &value[..]),
                    (&row(thread, number)[..], load.row_value(thread, number))
                );
            }
        }
        for (number, &written) in client.owned.clone().zip(&client.written) {
            let found = load.db.get(key(number)).unwrap();
            assert!(found.as_deref() == load.value(number, written), "{number}: {written:?}");
        }
        let count = |is: fn(&[u8]) -> bool| {
            let values = client.owned.clone().zip(&client.written);
            values.filter(|&(number, written)| load.value(number, *written).is_some_and(is)).count()
        };
        let (small, large) = (count(|value| value.len() == 100), count(|value| value.len() == 4096));
        assert!(small < 1_000 && large > 0 && large < small / 20, "{small} {large}");
    }
    load.db.settle().unwrap();
    let stats = load.db.stats();
    assert_eq!(Causes::of(&stats).all(), stats.total_written_bytes(), "{stats:?}");
    let text = report.tables();
    for line in ["  default-flush ", "  series-flush "] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    load.db.close().unwrap();
}

/// Runs the first thread alone on a database that `spoil` has changed. Returns the error.
fn spoiled(test: &str, spoil: impl FnOnce(&Load)) -> String {
    let place = Place::new(test);
    let load = place.load();
    spoil(&load);
    let (timer, lanes) = (WallTimer::start(), lanes());
    let pace = pace(&timer, ANY_RATE, End::Operations(6_000));
    match Client::new(&load, &pace, &lanes[0], 0).run() {
        Err(crate::failure::Failure::Storage(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_answers_end_the_load() {
    let foreign = |load: &Load, numbers: std::ops::Range<u64>| {
        let value = load.value(numbers.end, Written::FILLED).unwrap().to_vec();
        numbers.for_each(|number| load.db.put(key(number), &value).unwrap());
    };
    let message = spoiled("foreign", |load| foreign(load, 0..1_000));
    assert!(
        message.contains("which is not what was written last") || message.contains("a seek"),
        "{message}"
    );
    let message = spoiled("row", |load| load.queue.delete(row(0, 3)).unwrap());
    assert!(message.contains(&format!("a pop finds {:024}, and not the row 3", 4)), "{message}");
    let message = spoiled("point", |load| load.series.put([&row(0, 3)[..], b"x"].concat(), "x").unwrap());
    assert!(message.contains("a sweep finds"), "{message}");
    let message = spoiled("missing", |load| {
        (0..1_000).for_each(|number| load.db.delete(key(number)).unwrap());
    });
    assert!(message.contains("returns nothing") || message.contains("a seek"), "{message}");
}

/// A clock that advances only when a thread sleeps, or when the test advances it.
#[derive(Default)]
struct Clock(AtomicU64);

impl Timer for Clock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn pause(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A thread that is late catches up: it does all operations of its time, whether it began in time or not, and none after its end.
#[test]
fn late_operations_lower_no_rate() {
    for late_ms in [0, 900] {
        let place = Place::new("late");
        let load = place.load();
        let (clock, lanes) = (Clock::default(), lanes());
        let pace = pace(&clock, 8_000, End::Seconds(1));
        clock.pause(Duration::from_millis(late_ms));
        let ended_ns = Client::new(&load, &pace, &lanes[0], 0).run().unwrap();
        let lane = std::mem::take(&mut *lanes[0].lock().unwrap());
        assert_eq!((lane.operations, ended_ns), (2_000, 1_000_000_000), "late by {late_ms} ms");
        assert!(lane.latest_ns >= late_ms * 1_000_000, "{}", lane.latest_ns);
    }
}
