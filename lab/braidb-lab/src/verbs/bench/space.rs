//! Resources that a workload's database takes: space on disk, files, levels.

use crate::figures::ratio;
use crate::host::files;
use braidb::Db;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state after a workload. Space is what the file system has allocated: holes count as freed, and logs count with the space that is
/// reserved for them.
#[derive(Debug)]
pub struct Space {
    /// Allocated bytes of all files.
    pub allocated_bytes: u64,
    /// Bytes of the keys and values that a reader can see.
    pub live_bytes: u64,
    pub table_files: u64,
    /// Allocated bytes of all tables.
    pub table_bytes: u64,
    /// The number of levels that hold something.
    pub levels: u64,
}

impl Space {
    pub fn of(db: &Db, dir: &Path, live_bytes: u64) -> Space {
        let files = files::allocated_in(dir).unwrap_or_default();
        let tables = || files.iter().filter(|(name, _)| name.ends_with(".table"));
        let tree = db.tree();
        let levels = tree.iter().flat_map(|family| &family.levels);
        let filled = levels.filter(|level| level.cells.iter().any(|cell| !cell.runs.is_empty()));
        Space {
            allocated_bytes: files.iter().map(|(_, bytes)| bytes).sum(),
            live_bytes,
            table_files: tables().count() as u64,
            table_bytes: tables().map(|(_, bytes)| bytes).sum(),
            levels: filled.map(|level| level.level).collect::<BTreeSet<_>>().len() as u64,
        }
    }

    /// Bytes on disk for each live byte.
    pub fn amplification(&self) -> f64 {
        ratio(self.allocated_bytes, self.live_bytes)
    }
}

/// The worst samples while a workload ran.
#[derive(Debug, Default)]
pub struct Worst {
    /// Bytes allocated for all files; 0 if nothing was sampled.
    directory_bytes: AtomicU64,
    /// Bytes allocated for value files; 0 if nothing was sampled.
    value_file_bytes: AtomicU64,
    /// Space amplification in thousandths; 0 if nothing was sampled.
    space_amplification: AtomicU64,
}

impl Worst {
    /// Samples the machine. `live_bytes` is 0 while the live bytes grow, as in a fill.
    pub fn sample(&self, dir: &Path, live_bytes: u64) {
        if live_bytes == 0 {
            return;
        }
        let files = files::allocated_in(dir).unwrap_or_default();
        let allocated: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        self.directory_bytes.fetch_max(allocated, Ordering::Relaxed);
        let value_files = files.iter().filter(|(name, _)| name.ends_with(".values"));
        self.value_file_bytes.fetch_max(value_files.map(|(_, bytes)| bytes).sum(), Ordering::Relaxed);
        let permille = (allocated * 1000).div_ceil(live_bytes);
        self.space_amplification.fetch_max(permille, Ordering::Relaxed);
    }

    pub fn space_amplification(&self) -> f64 {
        self.space_amplification.load(Ordering::Relaxed) as f64 / 1000.0
    }

    pub fn directory_bytes(&self) -> u64 {
        self.directory_bytes.load(Ordering::Relaxed)
    }

    pub fn value_file_bytes(&self) -> u64 {
        self.value_file_bytes.load(Ordering::Relaxed)
    }
}
