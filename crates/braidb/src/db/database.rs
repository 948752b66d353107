//! The open database that users hold. It refuses calls in a forked child, and closes the engine with its last clone.

use super::engine::Engine;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::mutant::mutant;
use braidb_storage::Process;
use std::fmt;
use std::mem;
use std::sync::Arc;

/// An open database: an ordered map from byte strings to byte strings, on disk.
///
/// A `Db` is cheap to clone and may be used from many threads. The database is closed when the last clone, column
/// family, snapshot, iterator, transaction and overlay is gone, or by [`Db::close`].
///
/// ```
/// use braidb::Db;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-db-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = Db::open(&dir)?;
/// db.put("plum", "blue")?;
/// db.put("pear", "green")?;
/// db.delete("plum")?;
/// assert_eq!(db.get("pear")?.unwrap(), b"green");
/// for entry in db.range("a".."z").rev() {
///     let (key, value) = entry?;
///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
/// }
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
///
/// # Forks
///
/// A process that is forked (`fork`, and so Python's `multiprocessing`, Ruby, PHP) keeps its databases, whatever the child does. In the
/// child every handle that was opened before the fork is dead:
///
/// - Calls return [`Error::Forked`], and iterators yield it. They read nothing, write nothing, and wait for nothing.
/// - Calls that return no `Result` answer without a look at the database: [`Db::column_families`] and [`Db::tree`] are empty, [`Db::stats`]
///   is empty but for `poisoned`, which has the error's text, and all reads of a snapshot fail. [`Db::path`] and [`Db::recovery`] tell what
///   the open found.
/// - Drops do nothing. The memory and descriptors of the handle stay with the child until it ends. So the space of files that the parent
///   deletes becomes free only when the child has ended.
/// - Values that were read before the fork stay readable, since the child has a copy of them. A child does not take the lock of a database
///   away from the process, and does not keep the lock after the process has ended.
///
/// The child may open other databases, and this one once the parent has closed it or ended. Writes with [`Durability::None`] that are only
/// in the parent's memory are never written by a child. Nothing of this concerns children of vfork and posix_spawn
/// (`std::process::Command`). A bare `clone` system call runs no handlers of `fork`, so a child of it must not touch a handle.
#[derive(Clone)]
pub struct Db {
    pub(super) handle: Arc<Handle>,
}

/// The part that the clones of a [`Db`] share. Dropping the last clone closes the database.
pub(super) struct Handle {
    /// The process that opened the database.
    process: Process,
    pub(super) engine: Arc<Engine>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.process.is_forked() {
            if mutant!("forked_drop_unlocks") {
                self.engine.shared.dir_lock.release();
            }
            if !mutant!("forked_drop_seals") {
                // This reference is never dropped, so a forked child does not drop the engine: its files, locks and threads belong to the
                // parent.
                mem::forget(Arc::clone(&self.engine));
                return;
            }
        }
        // Drop cannot return an error. A failed close leaves what a crash leaves, and the next open recovers from it.
        let _ = self.engine.close();
    }
}

impl Db {
    pub(super) fn from_engine(engine: Arc<Engine>, process: Process) -> Db {
        Db { handle: Arc::new(Handle { process, engine }) }
    }

    /// The engine. Fails in a forked child of the process that opened the database, before it takes a lock: a thread that does not exist in
    /// the child may hold the lock. Every call of a handle passes through here, except those that read what never changes, such as the path.
    #[inline]
    pub(super) fn engine(&self) -> Result<&Arc<Engine>> {
        match self.is_forked() {
            false => Ok(&self.handle.engine),
            true => Err(self.forked()),
        }
    }

    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        self.handle.process.is_forked()
    }

    #[cold]
    fn forked(&self) -> Error {
        Error::Forked { path: self.path().to_owned() }
    }

    /// Never changes, so a forked child may read it.
    pub(crate) fn durability(&self) -> Durability {
        self.handle.engine.durability()
    }

    /// Never changes, so a forked child may read it.
    pub(crate) fn identity(&self) -> u64 {
        self.handle.engine.identity()
    }
}
