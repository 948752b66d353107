//! Trie tables: value files to which the jobs of one open append, one after the other. (KT-Store, section 3; `ValueLayout::Trie`.)
//!
//! # Which file holds a value at each instant
//!
//! `v` is a large value, and its key leads to the leaf whose table is value file 20. Jobs committed 4,000 bytes of file 20 so far.
//!
//! 1. *A job borrows file 20.* No other job appends to it until the job gives it back. `v` stands where it stood: in a log, or in an
//!    input of the merge.
//! 2. *The job appends* `v` at byte 4,000 and writes its handle to table 21. A crash leaves a file that is longer than any table says.
//!    The next open ignores the rest, and never appends to the file: the seam gives the right to append only to the creator of a file.
//! 3. *File 20 is synced up to byte 9,000, then table 21, then their names.* A crash leaves what step 2 leaves.
//! 4. *The edit* adds table 21, which names file 20 with 9,000 bytes. Older tables name it with 4,000 bytes and lead to no value behind
//!    these. After the sync of the edit file 20 is the home of `v`.
//! 5. *The job gives file 20 back*, and the next job appends at byte 9,000. A job that failed gives nothing back: the file ends at byte
//!    4,000 for good. What stands behind is cut off, or counts as garbage from the next open on.
//!
//! A file that no table names any more is unlinked only if no job has borrowed it (`Tries::let_go`). So an edit never names a file that is
//! gone. All other steps are those of `jobs/value_files.rs`.
//!
//! The trie has one level of leaves at a fixed depth, made when a key needs them. So the trie is the list of open tables. The manifest has
//! only the lengths that tables name: after an open all leaves start new tables.

use crate::base::ids::{FamilyId, FileId, TierId};
use crate::value::file::ValueWriter;
use braidb_storage::Descriptors;
use braidb_storage::locks::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// How many unfinished files a database may hold open. Three quarters of the descriptors for files that are written are divided equally
/// among the databases of the process, and each may hold at least one file of each kind. When one more database opens, the parts become
/// smaller, and each database obeys at its next job. A job that still finds no descriptor closes its own trie tables, and those that wait
/// for a job.
#[derive(Clone, Copy, Debug)]
pub struct FilesHeld {
    /// Tables that wait for the next job. A leaf whose table finds no room begins a new one at the next flush.
    pub waiting: usize,
    /// Trie tables that one job keeps open until its edit. Further leaves begin new tables at each job.
    pub open: usize,
    /// Ended value files of one job that wait for their sync.
    pub unsynced: usize,
    /// Ended tables of one flush that wait for their sync. They wait because the sync of one makes the file system write its journal, which
    /// has all of them.
    pub tables: usize,
}

impl Default for FilesHeld {
    /// The most that is of use. A table with 64 MiB of values in files of 8 MiB has 8 files to sync.
    fn default() -> FilesHeld {
        FilesHeld { waiting: 512, open: 256, unsynced: 8, tables: 32 }
    }
}

impl FilesHeld {
    /// The limits if `descriptors` descriptors are for files that are written, and `jobs` jobs run at once.
    pub fn within(descriptors: u64, jobs: usize) -> FilesHeld {
        let part = |share: u64, most: usize| (descriptors / share).clamp(1, most as u64) as usize;
        let (most, jobs) = (FilesHeld::default(), jobs.max(1) as u64);
        FilesHeld {
            waiting: part(4, most.waiting),
            open: part(4 * jobs, most.open),
            unsynced: part(8 * jobs, most.unsynced),
            tables: part(8, most.tables),
        }
    }
}

/// A leaf of the trie of a column family: the first bytes of its keys, or `None` for all keys that are shorter.
pub type Leaf = (FamilyId, Option<Vec<u8>>);

/// The leaf that `key` leads to.
pub fn leaf(family: FamilyId, key: &[u8], levels: usize) -> Leaf {
    (family, key.get(..levels).map(<[u8]>::to_vec))
}

/// The trie tables that jobs of this open may append to.
#[derive(Debug, Default)]
pub struct Tries {
    tables: Mutex<Tables>,
    descriptors: Arc<Descriptors>,
    /// The jobs that run at once.
    jobs: usize,
}

#[derive(Debug, Default)]
struct Tables {
    /// By tier and leaf: a job appends to a table on the tier that it writes to.
    waiting: BTreeMap<(TierId, Leaf), ValueWriter>,
    /// The files that jobs have borrowed or created, and whether each may wait for the next job afterwards.
    borrowed: BTreeMap<FileId, bool>,
}

impl Tries {
    /// For `jobs` jobs at once.
    pub fn new(descriptors: Arc<Descriptors>, jobs: usize) -> Tries {
        Tries { tables: Mutex::default(), descriptors, jobs }
    }

    /// How many files under construction may be open now.
    pub fn held(&self) -> FilesHeld {
        FilesHeld::within(self.descriptors.most() / self.descriptors.databases(), self.jobs)
    }

    /// The table of `leaf` on `tier`, if it waits for a job.
    pub fn borrow(&self, tier: TierId, leaf: &Leaf) -> Option<ValueWriter> {
        let mut tables = self.tables.lock();
        let writer = tables.waiting.remove(&(tier, leaf.clone()))?;
        tables.borrowed.insert(writer.id(), true);
        Some(writer)
    }

    /// A job created the file of a table.
    pub fn created(&self, id: FileId) {
        self.tables.lock().borrowed.insert(id, true);
    }

    /// An edit names all that a job appended to the table of `leaf`.
    pub fn give_back(&self, leaf: Leaf, mut writer: ValueWriter) {
        writer.named();
        let most = self.held().waiting;
        let tables = &mut *self.tables.lock();
        let may_wait = tables.borrowed.remove(&writer.id()).expect("the job borrowed or created it");
        if let (true, Entry::Vacant(place)) = (may_wait, tables.waiting.entry((writer.tier(), leaf))) {
            place.insert(writer);
        }
        while tables.waiting.len() > most {
            tables.waiting.pop_last();
        }
    }

    /// Closes the tables that wait for a job. Their leaves begin new ones.
    pub fn close_waiting(&self) {
        let closed = std::mem::take(&mut self.tables.lock().waiting);
        drop(closed);
    }

    /// No job appends to file `id` any more. The job that did so has failed, or the edit names the file, which is full.
    pub fn end(&self, id: FileId) {
        self.tables.lock().borrowed.remove(&id);
    }

    /// Keeps later jobs from appending to file `id`. Returns whether no job appends to it now.
    pub fn let_go(&self, id: FileId) -> bool {
        let mut tables = self.tables.lock();
        tables.waiting.retain(|_, writer| writer.id() != id);
        tables.borrowed.get_mut(&id).map(|may_wait| *may_wait = false).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::OpenFiles;
    use crate::value::BodyKind;
    use braidb_storage::FileSystem;
    use braidb_storage::sim::SimFs;
    use std::path::Path;

    fn writer(fs: &SimFs, id: u64) -> ValueWriter {
        writer_on(fs, id, TierId::FAST)
    }

    fn writer_on(fs: &SimFs, id: u64, tier: TierId) -> ValueWriter {
        let path = format!("d/{id}");
        let created = ValueWriter::create(fs, Path::new(&path), FileId(id), BodyKind::Trie, tier);
        let mut writer = created.unwrap();
        writer.commit().unwrap();
        writer
    }

    #[test]
    fn a_borrowed_table_is_not_let_go_and_a_table_let_go_is_not_borrowed() {
        let fs = SimFs::new();
        fs.create_dir_all(Path::new("d")).unwrap();
        let (tries, leaf) = (Tries::default(), leaf(FamilyId(1), b"key", 1));
        assert_eq!(leaf, (FamilyId(1), Some(b"k".to_vec())));
        tries.created(FileId(1));
        assert!(!tries.let_go(FileId(1)), "the job that created it may still name it");
        tries.give_back(leaf.clone(), writer(&fs, 1));
        assert!(tries.borrow(TierId::FAST, &leaf).is_none(), "it was let go meanwhile");
        assert!(tries.let_go(FileId(1)));

        tries.created(FileId(2));
        tries.give_back(leaf.clone(), writer(&fs, 2));
        let borrowed = tries.borrow(TierId::FAST, &leaf).unwrap();
        assert!(tries.borrow(TierId::FAST, &leaf).is_none(), "one job at a time");
        assert!(!tries.let_go(FileId(2)));
        tries.end(borrowed.id());
        assert!(tries.let_go(FileId(2)), "the job failed");

        tries.created(FileId(3));
        tries.give_back(leaf.clone(), writer(&fs, 3));
        assert!(tries.let_go(FileId(3)));
        assert!(tries.borrow(TierId::FAST, &leaf).is_none(), "the file is gone");
    }

    #[test]
    fn a_job_borrows_from_its_own_tier() {
        let fs = SimFs::new();
        fs.create_dir_all(Path::new("d")).unwrap();
        let (tries, leaf, slow) = (Tries::default(), leaf(FamilyId(1), b"key", 1), TierId(2));
        tries.created(FileId(1));
        tries.give_back(leaf.clone(), writer_on(&fs, 1, slow));
        assert!(tries.borrow(TierId::FAST, &leaf).is_none(), "a flush would write to the slow tier");
        tries.created(FileId(2));
        tries.give_back(leaf.clone(), writer(&fs, 2));
        let borrowed = [TierId::FAST, slow].map(|tier| tries.borrow(tier, &leaf).unwrap().id());
        assert_eq!(borrowed, [FileId(2), FileId(1)]);
    }

    #[test]
    fn few_descriptors_mean_few_open_files() {
        let held = |descriptors, jobs| {
            let FilesHeld { waiting, open, unsynced, tables } = FilesHeld::within(descriptors, jobs);
            [waiting, open, unsynced, tables]
        };
        assert_eq!(held(u64::MAX, 64), [512, 256, 8, 32], "no limit");
        assert_eq!(held(500, 3), [125, 41, 8, 32]);
        assert_eq!(held(1, 3), [1, 1, 1, 1]);

        let fs = SimFs::new();
        fs.create_dir_all(Path::new("d")).unwrap();
        fs.set_descriptor_limit(Some(16));
        let tries = Tries::new(fs.descriptors(), 1);
        (1..=5).for_each(|id| wait(&fs, &tries, id));
        assert_eq!(fs.open_descriptors(), 2);
    }

    /// Makes one more table wait for a job.
    fn wait(fs: &SimFs, tries: &Tries, id: u64) {
        tries.created(FileId(id));
        tries.give_back(leaf(FamilyId(id as u32), b"key", 1), writer(fs, id));
    }

    #[test]
    fn databases_of_a_process_share_the_descriptors_for_files_that_are_written() {
        let fs = SimFs::new();
        fs.create_dir_all(Path::new("d")).unwrap();
        fs.set_descriptor_limit(Some(128));
        let open = || (OpenFiles::new(Arc::new(fs.clone()), 16), Tries::new(fs.descriptors(), 3));
        let first = open();
        (1..=30).for_each(|id| wait(&fs, &first.1, id));
        assert_eq!(fs.open_descriptors(), 16, "a quarter of 64");
        // From the process's own measure: half of what is free now.
        let others: Vec<_> = (0..3).map(|_| open()).collect();
        let each = fs.descriptors().most() / 4 / 4;
        for (number, (_, tries)) in (1..).zip(&others) {
            (1..=30).for_each(|id| wait(&fs, tries, 100 * number + id));
        }
        wait(&fs, &first.1, 31);
        assert_eq!(fs.open_descriptors(), 4 * each, "four equal parts");
        drop(others);
        let most = fs.descriptors().most();
        assert_eq!(first.1.held().waiting as u64, most / 4, "alone again");
    }

    #[test]
    fn short_keys_share_a_leaf() {
        let leaf = |key: &[u8]| leaf(FamilyId(0), key, 2).1;
        assert_eq!([leaf(b""), leaf(b"a")], [None, None]);
        assert_eq!([leaf(b"ab"), leaf(b"abc")], [Some(b"ab".to_vec()), Some(b"ab".to_vec())]);
    }
}
