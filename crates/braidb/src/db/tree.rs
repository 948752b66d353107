//! The shape of each column family's tree, which [`Db::tree`](crate::Db::tree) returns for people to look at.
//!
//! The types copy what a version knows and hold no file and no view. A tree that a caller keeps therefore keeps no file on disk.

use crate::version::{Level, Run, Slice, Version};

/// The tree of one column family: levels of cells, cells of runs, runs of slices.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-ftree-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let tree = &db.tree()[0];
/// assert_eq!((tree.name.as_str(), tree.levels.len()), ("default", 7));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyTree {
    /// The family's name.
    pub name: String,
    /// The levels of the family, L0 first, empty ones included.
    pub levels: Vec<LevelTree>,
}

/// One level of a column family's tree.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-ltree-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let l0 = &db.tree()[0].levels[0];
/// assert_eq!((l0.level, l0.cells.len()), (0, 1)); // L0 is one cell always
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelTree {
    /// The number of the level; 0 for L0.
    pub level: usize,
    /// The cells in key order; one more than the level has guards.
    pub cells: Vec<CellTree>,
}

/// A cell: the keys from one guard of a level up to the next.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-ctree-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let sentinel = &db.tree()[0].levels[1].cells[0];
/// assert!(sentinel.guard.is_empty() && sentinel.runs.is_empty());
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellTree {
    /// The lowest key that belongs to the cell; empty for the first cell of a level, the sentinel.
    pub guard: Vec<u8>,
    /// The runs, newest first.
    pub runs: Vec<RunTree>,
}

/// A run: slices in key order that do not overlap, all equally old.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-rtree-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for value in ["older", "newer"] {
///     db.put("k", value)?;
///     db.flush()?;
/// }
/// for cell in db.tree()[0].levels.iter().flat_map(|level| &level.cells) {
///     assert!(cell.runs.is_sorted_by(|newer, older| newer.epoch > older.epoch));
/// }
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunTree {
    /// The age of the run: of two runs of a cell, the run with the larger epoch is newer. All runs that one merge wrote have one epoch.
    pub epoch: u64,
    /// The slices, in key order.
    pub slices: Vec<SliceTree>,
}

/// A slice: a range of keys of one table. Many slices may share a table.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-stree-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("a", "1")?;
/// db.put("b", "2")?;
/// db.flush()?;
/// let tree = &db.tree()[0];
/// let mut runs = tree.levels.iter().flat_map(|level| &level.cells).flat_map(|cell| &cell.runs);
/// let slice = &runs.next().expect("one table was written").slices[0];
/// assert_eq!((&slice.low[..], &slice.high[..]), (&b"a"[..], &b"b"[..]));
/// assert_eq!((slice.entries, slice.tombstones), (2, 0));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SliceTree {
    /// The number of the table, which is in the name of its file.
    pub table: u64,
    /// The lowest key of the slice.
    pub low: Vec<u8>,
    /// The highest key of the slice.
    pub high: Vec<u8>,
    /// The slice's share of the table, in bytes. Bytes and counts are estimates for a slice that was cut off a table without being
    /// read.
    pub bytes: u64,
    /// Entries, old versions and tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Estimated nanoseconds that gets and scans lost on this slice, as far as an older one lies under it. Counted from the opening of the
    /// database or the writing of the slice, whichever came later. A merge that is started because of this time sets it to 0.
    pub paid_ns: u64,
    /// Estimated cost of merging the slice, to be compared with `paid_ns`: a third of the nanoseconds that the merge works.
    pub price_ns: u64,
    /// The tier of the table: 0 is the database's own directory ([`Stats::tiers`](crate::stats::Stats::tiers)).
    pub tier: u8,
    /// The part of `bytes` that lies on slow tiers, in the table and in value files together.
    pub slow_bytes: u64,
    /// How often readers came to the slice lately, where older visits count less; 0 without slow tiers.
    pub heat: u64,
    /// The value files that entries of the slice lead into, oldest first.
    pub extents: Vec<Extent>,
}

/// The values of a slice that lie in one value file.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-extent-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = braidb::Options::new().tuning(|tuning| tuning.separation_threshold(Some(1024))).open(&dir)?;
/// db.put("key", [7; 5000])?;
/// db.flush()?;
/// let tree = &db.tree()[0];
/// let mut runs = tree.levels.iter().flat_map(|level| &level.cells).flat_map(|cell| &cell.runs);
/// let extent = &runs.next().expect("one table was written").slices[0].extents[0];
/// assert_eq!((extent.value_file, extent.bytes), (db.stats().values[0].id, 5020));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// The number of the value file, which is in its name.
    pub value_file: u64,
    /// Bytes of the values' records, exact also for a slice that was cut. A record has 20 bytes beside its value.
    pub bytes: u64,
}

impl FamilyTree {
    pub(crate) fn of(name: String, version: &Version) -> FamilyTree {
        FamilyTree { name, levels: version.levels().enumerate().map(LevelTree::of).collect() }
    }
}

impl LevelTree {
    fn of((number, level): (usize, &Level)) -> LevelTree {
        let cells = level.cells.iter().map(|cell| CellTree {
            guard: cell.low.clone(),
            runs: cell.runs.iter().map(RunTree::of).collect(),
        });
        LevelTree { level: number, cells: cells.collect() }
    }
}

impl RunTree {
    fn of(run: &Run) -> RunTree {
        RunTree { epoch: run.epoch, slices: run.slices.iter().map(|slice| SliceTree::of(slice)).collect() }
    }

    /// Bytes of the run's slices.
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(|slice| slice.bytes).sum()
    }
}

impl CellTree {
    /// Bytes of the slices of the cell's runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(RunTree::bytes).sum()
    }
}

impl SliceTree {
    fn of(slice: &Slice) -> SliceTree {
        let part = slice.part();
        SliceTree {
            table: slice.table.id.0,
            low: part.range.low.clone(),
            high: part.range.high.clone(),
            bytes: part.bytes,
            entries: part.entries,
            tombstones: part.tombstones,
            paid_ns: slice.paid().ns(),
            price_ns: slice.price_ns(),
            tier: slice.table.tier.0,
            slow_bytes: slice.slow_bytes(),
            heat: slice.heat(),
            extents: part.values.iter().map(|&(id, bytes)| Extent { value_file: id.0, bytes }).collect(),
        }
    }
}
