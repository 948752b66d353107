//! Gets of many keys on one view, in steps that share their waits.
//!
//! A get waits for memory at a filter, an index, a slot, the header of a block, and its bytes. One get after the other pays for each wait. Here
//! the keys of a group take each step together. A step touches memory that the step before prefetched for this key, while it did the work of
//! the other keys:
//!
//! 1. *Slices.* Memory is asked. A key that is not there gets its candidates: the slices in whose range it lies, the newest first.
//! 2. *Filters.* The first candidate whose filter passes is searched; its index tells the block.
//! 3. *Headers* of blocks that the cache keeps.
//! 4. *Blocks*: the keys hold them from here on.
//! 5. *Search.* Where a block lacks its key, the other candidates are asked as [`super::get()`] asks them.
//!
//! Each answer, error and charge is what a get at the same number has. So the first hit ends the search of a key (rule 7).

use super::get::charge;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key;
use crate::base::value::Value;
use crate::cache::Block;
use crate::memory::view::FamilyView;
use crate::table::Table;
use crate::version::Slice;
use crate::visible::{EntryKind, Found};
use std::ops::Range;
use std::sync::Arc;

/// Keys that take the steps together: 32. Their filters, headers and directories, about 300 cache lines, stay in the processor's first cache.
const GROUP: usize = 32;

/// A block that the cache did not keep, with its table and number. Keys of one group share it.
type ReadBlock<'a> = (&'a Table, usize, Arc<Block>);

/// The search of a key that memory lacks.
struct Search<'a> {
    /// Where the key and its answer are.
    at: usize,
    key: &'a [u8],
    hash: u64,
    weight: u64,
    /// The candidates that were not asked yet.
    left: Range<usize>,
    /// The candidate that is asked now, its table, and the block of it that may have the key.
    asked: Option<(&'a Slice, &'a Table, usize)>,
    block: Option<Arc<Block>>,
}

/// The values of `keys` that a reader at `at` sees. `weight` tells how many times the next get is charged for what it pays in vain.
pub fn get_many(
    view: &FamilyView,
    keys: &[&[u8]],
    at: SeqNo,
    mut weight: impl FnMut() -> u64,
) -> Result<Vec<Option<Value>>> {
    let mut values = vec![None; keys.len()];
    let (mut searches, mut candidates) = (Vec::with_capacity(GROUP.min(keys.len())), Vec::new());
    for start in (0..keys.len()).step_by(GROUP) {
        searches.clear();
        candidates.clear();
        for place in start..keys.len().min(start + GROUP) {
            let (key, weight) = (keys[place], weight());
            let hash = key::hash(key);
            if let Some(found) = view.memory.get(key, hash, at) {
                values[place] = value_of(found);
                continue;
            }
            let first = candidates.len();
            add_candidates(view, key, hash, &mut candidates);
            let left = first..candidates.len();
            searches.push(Search { at: place, key, hash, weight, left, asked: None, block: None });
        }
        for search in &mut searches {
            search.ask(&candidates)?;
        }
        for (_, table, number) in searches.iter().filter_map(|search| search.asked) {
            table.prefetch_header(number);
        }
        searches.iter_mut().for_each(Search::hold);
        let mut read = Vec::new();
        for search in &mut searches {
            search.read(&mut read)?;
            values[search.at] = search.finish(&candidates, at)?.and_then(value_of);
        }
    }
    Ok(values)
}

/// Adds the slices in whose range `key` lies, the newest first. Prefetches the filters of open tables; others are opened when they are asked.
fn add_candidates<'a>(view: &'a FamilyView, key: &[u8], hash: u64, out: &mut Vec<&'a Slice>) {
    for level in view.version.levels() {
        for slice in level.cell(key).runs.iter().filter_map(|run| run.find(key)) {
            if let Some(table) = slice.table.opened() {
                table.prefetch_filter(hash);
            }
            out.push(slice);
        }
    }
}

fn value_of(found: Found) -> Option<Value> {
    (found.kind == EntryKind::Put).then_some(found.value)
}

impl<'a> Search<'a> {
    /// Goes on to the next candidate whose filter passes, and prefetches the slot of the block that may have the key.
    fn ask(&mut self, candidates: &[&'a Slice]) -> Result<()> {
        let mut before = self.asked.take().map(|(slice, table, _)| (slice, table));
        for &slice in &candidates[self.left.clone()] {
            self.left.start += 1;
            let table = slice.table.reader()?.as_ref();
            if self.weight > 0 {
                charge(before.replace((slice, table)), self.hash, self.weight);
            }
            if table.passes(self.hash) {
                let number = table.first_block(self.key);
                table.prefetch_slot(number);
                self.asked = Some((slice, table, number));
                break;
            }
        }
        Ok(())
    }

    /// Holds the block that may have the key, if the cache keeps it.
    fn hold(&mut self) {
        if let Some((_, table, number)) = self.asked {
            self.block = table.kept(number);
        }
    }

    /// Holds the block if the cache does not keep it: one of `read`, or else the block is read and added to them.
    fn read(&mut self, read: &mut Vec<ReadBlock<'a>>) -> Result<()> {
        if let (Some((_, table, number)), None) = (self.asked, &self.block) {
            let known = read.iter().find(|(of, at, _)| std::ptr::eq(*of, table) && *at == number);
            let block = match known {
                Some((_, _, block)) => block.clone(),
                None => table.block(number)?,
            };
            if known.is_none() {
                read.push((table, number, block.clone()));
            }
            self.block = Some(block);
        }
        Ok(())
    }

    /// Searches the block, and after it the other candidates.
    fn finish(&mut self, candidates: &[&'a Slice], at: SeqNo) -> Result<Option<Found>> {
        while let Some((slice, table, number)) = self.asked {
            if let Some(found) = table.get_from(self.key, at, number, self.block.take())? {
                debug_assert!(found.seq <= at, "a reader sees nothing newer than its number");
                slice.warm(self.weight);
                return Ok(Some(found));
            }
            self.ask(candidates)?;
        }
        Ok(None)
    }
}
