//! The cost model of LogStore (section IV of the paper): what a log-structured store on two devices does in a second.
//!
//! [`Rates`] tells how many reads memory and each device serve (equations 1, 4, 5 and 6). [`Memory`] is the form for BraidDB's
//! caches. [`Part`] is a device with its levels (equations 2 and 7). [`Bound`] finds the
//! device that limits a store (equations 3 and 8). [`mixed_per_second`] joins reads and puts (equation 9).
//!
//! ```
//! use braidb_device::Profile;
//! use braidb_device::cost::{Bound, Limit, Part, Popularity, Rates, merged_per_byte, mixed_per_second};
//!
//! let fast = Part::new(&Profile::NVME, 2.0, merged_per_byte(10.0, 1.0)); // two levels, one compaction
//! let slow = Part::new(&Profile::HDD, 1.0, merged_per_byte(10.0, 1.0));
//! let popularity = Popularity::zipf(100_000_000, 0.9);
//! let rates = Rates::hottest_in_memory(&popularity, 0.08, 0.5);
//! let reads = Bound::of_reads(&fast, &slow, &rates);
//! let puts = Bound::of_puts(&fast, &slow, 1024);
//! assert_eq!((reads.by, puts.by), (Limit::Slow, Limit::Slow));
//! let mixed = mixed_per_second(0.5, reads.per_second, puts.per_second);
//! assert!((1_000.0..2_000.0).contains(&mixed));
//! ```
//!
//! # The two forms
//!
//! [`Setup`] has all that a prediction needs, and predicts in both forms: the paper's, and a refined one for BraidDB. `predict.rs` has a
//! cause for each refinement.
//!
//! # What both forms leave out
//!
//! - Before heat is known, a load finds its hot records on the slow device too.
//! - A put makes copies of its record in caches useless. Merges push pages out of the page cache.
//! - Gets of records that were just put are served by the memtable.
//! - Syncs, the journal and processors are free. An access does not wait for a merge's request that the device is serving.
//! - The arm of a disk takes equally long for all seeks. LogStore IV-D saw a disk lose up to 20% when it held cold data only.
//! - Table V of the paper (mixed loads) does not follow from equation 9 and the inputs that section VI-C4 names. The tests
//!   of this module show what does follow.

mod lru;
mod memory;
mod predict;
mod rates;

pub use memory::{Accesses, Layout, Memory};
pub use predict::{Prediction, Setup, Tree};
pub use rates::{Popularity, Rates};

use crate::Profile;

/// A device, and what reads and merges ask of it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Random accesses a second that the device does: `TP_SSD` or `TP_HDD` of the paper.
    pub accesses_per_second: f64,
    /// Bytes a second of sequential reading and writing: `W` of the paper.
    pub bytes_per_second: f64,
    /// How many accesses a read makes that the device serves: `L` of equation 2. Without filters it is one for each level.
    pub accesses_per_read: f64,
    /// Bytes that merges read from the device and write to it, for each byte of a put: `2 (M + 1) (L - 1)` of equation 7.
    /// A number that was simulated or measured may stand here. 0 if no merge uses the device.
    pub merged_per_byte: f64,
}

impl Part {
    /// The device of `profile`. An access costs the mean positioning, as in the paper, and no transfer.
    pub fn new(profile: &Profile, accesses_per_read: f64, merged_per_byte: f64) -> Part {
        Part {
            accesses_per_second: 1e9 / profile.mean_positioning_ns() as f64,
            bytes_per_second: profile.bytes_per_second() as f64,
            accesses_per_read,
            merged_per_byte,
        }
    }

    /// The time of an access that also transfers `bytes`, in seconds.
    pub(crate) fn access_seconds(&self, bytes: f64) -> f64 {
        1.0 / self.accesses_per_second + bytes / self.bytes_per_second
    }

    /// Equation 2: reads a second of the whole store, if only this device limits them. The device serves the share `rate`
    /// of all reads. Infinite if it serves none.
    pub fn reads_per_second(&self, rate: f64) -> f64 {
        self.accesses_per_second / (self.accesses_per_read * rate)
    }

    /// Equation 7: puts a second of records of `record_bytes`, if only merges on this device limit them. Infinite if there
    /// are none.
    pub fn puts_per_second(&self, record_bytes: u64) -> f64 {
        self.bytes_per_second / (self.merged_per_byte * record_bytes as f64)
    }
}

/// The cost of equation 7: bytes that merges read and write for each byte of a put, `2 (M + 1) compactions`. `growth` is
/// `M`, the size of a level divided by the size of the level above.
///
/// A device that holds all `L` levels does `L - 1` compactions. Of two devices (equation 8) the fast one does one less than
/// its levels, and the slow one does one for each of its levels.
pub fn merged_per_byte(growth: f64, compactions: f64) -> f64 {
    2.0 * (growth + 1.0) * compactions
}

/// What limits a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No device: memory serves everything.
    Memory,
    /// The fast device.
    Fast,
    /// The slow device.
    Slow,
}

/// A throughput of the store, and what limits it.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Operations a second; infinite if no device limits them.
    pub per_second: f64,
    /// The device that is busy all the time.
    pub by: Limit,
}

impl Bound {
    /// Equation 3: reads a second. The device that is busier with its share of the reads limits them.
    pub fn of_reads(fast: &Part, slow: &Part, rates: &Rates) -> Bound {
        Bound::lower(fast.reads_per_second(rates.fast), slow.reads_per_second(rates.slow))
    }

    /// Equation 8: puts a second of records of `record_bytes`. The device that is busier with merges limits them.
    ///
    /// The paper compares `W_HDD / L_HDD` with `W_SSD / (L_SSD - 1)`. Both sides lack the factor `1 / (2 (M + 1) e)`, so the
    /// comparison of the throughputs is the same one.
    pub fn of_puts(fast: &Part, slow: &Part, record_bytes: u64) -> Bound {
        Bound::lower(fast.puts_per_second(record_bytes), slow.puts_per_second(record_bytes))
    }

    fn lower(fast: f64, slow: f64) -> Bound {
        if slow < fast {
            Bound { per_second: slow, by: Limit::Slow }
        } else if fast.is_finite() {
            Bound { per_second: fast, by: Limit::Fast }
        } else {
            Bound { per_second: fast, by: Limit::Memory }
        }
    }
}

/// Equation 9: operations a second, of which the share `read_share` reads and the rest puts. One client does one operation after the other.
pub fn mixed_per_second(read_share: f64, reads_per_second: f64, puts_per_second: f64) -> f64 {
    1.0 / (read_share / reads_per_second + (1.0 - read_share) / puts_per_second)
}

#[cfg(test)]
mod tests {
    //! The test program `model` of braidb-lab has the figures of one device.
    use super::*;

    /// The growth of LevelDB's levels. The predictions of section VI-B1 need it.
    const GROWTH: f64 = 10.0;
    /// A record of section VI-B1: 1 KB.
    const RECORD_BYTES: u64 = 1024;

    /// The devices of the paper's LS-NH: two levels on NVMe, one on a disk.
    fn logstore() -> (Part, Part) {
        let one_compaction = merged_per_byte(GROWTH, 1.0);
        (Part::new(&Profile::NVME, 2.0, one_compaction), Part::new(&Profile::HDD, 1.0, one_compaction))
    }

    /// The rates of section VI-A3.
    const RATES: Rates = Rates { memory: 0.7, fast: 0.227, slow: 0.073 };

    fn is_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} and not {expected}");
    }

    #[test]
    fn reads_of_two_devices_are_those_of_table_iv() {
        let (fast, slow) = logstore();
        let reads = Bound::of_reads(&fast, &slow, &RATES);
        assert_eq!((libm::round(reads.per_second), reads.by), (822.0, Limit::Slow));
        // With a thousandth of the reads on the disk, NVMe is the limit.
        let rates = Rates { memory: 0.0, fast: 0.999, slow: 0.001 };
        let reads = Bound::of_reads(&fast, &slow, &rates);
        assert_eq!((libm::round(reads.per_second), reads.by), (3_003.0, Limit::Fast));
        let all_in_memory = Bound::of_reads(&fast, &slow, &Rates { memory: 1.0, fast: 0.0, slow: 0.0 });
        assert_eq!((all_in_memory.per_second, all_in_memory.by), (f64::INFINITY, Limit::Memory));
    }

    #[test]
    fn puts_of_two_devices_are_those_of_section_vi_b1() {
        let (fast, slow) = logstore();
        let puts = Bound::of_puts(&fast, &slow, RECORD_BYTES);
        assert_eq!((libm::round(puts.per_second), puts.by), (6_658.0, Limit::Slow));
        // By equation 8 the fast device is the limit where W_SSD / (L_SSD - 1) is smaller than W_HDD / L_HDD: 480 / 4 < 150 / 1.
        let five_levels = Part { merged_per_byte: merged_per_byte(GROWTH, 4.0), ..fast };
        let puts = Bound::of_puts(&five_levels, &slow, RECORD_BYTES);
        assert_eq!(puts.by, Limit::Fast);
        is_near(puts.per_second, 480e6 / (2.0 * 11.0 * 4.0 * 1024.0), 1e-12);
    }

    #[test]
    fn table_v_does_not_follow_from_its_inputs() {
        // Equation 9 with the throughputs of Table IV and of section VI-B1, for LDB-HDD and LS-NH under B-90, A and B-10.
        let of = |reads, puts| [0.9, 0.5, 0.1].map(|share| libm::round(mixed_per_second(share, reads, puts)));
        assert_eq!(of(200.0, 1_110.0), [218.0, 339.0, 763.0], "Table V says 180, 312 and 1,441");
        assert_eq!(of(822.0, 6_658.0), [901.0, 1_463.0, 3_894.0], "Table V says 745, 1,215 and 3,753");
        // By equation 9 the time of an operation is linear in the share of reads. So A follows from B-90 and B-10, whatever
        // the inputs were: within 3% for LDB-HDD and LS-NH, and not for LDB-SSD and LDB-NVMe.
        let a_of = |b_90: f64, b_10: f64| mixed_per_second(0.5, b_90, b_10);
        is_near(a_of(180.0, 1_441.0), 312.0, 0.03);
        is_near(a_of(745.0, 3_753.0), 1_215.0, 0.03);
        assert!(a_of(2_962.0, 10_441.0) < 0.76 * 6_148.0);
        assert!(a_of(15_586.0, 16_459.0) > 1.07 * 14_940.0);
    }
}
