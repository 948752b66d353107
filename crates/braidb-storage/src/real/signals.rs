//! Signals: a background thread runs no handler of the program.
//!
//! The kernel hands a signal of the whole process to any thread that does not block it. A thread of this crate that took the signal would run
//! the program's handler on a stack, and with thread-local values, that the program does not know. A thread inherits the mask of the thread
//! that starts it. So [`blocked`] blocks signals while a thread is started.
//!
//! The signals of [`FAULTS`] stay open. The kernel raises a fault in the thread that made it, and kills a process that blocks it. An open
//! fault reaches the handler of a program that reports crashes.
//!
//! # Why the unsafe code is sound
//!
//! The calls read and write signal sets that this file owns, and change the mask of the calling thread alone. `sigfillset` initializes a set
//! before any other call reads it. The C library keeps the signals for itself that it needs, as those of `setuid`.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that a thread raises by its own instructions.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Sets the mask of the calling thread back when it is dropped.
struct Mask(libc::sigset_t);

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: see the head of this file. `pthread_sigmask` initialized the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

/// Runs `start` with all signals blocked but [`FAULTS`]. Threads that it starts have them blocked for ever.
pub(super) fn blocked<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let (mut signals, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: see the head of this file. A call that fails leaves the mask as it was.
    let _mask = unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(signals.as_mut_ptr(), fault);
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr()) {
            0 => Mask(before.assume_init()),
            number => return Err(io::Error::from_raw_os_error(number)),
        }
    };
    Ok(start())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::real::Threads;
    use crate::{Lane, Runtime};

    /// The bit of a signal in a line of `/proc/thread-self/status`.
    fn bit(signal: i32) -> u64 {
        1 << (signal - 1)
    }

    /// The signals that the calling thread blocks.
    fn mask() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn background_threads_block_all_signals_but_faults() {
        let (before, threads) = (mask(), Threads::new(1).unwrap());
        for lane in [Lane::Flush, Lane::Merge, Lane::Memory] {
            let (sender, receiver) = mpsc::channel();
            threads.submit(lane, Box::new(move || sender.send(mask()).unwrap()));
            let of_thread = receiver.recv().unwrap();
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD] {
                assert_ne!(of_thread & bit(signal), 0, "{lane:?}: signal {signal} is open");
            }
            for fault in FAULTS {
                assert_eq!(of_thread & bit(fault), before & bit(fault), "{lane:?}: fault {fault} is blocked");
            }
        }
        assert_eq!(mask(), before);
    }

    #[test]
    fn the_mask_comes_back_after_a_panic() {
        let before = mask();
        let outcome =
            std::panic::catch_unwind(|| blocked::<()>(|| std::panic::resume_unwind(Box::new("planned"))));
        assert!(outcome.is_err());
        assert_eq!(mask(), before);
    }
}
