//! A lock that this process holds. The state keeps who may share it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::SimFs;
use crate::LockGuard;
use crate::foreground::{self, Slow};

/// Held until the drop.
#[derive(Debug)]
pub(super) struct SimLock {
    fs: SimFs,
    id: u64,
    path: Arc<Path>,
}

impl SimLock {
    pub fn new(fs: SimFs, id: u64, path: &Path) -> SimLock {
        SimLock { fs, id, path: path.into() }
    }
}

impl LockGuard for SimLock {
    /// Counts as no operation: it changes nothing, and no fault strikes it.
    fn is_in_place(&self) -> io::Result<bool> {
        match self.fs.shared.state.lock().names.now.file(&self.path) {
            Ok(id) => Ok(id == self.id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        foreground::check(Slow::Close);
        self.fs.shared.state.lock().unlock(self.id);
    }
}
