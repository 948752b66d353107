//! Which value files are collected, in rounds: those whose collection frees the most garbage for its cost.
//!
//! A value file that merges have emptied in part holds garbage. Beyond [`MOST_GARBAGE_PERCENT`] of the *base* some files are *collected*:
//! every merge that meets a value of such a file writes it anew, and the cells that point into it are rewritten. If the garbage grows
//! nevertheless, writers slow down (`write/pressure.rs`).
//!
//! *The base* is the live bytes of value files, and [`TABLE_PERCENT`] of the live bytes in tables of the last level. Tables count because a
//! collection also rewrites the tables that lead to its values. It should free much for that, and a little garbage hardly matters to a
//! database of many small values.
//!
//! *Carried first.* While there is more garbage than a round leaves, every merge writes anew the values that it meets of files which are
//! mostly garbage ([`CARRIED_SHARE`]). No cell is rewritten for this.
//!
//! *What is hidden.* A value that a newer version hides counts as alive until a merge has met both. The planner estimates these bytes
//! (`plan/tree/cells/garbage.rs`). They count as garbage here, but at most as many of them as there are bytes of certain garbage. So a
//! wrong estimate makes files be collected from 17% of certain garbage on at worst. It never slows down a writer if nothing was
//! overwritten.
//!
//! *Cost.* A round copies the values that are alive in its files, and rewrites the handles of the cells that lead there. A cell is
//! rewritten once for all files of the round. So a file costs less beside others of the same cells, and a large round costs less for each
//! file than a small one. Files are chosen in passes, the best first ([`PASSES`]), until the garbage is [`ROUND_PERCENT`] below the bound.
//!
//! *Room.* A file is deleted when the last table that points into it was rewritten. Until then its values that were written anew stand on
//! the device twice. So the live bytes of all collected files are bounded: by one in [`ROUND_SHARE`] of all live bytes, and by the room of
//! the device, but [`ROUND_FILES`] full files are always allowed. A round begins when all files of the last round are deleted. If files
//! joined a running round, its merges would have to visit cells again.

use super::ValueOptions;
use crate::base::ids::{FileId, TierId};
use crate::version::Version;
use crate::version::state::ValueFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Garbage of all value files, in percent of the base, beyond which files are collected. At 40, collected files are half garbage if keys
/// are overwritten evenly. So each freed byte costs about one copied byte.
const MOST_GARBAGE_PERCENT: u64 = 40;
/// How many percent of the live bytes in tables the base counts. Tables take up to 1.33 times their live bytes
/// (`plan/tree/cells/garbage.rs`). With 75 percent the directory of a database of tables alone would take at most 1.63 times the live
/// bytes. The bound is 1.65.
const TABLE_PERCENT: u64 = 75;
/// A file is carried if at most one in this many of its bytes is alive. A carried value costs one written byte for three that it frees.
const CARRIED_SHARE: u64 = 4;
/// A round takes files until the garbage is this many percent of the base below [`MOST_GARBAGE_PERCENT`]. Rounds that ended at
/// [`MOST_GARBAGE_PERCENT`] each freed only 5 MiB in a database of 2,000 MiB under Zipfian overwriting. They rewrote the handles of a cell
/// ten times; now five times suffice.
const ROUND_PERCENT: u64 = 12;
/// For each of the first three passes over the files: what a file must free for each byte that its collection costs, in percent of what the
/// best file frees. In the fourth and last pass a file must free as much as all files do on average. In each pass it must free at least
/// half of the average for each copied byte. Cells of files that were chosen before cost nothing.
const PASSES: [u64; 3] = [100, 70, 50];
/// A byte that is copied from a file on a slow tier costs as much as this many bytes on the fast tier. It is a compromise: a disk with 150
/// MB/s takes 3 times as long as a flash drive with 480 MB/s, seeks come on top, and readers of cold data wait meanwhile. Updates on
/// modelled devices gained a third over a weight of 1 (docs/decisions/slow-cells-stay.md).
const SLOW_WEIGHT: u64 = 8;
/// Bytes that the rewrite of an entry without its value takes: 42 MB of tables hold the handles of 1.9 million keys of 16 bytes.
const HANDLE_BYTES: u64 = 24;
/// The files of a round may have one in this many of all live bytes. At 12 the copies take 8% of the live bytes at worst, for a short time.
const ROUND_SHARE: u64 = 12;
/// Live bytes that may always be collected, in value files of full size. The device keeps a reserve of two tables and more for merges, and
/// a value file is no larger than a table.
const ROUND_FILES: u64 = 2;
/// The files of a round may have one live byte for this many bytes that the device has free beyond its reserve. The rest is left to
/// writers.
const ROOM_SHARE: u64 = 4;

/// What the cells of the tree say about space, in bytes, by estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of values in value files that count as alive although newer versions hide them: no merge has met both yet.
    pub hidden_value_bytes: u64,
    /// Live bytes of keys and values in tables of the last level. Entries of upper levels hide some, or will. Cells most of whose values
    /// lie in value files are left out: they hold handles.
    pub table_bytes: u64,
}

impl Space {
    pub fn and(self, other: Space) -> Space {
        Space {
            hidden_value_bytes: self.hidden_value_bytes.saturating_add(other.hidden_value_bytes),
            table_bytes: self.table_bytes.saturating_add(other.table_bytes),
        }
    }
}

/// The bytes of all value files, and what the cells of the tree say about space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    live_bytes: u64,
    garbage_bytes: u64,
    space: Space,
}

impl Total {
    pub fn of(files: &BTreeMap<FileId, ValueFile>, space: Space) -> Total {
        let total = Total { space, ..Total::default() };
        files.values().fold(total, |total, file| Total {
            live_bytes: total.live_bytes + file.live_bytes,
            garbage_bytes: total.garbage_bytes + file.garbage_bytes(),
            ..total
        })
    }

    /// The garbage including hidden values, and the base without hidden values.
    fn estimate(&self) -> (u64, u64) {
        let hidden_bytes = self.space.hidden_value_bytes.min(self.garbage_bytes).min(self.live_bytes);
        let of_tables = u128::from(self.space.table_bytes) * u128::from(TABLE_PERCENT) / 100;
        let base_bytes = (self.live_bytes - hidden_bytes).saturating_add(of_tables as u64);
        (self.garbage_bytes + hidden_bytes, base_bytes)
    }

    fn is_beyond(&self, percent: u64) -> bool {
        let (garbage_bytes, base_bytes) = self.estimate();
        u128::from(garbage_bytes) * 100 > u128::from(base_bytes) * u128::from(percent)
    }

    /// Whether garbage is more than [`MOST_GARBAGE_PERCENT`] of the base, so that files should be collected.
    pub fn is_over(&self) -> bool {
        self.is_beyond(MOST_GARBAGE_PERCENT)
    }

    /// The garbage beyond two value files of full size, in thousandths of the base: how far the collection is behind. Small databases have
    /// more garbage in proportion.
    pub fn garbage_permille(&self, options: &ValueOptions) -> u64 {
        let (garbage_bytes, base_bytes) = self.estimate();
        let garbage_bytes = garbage_bytes.saturating_sub(options.file_bytes.saturating_mul(2));
        (u128::from(garbage_bytes) * 1000 / u128::from(base_bytes.max(1))).min(u64::MAX.into()) as u64
    }
}

/// The cells below L0 that lead into each value file. A slice of L0 leads into all files of its flush, and goes down soon.
#[derive(Debug, Default)]
pub struct Cells {
    /// What the rewrite of each cell takes, without the values in value files.
    bytes: Vec<u64>,
    /// The cells by file, as places in `bytes`, ascending.
    leading: BTreeMap<FileId, Vec<usize>>,
}

impl Cells {
    pub fn of<'a>(versions: impl Iterator<Item = &'a Version>) -> Cells {
        let mut cells = Cells::default();
        let levels = versions.flat_map(|version| version.levels().skip(1));
        for cell in levels.flat_map(|level| &level.cells) {
            let slices = || cell.slices().map(|(_, slice)| slice);
            let files = slices().flat_map(|slice| slice.values.iter().map(|&(id, _)| id));
            let bytes = slices().fold(0, |sum: u64, slice| {
                let in_table = slice.bytes.saturating_sub(slice.value_bytes());
                sum.saturating_add(in_table).saturating_add(slice.entries.saturating_mul(HANDLE_BYTES))
            });
            cells.add(bytes, files);
        }
        cells
    }

    fn add(&mut self, bytes: u64, files: impl Iterator<Item = FileId>) {
        let place = self.bytes.len();
        self.bytes.push(bytes);
        for id in files {
            let places = self.leading.entry(id).or_default();
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
    }

    /// Takes the cells that lead into a file out of the account: they are rewritten anyway.
    fn visit(&mut self, id: FileId) {
        for &place in self.leading.get(&id).into_iter().flatten() {
            self.bytes[place] = 0;
        }
    }

    /// The gain of a file ([`gain`]). Its cost includes the rewrite of the cells that lead there, except visited ones.
    fn gain(&self, id: FileId, file: &ValueFile) -> u128 {
        let places = self.leading.get(&id).into_iter().flatten();
        let cost_bytes = places.fold(copy_bytes(file), |sum, &place| sum.saturating_add(self.bytes[place]));
        gain(file.garbage_bytes(), cost_bytes)
    }
}

/// What copying the live values of a file costs, in bytes of the fast tier.
fn copy_bytes(file: &ValueFile) -> u64 {
    let weight = if file.tier == TierId::FAST { 1 } else { SLOW_WEIGHT };
    file.live_bytes.saturating_mul(weight)
}

/// Garbage that is freed for each byte that is written for it, in units of 2⁻³².
fn gain(garbage_bytes: u64, cost_bytes: u64) -> u128 {
    (u128::from(garbage_bytes) << 32) / u128::from(cost_bytes.max(1))
}

/// The value files whose values every merge writes anew when it meets them: those that are mostly garbage, while there is more garbage than
/// a round leaves.
pub fn carried(files: &BTreeMap<FileId, ValueFile>, total: Total) -> BTreeSet<FileId> {
    if !total.is_beyond(MOST_GARBAGE_PERCENT - ROUND_PERCENT) {
        return BTreeSet::new();
    }
    let is_mostly_garbage =
        |file: &ValueFile| file.live_bytes.saturating_mul(CARRIED_SHARE - 1) <= file.garbage_bytes();
    files.iter().filter(|(_, file)| is_mostly_garbage(file)).map(|(&id, _)| id).collect()
}

/// The value files of the next round of collection, where the device has `room_bytes` beyond its reserve. `total` counts all `files`, and
/// `cells` lead there.
pub fn to_collect(
    files: &BTreeMap<FileId, ValueFile>,
    total: Total,
    mut cells: Cells,
    room_bytes: u64,
    options: &ValueOptions,
) -> BTreeSet<FileId> {
    let mut left = total;
    let most_bytes = (left.live_bytes / ROUND_SHARE).min(room_bytes / ROOM_SHARE);
    let mut most_bytes = most_bytes.max(options.file_bytes.saturating_mul(ROUND_FILES));
    let gains = files.iter().map(|(&id, file)| (cells.gain(id, file), id, file));
    let mut order: Vec<(u128, FileId, &ValueFile)> =
        gains.filter(|(_, _, file)| file.garbage_bytes() > 0).collect();
    // Of equal gains the oldest file.
    order.sort_by_key(|&(gain, id, _)| (Reverse(gain), id));
    let best = order.first().map_or(0, |&(gain, _, _)| gain);
    let costs = files.values().map(copy_bytes).chain(cells.bytes.iter().copied());
    let all_bytes = costs.fold(0, u64::saturating_add);
    let mean = gain(left.garbage_bytes, all_bytes);
    let least = gain(left.garbage_bytes, left.live_bytes) / 2;
    let wanted = PASSES.map(|percent| best * u128::from(percent) / 100).into_iter().chain([mean]);
    let passes = wanted.flat_map(|wanted| order.iter().map(move |file| (wanted, file)));
    let mut chosen = BTreeSet::new();
    for (wanted, &(_, id, file)) in passes {
        if !left.is_beyond(MOST_GARBAGE_PERCENT - ROUND_PERCENT) {
            break;
        }
        // A file whose cells are all rewritten for chosen files costs only its copies. If it has little garbage, these are still more than
        // it frees.
        let is_worth = cells.gain(id, file) >= wanted
            && (gain(file.garbage_bytes(), file.live_bytes) >= least || chosen.is_empty());
        // The first file is chosen even if it holds a value larger than a file should be.
        let has_room = file.live_bytes <= most_bytes || chosen.is_empty();
        if is_worth && has_room && chosen.insert(id) {
            most_bytes = most_bytes.saturating_sub(file.live_bytes);
            left.garbage_bytes -= file.garbage_bytes();
            cells.visit(id);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::values::ValueLayout;
    use crate::value::file::HEADER_BYTES;

    fn hidden(hidden_value_bytes: u64) -> Space {
        Space { hidden_value_bytes, ..Space::default() }
    }

    /// The files with these bytes of records, and of those alive, counted from 1.
    fn files(files: &[(u64, u64)]) -> BTreeMap<FileId, ValueFile> {
        let file = |(id, &(record_bytes, live_bytes)): (u64, &(u64, u64))| {
            (
                FileId(id),
                ValueFile {
                    bytes: HEADER_BYTES as u64 + record_bytes,
                    tail_bytes: 0,
                    hole_bytes: 0,
                    tier: TierId::FAST,
                    live_bytes,
                    tables: 1,
                },
            )
        };
        (1..).zip(files).map(file).collect()
    }

    /// Which files are collected, where a file should have `file_bytes`.
    fn round(sizes: &[(u64, u64)], file_bytes: u64, room_bytes: u64) -> Vec<u64> {
        let options = ValueOptions { threshold: Some(0), file_bytes, layout: ValueLayout::Ordered };
        let files = files(sizes);
        let chosen =
            to_collect(&files, Total::of(&files, Space::default()), Cells::default(), room_bytes, &options);
        chosen.iter().map(|id| id.0).collect()
    }

    /// Which files are collected where nothing else bounds them.
    fn collected(sizes: &[(u64, u64)]) -> Vec<u64> {
        round(sizes, 1 << 20, u64::MAX)
    }

    #[test]
    fn collected_files_are_bounded_by_the_live_bytes_and_the_room() {
        let sizes = [(100, 12), (100, 9), (100, 8), (600, 501)];
        assert_eq!(round(&sizes, 10, u64::MAX), [1, 2, 3], "29 of 44 live bytes that may be collected");
        assert_eq!(round(&sizes, 10, 0), [2, 3], "8 and 9 of 20 live bytes");
        assert_eq!(round(&sizes, 10, 4 * 29), [1, 2, 3]);
        assert_eq!(round(&[(100, 30)], 10, 0), [1], "a file that is too large goes alone");
        assert_eq!(round(&[(100, 20), (100, 30), (100, 22)], 12, 0), [1], "later ones find no room");
        assert_eq!(
            round(&[(100, 10), (100, 30), (60, 11)], 12, 0),
            [1, 3],
            "a small one finds room behind a large one"
        );
    }

    /// Which files of half garbage a round takes. The cells at the places `leading` lead into each; a rewrite of a cell takes `bytes`.
    fn beside(bytes: &[u64], leading: &[&[u64]]) -> Vec<u64> {
        let files = files(&vec![(2_000, 1_000); leading.len()]);
        let mut cells = Cells::default();
        for (place, &bytes) in bytes.iter().enumerate() {
            let leads_there = |places: &&[u64]| places.contains(&(place as u64));
            let ids = (1..).zip(leading).filter(|(_, places)| leads_there(places)).map(|(id, _)| FileId(id));
            cells.add(bytes, ids.collect::<Vec<_>>().into_iter());
        }
        let options = ValueOptions { threshold: Some(0), file_bytes: 1 << 20, layout: ValueLayout::Ordered };
        let chosen = to_collect(&files, Total::of(&files, Space::default()), cells, u64::MAX, &options);
        chosen.iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_cell_is_paid_for_by_the_first_file_that_leads_there() {
        // Files 2 and 4 lead into the cell of file 2, which is cheaper than the others.
        let bytes = [5_000, 1_000, 5_000];
        assert_eq!(
            beside(&bytes, &[&[0], &[1], &[2], &[1]]),
            [2, 4],
            "files 1 and 3 cost three times as much"
        );
        assert_eq!(beside(&bytes, &[&[0], &[1], &[2], &[0, 1]]), [2], "file 4 leads into a costly cell too");
        // Files 1 and 3 cost 1.5 times what file 2 does: 70 percent do not reach them, 50 do.
        let bytes = [2_000, 1_000, 2_000];
        assert_eq!(beside(&bytes, &[&[0], &[1], &[2]]), [1, 2, 3]);
        assert_eq!(beside(&[], &[&[], &[], &[]]), [1, 2, 3], "files that no cell below L0 leads into");
    }

    #[test]
    fn a_file_of_little_garbage_is_not_worth_its_copies_beside_others() {
        // The rewrite of cell 0 costs a hundred times what it frees of file 1. File 2 pays for no cell then, and frees 1.5% of its copies.
        let mut cells = Cells::default();
        cells.add(100_000, [FileId(1), FileId(2), FileId(3)].into_iter());
        let files = files(&[(2_000, 500), (2_000, 1_970), (2_000, 1_000)]);
        let options = ValueOptions { threshold: Some(0), file_bytes: 1 << 20, layout: ValueLayout::Ordered };
        // What is hidden keeps the round going.
        let chosen = to_collect(&files, Total::of(&files, hidden(10_000)), cells, u64::MAX, &options);
        assert_eq!(chosen.iter().map(|id| id.0).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_is_hidden_counts_as_far_as_there_is_garbage_for_certain() {
        let total = |sizes: &[(u64, u64)], hidden_bytes| Total::of(&files(sizes), hidden(hidden_bytes));
        assert!(!total(&[(1_160, 1_000)], 100).is_over(), "260 of 900");
        assert!(total(&[(1_260, 1_000)], 120).is_over(), "380 of 880");
        assert!(!total(&[(1_000, 1_000)], u64::MAX).is_over(), "there is no garbage for certain");
        assert!(!total(&[(1_160, 1_000)], u64::MAX).is_over(), "160 and 160 of 840");
        let options = ValueOptions { threshold: Some(0), file_bytes: 10, layout: ValueLayout::Ordered };
        let permille =
            |sizes: &[(u64, u64)], hidden_bytes| total(sizes, hidden_bytes).garbage_permille(&options);
        assert_eq!(permille(&[(1_000, 1_000)], u64::MAX), 0);
        assert_eq!(permille(&[(1_120, 1_000)], 100), 222, "200 of 900, without two full files");
        assert_eq!(permille(&[(1_120, 1_000)], u64::MAX), 250, "220 of 880");
    }

    #[test]
    fn garbage_is_told_in_proportion_to_what_is_alive() {
        let is_over = |sizes: &[(u64, u64)]| Total::of(&files(sizes), Space::default()).is_over();
        assert!(!is_over(&[]) && !is_over(&[(140, 100)]) && is_over(&[(141, 100)]));
        let options = ValueOptions { threshold: Some(0), file_bytes: 20, layout: ValueLayout::Ordered };
        let permille =
            |sizes: &[(u64, u64)]| Total::of(&files(sizes), Space::default()).garbage_permille(&options);
        assert_eq!([permille(&[]), permille(&[(140, 100)]), permille(&[(190, 100)])], [0, 0, 500]);
        assert_eq!(permille(&[(100, 0)]), 60_000, "nothing is alive");
    }

    #[test]
    fn tables_count_for_the_base() {
        let total = |table_bytes| Total::of(&files(&[(200, 100)]), Space { table_bytes, ..Space::default() });
        assert!(total(199).is_over(), "100 of 249");
        assert!(!total(200).is_over(), "100 of 250");
        let options = ValueOptions { threshold: Some(0), file_bytes: 10, layout: ValueLayout::Ordered };
        assert_eq!(total(200).garbage_permille(&options), 320, "80 of 250");
        assert!(!total(u64::MAX).is_over());
    }

    #[test]
    fn merges_carry_files_of_mostly_garbage_while_there_is_much_garbage() {
        let carried = |sizes: &[(u64, u64)]| {
            let files = files(sizes);
            carried(&files, Total::of(&files, Space::default())).iter().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(carried(&[(100, 25), (100, 26), (100, 100), (100, 0)]), [1, 4]);
        assert_eq!(carried(&[(100, 25), (200, 200), (43, 43)]), [0u64; 0], "75 of 268");
        assert_eq!(carried(&[(100, 25), (200, 200), (42, 42)]), [1], "75 of 267");
    }

    #[test]
    fn the_files_with_most_garbage_are_collected_until_a_round_is_full() {
        assert_eq!(collected(&[]), [0u64; 0]);
        assert_eq!(collected(&[(128, 100)]), [0u64; 0], "at the bound");
        assert_eq!(collected(&[(129, 100)]), [1]);
        assert_eq!(collected(&[(300, 0)]), [1], "nothing is alive");
        assert_eq!(
            collected(&[(20, 20), (0, 0), (60, 20)]),
            [3],
            "files without garbage are never collected"
        );
        // 100 bytes are alive. Without the garbage of file 2, 28 bytes of garbage are left.
        assert_eq!(collected(&[(80, 70), (30, 10), (38, 20)]), [2]);
        assert_eq!(collected(&[(80, 70), (60, 20), (50, 20)]), [2, 3]);
        assert_eq!(collected(&[(80, 70), (60, 10), (41, 20)]), [2, 3], "file 3 frees more than the mean");
        assert_eq!(collected(&[(34, 20), (34, 20), (60, 60)]), [0u64; 0], "at the bound");
        assert_eq!(collected(&[(35, 20), (34, 20), (60, 60)]), [1], "beyond it");
        assert_eq!(collected(&[(40, 20), (40, 20), (60, 60)]), [1], "of equal shares the oldest");
    }

    #[test]
    fn a_file_on_a_slow_tier_is_collected_for_more_garbage() {
        let options = ValueOptions { threshold: Some(0), file_bytes: 1 << 20, layout: ValueLayout::Ordered };
        let chosen = |sizes: &[(u64, u64)]| {
            let mut files = files(sizes);
            files.get_mut(&FileId(1)).expect("the first file").tier = TierId(1);
            let total = Total::of(&files, Space::default());
            let chosen = to_collect(&files, total, Cells::default(), u64::MAX, &options);
            chosen.iter().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[(100, 50), (100, 60)]), [2], "50 bytes of garbage for 400, and 40 for 60");
        assert_eq!(chosen(&[(100, 5), (100, 60)]), [1], "95 bytes for 40");
        assert_eq!(chosen(&[(100, 50)]), [1], "there is no other");
    }
}
