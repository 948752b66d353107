//! A large merge in *increments*: stretch by stretch, each with an edit of its own.
//!
//! The inputs of a merge are deleted after its edit. So a merge of nearly the whole tree would keep all of it on the device twice. Instead
//! the inputs from above are first cut, as metadata, where tables of the target level begin. Then each stretch between two such *seams* is
//! an ordinary merge, whose edit removes its inputs of both levels. The claims of the whole merge are held to the end. If the merge ends
//! early, the remaining inputs stay where they were, cut in slices. Such a tree is valid.
//!
//! Slices of L0 are not cut, because plans take L0 table by table, and L0 is small. With guards a merge takes a single cell, and tables end
//! at guards. Increments wrote 6% more bytes there and saved little space.

use super::edits::Moment;
use super::{Input, Merge};
use crate::base::error::Result;
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::version::{Edit, Version};

impl Merge {
    /// Whether a guard bounds what it reads.
    pub fn is_guarded(&self) -> bool {
        self.inputs.iter().any(|input| !input.run.cell.is_empty())
    }

    /// Where the next increment begins, in key order: at slices of the target level that nothing there reaches over, about a
    /// table apart. None if the merge is small.
    pub fn seams(&self) -> Vec<Vec<u8>> {
        if self.from == 0 || self.from == self.to || self.is_guarded() {
            return Vec::new();
        }
        let mut targets: Vec<&Input> =
            self.inputs.iter().filter(|input| input.run.level == self.to).collect();
        targets.sort_by(|a, b| a.slice.range.low.cmp(&b.slice.range.low));
        let (mut seams, mut bytes, mut reached): (Vec<Vec<u8>>, u64, &[u8]) = (Vec::new(), 0, &[]);
        for Input { slice, .. } in targets {
            if bytes >= self.table_bytes / 4 * 3 && slice.range.low.as_slice() > reached {
                seams.push(slice.range.low.clone());
                bytes = 0;
            }
            bytes += slice.bytes;
            reached = reached.max(slice.range.high.as_slice());
        }
        seams
    }

    /// The change that cuts what comes from above at the seams.
    pub fn cut_edit(&self, moment: &Moment<'_>, seams: &[Vec<u8>]) -> Result<Edit> {
        let mut edit = Edit::default();
        for Input { run, slice } in self.inputs.iter().filter(|input| input.run.level == self.from) {
            let inside = |seam: &&Vec<u8>| slice.range.low < **seam && **seam <= slice.range.high;
            let (mut pieces, mut rest) = (Vec::new(), Some(slice.part().clone()));
            for seam in seams.iter().filter(inside) {
                let Some(whole) = rest.take() else { break };
                let (before, behind) = (moment.cut)(slice.table.id, &whole, seam)?;
                pieces.extend(before);
                rest = behind;
            }
            if !mutant!("cut_loses_the_rest") {
                pieces.extend(rest);
            }
            if let [_] = pieces.as_slice() {
                continue;
            }
            edit.remove_slice(self.family, run.clone(), slice);
            for piece in pieces {
                edit.add_slice(self.family, run.clone(), slice.table.id, &piece);
            }
        }
        Ok(edit)
    }

    /// The increments, in key order, made for the version in which the cuts have been made. A stretch into which nothing
    /// comes from above has none.
    pub fn increments(&self, version: &Version, seams: &[Vec<u8>]) -> Vec<Merge> {
        let pieces: Vec<Input> = self.inputs.iter().flat_map(|input| pieces(input, version)).collect();
        // If a table could not be cut at a seam, both sides of the seam stay in one increment.
        let is_open = |seam: &&Vec<u8>| {
            pieces.iter().all(|piece| piece.slice.range.high < **seam || **seam <= piece.slice.range.low)
        };
        let seams: Vec<&Vec<u8>> = seams.iter().filter(is_open).collect();
        let mut stretches: Vec<Vec<Input>> = vec![Vec::new(); seams.len() + 1];
        for piece in pieces {
            stretches[seams.partition_point(|seam| **seam <= piece.slice.range.low)].push(piece);
        }
        stretches.retain(|inputs| inputs.iter().any(|input| input.run.level == self.from));
        stretches.into_iter().map(|inputs| Merge { inputs, ..self.clone() }).collect()
    }
}

/// The slices into which an input was cut.
fn pieces(input: &Input, version: &Version) -> Vec<Input> {
    let Input { run, slice } = input;
    let cell = version.level(run.level).cell(&run.cell);
    let Some(now) = cell.runs.iter().find(|now| now.epoch == run.epoch) else { return Vec::new() };
    let is_piece = |piece: &KeyRange| slice.range.low <= piece.low && piece.high <= slice.range.high;
    let pieces = now.overlapping(&slice.range).iter();
    pieces
        .filter(|piece| piece.table.id == slice.table.id && is_piece(&piece.range))
        .map(|piece| Input { run: run.clone(), slice: piece.clone() })
        .collect()
}
