//! A table as the tree holds it: shared by every slice and version that refers to it, opened on first use, and buried
//! when the last of them is gone.
//!
//! Rule 1 needs two proofs before the file may go: a synced edit no longer refers to it ([`TableFile::mark_obsolete`]), and
//! no view does (the last `Arc` is dropped). Then its id lands among the dead of the [`TableStore`], from which the executor
//! unlinks.

use crate::base::counters::Counters;
use crate::base::error::Result;
use crate::base::ids::{FileId, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::cache::BlockCache;
use crate::table::Table;
use braidb_storage::FileSystem;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What the tables of one open share: how they are opened, and where their ids go in the end.
#[derive(Debug)]
pub struct TableStore {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    cache: Arc<BlockCache>,
    counters: Arc<Counters>,
    /// Tables that nothing refers to any more, waiting to be unlinked.
    dead: Mutex<Vec<FileId>>,
}

impl TableStore {
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Arc<TableStore> {
        Arc::new(TableStore { fs, dir: dir.to_owned(), cache, counters, dead: Mutex::default() })
    }

    /// For reading a manifest whose tables nobody will read through a cache.
    pub fn detached(fs: Arc<dyn FileSystem>, dir: &Path) -> Arc<TableStore> {
        TableStore::new(fs, dir, Arc::new(BlockCache::new(0)), Arc::default())
    }

    /// Hands over the ids of the tables that died so far.
    pub fn take_dead(&self) -> Vec<FileId> {
        std::mem::take(&mut *self.dead.lock())
    }

    fn bury(&self, id: FileId) {
        self.dead.lock().push(id);
    }

    fn open(&self, id: FileId, bytes: u64) -> Result<Arc<Table>> {
        let path = names::table(&self.dir, id);
        Table::open(self.fs.as_ref(), &path, id, bytes, self.cache.clone(), self.counters.clone())
    }
}

/// A table file that some version refers to.
#[derive(Debug)]
pub struct TableFile {
    pub id: FileId,
    /// The exact length of the file.
    pub bytes: u64,
    /// The checksum of the whole file.
    pub checksum: u32,
    pub tier: TierId,
    reader: OnceLock<Arc<Table>>,
    obsolete: AtomicBool,
    store: Arc<TableStore>,
}

impl TableFile {
    pub fn new(id: FileId, bytes: u64, checksum: u32, tier: TierId, store: Arc<TableStore>) -> TableFile {
        TableFile {
            id,
            bytes,
            checksum,
            tier,
            reader: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            store,
        }
    }

    /// The open table.
    pub fn reader(&self) -> Result<&Arc<Table>> {
        match self.reader.get() {
            Some(table) => Ok(table),
            None => {
                let table = self.store.open(self.id, self.bytes)?;
                // Another reader may have been quicker; then its table serves.
                Ok(self.reader.get_or_init(|| table))
            }
        }
    }

    /// Memory that the table holds while it is open.
    pub fn memory_bytes(&self) -> u64 {
        self.reader.get().map_or(0, |table| table.memory_bytes() as u64)
    }

    /// Says that a *synced* edit dropped the last reference to this table. Called by the manifest alone.
    pub(super) fn mark_obsolete(&self) {
        if mutant!("table_deleted_under_view") {
            return self.store.bury(self.id);
        }
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.store.bury(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::real::RealFs;

    #[test]
    fn a_table_is_buried_after_the_edit_and_the_last_view() {
        let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
        let table = |id| Arc::new(TableFile::new(FileId(id), 1, 0, TierId::FAST, store.clone()));
        let (kept, dropped) = (table(1), table(2));
        let view = dropped.clone();
        dropped.mark_obsolete();
        drop((kept, dropped));
        assert_eq!(store.take_dead(), []);
        drop(view);
        assert_eq!(store.take_dead(), [FileId(2)]);
        assert_eq!(store.take_dead(), []);
    }
}
