//! Foreground locks: mutexes that a put or a get takes, so no holder may do slow work.
//!
//! No file is closed, unmapped, unlinked, punched or synced under a foreground lock, and no more than 1 MiB of memory is freed. A holder
//! moves values that are to be dropped out of the locked data, and drops them after it has released the lock. Debug builds check this: a
//! thread that holds such a lock is marked, and files and large owners of memory look for the mark ([`braidb_storage::foreground`]).

use braidb_storage::foreground::{self, Held};
use braidb_storage::locks::{Mutex, MutexGuard, RwLock};
use std::ops::{Deref, DerefMut};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A mutex that is a foreground lock: the thread that holds it is marked.
#[derive(Debug, Default)]
pub struct ForegroundMutex<T>(Mutex<T>);

/// The lock of a [`ForegroundMutex`].
pub type ForegroundGuard<'a, T> = Marked<MutexGuard<'a, T>>;

/// A foreground lock for many readers or one writer: threads that hold it are marked.
#[derive(Debug, Default)]
pub struct ForegroundRwLock<T>(RwLock<T>);

/// A guard and the mark of its holder.
#[derive(Debug)]
pub struct Marked<G> {
    guard: G,
    _held: Held,
}

impl<G> Marked<G> {
    #[inline]
    fn new(guard: G) -> Marked<G> {
        Marked { guard, _held: foreground::enter() }
    }
}

impl<T> ForegroundMutex<T> {
    pub fn new(value: T) -> ForegroundMutex<T> {
        ForegroundMutex(Mutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> ForegroundGuard<'_, T> {
        Marked::new(self.0.lock())
    }

    #[inline]
    pub fn try_lock(&self) -> Option<ForegroundGuard<'_, T>> {
        self.0.try_lock().map(Marked::new)
    }

    #[inline]
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl<T> ForegroundRwLock<T> {
    #[inline]
    pub fn read(&self) -> Marked<RwLockReadGuard<'_, T>> {
        Marked::new(self.0.read())
    }

    #[inline]
    pub fn write(&self) -> Marked<RwLockWriteGuard<'_, T>> {
        Marked::new(self.0.write())
    }
}

impl<G: Deref> Deref for Marked<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Marked<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}
