//! Whether readers at two numbers see the same versions: the first phase of a transaction's commit asks it of all that the transaction read.
//!
//! Sequence numbers tell versions apart, so values are not read. A key that was deleted between the numbers and was absent before is
//! unchanged. Copies of hot keys keep their numbers, so they are unchanged too.

use super::get::version;
use super::scan::{ForwardWalk, ScanContext, Walk};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::memory::view::FamilyView;
use std::ops::Bound;

/// Whether readers at both numbers see the same version of `key`.
pub fn is_key_unchanged(view: &FamilyView, key: &[u8], [before, after]: [SeqNo; 2]) -> Result<bool> {
    Ok(version(view, key, before, 0)? == version(view, key, after, 0)?)
}

/// Whether readers at both numbers see the same versions of the same keys in a range. `begin` begins a walk.
pub fn is_range_unchanged(
    view: &FamilyView,
    (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    numbers: [SeqNo; 2],
    mut begin: impl FnMut() -> ScanContext,
) -> Result<bool> {
    let within = |key: &[u8]| match high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
    };
    let mut walk = |at| ForwardWalk::new(view, at, low, &mut begin());
    let (mut before, mut after) = (walk(numbers[0])?, walk(numbers[1])?);
    loop {
        match (before.step(within)?, after.step(within)?) {
            (true, true) if before.key() == after.key() && before.seq() == after.seq() => {}
            (false, false) => return Ok(true),
            _ => return Ok(false),
        }
    }
}
