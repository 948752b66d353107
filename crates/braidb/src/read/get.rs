//! A get: memory, L0, then level by level, run by run. Recency (rule 7) makes the first hit the newest version, so the
//! search stops there.

use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::memory::view::FamilyView;
use crate::table::Table;
use crate::visible::{EntryKind, Found};

/// The value of `key` that a reader at `at` sees.
pub fn get(view: &FamilyView, key: &[u8], at: SeqNo) -> Result<Option<Value>> {
    let found = newest(view, key, at, |found| found, |table, hash| table.get(key, hash, at))?;
    Ok(found.and_then(|found| {
        debug_assert!(found.seq <= at, "a reader sees nothing newer than its number");
        (found.kind == EntryKind::Put).then_some(found.value)
    }))
}

/// Whether a reader at `at` sees a value of `key`. Reads no value.
pub fn contains(view: &FamilyView, key: &[u8], at: SeqNo) -> Result<bool> {
    let kind = newest(view, key, at, |found| found.kind, |table, hash| table.get_kind(key, hash, at))?;
    Ok(kind == Some(EntryKind::Put))
}

/// What memory, or the first table that knows `key`, tells of it. The hash of the key is passed to the filters of tables.
#[inline]
fn newest<T>(
    view: &FamilyView,
    key: &[u8],
    at: SeqNo,
    of_memory: impl FnOnce(Found) -> T,
    of_table: impl Fn(&Table, u64) -> Result<Option<T>>,
) -> Result<Option<T>> {
    // Hashed once, for the filters of all segments and tables.
    let hash = key::hash(key);
    if let Some(found) = view.memory.get(key, hash, at) {
        return Ok(Some(of_memory(found)));
    }
    for (number, level) in view.version.levels().enumerate() {
        for cell in [level.cell(key)] {
            let oldest_first =
                if number == 0 { mutant!("l0_order_swapped") } else { mutant!("cell_order_swapped") };
            for index in 0..cell.runs.len() {
                let index = if oldest_first { cell.runs.len() - 1 - index } else { index };
                let Some(slice) = cell.runs[index].find(key) else { continue };
                if let Some(found) = of_table(slice.table.reader()?, hash)? {
                    return Ok(Some(found));
                }
            }
        }
    }
    Ok(None)
}
