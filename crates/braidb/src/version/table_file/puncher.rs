//! The list of a table's holes: which blocks no living slice needs, and which of them are punched. `jobs/cleanup.rs` punches.
//!
//! Several jobs collect garbage at once, and slices of one table die on any thread. A hole found by one thread may
//! lie within a larger hole that another thread found later. The new bytes of a hole are its bytes beyond the earlier
//! holes within it.
//!
//! So one thread owns a table's list of holes from the search for new holes until they are counted: the list moves into
//! its [`Puncher`]. No lock is held across a system call. A thread that finds the list taken sets `is_wanted` and goes
//! on. [`Puncher::end`] checks `is_wanted` under the lock that returns the list, so one of the two threads handles
//! every slice that died.

use super::TableFile;
use crate::base::error::Result;
use crate::base::ids::{FileId, TierId};
use crate::base::mutant::mutant;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// The holes of a table.
#[derive(Debug)]
pub(super) enum Holes {
    /// The holes punched since the database was opened; no two overlap.
    Here(Vec<Range<u64>>),
    /// A [`Puncher`] has the list. `is_wanted`: another thread wanted to punch since the last search for new holes.
    Taken { is_wanted: bool },
}

impl Default for Holes {
    fn default() -> Holes {
        Holes::Here(Vec::new())
    }
}

/// The right of one thread to punch holes out of a table. If dropped without [`Puncher::end`], after an error or a
/// panic, the table goes back into the list of tables that wait for holes.
#[derive(Debug)]
pub struct Puncher {
    table: Arc<TableFile>,
    /// `None` after the holes were given back.
    holes: Option<Vec<Range<u64>>>,
}

impl Puncher {
    /// Takes the holes of a table. `None` if another thread has them: that thread then searches again before it gives
    /// them back.
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

    /// Takes the holes of a table unless another thread has them. Does not make that thread search again.
    pub fn take_if_free(table: &Arc<TableFile>) -> Option<Puncher> {
        let mut holes = table.holes.lock();
        match mem::replace(&mut *holes, Holes::Taken { is_wanted: false }) {
            Holes::Here(known) => Some(Puncher { table: table.clone(), holes: Some(known) }),
            taken => {
                *holes = taken;
                None
            }
        }
    }

    /// The table that is punched.
    pub fn table_id(&self) -> FileId {
        self.table.id
    }

    /// The tier of the table.
    pub fn tier(&self) -> TierId {
        self.table.tier
    }

    fn known(&mut self) -> &mut Vec<Range<u64>> {
        self.holes.as_mut().expect("a puncher has the holes until it ends")
    }

    /// The extents that can be punched now and were not punched yet. Each extent covers a known hole or lies apart from
    /// it, because dead bytes stay dead.
    pub fn new_holes(&mut self) -> Result<Vec<Range<u64>>> {
        let mut held = self.table.held();
        if mutant!("hole_under_a_neighbour") {
            held.pop();
        }
        let mut extents = self.table.index_reader()?.dead_extents(&held);
        extents.retain(|extent| !self.known().contains(extent));
        Ok(extents)
    }

    /// Records a punched hole and returns the number of new bytes. Known holes within the hole become a part of it.
    pub fn punched(&mut self, hole: Range<u64>) -> u64 {
        let known = self.known();
        let covered = |other: &mut Range<u64>| hole.start <= other.start && other.end <= hole.end;
        let before: u64 = known.extract_if(.., covered).map(|other| other.end - other.start).sum();
        debug_assert!(known.iter().all(|other| other.end <= hole.start || hole.end <= other.start));
        let bytes = hole.end - hole.start - before;
        known.push(hole);
        bytes
    }

    /// Gives the holes back. If another thread wanted to punch meanwhile, keeps them and returns `Some`: the caller
    /// searches for new holes again.
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
