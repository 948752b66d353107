//! Truncations with others between their steps.

use super::{Db, MemoryPolicy, Options};
use crate::base::counters::Counters;
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId};
use crate::log::{EncodedBatch, LogSync, LogWriter};
use crate::visible::EntryKind;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::real::RealFs;
use braidb_storage::{Env, FileSystem};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that does not exist.
fn dir(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("braidb-truncation-{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

/// Memory that never fills up, and logs of 16 KiB each. No job runs unless somebody waits for it.
fn open(dir: &Path, active_percent: u32) -> Db {
    open_or(dir, active_percent).unwrap()
}

fn open_or(dir: &Path, active_percent: u32) -> Result<Db> {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let env = Env { fs: Arc::new(RealFs), clock, random: Arc::new(SeededRandom::new(1)), runtime };
    let options = Options::new().memtable_bytes(1 << 20).memory_policy(MemoryPolicy::Eager);
    options.active_percent(active_percent).log_bytes(64 << 10).env(env).open(dir)
}

/// What a killed process leaves.
fn killed(dir: &Path) -> PathBuf {
    let copy = dir.with_extension("killed");
    let _ = std::fs::remove_dir_all(&copy);
    RealFs.create_dir_all(&copy).unwrap();
    for entry in RealFs.list(dir).unwrap() {
        if entry.name != "LOCK" {
            let (from, to) = (RealFs.open(&dir.join(&entry.name)), RealFs.create(&copy.join(&entry.name)));
            let from = from.unwrap();
            let mut bytes = vec![0; from.len().unwrap() as usize];
            from.read_exact_at(0, &mut bytes).unwrap();
            to.unwrap().append(&bytes).unwrap();
        }
    }
    copy
}

/// Overwrites one key until the log is rotated.
fn fill_a_log(db: &Db) {
    let before = db.stats().counts.logs_rotated;
    while db.stats().counts.logs_rotated == before {
        db.put("hot", [b'h'; 100]).unwrap();
    }
}

/// Truncates the logs, with somebody else after the beginning. Whether there was something to do and no freeze in between.
fn truncate(db: &Db, meanwhile: impl FnOnce()) -> bool {
    let jobs = &db.engine().jobs;
    let mut begun = db.engine().queue.begin_truncation().unwrap().expect("no flush is under way");
    meanwhile();
    let Some(replay_from) = jobs.choose_logs(&begun) else { return false };
    let is_written = jobs.write_back(&mut begun, replay_from).unwrap();
    if is_written {
        jobs.finish_truncation(&mut begun, replay_from).unwrap();
    }
    db.engine().queue.end_copies();
    is_written
}

/// A freeze between the beginning and the view: the view's pipeline shows none of what the flush took, so there is nothing to
/// copy, and nobody looks whether there was a freeze.
#[test]
fn a_freeze_before_the_view_is_taken_ends_a_truncation() {
    let dir = dir("freeze");
    let db = open(&dir, 1);
    db.put("cold", "v").unwrap();
    fill_a_log(&db);
    let queue = db.engine().queue.clone();
    let truncated = truncate(&db, || drop(queue.freeze_all().unwrap()));
    assert_eq!(db.get("cold").unwrap().unwrap(), b"v");
    let reopened = open(&killed(&dir), 1);
    assert_eq!(reopened.get("cold").unwrap().as_deref(), Some(&b"v"[..]), "truncated: {truncated:?}");
}

/// A log fills up while what is alive is counted: it was not there at the beginning, and must not be the one to replay from. What
/// was written to the log before it meanwhile is in a segment that the view does not show.
#[test]
fn a_log_that_fills_up_during_the_count_does_not_go() {
    let dir = dir("full");
    let db = open(&dir, 1);
    fill_a_log(&db);
    let truncated = truncate(&db, || {
        let before = db.stats().counts.memory_flushes;
        while db.stats().counts.memory_flushes == before {
            db.put("hot", [b'h'; 100]).unwrap();
        }
        db.put("fresh", "v").unwrap();
        fill_a_log(&db);
    });
    assert_eq!(db.get("fresh").unwrap().unwrap(), b"v");
    let reopened = open(&killed(&dir), 1);
    assert_eq!(reopened.get("fresh").unwrap().as_deref(), Some(&b"v"[..]), "truncated: {truncated:?}");
}

/// The same, with the segment still active: what the new log got is copied, since its home is taken for the log before, and
/// recovery meets the copy and the record itself.
#[test]
fn a_log_that_begins_during_the_count_is_not_copied() {
    let dir = dir("twice");
    let db = open(&dir, 100);
    fill_a_log(&db);
    let truncated = truncate(&db, || {
        fill_a_log(&db);
        db.put("fresh", "v").unwrap();
    });
    assert_eq!(db.get("fresh").unwrap().unwrap(), b"v");
    let reopened = open(&killed(&dir), 100);
    assert_eq!(reopened.get("fresh").unwrap().as_deref(), Some(&b"v"[..]), "truncated: {truncated:?}");
}

/// Logs with right checksums in which a number comes twice: as a commit that is damage; a copy of what is there is left out. Neither
/// is a reason to panic.
#[test]
fn a_number_that_comes_twice_in_the_logs_is_no_panic() {
    for is_copy in [false, true] {
        let dir = dir(if is_copy { "copied" } else { "committed" });
        let db = open(&dir, 1);
        let image = killed(&dir);
        let mut logs = RealFs.list(&image).unwrap();
        logs.retain(|entry| entry.name.ends_with(".log"));
        assert_eq!(logs.len(), 1);
        let id: u64 = logs[0].name.trim_end_matches(".log").parse().unwrap();
        RealFs.unlink(&image.join(&logs[0].name)).unwrap();
        drop(db);

        let sync = Arc::new(LogSync::new(Arc::new(RealFs), &image, Arc::new(Counters::default())));
        let mut log = LogWriter::create(sync, FileId(id), None, 0).unwrap();
        let mut batch = EncodedBatch::default();
        batch.push_put(FamilyId(0), b"k", b"v");
        log.append(&[(&batch, 1)], true).unwrap();
        log.rotate(FileId(id + 1), true).unwrap();
        if is_copy {
            batch.clear();
            batch.push_written_back(FamilyId(0), 1, EntryKind::Put, b"k", b"v");
            log.append_written_back(&batch, FileId(0)).unwrap();
        } else {
            log.append(&[(&batch, 1)], true).unwrap();
        }
        match open_or(&image, 1) {
            Ok(db) => assert_eq!(db.get("k").unwrap().unwrap(), b"v"),
            Err(error) => assert!(!is_copy && error.is_corruption(), "{error}"),
        }
    }
}
