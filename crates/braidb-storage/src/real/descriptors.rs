//! The descriptors of this process: the kernel's limit, those in use, and the one [`Descriptors`] of all databases.

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustix::process::{Resource, getrlimit};

use super::forks;
use crate::Descriptors;

/// The descriptors of one process. `generation` tells it from its forked children.
struct Process {
    generation: u32,
    descriptors: Arc<Descriptors>,
}

/// The entry of the process that asked last. A forked child finds its parent's entry here, and replaces it: a thread that the
/// child does not have may have locked it.
static PROCESS: ArcSwapOption<Process> = ArcSwapOption::const_empty();

/// The descriptors of this process, as they were measured last.
pub(super) fn current() -> Arc<Descriptors> {
    let generation = forks::generation();
    loop {
        let known = PROCESS.load();
        if let Some(process) = known.as_ref().filter(|process| process.generation == generation) {
            return process.descriptors.clone();
        }
        let new = Process { generation, descriptors: Arc::default() };
        PROCESS.compare_and_swap(&known, Some(Arc::new(new)));
    }
}

/// The descriptors of this process, measured now.
pub(super) fn measured() -> Arc<Descriptors> {
    let descriptors = current();
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        descriptors.measured(limit, open());
    }
    descriptors
}

/// The descriptors that are open now.
fn open() -> u64 {
    match fs::read_dir("/proc/self/fd") {
        // One of the entries is the descriptor that reads the directory.
        Ok(entries) => entries.count().saturating_sub(1) as u64,
        // A new descriptor has the lowest free number, so its number tells about how many are open.
        Err(_) => fs::File::open("/").map_or(u64::MAX, |file| file.as_raw_fd() as u64),
    }
}
