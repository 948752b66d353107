//! Slow tiers on devices of their own: not mounted, exchanged, foreign, read-only and full.
//!
//! The tests mount file systems, so only root may run them, in a mount namespace that ends with the process. `scripts/root/tier-devices`
//! does so: on loop devices with ext4, and in tmpfs where the machine makes no loop device.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::tiered::Tiered;
use crate::common::{Place, braidb, braidb_with, names};
use braidb::{Db, Options};
use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable: the file system of the devices, `ext4` or `tmpfs`.
const KIND: &str = "BRAIDB_TIER_DEVICES";
/// Size of a device in MiB. A slow device keeps room for two tables, which have 64 MiB each by default. ext4 and the rows need the rest.
const DEVICE_MIB: u32 = 192;

fn is_ext4() -> bool {
    match std::env::var(KIND).expect("started by scripts/root/tier-devices").as_str() {
        "ext4" => true,
        "tmpfs" => false,
        kind => panic!("{KIND} is ext4 or tmpfs, not {kind}"),
    }
}

#[track_caller]
fn run(command: &[&str]) {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A small device with a file system. A directory shows its files while the device is plugged in there.
struct Device {
    mounted: PathBuf,
    /// The directory of the device that is plugged in.
    shown: PathBuf,
    at: Option<PathBuf>,
}

impl Device {
    fn new(place: &Place, name: &str) -> Device {
        let mounted = place.path(name);
        fs::create_dir(&mounted).unwrap();
        if is_ext4() {
            let image = place.path(&format!("{name}.image"));
            fs::File::create(&image).unwrap().set_len(u64::from(DEVICE_MIB) << 20).unwrap();
            run(&["mkfs.ext4", "-q", "-m", "0", text(&image)]);
            run(&["mount", "-o", "loop,errors=remount-ro", text(&image), text(&mounted)]);
        } else {
            run(&[
                "mount",
                "-t",
                "tmpfs",
                "-o",
                &format!("size={DEVICE_MIB}m"),
                "braidb-test",
                text(&mounted),
            ]);
        }
        Device { shown: mounted.clone(), mounted, at: None }
    }

    /// A device that is plugged in at the new directory `at`.
    fn plugged_in(place: &Place, name: &str, at: &str) -> Device {
        let mut device = Device::new(place, name);
        fs::create_dir(place.path(at)).unwrap();
        device.plug_in(&place.path(at));
        device
    }

    /// A device with a directory that is plugged in at the new directory `at`. Other files of the device are not seen there.
    fn with_dir(place: &Place, name: &str, at: &str) -> Device {
        let mut device = Device::new(place, name);
        device.shown = device.mounted.join("dir");
        for dir in [&device.shown, &place.path(at)] {
            fs::create_dir(dir).unwrap();
        }
        device.plug_in(&place.path(at));
        device
    }

    fn plug_in(&mut self, at: &Path) {
        run(&["mount", "--bind", text(&self.shown), text(at)]);
        self.at = Some(at.to_owned());
    }

    fn unplug(&mut self) {
        if let Some(at) = self.at.take() {
            run(&["umount", text(&at)]);
        }
    }

    fn set_read_only(&self, is_read_only: bool) {
        let how = if is_read_only { "remount,bind,ro" } else { "remount,bind,rw" };
        run(&["mount", "-o", how, text(self.at.as_ref().expect("it is plugged in"))]);
    }

    /// Another program takes all space of the device.
    fn fill_up(&self) {
        let path = self.mounted.join("filler");
        let (mut filler, mut end_mib) = (fs::File::create(&path).unwrap(), 0);
        for mib in [128, 64, 32, 16, 8, 4, 2, 1] {
            let (from, length) = (format!("{end_mib}MiB"), format!("{mib}MiB"));
            let output = Command::new("fallocate").args(["-o", &from, "-l", &length, text(&path)]).output();
            end_mib += if output.unwrap().status.success() { mib } else { 0 };
        }
        filler.seek(std::io::SeekFrom::End(0)).unwrap();
        for piece in [1 << 20, 4096, 1] {
            while filler.write_all(&vec![b'x'; piece]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.mounted.join("filler")).unwrap();
    }

    /// The names of what is on the device, without what ext4 makes.
    fn names(&self) -> Vec<String> {
        let mut names = names(&self.mounted);
        names.retain(|name| name != "lost+found");
        names
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // After a panic the end of the process frees the device.
        if !std::thread::panicking() {
            self.unplug();
            run(&["umount", text(&self.mounted)]);
        }
    }
}

/// A database on the disk of the machine, with its tier on a device.
fn on_a_device(test: &str) -> (Device, Tiered) {
    let place = Place::new(test);
    let device = Device::plugged_in(&place, "device", "slow");
    (device, Tiered::at(place))
}

#[test]
#[ignore = "mounts devices as root: scripts/root/tier-devices"]
fn a_tier_that_is_not_mounted_is_refused_until_it_is() {
    let (mut device, tiered) = on_a_device("devices-missing");
    let slow = &tiered.path("slow");
    let files = device.names();
    device.unplug();
    tiered.is_refused(&[], &[slow, "mount its device"]);
    tiered.is_refused(&["--slow-path", slow], &["is no slow tier: it has no file `TIER`"]);
    braidb(&["tier", "add", &tiered.db(), slow]).exits(2).tells("mount its device");
    assert_eq!(names(&tiered.place.path("slow")), [""; 0]);
    // A new device in its place is not the tier, and stays as it is.
    let mut other = Device::new(&tiered.place, "new-device");
    other.plug_in(&tiered.place.path("slow"));
    tiered.is_refused(&[], &[slow, "mount its device"]);
    braidb(&["tier", "add", &tiered.db(), slow]).exits(2).tells("mount its device");
    assert_eq!(other.names(), [""; 0]);
    other.unplug();
    device.plug_in(&tiered.place.path("slow"));
    assert_eq!(device.names(), files);
    tiered.is_whole();
    // The device is plugged in elsewhere.
    device.unplug();
    fs::create_dir(tiered.place.path("moved")).unwrap();
    device.plug_in(&tiered.place.path("moved"));
    tiered.is_refused(&[], &[slow, "mount its device"]);
    braidb(&["get", &tiered.db(), "key 00001", "--slow-path", &tiered.path("moved")]).prints("value 7\n");
    tiered.is_whole();
}

#[test]
#[ignore = "mounts devices as root: scripts/root/tier-devices"]
fn devices_that_changed_places_are_refused() {
    let (mut device, tiered) = on_a_device("devices-exchanged");
    let (slow, second, foreign) = (tiered.path("slow"), tiered.path("second"), tiered.path("foreign"));
    let mut other = Device::plugged_in(&tiered.place, "second-device", "second");
    braidb(&["tier", "add", &tiered.db(), &second]).exits(0);
    device.unplug();
    other.unplug();
    device.plug_in(Path::new(&second));
    other.plug_in(Path::new(&slow));
    tiered.is_refused(&[], &["was here, and now it is tier", "--slow-path"]);
    let get = ["get", &tiered.db(), "key 00001", "--slow-path", &slow, "--slow-path", &second];
    braidb(&get).prints("value 7\n");
    assert_eq!(tiered.tiers()[1]["path"], second.as_str());
    tiered.is_whole();

    // The device of another database, and one with files of the user.
    let mut third = Device::plugged_in(&tiered.place, "third-device", "foreign");
    braidb(&["put", &tiered.path("db2"), "k", "v"]).exits(0);
    braidb(&["tier", "add", &tiered.path("db2"), &foreign]).exits(0);
    third.unplug();
    other.unplug();
    third.plug_in(Path::new(&slow));
    tiered.is_refused(&[], &[&slow, "belongs to another database"]);
    braidb(&["tier", "add", &tiered.db(), &slow]).exits(2).tells("belongs to another database");
    third.unplug();
    other.plug_in(Path::new(&slow));
    third.plug_in(Path::new(&foreign));
    tiered.is_whole();
    braidb(&["get", &tiered.path("db2"), "k"]).prints("v\n");
    let fourth = Device::plugged_in(&tiered.place, "fourth-device", "mine");
    fs::write(fourth.mounted.join("notes.txt"), "mine").unwrap();
    braidb(&["tier", "add", &tiered.db(), &tiered.path("mine")]).exits(2).tells("it holds `notes.txt`");
    assert_eq!(fourth.names(), ["notes.txt"]);
}

#[test]
#[ignore = "mounts devices as root: scripts/root/tier-devices"]
fn a_read_only_device_is_a_clear_error() {
    let (device, tiered) = on_a_device("devices-read-only");
    let files = device.names();
    device.set_read_only(true);
    tiered.fails(3, &[], &[&tiered.path("slow"), "Read-only file system"]);
    assert_eq!(device.names(), files);
    // A new tier cannot be there either, and the database goes on without it.
    device.set_read_only(false);
    tiered.is_whole();
    let new = Device::plugged_in(&tiered.place, "new-device", "new");
    new.set_read_only(true);
    let run = braidb(&["tier", "add", &tiered.db(), &tiered.path("new")]).exits(3);
    assert!(run.err.contains(&tiered.path("new")) && run.err.contains("Read-only file system"), "{run:?}");
    assert_eq!(tiered.tiers().as_array().unwrap().len(), 2);
    tiered.is_whole();
    new.set_read_only(false);
    braidb(&["tier", "add", &tiered.db(), &tiered.path("new")]).exits(0);
    tiered.is_whole();
}

fn options(share: u32) -> Options {
    Options::new().memtable_bytes(64 << 10).fast_share(share).tuning(|tuning| tuning.table_bytes(16 << 10))
}

/// Rows in addition to those of [`Tiered`], with values that no file system compresses. Puts and reads them.
struct More {
    rows: u32,
}

impl More {
    fn row(number: u32) -> (String, Vec<u8>) {
        (format!("more {number:05}"), crate::common::Noise(number.into()).exactly(200))
    }

    fn put(&mut self, db: &Db, rows: u32) {
        for number in self.rows..self.rows + rows {
            let (key, value) = More::row(number);
            db.put(key, value).unwrap();
        }
        self.rows += rows;
    }

    #[track_caller]
    fn check(&self, db: &Db) {
        for number in 0..2_000 {
            let value = db.get(format!("key {number:05}")).unwrap().expect("a row of the beginning");
            assert_eq!(value.as_ref(), format!("value {}", number * 7).as_bytes());
        }
        for number in 0..self.rows {
            let (key, value) = More::row(number);
            assert_eq!(db.get(&key).unwrap().as_deref(), Some(value.as_slice()), "{key}");
        }
        assert_eq!(db.iter().filter(|entry| entry.is_ok()).count() as u32, 2_000 + self.rows);
    }
}

/// Whether an error says that this device has no room.
#[track_caller]
fn tells_of_no_room(error: &braidb::Error, device: &str) {
    assert!(error.is_full() && error.to_string().contains(device), "{error}");
}

#[test]
#[ignore = "mounts devices as root: scripts/root/tier-devices"]
fn a_full_slow_device_stops_nothing_but_moves() {
    let (device, tiered) = on_a_device("devices-full");
    let (slow, mut more) = (tiered.path("slow"), More { rows: 0 });
    let db = options(20).open(tiered.db()).unwrap();
    more.put(&db, 2_000);
    db.compact().unwrap();
    db.settle().unwrap();
    device.fill_up();
    // Open: writes go on, and what has no room on the device stays fast.
    for _ in 0..4 {
        more.put(&db, 2_000);
        db.flush().unwrap();
        for outcome in [db.settle(), db.compact()] {
            outcome.unwrap_or_else(|error| tells_of_no_room(&error, &slow));
        }
    }
    more.check(&db);
    assert_eq!(db.verify().unwrap().damages, []);
    let tiers = db.stats().tiers;
    assert!(tiers[0].bytes > tiers[1].bytes, "{tiers:?}");
    assert!(db.stats().poisoned.is_none());
    db.close().unwrap();
    // Closed: an open writes into the tier, so each verb but `verify` tells what is full.
    for verb in
        [&["get", &tiered.db(), "key 00001"][..], &["load", &tiered.db()], &["tier", "list", &tiered.db()]]
    {
        let run = braidb_with(verb, b"k\tv\n").exits(3).tells(&slow);
        assert!(run.err.contains("space") || run.err.contains("full"), "{run:?}");
    }
    braidb(&["tier", "evacuate", &tiered.db(), &slow]).exits(3).tells(&slow);
    braidb(&["verify", &tiered.db()]).exits(0);
    device.make_room();
    let db = options(20).open(tiered.db()).unwrap();
    more.check(&db);
    db.compact().unwrap();
    db.settle().unwrap();
    let tiers = db.stats().tiers;
    assert!(tiers[0].bytes <= (tiers[0].bytes + tiers[1].bytes) / 4, "{tiers:?}");
    more.check(&db);
    db.close().unwrap();
    // A full device is no new tier.
    let new = Device::with_dir(&tiered.place, "new-device", "new");
    new.fill_up();
    let add = ["tier", "add", &tiered.db(), &tiered.path("new")];
    braidb(&add).exits(3).tells(&tiered.path("new"));
    assert_eq!(tiered.tiers().as_array().unwrap().len(), 2);
    new.make_room();
    braidb(&add).exits(0);
    more.check(&Db::open(tiered.db()).unwrap());
}

/// The tier is to be emptied, and the fast device has no room for it.
#[test]
#[ignore = "mounts devices as root: scripts/root/tier-devices"]
fn a_tier_that_has_no_room_elsewhere_stays_a_tier() {
    let place = Place::new("devices-fast-full");
    // A database cannot be in a directory with `lost+found`.
    let device = Device::with_dir(&place, "device", "db");
    let tiered = Tiered::at(place);
    let (slow, mut more) = (tiered.path("slow"), More { rows: 0 });
    let db = options(0).open(tiered.db()).unwrap();
    // 10 MB, which are a third of the device.
    more.put(&db, 50_000);
    db.compact().unwrap();
    db.settle().unwrap();
    let bytes = db.stats().tiers[1].bytes;
    assert!(bytes > 9 << 20, "{:?}", db.stats().tiers);
    device.fill_up();
    let error = db.evacuate(&slow, drop).unwrap_err();
    tells_of_no_room(&error, &tiered.db());
    assert!(db.stats().poisoned.is_none());
    more.check(&db);
    device.make_room();
    // The call after a failed one goes on.
    db.evacuate(&slow, drop).unwrap();
    more.check(&db);
    db.close().unwrap();
    assert_eq!(names(Path::new(&slow)), ["LOCK"]);
    more.check(&Db::open(tiered.db()).unwrap());
}

/// ext4 stops writing after an error, as `errors=remount-ro` has it. Reads go on.
#[test]
#[ignore = "mounts devices as root: scripts/root/tier-devices"]
fn a_device_that_stops_writing_under_a_database_loses_nothing() {
    if !is_ext4() {
        println!("NOT RUN: tmpfs never stops writing");
        return;
    }
    let (mut device, tiered) = on_a_device("devices-failing");
    let (slow, mut more) = (tiered.path("slow"), More { rows: 0 });
    let db = options(20).open(tiered.db()).unwrap();
    more.put(&db, 2_000);
    db.compact().unwrap();
    db.settle().unwrap();
    let output = Command::new("findmnt").args(["-no", "SOURCE", text(&device.mounted)]).output().unwrap();
    let name = String::from_utf8(output.stdout).unwrap();
    let name = Path::new(name.trim()).file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "1").unwrap();
    assert!(fs::write(device.mounted.join("probe"), "").is_err(), "it does not write any more");
    for _ in 0..3 {
        more.put(&db, 2_000);
        db.flush().unwrap();
        for outcome in [db.settle(), db.compact()] {
            if let Err(error) = outcome {
                assert!(error.to_string().contains(&slow), "{error}");
            }
        }
    }
    more.check(&db);
    assert!(db.stats().poisoned.is_none() && db.stats().tiers[1].is_closed, "{:?}", db.stats().tiers);
    db.close().unwrap();
    // A handle holds its directories to the end.
    drop(db);
    tiered.fails(3, &[], &[&slow]);
    device.unplug();
    run(&["umount", text(&device.mounted)]);
    let image = device.mounted.with_extension("image");
    let checked = Command::new("e2fsck").args(["-fy", text(&image)]).output().unwrap();
    assert!(checked.status.code().is_some_and(|status| status < 4), "{checked:?}");
    run(&["mount", "-o", "loop", text(&image), text(&device.mounted)]);
    device.plug_in(Path::new(&slow));
    let db = options(20).open(tiered.db()).unwrap();
    more.check(&db);
    assert_eq!(db.verify().unwrap().damages, []);
    db.compact().unwrap();
    db.settle().unwrap();
    assert!(db.stats().tiers.iter().all(|tier| !tier.is_closed), "{:?}", db.stats().tiers);
    more.check(&db);
}
