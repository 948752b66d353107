//! A get: memory, L0, then level by level, run by run. Recency (rule 7) makes the first hit the newest version, so the
//! search stops there.

use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::memory::view::FamilyView;
use crate::table::Table;
use crate::version::Slice;
use crate::version::usage::rent::Paid;
use crate::visible::{EntryKind, Found};

/// The value of `key` that a reader at `at` sees. What the get pays in vain is charged `weight` times ([`super::weight`]).
pub fn get(view: &FamilyView, key: &[u8], at: SeqNo, weight: u64) -> Result<Option<Value>> {
    let found = newest(view, key, at, weight, |found| found, |table, hash| table.get(key, hash, at))?;
    Ok(found.and_then(|found| {
        debug_assert!(found.seq <= at, "a reader sees nothing newer than its number");
        (found.kind == EntryKind::Put).then_some(found.value)
    }))
}

/// Whether a reader at `at` sees a value of `key`. Reads no value, and charges as [`get`] does.
pub fn contains(view: &FamilyView, key: &[u8], at: SeqNo, weight: u64) -> Result<bool> {
    Ok(version(view, key, at, weight)?.is_some())
}

/// The number of the put that a reader at `at` sees of `key`. Reads no value, and charges as [`get`] does.
pub fn version(view: &FamilyView, key: &[u8], at: SeqNo, weight: u64) -> Result<Option<SeqNo>> {
    let of_table = |table: &Table, hash| table.get_version(key, hash, at);
    let found = newest(view, key, at, weight, |found| (found.seq, found.kind), of_table)?;
    Ok(found.and_then(|(seq, kind)| (kind == EntryKind::Put).then_some(seq)))
}

/// What memory, or the first table that knows `key`, tells of it. The hash of the key is passed to the filters of tables.
#[inline]
fn newest<T>(
    view: &FamilyView,
    key: &[u8],
    at: SeqNo,
    weight: u64,
    of_memory: impl FnOnce(Found) -> T,
    of_table: impl Fn(&Table, u64) -> Result<Option<T>>,
) -> Result<Option<T>> {
    // Hashed once, for the filters of all segments and tables.
    let hash = key::hash(key);
    if let Some(found) = view.memory.get(key, hash, at) {
        return Ok(Some(of_memory(found)));
    }
    let mut asked_last: Option<(&Slice, &Table)> = None;
    let oldest_first = [mutant!("l0_order_swapped"), mutant!("cell_order_swapped")];
    for (number, level) in view.version.levels().enumerate() {
        let cell = level.cell(key);
        for index in 0..cell.runs.len() {
            let index = if oldest_first[number.min(1)] { cell.runs.len() - 1 - index } else { index };
            let Some(slice) = cell.runs[index].find(key) else { continue };
            let table = slice.table.reader()?;
            if weight > 0 {
                charge(asked_last.replace((slice, table)), hash, weight);
            }
            if let Some(found) = of_table(table, hash)? {
                slice.warm(weight);
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Charges a slice in which a get did not find the key before it asked another slice. A merge of both would save this search. The last
/// slice that a get asks is not charged: after any merge a get still asks one slice.
#[cold]
pub(super) fn charge(asked: Option<(&Slice, &Table)>, hash: u64, weight: u64) {
    if let Some((slice, table)) = asked {
        let (filters, blocks) = if table.may_contain(hash) { (0, weight) } else { (weight, 0) };
        slice.charge(Paid { filters, blocks, ..Paid::default() });
    }
}
