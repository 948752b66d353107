//! A lock that keeps two measurements from running at once.
//!
//! The lock is one file for the whole machine. Measurements of other clones and worktrees use the same processors, so a lock per repository
//! would not keep them apart. The lock is a `flock`, so the kernel frees the lock of a process that dies.

use super::host::{self, Lock};
use braidb_bench::Outcome;
use std::path::PathBuf;

/// The path of the lock, unless [`ELSEWHERE`] names another one.
const FILE: &str = "/tmp/braidb-measuring.lock";

/// The variable that names another file to lock. The tests of this tool measure nothing, so they need not wait for a measurement.
const ELSEWHERE: &str = "BRAIDB_MEASURING_LOCK";

/// The variable that `regress` sets for its commands while it holds the lock.
pub const HELD: &str = "BRAIDB_MEASURING";

/// Waits until no other measurement runs. Other measurements wait until the returned lock is dropped. `None` if the `regress` that
/// started this process has the lock.
pub fn acquire() -> Outcome<Option<Lock>> {
    if host::path_of(HELD).is_some() {
        return Ok(None);
    }
    let path = host::path_of(ELSEWHERE).unwrap_or_else(|| PathBuf::from(FILE));
    let command: Vec<String> = std::env::args().collect();
    let holder = format!("process {}: {}", std::process::id(), command.join(" "));
    let lock = host::lock(&path, &holder, |other| {
        eprintln!("pair: waits for a measurement ({}): {other}", path.display());
    })?;
    Ok(Some(lock))
}
