//! Writers that wait for the commit lock, and how a leader is chosen.
//!
//! A commit touches the end of the log, the active segment and the counters. They lie in the cache of the processor that committed last,
//! and moving them to another processor costs as much as a commit. So where writers meet all the time, one of them goes on to *lead*.
//! The others leave their batches in the waiting list, even if the lock is free for the moment. The leader commits the list as one
//! group after every [`SERVED_EVERY`]th commit of its own.
//!
//! [`Leader::score`] counts how often other writers find the lock taken, which tells whether writers meet all the time. Where they
//! mostly find it free, they take it. A writer that waits for the leader in vain takes the lock, and leads from there on.
//!
//! A waiter spins at first. Later spins let other threads run: where threads outnumber processors, the leader may wait for a processor.
//! Threads that meet few others spin busily for longer, because a thread that does not wait keeps its processor for its time slice.
//!
//! After [`BUSY_SPINS`] and [`YIELDING_SPINS`] a waiter sleeps. The first in the list sleeps on the commit lock. Each of the others sleeps
//! on its own, until a leader has served it or it is the first ([`Waiting::may_sleep`]). So all writers that come during a sync form
//! the next group. If they slept on the lock, each would learn only after another sync that it had been served.
//!
//! No waiter sleeps for ever. The first of the list changes under the list's lock alone, and the thread that changes it wakes the new
//! first. The leader that takes a waiter from the list wakes it, whatever became of the batch ([`Group`]).
//!
//! A writer in `Sync` does not spin: a sync takes longer than waking up, and waiting writers share one sync. After a commit that is not
//! synced a leader leaves the first `Sync` waiter, and all behind it, in the list. A waiter that takes the lock commits the whole list.

use super::super::{Check, Health};
use crate::base::durability::Durability;
use crate::base::error::Result;
use crate::base::foreground::ForegroundMutex;
use crate::log::EncodedBatch;
use braidb_storage::foreground::FREED_BYTES;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Most bytes that one leader takes from the list.
const GROUP_BYTES: usize = 1 << 20;
/// A leader serves the waiters after this many commits of its own, counted while the list is not empty. With 8 threads, 4 commits were
/// as fast as 8 and 32 (docs/decisions/commit-queue.md).
pub(super) const SERVED_EVERY: u32 = 4;
/// Spins without yielding while the leader is not trusted. They take some microseconds, in which the lock mostly becomes free.
const BUSY_SPINS: u32 = 400;
/// Spins without yielding while the leader is trusted.
const BUSY_SPINS_OF_TRUSTING: u32 = 8;
/// Spins during which a waiter leaves a free lock to the trusted leader.
const SPINS_LEFT_TO_LEADER: u32 = 20;
/// Yielding spins after the busy ones. Then the waiter sleeps.
const YIELDING_SPINS: u32 = 92;
/// Leader score above which the leader is trusted. Writers that find the lock taken one time in three do not reach this score by chance.
const TRUSTED_ABOVE_SCORE: u32 = 6;
/// Upper bound of the leader score. A leader that stays away halves the score, so two absences end the trust.
const MAX_SCORE: u32 = 16;

/// One item for each member of a group. Most groups have at most 8 members, so a commit under the lock allocates nothing.
pub(super) type GroupVec<T> = SmallVec<[T; 8]>;

/// A batch that another thread may commit.
#[derive(Debug)]
pub(super) enum Batch {
    Own(EncodedBatch),
    Shared(Arc<EncodedBatch>),
}

impl Deref for Batch {
    type Target = EncodedBatch;

    fn deref(&self) -> &EncodedBatch {
        match self {
            Batch::Own(batch) => batch,
            Batch::Shared(batch) => batch,
        }
    }
}

/// A writer that left its batch to a leader.
#[derive(Debug)]
pub(super) struct Waiter {
    pub batch: Batch,
    /// What the batch of a transaction needs: it commits only if the check passes.
    pub check: Option<Arc<Check>>,
    pub durability: Durability,
    outcome: OnceLock<Result<()>>,
    /// The thread that sleeps for this batch. Set under the list's lock, while the waiter stands, or is put, behind another.
    sleeper: OnceLock<Thread>,
    /// Whether a leader called this waiter to lead: it slept, and became the first in the list.
    is_called: AtomicBool,
}

impl Waiter {
    pub fn new(batch: Batch, durability: Durability) -> Waiter {
        Waiter::checked(batch, None, durability)
    }

    pub fn checked(batch: Batch, check: Option<Arc<Check>>, durability: Durability) -> Waiter {
        Waiter {
            batch,
            check,
            durability,
            outcome: OnceLock::new(),
            sleeper: OnceLock::new(),
            is_called: AtomicBool::new(false),
        }
    }

    pub fn outcome(&self) -> Option<Result<()>> {
        self.outcome.get().cloned()
    }

    /// What the leader's last check of the batch found. A batch without a check passes.
    pub fn checked_outcome(&self) -> Result<()> {
        self.check.as_ref().map_or(Ok(()), |check| check.outcome())
    }

    /// Sleeps until the waiter has an outcome, or is called to lead.
    pub fn sleep(&self) {
        let mut has_parked = false;
        while self.outcome.get().is_none() && !self.is_called.load(Ordering::Acquire) {
            std::thread::park();
            has_parked = true;
        }
        if has_parked {
            // The program may have unparked this thread for its own purpose: passes the wake-up on.
            std::thread::current().unpark();
        }
    }

    /// Notes that this waiter has become the first. Returns the thread to wake.
    fn call(&self) -> Option<Thread> {
        let sleeper = self.sleeper.get()?;
        (!self.is_called.swap(true, Ordering::Release)).then(|| sleeper.clone())
    }

    fn end(&self, outcome: Result<()>) {
        self.outcome.set(outcome).expect("a waiter is in one group");
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }
}

/// The waiting list.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    list: ForegroundMutex<VecDeque<Arc<Waiter>>>,
    /// Whether the list is not empty. Stored under the list's lock; a leader that reads an old value serves later.
    any: AtomicBool,
    leader: Leader,
}

impl Waiting {
    pub fn leader(&self) -> &Leader {
        &self.leader
    }

    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    pub fn push(&self, waiter: Arc<Waiter>) {
        let mut list = self.list.lock();
        if waiter.durability >= Durability::Sync && !list.is_empty() {
            // A writer that wants a sync does not spin first.
            waiter.sleeper.get_or_init(std::thread::current);
        }
        list.push_back(waiter);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Whether this waiter may sleep on its own now, because a leader will wake it. The first in the list, and a waiter that was
    /// taken from the list, ask for the lock instead.
    pub fn may_sleep(&self, waiter: &Waiter) -> bool {
        if waiter.sleeper.get().is_some() {
            return true;
        }
        let list = self.list.lock();
        let is_behind = list.iter().skip(1).any(|other| std::ptr::eq(&**other, waiter));
        if is_behind {
            waiter.sleeper.get_or_init(std::thread::current);
        }
        is_behind
    }

    /// Takes the oldest waiters, up to the first that asks for more than `durability`. Wakes the waiter that is the first then.
    pub fn take<'a>(&self, durability: Durability, health: &'a Health) -> Group<'a> {
        let mut waiters = GroupVec::new();
        let mut bytes = 0;
        let mut list = self.list.lock();
        while bytes < GROUP_BYTES {
            let Some(waiter) = list.pop_front_if(|waiter| waiter.durability <= durability) else { break };
            bytes += waiter.batch.bytes();
            waiters.push(waiter);
        }
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        let first = list.front().and_then(|waiter| waiter.call());
        // Unlocks first, so that arriving writers do not wait for a system call.
        drop(list);
        if let Some(first) = first {
            first.unpark();
        }
        Group { waiters, health }
    }
}

/// The waiters that a leader took. Each of them gets an outcome, even if the leader panics.
pub(super) struct Group<'a> {
    waiters: GroupVec<Arc<Waiter>>,
    health: &'a Health,
}

impl Group<'_> {
    pub fn waiters(&self) -> &[Arc<Waiter>] {
        &self.waiters
    }

    /// Tells each waiter the outcome of its batch, the oldest first. Returns the waiters with large batches, and those with reads to check: this
    /// thread may be the last to hold one, and drops it after the commit lock.
    #[must_use = "large batches are dropped after the commit lock"]
    pub fn end(mut self, mut outcome: impl FnMut(&Waiter) -> Result<()>) -> Vec<Arc<Waiter>> {
        let mut large = Vec::new();
        self.waiters.reverse();
        while let Some(waiter) = self.waiters.last() {
            waiter.end(outcome(waiter));
            // Releases the batch at once. Its own thread, which is about to notice, then frees the batch where it was allocated.
            let ended = self.waiters.pop();
            large.extend(
                ended.filter(|waiter| waiter.batch.held_bytes() > FREED_BYTES || waiter.check.is_some()),
            );
        }
        large
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for waiter in &self.waiters {
            waiter.end(Err(self.health.poison_after_panic()));
        }
    }
}

/// The thread that committed last without a sync, and a score that tells whether other writers should wait for it.
#[derive(Debug, Default)]
pub(super) struct Leader {
    thread: AtomicUsize,
    /// Rises when another writer finds the lock taken, and falls when it finds the lock free. Halves when a writer waited in vain for the
    /// leader. Concurrent changes by two threads may get lost.
    score: AtomicU32,
}

impl Leader {
    /// Notes that this thread has the commit lock, for a batch of `durability`.
    pub fn is_me(&self, durability: Durability) {
        // Not stored if unchanged: a store would invalidate the other threads' cache lines.
        if durability < Durability::Sync && self.thread.load(Ordering::Relaxed) != this_thread() {
            self.thread.store(this_thread(), Ordering::Relaxed);
        }
    }

    /// Whether to leave a batch to the leader, though the lock may be free. `is_taken` says whether this thread found the lock
    /// taken.
    pub fn is_trusted_other(&self, is_taken: bool) -> bool {
        if self.thread.load(Ordering::Relaxed) == this_thread() {
            return false;
        }
        let score = self.score.load(Ordering::Relaxed);
        self.set_score(if is_taken { score + 1 } else { score.saturating_sub(1) });
        score > TRUSTED_ABOVE_SCORE
    }

    pub fn is_trusted(&self) -> bool {
        self.score.load(Ordering::Relaxed) > TRUSTED_ABOVE_SCORE
    }

    pub fn stayed_away(&self) {
        self.set_score(self.score.load(Ordering::Relaxed) / 2);
    }

    fn set_score(&self, score: u32) {
        let score = score.min(MAX_SCORE);
        // Not stored if unchanged: all threads read it.
        if self.score.load(Ordering::Relaxed) != score {
            self.score.store(score, Ordering::Relaxed);
        }
    }
}

/// How long a writer waits for a leader before it takes a free lock, yields or sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpinPolicy {
    busy_spins: u32,
    leader_spins: u32,
}

impl SpinPolicy {
    pub fn new(is_leader_trusted: bool) -> SpinPolicy {
        match is_leader_trusted {
            true => SpinPolicy { busy_spins: BUSY_SPINS_OF_TRUSTING, leader_spins: SPINS_LEFT_TO_LEADER },
            false => SpinPolicy { busy_spins: BUSY_SPINS, leader_spins: 0 },
        }
    }

    /// Whether this waiter left a free lock to a trusted leader at first.
    pub fn waits_for_leader(&self) -> bool {
        self.leader_spins > 0
    }

    /// Whether to take a free lock after `spin` spins.
    pub fn may_take_lock(&self, spin: u32) -> bool {
        spin >= self.leader_spins
    }

    /// Whether to spin once more.
    pub fn goes_on(&self, spin: u32) -> bool {
        spin < self.busy_spins + YIELDING_SPINS
    }

    /// Pauses after a spin, busily or by yielding.
    pub fn pause(&self, spin: u32) {
        if spin < self.busy_spins {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// A number that differs between threads that live at the same time.
fn this_thread() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_waited_for_by_others_as_long_as_leaders_come() {
        let leader = Leader::default();
        leader.is_me(Durability::Buffer);
        let seen = |is_taken: bool| {
            std::thread::scope(|scope| scope.spawn(|| leader.is_trusted_other(is_taken)).join().unwrap())
        };
        assert!(!seen(false) && !leader.is_trusted());
        (0..=TRUSTED_ABOVE_SCORE).for_each(|_| assert!(!seen(true), "it may be by chance"));
        (0..1_000).for_each(|_| assert!(seen(true)));
        assert!(!leader.is_trusted_other(true), "a leader waits for no other leader");
        std::thread::scope(|scope| scope.spawn(|| leader.is_me(Durability::Sync)).join().unwrap());
        assert!(!leader.is_trusted_other(true), "a writer that syncs is no leader");
        let lost = (1..100).find(|_| {
            leader.stayed_away();
            !leader.is_trusted()
        });
        assert_eq!(lost, Some(2));
    }

    #[test]
    fn where_writers_mostly_find_the_lock_free_no_leader_is_waited_for() {
        let trusted = |taken_of_ten: u64| {
            let leader = Leader::default();
            leader.is_me(Durability::Buffer);
            let meet = |turn: u64| leader.is_trusted_other(turn * 7 % 10 < taken_of_ten);
            let meetings = || (0..1_000).filter(|&turn| meet(turn)).count();
            std::thread::scope(|scope| scope.spawn(meetings).join().unwrap())
        };
        assert!(trusted(7) > 950);
        assert_eq!((trusted(4), trusted(1)), (0, 0));
    }

    fn wait(waiting: &Waiting, value: &[u8], durability: Durability) -> Arc<Waiter> {
        let mut batch = EncodedBatch::default();
        batch.push_put(crate::base::ids::FamilyId(0), b"key", value);
        let waiter = Arc::new(Waiter::new(Batch::Own(batch), durability));
        waiting.push(waiter.clone());
        waiter
    }

    impl Waiting {
        /// How many are in the list, and how many of them sleep on their own, or are about to.
        pub fn counts(&self) -> (usize, usize) {
            let list = self.list.lock();
            (list.len(), list.iter().filter(|waiter| waiter.sleeper.get().is_some()).count())
        }
    }

    #[test]
    fn writers_behind_the_first_sleep_until_they_are_first_or_served() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let wanted = [Durability::Buffer, Durability::Sync, Durability::Sync];
        let waiters = wanted.map(|durability| wait(&waiting, b"", durability));
        assert!(waiters.iter().map(|waiter| waiting.may_sleep(waiter)).eq([false, true, true]));
        let taken = waiting.take(Durability::Buffer, &health);
        assert!(
            !waiting.may_sleep(&waiters[0]),
            "no leader would call it: the one that took the batches does not know it"
        );
        waiters[1].sleep();
        assert!(waiters[1].outcome().is_none(), "the first waiter is called to lead");
        assert!(waiters[1].call().is_none(), "once");
        let _ = taken.end(|_| Ok(()));
        let _ = waiting.take(Durability::Sync, &health).end(|_| Ok(()));
        waiters.iter().for_each(|waiter| waiter.sleep());
        assert!(waiters.iter().all(|waiter| waiter.outcome().unwrap().is_ok()));
    }

    #[test]
    fn a_wake_up_by_another_thread_is_not_in_vain() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let waiters = [(); 2].map(|()| wait(&waiting, b"", Durability::None));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                assert!(waiting.may_sleep(&waiters[1]));
                waiters[1].sleep();
                std::thread::park();
            });
            while waiting.counts().1 == 0 {
                std::thread::yield_now();
            }
            sleeper.thread().unpark();
            let _ = waiting.take(Durability::Sync, &health).end(|_| Ok(()));
            sleeper.join().unwrap();
        });
    }

    #[test]
    fn the_oldest_writers_are_taken_up_to_one_with_a_stronger_durability() {
        let (waiting, health) = (Waiting::default(), Health::default());
        assert!(waiting.is_empty());
        let wanted = [Durability::None, Durability::Buffer, Durability::Sync, Durability::None];
        let waiters = wanted.map(|durability| wait(&waiting, b"", durability));
        let group = waiting.take(Durability::Buffer, &health);
        assert_eq!(group.waiters().len(), 2);
        let _ = group.end(|_| Ok(()));
        assert!(waiters.iter().map(|waiter| waiter.outcome().is_some()).eq([true, true, false, false]));
        assert!(waiting.take(Durability::Buffer, &health).waiters().is_empty() && !waiting.is_empty());
        assert_eq!(waiting.take(Durability::Sync, &health).waiters().len(), 2);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_group_is_not_much_larger_than_it_may_be() {
        let (waiting, health) = (Waiting::default(), Health::default());
        for _ in 0..3 {
            wait(&waiting, &vec![0; GROUP_BYTES / 2], Durability::None);
        }
        assert_eq!(waiting.take(Durability::Sync, &health).waiters().len(), 2);
        assert!(!waiting.is_empty());
    }

    #[test]
    fn of_a_group_that_ended_in_a_panic_finished_writers_succeed() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let waiters = [(); 3].map(|()| wait(&waiting, b"", Durability::None));
        let group = waiting.take(Durability::Sync, &health);
        let end =
            || group.end(|waiter| if std::ptr::eq(waiter, &*waiters[1]) { panic!("a bug") } else { Ok(()) });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(end)).is_err());
        assert!(waiters.iter().map(|waiter| waiter.outcome().unwrap().is_ok()).eq([true, false, false]));
    }

    #[test]
    fn a_group_that_no_leader_ended_has_failed() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let waiters = [(); 2].map(|()| wait(&waiting, b"", Durability::None));
        assert!(waiting.may_sleep(&waiters[1]));
        drop(waiting.take(Durability::Sync, &health));
        waiters[1].sleep();
        assert!(waiters.iter().all(|waiter| waiter.outcome().unwrap().is_err()));
        assert!(health.check_writable().is_err());
    }
}
