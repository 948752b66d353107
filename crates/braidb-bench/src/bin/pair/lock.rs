//! Two measurements do not run at the same time.
//!
//! The lock is one file for the whole machine. Measurements of other clones and worktrees take the same processors, so a lock of the
//! repository would not keep them apart. `flock` holds it, so the lock of a process that dies is free, and shell scripts can take it too
//! (see `measuring` in scripts/accept/common.sh).

use crate::host::{self, Lock};
use braidb_bench::Outcome;
use std::path::PathBuf;

/// Where the lock is, unless [`ELSEWHERE`] says otherwise.
const FILE: &str = "/tmp/braidb-measuring.lock";

/// Another file to lock: tests of this tool measure nothing, and so wait for no measurement.
const ELSEWHERE: &str = "BRAIDB_MEASURING_LOCK";

/// Set by a script that has the lock for all commands which it starts.
const HELD: &str = "BRAIDB_MEASURING";

/// Waits until nothing else measures. Other measurements wait until the lock is dropped. `None`: the script that started this process has
/// the lock.
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
