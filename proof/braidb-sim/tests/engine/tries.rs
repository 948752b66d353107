//! Space of trie tables (`ValueLayout::Trie`): what failed jobs and crashes leave behind committed lengths, and how many files a job holds.

use braidb::tuning::ValueLayout;
use braidb::{Db, Options};
use braidb_sim::{env_over, sim_env};
use braidb_storage::Env;
use braidb_storage::sim::{Crash, Fault, Lasting, OpKind, SimFs};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn ends_with(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|end| end == extension)
}

/// Bytes of value files on the device.
fn value_file_bytes(fs: &SimFs) -> u64 {
    let files = fs.files().into_iter().filter(|path| ends_with(path, "values"));
    files.map(|path| fs.file_len(&path).unwrap()).sum()
}

fn trie(env: Env, levels: usize) -> Options {
    Options::new().memtable_bytes(4 << 20).env(env).tuning(|tuning| {
        tuning
            .table_bytes(8 << 20)
            .hot_keys_percent(0)
            .separation_threshold(Some(512))
            .value_layout(ValueLayout::Trie { levels })
    })
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(db: &Db, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| db.put(key(number), [7; 1_000]).unwrap());
}

/// A database in which append `failing` to a trie table found no room. Returns bytes of value files, and of live records, after a
/// collection.
fn after_a_full_append(failing: u64) -> (u64, u64) {
    let (env, fs, _) = sim_env(1);
    let options = |env, threshold| {
        let options = trie(env, 0).memtable_bytes(256 << 10);
        options.tuning(|tuning| tuning.table_bytes(4 << 20).separation_threshold(threshold))
    };
    let db = options(env, None).open(DIR).unwrap();
    put(&db, 2_000..2_500);
    db.flush().unwrap();
    drop(db);
    let db = options(env_over(fs.clone(), 2).0, Some(512)).open(DIR).unwrap();
    let mut appends = 0;
    fs.set_hook(Some(Box::new(move |fs, op| {
        if op.kind == OpKind::Append && ends_with(&op.path, "values") {
            appends += 1;
            if appends == failing {
                fs.fail_nth(1, Fault::Full, Lasting::Once, 1);
            }
        }
    })));
    // Merges meet values in tables and append them to the table of the leaf.
    for number in 0..2_000 {
        assert!((0..9).any(|_| db.put(key(number), [1; 1_000]).is_ok()));
    }
    let _ = db.flush().and_then(|()| db.compact());
    fs.set_hook(None);
    (0..2_500).filter(|number| number % 16 > 0).for_each(|number| db.delete(key(number)).unwrap());
    for _ in 0..3 {
        db.compact().and_then(|()| db.settle()).unwrap();
    }
    (value_file_bytes(&fs), db.stats().value_live_bytes)
}

#[test]
fn a_table_without_room_is_not_given_up_as_unreadable() {
    for failing in [3, 5, 6, 10] {
        let (bytes, live_bytes) = after_a_full_append(failing);
        assert!(bytes <= 2 * live_bytes, "append {failing}: {bytes} bytes, {live_bytes} alive");
    }
}

#[test]
fn a_failed_flush_gives_back_what_it_appended() {
    let (env, fs, _) = sim_env(1);
    let db = trie(env, 0).open(DIR).unwrap();
    for round in 0..20 {
        put(&db, round * 100..round * 100 + 100);
        // The device is full when the table is created, after its values were written.
        let is_table = |path: &Path| ends_with(path, "table");
        fs.fail_nth_where(1, Fault::Full, Lasting::Once, 1, move |op| {
            op.kind == OpKind::Append && is_table(&op.path)
        });
        // The flush may be tried again before the call learns of the failure.
        let struck = fs.faults_struck();
        let _ = db.flush();
        assert!(fs.faults_struck() > struck);
        db.flush().unwrap();
    }
    let (bytes, stats) = (value_file_bytes(&fs), db.stats());
    assert_eq!(
        (bytes, stats.value_file_bytes),
        (stats.value_file_bytes, stats.value_live_bytes + 30 * stats.value_files)
    );
}

#[test]
fn what_crashes_leave_behind_committed_lengths_counts_as_garbage() {
    let (env, mut fs, _) = sim_env(1);
    let mut db = trie(env, 0).open(DIR).unwrap();
    for round in 0..10 {
        put(&db, round * 100..round * 100 + 100);
        db.flush().unwrap();
        put(&db, round * 100..round * 100 + 100);
        let image: Arc<Mutex<Option<SimFs>>> = Arc::default();
        let taken = image.clone();
        fs.set_hook(Some(Box::new(move |fs, op| {
            if op.kind == OpKind::SyncData && ends_with(&op.path, "table") {
                taken.lock().get_or_insert_with(|| fs.crash_image(Crash::Process, 1));
            }
        })));
        db.flush().unwrap();
        fs.set_hook(None);
        drop(db);
        fs = image.lock().take().expect("the flush wrote a table").into();
        db = trie(env_over(fs.clone(), round).0, 0).open(DIR).unwrap();
        assert_eq!(value_file_bytes(&fs), db.stats().value_file_bytes);
    }
    db.settle().unwrap();
    assert_eq!(db.verify().unwrap().damages, []);
}

/// The manifest knows the length of a trie table from the tables that name it. If the tables that name the greatest length are deleted, the
/// bytes beyond the other lengths are still garbage.
#[test]
fn an_open_does_not_forget_garbage() {
    let (env, mut fs, _) = sim_env(1);
    let mut db = trie(env, 0).open(DIR).unwrap();
    let key = |prefix: u8, number: u32| [&[prefix][..], &number.to_be_bytes()].concat();
    for (prefix, keys) in [(b'a', 500), (b'z', 1_500)] {
        (0..keys).for_each(|number| db.put(key(prefix, number), [1; 1_000]).unwrap());
        db.flush().unwrap();
    }
    (0..1_500).for_each(|number| db.delete(key(b'z', number)).unwrap());
    db.compact().unwrap();
    for _ in 0..2 {
        // The process is killed before it collects. The second manifest names no table with the full length.
        let image = fs.crash_image(Crash::Process, 1);
        drop(db);
        fs = image.into();
        db = trie(env_over(fs.clone(), 2).0, 0).open(DIR).unwrap();
    }
    db.settle().unwrap();
    assert_eq!(db.verify().unwrap().damages, []);
    let (bytes, live_bytes) = (value_file_bytes(&fs), db.stats().value_live_bytes);
    assert!(bytes <= live_bytes / 2 * 3, "{bytes} bytes of value files, {live_bytes} alive");
}

#[test]
fn a_value_file_ends_when_it_has_the_bytes_of_a_table() {
    for layout in [ValueLayout::Ordered, ValueLayout::Trie { levels: 0 }] {
        let (env, ..) = sim_env(1);
        let options = trie(env, 0).tuning(|tuning| tuning.table_bytes(64 << 10).value_layout(layout));
        let db = options.open(DIR).unwrap();
        put(&db, 0..3_000);
        db.flush().unwrap();
        let largest = db.stats().values.iter().map(|file| file.bytes).max().unwrap();
        assert!(largest < (64 << 10) + 1_100, "{layout:?}: {largest}");
    }
}

/// A job keeps 256 tables open until its edit. The other leaves begin new tables at the next flush.
#[test]
fn a_flush_to_many_leaves_works_where_the_program_takes_descriptors_after_the_open() {
    let (env, fs, _) = sim_env(1);
    fs.set_descriptor_limit(Some(1024));
    let db = trie(env, 1).open(DIR).unwrap();
    let write = |round: u64| {
        put(&db, round..round + 200);
        db.flush().unwrap();
    };
    write(0);
    let waiting = fs.open_descriptors();
    assert!(waiting > 30, "{waiting} descriptors: tables of leaves wait for the next flush");
    // 20 free descriptors are fewer than the flush needs for its leaves. 3 are enough for one table, one value file and one log.
    for free in [20, 3] {
        fs.set_descriptor_limit(Some(fs.open_descriptors() + free));
        write(1000 * free);
    }
    db.close().unwrap();
    drop(db);
    fs.set_descriptor_limit(None);
    let db = trie(env_over(fs.clone(), 2).0, 1).open(DIR).unwrap();
    for number in [0, 20_000, 3000].into_iter().flat_map(|first| first..first + 200) {
        assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&[7; 1_000][..]), "{number}");
    }
    assert!(db.verify().unwrap().damages.is_empty());
}

#[test]
fn a_flush_to_many_leaves_holds_few_files_open() {
    let (env, ..) = sim_env(1);
    let db = trie(env, 2).open(DIR).unwrap();
    for flush in 0..2 {
        (0..1_000u16).for_each(|leaf| db.put(leaf.to_be_bytes(), [1; 1_000]).unwrap());
        db.flush().unwrap();
        assert_eq!(db.stats().value_files, if flush == 0 { 1_000 } else { 2_000 - 256 });
    }
    assert_eq!(db.verify().unwrap().damages, []);
}
