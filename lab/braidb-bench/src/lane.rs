//! Records of a workload's threads: operations, their latencies, and how many ended in each second.

use hdrhistogram::Histogram;

/// The highest latency that is recorded, in nanoseconds: an hour. A higher latency is recorded as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The operations of one thread, or the sum over several.
#[derive(Clone, Debug)]
pub struct Lane {
    pub operations: u64,
    /// Entries that reads returned.
    pub found: u64,
    /// Keys and values that were handed to the store.
    pub user_bytes: u64,
    /// The sum of the bytes of keys and values that scans returned, and of values that gets returned, each byte as a number.
    pub byte_sum: u64,
    /// Operations whose answer was compared with what the store must hold.
    pub checked: u64,
    /// Nanoseconds of each operation. In a workload that reads and writes, nanoseconds of each operation that reads.
    pub latency: Histogram<u64>,
    /// In a workload that reads and writes, nanoseconds of each operation that writes. Otherwise empty.
    pub write_latency: Histogram<u64>,
    /// Operations that ended in each second since the workload began.
    pub by_second: Vec<u64>,
    /// Processor time of the threads.
    pub cpu_us: u64,
}

/// One operation that ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    pub found: u64,
    pub is_checked: bool,
    /// Whether the operation writes, in a workload that also reads. Its latency then counts in [`Lane::write_latency`].
    pub is_write_among_reads: bool,
}

impl Default for Lane {
    fn default() -> Lane {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are right");
        Lane {
            operations: 0,
            found: 0,
            user_bytes: 0,
            byte_sum: 0,
            checked: 0,
            write_latency: latency.clone(),
            latency,
            by_second: Vec::new(),
            cpu_us: 0,
        }
    }
}

impl Lane {
    /// Counts an operation that took `took_ns` and ended `at_ns` after the workload's beginning.
    pub fn record(&mut self, ended: Ended, at_ns: u64, took_ns: u64) {
        self.operations += 1;
        self.found += ended.found;
        self.checked += u64::from(ended.is_checked);
        let latency = if ended.is_write_among_reads { &mut self.write_latency } else { &mut self.latency };
        latency.saturating_record(took_ns);
        let second = (at_ns / 1_000_000_000) as usize;
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
    }

    pub fn add(&mut self, other: &Lane) {
        self.operations += other.operations;
        self.found += other.found;
        self.user_bytes += other.user_bytes;
        self.byte_sum += other.byte_sum;
        self.checked += other.checked;
        self.latency.add(&other.latency).expect("all have the same bounds");
        self.write_latency.add(&other.write_latency).expect("all have the same bounds");
        if self.by_second.len() < other.by_second.len() {
            self.by_second.resize(other.by_second.len(), 0);
        }
        self.by_second.iter_mut().zip(&other.by_second).for_each(|(all, other)| *all += other);
        self.cpu_us += other.cpu_us;
    }

    /// Latencies of all operations: reads and writes.
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = self.latency.clone();
        all.add(&self.write_latency).expect("both have the same bounds");
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_add_up() {
        let (mut one, mut other) = (Lane::default(), Lane::default());
        one.record(Ended { found: 2, is_checked: true, is_write_among_reads: false }, 999_999_999, 5);
        other.record(Ended { found: 1, is_checked: false, is_write_among_reads: true }, 2_000_000_000, 7);
        one.add(&other);
        assert_eq!((one.operations, one.found, one.checked), (2, 3, 1));
        assert_eq!(one.by_second, [1, 0, 1]);
        assert_eq!((one.latency.max(), one.write_latency.max(), one.all_latencies().len()), (5, 7, 2));
    }
}
