//! Punching holes out of a table, by one thread at a time.
//!
//! Jobs and readers collect garbage at once, and slices of one table die on any thread. A hole found by one thread may lie
//! within a larger one that another thread found later, and the bytes of a hole are counted as what it has beyond the holes
//! before it. So one thread owns the list of a table's holes from the search for new ones until they are counted: the list
//! itself moves into its [`Puncher`]. No lock is held across a system call. A thread that finds the list taken notes that
//! slices died meanwhile and goes on; [`Puncher::end`] sees the note under the lock that gives the list back, so either
//! thread looks at every slice that died.

use super::table_file::TableFile;
use crate::base::error::Result;
use crate::base::ids::FileId;
use crate::base::mutant::mutant;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// The holes of a table.
#[derive(Debug)]
pub(super) enum Holes {
    /// Punched since the open. No two overlap.
    Here(Vec<Range<u64>>),
    /// A puncher has them. Whether another thread wanted to punch since it looked for new holes last.
    Taken { is_wanted: bool },
}

impl Default for Holes {
    fn default() -> Holes {
        Holes::Here(Vec::new())
    }
}

/// The one thread that may punch holes out of a table. Dropped before its [`Puncher::end`], after an error or by a panic, it
/// puts the table back into the list of tables that wait for holes.
#[derive(Debug)]
pub struct Puncher {
    table: Arc<TableFile>,
    /// `None` once they were given back.
    holes: Option<Vec<Range<u64>>>,
}

impl Puncher {
    /// Takes the holes of a table. `None` if another thread has them: it looks for new ones again before it gives them back.
    pub fn take(table: &Arc<TableFile>) -> Option<Puncher> {
        let mut holes = table.holes.lock();
        match mem::replace(&mut *holes, Holes::Taken { is_wanted: false }) {
            Holes::Here(known) => Some(Puncher { table: table.clone(), holes: Some(known) }),
            Holes::Taken { .. } => {
                *holes = Holes::Taken { is_wanted: true };
                None
            }
        }
    }

    /// The table that is punched.
    pub fn table_id(&self) -> FileId {
        self.table.id
    }

    fn known(&mut self) -> &mut Vec<Range<u64>> {
        self.holes.as_mut().expect("a puncher has the holes until it ends")
    }

    /// What can be punched out of the file now and was not yet. Each extent covers a known hole or lies apart from it: what is
    /// dead stays dead.
    pub fn new_holes(&mut self) -> Result<Vec<Range<u64>>> {
        let mut held = self.table.held();
        if mutant!("hole_under_a_neighbour") {
            held.pop();
        }
        let mut extents = self.table.reader()?.dead_extents(&held);
        extents.retain(|extent| !self.known().contains(extent));
        Ok(extents)
    }

    /// A hole was made; returns how many bytes of it are new. Known holes within it become a part of it.
    pub fn punched(&mut self, hole: Range<u64>) -> u64 {
        let known = self.known();
        let covered = |other: &mut Range<u64>| hole.start <= other.start && other.end <= hole.end;
        let before: u64 = known.extract_if(.., covered).map(|other| other.end - other.start).sum();
        debug_assert!(known.iter().all(|other| other.end <= hole.start || hole.end <= other.start));
        let bytes = hole.end - hole.start - before;
        known.push(hole);
        bytes
    }

    /// Gives the holes back, unless another thread wanted to punch meanwhile: then there may be new ones to look for.
    pub fn end(mut self) -> Option<Puncher> {
        let mut holes = self.table.holes.lock();
        if matches!(*holes, Holes::Taken { is_wanted: true }) {
            *holes = Holes::Taken { is_wanted: false };
            drop(holes);
            return Some(self);
        }
        *holes = Holes::Here(self.holes.take().expect("a puncher ends once"));
        None
    }
}

impl Drop for Puncher {
    fn drop(&mut self) {
        let Some(known) = self.holes.take() else { return };
        *self.table.holes.lock() = Holes::Here(known);
        TableFile::punch_later(&self.table);
    }
}
