//! Whole tables on the real file system. This file has the shared helpers, and round trips compared with a plain
//! vector.

mod cut;
mod damage;
mod handles;
mod holes;
mod parts;
mod reads;

use super::builder::TableSummary;
use super::*;
use crate::base::counters::Counters;
use crate::base::error::Result;
use crate::base::ids::{FileId, MAX_SEQ, SeqNo};
use crate::base::key::{self, KeyRange};
use crate::base::part::Part;
use crate::cache::{BlockCache, OpenFiles};
use crate::visible::{Cursor, EntryKind, Found};
use braidb_storage::FileSystem;
use braidb_storage::real::RealFs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Row = (Vec<u8>, SeqNo, EntryKind, Vec<u8>);

const ID: FileId = FileId(7);
const OPTIONS: TableOptions = TableOptions { block_bytes: 4096, filter_bits_per_key: 10, has_sample: false };

/// A directory of one test, deleted at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("braidb-table-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        RealFs.create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn table(&self) -> PathBuf {
        crate::base::names::table(&self.0, ID)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Replaces a file by a new one. Some file systems sync data that is written over a truncated file.
#[allow(clippy::disallowed_methods)]
fn overwrite(path: &Path, bytes: &[u8]) {
    RealFs.unlink(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[allow(clippy::disallowed_methods)]
fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn build(path: &Path, rows: &[Row], options: TableOptions) -> TableSummary {
    let mut builder = TableBuilder::create(&RealFs, path, ID, options).unwrap();
    for (key, seq, kind, value) in rows {
        builder.add(key, *seq, *kind, value).unwrap();
    }
    assert_eq!(builder.entries(), rows.len() as u64);
    let estimate = builder.bytes();
    let summary = builder.finish().unwrap();
    let longest = rows.iter().map(|row| row.0.len()).max().expect("there are rows");
    let slack = (1000 + 5 * rows.len() + 2 * longest) as u64;
    assert!(summary.bytes.abs_diff(estimate) < slack, "{estimate}, then {}", summary.bytes);
    assert_eq!(summary.bytes, content(path).len() as u64);
    summary
}

/// Expects a table without bodies that is needed completely.
fn whole(bytes: u64, checksum: u32) -> Expected<'static> {
    Expected { bytes, checksum: Some(checksum), live: None, bodies: Some(Vec::new()) }
}

fn open_with(path: &Path, bytes: u64, cache_bytes: usize) -> Result<(Arc<Table>, Arc<Counters>)> {
    let counters = Arc::new(Counters::default());
    let cache = Arc::new(BlockCache::new(cache_bytes));
    let files = Arc::new(OpenFiles::new(Arc::new(RealFs), 1));
    Ok((Table::open(files, path, ID, bytes, Vec::new(), cache, counters.clone())?, counters))
}

fn open(path: &Path, bytes: u64) -> Result<Arc<Table>> {
    Ok(open_with(path, bytes, 1 << 20)?.0)
}

fn put(key: impl Into<Vec<u8>>, seq: SeqNo, value: impl Into<Vec<u8>>) -> Row {
    (key.into(), seq, EntryKind::Put, value.into())
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    key::hash(&state.to_le_bytes())
}

/// Sorted rows; some keys have several versions, and keys and values have many lengths.
fn random_rows(count: usize, seed: u64) -> Vec<Row> {
    let mut state = seed;
    let mut rows: Vec<Row> = Vec::new();
    for seq in 1..=count as u64 {
        let number = random(&mut state) % (count as u64 / 2 + 1);
        let mut key = format!("{:x}", number * number).into_bytes();
        if number.is_multiple_of(5) {
            key.splice(0..0, *b"a/common/prefix/");
        }
        if random(&mut state).is_multiple_of(4) {
            rows.push((key, seq, EntryKind::Delete, Vec::new()));
        } else {
            let len = random(&mut state) % 60;
            rows.push(put(key, seq, vec![seq as u8; len as usize]));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    rows
}

fn row(cursor: &TableCursor) -> Row {
    assert_eq!(cursor.pin_value(), cursor.value());
    (cursor.key().to_vec(), cursor.seq(), cursor.kind(), cursor.value().to_vec())
}

fn all_forward(cursor: &mut TableCursor) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() {
        rows.push(row(cursor));
        cursor.next()?;
    }
    cursor.next()?;
    assert!(!cursor.valid());
    Ok(rows)
}

fn all_backward(cursor: &mut TableCursor) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    cursor.seek_to_last()?;
    while cursor.valid() {
        rows.push(row(cursor));
        cursor.prev()?;
    }
    cursor.prev()?;
    assert!(!cursor.valid());
    rows.reverse();
    Ok(rows)
}

fn everything() -> KeyRange {
    KeyRange::new(*b"", vec![0xff; 200])
}

fn found(found: Option<Found>) -> Option<(SeqNo, EntryKind, Vec<u8>)> {
    found.map(|found| (found.seq, found.kind, found.value.to_vec()))
}

fn expected(rows: &[Row], key: &[u8], at: SeqNo) -> Option<(SeqNo, EntryKind, Vec<u8>)> {
    let row = rows.iter().find(|row| row.0 == key && row.1 <= at);
    row.map(|row| (row.1, row.2, row.3.clone()))
}

fn get(table: &Table, key: &[u8], at: SeqNo) -> Option<(SeqNo, EntryKind, Vec<u8>)> {
    found(table.get(key, key::hash(key), at).unwrap())
}

/// Compares gets, scans, seeks and slices with the rows themselves.
fn check(path: &Path, rows: &[Row], options: TableOptions, cache_bytes: usize) {
    let summary = build(path, rows, options);
    let keys: Vec<&[u8]> = rows.iter().map(|row| row.0.as_slice()).collect();
    assert_eq!(summary.range, KeyRange::new(keys[0], keys[keys.len() - 1]));
    assert_eq!(summary.entries, rows.len() as u64);
    assert_eq!(summary.tombstones, rows.iter().filter(|row| row.2 == EntryKind::Delete).count() as u64);
    assert_eq!(verify(&RealFs, path, ID, &whole(summary.bytes, summary.checksum)), []);

    let (table, _) = open_with(path, summary.bytes, cache_bytes).unwrap();
    let mut probes: Vec<Vec<u8>> = vec![b"".to_vec(), b"0".to_vec(), vec![0xff; 3]];
    for key in keys.iter().step_by(rows.len().div_ceil(60)) {
        probes.extend([key.to_vec(), [key, &b"\0"[..]].concat(), key[..key.len() / 2].to_vec()]);
    }
    for probe in &probes {
        for at in [0, summary.seqs.0, (summary.seqs.0 + summary.seqs.1) / 2, MAX_SEQ] {
            assert_eq!(get(&table, probe, at), expected(rows, probe, at), "{} at {at}", probe.escape_ascii());
        }
    }
    let mut state = rows.len() as u64;
    for fill_cache in [true, false] {
        check_slice(&table, rows, everything(), fill_cache, &probes);
        for _ in 0..6 {
            let mut ends = [0; 2].map(|_| probes[random(&mut state) as usize % probes.len()].clone());
            ends.sort();
            let [low, high] = ends;
            check_slice(&table, rows, KeyRange::new(low, high), fill_cache, &probes);
        }
    }
}

fn check_slice(table: &Arc<Table>, rows: &[Row], bounds: KeyRange, fill_cache: bool, probes: &[Vec<u8>]) {
    let rows: Vec<Row> =
        rows.iter().filter(|row| bounds.low <= row.0 && row.0 <= bounds.high).cloned().collect();
    let mut cursor = table.cursor(bounds, fill_cache);
    assert!(!cursor.valid());
    assert_eq!(all_forward(&mut cursor).unwrap(), rows);
    assert_eq!(all_backward(&mut cursor).unwrap(), rows);
    for probe in probes {
        cursor.seek(probe).unwrap();
        for row in rows.iter().skip_while(|row| row.0 < *probe).take(3) {
            assert_eq!(self::row(&cursor), *row);
            cursor.next().unwrap();
        }
        cursor.seek_before(probe).unwrap();
        for row in rows.iter().rev().skip_while(|row| row.0 >= *probe).take(3) {
            assert_eq!(self::row(&cursor), *row);
            cursor.prev().unwrap();
        }
    }
    cursor.seek(&[0xff; 200]).unwrap();
    assert!(!cursor.valid());
    cursor.seek_before(b"").unwrap();
    assert!(!cursor.valid());
}

#[test]
fn random_tables_agree_with_a_vector() {
    let dir = Dir::new("random");
    for (seed, (count, block_bytes, bits, cache)) in
        [(3000, 4096, 10, 1 << 20), (1500, 64, 10, 1 << 14), (700, 300, 0, 0), (40, 1 << 20, 1, 1)]
            .into_iter()
            .enumerate()
    {
        let options = TableOptions { block_bytes, filter_bits_per_key: bits, has_sample: bits > 0 };
        check(&dir.table(), &random_rows(count, seed as u64), options, cache);
        RealFs.unlink(&dir.table()).unwrap();
    }
}

#[test]
fn special_tables_agree_with_a_vector() {
    let dir = Dir::new("special");
    let long_key = vec![b'k'; crate::base::MAX_KEY_BYTES];
    let tiny = TableOptions { block_bytes: 64, filter_bits_per_key: 10, has_sample: false };
    let versions = (0..500).rev().map(|seq| put(*b"many", 10 + seq, format!("version {seq}")));
    let neighbours = versions.clone().chain([put(*b"many\0", 3, *b"x")]);
    let sets: [Vec<Row>; 8] = [
        vec![put(*b"k", 1, *b"v")],
        vec![put(*b"", 1, *b"")],
        vec![(b"".to_vec(), 5, EntryKind::Delete, vec![]), put(*b"", 4, *b"old"), put(*b"\0", 9, *b"v")],
        vec![put(*b"a", 1, *b"v"), put(*b"b", 2, vec![7; 1 << 20]), put(*b"c", MAX_SEQ, *b"w")],
        versions.collect(),
        [put(*b"man", 1, *b"v")].into_iter().chain(neighbours).collect(),
        vec![put(long_key[..long_key.len() - 1].to_vec(), 2, *b"v"), put(long_key, 1, *b"w")],
        (0..100u8).map(|i| put(vec![0xff; usize::from(i)], 1, vec![i])).collect(),
    ];
    for rows in &sets {
        for options in [tiny, OPTIONS] {
            check(&dir.table(), rows, options, 1 << 20);
            RealFs.unlink(&dir.table()).unwrap();
        }
    }
}

#[test]
fn sequential_entries_stay_small() {
    let dir = Dir::new("size");
    let mut builder = TableBuilder::create(&RealFs, &dir.table(), ID, OPTIONS).unwrap();
    for i in 0..50_000u64 {
        builder.add(format!("{i:016}").as_bytes(), 3_000_000 + i, EntryKind::Put, &[b'v'; 128]).unwrap();
    }
    let summary = builder.finish().unwrap();
    let each = summary.bytes as f64 / summary.entries as f64;
    assert!(each <= 143.0, "{each} bytes an entry of 16 + 128");
    let table = open(&dir.table(), summary.bytes).unwrap();
    let memory = table.memory_bytes() as f64 / summary.entries as f64;
    assert!(memory <= 2.3, "{memory} bytes of memory an entry");
}

#[test]
fn counters_tell_what_gets_did() {
    let dir = Dir::new("counters");
    let rows: Vec<Row> = (0..4000u64).map(|i| put(format!("{:05}", 2 * i), 50, vec![b'v'; 100])).collect();
    let summary = build(&dir.table(), &rows, OPTIONS);
    let (table, counters) = open_with(&dir.table(), summary.bytes, 16 << 20).unwrap();
    for i in 0..8000u64 {
        let key = format!("{i:05}");
        assert_eq!(get(&table, key.as_bytes(), 50).is_some(), i % 2 == 0);
    }
    let wrong = counters.filter_false_positives.get();
    assert!(wrong < 4000 / 50, "{wrong} of 4000");
    assert_eq!(counters.filter_rejections.get() + wrong, 4000);
    assert_eq!(counters.table_reads.get(), 4000 + wrong);
    let blocks = table.index().blocks() as u64;
    // The cache has room, so it keeps each block at its first get.
    let misses = counters.cache_misses.get();
    assert_eq!(misses, blocks);
    assert_eq!(counters.cache_hits.get(), 4000 + wrong - misses);
    assert!(get(&table, b"00000", 49).is_none());
    assert_eq!(counters.filter_false_positives.get(), wrong, "the key is there, only too new");

    let (table, counters) = open_with(&dir.table(), summary.bytes, 0).unwrap();
    for _ in 0..2 {
        assert!(get(&table, b"00000", 50).is_some());
    }
    assert_eq!((counters.cache_hits.get(), counters.cache_misses.get()), (0, 2));
}

#[test]
fn a_pinned_value_outlives_cursor_table_and_file() {
    let dir = Dir::new("pin");
    let rows: Vec<Row> = (0..5000u64).map(|i| put(format!("{i:05}"), 1, format!("value {i}"))).collect();
    let summary = build(&dir.table(), &rows, OPTIONS);
    for fill_cache in [true, false] {
        let table = open(&dir.table(), summary.bytes).unwrap();
        let mut cursor = table.cursor(everything(), fill_cache);
        cursor.seek_to_first().unwrap();
        let mut pinned = Vec::new();
        while cursor.valid() {
            pinned.push(cursor.pin_value());
            cursor.next().unwrap();
        }
        drop((cursor, table));
        assert!(pinned.iter().zip(&rows).all(|(value, row)| *value == row.3));
    }
}

#[test]
#[should_panic(expected = "entries are added in order")]
fn entries_out_of_order_are_a_programmers_error() {
    let dir = Dir::new("order");
    let mut builder = TableBuilder::create(&RealFs, &dir.table(), ID, OPTIONS).unwrap();
    builder.add(b"k", 5, EntryKind::Put, b"v").unwrap();
    let _ = builder.add(b"k", 5, EntryKind::Put, b"v");
}
