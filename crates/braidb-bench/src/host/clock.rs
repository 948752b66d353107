//! Time, to the nanosecond: a benchmark measures operations that take less than one tick of the engine's clock.
#![allow(clippy::disallowed_methods, reason = "see the module `host`")]

use std::time::{Duration, Instant};

/// Measures from a moment on.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// The time since the last lap (or the start), which ends here: one look at the clock for each operation.
    pub fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Waits, so that a person can read.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
