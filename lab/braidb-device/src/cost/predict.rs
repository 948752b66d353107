//! What a store on one or two devices does in a second, predicted from what is known before it runs.
//!
//! [`Setup::by_paper`] is equations 1 to 9 of LogStore as they stand. [`Setup::refined`] has these equations with what BraidDB
//! and the modelled devices (`timeline.rs`, `kernel`) are known to do. Each refinement has one cause:
//!
//! | equation | refined | cause |
//! |---|---|---|
//! | 1, 4, 5, 6 | [`Memory`] in place of the hottest records | a block cache and a page cache keep what was read, not what is hottest |
//! | 2 | one access for a record, one for its table unless cached; each also transfers its pages | filters spare the other tables; a page arrives whole |
//! | 3 | the times of the devices add up | one client waits for one device at a time |
//! | 7 | `A` written bytes and `A - 1` read ones for each byte in place of `2 (M + 1) (L - 1)`, and 1 for the log | the simulator knows which merges the tree makes |
//! | 7 | a seek for each 128 KiB that merges read, and for each 1 MiB that jobs write | read-ahead and requests have these sizes, and the arm was elsewhere in between |
//! | 8 | of the bytes of merges the slow device has as much as of the data | the simulator draws keys evenly; logs and flushes stay on the fast device |
//! | 9 | the same | reads wait for merges on their device, and merges of two devices overlap |

use super::{
    Accesses, Bound, Layout, Limit, Memory, Part, Popularity, Rates, merged_per_byte, mixed_per_second,
};
use crate::kernel::{Ahead, REQUEST_PAGES};
use crate::profile::{PAGE_BYTES, Profile};

/// A store and its load.
///
/// ```
/// use braidb_device::Profile;
/// use braidb_device::cost::{Layout, Limit, Memory, Setup, Tree};
///
/// let setup = Setup {
///     fast: Profile::NVME,
///     slow: Some(Profile::HDD),
///     fast_share: 0.5,
///     records: 1_000_000,
///     key_bytes: 16,
///     value_bytes: 1024,
///     zipf_exponent: 0.9,
///     layout: Layout::ByHeat,
///     memory: Memory { block_bytes: 10 << 20, page_bytes: 10 << 20 },
///     read_share: 0.5,
///     tree: Tree { growth: 10.0, fast_levels: 2, slow_levels: 1, fast_probes: Some(1.0), slow_probes: Some(1.0) },
///     written_per_byte: 4.5,
/// };
/// let refined = setup.refined();
/// assert_eq!(refined.reads.by, Limit::Slow);
/// assert!(refined.reads.per_second < setup.by_paper().reads.per_second);
/// ```
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device of the hottest data.
    pub fast: Profile,
    /// The device of the coldest data. `None` if the fast device has all.
    pub slow: Option<Profile>,
    /// The share of the records on the fast device, from 0 to 1. Has no effect without a slow device.
    pub fast_share: f64,
    /// Different keys; at least 1.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// The exponent of Zipf's law, by which gets and puts draw keys.
    pub zipf_exponent: f64,
    /// Where records of like popularity lie. Matters to the refined form only.
    pub layout: Layout,
    /// Memory for data. The paper's form knows the sum only.
    pub memory: Memory,
    /// The share of operations that read in the mixed load, from 0 to 1. The others put.
    pub read_share: f64,
    /// The tree of the paper's form.
    pub tree: Tree,
    /// Bytes that flushes and merges write for each byte flushed, as `braidb-lab simulate` predicts: `A` of the refined form. At least 1.
    pub written_per_byte: f64,
}

/// The levels of equations 2, 7 and 8.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    /// `M`: the size of a level divided by the size of the level above.
    pub growth: f64,
    /// `L_SSD`: levels on the fast device; at least 1.
    pub fast_levels: u32,
    /// `L_HDD`: levels on the slow device. Has no effect without a slow device.
    pub slow_levels: u32,
    /// Accesses of a read that the fast device serves, such as 1 with filters. `None`: one for each level.
    pub fast_probes: Option<f64>,
    /// Accesses of a read that the slow device serves. `None`: one for each level.
    pub slow_probes: Option<f64>,
}

/// What a form predicts.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// The shares of reads whose record is served by memory, by the fast device and by the slow device.
    pub rates: Rates,
    /// How many accesses a read makes to tables that only tell where the record lies; 0 in the paper's form.
    pub table_accesses: f64,
    /// Reads alone.
    pub reads: Bound,
    /// Puts alone.
    pub puts: Bound,
    /// Operations a second of the mixed load; infinite if nothing limits them.
    pub mixed_per_second: f64,
    /// The share of the mixed load's time that reads take.
    pub reads_of_time: f64,
}

impl Prediction {
    fn new(setup: &Setup, rates: Rates, table_accesses: f64, [reads, puts]: [Bound; 2]) -> Prediction {
        let mixed_per_second = mixed_per_second(setup.read_share, reads.per_second, puts.per_second);
        let reads_of_time = match mixed_per_second.is_finite() {
            true => setup.read_share / reads.per_second * mixed_per_second,
            false => 0.0,
        };
        Prediction { rates, table_accesses, reads, puts, mixed_per_second, reads_of_time }
    }

    /// What limits the mixed load: the device that limits the operations that take most of the time.
    pub fn mixed_limit(&self) -> Limit {
        if !self.mixed_per_second.is_finite() {
            Limit::Memory
        } else if self.reads_of_time >= 0.5 {
            self.reads.by
        } else {
            self.puts.by
        }
    }
}

impl Setup {
    fn record_bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }

    /// The share of the records on the fast device.
    fn fast_share(&self) -> f64 {
        if self.slow.is_some() { self.fast_share } else { 1.0 }
    }

    /// The profile of the slow device, or the fast one's where nothing uses the slow one.
    fn slow_profile(&self) -> Profile {
        self.slow.unwrap_or(self.fast)
    }

    /// Equations 1 to 9.
    pub fn by_paper(&self) -> Prediction {
        let fast_share = self.fast_share();
        let data_bytes = self.records as f64 * self.record_bytes() as f64;
        let memory_bytes = self.memory.block_bytes as f64 + self.memory.page_bytes as f64;
        let memory_share = (memory_bytes / data_bytes).min(1.0);
        let rates = match self.zipf_exponent == 0.0 {
            true => Rates::uniform(memory_share, fast_share),
            false => Rates::hottest_in_memory(&self.popularity(), memory_share, fast_share),
        };
        let (fast, slow) = self.parts_of_paper(fast_share);
        let reads = Bound::of_reads(&fast, &slow, &rates);
        let puts = Bound::of_puts(&fast, &slow, self.record_bytes());
        Prediction::new(self, rates, 0.0, [reads, puts])
    }

    fn popularity(&self) -> Popularity {
        Popularity::zipf(self.records, self.zipf_exponent)
    }

    /// The devices of the paper's form. A slow one without data has no levels; its levels then are on the fast one.
    fn parts_of_paper(&self, fast_share: f64) -> (Part, Part) {
        let tree = &self.tree;
        let slow_levels = if self.slow.is_some() { f64::from(tree.slow_levels) } else { 0.0 };
        let fast_levels = f64::from(tree.fast_levels);
        let merged = |compactions| merged_per_byte(tree.growth, compactions);
        let slow_profile = self.slow_profile();
        if fast_share < 1.0 {
            let fast_probes = tree.fast_probes.unwrap_or(fast_levels);
            let slow_probes = tree.slow_probes.unwrap_or(slow_levels);
            let fast = Part::new(&self.fast, fast_probes, merged(fast_levels - 1.0));
            return (fast, Part::new(&slow_profile, slow_probes, merged(slow_levels)));
        }
        let levels = fast_levels + slow_levels;
        let fast = Part::new(&self.fast, tree.fast_probes.unwrap_or(levels), merged(levels - 1.0));
        (fast, Part::new(&slow_profile, 1.0, 0.0))
    }

    /// The refined form.
    pub fn refined(&self) -> Prediction {
        let fast_share = self.fast_share();
        let record = (self.key_bytes, self.value_bytes);
        let found = self.memory.accesses(&self.popularity(), record, fast_share, self.layout);
        let (fast, slow) = self.parts_refined(fast_share);
        let puts = Bound::of_puts(&fast, &slow, self.record_bytes());
        Prediction::new(self, found.rates, found.of_tables, [reads_of_one_client(&fast, &slow, &found), puts])
    }

    /// The devices of the refined form. Their accesses transfer nothing yet.
    fn parts_refined(&self, fast_share: f64) -> (Part, Part) {
        let merged = self.written_per_byte - 1.0;
        // The log and the flush, and what merges write.
        let fast_written = 2.0 + fast_share * merged;
        let fast = Part::new(&self.fast, 1.0, with_seeks(&self.fast, fast_share * merged, fast_written));
        let slow_merged = (1.0 - fast_share) * merged;
        let profile = self.slow_profile();
        (fast, Part::new(&profile, 1.0, with_seeks(&profile, slow_merged, slow_merged)))
    }
}

/// Bytes that a device could transfer in the time in which jobs read and write these bytes. A seek takes as long as the transfer of the
/// bytes that pass meanwhile.
fn with_seeks(profile: &Profile, read: f64, written: f64) -> f64 {
    let seek_bytes = profile.mean_positioning_ns() as f64 / 1e9 * profile.bytes_per_second() as f64;
    let request_bytes = |pages: u64| (pages * PAGE_BYTES) as f64;
    let of = |bytes: f64, pages: u64| bytes * (1.0 + seek_bytes / request_bytes(pages));
    of(read, u64::from(Ahead::MOST_PAGES)) + of(written, REQUEST_PAGES)
}

/// Reads a second of one client, which waits for one access after the other.
fn reads_of_one_client(fast: &Part, slow: &Part, found: &Accesses) -> Bound {
    let fast_seconds = found.rates.fast * fast.access_seconds(found.record_transfer_bytes)
        + found.of_tables * fast.access_seconds(found.table_transfer_bytes);
    let slow_seconds = found.rates.slow * slow.access_seconds(found.record_transfer_bytes);
    /// Reads of which a device takes less than this time, in seconds, come from memory.
    const NOTHING_SECONDS: f64 = 1e-15;
    let seconds = fast_seconds + slow_seconds;
    if seconds < NOTHING_SECONDS {
        return Bound { per_second: f64::INFINITY, by: Limit::Memory };
    }
    let by = if slow_seconds > fast_seconds { Limit::Slow } else { Limit::Fast };
    Bound { per_second: 1.0 / seconds, by }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million records of 1 KiB on NVMe and a disk, half on each, and memory for nothing.
    fn setup() -> Setup {
        let tree =
            Tree { growth: 10.0, fast_levels: 2, slow_levels: 1, fast_probes: Some(1.0), slow_probes: None };
        Setup {
            fast: Profile::NVME,
            slow: Some(Profile::HDD),
            fast_share: 0.5,
            records: 1_000_000,
            key_bytes: 16,
            value_bytes: 1024,
            zipf_exponent: 0.0,
            layout: Layout::ByHeat,
            memory: Memory { block_bytes: 0, page_bytes: 0 },
            read_share: 0.5,
            tree,
            written_per_byte: 5.0,
        }
    }

    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-3, "{found} and not {expected}");
    }

    #[test]
    fn one_client_waits_for_one_device_after_the_other() {
        // A table on NVMe, then a value on either. A table lies in 2 pages, a value in 1.25.
        let found = setup().refined();
        let nvme = |pages: f64| 1.0 / 6_000.0 + pages * 4096.0 / 480e6;
        let hdd = |pages: f64| 1.0 / 60.0 + pages * 4096.0 / 150e6;
        let seconds = nvme(2.0) + 0.5 * nvme(1.2546) + 0.5 * hdd(1.2546);
        is_near(found.reads.per_second, 1.0 / seconds);
        assert_eq!((found.reads.by, found.table_accesses), (Limit::Slow, 1.0));
        // Equation 3 has the slow device alone: it allows 120 reads a second.
        is_near(setup().by_paper().reads.per_second, 120.0);
    }

    #[test]
    fn merges_of_the_busier_device_limit_puts() {
        // Half of 4 merged bytes are on the disk, where a seek takes as long as the transfer of 2.5 MB.
        let transferred = 2.0 * ((1.0 + 2.5e6 / 131_072.0) + (1.0 + 2.5e6 / 1_048_576.0));
        let found = setup().refined();
        is_near(found.puts.per_second, 150e6 / transferred / 1040.0);
        assert_eq!(found.puts.by, Limit::Slow);
        // With all data on NVMe, its bytes are 4 of merges, and those of log and flush. A seek takes as long as the transfer of 80 kB.
        let alone = Setup { slow: None, ..setup() }.refined();
        let transferred = 4.0 * (1.0 + 80e3 / 131_072.0) + 6.0 * (1.0 + 80e3 / 1_048_576.0);
        is_near(alone.puts.per_second, 480e6 / transferred / 1040.0);
        assert_eq!((alone.puts.by, alone.rates.slow), (Limit::Fast, 0.0));
    }

    #[test]
    fn a_slow_device_without_data_leaves_its_levels_to_the_fast_one() {
        let full = Setup { fast_share: 1.0, ..setup() };
        is_near(full.by_paper().puts.per_second, 480e6 / (22.0 * 2.0) / 1040.0);
        let alone = Setup { slow: None, ..full.clone() };
        is_near(full.refined().mixed_per_second, alone.refined().mixed_per_second);
        let by_levels = Setup { tree: Tree { fast_probes: None, ..full.tree }, ..full };
        is_near(by_levels.by_paper().reads.per_second, 6_000.0 / 3.0);
    }
}
