//! Those who wait for the commit lock, and how the one who has it is chosen.
//!
//! What a commit touches (the end of the log, the active segment, the counters) lies in the processor cache of whoever committed
//! last. To hand it to another processor costs as much as a commit, so where writers meet all the time it pays that one of them goes on
//! to lead: the others leave their batches in the list, even when the lock is free for the moment, and the leader commits all
//! of them as one group after every [`SERVED_EVERY`]th commit of its own.
//!
//! Nobody relies on the leader's coming back. Who waits looks for it so long as leaders did come in the near past
//! ([`Leader::trust`]), then takes the lock where it is free, and leads from there on; and after [`LOOKS`] it sleeps on the
//! lock, whose holder it will be. Between the first looks a processor does nothing; later ones let other threads run, since
//! where there are more of them than processors, it is the leader who may wait for one.
//!
//! A writer that wants its batch synced takes no part in this: it sleeps at once, as a sync takes longer than to be woken, nobody
//! waits for it to come back, and it commits together with those who wait already, so that they share one sync. After a commit of its
//! own that is not synced a leader leaves it and those behind it alone; whoever takes the lock for a batch that is in the list itself
//! commits all.

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

/// Most bytes that one leader takes from the list.
const GROUP_BYTES: usize = 1 << 20;
/// A leader serves those who wait after so many commits of its own, counted while somebody waits.
pub(super) const SERVED_EVERY: u32 = 4;
/// Who waits looks so often whether it is served before it sleeps:
pub(super) const LOOKS: u32 = 100;
/// that often without letting other threads run,
const SHORT_LOOKS: u32 = 8;
/// and that often though the lock is free, where leaders are trusted.
const PATIENT_LOOKS: u32 = 20;
/// Most trust. A leader that stays away halves it, so after four of them nobody waits for a fifth.
const MOST_TRUST: u32 = 8;

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
}

impl Waiter {
    pub fn new(batch: Batch, durability: Durability) -> Waiter {
        Waiter { batch, durability, outcome: OnceLock::new() }
    }

    pub fn outcome(&self) -> Option<Result<()>> {
        self.outcome.get().cloned()
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
        list.push_back(waiter);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Takes the oldest, up to the first who asks for more than `durability`.
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
            waiter.outcome.set(outcome(waiter)).expect("a waiter is in one group");
            // At once, so that its own thread, which is about to notice, frees the batch where it was allocated.
            self.waiters.pop();
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for waiter in &self.waiters {
            waiter.outcome.get_or_init(|| Err(self.health.poison_after_panic()));
        }
    }
}

/// Who committed last without a sync, and whether it is worth waiting for.
#[derive(Debug, Default)]
pub(super) struct Leader {
    thread: AtomicUsize,
    /// Rises when a leader serves one who looks, halves when one does not come. What two threads do to it at once may be lost.
    trust: AtomicU32,
}

impl Leader {
    /// This thread has the commit lock, for a batch of so much.
    pub fn is_me(&self, durability: Durability) {
        // Not stored where it is true: the others read it.
        if durability < Durability::Sync && self.thread.load(Ordering::Relaxed) != this_thread() {
            self.thread.store(this_thread(), Ordering::Relaxed);
        }
    }

    /// Whether to leave a batch to the leader though the lock may be free.
    pub fn is_trusted_other(&self) -> bool {
        self.trust.load(Ordering::Relaxed) > 0 && self.thread.load(Ordering::Relaxed) != this_thread()
    }

    /// How often to look for the leader before taking a lock that is free.
    pub fn patience(&self) -> u32 {
        if self.trust.load(Ordering::Relaxed) > 0 { PATIENT_LOOKS } else { 0 }
    }

    pub fn came(&self) {
        let trust = self.trust.load(Ordering::Relaxed);
        if trust < MOST_TRUST {
            self.trust.store(trust + 1, Ordering::Relaxed);
        }
    }

    pub fn stayed_away(&self) {
        let trust = self.trust.load(Ordering::Relaxed);
        if trust > 0 {
            self.trust.store(trust / 2, Ordering::Relaxed);
        }
    }
}

/// What a waiter does between two looks.
pub(super) fn pause(look: u32) {
    if look < SHORT_LOOKS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
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
        assert!(!leader.is_trusted_other(), "nobody knows yet whether it comes back");
        assert_eq!(leader.patience(), 0);
        (0..1_000).for_each(|_| leader.came());
        assert!(!leader.is_trusted_other(), "a leader waits for nobody");
        let seen = || std::thread::scope(|scope| scope.spawn(|| leader.is_trusted_other()).join().unwrap());
        assert!(seen());
        assert!(leader.patience() > 0);
        std::thread::scope(|scope| scope.spawn(|| leader.is_me(Durability::Sync)).join().unwrap());
        assert!(!leader.is_trusted_other(), "who syncs leads nobody");
        let lost = (1..100).find(|_| {
            leader.stayed_away();
            !seen()
        });
        assert_eq!(lost, Some(4));
        assert_eq!(leader.patience(), 0);
    }

    fn wait(waiting: &Waiting, value: &[u8], durability: Durability) -> Arc<Waiter> {
        let mut batch = EncodedBatch::default();
        batch.push_put(crate::base::ids::FamilyId(0), b"key", value);
        let waiter = Arc::new(Waiter::new(Batch::Own(batch), durability));
        waiting.push(waiter.clone());
        waiter
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
        let waiter = wait(&waiting, b"", Durability::None);
        drop(waiting.take(Durability::Sync, &health));
        assert!(waiter.outcome().unwrap().is_err());
        assert!(health.check_writable().is_err());
    }
}
