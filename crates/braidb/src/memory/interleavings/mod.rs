//! Tests under loom: every interleaving of a few threads, up to a bound on preemptions, under the weakest promises of the
//! memory model. `make loom` runs them. Here one writer and one reader share a skiplist; in `views` the segments, views and
//! snapshots change.

mod views;

use super::*;
use crate::base::sync;
use crate::visible::{Cursor, EntryKind};
use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

type Write = (&'static [u8], u64);

/// Runs all interleavings of the threads that `interleaving` starts, with at most this many preemptions each. At the end of each
/// interleaving all memory must be free.
fn explore(preemptions: usize, interleaving: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        sync::begin();
        interleaving();
        assert_eq!(sync::live_allocations(), 0, "all is freed in the end");
    });
}

/// After each write the writer publishes how many of `writes` it did. The reader must find all published writes, whole.
fn write_beside_a_reader(seed: u64, writes: &'static [Write]) {
    // Without a bound on preemptions the test passes as well, and takes five times as long.
    explore(5, move || {
        let (segment, mut writer) = Segment::with_filter(seed, 0);
        let done = Arc::new(AtomicU64::new(0));
        let publish = Arc::clone(&done);
        let thread = loom::thread::spawn(move || {
            for (i, &(key, seq)) in writes.iter().enumerate() {
                writer.insert(key, seq, EntryKind::Put, &seq.to_le_bytes());
                publish.store(i as u64 + 1, Ordering::Release);
            }
        });
        let published = &writes[..done.load(Ordering::Acquire) as usize];
        if let Some((min, max)) = segment.seq_range() {
            assert!(
                [min, max].iter().all(|end| writes.iter().any(|write| write.1 == *end)),
                "{min} to {max}"
            );
        }
        check_gets(&segment, published, writes);
        check_scan(&segment, published, writes, true);
        check_scan(&segment, published, writes, false);
        thread.join().unwrap();
    });
}

fn check_gets(segment: &Arc<Segment>, published: &[Write], writes: &[Write]) {
    for &(key, _) in writes {
        let newest = published.iter().filter(|write| write.0 == key).map(|write| write.1).max();
        let found = segment.get(key, crate::base::key::hash(key), u64::MAX);
        // A write that was not published yet may be seen, or not.
        assert!(found.as_ref().map(|found| found.seq) >= newest);
        if let Some(found) = found {
            assert!(writes.contains(&(key, found.seq)));
            assert_eq!(found.value, found.seq.to_le_bytes());
        }
    }
}

fn check_scan(segment: &Arc<Segment>, published: &[Write], writes: &[Write], is_forward: bool) {
    let mut cursor = segment.cursor();
    if is_forward { cursor.seek_to_first() } else { cursor.seek_to_last() }.unwrap();
    let mut seen = Vec::new();
    while cursor.valid() {
        assert_eq!(cursor.value(), cursor.seq().to_le_bytes());
        seen.push((cursor.key().to_vec(), cursor.seq()));
        if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
    }
    if !is_forward {
        seen.reverse();
    }
    let order = |(key, seq): &(Vec<u8>, u64)| (key.clone(), std::cmp::Reverse(*seq));
    assert!(seen.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])));
    let was_seen = |&(key, seq): &Write| seen.contains(&(key.to_vec(), seq));
    assert!(published.iter().all(was_seen));
    assert_eq!(writes.iter().filter(|&write| was_seen(write)).count(), seen.len());
}

#[test]
fn loom_a_new_key_and_an_update_of_an_old_one() {
    write_beside_a_reader(SEED_OF_TWO_HEIGHTS, &[(b"b", 1), (b"a", 2), (b"b", 3)]);
}

#[test]
fn loom_keys_in_order() {
    write_beside_a_reader(SEED_OF_TWO_HEIGHTS, &[(b"a", 1), (b"b", 2), (b"c", 3)]);
}

#[test]
fn loom_an_older_version_arrives_late() {
    write_beside_a_reader(SEED_OF_TWO_HEIGHTS, &[(b"a", 3), (b"a", 1), (b"a", 2)]);
}

/// With this seed the first three towers have heights 1, 2 and 2 of the test's 2.
const SEED_OF_TWO_HEIGHTS: u64 = 30;
