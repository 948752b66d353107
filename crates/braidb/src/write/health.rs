//! Whether the database may still be written: open, poisoned by a failure, or closed.

use crate::base::error::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Shared by everything that writes.
#[derive(Debug, Default)]
pub struct Health {
    /// Why nothing may be written: a failure, or an open that only reads ([`Error::ReadOnly`]).
    poison: OnceLock<Arc<Error>>,
    closed: AtomicBool,
}

impl Health {
    /// Refuses when the database is closed.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Refuses when the database is closed or poisoned.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.check_unpoisoned()
    }

    /// Refuses when the database is poisoned. The last steps of a database that is being closed check only this.
    pub fn check_unpoisoned(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |cause| Err(refusal(cause)))
    }

    /// Makes the database in `dir` refuse all writes, as one that was opened to read.
    pub fn begin_read_only(&self, dir: &Path) {
        let _ = self.poison.set(Arc::new(Error::ReadOnly { path: dir.to_owned() }));
    }

    /// Whether the database was opened to read.
    pub fn is_read_only(&self) -> bool {
        self.poison.get().is_some_and(|cause| matches!(**cause, Error::ReadOnly { .. }))
    }

    /// Ends writing after a failed append or sync of a log or the manifest: what is on disk is unknown (rule 13). Nothing is
    /// retried. Returns the error that the writer gets.
    pub fn poison(&self, cause: Error) -> Error {
        if let Error::Poisoned { .. } = cause {
            return cause;
        }
        refusal(self.poison.get_or_init(|| Arc::new(cause)))
    }

    /// Ends writing after a panic in a thread that wrote: what the thread left half done is unknown.
    pub fn poison_after_panic(&self) -> Error {
        self.poison(Error::panicked("finish a write to", Path::new("the database")))
    }

    /// The failure that ended writing.
    pub fn cause(&self) -> Option<&Error> {
        self.poison.get().map(Arc::as_ref).filter(|_| !self.is_read_only())
    }

    /// Closes the database; returns whether it was open.
    pub fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }
}

/// The error of a write that `cause` refuses.
fn refusal(cause: &Arc<Error>) -> Error {
    match &**cause {
        read_only @ Error::ReadOnly { .. } => read_only.clone(),
        _ => Error::Poisoned { cause: cause.clone() },
    }
}
