//! Tests of tables that point into logs, as seen by the state.

use super::*;
use crate::value::{BodyFile, BodyKind, BodyUse};
use crate::version::state::ValueFile;
use crate::version::usage::rent::Paid;

fn of_kind(kind: BodyKind, id: u64, live_bytes: u64, bytes: u64) -> BodyUse {
    BodyUse { file: BodyFile { kind, tier: TierId::FAST, id: FileId(id), bytes }, live_bytes }
}

fn body(log: u64, live_bytes: u64, bytes: u64) -> BodyUse {
    of_kind(BodyKind::Log, log, live_bytes, bytes)
}

fn values(id: u64, live_bytes: u64, bytes: u64) -> BodyUse {
    of_kind(BodyKind::Values, id, live_bytes, bytes)
}

fn log_table(id: u64, low: &str, high: &str, bodies: &[BodyUse]) -> NewTable {
    NewTable { bodies: bodies.to_vec(), ..table(FileId(id), low, high, (id, id)) }
}

fn replay_from(log: u64) -> Change {
    Change::ReplayFrom { family: FAMILY, log: FileId(log) }
}

fn bodies(state: &State) -> Vec<(u64, u64)> {
    state.log_bodies().iter().map(|(id, body)| (id.0, body.file.bytes)).collect()
}

#[test]
fn a_log_is_known_as_long_as_a_table_points_into_it() {
    let mut edit = added(0, 1, &log_table(8, "a", "c", &[body(4, 300, 900), body(3, 200, 500)]));
    edit.push(Change::LogSealed { log: FileId(4), bytes: 900 });
    edit.push(replay_from(7));
    let state = state().apply(&edit).unwrap();
    let second = added(0, 2, &log_table(9, "d", "f", &[body(4, 10, 900)]));
    let state = state.apply(&second).unwrap();
    assert_eq!(bodies(&state), [(3, 500), (4, 900)]);
    // No family replays these logs, so a seal alone would be forgotten. A body keeps the length known.
    let of = |state: &State, log| state.sealed_bytes(FileId(log));
    assert_eq!((of(&state, 3), of(&state, 4), of(&state, 5)), (Some(500), Some(900), None));
    assert!([3, 4].into_iter().all(|log| state.logs_named().any(|named| named == FileId(log))));

    let again = State::empty(store()).apply(&state.snapshot_edit()).unwrap();
    assert_eq!(bodies(&again), bodies(&state));
    assert_eq!(again.snapshot_edit(), state.snapshot_edit());
    let file = again.table(FileId(8)).unwrap();
    assert_eq!((file.body_bytes(), file.full_bytes()), (500, 108 + 500));

    let mut edit = Edit::default();
    edit.remove_slice(
        FAMILY,
        run(0, 1),
        &Slice::new(file.clone(), part("a", "c", (8, 8)), Paid::default(), 0),
    );
    let after = again.apply(&edit).unwrap();
    assert_eq!((bodies(&after), of(&after, 3)), (vec![(4, 900)], None));
    // A holder of the old state, such as a view, keeps its bodies.
    assert_eq!(bodies(&again), [(3, 500), (4, 900)]);
}

#[test]
fn the_bytes_of_slices_count_values_in_bodies() {
    let mut sound = log_table(8, "a", "c", &[body(3, 400, 500)]);
    sound.parts[0].bytes = 508;
    assert!(state().apply(&added(0, 1, &sound)).is_ok());
    sound.parts[0].bytes = 509;
    assert!(why(state().apply(&added(0, 1, &sound))).contains("larger than the table"));
}

#[test]
fn bodies_that_contradict_something_are_refused() {
    let sealed = Change::LogSealed { log: FileId(4), bytes: 900 };
    let cut = Change::LogCut { log: FileId(5), offset: 70, resume: FileId(6) };
    let base = state().apply(&Edit { changes: vec![sealed, cut] }).unwrap();
    let base = base.apply(&added(0, 1, &log_table(8, "a", "c", &[body(3, 1, 500)]))).unwrap();
    let tried = |bodies: &[BodyUse]| base.apply(&added(0, 2, &log_table(9, "a", "c", bodies)));
    assert!(tried(&[body(3, 1, 500), body(4, 900, 900), body(5, 1, 70), body(6, 0, 9)]).is_ok());
    assert!(why(tried(&[body(6, 10, 9)])).contains("impossible bodies"));
    assert!(why(tried(&[body(6, 1, 9), body(6, 1, 9)])).contains("impossible bodies"));
    for other in [body(3, 1, 501), body(4, 1, 899), body(5, 1, 71)] {
        assert!(why(tried(&[other])).contains("ended elsewhere"));
    }
    let later = [
        Change::LogSealed { log: FileId(3), bytes: 501 },
        Change::LogCut { log: FileId(3), offset: 499, resume: FileId(6) },
        Change::TableBodies { table: FileId(8), bodies: vec![body(6, 1, 9)] },
    ];
    let refused = later.map(|change| why(base.apply(&Edit { changes: vec![change] })));
    assert!(refused[0].contains("ended elsewhere") && refused[1].contains("cut elsewhere"), "{refused:?}");
    assert!(refused[2].contains("does not add"), "{refused:?}");
    let mut twice = added(0, 2, &log_table(9, "a", "c", &[body(6, 1, 9)]));
    twice.push(Change::TableBodies { table: FileId(9), bodies: vec![body(7, 1, 9)] });
    assert!(why(base.apply(&twice)).contains("named twice"));
}

#[test]
fn bodies_are_compared_with_the_directory() {
    let state = state().apply(&added(0, 1, &log_table(8, "a", "c", &[body(3, 1, 500)]))).unwrap();
    let check = |found: &[(u64, u64)]| {
        let found: Vec<_> = found.iter().map(|&(id, bytes)| (FileId(id), bytes)).collect();
        state.check_bodies(dir(), &found).map_err(|error| error.to_string())
    };
    assert_eq!(check(&[(2, 7), (3, 500), (9, 0)]), Ok(()));
    assert_eq!(check(&[(3, 4096)]), Ok(()), "space behind a log is not part of it");
    assert!(check(&[(2, 7)]).unwrap_err().contains("000003.log"));
    assert!(check(&[(3, 499)]).unwrap_err().contains("499 bytes instead of 500"));
}

/// A table whose one slice leads into value files: the bytes of its records in each.
fn value_table(id: u64, low: &str, high: &str, bodies: &[BodyUse], records: &[(u64, u64)]) -> NewTable {
    let mut table = log_table(id, low, high, bodies);
    table.parts[0].values = records.iter().map(|&(file, bytes)| (FileId(file), bytes)).collect();
    table
}

#[test]
fn a_value_file_is_known_as_long_as_a_table_points_into_it() {
    let files = |state: &State| -> Vec<(u64, u64, u32, u64)> {
        let row = |(id, file): (&FileId, &ValueFile)| (id.0, file.bytes, file.tables, file.live_bytes);
        state.value_files().iter().map(row).collect()
    };
    let first = value_table(8, "a", "c", &[values(4, 300, 900), body(3, 200, 500)], &[(4, 320)]);
    let second = value_table(9, "d", "f", &[values(4, 10, 900), values(5, 7, 60)], &[(4, 30), (5, 27)]);
    let state = state().apply(&added(0, 1, &first)).unwrap().apply(&added(0, 2, &second)).unwrap();
    assert_eq!(files(&state), [(4, 900, 2, 350), (5, 60, 1, 27)]);
    assert_eq!((bodies(&state), state.sealed_bytes(FileId(4))), (vec![(3, 500)], None), "it is no log");
    assert_eq!(state.value_files()[&FileId(5)].garbage_bytes(), 3, "a header of 30 bytes is no garbage");
    let again = State::empty(store()).apply(&state.snapshot_edit()).unwrap();
    assert_eq!((files(&again), again.snapshot_edit()), (files(&state), state.snapshot_edit()));

    let tried = |table: &NewTable| again.apply(&added(0, 3, table));
    let longer = log_table(10, "g", "h", &[values(4, 1, 901)]);
    assert!(why(tried(&longer)).contains("file 000004 is a body of 901 bytes, but ended elsewhere"));
    let unnamed = value_table(10, "g", "h", &[values(4, 1, 900)], &[(5, 1)]);
    assert!(why(tried(&unnamed)).contains("in file 000005"));
    let too_many = value_table(10, "g", "h", &[values(4, 1, 900)], &[(4, 551)]);
    assert!(why(tried(&too_many)).contains("551 bytes"));

    let mut edit = Edit::default();
    let slice =
        Slice::new(again.table(FileId(9)).unwrap().clone(), second.parts[0].clone(), Paid::default(), 0);
    edit.remove_slice(FAMILY, run(0, 2), &slice);
    let mut after = again.apply(&edit).unwrap();
    assert_eq!(files(&after), [(4, 900, 1, 320)]);

    let mut check = |found: &[(u64, u64)]| {
        let found: Vec<_> = found.iter().map(|&(id, bytes)| super::found(id, bytes)).collect();
        after.check_value_files(&TierDirs::from(dir()), &found).map_err(|error| error.to_string())
    };
    assert_eq!(
        check(&[(4, 900), (5, 60)]),
        Ok(vec![(TierId::FAST, FileId(5))]),
        "nothing points into file 5"
    );
    assert_eq!(check(&[(4, 901)]), Ok(vec![]), "what lies behind the committed length is ignored");
    assert!(check(&[]).unwrap_err().contains("000004.values"));
    assert!(check(&[(4, 899)]).unwrap_err().contains("899 bytes instead of 900"));
    assert_eq!(check(&[(4, 950)]), Ok(vec![]));
    let file = after.value_files()[&FileId(4)];
    assert_eq!((file.total_bytes(), file.garbage_bytes()), (950, 950 - 30 - 320), "the tail is garbage");
}
