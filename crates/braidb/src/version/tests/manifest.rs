//! Tests of the manifest: reopening, rolling over, torn tails, flipped bits, failing operations, a full disk.

use super::*;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::names;
use crate::version::{current, manifest::record};
use braidb_storage::FileSystem;
use braidb_storage::sim::{Crash, Fault, Lasting, Op, OpKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file system with an empty directory. It refuses appends into space that was not preallocated.
fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(dir()).unwrap();
    fs.set_appends_need_space(true);
    fs
}

/// A separate file system with the same files. No process holds its lock.
fn copy(fs: &SimFs) -> Arc<SimFs> {
    Arc::new(fs.crash_image(Crash::Process, 0))
}

/// Whether an operation changes something. Tests may take the lock again, so locking does not count.
fn is_change(op: &Op) -> bool {
    op.kind.mutates() && op.kind != OpKind::Lock
}

/// Fails the nth changing operation from now, once. The seed decides how much of a failing append is written.
fn fail_change(fs: &SimFs, nth: u64, seed: u64) {
    fs.fail_nth_where(nth, Fault::Io, Lasting::Once, seed, is_change);
}

/// Loses the lock now: its name belongs to another file.
fn lose_lock(fs: &SimFs) {
    let path = dir().join(names::LOCK);
    fs.unlink(&path).unwrap();
    fs.write_file(&path, b"").unwrap();
}

/// Loses the lock at the nth changing operation from now. This operation and all later ones find another file under the
/// lock's name. Returns whether the lock is lost.
fn lose_lock_at(fs: &SimFs, nth: u64) -> Arc<AtomicBool> {
    let is_lost = Arc::new(AtomicBool::new(false));
    let (mut changes, lost) = (0, is_lost.clone());
    fs.set_hook(Some(Box::new(move |fs, op| {
        changes += u64::from(is_change(op));
        if changes == nth && !lost.swap(true, Ordering::Relaxed) {
            lose_lock(fs);
        }
    })));
    is_lost
}

/// The names of all files.
fn file_names(fs: &SimFs) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    fs.files().into_iter().map(name).collect()
}

fn config(fs: &Arc<SimFs>, manifest_bytes: u64) -> ManifestConfig {
    ManifestConfig {
        fs: fs.clone(),
        dir: dir().to_owned(),
        lock: Arc::new(DirLock::take(&**fs, dir()).unwrap()),
        counters: Arc::new(Counters::default()),
        tables: TableStore::detached(fs.clone(), dir()),
        manifest_bytes,
    }
}

/// Reads the manifest in force and starts a new one with its state.
fn reopen(config: ManifestConfig) -> Result<Opened> {
    let read = Manifest::read(&*config.fs, &config.dir, config.tables.clone())?;
    Manifest::resume(config, read, &Edit::default())
}

#[test]
fn one_part_of_a_table_in_two_places_is_refused_at_open() {
    let fs = Arc::new(disk());
    let mut opened = create(config(&fs, 1 << 20));
    let mut edit = added(1, 1, &table(FileId(4), "a", "m", (1, 5)));
    let mut twin = edit.changes[1].clone();
    let Change::SliceAdded { run, .. } = &mut twin else { panic!() };
    run.level = 2;
    edit.push(twin);
    opened.manifest.commit(&opened.state, edit).unwrap();
    drop(opened);
    let error = reopen(config(&fs, 1 << 20)).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("same part of table"), "{error}");
}

/// A panic unlocks the catalog before its thread poisons the database, so another job may commit in between.
#[test]
fn after_a_panic_in_a_commit_no_edit_is_written() {
    for nth in 1.. {
        let fs = Arc::new(disk());
        let Opened { state, mut manifest, .. } = create(config(&fs, 1 << 20));
        let mut changes = 0;
        fs.set_hook(Some(Box::new(move |_, op| {
            changes += u64::from(is_change(op));
            assert!(changes != nth, "planted");
        })));
        let commit = || manifest.commit(&state, Edit::default()).map(drop);
        let outcome = catch_unwind(AssertUnwindSafe(commit));
        fs.set_hook(None);
        if let Ok(outcome) = outcome {
            assert!(outcome.is_ok() && nth > 3, "an edit, its sync and its mark are {nth} changes");
            break;
        }
        let before = files(&fs);
        assert!(
            matches!(manifest.commit(&state, Edit::default()), Err(CommitError::Poison(_))),
            "change {nth}"
        );
        assert_eq!(files(&fs), before);
        drop(manifest);
        reopen(config(&fs, 1 << 20)).unwrap();
    }
}

fn is_lock_lost(error: &Error) -> bool {
    matches!(error, Error::LockLost { path } if *path == dir().join("LOCK"))
}

/// All files. A process that has lost its lock must not change them.
fn files(fs: &SimFs) -> Vec<(PathBuf, Vec<u8>)> {
    fs.files().into_iter().map(|path| (path.clone(), fs.read_file(&path).unwrap())).collect()
}

#[test]
fn without_the_lock_no_manifest_is_started() {
    let fs = Arc::new(disk());
    drop(sample(&fs, 1 << 20));
    // Another process is about to rename this file.
    fs.write_file(&dir().join(names::CURRENT_TMP), b"theirs").unwrap();
    let (before, config) = (files(&fs), config(&fs, 1 << 20));
    lose_lock(&fs);
    assert!(is_lock_lost(&reopen(config.clone()).unwrap_err()));
    assert_eq!(files(&fs), before);
    let empty = Arc::new(disk());
    let config = self::config(&empty, 1 << 20);
    lose_lock(&empty);
    assert!(is_lock_lost(&Manifest::create(config, &Edit::default()).unwrap_err()));
    assert_eq!(file_names(&empty), [names::LOCK]);
}

/// The sample with a manifest that rolls over at the next commit.
fn about_to_roll(fs: &Arc<SimFs>) -> (State, Manifest) {
    let (states, mut manifest) = sample(fs, 1);
    let state = states.last().unwrap().clone();
    while !manifest.is_due_to_roll() {
        manifest.commit(&state, Edit::default()).unwrap();
    }
    (state, manifest)
}

#[test]
fn without_the_lock_no_edit_is_appended() {
    let fs = Arc::new(disk());
    let (states, mut manifest) = sample(&fs, 1 << 20);
    let (state, before) = (states.last().unwrap(), files(&fs));
    lose_lock(&fs);
    let error = manifest.commit(state, Edit::default()).unwrap_err();
    assert!(matches!(&error, CommitError::Poison(error) if is_lock_lost(error)), "{error:?}");
    let error = manifest.commit(state, Edit::default()).unwrap_err();
    assert!(matches!(&error, CommitError::Poison(Error::Poisoned { .. })), "{error:?}");
    assert_eq!(files(&fs), before);
}

/// A second process gets in at each operation of a commit that rolls the manifest over.
#[test]
fn a_lock_lost_while_a_manifest_rolls_over_deletes_no_manifest_of_others() {
    let mut seen = Vec::new();
    for operation in 1.. {
        let fs = Arc::new(disk());
        let (state, mut manifest) = about_to_roll(&fs);
        let theirs = names::manifest(dir(), FileId(900));
        fs.write_file(&theirs, b"theirs").unwrap();
        let current = || fs.read_file(&dir().join(names::CURRENT)).unwrap();
        let before = current();
        let is_lost = lose_lock_at(&fs, operation);
        let outcome = manifest.commit(&state, Edit::default()).map(drop);
        if !is_lost.load(Ordering::Relaxed) {
            break;
        }
        let is_refused = matches!(&outcome, Err(CommitError::Poison(error)) if is_lock_lost(error));
        assert!(is_refused || outcome.is_ok(), "{outcome:?}");
        seen.push((current() != before, fs.read_file(&theirs).is_err(), outcome.is_ok()));
    }
    // After the loss of the lock, the commit does not rename, does not delete other manifests, and does not succeed.
    assert!(seen.is_sorted(), "{seen:?}");
    let count = |stage| seen.iter().filter(|&&found| found == stage).count();
    assert!(count((false, false, false)) >= 10, "before the rename: {seen:?}");
    assert!(count((true, false, false)) >= 2, "before manifests are deleted: {seen:?}");
    assert!(count((true, true, false)) >= 2, "before the edit counts: {seen:?}");
    assert_eq!(count((true, true, true)), 1, "the mark behind the edit: {seen:?}");
}

/// A second process gets in at each operation of a commit that rolls the manifest over, and is about to rename
/// `CURRENT.tmp`. If the first process replaced `CURRENT.tmp`, the second process would bring the first one's manifest
/// into force and then delete it.
#[test]
fn a_lock_lost_while_a_manifest_is_written_leaves_current_tmp_to_the_other() {
    let replaced_at = |operation| {
        let fs = Arc::new(disk());
        let (state, mut manifest) = about_to_roll(&fs);
        let theirs = dir().join(names::CURRENT_TMP);
        fs.write_file(&theirs, b"theirs").unwrap();
        let is_lost = lose_lock_at(&fs, operation);
        let outcome = manifest.commit(&state, Edit::default()).map(drop);
        let is_refused = matches!(&outcome, Err(CommitError::Poison(error)) if is_lock_lost(error));
        assert!(is_refused || !is_lost.load(Ordering::Relaxed), "{outcome:?}");
        fs.read_file(&theirs).map_or(true, |bytes| bytes != b"theirs")
    };
    // The new manifest is created, allocated, written and synced, in this order; the fifth operation removes `CURRENT.tmp`.
    assert_eq!((1..=5).map(replaced_at).collect::<Vec<_>>(), [false, false, false, false, true]);
}

/// A new database in which the file numbers up to 10 are taken.
fn create(config: ManifestConfig) -> Opened {
    let opened = Manifest::create(config, &Edit::default()).unwrap();
    while opened.numbers.take() < FileId(10) {}
    opened
}

/// Creates a database in `fs` and commits the sample. Returns the state after each commit, and the open manifest.
fn sample(fs: &Arc<SimFs>, manifest_bytes: u64) -> (Vec<State>, Manifest) {
    let Opened { state, mut manifest, .. } = create(config(fs, manifest_bytes));
    let mut states = vec![state];
    for edit in sample_edits() {
        let next = manifest.commit(states.last().unwrap(), edit).unwrap();
        states.push(next);
    }
    (states, manifest)
}

/// The lasting contents of a state, without the next file number, which grows each time the database is opened.
fn gist(state: &State) -> Vec<Change> {
    let edit = state.snapshot_edit();
    edit.changes.into_iter().filter(|change| !matches!(change, Change::NextFile(_))).collect()
}

fn manifest_path(fs: &SimFs) -> PathBuf {
    let found: Vec<String> = file_names(fs).into_iter().filter(|name| name.ends_with(".manifest")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    dir().join(&found[0])
}

#[test]
fn a_database_comes_back_and_each_open_starts_a_new_manifest() {
    let fs = Arc::new(disk());
    let (states, manifest) = sample(&fs, 1 << 20);
    drop(manifest);
    let first = manifest_path(&fs);
    for _ in 0..2 {
        let opened = reopen(config(&fs, 1 << 20)).unwrap();
        assert_eq!(gist(&opened.state), gist(states.last().unwrap()));
        assert_eq!(opened.torn, None);
        assert!(opened.numbers.next() >= states.last().unwrap().next_file());
        assert_ne!(manifest_path(&fs), first);
    }
}

#[test]
fn numbers_resume_above_the_files_in_the_directory() {
    let fs = Arc::new(disk());
    drop(sample(&fs, 1 << 20));
    fs.write_file(&names::log(dir(), FileId(700)), b"").unwrap();
    fs.write_file(&dir().join("18446744073709551615.log"), b"").unwrap();
    let mut opened = reopen(config(&fs, 1 << 20)).unwrap();
    assert_eq!(opened.numbers.next(), FileId(702));
    let log = opened.numbers.take();
    let next = opened.manifest.commit(&opened.state, Edit::default()).unwrap();
    assert_eq!((log, next.next_file()), (FileId(702), FileId(703)));
}

#[test]
fn a_large_manifest_rolls_over_and_tables_are_buried_once_unseen() {
    let fs = Arc::new(disk());
    let config = config(&fs, 300);
    let Opened { mut state, mut manifest, numbers, .. } = create(config.clone());
    let mut last: Option<(RunId, Arc<Slice>)> = None;
    let view = state.clone();
    for n in 0..50 {
        let mut edit = Edit::default();
        let flush = version(&state).flush_run();
        edit.add_whole_table(FAMILY, &flush, &table(numbers.take(), "a", "b", (n + 1, n + 1)));
        if let Some((run, slice)) = &last {
            edit.remove_slice(FAMILY, run.clone(), slice);
        }
        state = manifest.commit(&state, edit).unwrap();
        last = Some((flush, version(&state).slices().next().unwrap().clone()));
    }
    assert_eq!(state.tables().count(), 1);
    assert_eq!(config.tables.take_dead(usize::MAX).len(), 49, "no view holds the dropped tables");
    assert_eq!(view.tables().count(), 0);
    let snapshots = config.counters.manifest_snapshots.get();
    assert!((5..=30).contains(&snapshots), "{snapshots}");
    manifest_path(&fs);
    drop(manifest);
    assert_eq!(gist(&reopen(config).unwrap().state), gist(&state));
}

#[test]
fn a_torn_last_edit_is_cut_and_reported() {
    let fs = Arc::new(disk());
    let (states, manifest) = sample(&fs, 1 << 20);
    drop(manifest);
    let path = manifest_path(&fs);
    let bytes = fs.read_file(&path).unwrap();
    let contents = record::read(&path, FileId(1), &bytes).unwrap();
    let last = contents.edits.last().unwrap().0 as usize;
    let mark = bytes.len() - record::MARK_BYTES;
    for len in last..bytes.len() {
        for zeros in [0, 30] {
            let fs = copy(&fs);
            let mut cut = bytes[..len].to_vec();
            cut.resize(len + zeros, 0);
            fs.write_file(&path, &cut).unwrap();
            let opened = reopen(config(&fs, 1 << 20)).unwrap();
            // A record ends in a non-zero payload byte, so a cut inside a record never looks whole.
            let expected = if len >= mark { states.last().unwrap() } else { &states[states.len() - 2] };
            assert_eq!(gist(&opened.state), gist(expected), "cut at {len}, {zeros} zeros");
            let at = if len >= mark { mark } else { last };
            let torn = opened.torn.map(|torn| (torn.offset as usize, torn.bytes as usize));
            // The last bytes of a mark are zeros, so zeros behind a cut can complete the mark.
            let whole = len == last
                || len == mark
                || (len > mark && bytes[len..].iter().all(|&b| b == 0) && zeros > 0);
            let expected = (!whole).then_some((at, len + zeros - at));
            assert_eq!(torn, expected, "cut at {len}, {zeros} zeros");
        }
    }
    // A power cut may tear the mark in front of an edit that was not synced.
    let contents_mark = last - record::MARK_BYTES;
    let mut torn = bytes[..mark].to_vec();
    torn[contents_mark..last].fill(0);
    fs.write_file(&path, &torn).unwrap();
    let opened = reopen(config(&fs, 1 << 20)).unwrap();
    assert_eq!(gist(&opened.state), gist(&states[states.len() - 2]));
    assert_eq!(opened.torn.map(|torn| torn.offset as usize), Some(contents_mark));
}

/// Flips every bit of `path`, and passes each outcome of opening to `judge`.
fn flip_each_bit(fs: &SimFs, path: &Path, mut judge: impl FnMut(usize, Result<Opened, Error>)) {
    for bit in 0..fs.file_len(path).unwrap() as usize * 8 {
        let fs = copy(fs);
        fs.flip_bit(path, bit as u64).unwrap();
        judge(bit, reopen(config(&fs, 1 << 20)));
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let fs = Arc::new(disk());
    let (states, manifest) = sample(&fs, 1 << 20);
    drop(manifest);
    let path = manifest_path(&fs);
    let bytes = fs.read_file(&path).unwrap();
    let last = gist(states.last().unwrap());
    let mark = (bytes.len() - record::MARK_BYTES) * 8;
    flip_each_bit(&fs, &path, |bit, outcome| match outcome {
        Ok(opened) => {
            assert!(bit >= mark, "bit {bit}");
            assert_eq!((gist(&opened.state), opened.torn.is_some()), (last.clone(), true));
        }
        Err(e) => assert!(e.is_corruption() && bit < mark, "bit {bit}: {e}"),
    });
    flip_each_bit(&fs, &dir().join(names::CURRENT), |bit, outcome| {
        let error = outcome.unwrap_err();
        assert!(error.is_corruption(), "bit {bit}: {error}");
    });

    // Without the mark, as after a power cut, the last edit may be torn, and the mark in front of it too.
    let edits = record::read(&path, FileId(1), &bytes).unwrap().edits;
    let unsure = (edits.last().unwrap().0 as usize - record::MARK_BYTES) * 8;
    fs.write_file(&path, &bytes[..mark / 8]).unwrap();
    let previous = gist(&states[states.len() - 2]);
    flip_each_bit(&fs, &path, |bit, outcome| match outcome {
        Ok(opened) => {
            assert!(bit >= unsure, "bit {bit}");
            assert_eq!((gist(&opened.state), opened.torn.is_some()), (previous.clone(), true));
        }
        Err(e) => assert!(e.is_corruption() && bit < unsure, "bit {bit}: {e}"),
    });
}

/// Seeds for failing appends. Some leave a part of their bytes, and some leave none.
const FAULT_SEEDS: std::ops::Range<u64> = 0..4;

/// Commits the sample while the nth changing operation fails, and reopens. Returns whether an operation failed, and
/// whether the last edit was found torn.
fn fail_while_committing(nth: u64, seed: u64) -> (bool, bool) {
    let fs = Arc::new(disk());
    // A limit of 120 bytes makes the workload roll over too.
    let Opened { mut state, mut manifest, .. } = create(config(&fs, 120));
    fail_change(&fs, nth, seed);
    let mut possible = vec![state.clone()];
    let mut poisoned = false;
    for edit in sample_edits() {
        match manifest.commit(&state, edit.clone()) {
            Ok(next) => {
                assert!(!poisoned, "operation {nth}: a poisoned manifest went on");
                state = next;
                possible = vec![state.clone()];
            }
            Err(CommitError::Poison(_)) if poisoned => {}
            Err(CommitError::Poison(e)) => {
                assert!(!matches!(e, Error::Poisoned { .. }), "the first failure reports its cause");
                poisoned = true;
                possible.push(state.apply(&edit).unwrap());
            }
            Err(CommitError::Refused(_)) => {
                state = manifest.commit(&state, edit).unwrap();
                possible = vec![state.clone()];
            }
        }
    }
    fs.heal();
    drop(manifest);
    let opened = reopen(config(&fs, 120)).unwrap();
    assert!(possible.iter().any(|state| gist(state) == gist(&opened.state)), "operation {nth}, seed {seed}");
    manifest_path(&fs);
    assert!(!file_names(&fs).contains(&names::CURRENT_TMP.to_owned()));
    (fs.faults_struck() > 0, opened.torn.is_some())
}

#[test]
fn every_failing_operation_leaves_a_state_that_was_promised() {
    let (mut failures, mut torn) = (0, 0);
    for nth in 1.. {
        let outcomes: Vec<_> = FAULT_SEEDS.map(|seed| fail_while_committing(nth, seed)).collect();
        if outcomes.iter().all(|(failed, _)| !failed) {
            break;
        }
        assert!(outcomes.iter().all(|(failed, _)| *failed), "operation {nth}");
        failures += 1;
        torn += outcomes.iter().filter(|(_, torn)| *torn).count();
    }
    assert!(failures > 20, "{failures}");
    assert!(torn >= 4, "failing appends left a part of their bytes: {torn}");
}

/// Creates and opens a database while the nth changing operation fails. Returns whether the creation met the failure.
fn fail_while_creating_and_opening(nth: u64, seed: u64) -> bool {
    let fs = Arc::new(disk());
    fail_change(&fs, nth, seed);
    let created = Manifest::create(config(&fs, 1 << 20), &Edit::default()).is_ok();
    let failed = fs.faults_struck() > 0;
    fs.heal();
    let opened = match examine(&*fs, dir()).unwrap() {
        Found::Nothing => {
            assert!(!created);
            Manifest::create(config(&fs, 1 << 20), &Edit::default()).unwrap()
        }
        Found::Database => reopen(config(&fs, 1 << 20)).unwrap(),
    };
    assert_eq!(opened.state.families().len(), 1, "operation {nth}");
    drop(opened);
    fail_change(&fs, nth, seed);
    let _ = reopen(config(&fs, 1 << 20));
    fs.heal();
    reopen(config(&fs, 1 << 20)).unwrap();
    failed
}

#[test]
fn a_failing_creation_or_open_can_be_repeated() {
    for nth in 1.. {
        let failed: Vec<_> = FAULT_SEEDS.map(|seed| fail_while_creating_and_opening(nth, seed)).collect();
        if !failed.contains(&true) {
            assert!(nth > 10, "{nth}");
            break;
        }
    }
}

/// Commits empty edits until the last block of the manifest is full. No other block is free. Returns the last state.
fn fill_last_block(fs: &SimFs, mut state: State, manifest: &mut Manifest) -> State {
    fs.set_capacity(Some(fs.taken_bytes()));
    loop {
        match manifest.commit(&state, Edit::default()) {
            Ok(next) => state = next,
            Err(CommitError::Refused(Error::Full { .. })) => return state,
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_full_disk_is_refused_before_a_byte_is_written() {
    const BLOCK_BYTES: u64 = 4096;
    let fs = Arc::new(disk());
    let config = config(&fs, BLOCK_BYTES);
    let Opened { state, mut manifest, .. } = create(config.clone());
    let mut state = fill_last_block(&fs, state, &mut manifest);
    assert!(!manifest.is_due_to_roll());
    let before = fs.read_file(&manifest_path(&fs)).unwrap();
    let edits = sample_edits();
    match manifest.commit(&state, edits[0].clone()) {
        Err(CommitError::Refused(e @ Error::Full { .. })) => assert!(e.is_full()),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs.read_file(&manifest_path(&fs)).unwrap(), before);
    // Each edit needs the only free block. A new manifest and its `CURRENT.tmp` would need two, so the old manifest stays
    // in force.
    for edit in edits {
        fs.set_capacity(Some(fs.taken_bytes() + BLOCK_BYTES));
        state = manifest.commit(&state, edit).unwrap();
        assert_eq!(fs.free_space(dir()).unwrap(), 0);
        state = fill_last_block(&fs, state, &mut manifest);
    }
    assert!(config.counters.job_failures.get() > 0);
    fs.set_capacity(None);
    drop(manifest);
    assert_eq!(gist(&reopen(config).unwrap().state), gist(&state));
}

#[test]
fn a_misfit_is_refused_and_the_manifest_goes_on() {
    let fs = Arc::new(disk());
    let Opened { state, mut manifest, .. } = create(config(&fs, 1 << 20));
    let misfit = Edit { changes: vec![Change::ReplayFrom { family: FamilyId(7), log: FileId(9) }] };
    match manifest.commit(&state, misfit) {
        Err(CommitError::Refused(e)) => assert!(e.to_string().contains("no column family 7"), "{e}"),
        other => panic!("{other:?}"),
    }
    manifest.commit(&state, sample_edits().remove(0)).unwrap();
}

#[test]
fn newer_formats_are_refused_by_name() {
    let fs = Arc::new(disk());
    drop(sample(&fs, 1 << 20));
    let path = manifest_path(&fs);
    let bytes = fs.read_file(&path).unwrap();
    for (at, name) in [(8, "format 2"), (12, "feature 1")] {
        let mut newer = bytes.clone();
        newer[at] = 2;
        let crc = crate::base::checksum::at_place(1, 0, &[&newer[..36]]);
        newer[36..40].copy_from_slice(&crc.to_le_bytes());
        fs.write_file(&path, &newer).unwrap();
        match reopen(config(&fs, 1 << 20)) {
            Err(Error::Unsupported { what, .. }) => assert!(what.contains(name), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_manifest_in_the_wrong_place_is_damage() {
    let fs = Arc::new(disk());
    drop(sample(&fs, 1 << 20));
    let path = manifest_path(&fs);
    let bytes = fs.read_file(&path).unwrap();
    fs.unlink(&path).unwrap();
    let missing = reopen(config(&fs, 1 << 20)).unwrap_err();
    assert!(missing.is_corruption() && missing.to_string().contains("missing"), "{missing}");
    fs.write_file(&names::manifest(dir(), FileId(2)), &bytes).unwrap();
    fs.write_file(&dir().join(names::CURRENT), current::content(FileId(2)).as_bytes()).unwrap();
    assert!(reopen(config(&fs, 1 << 20)).unwrap_err().is_corruption());
}

#[test]
fn a_directory_is_told_for_what_it_is() {
    let with = |names: &[&str]| {
        let fs = disk();
        names.iter().for_each(|name| fs.write_file(&dir().join(name), b"MANIFEST-000005\n").unwrap());
        fs
    };
    let examined = |names: &[&str]| examine(&with(names), dir());
    assert_eq!(examined(&[]).unwrap(), Found::Nothing);
    assert_eq!(examined(&["LOCK", "000001.manifest", "CURRENT.tmp"]).unwrap(), Found::Nothing);
    assert_eq!(examined(&["CURRENT", "letter.txt"]).unwrap(), Found::Database);
    let error = examined(&["LOCK", "000002.log", "letter.txt"]).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("CURRENT is missing"), "{error}");
    assert!(examined(&["000002.table"]).unwrap_err().is_corruption());
    // What file systems, desktops and other programs leave beside a new database.
    let beside =
        ["LOCK", "letter.txt", ".DS_Store", ".nfs0000000000000001", "lost+found", ".git", "desktop.ini"];
    assert_eq!(examined(&beside).unwrap(), Found::Nothing);
    for (names, store) in [
        (["LOCK", "MANIFEST-000005"], "LevelDB"),
        (["000004.log", "MANIFEST-000005"], "LevelDB"),
        (["LOCK", "000007.ldb"], "LevelDB"),
        (["000004.log", "000007.sst"], "RocksDB"),
        (["LOCK", "IDENTITY"], "RocksDB"),
        (["LOCK", "OPTIONS-000008"], "RocksDB"),
        (["data.mdb", "lock.mdb"], "LMDB"),
        (["lock.mdb", "letter.txt"], "LMDB"),
        (["users.redb", "letter.txt"], "redb"),
    ] {
        match examined(&names) {
            Err(Error::NotADatabase { why, .. }) => assert!(why.contains(store), "{names:?}: {why}"),
            other => panic!("{names:?}: {other:?}"),
        }
    }
    // Another store that lost its manifest is no damaged database of ours.
    for names in [&["CURRENT", "MANIFEST-000005"], &["CURRENT", "000007.ldb"], &["CURRENT", "000007.sst"]] {
        match reopen(config(&Arc::new(with(names)), 1)) {
            Err(Error::NotADatabase { why, .. }) => assert!(why.contains("LevelDB")),
            other => panic!("{names:?}: {other:?}"),
        }
    }
    let missing = reopen(config(&Arc::new(with(&["CURRENT"])), 1)).unwrap_err();
    assert!(
        missing.is_corruption() && missing.to_string().contains("`MANIFEST-000005`, which is missing"),
        "{missing}"
    );
}
