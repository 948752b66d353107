//! Bodies on real files.
#![allow(clippy::disallowed_methods)]

use super::*;
use braidb_storage::FileSystem;
use braidb_storage::real::RealFs;
use std::fs;

const LOG: FileId = FileId(7);

/// A directory with one file under the name of a log, gone at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str, content: &[u8]) -> Dir {
        let dir = std::env::temp_dir().join(format!("braidb-bodies-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(names::log(&dir, LOG), content).unwrap();
        Dir(dir)
    }

    fn bodies(&self) -> (Arc<Bodies>, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        let fs: Arc<dyn FileSystem> = Arc::new(RealFs);
        let cache = Arc::new(BlockCache::new(1 << 20));
        let dirs = TierDirs::from(&*self.0);
        (Bodies::new(Arc::new(OpenFiles::new(fs, 16)), dirs, cache, counters.clone()), counters)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The log, closed with `bytes` bytes.
fn log(bytes: u64) -> BodyFile {
    BodyFile { kind: BodyKind::Log, tier: TierId::FAST, id: LOG, bytes }
}

fn handle(offset: u64, value: &[u8]) -> Handle {
    Handle { offset, bytes: value.len() as u32, crc: checksum::of_value(value) }
}

/// The values of several handles that are read together, each as a user takes it.
fn taken(body: &Body, handles: &[Handle], reach: Reach) -> Vec<Result<Value>> {
    let mut raw = RawValues::default();
    let together = body.read_together(handles, reach, &mut raw);
    let values = together.values.into_iter().zip(handles).map(|(value, handle)| match value {
        Fetched::Value(value) => value,
        Fetched::Raw(start) => body.take(handle, raw.get(start, handle.bytes as usize)),
    });
    values.collect()
}

#[test]
fn values_are_read_one_by_one_and_out_of_what_was_loaded() {
    let dir = Dir::new("read", b"....one.two");
    let (bodies, counters) = dir.bodies();
    let body = bodies.get(log(11));
    let (one, two, empty) = (handle(4, b"one"), handle(8, b"two"), handle(11, b""));
    assert_eq!(body.read(&one).unwrap(), b"one");
    assert_eq!(body.read_in_passing(&two).unwrap(), b"two");
    assert_eq!(body.read(&empty).unwrap(), b"");
    assert_eq!((counters.log_reads.get(), counters.log_merge_bytes.get()), (2, 3));

    let charged_bytes = || body.store.cache.table_bytes();
    assert_eq!(charged_bytes(), 0);
    let image = body.load().unwrap();
    let again = body.load().unwrap();
    assert_eq!(charged_bytes(), 11, "a loaded log counts once");
    assert!(Arc::ptr_eq(&image, &again), "two merges share it");
    let value = body.read_in_passing(&two).unwrap();
    assert_eq!((counters.log_reads.get(), counters.log_merge_bytes.get()), (2, 14));
    drop((image, again));
    assert_eq!(value, b"two");
    drop(value);
    assert_eq!(charged_bytes(), 0);
    assert_eq!(body.read_in_passing(&one).unwrap(), b"one");
    assert_eq!(counters.log_merge_bytes.get(), 17, "no merge holds what was loaded");
}

#[test]
fn a_value_is_kept_while_there_is_room_and_checked_each_time() {
    let dir = Dir::new("cache", b"....one.two");
    let (bodies, counters) = dir.bodies();
    let body = bodies.get(log(11));
    let one = handle(4, b"one");
    let counts = || [counters.log_reads.get(), counters.cache_misses.get(), counters.cache_hits.get()];
    assert_eq!(body.read(&one).unwrap(), b"one");
    assert_eq!(counts(), [1, 1, 0]);
    assert_eq!(body.read(&one).unwrap(), b"one");
    assert_eq!(counts(), [2, 1, 1], "it was kept at the first read");
    // Another handle to the same place takes nothing from the cache that is not its own.
    assert_eq!(body.read(&handle(4, b"one.t")).unwrap(), b"one.t");
    assert!(matches!(body.read(&handle(4, b"eno")), Err(Error::Corruption { offset: 4, .. })));
    assert_eq!(counts(), [4, 3, 1]);
}

#[test]
fn what_is_not_the_value_is_reported_with_log_and_place() {
    let dir = Dir::new("damage", b"....one.two");
    let (bodies, _) = dir.bodies();
    let body = bodies.get(log(11));
    let longer = bodies.get(log(20));
    let beyond = Handle { offset: u64::MAX - 1, bytes: 3, crc: 0 };
    let cases = [
        (&body, handle(5, b"one"), "checksum"),
        (&body, handle(9, b"two"), "beyond the end"),
        (&body, beyond, "beyond the end"),
        (&longer, handle(9, b"two"), "ends before"),
    ];
    for (body, handle, words) in cases {
        match body.read(&handle) {
            Err(Error::Corruption { path, offset, what }) => {
                assert_eq!((path, offset), (names::log(&dir.0, LOG), handle.offset));
                assert!(what.contains(words), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(longer.load().unwrap_err().is_corruption());
    let _image = body.load().unwrap();
    assert!(body.read_in_passing(&handle(5, b"one")).unwrap_err().is_corruption());
    assert!(body.read_in_passing(&beyond).unwrap_err().is_corruption());
}

#[test]
fn a_body_is_one_and_is_held_until_its_last_holder_lets_go() {
    let dir = Dir::new("held", b"....one.two");
    let (bodies, _) = dir.bodies();
    assert!(!bodies.is_held(LOG) && !bodies.take_any_died());
    let (first, second) = (bodies.get(log(11)), bodies.get(log(11)));
    assert!(Arc::ptr_eq(&first, &second));
    drop(first);
    assert!(bodies.is_held(LOG) && !bodies.take_any_died());
    drop(second);
    assert!(!bodies.is_held(LOG));
    assert!(bodies.take_any_died() && !bodies.take_any_died());
    let again = bodies.get(log(11));
    assert!(bodies.is_held(LOG));
    assert_eq!(again.read(&handle(4, b"one")).unwrap(), b"one");
}

#[test]
fn neighbours_are_read_together_and_far_values_alone() {
    const KIB: u64 = 1 << 10;
    // Values of 1 KiB. The second lies within the slack behind the first, the third far behind, the fourth next to the third.
    let offsets = [0, 17 * KIB, 60 * KIB, 61 * KIB];
    let handles = offsets.map(|offset| Handle { offset, bytes: KIB as u32, crc: 0 });
    assert_eq!(spans(&[0, 1, 2, 3], &handles, SPAN_SLACK_BYTES), [&[0, 1][..], &[2, 3]]);
    assert_eq!(
        spans(&[0, 1, 2, 3], &handles, 1 << 30),
        [&[0, 1, 2, 3][..]],
        "a place costs more than the gap"
    );
    assert_eq!(spans(&[1, 3], &handles, SPAN_SLACK_BYTES), [&[1][..], &[3]], "cached values are passed over");
    assert_eq!(spans(&[], &handles, SPAN_SLACK_BYTES), [&[0usize; 0][..]; 0]);
    // 100 values with gaps of their own size: two bytes are read for each that is wanted.
    let handles: Vec<Handle> =
        (0..100).map(|number| Handle { offset: 2 * number * KIB, bytes: KIB as u32, crc: 0 }).collect();
    let all: Vec<usize> = (0..100).collect();
    assert_eq!(spans(&all, &handles, SPAN_SLACK_BYTES), [&all[..]]);
}

#[test]
fn values_that_are_read_together_have_errors_of_their_own() {
    let dir = Dir::new("together", b"....one.two.six");
    let (bodies, counters) = dir.bodies();
    let body = bodies.get(log(15));
    let wrong = Handle { crc: 7, ..handle(8, b"two") };
    let handles = [handle(4, b"one"), wrong, handle(12, b"six"), handle(13, b"beyond")];
    let read: Vec<_> = taken(&body, &handles, Reach::default()).into_iter().map(|value| value.ok()).collect();
    let text = |value: &Option<Value>| value.as_ref().map(|value| value.to_vec());
    assert_eq!(
        read.iter().map(text).collect::<Vec<_>>(),
        [Some(b"one".to_vec()), None, Some(b"six".to_vec()), None]
    );
    assert_eq!(counters.value_reads.get(), 4);
    fs::write(names::log(&dir.0, LOG), b"....one").unwrap();
    // The file was cut meanwhile: the span cannot be read, but the first value can. The new cache holds none of the values.
    // Reading ahead ends at the end of the file.
    let ahead = Reach { gap_bytes: 0, ahead_bytes: 1 << 20 };
    let body = dir.bodies().0.get(log(15));
    let read: Vec<_> = taken(&body, &handles[..3], ahead).iter().map(|value| value.is_ok()).collect();
    assert_eq!(read, [true, false, false]);
}

/// The cache finds a value by its place. A handle of another length or checksum at the place must not get it.
#[test]
fn a_cached_value_answers_only_to_its_own_length_and_checksum() {
    let dir = Dir::new("cached", b"....onetwo");
    let (bodies, counters) = dir.bodies();
    let body = bodies.get(log(10));
    let (right, longer) = (handle(4, b"one"), handle(4, b"onetwo"));
    let (shorter, wrong) = (Handle { bytes: 2, ..right }, Handle { crc: !right.crc, ..right });
    let together = |handle: Handle| taken(&body, &[handle], Reach::default()).remove(0);
    for read in [&|handle: Handle| body.read(&handle), &together as &dyn Fn(Handle) -> Result<Value>] {
        assert_eq!([read(right).unwrap(), read(right).unwrap()], [b"one"; 2], "it is kept");
        assert!(read(shorter).is_err() && read(wrong).is_err());
        let hits = counters.cache_hits.get();
        assert_eq!(read(right).unwrap(), b"one");
        assert_eq!(counters.cache_hits.get(), hits + 1);
        // The longer value replaces the shorter one at its place, and the other way round.
        assert_eq!(read(longer).unwrap(), b"onetwo");
        assert_eq!(read(right).unwrap(), b"one");
    }
}

/// Gaps between values that were read at one place are squeezed out of what the scan holds, and values keep their bytes.
#[test]
fn a_scan_does_not_hold_large_gaps() {
    // Values of 64 bytes at every 256th byte, and then 100 without gaps.
    let mut content: Vec<u8> = Vec::new();
    let mut handles = Vec::new();
    for number in 0..200_u8 {
        let value = [number; 64];
        handles.push(handle(content.len() as u64, &value));
        content.extend(value);
        content.resize(content.len() + if number < 100 { 192 } else { 0 }, 0xff);
    }
    let dir = Dir::new("gaps", &content);
    for (some, held_bytes) in
        [(&handles[..100], 100 * 64), (&handles[100..], 100 * 64), (&handles[..], 200 * 64)]
    {
        let body = dir.bodies().0.get(log(content.len() as u64));
        let reach = Reach { gap_bytes: 1 << 20, ahead_bytes: 0 };
        let mut raw = RawValues::default();
        assert_eq!(body.read_together(some, reach, &mut raw).places, 1);
        assert_eq!(raw.room(0).0, held_bytes);
        raw.trim();
        for (value, handle) in taken(&body, some, reach).into_iter().zip(some) {
            assert_eq!(checksum::of_value(&value.unwrap()), handle.crc);
        }
    }
}

/// A value that the cache does not keep is read directly into the memory that the user gets, also if the file is read ahead
/// behind it.
#[test]
fn a_large_value_is_read_alone_and_held_once() {
    let content = vec![7; 200 << 10];
    let dir = Dir::new("large", &content);
    fs::rename(names::log(&dir.0, LOG), names::values(&dir.0, LOG)).unwrap();
    let file = BodyFile { kind: BodyKind::Values, tier: TierId::FAST, id: LOG, bytes: content.len() as u64 };
    let body = dir.bodies().0.get(file);
    let handle = handle(0, &content[..100 << 10]);
    for ahead_bytes in [0, 4 << 10, 1 << 20] {
        let mut raw = RawValues::default();
        let together = body.read_together(&[handle], Reach { gap_bytes: 0, ahead_bytes }, &mut raw);
        assert_eq!(raw.room(0).0, 0, "it is not held as the file has it");
        let [Fetched::Value(Ok(value))] = &together.values[..] else { panic!("{together:?}") };
        assert_eq!(*value, content[..100 << 10]);
    }
}
