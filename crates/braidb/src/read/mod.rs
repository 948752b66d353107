//! Reading one view: a get that stops at its first hit, and scans in both directions.

mod ahead;
mod get;
mod lengths;
mod scan;
mod source;

pub use get::{contains, get};
pub use lengths::UsualLengths;
pub use scan::{Backward, Forward, Passed, ScanContext};

/// One read in this many is charged for what it pays in vain, for all of them. Charging takes 10 to 20 ns for each slice, and a get about 1 µs. A
/// slice whose merge is worth its price has served 10,000 scans or a million gets, so the error is small.
const CHARGED: u64 = 8;

/// How often a read is charged for what it pays in vain, by its number in the database: 0 for most reads.
#[inline]
pub fn weight(number: u64) -> u64 {
    if number.is_multiple_of(CHARGED) { CHARGED } else { 0 }
}
