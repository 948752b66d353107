//! Files on a modelled machine, and jobs that read them.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use braidb_device::Testbed;
use braidb_storage::{Env, File, Job};

pub const MIB: u64 = 1 << 20;
pub const MS: u64 = 1_000_000;
/// A seek of the hard disk, and its transfer of a page, in ns.
pub const SEEK_NS: u64 = 16_666_666;
pub const PAGE_NS: u64 = 27_307;

pub fn path(name: &str) -> &Path {
    Path::new(name)
}

pub fn kind<T>(outcome: std::io::Result<T>) -> ErrorKind {
    outcome.err().expect("it is refused").kind()
}

pub fn create(env: &Env, name: &str) -> Arc<dyn File> {
    env.fs.create(Path::new(name)).unwrap()
}

/// A synced file of `mib` MiB, with an empty page cache.
pub fn stored(testbed: &Testbed, env: &Env, name: &str, mib: u64) -> Arc<dyn File> {
    let file = create(env, name);
    (0..mib).for_each(|_| file.append(&vec![7; MIB as usize]).unwrap());
    file.sync_data().unwrap();
    testbed.drop_cache();
    file
}

/// A job that reads a whole file, 1 MiB at a time.
pub fn reading(env: &Env, name: &'static str) -> Job {
    let env = env.clone();
    Box::new(move || {
        let (file, mut buf) = (env.fs.open(Path::new(name)).unwrap(), vec![0; MIB as usize]);
        let mut at = 0;
        while at < file.len().unwrap() {
            at += file.read_at(at, &mut buf).unwrap() as u64;
        }
    })
}
