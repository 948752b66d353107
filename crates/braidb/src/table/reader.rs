//! An open table: point lookups, and the reading of blocks for lookups and cursors.

use super::block::{Hit, Payload, Pointer};
use super::cursor::{Buffers, TableCursor};
use super::directory;
use super::filter::Filter;
use super::index::Index;
use super::properties::Properties;
use super::reason::Reason;
use super::section::{self, Fault, Flaw, TRAILER_BYTES};
use super::tail::Tail;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use crate::base::key::{self, KeyRange};
use crate::base::mutant::mutant;
use crate::base::sample::Sample;
use crate::base::value::Value;
use crate::cache::{Block, BlockCache, Charge, OpenFiles, Slots};
use crate::value::{Body, BodyUse, Image};
use crate::visible::{EntryKind, Found};
use braidb_storage::File;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A table, open for reading. The file must keep its name as long as a reader uses the table, because the file may be
/// opened again.
#[derive(Debug)]
pub struct Table {
    files: Arc<OpenFiles>,
    path: PathBuf,
    id: FileId,
    index: Index,
    /// Read when the first reader comes, if a job that cuts the table opened it.
    filter: OnceLock<KeptFilter>,
    /// The bodies that handles lead into, in the order of the properties.
    bodies: Vec<Arc<Body>>,
    cache: Arc<BlockCache>,
    /// The kept blocks; made when a reader asks for the first block.
    slots: OnceLock<Arc<Slots>>,
    counters: Arc<Counters>,
    /// Reads of blocks that readers waited for, if the table lies on a slow tier.
    slow_reads: Option<AtomicU64>,
    has_been_read: AtomicBool,
    /// For the table and its index.
    _charge: Charge,
}

#[derive(Debug)]
struct KeptFilter {
    /// `None` if the table has no filter.
    filter: Option<Filter>,
    _charge: Charge,
}

impl KeptFilter {
    fn new(filter: Option<Filter>, cache: &Arc<BlockCache>) -> KeptFilter {
        let charge = Charge::new(cache.clone(), filter.as_ref().map_or(0, Filter::memory_bytes));
        KeptFilter { filter, _charge: charge }
    }
}

pub(super) const NO_SUCH_BODY: Flaw =
    Flaw::Malformed("a handle leads into a body that the table does not name");

/// Whether the properties of a table name the same bodies as the manifest.
pub(super) fn names_bodies(bodies: &[Arc<Body>], properties: &[BodyUse]) -> bool {
    let names = |(body, named): (&Arc<Body>, &BodyUse)| body.file == named.file;
    bodies.len() == properties.len() && bodies.iter().zip(properties).all(names)
}

/// Reads a part of table `id`.
fn read<T>(
    files: &OpenFiles,
    path: &Path,
    id: FileId,
    part: impl FnOnce(&dyn File) -> Result<T, Fault>,
) -> Result<T> {
    let file = files.get(id, path).map_err(|source| Error::io("open", path, source))?;
    part(&*file).map_err(|fault| fault.into_error(path))
}

fn read_properties(files: &OpenFiles, path: &Path, id: FileId, expected_bytes: u64) -> Result<Properties> {
    read(files, path, id, |file| Tail::read_properties(file, id, expected_bytes))
}

impl Table {
    /// Opens table `id`, whose length the manifest gives as `expected_bytes`, with handles into `bodies`. Checks
    /// everything except the data blocks and the values in bodies, which are checked when they are read.
    pub fn open(
        files: Arc<OpenFiles>,
        path: &Path,
        id: FileId,
        expected_bytes: u64,
        bodies: Vec<Arc<Body>>,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Table>> {
        let tail = read(&files, path, id, |file| Tail::read(file, id, expected_bytes))?;
        Table::of(&tail, files, path, bodies, cache, counters)
    }

    /// As [`Table::open`], for a job that looks for places in the index. The first reader loads the filter ([`Table::load_filter`]).
    pub fn open_index(
        files: Arc<OpenFiles>,
        path: &Path,
        id: FileId,
        expected_bytes: u64,
        bodies: Vec<Arc<Body>>,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Table>> {
        let tail = read(&files, path, id, |file| Tail::read_without_filter(file, id, expected_bytes))?;
        Table::of(&tail, files, path, bodies, cache, counters)
    }

    fn of(
        tail: &Tail,
        files: Arc<OpenFiles>,
        path: &Path,
        bodies: Vec<Arc<Body>>,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Table>> {
        let sections = || {
            if !names_bodies(&bodies, &tail.properties()?.bodies) {
                return Err(tail.other_bodies());
            }
            let filter = if tail.has_filter() { Some(tail.filter()?) } else { None };
            Ok((tail.index()?, filter))
        };
        let (index, filter) = sections().map_err(|fault: Fault| fault.into_error(path))?;
        let filter = filter.map(|filter| KeptFilter::new(filter, &cache));
        let charge = Charge::new(cache.clone(), size_of::<Table>() + index.memory_bytes());
        let (path, slow_reads, has_been_read) = (path.to_owned(), None, AtomicBool::new(false));
        Ok(Arc::new(Table {
            files,
            path,
            id: tail.footer.id,
            index,
            filter: filter.map_or_else(OnceLock::new, OnceLock::from),
            bodies,
            cache,
            slots: OnceLock::new(),
            counters,
            slow_reads,
            has_been_read,
            _charge: charge,
        }))
    }

    /// Whether readers may use the table: its filter was read, or it has none.
    #[inline]
    pub fn has_filter_loaded(&self) -> bool {
        self.filter.get().is_some()
    }

    /// Reads the filter, unless it was read. `expected_bytes` is the length of the file.
    pub fn load_filter(&self, expected_bytes: u64) -> Result<()> {
        if !self.has_filter_loaded() {
            let filter = read(&self.files, &self.path, self.id, |file| {
                Tail::read_filter(file, self.id, expected_bytes)
            })?;
            // If another reader was first, its filter is used.
            self.filter.get_or_init(|| KeptFilter::new(filter, &self.cache));
        }
        Ok(())
    }

    #[inline]
    fn filter(&self) -> Option<&Filter> {
        self.filter.get()?.filter.as_ref()
    }

    /// To be called for a table on a slow tier: reads of its blocks are counted from now on, and leave no pages in the page cache.
    pub fn count_slow_reads(&mut self) {
        self.slow_reads = Some(AtomicU64::default());
    }

    /// Notes that a reader looks into the table. A job that looks for a place to cut notes nothing.
    #[inline]
    pub fn note_reader(&self) {
        if !self.has_been_read.load(Relaxed) {
            self.has_been_read.store(true, Relaxed);
        }
    }

    /// Whether a reader has looked into the table.
    pub fn has_been_read(&self) -> bool {
        self.has_been_read.load(Relaxed)
    }

    /// Reads the sample of table `id`, if it has one, and keeps nothing else in memory.
    pub fn read_sample(
        files: &OpenFiles,
        path: &Path,
        id: FileId,
        expected_bytes: u64,
    ) -> Result<Option<Sample>> {
        Ok(read_properties(files, path, id, expected_bytes)?.sample)
    }

    /// Reads why table `id` was written, if it says so, and keeps nothing in memory.
    pub fn read_reason(
        files: &OpenFiles,
        path: &Path,
        id: FileId,
        expected_bytes: u64,
    ) -> Result<Option<Reason>> {
        Ok(read_properties(files, path, id, expected_bytes)?.reason)
    }

    /// The newest version of `key` at or below `at`, including tombstones. `hash` is the hash of `key`. The value is
    /// pinned in its block.
    pub fn get(&self, key: &[u8], hash: u64, at: SeqNo) -> Result<Option<Found>> {
        self.find(key, hash, at)?.map(|at| self.load(at)).transpose()
    }

    /// As [`Table::get`], of a key that the filter passes, from block `first` on, which [`Table::first_block`] told. `block` is its payload, if
    /// the caller holds it.
    pub fn get_from(
        &self,
        key: &[u8],
        at: SeqNo,
        first: usize,
        block: Option<Arc<Block>>,
    ) -> Result<Option<Found>> {
        self.search(key, at, first, block)?.map(|at| self.load(at)).transpose()
    }

    /// The version at a place of a block, with its value.
    #[inline]
    fn load(&self, (number, block, hit): (usize, Arc<Block>, Hit)) -> Result<Found> {
        let Hit { seq, kind, value, pointer } = hit;
        let value = match pointer {
            Some(pointer) => self.body(number, &pointer)?.read(&pointer.handle)?,
            None => Value::pin(block, |block| &block[value]),
        };
        Ok(Found { seq, kind, value })
    }

    /// Like [`Table::get`], but returns only the number and the kind of the version, and reads no value.
    pub fn get_version(&self, key: &[u8], hash: u64, at: SeqNo) -> Result<Option<(SeqNo, EntryKind)>> {
        Ok(self.find(key, hash, at)?.map(|(_, _, hit)| (hit.seq, hit.kind)))
    }

    /// Whether the filter lets a key with this hash pass. A table without a filter lets all keys pass.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter().is_none_or(|filter| filter.may_contain(hash))
    }

    /// The newest version of `key` at or below `at`, with its block and the number of the block.
    #[inline]
    fn find(&self, key: &[u8], hash: u64, at: SeqNo) -> Result<Option<(usize, Arc<Block>, Hit)>> {
        debug_assert_eq!(hash, key::hash(key));
        match self.passes(hash) {
            true => self.search(key, at, self.first_block(key), None),
            false => Ok(None),
        }
    }

    /// As [`Table::may_contain`], and counts the look.
    #[inline]
    pub fn passes(&self, hash: u64) -> bool {
        let passes = self.may_contain(hash);
        if passes {
            self.counters.table_reads.add(1);
            self.note_reader();
        } else {
            self.counters.filter_rejections.add(1);
        }
        passes
    }

    /// The first block in which `key` may be.
    #[inline]
    pub fn first_block(&self, key: &[u8]) -> usize {
        self.index.first_at_or_after(key)
    }

    /// Prefetches what [`Table::passes`] reads.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        if let Some(filter) = self.filter() {
            filter.prefetch(hash);
        }
    }

    /// Prefetches the slot of block `number`.
    #[inline]
    pub fn prefetch_slot(&self, number: usize) {
        self.slots().prefetch_slot(number);
    }

    /// Prefetches the header of block `number`, if the cache keeps the block.
    #[inline]
    pub fn prefetch_header(&self, number: usize) {
        self.slots().prefetch_header(number);
    }

    /// Block `number`, if the cache keeps it. Prefetches what a search of it reads first.
    #[inline]
    pub fn kept(&self, number: usize) -> Option<Arc<Block>> {
        let block = self.slots().get(number)?;
        self.counters.cache_hits.add(1);
        block.prefetch_for_search();
        Some(block)
    }

    /// The newest version of `key` at or below `at` from block `first` on. `held` is this block, if the caller holds it.
    #[inline]
    fn search(
        &self,
        key: &[u8],
        at: SeqNo,
        first: usize,
        mut held: Option<Arc<Block>>,
    ) -> Result<Option<(usize, Arc<Block>, Hit)>> {
        let mut key_seen = false;
        for number in first..self.index.blocks() {
            let block = match held.take() {
                Some(block) => block,
                None => self.block(number)?,
            };
            let lookup = Payload::searched(&block)
                .and_then(|payload| payload.find(key, at))
                .map_err(|flaw| self.flaw(number, flaw))?;
            if let Some(hit) = lookup.hit {
                return Ok(Some((number, block, hit)));
            }
            key_seen |= lookup.key_seen;
            // The versions of a key continue in the next block only if the key is the separator.
            if lookup.passed || self.index.compare(number, key) != Ordering::Equal {
                break;
            }
        }
        if self.filter().is_some() && !key_seen {
            self.counters.filter_false_positives.add(1);
        }
        Ok(None)
    }

    /// A cursor over the slice of the table inside `bounds`. With `fill_cache`, for readers, blocks go through the
    /// cache. Without, for merges, the cursor reads far ahead and bypasses the cache.
    pub fn cursor(self: &Arc<Self>, bounds: impl Into<Arc<KeyRange>>, fill_cache: bool) -> TableCursor {
        self.cursor_in(bounds, fill_cache, Buffers::default())
    }

    /// As [`Table::cursor`], with the buffers of a cursor that ended.
    pub fn cursor_in(
        self: &Arc<Self>,
        bounds: impl Into<Arc<KeyRange>>,
        fill_cache: bool,
        buffers: Buffers,
    ) -> TableCursor {
        TableCursor::new(self.clone(), bounds.into(), fill_cache, buffers)
    }

    /// Memory of the open table in bytes: itself, index, filter and slots.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let slots = self.slots.get().map_or(0, |slots| slots.memory_bytes());
        size_of::<Table>() + self.index.memory_bytes() + self.filter().map_or(0, Filter::memory_bytes) + slots
    }

    /// Memory of the index, the filter, the slots and the directories of kept blocks, in bytes.
    #[cfg(test)]
    pub fn memory_parts(&self) -> [usize; 4] {
        let filter = self.filter().map_or(0, Filter::memory_bytes);
        let (slots, directories) =
            self.slots.get().map_or((0, 0), |slots| (slots.memory_bytes(), slots.aid_bytes()));
        [self.index.memory_bytes(), filter, slots, directories]
    }

    /// The blocks that the cache keeps.
    pub fn into_blocks(self) -> Option<Arc<Slots>> {
        self.slots.into_inner()
    }

    #[inline]
    pub(super) fn slots(&self) -> &Arc<Slots> {
        self.slots.get_or_init(|| Slots::new(self.cache.clone(), self.id, self.index.blocks()))
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// The bodies that handles lead into, in the order of the properties.
    pub(super) fn bodies(&self) -> &[Arc<Body>] {
        &self.bodies
    }

    /// The body that an entry of block `number` points into.
    pub(super) fn body(&self, number: usize, pointer: &Pointer) -> Result<&Arc<Body>> {
        let body = self.bodies.get(pointer.body as usize);
        body.ok_or_else(|| self.flaw(number, NO_SUCH_BODY))
    }

    /// The loaded images of the bodies, in the order of the properties.
    pub(super) fn images(&self) -> Vec<Option<Arc<Image>>> {
        self.bodies.iter().map(|body| body.image()).collect()
    }

    /// A block from the cache, or else read from the file and put into the cache.
    pub fn block(&self, number: usize) -> Result<Arc<Block>> {
        if let Some(block) = self.cached(number) {
            return Ok(block);
        }
        let mut bytes = Vec::new();
        self.read_blocks(number, number + 1, &mut bytes)?;
        self.reader_waited();
        if mutant!("block_kept_before_its_check") {
            self.keep(number, bytes[..bytes.len() - TRAILER_BYTES].to_vec());
        }
        let payload_bytes = self.check_block(number, &bytes)?.len();
        bytes.truncate(payload_bytes);
        Ok(self.keep(number, bytes))
    }

    /// Looks a block up in the cache, and counts the hit or miss.
    pub(super) fn cached(&self, number: usize) -> Option<Arc<Block>> {
        let block = self.slots().get(number);
        let counter = if block.is_some() { &self.counters.cache_hits } else { &self.counters.cache_misses };
        counter.add(1);
        block
    }

    /// Puts a checked payload into the cache.
    pub(super) fn keep(&self, number: usize, payload: Vec<u8>) -> Arc<Block> {
        let aid_bytes = directory::most_bytes(&payload);
        let block = Arc::new(Block::of_table(payload, aid_bytes));
        self.slots().offer(number, &block);
        block
    }

    /// Puts a payload into the cache, which keeps it although it may have been offered only once.
    pub(super) fn keep_again(&self, number: usize, payload: &Arc<Block>) {
        self.slots().keep(number, payload);
    }

    /// Reads the blocks from `first` up to `end`, excluded, with their trailers.
    pub(super) fn read_blocks(&self, first: usize, end: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let offset = self.index.start(first);
        // The range lies inside the file: the index was checked against the file's length.
        let bytes = self.index.start(end) - offset;
        buffer.resize(bytes as usize, 0);
        let file = self.files.get(self.id, &self.path);
        let file = file.map_err(|source| Error::io("open", &self.path, source))?;
        let read = file.read_exact_at(offset, buffer);
        if self.slow_reads.is_some() {
            // In the page cache, blocks of a slow tier would displace blocks of the fast tier. The block cache keeps those that are read
            // again.
            file.forget_cached(offset, bytes);
        }
        read.map_err(|source| Fault::read(offset, bytes, source).into_error(&self.path))
    }

    /// Counts a read of blocks that a reader waited for, if the table lies on a slow tier.
    pub(super) fn reader_waited(&self) {
        if let Some(reads) = &self.slow_reads {
            reads.fetch_add(1, Relaxed);
            self.counters.slow_reads.add(1);
        }
    }

    /// Whether the table lies on a slow tier.
    pub(super) fn is_slow(&self) -> bool {
        self.slow_reads.is_some()
    }

    /// Reads of blocks that readers waited for since the table was opened; 0 on the fast tier.
    pub fn slow_reads(&self) -> u64 {
        self.slow_reads.as_ref().map_or(0, |reads| reads.load(Relaxed))
    }

    /// Checks block `number` as it was read, and returns its payload.
    pub(super) fn check_block<'a>(&self, number: usize, bytes: &'a [u8]) -> Result<&'a [u8]> {
        section::check(bytes, self.id, self.index.start(number), "data block")
            .map_err(|fault| fault.into_error(&self.path))
    }

    /// The error for a flaw in block `number`.
    #[cold]
    pub(super) fn flaw(&self, number: usize, flaw: Flaw) -> Error {
        let (start, end) = (self.index.start(number), self.index.start(number + 1));
        flaw.at(start, end - start - TRAILER_BYTES as u64).into_error(&self.path)
    }
}
