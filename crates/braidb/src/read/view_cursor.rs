//! One cursor over a view: memory, the runs of L0, and for each level below the runs of one cell.
//!
//! All sources play in one tournament (`visible/merge.rs`). A level below L0 takes part with the runs of the cell to which the walk has come,
//! so the walk opens tables of the cells that it reaches, and no others. A *fence* takes part for the rest of the level. It is a source with
//! one entry, which stands on the boundary of the cell: forward before all entries of the next cell, backward behind all entries of the cell
//! before. When the fence comes first of all sources, the walk has left the cell. Then the runs of the next cell that has runs take the places
//! of the old ones. Only then the walk looks for this cell. Users of the cursor never see a fence.

use super::source::{Fence, Source};
use super::spare;
use crate::base::counters::LEVELS;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::memory::view::FamilyView;
use crate::version::shape::run_cursor::RunCursor;
use crate::version::{Cell, Level};
use crate::visible::merge::MergeCursor;
use crate::visible::{Cursor, EntryKind, LazyValue};
use std::cell::RefCell;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// Cursors whose parts a thread keeps: 2, for an iterator that walks from both ends.
const KEPT_CURSORS: usize = 2;
/// Closed cursors of runs among the parts of one cursor: 64. A view has rarely more than 20 runs to walk. Each takes 600 bytes, and keys of
/// at most 8 KiB, so a thread keeps at most 1.1 MiB.
const KEPT_RUNS: usize = 64;

/// Walks all entries of a view for a reader: blocks that the cursor reads stay in the cache.
pub struct ViewCursor {
    parts: Parts,
    is_backward: bool,
}

/// What a cursor is made of. A cursor that ends leaves its parts, empty, to the next cursor of the thread.
#[derive(Default)]
struct Parts {
    merge: MergeCursor<Source>,
    levels: Vec<Place>,
    /// Closed cursors, in the boxes that sources need.
    #[expect(clippy::vec_box, reason = "a source holds a box")]
    runs: Vec<Box<RunCursor>>,
    /// The sources of a cell on their way into `merge`.
    opened: Vec<Source>,
}

thread_local! {
    static PARTS: RefCell<Vec<Parts>> = const { RefCell::new(Vec::new()) };
}

/// Where the walk is in a level below L0.
struct Place {
    level: Arc<Level>,
    /// The cell whose runs are sources.
    cell: usize,
    /// The sources of the level: the runs of the cell, and the fence, if a cell follows.
    sources: Range<usize>,
}

/// Cursors over the runs of a cell, not positioned. Takes closed ones from `spare`.
#[expect(clippy::vec_box, reason = "a source holds a box")]
fn runs_of(cell: &Cell, spare: &mut Vec<Box<RunCursor>>) -> impl Iterator<Item = Source> {
    cell.runs.iter().map(|run| {
        let mut cursor = spare.pop().unwrap_or_else(|| Box::new(RunCursor::closed(true)));
        cursor.set(run.slices.clone());
        Source::Run(cursor)
    })
}

impl Parts {
    /// Replaces some sources by those of `opened`.
    fn replace_sources(&mut self, range: Range<usize>) {
        let (runs, opened) = (&mut self.runs, &mut self.opened);
        self.merge.replace_sources(range, opened.drain(..), |source| {
            if let Source::Run(mut cursor) = source {
                cursor.close(spare::MOST_KEPT_BYTES);
                runs.push(cursor);
            }
        });
    }

    /// Gives up all files, tables and memory.
    fn clear(&mut self) {
        // A panic may have left sources here.
        self.opened.clear();
        self.replace_sources(0..self.merge.sources().len());
        self.levels.clear();
        self.merge.free_large_keys(spare::MOST_KEPT_BYTES);
        self.runs.truncate(KEPT_RUNS);
        self.runs.shrink_to(KEPT_RUNS);
    }
}

impl Place {
    /// The next cell with runs in the direction of the walk.
    fn next_cell(&self, is_backward: bool) -> Option<usize> {
        let has_runs = |at: &usize| !self.level.cells[*at].runs.is_empty();
        match is_backward {
            true => (0..self.cell).rev().find(has_runs),
            false => (self.cell + 1..self.level.cells.len()).find(has_runs),
        }
    }

    /// The boundary of the cell in the direction of the walk, if a cell follows.
    fn fence(&self, is_backward: bool) -> Option<Source> {
        let boundary = if is_backward { self.cell } else { self.cell + 1 };
        let boundary = self.level.cells.get(boundary).filter(|_| boundary > 0);
        boundary.map(|cell| Source::Fence(Fence(cell.clone())))
    }
}

impl ViewCursor {
    pub fn new(view: &FamilyView) -> ViewCursor {
        let mut parts = spare::take(&PARTS);
        parts.opened.push(Source::Active(view.memory.active().cursor()));
        parts.opened.extend(view.memory.immutable().map(|segment| Source::Immutable(segment.cursor())));
        for cell in view.version.level(0).cells.iter() {
            parts.opened.extend(runs_of(cell, &mut parts.runs));
        }
        let levels = (1..LEVELS).map(|number| view.version.shared_level(number));
        ViewCursor::over(parts, levels)
    }

    /// A cursor over the sources that are opened and the levels.
    fn over<'a>(mut parts: Parts, levels: impl Iterator<Item = &'a Arc<Level>>) -> ViewCursor {
        let end = parts.opened.len()..parts.opened.len();
        let levels = levels.filter(|level| !level.is_empty());
        parts.levels.extend(levels.map(|level| Place {
            level: level.clone(),
            cell: 0,
            sources: end.clone(),
        }));
        parts.replace_sources(0..0);
        ViewCursor { parts, is_backward: false }
    }

    /// Enters in each level the cell of `key`, or the first cell in the direction of the walk.
    fn enter(&mut self, is_backward: bool, key: Option<&[u8]>) {
        self.is_backward = is_backward;
        for at in 0..self.parts.levels.len() {
            let place = &mut self.parts.levels[at];
            let end = if is_backward { place.level.cells.len() - 1 } else { 0 };
            place.cell = key.map_or(end, |key| place.level.cell_index(key));
            self.open_cell(at);
        }
    }

    /// Positions all sources, and leaves cells without an entry in the direction of the walk.
    fn position(&mut self, position: impl FnMut(&mut Source) -> Result<()>) -> Result<()> {
        self.parts.merge.restart(self.is_backward, position)?;
        self.cross_fences()
    }

    /// Replaces the sources of level `at` by those of its cell.
    fn open_cell(&mut self, at: usize) {
        let Parts { levels, runs, opened, .. } = &mut self.parts;
        let place = &levels[at];
        opened.extend(runs_of(&place.level.cells[place.cell], runs));
        opened.extend(place.fence(self.is_backward));
        let (old, end) = (place.sources.clone(), place.sources.start + opened.len());
        self.parts.replace_sources(old.clone());
        self.parts.levels[at].sources.end = end;
        for other in &mut self.parts.levels[at + 1..] {
            let len = other.sources.len();
            other.sources = other.sources.start + end - old.end..other.sources.start + end - old.end + len;
        }
    }

    /// Moves levels to their next cells as long as a fence comes first.
    #[inline]
    fn cross_fences(&mut self) -> Result<()> {
        while self.parts.merge.valid() && matches!(self.parts.merge.winner(), Source::Fence(_)) {
            self.cross()?;
        }
        Ok(())
    }

    /// Moves the level whose fence comes first to its next cell.
    #[cold]
    fn cross(&mut self) -> Result<()> {
        let fence = self.parts.merge.winner_index();
        let at = self
            .parts
            .levels
            .iter()
            .position(|place| place.sources.end == fence + 1 && !place.sources.is_empty());
        let at = at.expect("a fence is the last source of its level");
        let place = &mut self.parts.levels[at];
        let end = if self.is_backward { 0 } else { place.level.cells.len() - 1 };
        // If no cell with runs follows, the walk goes to the end of the level, where no fence stands.
        place.cell = place.next_cell(self.is_backward).unwrap_or(end);
        self.open_cell(at);
        let is_backward = self.is_backward;
        for source in self.parts.merge.sources_mut(self.parts.levels[at].sources.clone()) {
            if is_backward { source.seek_to_last()? } else { source.seek_to_first()? }
        }
        self.parts.merge.play(is_backward);
        Ok(())
    }

    /// Whether the current entry lies in a table, instead of memory.
    #[inline(always)]
    pub fn is_in_table(&self) -> bool {
        self.parts.merge.winner().is_in_table()
    }

    pub fn keep(&self) {
        self.parts.merge.keep();
    }

    pub fn seek_to_first(&mut self) -> Result<()> {
        self.enter(false, None);
        self.position(|source| source.seek_to_first())
    }

    pub fn seek_to_last(&mut self) -> Result<()> {
        self.enter(true, None);
        self.position(|source| source.seek_to_last())
    }

    /// Carries out each part of the seek in all tables before the next part, so the processor waits for several tables at once.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.enter(false, Some(key));
        let sources = self.parts.merge.sources_mut(0..self.parts.merge.sources().len());
        sources.iter_mut().try_for_each(|source| source.open_at(key))?;
        sources.iter_mut().for_each(|source| source.aim(key));
        sources.iter_mut().try_for_each(Source::load)?;
        self.position(|source| source.land(key))
    }

    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.enter(true, Some(key));
        self.position(|source| source.seek_before(key))
    }

    #[inline]
    pub fn next(&mut self) -> Result<()> {
        self.parts.merge.next()?;
        self.cross_fences()
    }

    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.parts.merge.prev()?;
        self.cross_fences()
    }

    #[inline]
    pub fn valid(&self) -> bool {
        self.parts.merge.valid()
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        self.parts.merge.key()
    }

    /// The key of the entry from which the last movement came, also if the movement failed or came to the end.
    #[inline]
    pub fn key_before(&self) -> &[u8] {
        self.parts.merge.key_before()
    }

    /// Whether the entry from which the last movement came has the key of the current entry.
    #[inline]
    pub fn continues_key(&self) -> bool {
        self.parts.merge.continues_key()
    }

    // A scan contains its step twice, with all methods of its sources. The compiler would inline none of these methods by itself.
    #[inline(always)]
    pub fn seq(&self) -> SeqNo {
        self.parts.merge.seq()
    }

    #[inline(always)]
    pub fn kind(&self) -> EntryKind {
        self.parts.merge.kind()
    }

    /// [`ViewCursor::seq`] and [`ViewCursor::kind`] for one look at the source.
    #[inline(always)]
    pub fn version(&self) -> (SeqNo, EntryKind) {
        self.parts.merge.winner().version()
    }

    #[inline(always)]
    pub fn lazy_value(&self) -> LazyValue {
        self.parts.merge.lazy_value()
    }

    /// Whether this version is known to be the last one of its key in the direction of the walk.
    #[inline]
    pub fn is_last_of_key(&self) -> bool {
        self.parts.merge.is_last_of_key()
    }

    /// Whether the value of the current entry lies in a value file.
    #[inline]
    pub fn is_in_value_file(&self) -> bool {
        self.parts.merge.handle().is_some()
    }

    /// Whether the value of the current entry lies beside its key, so that [`ViewCursor::value`] needs no [`ViewCursor::fetch`].
    #[inline(always)]
    pub fn has_value_beside(&self) -> bool {
        self.parts.merge.has_value_beside()
    }

    /// Reads the value of the current entry, if it lies in another file than its key.
    pub fn fetch(&mut self) -> Result<()> {
        self.parts.merge.fetch()
    }

    /// The value of the current entry, after [`ViewCursor::fetch`].
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.parts.merge.value()
    }
}

impl Drop for ViewCursor {
    fn drop(&mut self) {
        let mut parts = mem::take(&mut self.parts);
        parts.clear();
        spare::leave(&PARTS, parts, KEPT_CURSORS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FileId, SeqNo, TierId};
    use crate::base::key::{self, KeyRange};
    use crate::base::names;
    use crate::base::part::Part;
    use crate::cache::BlockCache;
    use crate::table::{TableBuilder, TableOptions};
    use crate::version::table_file::{TableFile, TableStore};
    use crate::version::usage::rent::Paid;
    use crate::version::{RunId, Slice};
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
            self.tables.iter().filter(|table| table.opened().is_some()).count()
        }

        /// Damages the first block of a table that is not open.
        fn damage(&self, table: &TableFile) {
            assert!(table.opened().is_none());
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
        let lows = std::iter::once(Vec::new()).chain(guards.iter().cloned());
        let cells: Vec<_> = lows.map(|low| Arc::new(Cell::new(low, Vec::new()))).collect();
        let mut level = Level { cells: cells.into() };
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

    /// A cursor over the level alone.
    fn cursor(level: Arc<Level>) -> ViewCursor {
        ViewCursor::over(Parts::default(), [level].iter())
    }

    fn row(cursor: &ViewCursor) -> Row {
        assert_eq!(cursor.lazy_value().get().unwrap(), value(cursor.kind(), cursor.key()));
        (cursor.key().to_vec(), cursor.seq())
    }

    /// The remaining rows of a walk, at most `most`.
    fn walk(cursor: &mut ViewCursor, backward: bool, most: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while cursor.valid() && rows.len() < most {
            let ((key, seq), is_last) = (row(cursor), cursor.is_last_of_key());
            let moved = if backward { cursor.prev() } else { cursor.next() };
            assert_eq!(cursor.key_before(), key);
            moved?;
            if cursor.valid() {
                assert_eq!(cursor.continues_key(), cursor.key() == key);
                assert!(!is_last || !cursor.continues_key());
            }
            rows.push((key, seq));
        }
        Ok(rows)
    }

    #[test]
    fn levels_read_like_one_sorted_list() {
        let mut state = 3u64;
        let mut random = |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (key::hash(&state.to_le_bytes()) % below) as usize
        };
        for round in 0..160 {
            let mut disk = Disk::new();
            let (mut levels, mut rows) = (Vec::new(), Vec::new());
            for depth in 0..1 + round % 3 {
                // Levels share guards, and keys lie on guards.
                let mut guards: Vec<_> =
                    (0..random(12)).map(|_| format!("{:02}", random(20) * 5).into_bytes()).collect();
                guards.sort();
                guards.dedup();
                // Each merge writes into a part of the level, so some cells have more runs than others, and some have none.
                let mut runs: Vec<Vec<Row>> = (0..random(6)).map(|_| Vec::new()).collect();
                for (age, run) in runs.iter_mut().enumerate() {
                    let (from, width) = (random(90), random(90) + 1);
                    for n in 0..random(80) + 1 {
                        let key = format!("{:0len$}", from + random(width as u64), len = 2 + random(2));
                        run.push((key.into_bytes(), ((3 - depth) * 100 - age * 10 + n % 10) as SeqNo));
                    }
                    sort(run);
                }
                levels.push(level(&mut disk, &guards, &runs, 1 + random(40)));
                rows.extend(runs.concat());
            }
            sort(&mut rows);
            let reversed: Vec<Row> = rows.iter().rev().cloned().collect();

            let mut cursor = ViewCursor::over(Parts::default(), levels.iter());
            assert!(!cursor.valid());
            cursor.seek_to_first().unwrap();
            assert_eq!(walk(&mut cursor, false, usize::MAX).unwrap(), rows, "round {round}");
            cursor.seek_to_last().unwrap();
            assert_eq!(walk(&mut cursor, true, usize::MAX).unwrap(), reversed, "round {round}");
            let keys = rows.iter().step_by(7).map(|row| row.0.clone());
            let others = (0..10).map(|_| format!("{}", random(1000)).into_bytes());
            let guards = (0..100).step_by(5).map(|n| format!("{n:02}").into_bytes());
            for probe in keys.chain(others).chain(guards).chain([Vec::new()]) {
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
        let mut cursor = cursor(ten_cells(&mut disk));
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
        let mut cursor = cursor(level);
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

    #[test]
    fn a_cursor_that_ended_holds_nothing_whatever_ended_it() {
        let mut disk = Disk::new();
        let level = ten_cells(&mut disk);
        disk.damage(&level.cell(b"70").runs[1].slices[0].table);
        let references = || {
            let cells = level.cells.iter().map(Arc::strong_count);
            let runs =
                level.cells.iter().flat_map(|cell| &cell.runs).map(|run| Arc::strong_count(&run.slices));
            (Arc::strong_count(&level), cells.collect::<Vec<_>>(), runs.collect::<Vec<_>>())
        };
        let before = references();
        for key in ["00", "35", "75"] {
            let mut cursor = ViewCursor::over(Parts::default(), [&level].into_iter());
            assert_eq!(cursor.seek(key.as_bytes()).is_ok(), key != "75");
            drop(cursor);
            assert_eq!(references(), before, "after a seek to {key}");
        }
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut cursor = ViewCursor::over(Parts::default(), [&level].into_iter());
            cursor.seek(b"35").unwrap();
            cursor.parts.opened.push(Source::Fence(Fence(level.cells[1].clone())));
            panic!("in the middle of a step");
        }));
        assert!(panicked.is_err());
        assert_eq!(references(), before);
        assert!(PARTS.with(|parts| parts.borrow().iter().all(|parts| parts.opened.is_empty())));
    }
}
