//! One contract for all file systems: every promise of the traits is tested on the real ones and on the simulated one. What the
//! judges prove over `SimFs` holds on a disk only as far as the two agree here.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braidb_storage::real::{OsRandom, RealFs};
use braidb_storage::sim::SimFs;
use braidb_storage::{DirEntry, File, FileSystem, Random, Routed};

/// A directory on one of the file systems.
struct Place {
    /// The file system under test. If it holds only the directory, paths elsewhere are tested on `whole`.
    fs: Arc<dyn FileSystem>,
    whole: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// A directory on another device, if there is one.
    elsewhere: Option<PathBuf>,
    is_real: bool,
}

impl Place {
    fn simulated() -> Place {
        let fs = Arc::new(SimFs::new());
        let elsewhere = PathBuf::from("/slow");
        fs.add_device(&elsewhere).unwrap();
        let place = Place {
            fs: fs.clone(),
            whole: fs,
            dir: "/db".into(),
            elsewhere: Some(elsewhere),
            is_real: false,
        };
        place.fs.create_dir_all(&place.dir).unwrap();
        place
    }

    fn real() -> Place {
        let name = format!("braidb-contract-{:016x}", OsRandom.next_u64());
        let dir = std::env::temp_dir().join(&name);
        RealFs.create_dir_all(&dir).unwrap();
        // Most Linux machines have a second file system there, in memory.
        let elsewhere = Path::new("/dev/shm").join(name);
        let is_elsewhere = RealFs.create_dir_all(&elsewhere).is_ok() && device(&dir) != device(&elsewhere);
        let elsewhere = is_elsewhere.then_some(elsewhere);
        Place { fs: Arc::new(RealFs), whole: Arc::new(RealFs), dir, elsewhere, is_real: true }
    }

    fn held(mut self) -> Place {
        self.fs = self.fs.hold_dir(&self.dir).unwrap();
        self
    }

    /// The directory as the second part of two.
    fn routed(mut self) -> Place {
        let other = std::env::temp_dir();
        let held = RealFs.hold_dir(&other).unwrap();
        self.fs = Arc::new(Routed::new(vec![(other, held), (self.dir.clone(), self.fs.clone())]));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn create(&self, name: &str, data: &[u8]) -> Arc<dyn File> {
        let file = self.fs.create(&self.path(name)).unwrap();
        file.append(data).unwrap();
        file
    }

    fn read(&self, name: &str) -> Vec<u8> {
        all_of(&*self.whole.open(&self.path(name)).unwrap())
    }

    fn names(&self) -> Vec<String> {
        self.fs.list(&self.dir).unwrap().into_iter().map(|entry| entry.name).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_real {
            // An error here must not hide the message of a failed test. Leftovers in the temporary directory do no harm.
            let _ = std::fs::remove_dir_all(&self.dir);
            let _ = self.elsewhere.as_ref().map(std::fs::remove_dir_all);
        }
    }
}

/// The number of the device of a real directory.
fn device(dir: &Path) -> u64 {
    std::fs::metadata(dir).unwrap().dev()
}

fn all_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this must be refused"),
        Err(error) => error.kind(),
    }
}

macro_rules! contract {
    ($($name:ident)*) => {
        mod real { $(#[test] fn $name() { super::$name(&super::Place::real()); })* }
        mod held { $(#[test] fn $name() { super::$name(&super::Place::real().held()); })* }
        mod routed { $(#[test] fn $name() { super::$name(&super::Place::real().held().routed()); })* }
        mod simulated { $(#[test] fn $name() { super::$name(&super::Place::simulated()); })* }
        mod simulated_and_held { $(#[test] fn $name() { super::$name(&super::Place::simulated().held()); })* }
    };
}

contract! {
    create_refuses_what_exists
    open_refuses_what_does_not
    appends_follow_each_other
    reads_end_with_the_file
    an_opened_file_is_for_reading
    preallocation_does_not_show
    behind_the_end_of_a_log_there_may_be_zeros
    what_the_cache_forgets_is_read_back
    truncate_cuts_and_fills
    appends_follow_a_truncation
    holes_read_as_zeros
    holes_are_counted
    rename_replaces
    link_gives_a_second_name
    names_stay_on_their_device
    unlinked_files_stay_readable
    lists_are_sorted
    directories_are_made_with_their_parents
    locks_exclude
    a_lock_tells_whether_its_file_has_the_name
    a_directory_is_held_if_it_is_there
    there_is_free_space
    syncs_succeed
}

fn create_refuses_what_exists(place: &Place) {
    place.create("a", b"old");
    assert_eq!(kind(place.fs.create(&place.path("a"))), ErrorKind::AlreadyExists);
    assert_eq!(place.read("a"), b"old");
    assert_eq!(kind(place.whole.create(&place.path("missing/a"))), ErrorKind::NotFound);
    assert_eq!(kind(place.whole.create(&place.path("a/b"))), ErrorKind::NotADirectory);
}

fn open_refuses_what_does_not(place: &Place) {
    assert_eq!(kind(place.fs.open(&place.path("a"))), ErrorKind::NotFound);
    assert_eq!(kind(place.whole.open(&place.dir)), ErrorKind::IsADirectory);
}

fn appends_follow_each_other(place: &Place) {
    let file = place.create("a", b"one");
    assert!(!file.is_empty().unwrap());
    file.append(b"").unwrap();
    file.append(&[b'x'; 10_000]).unwrap();
    file.append(b"two").unwrap();
    assert_eq!(file.len().unwrap(), 10_006);
    assert_eq!(all_of(&*file), place.read("a"));
    assert_eq!(place.read("a"), [b"one".as_slice(), &[b'x'; 10_000], b"two"].concat());
    assert!(place.create("b", b"").is_empty().unwrap());
}

fn reads_end_with_the_file(place: &Place) {
    let file = place.create("a", b"0123456789");
    let mut buf = [b'?'; 6];
    assert_eq!(file.read_at(2, &mut buf).unwrap(), 6);
    assert_eq!(&buf, b"234567");
    assert_eq!(file.read_at(7, &mut buf).unwrap(), 3);
    assert_eq!(&buf, b"789567", "what lies behind the end is left alone");
    assert_eq!(file.read_at(10, &mut buf).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buf).unwrap(), 0);
    assert_eq!(kind(file.read_exact_at(7, &mut buf)), ErrorKind::UnexpectedEof);
    file.read_exact_at(4, &mut buf).unwrap();
    assert_eq!(&buf, b"456789");
}

fn an_opened_file_is_for_reading(place: &Place) {
    place.create("a", b"data").sync_data().unwrap();
    let file = place.fs.open(&place.path("a")).unwrap();
    assert!(file.append(b"more").is_err());
    assert!(file.truncate(0).is_err());
    assert!(file.preallocate(100).is_err());
    // Recovery syncs files that it has only read.
    file.sync_data().unwrap();
    assert_eq!(place.read("a"), b"data");
}

fn preallocation_does_not_show(place: &Place) {
    let file = place.create("a", b"data");
    file.preallocate(1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 4);
    file.preallocate(0).unwrap();
    file.append(b"more").unwrap();
    assert_eq!(place.read("a"), b"datamore");
}

fn what_the_cache_forgets_is_read_back(place: &Place) {
    let file = place.create("a", &[7; 10_000]);
    let ranges =
        [(0, 4096), (1, 9_999), (4096, 0), (9_999, 1 << 20), (1 << 40, 1), (u64::MAX, 1), (0, u64::MAX)];
    // Half of the bytes are stable, the others are dirty in the cache.
    file.sync_data().unwrap();
    file.append(&[8; 10_000]).unwrap();
    for (offset, len) in ranges {
        file.forget_cached(offset, len);
        place.fs.open(&place.path("a")).unwrap().forget_cached(offset, len);
    }
    assert_eq!(all_of(&*file), place.read("a"));
    assert_eq!(place.read("a"), [[7; 10_000], [8; 10_000]].concat());
}

fn behind_the_end_of_a_log_there_may_be_zeros(place: &Place) {
    let file = place.fs.create_log(&place.path("a")).unwrap();
    assert_eq!(kind(place.fs.create_log(&place.path("a"))), ErrorKind::AlreadyExists);
    file.append(b"called").unwrap();
    file.preallocate(300_000).unwrap();
    let mut expected = b"called".to_vec();
    for part in 0..3_000 {
        file.append(&[part as u8 | 1; 50]).unwrap();
        expected.extend([part as u8 | 1; 50]);
        if part % 1_000 == 0 {
            file.sync_data().unwrap();
        }
    }
    file.append(&[b'x'; 100_000]).unwrap();
    expected.extend([b'x'; 100_000]);
    assert_eq!(file.len().unwrap(), expected.len() as u64);
    assert_eq!(file.read_at(expected.len() as u64, &mut [0]).unwrap(), 0, "the writer sees no zeros");
    assert!(all_of(&*file) == expected);
    let found = place.read("a");
    let (written, zeros) = found.split_at(expected.len());
    assert!(written == expected && zeros.iter().all(|&byte| byte == 0));
    // This append goes beyond the preallocated space.
    file.append(&[b'y'; 100_000]).unwrap();
    expected.extend([b'y'; 100_000]);
    assert!(place.read("a") == expected);
    file.preallocate(1 << 20).unwrap();
    file.truncate(expected.len() as u64).unwrap();
    assert!(place.read("a") == expected, "a truncation removes the zeros");
    file.preallocate(1 << 20).unwrap();
    file.append(b"more").unwrap();
    file.append(b"more").unwrap();
    expected.extend(b"moremore");
    drop(file);
    assert!(place.read("a").starts_with(&expected), "closing keeps all written bytes");
}

fn truncate_cuts_and_fills(place: &Place) {
    let file = place.create("a", &[b'x'; 9_000]);
    file.truncate(5_000).unwrap();
    assert_eq!(all_of(&*file), [b'x'; 5_000]);
    file.truncate(9_000).unwrap();
    assert_eq!(all_of(&*file), [[b'x'; 5_000].as_slice(), &[0; 4_000]].concat());
    file.truncate(0).unwrap();
    assert!(file.is_empty().unwrap());
}

fn appends_follow_a_truncation(place: &Place) {
    let file = place.create("a", b"0123456789");
    file.truncate(4).unwrap();
    file.append(b"ab").unwrap();
    file.truncate(8).unwrap();
    file.append(b"cd").unwrap();
    assert_eq!(place.read("a"), b"0123ab\0\0cd");
}

fn holes_read_as_zeros(place: &Place) {
    let file = place.create("a", &[b'x'; 20_000]);
    let punch = |offset, len| place.fs.punch_hole(&place.path("a"), offset, len).unwrap();
    punch(4_000, 9_000);
    assert_eq!(file.len().unwrap(), 20_000);
    assert_eq!(place.read("a"), [[b'x'; 4_000].as_slice(), &[0; 9_000], &[b'x'; 7_000]].concat());
    punch(19_000, 50_000);
    punch(0, 0);
    assert_eq!(file.len().unwrap(), 20_000, "a hole may reach beyond the end, the length stays");
    assert_eq!(place.read("a")[18_998..19_002], *b"xx\0\0");
    drop(file);
    punch(0, 1);
    assert_eq!(place.read("a")[..2], *b"\0x", "the creating handle need not be open");
    assert_eq!(kind(place.fs.punch_hole(&place.path("b"), 0, 1)), ErrorKind::NotFound);
    assert_eq!(kind(place.whole.punch_hole(&place.dir, 0, 1)), ErrorKind::IsADirectory);
}

fn holes_are_counted(place: &Place) {
    let file = place.create("a", &[b'x'; 100_000]);
    file.sync_data().unwrap();
    assert_eq!(file.hole_bytes(100_000).unwrap(), 0);
    let punch = |offset, len| place.fs.punch_hole(&place.path("a"), offset, len).unwrap();
    punch(8_192, 8_192);
    punch(65_536, 50_000);
    let reader = place.fs.open(&place.path("a")).unwrap();
    let counted = |len| reader.hole_bytes(len).unwrap();
    assert_eq!([counted(8_192), counted(10_000), counted(65_536)], [0, 1_808, 8_192]);
    assert_eq!([counted(100_000), counted(200_000)], [8_192 + 34_464; 2], "none lies behind the end");
    assert_eq!(all_of(&*reader)[..8_192], [b'x'; 8_192], "counting moves no reader");
}

fn rename_replaces(place: &Place) {
    place.create("a", b"new");
    let old = place.create("b", b"old");
    place.fs.rename(&place.path("a"), &place.path("b")).unwrap();
    assert_eq!(place.names(), ["b"]);
    assert_eq!(place.read("b"), b"new");
    assert_eq!(all_of(&*old), b"old", "an open handle keeps the replaced file");
    assert_eq!(kind(place.fs.rename(&place.path("a"), &place.path("b"))), ErrorKind::NotFound);
    place.whole.create_dir_all(&place.path("sub")).unwrap();
    place.whole.rename(&place.path("b"), &place.path("sub/c")).unwrap();
    assert_eq!(place.names(), ["sub"]);
    assert_eq!(place.read("sub/c"), b"new");
    place.create("d", b"");
    assert_eq!(kind(place.fs.rename(&place.path("d"), &place.path("sub"))), ErrorKind::IsADirectory);
}

fn link_gives_a_second_name(place: &Place) {
    let file = place.create("a", b"one");
    place.fs.link(&place.path("a"), &place.path("b")).unwrap();
    file.append(b"two").unwrap();
    assert_eq!(place.read("b"), b"onetwo");
    place.fs.rename(&place.path("a"), &place.path("b")).unwrap();
    assert_eq!(place.names(), ["a", "b"], "two names of one file: a rename leaves both");
    place.fs.unlink(&place.path("a")).unwrap();
    assert_eq!(place.read("b"), b"onetwo");
    place.create("c", b"");
    assert_eq!(kind(place.fs.link(&place.path("b"), &place.path("c"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(place.fs.link(&place.path("a"), &place.path("d"))), ErrorKind::NotFound);
}

fn names_stay_on_their_device(place: &Place) {
    place.create("a", b"data");
    let Some(elsewhere) = &place.elsewhere else {
        println!("no second device here: only the simulated file system was tested");
        return;
    };
    let there = elsewhere.join("a");
    assert_eq!(kind(place.whole.rename(&place.path("a"), &there)), ErrorKind::CrossesDevices);
    assert_eq!(kind(place.whole.link(&place.path("a"), &there)), ErrorKind::CrossesDevices);
    assert_eq!(place.read("a"), b"data");
    assert!(place.whole.list(elsewhere).unwrap().is_empty());
    // A rename fails in this way whether the files exist or not. A link first checks that the old name exists and the new one
    // does not.
    place.whole.create(&there).unwrap();
    for name in ["a", "missing"] {
        assert_eq!(kind(place.whole.rename(&place.path(name), &there)), ErrorKind::CrossesDevices);
    }
    assert_eq!(kind(place.whole.link(&place.path("a"), &there)), ErrorKind::AlreadyExists);
    assert_eq!(kind(place.whole.link(&place.path("missing"), &there)), ErrorKind::NotFound);
    assert_eq!(place.whole.list(elsewhere).unwrap().len(), 1);
}

fn unlinked_files_stay_readable(place: &Place) {
    place.create("a", b"data");
    let reader = place.fs.open(&place.path("a")).unwrap();
    place.fs.unlink(&place.path("a")).unwrap();
    place.fs.sync_dir(&place.dir).unwrap();
    assert!(place.names().is_empty());
    assert_eq!(all_of(&*reader), b"data");
    assert_eq!(kind(place.fs.open(&place.path("a"))), ErrorKind::NotFound);
    assert_eq!(kind(place.fs.unlink(&place.path("a"))), ErrorKind::NotFound);
    place.create("a", b"another");
    assert_eq!(all_of(&*reader), b"data");
}

fn lists_are_sorted(place: &Place) {
    assert!(place.fs.list(&place.dir).unwrap().is_empty());
    for name in ["b", "000010.log", "a", "000009.log"] {
        place.create(name, b"");
    }
    place.whole.create_dir_all(&place.path("aa")).unwrap();
    assert_eq!(place.names(), ["000009.log", "000010.log", "a", "aa", "b"]);
    let directories = |entry: &DirEntry| entry.is_dir.then(|| entry.name.clone());
    assert_eq!(place.fs.list(&place.dir).unwrap().iter().filter_map(directories).collect::<Vec<_>>(), ["aa"]);
    assert_eq!(kind(place.whole.list(&place.path("missing"))), ErrorKind::NotFound);
    assert_eq!(kind(place.whole.list(&place.path("a"))), ErrorKind::NotADirectory);
}

fn directories_are_made_with_their_parents(place: &Place) {
    place.whole.create_dir_all(&place.path("x/y/z")).unwrap();
    place.whole.create_dir_all(&place.path("x/y")).unwrap();
    assert!(place.whole.list(&place.path("x/y/z")).unwrap().is_empty());
    place.create("file", b"");
    assert_eq!(kind(place.whole.create_dir_all(&place.path("file/z"))), ErrorKind::NotADirectory);
    assert_eq!(kind(place.whole.create_dir_all(&place.path("file"))), ErrorKind::NotADirectory);
}

fn locks_exclude(place: &Place) {
    let lock = place.fs.lock(&place.path("LOCK")).unwrap();
    assert_eq!(place.names(), ["LOCK"]);
    assert_eq!(kind(place.fs.lock(&place.path("LOCK"))), ErrorKind::WouldBlock);
    assert_eq!(kind(place.fs.lock(&place.path("LOCK"))), ErrorKind::WouldBlock, "a refusal changes nothing");
    drop(place.fs.lock(&place.path("OTHER")).unwrap());
    assert!(lock.is_in_place().unwrap());
    drop(lock);
    drop(place.fs.lock(&place.path("LOCK")).unwrap());
    assert_eq!(kind(place.whole.lock(&place.path("missing/LOCK"))), ErrorKind::NotFound);
}

fn a_lock_tells_whether_its_file_has_the_name(place: &Place) {
    let path = place.path("LOCK");
    let first = place.fs.lock(&path).unwrap();
    place.fs.unlink(&path).unwrap();
    assert!(!first.is_in_place().unwrap(), "removed");
    let second = place.fs.lock(&path).unwrap();
    assert!(!first.is_in_place().unwrap() && second.is_in_place().unwrap());
    place.fs.rename(&path, &place.path("ASIDE")).unwrap();
    assert!(!second.is_in_place().unwrap(), "renamed");
    place.fs.link(&place.path("ASIDE"), &path).unwrap();
    assert!(second.is_in_place().unwrap(), "the name is back");
    place.create("other", b"");
    place.fs.rename(&place.path("other"), &path).unwrap();
    assert!(!second.is_in_place().unwrap(), "replaced");
}

fn a_directory_is_held_if_it_is_there(place: &Place) {
    let held = place.fs.hold_dir(&place.dir).unwrap();
    place.create("a", b"data");
    assert_eq!(held.list(&place.dir).unwrap().len(), 1);
    held.unlink(&place.path("a")).unwrap();
    assert!(place.names().is_empty());
    assert_eq!(kind(place.whole.hold_dir(&place.path("missing"))), ErrorKind::NotFound);
    place.create("a", b"data");
    assert_eq!(kind(place.whole.hold_dir(&place.path("a"))), ErrorKind::NotADirectory);
}

fn there_is_free_space(place: &Place) {
    assert!(place.fs.free_space(&place.dir).unwrap() > 0);
}

fn syncs_succeed(place: &Place) {
    let file = place.create("a", b"data");
    file.sync_data().unwrap();
    place.fs.sync_dir(&place.dir).unwrap();
    place.fs.sync_dir(&place.dir).unwrap();
    assert_eq!(kind(place.whole.sync_dir(&place.path("missing"))), ErrorKind::NotFound);
}

#[test]
fn relative_directories_are_made_on_both() {
    // The parent of a bare name is the working directory, which `Path::parent` spells "".
    let name = format!("braidb-contract-{:016x}", OsRandom.next_u64());
    let name = Path::new(&name);
    for fs in [&RealFs as &dyn FileSystem, &SimFs::new()] {
        fs.create_dir_all(name).unwrap();
        fs.create(&name.join("a")).unwrap();
        assert_eq!(fs.list(name).unwrap().len(), 1);
    }
    std::fs::remove_dir_all(name).unwrap();
}
