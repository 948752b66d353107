//! Writes a table: entries are added in order, blocks are written in large appends, and the tail follows at the end.

use super::TableOptions;
use super::block::{BlockWriter, NewValue, Pointer};
use super::filter::{self, Filter};
use super::index::{IndexWriter, Next};
use super::properties::Properties;
use super::reason::Reason;
use super::section;
use super::tail::{FOOTER_BYTES, Footer};
use crate::base::checksum;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, MAX_SEQ, SeqNo};
use crate::base::key::{self, KeyRange, common_prefix};
use crate::base::mutant::mutant;
use crate::base::part::Part;
use crate::base::sample::Sample;
use crate::base::write_out::WriteOut;
use crate::base::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::value::file::record_bytes;
use crate::value::{BodyFile, BodyUse, Handle};
use crate::visible::EntryKind;
use braidb_storage::{File, FileSystem};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size of an append in bytes: full blocks are collected until they take this many bytes.
const APPEND_BYTES: usize = 256 << 10;

/// The facts about a finished table that the manifest needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    pub id: FileId,
    /// Length of the file.
    pub bytes: u64,
    /// The checksum of the whole file.
    pub checksum: u32,
    pub entries: u64,
    pub tombstones: u64,
    /// Different user keys.
    pub keys: u64,
    pub range: KeyRange,
    /// The smallest and the largest sequence number.
    pub seqs: (SeqNo, SeqNo),
    /// The parts of the table in key order; a single part if the writer ended none. No block holds entries of two
    /// parts, so the blocks of a dropped part can be punched out of the file. The bytes of a part are its blocks, a
    /// share of the tail, and its values in bodies. The bytes of all parts add up to the file plus the live bytes of
    /// its bodies.
    pub parts: Vec<Part>,
    /// The bodies that the table's handles lead into, each with at least one handle.
    pub bodies: Vec<BodyUse>,
}

/// A table under construction. A caller that drops it unfinished, or gets an error from it, deletes the file.
#[derive(Debug)]
pub struct TableBuilder {
    file: Arc<dyn File>,
    path: PathBuf,
    id: FileId,
    options: TableOptions,
    /// Bytes that are not appended yet; the open block is at the end.
    out: Vec<u8>,
    written: u64,
    write_out: WriteOut,
    checksum: u32,
    block: BlockWriter,
    index: IndexWriter,
    /// The hash of each distinct key; empty without a filter.
    hashes: Vec<u64>,
    last_key: Vec<u8>,
    last_seq: SeqNo,
    /// The properties of the parts that ended.
    properties: Properties,
    parts: Vec<Part>,
    /// The properties of the open part.
    open: Properties,
    /// The offset where the data blocks of the open part start.
    open_start: u64,
    /// Whether the next new key starts a part.
    part_ends: bool,
    /// The bodies that handles lead into so far, and the number of each.
    bodies: Vec<BodyUse>,
    numbers: BTreeMap<FileId, u32>,
    /// Bytes of values in bodies: of the open part, and of each part that ended.
    open_body_bytes: u64,
    body_bytes: Vec<u64>,
    /// Bytes of records in each value file, of the open part.
    open_values: BTreeMap<FileId, u64>,
    /// Bytes of values in bodies, of the whole table.
    bodies_bytes: u64,
}

/// A whole table that is not stable yet.
#[derive(Debug)]
pub struct UnsyncedTable {
    file: Arc<dyn File>,
    path: PathBuf,
    bytes: u64,
    write_out: WriteOut,
}

impl UnsyncedTable {
    /// Asks the device to write the rest of the file, which will be synced later.
    pub fn begin_to_write(&mut self) {
        self.write_out.ended(&*self.file, self.bytes);
    }

    /// Makes the content stable, and closes the file.
    pub fn sync(self) -> Result<()> {
        match mutant!("skip_table_sync") {
            true => Ok(()),
            false => self.file.sync_data().map_err(|source| Error::io("sync", &self.path, source)),
        }
    }
}

impl TableBuilder {
    /// Starts a table in a file that must not exist yet.
    pub fn create(
        fs: &dyn FileSystem,
        path: &Path,
        id: FileId,
        options: TableOptions,
    ) -> Result<TableBuilder> {
        let file = fs.create(path).map_err(|source| Error::io("create", path, source))?;
        Ok(TableBuilder::in_file(file, path, id, options))
    }

    /// Notes why the table is written.
    pub fn because(mut self, reason: Reason) -> TableBuilder {
        self.properties.reason = Some(reason);
        self
    }

    /// Starts a table in an empty file that was created at `path`.
    pub(super) fn in_file(
        file: Arc<dyn File>,
        path: &Path,
        id: FileId,
        options: TableOptions,
    ) -> TableBuilder {
        let properties = Properties::new(options.block_bytes as u64);
        let sample = options.has_sample.then(Sample::default);
        TableBuilder {
            file,
            path: path.to_owned(),
            id,
            options,
            out: Vec::with_capacity(APPEND_BYTES + options.block_bytes),
            written: 0,
            write_out: WriteOut::default(),
            checksum: 0,
            block: BlockWriter::default(),
            index: IndexWriter::default(),
            hashes: Vec::new(),
            last_key: Vec::new(),
            last_seq: 0,
            properties: Properties { sample, ..properties },
            parts: Vec::new(),
            open: Properties::new(options.block_bytes as u64),
            open_start: 0,
            part_ends: false,
            bodies: Vec::new(),
            numbers: BTreeMap::new(),
            open_body_bytes: 0,
            body_bytes: Vec::new(),
            open_values: BTreeMap::new(),
            bodies_bytes: 0,
        }
    }

    /// Adds the next entry: a larger key, or an older version of the last key. The value of a delete is empty.
    pub fn add(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) -> Result<()> {
        assert!(kind == EntryKind::Put || value.is_empty(), "a delete has no value");
        self.add_placed(key, seq, kind, NewValue::Inline(value))
    }

    /// Like [`TableBuilder::add`], for a put whose value lies in `file`. If a value file is still being written, its length is set
    /// later, by [`TableBuilder::close_body`].
    pub fn add_handle(&mut self, key: &[u8], seq: SeqNo, file: BodyFile, handle: Handle) -> Result<()> {
        let body = *self.numbers.entry(file.id).or_insert_with(|| {
            self.bodies.push(BodyUse { file, live_bytes: 0 });
            self.bodies.len() as u32 - 1
        });
        self.add_placed(key, seq, EntryKind::Put, NewValue::InBody(Pointer { body, handle }))?;
        let named = &mut self.bodies[body as usize];
        named.live_bytes += u64::from(handle.bytes);
        // The inputs of a merge may name a trie table with several lengths.
        if !mutant!("trie_table_named_too_short") {
            named.file.bytes = named.file.bytes.max(file.bytes);
        }
        self.open_body_bytes += u64::from(handle.bytes);
        self.bodies_bytes += u64::from(handle.bytes);
        if file.kind.is_value_file() {
            *self.open_values.entry(file.id).or_default() += record_bytes(&handle);
        }
        Ok(())
    }

    /// Sets the length of a body that was still written when handles into it were added.
    pub fn close_body(&mut self, file: BodyFile) {
        let body = self.numbers[&file.id] as usize;
        self.bodies[body].file = file;
    }

    fn add_placed(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: NewValue<'_>) -> Result<()> {
        assert!(key.len() <= MAX_KEY_BYTES && value.bytes() <= MAX_VALUE_BYTES && seq <= MAX_SEQ);
        let is_first = self.entries() == 0;
        let shared = common_prefix(&self.last_key, key);
        let (ahead, behind) = (key.get(shared), self.last_key.get(shared));
        let is_new = is_first || ahead > behind;
        assert!(is_new || (ahead == behind && seq < self.last_seq), "entries are added in order");

        let block_bytes = self.block.bytes_with(&self.out, key.len() - shared, value.inline_bytes());
        if self.part_ends && is_new {
            self.close_part(key)?;
        } else if !self.block.is_empty() && block_bytes > self.options.block_bytes {
            self.close_block(Next::Key(key))?;
        }
        self.block.add(&mut self.out, shared, key, seq, kind, value);
        self.open.count(key, is_new, seq, kind, value.bytes());
        if is_new {
            self.note_key(key);
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.last_seq = seq;
        Ok(())
    }

    /// One hash of a new key serves the filter and the sample.
    #[inline]
    fn note_key(&mut self, key: &[u8]) {
        let has_filter = self.options.filter_bits_per_key > 0;
        if has_filter || self.options.has_sample {
            let hash = key::hash(key);
            if has_filter {
                self.hashes.push(hash);
            }
            if let Some(sample) = &mut self.properties.sample {
                sample.offer(key, hash);
            }
        }
    }

    /// Ends the open part in front of the next new key: further versions of the last key still belong to it. Does
    /// nothing before the first entry of a part, so no part is empty.
    pub fn end_part(&mut self) {
        self.part_ends = self.open.entries > 0;
    }

    /// Estimated length of the file in bytes if it were finished now.
    pub fn bytes(&self) -> u64 {
        let filter = filter::encoded_bytes(self.hashes.len(), self.options.filter_bits_per_key);
        // The properties hold the first and the last key; the index holds the last key.
        let first = if self.parts.is_empty() { &self.open } else { &self.properties };
        let keys = first.range.low.len() + 2 * self.last_key.len();
        let sample = self.properties.sample.as_ref().map_or(0, Sample::encoded_bytes);
        let tail = self.index.bytes() + filter + keys + sample + FOOTER_BYTES;
        self.written + (self.out.len() + tail) as u64
    }

    /// Bytes of the values in bodies that handles lead to.
    pub fn bodies_bytes(&self) -> u64 {
        self.bodies_bytes
    }

    pub fn entries(&self) -> u64 {
        self.properties.entries + self.open.entries
    }

    /// Writes the rest and syncs the file. Its name is stable only after the caller synced the directory.
    #[cfg(test)]
    pub fn finish(self) -> Result<TableSummary> {
        let (summary, file) = self.finish_unsynced()?;
        file.sync()?;
        Ok(summary)
    }

    /// Writes the rest. The caller syncs the file, and then its name. Panics if the table has no entries.
    pub fn finish_unsynced(mut self) -> Result<(TableSummary, UnsyncedTable)> {
        assert!(self.entries() > 0, "a table has at least one entry");
        self.close_block(Next::Nothing)?;
        self.count_part();

        let filter = self.position();
        if self.options.filter_bits_per_key > 0 {
            let start = self.out.len();
            Filter::build(&self.hashes, self.options.filter_bits_per_key).encode(&mut self.out);
            self.end_section(start)?;
        }
        let (properties, start) = (self.position(), self.out.len());
        self.properties.bodies.clone_from(&self.bodies);
        self.properties.encode(&mut self.out);
        self.end_section(start)?;
        let (index, start) = (self.position(), self.out.len());
        self.out.append(&mut std::mem::take(&mut self.index).finish());
        self.end_section(start)?;
        let end = self.position();
        Footer { id: self.id, filter, properties, index }.encode(end, &mut self.out);
        self.append()?;

        share_out(&mut self.parts, self.written);
        for (part, body_bytes) in self.parts.iter_mut().zip(&self.body_bytes) {
            part.bytes += body_bytes;
        }
        let file = UnsyncedTable {
            file: self.file,
            path: self.path,
            bytes: self.written,
            write_out: self.write_out,
        };
        let summary = TableSummary {
            id: self.id,
            bytes: self.written,
            checksum: self.checksum,
            entries: self.properties.entries,
            tombstones: self.properties.tombstones,
            keys: self.properties.keys,
            range: self.properties.range,
            seqs: self.properties.seqs,
            parts: self.parts,
            bodies: self.bodies,
        };
        Ok((summary, file))
    }

    /// Ends the open part, with its last block, in front of `next`.
    fn close_part(&mut self, next: &[u8]) -> Result<()> {
        self.close_block(Next::Part(next))?;
        self.count_part();
        self.part_ends = false;
        Ok(())
    }

    /// Adds the open part to the ended parts. Its blocks are closed, and `last_key` is its last key.
    fn count_part(&mut self) {
        self.open.range.high.clone_from(&self.last_key);
        let next = Properties::new(self.options.block_bytes as u64);
        let part = std::mem::replace(&mut self.open, next);
        let end = self.position();
        self.properties.append(&part);
        self.parts.push(Part {
            range: part.range,
            seqs: part.seqs,
            entries: part.entries,
            tombstones: part.tombstones,
            keys: part.keys,
            bytes: end - self.open_start,
            values: std::mem::take(&mut self.open_values).into_iter().collect(),
        });
        self.open_start = end;
        self.body_bytes.push(std::mem::take(&mut self.open_body_bytes));
    }

    /// Closes the open block.
    fn close_block(&mut self, next: Next<'_>) -> Result<()> {
        let start = self.block.start();
        self.block.close(&mut self.out);
        self.index.add(&self.last_key, next, self.out.len() - start);
        self.end_section(start)
    }

    /// Adds a trailer to the section that starts at `start` of the buffer. Appends a buffer of at least
    /// [`APPEND_BYTES`] to the file.
    fn end_section(&mut self, start: usize) -> Result<()> {
        section::put_trailer(&mut self.out, start, self.id, self.written + start as u64);
        if self.out.len() >= APPEND_BYTES { self.append() } else { Ok(()) }
    }

    fn append(&mut self) -> Result<()> {
        self.file.append(&self.out).map_err(|source| Error::io("write", &self.path, source))?;
        self.checksum = checksum::extend(self.checksum, &self.out);
        self.written += self.out.len() as u64;
        self.out.clear();
        // Frees the space of a huge value, which would otherwise stay allocated for the rest of the table.
        self.out.shrink_to(2 * APPEND_BYTES);
        self.write_out.written(&*self.file, self.written);
        Ok(())
    }

    /// The offset of the next byte in the file.
    fn position(&self) -> u64 {
        self.written + self.out.len() as u64
    }
}

/// Spreads the bytes of a file over its parts in proportion to the bytes of their data blocks.
fn share_out(parts: &mut [Part], file_bytes: u64) {
    let data_bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    let (mut data_end, mut given) = (0, 0);
    for part in parts {
        data_end += part.bytes;
        let end = u128::from(data_end) * u128::from(file_bytes) / u128::from(data_bytes);
        part.bytes = end as u64 - given;
        given = end as u64;
    }
}
