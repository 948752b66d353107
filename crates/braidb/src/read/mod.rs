//! Reading one view: a get that stops at its first hit, and scans in both directions.

mod ahead;
mod get;
mod lengths;
mod scan;
mod source;

pub use get::{contains, get};
pub use lengths::UsualLengths;
pub use scan::{AheadOf, Backward, Forward, Passed};
