//! Which values a merge *gathers* (writes anew, together and in key order): those of a cell whose values lie in many small places.
//!
//! A flush writes few values of each cell, so the values of a cell lie in as many places as flushes wrote them. A merge of the cell writes
//! the values of small places anew, in key order, if there are too many of them ([`scattered`]), or if scans have lost as much time as the
//! gathering costs ([`gathered`], [`gathering_us`]). In a trie nothing is gathered: its tables stay in the order of writing, as in the
//! papers.

use super::{ValueLayout, ValueOptions};
use crate::base::ids::FileId;
use std::collections::{BTreeMap, BTreeSet};

/// A cell may have few bytes in this many value files. If it has few bytes in more files, its next merge writes the values of these files
/// anew, in key order. At 16 a value of a very large database is written once more for it: 16 flushes that each left 40 KiB in a cell
/// become one place of 640 KiB. (KT-Store keeps one table a leaf.)
const SMALL_PLACES: usize = 16;
/// A cell has few bytes in a value file if they are less than one in this many of the bytes of a full value file: 512 KiB of 8 MiB. A disk
/// reads them in less time than a seek takes.
const SMALL_SHARE: u64 = 16;
/// Fewer bytes than this of a cell in a value file are few, even if value files are small: four blocks of a file system.
const LEAST_SMALL_BYTES: u64 = 16 << 10;

/// Bytes that a merge which gathers values reads at one place, mostly (`CHUNK_BYTES` in `value/mod.rs`).
const GATHERED_CHUNK_BYTES: u64 = 256 << 10;

/// What a scan spent on values because they lie in many places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vain {
    pub us: u64,
    /// Time of a place that is in no cache.
    pub place_us: u64,
}

/// What scans pay for a merge that gathers this many bytes of values, in microseconds. The merge reads and writes them at 500 MB/s, as a
/// flash device does, and goes to a place for each chunk. The time of the places counts twice, because on a disk they hold up the scans
/// beside the merge.
pub fn gathering_us(value_bytes: u64, place_us: u64) -> u64 {
    let places = 2 * (value_bytes / GATHERED_CHUNK_BYTES);
    (value_bytes / 250).saturating_add(places.saturating_mul(place_us))
}

/// Adds up bytes by file. `places` are the value files that slices lead into, with the bytes there. A file may come several times.
fn by_file(places: impl Iterator<Item = (FileId, u64)>) -> BTreeMap<FileId, u64> {
    let mut by_file: BTreeMap<FileId, u64> = BTreeMap::new();
    for (id, bytes) in places {
        let sum = by_file.entry(id).or_default();
        *sum = sum.saturating_add(bytes);
    }
    by_file
}

/// The value files whose values a merge writes anew because it has few bytes in each of many. `places` are those of its inputs.
pub fn scattered(places: impl Iterator<Item = (FileId, u64)>, options: &ValueOptions) -> BTreeSet<FileId> {
    if options.layout != ValueLayout::Ordered {
        return BTreeSet::new();
    }
    let mut by_file = by_file(places);
    let few_bytes = (options.file_bytes / SMALL_SHARE).max(LEAST_SMALL_BYTES);
    by_file.retain(|_, bytes| *bytes < few_bytes);
    if by_file.len() > SMALL_PLACES { by_file.into_keys().collect() } else { BTreeSet::new() }
}

/// The value files whose values a merge gathers for scans, with their bytes: all that have less than half of a full file, if there are at
/// least two. What was gathered before stays, unless much of it was replaced.
pub fn gathered(
    places: impl Iterator<Item = (FileId, u64)>,
    options: &ValueOptions,
) -> BTreeMap<FileId, u64> {
    if options.layout != ValueLayout::Ordered {
        return BTreeMap::new();
    }
    let mut by_file = by_file(places);
    by_file.retain(|_, bytes| *bytes < options.file_bytes / 2);
    if by_file.len() > 1 { by_file } else { BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_gathers_many_small_places() {
        let options = ValueOptions { threshold: Some(0), file_bytes: 1 << 20, layout: ValueLayout::Ordered };
        let gathered = |places: &[(u64, u64)]| {
            let places = places.iter().map(|&(id, bytes)| (FileId(id), bytes));
            scattered(places, &options).iter().map(|id| id.0).collect::<Vec<u64>>()
        };
        let small = (1..=16).map(|id| (id, (64 << 10) - 1));
        let of =
            |more: &[(u64, u64)]| gathered(&small.clone().chain(more.iter().copied()).collect::<Vec<_>>());
        assert_eq!(of(&[(17, 64 << 10)]), [0u64; 0], "16 are few enough");
        assert_eq!(of(&[(17, 1)]), (1..=17).collect::<Vec<_>>());
        assert_eq!(of(&[(17, 1), (3, 1)]), [0u64; 0], "two slices have 64 KiB in file 3");
    }

    #[test]
    fn what_lies_together_is_not_gathered_again() {
        let options = ValueOptions { threshold: Some(0), file_bytes: 100, layout: ValueLayout::Ordered };
        let gathered = |places: &[(u64, u64)]| {
            let places = places.iter().map(|&(id, bytes)| (FileId(id), bytes));
            gathered(places, &options).into_iter().map(|(id, bytes)| (id.0, bytes)).collect::<Vec<_>>()
        };
        assert_eq!(gathered(&[(1, 49), (2, 50), (3, 10), (1, 0)]), [(1, 49), (3, 10)]);
        assert_eq!(
            gathered(&[(1, 49), (2, 50), (3, 10), (1, 1)]),
            [(0u64, 0u64); 0],
            "one small place may stay"
        );
    }
}
