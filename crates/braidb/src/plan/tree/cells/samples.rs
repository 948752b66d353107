//! How much the runs of a cell overlap. The answer decides whether a last-level cell is rewritten for its garbage (`cells/garbage.rs`), and
//! in a leveled tree whether L0 is merged now.
//!
//! The samples of a cell's tables ([`crate::base::sample`]), cut to its slices, are put together. If a key stands in several runs, all its
//! entries but one are hidden. So the share of duplicates among the samples is about the share of hidden entries in the cell.
//!
//! *L0 of a leveled tree* follows TRIAD-DISK (Algorithm 2 and section 4.2 of the paper). Its overlap ratio is 1 - unique / sum. *unique* is
//! the number of different keys in L0, and *sum* adds up the keys of each table. L0 waits while the ratio is below 0.4, up to 6 tables.
//! Then all of L0 is merged into L1 at once. Samples stand in for HyperLogLog, because they also tell of ranges. There are three
//! departures. The ratio is that of L0 alone, as in Algorithm 2; Figure 5 of the paper also counts files of L1. L0 waits from 4 tables on;
//! Figure 5 merges two, which changed the bytes by at most 2%. Groups of tables that lie apart are merged one by one if that reads fewer
//! bytes. Where samples tell nothing, L0 does not wait.
//!
//! *When.* The planner runs often, with the catalog locked, and looks at no sample. Before it runs, the scheduler calls [`ask`] without a
//! lock, because this may read files. [`ask`] notes an answer in each cell in question, where it stays until an edit changes the cell. So a
//! cell is asked once after each change of its runs. L0 is in question while it may wait. Another cell is in question only if it is in the
//! last level, has several runs, and would be rewritten if each newer entry hid an older one. Samples of other tables stay on disk. The
//! samples of a table are read once, with its properties, and kept with the table. At most about [`MOST`] samples of a cell are compared;
//! each of the others costs a hash.

use super::Sum;
use super::garbage::slack_permille;
use crate::base::key::hash;
use crate::base::sample::{LEAST, ZERO_BITS};
use crate::plan::TreeOptions;
use crate::plan::tree::options::OVERLAP_PERMILLE;
use crate::version::{Cell, Slice, Version};

/// At most about this many samples of a cell are compared.
const MOST: usize = 8192;

/// The outcome of [`ask`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Cells whose samples gave an answer.
    pub cells: u64,
    /// Cells that are not rewritten because of their answers: without them, the guessed or the feared garbage would have been too much.
    pub spared: u64,
}

/// Whether any cell is in question.
pub fn is_asked(version: &Version, options: &TreeOptions) -> bool {
    l0_in_question(version, options).is_some() || in_question(version, options).next().is_some()
}

/// L0, if it may wait for overlap and was not asked since its last change.
fn l0_in_question<'a>(version: &'a Version, options: &TreeOptions) -> Option<&'a Cell> {
    let l0 = &*version.level(0).cells[0];
    let is_asked = options.l0_waiting_tables().contains(&l0.runs.len()) && l0.answer().is_none();
    is_asked.then_some(l0)
}

/// Whether tables of L0 are to go down, by a merge if need be. The head of the file has the rule. L0 waits while it was
/// not asked since its last change. With 6 tables it waits for no answer.
pub fn is_l0_due(l0: &Cell, options: &TreeOptions) -> bool {
    let waiting = options.l0_waiting_tables();
    match l0.answer() {
        _ if !waiting.contains(&l0.runs.len()) => l0.runs.len() >= waiting.end,
        None => false,
        Some(None) => true,
        Some(Some(hidden)) => {
            let keys: u64 = l0.slices().map(|(_, slice)| slice.keys).fold(0, u64::saturating_add);
            u128::from(hidden) * 1000 >= u128::from(keys) * u128::from(OVERLAP_PERMILLE)
        }
    }
}

/// Asks the cells in question, and notes their answers. Nothing is noted if `answer` returns `None`, because it cannot tell now. Of a
/// thousand newer entries `permille` hid an older one lately.
pub fn ask(
    version: &Version,
    options: &TreeOptions,
    permille: u64,
    answer: impl Fn(&Cell) -> Option<Option<u64>>,
) -> Answers {
    let mut answers = Answers::default();
    if let Some(l0) = l0_in_question(version, options)
        && let Some(answer) = answer(l0)
    {
        l0.note_hidden(answer);
        answers.cells += u64::from(answer.is_some());
    }
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

/// The cells whose samples may decide about a rewrite, and that were not asked since their last change.
fn in_question<'a>(version: &'a Version, options: &TreeOptions) -> impl Iterator<Item = &'a Cell> {
    let last = version.last_level().max(1);
    let cells = if options.wants_sample(last) { &version.level(last).cells[..] } else { &[] };
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
    // Further hash bits that must be zero thin out the samples of all runs alike.
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
