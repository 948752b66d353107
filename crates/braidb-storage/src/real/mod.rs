//! The real seams: the kernel's files, clock, random bytes and threads. Only this module may use them directly.
//!
//! ```
//! let env = braidb_storage::real::env(1)?;
//! let path = std::env::temp_dir().join(format!("braidb-real-{}", env.random.next_u64()));
//! env.fs.create_dir_all(&path)?;
//! let file = env.fs.create(&path.join("greeting"))?;
//! file.append(b"hello")?;
//! assert_eq!(file.len()?, 5);
//! # std::fs::remove_dir_all(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this module is the seam")]

mod descriptors;
mod early;
mod forks;
mod fs;
mod held;
mod mapped;
mod memory;
mod owned;
mod signals;
mod threads;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::rand::{GetRandomFlags, getrandom};

pub use fs::RealFs;
pub use threads::Threads;

use crate::{Clock, Env, Random};

/// The real machine: files, time, chance, and [`Threads`] with `background_threads` threads for merges, one for flushes
/// and one for memory compaction.
///
/// # Errors
///
/// As [`Threads::new`]: the kernel refuses a thread.
///
/// ```
/// let env = braidb_storage::real::env(1)?;
/// assert!(env.clock.now_us() <= env.clock.now_us());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn env(background_threads: usize) -> io::Result<Env> {
    let threads = Threads::new(background_threads)?;
    Ok(Env {
        fs: Arc::new(RealFs),
        clock: Arc::new(MonotonicClock::new()),
        random: Arc::new(OsRandom),
        runtime: Arc::new(threads),
    })
}

/// The kernel's monotonic clock, counted from its construction. It never runs backwards; it may stand still while the
/// machine sleeps.
///
/// ```
/// use braidb_storage::{Clock, real::MonotonicClock};
/// let clock = MonotonicClock::new();
/// assert!(clock.now_us() <= clock.now_us());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that shows 0 now.
    pub fn new() -> MonotonicClock {
        MonotonicClock { start: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> MonotonicClock {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Random bits from the kernel, one system call each: for seeds and ids, not for inner loops.
///
/// ```
/// use braidb_storage::{Random, real::OsRandom};
/// assert_ne!(OsRandom.next_u64(), OsRandom.next_u64());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        // Eight bytes always come whole. The call is interrupted only before the kernel's pool is ready, and is then
        // repeated.
        while !matches!(getrandom(&mut bytes, GetRandomFlags::empty()), Ok(8)) {}
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards() {
        let clock = MonotonicClock::new();
        let mut last = clock.now_us();
        for _ in 0..10_000 {
            let now = clock.now_us();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn random_numbers_differ() {
        let drawn: std::collections::BTreeSet<u64> = (0..64).map(|_| OsRandom.next_u64()).collect();
        assert_eq!(drawn.len(), 64);
    }
}
