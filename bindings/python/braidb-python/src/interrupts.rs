//! Work that Ctrl-C ends: it runs on a thread of its own, while the calling thread looks for signals.
//!
//! After a signal the call raises what the signal's handler raised, at once. The work ends where it next reports progress: a compaction between
//! two merges, a verification before the next file, an evacuation once bytes have left the tier. The engine promises that a callback may panic
//! there.

use crate::errors::{Failure, Result, panicked};
use pyo3::prelude::*;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often the calling thread looks for signals: each 50 ms. A user does not notice the time, and a look costs some microseconds.
pub const LOOK: Duration = Duration::from_millis(50);

/// Tells work whether it is still wanted.
#[derive(Clone, Default)]
pub struct Wanted {
    is_over: Arc<AtomicBool>,
}

/// What unwinds the thread of work that is no longer wanted.
struct Over;

impl Wanted {
    /// Ends the thread of the work if it is no longer wanted.
    pub fn check(&self) {
        if self.is_over.load(Ordering::Relaxed) {
            // Unlike `panic!`, it calls no hook, so nothing is printed.
            panic::resume_unwind(Box::new(Over));
        }
    }
}

/// Runs `work` until it ends or a signal's handler raises.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Wanted) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    py.check_signals()?;
    let wanted = Wanted::default();
    let of_thread = wanted.clone();
    let (sender, mut receiver) = mpsc::channel();
    let body = move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| work(&of_thread)));
        // Without a receiver, the caller was interrupted.
        let _ = sender.send(outcome);
    };
    let named = thread::Builder::new().name("braidb-python".to_owned());
    named.spawn(body).map_err(|error| Failure::invalid(format!("could not start a thread: {error}")))?;
    loop {
        let (back, received) = py.detach(move || {
            let received = receiver.recv_timeout(LOOK);
            (receiver, received)
        });
        receiver = back;
        match received {
            Ok(Ok(outcome)) => return Ok(outcome?),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    wanted.is_over.store(true, Ordering::Relaxed);
                    return Err(raised);
                }
            }
        }
    }
}
