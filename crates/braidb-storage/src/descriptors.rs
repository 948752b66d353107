//! How many file descriptors the readers of a process may hold, over all databases that the process has open.
//!
//! The kernel limits the descriptors of a process (`RLIMIT_NOFILE`). A read needs one for its file, and a file that stays open saves the
//! next read two calls. So each database has a [`Pool`] of open files. All pools of a process share one [`Descriptors`]: half of what is
//! free when a database opens. The other half is set aside for logs, manifests, and the files that flushes and merges write.
//!
//! If the kernel refuses to open a file for lack of a descriptor, [`Descriptors::insist`] closes the coldest file of a pool and tries
//! again. If reads hold all files of the pools, it waits for the end of a read, and no pool takes more files meanwhile. A read closes even
//! the last file of its own pool ([`Descriptors::insist_with`]). If the pool has no file, the read waits for about a second. So the limit
//! makes reads slower. A read fails only where the program leaves the database no descriptor for so long.
//!
//! A forked child gets a [`Descriptors`] of its own, because a thread that does not exist in the child may have locked the parent's.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::locks::{Condvar, Mutex};

use crate::foreground::{self, Slow};

/// Linux's number of "this process has too many open files".
pub(crate) const EMFILE: i32 = 24;
/// Linux's number of "the whole system has too many open files".
pub(crate) const ENFILE: i32 = 23;

/// The longest wait for the end of a read before the waiting thread looks again: 2 ms. A thread that comes to wait may miss the end of
/// one read.
const WAIT: Duration = Duration::from_millis(2);

/// How often a read without a descriptor looks again, 2 ms apart, where its pool has no file to close: about a second. Another thread may
/// have closed the last file and not opened its own yet, or the program may be about to give a descriptor back.
pub const PATIENCE: u32 = 500;

/// How often a write without a descriptor looks again, 2 ms apart, where no pool has a file to close: 0.1 seconds. A file that a read opens
/// at this moment belongs to no pool yet. A writer may hold the commit lock meanwhile, so this is shorter than [`PATIENCE`].
const PATIENCE_OF_WRITES: u32 = 50;

/// What became of a request to close a file.
///
/// ```
/// use braidb_storage::{Closing, Descriptors};
/// assert_eq!(Descriptors::default().close_coldest(), Closing::Empty);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A file was closed.
    Closed,
    /// Reads hold all files that could be closed. The end of a read closes one.
    Lent,
    /// There is no file to close.
    Empty,
}

/// The open files of one database.
///
/// ```
/// use braidb_storage::{Closing, Descriptors, Pool};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Busy;
/// impl Pool for Busy {
///     fn held(&self) -> u64 {
///         1
///     }
///     fn close_coldest(&self, _least: u64) -> Closing {
///         Closing::Lent
///     }
/// }
/// let (descriptors, busy) = (Descriptors::default(), Arc::new(Busy));
/// let pool: Arc<dyn Pool> = busy.clone();
/// descriptors.join(Arc::downgrade(&pool));
/// assert_eq!(descriptors.close_coldest(), Closing::Lent);
/// ```
pub trait Pool: Send + Sync + Debug {
    /// The number of open files.
    fn held(&self) -> u64;
    /// Closes the file that was not used for the longest time, if more than `least` files are open. If reads hold all of them, the end of the
    /// reads of one closes it.
    fn close_coldest(&self, least: u64) -> Closing;
}

/// The descriptors of one process, shared by the pools of its databases.
///
/// ```
/// use braidb_storage::{Descriptors, FileSystem, real::RealFs};
/// let descriptors = RealFs.descriptors();
/// println!("readers may hold {} files open", descriptors.most());
/// assert!(descriptors.most() >= 1);
/// ```
#[derive(Debug)]
pub struct Descriptors {
    /// Most files that all pools hold together.
    most: AtomicU64,
    held: AtomicU64,
    waiting: AtomicU64,
    /// Threads that wait in [`Descriptors::insist`] for the end of a read.
    insisting: AtomicU64,
    pools: Mutex<Vec<Weak<dyn Pool>>>,
    /// Notified at the end of a read while a thread waits.
    ended: (Mutex<()>, Condvar),
}

impl Default for Descriptors {
    /// No limit.
    fn default() -> Descriptors {
        Descriptors {
            most: AtomicU64::new(u64::MAX),
            held: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            insisting: AtomicU64::new(0),
            pools: Mutex::default(),
            ended: Default::default(),
        }
    }
}

impl Descriptors {
    /// The process has `open` descriptors now, those of the pools among them, and may have `limit`.
    pub fn measured(&self, limit: u64, open: u64) {
        let others = open.saturating_sub(self.held());
        self.most.store((limit.saturating_sub(others) / 2).max(1), Ordering::Relaxed);
    }

    /// Most files that all pools may hold together. As many descriptors are set aside for files that are written.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// The files that all pools hold now.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Adds the pool of a database.
    pub fn join(&self, pool: Weak<dyn Pool>) {
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// The databases that share the descriptors now, and 1 if there is none.
    pub fn databases(&self) -> u64 {
        let pools = self.pools.lock();
        pools.iter().filter(|pool| pool.strong_count() > 0).count().max(1) as u64
    }

    /// One more file for a pool that holds `own` files and wants at most `wanted`; `None` if a file has to be closed first. A pool may always
    /// hold one file. It gets no second one while a thread waits for a descriptor in [`Descriptors::insist`].
    pub fn share(self: &Arc<Self>, own: &Arc<AtomicU64>, wanted: u64) -> Option<Share> {
        let may_have = |held: u64| (held < self.most()).then_some(held + 1);
        let has_room = match own.fetch_add(1, Ordering::Relaxed) {
            0 => {
                self.held.fetch_add(1, Ordering::Relaxed);
                true
            }
            before => {
                before < wanted
                    && self.insisting.load(Ordering::Relaxed) == 0
                    && self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_have).is_ok()
            }
        };
        if !has_room {
            own.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Share { all: self.clone(), own: own.clone() })
    }

    /// Closes the coldest file of the pool that holds the most files, and else of another one. Leaves each pool one file, with which it can
    /// go on when other parts of the program have taken all descriptors.
    pub fn close_coldest(&self) -> Closing {
        let mut pools: Vec<Arc<dyn Pool>> = self.pools.lock().iter().filter_map(Weak::upgrade).collect();
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.held()));
        let mut outcome = Closing::Empty;
        for pool in pools {
            match pool.close_coldest(1) {
                Closing::Closed => return Closing::Closed,
                Closing::Lent => outcome = Closing::Lent,
                Closing::Empty => {}
            }
        }
        outcome
    }

    /// Waits for the end of a read, a few milliseconds at most.
    pub fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (lock, ended) = &self.ended;
        ended.wait_for(&mut lock.lock(), WAIT);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// A read has ended: its file may be closed.
    #[inline]
    pub fn read_ended(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.ended.1.notify_all();
        }
    }

    /// Carries out `open`. While it fails for lack of a descriptor, closes files of pools and tries again. As long as a thread waits here,
    /// the descriptor of a read that ended is given to no other read.
    pub fn insist<T>(&self, open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        // A new log is created under the commit lock. Files of pools have names, so closing one frees no blocks.
        let _allowed = foreground::allow(&[Slow::Close]);
        let mut insisting = None;
        let close = || {
            let closing = self.close_coldest();
            if closing == Closing::Lent {
                insisting.get_or_insert_with(|| Insisting::new(self));
            }
            closing
        };
        self.insist_with(close, PATIENCE_OF_WRITES, open)
    }

    /// Carries out `open`. While it fails for lack of a descriptor, calls `close` and tries again. Where there is nothing to close, looks
    /// again `patience` times, 2 ms apart, before it returns the error.
    pub fn insist_with<T>(
        &self,
        mut close: impl FnMut() -> Closing,
        mut patience: u32,
        mut open: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_shortage(&error) => match close() {
                    Closing::Closed => {}
                    Closing::Lent => self.wait(),
                    Closing::Empty if patience > 0 => {
                        patience -= 1;
                        pause();
                    }
                    Closing::Empty => return Err(error),
                },
                outcome => return outcome,
            }
        }
    }
}

/// Waits for [`WAIT`]. Unlike [`Descriptors::wait`], it does not return at the end of a read: reads of other databases end all the time.
fn pause() {
    let lock = Mutex::new(());
    Condvar::default().wait_for(&mut lock.lock(), WAIT);
}

/// Says that a thread waits for a descriptor, until it is dropped.
struct Insisting<'a>(&'a Descriptors);

impl Insisting<'_> {
    fn new(all: &Descriptors) -> Insisting<'_> {
        all.insisting.fetch_add(1, Ordering::Relaxed);
        Insisting(all)
    }
}

impl Drop for Insisting<'_> {
    fn drop(&mut self) {
        self.0.insisting.fetch_sub(1, Ordering::Relaxed);
        self.0.read_ended();
    }
}

/// Whether an open failed because the process, or the system, has too many open files.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// The right of a pool to hold one file. It ends with the drop.
///
/// ```
/// use braidb_storage::Descriptors;
/// use std::sync::Arc;
/// let (descriptors, own) = (Arc::new(Descriptors::default()), Arc::default());
/// let share = descriptors.share(&own, 16).expect("there is no limit");
/// assert_eq!(descriptors.held(), 1);
/// drop(share);
/// assert_eq!(descriptors.held(), 0);
/// ```
#[derive(Debug)]
pub struct Share {
    all: Arc<Descriptors>,
    own: Arc<AtomicU64>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::Relaxed);
        self.all.held.fetch_sub(1, Ordering::Relaxed);
        self.all.read_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool in which reads hold no file, or with `is_lent` all files.
    #[derive(Debug, Default)]
    struct Counted {
        own: Arc<AtomicU64>,
        shares: Mutex<Vec<Share>>,
        is_lent: bool,
    }

    impl Counted {
        fn joined(descriptors: &Arc<Descriptors>, is_lent: bool) -> Arc<Counted> {
            let pool = Arc::new(Counted { is_lent, ..Counted::default() });
            let weak: Weak<Counted> = Arc::downgrade(&pool);
            descriptors.join(weak);
            pool
        }

        /// Opens a file, if there is room.
        fn opens(&self, descriptors: &Arc<Descriptors>, wanted: u64) -> bool {
            let share = descriptors.share(&self.own, wanted);
            let is_open = share.is_some();
            self.shares.lock().extend(share);
            is_open
        }
    }

    impl Pool for Counted {
        fn held(&self) -> u64 {
            self.own.load(Ordering::Relaxed)
        }

        fn close_coldest(&self, least: u64) -> Closing {
            match self.held() {
                held if held <= least => Closing::Empty,
                _ if self.is_lent => Closing::Lent,
                _ => {
                    self.shares.lock().pop();
                    Closing::Closed
                }
            }
        }
    }

    #[test]
    fn pools_share_half_of_what_is_free() {
        let descriptors = Arc::new(Descriptors::default());
        descriptors.measured(24, 8);
        assert_eq!(descriptors.most(), 8);
        let [one, two] = [false; 2].map(|is_lent| Counted::joined(&descriptors, is_lent));
        let opened = (0..20).filter(|_| one.opens(&descriptors, 6)).count();
        assert_eq!((opened, one.held()), (6, 6), "a pool takes no more than it wants");
        let opened = (0..20).filter(|_| two.opens(&descriptors, 6)).count();
        assert_eq!((opened, descriptors.held()), (2, 8));
        descriptors.measured(24, 16);
        assert_eq!(descriptors.most(), 8, "what the pools hold counts as free");
        drop(one);
        assert_eq!(descriptors.held(), 2);
        let three = Counted::joined(&descriptors, false);
        descriptors.measured(10, 9);
        assert_eq!(descriptors.most(), 1);
        assert!(three.opens(&descriptors, 6), "every pool may hold one");
        assert!(!three.opens(&descriptors, 6));
    }

    #[test]
    fn the_largest_pool_closes_first_and_each_keeps_one() {
        let descriptors = Arc::new(Descriptors::default());
        let pools = [5, 3, 1].map(|files| {
            let pool = Counted::joined(&descriptors, false);
            (0..files).for_each(|_| assert!(pool.opens(&descriptors, 10)));
            pool
        });
        let held = || pools.each_ref().map(|pool| pool.held());
        for after in [[4, 3, 1], [3, 3, 1], [2, 3, 1], [2, 2, 1], [1, 2, 1], [1, 1, 1]] {
            assert_eq!((descriptors.close_coldest(), held()), (Closing::Closed, after));
        }
        assert_eq!((descriptors.close_coldest(), held()), (Closing::Empty, [1; 3]));
    }

    #[test]
    fn an_open_without_a_descriptor_closes_files_and_tries_again() {
        let descriptors = Arc::new(Descriptors::default());
        let pool = Counted::joined(&descriptors, false);
        (0..4).for_each(|_| assert!(pool.opens(&descriptors, 10)));
        let fails_above = |most: u64| {
            descriptors.insist(|| match descriptors.held() > most {
                true => Err(io::Error::from_raw_os_error(EMFILE)),
                false => Ok(descriptors.held()),
            })
        };
        assert_eq!(fails_above(2).unwrap(), 2);
        assert!(is_shortage(&fails_above(0).unwrap_err()), "nothing is left to close");
        let other = descriptors.insist(|| -> io::Result<()> { Err(io::ErrorKind::NotFound.into()) });
        assert_eq!((other.unwrap_err().kind(), descriptors.held()), (io::ErrorKind::NotFound, 1));
    }

    #[test]
    fn an_open_waits_for_reads_that_hold_all_files() {
        let descriptors = Arc::new(Descriptors::default());
        let [reads, other] = [true, false].map(|is_lent| Counted::joined(&descriptors, is_lent));
        (0..2).for_each(|_| assert!(reads.opens(&descriptors, 10)));
        let mut tries = 0;
        let opened = descriptors.insist(|| {
            tries += 1;
            match tries {
                2 => {
                    assert!(!reads.opens(&descriptors, 10), "the next descriptor is for this open");
                    assert!(other.opens(&descriptors, 10), "every pool may hold one");
                    other.shares.lock().clear();
                    return Err(io::Error::from_raw_os_error(EMFILE));
                }
                // The reads end.
                3 => reads.shares.lock().clear(),
                1 => return Err(io::Error::from_raw_os_error(ENFILE)),
                _ => {}
            }
            Ok(tries)
        });
        assert_eq!((opened.unwrap(), descriptors.held()), (3, 0));
        assert!((0..2).all(|_| reads.opens(&descriptors, 10)), "nothing holds the pool back afterwards");
    }

    #[test]
    fn an_open_with_patience_looks_again_where_nothing_can_be_closed() {
        let descriptors = Descriptors::default();
        let mut tries = 0;
        let mut opens_at = |which: u32| {
            tries = 0;
            descriptors.insist_with(
                || Closing::Empty,
                3,
                || {
                    tries += 1;
                    if tries == which { Ok(tries) } else { Err(io::Error::from_raw_os_error(EMFILE)) }
                },
            )
        };
        assert_eq!(opens_at(4).unwrap(), 4);
        assert!(is_shortage(&opens_at(5).unwrap_err()));
    }
}
