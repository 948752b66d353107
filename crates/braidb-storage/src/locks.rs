//! A mutex, a lock for readers and writers, and a condition variable, which work in a forked child.
//!
//! Many locks keep their waiting threads in one table of the process. A forked child inherits the table with the threads
//! that were waiting, which the child does not have, and with a part of it locked by a thread that vanished. Locks that
//! the child makes for databases of its own then lose wake-ups, or wait for ever. The locks here share nothing: all that
//! there is of a lock is a number in it, and the kernel's queue for the address of this number (a *futex*). So a child
//! may use every lock that it makes. Locks from before the fork may be held by threads that the child lacks, and
//! the child does not touch them.
//!
//! A lock is not fair: a thread that has just come may take it before a thread that waits. A panic of its holder unlocks
//! it.
//!
//! # Why the unsafe code is sound
//!
//! A [`RawMutex`](lock_api::RawMutex) must let in one thread at a time, and order the accesses of one holder before those
//! of the next. `lock` and `try_lock` return as a holder only after this thread changed the number from `FREE` to
//! another value, in one atomic step. Only the holder stores `FREE` again. The step that takes the lock has `Acquire`,
//! and the one that frees it `Release`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use lock_api::GuardSend;
use rustix::thread::futex;
use rustix::time::Timespec;

/// A mutex over a value, with the interface of the crate `lock_api`.
///
/// ```
/// use braidb_storage::locks::Mutex;
/// let number = Mutex::new(1);
/// *number.lock() += 1;
/// assert_eq!(*number.lock(), 2);
/// ```
pub type Mutex<T> = lock_api::Mutex<Futex, T>;

/// Holds a [`Mutex`] until it is dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Futex, T>;

/// No thread holds the lock.
const FREE: u32 = 0;
/// A thread holds the lock, and none sleeps for it.
const HELD: u32 = 1;
/// A thread holds the lock, and others may sleep for it: the holder wakes one of them when it frees the lock.
const AWAITED: u32 = 2;

/// How often a thread looks for a lock at once before it lets other threads run. Most holders are through within a
/// microsecond.
const BUSY_SPINS: u32 = 16;
/// How often a thread then lets other threads run before it sleeps: where threads outnumber processors, the holder may
/// wait for a processor. Sleeping and waking take longer.
const YIELDING_SPINS: u32 = 8;

/// The lock inside of a [`Mutex`].
///
/// ```
/// use braidb_storage::locks::Mutex;
/// let lock = Mutex::new(());
/// let held = lock.lock();
/// assert!(lock.is_locked() && lock.try_lock().is_none());
/// drop(held);
/// assert!(!lock.is_locked());
/// ```
#[derive(Debug)]
pub struct Futex {
    state: AtomicU32,
}

impl Futex {
    #[cold]
    fn lock_slowly(&self) {
        let mut state = self.spin();
        if state == FREE {
            match self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => state = other,
            }
        }
        // From here on this thread takes the lock in the state `AWAITED`, because other threads may sleep too.
        while state == AWAITED || self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            sleep(&self.state, AWAITED, None);
            state = self.spin();
        }
    }

    /// Waits a moment for the holder, unless others sleep already. Returns the state.
    fn spin(&self) -> u32 {
        for spin in 0..BUSY_SPINS + YIELDING_SPINS {
            match self.state.load(Ordering::Relaxed) {
                HELD if spin < BUSY_SPINS => std::hint::spin_loop(),
                HELD => std::thread::yield_now(),
                other => return other,
            }
        }
        self.state.load(Ordering::Relaxed)
    }
}

// SAFETY: see the head of this file.
unsafe impl lock_api::RawMutex for Futex {
    const INIT: Futex = Futex { state: AtomicU32::new(FREE) };

    /// Nothing is noted about the thread that holds the lock, so another thread may drop the guard.
    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            wake(&self.state, 1);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.state.load(Ordering::Relaxed) != FREE
    }
}

/// Lets in many readers or one writer: the standard library's lock, which is a futex too, without its poison.
///
/// ```
/// use braidb_storage::locks::RwLock;
/// let number = RwLock::new(1);
/// *number.write() += 1;
/// assert_eq!(*number.read() + *number.read(), 4);
/// ```
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    /// The value, without a wait: the caller has the only reference to the lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets threads sleep until another thread notifies them. A wait may also end without a notification.
///
/// ```
/// use braidb_storage::locks::{Condvar, Mutex};
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_all();
///     });
///     let mut is_ready = ready.lock();
///     while !*is_ready {
///         changed.wait(&mut is_ready);
///     }
/// });
/// ```
#[derive(Debug, Default)]
pub struct Condvar {
    /// Rises with each notification, so that no thread falls asleep after one that it has not seen.
    notifications: AtomicU32,
    /// Threads that wait. A thread counts itself while it holds the mutex.
    waiting: AtomicU32,
}

impl Condvar {
    /// A condition variable for which no thread waits.
    pub const fn new() -> Condvar {
        Condvar { notifications: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Frees the mutex, waits for a notification, and takes the mutex again. Sees each notification by a thread that
    /// takes the mutex, or took it, after this thread did.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_at_most(guard, None);
    }

    /// As [`Condvar::wait`], and ends after `time` at the latest.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        self.wait_at_most(guard, Some(time));
    }

    fn wait_at_most<T>(&self, guard: &mut MutexGuard<'_, T>, time: Option<Duration>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let notifications = self.notifications.load(Ordering::Relaxed);
        MutexGuard::unlocked(guard, || sleep(&self.notifications, notifications, time));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes a waiting thread.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.notify(i32::MAX as u32);
    }

    fn notify(&self, threads: u32) {
        // The mutex orders this load behind the count of a thread that held it before.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.notifications.fetch_add(1, Ordering::Relaxed);
            wake(&self.notifications, threads);
        }
    }
}

/// Sleeps while `number` is `value`, until a thread wakes this one or the time is over. May end for no reason.
fn sleep(number: &AtomicU32, value: u32, time: Option<Duration>) {
    // A longer time is no error: the wait ends for no reason.
    let time = time.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos() as _,
    });
    // Errors say that the number changed, the time is over, or a signal came. The caller looks again in each case.
    let _ = futex::wait(number, futex::Flags::PRIVATE, value, time.as_ref());
}

/// Wakes up to `threads` threads that sleep for `number`.
fn wake(number: &AtomicU32, threads: u32) {
    // The address is valid, so the call cannot fail.
    let _ = futex::wake(number, futex::Flags::PRIVATE, threads);
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn one_thread_at_a_time_is_let_in() {
        let total = Mutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let mut held = if round % 3 == 0 { total.try_lock() } else { None }
                            .unwrap_or_else(|| total.lock());
                        let before = *held;
                        if round % 100 == 0 {
                            std::thread::yield_now();
                        }
                        *held = before + 1;
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 160_000);
    }

    #[test]
    fn a_panic_frees_the_lock() {
        let lock = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = lock.lock();
            std::panic::resume_unwind(Box::new("planned"));
        }));
        assert!(panicked.is_err() && !lock.is_locked());
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn no_notification_is_lost() {
        let (queue, filled, emptied) = (Mutex::new(VecDeque::new()), Condvar::new(), Condvar::new());
        let received: u64 = std::thread::scope(|scope| {
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut sum = 0;
                        loop {
                            let mut queue = queue.lock();
                            while queue.is_empty() {
                                filled.wait(&mut queue);
                            }
                            let number: u64 = queue.pop_front().unwrap();
                            emptied.notify_one();
                            if number == 0 {
                                return sum;
                            }
                            sum += number;
                        }
                    })
                })
                .collect();
            for number in (1..=30_000).chain([0; 3]) {
                let mut queue = queue.lock();
                while queue.len() >= 4 {
                    emptied.wait(&mut queue);
                }
                queue.push_back(number);
                filled.notify_one();
            }
            receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum()
        });
        assert_eq!(received, 30_000 * 30_001 / 2);
    }

    #[test]
    fn a_wait_ends_after_its_time() {
        let (lock, never) = (Mutex::new(()), Condvar::new());
        never.wait_for(&mut lock.lock(), Duration::from_millis(2));
        never.wait_for(&mut lock.lock(), Duration::ZERO);
        assert!(!lock.is_locked());
        never.notify_all();
    }
}
