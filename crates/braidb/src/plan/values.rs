//! Where a value lies: in the table with its key, or in a value file.
//!
//! A large value is written twice in its life: to the log, and to a value file. The job that first writes it to the tree, mostly a
//! flush, separates it from its key. Later merges carry its handle and leave the value where it is. (KT-Store, section 3; a threshold
//! of infinity is the plain tree.)
//!
//! A value file that merges have emptied in part holds garbage. The garbage of all value files together may have
//! [`MOST_GARBAGE_PERCENT`] of the bytes that are alive. Beyond it the files with most garbage for each live byte are *collected*, until the others are within the bound: every merge
//! that meets a value of such a file writes it anew, and tables that point into it are rewritten.
//!
//! A file gives its space back when the last table that points into it was rewritten. Until then its values that were written anew stand
//! on the device twice. So files are collected in rounds: the live bytes of one round are bounded by the room of the device, and by
//! [`ROUND_FILES`] files where it is nearly full. A round begins when all files of the round before are gone.

use crate::base::ids::FileId;
use crate::version::state::ValueFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most garbage of all value files, in percent of their live bytes. At 50 a byte of garbage costs at most two copied live bytes once the
/// bound is reached, and space stays below what a leveled tree takes in its worst moments.
const MOST_GARBAGE_PERCENT: u64 = 50;

/// Live bytes that one round of collection may always write anew, in value files of full size. The device keeps a reserve of two tables
/// and more for merges, and a value file has the size of a table.
const ROUND_FILES: u64 = 2;
/// A round of collection may write anew one byte in this many that the device has free beyond its reserve. The rest is left to writers.
const ROOM_SHARE: u64 = 4;

/// The options of separated values.
#[derive(Clone, Copy, Debug)]
pub struct ValueOptions {
    /// Least bytes of a value that lies in a value file; `None` if all values lie in tables.
    pub threshold: Option<u64>,
    /// Bytes at which a job starts its next value file.
    pub file_bytes: u64,
}

impl ValueOptions {
    /// Whether a value of this size lies in a value file.
    pub fn separates(&self, bytes: usize) -> bool {
        self.threshold.is_some_and(|threshold| bytes as u64 >= threshold)
    }
}

/// Whether the garbage of all value files is beyond its bound.
pub fn is_over(files: &BTreeMap<FileId, ValueFile>) -> bool {
    let garbage_bytes: u64 = files.values().map(ValueFile::garbage_bytes).sum();
    let live_bytes: u64 = files.values().map(|file| file.live_bytes).sum();
    u128::from(garbage_bytes) > u128::from(live_bytes) * u128::from(MOST_GARBAGE_PERCENT) / 100
}

/// The value files of the next round of collection, where the device has `room_bytes` beyond its reserve.
pub fn to_collect(
    files: &BTreeMap<FileId, ValueFile>,
    room_bytes: u64,
    options: &ValueOptions,
) -> BTreeSet<FileId> {
    if !is_over(files) {
        return BTreeSet::new();
    }
    let mut garbage_bytes: u64 = files.values().map(ValueFile::garbage_bytes).sum();
    let live_bytes: u64 = files.values().map(|file| file.live_bytes).sum();
    let most_bytes = u128::from(live_bytes) * u128::from(MOST_GARBAGE_PERCENT) / 100;
    let mut left_bytes = options.file_bytes.saturating_mul(ROUND_FILES).max(room_bytes / ROOM_SHARE);
    let mut by_share: Vec<(&FileId, &ValueFile)> = files.iter().collect();
    // The largest share of garbage first; of equal shares the oldest file.
    let share = |file: &ValueFile| (u128::from(file.garbage_bytes()) << 32) / u128::from(file.bytes.max(1));
    by_share.sort_by_key(|(id, file)| (Reverse(share(file)), **id));
    let mut chosen = BTreeSet::new();
    for (&id, file) in by_share {
        if u128::from(garbage_bytes) <= most_bytes || file.garbage_bytes() == 0 {
            break;
        }
        // The first file is chosen even if it holds a value larger than a file should be.
        if file.live_bytes > left_bytes && !chosen.is_empty() {
            break;
        }
        left_bytes = left_bytes.saturating_sub(file.live_bytes);
        garbage_bytes -= file.garbage_bytes();
        chosen.insert(id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::file::HEADER_BYTES;

    /// Which files are collected, counted from 1. Each is given by the bytes of its records, and of those alive.
    fn collected(files: &[(u64, u64)]) -> Vec<u64> {
        round(files, u64::MAX)
    }

    /// Which files are collected with this room, where a file should have 10 bytes.
    fn round(files: &[(u64, u64)], room_bytes: u64) -> Vec<u64> {
        let file = |(id, &(record_bytes, live_bytes)): (u64, &(u64, u64))| {
            (FileId(id), ValueFile { bytes: HEADER_BYTES as u64 + record_bytes, live_bytes, tables: 1 })
        };
        let files = (1..).zip(files).map(file).collect();
        let options = ValueOptions { threshold: Some(0), file_bytes: 10 };
        to_collect(&files, room_bytes, &options).iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_round_is_bounded_by_the_room_of_the_device() {
        let files = [(100, 12), (100, 9), (100, 8), (100, 40)];
        assert_eq!(collected(&files), [1, 2, 3, 4]);
        assert_eq!(round(&files, 0), [2, 3], "8 and 9 of 20 live bytes");
        assert_eq!(round(&files, 4 * 29), [1, 2, 3]);
        assert_eq!(round(&[(100, 30)], 0), [1], "a file that is too large for a round goes alone");
    }

    #[test]
    fn values_are_separated_from_the_threshold_on() {
        let options = |threshold| ValueOptions { threshold, file_bytes: 1 };
        assert!(!options(None).separates(usize::MAX));
        assert!(options(Some(0)).separates(0));
        assert!(!options(Some(100)).separates(99) && options(Some(100)).separates(100));
    }

    #[test]
    fn the_files_with_most_garbage_are_collected_until_the_bound_holds() {
        assert_eq!(collected(&[]), [0u64; 0]);
        assert_eq!(collected(&[(150, 100)]), [0u64; 0], "at the bound");
        assert_eq!(collected(&[(151, 100)]), [1]);
        assert_eq!(collected(&[(300, 0)]), [1], "nothing is alive");
        assert_eq!(collected(&[(20, 20), (0, 0)]), [0u64; 0], "a file without garbage is never collected");
        // 100 bytes are alive. Without the garbage of file 2, 50 bytes of garbage are left.
        assert_eq!(collected(&[(100, 70), (60, 10), (40, 20)]), [2]);
        assert_eq!(collected(&[(100, 70), (60, 10), (41, 20)]), [2, 3]);
        assert_eq!(collected(&[(40, 20), (40, 20), (10, 10)]), [1], "of equal shares the oldest");
    }
}
