//! The value files that one job writes: which file takes a value, and when a file ends.
//!
//! In the ordered layout the job has one open file, which ends when it is full and with each table. In a trie the job appends to the table of
//! each leaf that a key leads to. It syncs them with each table, and keeps some of them open until the edit ([`super::trie`]). A
//! flush to a trie writes all values before the first key, leaf by leaf, each leaf in the order in which users wrote its values.

use super::output::Target;
use super::trie::{Leaf, Tries, leaf};
use crate::base::body::{BodyFile, BodyKind, Handle};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo, TierId};
use crate::base::{key, names};
use crate::plan::values::ValueLayout;
use crate::table::TableBuilder;
use crate::value::file::ValueWriter;
use crate::visible::rule::{Fate, RetentionFilter};
use crate::visible::{Cursor, EntryKind};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

/// Where a job finds the trie tables of its column family.
#[derive(Clone, Debug)]
pub struct TrieOf {
    pub tries: Arc<Tries>,
    pub family: FamilyId,
}

/// Which of the open files takes a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    tier: TierId,
    leaf: Leaf,
}

/// See the module.
#[derive(Debug, Default)]
pub struct ValueOutputs {
    /// The files that the job created, each with its tier. A job that fails deletes them.
    created: Vec<(TierId, FileId)>,
    /// The open files. The ordered layout has at most one on each tier, with the smallest leaf as its place.
    open: BTreeMap<Place, ValueWriter>,
    /// Files that take no more values. They stay borrowed until the edit names them: until then the state may know no table that leads
    /// there.
    ended: Vec<FileId>,
    /// Ended files that are not synced yet. The device writes them while the job goes on.
    unsynced: VecDeque<ValueWriter>,
    /// Synced files whose lengths the open table has to name.
    unnamed: Vec<BodyFile>,
    /// The values that were written before their keys, by sequence number and key.
    early: BTreeMap<(SeqNo, Vec<u8>), (BodyFile, Handle)>,
    /// The place of the latest value.
    latest: Place,
    /// Bytes of records since the last table ended.
    table_bytes: u64,
}

impl ValueOutputs {
    /// The files that the job created, each with its tier.
    pub fn created(&self) -> &[(TierId, FileId)] {
        &self.created
    }

    /// Bytes that were written for the open table.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Writes the large values that the retention filter keeps of a flush, each leaf in the order of writing. Holds a copy of them
    /// meanwhile.
    pub fn write_early(
        &mut self,
        target: &Target,
        source: &mut dyn Cursor,
        mut retention: RetentionFilter,
    ) -> Result<()> {
        let mut values: Vec<(Leaf, SeqNo, Vec<u8>, Vec<u8>)> = Vec::new();
        source.seek(&[])?;
        while source.valid() {
            let (key, seq, kind) = (source.key(), source.seq(), source.kind());
            let is_kept = matches!(retention.fate(key, seq, kind, |_| false), Fate::Keep);
            if is_kept && kind == EntryKind::Put {
                source.fetch()?;
                if target.values.separates(source.value().len()) {
                    let (leaf, _) = place(target, source.key());
                    values.push((leaf, seq, source.key().to_vec(), source.value().to_vec()));
                }
            }
            source.next()?;
        }
        values.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        for (_, seq, key, value) in values {
            self.end_full(target)?;
            let placed = self.write(target, TierId::FAST, &key, &value)?;
            self.early.insert((seq, key), placed);
        }
        Ok(())
    }

    /// Writes the value that `key` had at `seq` to a file on `tier`, unless it was written early. The returned file has no length yet:
    /// [`ValueOutputs::end_table`] tells it to the table.
    pub fn append(
        &mut self,
        target: &Target,
        tier: TierId,
        key: &[u8],
        value: &[u8],
        seq: SeqNo,
    ) -> Result<(BodyFile, Handle)> {
        if !self.early.is_empty()
            && let Some(placed) = self.early.remove(&(seq, key.to_vec()))
        {
            return Ok(placed);
        }
        self.write(target, tier, key, value)
    }

    fn write(
        &mut self,
        target: &Target,
        tier: TierId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(BodyFile, Handle)> {
        let (leaf, kind) = place(target, key);
        let place = Place { tier, leaf };
        if place != self.latest {
            // The values of a job come leaf by leaf, so a leaf that was left seldom gets more values.
            if self.open.len() >= target.trie.tries.held().open {
                self.end_latest(target)?;
            } else if let Some(left) = self.open.get_mut(&self.latest) {
                left.rest()?;
            }
            self.latest = place;
        }
        if !self.open.contains_key(&self.latest) {
            let writer = self.start(target, kind)?;
            self.open.insert(self.latest.clone(), writer);
        }
        let file = self.open.get_mut(&self.latest).expect("opened above");
        let before = file.bytes();
        let handle = file.append(key::hash(key), value)?;
        self.table_bytes += file.bytes() - before;
        Ok((BodyFile { kind, tier: file.tier(), id: file.id(), bytes: 0 }, handle))
    }

    /// The table of the latest leaf that waits for a job on this tier, or a new file.
    fn start(&mut self, target: &Target, kind: BodyKind) -> Result<ValueWriter> {
        let tries = &target.trie.tries;
        if kind == BodyKind::Trie
            && let Some(writer) = tries.borrow(self.latest.tier, &self.latest.leaf)
        {
            return Ok(writer);
        }
        let tier = self.latest.tier;
        let create = |path: &Path, id| ValueWriter::create(target.fs.as_ref(), path, id, kind, tier);
        let (id, writer) = match target.create(tier, names::values, create) {
            Err(error) if error.is_short_of_descriptors() => {
                self.close_open(target)?;
                target.create(tier, names::values, create)?
            }
            created => created?,
        };
        // From now on `discard` removes the file.
        self.created.push((tier, id));
        if kind == BodyKind::Trie {
            tries.created(id);
        }
        target.counters.value_files.add(1);
        Ok(writer)
    }

    /// Ends the file of the latest value if it is full.
    pub fn end_full(&mut self, target: &Target) -> Result<()> {
        let is_full = |file: &ValueWriter| file.bytes() >= target.values.file_bytes;
        if self.open.get(&self.latest).is_some_and(is_full) { self.end_latest(target) } else { Ok(()) }
    }

    /// Ends the file of the latest value, if it is open.
    fn end_latest(&mut self, target: &Target) -> Result<()> {
        let Some(mut file) = self.open.remove(&self.latest) else { return Ok(()) };
        self.ended.push(file.id());
        if file.uncommitted_bytes() > 0 {
            file.rest()?;
            self.unsynced.push_back(file);
        }
        self.sync_beyond(target, target.trie.tries.held().unsynced)
    }

    /// Syncs ended files, the oldest first, until only `most` of them are left.
    fn sync_beyond(&mut self, target: &Target, most: usize) -> Result<()> {
        while self.unsynced.len() > most {
            let mut file = self.unsynced.pop_front().expect("there are more");
            self.unnamed.push(commit(target, &mut file)?);
        }
        Ok(())
    }

    /// Where descriptors are short: ends and closes the files that this job holds, and closes those that wait for a job.
    pub fn close_open(&mut self, target: &Target) -> Result<()> {
        target.trie.tries.close_waiting();
        let open = std::mem::take(&mut self.open);
        self.ended.extend(open.values().map(ValueWriter::id));
        for mut file in open.into_values().filter(|file| file.uncommitted_bytes() > 0) {
            self.unnamed.push(commit(target, &mut file)?);
        }
        self.sync_beyond(target, 0)
    }

    /// Syncs all files to which values were written for `builder`, which ends, and tells it their lengths.
    pub fn end_table(&mut self, target: &Target, builder: &mut TableBuilder) -> Result<()> {
        assert!(self.early.is_empty(), "the table leads to all values that were written early");
        self.sync_beyond(target, 0)?;
        for file in self.open.values_mut().filter(|file| file.uncommitted_bytes() > 0) {
            self.unnamed.push(commit(target, file)?);
        }
        self.unnamed.drain(..).for_each(|file| builder.close_body(file));
        self.open.retain(|_, file| {
            let goes_on =
                target.values.layout != ValueLayout::Ordered && file.bytes() < target.values.file_bytes;
            if !goes_on {
                self.ended.push(file.id());
            }
            goes_on
        });
        self.table_bytes = 0;
        Ok(())
    }

    /// Adds the files of another part of the job.
    pub fn append_all(&mut self, mut upper: ValueOutputs) {
        self.created.append(&mut upper.created);
        assert!(self.unsynced.is_empty() && upper.unsynced.is_empty(), "all tables have ended");
        assert!(self.unnamed.is_empty() && upper.unnamed.is_empty(), "all tables have ended");
        self.ended.append(&mut upper.ended);
        for (place, file) in upper.open {
            // Both parts may have written to this leaf. Only one table of a leaf can wait for the next job.
            self.ended.extend(self.open.insert(place, file).map(|other| other.id()));
        }
    }

    /// An edit names the files.
    pub fn keep(&mut self, target: &Target) {
        self.created.clear();
        std::mem::take(&mut self.ended).into_iter().for_each(|id| target.trie.tries.end(id));
        for (Place { leaf, .. }, file) in std::mem::take(&mut self.open) {
            target.trie.tries.give_back(leaf, file);
        }
    }

    /// No edit names the files. Those that the job created are deleted. Borrowed files end at the length that edits have named; bytes
    /// behind it are cut off, or stay until the file is deleted.
    pub fn discard(&mut self, target: &Target) {
        for file in std::mem::take(&mut self.open).into_values() {
            let id = file.id();
            file.cut_back();
            target.trie.tries.end(id);
        }
        std::mem::take(&mut self.ended).into_iter().for_each(|id| target.trie.tries.end(id));
        for (tier, id) in std::mem::take(&mut self.created) {
            // The next open deletes the file if this unlink fails.
            let _ = target.fs.unlink(&target.dirs.values(tier, id));
            target.trie.tries.end(id);
        }
    }
}

/// The leaf whose file takes the value of `key`, and the kind of this file.
fn place(target: &Target, key: &[u8]) -> (Leaf, BodyKind) {
    match target.values.layout {
        ValueLayout::Ordered => (Leaf::default(), BodyKind::Values),
        ValueLayout::Trie { levels } => (leaf(target.trie.family, key, levels), BodyKind::Trie),
    }
}

/// Syncs a file. The table that leads into it has to name its length.
fn commit(target: &Target, file: &mut ValueWriter) -> Result<BodyFile> {
    target.counters.value_file_bytes.add(file.uncommitted_bytes());
    target.wrote(file.uncommitted_bytes());
    file.commit()
}
