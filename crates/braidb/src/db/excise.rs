//! Whole ranges at once: taking all their entries away, and compacting them.

use super::bounds::IntoBounds;
use super::database::Db;
use super::family::ColumnFamily;
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::key::Span;

impl Db {
    /// Takes all entries of the default family in `ranges` away that were written before this call, and gives their space back. The ranges
    /// vanish together, on stable storage when the call returns. What lies in them is neither read nor written: tables within a range are
    /// deleted, and those at its ends are cut. So an excise takes about as long as a flush, however much it takes away.
    ///
    /// Values of 1 KiB and more lie in files of their own. The call punches holes into files of which an eighth or more is garbage, which
    /// takes about a second a GB. It waits up to 0.1 s for readers and merges that hold such a file. Files that they hold for longer, and
    /// files of a checkpoint, give their space back when merges have copied the rest.
    ///
    /// Writes of other threads go on, and what they put into the ranges meanwhile stays. A reader may see it beside entries that are about to
    /// go. Iterators that are open show what they showed.
    /// Snapshots from before the excise fail with [`Error::Excised`](crate::Error::Excised) where they touch a range, and read other keys as
    /// before. Transactions that read in a range before conflict.
    ///
    /// The call waits for merges and earlier excises that work in the ranges. For single keys, [`Db::delete`] is the better call: an excise
    /// flushes the family.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-excise-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// for day in ["monday", "tuesday", "wednesday"] {
    ///     for number in 0..100u8 {
    ///         db.put([day.as_bytes(), &[number]].concat(), "event")?;
    ///     }
    /// }
    /// db.excise(["monday".."monday~", "wednesday".."wednesday~"])?;
    /// assert_eq!(db.iter().count(), 100);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::flush`]. [`Corruption`](crate::Error::Corruption) if a table that reaches over an end of a range cannot be cut. After an
    /// error nothing was taken away, unless the database is poisoned ([`Poisoned`](crate::Error::Poisoned)).
    pub fn excise<R: IntoBounds>(&self, ranges: impl IntoIterator<Item = R>) -> Result<()> {
        excise(self, FamilyId::DEFAULT, ranges)
    }

    /// As [`Db::compact`], of the parts of the default family that meet `range`: whole cells of the tree, which are about as large as a table.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-compactr-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.delete("k")?;
    /// db.compact_range("a".."z")?;
    /// assert_eq!(db.stats().families[0].levels.iter().map(|level| level.tables).sum::<u64>(), 0);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::compact`].
    pub fn compact_range(&self, range: impl IntoBounds) -> Result<()> {
        self.compact_range_with_progress(range, |_| {})
    }

    /// As [`Db::compact_range`], with the `progress` of [`Db::compact_with_progress`]: bytes outside of the range are counted too.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-compact-range-p-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// let mut left = Vec::new();
    /// db.compact_range_with_progress("a".."z", |left_bytes| left.push(left_bytes))?;
    /// assert_eq!(left.last(), Some(&0));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::compact`].
    pub fn compact_range_with_progress(
        &self,
        range: impl IntoBounds,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        compact_range(self, FamilyId::DEFAULT, range, &mut progress)
    }
}

impl ColumnFamily {
    /// As [`Db::excise`].
    pub fn excise<R: IntoBounds>(&self, ranges: impl IntoIterator<Item = R>) -> Result<()> {
        excise(self.db(), self.id(), ranges)
    }

    /// As [`Db::compact_range`].
    pub fn compact_range(&self, range: impl IntoBounds) -> Result<()> {
        self.compact_range_with_progress(range, |_| {})
    }

    /// As [`Db::compact_range_with_progress`].
    pub fn compact_range_with_progress(
        &self,
        range: impl IntoBounds,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        compact_range(self.db(), self.id(), range, &mut progress)
    }
}

fn excise<R: IntoBounds>(db: &Db, family: FamilyId, ranges: impl IntoIterator<Item = R>) -> Result<()> {
    let spans = ranges.into_iter().filter_map(span_of).collect();
    db.engine()?.excise(family, spans)
}

fn compact_range(
    db: &Db,
    family: FamilyId,
    range: impl IntoBounds,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let engine = db.engine()?;
    span_of(range).map_or(Ok(()), |span| engine.compact_range(family, span, progress))
}

/// The keys of a range; `None` if there are none.
fn span_of(range: impl IntoBounds) -> Option<Span> {
    let (low, high) = range.into_bounds();
    Span::between((low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice)))
}
