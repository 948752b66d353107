//! Which key ranges of a family lie behind damage: the ranges of damaged blocks, and of tables that cannot be opened.

use crate::base::error::Result;
use crate::base::key::KeyRange;
use crate::base::report::DamagedRange;
use crate::memory::view::FamilyView;
use std::ops::Bound;

/// Reads every block of the family's tables in the range between the bounds. Returns the ranges of keys whose blocks are damaged, clipped to
/// the slices that own them.
pub fn damaged_ranges(
    view: &FamilyView,
    (low, high): &(Bound<Vec<u8>>, Bound<Vec<u8>>),
) -> Result<Vec<DamagedRange>> {
    let mut damaged = Vec::new();
    for slice in view.version.slices().filter(|slice| touches(&slice.range, low, high)) {
        let found = match slice.table.reader() {
            Ok(table) => table.damaged_blocks(&slice.range),
            Err(error) => vec![(slice.range.clone(), error)],
        };
        for (keys, error) in found {
            // No damage: the program has no descriptor left.
            if error.is_short_of_descriptors() {
                return Err(error);
            }
            damaged.push(DamagedRange::new(keys.low, Some(keys.high), &error));
        }
    }
    damaged.retain(|range| {
        let keys = KeyRange { low: range.low.clone(), high: range.high.clone().unwrap_or_default() };
        touches(&keys, low, high)
    });
    Ok(damaged)
}

/// Whether a key of `range` lies between the bounds.
pub fn touches(range: &KeyRange, low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    let is_before = match low {
        Bound::Included(low) => range.high < *low,
        Bound::Excluded(low) => range.high <= *low,
        Bound::Unbounded => false,
    };
    let is_behind = match high {
        Bound::Included(high) => range.low > *high,
        Bound::Excluded(high) => range.low >= *high,
        Bound::Unbounded => false,
    };
    !is_before && !is_behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_exclude_their_key_touch_no_range_that_ends_there() {
        let range = KeyRange::new("c", "e");
        let key = |key: &str| key.as_bytes().to_vec();
        for (low, high, expected) in [
            (Bound::Unbounded, Bound::Unbounded, true),
            (Bound::Included(key("e")), Bound::Unbounded, true),
            (Bound::Excluded(key("e")), Bound::Unbounded, false),
            (Bound::Unbounded, Bound::Included(key("c")), true),
            (Bound::Unbounded, Bound::Excluded(key("c")), false),
            (Bound::Included(key("d")), Bound::Included(key("d")), true),
        ] {
            assert_eq!(touches(&range, &low, &high), expected, "{low:?} {high:?}");
        }
    }
}
