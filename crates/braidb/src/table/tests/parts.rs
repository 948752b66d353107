//! Tables with parts, written for several slices.

use super::*;

/// Writes `rows` and ends a part in front of each row of `ends`; the part ends at the next new key.
fn build_parts(path: &Path, rows: &[Row], ends: &[usize], options: TableOptions) -> TableSummary {
    let mut builder = TableBuilder::create(&RealFs, path, ID, options).unwrap();
    for (i, (key, seq, kind, value)) in rows.iter().enumerate() {
        if ends.contains(&i) {
            builder.end_part();
        }
        builder.add(key, *seq, *kind, value).unwrap();
    }
    builder.finish().unwrap()
}

/// The rows that each part should hold.
fn divided(rows: &[Row], ends: &[usize]) -> Vec<Vec<Row>> {
    let (mut parts, mut is_due) = (vec![Vec::<Row>::new()], false);
    for (i, row) in rows.iter().enumerate() {
        let part = parts.last_mut().unwrap();
        is_due |= ends.contains(&i) && !part.is_empty();
        if is_due && part.last().unwrap().0 != row.0 {
            parts.push(Vec::new());
            is_due = false;
        }
        parts.last_mut().unwrap().push(row.clone());
    }
    parts
}

#[test]
fn parts_are_counted_and_share_no_block() {
    let dir = Dir::new("parts");
    let path = dir.table();
    let mut state = 3;
    for (count, options) in [
        (2000, OPTIONS),
        (2000, TableOptions { block_bytes: 100, filter_bits_per_key: 0, has_sample: false }),
        (9, OPTIONS),
    ] {
        for chance in [2, 20, 500] {
            let rows = random_rows(count, count as u64 + chance);
            let ends: Vec<usize> =
                (0..rows.len()).filter(|_| random(&mut state).is_multiple_of(chance)).collect();
            let summary = build_parts(&path, &rows, &ends, options);
            assert_eq!(verify(&RealFs, &path, ID, &whole(summary.bytes, summary.checksum)), []);
            assert_eq!(summary.parts.iter().map(|part| part.bytes).sum::<u64>(), summary.bytes);
            let table = open(&path, summary.bytes).unwrap();
            let expected = divided(&rows, &ends);
            assert_eq!(summary.parts.len(), expected.len());
            let mut first_block = 0;
            for (part, rows) in summary.parts.iter().zip(&expected) {
                let (first, last) = (&rows[0], &rows[rows.len() - 1]);
                assert_eq!(part.range, KeyRange::new(&*first.0, &*last.0));
                assert_eq!(part.entries, rows.len() as u64);
                assert_eq!(part.keys, rows.chunk_by(|a, b| a.0 == b.0).count() as u64);
                let tombstones = rows.iter().filter(|row| row.2 == EntryKind::Delete).count();
                assert_eq!(part.tombstones, tombstones as u64);
                let seqs = rows.iter().map(|row| row.1);
                assert_eq!(part.seqs, (seqs.clone().min().unwrap(), seqs.max().unwrap()));
                assert!(part.bytes > 0);
                let mut cursor = table.cursor(part.range.clone(), true);
                assert_eq!(all_forward(&mut cursor).unwrap(), *rows);
                assert_eq!(all_backward(&mut cursor).unwrap(), *rows);
                assert_eq!(table.index().first_at_or_after(&part.range.low), first_block);
                first_block = table.index().first_at_or_after(&part.range.high) + 1;
                // Skips further blocks with versions of the part's last key.
                first_block += further_blocks(&table, first_block, &part.range.high);
            }
            assert_eq!(first_block, table.index().blocks());
            RealFs.unlink(&path).unwrap();
        }
    }
}

/// The number of blocks from `next` on that start with more versions of `key`.
fn further_blocks(table: &Table, next: usize, key: &[u8]) -> usize {
    (next..table.index().blocks()).take_while(|&block| table.index().compare(block - 1, key).is_eq()).count()
}

#[test]
fn a_table_without_cuts_is_one_part() {
    let dir = Dir::new("onepart");
    let rows = random_rows(500, 9);
    let summary = build_parts(&dir.table(), &rows, &[0], OPTIONS);
    let TableSummary { range, seqs, entries, tombstones, keys, bytes, .. } = summary.clone();
    let values = Vec::new();
    assert_eq!(summary.parts, [Part { range, seqs, entries, tombstones, keys, bytes, values }]);
}
