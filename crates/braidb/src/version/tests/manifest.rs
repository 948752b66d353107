//! Tests of the manifest: reopening, rolling over, torn tails, flipped bits, failing operations, a full disk.

use super::*;
use crate::base::counters::Counters;
use crate::base::error::Error;
use crate::base::names;
use crate::version::{current, record};
use braidb_storage::FileSystem;
use std::path::PathBuf;

fn config(fs: &Arc<MemFs>, manifest_bytes: u64) -> ManifestConfig {
    ManifestConfig {
        fs: fs.clone(),
        dir: dir().to_owned(),
        lock: Arc::new(DirLock::take(&**fs, dir()).unwrap()),
        counters: Arc::new(Counters::default()),
        tables: TableStore::detached(fs.clone(), dir()),
        manifest_bytes,
    }
}

#[test]
fn one_part_of_a_table_in_two_places_is_refused_at_open() {
    let fs = Arc::new(MemFs::default());
    let mut opened = create(config(&fs, 1 << 20));
    let mut edit = added(1, 1, &table(FileId(4), "a", "m", (1, 5)));
    let mut twin = edit.changes[1].clone();
    let Change::SliceAdded { run, .. } = &mut twin else { panic!() };
    run.level = 2;
    edit.push(twin);
    opened.manifest.commit(&opened.state, edit).unwrap();
    let error = Manifest::open(config(&fs, 1 << 20)).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("same part of table"), "{error}");
}

fn is_lock_lost(error: &Error) -> bool {
    matches!(error, Error::LockLost { path } if *path == dir().join("LOCK"))
}

/// All files. A process that has lost its lock must not change them.
fn files(fs: &MemFs) -> Vec<(String, Vec<u8>)> {
    fs.names().into_iter().map(|name| (name.clone(), fs.bytes(&dir().join(&name)).unwrap())).collect()
}

#[test]
fn who_has_lost_the_lock_starts_no_manifest() {
    let fs = Arc::new(MemFs::default());
    drop(sample(&fs, 1 << 20));
    // Another process is about to rename this file.
    fs.set_bytes(&dir().join(names::CURRENT_TMP), b"theirs".to_vec());
    let (before, config) = (files(&fs), config(&fs, 1 << 20));
    fs.lose_lock();
    assert!(is_lock_lost(&Manifest::open(config.clone()).unwrap_err()));
    assert_eq!(files(&fs), before);
    let empty = Arc::new(MemFs::default());
    empty.lose_lock();
    assert!(is_lock_lost(&Manifest::create(self::config(&empty, 1 << 20)).unwrap_err()));
    assert_eq!(files(&empty), []);
}

/// The sample with a manifest that rolls over at the next commit.
fn about_to_roll(fs: &Arc<MemFs>) -> (State, Manifest) {
    let (states, mut manifest) = sample(fs, 1);
    let state = states.last().unwrap().clone();
    while !manifest.is_due_to_roll() {
        manifest.commit(&state, Edit::default()).unwrap();
    }
    (state, manifest)
}

#[test]
fn who_has_lost_the_lock_appends_no_edit() {
    let fs = Arc::new(MemFs::default());
    let (states, mut manifest) = sample(&fs, 1 << 20);
    let (state, before) = (states.last().unwrap(), files(&fs));
    fs.lose_lock();
    let error = manifest.commit(state, Edit::default()).unwrap_err();
    assert!(matches!(&error, CommitError::Poison(error) if is_lock_lost(error)), "{error:?}");
    let error = manifest.commit(state, Edit::default()).unwrap_err();
    assert!(matches!(&error, CommitError::Poison(Error::Poisoned { .. })), "{error:?}");
    assert_eq!(files(&fs), before);
}

/// A second process gets in at each operation of a commit that rolls the manifest over.
#[test]
fn who_loses_the_lock_while_a_manifest_rolls_over_deletes_no_manifest_of_others() {
    let mut seen = Vec::new();
    for operation in 1.. {
        let fs = Arc::new(MemFs::default());
        let (state, mut manifest) = about_to_roll(&fs);
        let theirs = names::manifest(dir(), FileId(900));
        fs.set_bytes(&theirs, b"theirs".to_vec());
        let current = || fs.bytes(&dir().join(names::CURRENT)).unwrap();
        let before = current();
        fs.lose_lock_at(operation);
        let outcome = manifest.commit(&state, Edit::default()).map(drop);
        if !fs.has_lost_lock() {
            break;
        }
        let is_refused = matches!(&outcome, Err(CommitError::Poison(error)) if is_lock_lost(error));
        assert!(is_refused || outcome.is_ok(), "{outcome:?}");
        seen.push((current() != before, fs.bytes(&theirs).is_none(), outcome.is_ok()));
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
fn who_loses_the_lock_while_a_manifest_is_written_leaves_current_tmp_to_the_other() {
    let replaced_at = |operation| {
        let fs = Arc::new(MemFs::default());
        let (state, mut manifest) = about_to_roll(&fs);
        let theirs = dir().join(names::CURRENT_TMP);
        fs.set_bytes(&theirs, b"theirs".to_vec());
        fs.lose_lock_at(operation);
        let outcome = manifest.commit(&state, Edit::default()).map(drop);
        let is_lost = matches!(&outcome, Err(CommitError::Poison(error)) if is_lock_lost(error));
        assert!(is_lost || !fs.has_lost_lock(), "{outcome:?}");
        fs.bytes(&theirs).is_none_or(|bytes| bytes != b"theirs")
    };
    // The new manifest is created, allocated, written and synced, in this order; the fifth operation removes `CURRENT.tmp`.
    assert_eq!((1..=5).map(replaced_at).collect::<Vec<_>>(), [false, false, false, false, true]);
}

/// A new database in which the file numbers up to 10 are taken.
fn create(config: ManifestConfig) -> Opened {
    let opened = Manifest::create(config).unwrap();
    while opened.numbers.take() < FileId(10) {}
    opened
}

/// Creates a database in `fs` and commits the sample. Returns the state after each commit, and the open manifest.
fn sample(fs: &Arc<MemFs>, manifest_bytes: u64) -> (Vec<State>, Manifest) {
    let Opened { state, mut manifest, .. } = create(config(fs, manifest_bytes));
    let mut states = vec![state];
    for edit in sample_edits() {
        let next = manifest.commit(states.last().unwrap(), edit).unwrap();
        states.push(next);
    }
    (states, manifest)
}

/// The lasting contents of a state, without the next file number, which every open advances.
fn gist(state: &State) -> Vec<Change> {
    let edit = state.snapshot_edit();
    edit.changes.into_iter().filter(|change| !matches!(change, Change::NextFile(_))).collect()
}

fn manifest_path(fs: &MemFs) -> PathBuf {
    let found: Vec<String> = fs.names().into_iter().filter(|name| name.ends_with(".manifest")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    dir().join(&found[0])
}

#[test]
fn a_database_comes_back_and_each_open_starts_a_new_manifest() {
    let fs = Arc::new(MemFs::default());
    let (states, manifest) = sample(&fs, 1 << 20);
    drop(manifest);
    let first = manifest_path(&fs);
    for _ in 0..2 {
        let opened = Manifest::open(config(&fs, 1 << 20)).unwrap();
        assert_eq!(gist(&opened.state), gist(states.last().unwrap()));
        assert_eq!(opened.torn, None);
        assert!(opened.numbers.next() >= states.last().unwrap().next_file());
        assert_ne!(manifest_path(&fs), first);
    }
}

#[test]
fn numbers_resume_above_the_files_in_the_directory() {
    let fs = Arc::new(MemFs::default());
    drop(sample(&fs, 1 << 20));
    fs.set_bytes(&names::log(dir(), FileId(700)), vec![]);
    fs.set_bytes(&dir().join("18446744073709551615.log"), vec![]);
    let mut opened = Manifest::open(config(&fs, 1 << 20)).unwrap();
    assert_eq!(opened.numbers.next(), FileId(702));
    let log = opened.numbers.take();
    let next = opened.manifest.commit(&opened.state, Edit::default()).unwrap();
    assert_eq!((log, next.next_file()), (FileId(702), FileId(703)));
}

#[test]
fn a_large_manifest_rolls_over_and_tables_are_buried_once_unseen() {
    let fs = Arc::new(MemFs::default());
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
    assert_eq!(config.tables.take_dead().len(), 49, "no view holds the dropped tables");
    assert_eq!(view.tables().count(), 0);
    let snapshots = config.counters.manifest_snapshots.get();
    assert!((5..=30).contains(&snapshots), "{snapshots}");
    manifest_path(&fs);
    drop(manifest);
    assert_eq!(gist(&Manifest::open(config).unwrap().state), gist(&state));
}

#[test]
fn a_torn_last_edit_is_cut_and_reported() {
    let fs = Arc::new(MemFs::default());
    let (states, manifest) = sample(&fs, 1 << 20);
    drop(manifest);
    let path = manifest_path(&fs);
    let bytes = fs.bytes(&path).unwrap();
    let contents = record::read(&path, FileId(1), &bytes).unwrap();
    let last = contents.edits.last().unwrap().0 as usize;
    let mark = bytes.len() - record::MARK_BYTES;
    for len in last..bytes.len() {
        for zeros in [0, 30] {
            let fs = Arc::new(fs.copy());
            let mut cut = bytes[..len].to_vec();
            cut.resize(len + zeros, 0);
            fs.set_bytes(&path, cut);
            let opened = Manifest::open(config(&fs, 1 << 20)).unwrap();
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
    fs.set_bytes(&path, torn);
    let opened = Manifest::open(config(&fs, 1 << 20)).unwrap();
    assert_eq!(gist(&opened.state), gist(&states[states.len() - 2]));
    assert_eq!(opened.torn.map(|torn| torn.offset as usize), Some(contents_mark));
}

/// Flips every bit of `path`, and passes each outcome of opening to `judge`.
fn flip_each_bit(fs: &MemFs, path: &Path, mut judge: impl FnMut(usize, Result<Opened, Error>)) {
    let bytes = fs.bytes(path).unwrap();
    for bit in 0..bytes.len() * 8 {
        let fs = Arc::new(fs.copy());
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.set_bytes(path, flipped);
        judge(bit, Manifest::open(config(&fs, 1 << 20)));
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let fs = Arc::new(MemFs::default());
    let (states, manifest) = sample(&fs, 1 << 20);
    drop(manifest);
    let path = manifest_path(&fs);
    let bytes = fs.bytes(&path).unwrap();
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
    fs.set_bytes(&path, bytes[..mark / 8].to_vec());
    let previous = gist(&states[states.len() - 2]);
    flip_each_bit(&fs, &path, |bit, outcome| match outcome {
        Ok(opened) => {
            assert!(bit >= unsure, "bit {bit}");
            assert_eq!((gist(&opened.state), opened.torn.is_some()), (previous.clone(), true));
        }
        Err(e) => assert!(e.is_corruption() && bit < unsure, "bit {bit}: {e}"),
    });
}

#[test]
fn every_failing_operation_leaves_a_state_that_was_promised() {
    // A limit of 120 bytes makes the workload roll over too.
    let mut failures = 0;
    for nth in 1.. {
        let fs = Arc::new(MemFs::default());
        let Opened { state, mut manifest, .. } = create(config(&fs, 120));
        fs.fail_at(Some(nth));
        let mut possible = vec![state.clone()];
        let mut state = state;
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
        let failed = fs.has_failed();
        fs.fail_at(None);
        drop(manifest);
        let opened = Manifest::open(config(&fs, 120)).unwrap();
        assert!(possible.iter().any(|state| gist(state) == gist(&opened.state)), "operation {nth}");
        manifest_path(&fs);
        assert!(!fs.names().contains(&names::CURRENT_TMP.to_owned()));
        if !failed {
            break;
        }
        failures += 1;
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn a_failing_creation_or_open_can_be_repeated() {
    for nth in 1.. {
        let fs = Arc::new(MemFs::default());
        fs.fail_at(Some(nth));
        let created = Manifest::create(config(&fs, 1 << 20)).is_ok();
        let failed = fs.has_failed();
        fs.fail_at(None);
        let opened = match examine(&*fs, dir()).unwrap() {
            Found::Nothing => {
                assert!(!created);
                Manifest::create(config(&fs, 1 << 20)).unwrap()
            }
            Found::Database => Manifest::open(config(&fs, 1 << 20)).unwrap(),
        };
        assert_eq!(opened.state.families().len(), 1, "operation {nth}");
        drop(opened);
        fs.fail_at(Some(nth));
        let _ = Manifest::open(config(&fs, 1 << 20));
        fs.fail_at(None);
        Manifest::open(config(&fs, 1 << 20)).unwrap();
        if !failed {
            break;
        }
    }
}

#[test]
fn a_full_disk_is_refused_before_a_byte_is_written() {
    let fs = Arc::new(MemFs::default());
    let config = config(&fs, 120);
    let Opened { mut state, mut manifest, .. } = create(config.clone());
    fs.set_free_bytes(Some(0));
    let before = fs.bytes(&manifest_path(&fs));
    let edits = sample_edits();
    match manifest.commit(&state, edits[0].clone()) {
        Err(CommitError::Refused(e @ Error::Full { .. })) => assert!(e.is_full()),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs.bytes(&manifest_path(&fs)), before);
    // Space for the edits but not for a new manifest: the old manifest stays in force.
    for edit in edits {
        fs.set_free_bytes(Some(110));
        state = manifest.commit(&state, edit).unwrap();
    }
    assert!(config.counters.job_failures.get() > 0);
    fs.set_free_bytes(None);
    drop(manifest);
    assert_eq!(gist(&Manifest::open(config).unwrap().state), gist(&state));
}

#[test]
fn a_misfit_is_refused_and_the_manifest_goes_on() {
    let fs = Arc::new(MemFs::default());
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
    let fs = Arc::new(MemFs::default());
    drop(sample(&fs, 1 << 20));
    let path = manifest_path(&fs);
    let bytes = fs.bytes(&path).unwrap();
    for (at, name) in [(8, "format 2"), (12, "feature 1")] {
        let mut newer = bytes.clone();
        newer[at] = 2;
        let crc = crate::base::checksum::at_place(1, 0, &[&newer[..36]]);
        newer[36..40].copy_from_slice(&crc.to_le_bytes());
        fs.set_bytes(&path, newer);
        match Manifest::open(config(&fs, 1 << 20)) {
            Err(Error::Unsupported { what, .. }) => assert!(what.contains(name), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_manifest_in_the_wrong_place_is_damage() {
    let fs = Arc::new(MemFs::default());
    drop(sample(&fs, 1 << 20));
    let path = manifest_path(&fs);
    let bytes = fs.bytes(&path).unwrap();
    fs.unlink(&path).unwrap();
    let missing = Manifest::open(config(&fs, 1 << 20)).unwrap_err();
    assert!(missing.is_corruption() && missing.to_string().contains("missing"), "{missing}");
    fs.set_bytes(&names::manifest(dir(), FileId(2)), bytes);
    fs.set_bytes(&dir().join(names::CURRENT), current::content(FileId(2)).into_bytes());
    assert!(Manifest::open(config(&fs, 1 << 20)).unwrap_err().is_corruption());
}

#[test]
fn a_directory_is_told_for_what_it_is() {
    let with = |names: &[&str]| {
        let fs = MemFs::default();
        names.iter().for_each(|name| fs.set_bytes(&dir().join(name), b"MANIFEST-000005\n".to_vec()));
        fs
    };
    let examined = |names: &[&str]| examine(&with(names), dir());
    assert_eq!(examined(&[]).unwrap(), Found::Nothing);
    assert_eq!(examined(&["LOCK", "000001.manifest", "CURRENT.tmp"]).unwrap(), Found::Nothing);
    assert_eq!(examined(&["CURRENT", "letter.txt"]).unwrap(), Found::Database);
    let error = examined(&["LOCK", "000002.log", "letter.txt"]).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("CURRENT is missing"), "{error}");
    assert!(examined(&["000002.table"]).unwrap_err().is_corruption());
    match examined(&["LOCK", "letter.txt"]) {
        Err(Error::NotADatabase { why, .. }) => assert!(why.contains("letter.txt")),
        other => panic!("{other:?}"),
    }
    match Manifest::open(config(&Arc::new(with(&["CURRENT"])), 1)) {
        Err(Error::NotADatabase { why, .. }) => assert!(why.contains("LevelDB")),
        other => panic!("{other:?}"),
    }
}
