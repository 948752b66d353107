//! Tests of the tiers of the state.

use super::*;
use crate::base::ids::{DatabaseId, Epoch};
use crate::value::{BodyFile, BodyKind, BodyUse};
use std::path::PathBuf;

const SLOW: TierId = TierId(1);

fn one(change: Change) -> Edit {
    Edit { changes: vec![change] }
}

fn place(id: TierId, path: &str) -> Change {
    Change::TierPlace { id, path: PathBuf::from(path) }
}

/// An edit that gives these tiers one epoch.
fn raised(tiers: &[TierId], epoch: Epoch) -> Edit {
    Edit { changes: tiers.iter().map(|&id| Change::Tier { id, epoch }).collect() }
}

/// A database with a slow tier at epoch 5.
fn tiered() -> State {
    let mut edit = raised(&[TierId::FAST, SLOW], 5);
    edit.changes.extend([place(SLOW, "/slow"), place(TierId::FAST, "/db")]);
    edit.push(Change::DatabaseId(DatabaseId([7; 16])));
    state().apply(&edit).unwrap()
}

fn slow_table(id: u64, bodies: Vec<BodyUse>) -> NewTable {
    NewTable { tier: SLOW, bodies, ..table(FileId(id), "a", "c", (id, id)) }
}

fn slow_values(id: u64, tier: TierId) -> BodyUse {
    BodyUse { file: BodyFile { kind: BodyKind::Values, tier, id: FileId(id), bytes: 900 }, live_bytes: 300 }
}

/// The state that a snapshot of `state` gives.
fn again(state: &State) -> State {
    let snapshot = Edit::decode(&state.snapshot_edit().encode()).unwrap();
    let again = State::empty(store()).apply(&snapshot).unwrap();
    assert_eq!(again.snapshot_edit(), state.snapshot_edit());
    again
}

#[test]
fn tiers_come_back_with_their_places() {
    let state = again(&tiered());
    let tiers: Vec<_> = state.tiers().map(|tier| (tier.id, tier.epoch, tier.place.unwrap())).collect();
    assert_eq!(tiers, [(TierId::FAST, 5, Path::new("/db")), (SLOW, 5, Path::new("/slow"))]);
    assert_eq!((state.database(), state.last_tier()), (Some(DatabaseId([7; 16])), SLOW));
    let moved = again(&state.apply(&one(place(SLOW, "/moved"))).unwrap());
    assert_eq!(moved.tiers().nth(1).unwrap().place, Some(Path::new("/moved")));
}

#[test]
fn a_database_without_slow_tiers_has_the_fields_that_older_versions_know() {
    let fields = state().snapshot_edit().changes;
    let is_known = |change: &Change| {
        !matches!(change, Change::DatabaseId(_) | Change::TierPlace { .. } | Change::TierRemoved { .. })
    };
    assert!(fields.iter().all(is_known), "{fields:?}");
    assert_eq!((state().database(), state().last_tier()), (None, TierId::FAST));
}

#[test]
fn tiers_that_contradict_the_state_are_refused() {
    let state = tiered();
    let tried = |edit: Edit| why(state.apply(&edit));
    assert!(tried(raised(&[TierId::FAST, SLOW], 4)).contains("falls"));
    assert!(tried(raised(&[SLOW], 6)).contains("different epochs"));
    assert!(tried(one(Change::DatabaseId(DatabaseId([8; 16])))).contains("id of the database"));
    assert!(tried(one(place(TierId(2), "/x"))).contains("no tier 2"));
    assert!(tried(one(Change::TierRemoved { id: TierId(2) })).contains("no tier 2"));
    assert!(tried(one(Change::TierRemoved { id: TierId::FAST })).contains("files on it"));
    let without_id = super::state().apply(&raised(&[TierId::FAST, SLOW], 5));
    assert!(why(without_id).contains("no database id"));
}

#[test]
fn files_are_on_tiers_that_there_are() {
    let state = tiered();
    let add = |table: &NewTable| state.apply(&added(1, 1, table));
    let kept = again(&add(&slow_table(8, vec![slow_values(7, SLOW)])).unwrap());
    assert_eq!(kept.table(FileId(8)).unwrap().tier, SLOW);
    assert_eq!(kept.value_files()[&FileId(7)].tier, SLOW);
    assert!(why(add(&slow_table(8, vec![slow_values(7, TierId(2))]))).contains("tier 2"));
    let second = slow_table(9, vec![slow_values(7, TierId::FAST)]);
    assert!(why(kept.apply(&added(2, 1, &second))).contains("tier 0"));

    let dirs = TierDirs::new(dir(), [(SLOW, PathBuf::from("/slow"))].into());
    let here = [found(8, 108)];
    let missing = kept.check_tables(&dirs, &here).unwrap_err().to_string();
    assert!(missing.contains("/slow/000008.table"), "{missing}");
    let there = [here[0], FoundFile { tier: SLOW, ..here[0] }];
    assert_eq!(kept.check_tables(&dirs, &there).unwrap(), [(TierId::FAST, FileId(8))]);
    let values = FoundFile { tier: SLOW, ..found(7, 900) };
    assert_eq!(kept.clone().check_value_files(&dirs, &[values]).unwrap(), []);
    assert!(kept.clone().check_value_files(&dirs, &[found(7, 900)]).is_err());
}

#[test]
fn a_tier_goes_when_it_is_empty_and_its_id_is_not_given_again() {
    let state = tiered();
    let kept = state.apply(&added(1, 1, &slow_table(8, Vec::new()))).unwrap();
    let removal = || Change::TierRemoved { id: SLOW };
    assert!(why(kept.apply(&one(removal()))).contains("files on it"));
    let slice = version(&kept).slices().next().unwrap().clone();
    let mut edit = one(removal());
    edit.remove_slice(FAMILY, run(1, 1), &slice);
    let after = again(&kept.apply(&edit).unwrap());
    assert_eq!(after.tiers().map(|tier| tier.id).collect::<Vec<_>>(), [TierId::FAST]);
    assert_eq!((after.last_tier(), after.database()), (SLOW, Some(DatabaseId([7; 16]))));
    assert!(why(after.apply(&raised(&[TierId::FAST, SLOW], 9))).contains("given before"));
    assert!(after.apply(&raised(&[TierId::FAST, TierId(2)], 9)).is_ok());
}

#[test]
fn a_slow_cell_stays_alone() {
    let slow = slow_table(8, Vec::new());
    let fast = |low: &str, high: &str| table(FileId(9), low, high, (9, 9));
    let refused = |state: &State, edit: &Edit| why(state.apply(edit)).contains("beside other runs");
    let state = tiered();
    assert!(refused(&state, &added(0, 1, &slow)), "level 0 has other runs soon");
    let alone = state.apply(&added(1, 1, &slow)).unwrap();
    assert!(refused(&alone, &added(1, 2, &fast("a", "c"))), "a second run");
    assert!(refused(&alone, &added(2, 2, &fast("x", "z"))), "something beneath");
    assert!(alone.apply(&added(0, 2, &fast("a", "c"))).is_ok());
    let above = state.apply(&added(2, 1, &fast("x", "z"))).unwrap();
    assert!(refused(&above, &added(1, 2, &slow)), "it goes above another");

    // A guard parts the slow table from a fast one.
    let guard = |top| one(Change::Guard { family: FAMILY, key: b"m".to_vec(), top });
    let guarded = alone.apply(&guard(1)).unwrap();
    for level in [1, 2] {
        let mut edit = Edit::default();
        edit.add_whole_table(FAMILY, &RunId { level, cell: b"m".to_vec(), epoch: 2 }, &fast("x", "z"));
        let both = guarded.apply(&edit).unwrap();
        assert!(refused(&both, &guard(LEVELS)), "the cells become one");
    }
    assert!(guarded.apply(&guard(LEVELS)).is_ok());
}
