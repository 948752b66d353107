//! Tests of the shape of the tree and of the state; the submodules test the manifest, cuts and bodies.

mod bodies;
mod cut;
mod known_tiers;
mod manifest;
mod open_files;

use super::state::Cut;
use super::*;
use crate::base::counters::LEVELS;
use crate::base::ids::{FamilyId, FileId, SeqNo, TierId};
use crate::base::key::KeyRange;
use crate::base::part::Part;
use crate::base::tier_dirs::TierDirs;
use crate::version::state::edit::Reject;
use crate::version::usage::rent::Paid;
use braidb_storage::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

const FAMILY: FamilyId = FamilyId::DEFAULT;

fn dir() -> &'static Path {
    Path::new("db")
}

fn part(low: &str, high: &str, seqs: (SeqNo, SeqNo)) -> Part {
    Part {
        range: KeyRange::new(low, high),
        seqs,
        entries: 10,
        tombstones: 1,
        keys: 9,
        bytes: 100,
        values: Vec::new(),
    }
}

fn table(id: FileId, low: &str, high: &str, seqs: (SeqNo, SeqNo)) -> NewTable {
    let parts = vec![part(low, high, seqs)];
    NewTable { id, bytes: 100 + id.0, checksum: 7, tier: TierId::FAST, parts, bodies: Vec::new() }
}

fn run(level: usize, epoch: u64) -> RunId {
    RunId { level, cell: Vec::new(), epoch }
}

fn added(level: usize, epoch: u64, table: &NewTable) -> Edit {
    let mut edit = Edit::default();
    edit.add_whole_table(FAMILY, &run(level, epoch), table);
    edit
}

fn store() -> Arc<TableStore> {
    TableStore::detached(Arc::new(SimFs::new()), dir())
}

fn state() -> State {
    let first_log = Change::ReplayFrom { family: FAMILY, log: FileId(2) };
    State::initial(store(), FileId(2)).apply(&Edit { changes: vec![first_log] }).unwrap()
}

/// A file on the fast tier.
fn found(id: u64, bytes: u64) -> FoundFile {
    FoundFile { tier: TierId::FAST, id: FileId(id), bytes, hole_bytes: 0 }
}

fn version(state: &State) -> &Version {
    &state.families()[&FAMILY].version
}

fn why(outcome: Result<State, Reject>) -> String {
    match outcome {
        Err(Reject::Wrong(what) | Reject::Unsupported(what)) => what,
        Ok(_) => panic!("the edit was accepted"),
    }
}

#[test]
fn lookups_find_the_slice_and_what_lies_beneath() {
    let mut state = state();
    for (id, level, low, high) in [(2, 1, "b", "d"), (3, 1, "f", "h"), (4, 2, "a", "c"), (5, 3, "g", "z")] {
        let table = table(FileId(id), low, high, (id, id));
        state = state.apply(&added(level, 1, &table)).unwrap();
    }
    let version = version(&state);
    let find =
        |key: &str| version.level(1).cell(key.as_bytes()).runs[0].find(key.as_bytes()).map(|s| s.table.id.0);
    assert_eq!(["a", "b", "d", "e", "h", "i"].map(find), [None, Some(2), Some(2), None, Some(3), None]);

    let beneath = Beneath::new(version, 1, &KeyRange::new("a", "h"), |slice| slice.table.id == FileId(2));
    let held = |key: &str| beneath.may_hold(key.as_bytes());
    assert_eq!(["a", "b", "d", "e", "f", "h"].map(held), [true, true, false, false, true, true]);
    assert_eq!((version.last_level(), version.level(1).totals().slices), (3, 2));

    let slice = Arc::downgrade(version.level(2).slices().next().unwrap().2);
    drop(state);
    assert!(slice.upgrade().is_none() && beneath.may_hold(b"a"), "`Beneath` holds no table");
}

/// In a merge's own cell, only runs older than its inputs may hold versions that a tombstone hides.
#[test]
fn newer_runs_of_a_cell_do_not_lie_beneath() {
    let mut state = state();
    for (id, low, high) in [(2, "a", "c"), (3, "b", "d"), (4, "c", "e")] {
        state = state.apply(&added(1, id, &table(FileId(id), low, high, (id, id)))).unwrap();
    }
    let held = |input: u64, key: &str| {
        let is_input = |slice: &Slice| slice.table.id == FileId(input);
        Beneath::new(version(&state), 1, &KeyRange::new("a", "e"), is_input).may_hold(key.as_bytes())
    };
    assert_eq!(["a", "b", "d", "e"].map(|key| held(2, key)), [false; 4], "below the oldest");
    assert_eq!(["a", "b", "d", "e"].map(|key| held(3, key)), [true, true, false, false]);
    assert_eq!(["a", "b", "d", "e"].map(|key| held(4, key)), [true, true, true, false], "below the newest");
}

#[test]
fn what_does_not_fit_is_refused() {
    let low = table(FileId(2), "b", "d", (5, 9));
    let state = state()
        .apply(&added(1, 1, &low))
        .unwrap()
        .apply(&added(0, 2, &table(FileId(3), "a", "z", (10, 12))))
        .unwrap();
    let one = |change| state.apply(&Edit { changes: vec![change] });
    let again = |level, epoch, low: &str, high: &str, seqs| {
        why(state.apply(&added(level, epoch, &table(FileId(4), low, high, seqs))))
    };
    assert!(again(1, 1, "a", "b", (1, 1)).contains("overlaps another of its run"));
    assert!(again(1, 1, "d", "e", (1, 1)).contains("overlaps another of its run"));
    assert!(again(1, 1, "c", "c", (1, 1)).contains("overlaps another of its run"));
    assert!(again(0, 2, "zz", "zz", (13, 14)).contains("two runs of level 0 have epoch 2"));
    assert!(why(state.apply(&added(2, 1, &low))).contains("added twice"));

    let mut cell = added(1, 1, &table(FileId(4), "x", "y", (1, 1)));
    let Change::SliceAdded { run: place, .. } = &mut cell.changes[1] else { panic!() };
    place.cell = b"m".to_vec();
    assert!(why(state.apply(&cell)).contains("wrong cell"));

    let removed = |level, epoch, table, low: &str| {
        let run = run(level, epoch);
        why(one(Change::SliceRemoved { family: FAMILY, run, table: FileId(table), low: low.into() }))
    };
    assert!(removed(1, 2, 2, "b").contains("no such slice"));
    assert!(removed(1, 1, 3, "b").contains("no such slice"));
    assert!(removed(1, 1, 2, "c").contains("no such slice"));
    assert!(removed(2, 1, 2, "b").contains("no such slice"));

    let bare = Change::TableAdded { id: FileId(9), bytes: 1, checksum: 0, tier: TierId::FAST };
    assert!(why(one(bare)).contains("without a slice"));
    let elsewhere = Change::TableAdded { id: FileId(9), bytes: 1, checksum: 0, tier: TierId(3) };
    assert!(why(one(elsewhere)).contains("tier 3"));
    assert!(why(one(Change::NextFile(FileId(3)))).contains("falls"));
    assert!(why(one(Change::LastSeq(11))).contains("falls"));
    assert!(why(one(Change::ReplayFrom { family: FAMILY, log: FileId(1) })).contains("falls"));
    assert!(
        why(one(Change::ReplayFrom { family: FamilyId(1), log: FileId(9) })).contains("no column family")
    );
    assert!(why(one(Change::LogCut { log: FileId(5), offset: 0, resume: FileId(5) })).contains("resumes"));
    let family = |id, name: &str, comparator: &str| {
        let (name, comparator) = (name.to_owned(), comparator.to_owned());
        why(one(Change::FamilyCreated { id: FamilyId(id), name, comparator, replay_from: FileId(2) }))
    };
    assert!(family(0, "new", "bytewise").contains("not a new one"));
    assert!(family(1, "default", "bytewise").contains("not a new one"));
    assert!(family(1, "new", "reverse").contains("comparator"));
}

#[test]
fn impossible_counts_are_refused() {
    let sound = table(FileId(2), "a", "b", (3, 4));
    for broken in [
        Part { entries: 0, tombstones: 0, keys: 0, ..sound.parts[0].clone() },
        Part { tombstones: 11, ..sound.parts[0].clone() },
        Part { keys: 11, ..sound.parts[0].clone() },
        Part { keys: 0, ..sound.parts[0].clone() },
        Part { seqs: (5, 4), ..sound.parts[0].clone() },
    ] {
        let broken = NewTable { parts: vec![broken], ..sound.clone() };
        assert!(why(state().apply(&added(0, 1, &broken))).contains("impossible"));
    }
    assert!(state().apply(&added(0, 1, &sound)).is_ok());
}

#[test]
fn numbers_resume_above_everything_seen() {
    let state = state().apply(&added(0, 1, &table(FileId(40), "a", "b", (3, 99)))).unwrap();
    assert_eq!((state.next_file(), state.last_seq()), (FileId(41), 99));
    let state =
        state.apply(&Edit { changes: vec![Change::LogSealed { log: FileId(50), bytes: 1 }] }).unwrap();
    assert_eq!(state.next_file(), FileId(51));
}

#[test]
fn a_table_leaves_with_its_last_slice_and_a_move_keeps_it() {
    let first = state().apply(&added(0, 1, &table(FileId(2), "a", "b", (3, 4)))).unwrap();
    let slice = version(&first).slices().next().unwrap().clone();
    let mut moved = Edit::default();
    moved.add_slice(FAMILY, run(1, 1), slice.table.id, slice.part());
    moved.remove_slice(FAMILY, run(0, 1), &slice);
    let second = first.apply(&moved).unwrap();
    assert!(Arc::ptr_eq(first.table(FileId(2)).unwrap(), second.table(FileId(2)).unwrap()));
    assert!(version(&second).level(0).is_empty());
    let mut removed = Edit::default();
    removed.remove_slice(FAMILY, run(1, 1), &slice);
    let third = second.apply(&removed).unwrap();
    assert_eq!((third.tables().count(), version(&third).slices().count()), (0, 0));
    assert_eq!(version(&first).level(0).runs(), 1, "an old version never changes");
}

#[test]
fn what_is_known_of_logs_goes_when_no_family_replays_them() {
    let mut edit = Edit::default();
    edit.push(Change::LogSealed { log: FileId(3), bytes: 10 });
    edit.push(Change::LogCut { log: FileId(4), offset: 77, resume: FileId(8) });
    let first = state().apply(&edit).unwrap();
    assert_eq!(first.sealed_bytes(FileId(3)), Some(10));
    assert_eq!(first.cut_of(FileId(4)), Some(Cut { offset: 77, resume: FileId(8), is_covered: false }));
    let covered = |log| first.apply(&Edit { changes: vec![Change::CutCovered { log: FileId(log) }] });
    assert!(covered(4).unwrap().cut_of(FileId(4)).unwrap().is_covered);
    assert!(why(covered(3)).contains("not cut"));
    let aside: Vec<u64> = (1..12).filter(|&log| first.is_set_aside(FileId(log))).collect();
    assert_eq!(aside, [5, 6, 7]);
    let cut = |state: &State, log, offset, resume| {
        let change = Change::LogCut { log: FileId(log), offset, resume: FileId(resume) };
        state.apply(&Edit { changes: vec![change] })
    };
    assert!(why(cut(&first, 3, 5, 9)).contains("sealed"));
    assert!(why(cut(&first, 4, 76, 9)).contains("cut elsewhere"));
    assert!(cut(&first, 4, 77, 9).unwrap().is_set_aside(FileId(8)), "a repeated recovery may resume later");

    let from = |log| Edit { changes: vec![Change::ReplayFrom { family: FAMILY, log: FileId(log) }] };
    let second = first.apply(&from(7)).unwrap();
    assert_eq!((second.sealed_bytes(FileId(3)), second.is_set_aside(FileId(7))), (None, true));
    let third = second.apply(&from(8)).unwrap();
    assert_eq!(third.cut_of(FileId(4)), None);
    assert_eq!(third.min_replay_from(), FileId(8));
}

/// A database with two families, two levels, a cut and a sealed log.
fn sample_edits() -> Vec<Edit> {
    let mut family = Edit::default();
    family.push(Change::FamilyCreated {
        id: FamilyId(1),
        name: "other".into(),
        comparator: "bytewise".into(),
        replay_from: FileId(3),
    });
    family.push(Change::LogSealed { log: FileId(3), bytes: 4096 });
    let mut flush = added(0, 1, &table(FileId(4), "a", "m", (1, 5)));
    flush.push(Change::ReplayFrom { family: FAMILY, log: FileId(3) });
    flush.push(Change::LogCut { log: FileId(6), offset: 512, resume: FileId(9) });
    flush.push(Change::CutCovered { log: FileId(6) });
    let mut merge = added(1, 2, &table(FileId(9), "a", "m", (1, 5)));
    merge.push(Change::SliceRemoved { family: FAMILY, run: run(0, 1), table: FileId(4), low: b"a".to_vec() });
    vec![family, flush, merge, added(0, 3, &table(FileId(10), "b", "c", (6, 8)))]
}

#[test]
fn a_snapshot_is_the_whole_state() {
    let state = sample_edits().iter().fold(state(), |state, edit| state.apply(edit).unwrap());
    let snapshot = Edit::decode(&state.snapshot_edit().encode()).unwrap();
    let copy = State::empty(store()).apply(&snapshot).unwrap();
    assert_eq!(copy.snapshot_edit(), state.snapshot_edit());
    assert_eq!(copy.families().len(), 2);
    assert_eq!(copy.check(), Ok(()));
}

#[test]
fn tables_are_compared_with_the_directory() {
    let state = sample_edits().iter().fold(state(), |state, edit| state.apply(edit).unwrap());
    let dirs = &TierDirs::from(dir());
    let found = [(4, 104), (9, 109), (10, 110)].map(|(id, bytes)| found(id, bytes));
    assert_eq!(state.check_tables(dirs, &found).unwrap(), [(TierId::FAST, FileId(4))]);
    let missing = state.check_tables(dirs, &found[..2]).unwrap_err();
    assert!(missing.to_string().contains("000010.table"), "{missing}");
    let short = state.check_tables(dirs, &[found[1], FoundFile { bytes: 109, ..found[2] }]).unwrap_err();
    assert!(short.is_corruption() && short.to_string().contains("instead of 110"), "{short}");
    assert_eq!(version(&state).levels().len(), LEVELS);
}

/// A change that gives a guard another top level.
fn guard(key: &str, top: usize) -> Change {
    Change::Guard { family: FAMILY, key: key.as_bytes().to_vec(), top }
}

/// A slice of table `id` that joins the run `epoch` of the cell `cell`.
fn slice(level: usize, cell: &str, epoch: u64, id: u64, low: &str, high: &str) -> Change {
    let run = RunId { level, cell: cell.as_bytes().to_vec(), epoch };
    Change::SliceAdded { family: FAMILY, run, table: FileId(id), part: part(low, high, (id, id)) }
}

fn cells(state: &State, level: usize) -> Vec<(String, Vec<u64>)> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let cells = version(state).level(level).cells.iter();
    cells.map(|cell| (text(&cell.low), cell.runs.iter().map(|run| run.epoch).collect())).collect()
}

#[test]
fn guards_cut_their_level_and_all_below_it() {
    let mut edit = added(2, 7, &table(FileId(2), "b", "d", (2, 2)));
    edit.changes.extend(added(2, 7, &table(FileId(3), "m", "p", (3, 3))).changes);
    edit.changes.extend(added(2, 9, &table(FileId(4), "q", "z", (4, 4))).changes);
    let plain = state().apply(&edit).unwrap();
    let state = plain.apply(&Edit { changes: vec![guard("m", 2)] }).unwrap();
    let all = |cells: &[(&str, &[u64])]| -> Vec<(String, Vec<u64>)> {
        cells.iter().map(|(low, epochs)| ((*low).to_owned(), epochs.to_vec())).collect()
    };
    assert_eq!(cells(&state, 1), all(&[("", &[])]));
    assert_eq!(cells(&state, 2), all(&[("", &[7]), ("m", &[9, 7])]));
    assert_eq!(cells(&state, 3), all(&[("", &[]), ("m", &[])]));
    assert_eq!(version(&state).level(2).span(0).end.as_deref(), Some(&b"m"[..]));
    let inside = KeyRange::new("a", "m");
    assert_eq!(version(&state).level(2).guards_inside(&inside).collect::<Vec<_>>(), [b"m"]);

    let higher = state.apply(&Edit { changes: vec![guard("m", 1)] }).unwrap();
    assert_eq!(cells(&higher, 1), all(&[("", &[]), ("m", &[])]));
    let snapshot = State::empty(store()).apply(&higher.snapshot_edit()).unwrap();
    assert_eq!(
        (cells(&snapshot, 2), version(&snapshot).guards()),
        (cells(&higher, 2), version(&higher).guards())
    );
    let gone = higher.apply(&Edit { changes: vec![guard("m", LEVELS)] }).unwrap();
    assert_eq!((cells(&gone, 2), version(&gone).guards().len()), (cells(&plain, 2), 0));
}

#[test]
fn what_reaches_over_a_guard_is_cut_in_the_edit_that_sets_it() {
    let state = state().apply(&added(2, 7, &table(FileId(2), "b", "p", (2, 2)))).unwrap();
    let removed =
        Change::SliceRemoved { family: FAMILY, run: run(2, 7), table: FileId(2), low: b"b".to_vec() };
    let parts = [slice(2, "", 7, 2, "b", "k"), slice(2, "m", 7, 2, "n", "p")];
    let apply = |changes: &[Change]| state.apply(&Edit { changes: changes.to_vec() });
    assert!(why(apply(&[guard("m", 2)])).contains("within a slice"));
    assert!(
        why(apply(&[removed.clone(), guard("m", 2), slice(2, "", 7, 2, "b", "p")]))
            .contains("end of its cell")
    );
    assert!(why(apply(&[removed.clone(), parts[0].clone(), parts[1].clone()])).contains("wrong cell"));
    assert!(why(apply(&[guard("", 2)])).contains("impossible"));
    let cut = apply(&[removed, guard("m", 2), parts[0].clone(), parts[1].clone()]).unwrap();
    assert_eq!(cells(&cut, 2), [(String::new(), vec![7]), ("m".to_owned(), vec![7])]);
    assert!(cut.table(FileId(2)).is_some());

    // The table stays as long as one of its two slices.
    let take = |state: &State, cell: &str, low: &str| {
        let run = RunId { level: 2, cell: cell.as_bytes().to_vec(), epoch: 7 };
        let change =
            Change::SliceRemoved { family: FAMILY, run, table: FileId(2), low: low.as_bytes().to_vec() };
        state.apply(&Edit { changes: vec![change] }).unwrap()
    };
    let half = take(&cut, "", "b");
    let file = half.table(FileId(2)).unwrap();
    drop((cut, state));
    assert_eq!(file.held(), [KeyRange::new("n", "p")]);
    assert!(take(&half, "m", "n").table(FileId(2)).is_none());
}

/// An edit moves a slice and cuts it in two. The pieces inherit its rent in proportion to their bytes; the output of a merge starts without
/// rent.
#[test]
fn rent_goes_with_a_slice_and_ends_with_it() {
    let state = state().apply(&added(0, 3, &table(FileId(2), "a", "z", (5, 9)))).unwrap();
    let paid =
        |state: &State| -> Vec<u64> { version(state).slices().map(|slice| slice.paid().cursors).collect() };
    let slice = version(&state).slices().next().unwrap().clone();
    slice.charge(Paid { cursors: 10, ..Paid::default() });
    let mut moved = Edit::default();
    moved.remove_slice(FAMILY, run(0, 3), &slice);
    let pieces = [("a", "k", 30), ("l", "z", 70)];
    for (low, high, bytes) in pieces {
        moved.add_slice(FAMILY, run(1, 3), slice.table.id, &Part { bytes, ..part(low, high, (5, 9)) });
    }
    let moved = state.apply(&moved).unwrap();
    assert_eq!((paid(&moved), paid(&state)), (vec![3, 7], vec![10]));
    let mut merged = Edit::default();
    version(&moved).slices().for_each(|slice| merged.remove_slice(FAMILY, run(1, 3), slice));
    merged.add_whole_table(FAMILY, &run(1, 3), &table(FileId(4), "a", "z", (5, 9)));
    assert_eq!(paid(&moved.apply(&merged).unwrap()), [0]);
}
