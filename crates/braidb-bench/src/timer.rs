//! The time by which a workload is measured: that of the machine, or that of a modelled device.

use crate::host::clock::{Stopwatch, pause};
use std::time::Duration;

/// Measures time from its own beginning on.
pub trait Timer: Sync {
    fn now_ns(&self) -> u64;

    /// A thread of the workload begins an operation. A modelled device runs background work that is due.
    fn begin_operation(&self) {}

    /// Lets time pass: a thread is ahead of the rate that it is held to.
    fn pause(&self, duration: Duration);

    /// Processor time since the beginning, where it is not the kernel that knows it.
    fn modelled_cpu_us(&self) -> Option<u64> {
        None
    }

    /// Whether the time is modelled. A modelled run has one thread, and no other thread looks on.
    fn is_modelled(&self) -> bool {
        false
    }
}

/// The machine's time.
#[derive(Clone, Copy, Debug)]
pub struct WallTimer(Stopwatch);

impl WallTimer {
    pub fn start() -> WallTimer {
        WallTimer(Stopwatch::start())
    }
}

impl Timer for WallTimer {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn pause(&self, duration: Duration) {
        pause(duration);
    }
}
