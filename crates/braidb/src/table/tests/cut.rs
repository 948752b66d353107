//! Compares cuts of a range of a table with the rows themselves.

use super::*;
use crate::table::cut::Cut;

#[test]
fn cuts_find_the_keys_on_both_sides_in_few_blocks() {
    let dir = Dir::new("cut");
    let path = dir.table();
    let mut state = 1;
    for (count, block_bytes) in [(600, 64), (600, 300), (600, 4096), (3, 64)] {
        let options = TableOptions { block_bytes, filter_bits_per_key: 10, has_sample: false };
        let rows = random_rows(count, block_bytes as u64);
        let summary = build(&path, &rows, options);
        let some_key = |state: &mut u64| rows[random(state) as usize % rows.len()].0.clone();
        for _ in 0..200 {
            let mut ends = [some_key(&mut state), some_key(&mut state)];
            ends.sort();
            let [low, high] = ends;
            let inside = |row: &&Row| low <= row.0 && row.0 <= high;
            let mut key = some_key(&mut state);
            if random(&mut state).is_multiple_of(2) {
                key.push(b'~');
            }
            let (table, counters) = open_with(&path, summary.bytes, 1 << 20).unwrap();
            let bounds = KeyRange::new(&*low, &*high);
            let Cut { before, after, left_bytes, total_bytes } = table.cut(&bounds, &key).unwrap();
            let reads = counters.cache_misses.get();
            // The block before the cut may be read twice: the cache keeps no block that was read once.
            assert!(reads <= 3, "{reads} blocks were read");
            let expected = rows.iter().filter(inside).rfind(|row| row.0 < key);
            assert_eq!(before, expected.map(|row| row.0.clone()));
            let expected = rows.iter().filter(inside).find(|row| row.0 >= key);
            assert_eq!(after, expected.map(|row| row.0.clone()));
            assert!(total_bytes > 0 && left_bytes <= total_bytes);
            assert_eq!(left_bytes == 0, before.is_none());
            assert_eq!(left_bytes == total_bytes, after.is_none());
        }
        RealFs.unlink(&path).unwrap();
    }
}

fn even_rows(count: u64) -> Vec<Row> {
    (0..count).map(|i| put(format!("{i:05}"), 1, vec![b'v'; 100])).collect()
}

#[test]
fn the_share_of_a_cut_and_the_middle_are_right_to_a_block() {
    let dir = Dir::new("share");
    let rows = even_rows(5000);
    let summary = build(&dir.table(), &rows, OPTIONS);
    let table = open(&dir.table(), summary.bytes).unwrap();
    let key = |i: u64| format!("{i:05}").into_bytes();
    for (low, high) in [(0, 4999), (1000, 2000), (1234, 1500)] {
        let bounds = KeyRange::new(key(low), key(high));
        for at in (low + 1..=high).step_by(77) {
            let cut = table.cut(&bounds, &key(at)).unwrap();
            let exact = (at - low) as f64 / (high + 1 - low) as f64;
            let share = cut.left_bytes as f64 / cut.total_bytes as f64;
            let block = 2.0 * 4096.0 / cut.total_bytes as f64;
            assert!((share - exact).abs() < block, "{at} in {low} to {high}: {share}, not {exact}");
        }
        let middle = table.middle(&bounds).unwrap();
        assert!(key(low) < middle && middle < key(high));
        let middle: u64 = str::from_utf8(&middle[..5]).unwrap().parse().unwrap();
        assert!(middle.abs_diff(low.midpoint(high)) <= 40, "{middle} between {low} and {high}");
    }
}

#[test]
fn the_middle_lies_strictly_inside_and_is_none_in_one_block() {
    let dir = Dir::new("middle");
    let rows = even_rows(200);
    let summary = build(
        &dir.table(),
        &rows,
        TableOptions { block_bytes: 400, filter_bits_per_key: 0, has_sample: false },
    );
    let table = open(&dir.table(), summary.bytes).unwrap();
    let (mut with, mut without) = (0, 0);
    for low in (0..200).step_by(3) {
        for high in (low..200).step_by(7) {
            let bounds = KeyRange::new(&*rows[low].0, &*rows[high].0);
            match table.middle(&bounds) {
                Some(key) => {
                    with += 1;
                    assert!(bounds.low < key && key < bounds.high);
                }
                None => {
                    without += 1;
                    let block = |key: &[u8]| table.index().first_at_or_after(key);
                    let next = table.index().first_after(&bounds.low);
                    assert!(block(&bounds.high) <= next, "there was a separator between them");
                }
            }
        }
    }
    assert!(with > 500 && without > 60, "{with} and {without}");
    assert_eq!(table.middle(&KeyRange::new(*b"z", *b"zz")), None, "beyond the table");
}
