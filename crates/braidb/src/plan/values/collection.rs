//! Which value files are collected: those with most garbage, in rounds.
//!
//! A value file that merges have emptied in part holds garbage. Beyond [`MOST_GARBAGE_PERCENT`] of all live bytes the files with most
//! garbage for each live byte are *collected*: every merge that meets a value of such a file writes it anew, and the cells that point
//! into it are rewritten. Writers slow down where the garbage grows nevertheless (`write/pressure.rs`).
//!
//! A file gives its space back when the last table that points into it was rewritten. Until then its values that were written anew
//! stand on the device twice. So the live bytes of all collected files are bounded: by one in [`ROUND_SHARE`] of all live bytes, and by
//! the room of the device, but [`ROUND_FILES`] full files are always allowed. A round begins when all files of the round before are
//! gone. Files that joined later would have cells visited again that the merges have left behind. The files of a round begin in the
//! keys of the worst one, so a round visits few cells.

use super::ValueOptions;
use crate::base::ids::FileId;
use crate::base::key::KeyRange;
use crate::version::state::ValueFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Garbage of all value files, in percent of their live bytes, beyond which files are collected. At 28 files with 35 to 50% of garbage are
/// found under even overwriting, so a byte of garbage costs about 1.3 copied bytes.
const MOST_GARBAGE_PERCENT: u64 = 28;
/// Collected files may have one in this many of all live bytes. At 12 the copies take 8% of the live bytes at worst, for a short time.
const ROUND_SHARE: u64 = 12;
/// Live bytes that may always be collected, in value files of full size. The device keeps a reserve of two tables and more for merges, and
/// a value file is no larger than a table.
const ROUND_FILES: u64 = 2;
/// Collected files may have one byte in this many that the device has free beyond its reserve. The rest is left to writers.
const ROOM_SHARE: u64 = 4;

/// What all value files have, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    live_bytes: u64,
    garbage_bytes: u64,
}

impl Total {
    pub fn of(files: &BTreeMap<FileId, ValueFile>) -> Total {
        files.values().fold(Total::default(), |total, file| Total {
            live_bytes: total.live_bytes + file.live_bytes,
            garbage_bytes: total.garbage_bytes + file.garbage_bytes(),
        })
    }

    /// Whether there is so much garbage that files should be collected.
    pub fn is_over(&self) -> bool {
        u128::from(self.garbage_bytes) * 100 > u128::from(self.live_bytes) * u128::from(MOST_GARBAGE_PERCENT)
    }

    /// The garbage beyond two value files of full size, in thousandths of the live bytes: how far the collection is behind. Small databases
    /// have more garbage in proportion.
    pub fn garbage_permille(&self, options: &ValueOptions) -> u64 {
        let garbage_bytes = self.garbage_bytes.saturating_sub(options.file_bytes.saturating_mul(2));
        (u128::from(garbage_bytes) * 1000 / u128::from(self.live_bytes.max(1))).min(u64::MAX.into()) as u64
    }
}

/// The value files of the next round of collection, where the device has `room_bytes` beyond its reserve. `total` counts all `files`.
/// `ranges` are the keys whose values lie in each file, as far as they are known.
pub fn to_collect(
    files: &BTreeMap<FileId, ValueFile>,
    total: Total,
    ranges: &BTreeMap<FileId, KeyRange>,
    room_bytes: u64,
    options: &ValueOptions,
) -> BTreeSet<FileId> {
    let mut left = total;
    let most_bytes = (left.live_bytes / ROUND_SHARE).min(room_bytes / ROOM_SHARE);
    let mut most_bytes = most_bytes.max(options.file_bytes.saturating_mul(ROUND_FILES));
    // The largest share of garbage first; of equal shares the oldest file.
    let share =
        |file: &ValueFile| (u128::from(file.garbage_bytes()) << 32) / u128::from(file.total_bytes().max(1));
    let order = |id: FileId, file: &ValueFile| (Reverse(share(file)), id);
    let Some((&worst, worst_file)) = files.iter().min_by_key(|&(&id, file)| order(id, file)) else {
        return BTreeSet::new();
    };
    let is_near = |id: FileId| match (ranges.get(&worst), ranges.get(&id)) {
        (Some(range), Some(other)) => (&range.low..=&range.high).contains(&&other.low),
        _ => true,
    };
    let least = share(worst_file) / 2;
    let mut near: Vec<(&FileId, &ValueFile)> =
        files.iter().filter(|&(&id, file)| id == worst || share(file) >= least && is_near(id)).collect();
    near.sort_by_key(|&(&id, file)| order(id, file));
    let mut chosen = BTreeSet::new();
    for (&id, file) in near {
        if !left.is_over() || file.garbage_bytes() == 0 {
            break;
        }
        // The first file is chosen even if it holds a value larger than a file should be.
        if file.live_bytes > most_bytes && !chosen.is_empty() {
            break;
        }
        most_bytes = most_bytes.saturating_sub(file.live_bytes);
        left.garbage_bytes -= file.garbage_bytes();
        chosen.insert(id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::values::ValueLayout;
    use crate::value::file::HEADER_BYTES;

    /// The files with these bytes of records, and of those alive, counted from 1.
    fn files(files: &[(u64, u64)]) -> BTreeMap<FileId, ValueFile> {
        let file = |(id, &(record_bytes, live_bytes)): (u64, &(u64, u64))| {
            (
                FileId(id),
                ValueFile { bytes: HEADER_BYTES as u64 + record_bytes, tail_bytes: 0, live_bytes, tables: 1 },
            )
        };
        (1..).zip(files).map(file).collect()
    }

    /// Which files are collected, where a file should have `file_bytes`.
    fn round(sizes: &[(u64, u64)], file_bytes: u64, room_bytes: u64) -> Vec<u64> {
        let options = ValueOptions { threshold: Some(0), file_bytes, layout: ValueLayout::Ordered };
        let files = files(sizes);
        let chosen = to_collect(&files, Total::of(&files), &BTreeMap::new(), room_bytes, &options);
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
    }

    #[test]
    fn the_files_of_a_round_begin_near_the_worst_one() {
        let range = |low: &str, high: &str| KeyRange { low: low.into(), high: high.into() };
        let ranges = [range("a", "f"), range("c", "p"), range("g", "h"), range("f", "z"), range("b", "c")];
        let ranges: BTreeMap<FileId, KeyRange> = (1..).map(FileId).zip(ranges).collect();
        let sizes = [(100, 8), (100, 9), (100, 9), (100, 9), (100, 60), (900, 700), (100, 9)];
        let options = ValueOptions { threshold: Some(0), file_bytes: 1 << 20, layout: ValueLayout::Ordered };
        let files = files(&sizes);
        let chosen = to_collect(&files, Total::of(&files), &ranges, u64::MAX, &options);
        let ids: Vec<u64> = chosen.iter().map(|id| id.0).collect();
        assert_eq!(
            ids,
            [1, 2, 4, 7],
            "file 5 has less than half of the garbage of file 1; the keys of file 7 are not known"
        );
    }

    #[test]
    fn garbage_is_told_in_proportion_to_what_is_alive() {
        let is_over = |sizes: &[(u64, u64)]| Total::of(&files(sizes)).is_over();
        assert!(!is_over(&[]) && !is_over(&[(128, 100)]) && is_over(&[(129, 100)]));
        let options = ValueOptions { threshold: Some(0), file_bytes: 20, layout: ValueLayout::Ordered };
        let permille = |sizes: &[(u64, u64)]| Total::of(&files(sizes)).garbage_permille(&options);
        assert_eq!([permille(&[]), permille(&[(140, 100)]), permille(&[(190, 100)])], [0, 0, 500]);
        assert_eq!(permille(&[(100, 0)]), 60_000, "nothing is alive");
    }

    #[test]
    fn the_files_with_most_garbage_are_collected_until_the_bound_holds() {
        assert_eq!(collected(&[]), [0u64; 0]);
        assert_eq!(collected(&[(128, 100)]), [0u64; 0], "at the bound");
        assert_eq!(collected(&[(129, 100)]), [1]);
        assert_eq!(collected(&[(300, 0)]), [1], "nothing is alive");
        assert_eq!(collected(&[(20, 20), (0, 0)]), [0u64; 0], "a file without garbage is never collected");
        // 100 bytes are alive. Without the garbage of file 2, 28 bytes of garbage are left.
        assert_eq!(collected(&[(80, 70), (30, 10), (38, 20)]), [2]);
        assert_eq!(collected(&[(80, 70), (60, 10), (41, 20)]), [2, 3]);
        assert_eq!(collected(&[(34, 20), (34, 20), (60, 60)]), [0u64; 0], "at the bound");
        assert_eq!(collected(&[(35, 20), (34, 20), (60, 60)]), [1], "beyond it");
        assert_eq!(collected(&[(40, 20), (40, 20), (60, 60)]), [1], "of equal shares the oldest");
    }
}
