//! Reading one view: a get that stops at its first hit, and scans in both directions.

mod ahead;
mod backward;
mod damage;
mod estimate;
mod get;
mod get_many;
mod lengths;
mod payers;
mod scan;
mod source;
mod spare;
mod trail;
mod unchanged;
mod view_cursor;

use crate::version::usage::rent::CHARGED_BITS;

pub use damage::{damaged_ranges, touches};
pub use estimate::{RangeEstimate, estimate};
pub use get::{contains, get};
pub use get_many::get_many;
pub use lengths::UsualLengths;
pub use scan::{Backward, Forward, Passed, ScanContext};
pub use trail::GapSink;
pub use unchanged::{is_key_unchanged, is_range_unchanged};

/// How many times a read counts when it is charged for what it read in vain: 8 for one read in eight, and 0 for all others. The read's
/// number in its stripe of the counter decides. Multiples of the golden ratio spread the choice evenly, so a user that alternates between
/// two places is charged in both.
#[inline]
pub fn weight(number: u64) -> u64 {
    let is_charged = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CHARGED_BITS) == 0;
    u64::from(is_charged) << CHARGED_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_in_eight_is_charged_whatever_the_turns() {
        for step in 1..=64 {
            let charged: u64 = (0..8_000).map(|read| weight(3 + read * step)).sum();
            assert!((7_200..8_800).contains(&charged), "each {step}th read: {charged}");
        }
    }
}
