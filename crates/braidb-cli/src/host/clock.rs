//! Time that a person waits.
#![allow(clippy::disallowed_methods, reason = "see the module `host`")]

use std::time::{Duration, Instant};

/// Measures time from its creation on.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Waits, so that a person can read.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
