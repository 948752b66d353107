//! Many column families: what one flush of all of them costs, which logs small families keep, and what an open costs. Costs are counts of
//! operations, files and bytes.

use braidb::{ColumnFamily, Db, Durability, Error, Options};
use braidb_sim::{env_over, sim_env};
use braidb_storage::Env;
use braidb_storage::sim::{Crash, Op, OpKind, SimFs};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";
const FAMILIES: usize = 300;

/// Logs have 2 MiB together. A family is small below 64 KiB of memory, and 512 KiB are written back at most.
fn options(env: Env) -> Options {
    Options::new().memtable_bytes(1 << 20).tuning(|tuning| tuning.log_bytes(2 << 20)).env(env)
}

fn reopen(fs: &SimFs) -> Result<Db, Error> {
    options(env_over(Arc::new(fs.clone()), 2).0).open(DIR)
}

fn families(db: &Db, count: usize) -> Vec<ColumnFamily> {
    (0..count).map(|number| db.create_column_family(&format!("family {number}")).unwrap()).collect()
}

fn small_value(number: usize, bytes: usize) -> Vec<u8> {
    vec![number as u8; bytes]
}

/// Puts one record of `bytes` into each family.
fn put_small(families: &[ColumnFamily], bytes: usize) {
    for (number, family) in families.iter().enumerate() {
        family.put("small", small_value(number, bytes)).unwrap();
    }
}

fn check_small(db: &Db, count: usize, bytes: usize) {
    for (number, family) in families(db, count).iter().enumerate() {
        let found = family.get("small").unwrap();
        assert_eq!(found.as_deref(), Some(&*small_value(number, bytes)), "family {number}");
    }
}

fn is_log(op: &Op) -> bool {
    op.path.extension().is_some_and(|extension| extension == "log")
}

fn is_manifest(op: &Op) -> bool {
    op.path.extension().is_some_and(|extension| extension == "manifest")
}

fn count(ops: &[Op], is_counted: impl Fn(&Op) -> bool) -> usize {
    ops.iter().filter(|op| is_counted(op)).count()
}

fn logs(fs: &SimFs) -> Vec<PathBuf> {
    fs.files().into_iter().filter(|path| path.extension().is_some_and(|found| found == "log")).collect()
}

#[test]
fn a_flush_of_all_families_begins_one_log_and_commits_one_edit() {
    let (env, fs, _) = sim_env(1);
    let db = options(env).open(DIR).unwrap();
    put_small(&families(&db, FAMILIES), 100);
    fs.record_ops();
    db.flush().unwrap();
    let ops = fs.take_recorded_ops();
    assert_eq!(count(&ops, |op| op.kind == OpKind::Create && is_log(op)), 1, "one rotation");
    assert_eq!(count(&ops, |op| op.kind == OpKind::SyncData && is_manifest(op)), 1, "one edit");
    let syncs = count(&ops, |op| matches!(op.kind, OpKind::SyncData | OpKind::SyncDir));
    assert!(syncs <= FAMILIES + 6, "{syncs} syncs, one for each table");
    assert_eq!(db.stats().counts.flushes, FAMILIES as u64);
    assert_eq!(logs(&fs).len(), 1, "the new log");

    // The changes that an open makes do not grow with the number of families.
    db.close().unwrap();
    drop(db);
    fs.record_ops();
    let db = reopen(&fs).unwrap();
    check_small(&db, FAMILIES, 100);
    let ops = fs.take_recorded_ops();
    let changes = count(&ops, |op| op.kind.mutates());
    assert!(changes <= 40, "{changes} changes, however many families there are");
}

#[test]
fn tables_of_a_flush_are_synced_together_as_far_as_descriptors_allow() {
    let (env, fs, _) = sim_env(1);
    fs.set_descriptor_limit(Some(64));
    let db = options(env).open(DIR).unwrap();
    put_small(&families(&db, 50), 100);
    let most = Arc::new(Mutex::new(0));
    let seen = most.clone();
    fs.set_hook(Some(Box::new(move |fs, _| {
        let mut most = seen.lock().unwrap();
        *most = fs.open_descriptors().max(*most);
    })));
    db.flush().unwrap();
    fs.set_hook(None);
    check_small(&db, 50, 100);
    let most = *most.lock().unwrap();
    assert!((6..=20).contains(&most), "{most} descriptors at once");
}

#[test]
fn a_flush_works_where_the_program_takes_descriptors_after_the_open() {
    let (env, fs, _) = sim_env(1);
    fs.set_descriptor_limit(Some(1024));
    let db = options(env).open(DIR).unwrap();
    let all = families(&db, 50);
    put_small(&all, 100);
    fs.set_descriptor_limit(Some(fs.open_descriptors() + 20));
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = images.clone();
    fs.set_hook(Some(Box::new(move |fs, op| {
        let is_edit = op.kind == OpKind::SyncData && is_manifest(op);
        if is_edit || op.kind == OpKind::Unlink {
            taken.lock().unwrap().push(fs.crash_image(Crash::PowerTorn, op.number));
        }
    })));
    db.persist(Durability::Sync).unwrap();
    db.flush().unwrap();
    fs.set_hook(None);
    assert_eq!(db.stats().counts.flushes, 50);
    assert_eq!(logs(&fs).len(), 1, "the new log");
    check_small(&db, 50, 100);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(
        images.len() >= 50 + 20,
        "{} images: the tables that go, and an edit for each family",
        images.len()
    );
    for image in images {
        check_small(&reopen(&image).unwrap(), 50, 100);
    }
}

#[test]
fn a_crash_at_each_step_of_a_flush_of_several_families_loses_nothing() {
    let (env, fs, _) = sim_env(1);
    let db = options(env).open(DIR).unwrap();
    let all = families(&db, 4);
    put_small(&all[..2], 100);
    db.flush().unwrap();
    put_small(&all, 100);
    all[1].delete("gone").unwrap();
    db.persist(Durability::Sync).unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = images.clone();
    fs.set_hook(Some(Box::new(move |fs, op| {
        let images = [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn];
        let images = images.map(|crash| fs.crash_image(crash, op.number));
        taken.lock().unwrap().extend(images);
    })));
    db.flush().unwrap();
    fs.set_hook(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 30, "{} images", images.len());
    for image in images {
        let db = reopen(&image).unwrap();
        check_small(&db, 4, 100);
        assert!(db.verify().unwrap().damages.is_empty());
    }
}

/// One busy family, and small ones that keep old logs. Returns the most bytes that logs had.
fn busy(bytes: usize, puts: usize) -> (Db, Arc<SimFs>, u64) {
    let (env, fs, _) = sim_env(1);
    let db = options(env).open(DIR).unwrap();
    let all = families(&db, FAMILIES);
    put_small(&all, bytes);
    let mut most_bytes = 0;
    for put in 0..puts {
        // A factor that spreads the keys, so that each table covers nearly all keys.
        let key = (put as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        all[0].put(key, [7; 1000]).unwrap();
        if put.is_multiple_of(FAMILIES / 3) {
            let number = 1 + put / (FAMILIES / 3) % (FAMILIES - 1);
            all[number].put("small", small_value(number, bytes)).unwrap();
        }
        // On one thread, background work runs only here.
        if put.is_multiple_of(100) {
            db.settle().unwrap();
            most_bytes = most_bytes.max(db.stats().log_bytes_live);
        }
        if put.is_multiple_of(4000) {
            for crash in [Crash::Process, Crash::PowerAllLost] {
                db.persist(Durability::Sync).unwrap();
                check_small(&reopen(&fs.crash_image(crash, put as u64)).unwrap(), FAMILIES, bytes);
            }
        }
    }
    check_small(&db, FAMILIES, bytes);
    (db, fs, most_bytes)
}

#[test]
fn small_families_beside_a_busy_one_keep_few_logs() {
    let (db, _, most_bytes) = busy(100, 16_000);
    assert!(most_bytes <= 5 << 19, "logs of {most_bytes} bytes");
    let counts = db.stats().counts;
    assert!(counts.logs_collected > 4 && counts.written_back > FAMILIES as u64, "{counts:?}");
    let stats = db.stats();
    let has_tables = stats.families.iter().filter(|family| family.levels.iter().any(|level| level.bytes > 0));
    let flushed = has_tables.count();
    assert_eq!(flushed, 1, "only the busy family has tables");
}

#[test]
fn small_families_with_much_memory_together_are_flushed_with_one_log() {
    let (db, _, most_bytes) = busy(2500, 8_000);
    assert!(most_bytes <= 3 << 20, "logs of {most_bytes} bytes");
    let counts = db.stats().counts;
    assert!(counts.flushes >= FAMILIES as u64, "{counts:?}");
    assert!(counts.logs_rotated < counts.flushes / 4, "{counts:?}");
}
