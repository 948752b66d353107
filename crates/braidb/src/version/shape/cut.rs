//! Cuts a slice in two at a guard. Nothing is written: two slices of the same table replace one.
//!
//! Ranges stay exact: the keys next to the cut are looked up. Counts are divided in proportion to bytes, because a
//! slice of a part of a table need not know its exact counts. Each side keeps the sequence numbers of the whole slice,
//! a superset of its own. The bytes of values in value files stay exact, because they decide when these files are
//! collected and deleted: the entries of the smaller side are counted, and the other side gets the rest.
//!
//! The sides follow from the table, the part and the key alone. Jobs rely on this: they cut before they lock the catalog (`jobs/cuts.rs`).

use super::Slice;
use crate::base::error::Result;
use crate::base::ids::FileId;
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::base::part::Part;
use crate::table::Table;
use crate::value::file::record_bytes;
use crate::value::{BodyFile, Handle};
use crate::version::table_file::TableFile;
use crate::visible::Cursor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Splits a part of `table` at `key`: the piece before `key`, and the piece at or behind it. Reads at most two blocks,
/// and none if `key` lies outside the part. With values in value files it reads all blocks of the smaller side.
pub fn cut_part(table: &TableFile, part: &Part, key: &[u8]) -> Result<(Option<Part>, Option<Part>)> {
    if key <= part.range.low.as_slice() {
        return Ok((None, Some(part.clone())));
    }
    if key > part.range.high.as_slice() {
        return Ok((Some(part.clone()), None));
    }
    let cut = table.index_reader()?.cut(&part.range, key)?;
    let (Some(before), Some(after)) = (cut.before, cut.after) else {
        // The lowest and the highest key of a part are in the table, so both sides have a key. If the table disagrees,
        // the part stays whole.
        return Ok((None, Some(part.clone())));
    };
    let share = Share { left: cut.left_bytes, total: cut.total_bytes };
    let (entries, keys) = (share.split(part.entries), share.split(part.keys));
    let tombstones = share.split_up(part.tombstones);
    let bytes = share.split(part.bytes);
    let left = Part {
        range: KeyRange { low: part.range.low.clone(), high: before },
        seqs: part.seqs,
        entries: entries.0,
        tombstones: tombstones.0.min(entries.0),
        keys: keys.0.min(entries.0),
        bytes: bytes.0,
        values: Vec::new(),
    };
    let right = Part {
        range: KeyRange { low: after, high: part.range.high.clone() },
        seqs: part.seqs,
        entries: entries.1,
        tombstones: tombstones.1.min(entries.1),
        keys: keys.1.min(entries.1),
        bytes: bytes.1,
        values: Vec::new(),
    };
    let (left, right) = divide_values(table, part, left, right)?;
    Ok((Some(left), Some(right)))
}

/// Divides the bytes of values of `part` between its two sides.
fn divide_values(table: &TableFile, part: &Part, mut left: Part, mut right: Part) -> Result<(Part, Part)> {
    if part.values.is_empty() {
        return Ok((left, right));
    }
    let (smaller, larger) =
        if left.bytes <= right.bytes { (&mut left, &mut right) } else { (&mut right, &mut left) };
    let counted = match mutant!("values_drift_at_a_cut") {
        true => BTreeMap::new(),
        false => count_values(table, &smaller.range)?,
    };
    let rest = part.values.iter().map(|&(file, bytes)| {
        // If more bytes were counted than the whole part has, the table is damaged, and `verify` reports it. The bytes
        // of both sides still add up to those of the part.
        (file, bytes.saturating_sub(counted.get(&file).copied().unwrap_or(0)))
    });
    larger.values = rest.filter(|&(_, bytes)| bytes > 0).collect();
    let known =
        part.values.iter().map(|&(file, bytes)| (file, counted.get(&file).copied().unwrap_or(0).min(bytes)));
    smaller.values = known.filter(|&(_, bytes)| bytes > 0).collect();
    Ok((left, right))
}

/// Counts the bytes of the records that the entries of `table` in `range` lead to, by value file. Reads no value.
pub fn count_values(table: &TableFile, range: &KeyRange) -> Result<BTreeMap<FileId, u64>> {
    let mut counted: BTreeMap<FileId, u64> = BTreeMap::new();
    each_handle(table, range, |file, handle| {
        *counted.entry(file.id).or_default() += record_bytes(&handle);
    })?;
    Ok(counted)
}

/// Calls `found` with each handle in the entries of `table` in `range`, in key order. Reads no value.
pub fn each_handle(
    table: &TableFile,
    range: &KeyRange,
    mut found: impl FnMut(BodyFile, Handle),
) -> Result<()> {
    let mut cursor = table.index_reader()?.cursor(range.clone(), false);
    cursor.seek_to_first()?;
    while cursor.valid() {
        if let Some((file, handle)) = cursor.handle() {
            found(file, handle);
        }
        cursor.next()?;
    }
    Ok(())
}

/// A key that cuts `runs` near the middle of their bytes. Prefers the start of a slice in the middle half of the
/// largest run, because then no slice of this run need be cut. Otherwise returns a key inside the largest slice that
/// has several keys. `None` if no slice has several keys.
pub fn middle<'a>(runs: impl Iterator<Item = &'a [Arc<Slice>]> + Clone) -> Result<Option<Vec<u8>>> {
    let bytes_of = |run: &&[Arc<Slice>]| run.iter().map(|slice| slice.bytes).sum::<u64>();
    let Some(run) = runs.clone().max_by_key(bytes_of) else { return Ok(None) };
    if let Some(start) = middle_start(run.iter().map(|slice| slice.bytes), bytes_of(&run)) {
        return Ok(Some(run[start].range.low.clone()));
    }
    let slices = runs.flatten().filter(|slice| slice.range.low < slice.range.high);
    let Some(slice) = slices.max_by_key(|slice| slice.bytes) else { return Ok(None) };
    let table = slice.table.index_reader()?;
    match table.middle(&slice.range) {
        Some(key) => Ok(Some(key)),
        None => middle_of_few(table, &slice.range),
    }
}

/// The number of the slice that starts nearest to the middle of all bytes. `None` if no slice starts in the middle
/// half. `sizes` are in key order.
fn middle_start(sizes: impl Iterator<Item = u64>, bytes: u64) -> Option<usize> {
    let starts = sizes.scan(0, |end, size| Some(std::mem::replace(end, *end + size))).enumerate();
    let is_inside = |start: u64| start > 0 && start >= bytes / 4 && start <= bytes / 4 * 3;
    let inside = starts.filter(|&(_, start)| is_inside(start));
    inside.min_by_key(|&(_, start)| start.abs_diff(bytes / 2)).map(|(number, _)| number)
}

/// The middle one of the keys in `range`, but never the first. The keys lie in at most two blocks, so there are few.
fn middle_of_few(table: &Arc<Table>, range: &KeyRange) -> Result<Option<Vec<u8>>> {
    let mut cursor = table.cursor(range.clone(), true);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    cursor.seek(&range.low)?;
    while cursor.valid() {
        let key = cursor.key().to_vec();
        // Skips all versions of the key.
        cursor.seek(&[&*key, &[0]].concat())?;
        keys.push(key);
    }
    let middle = (keys.len() / 2).max(1);
    Ok((middle < keys.len()).then(|| keys.swap_remove(middle)))
}

/// The fraction of a slice that lies left of a cut: more than 0, less than 1.
#[derive(Clone, Copy, Debug)]
struct Share {
    left: u64,
    total: u64,
}

impl Share {
    /// Divides `number` so that each side gets at least 1. If `a >= b`, neither side of `a` is less than the same side
    /// of `b`: a slice never gets more keys than entries.
    fn split(self, number: u64) -> (u64, u64) {
        if number < 2 {
            return (1, 1);
        }
        let left = (self.times(number) / u128::from(self.total)) as u64;
        let left = left.clamp(1, number - 1);
        (left, number - left)
    }

    /// Divides `number` and rounds both sides up, so neither side gets 0 of a positive number.
    fn split_up(self, number: u64) -> (u64, u64) {
        let up = |share: Share| share.times(number).div_ceil(u128::from(self.total)) as u64;
        (up(self), up(Share { left: self.total - self.left, total: self.total }))
    }

    fn times(self, number: u64) -> u128 {
        u128::from(number) * u128::from(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_nearest_to_the_middle_is_taken() {
        let start = |sizes: &[u64]| middle_start(sizes.iter().copied(), sizes.iter().sum());
        assert_eq!(start(&[10; 8]), Some(4));
        assert_eq!(start(&[10; 2]), Some(1));
        assert_eq!(start(&[10, 50, 20, 30]), Some(2), "60 of 110");
        assert_eq!(start(&[10, 80, 10]), None, "no slice starts in the middle half");
        assert_eq!(start(&[100]), None);
        assert_eq!(start(&[]), None);
    }

    #[test]
    fn shares_leave_no_side_empty() {
        for (left, total) in [(1, 2), (1, u64::MAX), (u64::MAX - 1, u64::MAX), (1, 1000), (999, 1000)] {
            let share = Share { left, total };
            for number in [0, 1, 2, 3, 100, u64::MAX] {
                let (a, b) = share.split(number);
                assert!(a > 0 && b > 0 && a.saturating_add(b) == number.max(2));
                let (a, b) = share.split_up(number);
                assert!(a <= number && b <= number && (a > 0 && b > 0 || number == 0));
                assert!(u128::from(a) + u128::from(b) >= u128::from(number));
            }
        }
    }
}
