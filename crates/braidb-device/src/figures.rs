//! The figures of a run, as integers that are equal on every machine.

use std::fmt;

/// All sums since the start of the model, over all devices.
///
/// ```
/// use braidb_device::{Model, Profile};
/// let model = Model::new(Profile::SSD, 1 << 30, 64 << 20, 1, 7);
/// model.charge_cpu_ns(1_000);
/// assert_eq!(model.figures().foreground_cpu_ns, 1_000);
/// println!("{}", model.figures());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The foreground's clock, in nanoseconds.
    pub now_ns: u64,
    /// The latest end, in nanoseconds, of the foreground, a job, or a request of a device.
    pub end_ns: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that write, including the journal's.
    pub writes: u64,
    /// Number of seeks.
    pub seeks: u64,
    /// Bytes that the devices read.
    pub read_bytes: u64,
    /// Bytes that the devices wrote.
    pub written_bytes: u64,
    /// Time that the devices were busy, in nanoseconds; two devices that are busy at once count twice.
    pub busy_ns: u64,
    /// Writes of the journals: one for each sync, and one for every 5 s of changes without a sync.
    pub journal_writes: u64,
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
    /// Processor time of the foreground, in nanoseconds.
    pub foreground_cpu_ns: u64,
    /// Processor time of the jobs, in nanoseconds.
    pub background_cpu_ns: u64,
}

impl Figures {
    /// Each figure with its name.
    pub fn rows(&self) -> [(&'static str, u64); 16] {
        [
            ("now_ns", self.now_ns),
            ("end_ns", self.end_ns),
            ("reads", self.reads),
            ("writes", self.writes),
            ("seeks", self.seeks),
            ("read_bytes", self.read_bytes),
            ("written_bytes", self.written_bytes),
            ("busy_ns", self.busy_ns),
            ("journal_writes", self.journal_writes),
            ("cache_hits", self.cache_hits),
            ("cache_misses", self.cache_misses),
            ("ahead_pages", self.ahead_pages),
            ("throttled_ns", self.throttled_ns),
            ("jobs", self.jobs),
            ("foreground_cpu_ns", self.foreground_cpu_ns),
            ("background_cpu_ns", self.background_cpu_ns),
        ]
    }
}

/// The sums of one device since the start of the model.
///
/// ```
/// use braidb_device::{DeviceId, Model, Profile};
/// let model = Model::new(Profile::SSD, 1 << 30, 64 << 20, 1, 7);
/// model.env().fs.sync_dir("/".as_ref())?;
/// assert_eq!(model.figures_of(DeviceId::FIRST).written_bytes, 4_096);
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
    /// Writes of the device's journal.
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

impl fmt::Display for Figures {
    /// One line for each figure: its name, a blank, the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().iter().try_for_each(|(name, figure)| writeln!(f, "{name} {figure}"))
    }
}
