//! Tables with handles: values in two logs, of which the table knows only the places.
#![allow(clippy::disallowed_methods)]

use super::*;
use crate::base::checksum;
use crate::base::error::Error;
use crate::base::ids::TierId;
use crate::base::names;
use crate::value::{Bodies, Body, BodyFile, BodyKind, BodyUse, Handle};

const LOGS: [FileId; 2] = [FileId(3), FileId(4)];

/// The log `id`, closed with `bytes` bytes.
fn log_file(id: FileId, bytes: u64) -> BodyFile {
    BodyFile { kind: BodyKind::Log, tier: TierId::FAST, id, bytes }
}

/// The log that takes the value of a row; every third value stays in the table.
fn log_of(row: usize, kind: EntryKind) -> Option<usize> {
    (kind == EntryKind::Put && !row.is_multiple_of(3)).then_some(row % 2)
}

/// Writes the values of the rows to two files, and a table with handles into these files.
fn build_over_logs(dir: &Dir, rows: &[Row], parts: &[usize]) -> (TableSummary, [Vec<u8>; 2]) {
    let mut logs = [b"a header".to_vec(), b"another header".to_vec()];
    let places: Vec<Option<(usize, Handle)>> = (0..)
        .zip(rows)
        .map(|(at, (_, _, kind, value))| {
            let log = log_of(at, *kind)?;
            let offset = logs[log].len() as u64;
            logs[log].extend_from_slice(value);
            Some((log, Handle { offset, bytes: value.len() as u32, crc: checksum::of_value(value) }))
        })
        .collect();
    let mut builder = TableBuilder::create(&RealFs, &dir.table(), ID, OPTIONS).unwrap();
    for (at, ((key, seq, kind, value), place)) in rows.iter().zip(places).enumerate() {
        if parts.contains(&at) {
            builder.end_part();
        }
        match place {
            Some((log, handle)) => {
                builder.add_handle(key, *seq, log_file(LOGS[log], logs[log].len() as u64), handle).unwrap();
            }
            None => builder.add(key, *seq, *kind, value).unwrap(),
        }
    }
    for (id, log) in LOGS.iter().zip(&logs) {
        std::fs::write(names::log(&dir.0, *id), log).unwrap();
    }
    (builder.finish().unwrap(), logs)
}

fn bodies(dir: &Dir, uses: &[BodyUse], counters: &Arc<Counters>) -> Vec<Arc<Body>> {
    let files = Arc::new(OpenFiles::new(Arc::new(RealFs), 1));
    let bodies = Bodies::new(files, (&*dir.0).into(), Arc::new(BlockCache::new(1 << 20)), counters.clone());
    uses.iter().map(|used| bodies.get(used.file)).collect()
}

fn open_over_logs(
    dir: &Dir,
    summary: &TableSummary,
    uses: &[BodyUse],
) -> Result<(Arc<Table>, Arc<Counters>)> {
    let (counters, cache) = (Arc::new(Counters::default()), Arc::new(BlockCache::new(1 << 20)));
    let files = Arc::new(OpenFiles::new(Arc::new(RealFs), 1));
    let bodies = bodies(dir, uses, &counters);
    let table = Table::open(files, &dir.table(), ID, summary.bytes, bodies, cache, counters.clone())?;
    Ok((table, counters))
}

fn damages(dir: &Dir, summary: &TableSummary, uses: &[BodyUse]) -> Vec<crate::base::report::Damage> {
    let bodies = Some(bodies(dir, uses, &Arc::default()));
    verify(&RealFs, &dir.table(), ID, &Expected { bodies, ..whole(summary.bytes, summary.checksum) })
}

fn fetched(cursor: &mut TableCursor) -> Row {
    cursor.fetch().unwrap();
    row(cursor)
}

#[test]
fn values_come_back_from_wherever_they_lie() {
    let dir = Dir::new("handles-read");
    let rows = random_rows(800, 5);
    let (summary, logs) = build_over_logs(&dir, &rows, &[]);
    let (table, counters) = open_over_logs(&dir, &summary, &summary.bodies).unwrap();
    let in_logs = |row: &(usize, &Row)| log_of(row.0, row.1.2).is_some();
    for (_, (key, seq, kind, value)) in rows.iter().enumerate().filter(in_logs) {
        let found = table.get(key, key::hash(key), *seq).unwrap().unwrap();
        assert_eq!((found.seq, found.kind, &*found.value), (*seq, *kind, value.as_slice()));
    }
    let away = rows.iter().enumerate().filter(in_logs).count() as u64;
    assert!(away > 200);
    assert_eq!(counters.log_reads.get(), away);

    for fill_cache in [true, false] {
        let range = KeyRange { low: rows[0].0.clone(), high: rows[rows.len() - 1].0.clone() };
        let mut cursor = table.cursor(range, fill_cache);
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            forward.push(fetched(&mut cursor));
            cursor.next().unwrap();
        }
        assert_eq!(forward, rows);
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            backward.insert(0, fetched(&mut cursor));
            cursor.prev().unwrap();
        }
        assert_eq!(backward, rows);
    }
    let live = |log: usize| -> u64 {
        let of_log = rows.iter().enumerate().filter(|(at, row)| log_of(*at, row.2) == Some(log));
        of_log.map(|(_, row)| row.3.len() as u64).sum()
    };
    let mut uses = summary.bodies.clone();
    uses.sort_by_key(|body| body.file.id);
    for (log, used) in uses.iter().enumerate() {
        assert_eq!((used.file.id, used.live_bytes), (LOGS[log], live(log)));
        assert_eq!(used.file.bytes, logs[log].len() as u64);
    }
    assert_eq!(damages(&dir, &summary, &summary.bodies), []);
}

#[test]
fn passing_over_entries_reads_no_log() {
    let dir = Dir::new("handles-lazy");
    let rows = random_rows(200, 6);
    let (summary, _) = build_over_logs(&dir, &rows, &[]);
    let (table, counters) = open_over_logs(&dir, &summary, &summary.bodies).unwrap();
    let mut cursor = table.cursor(summary.range.clone(), true);
    cursor.seek_to_first().unwrap();
    let mut entries = 0;
    while cursor.valid() {
        entries += 1;
        cursor.next().unwrap();
    }
    assert_eq!((entries, counters.log_reads.get()), (200, 0));
}

#[test]
fn the_bytes_of_parts_count_values_in_logs() {
    let dir = Dir::new("handles-parts");
    let rows: Vec<Row> = (0..90).map(|n| put(format!("{n:04}"), 1 + n, vec![n as u8; 1000])).collect();
    let (summary, _) = build_over_logs(&dir, &rows, &[45]);
    let parts: Vec<u64> = summary.parts.iter().map(|part| part.bytes).collect();
    let away: u64 = summary.bodies.iter().map(|body| body.live_bytes).sum();
    assert_eq!(away, 60_000);
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0] + parts[1], summary.bytes + away);
    assert!(parts[0].abs_diff(parts[1]) < 2000, "{parts:?}");
}

#[test]
fn every_damaged_value_is_reported_with_its_log_and_place() {
    let dir = Dir::new("handles-damage");
    let rows: Vec<Row> = (0..30).map(|n| put(format!("{n:04}"), 1 + n, vec![n as u8; 50])).collect();
    let (summary, logs) = build_over_logs(&dir, &rows, &[]);
    let (table, _) = open_over_logs(&dir, &summary, &summary.bodies).unwrap();
    for (id, log) in LOGS.iter().zip(&logs) {
        let path = names::log(&dir.0, *id);
        let header = log.len() % 50;
        for at in 0..log.len() {
            let mut bent = log.clone();
            bent[at] ^= 1;
            std::fs::write(&path, &bent).unwrap();
            let found = damages(&dir, &summary, &summary.bodies);
            if at < header {
                assert_eq!(found, [], "that is no value");
                continue;
            }
            let value_at = (header + (at - header) / 50 * 50) as u64;
            assert_eq!(found.len(), 1);
            assert_eq!((&found[0].path, found[0].offset, found[0].bytes), (&path, value_at, 50));
            let value = &log[value_at as usize];
            let key = format!("{value:04}").into_bytes();
            match table.get(&key, key::hash(&key), MAX_SEQ) {
                Err(Error::Corruption { path: told, offset, .. }) => {
                    assert_eq!((told, offset), (path.clone(), value_at));
                }
                other => panic!("{other:?}"),
            }
        }
        for len in 0..log.len() {
            std::fs::write(&path, &log[..len]).unwrap();
            assert!(!damages(&dir, &summary, &summary.bodies).is_empty(), "cut to {len}");
        }
        std::fs::remove_file(&path).unwrap();
        let (table, _) = open_over_logs(&dir, &summary, &summary.bodies).unwrap();
        let key = format!("{:04}", log[header]).into_bytes();
        assert!(table.get(&key, key::hash(&key), MAX_SEQ).is_err());
        assert_eq!(damages(&dir, &summary, &summary.bodies).len(), 1, "once, and not for each value");
        std::fs::write(&path, log).unwrap();
    }
    assert_eq!(damages(&dir, &summary, &summary.bodies), []);
}

#[test]
fn the_manifest_and_the_table_name_the_same_bodies() {
    let dir = Dir::new("handles-named");
    let (summary, _) = build_over_logs(&dir, &random_rows(100, 7), &[]);
    let [first, second] = [summary.bodies[0], summary.bodies[1]];
    let longer = BodyUse { file: log_file(first.file.id, first.file.bytes + 1), ..first };
    for uses in [&[][..], &[first], &[second, first], &[longer, second], &[first, second, second]] {
        match open_over_logs(&dir, &summary, uses) {
            Err(Error::Corruption { path, what, .. }) => {
                assert!(path == dir.table() && what.contains("bodies"), "{what}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(damages(&dir, &summary, uses).len(), 1);
    }
    assert!(open_over_logs(&dir, &summary, &[first, second]).is_ok());
}
