//! Holes that an excise punches into value files: what they free, what they spare, and when there are none.

use super::executor::{Bench, has_extension, is, options};
use super::{Db, Options};
use crate::base::error::Error;
use braidb_storage::sim::{Crash, Fault, Lasting, OpKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u32 = 1_000;
const VALUE_BYTES: usize = 1_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    key(number).repeat(VALUE_BYTES / 4)
}

fn value_options() -> Options {
    options()
        .memtable_bytes(1 << 20)
        .tuning(|tuning| tuning.separation_threshold(Some(100)).hot_keys_percent(0))
}

/// A database with four value files, each with keys from all over the range.
fn filled() -> Bench {
    filled_with(value_options())
}

fn filled_with(options: Options) -> Bench {
    let bench = Bench::new(options);
    for round in 0..4 {
        (0..KEYS / 4)
            .for_each(|number| bench.db.put(key(4 * number + round), value(4 * number + round)).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.settle().unwrap();
    bench
}

fn value_files(bench: &Bench) -> Vec<PathBuf> {
    bench.fs.files().into_iter().filter(|path| has_extension(path, "values")).collect()
}

/// Bytes that all value files take on the device.
fn space(bench: &Bench) -> u64 {
    value_files(bench).iter().map(|path| bench.fs.allocated_bytes(path).unwrap()).sum()
}

fn assert_has(db: &Db, is_left: impl Fn(u32) -> bool) {
    let rows = db.iter().map(|row| {
        let (key, found) = row.unwrap();
        let number = u32::from_be_bytes(key.try_into().unwrap());
        assert!(found == *value(number), "key {number}");
        number
    });
    assert_eq!(rows.collect::<Vec<_>>(), (0..KEYS).filter(|&number| is_left(number)).collect::<Vec<_>>());
    for number in 0..KEYS {
        assert_eq!(db.get(key(number)).unwrap().is_some(), is_left(number), "key {number}");
    }
    assert_eq!(db.verify().unwrap().damages, []);
}

/// Bytes of values that merges have read or written.
fn merged_value_bytes(db: &Db) -> u64 {
    let counts = db.stats().counts;
    counts.value_merge_bytes + counts.value_file_bytes
}

fn is_left(number: u32) -> bool {
    !(50..950).contains(&number)
}

fn excise(db: &Db) {
    db.excise([key(50)..key(950)]).unwrap();
    db.settle().unwrap();
}

#[test]
fn the_space_comes_back_without_a_copy() {
    let bench = filled();
    let (before, merged, files) = (space(&bench), merged_value_bytes(&bench.db), value_files(&bench));
    excise(&bench.db);
    assert_eq!(merged_value_bytes(&bench.db), merged);
    assert_eq!(value_files(&bench), files);
    let freed = before - space(&bench);
    assert!(freed > before * 8 / 10, "{freed} of {before} bytes");
    let stats = bench.db.stats();
    assert!(stats.counts.hole_bytes >= freed);
    let dead: u64 = stats.values.iter().map(|file| file.dead_bytes).sum();
    assert!(dead < before / 10, "{dead} of {before} bytes are garbage");
    assert_has(&bench.db, is_left);
    // A second excise reaches over the holes of the first one, and counts new bytes alone.
    bench.db.excise([key(20)..key(980)]).unwrap();
    assert_has(&bench.db, |number| !(20..980).contains(&number));
    assert_eq!(bench.db.stats().counts.hole_bytes, before - space(&bench));
}

/// The next open finds the holes, and collects nothing.
#[test]
fn an_open_knows_the_holes() {
    let bench = filled();
    excise(&bench.db);
    let dead = |db: &Db| db.stats().values.iter().map(|file| file.dead_bytes).sum::<u64>();
    let wanted = dead(&bench.db);
    let again = Bench::on(bench.fs.crash_image(Crash::Process, 1), value_options());
    assert_eq!(dead(&again.db), wanted);
    let written = merged_value_bytes(&again.db);
    again.db.settle().unwrap();
    assert_eq!(merged_value_bytes(&again.db), written);
    assert_has(&again.db, is_left);
}

/// Power fails behind the excise: each hole may be there or not. In small files blocks of tables have living and dead handles.
#[test]
fn a_crash_leaves_any_of_the_holes() {
    for memtable_bytes in [1 << 20, 64 << 10] {
        let options = || value_options().memtable_bytes(memtable_bytes);
        let bench = filled_with(options());
        bench.db.excise([key(50)..key(950)]).unwrap();
        assert_has(&bench.db, is_left);
        for seed in 0..8 {
            let again = Bench::on(bench.fs.crash_image(Crash::PowerTorn, seed), options());
            assert_has(&again.db, is_left);
            again.db.settle().unwrap();
            assert_has(&again.db, is_left);
        }
    }
}

/// Tables that go on in the state have a slice that the iterator holds, too.
#[test]
fn an_iterator_keeps_the_values_of_its_view() {
    let bench = filled();
    let open = bench.db.iter();
    excise(&bench.db);
    for (number, row) in (0..).zip(open) {
        let (found_key, found) = row.unwrap();
        assert_eq!(found_key, key(number));
        assert!(found == *value(number), "key {number}");
    }
    bench.db.settle().unwrap();
    assert_has(&bench.db, is_left);
}

/// Five tables of long keys lead into each value file. The excise takes most of them out of the state.
#[test]
fn an_iterator_keeps_the_values_of_tables_that_it_alone_holds() {
    let long = |number: u32| [key(number).as_slice(), &[b'k'; 1_000]].concat();
    let bench =
        Bench::new(value_options().memtable_bytes(4 << 20).tuning(|tuning| tuning.table_bytes(64 << 10)));
    for first in 0..2 {
        let numbers = (first..KEYS).step_by(2);
        numbers.for_each(|number| bench.db.put(long(number), &value(number)[..200]).unwrap());
        bench.db.flush().unwrap();
    }
    bench.db.compact().unwrap();
    let (tables, files) = (bench.names("table").len(), value_files(&bench).len());
    assert!(tables >= 4 * files, "{tables} tables lead into {files} value files");
    let open = bench.db.iter();
    excise(&bench.db);
    for (number, row) in (0..).zip(open) {
        let (found_key, found) = row.unwrap();
        assert!(found_key == long(number) && found == value(number)[..200], "key {number}");
    }
}

/// A file with a second name keeps its bytes: they are those of the checkpoint too.
#[test]
fn a_checkpoint_keeps_its_values() {
    let bench = filled();
    bench.db.checkpoint("/monday").unwrap();
    excise(&bench.db);
    assert_eq!(bench.db.stats().counts.hole_bytes, 0);
    assert_has(&bench.db, is_left);
    assert_has(&Bench::at("/monday", bench.fs.clone(), value_options()).db, |_| true);
}

/// Collection takes over where the file system refuses.
#[test]
fn without_holes_collection_frees_the_space() {
    let bench = filled();
    let before = space(&bench);
    bench.fs.fail_nth_where(1, Fault::Io, Lasting::ForEver, 1, is(OpKind::PunchHole, "values"));
    excise(&bench.db);
    let left = space(&bench);
    assert!(left < before / 3, "{left} of {before} bytes");
    assert_eq!(bench.db.stats().counts.hole_bytes, 0);
    assert_has(&bench.db, is_left);
}

/// A small excise reads no handles: its garbage waits for a collection.
#[test]
fn a_small_excise_punches_nothing() {
    let bench = filled();
    bench.db.excise([key(50)..key(150)]).unwrap();
    assert_eq!(bench.db.stats().counts.hole_bytes, 0);
    assert_has(&bench.db, |number| !(50..150).contains(&number));
}

#[test]
fn verify_finds_damage_beside_a_hole() {
    let bench = filled();
    excise(&bench.db);
    let path = &value_files(&bench)[0];
    let bytes = bench.fs.read_file(path).unwrap();
    // The first and the last record of the file are alive.
    for place in [100, bytes.len() - 1] {
        let mut bent = bytes.clone();
        bent[place] ^= 1;
        bench.fs.write_file(path, &bent).unwrap();
        let damages = bench.db.verify().unwrap().damages;
        assert!(
            damages.iter().any(|damage| damage.path.ends_with(path.file_name().unwrap())
                && (damage.offset..damage.offset + damage.bytes).contains(&(place as u64))),
            "{place}: {damages:?}"
        );
    }
    bench.fs.write_file(path, &bytes).unwrap();
    assert_eq!(bench.db.verify().unwrap().damages, []);
}

/// The dead value before the last block of a hole ends in zeros, so it matches its checksum although a part of it was punched out.
#[test]
fn verify_knows_holes_among_zeros() {
    for value_bytes in [1_000, 3_000, 4_076, 5_000] {
        let bench = Bench::new(value_options());
        (0..200).for_each(|number| bench.db.put(key(number), vec![0; value_bytes]).unwrap());
        bench.db.flush().unwrap();
        bench.db.settle().unwrap();
        bench.db.excise([key(3)..key(100), key(101)..key(102), key(104)..key(197)]).unwrap();
        assert!(bench.db.stats().counts.hole_bytes > 0);
        assert_eq!(bench.db.verify().unwrap().damages, [], "values of {value_bytes} bytes");
        for seed in 0..8 {
            let again = Bench::on(bench.fs.crash_image(Crash::PowerTorn, seed), value_options());
            assert_eq!(again.db.verify().unwrap().damages, [], "values of {value_bytes} bytes, seed {seed}");
        }
    }
}

/// Another process may be in the directory of a poisoned database.
#[test]
fn a_poisoned_handle_punches_no_further_hole() {
    let bench = filled();
    let engine = bench.db.engine().unwrap().clone();
    let punched = Arc::new(AtomicU64::new(0));
    let noted = punched.clone();
    bench.fs.fail_nth_where(u64::MAX, Fault::Io, Lasting::Once, 1, move |op| {
        if is(OpKind::PunchHole, "values")(op) {
            noted.fetch_add(1, Ordering::Relaxed);
            engine.shared.health.poison(Error::LockLost { path: op.path.to_path_buf() });
        }
        false
    });
    bench.db.excise([key(50)..key(950)]).unwrap();
    assert_eq!(punched.load(Ordering::Relaxed), 1);
    assert!(matches!(bench.db.put("k", "v"), Err(Error::Poisoned { .. })));
}

/// Excises of a tenth each: the first one takes too little of each file to punch holes.
#[test]
fn small_excises_add_up() {
    let bench = filled();
    let (before, merged) = (space(&bench), merged_value_bytes(&bench.db));
    for tenth in 0..9 {
        bench.db.excise([key(50 + 100 * tenth)..key(150 + 100 * tenth)]).unwrap();
    }
    assert!(space(&bench) < before / 4, "{} of {before} bytes are left", space(&bench));
    assert_eq!(merged_value_bytes(&bench.db), merged);
    assert_has(&bench.db, is_left);
}
