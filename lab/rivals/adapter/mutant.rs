//! A mutant of the engine: a bug that is active on every thread that calls the engine, or puts that are slower.
//!
//! The engine reads from a thread-local variable which mutant is active, so each thread of a workload sets it before its first call.
//! Threads of the engine itself have no mutant. Without the feature `mutants` nothing of this is compiled.

use braidb_bench::{Outcome, Store};

/// The name of the mutant that slows puts. `slow_put:NANOSECONDS` makes each put take NANOSECONDS longer.
const SLOW_PUT: &str = "slow_put:";

/// A mutant of the linked engine, or none.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    #[cfg(feature = "mutants")]
    name: Option<&'static str>,
}

impl Mutant {
    /// Finds a mutant by its name. `slow_put:NANOSECONDS` is active as soon as this function returns.
    ///
    /// # Errors
    ///
    /// The engine has no such mutant, or is built without mutants.
    #[cfg(feature = "mutants")]
    pub fn find(name: Option<&str>) -> Outcome<Mutant> {
        let Some(name) = name else { return Ok(Mutant { name: None }) };
        if let Some(nanoseconds) = name.strip_prefix(SLOW_PUT) {
            let nanoseconds: u32 = nanoseconds.parse().map_err(|_| {
                format!("mutant={name}: write {SLOW_PUT}NANOSECONDS, a whole number below 4,294,967,296")
            })?;
            slow_puts(nanoseconds)?;
            return Ok(Mutant { name: None });
        }
        match braidb::mutants::ALL.iter().find(|(known, _)| *known == name) {
            Some((known, _)) => Ok(Mutant { name: Some(known) }),
            None => Err(has_not(name)),
        }
    }

    /// Accepts no mutant, because the engine is built without mutants.
    #[cfg(not(feature = "mutants"))]
    pub fn find(name: Option<&str>) -> Outcome<Mutant> {
        match name {
            None => Ok(Mutant {}),
            Some(name) => {
                Err(format!("--mutant {name}: this driver has no mutants, {SLOW_PUT} neither").into())
            }
        }
    }

    /// Makes the mutant active on the calling thread. Sides without a mutant pay for the check of the engine as well.
    #[cfg(feature = "mutants")]
    pub fn plant(self) {
        std::thread_local! {
            static IS_PLANTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
        }
        if !IS_PLANTED.get() {
            braidb::mutants::activate(self.name);
            IS_PLANTED.set(true);
        }
    }

    #[cfg(not(feature = "mutants"))]
    pub fn plant(self) {}
}

/// A store that plants the mutant on each thread before the thread's first call.
pub struct Planted<S> {
    pub store: S,
    pub mutant: Mutant,
}

impl<S: Store> Store for Planted<S> {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        self.mutant.plant();
        self.store.put(family, key, value)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        self.mutant.plant();
        self.store.delete(family, key)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.mutant.plant();
        self.store.get(family, key, see)
    }

    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        self.mutant.plant();
        self.store.scan(family, from, limit, see)
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        self.store.settle(mark)
    }

    fn counts(&self) -> Vec<(String, u64)> {
        self.store.counts()
    }
}

#[cfg(feature = "mutants")]
fn has_not(mutant: &str) -> Box<dyn std::error::Error + Send + Sync> {
    let engine = env!("BRAIDB_ENGINE_NAME");
    format!("the engine of {engine} has no mutant {mutant}; see its crates/braidb/src/base/mutant.rs").into()
}

/// Makes each put spin for this time.
#[cfg(all(feature = "mutants", has_slow_puts))]
fn slow_puts(nanoseconds: u32) -> Outcome {
    /// Rounds of a trial. A trial takes about a tenth of a millisecond.
    const TRIAL_ROUNDS: u32 = 1 << 16;
    /// The number of trials. The shortest counts, because other work on the machine makes a trial longer and never shorter.
    const TRIALS: u32 = 50;
    let trial = |_| {
        let start = std::time::Instant::now();
        braidb::mutants::spin(TRIAL_ROUNDS);
        start.elapsed()
    };
    let shortest = (0..TRIALS).map(trial).min().ok_or("no trial was made")?;
    let round_ns = shortest.as_nanos().max(1) as f64 / f64::from(TRIAL_ROUNDS);
    braidb::mutants::slow_puts((f64::from(nanoseconds) / round_ns).round() as u32);
    Ok(())
}

#[cfg(all(feature = "mutants", not(has_slow_puts)))]
fn slow_puts(_nanoseconds: u32) -> Outcome {
    Err(has_not(SLOW_PUT))
}
