//! Allocations of reads, counted on the thread that reads: a get of a kept block, a seek and a step of a cursor make none.
//!
//! The limits are exact, so a change that allocates once more fails here. Lower a limit when a change allocates less.

use braidb::{Db, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts the calls of each thread.
struct Counting;

// SAFETY: all calls go to `System` as they come. The counter is not dropped and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller meets the requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller meets the requirements.
        unsafe { System.realloc(start, layout, bytes) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the requirements.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

const KEYS: u32 = 20_000;

fn key(number: u32) -> [u8; 8] {
    let mut key = *b"row 0000";
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A database whose even keys lie in tables of one level, all blocks kept, and one key in memory.
fn with_kept_blocks(name: &str, read: impl Fn(&Db)) {
    let dir = std::env::temp_dir().join(format!("braidb-allocations-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let db = Options::new().block_cache_bytes(64 << 20).open(&dir).unwrap();
    (0..KEYS).for_each(|number| db.put(key(2 * number), [7; 100]).unwrap());
    db.compact().unwrap();
    db.settle().unwrap();
    db.put(key(1), "in memory").unwrap();
    // The second read of a block builds its directory.
    (0..2).for_each(|_| (0..KEYS).for_each(|number| assert!(db.get(key(2 * number)).unwrap().is_some())));
    read(&db);
    drop(db);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_get_of_a_kept_block_allocates_nothing() {
    with_kept_blocks("gets", |db| {
        let count = allocations(|| {
            for number in 0..1000 {
                assert!(db.get(key(2 * number)).unwrap().is_some_and(|value| value.len() == 100));
                assert!(db.contains_key(key(2 * number)).unwrap());
                assert!(db.get(key(2 * number + 3)).unwrap().is_none());
                assert!(db.get(key(1)).unwrap().is_some_and(|value| value == "in memory"));
            }
        });
        assert_eq!(count, 0);
    });
}

#[test]
fn a_step_of_a_cursor_allocates_nothing() {
    with_kept_blocks("steps", |db| {
        for is_backward in [false, true] {
            let mut cursor = db.iter().cursor();
            let step = |cursor: &mut braidb::Cursor| if is_backward { cursor.prev() } else { cursor.next() };
            // The first interval of entries makes the buffers of the walk.
            (0..100).for_each(|_| assert!(step(&mut cursor).unwrap()));
            let count = allocations(|| {
                for _ in 0..10_000 {
                    assert!(step(&mut cursor).unwrap());
                    let (key, value) = cursor.entry().unwrap().unwrap();
                    assert!(key.len() == 8 && value.len() >= 9);
                }
            });
            assert_eq!(count, 0, "backward: {is_backward}");
        }
    });
}

#[test]
fn a_seek_after_the_first_allocates_nothing_and_a_scan_its_bound() {
    with_kept_blocks("seeks", |db| {
        let scan = |number: u32| assert!(db.range(&key(20 * number)[..]..).cursor().next().unwrap());
        for is_backward in [false, true] {
            let mut cursor = db.iter().cursor();
            let mut seek = |number: u32| {
                let key = key(20 * number);
                assert!(if is_backward { cursor.seek_for_prev(key) } else { cursor.seek(key) }.unwrap());
            };
            // The first walk makes buffers and leaves them to the thread when the second one begins. A scan beside the cursor needs others.
            (0..2).for_each(&mut seek);
            (0..2).for_each(scan);
            let seeks = allocations(|| (0..1000).for_each(&mut seek));
            let scans = allocations(|| (0..1000).for_each(scan));
            assert_eq!((seeks, scans), (0, 1000), "backward: {is_backward}");
        }
    });
}
