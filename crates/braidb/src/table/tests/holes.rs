//! Tables with holes: living slices stay readable, and dead blocks are given back.

use super::*;

/// Up to four ranges between keys of `rows`, sorted; they may overlap.
fn some_ranges(rows: &[Row], state: &mut u64) -> Vec<KeyRange> {
    let count = random(state) % 5;
    let mut ranges: Vec<KeyRange> = (0..count)
        .map(|_| {
            let low = random(state) as usize % rows.len();
            let high = (low + random(state) as usize % (rows.len() / 4)).min(rows.len() - 1);
            KeyRange::new(&*rows[low].0, &*rows[high].0)
        })
        .collect();
    ranges.sort_by(|a, b| a.low.cmp(&b.low));
    ranges
}

/// Punches the dead extents out of the file. Returns a copy of the whole file in which the dead extents hold nonsense.
fn punch(path: &Path, table: &Table, live: &[KeyRange]) -> Vec<u8> {
    let mut bytes = content(path);
    let mut last_end = 0;
    for extent in table.dead_extents(live) {
        assert!(extent.start >= last_end && extent.start < extent.end);
        assert!(extent.start.is_multiple_of(4096) && extent.end.is_multiple_of(4096));
        last_end = extent.end;
        RealFs.punch_hole(path, extent.start, extent.end - extent.start).unwrap();
        bytes[extent.start as usize..extent.end as usize].fill(0xa5);
    }
    bytes
}

fn check_live(path: &Path, bytes: u64, rows: &[Row], live: &[KeyRange]) {
    for (fill_cache, cache_bytes) in [(true, 1 << 20), (true, 0), (false, 0)] {
        let (table, _) = open_with(path, bytes, cache_bytes).unwrap();
        for range in live {
            let inside: Vec<Row> =
                rows.iter().filter(|row| range.low <= row.0 && row.0 <= range.high).cloned().collect();
            let mut cursor = table.cursor(range.clone(), fill_cache);
            assert_eq!(all_forward(&mut cursor).unwrap(), inside);
            assert_eq!(all_backward(&mut cursor).unwrap(), inside);
            for row in inside.iter().step_by(1 + inside.len() / 20).chain(inside.last()) {
                assert_eq!(get(&table, &row.0, MAX_SEQ), expected(rows, &row.0, MAX_SEQ));
                assert_eq!(get(&table, &row.0, 0), None);
                cursor.seek(&row.0).unwrap();
                assert_eq!(cursor.key(), row.0);
                cursor.seek_before(&row.0).unwrap();
                let cut = table.cut(range, &row.0).unwrap();
                assert_eq!(cut.before.is_some(), cursor.valid());
                assert_eq!(cut.after.as_ref(), Some(&row.0));
            }
            // Seeks beyond the bounds must not leave the living blocks either.
            for key in [&b""[..], &[0xff; 200]] {
                cursor.seek(key).unwrap();
                cursor.seek_before(key).unwrap();
            }
        }
    }
}

#[test]
fn what_lives_is_whole_beside_holes() {
    let dir = Dir::new("holes");
    let path = dir.table();
    let mut state = 77;
    let mut punched_bytes = 0;
    for (round, block_bytes) in [100, 700, 4096, 9000, 100, 700].into_iter().enumerate() {
        let rows: Vec<Row> = random_rows(6000, round as u64)
            .into_iter()
            .map(|(key, seq, kind, value)| {
                // Values of many sizes, some larger than a block.
                let repeat = if seq % 50 == 0 { 100 } else { 3 };
                (key, seq, kind, value.repeat(repeat))
            })
            .collect();
        let summary =
            build(&path, &rows, TableOptions { block_bytes, filter_bits_per_key: 10, has_sample: false });
        let whole = content(&path);
        for _ in 0..6 {
            let live = some_ranges(&rows, &mut state);
            let table = open(&path, summary.bytes).unwrap();
            let nonsense = punch(&path, &table, &live);
            let extents = table.dead_extents(&live);
            punched_bytes += extents.iter().map(|extent| extent.end - extent.start).sum::<u64>();
            assert_eq!(content(&path).len() as u64, summary.bytes, "the length stays");
            check_live(&path, summary.bytes, &rows, &live);
            overwrite(&path, &nonsense);
            check_live(&path, summary.bytes, &rows, &live);
            overwrite(&path, &whole);
        }
        RealFs.unlink(&path).unwrap();
    }
    assert!(punched_bytes > 5 << 20, "{punched_bytes} bytes were punched in all");
}

/// No more blocks live than the slices need.
#[test]
fn no_block_lives_for_nothing() {
    let dir = Dir::new("exact");
    let path = dir.table();
    let rows: Vec<Row> = (0..2000u64).map(|i| put(format!("{i:05}"), 1, vec![b'v'; 500])).collect();
    let summary =
        build(&path, &rows, TableOptions { block_bytes: 4096, filter_bits_per_key: 10, has_sample: false });
    let table = open(&path, summary.bytes).unwrap();
    let blocks = table.index().blocks();
    let data_bytes = table.index().start(blocks);
    assert_eq!(table.dead_extents(&[everything()]), []);
    let all = 0..data_bytes / 4096 * 4096;
    for live in [vec![], vec![KeyRange::new(*b"z", *b"zz")]] {
        assert_eq!(table.dead_extents(&live), std::slice::from_ref(&all), "nothing, or nothing here, lives");
    }
    for number in (0..2000).step_by(37) {
        let key = &*rows[number].0;
        let range = KeyRange::new(key, key);
        let dead: u64 = table.dead_extents(&[range]).iter().map(|extent| extent.end - extent.start).sum();
        // The block of the key, perhaps the next block, and the alignment at three places.
        assert!(data_bytes - dead <= 2 * 4200 + 3 * 4096, "{} bytes live for one key", data_bytes - dead);
    }
}

#[test]
fn the_parts_of_a_table_are_punched_one_by_one() {
    let dir = Dir::new("partholes");
    let path = dir.table();
    let rows: Vec<Row> = (0..4000u64).map(|i| put(format!("{i:05}"), 1, vec![b'v'; 100])).collect();
    let mut builder = TableBuilder::create(&RealFs, &path, ID, OPTIONS).unwrap();
    for (i, row) in rows.iter().enumerate() {
        if i % 1000 == 0 {
            builder.end_part();
        }
        builder.add(&row.0, row.1, row.2, &row.3).unwrap();
    }
    let summary = builder.finish().unwrap();
    let table = open(&path, summary.bytes).unwrap();
    let block = |key: &[u8]| table.index().start(table.index().first_at_or_after(key));
    for dead in 0..4 {
        let mut live: Vec<KeyRange> = summary.parts.iter().map(|part| part.range.clone()).collect();
        let gone = live.remove(dead);
        let start = block(&gone.low).next_multiple_of(4096);
        let end = live.get(dead).map_or(table.index().start(table.index().blocks()), |next| block(&next.low));
        let extent = start..end / 4096 * 4096;
        assert_eq!(table.dead_extents(&live), std::slice::from_ref(&extent), "part {dead}, to the block");
    }
}

#[test]
fn verify_passes_over_holes_and_over_nothing_else() {
    let dir = Dir::new("verifyholes");
    let path = dir.table();
    let mut state = 4;
    let (mut with_holes, mut found) = (0, 0);
    for round in 0..12 {
        let block_bytes = [100, 900, 4096][round % 3];
        let rows: Vec<Row> = random_rows(3000, 50 + round as u64);
        let summary =
            build(&path, &rows, TableOptions { block_bytes, filter_bits_per_key: 10, has_sample: false });
        let live = some_ranges(&rows, &mut state);
        let table = open(&path, summary.bytes).unwrap();
        let extents = table.dead_extents(&live);
        let verified = || {
            verify(
                &RealFs,
                &path,
                ID,
                &Expected { live: Some(live.as_slice()), ..whole(summary.bytes, summary.checksum) },
            )
        };
        assert_eq!(verified(), [], "holes may be made later, or never");
        let nonsense = punch(&path, &table, &live);
        assert_eq!(verified(), []);
        overwrite(&path, &nonsense);
        assert_eq!(verified(), []);
        let holes = usize::from(!extents.is_empty());
        with_holes += holes;
        let whole = verify(&RealFs, &path, ID, &whole(summary.bytes, summary.checksum));
        assert_eq!(whole.is_empty(), extents.is_empty());
        // Every byte of a living block and of the tail counts.
        for _ in 0..40 {
            let place = random(&mut state) % summary.bytes;
            let block = (0..table.index().blocks())
                .map(|i| table.index().start(i)..table.index().start(i + 1))
                .find(|block| block.contains(&place));
            let overlaps = |block: &std::ops::Range<u64>| {
                extents.iter().any(|extent| extent.start < block.end && block.start < extent.end)
            };
            let mut bent = nonsense.clone();
            bent[place as usize] ^= 1 << (random(&mut state) % 8);
            overwrite(&path, &bent);
            let damages = verified();
            if block.is_some_and(|block| overlaps(&block)) {
                assert_eq!(damages, [], "byte {place} is dead");
            } else {
                found += 1;
                assert_eq!(damages.len(), 1, "byte {place}: {damages:?}");
                assert!(damages[0].offset <= place && place < damages[0].offset + damages[0].bytes);
            }
        }
        RealFs.unlink(&path).unwrap();
    }
    assert!(with_holes >= 8 && found >= 60, "{with_holes} tables with holes, {found} bent bytes found");
}
