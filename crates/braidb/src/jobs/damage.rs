//! Damage: what a merge could not read, so that other merges leave it alone for a while.
//!
//! A planner proposes the same plan again after a failure. So one damaged block would keep all less urgent plans waiting, and would end each
//! round of collection. A damage is a table or a log with the slices of it that the failed merge read, or a value file.
//!
//! - *Waiting.* Plans that touch the slices are not proposed until [`FIRST_WAIT`] more merges have ended, and after each further failure
//!   until twice as many have. The error may pass: a cable may be loose. When nothing else is to be done, the scheduler tries the damage
//!   that failed longest ago.
//! - *Pins.* A value file that a damaged table names cannot go. What is left of a round of collection, when only damage keeps it from going
//!   on, cannot go either. Both leave the round as long as the damage waits. Values of a damaged value file stay where they are.
//!
//! No record moves because of a damage, and no file goes. A restart forgets all of them.

use super::{Catalog, Jobs};
use crate::base::error::Error;
use crate::base::ids::FileId;
use crate::base::key::Span;
use crate::base::names::{self, Kind};
use crate::plan::{Claim, Use};
use crate::value::BodyKind;
use crate::version::State;
use crate::version::table_file::TableFile;
use std::collections::BTreeSet;
use std::io::ErrorKind;

/// Merges that end before a plan may meet a damage again: 16, so that damage which stays costs less than a failed merge in 16.
const FIRST_WAIT: u64 = 16;
/// Failures after which the wait no longer doubles: 16, a wait of a million merges.
const MOST_DOUBLINGS: u32 = 16;
/// Damages that are remembered: 64, more than a damaged disk mostly has. The one that failed longest ago makes room.
const MOST_DAMAGES: usize = 64;

/// See the module.
#[derive(Debug)]
struct Damage {
    file: FileId,
    /// The slices of the file that the merge read; none for a value file.
    claims: Vec<Claim>,
    /// Value files that cannot go because of the damage.
    pins: BTreeSet<FileId>,
    failures: u32,
    /// The number of the merge at whose end the wait is over.
    waits_until: u64,
}

impl Damage {
    fn is_at(&self, file: FileId, claims: &[Claim]) -> bool {
        let touches = |claim: &Claim| claims.iter().any(|other| claim.touches(other));
        self.file == file && (self.claims.is_empty() || self.claims.iter().any(touches))
    }
}

/// The damages that merges met since the open.
#[derive(Debug, Default)]
pub(super) struct Damages {
    /// The one that failed last comes last.
    list: Vec<Damage>,
    /// Merges that ended, with success or not.
    ended: u64,
}

impl Damages {
    /// A merge ended.
    pub fn merge_ended(&mut self) {
        self.ended += 1;
    }

    /// A merge failed to read slices of a file. Returns whether plans touched them until now.
    fn met(&mut self, file: FileId, claims: Vec<Claim>, pins: BTreeSet<FileId>) -> bool {
        let known: Vec<Damage> = self.list.extract_if(.., |damage| damage.is_at(file, &claims)).collect();
        let failures = known.iter().map(|damage| damage.failures).max().unwrap_or(0);
        if self.list.len() == MOST_DAMAGES {
            self.list.remove(0);
        }
        let waits_until = self.ended + (FIRST_WAIT << failures.min(MOST_DOUBLINGS));
        self.list.push(Damage { file, claims, pins, failures: failures + 1, waits_until });
        known.iter().all(|damage| damage.waits_until <= self.ended)
    }

    fn waiting(&self) -> impl Iterator<Item = &Damage> {
        self.list.iter().filter(|damage| damage.waits_until > self.ended)
    }

    /// The damages that plans do not touch now.
    pub fn count(&self) -> usize {
        self.waiting().count()
    }

    /// What plans do not touch now.
    pub fn avoided(&self) -> Vec<Claim> {
        self.waiting().flat_map(|damage| &damage.claims).cloned().collect()
    }

    /// As [`Damages::avoided`] without one damage: each in turn, the one first that failed longest ago.
    pub fn avoided_but_one(&self) -> impl Iterator<Item = Vec<Claim>> {
        let tried = self.waiting().filter(|damage| !damage.claims.is_empty());
        tried.map(|tried| {
            let others = self.waiting().filter(|damage| !std::ptr::eq(*damage, tried));
            others.flat_map(|damage| &damage.claims).cloned().collect()
        })
    }

    /// The value files that cannot be collected now.
    pub fn pinned(&self) -> BTreeSet<FileId> {
        self.waiting().flat_map(|damage| &damage.pins).copied().collect()
    }

    /// Pins value files to the damage whose wait ends first, of those that keep plans waiting.
    fn pin(&mut self, files: BTreeSet<FileId>) {
        let ended = self.ended;
        let waiting = self.list.iter_mut();
        let waiting = waiting.filter(|damage| damage.waits_until > ended && !damage.claims.is_empty());
        let first = waiting.min_by_key(|damage| damage.waits_until).expect("a damage keeps plans waiting");
        first.pins.extend(files);
    }

    /// The value files that merges do not read now.
    pub fn unreadable(&self) -> BTreeSet<FileId> {
        self.waiting().filter(|damage| damage.claims.is_empty()).map(|damage| damage.file).collect()
    }

    /// Forgets what is no longer in the tree.
    pub fn forget_gone(&mut self, state: &State) {
        self.list.retain(|damage| match damage.claims.is_empty() {
            true => state.value_files().contains_key(&damage.file),
            false => !slices_of(damage.file, &damage.claims, state).is_empty(),
        });
    }
}

/// Whether reading the table may read this table file or log.
fn reads(table: &TableFile, file: FileId) -> bool {
    let bodies = table.bodies().iter().map(|held| &held.body.file);
    table.id == file || bodies.into_iter().any(|body| body.kind == BodyKind::Log && body.id == file)
}

/// The slices that `claims` touch and that a merge reads out of a table or log.
fn slices_of(file: FileId, claims: &[Claim], state: &State) -> Vec<Claim> {
    let of_claim = |claim: &Claim| {
        let level = state.families()[&claim.family].version.level(claim.level);
        let spans = level.slices().filter(|(.., slice)| reads(&slice.table, file));
        let spans =
            spans.map(|(.., slice)| Span::from(&slice.range)).filter(|span| span.overlaps(&claim.span));
        spans.map(|span| Claim { span, kind: Use::Take, ..claim.clone() }).collect::<Vec<Claim>>()
    };
    claims.iter().flat_map(of_claim).collect()
}

impl Jobs {
    /// A merge failed that touched `claims`, and touches them still. Remembers what it could not read. Returns whether other plans may go
    /// on: they do after the first failure, while after that of a plan whose turn came because nothing else was left, none is.
    pub(super) fn met_damage(&self, error: &Error, claims: &[Claim]) -> bool {
        let path = match error {
            Error::Io { operation: "read", path, .. } | Error::Corruption { path, .. } => path,
            Error::Io { operation: "open", path, source } if source.kind() == ErrorKind::NotFound => path,
            // Other operations fail on outputs, or because the process has too many open files.
            _ => return false,
        };
        let mut catalog = self.catalog.lock();
        let Catalog { state, damages, .. } = &mut *catalog;
        let is_new = match path.file_name().and_then(|name| names::parse(name.to_str()?)) {
            Some(Kind::Values(id)) if state.value_files().contains_key(&id) => {
                damages.met(id, Vec::new(), [id].into())
            }
            Some(Kind::Table(id) | Kind::Log(id)) => {
                let read: Vec<Claim> =
                    claims.iter().filter(|claim| claim.kind != Use::Append).cloned().collect();
                let slices = slices_of(id, &read, state);
                if slices.is_empty() {
                    return false;
                }
                let tables = state.tables().filter(|table| reads(table, id));
                let bodies = tables.flat_map(|table| table.bodies()).map(|held| held.body.file.id);
                damages.met(id, slices, bodies.collect())
            }
            _ => return false,
        };
        self.choose_collected(&mut catalog);
        is_new
    }

    /// Nothing is left to be done but what touches damage. Ends the round of collection, so that other files are collected. Returns whether
    /// there was one.
    pub(super) fn end_round_at_damage(&self, catalog: &mut Catalog) -> bool {
        let left = std::mem::take(&mut catalog.collected);
        if left.is_empty() {
            return false;
        }
        catalog.damages.pin(left);
        self.choose_collected(catalog);
        true
    }

    /// Places that merges leave alone for now, because one could not be read.
    pub fn damages(&self) -> usize {
        self.catalog.lock().damages.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FamilyId;
    use crate::base::key::KeyRange;

    fn claim(low: &str, high: &str) -> Claim {
        Claim { family: FamilyId(0), level: 1, span: Span::from(&KeyRange::new(low, high)), kind: Use::Take }
    }

    fn avoided(damages: &Damages) -> Vec<Claim> {
        damages.avoided()
    }

    #[test]
    fn a_damage_waits_twice_as_long_after_each_failure() {
        let mut damages = Damages::default();
        for wait in [16, 32, 64] {
            damages.met(FileId(7), vec![claim("b", "d")], [FileId(1)].into());
            for _ in 0..wait {
                assert_eq!((damages.count(), avoided(&damages)), (1, vec![claim("b", "d")]));
                assert_eq!(damages.pinned(), [FileId(1)].into());
                damages.merge_ended();
            }
            assert_eq!((damages.count(), avoided(&damages), damages.pinned()), (0, vec![], [].into()));
        }
        damages.met(FileId(7), vec![claim("e", "f")], BTreeSet::new());
        (0..16).for_each(|_| damages.merge_ended());
        assert_eq!(damages.count(), 0, "other slices of the file wait for 16 merges");
    }

    #[test]
    fn one_place_is_one_damage() {
        let mut damages = Damages::default();
        damages.met(FileId(7), vec![claim("b", "d"), claim("f", "g")], BTreeSet::new());
        damages.met(FileId(7), vec![claim("c", "f")], BTreeSet::new());
        assert_eq!(avoided(&damages), [claim("c", "f")]);
        for file in 0..70 {
            damages.met(FileId(file), vec![claim("x", "y")], BTreeSet::new());
        }
        assert_eq!(damages.count(), MOST_DAMAGES);
    }

    #[test]
    fn the_damage_that_failed_longest_ago_is_tried_first() {
        let mut damages = Damages::default();
        let (first, second) = (claim("a", "b"), claim("c", "d"));
        damages.met(FileId(1), vec![first.clone()], BTreeSet::new());
        damages.met(FileId(2), vec![second.clone()], BTreeSet::new());
        damages.met(FileId(3), Vec::new(), [FileId(3)].into());
        let turns = |damages: &Damages| damages.avoided_but_one().collect::<Vec<_>>();
        assert_eq!(turns(&damages), [[second.clone()], [first.clone()]]);
        damages.met(FileId(1), vec![first.clone()], BTreeSet::new());
        assert_eq!(turns(&damages), [[first], [second]]);
        assert_eq!(damages.unreadable(), [FileId(3)].into());
        damages.pin([FileId(9)].into());
        (0..16).for_each(|_| damages.merge_ended());
        assert_eq!(damages.pinned(), [].into(), "file 2 waits for fewer merges than file 1");
    }
}
