//! Slow tiers as users meet them: joining, moving, missing, exchanged, older and newer directories, full devices, and verification.
//! `braidb_sim::judge::tiers` judges copies and crashes.

use braidb::storage::inline::{Inline, SeededRandom, StepClock};
use braidb::storage::{Env, FileSystem, Routed};
use braidb::{Db, Error, Options};
use braidb_sim::judge::tiers::copy;
use braidb_storage::sim::{Crash, Fault, Hook, Lasting, OpKind, SimFs};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIR: &str = "/db";
const SLOW: &str = "/slow";

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Small memory, large values in value files, and nothing that stays on the fast tier.
fn options() -> Options {
    let options = Options::new().memtable_bytes(16 << 10).fast_share(0);
    options.tuning(|tuning| tuning.separation_threshold(Some(200)))
}

/// Opens the database `dir` on one thread. Each open draws other random numbers.
fn open_on(fs: Arc<dyn FileSystem>, dir: &str, options: Options) -> Result<Db, Error> {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let random = Arc::new(SeededRandom::new(SEED.fetch_add(1, Ordering::Relaxed)));
    options.env(Env { fs, clock, random, runtime }).open(dir)
}

fn open(fs: &SimFs, options: Options) -> Result<Db, Error> {
    open_on(Arc::new(fs.clone()), DIR, options)
}

/// The family whose values lie in tables.
const SMALL: &str = "small";

/// Writes every key twice, and flushes each time.
fn write(db: &Db) {
    let small = db.create_column_family(SMALL).unwrap();
    for round in 0..2_u8 {
        for number in 0..50_u32 {
            small.put(number.to_be_bytes(), [round; 50]).unwrap();
            db.put(number.to_be_bytes(), [round; 300]).unwrap();
        }
        db.flush().unwrap();
    }
}

/// Writes, and waits until everything is on the slow tier.
fn fill(db: &Db) {
    write(db);
    db.compact().unwrap();
    db.settle().unwrap();
}

/// Whether the database has what [`write`] wrote.
fn is_filled(db: &Db) -> bool {
    let mut found: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
    found.extend(db.column_family(SMALL).unwrap().iter().map(|entry| entry.unwrap()));
    found.len() == 100 && found.iter().all(|(_, value)| value.iter().all(|&byte| byte == 1))
}

/// A closed database with tables and value files on the slow tier in `/slow`.
fn filled() -> SimFs {
    let fs = SimFs::new();
    let db = open(&fs, options().slow_path(SLOW)).unwrap();
    fill(&db);
    db.close().unwrap();
    for kind in ["table", "values"] {
        assert!(names(&fs, SLOW).iter().any(|name| name.ends_with(kind)), "{:?}", names(&fs, SLOW));
    }
    fs
}

/// The names of the files in a directory.
fn names(fs: &SimFs, dir: &str) -> Vec<String> {
    let files = fs.files().into_iter().filter(|file| file.parent() == Some(path(dir)));
    files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Removes the files of a directory, as a device does that is not mounted.
fn unmount(fs: &SimFs, dir: &str) {
    names(fs, dir).iter().for_each(|name| fs.unlink(&path(dir).join(name)).unwrap());
}

/// Moves the files of a directory.
fn relocate(fs: &SimFs, from: &str, to: &str) {
    copy(fs, from, to);
    unmount(fs, from);
}

/// Checks that an open is refused because of the directory `dir`, and that the error says `what`.
#[track_caller]
fn refused(outcome: Result<Db, Error>, dir: &str, what: &str) {
    match outcome {
        Err(error @ Error::Tier { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with(dir) && text.contains(what), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tier_joins_and_is_remembered() {
    let fs = filled();
    let db = open(&fs, options()).unwrap();
    assert!(is_filled(&db) && db.verify().unwrap().damages.is_empty());
    db.close().unwrap();
    fs.write_file(&path(SLOW).join("TIER.tmp"), b"left by a crash").unwrap();
    fs.write_file(&path(SLOW).join("000900.table"), b"left by a crash").unwrap();
    let db = open(&fs, options().slow_path("/slow/.")).unwrap();
    assert!(is_filled(&db));
    for name in ["TIER.tmp", "000900.table"] {
        assert!(!names(&fs, SLOW).iter().any(|there| there == name), "{name} is swept");
    }
    db.put("new", "").unwrap();
    db.flush().unwrap();
    let numbers = names(&fs, DIR).into_iter().filter_map(|name| name.get(..6)?.parse::<u64>().ok());
    assert!(numbers.max().unwrap() > 900, "numbers of files on slow tiers are not given again");
}

#[test]
fn a_second_tier_joins_a_database_that_has_one() {
    let fs = filled();
    let db = open(&fs, options().slow_path("/second")).unwrap();
    assert!(is_filled(&db));
    db.close().unwrap();
    assert_eq!(names(&fs, "/second"), ["LOCK", "TIER"]);
    assert!(is_filled(&open(&fs, options()).unwrap()));
}

#[test]
fn a_tier_that_is_not_there_is_named() {
    let fs = filled();
    fs.unlink(&path(SLOW).join("TIER")).unwrap();
    refused(open(&fs, options()), SLOW, "its file `TIER` is missing: put back the `TIER`");
    refused(open(&fs, options().slow_path(SLOW)), SLOW, "`TIER` is missing");
    unmount(&fs, SLOW);
    let before = fs.files();
    refused(open(&fs, options()), SLOW, "mount its device");
    refused(open(&fs, options().slow_path(SLOW)), SLOW, "mount its device");
    refused(open(&fs, options().slow_path("/elsewhere")), SLOW, "mount its device");
    assert_eq!((fs.files(), names(&fs, "/elsewhere")), (before, vec![]), "nothing joined");
}

#[test]
fn a_directory_of_something_else_does_not_join() {
    let fs = filled();
    for (dir, name, what) in [
        ("/photos", "cat.jpg", "it holds `cat.jpg`"),
        ("/other-db", "CURRENT", "it holds `CURRENT`"),
        // A table beside `CURRENT` belongs to another database. It is no leftover of an evacuation that the user may delete.
        ("/other-db", "000007.table", "it holds `CURRENT`; name an empty or a new directory"),
        ("/old-tier", "000007.values", "`TIER` is missing"),
        ("/old-tier", "000007.table", "may be deleted"),
    ] {
        fs.create_dir_all(path(dir)).unwrap();
        fs.write_file(&path(dir).join(name), b"").unwrap();
        refused(open(&fs, options().slow_path(dir)), dir, what);
    }
    refused(open(&fs, options().slow_path("/photos/cat.jpg")), "/photos/cat.jpg", "it is a file");
    match open_on(Arc::new(fs.clone()), SLOW, options()) {
        Err(Error::NotADatabase { why, .. }) => assert!(why.contains("slow tier"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(is_filled(&open(&fs, options()).unwrap()));
}

#[test]
fn the_root_of_a_device_joins() {
    let fs = SimFs::new();
    fs.create_dir_all(path("/slow/lost+found")).unwrap();
    drop(open(&fs, options().slow_path(SLOW)).unwrap());
    assert!(open(&fs, options()).is_ok());
}

#[test]
fn exchanged_tiers_are_found_if_both_are_named() {
    let fs = filled();
    drop(open(&fs, options().slow_path("/second")).unwrap());
    relocate(&fs, SLOW, "/third");
    relocate(&fs, "/second", SLOW);
    relocate(&fs, "/third", "/second");
    refused(open(&fs, options()), SLOW, "tier 1 was here, and now it is tier 2");
    let both = || options().slow_path(SLOW).slow_path("/second");
    let db = open(&fs, both()).unwrap();
    assert!(is_filled(&db) && db.verify().unwrap().damages.is_empty());
    drop(db);
    assert!(is_filled(&open(&fs, options()).unwrap()));
}

#[test]
fn an_older_tier_and_an_older_database_are_told_apart() {
    let fs = filled();
    copy(&fs, SLOW, "/older-tier");
    copy(&fs, DIR, "/older-db");
    drop(open(&fs, options()).unwrap());
    refused(open(&fs, options().slow_path("/older-tier")), "/older-tier", "older than the database");
    let older = open_on(Arc::new(fs.clone()), "/older-db", options().slow_path(SLOW));
    refused(older, SLOW, "another copy of this database has used it");
    let both_copies = open_on(Arc::new(fs.clone()), "/older-db", options().slow_path("/older-tier"));
    assert!(is_filled(&both_copies.unwrap()), "copies from one moment");
    assert!(is_filled(&open(&fs, options()).unwrap()));
}

/// The copy has the epoch of the open, and lacks what came to the tier after it. It would delete those files as orphans.
#[test]
fn a_copy_that_was_made_while_the_database_was_open_is_refused() {
    let fs = SimFs::new();
    let db = open(&fs, options().slow_path(SLOW)).unwrap();
    db.put("early", "").unwrap();
    db.delete("early").unwrap();
    db.flush().unwrap();
    copy(&fs, DIR, "/copy");
    fill(&db);
    db.close().unwrap();
    let before = names(&fs, SLOW);
    assert!(before.len() > 2, "{before:?}");
    let copied = open_on(Arc::new(fs.clone()), "/copy", options().slow_path(SLOW));
    refused(copied, SLOW, "another copy of this database has used it");
    assert_eq!(names(&fs, SLOW), before);
    assert!(is_filled(&open(&fs, options()).unwrap()));
}

#[test]
fn a_slow_device_that_fails_during_a_close_keeps_nothing_from_opening_again() {
    for nth in 1.. {
        let fs = filled();
        let db = open(&fs, options()).unwrap();
        let is_slow = |op: &braidb_storage::sim::Op| op.kind.mutates() && op.path.starts_with(SLOW);
        fs.fail_nth_where(nth, Fault::Io, Lasting::ForEver, nth, is_slow);
        db.close().unwrap();
        let has_struck = fs.faults_struck() > 0;
        fs.heal();
        assert!(is_filled(&open(&fs, options()).unwrap()), "after operation {nth}");
        if !has_struck {
            assert!(nth > 8, "a close writes `TIER` twice, and made {nth} operations");
            return;
        }
    }
}

#[test]
fn a_copy_of_one_tier_is_not_a_second_one() {
    let fs = filled();
    copy(&fs, SLOW, "/twin");
    let both = open(&fs, options().slow_path(SLOW).slow_path("/twin"));
    refused(both, "/twin", "so does /slow");
}

/// A copy of everything must not take the tier of the original, whose path it remembers.
#[test]
fn a_copy_opens_with_its_own_tier_alone() {
    let fs = filled();
    copy(&fs, DIR, "/copy");
    copy(&fs, SLOW, "/slow-copy");
    let copied = |options: Options| open_on(Arc::new(fs.clone()), "/copy", options);
    refused(copied(options()), SLOW, "this path counts no more");
    assert!(is_filled(&copied(options().slow_path("/slow-copy")).unwrap()));
    assert!(is_filled(&copied(options()).unwrap()), "it remembers its own tier now");
    assert!(is_filled(&open(&fs, options()).unwrap()));
    refused(copied(options().slow_path(SLOW)), SLOW, "from one moment");
}

#[test]
fn a_tier_and_a_database_move() {
    let fs = filled();
    relocate(&fs, SLOW, "/moved");
    drop(open(&fs, options().slow_path("/moved")).unwrap());
    assert!(is_filled(&open(&fs, options()).unwrap()));
    relocate(&fs, DIR, "/new-db");
    let moved = |options: Options| open_on(Arc::new(fs.clone()), "/new-db", options);
    refused(moved(options()), "/moved", "now it is opened at /new-db");
    assert!(is_filled(&moved(options().slow_path("/moved")).unwrap()));
    assert!(is_filled(&moved(options()).unwrap()));
}

/// From another working directory a relative path leads elsewhere. So the database does not remember a slow path that is relative if its
/// own path is absolute.
#[test]
fn paths_of_two_kinds_are_not_remembered_together() {
    let fs = SimFs::new();
    drop(open(&fs, options().slow_path("slow")).unwrap());
    refused(open(&fs, options()), "slow", "this path counts no more");
    drop(open(&fs, options().slow_path("slow")).unwrap());
    drop(open(&fs, options().slow_path(SLOW)).unwrap());
    assert!(open(&fs, options()).is_ok(), "the user said both as absolute paths");
}

#[test]
fn impossible_slow_paths_are_refused() {
    let fs = SimFs::new();
    let named = |options: Options| match open(&fs, options) {
        Err(Error::InvalidOption { option, why }) => (option, why),
        other => panic!("{other:?}"),
    };
    let many = (0..16).fold(options(), |options, number| options.slow_path(format!("/slow-{number}")));
    for (options, what) in [
        (options().slow_path(SLOW).slow_path("/slow/"), "twice"),
        (options().slow_path(DIR), "not apart"),
        (options().slow_path("/db/slow"), "not apart"),
        (options().slow_path("/"), "not apart"),
        (options().slow_path(SLOW).slow_path("/slow/er"), "not apart"),
        (options().slow_path(""), "it is empty"),
        (many, "the limit is 15"),
    ] {
        let (option, why) = named(options);
        assert!(option == "slow_path" && why.contains(what), "{option}: {why}");
    }
    assert_eq!(named(options().fast_share(101)).0, "fast_share");
    assert_eq!(named(options().fast_bytes(Some(1 << 61))).0, "fast_bytes");
    assert!(fs.files().is_empty(), "a refused open makes nothing");
}

#[test]
fn no_tier_joins_below_one_that_the_database_remembers() {
    let fs = filled();
    let before = fs.files();
    match open(&fs, options().slow_path("/slow/er")) {
        Err(Error::InvalidOption { option: "slow_path", why }) => assert!(why.contains("not apart"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs.files(), before);
    drop(open(&fs, options().slow_path("/slower")).unwrap());
}

#[test]
fn a_slow_directory_is_locked() {
    let fs = filled();
    let lock = fs.lock(&path(SLOW).join("LOCK")).unwrap();
    match open(&fs, options()) {
        Err(Error::Locked { path: named }) => assert_eq!(named, path(SLOW)),
        other => panic!("{other:?}"),
    }
    drop(lock);
    let db = open(&fs, options()).unwrap();
    assert!(fs.lock(&path(SLOW).join("LOCK")).is_err());
    // Another process removes the lock and gets in: this one writes no edit any more.
    fs.unlink(&path(SLOW).join("LOCK")).unwrap();
    db.put("a", "1").unwrap();
    assert!(matches!(db.flush(), Err(Error::LockLost { .. } | Error::Poisoned { .. })));
}

/// The open that adds the first slow tier dies before each of its operations.
#[test]
fn a_join_that_is_cut_short_is_made_again() {
    let fs = SimFs::new();
    drop(open(&fs, options()).unwrap());
    let images: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let (taken, mut number) = (images.clone(), 0);
    let hook: Hook = Box::new(move |fs, _| {
        number += 1;
        taken.lock().push(fs.crash_image(Crash::Process, number));
        taken.lock().push(fs.crash_image(Crash::PowerTorn, number));
        taken.lock().push(fs.crash_image(Crash::PowerAllLost, number));
    });
    fs.set_hook(Some(hook));
    drop(open(&fs, options().slow_path(SLOW)).unwrap());
    fs.set_hook(None);
    let images = std::mem::take(&mut *images.lock());
    assert!(images.len() > 60, "{}", images.len());
    let (mut joined, mut not_joined) = (0, 0);
    for image in images {
        // Without the option the tier is remembered, or has not joined yet.
        let other = image.crash_image(Crash::Process, 0);
        drop(open(&other, options()).unwrap());
        let had_tier = names(&other, SLOW).iter().any(|name| name == "TIER");
        match open(&other, options().slow_path("/elsewhere")) {
            Ok(_) if names(&other, "/elsewhere").is_empty() => panic!("a new tier has a `TIER`"),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
        // If the join died before its edit, the other directory has the id that `TIER` names here.
        drop(open(&other, options().slow_path(SLOW)).unwrap());
        assert!(names(&other, SLOW).contains(&"TIER".to_owned()) && open(&other, options()).is_ok());
        let db = open(&image, options().slow_path(SLOW)).unwrap();
        fill(&db);
        db.close().unwrap();
        assert!(is_filled(&open(&image, options()).unwrap()));
        *(if had_tier { &mut joined } else { &mut not_joined }) += 1;
    }
    assert!(joined > 0 && not_joined > 0, "{joined} and {not_joined}");
}

/// Each operation of an open fails in turn. The next open works, and so does one after a power failure.
#[test]
fn an_open_that_failed_is_followed_by_one_that_works() {
    let rest = filled();
    for nth in 1.. {
        let fs = rest.crash_image(Crash::Process, 0);
        fs.fail_nth(nth, Fault::Io, Lasting::Once, nth);
        drop(open(&fs, options()));
        if fs.faults_struck() == 0 {
            assert!(nth > 60, "an open makes more than {nth} operations");
            return;
        }
        let fs = fs.without_process();
        let db = open(&fs, options()).unwrap_or_else(|error| panic!("after operation {nth} failed: {error}"));
        assert!(is_filled(&db));
        let image = fs.crash_image(Crash::PowerAllLost, nth);
        assert!(is_filled(&open(&image, options()).unwrap()), "after operation {nth} failed");
    }
}

/// A file system of two devices.
fn two_devices(fast: &SimFs, slow: &SimFs) -> Arc<dyn FileSystem> {
    let part = |dir: &str, fs: &SimFs| (PathBuf::from(dir), Arc::new(fs.clone()) as Arc<dyn FileSystem>);
    Arc::new(Routed::new(vec![part("/", fast), part(DIR, fast), part(SLOW, slow)]))
}

#[test]
fn a_full_slow_device_opens_once_its_orphans_are_gone() {
    let (fast, slow) = (SimFs::new(), SimFs::new());
    slow.create_dir_all(path(SLOW)).unwrap();
    let both = two_devices(&fast, &slow);
    let db = open_on(both.clone(), DIR, options().slow_path(SLOW)).unwrap();
    fill(&db);
    db.close().unwrap();
    let orphan = path(SLOW).join("000900.table");
    slow.write_file(&orphan, &[7; 20 << 10]).unwrap();
    slow.set_capacity(Some(slow.taken_bytes()));
    let db = open_on(both.clone(), DIR, options()).unwrap();
    assert!(is_filled(&db));
    db.close().unwrap();
    assert!(slow.file_len(&orphan).is_err());

    // Nothing but live files is left: the error says that the device is full.
    slow.set_capacity(Some(slow.taken_bytes()));
    match open_on(both.clone(), DIR, options()) {
        Err(error @ Error::Full { .. }) => assert!(error.to_string().contains("/slow"), "{error}"),
        other => panic!("{other:?}"),
    }
    slow.set_capacity(None);
    assert!(is_filled(&open_on(both, DIR, options()).unwrap()));
}

/// No log is in a slow directory, so a failed sync of it ends only the job, and does not poison the database.
#[test]
fn a_failed_sync_of_a_slow_directory_ends_the_job_alone() {
    let fs = SimFs::new();
    let db = open(&fs, options().memtable_bytes(1 << 20).slow_path(SLOW)).unwrap();
    let is_slow_sync = |op: &braidb_storage::sim::Op| op.kind == OpKind::SyncDir && *op.path == *path(SLOW);
    fs.fail_nth_where(1, Fault::Sync, Lasting::Once, 1, is_slow_sync);
    write(&db);
    // A merge that no caller waits for may have met the failure.
    assert!(matches!(db.compact().and_then(|()| db.settle()), Ok(()) | Err(Error::Io { .. })));
    assert_eq!(fs.faults_struck(), 1);
    db.put("still", "writable").unwrap();
    fill(&db);
    let image = fs.crash_image(Crash::PowerAllLost, 0);
    db.delete("still").unwrap();
    assert!(is_filled(&db));
    assert_eq!(open(&image, options()).unwrap().iter().count(), 51);
}

#[test]
fn verification_reads_slow_tiers_and_changes_nothing() {
    let fs = filled();
    let verified = |fs: &SimFs, options: Options| {
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let fs: Arc<dyn FileSystem> = Arc::new(fs.clone());
        let random = Arc::new(SeededRandom::new(1));
        options.env(Env { fs, clock, random, runtime }).verify(DIR)
    };
    let before: Vec<_> = fs.files().into_iter().map(|path| (fs.read_file(&path).unwrap(), path)).collect();
    let report = verified(&fs, options().slow_path("/new")).unwrap();
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    let after: Vec<_> = fs.files().into_iter().map(|path| (fs.read_file(&path).unwrap(), path)).collect();
    assert_eq!(before, after);
    for name in names(&fs, SLOW).iter().filter(|name| name.contains('.')) {
        let damaged = fs.crash_image(Crash::Process, 0);
        let file = path(SLOW).join(name);
        damaged.flip_bit(&file, 8 * 50).unwrap();
        let report = verified(&damaged, options()).unwrap();
        assert!(report.damages.iter().any(|damage| damage.path == file), "{name}: {:?}", report.damages);
    }
    relocate(&fs, SLOW, "/moved");
    assert!(matches!(verified(&fs, options()), Err(Error::Tier { .. })));
    assert!(verified(&fs, options().slow_path("/moved")).unwrap().damages.is_empty());
}
