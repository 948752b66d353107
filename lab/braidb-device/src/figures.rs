//! The figures of a run, as integers that are equal on every machine.

use std::fmt;
use std::ops::AddAssign;

/// All sums since the start of the testbed, over all devices.
///
/// ```
/// use braidb_device::{Testbed, Profile};
/// let testbed = Testbed::new(Profile::SSD, 1 << 30, 64 << 20, 1, 7);
/// testbed.charge_cpu_ns(1_000);
/// assert_eq!(testbed.figures().foreground_cpu_ns, 1_000);
/// println!("{}", testbed.figures());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The foreground's clock, in nanoseconds.
    pub now_ns: u64,
    /// The latest end, in nanoseconds, of the foreground, a job, or a request of a device.
    pub end_ns: u64,
    /// The sums of all devices; two devices that are busy at once count twice.
    pub devices: DeviceFigures,
    /// Pages that reads found in the page cache. Holes count as found.
    pub cache_hits: u64,
    /// Pages for which reads waited for the device.
    pub cache_misses: u64,
    /// Pages that were read ahead.
    pub ahead_pages: u64,
    /// Time that writers waited because too many pages were dirty, in nanoseconds.
    pub throttled_ns: u64,
    /// Jobs that ran.
    pub jobs: u64,
    /// Processor time of the foreground, which is the benchmark's thread outside of background jobs, in nanoseconds.
    pub foreground_cpu_ns: u64,
    /// Processor time of background jobs, in nanoseconds.
    pub background_cpu_ns: u64,
}

impl Figures {
    /// Each figure with its name.
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        let clocks = [("now_ns", self.now_ns), ("end_ns", self.end_ns)];
        let others = [
            ("cache_hits", self.cache_hits),
            ("cache_misses", self.cache_misses),
            ("ahead_pages", self.ahead_pages),
            ("throttled_ns", self.throttled_ns),
            ("jobs", self.jobs),
            ("foreground_cpu_ns", self.foreground_cpu_ns),
            ("background_cpu_ns", self.background_cpu_ns),
        ];
        clocks.into_iter().chain(self.devices.rows()).chain(others).collect()
    }
}

/// The sums of one device since the start of the testbed.
///
/// ```
/// use braidb_device::{DeviceId, Testbed, Profile};
/// let testbed = Testbed::new(Profile::SSD, 1 << 30, 64 << 20, 1, 7);
/// testbed.env().fs.sync_dir("/".as_ref())?;
/// assert_eq!(testbed.figures_of(DeviceId::FIRST).written_bytes, 4_096);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFigures {
    /// Requests that read.
    pub reads: u64,
    /// Requests that write, including the journal's.
    pub writes: u64,
    /// Number of seeks.
    pub seeks: u64,
    /// Bytes that the device read.
    pub read_bytes: u64,
    /// Bytes that the device wrote.
    pub written_bytes: u64,
    /// Time that the device was busy, in nanoseconds.
    pub busy_ns: u64,
    /// Writes of the device's journal: one for each sync, and one for every 5 s of changes without a sync.
    pub journal_writes: u64,
}

impl DeviceFigures {
    /// Each figure with its name.
    pub fn rows(&self) -> [(&'static str, u64); 7] {
        [
            ("reads", self.reads),
            ("writes", self.writes),
            ("seeks", self.seeks),
            ("read_bytes", self.read_bytes),
            ("written_bytes", self.written_bytes),
            ("busy_ns", self.busy_ns),
            ("journal_writes", self.journal_writes),
        ]
    }
}

impl AddAssign for DeviceFigures {
    fn add_assign(&mut self, other: DeviceFigures) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.seeks += other.seeks;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.busy_ns += other.busy_ns;
        self.journal_writes += other.journal_writes;
    }
}

impl fmt::Display for Figures {
    /// One line for each figure: its name, a blank, the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().iter().try_for_each(|(name, figure)| writeln!(f, "{name} {figure}"))
    }
}
