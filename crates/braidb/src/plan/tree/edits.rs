//! From a finished plan to its edit: which run takes each slice, and where slices are cut.
//!
//! *Arrival.* A slice that comes to a level joins the oldest run of its cell that it can join. The run must not overlap the
//! slice, nor lie under a run that does. So sequential writes fill one run and never make a pile. If the slice can join no run,
//! or a job takes runs in its range, the slice begins a new run on top. In both cases it is newer than all slices that it
//! overlaps (rule 7).
//!
//! *Cutting.* The guards in force when the edit is made decide (rule 9). They may differ from the guards at the start of the
//! job. A slice that reaches over a guard is cut there, without being read: its table stays, and both sides refer to it.

use super::{Claims, Input, Join, Merge, Move, Placement, Split};
use crate::base::counters::LEVELS;
use crate::base::error::Result;
use crate::base::ids::{Epoch, FamilyId, FileId};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::base::part::Part;
use crate::version::{Change, Edit, NewTable, RunId, Version};
use std::collections::BTreeMap;

/// Cuts a part of a table in front of a key: returns the part before the key, and the rest. Either may be empty.
pub type Cut<'a> = dyn Fn(FileId, &Part, &[u8]) -> Result<(Option<Part>, Option<Part>)> + 'a;

/// The inputs of an edit besides the plan, at the moment of its commit.
pub struct Moment<'a> {
    /// The current version of the family.
    pub version: &'a Version,
    /// The claims of other jobs.
    pub others: &'a Claims,
    pub cut: &'a Cut<'a>,
}

impl Merge {
    /// The change that a finished merge makes.
    pub fn edit(&self, moment: &Moment<'_>, outputs: &[NewTable]) -> Result<Edit> {
        let mut edit = Edit::default();
        remove(&mut edit, self.family, &self.inputs);
        let mut parts = Vec::new();
        for table in outputs {
            edit.add_table(table);
            parts.extend(table.parts.iter().map(|part| (table.id, part.clone())));
        }
        let arrival = Arrival { family: self.family, level: self.to, leaving: &self.inputs, moment };
        if self.from == self.to {
            let newest = self.inputs.iter().max_by_key(|input| input.run.epoch).expect("a merge has inputs");
            let mut run = newest.run.clone();
            if mutant!("rewrite_lands_on_top") {
                run.epoch = moment.version.next_epoch();
            }
            if mutant!("slow_cell_lifted") && self.placement == Placement::Fast {
                let cell = moment.version.level(1).cell(&run.cell).low.clone();
                run = RunId { level: 1, cell, epoch: moment.version.next_epoch() };
            }
            for (table, part) in parts {
                edit.add_slice(self.family, run.clone(), table, &part);
            }
        } else {
            arrival.add(&mut edit, parts)?;
        }
        Ok(edit)
    }
}

impl Move {
    /// The change that the move makes.
    pub fn edit(&self, moment: &Moment<'_>) -> Result<Edit> {
        let mut edit = Edit::default();
        remove(&mut edit, self.family, &self.inputs);
        if let Some(run) = &self.into {
            for Input { slice, .. } in &self.inputs {
                edit.add_slice(self.family, run.clone(), slice.table.id, slice.part());
            }
            return Ok(edit);
        }
        let parts =
            self.inputs.iter().map(|input| (input.slice.table.id, input.slice.part().clone())).collect();
        let arrival = Arrival { family: self.family, level: self.to, leaving: &[], moment };
        arrival.add(&mut edit, parts)?;
        Ok(edit)
    }
}

impl Split {
    /// The change that makes `guard` one of the level's.
    pub fn edit(&self, moment: &Moment<'_>, guard: &[u8]) -> Result<Edit> {
        let mut edit = Edit::default();
        let level = moment.version.level(self.level);
        let cell = level.cell(guard);
        debug_assert!(cell.low == self.cell && cell.low != guard, "the guard cuts the cell");
        for (epoch, slice) in cell.slices() {
            if slice.range.low.as_slice() >= guard || slice.range.high.as_slice() < guard {
                continue;
            }
            let run = |cell: &[u8]| RunId { level: self.level, cell: cell.to_vec(), epoch };
            edit.remove_slice(self.family, run(&cell.low), slice);
            let (before, behind) = (moment.cut)(slice.table.id, slice.part(), guard)?;
            for (side, part) in [(cell.low.as_slice(), before), (guard, behind)] {
                if let Some(part) = part {
                    edit.add_slice(self.family, run(side), slice.table.id, &part);
                }
            }
        }
        edit.push(Change::Guard { family: self.family, key: guard.to_vec(), top: self.level });
        Ok(edit)
    }
}

impl Join {
    /// The change that takes the guard away.
    pub fn edit(&self) -> Edit {
        let top = if self.everywhere { LEVELS } else { self.level + 1 };
        let mut edit = Edit::default();
        edit.push(Change::Guard { family: self.family, key: self.guard.clone(), top });
        edit
    }
}

fn remove(edit: &mut Edit, family: FamilyId, inputs: &[Input]) {
    for Input { run, slice } in inputs {
        edit.remove_slice(family, run.clone(), slice);
    }
}

/// Slices on their way into a level.
struct Arrival<'a> {
    family: FamilyId,
    level: usize,
    /// Slices that the edit removes.
    leaving: &'a [Input],
    moment: &'a Moment<'a>,
}

impl Arrival<'_> {
    fn add(&self, edit: &mut Edit, parts: Vec<(FileId, Part)>) -> Result<()> {
        let level = self.moment.version.level(self.level);
        let mut of_cell: BTreeMap<usize, Vec<(FileId, Part)>> = BTreeMap::new();
        for (table, part) in parts {
            for piece in self.pieces(table, part)? {
                of_cell.entry(level.cell_index(&piece.range.low)).or_default().push((table, piece));
            }
        }
        for (index, parts) in of_cell {
            let cell = level.cells[index].low.clone();
            let range =
                KeyRange::hull(parts.iter().map(|(_, part)| &part.range)).expect("a group is not empty");
            let run = RunId { level: self.level, cell, epoch: self.epoch(index, &range) };
            for (table, part) in parts {
                edit.add_slice(self.family, run.clone(), table, &part);
            }
        }
        Ok(())
    }

    /// The part, cut at each guard of the level.
    fn pieces(&self, table: FileId, part: Part) -> Result<Vec<Part>> {
        if mutant!("slice_crosses_a_guard") {
            return Ok(vec![part]);
        }
        let level = self.moment.version.level(self.level);
        let (mut pieces, mut rest) = (Vec::new(), Some(part.clone()));
        for guard in level.guards_inside(&part.range) {
            let Some(whole) = rest.take() else { break };
            if whole.range.low.as_slice() >= guard {
                rest = Some(whole);
                continue;
            }
            let (before, behind) = (self.moment.cut)(table, &whole, guard)?;
            pieces.extend(before);
            rest = behind;
        }
        pieces.extend(rest);
        Ok(pieces)
    }

    /// The epoch of the run that takes slices in `range` of a cell.
    fn epoch(&self, index: usize, range: &KeyRange) -> Epoch {
        let version = self.moment.version;
        let taken = self.moment.others.is_taken(self.family, self.level, &Span::from(range));
        let mut epoch = version.next_epoch();
        if taken && !mutant!("slice_joins_a_taken_run") {
            return epoch;
        }
        let is_leaving = |run: &RunId, low: &[u8]| {
            self.leaving.iter().any(|input| input.run == *run && input.slice.range.low == low)
        };
        let cell = &version.level(self.level).cells[index];
        for run in &cell.runs {
            let id = RunId { level: self.level, cell: cell.low.clone(), epoch: run.epoch };
            if run.overlapping(range).iter().any(|slice| !is_leaving(&id, &slice.range.low)) {
                break;
            }
            epoch = run.epoch;
        }
        epoch
    }
}
