//! Tests with more tables than file descriptors.

use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, MAX_SEQ, TierId};
use crate::base::key::{self, KeyRange};
use crate::base::names;
use crate::cache::{BlockCache, OpenFiles};
use crate::table::{TableBuilder, TableOptions};
use crate::version::table_file::{NewTable, TableFile, TableStore};
use crate::visible::{Cursor, EntryKind};
use braidb_storage::locks::Mutex;
use braidb_storage::real::RealFs;
use braidb_storage::sim::SimFs;
use braidb_storage::{Closing, File, FileSystem, Pool};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TABLES: u64 = 50;
const KEYS: u64 = 400;
const OPEN_FILES: usize = 16;

/// Tables of several blocks, without a block cache.
struct Tables {
    dir: PathBuf,
    store: Arc<TableStore>,
    files: Vec<Arc<TableFile>>,
}

impl Tables {
    fn new(test: &str) -> Tables {
        let dir = std::env::temp_dir().join(format!("braidb-files-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        RealFs.create_dir_all(&dir).unwrap();
        let cache = Arc::new(BlockCache::new(0));
        let store = TableStore::new(Arc::new(RealFs), &*dir, cache, Arc::default(), OPEN_FILES);
        let files = (1..=TABLES).map(|id| table_in(&RealFs, &dir, &store, FileId(id))).collect();
        Tables { dir, store, files }
    }

    /// The files of the directory that this process has open. Deleted files end in "(deleted)".
    #[allow(clippy::disallowed_methods)]
    fn open_files(&self) -> Vec<PathBuf> {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        // Skips descriptors that another test closes meanwhile.
        let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(&self.dir)).collect()
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn table_in(fs: &dyn FileSystem, dir: &Path, store: &Arc<TableStore>, id: FileId) -> Arc<TableFile> {
    let options = TableOptions { block_bytes: 1000, filter_bits_per_key: 10, has_sample: false };
    let mut builder = TableBuilder::create(fs, &names::table(dir, id), id, options).unwrap();
    for number in 0..KEYS {
        builder.add(&key_of(number), id.0, EntryKind::Put, &[id.0 as u8; 20]).unwrap();
    }
    let summary = builder.finish().unwrap();
    Arc::new(TableFile::new(id, summary.bytes, summary.checksum, TierId::FAST, store.clone()))
}

fn key_of(number: u64) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn get(file: &TableFile, number: u64) -> Result<bool> {
    let key = key_of(number);
    let found = file.reader()?.get(&key, key::hash(&key), MAX_SEQ)?;
    Ok(found.is_some_and(|found| found.value == [file.id.0 as u8; 20]))
}

#[test]
fn no_more_files_are_open_than_allowed() {
    let tables = Tables::new("bound");
    for number in 0..KEYS / 10 {
        for file in &tables.files {
            assert!(get(file, 10 * number).unwrap());
        }
        assert_eq!(tables.open_files().len(), OPEN_FILES);
    }
    // Cursors that take turns find their files closed at every block.
    let bounds = KeyRange::new(key_of(0), key_of(KEYS));
    let cursor = |file: &Arc<TableFile>| file.reader().unwrap().cursor(bounds.clone(), true);
    let mut cursors: Vec<_> = tables.files.iter().map(cursor).collect();
    cursors.iter_mut().for_each(|cursor| cursor.seek_to_first().unwrap());
    for number in 0..KEYS {
        for cursor in &mut cursors {
            assert_eq!(cursor.key(), key_of(number));
            cursor.next().unwrap();
        }
        assert!(tables.open_files().len() <= OPEN_FILES);
    }
    assert!(cursors.iter().all(|cursor| !cursor.valid()));
}

#[test]
fn files_stay_open_as_long_as_there_is_room() {
    let tables = Tables::new("room");
    for _ in 0..3 {
        for file in &tables.files[..OPEN_FILES] {
            assert!(get(file, 7).unwrap());
        }
        assert_eq!(tables.open_files().len(), OPEN_FILES);
    }
    // From here on, no file can be opened by its name.
    for file in &tables.files[..OPEN_FILES] {
        RealFs.unlink(&names::table(&tables.dir, file.id)).unwrap();
    }
    for file in &tables.files[..OPEN_FILES] {
        assert!(get(file, 8).unwrap());
    }
}

#[test]
fn a_dead_table_is_closed_before_it_is_unlinked() {
    let mut tables = Tables::new("dead");
    let file = tables.files.remove(0);
    assert!(get(&file, 1).unwrap());
    let (path, view) = (names::table(&tables.dir, file.id), file.clone());
    assert_eq!(tables.open_files(), std::slice::from_ref(&path));
    file.mark_obsolete();
    drop(file);
    assert!(get(&view, 2).unwrap());
    assert_eq!((tables.open_files(), tables.store.take_dead(usize::MAX)), (vec![path], vec![]));
    drop(view);
    assert_eq!(
        (tables.open_files(), tables.store.take_dead(usize::MAX)),
        (vec![], vec![(TierId::FAST, FileId(1))])
    );
}

/// Tables of a simulated machine whose processes may have this many descriptors.
fn simulated(limit: u64) -> (SimFs, Vec<Arc<TableFile>>) {
    let fs = SimFs::new();
    fs.set_descriptor_limit(Some(limit));
    let files = tables_in(&fs, Path::new("one"));
    (fs, files)
}

fn tables_in(fs: &SimFs, dir: &Path) -> Vec<Arc<TableFile>> {
    fs.create_dir_all(dir).unwrap();
    let store = TableStore::new(Arc::new(fs.clone()), dir, Arc::new(BlockCache::new(0)), Arc::default(), 100);
    (1..=TABLES).map(|id| table_in(fs, dir, &store, FileId(id))).collect()
}

#[test]
fn databases_of_a_process_share_half_of_its_descriptors() {
    let (fs, one) = simulated(24);
    let read = |files: &[Arc<TableFile>]| files.iter().for_each(|file| assert!(get(file, 7).unwrap()));
    read(&one);
    assert_eq!(fs.open_descriptors(), 12);
    let two = tables_in(&fs, Path::new("two"));
    read(&two);
    assert_eq!(fs.open_descriptors(), 12);
    let few = &two[..5];
    read(few);
    read(few);
    for file in few {
        fs.unlink(&names::table(Path::new("two"), file.id)).unwrap();
    }
    // The second database took descriptors of the first one, although it came later.
    read(few);
    drop(one);
    assert_eq!(fs.open_descriptors(), 7, "a database that is closed holds nothing");
}

#[test]
fn a_read_finds_a_descriptor_where_the_program_takes_all_others() {
    let (fs, files) = simulated(24);
    assert!(get(&files[0], 7).unwrap());
    let taken = take_all(&fs, 24);
    // Reads of four threads hold the only descriptor in turns.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let files = &files;
            scope.spawn(move || {
                for file in files.iter().cycle().skip(13 * thread).take(2 * files.len()) {
                    assert!(get(file, 7).unwrap());
                }
            });
        }
    });
    assert_eq!((fs.open_descriptors(), taken.len()), (24, 23));
}

/// A store that may hold one file opens a new table, and closes the file that it holds for the next read. Afterwards it holds this file
/// again, also if the table is damaged or cannot be opened.
#[test]
fn a_new_table_gives_back_the_descriptor_of_the_next_read() {
    let (fs, dir) = (SimFs::new(), Path::new("one"));
    fs.create_dir_all(dir).unwrap();
    fs.write_file(&dir.join(names::LOCK), b"").unwrap();
    let store = TableStore::new(Arc::new(fs.clone()), dir, Arc::new(BlockCache::new(0)), Arc::default(), 1);
    let new = |id: u64, more_bytes: u64| {
        let TableFile { id, bytes, checksum, tier, .. } = *table_in(&fs, dir, &store, FileId(id));
        NewTable { id, bytes: bytes + more_bytes, checksum, tier, parts: Vec::new(), bodies: Vec::new() }
    };
    let (whole, damaged, missing) = (new(1, 0), new(2, 1), new(3, 0));
    fs.unlink(&names::table(dir, missing.id)).unwrap();
    for (table, is_ok) in [(&whole, true), (&damaged, false), (&missing, true)] {
        store.reserve();
        assert_eq!(fs.open_descriptors(), 1);
        assert_eq!(store.open_early([table].into_iter()).is_ok(), is_ok, "{table:?}");
        assert_eq!(fs.open_descriptors(), 1, "{table:?}");
    }
}

/// A table whose filter is damaged can be cut, and refuses readers until the filter is whole.
#[test]
fn a_job_that_cuts_a_table_reads_no_filter() {
    let (fs, dir) = (SimFs::new(), Path::new("one"));
    fs.create_dir_all(dir).unwrap();
    let store = TableStore::new(Arc::new(fs.clone()), dir, Arc::new(BlockCache::new(0)), Arc::default(), 16);
    let file = table_in(&fs, dir, &store, FileId(1));
    let path = names::table(dir, file.id);
    // The footer takes 64 bytes, and has the offset of the filter behind 16 of them.
    let mut offset = [0; 8];
    fs.open(&path).unwrap().read_exact_at(file.bytes - 48, &mut offset).unwrap();
    let bit = 8 * u64::from_le_bytes(offset) + 100;
    fs.flip_bit(&path, bit).unwrap();
    let range = KeyRange::new(key_of(0), key_of(KEYS - 1));
    let cut = file.index_reader().unwrap().cut(&range, &key_of(200)).unwrap();
    assert_eq!((cut.before, cut.after), (Some(key_of(199)), Some(key_of(200))));
    assert!(matches!(get(&file, 7), Err(Error::Corruption { .. })));
    fs.flip_bit(&path, bit).unwrap();
    assert!(get(&file, 7).unwrap() && !get(&file, KEYS).unwrap());
    assert!(file.reader().unwrap().may_contain(key::hash(&key_of(7))));
    let passed =
        (KEYS..2 * KEYS).filter(|&number| file.reader().unwrap().may_contain(key::hash(&key_of(number))));
    assert!(passed.count() < KEYS as usize / 10, "the filter is asked");
}

/// Takes all descriptors that are free.
fn take_all(fs: &SimFs, limit: u64) -> Vec<Arc<dyn File>> {
    let path = names::table(Path::new("one"), FileId(1));
    (fs.open_descriptors()..limit).map(|_| fs.open(&path).unwrap()).collect()
}

/// The rest of the program: when it is asked for a file the second time, it gives a descriptor back.
#[derive(Debug)]
struct Program(Mutex<(u32, Vec<Arc<dyn File>>)>);

impl Pool for Program {
    fn held(&self) -> u64 {
        0
    }

    fn close_coldest(&self, _least: u64) -> Closing {
        let (asked, taken) = &mut *self.0.lock();
        *asked += 1;
        if *asked == 2 {
            taken.pop();
        }
        Closing::Empty
    }
}

#[test]
fn a_read_without_a_descriptor_waits_until_there_is_one() {
    let (fs, files) = simulated(24);
    // The pool is empty, as while another thread opens the only file that it may have.
    let program = Arc::new(Program(Mutex::new((0, take_all(&fs, 24)))));
    let pool: Arc<dyn Pool> = program.clone();
    fs.descriptors().join(Arc::downgrade(&pool));
    assert!(get(&files[0], 7).unwrap());
    let (asked, taken) = &*program.0.lock();
    assert_eq!((*asked, taken.len(), fs.open_descriptors()), (2, 23, 24));
}

#[test]
fn a_read_that_finds_no_descriptor_for_long_says_what_to_do() {
    let (fs, files) = simulated(24);
    let taken = take_all(&fs, 24);
    let refused = get(&files[0], 7).unwrap_err().to_string();
    assert!(refused.contains("ulimit -n"), "{refused}");
    drop(taken);
    assert!(get(&files[0], 7).unwrap());
}

#[test]
fn a_file_that_reads_never_let_go_is_closed_by_its_last_read() {
    let (fs, files) = simulated(24);
    let pool = OpenFiles::new(Arc::new(fs.clone()), 100);
    let path = |id: u64| names::table(Path::new("one"), FileId(id));
    let lend = |id: u64| pool.get(FileId(id), &path(id)).unwrap();
    let (one, two) = (lend(1), lend(2));
    let again = [lend(1), lend(2)];
    for _ in 0..3 {
        assert_eq!(fs.descriptors().close_coldest(), Closing::Lent);
    }
    drop((one, two));
    assert_eq!((fs.open_descriptors(), fs.descriptors().close_coldest()), (2, Closing::Lent), "reads go on");
    drop(again);
    assert_eq!((fs.open_descriptors(), fs.descriptors().close_coldest()), (1, Closing::Empty));
    drop(files);
}

#[test]
fn a_write_gets_a_descriptor_while_many_threads_read_two_tables() {
    let (fs, files) = simulated(24);
    let files = &files[..2];
    files.iter().for_each(|file| assert!(get(file, 7).unwrap()));
    let (taken, is_done) = (take_all(&fs, 24), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let is_done = &is_done;
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    assert!(get(&files[thread % 2], 7).unwrap());
                }
            });
        }
        let created = fs.create(Path::new("one/log"));
        is_done.store(true, Ordering::Relaxed);
        assert!(created.is_ok());
    });
    assert_eq!(taken.len(), 22);
}

#[test]
fn a_write_gets_the_descriptor_of_a_cold_table() {
    let (fs, files) = simulated(24);
    files.iter().for_each(|file| assert!(get(file, 7).unwrap()));
    let mut written = Vec::new();
    for (number, file) in files.iter().enumerate().take(23) {
        written.push(fs.create(Path::new(&format!("one/{number}"))).unwrap());
        assert!(get(file, 8).unwrap());
    }
    assert_eq!(fs.open_descriptors(), 24);
    let refused = fs.create(Path::new("one/23")).unwrap_err();
    assert!(braidb_storage::is_shortage(&refused), "{refused}");
    assert!(get(&files[30], 8).unwrap());
}

/// Reads other tables until the file of `file` is closed.
fn close(tables: &Tables, file: &TableFile) {
    let path = names::table(&tables.dir, file.id);
    for round in 0.. {
        if !tables.open_files().contains(&path) {
            return;
        }
        assert!(round < 100, "the file is closed after enough reads of others");
        for other in tables.files.iter().filter(|other| other.id != file.id) {
            assert!(get(other, 3).unwrap());
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_again_is_an_error_that_passes() {
    let tables = Tables::new("again");
    let file = &tables.files[0];
    assert!(get(file, 1).unwrap());
    close(&tables, file);
    let (path, elsewhere) = (names::table(&tables.dir, file.id), tables.dir.join("elsewhere"));
    RealFs.rename(&path, &elsewhere).unwrap();
    match get(file, 2) {
        Err(Error::Io { operation: "open", path: named, .. }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
    RealFs.rename(&elsewhere, &path).unwrap();
    assert!(get(file, 2).unwrap());
}
