//! Slow tiers that fail, or are given up, at awkward moments: what a user's callback asks, files that are left, trie tables, and a device
//! that is gone.

use braidb::storage::inline::{Inline, SeededRandom, StepClock};
use braidb::storage::{Env, FileSystem, Routed};
use braidb::tuning::ValueLayout;
use braidb::{Db, Error, Options};
use braidb_storage::sim::{Fault, Lasting, Op, OpKind, SimFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";
const SLOW: &str = "/slow";

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Small memory, large values in value files, and nothing that stays on the fast tier.
fn options() -> Options {
    let options = Options::new().memtable_bytes(16 << 10).fast_share(0).slow_path(SLOW);
    options.tuning(|tuning| tuning.separation_threshold(Some(200)))
}

fn open_on(fs: Arc<dyn FileSystem>, options: Options) -> Result<Db, Error> {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    options.env(Env { fs, clock, random: Arc::new(SeededRandom::new(7)), runtime }).open(DIR)
}

fn open(fs: &SimFs, options: Options) -> Db {
    open_on(Arc::new(fs.clone()), options).unwrap()
}

/// Writes every key twice with values of `bytes`, and flushes each time.
fn write(db: &Db, bytes: usize) {
    for round in 0..2_u8 {
        (0..50_u32).for_each(|number| db.put(number.to_be_bytes(), vec![round; bytes]).unwrap());
        db.flush().unwrap();
    }
}

/// Writes, and waits until everything is on the slow tier.
fn fill(db: &Db, bytes: usize) {
    write(db, bytes);
    db.compact().unwrap();
    db.settle().unwrap();
}

/// The names of the files in a directory.
fn names(fs: &SimFs, dir: &str) -> Vec<String> {
    let files = fs.files().into_iter().filter(|file| file.parent() == Some(path(dir)));
    files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn slow_files(fs: &SimFs) -> usize {
    names(fs, SLOW).iter().filter(|name| name.contains('.')).count()
}

#[test]
fn progress_may_ask_the_database_and_nothing_is_left() {
    for bytes in [50, 300] {
        let fs = SimFs::new();
        let db = open(&fs, options());
        fill(&db, bytes);
        assert!(slow_files(&fs) > 0);
        let mut told = Vec::new();
        db.evacuate(SLOW, |left_bytes| {
            assert!(!db.stats().tiers.is_empty());
            db.put("asked", "").unwrap();
            told.push(left_bytes);
        })
        .unwrap();
        assert_eq!(told.last(), Some(&0), "{told:?}");
        assert_eq!(names(&fs, SLOW), ["LOCK"]);
        assert_eq!(db.iter().count(), 51);
    }
}

#[test]
fn the_directory_of_a_tier_that_left_may_be_removed() {
    let fs = SimFs::new();
    let db = open(&fs, options());
    fill(&db, 50);
    db.evacuate(SLOW, |_| {}).unwrap();
    fs.unlink(&path(SLOW).join("LOCK")).unwrap();
    fill(&db, 50);
    assert_eq!(db.iter().count(), 50);
}

#[test]
fn a_panic_in_progress_leaves_a_tier_that_can_be_emptied() {
    let fs = SimFs::new();
    let db = open(&fs, options());
    fill(&db, 50);
    let asked = std::panic::AssertUnwindSafe(|| db.evacuate(SLOW, |_| panic!("a user's panic")));
    assert!(std::panic::catch_unwind(asked).is_err());
    db.evacuate(SLOW, |_| {}).unwrap();
}

/// The tier is out of the database, but its `TIER` stays. No cell may go there again.
#[test]
fn a_tier_whose_file_stays_is_used_no_more() {
    let fs = SimFs::new();
    let db = open(&fs, options());
    fill(&db, 50);
    let is_tier = |op: &Op| op.kind == OpKind::Unlink && *op.path == path(SLOW).join("TIER");
    fs.fail_nth_where(1, Fault::Io, Lasting::Once, 1, is_tier);
    assert!(matches!(db.evacuate(SLOW, |_| {}), Err(Error::Io { .. })));
    fill(&db, 50);
    assert_eq!(db.stats().counts.job_failures, 0);
    assert_eq!(slow_files(&fs), 0);
}

/// Values of trie tables leave for the slow tier, and what is flushed later stays on the fast one.
#[test]
fn trie_tables_wait_for_jobs_of_their_own_tier() {
    let fs = SimFs::new();
    let trie = options().tuning(|tuning| tuning.value_layout(ValueLayout::Trie { levels: 1 }));
    let db = open(&fs, trie);
    fill(&db, 300);
    assert!(names(&fs, SLOW).iter().any(|name| name.ends_with("values")), "{:?}", names(&fs, SLOW));
    let fast = db.stats().tiers[0].bytes;
    assert!(fast < 50 * 300, "{fast} bytes of values are on the fast tier");
    for number in 0..5_u32 {
        db.put(number.to_be_bytes(), [9; 300]).unwrap();
    }
    fs.fail_nth_where(1, Fault::Io, Lasting::ForEver, 1, |op| {
        op.path.starts_with(SLOW) && op.kind == OpKind::Append
    });
    db.flush().unwrap();
    fs.heal();
    db.evacuate(SLOW, |_| {}).unwrap();
    assert_eq!(names(&fs, SLOW), ["LOCK"]);
    assert_eq!(db.iter().count(), 50);
}

/// A file system of two devices.
fn two_devices(fast: &SimFs, slow: &SimFs) -> Arc<dyn FileSystem> {
    let part = |dir: &str, fs: &SimFs| (PathBuf::from(dir), Arc::new(fs.clone()) as Arc<dyn FileSystem>);
    Arc::new(Routed::new(vec![part("/", fast), part(DIR, fast), part(SLOW, slow)]))
}

/// The slow device is gone. Writes go on, also to keys whose older versions cannot be read, and nothing is lost.
#[test]
fn writes_go_on_without_the_slow_device() {
    let trie =
        |options: Options| options.tuning(|tuning| tuning.value_layout(ValueLayout::Trie { levels: 1 }));
    let leveled = |options: Options| options.tuning(|tuning| tuning.max_runs_per_guard(1));
    for (bytes, options) in [50, 300]
        .into_iter()
        .flat_map(|bytes| [options(), trie(options()), leveled(options())].map(|options| (bytes, options)))
    {
        let (fast, slow) = (SimFs::new(), SimFs::new());
        slow.create_dir_all(path(SLOW)).unwrap();
        let both = two_devices(&fast, &slow);
        let db = open_on(both.clone(), options.clone()).unwrap();
        fill(&db, bytes);
        slow.fail_nth_where(1, Fault::Io, Lasting::ForEver, 1, |_| true);
        for number in 1..20_000_u32 {
            db.put((number % 1_000).to_be_bytes(), [7; 60]).unwrap();
        }
        // `settle` may return the error of a merge that needs the failed device. Writing must go on all the same.
        let _ = db.settle();
        db.put("last", "").unwrap();
        db.flush().unwrap();
        drop(db);
        slow.heal();
        let db = open_on(both, options).unwrap();
        assert_eq!(
            db.iter().filter(|entry| entry.as_ref().is_ok_and(|(_, value)| **value == [7; 60])).count(),
            1_000
        );
        db.settle().unwrap();
        assert!(db.verify().unwrap().damages.is_empty());
    }
}
