//! The devices of the simulated machine: they lose power, fail and fill up together or apart.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use braidb_storage::sim::{Crash, Fault, Lasting, SimFs};
use braidb_storage::{File, FileSystem};

const DIR: &str = "/db";
const SLOW: &str = "/slow-1";
const FAST_FILE: &str = "/db/a";
const SLOW_FILE: &str = "/slow-1/a";

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// A machine with the directory of a database on its first device, and a second device.
fn two_devices() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(path(DIR)).unwrap();
    fs.add_device(path(SLOW)).unwrap();
    fs
}

/// Creates a file that is stable with its name.
fn stable(fs: &SimFs, name: &str, data: &[u8]) -> Arc<dyn File> {
    let file = fs.create(path(name)).unwrap();
    file.append(data).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(path(name).parent().unwrap()).unwrap();
    file
}

/// A file on each device that is stable up to "old ", with an unsynced end "new".
fn with_unsynced_ends(fs: &SimFs) -> [Arc<dyn File>; 2] {
    [FAST_FILE, SLOW_FILE].map(|name| {
        let file = stable(fs, name, b"old ");
        file.append(b"new").unwrap();
        file
    })
}

/// The bytes of the file on the first and on the second device.
fn both(fs: &SimFs) -> [String; 2] {
    [FAST_FILE, SLOW_FILE].map(|name| String::from_utf8(fs.read_file(path(name)).unwrap()).unwrap())
}

#[test]
fn a_device_is_a_directory_that_is_always_there() {
    let fs = two_devices();
    assert_eq!(kind(fs.add_device(path(SLOW))), ErrorKind::AlreadyExists);
    fs.add_device(path("/mnt/deep/slow")).unwrap();
    fs.create_dir_all(path(SLOW)).unwrap();
    fs.create(path("/mnt/deep/slow/a")).unwrap();
    for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn] {
        for image in [fs.crash_image(crash, 1), fs.crash_image_apart(&[(path("/mnt/deep/slow"), crash)], 1)] {
            assert_eq!(image.device_dirs(), ["/", SLOW, "/mnt/deep/slow"].map(Path::new));
            assert!(image.list(path(SLOW)).unwrap().is_empty());
            image.create(path("/mnt/deep/slow/b")).unwrap();
            assert_eq!(
                kind(image.rename(path("/mnt/deep/slow/b"), path("/slow-1/b"))),
                ErrorKind::CrossesDevices
            );
        }
    }
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn one_device_loses_power_and_the_other_keeps_what_is_unsynced() {
    let fs = two_devices();
    let _files = with_unsynced_ends(&fs);
    let left = |lost: &str| fs.crash_image_apart(&[(path(lost), Crash::PowerAllLost)], 1);
    assert_eq!(both(&left(SLOW)), ["old new", "old "]);
    assert_eq!(both(&left(DIR)), ["old ", "old new"]);
    assert_eq!(both(&fs.crash_image(Crash::PowerAllLost, 1)), ["old ", "old "]);
    // The device that kept its power still has an unsynced end.
    assert_eq!(both(&left(SLOW).crash_image(Crash::PowerAllLost, 1)), ["old ", "old "]);
    let synced = left(SLOW);
    synced.open(path(FAST_FILE)).unwrap().sync_data().unwrap();
    assert_eq!(both(&synced.crash_image(Crash::PowerAllLost, 1)), ["old new", "old "]);
}

#[test]
fn names_of_one_device_outlive_a_power_failure_of_the_other() {
    let fs = two_devices();
    for dir in [DIR, SLOW] {
        stable(&fs, &format!("{dir}/removed"), b"");
        stable(&fs, &format!("{dir}/renamed"), b"");
        fs.unlink(&path(dir).join("removed")).unwrap();
        fs.rename(&path(dir).join("renamed"), &path(dir).join("name")).unwrap();
        fs.create(&path(dir).join("made")).unwrap();
    }
    let (before, after) = (["removed", "renamed"], ["made", "name"]);
    for (lost, kept) in [(DIR, SLOW), (SLOW, DIR)] {
        let image = fs.crash_image_apart(&[(path(lost), Crash::PowerAllLost)], 1);
        assert_eq!(names(&image, lost), before);
        assert_eq!(names(&image, kept), after);
        assert_eq!(names(&image.crash_image(Crash::PowerAllLost, 1), kept), before, "still unsynced");
        image.sync_dir(path(kept)).unwrap();
        let image = image.crash_image(Crash::PowerAllLost, 1);
        assert_eq!(
            (names(&image, lost), names(&image, kept)),
            (before.map(String::from).into(), after.map(String::from).into())
        );
    }
}

fn names(fs: &SimFs, dir: &str) -> Vec<String> {
    fs.list(path(dir)).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_sync_covers_its_own_device() {
    let fs = two_devices();
    for name in [FAST_FILE, SLOW_FILE] {
        fs.create(path(name)).unwrap();
    }
    fs.sync_dir(path(SLOW)).unwrap();
    assert_eq!(fs.crash_image(Crash::PowerAllLost, 1).files(), [path(SLOW_FILE)]);
    fs.sync_dir(path(DIR)).unwrap();
    assert_eq!(fs.crash_image(Crash::PowerAllLost, 1).files(), [path(FAST_FILE), path(SLOW_FILE)]);
}

/// A crash that keeps a prefix of the changes keeps a prefix on each device, not of one order over both.
#[test]
fn each_device_has_an_order_of_its_own() {
    let fs = two_devices();
    for number in 0..4 {
        for dir in [DIR, SLOW] {
            fs.create(&path(dir).join(number.to_string())).unwrap();
        }
    }
    let kept: BTreeSet<(usize, usize)> = (0..2_000)
        .map(|seed| fs.crash_image(Crash::PowerTorn, seed))
        .filter(|image| [DIR, SLOW].iter().all(|dir| is_prefix(&names(image, dir))))
        .map(|image| (names(&image, DIR).len(), names(&image, SLOW).len()))
        .collect();
    // The fast device keeps all and the slow one nothing, and the other way round.
    assert!(kept.contains(&(4, 0)) && kept.contains(&(0, 4)), "{kept:?}");
    assert_eq!(kept.len(), 25, "{kept:?}");
}

fn is_prefix(names: &[String]) -> bool {
    names.iter().enumerate().all(|(index, name)| *name == index.to_string())
}

#[test]
fn a_torn_power_failure_of_one_device_replays_and_leaves_the_other_alone() {
    let fs = two_devices();
    let _files = with_unsynced_ends(&fs);
    let images = || (0..200).map(|seed| both(&fs.crash_image_apart(&[(path(SLOW), Crash::PowerTorn)], seed)));
    assert!(images().eq(images()));
    let seen: BTreeSet<[String; 2]> = images().collect();
    let ends = ["old ", "old \0\0\0", "old new"];
    assert_eq!(seen, ends.map(|end| ["old new".to_owned(), end.to_owned()]).into());
}

#[test]
fn a_killed_process_leaves_its_devices_as_they_are() {
    let fs = two_devices();
    let _files = with_unsynced_ends(&fs);
    let _lock = fs.lock(path("/slow-1/LOCK")).unwrap();
    for next in [fs.without_process(), fs.crash_image_apart(&[(path(SLOW), Crash::Process)], 1)] {
        assert!(next.lock(path("/slow-1/LOCK")).is_ok(), "locks die with their process");
        assert_eq!(both(&next), ["old new", "old new"]);
        assert_eq!(both(&next.crash_image(Crash::PowerAllLost, 1)), ["old ", "old "]);
        assert_eq!(kind(next.link(path(FAST_FILE), path("/slow-1/b"))), ErrorKind::CrossesDevices);
    }
}

#[test]
fn lost_write_backs_are_drawn_for_each_device() {
    let fs = two_devices();
    for number in 0..4 {
        for dir in [DIR, SLOW] {
            fs.create(&path(dir).join(number.to_string())).unwrap();
        }
    }
    let kept: BTreeSet<(usize, usize)> = (0..2_000)
        .map(|seed| {
            let next = fs.without_process();
            next.lose_write_backs(Some(seed));
            next.sync_dir(path(DIR)).unwrap();
            next.sync_dir(path(SLOW)).unwrap();
            let image = next.crash_image(Crash::PowerAllLost, 1);
            (names(&image, DIR).len(), names(&image, SLOW).len())
        })
        .collect();
    assert!(kept.contains(&(4, 0)) && kept.contains(&(0, 4)), "{kept:?}");
    let next = fs.without_process();
    next.lose_write_backs(None);
    next.sync_dir(path(SLOW)).unwrap();
    assert!(next.crash_image(Crash::PowerAllLost, 1).files().is_empty());
}

#[test]
fn each_device_has_its_own_space() {
    const BLOCK: u64 = 4_096;
    let fs = two_devices();
    fs.set_capacity(Some(4 * BLOCK));
    fs.set_capacity_of(path(SLOW), Some(2 * BLOCK));
    let free = |fs: &SimFs| [DIR, SLOW].map(|dir| fs.free_space(path(dir)).unwrap() / BLOCK);
    assert_eq!(free(&fs), [4, 2]);
    let slow = stable(&fs, SLOW_FILE, &[1; 2 * BLOCK as usize]);
    assert_eq!(free(&fs), [4, 0]);
    assert_eq!(kind(slow.append(b"x")), ErrorKind::StorageFull);
    assert_eq!(kind(slow.preallocate(3 * BLOCK)), ErrorKind::StorageFull);
    let fast = stable(&fs, FAST_FILE, &[1; BLOCK as usize]);
    fast.preallocate(2 * BLOCK).unwrap();
    assert_eq!(free(&fs), [2, 0]);
    assert_eq!((fs.taken_bytes(), fs.taken_bytes_of(path(SLOW))), (2 * BLOCK, 2 * BLOCK));
    // A file at the root, and one that does not exist yet, belong to the device of their directory.
    assert_eq!(fs.free_space(path("/c")).unwrap(), 2 * BLOCK);
    assert_eq!(fs.free_space(path("slow-1/b")).unwrap(), 0);
    for image in [fs.crash_image(Crash::PowerAllLost, 1), fs.without_process()] {
        assert_eq!(free(&image)[1], 0, "an image has the same devices");
        image.unlink(path(SLOW_FILE)).unwrap();
        assert_eq!(free(&image)[1], 2);
    }
    fs.set_capacity_of(path(SLOW), None);
    slow.append(b"x").unwrap();
}

#[test]
fn a_device_fails_and_the_other_does_not() {
    let fs = two_devices();
    let [fast, slow] = with_unsynced_ends(&fs);
    fs.fail_device(path(SLOW), 2, Fault::Io, Lasting::ForEver, 0);
    fast.sync_data().unwrap();
    slow.sync_data().unwrap();
    for _ in 0..2 {
        slow.append(b"x").unwrap_err();
        fs.list(path(SLOW)).unwrap_err();
        fs.lock(path("/slow-1/LOCK")).unwrap_err();
        fast.append(b"x").unwrap();
        fs.sync_dir(path(DIR)).unwrap();
    }
    assert_eq!(fs.faults_struck(), 6);
    fs.fail_device(path(DIR), 1, Fault::Sync, Lasting::Once, 0);
    slow.sync_data().unwrap();
    fast.sync_data().unwrap_err();
    fast.sync_data().unwrap();
}
