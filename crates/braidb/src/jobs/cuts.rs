//! Cuts of slices, made before the catalog is locked.
//!
//! To cut a slice, a job reads the keys on both sides of the cut: at most two blocks, or all blocks of one side where values lie in value files.
//! An edit is made under the catalog. A read there would hold up flushes, merges, and puts at a hard limit. So a job makes the edit
//! twice. The first edit is made from a version, without the catalog, and only its cuts are kept. The second one is made under the catalog,
//! where the kept cuts cost no read.
//!
//! A kept cut stays right when the version changes: it follows from a table, a part of the table and a key, and tables never change. An edit
//! that needs another cut by then reads under the catalog. This happens where a guard, the edit of another excise, or a move to the cell that is
//! split came in between. The edit of a merge also reads under the catalog where a guard came since the merge began: its output must be cut there.

use super::Jobs;
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId};
use crate::base::part::Part;
use crate::plan::Ticket;
use crate::plan::tree::edits::Moment;
use crate::version::Edit;
use crate::version::shape::cut::cut_part;
use crate::version::table_file::TableFile;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

/// What lies before a cut, and what lies behind it.
type Sides = (Option<Part>, Option<Part>);
/// A table, the lowest key of one of its parts, and the key of a cut.
type Place = (FileId, Vec<u8>, Vec<u8>);

/// Cuts that a job has made.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// At each place the part that was cut there, and its sides.
    known: RefCell<BTreeMap<Place, (Part, Sides)>>,
}

impl Cuts {
    /// Cuts a part of a table in front of a key. Reads nothing if the cut is known, or if the key lies outside the part.
    pub fn cut(&self, table: &TableFile, part: &Part, key: &[u8]) -> Result<Sides> {
        if key <= part.range.low.as_slice() || key > part.range.high.as_slice() {
            return cut_part(table, part, key);
        }
        let place = (table.id, part.range.low.clone(), key.to_vec());
        if let Some((known, sides)) = self.known.borrow().get(&place)
            && known == part
        {
            return Ok(sides.clone());
        }
        let sides = cut_part(table, part, key)?;
        self.known.borrow_mut().insert(place, (part.clone(), sides.clone()));
        Ok(sides)
    }
}

impl Jobs {
    /// The cuts of the edit that `make` makes of the current version. The caller does not hold the catalog, and claims what the edit changes.
    pub(super) fn cuts_of(
        &self,
        family: FamilyId,
        ticket: &Ticket,
        make: impl FnOnce(&Moment<'_>) -> Result<Edit>,
    ) -> Result<Cuts> {
        let catalog = self.catalog.lock();
        let (version, others) = (catalog.version(family).clone(), catalog.claims().without(ticket));
        drop(catalog);
        let (cuts, listed) = (Cuts::default(), OnceCell::new());
        // Most moves cut nothing, so the tables are listed at the first cut.
        let list = || -> BTreeMap<FileId, &TableFile> {
            version.slices().map(|slice| (slice.table.id, &*slice.table)).collect()
        };
        let cut = |id: FileId, part: &Part, key: &[u8]| cuts.cut(listed.get_or_init(list)[&id], part, key);
        make(&Moment { version: &version, others: &others, cut: &cut })?;
        Ok(cuts)
    }
}

#[cfg(test)]
impl Jobs {
    /// Whether a thread holds the catalog.
    pub fn is_catalog_held(&self) -> bool {
        self.catalog.is_locked()
    }
}
