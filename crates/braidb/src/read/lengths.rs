//! The usual length of scans, which decides how far a scan reads values ahead. The engine remembers how long the earlier scans of a column
//! family were. The second window of a scan ends where eight of nine scans end. Workload E of 50,000 operations took 90.4 s on the modelled
//! nvme, and 97.1 s if the window ended at the median length: a scan that needs a further window goes to all value files again.

use super::ahead::MOST_BYTES;
use crate::base::ids::FamilyId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Estimates that a database keeps. Column families whose numbers are equal modulo 16 share one.
const ESTIMATES: usize = 16;
/// A scan that is longer than the estimate adds one part in 8 to it, so that 20 scans change it tenfold.
const LONGER_SHARE: u64 = 8;
/// A scan that is not longer than the estimate takes one part in 64 from it. So the estimate stays where one scan in nine is longer.
const SHORTER_SHARE: u64 = 64;

/// Estimates of the bytes that eight of nine scans do not exceed, at most [`MOST_BYTES`]. Without this bound one scan of a whole database
/// would make the windows of hundreds of short scans the largest. Scans that end at their first value do not count.
#[derive(Debug, Default)]
pub struct UsualLengths([AtomicU64; ESTIMATES]);

impl UsualLengths {
    /// The estimate for a column family, in bytes: 0 before its first scan.
    pub fn of(&self, family: FamilyId) -> u64 {
        self.estimate(family).load(Ordering::Relaxed)
    }

    /// A scan returned `bytes`. Scans that end at the same time may count as one.
    pub fn learn(&self, family: FamilyId, bytes: u64) {
        let (estimate, bytes) = (self.estimate(family), bytes.min(MOST_BYTES));
        let before = estimate.load(Ordering::Relaxed);
        let after = match before {
            0 => bytes,
            _ if bytes > before => before.saturating_add((before / LONGER_SHARE).max(1)),
            _ => before - (before / SHORTER_SHARE).max(1),
        };
        estimate.store(after, Ordering::Relaxed);
    }

    fn estimate(&self, family: FamilyId) -> &AtomicU64 {
        &self.0[family.0 as usize % ESTIMATES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_eight_scans_of_nine() {
        let lengths = UsualLengths::default();
        let family = FamilyId(17);
        lengths.learn(family, 1_000_000);
        assert_eq!((lengths.of(family), lengths.of(FamilyId(2))), (1_000_000, 0));
        // One scan of a million bytes among 20, and then one among 4.
        let learned = |every: u64| {
            let scans = (0..2_000).map(|number| if number % every == 0 { 1_000_000 } else { 1_000 });
            scans.for_each(|bytes| lengths.learn(family, bytes));
            lengths.of(family)
        };
        let (few, many) = (learned(20), learned(4));
        assert!((500..2_000).contains(&few), "{few}");
        assert!((800_000..1_200_000).contains(&many), "{many}");
        for _ in 0..2_000 {
            lengths.learn(family, 0);
        }
        assert!(lengths.of(family) <= 1);
    }

    /// One scan reads the whole database. Short scans after it must not read the largest windows for long.
    #[test]
    fn one_very_long_scan_is_forgotten_soon() {
        let (lengths, family) = (UsualLengths::default(), FamilyId(0));
        lengths.learn(family, 100_000_000_000);
        assert_eq!(lengths.of(family), MOST_BYTES);
        (0..100).for_each(|_| lengths.learn(family, 1_000));
        assert!(lengths.of(family) < MOST_BYTES / 4);
    }
}
