//! The turn: a transaction that met many conflicts commits while other calls of `transact` wait, so that it comes through.
//!
//! Plain writes and single transactions do not wait. A wait ends after 50 ms, because the work of the transaction that has the turn may call
//! `transact` itself, and would wait for itself.

use braidb_storage::Clock;
use braidb_storage::locks::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Microseconds that a call of `transact` waits for the one that has the turn.
const WAIT_US: u64 = 50_000;
/// A wait looks 16 times at most, because the clock of a simulated machine stands still.
const LOOKS: u32 = 16;

/// Who has the turn.
#[derive(Debug, Default)]
pub struct Turns {
    /// Stored under the lock. Read without it by commits, which mostly find it free.
    is_taken: AtomicBool,
    lock: Mutex<()>,
    freed: Condvar,
}

impl Turns {
    /// Takes the turn. Returns `false` if another call still has it after 50 ms.
    pub fn take(&self, clock: &dyn Clock) -> bool {
        self.wait(clock, true)
    }

    /// Gives the turn back.
    pub fn give_back(&self) {
        let lock = self.lock.lock();
        self.is_taken.store(false, Ordering::Relaxed);
        drop(lock);
        self.freed.notify_all();
    }

    /// Waits until no call has the turn, but at most 50 ms.
    pub fn let_pass(&self, clock: &dyn Clock) {
        if self.is_taken.load(Ordering::Relaxed) {
            self.wait(clock, false);
        }
    }

    fn wait(&self, clock: &dyn Clock, takes: bool) -> bool {
        let end_us = clock.now_us() + WAIT_US;
        let mut lock = self.lock.lock();
        for _ in 0..LOOKS {
            if !self.is_taken.load(Ordering::Relaxed) {
                self.is_taken.store(takes, Ordering::Relaxed);
                return true;
            }
            let left_us = end_us.saturating_sub(clock.now_us());
            if left_us == 0 {
                break;
            }
            self.freed.wait_for(&mut lock, Duration::from_micros(left_us));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::real::MonotonicClock;

    #[test]
    fn one_call_has_the_turn_and_others_wait_a_while() {
        let (turns, clock) = (Turns::default(), MonotonicClock::new());
        turns.let_pass(&clock);
        assert!(turns.take(&clock));
        let begun_us = clock.now_us();
        turns.let_pass(&clock);
        assert!(!turns.take(&clock));
        assert!(clock.now_us() - begun_us >= WAIT_US);
        turns.give_back();
        assert!(turns.take(&clock));
    }
}
