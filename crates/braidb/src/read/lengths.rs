//! The usual length of scans. A scan that reads values ahead would like to know where its user stops. The engine remembers how long the
//! earlier scans of a column family were, and reads ahead to the median in one window.

use crate::base::ids::FamilyId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Estimates that a database keeps. Column families whose numbers are equal modulo 16 share one.
const ESTIMATES: usize = 16;
/// A scan that is longer or shorter than the estimate moves it by one part in 8, so that 20 scans change it tenfold.
const ESTIMATE_SHARE: u64 = 8;

/// Estimates of the bytes that the median scan returns. Scans that end at their first value do not count.
#[derive(Debug, Default)]
pub struct UsualLengths([AtomicU64; ESTIMATES]);

impl UsualLengths {
    /// The estimate for a column family, in bytes: 0 before its first scan.
    pub fn of(&self, family: FamilyId) -> u64 {
        self.estimate(family).load(Ordering::Relaxed)
    }

    /// A scan returned `bytes`. Scans that end at the same time may count as one.
    pub fn learn(&self, family: FamilyId, bytes: u64) {
        let estimate = self.estimate(family);
        let before = estimate.load(Ordering::Relaxed);
        let step = (before / ESTIMATE_SHARE).max(1);
        let after = match before {
            0 => bytes,
            _ if bytes > before => before.saturating_add(step),
            _ => before - step,
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
    fn the_estimate_follows_the_median() {
        let lengths = UsualLengths::default();
        let family = FamilyId(17);
        lengths.learn(family, 1_000_000);
        assert_eq!((lengths.of(family), lengths.of(FamilyId(2))), (1_000_000, 0));
        for number in 0..400_u64 {
            // Three scans of 1,000 bytes, and one of a million.
            lengths.learn(family, if number % 4 == 0 { 1_000_000 } else { 1_000 });
        }
        let few = lengths.of(family);
        assert!((500..2_000).contains(&few), "{few}");
        for _ in 0..100 {
            lengths.learn(family, 1_000_000);
        }
        let many = lengths.of(family);
        assert!((800_000..1_200_000).contains(&many), "{many}");
        for _ in 0..1_000 {
            lengths.learn(family, 0);
        }
        assert!(lengths.of(family) <= 1);
    }
}
