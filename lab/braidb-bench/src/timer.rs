//! The clock of a workload: the machine's time, or the time of a modelled device.

use crate::host::clock::{Stopwatch, pause};
use std::time::Duration;

/// Measures time from its creation on.
pub trait Timer: Sync {
    fn now_ns(&self) -> u64;

    /// Tells that a thread of the workload begins an operation. A modelled device then runs the background work that is due.
    fn begin_operation(&self) {}

    /// Lets time pass, because a thread is ahead of the rate that it must keep.
    fn pause(&self, duration: Duration);

    /// Processor time since the beginning, where the kernel does not tell it.
    fn modelled_cpu_us(&self) -> Option<u64> {
        None
    }

    /// Whether the time is modelled. A modelled run has one thread, and no sampling thread.
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
