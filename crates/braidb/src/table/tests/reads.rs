//! How a table reads and writes its file: the number of reads, write-out requests, and failing reads.

use super::*;
use crate::base::error::Error;
use crate::base::write_out::STEP_BYTES;
use braidb_storage::File;
use braidb_storage::locks::Mutex;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A file that counts its reads, fails them on demand, and records write-out requests.
#[derive(Debug)]
struct Watched {
    file: Arc<dyn File>,
    reads: AtomicU64,
    bytes: AtomicU64,
    fails: AtomicBool,
    written_out: Mutex<Vec<Range<u64>>>,
}

impl Watched {
    fn new(file: Arc<dyn File>) -> Arc<Watched> {
        Arc::new(Watched {
            file,
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            written_out: Mutex::default(),
        })
    }
}

impl File for Watched {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is on fire"));
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, buf)
    }
    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.file.append(data)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.file.preallocate(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn write_out(&self, offset: u64, len: u64) {
        assert!(offset + len <= self.file.len().unwrap(), "asked for what was not appended");
        self.written_out.lock().push(offset..offset + len);
        self.file.write_out(offset, len);
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

fn open_watched(path: &Path, bytes: u64, cache_bytes: usize) -> (Arc<Table>, Arc<Watched>) {
    let file = RealFs.open(path).unwrap();
    let watched = Watched::new(file);
    let cache = Arc::new(BlockCache::new(cache_bytes));
    let files = Arc::new(OpenFiles::new(Arc::new(RealFs), 1));
    files.insert(ID, watched.clone());
    let table = Table::open(files, path, ID, bytes, Vec::new(), cache, Arc::default()).unwrap();
    assert_eq!(
        watched.reads.swap(0, Ordering::Relaxed),
        2,
        "opening reads the footer and the rest of the tail"
    );
    (table, watched)
}

#[test]
fn long_walks_read_ahead_and_short_ones_do_not() {
    let dir = Dir::new("ahead");
    let rows: Vec<Row> = (0..20_000u64).map(|i| put(format!("{i:05}"), 1, vec![b'v'; 100])).collect();
    let summary = build(&dir.table(), &rows, OPTIONS);
    let windows = summary.bytes / (120 << 10);
    for (fill_cache, most) in [(false, windows + 1), (true, windows + 8)] {
        // So large that the doorkeeper of the cache takes no two blocks for each other.
        let (table, watched) = open_watched(&dir.table(), summary.bytes, 1 << 30);
        let mut cursor = table.cursor(everything(), fill_cache);
        assert_eq!(all_forward(&mut cursor).unwrap().len(), rows.len());
        let forward = watched.reads.swap(0, Ordering::Relaxed);
        assert!(forward <= most, "{forward} reads for {windows} windows, fill_cache {fill_cache}");
        assert_eq!(all_backward(&mut cursor).unwrap().len(), rows.len());
        let backward = watched.reads.swap(0, Ordering::Relaxed);
        assert!(backward <= most, "{backward} reads back, fill_cache {fill_cache}");
        assert_eq!(all_forward(&mut cursor).unwrap().len(), rows.len());
        let again = watched.reads.swap(0, Ordering::Relaxed);
        let most = if fill_cache { 2 } else { most };
        assert!(again <= most, "{again} reads of blocks that were read twice, fill_cache {fill_cache}");
    }
    let (table, watched) = open_watched(&dir.table(), summary.bytes, 0);
    watched.bytes.store(0, Ordering::Relaxed);
    let mut slice = table.cursor(KeyRange::new(*b"10000", *b"10099"), false);
    assert_eq!(all_forward(&mut slice).unwrap().len(), 100);
    assert_eq!(watched.reads.swap(0, Ordering::Relaxed), 1);
    let bytes = watched.bytes.load(Ordering::Relaxed);
    assert!(bytes < 6 * 4096, "{bytes} bytes read for a slice of 100 small entries");
    let mut cursor = table.cursor(everything(), true);
    for key in ["10000", "05000", "15000"] {
        cursor.seek(key.as_bytes()).unwrap();
        assert_eq!(cursor.key(), key.as_bytes());
        assert_eq!(watched.reads.swap(0, Ordering::Relaxed), 1);
    }
}

#[test]
fn a_failed_read_is_an_error_and_passes() {
    let dir = Dir::new("eio");
    let rows = random_rows(6000, 5);
    let summary = build(
        &dir.table(),
        &rows,
        TableOptions { block_bytes: 200, filter_bits_per_key: 10, has_sample: false },
    );
    let (table, watched) = open_watched(&dir.table(), summary.bytes, 0);
    for fill_cache in [true, false] {
        let mut cursor = table.cursor(everything(), fill_cache);
        cursor.seek_to_first().unwrap();
        watched.fails.store(true, Ordering::Relaxed);
        let hash = key::hash(&rows[1000].0);
        assert!(matches!(table.get(&rows[1000].0, hash, MAX_SEQ), Err(Error::Io { .. })));
        assert!(matches!(cursor.seek_to_last(), Err(Error::Io { .. })));
        assert!(!cursor.valid());
        watched.fails.store(false, Ordering::Relaxed);
        // The block that could not be read is not taken for the one before it.
        cursor.seek_to_last().unwrap();
        assert_eq!(cursor.key(), rows[rows.len() - 1].0);
        assert_eq!(get(&table, &rows[1000].0, MAX_SEQ), expected(&rows, &rows[1000].0, MAX_SEQ));
        assert_eq!(all_forward(&mut cursor).unwrap(), rows);
    }
}

#[test]
fn the_device_is_asked_to_write_while_a_table_is_made() {
    let dir = Dir::new("early");
    let watched = Watched::new(RealFs.create(&dir.table()).unwrap());
    let mut builder = TableBuilder::in_file(watched.clone(), &dir.table(), ID, OPTIONS);
    for i in 0..40_000u64 {
        builder.add(format!("{i:05}").as_bytes(), 1, EntryKind::Put, &[b'v'; 100]).unwrap();
    }
    let huge = vec![b'v'; 3 << 20];
    builder.add(b"huge", 1, EntryKind::Put, &huge).unwrap();
    builder.add(b"small", 1, EntryKind::Put, b"").unwrap();
    let bytes = builder.finish().unwrap().bytes;
    let asked = watched.written_out.lock();
    assert!(bytes > 7 * STEP_BYTES && asked.len() >= 4, "{bytes} bytes, {asked:?}");
    let mut ends = asked.iter().map(|range| range.end);
    let starts = std::iter::once(0).chain(ends.clone());
    assert!(starts.zip(&*asked).all(|(start, range)| start == range.start), "once each: {asked:?}");
    assert!(ends.clone().all(|end| end % STEP_BYTES == 0), "whole steps: {asked:?}");
    assert!(bytes - ends.next_back().unwrap() < STEP_BYTES, "all but the last: {asked:?}");
}
