//! Foreground locks: locks that a put or a get takes. A check in debug builds that no thread does slow work under one.
//!
//! Closing, unmapping, unlinking and punching a file, syncing, and freeing much memory take the kernel up to 100 ms. A
//! thread that does so under a foreground lock makes every put wait. So the engine marks its foreground locks with
//! [`enter`]. The files of [`real`](crate::real) and `sim`, and large owners of memory, call [`check`].
//!
//! [`allow`] is for the few places where the work belongs under the lock. In release builds nothing here costs
//! anything.

use std::marker::PhantomData;

/// Work that may take long.
///
/// ```
/// use braidb_storage::foreground::{Slow, check};
/// check(Slow::Close); // passes: this thread holds no foreground lock
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Closing the last descriptor of a file. It frees the blocks of an unlinked file.
    Close,
    /// Unmapping a part of a file.
    Unmap,
    /// Removing a name.
    Unlink,
    /// Giving a range of a file back to the device.
    Punch,
    /// Syncing a file or a directory.
    Sync,
}

/// Bytes of memory that may be freed under a foreground lock: 1 MiB takes less than 0.1 ms.
pub const FREED_BYTES: usize = 1 << 20;

/// Says that this thread holds a foreground lock, until it is dropped.
///
/// ```
/// let held = braidb_storage::foreground::enter();
/// drop(held);
/// ```
#[derive(Debug)]
#[must_use = "the lock is held as long as the mark lives"]
pub struct Held {
    /// Keeps the value on its thread, because it counts for this thread alone.
    _thread: PhantomData<*const ()>,
}

/// Lets this thread do one kind of slow work under foreground locks, until it is dropped.
///
/// ```
/// use braidb_storage::foreground::{Slow, allow, check, enter};
/// let _held = enter();
/// let _allowed = allow(&[Slow::Sync]);
/// check(Slow::Sync);
/// ```
#[derive(Debug)]
#[must_use = "the work is allowed as long as this lives"]
pub struct Allowed {
    #[cfg(all(debug_assertions, not(loom)))]
    before: u8,
    /// Keeps the value on its thread, because it counts for this thread alone.
    _thread: PhantomData<*const ()>,
}

/// Marks that this thread took a foreground lock.
#[inline]
pub fn enter() -> Held {
    #[cfg(all(debug_assertions, not(loom)))]
    marks::HELD.set(marks::HELD.get() + 1);
    Held { _thread: PhantomData }
}

#[cfg(all(debug_assertions, not(loom)))]
impl Drop for Held {
    fn drop(&mut self) {
        marks::HELD.set(marks::HELD.get() - 1);
    }
}

/// Allows `work` under foreground locks of this thread, until the value is dropped.
#[inline]
pub fn allow(work: &[Slow]) -> Allowed {
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = work;
    #[cfg(all(debug_assertions, not(loom)))]
    let before = marks::ALLOWED.get();
    #[cfg(all(debug_assertions, not(loom)))]
    marks::ALLOWED.set(work.iter().fold(before, |bits, &slow| bits | marks::bit(slow)));
    Allowed {
        #[cfg(all(debug_assertions, not(loom)))]
        before,
        _thread: PhantomData,
    }
}

#[cfg(all(debug_assertions, not(loom)))]
impl Drop for Allowed {
    fn drop(&mut self) {
        marks::ALLOWED.set(self.before);
    }
}

/// Panics in debug builds if this thread holds a foreground lock and `work` is not allowed.
#[inline]
pub fn check(work: Slow) {
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = work;
    #[cfg(all(debug_assertions, not(loom)))]
    if marks::ALLOWED.get() & marks::bit(work) == 0 {
        marks::check_held(|| format!("{work:?}"));
    }
}

/// Panics in debug builds if this thread holds a foreground lock and frees more than [`FREED_BYTES`].
///
/// ```
/// use braidb_storage::foreground::{check_free, enter};
/// let _held = enter();
/// check_free(4096);
/// ```
#[inline]
pub fn check_free(bytes: usize) {
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = bytes;
    #[cfg(all(debug_assertions, not(loom)))]
    if bytes > FREED_BYTES {
        marks::check_held(|| format!("a free of {bytes} bytes"));
    }
}

/// Runs `work` as if this thread held no foreground lock: a simulator uses another database in the middle of a call.
#[cfg(feature = "sim")]
pub(crate) fn apart<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(all(debug_assertions, not(loom)))]
    let _restored = marks::Apart::new();
    work()
}

#[cfg(all(debug_assertions, not(loom)))]
mod marks {
    use std::cell::Cell;

    use super::Slow;

    thread_local! {
        /// Foreground locks that this thread holds.
        pub static HELD: Cell<u32> = const { Cell::new(0) };
        /// A bit for each kind of slow work that is allowed now.
        pub static ALLOWED: Cell<u8> = const { Cell::new(0) };
    }

    pub fn bit(work: Slow) -> u8 {
        1 << work as u8
    }

    #[track_caller]
    pub fn check_held(work: impl Fn() -> String) {
        // A panic under a lock unwinds through drops. A second panic would end the process.
        if HELD.get() > 0 && !std::thread::panicking() {
            panic!("{} under a lock that puts or gets wait for", work());
        }
    }

    /// Puts the marks of this thread back when it is dropped.
    #[cfg(feature = "sim")]
    pub struct Apart {
        held: u32,
        allowed: u8,
    }

    #[cfg(feature = "sim")]
    impl Apart {
        pub fn new() -> Apart {
            Apart { held: HELD.replace(0), allowed: ALLOWED.replace(0) }
        }
    }

    #[cfg(feature = "sim")]
    impl Drop for Apart {
        fn drop(&mut self) {
            HELD.set(self.held);
            ALLOWED.set(self.allowed);
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn passes(work: impl Fn() + std::panic::UnwindSafe) -> bool {
        catch_unwind(work).is_ok()
    }

    #[test]
    fn slow_work_under_a_foreground_lock_panics_unless_it_is_allowed() {
        let all = [Slow::Close, Slow::Unmap, Slow::Unlink, Slow::Punch, Slow::Sync];
        let passing = || all.map(|work| passes(move || check(work)));
        assert_eq!(passing(), [true; 5]);
        let outer = enter();
        let inner = enter();
        assert_eq!(passing(), [false; 5]);
        drop(inner);
        assert_eq!(passing(), [false; 5], "the outer lock is still held");
        let allowed = allow(&[Slow::Sync, Slow::Unmap]);
        assert_eq!(passing(), [false, true, false, false, true]);
        drop(allowed);
        assert_eq!(passing(), [false; 5]);
        assert!(passes(|| check_free(FREED_BYTES)) && !passes(|| check_free(FREED_BYTES + 1)));
        assert!(std::thread::scope(|scope| scope.spawn(|| passes(|| check(Slow::Close))).join().unwrap()));
        drop(outer);
        assert!(passes(|| check_free(usize::MAX)) && passing() == [true; 5]);
    }
}
