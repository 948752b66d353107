//! Forks, and waits for children.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A child process.
#[derive(Clone, Copy, Debug)]
pub struct Child(libc::pid_t);

/// Runs `act` in a forked child, which then ends with status 0, or after a panic with 101.
pub fn fork(act: impl FnOnce()) -> Child {
    // SAFETY: the child is a copy of a process with threads. Its allocator works, because the C library prepares it for forks. It uses no
    // lock of the standard library that another thread of the parent may hold, since the others only call the engine.
    match unsafe { libc::fork() } {
        0 => {
            // A panic must not unwind into what the parent was doing.
            let outcome = catch_unwind(AssertUnwindSafe(act));
            end(if outcome.is_ok() { 0 } else { 101 })
        }
        child => {
            assert!(child > 0, "no fork: {}", std::io::Error::last_os_error());
            Child(child)
        }
    }
}

/// Ends this process without destructors.
pub fn end(status: i32) -> ! {
    // SAFETY: `_exit` has no requirement.
    unsafe { libc::_exit(status) }
}

/// Waits for a child. Returns its exit status and how long it took. A child that takes longer than `most` hangs: it is killed.
pub fn wait(child: Child, most: Duration) -> Option<(i32, Duration)> {
    let begin = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        let ended = unsafe { libc::waitpid(child.0, &mut status, libc::WNOHANG) };
        assert!(ended >= 0, "{}", std::io::Error::last_os_error());
        if ended == child.0 {
            let code =
                if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) };
            return Some((code, begin.elapsed()));
        }
        if begin.elapsed() > most {
            // SAFETY: the child was not waited for yet, so the number is still its own.
            unsafe { libc::kill(child.0, libc::SIGKILL) };
            return None;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
