//! Those who wait for the commit lock, and how the one who has it is chosen.
//!
//! What a commit touches (the end of the log, the active segment, the counters) lies in the processor cache of whoever committed
//! last. To hand it to another processor costs as much as a commit, so where writers meet all the time it pays that one of them
//! goes on to lead: the others leave their batches in the list, even when the lock is free for the moment, and the leader commits
//! all of them as one group after every [`SERVED_EVERY`]th commit of its own.
//!
//! That writers meet all the time is seen from how often those who do not lead find the lock taken ([`Leader::score`]). Where
//! they mostly find it free, they take it. Nobody relies on the leader's coming back, either: who waits for it in vain takes the
//! lock, and leads from there on. Between the first looks a processor does nothing; later ones let other threads run, since where
//! there are more of them than processors, it is the leader who may wait for one. They come late where the writers meet few: a
//! thread that does not wait gives the processor back when its time is up.
//!
//! Who has looked often enough sleeps. The first in the list sleeps on the lock, whose holder it will be; those behind it sleep
//! each on its own, until a leader has served them or they are the first ([`Waiting::may_sleep`]). So all who came while a group
//! was synced are the next group: where they slept on the lock, each would learn that it had been served only when it got the
//! lock, after another sync. Nobody sleeps for ever: who is first changes under the list's lock alone, and whoever changes it
//! wakes the new one; and whoever took a waiter from the list wakes it, whatever became of it ([`Group`]).
//!
//! A writer that wants its batch synced does not look: it sleeps at once, as a sync takes longer than to be woken, nobody waits
//! for it to come back, and it commits together with those who wait already, so that they share one sync. After a commit of its
//! own that is not synced a leader leaves it and those behind it alone; whoever takes the lock for a batch that is in the list
//! itself commits all.

use super::super::Health;
use crate::base::durability::Durability;
use crate::base::error::Result;
use crate::log::EncodedBatch;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Most bytes that one leader takes from the list.
const GROUP_BYTES: usize = 1 << 20;
/// A leader serves those who wait after so many commits of its own, counted while somebody waits.
pub(super) const SERVED_EVERY: u32 = 4;
/// Who waits looks so often without letting other threads run, some microseconds, in which the lock mostly becomes free;
const BUSY_SPINS: u32 = 400;
/// where leaders are trusted, that often,
const BUSY_SPINS_OF_TRUSTING: u32 = 8;
/// and that often in all though the lock is free.
const SPINS_LEFT_TO_LEADER: u32 = 20;
/// After that it lets others run between so many looks, and then sleeps.
const YIELDING_SPINS: u32 = 92;
/// Leaders are trusted with more than this, which does not come by chance where the lock is taken one time in three,
const TRUSTED_ABOVE_SCORE: u32 = 6;
/// and this is the most. A leader that stays away halves it, so after two of them nobody waits for a third.
const MAX_SCORE: u32 = 16;

/// One for each member of a group: most groups are small, and a commit under the lock allocates nothing for them.
pub(super) type GroupVec<T> = SmallVec<[T; 8]>;

/// A batch that somebody else may commit.
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
    pub durability: Durability,
    outcome: OnceLock<Result<()>>,
    /// Who sleeps for it; set under the list's lock, while it stands, or is put, behind another.
    sleeper: OnceLock<Thread>,
    /// It slept, and is the first in the list now.
    is_called: AtomicBool,
}

impl Waiter {
    pub fn new(batch: Batch, durability: Durability) -> Waiter {
        Waiter {
            batch,
            durability,
            outcome: OnceLock::new(),
            sleeper: OnceLock::new(),
            is_called: AtomicBool::new(false),
        }
    }

    pub fn outcome(&self) -> Option<Result<()>> {
        self.outcome.get().cloned()
    }

    /// Sleeps until it has an outcome, or is to lead.
    pub fn sleep(&self) {
        let mut has_parked = false;
        while self.outcome.get().is_none() && !self.is_called.load(Ordering::Acquire) {
            std::thread::park();
            has_parked = true;
        }
        if has_parked {
            // Maybe somebody else meant to wake the thread, for something of the program's own.
            std::thread::current().unpark();
        }
    }

    /// It has become the first. Returns whom to wake.
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
    list: Mutex<VecDeque<Arc<Waiter>>>,
    /// The list is not empty. Stored under its lock; who learns it late serves later.
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
            // It does not look first.
            waiter.sleeper.get_or_init(std::thread::current);
        }
        list.push_back(waiter);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Whether this waiter may sleep on its own now, since somebody will wake it. The first in the list may not, nor who is not in
    /// it any more: they ask for the lock.
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

    /// Takes the oldest, up to the first who asks for more than `durability`. Who is the first then is woken.
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
        // Those who come need not wait for a system call.
        drop(list);
        if let Some(first) = first {
            first.unpark();
        }
        Group { waiters, health }
    }
}

/// The waiters that a leader took. None of them is left without an outcome, even if the leader panics.
pub(super) struct Group<'a> {
    waiters: GroupVec<Arc<Waiter>>,
    health: &'a Health,
}

impl Group<'_> {
    pub fn waiters(&self) -> &[Arc<Waiter>] {
        &self.waiters
    }

    /// Tells each what became of its batch, the oldest first.
    pub fn end(mut self, mut outcome: impl FnMut(&Waiter) -> Result<()>) {
        self.waiters.reverse();
        while let Some(waiter) = self.waiters.last() {
            waiter.end(outcome(waiter));
            // At once, so that its own thread, which is about to notice, frees the batch where it was allocated.
            self.waiters.pop();
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for waiter in &self.waiters {
            waiter.end(Err(self.health.poison_after_panic()));
        }
    }
}

/// Who committed last without a sync, and whether it is worth waiting for.
#[derive(Debug, Default)]
pub(super) struct Leader {
    thread: AtomicUsize,
    /// Rises when one who does not lead finds the lock taken, falls when it finds it free, and halves when a leader does not come.
    /// What two threads do to it at once may be lost.
    score: AtomicU32,
}

impl Leader {
    /// This thread has the commit lock, for a batch of so much.
    pub fn is_me(&self, durability: Durability) {
        // Not stored where it is true: the others read it.
        if durability < Durability::Sync && self.thread.load(Ordering::Relaxed) != this_thread() {
            self.thread.store(this_thread(), Ordering::Relaxed);
        }
    }

    /// Whether to leave a batch to the leader though the lock may be free. This thread just found it so, or taken.
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
        // Not stored where it is so: all read it.
        if self.score.load(Ordering::Relaxed) != score {
            self.score.store(score, Ordering::Relaxed);
        }
    }
}

/// How somebody waits.
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

    /// Whether a leader was waited for.
    pub fn waits_for_leader(&self) -> bool {
        self.leader_spins > 0
    }

    /// Whether to take the lock if it is free, when it has looked so often.
    pub fn may_take_lock(&self, spin: u32) -> bool {
        spin >= self.leader_spins
    }

    /// Whether to look once more.
    pub fn goes_on(&self, spin: u32) -> bool {
        spin < self.busy_spins + YIELDING_SPINS
    }

    /// What comes after a look.
    pub fn pause(&self, spin: u32) {
        if spin < self.busy_spins {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// Tells threads that live at the same time apart.
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
        assert!(!leader.is_trusted_other(true), "a leader waits for nobody");
        std::thread::scope(|scope| scope.spawn(|| leader.is_me(Durability::Sync)).join().unwrap());
        assert!(!leader.is_trusted_other(true), "who syncs leads nobody");
        let lost = (1..100).find(|_| {
            leader.stayed_away();
            !leader.is_trusted()
        });
        assert_eq!(lost, Some(2));
    }

    #[test]
    fn where_others_mostly_find_the_lock_free_nobody_is_waited_for() {
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
    fn those_behind_the_first_sleep_until_they_are_the_first_or_served() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let wanted = [Durability::Buffer, Durability::Sync, Durability::Sync];
        let waiters = wanted.map(|durability| wait(&waiting, b"", durability));
        assert!(waiters.iter().map(|waiter| waiting.may_sleep(waiter)).eq([false, true, true]));
        let taken = waiting.take(Durability::Buffer, &health);
        assert!(
            !waiting.may_sleep(&waiters[0]),
            "nobody would call it, and it is not known to whoever took it"
        );
        waiters[1].sleep();
        assert!(waiters[1].outcome().is_none(), "it is to lead");
        assert!(waiters[1].call().is_none(), "once");
        taken.end(|_| Ok(()));
        waiting.take(Durability::Sync, &health).end(|_| Ok(()));
        waiters.iter().for_each(|waiter| waiter.sleep());
        assert!(waiters.iter().all(|waiter| waiter.outcome().unwrap().is_ok()));
    }

    #[test]
    fn whoever_else_wakes_a_sleeper_has_not_done_so_in_vain() {
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
            waiting.take(Durability::Sync, &health).end(|_| Ok(()));
            sleeper.join().unwrap();
        });
    }

    #[test]
    fn the_oldest_are_taken_up_to_one_who_asks_for_more() {
        let (waiting, health) = (Waiting::default(), Health::default());
        assert!(waiting.is_empty());
        let wanted = [Durability::None, Durability::Buffer, Durability::Sync, Durability::None];
        let waiters = wanted.map(|durability| wait(&waiting, b"", durability));
        let group = waiting.take(Durability::Buffer, &health);
        assert_eq!(group.waiters().len(), 2);
        group.end(|_| Ok(()));
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
    fn of_a_group_that_ended_in_a_panic_those_who_were_done_are() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let waiters = [(); 3].map(|()| wait(&waiting, b"", Durability::None));
        let group = waiting.take(Durability::Sync, &health);
        let end =
            || group.end(|waiter| if std::ptr::eq(waiter, &*waiters[1]) { panic!("a bug") } else { Ok(()) });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(end)).is_err());
        assert!(waiters.iter().map(|waiter| waiter.outcome().unwrap().is_ok()).eq([true, false, false]));
    }

    #[test]
    fn a_group_that_nobody_ended_has_failed() {
        let (waiting, health) = (Waiting::default(), Health::default());
        let waiters = [(); 2].map(|()| wait(&waiting, b"", Durability::None));
        assert!(waiting.may_sleep(&waiters[1]));
        drop(waiting.take(Durability::Sync, &health));
        waiters[1].sleep();
        assert!(waiters.iter().all(|waiter| waiter.outcome().unwrap().is_err()));
        assert!(health.check_writable().is_err());
    }
}
