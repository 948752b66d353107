//! The public interface of the model.

use std::fmt;
use std::sync::Arc;

use braidb_storage::Env;
use braidb_storage::inline::SeededRandom;
use parking_lot::Mutex;

use crate::figures::Figures;
use crate::fs::ModelFs;
use crate::kernel::State;
use crate::profile::Profile;
use crate::runtime::{ModelClock, ModelRuntime};

/// A machine with one device, on virtual time. For one user thread.
///
/// ```
/// use braidb_device::{Model, Profile};
/// let model = Model::new(Profile::HDD, 1 << 30, 64 << 20, 1, 7);
/// let env = model.env();
/// let file = env.fs.create("a".as_ref())?;
/// file.append(&[7; 4096])?;
/// file.sync_data()?;
/// // The page and the barrier: two accesses of 1/60 s, and the transfers.
/// assert_eq!(model.figures().busy_ns, 2 * (16_666_666 + 27_307));
/// assert_eq!(env.clock.now_us(), model.now_ns() / 1_000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    state: Arc<Mutex<State>>,
    runtime: Arc<ModelRuntime>,
    random: Arc<SeededRandom>,
    profile: Profile,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("profile", &self.profile.name())
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

impl Model {
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
    ) -> Model {
        let state = Arc::new(Mutex::new(State::new(profile, device_bytes, page_cache_bytes, workers)));
        let runtime = Arc::new(ModelRuntime { state: state.clone() });
        Model { state, runtime, random: Arc::new(SeededRandom::new(seed)), profile }
    }

    /// The seams of this model. All calls return handles to one machine.
    pub fn env(&self) -> Env {
        Env {
            fs: Arc::new(ModelFs { state: self.state.clone(), held: None }),
            clock: Arc::new(ModelClock { state: self.state.clone() }),
            random: self.random.clone(),
            runtime: self.runtime.clone(),
        }
    }

    /// The times of the device.
    pub fn profile(&self) -> Profile {
        self.profile
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

    /// All figures up to now.
    pub fn figures(&self) -> Figures {
        self.state.lock().figures()
    }
}
