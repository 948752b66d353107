//! The value files that one job writes: which file takes a value, and when a file ends.
//!
//! In the ordered layout the job has one open file, which ends when it is full and with each table. In a trie the job appends to the table of
//! each leaf that a key leads to. It syncs them with each table, and keeps them open until the edit. ([`super::trie`]) A flush to a trie
//! writes all values before the first key, in the order in which users wrote them.

use super::output::Target;
use super::trie::{Leaf, Tries, leaf};
use crate::base::body::{BodyFile, BodyKind, Handle};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::{key, names};
use crate::plan::values::ValueLayout;
use crate::table::TableBuilder;
use crate::value::file::ValueWriter;
use crate::visible::rule::{Fate, RetentionFilter};
use crate::visible::{Cursor, EntryKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Where a job finds the trie tables of its column family.
#[derive(Clone, Debug)]
pub struct TrieOf {
    pub tries: Arc<Tries>,
    pub family: FamilyId,
}

/// See the module.
#[derive(Debug, Default)]
pub struct ValueOutputs {
    /// The files that the job created. A job that fails deletes them.
    created: Vec<FileId>,
    /// The open files. The ordered layout has at most one, with the smallest leaf as its place.
    open: BTreeMap<Leaf, ValueWriter>,
    /// Files that are full, and stay borrowed until the edit names them: until then the state may know no table that leads there.
    full: Vec<FileId>,
    /// The values that were written before their keys, by sequence number and key.
    early: BTreeMap<(SeqNo, Vec<u8>), (BodyFile, Handle)>,
    /// The place of the latest value.
    latest: Leaf,
    /// Bytes of records since the last table ended.
    table_bytes: u64,
}

impl ValueOutputs {
    /// Bytes that were written for the open table.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Writes the large values that the retention filter keeps of a flush, in the order of writing. Holds a copy of them meanwhile.
    pub fn write_early(
        &mut self,
        target: &Target,
        source: &mut dyn Cursor,
        mut retention: RetentionFilter,
    ) -> Result<()> {
        let mut values: Vec<(SeqNo, Vec<u8>, Vec<u8>)> = Vec::new();
        source.seek(&[])?;
        while source.valid() {
            let (key, seq, kind) = (source.key(), source.seq(), source.kind());
            let is_kept = matches!(retention.fate(key, seq, kind, |_| false), Fate::Keep);
            if is_kept && kind == EntryKind::Put {
                source.fetch()?;
                if target.values.separates(source.value().len()) {
                    values.push((seq, source.key().to_vec(), source.value().to_vec()));
                }
            }
            source.next()?;
        }
        values.sort_unstable_by_key(|&(seq, ..)| seq);
        for (seq, key, value) in values {
            let placed = self.append(target, &key, &value, seq)?;
            self.early.insert((seq, key), placed);
        }
        Ok(())
    }

    /// Writes the value that `key` had at `seq`, unless it was written early. The file has no length yet: [`ValueOutputs::end_table`]
    /// tells it.
    pub fn append(
        &mut self,
        target: &Target,
        key: &[u8],
        value: &[u8],
        seq: SeqNo,
    ) -> Result<(BodyFile, Handle)> {
        if !self.early.is_empty()
            && let Some(placed) = self.early.remove(&(seq, key.to_vec()))
        {
            return Ok(placed);
        }
        let (place, kind) = match target.values.layout {
            ValueLayout::Ordered => (Leaf::default(), BodyKind::Values),
            ValueLayout::Trie { levels } => (leaf(target.trie.family, key, levels), BodyKind::Trie),
        };
        if place != self.latest {
            // A merge comes in key order, so it seldom comes back to the leaf.
            if let Some(left) = self.open.get_mut(&self.latest) {
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
        Ok((BodyFile { kind, id: file.id(), bytes: 0 }, handle))
    }

    /// The table of the latest leaf that waits for a job, or a new file.
    fn start(&mut self, target: &Target, kind: BodyKind) -> Result<ValueWriter> {
        let tries = &target.trie.tries;
        if kind == BodyKind::Trie
            && let Some(writer) = tries.borrow(&self.latest)
        {
            return Ok(writer);
        }
        let create = |path: &Path, id| ValueWriter::create(target.fs.as_ref(), path, id, kind);
        let (id, writer) = target.create(names::values, create)?;
        // From now on `discard` removes the file.
        self.created.push(id);
        if kind == BodyKind::Trie {
            tries.created(id);
        }
        target.counters.value_files.add(1);
        Ok(writer)
    }

    /// Ends the file of the latest value if it is full. `builder` leads into it.
    pub fn end_full(&mut self, target: &Target, builder: &mut TableBuilder) -> Result<()> {
        let is_full = |file: &ValueWriter| file.bytes() >= target.values.file_bytes;
        if !self.early.is_empty() || !self.open.get(&self.latest).is_some_and(is_full) {
            return Ok(());
        }
        let mut file = self.open.remove(&self.latest).expect("it is full");
        self.full.push(file.id());
        commit(target, &mut file, builder)
    }

    /// Syncs all files to which values were written for `builder`, which ends, and tells it their lengths.
    pub fn end_table(&mut self, target: &Target, builder: &mut TableBuilder) -> Result<()> {
        for file in self.open.values_mut().filter(|file| file.uncommitted_bytes() > 0) {
            commit(target, file, builder)?;
        }
        self.open.retain(|_, file| {
            let goes_on =
                target.values.layout != ValueLayout::Ordered && file.bytes() < target.values.file_bytes;
            if !goes_on {
                self.full.push(file.id());
            }
            goes_on
        });
        self.table_bytes = 0;
        Ok(())
    }

    /// Adds the files of another part of the job.
    pub fn append_all(&mut self, mut upper: ValueOutputs) {
        self.created.append(&mut upper.created);
        self.full.append(&mut upper.full);
        for (leaf, file) in upper.open {
            // Both parts may have written to this leaf. One table of it can wait for the next job.
            self.full.extend(self.open.insert(leaf, file).map(|other| other.id()));
        }
    }

    /// An edit names the files.
    pub fn keep(&mut self, target: &Target) {
        self.created.clear();
        std::mem::take(&mut self.full).into_iter().for_each(|id| target.trie.tries.end(id));
        for (leaf, file) in std::mem::take(&mut self.open) {
            target.trie.tries.give_back(leaf, file);
        }
    }

    /// No edit names the files. Those that the job created are deleted; borrowed ones end at the length that edits know.
    pub fn discard(&mut self, target: &Target) {
        let open = std::mem::take(&mut self.open).into_values().map(|file| file.id());
        open.chain(std::mem::take(&mut self.full)).for_each(|id| target.trie.tries.end(id));
        for id in std::mem::take(&mut self.created) {
            // The next open deletes the file if this unlink fails.
            let _ = target.fs.unlink(&names::values(&target.dir, id));
            target.trie.tries.end(id);
        }
    }
}

/// Syncs a file and tells its length to the table that leads into it.
fn commit(target: &Target, file: &mut ValueWriter, builder: &mut TableBuilder) -> Result<()> {
    target.counters.value_file_bytes.add(file.uncommitted_bytes());
    builder.close_body(file.commit()?);
    Ok(())
}
