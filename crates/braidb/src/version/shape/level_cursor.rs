//! A cursor over a level: its cells in key order; in each cell, the merge of its runs. Only the current cell has cursors.

use super::Level;
use super::concat::{ConcatCursor, Parts};
use super::run_cursor::RunCursor;
use crate::base::error::Result;
use crate::visible::Cursor;
use crate::visible::merge::MergeCursor;
use std::sync::Arc;

/// Walks all entries of a level for a reader: blocks that the cursor reads stay in the cache.
pub type LevelCursor = ConcatCursor<CellsOfLevel>;

/// The cells of a level.
pub struct CellsOfLevel(Arc<Level>);

impl LevelCursor {
    pub fn new(level: Arc<Level>) -> LevelCursor {
        LevelCursor::of(CellsOfLevel(level))
    }
}

impl Parts for CellsOfLevel {
    type Cursor = Box<dyn Cursor>;

    fn len(&self) -> usize {
        self.0.cells.len()
    }

    fn open(&self, at: usize) -> Result<Option<Box<dyn Cursor>>> {
        let runs = self.0.cells[at].runs.iter();
        let mut runs = runs.map(|run| RunCursor::new(run.slices.clone(), true));
        Ok(match runs.len() {
            0 => None,
            1 => runs.next().map(|run| Box::new(run) as Box<dyn Cursor>),
            _ => Some(Box::new(MergeCursor::new(runs.collect()))),
        })
    }

    fn before(&self, key: &[u8]) -> usize {
        self.0.cell_index(key)
    }

    fn with_key_before(&self, key: &[u8]) -> usize {
        self.0.cell_index(key) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, RunId, Slice};
    use super::*;
    use crate::base::ids::{FileId, SeqNo, TierId};
    use crate::base::key::{self, KeyRange};
    use crate::base::names;
    use crate::base::part::Part;
    use crate::cache::BlockCache;
    use crate::table::{TableBuilder, TableOptions};
    use crate::version::table_file::{TableFile, TableStore};
    use crate::version::usage::rent::Paid;
    use crate::visible::EntryKind;
    use braidb_storage::FileSystem;
    use braidb_storage::sim::SimFs;
    use std::path::Path;

    type Row = (Vec<u8>, SeqNo);

    fn sort(rows: &mut Vec<Row>) {
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        rows.dedup();
    }

    /// The tables of a level.
    struct Disk {
        fs: Arc<SimFs>,
        store: Arc<TableStore>,
        tables: Vec<Arc<TableFile>>,
    }

    impl Disk {
        fn new() -> Disk {
            let (fs, cache) = (Arc::new(SimFs::new()), Arc::new(BlockCache::new(1 << 20)));
            fs.create_dir_all(Path::new("db")).unwrap();
            let store = TableStore::new(fs.clone(), Path::new("db"), cache, Arc::default(), 16);
            Disk { fs, store, tables: Vec::new() }
        }

        fn table(&mut self, rows: &[Row]) -> Arc<TableFile> {
            let id = FileId(self.tables.len() as u64 + 1);
            let path = names::table(Path::new("db"), id);
            let options = TableOptions { block_bytes: 100, filter_bits_per_key: 10, has_sample: false };
            let mut builder = TableBuilder::create(self.fs.as_ref(), &path, id, options).unwrap();
            for (key, seq) in rows {
                let kind = if seq % 5 == 0 { EntryKind::Delete } else { EntryKind::Put };
                builder.add(key, *seq, kind, value(kind, key)).unwrap();
            }
            let written = builder.finish().unwrap();
            let table = TableFile::new(id, written.bytes, written.checksum, TierId::FAST, self.store.clone());
            self.tables.push(Arc::new(table));
            self.tables[self.tables.len() - 1].clone()
        }

        fn open_tables(&self) -> usize {
            self.tables.iter().filter(|table| table.memory_bytes() > 0).count()
        }

        /// Damages the first block of a table that is not open.
        fn damage(&self, table: &TableFile) {
            assert_eq!(table.memory_bytes(), 0);
            self.fs.flip_bit(&names::table(Path::new("db"), table.id), 3 * 8).unwrap();
        }
    }

    fn value(kind: EntryKind, key: &[u8]) -> &[u8] {
        if kind == EntryKind::Put { key } else { b"" }
    }

    /// The part of a table that holds `rows`.
    fn slice(table: &Arc<TableFile>, rows: &[Row]) -> Arc<Slice> {
        let seqs = rows.iter().map(|row| row.1);
        let part = Part {
            range: KeyRange::new(rows[0].0.clone(), rows[rows.len() - 1].0.clone()),
            seqs: (seqs.clone().min().unwrap(), seqs.max().unwrap()),
            entries: rows.len() as u64,
            tombstones: 0,
            keys: 1,
            bytes: 1,
            values: Vec::new(),
        };
        Arc::new(Slice::new(table.clone(), part, Paid::default(), 0))
    }

    /// A level with `guards`. Each element of `runs` is the output of one merge, newest first, in tables of
    /// `table_rows` keys. The output becomes one run in each cell that it reaches.
    fn level(disk: &mut Disk, guards: &[Vec<u8>], runs: &[Vec<Row>], table_rows: usize) -> Arc<Level> {
        let mut level = Level::default();
        level.cells.extend(guards.iter().map(|guard| Arc::new(Cell::new(guard.clone(), Vec::new()))));
        for (age, rows) in (0u64..).zip(runs) {
            let keys: Vec<&[Row]> = rows.chunk_by(|a, b| a.0 == b.0).collect();
            for rows in keys.chunks(table_rows) {
                let rows = rows.concat();
                let table = disk.table(&rows);
                let cell =
                    |row: &Row| guards.iter().rfind(|guard| **guard <= row.0).cloned().unwrap_or_default();
                for part in rows.chunk_by(|a, b| cell(a) == cell(b)) {
                    let cell = cell(&part[0]);
                    level.insert(&RunId { level: 1, cell, epoch: 100 - age }, slice(&table, part)).unwrap();
                }
            }
        }
        Arc::new(level)
    }

    fn row(cursor: &LevelCursor) -> Row {
        assert_eq!(cursor.value(), value(cursor.kind(), cursor.key()));
        assert_eq!(cursor.pin_value(), cursor.value());
        (cursor.key().to_vec(), cursor.seq())
    }

    /// The remaining rows of a walk, at most `most`.
    fn walk(cursor: &mut LevelCursor, backward: bool, most: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while cursor.valid() && rows.len() < most {
            rows.push(row(cursor));
            if backward { cursor.prev()? } else { cursor.next()? }
        }
        Ok(rows)
    }

    #[test]
    fn a_level_reads_like_one_sorted_list() {
        let mut state = 3u64;
        let mut random = |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (key::hash(&state.to_le_bytes()) % below) as usize
        };
        for round in 0..120 {
            let mut disk = Disk::new();
            let mut guards: Vec<_> =
                (0..random(12)).map(|_| format!("{:02}", random(100)).into_bytes()).collect();
            guards.sort();
            guards.dedup();
            // Each merge writes into a part of the level, so some cells have more runs than others, and some have none.
            let mut runs: Vec<Vec<Row>> = (0..random(6)).map(|_| Vec::new()).collect();
            for (age, run) in runs.iter_mut().enumerate() {
                let (from, width) = (random(90), random(90) + 1);
                for n in 0..random(80) + 1 {
                    let key = format!("{:0len$}", from + random(width as u64), len = 2 + random(2));
                    run.push((key.into_bytes(), (100 - age * 10 + n % 10) as SeqNo));
                }
                sort(run);
            }
            let level = level(&mut disk, &guards, &runs, 1 + random(40));
            let mut rows = runs.concat();
            sort(&mut rows);
            let reversed: Vec<Row> = rows.iter().rev().cloned().collect();

            let mut cursor = LevelCursor::new(level);
            assert!(!cursor.valid());
            cursor.seek_to_first().unwrap();
            assert_eq!(walk(&mut cursor, false, usize::MAX).unwrap(), rows, "round {round}");
            cursor.seek_to_last().unwrap();
            assert_eq!(walk(&mut cursor, true, usize::MAX).unwrap(), reversed, "round {round}");
            let keys = rows.iter().step_by(7).map(|row| row.0.clone());
            let others = (0..10).map(|_| format!("{}", random(1000)).into_bytes());
            for probe in keys.chain(others).chain(guards.clone()).chain([Vec::new()]) {
                let before = rows.partition_point(|row| row.0 < probe);
                let (ahead, behind) = (&rows[before..], &reversed[rows.len() - before..]);
                cursor.seek(&probe).unwrap();
                assert_eq!(walk(&mut cursor, false, 20).unwrap(), ahead[..ahead.len().min(20)]);
                cursor.seek_before(&probe).unwrap();
                assert_eq!(walk(&mut cursor, true, 20).unwrap(), behind[..behind.len().min(20)]);
            }
        }
    }

    /// Cells "", "10" … "90" of ten keys, each with two runs of one table each; "40" and "50" are empty.
    fn ten_cells(disk: &mut Disk) -> Arc<Level> {
        let guards: Vec<Vec<u8>> = (1..10).map(|n| format!("{n}0").into_bytes()).collect();
        let cells = (0..100u32).filter(|n| !(40..60).contains(n));
        let run = |age: u32| {
            cells.clone().map(|n| (format!("{n:02}").into_bytes(), SeqNo::from(9 - age))).collect()
        };
        level(disk, &guards, &[run(0), run(1)], 10)
    }

    #[test]
    fn tables_of_cells_that_a_walk_does_not_reach_stay_closed() {
        let mut disk = Disk::new();
        let mut cursor = LevelCursor::new(ten_cells(&mut disk));
        assert_eq!(disk.open_tables(), 0);
        cursor.seek(b"35").unwrap();
        assert_eq!(walk(&mut cursor, false, 9).unwrap().len(), 9);
        assert_eq!(disk.open_tables(), 2);
        assert_eq!(walk(&mut cursor, false, 1).unwrap(), [(b"39".to_vec(), 8)]);
        assert_eq!((row(&cursor).0, disk.open_tables()), (b"60".to_vec(), 4));
        cursor.seek_before(b"25").unwrap();
        assert_eq!((row(&cursor).0, disk.open_tables()), (b"24".to_vec(), 6));
    }

    #[test]
    fn an_error_ends_the_walk_and_another_seek_begins_anew() {
        let mut disk = Disk::new();
        let level = ten_cells(&mut disk);
        disk.damage(&level.cell(b"70").runs[1].slices[0].table);
        let mut cursor = LevelCursor::new(level);
        for (backward, before) in [(false, 100), (true, 40)] {
            let start = if backward { cursor.seek_to_last() } else { cursor.seek_to_first() };
            start.unwrap();
            assert_eq!(walk(&mut cursor, backward, before - 1).unwrap().len(), before - 1);
            assert!(walk(&mut cursor, backward, 1).unwrap_err().is_corruption());
            assert!(!cursor.valid());
            assert!(cursor.seek(b"70").is_err() && !cursor.valid());
            assert!(cursor.seek_before(b"75").is_err() && !cursor.valid());
        }
        cursor.seek(b"95").unwrap();
        assert_eq!(walk(&mut cursor, false, usize::MAX).unwrap().len(), 10);
    }
}
