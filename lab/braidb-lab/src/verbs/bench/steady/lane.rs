//! What the threads record in a minute: operations, latencies by kind, and how late they were.

use hdrhistogram::Histogram;

/// The kinds of calls that are timed. A pop is two calls that are timed as one, the range and the delete. A sweep is the range and the
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Put,
    Delete,
    Get,
    Seek,
    Batch,
    Push,
    Pop,
    Point,
    Sweep,
}

/// All kinds in their order, each with its name.
pub const KINDS: [(Kind, &str); 9] = [
    (Kind::Put, "put"),
    (Kind::Delete, "delete"),
    (Kind::Get, "get"),
    (Kind::Seek, "seek"),
    (Kind::Batch, "batch"),
    (Kind::Push, "push"),
    (Kind::Pop, "pop"),
    (Kind::Point, "point"),
    (Kind::Sweep, "sweep"),
];

/// The highest latency that is recorded, in nanoseconds: 100 seconds. A higher latency is recorded as this one.
const LONGEST_NS: u64 = 100_000_000_000;

/// The operations of one thread, or the sum over several. Two digits of a latency are exact.
#[derive(Debug)]
pub struct Lane {
    /// A sweep is part of the operation that puts a point.
    pub operations: u64,
    /// The most nanoseconds by which an operation began late.
    pub latest_ns: u64,
    /// Snapshots that were checked and dropped.
    pub snapshots: u64,
    latencies: [Histogram<u64>; KINDS.len()],
}

impl Default for Lane {
    fn default() -> Lane {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are right");
        Lane {
            operations: 0,
            latest_ns: 0,
            snapshots: 0,
            latencies: std::array::from_fn(|_| latency.clone()),
        }
    }
}

impl Lane {
    pub fn record(&mut self, kind: Kind, took_ns: u64) {
        self.latencies[kind as usize].saturating_record(took_ns);
    }

    /// Counts an operation that ended, and began late by `late_ns`.
    pub fn ended(&mut self, late_ns: u64) {
        self.operations += 1;
        self.latest_ns = self.latest_ns.max(late_ns);
    }

    pub fn add(&mut self, other: &Lane) {
        self.operations += other.operations;
        self.latest_ns = self.latest_ns.max(other.latest_ns);
        self.snapshots += other.snapshots;
        for (all, other) in self.latencies.iter_mut().zip(&other.latencies) {
            all.add(other).expect("all have the same bounds");
        }
    }

    pub fn latency(&self, kind: Kind) -> &Histogram<u64> {
        &self.latencies[kind as usize]
    }

    /// The latencies of all calls of `put`: keys, rows of queues, and points.
    pub fn puts(&self) -> Histogram<u64> {
        let mut puts = self.latency(Kind::Put).clone();
        for kind in [Kind::Push, Kind::Point] {
            puts.add(self.latency(kind)).expect("all have the same bounds");
        }
        puts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_at_their_places_and_lanes_add_up() {
        assert!(KINDS.iter().enumerate().all(|(place, &(kind, _))| kind as usize == place));
        let (mut one, mut other) = (Lane::default(), Lane::default());
        one.record(Kind::Put, 5);
        one.ended(7);
        other.record(Kind::Point, 90);
        other.record(Kind::Batch, 100);
        other.ended(3);
        one.add(&other);
        assert_eq!((one.operations, one.latest_ns), (2, 7));
        assert_eq!((one.puts().len(), one.puts().max(), one.latency(Kind::Batch).max()), (2, 90, 100));
    }
}
