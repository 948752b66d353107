//! An open database, as all handles of a binding share it.

use braidb::storage::real::RealFs;
use braidb::storage::{FileSystem, Process};
use braidb::{Db, Error, Result};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of the next open in this process.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// What all handles of one open database share.
#[derive(Debug)]
pub struct Opened {
    pub db: Db,
    /// A number that no other open in this process has.
    pub id: u64,
    process: Process,
    is_closed: AtomicBool,
}

impl Opened {
    /// Opens a database by `open`. Fails with `Io` if the process cannot register for forks.
    pub fn new<E: From<Error>>(
        unregistered: impl FnOnce(io::Error) -> E,
        open: impl FnOnce() -> std::result::Result<Db, E>,
    ) -> std::result::Result<Opened, E> {
        // Before the open: what a child inherits was opened by its parent.
        let process = RealFs.process().map_err(unregistered)?;
        let db = open()?;
        let id = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Opened { db, id, process, is_closed: AtomicBool::new(false) })
    }

    /// Fails in a forked child, and after [`Opened::close`]. Some calls of the engine return no error, and handles have locks of their own,
    /// so each function of a binding asks here first.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.check_process()?;
        if self.is_closed() {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Fails in a forked child.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        match self.process.is_forked() {
            false => Ok(()),
            true => Err(Error::Forked { path: self.db.path().to_owned() }),
        }
    }

    /// Whether [`Opened::close`] has ended.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Closes the database. It is closed after an error too.
    pub fn close(&self) -> Result<()> {
        self.check_process()?;
        let outcome = self.db.close();
        self.is_closed.store(true, Ordering::Release);
        outcome
    }
}
