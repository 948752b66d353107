//! Every kind of damage to the file of a table is detected and reported with its place.

use super::*;
use crate::base::error::Error;
use crate::base::report::Damage;

#[test]
fn every_bent_bit_is_found() {
    let dir = Dir::new("bits");
    let rows: Vec<Row> = (0..12u64).map(|i| put(format!("key{i:03}"), i + 1, vec![i as u8; 9])).collect();
    for bits in [10, 0] {
        let path = dir.table();
        let summary = build(
            &path,
            &rows,
            TableOptions { block_bytes: 128, filter_bits_per_key: bits, has_sample: bits > 0 },
        );
        let good = content(&path);
        assert!(good.len() < 700, "small enough to bend every bit: {}", good.len());
        let read_all = || all_forward(&mut open(&path, summary.bytes)?.cursor(everything(), true));
        assert_eq!(read_all().unwrap(), rows);
        for bit in 0..good.len() * 8 {
            let mut bent = good.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            overwrite(&path, &bent);
            match read_all() {
                Err(Error::Corruption { offset, .. }) => {
                    assert!(offset <= bit as u64 / 8, "bit {bit}: at {offset}")
                }
                other => panic!("bit {bit}: {other:?}"),
            }
            let damages = verify(&RealFs, &path, ID, &whole(summary.bytes, summary.checksum));
            let place = bit as u64 / 8;
            assert_eq!(damages.len(), 1, "bit {bit}: {damages:?}");
            let Damage { offset, bytes, .. } = damages[0];
            assert!(offset <= place && place < offset + bytes, "bit {bit}: {damages:?}");
        }
        RealFs.unlink(&path).unwrap();
    }
}

#[test]
fn a_wrong_length_or_name_is_found() {
    let dir = Dir::new("length");
    let path = dir.table();
    let summary = build(&path, &random_rows(30, 1), OPTIONS);
    let good = content(&path);
    for len in 0..good.len() {
        overwrite(&path, &good[..len]);
        // Once against the length in the manifest, once against the file's own length.
        for expected in [summary.bytes, len as u64] {
            let result = open(&path, expected);
            assert!(matches!(result, Err(Error::Corruption { .. })), "cut to {len}: {result:?}");
            assert_eq!(verify(&RealFs, &path, ID, &whole(expected, summary.checksum)).len(), 1);
        }
    }
    let long = [&good[..], &[0]].concat();
    overwrite(&path, &long);
    for expected in [summary.bytes, summary.bytes + 1] {
        assert!(matches!(open(&path, expected), Err(Error::Corruption { .. })));
    }
    overwrite(&path, &good);
    let cache = Arc::new(BlockCache::new(0));
    let files = Arc::new(OpenFiles::new(Arc::new(RealFs), 1));
    match Table::open(files, &path, FileId(8), summary.bytes, Vec::new(), cache, Arc::default()) {
        Err(Error::Corruption { what, .. }) => assert!(what.contains("table 000007"), "{what}"),
        other => panic!("{other:?}"),
    }
    let other = verify(&RealFs, &path, ID, &whole(summary.bytes, summary.checksum ^ 1));
    assert_eq!((other.len(), other[0].offset, other[0].bytes), (1, 0, summary.bytes));
    RealFs.unlink(&path).unwrap();
    assert!(matches!(open(&path, summary.bytes), Err(Error::Io { .. })));
    assert_eq!(verify(&RealFs, &path, ID, &whole(summary.bytes, summary.checksum)).len(), 1);
}

#[test]
fn swapped_blocks_are_found() {
    let dir = Dir::new("swap");
    let path = dir.table();
    let rows: Vec<Row> = (0..64u64).map(|i| put(format!("{i:04}"), 9, *b"same length")).collect();
    let summary =
        build(&path, &rows, TableOptions { block_bytes: 100, filter_bits_per_key: 0, has_sample: false });
    let table = open(&path, summary.bytes).unwrap();
    let place = |i: usize| table.index().start(i) as usize;
    let length = |i: usize| place(i + 1) - place(i);
    let first =
        (1..table.index().blocks() - 1).find(|&i| length(i) == length(i + 1)).expect("two of one length");
    let mut bytes = content(&path);
    bytes[place(first)..place(first + 2)].rotate_left(length(first));
    overwrite(&path, &bytes);
    let table = open(&path, summary.bytes).unwrap();
    let result = all_forward(&mut table.cursor(everything(), true));
    assert!(matches!(result, Err(Error::Corruption { offset, .. }) if offset == place(first) as u64));
    assert_eq!(verify(&RealFs, &path, ID, &whole(summary.bytes, summary.checksum)).len(), 2);
}

#[test]
fn after_an_error_a_cursor_is_invalid_until_positioned_again() {
    let dir = Dir::new("error");
    let path = dir.table();
    let rows: Vec<Row> = (0..64u64).map(|i| put(format!("{i:04}"), 9, *b"value")).collect();
    let summary =
        build(&path, &rows, TableOptions { block_bytes: 100, filter_bits_per_key: 10, has_sample: true });
    let mut bytes = content(&path);
    bytes[150] ^= 1;
    overwrite(&path, &bytes);
    let table = open(&path, summary.bytes).unwrap();
    for fill_cache in [true, false] {
        let mut cursor = table.cursor(everything(), fill_cache);
        cursor.seek_to_first().unwrap();
        while cursor.next().is_ok() {
            assert!(cursor.valid());
        }
        assert!(!cursor.valid());
        cursor.next().unwrap();
        assert!(!cursor.valid(), "it does not go on behind the damage");
        cursor.seek_to_last().unwrap();
        while cursor.prev().is_ok() {
            assert!(cursor.valid());
        }
        assert!(!cursor.valid());
        cursor.seek(b"0060").unwrap();
        assert_eq!(cursor.key(), b"0060");
    }
}
