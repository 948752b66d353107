//! The open files of tables, and of logs that tables point into: at most a fixed number, whatever the number of files.
//!
//! An open table keeps its index and filter in memory, but no file. For each read the table asks [`OpenFiles`]. A file that was
//! closed to make room for others is opened again by its path. Reopening is always possible. A reader of a table holds the slice,
//! and by it the `TableFile` with its bodies. A file is unlinked only after the last of these is gone (rule 1). A file is closed
//! here before it is unlinked, so that the device gets the space back at once.
//!
//! Files that running reads hold are not counted: during a read one file a thread may be open beyond the capacity.

use super::PlaceHasher;
use crate::base::ids::FileId;
use braidb_storage::{File, FileSystem};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter};
use std::hash::BuildHasherDefault;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Recently used open files by id.
#[derive(Debug)]
pub struct OpenFiles {
    fs: Arc<dyn FileSystem>,
    files: Cache<FileId, Arc<dyn File>, UnitWeighter, BuildHasherDefault<PlaceHasher>>,
}

impl OpenFiles {
    /// Holds at most `capacity` files open.
    pub fn new(fs: Arc<dyn FileSystem>, capacity: usize) -> OpenFiles {
        // One shard, so that the capacity is exact: no shard is full while another has room. Readers share the shard's lock, and
        // hold it for less time than the following read takes.
        let options = OptionsBuilder::new()
            .estimated_items_capacity(capacity)
            .weight_capacity(capacity as u64)
            .shards(1)
            .build()
            .expect("both capacities are set");
        let hasher = BuildHasherDefault::default();
        let files = Cache::with_options(options, UnitWeighter, hasher, DefaultLifecycle::default());
        OpenFiles { fs, files }
    }

    /// The file `id`, opened at `path` unless it is open. If several threads ask for it, one opens it.
    pub fn get(&self, id: FileId, path: &Path) -> io::Result<Arc<dyn File>> {
        self.files.get_or_insert_with(&id, || self.fs.open(path))
    }

    /// Holds a file that a test made.
    #[cfg(test)]
    pub fn insert(&self, id: FileId, file: Arc<dyn File>) {
        self.files.insert(id, file);
    }

    /// Closes a file that no thread will read any more.
    pub fn close(&self, id: FileId) {
        self.files.remove(&id);
    }
}
