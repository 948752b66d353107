//! A get: memory, L0, then level by level, run by run. Recency (rule 7) makes the first hit the newest version, so the
//! search stops there.

use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::memory::view::FamilyView;
use crate::version::Run;
use crate::visible::{EntryKind, Found};

/// The value of `key` that a reader at `at` sees.
pub fn get(view: &FamilyView, key: &[u8], at: SeqNo) -> Result<Option<Value>> {
    // Once, for the filters of all segments and tables.
    let hash = key::hash(key);
    if let Some(found) = view.memory.get(key, hash, at) {
        return Ok(alive(found, at));
    }
    for (number, level) in view.version.levels().enumerate() {
        for cell in [level.cell(key)] {
            let oldest_first =
                if number == 0 { mutant!("l0_order_swapped") } else { mutant!("cell_order_swapped") };
            for index in 0..cell.runs.len() {
                let index = if oldest_first { cell.runs.len() - 1 - index } else { index };
                if let Some(found) = get_in_run(&cell.runs[index], key, hash, at)? {
                    return Ok(alive(found, at));
                }
            }
        }
    }
    Ok(None)
}

fn get_in_run(run: &Run, key: &[u8], hash: u64, at: SeqNo) -> Result<Option<Found>> {
    match run.find(key) {
        Some(slice) => slice.table.reader()?.get(key, hash, at),
        None => Ok(None),
    }
}

fn alive(found: Found, at: SeqNo) -> Option<Value> {
    debug_assert!(found.seq <= at, "a reader sees nothing newer than its number");
    match found.kind {
        EntryKind::Put => Some(found.value),
        EntryKind::Delete => None,
    }
}
