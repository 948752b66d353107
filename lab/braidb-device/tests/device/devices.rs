//! Several devices behind one page cache: what each device has alone, what the devices share, and placement of files without the engine's
//! help.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::common::{MIB, MS, PAGE_NS, SEEK_NS, create, kind, path, reading, stored};
use braidb::{Db, Options};
use braidb_device::{DeviceFigures, DeviceId, Profile, Testbed};
use braidb_storage::inline::SeededRandom;
use braidb_storage::{Env, File, Lane};

/// A machine with an NVMe drive, and a hard disk at /slow.
fn pair(cache_bytes: u64) -> (Testbed, Env, DeviceId) {
    let testbed = Testbed::new(Profile::NVME, 1 << 30, cache_bytes, 2, 1);
    let slow = testbed.add_device(path("/slow"), Profile::HDD, 1 << 30).unwrap();
    let env = testbed.env();
    (testbed, env, slow)
}

fn read_page(file: &Arc<dyn File>, page: u64) {
    file.read_exact_at(page * 4096, &mut [0; 4096]).unwrap();
}

#[test]
fn each_device_has_a_space_of_its_own() {
    let testbed = Testbed::new(Profile::NVME, 64 * MIB, 4 * MIB, 1, 1);
    testbed.add_device(path("/db/slow"), Profile::HDD, 8 * MIB).unwrap();
    let fs = testbed.env().fs;
    let free = |name: &str| fs.free_space(path(name)).unwrap();
    assert_eq!((free("/"), free("/db"), free("/db/slow")), (63 * MIB, 63 * MIB, 8 * MIB - 8 * MIB / 64));
    fs.create_dir_all(path("/db/slow/deep")).unwrap();
    let file = fs.create(path("/db/slow/deep/a")).unwrap();
    file.append(&vec![1; 4 * MIB as usize]).unwrap();
    assert_eq!((free("/db/slow/b"), free("/db/a")), (4 * MIB - 8 * MIB / 64, 63 * MIB));
    assert_eq!(kind(file.append(&vec![1; 4 * MIB as usize])), ErrorKind::StorageFull);
    assert_eq!(kind(file.preallocate(9 * MIB)), ErrorKind::StorageFull);
    fs.create(path("/db/a")).unwrap().append(&vec![1; 9 * MIB as usize]).unwrap();
    assert_eq!((free("/db/slow"), free("/")), (0, 54 * MIB));
    fs.punch_hole(path("/db/slow/deep/a"), 0, MIB).unwrap();
    assert_eq!((free("/db/slow"), free("/")), (MIB, 54 * MIB));
    fs.unlink(path("/db/slow/deep/a")).unwrap();
    drop(file);
    assert_eq!((free("/db/slow"), free("/")), (8 * MIB - 8 * MIB / 64, 54 * MIB));
}

#[test]
fn names_do_not_lead_from_one_device_to_another() {
    let (_, env, _) = pair(4 * MIB);
    let fs = env.fs.clone();
    fs.create_dir_all(path("/slow/sub")).unwrap();
    fs.create_dir_all(path("/db")).unwrap();
    create(&env, "/db/a").append(b"a").unwrap();
    create(&env, "/slow/b").append(b"b").unwrap();
    for (from, to) in
        [("/db/a", "/slow/a"), ("/db/a", "/slow/b"), ("/slow/b", "/db/b"), ("/slow/b", "/slow-b")]
    {
        assert_eq!(kind(fs.rename(path(from), path(to))), ErrorKind::CrossesDevices, "{from} {to}");
    }
    assert_eq!(kind(fs.link(path("/db/a"), path("/slow/a"))), ErrorKind::CrossesDevices);
    assert_eq!(kind(fs.link(path("/db/a"), path("/slow/b"))), ErrorKind::AlreadyExists);
    fs.rename(path("/slow/b"), path("/slow/sub/c")).unwrap();
    fs.link(path("/slow/sub/c"), path("/slow/d")).unwrap();
    let held = fs.hold_dir(path("/slow")).unwrap();
    assert_eq!(held.open(path("/slow/d")).unwrap().len().unwrap(), 1);
    assert_eq!(kind(held.open(path("/db/a"))), ErrorKind::InvalidInput);
    assert_eq!(fs.list(path("/slow")).unwrap().len(), 2);
}

#[test]
fn a_device_is_added_at_an_empty_directory() {
    let (testbed, env, _) = pair(4 * MIB);
    let add = |dir: &str| kind(testbed.add_device(path(dir), Profile::SSD, MIB));
    create(&env, "/file");
    env.fs.create_dir_all(path("/db/sub")).unwrap();
    assert_eq!((add("/"), add("/db")), (ErrorKind::DirectoryNotEmpty, ErrorKind::DirectoryNotEmpty));
    assert_eq!((add("/file"), add("/file/a")), (ErrorKind::NotADirectory, ErrorKind::NotADirectory));
    assert_eq!(add("/../a"), ErrorKind::InvalidFilename);
    testbed.add_device(path("/db/sub"), Profile::SSD, MIB).unwrap();
}

#[test]
fn a_sync_writes_the_journal_of_its_own_device() {
    let (testbed, env, slow) = pair(4 * MIB);
    let journals = || [DeviceId::FIRST, slow].map(|device| testbed.figures_of(device).journal_writes);
    let (fast_file, slow_file) = (create(&env, "/a"), create(&env, "/slow/a"));
    slow_file.append(&[1; 4096]).unwrap();
    fast_file.append(&[1; 4096]).unwrap();
    let start_ns = testbed.now_ns();
    slow_file.sync_data().unwrap();
    let took_ns = testbed.now_ns() - start_ns;
    assert!((2 * (SEEK_NS + PAGE_NS)..2 * (SEEK_NS + PAGE_NS) + MS).contains(&took_ns), "{took_ns} ns");
    assert_eq!((journals(), testbed.figures_of(DeviceId::FIRST).writes), ([0, 1], 0));
    env.fs.sync_dir(path("/slow")).unwrap();
    env.fs.sync_dir(path("/")).unwrap();
    assert_eq!(journals(), [1, 2]);
    // After 5 s, each journal writes the changes that no sync has written.
    create(&env, "/slow/b");
    env.fs.unlink(path("/a")).unwrap();
    testbed.idle_until_ns(testbed.now_ns() + 5_001 * MS);
    env.fs.list(path("/")).unwrap();
    assert_eq!(journals(), [2, 3]);
    assert_eq!(testbed.figures().devices.journal_writes, 5, "the sum of all devices");
}

#[test]
fn devices_work_at_the_same_time() {
    let (testbed, env, slow) = pair(256 * MIB);
    stored(&testbed, &env, "/slow/a", 64);
    let file = stored(&testbed, &env, "/b", 64);
    let (start_ns, before) = (testbed.now_ns(), testbed.figures_of(slow).busy_ns);
    env.runtime.submit(Lane::Merge, reading(&env, "/slow/a"));
    testbed.step();
    let job_end_ns = testbed.figures().end_ns;
    (0..100).for_each(|index| read_page(&file, 7 * index + 9));
    let took_ns = testbed.now_ns() - start_ns;
    assert!(took_ns < 20 * MS, "100 reads at 6,000 a second, beside a busy disk: {took_ns} ns");
    assert_eq!(testbed.figures().end_ns, job_end_ns, "these reads do not delay the disk");
    assert!(testbed.figures_of(slow).busy_ns - before > 64 * 6 * MS);
}

#[test]
fn a_request_moves_back_only_the_jobs_that_wait_for_its_device() {
    let (testbed, env, _) = pair(256 * MIB);
    stored(&testbed, &env, "/slow/a", 16);
    stored(&testbed, &env, "/b", 16);
    let file = stored(&testbed, &env, "/c", 1);
    env.runtime.submit(Lane::Merge, reading(&env, "/slow/a"));
    env.runtime.submit(Lane::Flush, reading(&env, "/b"));
    testbed.step();
    let end_ns = testbed.figures().end_ns;
    read_page(&file, 99);
    testbed.wait_for_jobs();
    assert_eq!(testbed.now_ns(), end_ns, "the job on the disk ends last, and when it would anyhow");
}

#[test]
fn the_page_cache_and_its_limits_are_shared() {
    let (testbed, env, slow) = pair(16 * MIB);
    let (fast_file, slow_file) = (stored(&testbed, &env, "/a", 1), stored(&testbed, &env, "/slow/a", 32));
    read_page(&fast_file, 3);
    let reads = testbed.figures_of(DeviceId::FIRST).reads;
    read_page(&fast_file, 3);
    assert_eq!(testbed.figures_of(DeviceId::FIRST).reads, reads);
    slow_file.read_exact_at(0, &mut vec![0; 32 * MIB as usize]).unwrap();
    read_page(&fast_file, 3);
    assert_eq!(testbed.figures_of(DeviceId::FIRST).reads, reads + 1, "the slow file took its place");
    // A writer of the fast device waits because too many dirty pages wait to be written to the disk.
    let large = create(&env, "/slow/b");
    (0..16).for_each(|_| large.append(&vec![1; MIB as usize]).unwrap());
    let (before, disk) = (testbed.figures(), testbed.figures_of(slow));
    assert!(before.throttled_ns > 0 && disk.writes > 0);
    (0..2).for_each(|_| fast_file.append(&vec![1; MIB as usize]).unwrap());
    let waited_ns = testbed.figures().throttled_ns - before.throttled_ns;
    assert!(waited_ns > 6 * MS, "at least the time of 1 MiB on the disk: {waited_ns} ns");
}

#[test]
fn what_is_forgotten_costs_a_request_again() {
    let (testbed, env, _) = pair(16 * MIB);
    let file = stored(&testbed, &env, "/a", 1);
    let mut whole = vec![0; MIB as usize];
    file.read_exact_at(0, &mut whole).unwrap();
    let reads = || testbed.figures().devices.reads;
    let before = reads();
    file.forget_cached(4096 * 10 + 1, 4096 * 3);
    file.forget_cached(4096 * 20, 0);
    // Reads the pages out of order, so that nothing is read ahead.
    for kept in [13, 10, 20, 9] {
        read_page(&file, kept);
    }
    assert_eq!(reads(), before, "a page that lies partly in the range stays");
    read_page(&file, 11);
    assert_eq!(reads(), before + 1);
    file.append(&[1; 100]).unwrap();
    file.forget_cached(0, u64::MAX);
    file.sync_data().unwrap();
    assert_eq!(
        testbed.figures().devices.written_bytes - MIB,
        3 * 4096,
        "a dirty page stays until it is written"
    );
    let before = reads();
    file.forget_cached(MIB, 100);
    file.read_exact_at(MIB, &mut [0; 100]).unwrap();
    assert_eq!(reads(), before + 1, "the last page of the file is dropped as a whole one");
    read_page(&file, 30);
    assert_eq!(reads(), before + 2);
}

/// A machine with a hard disk, and 1 MiB of an NVMe drive as its cache.
fn cached() -> (Testbed, Env, DeviceId) {
    let testbed = Testbed::new(Profile::HDD, 1 << 30, 16 * MIB, 1, 1);
    let flash = testbed.cache_on(Profile::NVME, MIB);
    let env = testbed.env();
    (testbed, env, flash)
}

#[test]
fn a_copy_on_flash_spares_the_disk() {
    let (testbed, env, flash) = cached();
    let file = stored(&testbed, &env, "/a", 4);
    assert_eq!(testbed.figures_of(flash), DeviceFigures::default(), "written pages have no copy");
    let counts = || [DeviceId::FIRST, flash].map(|device| testbed.figures_of(device).reads);
    let read_again = |page: u64| {
        testbed.drop_cache();
        read_page(&file, page);
        counts()
    };
    assert_eq!((read_again(50), read_again(70)), ([1, 0], [2, 0]));
    let start_ns = testbed.now_ns();
    assert_eq!((read_again(50), read_again(70)), ([2, 1], [2, 2]));
    assert!(testbed.now_ns() - start_ns < MS, "two reads of the NVMe drive");
    assert_eq!(testbed.figures_of(flash).written_bytes, 2 * 4096);
    // 255 pages leave room for one copy, the last used one: that of page 70.
    testbed.drop_cache();
    file.read_exact_at(MIB, &mut vec![0; 255 * 4096]).unwrap();
    assert_eq!(counts(), [3, 2]);
    assert_eq!((read_again(70), read_again(50)), ([3, 3], [4, 3]));
}

#[test]
fn a_copy_goes_when_its_page_changes_or_its_file_is_deleted() {
    let (testbed, env, flash) = cached();
    let file = stored(&testbed, &env, "/a", 1);
    let rewritten = env.fs.open_to_rewrite(path("/a")).unwrap();
    let reads = || [DeviceId::FIRST, flash].map(|device| testbed.figures_of(device).reads);
    let read_again = |page: u64| {
        testbed.drop_cache();
        read_page(&file, page);
        reads()
    };
    read_again(50);
    assert_eq!(read_again(50), [1, 1]);
    rewritten.rewrite(50 * 4096, &[7; 4096]).unwrap();
    rewritten.sync_data().unwrap();
    assert_eq!((read_again(50), read_again(50)), ([2, 1], [2, 2]));
    env.fs.punch_hole(path("/a"), 50 * 4096, 4096).unwrap();
    assert_eq!(read_again(50), [2, 2], "a hole is read from no device");
    // The space of copies of deleted files is used again, file after file.
    for _ in 0..3 {
        let other = stored(&testbed, &env, "/b", 1);
        other.read_exact_at(0, &mut vec![0; MIB as usize]).unwrap();
        env.fs.unlink(path("/b")).unwrap();
    }
    assert_eq!(testbed.figures_of(flash).written_bytes, 2 * 4096 + 3 * MIB);
}

const KEYS: u64 = 5_000;

fn open(testbed: &Testbed) -> Db {
    let options = Options::new()
        .memtable_bytes(256 << 10)
        .tuning(|tuning| tuning.log_bytes(1 << 20).table_bytes(64 << 10));
    options.block_cache_bytes(128 << 10).env(testbed.env()).open("/db").unwrap()
}

/// Fills a store in random order and reads all keys.
fn fill_and_read(testbed: &Testbed) {
    let (db, random) = (open(testbed), SeededRandom::new(3));
    let key = |number: u64| format!("{number:012}");
    for _ in 0..3 * KEYS {
        testbed.step();
        let number = random.below(KEYS);
        db.put(key(number), [number as u8; 100]).unwrap();
    }
    db.settle().unwrap();
    for number in 0..KEYS {
        if let Some(value) = db.get(key(number)).unwrap() {
            assert!(value == [number as u8; 100]);
        }
    }
    db.close().unwrap();
}

#[test]
fn the_engine_runs_on_scattered_files() {
    let run = |seed: u64, first_percent: u64| {
        let (testbed, _, slow) = pair(MIB);
        testbed.scatter(seed, first_percent);
        fill_and_read(&testbed);
        [DeviceId::FIRST, slow].map(|device| testbed.figures_of(device))
    };
    let half = run(1, 50);
    assert!(half.iter().all(|device| device.written_bytes > 128 << 10 && device.reads > 0), "{half:?}");
    assert_eq!(half, run(1, 50), "names decide, and nothing else");
    assert_ne!(half, run(2, 50));
    let [_, disk] = run(1, 100);
    assert_eq!(disk, DeviceFigures::default());
    let [_, disk] = run(1, 0);
    assert!(disk.written_bytes > half[1].written_bytes);
}

#[test]
fn the_engine_runs_above_a_flash_cache() {
    let run = |flash_bytes: Option<u64>| {
        let testbed = Testbed::new(Profile::HDD, 1 << 30, MIB / 4, 2, 1);
        let flash = flash_bytes.map(|bytes| testbed.cache_on(Profile::NVME, bytes));
        fill_and_read(&testbed);
        (testbed.figures(), flash.map(|flash| testbed.figures_of(flash)), testbed.figures_of(DeviceId::FIRST))
    };
    let ((alone, _, disk), (cached, flash, cached_disk)) = (run(None), run(Some(2 * MIB)));
    assert_eq!((alone.devices.reads, alone.devices.busy_ns), (disk.reads, disk.busy_ns));
    let flash = flash.unwrap();
    assert!(flash.reads > 0 && flash.written_bytes <= cached_disk.read_bytes, "{flash:?}");
    assert_eq!(cached.devices.reads, flash.reads + cached_disk.reads);
    assert!(cached_disk.read_bytes < disk.read_bytes, "{cached_disk:?} {disk:?}");
}
