//! Readers while the view changes: by a roll, a step of memory compaction, a flush. The steps repeat the commit queue and the
//! jobs without their other work (the log, tables). The functions that they call are the engine's own.

use super::super::immutable::ImmutableCursor;
use super::super::view::{FamilyView, View, ViewCell};
use super::super::{Immutable, Memory, Records, Segment, SegmentWriter, count_updates, merge, separate};
use super::explore;
use crate::base::ids::SeqNo;
use crate::base::key::hash;
use crate::base::sync;
use crate::base::value::Value;
use crate::version::Version;
use crate::visible::rule::RetentionFilter;
use crate::visible::snapshots::Snapshots;
use crate::visible::{Cursor, EntryKind};
use std::sync::Arc;

struct Database {
    view: ViewCell,
    snapshots: Snapshots,
    /// The version with the flushed table, which a flush puts into the view.
    flushed: Arc<Version>,
}

/// A database, whose writer wrote `keys`, numbered from 1 on, and published them.
fn database(keys: &[&[u8]]) -> (Arc<Database>, Writer) {
    let (segment, writer) = Segment::with_filter(1, 0);
    let family = FamilyView {
        memory: Memory::new(segment),
        version: Arc::default(),
        gaps: Arc::default(),
        past_excises: Arc::default(),
    };
    let view = ViewCell::new(View { families: vec![family], ..View::default() });
    let database = Database { view, snapshots: Snapshots::new(0), flushed: Arc::default() };
    let database = Arc::new(database);
    let mut writer = Writer { database: database.clone(), writer, last_seq: 0 };
    keys.iter().for_each(|key| writer.put(key));
    (database, writer)
}

struct Writer {
    database: Arc<Database>,
    writer: SegmentWriter,
    last_seq: SeqNo,
}

impl Writer {
    /// Does what `CommitQueue::commit_group` does in the engine.
    fn put(&mut self, key: &[u8]) {
        self.last_seq += 1;
        self.writer.insert(key, self.last_seq, EntryKind::Put, &self.last_seq.to_le_bytes());
        self.database.snapshots.publish(self.last_seq);
    }

    /// Does what `MemoryRoom::roll` does in the engine.
    fn roll(&mut self) {
        let (segment, writer) = Segment::with_filter(1, 0);
        self.writer = writer;
        let old = self.database.view.update(|view| {
            let memory = &mut view.families[0].memory;
            *memory = memory.roll(segment);
        });
        drop(old);
    }

    /// Does what `CommitQueue::switch_memtable` and later `finish_flush` do in the engine.
    fn flush(&mut self) {
        let (segment, writer) = Segment::with_filter(1, 0);
        self.writer = writer;
        let old = self.database.view.update(|view| {
            let memory = &mut view.families[0].memory;
            *memory = memory.take(segment);
        });
        drop(old);
        let old = self.database.view.update(|view| {
            let family = &mut view.families[0];
            family.memory = family.memory.flushed(None);
            family.version = self.database.flushed.clone();
        });
        drop(old);
    }
}

impl Writer {
    /// A flush as in `flush`, but all keys are hot and stay in memory, and the table is empty.
    fn flush_nothing(&mut self) {
        let (segment, writer) = Segment::with_filter(1, 0);
        self.writer = writer;
        let mut taken = None;
        let old = self.database.view.update(|view| {
            let memory = &mut view.families[0].memory;
            *memory = memory.take(segment);
            taken = Some(memory.flushing().clone());
        });
        drop(old);
        let taken = taken.expect("set above");
        let retention = RetentionFilter::new(self.database.snapshots.drop_proof());
        let separated = separate(&taken, &count_updates(&taken, 0), 0, retention);
        let old = self.database.view.update(|view| {
            let family = &mut view.families[0];
            family.memory = family.memory.flushed(Some(Immutable::Flat(separated.hot)));
            family.version = self.database.flushed.clone();
        });
        drop(old);
    }
}

impl Database {
    /// Does what `jobs/memory_compaction.rs` does in the engine: makes one flat segment of the pipeline, unless a flush takes the
    /// pipeline meanwhile.
    fn compact_memory(&self, records: Records) {
        let old = self.view.load().families[0].memory.pipeline().to_vec();
        let retention = RetentionFilter::new(self.snapshots.drop_proof());
        let Some(merged) = merge(&old, Some(retention), records, || true) else { return };
        let old = self.view.update(|view| {
            let memory = &mut view.families[0].memory;
            if let Some(replaced) = memory.replaced(&old, Immutable::Flat(merged.flat)) {
                *memory = replaced;
            }
        });
        drop(old);
    }

    /// Which version of `key` a reader at `at` finds in memory.
    fn get(view: &View, key: &[u8], at: SeqNo) -> Option<SeqNo> {
        let found = view.families[0].memory.get(key, hash(key), at)?;
        assert_eq!(found.value, found.seq.to_le_bytes());
        Some(found.seq)
    }

    fn is_flushed(&self, view: &View) -> bool {
        Arc::ptr_eq(&view.families[0].version, &self.flushed)
    }
}

/// A get, which registers nothing. It finds all that was published before it, and nothing newer than its number.
fn check_get(database: &Database, key: &[u8], newest_flushed: SeqNo) {
    let published = database.snapshots.visible();
    // The view first, then the number (rule 8).
    let view = database.view.load();
    let at = database.snapshots.visible();
    match Database::get(&view, key, at) {
        Some(seq) => assert!(published <= seq && seq <= at, "{seq} is not from {published} to {at}"),
        None => assert!(database.is_flushed(&view) && published <= newest_flushed, "{published} is missed"),
    }
}

#[test]
fn loom_no_swap_of_the_view_hides_a_key() {
    explore(2, || {
        let (database, mut writer) = database(&[b"k"]);
        let writes = loom::thread::spawn(move || {
            writer.roll();
            writer.put(b"k");
            writer.flush();
        });
        let compactor = database.clone();
        let compacts = loom::thread::spawn(move || compactor.compact_memory(Records::Stay));
        check_get(&database, b"k", 2);
        writes.join().unwrap();
        compacts.join().unwrap();
        let view = database.view.load();
        assert!(database.is_flushed(&view) && Database::get(&view, b"k", SeqNo::MAX).is_none());
    });
}

#[test]
fn loom_a_hot_key_is_in_every_view() {
    explore(2, || {
        let (database, mut writer) = database(&[b"k", b"k"]);
        let writes = loom::thread::spawn(move || {
            writer.flush_nothing();
            writer.put(b"k");
        });
        let published = database.snapshots.visible();
        let view = database.view.load();
        let at = database.snapshots.visible();
        let seq = Database::get(&view, b"k", at).expect("it stays in memory");
        assert!(published <= seq && seq <= at, "{seq} is not from {published} to {at}");
        writes.join().unwrap();
    });
}

#[test]
fn loom_two_threads_that_change_the_view_lose_nothing() {
    explore(3, || {
        let (database, mut writer) = database(&[b"k", b"k"]);
        writer.roll();
        let compactor = database.clone();
        let compacts = loom::thread::spawn(move || compactor.compact_memory(Records::Stay));
        writer.put(b"k");
        writer.roll();
        check_get(&database, b"k", 0);
        compacts.join().unwrap();
        let view = database.view.load();
        let pipeline = view.families[0].memory.pipeline();
        let entries: Vec<u64> = pipeline.iter().map(Immutable::entries).collect();
        // Either both lists became one, or the older one became flat behind the newer.
        assert!(entries == [1] || entries == [1, 1], "{entries:?}");
        assert_eq!(pipeline.last().map(Immutable::is_list), Some(false));
    });
}

#[test]
fn loom_a_get_misses_nothing_that_a_proof_lets_go() {
    explore(3, || {
        let (database, mut writer) = database(&[b"k"]);
        let compactor = database.clone();
        let writes = loom::thread::spawn(move || {
            writer.put(b"k");
            writer.roll();
            compactor.compact_memory(Records::Stay);
        });
        check_get(&database, b"k", 0);
        writes.join().unwrap();
    });
}

#[test]
fn loom_what_a_snapshot_sees_is_not_dropped() {
    explore(3, || {
        let (database, mut writer) = database(&[b"k"]);
        let compactor = database.clone();
        let writes = loom::thread::spawn(move || {
            writer.put(b"k");
            writer.roll();
            compactor.compact_memory(Records::Copied);
            writer.put(b"k");
        });
        let seq = database.snapshots.register();
        let view = database.view.load_full();
        assert_eq!(Database::get(&view, b"k", seq), Some(seq));
        // The reader's version stays in all views while the reader is registered, not only in the next view.
        writes.join().unwrap();
        assert_eq!(Database::get(&database.view.load(), b"k", seq), Some(seq));
        database.snapshots.release(seq);
        assert_eq!(database.snapshots.held(), 0);
    });
}

/// A scan, which registers nothing unless the view changes. It finds the version of its number, whatever a compaction drops meanwhile.
#[test]
fn loom_a_scan_finds_its_number_in_its_view() {
    explore(3, || {
        let (database, mut writer) = database(&[b"k"]);
        let compactor = database.clone();
        let writes = loom::thread::spawn(move || {
            writer.put(b"k");
            writer.roll();
            compactor.compact_memory(Records::Copied);
            writer.put(b"k");
        });
        let (view, seq) = database.view.load_with_number(&database.snapshots);
        assert_eq!(Database::get(&view, b"k", seq), Some(seq));
        writes.join().unwrap();
        assert_eq!(Database::get(&view, b"k", seq), Some(seq));
        assert_eq!(database.snapshots.held(), 0);
    });
}

#[test]
fn loom_a_proof_beside_a_writer_and_a_snapshot() {
    explore(2, || {
        let (database, mut writer) = database(&[b"k", b"k"]);
        writer.roll();
        let compactor = database.clone();
        let compacts = loom::thread::spawn(move || compactor.compact_memory(Records::Copied));
        let writes = loom::thread::spawn(move || writer.put(b"k"));
        let seq = database.snapshots.register();
        let view = database.view.load_full();
        assert_eq!(Database::get(&view, b"k", seq), Some(seq));
        drop(view);
        compacts.join().unwrap();
        writes.join().unwrap();
        assert_eq!(Database::get(&database.view.load(), b"k", seq), Some(seq));
        database.snapshots.release(seq);
    });
}

/// A reader takes something out of a view, lets go of the view, and goes on reading. Meanwhile the segments that it came from are
/// replaced. The heap of `base/sync.rs` detects reads of freed memory and double frees; `explore` detects leaks.
fn memory_goes_with_its_last_reader<T: 'static>(
    take: impl Fn(&Memory) -> Option<T> + Send + Sync + 'static,
    check: impl Fn(&T) + Send + Sync + 'static,
) {
    explore(3, move || {
        let (database, mut writer) = database(&[b"k"]);
        let compactor = database.clone();
        let changes = loom::thread::spawn(move || {
            writer.roll();
            // The pipeline holds a list, then a flat segment over the list's records, then another such segment, and then one
            // over copies of the records.
            compactor.compact_memory(Records::Stay);
            compactor.compact_memory(Records::Stay);
            compactor.compact_memory(Records::Copied);
            writer.flush();
        });
        let held = take(&database.view.load().families[0].memory);
        held.iter().for_each(&check);
        changes.join().unwrap();
        drop(database);
        held.iter().for_each(&check);
        assert_eq!(
            sync::live_allocations() > 0,
            held.is_some(),
            "only what a reader holds is still allocated"
        );
    });
}

fn cursor(memory: &Memory) -> Option<ImmutableCursor> {
    let mut cursor = memory.immutable().find(|part| part.entries() > 0)?.cursor();
    cursor.seek_to_first().unwrap();
    Some(cursor)
}

fn check_value(value: &Value) {
    assert_eq!(*value, 1_u64.to_le_bytes());
}

#[test]
fn loom_memory_goes_with_its_last_value() {
    memory_goes_with_its_last_reader(|memory| Some(memory.get(b"k", hash(b"k"), 1)?.value), check_value);
}

#[test]
fn loom_memory_goes_with_its_last_cursor() {
    memory_goes_with_its_last_reader(cursor, |cursor| {
        assert_eq!((cursor.key(), cursor.seq(), cursor.value()), (&b"k"[..], 1, &1_u64.to_le_bytes()[..]));
    });
}

#[test]
fn loom_memory_goes_with_the_last_value_of_a_cursor() {
    memory_goes_with_its_last_reader(|memory| Some(cursor(memory)?.pin_value()), check_value);
}
