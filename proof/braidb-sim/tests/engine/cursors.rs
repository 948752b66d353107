//! Cursors: turns at each entry, which values a cursor reads, and how it ends. The judges move cursors at random; here each case is small.

use braidb::{Cursor, Db, Error, Options};
use braidb_sim::sim_env;
use braidb_storage::sim::{Fault, Lasting, OpKind, SimFs};
use std::collections::BTreeMap;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: u32 = 120;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

/// Entries in memory and in tables of several levels. Some keys were deleted, and some have older versions. Every seventh value lies in a
/// value file.
fn filled() -> (Db, Arc<SimFs>, Model) {
    let (env, fs, _) = sim_env(1);
    let options = Options::new().memtable_bytes(64 << 10).block_cache_bytes(0);
    let db = options.tuning(|tuning| tuning.separation_threshold(Some(1024))).env(env).open(DIR).unwrap();
    let mut model = Model::new();
    for round in 0..5 {
        for number in (0..KEYS).filter(|number| number % 5 >= round) {
            let value_bytes = if number % 7 == 0 { 2000 } else { 10 };
            let value = vec![b'a' + round as u8; value_bytes];
            db.put(key(number), &value).unwrap();
            model.insert(key(number), value);
            if (number + round) % 11 == 0 {
                db.delete(key(number)).unwrap();
                model.remove(&key(number));
            }
        }
        match round {
            0 => db.compact().unwrap(),
            4 => {}
            _ => db.flush().unwrap(),
        }
    }
    (db, fs, model)
}

fn assert_at(cursor: &mut Cursor, wanted: Option<(&Vec<u8>, &Vec<u8>)>) {
    assert_eq!(cursor.key(), wanted.map(|(key, _)| key.as_slice()));
    assert_eq!(cursor.value().unwrap(), wanted.map(|(_, value)| value.as_slice()));
}

#[test]
fn a_cursor_turns_at_each_entry() {
    let (db, _, model) = filled();
    let entries: Vec<_> = model.iter().collect();
    let mut cursor = db.iter().cursor();
    assert_at(&mut cursor, None);
    for at in 1..entries.len() - 1 {
        assert!(cursor.seek(entries[at].0).unwrap());
        assert_at(&mut cursor, Some(entries[at]));
        for (moves_on, wanted) in [(true, at + 1), (false, at), (false, at - 1), (true, at), (true, at + 1)] {
            assert!(if moves_on { cursor.next() } else { cursor.prev() }.unwrap());
            assert_at(&mut cursor, Some(entries[wanted]));
        }
        assert!(cursor.seek_for_prev(entries[at].0).unwrap());
        assert_at(&mut cursor, Some(entries[at]));
    }
    // Behind an end the cursor comes back.
    assert!(cursor.last().unwrap() && !cursor.next().unwrap() && !cursor.next().unwrap());
    assert_at(&mut cursor, None);
    assert!(cursor.prev().unwrap());
    assert_at(&mut cursor, entries.last().copied());
    assert!(cursor.first().unwrap() && !cursor.prev().unwrap() && cursor.next().unwrap());
    assert_at(&mut cursor, entries.first().copied());
}

#[test]
fn a_cursor_stays_in_its_range_and_in_its_moment() {
    let (db, _, model) = filled();
    let mut cursor = db.range(key(30)..key(60)).cursor();
    for number in 0..KEYS {
        db.put(key(number), "later").unwrap();
    }
    db.compact().unwrap();
    let within: Vec<_> = model.range(key(30)..key(60)).collect();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    while cursor.next().unwrap() {
        forward.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().unwrap().to_vec()));
    }
    while cursor.prev().unwrap() {
        backward.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().unwrap().to_vec()));
    }
    backward.reverse();
    assert_eq!(forward, backward);
    assert!(forward.iter().map(|(key, value)| (key, value)).eq(within.iter().copied()));
    assert!(cursor.seek(key(0)).unwrap());
    assert_at(&mut cursor, within.first().copied());
    assert!(cursor.seek_for_prev(key(99)).unwrap());
    assert_at(&mut cursor, within.last().copied());
    assert!(!cursor.seek(key(60)).unwrap() && !cursor.seek_for_prev(key(29)).unwrap());

    let mut empty = db.range(key(60)..key(30)).cursor();
    assert!(!empty.next().unwrap() && !empty.prev().unwrap() && !empty.seek(key(40)).unwrap());
    assert_at(&mut empty, None);
}

#[test]
fn a_walk_over_keys_reads_no_value_files() {
    let (db, fs, model) = filled();
    let reads = |walk: &mut dyn FnMut(&mut Cursor)| {
        fs.record_ops();
        walk(&mut db.iter().cursor());
        let is_value_file = |path: &std::path::Path| path.extension().is_some_and(|found| found == "values");
        let ops = fs.take_recorded_ops();
        ops.iter().filter(|op| op.kind == OpKind::Read && is_value_file(&op.path)).count()
    };
    let mut keys = 0;
    let of_keys = reads(&mut |cursor| {
        while cursor.next().unwrap() {
            keys += 1;
        }
        while cursor.prev().unwrap() {
            keys += 1;
        }
    });
    assert_eq!((keys, of_keys), (2 * model.len(), 0));
    let of_values = reads(&mut |cursor| {
        while cursor.next().unwrap() {
            // A value is read once, however often it is asked for.
            assert_eq!(cursor.value().unwrap().map(<[u8]>::len), cursor.value().unwrap().map(<[u8]>::len));
        }
    });
    let large = model.values().filter(|value| value.len() > 1024).count();
    assert!(of_values > 0 && of_values <= large, "{of_values} reads for {large} large values");
}

#[test]
fn a_cursor_ends_with_the_database() {
    let (db, fs, _) = filled();
    let (mut cursor, mut behind) = (db.iter().cursor(), db.iter().cursor());
    assert!(cursor.next().unwrap() && behind.last().unwrap() && !behind.next().unwrap());
    db.close().unwrap();
    let mut late = db.iter().cursor();
    fs.record_ops();
    assert!(matches!(cursor.value(), Err(Error::Closed)));
    assert!(matches!(cursor.next(), Err(Error::Closed)));
    assert_eq!(cursor.key(), None);
    for _ in 0..2 {
        assert!(matches!(cursor.next(), Err(Error::Closed)));
        assert!(matches!(cursor.first(), Err(Error::Closed)));
        assert!(matches!(cursor.seek_for_prev("key"), Err(Error::Closed)));
        assert!(matches!(behind.next(), Err(Error::Closed)));
        assert!(matches!(late.first(), Err(Error::Closed)));
    }
    assert!(fs.take_recorded_ops().is_empty(), "another handle may have the files");
}

#[test]
fn an_iterator_that_has_ended_keeps_nothing_and_gives_no_cursor() {
    let (db, fs, model) = filled();
    let tables = |fs: &SimFs| {
        fs.files().iter().filter(|path| path.extension().is_some_and(|found| found == "table")).count()
    };
    let mut half = db.iter();
    assert!(half.next().is_some() && half.next_back().is_some());
    let mut half = half.cursor();
    assert!(half.next().unwrap());
    assert_at(&mut half, model.iter().next());
    drop(half);
    let mut ended = db.iter();
    assert_eq!(ended.by_ref().count(), model.len());
    db.compact().unwrap();
    db.settle().unwrap();
    assert_eq!(tables(&fs), 1, "the iterator kept tables after its end");
    let mut cursor = ended.cursor();
    assert!((0..2).all(|_| matches!(cursor.first(), Err(Error::Ended))));
    assert!(matches!(cursor.next(), Err(Error::Ended)));
}

#[test]
fn a_value_that_could_not_be_read_is_read_again() {
    let (db, fs, model) = filled();
    let large: Vec<_> = model.iter().filter(|(_, value)| value.len() > 1024).collect();
    let mut cursor = db.iter().cursor();
    for is_backward in [false, true] {
        let entry = large[large.len() / 2];
        assert!(if is_backward { cursor.seek_for_prev(entry.0) } else { cursor.seek(entry.0) }.unwrap());
        fs.fail_nth_where(1, Fault::Io, Lasting::Once, 1, |op| op.kind == OpKind::Read);
        assert!(cursor.value().is_err());
        fs.heal();
        assert_at(&mut cursor, Some(entry));
    }
}
