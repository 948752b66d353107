//! The holes in tables, as the file system saw them. A thread that has punched a hole sometimes yields before it counts the hole. Meanwhile
//! other threads look for holes too.

use braidb_storage::sim::Beside;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Calls of `yield_now` after every other hole in a table. 50 are enough for other threads to collect garbage in between.
const GIVES_WAY: usize = 50;

/// Holes by table.
#[derive(Debug, Default)]
pub struct Holes(Mutex<BTreeMap<PathBuf, Vec<Range<u64>>>>);

impl Holes {
    /// Bytes of tables that at least one hole covers.
    pub fn bytes(&self) -> u64 {
        let mut bytes = 0;
        for holes in self.0.lock().values_mut() {
            holes.sort_by_key(|hole| hole.start);
            let mut end = 0;
            for hole in holes.iter() {
                bytes += hole.end.saturating_sub(hole.start.max(end));
                end = end.max(hole.end);
            }
        }
        bytes
    }
}

impl Beside for Holes {
    fn punched(&self, path: &Path, hole: Range<u64>) {
        let made = {
            let mut holes = self.0.lock();
            let of_table = holes.entry(path.to_owned()).or_default();
            of_table.push(hole);
            of_table.len()
        };
        if made % 2 == 1 {
            (0..GIVES_WAY).for_each(|_| std::thread::yield_now());
        }
    }
}
