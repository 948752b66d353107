//! The log as a whole: written batches are read back, a full disk is reported before bytes are written, a failure is final.

mod crash;
mod damage;

use super::frame::{FOOTER_BYTES, Header};
use super::*;
use crate::base::checksum;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::names;
use crate::visible::EntryKind;
use braidb_storage::FileSystem;
use braidb_storage::sim::{Fault, Lasting, Op, OpKind, SimFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ID: FileId = FileId(1);

/// The unit in which [`SimFs`] counts space.
const BLOCK_BYTES: u64 = 4096;

/// A file system with an empty directory. It refuses appends into space that was not preallocated.
fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new("d")).unwrap();
    fs.set_appends_need_space(true);
    fs
}

/// A file system with one log.
fn disk_with(id: FileId, data: &[u8]) -> SimFs {
    let fs = disk();
    fs.write_file(&path(id), data).unwrap();
    fs
}

/// Panics at operations that the log does not make, and at a cut elsewhere than behind the bytes of a log.
fn check_op(fs: &SimFs, op: &Op) {
    match op.kind {
        OpKind::Truncate => {
            assert_eq!(op.bytes, fs.written_len(&op.path).unwrap(), "a log ends with its bytes")
        }
        OpKind::Create | OpKind::Append | OpKind::Preallocate | OpKind::Unlink => {}
        OpKind::SyncData | OpKind::SyncDir => {}
        other => panic!("the log makes no {other:?}"),
    }
}

/// Leaves `bytes` free bytes on the device.
fn set_free(fs: &SimFs, bytes: u64) {
    fs.set_capacity(Some(fs.taken_bytes() + bytes));
}

/// An operation as text, e.g. `append 000001.log`.
fn text(op: &Op) -> String {
    let what = match op.kind {
        OpKind::Create => "create",
        OpKind::Append => "append",
        OpKind::Truncate => "truncate",
        OpKind::Unlink => "unlink",
        OpKind::SyncData => "sync",
        OpKind::SyncDir => "sync_dir",
        other => return format!("{other:?}"),
    };
    format!("{what} {}", op.path.file_name().unwrap().to_str().unwrap())
}

/// The changing operations since the last call, without preallocations. The first call only starts to record.
fn take_calls(fs: &SimFs) -> Vec<String> {
    let recorded = fs.take_recorded_ops();
    fs.record_ops();
    let changes = recorded.iter().filter(|op| op.kind.mutates() && op.kind != OpKind::Preallocate);
    changes.map(text).collect()
}

/// Fails the nth operation from now whose text begins with `call`. The seed decides how much of a failing append is written.
fn fail_call(fs: &SimFs, nth: u64, call: &'static str, fault: Fault, seed: u64) {
    fs.fail_nth_where(nth, fault, Lasting::Once, seed, move |op| text(op).starts_with(call));
}

/// An entry that was read back.
type Read = (SeqNo, FamilyId, EntryKind, Vec<u8>, Vec<u8>);

/// The header of the first log of a new database.
fn first_header() -> Header {
    Header { previous: None, written_back: false, covers_earlier_opens: true, is_first_of_open: true }
}

/// The header of a log behind `previous`, which was closed at `bytes` bytes.
fn later_header(previous: FileId, bytes: u64) -> Header {
    Header { previous: Some((previous, bytes)), is_first_of_open: false, ..first_header() }
}

/// A log under test, and the next sequence number.
struct Bench {
    fs: SimFs,
    sync: Arc<LogSync>,
    counters: Arc<Counters>,
    writer: LogWriter,
    seq: SeqNo,
}

impl Bench {
    fn new() -> Bench {
        Bench::on(disk(), 0)
    }

    fn on(fs: SimFs, reserve_bytes: u64) -> Bench {
        fs.set_hook(Some(Box::new(check_op)));
        let counters = Arc::new(Counters::default());
        let sync = Arc::new(LogSync::new(Arc::new(fs.clone()), Path::new("d"), counters.clone()));
        let writer = LogWriter::create(sync.clone(), ID, None, reserve_bytes).unwrap();
        Bench { fs, sync, counters, writer, seq: 1 }
    }

    fn append(&mut self, batches: &[EncodedBatch], write_out: bool) -> Result<u64> {
        let mut group = Vec::new();
        let mut seq = self.seq;
        for batch in batches {
            group.push((batch, seq));
            seq += batch.count() as u64;
        }
        let end = self.writer.append(&group, write_out)?;
        self.seq = seq;
        Ok(end)
    }

    /// Puts `bytes` bytes under a key of 8 bytes, and writes the frame to the operating system.
    fn put(&mut self, bytes: usize) -> Result<u64> {
        let value = vec![self.seq as u8; bytes];
        self.append(&[put(&self.seq.to_be_bytes(), &value)], true)
    }

    fn sync(&self) {
        self.sync.sync_through(self.writer.id(), self.writer.end()).unwrap();
    }

    fn close(&mut self) {
        self.writer.write_out().unwrap();
        self.sync();
        self.writer.seal().unwrap();
        self.sync();
    }

    /// The bytes of a log, without zeros of its preallocated space.
    fn data(&self, id: FileId) -> Vec<u8> {
        let mut data = self.fs.read_file(&path(id)).unwrap();
        data.truncate(self.fs.written_len(&path(id)).unwrap() as usize);
        data
    }
}

fn put(key: &[u8], value: &[u8]) -> EncodedBatch {
    let mut batch = EncodedBatch::default();
    batch.push_put(FamilyId(0), key, value);
    batch
}

fn delete(key: &[u8]) -> EncodedBatch {
    let mut batch = EncodedBatch::default();
    batch.push_delete(FamilyId(0), key);
    batch
}

fn path(id: FileId) -> PathBuf {
    names::log(Path::new("d"), id)
}

/// Scans a log. Returns the visited entries too, even if the scan fails at the end.
fn read(fs: &SimFs, id: FileId, known_end: Option<u64>) -> (Result<Scan>, Vec<Read>) {
    let mut entries = Vec::new();
    let scan =
        scan(fs, &path(id), id, known_end, &mut |frame| {
            entries.extend(frame.entries().map(|(seq, entry)| {
                (seq, entry.family, entry.kind, entry.key.to_vec(), entry.value.to_vec())
            }));
            Ok(())
        });
    (scan, entries)
}

#[test]
fn batches_come_back_with_their_numbers() {
    let mut bench = Bench::new();
    let mut mixed = put(b"a", b"1");
    mixed.push_delete(FamilyId(9), b"");
    mixed.push_put(FamilyId(70_000), b"b", b"");
    let end = bench.append(&[mixed, delete(b"z")], true).unwrap();
    let (scan, entries) = read(&bench.fs, ID, None);
    let entry = |seq, family, kind, key: &[u8], value: &[u8]| {
        (seq, FamilyId(family), kind, key.to_vec(), value.to_vec())
    };
    let expected = [
        entry(1, 0, EntryKind::Put, b"a", b"1"),
        entry(2, 9, EntryKind::Delete, b"", b""),
        entry(3, 70_000, EntryKind::Put, b"b", b""),
        entry(4, 0, EntryKind::Delete, b"z", b""),
    ];
    assert_eq!(entries, expected);
    let header = Some(first_header());
    let expected =
        Scan { header, end: End::Open { offset: end }, frames: 2, entries: 4, last_seq: 4, max_mark: 0 };
    assert_eq!(scan.unwrap(), expected);
    assert_eq!(bench.data(ID).len() as u64, end);
    assert!(bench.fs.file_len(&path(ID)).unwrap() > end, "the file is one of `create_log`");
    assert_eq!(bench.counters.log_bytes.get(), end);
}

/// Checks that log `id` has the places of exactly the `expected` sequence numbers up to 1000, and that the values lie there.
fn check_places(bench: &Bench, id: FileId, expected: &[(SeqNo, &[u8])]) {
    let closed = bench.sync.closed();
    let (_, bytes, places) = closed.iter().find(|log| log.0 == id).expect("the log is closed");
    let data = bench.data(id);
    assert_eq!(data.len() as u64, *bytes);
    for seq in 0..1000 {
        let expected = expected.iter().find(|other| other.0 == seq).map(|other| other.1);
        let found = places.find(seq);
        let value = found.map(|place| &data[place.offset as usize..][..place.bytes as usize]);
        assert_eq!((value, places.hold(seq)), (expected, expected.is_some()), "{seq}");
        assert!(found.is_none_or(|place| place.crc == checksum::of_value(expected.unwrap())));
    }
}

#[test]
fn closed_logs_tell_where_their_values_lie() {
    let mut bench = Bench::new();
    bench.writer.tell_places();
    // Recovery copies commits with gaps: records of a family that was written to a table are left out.
    for (first, value) in [(5, b"recovered"), (9, b"too, later")] as [(SeqNo, &[u8]); 2] {
        bench.seq = first;
        bench.append(&[put(b"a", value)], true).unwrap();
    }
    bench.seq = 17;
    let large = vec![2; 2 << 20];
    let mut mixed = put(b"a", b"first");
    mixed.push_delete(FamilyId(9), b"b");
    mixed.push_put(FamilyId(70_000), b"c", &large);
    bench.append(&[mixed, delete(b"d")], true).unwrap();
    bench.append(&[put(b"e", b"second")], false).unwrap();
    assert!(bench.sync.closed().is_empty(), "the log is being written");
    bench.writer.rotate(FileId(2), true).unwrap();
    let recovered: [(SeqNo, &[u8]); 2] = [(5, b"recovered"), (9, b"too, later")];
    let expected: [(SeqNo, &[u8]); 5] = [(17, b"first"), (18, b""), (19, &large), (20, b""), (21, b"second")];
    check_places(&bench, ID, &[&recovered[..], &expected].concat());

    let mut copies = EncodedBatch::default();
    copies.push_written_back(FamilyId(3), 900, EntryKind::Put, b"f", b"a copy");
    copies.push_written_back(FamilyId(3), 17, EntryKind::Put, b"a", b"first");
    bench.writer.append_written_back(&copies, ID).unwrap();
    bench.append(&[put(b"g", b"third")], true).unwrap();
    bench.writer.append_written_back(&copies, ID).unwrap();
    bench.append(&[put(b"h", b"fourth")], true).unwrap();
    bench.writer.rotate(FileId(3), false).unwrap();
    let expected: [(SeqNo, &[u8]); 4] = [(17, b"first"), (22, b"third"), (23, b"fourth"), (900, b"a copy")];
    check_places(&bench, FileId(2), &expected);
    bench.sync();
    drop(bench.sync.forget_below(FileId(2)));
    assert_eq!(bench.sync.closed().len(), 1, "a log that recovery does not replay is forgotten");
    bench.writer.rotate(FileId(4), false).unwrap();
    check_places(&bench, FileId(3), &[]);
}

#[test]
fn logs_of_small_values_tell_nothing_and_others_only_if_they_are_asked_to() {
    let closed = |asked: bool, bytes: usize, count: u64| {
        let mut bench = Bench::new();
        if asked {
            bench.writer.tell_places();
        }
        for _ in 0..count {
            bench.put(bytes).unwrap();
        }
        bench.writer.rotate(FileId(2), false).unwrap();
        bench.put(bytes).unwrap();
        bench.writer.rotate(FileId(3), false).unwrap();
        bench.sync.closed().iter().map(|log| log.0.0).collect::<Vec<_>>()
    };
    assert_eq!(closed(true, 32, 1024), [1, 2]);
    assert_eq!(closed(true, 31, 1023), [1, 2], "too few entries to judge");
    assert_eq!(closed(true, 31, 1024), [2]);
    assert_eq!(closed(false, 32, 1), [0; 0]);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn real_files_hold_logs_too() {
    let dir = std::env::temp_dir().join(format!("braidb-log-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let fs = Arc::new(braidb_storage::real::RealFs);
    let sync = Arc::new(LogSync::new(fs.clone(), &dir, Arc::default()));
    let mut writer = LogWriter::create(sync.clone(), ID, None, 0).unwrap();
    let batch = put(b"key", &[7; 100_000]);
    let end = (0..10).map(|turn| writer.append(&[(&batch, 1 + turn)], false).unwrap()).max().unwrap();
    writer.rotate(FileId(2), false).unwrap();
    writer.append(&[(&delete(b"key"), 11)], true).unwrap();
    sync.sync_through(FileId(2), writer.end()).unwrap();
    let scan = |id| scan(&*fs, &names::log(&dir, id), id, None, &mut |_| Ok(())).unwrap();
    let length = end + FOOTER_BYTES;
    assert_eq!((scan(ID).end, scan(ID).frames), (End::Sealed { length }, 10));
    assert_eq!(scan(FileId(2)).header, Some(later_header(ID, length)));
    assert_eq!(scan(FileId(2)).end, End::Open { offset: writer.end() });
    assert!(LogWriter::create(sync, ID, None, 0).is_err(), "the file exists");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn frames_larger_than_any_buffer_come_back() {
    let mut bench = Bench::new();
    let lengths = [0, 1 << 20, 70_000, (1 << 20) + 1, 3 << 20, 5];
    let values = lengths.map(|len| vec![len as u8; len]);
    for value in &values {
        bench.append(&[put(b"before", b"x"), put(b"k", value), delete(b"after")], false).unwrap();
    }
    bench.close();
    let (scan, entries) = read(&bench.fs, ID, None);
    assert_eq!(scan.unwrap().end, End::Sealed { length: bench.data(ID).len() as u64 });
    let read: Vec<_> = entries.into_iter().filter(|entry| entry.3 == b"k").map(|entry| entry.4).collect();
    assert!(read == values);
}

#[test]
fn a_group_is_one_append_and_frames_wait_only_when_asked() {
    let mut bench = Bench::new();
    take_calls(&bench.fs);
    bench.append(&[put(b"a", b"1"), put(b"b", b"2")], false).unwrap();
    assert_eq!(take_calls(&bench.fs), [""; 0]);
    bench.append(&[put(b"c", b"3"), put(b"d", b"4")], true).unwrap();
    assert_eq!(take_calls(&bench.fs), ["append 000001.log"]);
    bench.append(&[put(b"e", &[5; 64 << 10])], false).unwrap();
    assert_eq!(take_calls(&bench.fs), ["append 000001.log"], "the buffer is full");
    bench.append(&[put(b"f", b"6")], false).unwrap();
    bench.writer.write_out().unwrap();
    bench.writer.write_out().unwrap();
    assert_eq!(take_calls(&bench.fs), ["append 000001.log"]);
    assert_eq!(read(&bench.fs, ID, None).0.unwrap().frames, 6);
}

#[test]
fn logs_are_synced_oldest_first_and_once() {
    let mut bench = Bench::new();
    bench.put(10).unwrap();
    bench.writer.rotate(FileId(2), false).unwrap();
    bench.put(10).unwrap();
    bench.writer.rotate(FileId(5), false).unwrap();
    let end = bench.put(10).unwrap();
    take_calls(&bench.fs);
    bench.sync.sync_through(FileId(5), end).unwrap();
    let closed = |log: &str| [format!("truncate {log}"), format!("sync {log}"), "sync_dir d".to_owned()];
    let mut expected = [closed("000001.log"), closed("000002.log")].concat();
    expected.extend(["sync 000005.log", "sync_dir d"].map(String::from));
    assert_eq!(take_calls(&bench.fs), expected, "the space behind a footer is given back at the first sync");
    for id in [1, 2, 5] {
        bench.sync.sync_through(FileId(id), HEADER_BYTES).unwrap();
    }
    bench.sync.sync_through(FileId(5), end).unwrap();
    assert_eq!(take_calls(&bench.fs), [""; 0], "all logs are stable");
    bench.put(10).unwrap();
    bench.sync();
    assert_eq!(take_calls(&bench.fs), ["append 000005.log", "sync 000005.log"]);
    assert_eq!(bench.counters.log_syncs.get(), 4);
    assert_eq!(bench.counters.logs_rotated.get(), 2);
}

#[test]
fn marks_say_what_is_stable() {
    let mut bench = Bench::new();
    // Writes one more frame and returns its mark.
    let mark = |bench: &mut Bench| {
        bench.put(3).unwrap();
        let id = bench.writer.id();
        // Marks never fall, so the largest mark is the last.
        scan(&bench.fs, &path(id), id, None, &mut |_| Ok(())).unwrap().max_mark
    };
    assert_eq!(mark(&mut bench), 0, "the first log of an open, before its first sync");
    let first = bench.writer.end();
    bench.sync();
    assert_eq!(mark(&mut bench), first);
    bench.writer.rotate(FileId(2), false).unwrap();
    assert_eq!(mark(&mut bench), 0);
    bench.sync.sync_through(FileId(1), bench.data(ID).len() as u64).unwrap();
    assert_eq!(mark(&mut bench), 1);
    bench.writer.rotate(FileId(3), false).unwrap();
    bench.sync.sync_through(FileId(2), HEADER_BYTES).unwrap();
    assert_eq!(mark(&mut bench), 1);
    bench.writer.rotate(FileId(4), false).unwrap();
    assert_eq!(mark(&mut bench), 0);
    drop(bench.sync.forget_below(FileId(4)));
    assert_eq!(mark(&mut bench), 1, "recovery will not read the earlier logs");
    assert_eq!(bench.sync.appended(), bench.writer.end());
}

#[test]
fn a_chain_of_logs_tells_lengths() {
    let mut bench = Bench::new();
    bench.put(3).unwrap();
    bench.writer.rotate(FileId(4), false).unwrap();
    bench.writer.rotate(FileId(6), false).unwrap();
    bench.put(3).unwrap();
    bench.writer.seal().unwrap();
    let scans = [1, 4, 6].map(|id| read(&bench.fs, FileId(id), None).0.unwrap());
    let lengths = [1, 4, 6].map(|id| bench.data(FileId(id)).len() as u64);
    assert_eq!(scans.map(|scan| scan.end), lengths.map(|length| End::Sealed { length }));
    let previous = scans.map(|scan| scan.header.unwrap().previous);
    assert_eq!(previous, [None, Some((FileId(1), lengths[0])), Some((FileId(4), lengths[1]))]);
    assert_eq!(lengths[1], HEADER_BYTES + FOOTER_BYTES);
    assert_eq!(bench.sync.appended(), lengths.iter().sum::<u64>());
}

/// A descriptor that is opened after a failed write-back does not tell of it, so a log keeps its own until all of it is stable.
#[test]
fn a_log_has_its_descriptor_until_it_is_done_and_no_longer() {
    let mut bench = Bench::new();
    for id in 2..=4 {
        bench.put(1000).unwrap();
        bench.writer.rotate(FileId(id), false).unwrap();
        assert_eq!(bench.fs.open_descriptors(), id, "no log is synced");
    }
    let of_second = bench.sync.sizes()[1].1;
    bench.sync.sync_through(FileId(2), of_second - 1).unwrap();
    assert_eq!(bench.fs.open_descriptors(), 2, "the first two logs are stable");
    bench.sync();
    assert_eq!(bench.fs.open_descriptors(), 1, "the current log");
    bench.put(1000).unwrap();
    fail_call(&bench.fs, 1, "sync 000004", Fault::Sync, 0);
    bench.writer.rotate(FileId(5), false).unwrap();
    assert!(bench.sync.sync_through(FileId(5), 1).is_err());
    assert_eq!(bench.fs.open_descriptors(), 2, "log 4 is not stable");
}

#[test]
fn a_seal_gives_back_what_was_allocated_and_may_fail_to() {
    for fails in [false, true] {
        let fs = disk();
        set_free(&fs, 10 << 20);
        let mut bench = Bench::on(fs, 0);
        bench.put(1000).unwrap();
        if fails {
            fail_call(&bench.fs, 1, "truncate 000001", Fault::Io, 0);
        }
        bench.writer.rotate(FileId(2), false).unwrap();
        bench.close();
        let blocks_of = |id| (bench.data(id).len() as u64).next_multiple_of(BLOCK_BYTES);
        let free = bench.fs.free_space(Path::new("d")).unwrap();
        let unused = (10 << 20) - free - blocks_of(ID) - blocks_of(FileId(2));
        assert_eq!(unused > 0, fails, "{unused} bytes");
        assert!(bench.sync.failure().is_none());
        assert!(matches!(read(&bench.fs, ID, None).0.unwrap().end, End::Sealed { .. }));
    }
}

#[test]
fn a_full_disk_is_refused_before_a_byte_and_deletes_go_on() {
    let fs = disk();
    let reserve = 1 << 20;
    set_free(&fs, reserve + (700 << 10));
    let mut bench = Bench::on(fs, reserve);
    let refused = loop {
        let before = bench.data(ID);
        if let Err(error) = bench.put(1000) {
            assert_eq!(bench.data(ID), before);
            break error;
        }
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!(bench.writer.end() > 690 << 10, "puts use all but the reserve: {}", bench.writer.end());
    assert!(bench.sync.failure().is_none());
    // Deletes may use the reserve. Puts may not use the chunk that deletes allocated.
    for _ in 0..10_000 {
        bench.append(&[delete(b"key")], true).unwrap();
        assert!(bench.put(10).unwrap_err().is_full());
    }
    let mut mixed = delete(b"key");
    mixed.push_put(FamilyId(0), b"key", b"");
    assert!(bench.append(&[delete(b"key"), mixed], true).unwrap_err().is_full());
    bench.writer.rotate(FileId(2), false).unwrap();
    assert!(bench.put(10).unwrap_err().is_full(), "puts stay refused in a new log");
    set_free(&bench.fs, 2 * reserve);
    bench.put(10).unwrap();
    // No space is left: even deletes are refused, and a log can still be sealed.
    set_free(&bench.fs, 0);
    while bench.append(&[delete(&[7; 60_000])], true).is_ok() {}
    assert!(bench.writer.rotate(FileId(3), false).unwrap_err().is_full());
    assert!(bench.sync.failure().is_none());
    let leftovers = bench.writer.take_leftovers();
    assert!(bench.fs.file_len(&path(FileId(3))).is_ok(), "the file is removed after the commit lock");
    drop(leftovers);
    assert!(bench.fs.file_len(&path(FileId(3))).is_err());
    bench.close();
    assert!(matches!(read(&bench.fs, FileId(2), None).0.unwrap().end, End::Sealed { .. }));
}

/// Checks that a failure of `call` stops everything for good. Returns the bytes that a failing append left.
fn check_final_failure(call: &'static str, seed: u64) -> u64 {
    let mut bench = Bench::new();
    let end = bench.put(10).unwrap();
    fail_call(&bench.fs, 1, call, Fault::Io, seed);
    let error = match call {
        "append 000001" => bench.put(10).unwrap_err(),
        "append 000002" => bench.writer.rotate(FileId(2), false).unwrap_err(),
        _ => bench.sync.sync_through(ID, bench.writer.end()).unwrap_err(),
    };
    assert!(matches!(error, Error::Io { .. }), "{call}: {error}");
    assert!(matches!(bench.sync.failure(), Some(Error::Io { .. })), "{call}");
    take_calls(&bench.fs);
    let poisoned = [
        bench.put(10).unwrap_err(),
        bench.writer.rotate(FileId(3), false).unwrap_err(),
        bench.sync.sync_through(ID, HEADER_BYTES).unwrap_err(),
    ];
    assert!(poisoned.iter().all(|error| matches!(error, Error::Poisoned { .. })), "{call}");
    assert_eq!(take_calls(&bench.fs), [""; 0], "{call}");
    let (scan, entries) = read(&bench.fs, ID, None);
    assert_eq!((scan.is_ok(), entries.len()), (true, 1), "{call}: the acknowledged write is there");
    match call {
        "append 000001" => bench.data(ID).len() as u64 - end,
        "append 000002" => bench.data(FileId(2)).len() as u64,
        _ => 0,
    }
}

#[test]
fn a_failed_append_or_sync_stops_everything_for_good() {
    for call in ["append 000001", "sync 000001", "sync_dir", "append 000002"] {
        let left: Vec<u64> = (0..8).map(|seed| check_final_failure(call, seed)).collect();
        assert!(!call.starts_with("append") || left.iter().any(|&bytes| bytes > 0), "{call}: {left:?}");
    }
}

#[test]
fn half_a_frame_is_never_told_of() {
    let left = |seed| {
        let mut bench = Bench::new();
        let end = bench.put(10).unwrap();
        fail_call(&bench.fs, 2, "append", Fault::Io, seed);
        assert!(bench.put(2 << 20).is_err());
        assert_eq!(bench.sync.appended(), end, "a mark never lies within a frame");
        bench.data(ID).len() as u64 - end
    };
    let left: Vec<u64> = (0..16).map(left).collect();
    // The values are appended by themselves, and their append failed.
    assert!(left.iter().all(|&bytes| bytes > 0 && bytes < 2 << 20), "{left:?}");
    assert!(left.iter().any(|&bytes| bytes > 1 << 20), "{left:?}");
}

#[test]
fn a_rotation_that_cannot_create_the_next_log_leaves_the_old_one_in_use() {
    for (fault, full) in [(Fault::Io, false), (Fault::Full, true)] {
        let mut bench = Bench::new();
        bench.put(10).unwrap();
        fail_call(&bench.fs, 1, "create 000002", fault, 0);
        assert_eq!(bench.writer.rotate(FileId(2), false).unwrap_err().is_full(), full);
        assert!(bench.sync.failure().is_none());
        bench.put(10).unwrap();
        bench.writer.rotate(FileId(3), false).unwrap();
        bench.put(10).unwrap();
        bench.sync();
        assert_eq!(read(&bench.fs, ID, None).0.unwrap().frames, 2);
        let header = read(&bench.fs, FileId(3), None).0.unwrap().header;
        assert_eq!(header, Some(later_header(ID, bench.data(ID).len() as u64)));
    }
}

/// A writer in log 2 whose logs keep places from then on.
fn telling_bench() -> Bench {
    let mut bench = Bench::new();
    bench.writer.rotate(FileId(2), false).unwrap();
    bench.writer.tell_places();
    bench
}

/// Writes logs up to log `until`, each forgotten before the next but one. Calls `flush` after each with its number, if it kept places. Returns
/// the logs that kept places.
fn logs_that_told(bench: &mut Bench, until: u64, flush: impl Fn(&Bench, &[FileId])) -> Vec<u64> {
    let mut told = Vec::new();
    while bench.writer.id().0 < until {
        let id = bench.writer.id();
        bench.put(100).unwrap();
        bench.writer.rotate(FileId(id.0 + 1), false).unwrap();
        bench.sync();
        let closed: Vec<FileId> = bench.sync.closed().into_iter().map(|log| log.0).collect();
        assert!(closed.is_empty() || closed == [id]);
        flush(bench, &closed);
        told.extend(closed.into_iter().map(|id| id.0));
        drop(bench.sync.forget_below(FileId(id.0 + 1)));
    }
    told
}

#[test]
fn where_logs_go_unused_few_are_asked_to_tell() {
    let mut bench = telling_bench();
    let mut told = |until, used| {
        logs_that_told(&mut bench, until, |bench, closed| {
            if used {
                bench.sync.are_used(closed);
            }
        })
    };
    // Log 10 was begun before the eighth unused log, log 9, was forgotten.
    assert_eq!(told(40, false), [2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 25, 33]);
    // Log 42 was begun before a flush used log 41.
    assert_eq!(told(46, true), [41, 43, 44, 45]);
    assert_eq!(told(54, false), [46, 47, 48, 49, 50, 51, 52, 53]);
}

/// The list of places costs each put, so no log keeps one where no flush can use it.
#[test]
fn where_logs_of_flushes_are_large_none_tells() {
    let mut bench = telling_bench();
    let mut told =
        |until, log_bytes| logs_that_told(&mut bench, until, |bench, _| bench.sync.flush_took(log_bytes));
    // Log 4 was begun before the second large flush was noted.
    assert_eq!(told(30, MOST_FLUSH_LOG_BYTES + 1), [2, 3, 4], "none of the others, not one in eight");
    // Log 31 was begun before a flush of small logs was noted.
    assert_eq!(told(33, MOST_FLUSH_LOG_BYTES), [32]);

    // A log that is too large by itself drops its list.
    let mut bench = telling_bench();
    bench.put(MOST_FLUSH_LOG_BYTES as usize / 2).unwrap();
    bench.writer.rotate(FileId(3), false).unwrap();
    bench.put(MOST_FLUSH_LOG_BYTES as usize).unwrap();
    bench.put(100).unwrap();
    bench.writer.rotate(FileId(4), false).unwrap();
    let closed: Vec<u64> = bench.sync.closed().into_iter().map(|log| log.0.0).collect();
    assert_eq!(closed, [2]);
}
