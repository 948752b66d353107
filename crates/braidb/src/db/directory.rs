//! The directory of a database or of a tier. Makes the names on its path survive a power failure. Keeps the directory open, even if the
//! path leads elsewhere later.

use crate::base::error::{Error, Result};
use braidb_storage::Env;
use std::io;
use std::path::Path;

/// Makes the names of the directory and of all directories above it stable. A killed process may have created them without a sync. A
/// power failure would then take them, with everything in them.
pub(super) fn sync_ancestors(env: &Env, dir: &Path) -> io::Result<()> {
    for parent in dir.ancestors().skip(1) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match env.fs.sync_dir(parent) {
            // A process of this user did not create a directory that this user may not open, so it has no new name to sync there.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Binds `env.fs` to the directory that `dir` leads to now: all files are opened there from here on. Another process may have replaced the
/// directory after its ancestors were synced. Then the other process had to make the name stable, and nothing that this process writes
/// depends on the name.
pub(super) fn hold(env: &mut Env, dir: &Path) -> Result<()> {
    env.fs = env.fs.hold_dir(dir).map_err(|error| Error::io("open the directory", dir, error))?;
    Ok(())
}
