//! How much the runs of a cell overlap: TRIAD's question (TRIAD-DISK, section 4.2 of the paper), asked of each cell. The answer decides whether a last-level cell
//! is rewritten for its garbage (`cells/garbage.rs`).
//!
//! The samples of a cell's tables ([`crate::base::sample`]), cut to its slices, are put together. Of a key that stands in
//! several runs all entries but one are hidden, so what the samples have twice, to all that they have, is what the cell has
//! hidden, to all its keys.
//!
//! *When.* The planner is asked often, with the catalog locked, and looks at no sample. Whoever is about to ask it asks the
//! cells in question first ([`ask`]), without a lock, since that may read files, and notes the answers in the cells
//! themselves, where they stay until a change makes a cell another one. So a cell is asked once for each run that comes or
//! goes; and only if it is of the last level, has several runs, and would be worth a rewrite if each entry of the newer
//! ones hid one. Samples of tables that nobody asks for stay on disk; those of others are read once, with the properties
//! that hold them, and kept with the table. Of a large cell not all samples are compared ([`MOST`]); the rest costs a hash
//! each.

use super::Sum;
use super::garbage::slack_permille;
use crate::base::key::hash;
use crate::base::sample::{LEAST, ZERO_BITS};
use crate::plan::TreeOptions;
use crate::version::{Cell, Slice, Version};

/// About so many samples of a cell are compared at most.
const MOST: usize = 8192;

/// What came of asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Cells that gave one.
    pub cells: u64,
    /// Those that stay as they are by their answers, and would have been rewritten by what was met lately, or for fear.
    pub spared: u64,
}

/// Whether any cell is in question.
pub fn is_asked(version: &Version, options: &TreeOptions) -> bool {
    in_question(version, options).next().is_some()
}

/// Asks the cells in question and notes what they answer, but where `answer` says that nothing can be said now. Of a
/// thousand newer entries `permille` hid an older one lately.
pub fn ask(
    version: &Version,
    options: &TreeOptions,
    permille: u64,
    answer: impl Fn(&Cell) -> Option<Option<u64>>,
) -> Answers {
    let mut answers = Answers::default();
    let slack = slack_permille(options.base_bytes, version.level(version.last_level().max(1)).totals().bytes);
    for cell in in_question(version, options) {
        let Some(answer) = answer(cell) else { continue };
        cell.note_hidden(answer);
        let sum = Sum::of(cell);
        if sum.hidden.is_none() {
            continue;
        }
        answers.cells += 1;
        let guessed = Sum { hidden: None, ..sum };
        answers.spared +=
            u64::from(!sum.is_garbage_heavy(permille, slack) && guessed.is_garbage_heavy(permille, slack));
    }
    answers
}

/// The cells whose samples may make a difference, and that were not asked since they are as they are.
fn in_question<'a>(version: &'a Version, options: &TreeOptions) -> impl Iterator<Item = &'a Cell> {
    let last = version.last_level().max(1);
    let cells = if options.wants_sample(last) { version.level(last).cells.as_slice() } else { &[] };
    let is_asked =
        |cell: &&Cell| cell.runs.len() > 1 && cell.answer().is_none() && Sum::of(cell).may_be_worth();
    cells.iter().map(|cell| &**cell).filter(is_asked)
}

/// How many entries of a cell newer runs of it hide. `None` where a table has no sample, or where all have too few.
pub fn estimate(cell: &Cell) -> Option<u64> {
    let (mut samples, mut keys) = (0, 0u64);
    for (_, slice) in cell.slices() {
        samples += within(slice)?.len();
        keys = keys.saturating_add(slice.keys);
    }
    if (samples as u64) < LEAST {
        return None;
    }
    // Any further bits of the hashes thin the samples out alike.
    let mask = samples.div_ceil(MOST).next_power_of_two() as u64 - 1;
    let is_taken = |key: &&[u8]| mask == 0 || (hash(key) >> ZERO_BITS) & mask == 0;
    let mut taken: Vec<&[u8]> =
        cell.slices().filter_map(|(_, slice)| within(slice)).flatten().filter(is_taken).collect();
    let all = taken.len() as u64;
    // Runs are sorted, and the sort makes use of that.
    taken.sort();
    taken.dedup();
    let hidden = all - taken.len() as u64;
    Some((u128::from(keys) * u128::from(hidden) / u128::from(all.max(1))) as u64)
}

/// The samples of a slice, if its table has any.
fn within(slice: &Slice) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
    Some(slice.table.sample()?.within(&slice.range))
}
