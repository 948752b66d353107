//! The public interface of the testbed.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use braidb_storage::Env;
use braidb_storage::inline::SeededRandom;
use parking_lot::Mutex;

use crate::figures::{DeviceFigures, Figures};
use crate::fs::TestbedFs;
use crate::kernel::{FIRST, State};
use crate::profile::Profile;
use crate::runtime::{TestbedClock, TestbedRuntime};
use crate::scatter::Scatter;

/// A device of a [`Testbed`].
///
/// ```
/// use braidb_device::{DeviceId, Testbed, Profile};
/// let testbed = Testbed::new(Profile::NVME, 1 << 30, 64 << 20, 1, 7);
/// let slow = testbed.add_device("/slow".as_ref(), Profile::HDD, 4 << 30)?;
/// assert_ne!(slow, DeviceId::FIRST);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(usize);

impl DeviceId {
    /// The device of [`Testbed::new`].
    pub const FIRST: DeviceId = DeviceId(FIRST);
}

/// A machine on virtual time, with one device unless [`Testbed::add_device`] adds more. For one user thread.
///
/// ```
/// use braidb_device::{Testbed, Profile};
/// let testbed = Testbed::new(Profile::HDD, 1 << 30, 64 << 20, 1, 7);
/// let env = testbed.env();
/// let file = env.fs.create("a".as_ref())?;
/// file.append(&[7; 4096])?;
/// file.sync_data()?;
/// // The page and the barrier: two accesses of 1/60 s, and the transfers.
/// assert_eq!(testbed.figures().devices.busy_ns, 2 * (16_666_666 + 27_307));
/// assert_eq!(env.clock.now_us(), testbed.now_ns() / 1_000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Testbed {
    state: Arc<Mutex<State>>,
    runtime: Arc<TestbedRuntime>,
    random: Arc<SeededRandom>,
}

impl fmt::Debug for Testbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Testbed")
            .field("profile", &self.profile().name())
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

impl Testbed {
    /// An empty device of `device_bytes` with a page cache of `page_cache_bytes`. `workers` background threads merge;
    /// one flushes, and one compacts memory. `seed` is the seed of [`Env::random`]; the device itself draws no random
    /// numbers.
    ///
    /// # Panics
    ///
    /// If a size is not between 256 KiB and 16 TiB, or there are no workers.
    pub fn new(
        profile: Profile,
        device_bytes: u64,
        page_cache_bytes: u64,
        workers: usize,
        seed: u64,
    ) -> Testbed {
        let state = Arc::new(Mutex::new(State::new(profile, device_bytes, page_cache_bytes, workers)));
        let runtime = Arc::new(TestbedRuntime { state: state.clone() });
        Testbed { state, runtime, random: Arc::new(SeededRandom::new(seed)) }
    }

    /// The seams of this testbed. All calls return handles to one machine.
    pub fn env(&self) -> Env {
        Env {
            fs: Arc::new(TestbedFs { state: self.state.clone(), held: None }),
            clock: Arc::new(TestbedClock { state: self.state.clone() }),
            random: self.random.clone(),
            runtime: self.runtime.clone(),
        }
    }

    /// The times of the first device.
    pub fn profile(&self) -> Profile {
        self.state.lock().profile(FIRST)
    }

    /// Adds an empty device of `bytes` for the files below `dir`, and creates `dir` with its missing parents. The device
    /// has a space, a journal, an arm and a queue of its own; the page cache is shared. A file cannot be renamed or
    /// linked into the directory of another device: such a call fails with `CrossesDevices`.
    ///
    /// Fails with `DirectoryNotEmpty` if `dir` has names or is the root, and with `NotADirectory` if a file is in the
    /// way.
    ///
    /// ```
    /// use braidb_device::{Testbed, Profile};
    /// let testbed = Testbed::new(Profile::NVME, 1 << 30, 64 << 20, 1, 7);
    /// let slow = testbed.add_device("/slow".as_ref(), Profile::HDD, 4 << 30)?;
    /// let file = testbed.env().fs.create("/slow/a".as_ref())?;
    /// file.append(&[7; 4096])?;
    /// file.sync_data()?;
    /// // The page, and the write of the slow device's journal.
    /// assert_eq!(testbed.figures_of(slow).writes, 2);
    /// assert_eq!(testbed.figures_of(slow).busy_ns, testbed.figures().devices.busy_ns);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the size is not between 256 KiB and 16 TiB.
    pub fn add_device(&self, dir: &Path, profile: Profile, bytes: u64) -> io::Result<DeviceId> {
        self.state.lock().add_device(dir, profile, bytes).map(DeviceId)
    }

    /// Adds a device that caches pages of the first one, below the page cache (`kernel/flash.rs`). A page that the page cache
    /// misses is read from this device if it has a copy. Otherwise the first device reads it, and this device writes a
    /// copy. The least recently used copies make room.
    ///
    /// ```
    /// use braidb_device::{DeviceId, Testbed, Profile};
    /// let testbed = Testbed::new(Profile::HDD, 1 << 30, 64 << 20, 1, 7);
    /// let flash = testbed.cache_on(Profile::NVME, 16 << 20);
    /// let file = testbed.env().fs.create("a".as_ref())?;
    /// file.append(&[7; 4096])?;
    /// file.sync_data()?;
    /// for _ in 0..3 {
    ///     testbed.drop_cache();
    ///     file.read_exact_at(0, &mut [0; 4096])?;
    /// }
    /// assert_eq!(testbed.figures_of(DeviceId::FIRST).reads, 1);
    /// assert_eq!((testbed.figures_of(flash).writes, testbed.figures_of(flash).reads), (1, 2));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the size is not between 1 MiB and 16 TiB, or the testbed has such a cache.
    pub fn cache_on(&self, profile: Profile, bytes: u64) -> DeviceId {
        DeviceId(self.state.lock().cache_on(profile, bytes))
    }

    /// Puts new tables and value files (names that end in `.table` or `.values`) on the first device with a chance of
    /// `first_percent`, else on the second, whatever their directory. The hash of the file's name and `seed` decide.
    /// Names, and all other files, stay on the device of their directory.
    /// `free_space` still tells of the device of the directory, so both devices should have enough space.
    ///
    /// ```
    /// use braidb_device::{DeviceId, Testbed, Profile};
    /// let testbed = Testbed::new(Profile::NVME, 1 << 30, 64 << 20, 1, 7);
    /// let slow = testbed.add_device("/slow".as_ref(), Profile::HDD, 1 << 30)?;
    /// testbed.scatter(7, 0);
    /// let file = testbed.env().fs.create("/000001.table".as_ref())?;
    /// file.append(&[7; 4096])?;
    /// file.sync_data()?;
    /// assert_eq!((testbed.figures_of(DeviceId::FIRST).writes, testbed.figures_of(slow).writes), (0, 2));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the testbed has not two devices for files, or `first_percent` is over 100.
    pub fn scatter(&self, seed: u64, first_percent: u64) {
        self.state.lock().scatter(Scatter::new(seed, first_percent));
    }

    /// The clock of the current actor: outside of jobs, the foreground.
    pub fn now_ns(&self) -> u64 {
        self.state.lock().actors.now_ns()
    }

    /// The current actor computes for `ns`. A benchmark charges each operation of the engine with this, because calls
    /// at the seam charge only their own cost.
    pub fn charge_cpu_ns(&self, ns: u64) {
        self.state.lock().actors.charge(ns);
    }

    /// The foreground idles until `now_ns`, as in a benchmark with a fixed rate of operations.
    pub fn idle_until_ns(&self, now_ns: u64) {
        self.state.lock().actors.wait_until(now_ns);
    }

    /// Runs the jobs whose expected end is not later than now. A job is expected to take the usual time of its lane,
    /// from its submission or from when a worker was free. A benchmark calls this before each operation, so effects
    /// appear about when they would on threads.
    pub fn step(&self) {
        self.runtime.run_due();
    }

    /// The foreground waits for the ends of all jobs that ran. The engine counts a job as done as soon as it ran, so a
    /// benchmark calls this after `settle`.
    pub fn wait_for_jobs(&self) {
        let mut state = self.state.lock();
        let latest_ns = state.actors.latest_ns();
        state.actors.wait_until(latest_ns);
    }

    /// Drops all clean pages from the page cache, as `echo 1 > /proc/sys/vm/drop_caches` does.
    pub fn drop_cache(&self) {
        self.state.lock().drop_cache();
    }

    /// All figures up to now, over all devices.
    pub fn figures(&self) -> Figures {
        self.state.lock().figures()
    }

    /// The figures of one device up to now.
    ///
    /// # Panics
    ///
    /// If the device belongs to a testbed with more devices.
    pub fn figures_of(&self, device: DeviceId) -> DeviceFigures {
        self.state.lock().device_figures(device.0)
    }
}
