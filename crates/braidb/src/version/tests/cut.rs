//! Tests of cutting slices.

use crate::base::ids::{FileId, TierId};
use crate::base::names;
use crate::base::part::Part;
use crate::table::{TableBuilder, TableOptions};
use crate::version::shape::cut::cut_part;
use crate::version::table_file::{TableFile, TableStore};
use crate::visible::EntryKind;
use braidb_storage::FileSystem;
use braidb_storage::real::RealFs;
use std::path::PathBuf;
use std::sync::Arc;

const ID: FileId = FileId(1);
const KEYS: u64 = 300;

fn key(number: u64) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

/// A table of the even keys below `2 * KEYS`. Every second key is deleted and has an older version.
fn table(dir: &PathBuf) -> (Arc<TableFile>, Part) {
    let _ = std::fs::remove_dir_all(dir);
    RealFs.create_dir_all(dir).unwrap();
    let options = TableOptions { block_bytes: 200, filter_bits_per_key: 10, has_sample: false };
    let mut builder = TableBuilder::create(&RealFs, &names::table(dir, ID), ID, options).unwrap();
    for number in 0..KEYS {
        if number % 2 == 0 {
            builder.add(&key(2 * number), 10, EntryKind::Delete, b"").unwrap();
        }
        builder.add(&key(2 * number), 9, EntryKind::Put, b"value").unwrap();
    }
    let summary = builder.finish().unwrap();
    let store = TableStore::detached(Arc::new(RealFs), dir.as_path());
    let table = TableFile::new(ID, summary.bytes, summary.checksum, TierId::FAST, store);
    (Arc::new(table), summary.parts.into_iter().next().unwrap())
}

fn is_possible(part: &Part) -> bool {
    let Part { range, seqs, entries, tombstones, keys, bytes, values: _ } = part;
    range.low <= range.high
        && seqs.0 <= seqs.1
        && *keys > 0
        && keys <= entries
        && tombstones <= entries
        && *bytes > 0
}

/// Cuts the slice again and again, and compares the ranges with the keys.
#[test]
fn ranges_stay_exact_and_counts_possible_down_to_the_last_key() {
    let dir = std::env::temp_dir().join(format!("braidb-cut-{}", std::process::id()));
    let (table, whole) = table(&dir);
    let mut open = vec![(0, KEYS, whole.clone())];
    let mut singles = 0;
    while let Some((from, end, part)) = open.pop() {
        assert_eq!((&part.range.low, &part.range.high), (&key(2 * from), &key(2 * end - 2)));
        if end - from == 1 {
            singles += 1;
            continue;
        }
        // A cut between two keys, or at the second of them.
        let middle = from + (end - from).div_ceil(3);
        let (left, right) = cut_part(&table, &part, &key(2 * middle - u64::from(middle % 2 == 0))).unwrap();
        let (left, right) = (left.unwrap(), right.unwrap());
        assert!(is_possible(&left) && is_possible(&right), "{left:?} {right:?}");
        let tombstones = left.tombstones + right.tombstones;
        assert!(
            (part.tombstones..=part.tombstones + 1).contains(&tombstones) || part.tombstones == part.entries
        );
        for (all, left, right) in [
            (part.entries, left.entries, right.entries),
            (part.keys, left.keys, right.keys),
            (part.bytes, left.bytes, right.bytes),
        ] {
            assert_eq!(left + right, all.max(2));
        }
        if part.entries == whole.entries {
            assert!(left.entries.abs_diff(whole.entries / 3) < whole.entries / 20, "{}", left.entries);
        }
        open.extend([(from, middle, left), (middle, end, right)]);
    }
    assert_eq!(singles, KEYS);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_cut_beside_the_slice_leaves_it_whole() {
    let dir = std::env::temp_dir().join(format!("braidb-nocut-{}", std::process::id()));
    let (table, part) = table(&dir);
    // No block is read: the file does not exist.
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(cut_part(&table, &part, b"").unwrap(), (None, Some(part.clone())));
    assert_eq!(cut_part(&table, &part, &key(0)).unwrap(), (None, Some(part.clone())));
    assert_eq!(cut_part(&table, &part, &key(2 * KEYS - 1)).unwrap(), (Some(part.clone()), None));
    assert!(cut_part(&table, &part, &key(1)).is_err());
}
