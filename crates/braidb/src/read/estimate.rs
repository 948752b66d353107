//! Estimates what lies in a range, from the indices of tables. Entries in memory are counted one by one.
//!
//! A slice that lies within the range counts with its exact figures. Of a slice that reaches beyond the range, the index knows the blocks within
//! it, and half of a block counts where a bound cuts it. So each end of the range adds an error of half a block for each run. No block is read.

use crate::base::error::Result;
use crate::memory::view::FamilyView;
use crate::version::Slice;
use crate::visible::{Cursor, EntryKind};
use std::ops::Bound;

/// What a range holds, about: entries as they are stored, of which some may be older versions of one key.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-rangeestimate-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for number in 0..1000u32 {
///     db.put(number.to_be_bytes(), "value")?;
/// }
/// let all = db.estimate(..)?;
/// assert_eq!((all.entries, all.tombstones), (1000, 0));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeEstimate {
    /// Entries: puts and deletes, also such that newer ones hide. Merges drop hidden ones.
    pub entries: u64,
    /// How many of the entries are deletes.
    pub tombstones: u64,
    /// Bytes of keys and values in memory, and of tables with the values that lie apart from them.
    pub bytes: u64,
    /// Bytes of the values' records in value files.
    pub value_bytes: u64,
}

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Estimates what lies in a range of a view.
pub fn estimate(view: &FamilyView, range: Range<'_>) -> Result<RangeEstimate> {
    let mut sum = RangeEstimate::default();
    count(&mut view.memory.active().cursor(), range, &mut sum)?;
    for segment in view.memory.immutable() {
        count(&mut segment.cursor(), range, &mut sum)?;
    }
    for slice in view.version.slices() {
        add_slice(slice, range, &mut sum)?;
    }
    Ok(sum)
}

/// Counts the entries of a segment within the range.
fn count(cursor: &mut impl Cursor, (low, high): Range<'_>, sum: &mut RangeEstimate) -> Result<()> {
    match low {
        Bound::Unbounded => cursor.seek_to_first()?,
        Bound::Included(low) | Bound::Excluded(low) => cursor.seek(low)?,
    }
    while cursor.valid() {
        let key = cursor.key();
        let is_within = match high {
            Bound::Unbounded => true,
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
        };
        if !is_within {
            break;
        }
        if low != Bound::Excluded(key) {
            sum.entries += 1;
            sum.tombstones += u64::from(cursor.kind() == EntryKind::Delete);
            sum.bytes += (key.len() + cursor.value().len()) as u64;
        }
        cursor.next()?;
    }
    Ok(())
}

/// Adds the share of a slice that lies within the range.
fn add_slice(slice: &Slice, (low, high): Range<'_>, sum: &mut RangeEstimate) -> Result<()> {
    let part = slice.part();
    let (first, last) = (part.range.low.as_slice(), part.range.high.as_slice());
    let is_apart = match low {
        Bound::Unbounded => false,
        Bound::Included(low) => low > last,
        Bound::Excluded(low) => low >= last,
    } || match high {
        Bound::Unbounded => false,
        Bound::Included(high) => high < first,
        Bound::Excluded(high) => high <= first,
    };
    if is_apart {
        return Ok(());
    }
    let key_of = |bound| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    };
    let low = key_of(low).filter(|low| *low > first);
    let high = key_of(high).filter(|high| *high <= last);
    let (within, total) = match (low, high) {
        (None, None) => (1, 1),
        _ => slice.table.reader()?.bytes_between(&part.range, low, high),
    };
    let share = |figure: u64| (u128::from(figure) * u128::from(within) / u128::from(total.max(1))) as u64;
    sum.entries += share(part.entries);
    sum.tombstones += share(part.tombstones);
    sum.bytes += share(part.bytes);
    sum.value_bytes += share(part.value_bytes());
    Ok(())
}
