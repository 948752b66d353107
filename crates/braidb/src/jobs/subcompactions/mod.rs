//! The parts of one large merge, for as many threads as have time for them.
//!
//! The owner is the thread that carries out the merge. It lays out the parts, asks another thread for help, and works at the parts
//! itself until none is left. A helper that comes before then takes a part. So the owner never waits for a job that is still
//! queued: at the end it waits only for parts that a helper has begun.
//!
//! Threads begin the parts in order, and the owner collects the outcomes in order. After the first failure no part is begun.

use super::running::{Running, Work};
use super::{Catalog, Jobs};
use crate::base::error::{Error, Result};
use crate::write::Health;
use braidb_storage::Lane;
use braidb_storage::locks::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Parts `T`, each of which is to become an `R`.
pub struct Subcompactions<T, R> {
    state: Mutex<State<T, R>>,
    /// Signalled when a thread ends its work at a part.
    ended: Condvar,
    health: Arc<Health>,
}

struct State<T, R> {
    /// Parts that no thread has begun, with their numbers.
    ready: VecDeque<(usize, T)>,
    /// Number of parts that threads work at.
    taken: usize,
    done: BTreeMap<usize, R>,
    failure: Option<Error>,
}

impl<T, R> Subcompactions<T, R> {
    /// Does the next part; `false` if none is left.
    pub fn work(&self, make: impl FnOnce(T) -> Result<R>) -> bool {
        let (number, part) = {
            let mut state = self.state.lock();
            let Some(next) = state.ready.pop_front() else { return false };
            state.taken += 1;
            next
        };
        let mut held = Held { parts: self, number, outcome: None };
        held.outcome = Some(make(part));
        true
    }

    /// Returns the first failure of a part, if there is one: after it the other parts need not go on.
    pub fn go_on(&self) -> Result<()> {
        self.state.lock().failure.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Keeps further parts from being begun.
    fn close(&self) {
        let rest = std::mem::take(&mut self.state.lock().ready);
        // Outside of the lock: parts hold files.
        drop(rest);
    }
}

/// A part that a thread works at.
struct Held<'a, T, R> {
    parts: &'a Subcompactions<T, R>,
    number: usize,
    /// `None` after a panic.
    outcome: Option<Result<R>>,
}

impl<T, R> Drop for Held<'_, T, R> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| Err(self.parts.health.poison_after_panic()));
        // Dropped outside of the lock: parts hold files.
        let mut never_begun = VecDeque::new();
        let mut state = self.parts.state.lock();
        state.taken -= 1;
        match outcome {
            Ok(made) => drop(state.done.insert(self.number, made)),
            Err(error) => {
                state.failure.get_or_insert(error);
                std::mem::swap(&mut state.ready, &mut never_begun);
            }
        }
        drop(state);
        self.parts.ended.notify_all();
    }
}

/// The owner's handle. When it drops, no thread begins another part.
pub struct Owned<T, R>(Arc<Subcompactions<T, R>>);

impl<T, R> Owned<T, R> {
    pub fn new(parts: impl IntoIterator<Item = T>, health: Arc<Health>) -> Owned<T, R> {
        let ready = parts.into_iter().enumerate().collect();
        let state = State { ready, taken: 0, done: BTreeMap::new(), failure: None };
        Owned(Arc::new(Subcompactions { state: Mutex::new(state), ended: Condvar::new(), health }))
    }

    /// The parts, for a helping thread.
    pub fn share(&self) -> Arc<Subcompactions<T, R>> {
        self.0.clone()
    }

    /// The outcomes of the parts, in order, once no thread works at one; or the first failure.
    pub fn outcome(self) -> Result<Vec<R>> {
        self.close();
        let mut state = self.state.lock();
        while state.taken > 0 {
            self.ended.wait(&mut state);
        }
        let done = std::mem::take(&mut state.done);
        match state.failure.take() {
            None => Ok(done.into_values().collect()),
            Some(error) => Err(error),
        }
    }
}

impl<T, R> Deref for Owned<T, R> {
    type Target = Subcompactions<T, R>;

    fn deref(&self) -> &Subcompactions<T, R> {
        &self.0
    }
}

impl<T, R> Drop for Owned<T, R> {
    fn drop(&mut self) {
        self.close();
    }
}

impl Jobs {
    /// Whether a merge thread is idle.
    pub(super) fn has_idle_thread(&self) -> bool {
        self.catalog.lock().merges_on_threads() < self.parts.options.merges
    }

    /// Asks a merge thread to do a part, once it has time.
    pub(super) fn ask_for_help(self: &Arc<Self>, help: impl FnOnce(&Arc<Jobs>) + Send + 'static) {
        self.submit_help(self.catalog.lock(), help);
    }

    /// Calls `help`, counted as a job, so that a close waits for its end. Does nothing if the jobs have stopped.
    pub(super) fn help_unless_stopped(self: &Arc<Self>, help: impl FnOnce(&Arc<Jobs>)) {
        let mut catalog = self.catalog.lock();
        if !catalog.is_stopped() {
            catalog.job_began();
            drop(catalog);
            Running { jobs: self.clone(), work: Some(Work::Help) }.help(help);
        }
    }

    /// As [`Jobs::ask_for_help`], for a caller that holds the catalog. The call unlocks the catalog.
    pub(super) fn submit_help(
        self: &Arc<Self>,
        mut catalog: MutexGuard<'_, Catalog>,
        help: impl FnOnce(&Arc<Jobs>) + Send + 'static,
    ) {
        catalog.job_began();
        drop(catalog);
        let running = Running { jobs: self.clone(), work: Some(Work::Help) };
        self.parts.env.runtime.submit(Lane::Merge, Box::new(move || running.help(help)));
    }
}
