//! Damage: what a merge could not read, so that other merges leave it alone for a while.
//!
//! A planner proposes the same plan again after a failure. So one damaged block would keep all less urgent plans waiting, and would end each
//! round of collection. A damage is a table or a log with its slices where the failed merge worked, or a value file.
//!
//! - *Waiting.* Plans that touch the slices are not proposed until [`FIRST_WAIT`] merges have ended, and after each further failure until
//!   twice as many have. The error may pass: a cable may be loose. When nothing else is to be done, the scheduler tries the slices that failed
//!   longest ago although they wait.
//! - *Pins.* A damage pins the value files that a damaged table names: they cannot be deleted. When a merge fails there again, the damage
//!   also pins the files of the round of collection that other tables in the range of this merge name. If only damage keeps a round from
//!   going on, a damage pins the rest of the round. A damaged value file pins itself, and its values stay where they are. Pinned files
//!   leave the round as long as the damage waits. The next edit after the wait may choose them again.
//!
//! No record moves because of a damage, and no file is deleted. A restart forgets all damages.

use super::{Catalog, Jobs};
use crate::base::counters::LEVELS;
use crate::base::error::Error;
use crate::base::ids::FileId;
use crate::base::key::Span;
use crate::base::names::{self, Kind};
use crate::plan::{Claim, Use};
use crate::value::{BodyFile, BodyKind};
use crate::version::table_file::TableFile;
use crate::version::{Slice, State};
use braidb_storage::is_shortage;
use std::collections::BTreeSet;

/// Merges, moves, splits and joins that end before a plan may meet a damage again, the failed one included: 16. While there is other work,
/// damage that stays costs less than a failed merge in 16.
const FIRST_WAIT: u64 = 16;
/// Failures after which the wait no longer doubles: 16, a wait of a million merges.
const MOST_DOUBLINGS: u32 = 16;
/// Damages of tables and logs that are remembered: 64, more than a damaged disk mostly has. One more replaces the damage that failed
/// longest ago. The number is bounded because planners compare each plan with each damage.
const MOST_DAMAGES: usize = 64;
/// Once one table or log has this many damages, 4, the next one covers all its slices. Otherwise an unreadable file would fail a merge for
/// each cell.
const MOST_OF_A_FILE: usize = 4;

/// See the module.
#[derive(Debug)]
struct Damage {
    file: FileId,
    /// Slices of the file; none for a value file.
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
        self.file == file && (self.is_value_file() || self.claims.iter().any(touches))
    }

    fn is_value_file(&self) -> bool {
        self.claims.is_empty()
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

    /// Records that a merge failed to read slices of a file, or a value file. Returns whether plans avoid one more damage now.
    fn met(&mut self, file: FileId, claims: Vec<Claim>, mut pins: BTreeSet<FileId>) -> bool {
        let known: Vec<Damage> = self.list.extract_if(.., |damage| damage.is_at(file, &claims)).collect();
        let mut failures = known.iter().map(|damage| damage.failures).max().unwrap_or(0);
        let mut waits_until = known.iter().map(|damage| damage.waits_until).max().unwrap_or(0);
        pins.extend(known.into_iter().flat_map(|damage| damage.pins));
        // A failure while the damage waits does not double the wait: the failed merge had begun before the wait, or nothing else was to be
        // done.
        let is_new = waits_until <= self.ended;
        if is_new {
            waits_until = self.ended + (FIRST_WAIT << failures.min(MOST_DOUBLINGS));
            failures += 1;
        }
        let makes_room = !claims.is_empty() && self.of_slices().count() == MOST_DAMAGES;
        if makes_room {
            let oldest = self.list.iter().position(|damage| !damage.is_value_file());
            self.list.remove(oldest.expect("there are 64"));
        }
        self.list.push(Damage { file, claims, pins, failures, waits_until });
        is_new && !makes_room
    }

    /// Records that a merge failed to read a value file. Returns as [`Damages::met_slices`] does.
    pub fn met_value_file(&mut self, file: FileId) -> bool {
        self.met(file, Vec::new(), [file].into())
    }

    /// Records that a merge which touched `claims` failed to read a table or log. The damage pins what the tables that read this file name.
    /// If the damage was known, it also pins those files of `collected`, the round of collection, that other tables in the claims name.
    /// Returns whether plans avoid one more damage now.
    pub fn met_slices(
        &mut self,
        file: FileId,
        claims: &[Claim],
        state: &State,
        collected: &BTreeSet<FileId>,
    ) -> bool {
        let mut read: Vec<Claim> = claims.iter().filter(|claim| claim.kind != Use::Append).cloned().collect();
        if self.is_damaged_all_over(file) {
            read = everything(state);
        }
        let known = self.known(file, &read);
        let mut slices: Vec<Claim> = Vec::new();
        for slice in slices_of(file, &read, state).chain(slices_of(file, &known, state)) {
            if !slices.contains(&slice) {
                slices.push(slice);
            }
        }
        if slices.is_empty() {
            return false;
        }
        let mut pins = bodies(state.tables().map(|table| &**table).filter(|table| reads(table, file)));
        if !known.is_empty() {
            let there = read.iter().flat_map(|claim| touched(claim, state)).map(|slice| &*slice.table);
            pins.extend(bodies(there).intersection(collected));
        }
        self.met(file, slices, pins)
    }

    fn of_slices(&self) -> impl Iterator<Item = &Damage> {
        self.list.iter().filter(|damage| !damage.is_value_file())
    }

    /// The slices of the file's damages that touch `claims`.
    fn known(&self, file: FileId, claims: &[Claim]) -> Vec<Claim> {
        let known = self.of_slices().filter(|damage| damage.is_at(file, claims));
        known.flat_map(|damage| &damage.claims).cloned().collect()
    }

    /// Whether the file has [`MOST_OF_A_FILE`] damages. The next damage then covers all its slices.
    fn is_damaged_all_over(&self, file: FileId) -> bool {
        self.list.iter().filter(|damage| damage.file == file).count() >= MOST_OF_A_FILE
    }

    fn waiting(&self) -> impl Iterator<Item = &Damage> {
        self.list.iter().filter(|damage| damage.waits_until > self.ended)
    }

    /// Lets plans touch all damages again.
    pub fn end_waits(&mut self) {
        self.list.iter_mut().for_each(|damage| damage.waits_until = self.ended);
    }

    /// How many damages plans do not touch now.
    pub fn count(&self) -> usize {
        self.waiting().count()
    }

    /// What plans do not touch now.
    pub fn avoided(&self) -> Vec<Claim> {
        self.waiting().flat_map(|damage| &damage.claims).cloned().collect()
    }

    /// [`Damages::avoided`] with one damage left out, once for each damage of a table or log. The damage that failed longest ago is left
    /// out first.
    pub fn avoided_but_one(&self) -> impl Iterator<Item = Vec<Claim>> {
        let tried = self.waiting().filter(|damage| !damage.is_value_file());
        tried.map(|tried| {
            let others = self.waiting().filter(|damage| !std::ptr::eq(*damage, tried));
            others.flat_map(|damage| &damage.claims).cloned().collect()
        })
    }

    /// The value files that cannot be collected now.
    pub fn pinned(&self) -> BTreeSet<FileId> {
        self.waiting().flat_map(|damage| &damage.pins).copied().collect()
    }

    /// Pins value files to one damage: of those that keep plans waiting, the one whose wait ends first.
    pub fn pin(&mut self, files: BTreeSet<FileId>) {
        let ended = self.ended;
        let waiting = self.list.iter_mut();
        let waiting = waiting.filter(|damage| damage.waits_until > ended && !damage.is_value_file());
        let first = waiting.min_by_key(|damage| damage.waits_until).expect("a damage keeps plans waiting");
        first.pins.extend(files);
    }

    /// The value files that merges do not read now.
    pub fn unreadable(&self) -> BTreeSet<FileId> {
        self.waiting().filter(|damage| damage.is_value_file()).map(|damage| damage.file).collect()
    }

    /// Forgets what is no longer in the tree.
    pub fn forget_gone(&mut self, state: &State) {
        self.list.retain(|damage| match damage.is_value_file() {
            true => state.value_files().contains_key(&damage.file),
            false => slices_of(damage.file, &damage.claims, state).next().is_some(),
        });
    }
}

/// Whether reading the table may read this table file or log.
fn reads(table: &TableFile, file: FileId) -> bool {
    let is_it = |body: &BodyFile| body.kind == BodyKind::Log && body.id == file;
    table.id == file || table.bodies().iter().any(|held| is_it(&held.body.file))
}

/// The slices that a claim touches.
fn touched<'a>(claim: &'a Claim, state: &'a State) -> impl Iterator<Item = &'a Slice> {
    let slices = state.families()[&claim.family].version.level(claim.level).slices();
    slices.map(|(.., slice)| &**slice).filter(|slice| Span::from(&slice.range).overlaps(&claim.span))
}

/// The slices that `claims` touch and whose reading may read the table file or log.
fn slices_of<'a>(
    file: FileId,
    claims: &'a [Claim],
    state: &'a State,
) -> impl Iterator<Item = Claim> + use<'a> {
    claims.iter().flat_map(move |claim| {
        let slices = touched(claim, state).filter(move |slice| reads(&slice.table, file));
        slices.map(|slice| Claim { span: Span::from(&slice.range), kind: Use::Take, ..claim.clone() })
    })
}

/// Claims of all levels of all families.
fn everything(state: &State) -> Vec<Claim> {
    let families = state.families().keys();
    let claim = |family, level| Claim { family, level, span: Span::ALL, kind: Use::Take };
    families.flat_map(|&family| (0..LEVELS).map(move |level| claim(family, level))).collect()
}

/// The value files and logs that tables name.
fn bodies<'a>(tables: impl Iterator<Item = &'a TableFile>) -> BTreeSet<FileId> {
    tables.flat_map(|table| table.bodies()).map(|held| held.body.file.id).collect()
}

impl Jobs {
    /// Remembers what a failed merge could not read. The merge touched `claims` and still holds them. Returns whether the scheduler plans
    /// on. It does if plans touched the damage until now. If the damage was waiting already, the next plan might be the same again.
    pub(super) fn met_damage(&self, error: &Error, claims: &[Claim]) -> bool {
        let path = match error {
            Error::Io { operation: "read", path, .. } | Error::Corruption { path, .. } => path,
            Error::Io { operation: "open", path, source } if !is_shortage(source) => path,
            // All other operations are those on outputs.
            _ => return false,
        };
        let mut catalog = self.catalog.lock();
        let is_new = match path.file_name().and_then(|name| names::parse(name.to_str()?)) {
            Some(Kind::Values(id)) => catalog.met_unreadable_values(id),
            Some(Kind::Table(id) | Kind::Log(id)) => Some(catalog.met_unreadable_slices(id, claims)),
            _ => None,
        };
        let Some(is_new) = is_new else { return false };
        self.choose_collected(&mut catalog);
        is_new
    }

    /// Called when all plans that are left touch damage. Ends the round of collection, so that other files are collected. Returns whether
    /// there was a round.
    pub(super) fn end_round_at_damage(&self, catalog: &mut Catalog) -> bool {
        let was_round = catalog.end_round_at_damage();
        if was_round {
            self.choose_collected(catalog);
        }
        was_round
    }

    /// How many damages merges leave alone now.
    pub fn damages(&self) -> usize {
        self.catalog.lock().damages().count()
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

    #[test]
    fn a_damage_waits_twice_as_long_after_each_failure() {
        let mut damages = Damages::default();
        for wait in [16, 32, 64] {
            assert!(damages.met(FileId(7), vec![claim("b", "d")], [FileId(1)].into()));
            assert!(!damages.met(FileId(7), vec![claim("b", "d")], [].into()), "it waits already");
            for _ in 0..wait {
                assert_eq!((damages.count(), damages.avoided()), (1, vec![claim("b", "d")]));
                assert_eq!(damages.pinned(), [FileId(1)].into());
                damages.merge_ended();
            }
            assert_eq!((damages.count(), damages.avoided(), damages.pinned()), (0, vec![], [].into()));
        }
        damages.met(FileId(7), vec![claim("b", "d")], [FileId(1)].into());
        damages.end_waits();
        assert_eq!((damages.count(), damages.pinned()), (0, [].into()), "a caller asks for another attempt");
        damages.met(FileId(7), vec![claim("e", "f")], BTreeSet::new());
        (0..16).for_each(|_| damages.merge_ended());
        assert_eq!(damages.count(), 0, "other slices of the file wait for 16 merges");
    }

    #[test]
    fn one_place_is_one_damage() {
        let mut damages = Damages::default();
        damages.met(FileId(7), vec![claim("b", "d"), claim("f", "g")], BTreeSet::new());
        damages.met(FileId(7), vec![claim("c", "f")], BTreeSet::new());
        assert_eq!(damages.avoided(), [claim("c", "f")]);
        for low in ["m", "n", "o"] {
            assert!(!damages.is_damaged_all_over(FileId(7)));
            damages.met(FileId(7), vec![claim(low, low)], BTreeSet::new());
        }
        assert!(damages.is_damaged_all_over(FileId(7)));
    }

    /// With more than 64 damages each new one replaces an old one, which is then met again. If other plans went on after each failure,
    /// merges would fail without end.
    #[test]
    fn other_plans_do_not_go_on_when_a_damage_makes_room() {
        let mut damages = Damages::default();
        let mut met = |file, claims| damages.met(FileId(file), claims, BTreeSet::new());
        assert!((1..=64).all(|file| met(file, vec![claim("x", "y")])));
        assert!((101..=200).all(|file| met(file, Vec::new())), "value files are not counted");
        assert!(!met(65, vec![claim("x", "y")]) && !met(1, vec![claim("x", "y")]));
        assert_eq!((damages.avoided().len(), damages.unreadable().len()), (64, 100));
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
