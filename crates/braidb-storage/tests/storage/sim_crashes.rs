//! What the simulated file system loses in a crash, what it must keep, and how it fails.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braidb_storage::inline::SeededRandom;
use braidb_storage::sim::{Crash, Fault, Lasting, OpKind, SimFs};
use braidb_storage::{File, FileSystem, Random};
use parking_lot::Mutex;

const DIR: &str = "/db";
const A: &str = "/db/a";
const B: &str = "/db/b";

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn sim() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(path(DIR)).unwrap();
    fs
}

/// Creates a file that is stable with its name.
fn stable(fs: &SimFs, name: &str, data: &[u8]) -> Arc<dyn File> {
    let file = fs.create(path(name)).unwrap();
    file.append(data).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(path(DIR)).unwrap();
    file
}

/// The bytes of a file after a crash. `None` if it has no name.
fn left(fs: &SimFs, crash: Crash, seed: u64, name: &str) -> Option<Vec<u8>> {
    fs.crash_image(crash, seed).read_file(path(name)).ok()
}

/// Everything that `name` may hold after a power failure.
fn torn(fs: &SimFs, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| left(fs, Crash::PowerTorn, seed, name)).collect()
}

#[test]
fn a_killed_process_leaves_everything_but_its_locks() {
    let fs = sim();
    let _lock = fs.lock(path("/db/LOCK")).unwrap();
    let file = fs.create(path(A)).unwrap();
    file.append(b"unsynced").unwrap();
    let image = fs.crash_image(Crash::Process, 1);
    assert_eq!(image.read_file(path(A)).unwrap(), b"unsynced");
    image.lock(path("/db/LOCK")).unwrap();
    assert_eq!(fs.lock(path("/db/LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn unsynced_data_is_dropped() {
    let fs = sim();
    let file = stable(&fs, A, b"kept");
    file.append(b"dropped").unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A).unwrap(), b"kept");
    file.truncate(1).unwrap();
    fs.punch_hole(path(A), 0, 1).unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A).unwrap(), b"kept");
}

#[test]
fn synced_data_without_a_synced_name_is_lost() {
    let fs = sim();
    let file = fs.create(path(A)).unwrap();
    file.append(b"data").unwrap();
    file.sync_data().unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A), None);
    assert_eq!(torn(&fs, A), BTreeSet::from([None, Some(b"data".to_vec())]));
    fs.sync_dir(path(DIR)).unwrap();
    assert_eq!(torn(&fs, A), BTreeSet::from([Some(b"data".to_vec())]));
}

#[test]
fn a_synced_name_does_not_keep_data() {
    let fs = sim();
    let file = fs.create(path(A)).unwrap();
    file.append(b"data").unwrap();
    fs.sync_dir(path(DIR)).unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A).unwrap(), b"");
}

#[test]
fn what_is_synced_whole_is_kept_by_every_crash() {
    let fs = sim();
    let file = stable(&fs, A, &[b'x'; 3_000]);
    file.append(&[b'y'; 3_000]).unwrap();
    fs.punch_hole(path(A), 0, 1_000).unwrap();
    file.truncate(5_000).unwrap();
    file.sync_data().unwrap();
    let whole = [[0; 1_000].as_slice(), &[b'x'; 2_000], &[b'y'; 2_000]].concat();
    assert_eq!(torn(&fs, A), BTreeSet::from([Some(whole.clone())]));
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A), Some(whole));
}

#[test]
fn an_image_is_stable_and_apart() {
    let fs = sim();
    stable(&fs, A, b"a").append(b"bc").unwrap();
    let image = fs.crash_image(Crash::Process, 0);
    assert_eq!(torn(&image, A), BTreeSet::from([Some(b"abc".to_vec())]));
    image.unlink(path(A)).unwrap();
    image.create(path(B)).unwrap().append(b"new").unwrap();
    assert_eq!(fs.files(), [path(A)]);
    assert_eq!(image.files(), [path(B)]);
}

#[test]
fn torn_writes_differ_by_seed_and_replay() {
    /// The ends of the writes and of the disk's sectors, in bytes.
    const PLACES: [usize; 10] = [100, 512, 1_024, 1_100, 1_536, 2_048, 2_100, 2_560, 3_072, 3_100];
    let fs = sim();
    let file = stable(&fs, A, &[b'o'; 100]);
    for byte in [b'p', b'q', b'r'] {
        file.append(&[byte; 1_000]).unwrap();
    }
    let images: Vec<_> = (0..400).map(|seed| left(&fs, Crash::PowerTorn, seed, A).unwrap()).collect();
    let again: Vec<_> = (0..400).map(|seed| left(&fs, Crash::PowerTorn, seed, A).unwrap()).collect();
    assert_eq!(images, again);
    assert!(images.iter().collect::<BTreeSet<_>>().len() > 40);

    let whole = fs.read_file(path(A)).unwrap();
    for image in &images {
        assert_eq!(image[..100], [b'o'; 100], "what is stable is not touched");
        assert!([100, 1_100, 2_100, 3_100].contains(&image.len()), "a length is kept or dropped, not torn");
        // Each sector of the disk, within each write, is kept whole or zero.
        for pair in PLACES.windows(2).filter(|pair| pair[1] <= image.len()) {
            let (now, written) = (&image[pair[0]..pair[1]], &whole[pair[0]..pair[1]]);
            assert!(now == written || now.iter().all(|byte| *byte == 0));
        }
    }
    let seen =
        |what: &str, is: &dyn Fn(&Vec<u8>) -> bool| assert!(images.iter().any(is), "never seen: {what}");
    seen("everything kept", &|image| *image == whole);
    seen("everything dropped", &|image| image.len() == 100);
    seen("a length without its data", &|image| {
        image.len() == 3_100 && image[2_100..].iter().all(|byte| *byte == 0)
    });
    seen("later data without earlier", &|image| {
        image.len() == 3_100 && image[3_099] == b'r' && image[1_100..2_100].iter().all(|byte| *byte == 0)
    });
    seen("a torn write", &|image| image.len() > 1_000 && image[100] == b'p' && image[1_099] == 0);
    seen("a torn end behind whole writes", &|image| {
        image[..2_100.min(image.len())] == whole[..2_100.min(image.len())]
            && image.len() == 3_100
            && image[2_100] == b'r'
            && image[3_099] == 0
    });
}

#[test]
fn a_rename_is_atomic_and_needs_a_sync() {
    let fs = sim();
    stable(&fs, A, b"old");
    stable(&fs, B, b"new");
    fs.rename(path(B), path(A)).unwrap();
    let both = |image: &SimFs| (image.read_file(path(A)).ok(), image.read_file(path(B)).ok());
    let before = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    let after = (Some(b"new".to_vec()), None);
    assert_eq!(both(&fs.crash_image(Crash::PowerAllLost, 0)), before);
    let images: BTreeSet<_> = (0..50).map(|seed| both(&fs.crash_image(Crash::PowerTorn, seed))).collect();
    assert_eq!(images, BTreeSet::from([before, after.clone()]));
    fs.sync_dir(path(DIR)).unwrap();
    assert_eq!(both(&fs.crash_image(Crash::PowerAllLost, 0)), after);
}

#[test]
fn an_unsynced_unlink_may_come_back() {
    let fs = sim();
    stable(&fs, A, b"data");
    fs.unlink(path(A)).unwrap();
    assert_eq!(torn(&fs, A), BTreeSet::from([None, Some(b"data".to_vec())]));
    fs.sync_dir(path(DIR)).unwrap();
    assert_eq!(torn(&fs, A), BTreeSet::from([None]));
}

#[test]
fn names_are_reordered() {
    let fs = sim();
    stable(&fs, A, b"a");
    fs.link(path(A), path(B)).unwrap();
    fs.unlink(path(A)).unwrap();
    let images: BTreeSet<_> = (0..100).map(|seed| fs.crash_image(Crash::PowerTorn, seed).files()).collect();
    // Without a sync between link and unlink, both names may be gone.
    assert_eq!(images.len(), 4, "{images:?}");
}

#[test]
fn a_directory_sync_covers_what_moved_there() {
    let fs = sim();
    fs.create_dir_all(path("/db/sub")).unwrap();
    let file = fs.create(path(A)).unwrap();
    file.append(b"data").unwrap();
    file.sync_data().unwrap();
    fs.rename(path(A), path("/db/sub/a")).unwrap();
    fs.sync_dir(path("/db/sub")).unwrap();
    for seed in 0..50 {
        assert_eq!(fs.crash_image(Crash::PowerTorn, seed).files(), [path("/db/sub/a")]);
    }
}

#[test]
fn a_later_sync_does_not_repair_a_failed_one() {
    let fs = sim();
    let file = stable(&fs, A, b"old ");
    file.append(b"lost ").unwrap();
    fs.fail_nth(1, Fault::Sync, Lasting::Once, 0);
    assert!(file.sync_data().is_err());
    file.append(b"new").unwrap();
    file.sync_data().unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A).unwrap(), b"old \0\0\0\0\0new");
    let expected = [b"old \0\0\0\0\0new".to_vec(), b"old lost new".to_vec()];
    assert_eq!(torn(&fs, A), BTreeSet::from(expected.map(Some)));
    assert_eq!(left(&fs, Crash::Process, 0, A).unwrap(), b"old lost new");
}

#[test]
fn a_later_directory_sync_does_not_repair_a_failed_one() {
    let fs = sim();
    stable(&fs, A, b"a");
    fs.link(path(A), path(B)).unwrap();
    fs.fail_nth(1, Fault::Sync, Lasting::Once, 0);
    assert!(fs.sync_dir(path(DIR)).is_err());
    fs.link(path(A), path("/db/c")).unwrap();
    fs.sync_dir(path(DIR)).unwrap();
    let kept = fs.crash_image(Crash::PowerAllLost, 0).files();
    assert_eq!(kept, [path(A), path("/db/c")]);
}

#[test]
fn the_nth_operation_fails_once_or_for_ever() {
    let fs = sim();
    let file = stable(&fs, A, b"data");
    let mut buf = [0; 4];
    fs.fail_nth(2, Fault::Io, Lasting::Once, 0);
    assert!(file.len().is_ok());
    assert!(file.read_at(0, &mut buf).is_err());
    assert!(file.read_at(0, &mut buf).is_ok());
    assert_eq!(fs.faults_struck(), 1);

    fs.fail_nth(1, Fault::Sync, Lasting::ForEver, 0);
    assert!(file.append(b"x").is_ok(), "a sync fault leaves other operations alone");
    assert!(file.sync_data().is_err());
    assert!(fs.sync_dir(path(DIR)).is_err());
    fs.heal();
    assert!(file.sync_data().is_ok());
    assert_eq!(fs.faults_struck(), 3);
}

#[test]
fn every_operation_can_fail_without_effect() {
    let fs = sim();
    let file = stable(&fs, A, b"data");
    fs.fail_nth(1, Fault::Io, Lasting::ForEver, 0);
    let results = [
        fs.create_dir_all(path("/db/sub")),
        fs.create(path(B)).map(drop),
        fs.open(path(A)).map(drop),
        fs.sync_dir(path(DIR)),
        fs.rename(path(A), path("/db/c")),
        fs.link(path(A), path("/db/d")),
        fs.unlink(path(A)),
        fs.punch_hole(path(A), 0, 1),
        fs.list(path(DIR)).map(drop),
        fs.lock(path("/db/LOCK")).map(drop),
        fs.free_space(path(DIR)).map(drop),
        file.preallocate(10),
        file.truncate(0),
        file.len().map(drop),
    ];
    for (index, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(5), "operation {index}");
    }
    fs.heal();
    assert_eq!(fs.files(), [path(A)]);
    assert_eq!(fs.read_file(path(A)).unwrap(), b"data");
}

#[test]
fn a_failed_append_leaves_any_part() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let fs = sim();
        let file = stable(&fs, A, b"head");
        fs.fail_nth(1, Fault::Io, Lasting::Once, seed);
        assert!(file.append(b"0123").is_err());
        let now = fs.read_file(path(A)).unwrap();
        assert!(b"head0123".starts_with(&now));
        lengths.insert(now.len());
        // The failed append did not move the handle's end, so the next append overwrites its bytes.
        file.append(b"abcdefgh").unwrap();
        assert_eq!(fs.read_file(path(A)).unwrap(), b"headabcdefgh");
    }
    assert_eq!(lengths, BTreeSet::from([4, 5, 6, 7, 8]));
}

#[test]
fn a_full_device_refuses_new_space_only() {
    let fs = sim();
    fs.set_capacity(Some(4 * 4_096));
    assert_eq!(fs.free_space(path(DIR)).unwrap(), 4 * 4_096);
    let log = fs.create(path(A)).unwrap();
    log.preallocate(2 * 4_096).unwrap();
    assert_eq!(fs.free_space(path(DIR)).unwrap(), 2 * 4_096);
    let table = fs.create(path(B)).unwrap();
    assert_eq!(table.append(&[1; 3 * 4_096]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(fs.file_len(path(B)).unwrap(), 2 * 4_096, "what fits is written, as on a disk");
    log.append(&[2; 2 * 4_096]).unwrap();
    assert_eq!(log.append(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(log.preallocate(3 * 4_096).unwrap_err().kind(), ErrorKind::StorageFull);
    fs.unlink(path(B)).unwrap();
    assert_eq!(fs.free_space(path(DIR)).unwrap(), 0, "an open file keeps its space");
    drop(table);
    assert_eq!(fs.free_space(path(DIR)).unwrap(), 2 * 4_096);
    log.append(b"x").unwrap();
    assert_eq!(fs.crash_image(Crash::Process, 0).free_space(path(DIR)).unwrap(), 4_096);
}

#[test]
fn the_full_fault_spares_preallocated_space() {
    let fs = sim();
    let file = fs.create(path(A)).unwrap();
    file.preallocate(4_096).unwrap();
    fs.fail_nth(1, Fault::Full, Lasting::ForEver, 0);
    file.append(&[1; 4_096]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.append(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(fs.create(path(B)).unwrap_err().kind(), ErrorKind::StorageFull);
    fs.unlink(path(A)).unwrap();
}

#[test]
fn the_hook_sees_the_moment_before_each_change() {
    let fs = sim();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    fs.set_hook(Some(Box::new(move |fs, op| {
        // The hook may use the file system. Its own operations do not call it again.
        fs.sync_dir(path("/")).unwrap();
        let image = fs.crash_image(Crash::Process, 0);
        notes.lock().push((op.kind, image.file_len(path(A)).ok()));
    })));
    let file = fs.create(path(A)).unwrap();
    file.append(b"data").unwrap();
    file.len().unwrap();
    fs.unlink(path(A)).unwrap();
    fs.set_hook(None);
    fs.sync_dir(path(DIR)).unwrap();
    let expected = [(OpKind::Create, None), (OpKind::Append, Some(0)), (OpKind::Unlink, Some(4))];
    assert_eq!(*seen.lock(), expected);
}

#[test]
fn operations_are_counted_and_recorded() {
    let fs = sim();
    let before = fs.ops();
    fs.record_ops();
    let file = stable(&fs, A, b"data");
    fs.rename(path(A), path(B)).unwrap();
    file.read_at(0, &mut [0; 3]).unwrap();
    let ops = fs.take_recorded_ops();
    let seen: Vec<_> = ops.iter().map(|op| (op.kind, &*op.path, op.bytes)).collect();
    let expected = [
        (OpKind::Create, path(A), 0),
        (OpKind::Append, path(A), 4),
        (OpKind::SyncData, path(A), 0),
        (OpKind::SyncDir, path(DIR), 0),
        (OpKind::Rename, path(A), 0),
        (OpKind::Read, path(A), 3),
    ];
    assert_eq!(seen, expected);
    assert_eq!(ops[4].to.as_deref(), Some(path(B)));
    assert_eq!(ops[0].number, before + 1);
    assert_eq!(fs.ops(), before + 6);
    assert_eq!(fs.op_counts()[&OpKind::Append], 1);
    assert!(fs.take_recorded_ops().is_empty());
}

#[test]
fn damage_is_stable() {
    let fs = sim();
    let file = stable(&fs, A, b"\0\0\0");
    file.append(b"tail").unwrap();
    fs.flip_bit(path(A), 8 + 3).unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A).unwrap(), b"\0\x08\0tail");
    fs.flip_bit(path(A), 8 + 3).unwrap();
    assert_eq!(fs.read_file(path(A)).unwrap(), b"\0\0\0tail");
    assert_eq!(fs.flip_bit(path(A), 7 * 8).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    fs.write_file(path(A), b"other").unwrap();
    fs.write_file(path(B), b"made").unwrap();
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, A).unwrap(), b"other");
    assert_eq!(left(&fs, Crash::PowerAllLost, 0, B).unwrap(), b"made");
    assert_eq!(all_of(&*fs.open(path(A)).unwrap()), b"other");
}

fn all_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// Runs random operations, with faults. Every image must be whole, a killed process leaves what reads show, and what a crash
/// left is stable.
#[test]
fn images_are_whole_at_every_point() {
    for seed in 0..40 {
        let random = SeededRandom::new(seed);
        let fs = sim();
        fs.create_dir_all(path("/db/sub")).unwrap();
        let names = ["/db/a", "/db/b", "/db/c", "/db/sub/a", "/db/sub/b"];
        let any = || path(names[random.below(names.len() as u64) as usize]);
        let mut open: Vec<Arc<dyn File>> = Vec::new();
        for _ in 0..150 {
            if random.below(20) == 0 {
                fs.fail_nth(1 + random.below(5), Fault::Io, Lasting::Once, random.next_u64());
            }
            // Some of these operations are refused: the name exists, or does not exist, or a fault strikes.
            match (random.below(10), open.last()) {
                (0, _) => open.extend(fs.create(any()).ok()),
                (1, _) => open.extend(fs.open(any()).ok()),
                (2, Some(file)) => drop(file.sync_data()),
                (3, _) => drop(fs.sync_dir(path(if random.below(2) == 0 { DIR } else { "/db/sub" }))),
                (4, _) => drop(fs.rename(any(), any())),
                (5, _) => drop(fs.link(any(), any())),
                (6, _) => drop(fs.unlink(any())),
                (7, Some(_)) => drop(open.swap_remove(random.below(open.len() as u64) as usize)),
                (8, Some(file)) => drop(file.truncate(random.below(3_000))),
                (_, Some(file)) => {
                    drop(file.append(&vec![random.next_u64() as u8; random.below(2_000) as usize]))
                }
                (_, None) => {}
            }
            assert_eq!(shown(&fs.crash_image(Crash::Process, 0)), shown(&fs));
            for crash in [Crash::PowerAllLost, Crash::PowerTorn] {
                let image = fs.crash_image(crash, random.next_u64());
                let before = shown(&image);
                assert_eq!(shown(&image.crash_image(Crash::PowerTorn, random.next_u64())), before);
            }
        }
    }
}

fn shown(fs: &SimFs) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs.files().into_iter();
    files.map(|file| (file.clone(), fs.read_file(&file).unwrap())).collect()
}

#[test]
fn a_killed_process_leaves_unsynced_data_unsynced() {
    let fs = sim();
    let file = stable(&fs, A, b"synced ");
    file.append(b"not synced").unwrap();
    let held = fs.lock(path(B)).unwrap();
    let next = fs.without_process();
    drop(held);
    assert_eq!(next.read_file(path(A)).unwrap(), b"synced not synced");
    assert!(next.lock(path(B)).is_ok(), "locks die with their process");
    assert_eq!(next.crash_image(Crash::PowerAllLost, 1).read_file(path(A)).unwrap(), b"synced ");
    // A sync by the next process makes stable what the killed process wrote.
    next.open(path(A)).unwrap().sync_data().unwrap();
    assert_eq!(next.crash_image(Crash::PowerAllLost, 1).read_file(path(A)).unwrap(), b"synced not synced");
    assert_eq!(fs.crash_image(Crash::PowerAllLost, 1).read_file(path(A)).unwrap(), b"synced ");
}

#[test]
fn a_log_is_as_long_as_its_space_and_a_kill_may_tear_a_store() {
    let fs = sim();
    let file = fs.create_log(path(A)).unwrap();
    file.preallocate(300).unwrap();
    file.append(b"first").unwrap();
    assert_eq!(left(&fs, Crash::Process, 0, A).unwrap().len(), 300);
    file.sync_data().unwrap();
    fs.sync_dir(path(DIR)).unwrap();
    let during = Arc::new(Mutex::new(BTreeSet::new()));
    let (images, next) = (Arc::clone(&during), Arc::new(Mutex::new(None)));
    let after_kill = Arc::clone(&next);
    fs.set_hook(Some(Box::new(move |fs, _| {
        for crash in [Crash::Process, Crash::PowerTorn, Crash::PowerAllLost] {
            images
                .lock()
                .extend((0..200).map(|seed| (crash == Crash::Process, left(fs, crash, seed, A).unwrap())));
        }
        *after_kill.lock() = Some(fs.without_process());
    })));
    file.append(&[b'x'; 200]).unwrap();
    fs.set_hook(None);
    let image = |stored: &dyn Fn(usize) -> bool| -> Vec<u8> {
        let stored = (0..200).map(|at| if stored(at) { b'x' } else { 0 });
        [b"first".to_vec(), stored.collect(), vec![0; 95]].concat()
    };
    let during = during.lock();
    for is_kill in [true, false] {
        let found = |wanted: &dyn Fn(&[u8]) -> bool| {
            during.iter().any(|(kill, image)| *kill == is_kill && wanted(&image[5..205]))
        };
        assert!(found(&|store| store == [0; 200]) && found(&|store| store == [b'x'; 200]));
        assert!(found(&|store| store
            .iter()
            .rposition(|&byte| byte == b'x')
            .is_some_and(|last| last < 128 && last % 64 < 60)));
        assert!(found(&|store| store[64] == 0 && store[128] == b'x'), "stores are reordered");
    }
    assert!(during.iter().all(|(_, found)| found.starts_with(b"first") && found.len() == 300));
    let next = next.lock().take().unwrap();
    assert_eq!(next.read_file(path(A)).unwrap(), image(&|at| at < 100));
    assert_eq!(next.crash_image(Crash::PowerAllLost, 1).read_file(path(A)).unwrap(), image(&|_| false));
    assert_eq!(left(&fs, Crash::Process, 0, A).unwrap(), image(&|_| true), "the store is complete");
    // An append beyond the space of the file is a system call, so a kill does not tear it.
    fs.set_hook(Some(Box::new(|fs, _| {
        assert!((0..50).all(|seed| !left(fs, Crash::Process, seed, A).unwrap().contains(&b'y')));
    })));
    file.append(&[b'y'; 96]).unwrap();
}

#[test]
fn unlinked_files_may_be_gone() {
    let fs = sim();
    let file = stable(&fs, A, b"data");
    fs.unlink(path(A)).unwrap();
    let mut byte = [0];
    assert_eq!(file.read_at(0, &mut byte).unwrap(), 1);
    fs.set_unlinked_are_gone(true);
    assert!(file.read_at(0, &mut byte).is_err());
}

#[test]
fn a_fault_strikes_only_what_its_filter_accepts() {
    let fs = sim();
    let (a, b) = (fs.create(path(A)).unwrap(), fs.create(path(B)).unwrap());
    fs.fail_nth_where(2, Fault::Io, Lasting::Once, 0, |op| {
        &*op.path == path(B) && op.kind == OpKind::SyncData
    });
    for _ in 0..3 {
        a.sync_data().unwrap();
        b.append(b"b").unwrap();
    }
    b.sync_data().unwrap();
    a.sync_data().unwrap();
    assert_eq!(fs.faults_struck(), 0);
    b.sync_data().unwrap_err();
    b.sync_data().unwrap();
    assert_eq!(fs.faults_struck(), 1);
}

#[test]
fn appends_may_have_to_fit_into_preallocated_space_to_the_byte() {
    let fs = sim();
    fs.set_appends_need_space(true);
    let append = |file: &Arc<dyn File>, data: &'static [u8]| {
        let append = std::panic::AssertUnwindSafe(|| file.append(data).unwrap());
        std::panic::catch_unwind(append).is_ok()
    };
    for file in [fs.create(path(A)).unwrap(), fs.create_log(path(B)).unwrap()] {
        assert!(!append(&file, b"a"));
        file.preallocate(3).unwrap();
        assert!(append(&file, b"ab") && !append(&file, b"cd") && append(&file, b"c"));
        file.truncate(1).unwrap();
        assert!(!append(&file, b"b"), "a cut gives the space back");
        file.preallocate(2).unwrap();
        assert!(append(&file, b"b"));
    }
    fs.set_appends_need_space(false);
    assert!(append(&fs.create(path("/db/c")).unwrap(), b"a"));
}
