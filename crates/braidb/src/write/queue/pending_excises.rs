//! Excises under way (`jobs/excise.rs`), as the commit queue sees them.
//!
//! An excise takes effect when its edit is installed, but what it drops was decided before, when the family's memtable was switched. A
//! transaction that read in the ranges before the edit, and commits behind the switch, would be neither before nor after the excise. So such
//! transactions are refused until the edit. This begins with the first switch: another thread may make the last one. Later the view tells
//! which transactions are older.

use super::{CommitQueue, Core};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::key::Span;
use crate::base::mutant::mutant;
use crate::write::Check;

/// An excise that is under way.
#[derive(Debug)]
pub(super) struct PendingExcise {
    id: u64,
    family: FamilyId,
    spans: Vec<Span>,
}

/// The memory of a family, on its way to a table.
#[derive(Debug)]
pub struct Switched {
    /// All writes up to this number are in tables once the flushes have ended. Later writes have larger numbers.
    pub upto: SeqNo,
    /// How many flushes of each family must have ended.
    pub flushes: Vec<u64>,
    /// The log that began behind `upto`, if no flush will let the family replay from it, because memory was empty.
    pub log: Option<FileId>,
    /// The number for [`CommitQueue::end_excise`], if this was the first switch.
    pub id: Option<u64>,
}

/// Which switch of an excise: the second one takes what was written beside a flush under way.
#[derive(Clone, Copy, Debug)]
pub enum Turn<'a> {
    /// From here on transactions that read in the spans are refused.
    First(&'a [Span]),
    /// Begins a log if memory is empty.
    Last,
}

impl CommitQueue {
    /// The excise has taken effect in the view, or was given up.
    pub fn end_excise(&self, id: u64) {
        self.lock().pending_excises.retain(|pending| pending.id != id);
    }

    /// Whether an excise is between its first switch and its edit.
    pub fn has_pending_excise(&self) -> bool {
        !self.lock().pending_excises.is_empty()
    }

    /// Switches the memtable of a family, if it has something in memory and is not being flushed. The caller schedules the flush.
    pub fn switch_for_excise(&self, family: FamilyId, turn: Turn<'_>) -> Result<Switched> {
        let mut core = self.lock();
        self.shared.health.check_writable()?;
        let mut log = None;
        if core.room.is_idle(family) {
            // Behind a flush that found no room, the logs may hold copies of records that are in tables too. A recovery must not meet them.
            log = match turn {
                Turn::First(_) => None,
                Turn::Last => Some(self.rotate_for(&mut core, false)?),
            };
        } else if core.room.flushing_seq(family).is_none() && !mutant!("excise_forgets_the_log") {
            self.switch_memtables(&mut core, &[family], false)?;
        }
        let upto = core.room.flushing_seq(family).unwrap_or(core.last_seq);
        let mut flushes = vec![0; core.room.switches().len()];
        flushes[family.0 as usize] = core.room.switches()[family.0 as usize];
        let id = match turn {
            Turn::Last => None,
            Turn::First(spans) => {
                core.last_excise += 1;
                let id = core.last_excise;
                core.pending_excises.push(PendingExcise { id, family, spans: spans.to_vec() });
                Some(id)
            }
        };
        Ok(Switched { upto, flushes, log, id })
    }

    /// Whether the transaction read in a range that is being excised, or was excised after its moment.
    pub(super) fn has_read_excised(&self, core: &mut Core, check: &Check) -> bool {
        if mutant!("excise_unseen_by_transactions") {
            return false;
        }
        let reads = check.reads();
        let mut pending = core.pending_excises.iter();
        if pending.any(|excise| excise.spans.iter().any(|span| reads.meets(excise.family, span))) {
            return true;
        }
        core.room.look(|view| {
            view.excises > check.excises()
                && (0..).map(FamilyId).zip(&view.families).any(|(id, family)| {
                    family.past_excises.since(check.excises()).any(|span| reads.meets(id, span))
                })
        })
    }
}
