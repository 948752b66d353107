//! The rate limit of merges. All merges of a database share one allowance. A merge that has written more than the allowance sleeps. A merge
//! that writers wait for does not sleep.

use braidb_storage::locks::Mutex;
use braidb_storage::{Clock, Runtime};
use std::sync::Arc;

/// The longest single sleep: 100 ms, so that closing the database waits no longer for it.
const SLEEP_US: u64 = 100_000;
/// Allowance that may be saved up while no merge writes: 100 ms at the full rate.
const SAVED_US: u64 = 100_000;

/// The allowance of all merges of one database.
#[derive(Debug)]
pub struct Pacer {
    bytes_per_second: u64,
    clock: Arc<dyn Clock>,
    runtime: Arc<dyn Runtime>,
    /// The time at which the allowance covers all bytes written so far.
    paid_us: Mutex<u64>,
}

impl Pacer {
    pub fn new(bytes_per_second: u64, clock: Arc<dyn Clock>, runtime: Arc<dyn Runtime>) -> Pacer {
        assert!(bytes_per_second > 0);
        Pacer { bytes_per_second, clock, runtime, paid_us: Mutex::new(0) }
    }

    /// Charges `bytes`, and sleeps until the allowance covers them or `is_urgent` says that a writer waits.
    pub fn wrote(&self, bytes: u64, is_urgent: impl Fn() -> bool) {
        let until_us = {
            let mut paid_us = self.paid_us.lock();
            let start_us = (*paid_us).max(self.clock.now_us().saturating_sub(SAVED_US));
            *paid_us = start_us + bytes.saturating_mul(1_000_000) / self.bytes_per_second;
            *paid_us
        };
        loop {
            let left_us = until_us.saturating_sub(self.clock.now_us());
            if left_us == 0 {
                return;
            }
            if is_urgent() {
                // Forgets the debt, so that no merge sleeps later for bytes that had to be written now.
                let mut paid_us = self.paid_us.lock();
                *paid_us = (*paid_us).min(self.clock.now_us());
                return;
            }
            self.runtime.pause_us(left_us.min(SLEEP_US));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::{Job, Lane};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock that advances only by sleeping.
    #[derive(Debug, Default)]
    struct Sleeper(AtomicU64);

    impl Clock for Sleeper {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Runtime for Sleeper {
        fn submit(&self, _: Lane, _: Job) {
            unreachable!("the pacer submits no job")
        }
        fn help(&self) -> bool {
            false
        }
        fn is_stepped(&self) -> bool {
            true
        }
        fn pause_us(&self, us: u64) {
            assert!(us <= SLEEP_US);
            self.0.fetch_add(us, Ordering::Relaxed);
        }
    }

    #[test]
    fn writing_takes_as_long_as_the_rate_says_unless_it_is_urgent() {
        let time = Arc::new(Sleeper::default());
        let pacer = Pacer::new(1 << 20, time.clone(), time.clone());
        (0..10).for_each(|_| pacer.wrote(1 << 20, || false));
        assert_eq!(time.now_us(), 10_000_000);
        pacer.wrote(1 << 30, || true);
        assert_eq!(time.now_us(), 10_000_000);
        pacer.wrote(1 << 20, || false);
        assert_eq!(time.now_us(), 11_000_000, "what was urgent is not slept off later");
    }
}
