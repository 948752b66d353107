//! Which thread commits which batch: a queue on one thread, where other writers seem to wait.

use super::waiting::Batch;
use super::*;
use crate::base::counters::Counters;
use crate::base::ids::FileIds;
use crate::log::LogSync;
use crate::memory::Segment;
use crate::memory::view::{View, ViewCell};
use crate::plan::memory::limits::{MemoryLimits, MemoryOptions};
use crate::version::DirLock;
use crate::visible::past_excises::AsOf;
use crate::visible::snapshots::Snapshots;
use crate::write::pressure::Marks;
use crate::write::{Pressure, ReadSet, RecoveredFamily};
use braidb_storage::FileSystem;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::SimFs;
use std::path::Path;

const FAMILY: FamilyId = FamilyId(0);

fn queue() -> CommitQueue {
    queue_on(SimFs::new())
}

fn queue_on(fs: SimFs) -> CommitQueue {
    fs.create_dir_all(Path::new("d")).unwrap();
    fs.set_appends_need_space(true);
    let counters = Arc::new(Counters::default());
    let dir_lock = Arc::new(DirLock::take(&fs, Path::new("d")).unwrap());
    let log_sync = Arc::new(LogSync::new(Arc::new(fs), Path::new("d"), counters.clone()));
    let log = LogWriter::create(log_sync.clone(), FileId(1), None, 0).unwrap();
    let clock = Arc::new(StepClock::new());
    let marks = Marks {
        memory_soft_bytes: 1 << 30,
        memory_hard_bytes: 2 << 30,
        l0_soft_tables: 10,
        l0_hard_tables: 20,
    };
    let runtime = Arc::new(Inline::new(clock.clone()));
    let pressure = Arc::new(Pressure::new(marks, clock, runtime, counters.clone()));
    let shared = Shared {
        view: Arc::new(ViewCell::new(View::default())),
        snapshots: Arc::new(Snapshots::new(0)),
        health: Arc::new(Health::default()),
        pressure,
        flushes: Arc::default(),
        log_sync,
        dir_lock,
        files: Arc::new(FileIds::new(FileId(2))),
        counters,
    };
    let limits = MemoryLimits::new(MemoryOptions {
        memtable_bytes: 1 << 30,
        active_bytes: u64::MAX,
        pipeline_segments: 1,
        log_bytes: 1 << 30,
        log_rewrite_percent: 0,
        hot_ppm: 0,
        has_superseded: false,
    });
    let (_, writer) = Segment::new(1);
    let family = RecoveredFamily { writer, first_log: None, version: Arc::default() };
    let room = shared.for_room(Arc::new(SeededRandom::new(1)));
    let room = MemoryRoom::new(limits, vec![family], room);
    CommitQueue::new(room, 0, 16, log, 0, LogsBySeq::default(), shared)
}

impl CommitQueue {
    /// Leaves a batch in the waiting list; no thread waits for it.
    fn leave(&self, key: &[u8], durability: Durability) -> Arc<Waiter> {
        self.leave_value(key, b"value", durability)
    }

    fn leave_value(&self, key: &[u8], value: &[u8], durability: Durability) -> Arc<Waiter> {
        let mut batch = EncodedBatch::default();
        batch.push_put(FAMILY, key, value);
        let waiter = Arc::new(Waiter::new(Batch::Own(batch), durability));
        self.waiting.push(waiter.clone());
        waiter
    }

    /// Leaves a transaction that read `read` at the last number and puts `key`.
    fn leave_transaction(&self, read: &[u8], key: &[u8]) -> Arc<Waiter> {
        let mut batch = EncodedBatch::default();
        batch.push_put(FAMILY, key, b"value");
        let check = Arc::new(self.check_of(read));
        let waiter = Arc::new(Waiter::checked(Batch::Own(batch), Some(check), Durability::Buffer));
        self.waiting.push(waiter.clone());
        waiter
    }

    fn check_of(&self, read: &[u8]) -> Check {
        let mut reads = ReadSet::default();
        reads.add_point(FAMILY, read);
        Check::new(reads, AsOf { seq: self.shared.snapshots.visible(), excises: 0 })
    }

    fn put(&self, durability: Durability) {
        self.commit_one(FAMILY, b"own", Some(b"value"), durability).outcome.unwrap();
    }

    /// How many commits are in the log, how many groups they formed, and how many syncs there were.
    fn done(&self) -> (u64, u64, u64) {
        let counters = &self.shared.counters;
        (self.shared.snapshots.visible(), counters.log_groups.get(), counters.log_syncs.get())
    }
}

/// A job may replace the view while a commit reads it. The commit is then the last holder, and would close files under the commit lock.
#[test]
fn a_view_that_is_replaced_while_a_commit_reads_it_is_dropped_after_the_lock() {
    let queue = queue();
    let mut core = queue.lock();
    core.room.look(|_| ());
    assert!(!core.room.has_old_views(), "the current view has other holders");
    core.room.look(|_| drop(queue.shared.view.update(|next| next.excises += 1)));
    assert!(core.room.has_old_views(), "the replaced view is dropped under the lock");
}

#[test]
fn a_leader_serves_waiting_writers_after_some_commits_of_its_own() {
    let queue = queue();
    (0..100).for_each(|_| queue.put(Durability::Buffer));
    let waiters = [b"a", b"b", b"c"].map(|key| queue.leave(key, Durability::Buffer));
    for own in 1..=SERVED_EVERY {
        assert!(waiters.iter().all(|waiter| waiter.outcome().is_none()));
        queue.put(Durability::Buffer);
        assert_eq!(queue.done().0, 100 + u64::from(own) + if own == SERVED_EVERY { 3 } else { 0 });
    }
    assert!(waiters.iter().all(|waiter| waiter.outcome().unwrap().is_ok()));
    assert_eq!(queue.done(), (107, 105, 0), "as one group");
}

#[test]
fn a_leader_without_a_sync_syncs_for_no_writer() {
    let queue = queue();
    let waiters =
        [Durability::Buffer, Durability::Sync, Durability::Buffer].map(|wanted| queue.leave(b"k", wanted));
    (0..10 * SERVED_EVERY).for_each(|_| queue.put(Durability::Buffer));
    assert!(waiters.iter().map(|waiter| waiter.outcome().is_some()).eq([true, false, false]));
    assert_eq!(queue.done().2, 0);
}

/// `close` releases the directory after `persist` synced the log and before `persist` looks at `LOCK`.
#[test]
fn a_persist_that_meets_a_close_poisons_nothing() {
    let queue = queue();
    queue.put(Durability::Buffer);
    queue.shared.dir_lock.release();
    let outcome = queue.persist(Durability::Sync);
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    assert!(queue.shared.health.cause().is_none());
    assert_eq!(queue.done().2, 1);
}

#[test]
fn a_writer_with_a_sync_shares_it_with_waiting_writers() {
    let queue = queue();
    std::thread::scope(|scope| {
        let core = queue.lock();
        let threads = put_and_wait(&queue, scope, &[Durability::None, Durability::Sync, Durability::Sync]);
        drop(core);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(queue.done(), (3, 1, 1));
    queue.put(Durability::Sync);
    assert_eq!(queue.done(), (4, 2, 2), "alone");
}

#[test]
fn a_writer_that_a_trusted_leader_left_alone_leads() {
    let queue = queue();
    queue.put(Durability::Buffer);
    let meet = || queue.waiting.leader().is_trusted_other(true);
    std::thread::scope(|scope| scope.spawn(|| while !meet() {}).join().unwrap());
    assert!(queue.waiting.leader().is_trusted());
    let waiter = queue.leave(b"first", Durability::Buffer);
    std::thread::scope(|scope| scope.spawn(|| queue.put(Durability::Buffer)).join().unwrap());
    assert!(waiter.outcome().unwrap().is_ok(), "a leader commits all waiters");
    assert_eq!(queue.done(), (3, 2, 0));
    assert!(!queue.waiting.leader().is_trusted(), "the leader stayed away");
}

/// Threads that put. Each starts after the previous one is in the list. At the end all but the first sleep on their own.
fn put_and_wait<'scope>(
    queue: &'scope CommitQueue,
    scope: &'scope std::thread::Scope<'scope, '_>,
    wanted: &[Durability],
) -> Vec<std::thread::ScopedJoinHandle<'scope, ()>> {
    let came = |(index, &durability): (usize, &Durability)| {
        let thread = scope.spawn(move || queue.put(durability));
        while queue.waiting.counts() != (index + 1, index) {
            std::thread::yield_now();
        }
        thread
    };
    wanted.iter().enumerate().map(came).collect()
}

#[test]
fn a_served_writer_returns_without_the_lock() {
    let queue = queue();
    std::thread::scope(|scope| {
        let mut core = queue.lock();
        let mut threads = put_and_wait(&queue, scope, &[Durability::Sync; 4]);
        queue.lead(&mut core, Durability::Sync);
        let first = threads.remove(0);
        // The lock is still taken: these threads would not end if they slept on it, as the first thread does.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(core);
        first.join().unwrap();
    });
    assert_eq!(queue.done(), (4, 1, 1));
}

#[test]
fn the_new_first_writer_wakes_and_leads() {
    let queue = queue();
    std::thread::scope(|scope| {
        let mut core = queue.lock();
        let wanted = [Durability::Buffer, Durability::Buffer, Durability::Sync, Durability::Buffer];
        let threads = put_and_wait(&queue, scope, &wanted);
        queue.lead(&mut core, Durability::Buffer);
        assert_eq!(queue.waiting.counts().0, 2, "the waiter that wants a sync and the one behind it");
        drop(core);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(queue.done(), (4, 2, 1));
}

#[test]
fn what_has_no_room_fails_alone() {
    let fs = SimFs::new();
    fs.set_capacity(Some(1 << 20));
    let queue = queue_on(fs);
    let sizes = [10, 2 << 20, 20];
    let waiters = sizes.map(|bytes| queue.leave_value(b"k", &vec![1; bytes], Durability::Buffer));
    while !queue.waiting.is_empty() {
        queue.lead(&mut queue.lock(), Durability::Sync);
    }
    let outcomes = waiters.map(|waiter| waiter.outcome().unwrap());
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert!(outcomes[1].as_ref().unwrap_err().is_full());
    assert_eq!(queue.done().0, 2);
}

#[test]
fn a_failure_reaches_all_of_a_group() {
    let queue = queue();
    let waiters = [b"a", b"b"].map(|key| queue.leave(key, Durability::Buffer));
    queue.shared.health.poison_after_panic();
    queue.lead(&mut queue.lock(), Durability::Sync);
    assert!(waiters.iter().all(|waiter| waiter.outcome().unwrap().is_err()));
    assert_eq!(queue.done(), (0, 0, 0));
}

/// `check_free` panics if more than 1 MiB is freed under the commit lock.
#[test]
fn large_batches_are_freed_after_the_commit_lock() {
    let queue = queue();
    let large = vec![7; 3 << 20];
    queue.commit_one(FAMILY, b"own", Some(&large), Durability::Buffer).outcome.unwrap();
    // The thread of each waiter has gone, so the leader is the last to hold its batch.
    for key in [b"a", b"b"] {
        drop(queue.leave_value(key, &large, Durability::Buffer));
    }
    // A small batch with much room.
    let mut roomy = EncodedBatch::default();
    roomy.reserve(1, 2 << 20, 0);
    roomy.push_delete(FAMILY, b"roomy");
    let roomy = Batch::Shared(Arc::new(roomy));
    queue.waiting.push(Arc::new(Waiter::new(roomy, Durability::Buffer)));
    (0..3 * SERVED_EVERY).for_each(|_| queue.put(Durability::Buffer));
    assert_eq!(queue.done().0, 1 + 3 + 3 * u64::from(SERVED_EVERY));
}

/// A commit in `Sync` closes the files of older logs after the lock.
#[test]
fn a_commit_in_sync_closes_no_log_under_the_commit_lock() {
    let fs = SimFs::new();
    let queue = queue_on(fs.clone());
    queue.put(Durability::Buffer);
    let mut core = queue.lock();
    queue.rotate(&mut core).unwrap();
    drop(core);
    assert_eq!(fs.open_descriptors(), 3, "two logs, and the lock of the directory");
    queue.put(Durability::Sync);
    assert_eq!(fs.open_descriptors(), 2, "the first log is stable");
}

#[test]
fn a_transaction_conflicts_with_a_batch_before_it_in_its_group() {
    let queue = queue();
    let first = queue.leave_transaction(b"b", b"a");
    let second = queue.leave_transaction(b"a", b"b");
    let third = queue.leave_transaction(b"b", b"c");
    queue.lead(&mut queue.lock(), Durability::Sync);
    assert!(first.outcome().unwrap().is_ok());
    assert!(matches!(second.outcome().unwrap(), Err(Error::Conflict)), "the first one put what it read");
    assert!(
        third.outcome().unwrap().is_ok(),
        "the second one, which would have put what it read, was refused"
    );
    assert_eq!(queue.done().0, 2);
    queue.leave_value(b"d", b"plain", Durability::Buffer);
    let behind = queue.leave_transaction(b"d", b"e");
    queue.lead(&mut queue.lock(), Durability::Sync);
    assert!(matches!(behind.outcome().unwrap(), Err(Error::Conflict)), "a plain put counts too");
}

#[test]
fn a_group_of_conflicts_commits_nothing() {
    let queue = queue();
    let check = Arc::new(queue.check_of(b"k"));
    let mut batch = EncodedBatch::default();
    batch.push_put(FAMILY, b"k", b"value");
    let batch = Arc::new(batch);
    assert!(queue.commit_batch(&batch, Some(&check), Durability::Buffer).outcome.is_ok());
    let again = queue.commit_batch(&batch, Some(&check), Durability::Buffer).outcome;
    assert!(matches!(again, Err(Error::Conflict)) && !check.is_overrun());
    let waiter = Arc::new(Waiter::checked(Batch::Shared(batch), Some(check), Durability::Buffer));
    queue.waiting.push(waiter.clone());
    queue.lead(&mut queue.lock(), Durability::Sync);
    assert!(matches!(waiter.outcome().unwrap(), Err(Error::Conflict)));
    assert_eq!(queue.done().0, 1);
}

#[test]
fn an_overrun_of_the_ring_asks_for_a_comparison() {
    let queue = queue();
    let (early, late) = (queue.check_of(b"k"), queue.check_of(b"k"));
    let check = |check: &Check| queue.check(&mut queue.lock(), check, [].into_iter());
    assert!(check(&early).is_ok(), "the ring begins");
    (0..17).for_each(|_| queue.put(Durability::Buffer));
    assert!(check(&late).is_err() && late.is_overrun(), "the ring remembers 16 writes");
    late.is_true_at(queue.shared.snapshots.visible());
    assert!(check(&late).is_ok() && !late.is_overrun());
}

#[test]
fn a_transaction_is_checked_again_after_its_group_found_no_room() {
    let fs = SimFs::new();
    fs.set_capacity(Some(1 << 20));
    let queue = queue_on(fs);
    queue.commit_one(FAMILY, b"first", Some(&[0; 500 << 10]), Durability::Buffer).outcome.unwrap();
    let large = queue.leave_value(b"a", &[0; 700 << 10], Durability::Buffer);
    let transaction = queue.leave_transaction(b"a", b"b");
    queue.lead(&mut queue.lock(), Durability::Sync);
    assert!(large.outcome().unwrap().unwrap_err().is_full());
    assert!(transaction.outcome().unwrap().is_ok(), "nothing put what it read");
}
