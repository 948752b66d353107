//! A whole simulated environment from one seed.

use std::sync::Arc;

use braidb_storage::Env;
use braidb_storage::inline::{Inline, SeededRandom, StepClock};

use braidb_storage::sim::SimFs;

/// An [`Env`] over a new [`SimFs`], and the two parts of it that a test controls.
///
/// ```
/// use braidb_sim::sim_env;
///
/// let (env, fs, runtime) = sim_env(7);
/// env.fs.create("greeting".as_ref())?.append(b"hello")?;
/// assert_eq!(fs.read_file("greeting".as_ref())?, b"hello");
/// assert_eq!(runtime.pending(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn sim_env(seed: u64) -> (Env, Arc<SimFs>, Arc<Inline>) {
    let fs = Arc::new(SimFs::new());
    let (env, runtime) = env_over(Arc::clone(&fs), seed);
    (env, fs, runtime)
}

/// An [`Env`] over an existing file system, such as a crash image.
pub fn env_over(fs: Arc<SimFs>, seed: u64) -> (Env, Arc<Inline>) {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(Arc::clone(&clock)));
    let random = Arc::new(SeededRandom::new(seed));
    let env = Env { fs, clock, random, runtime: Arc::clone(&runtime) as Arc<_> };
    (env, runtime)
}
