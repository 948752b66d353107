//! Values that lie apart from their keys: handles, and the bodies that hold the values.
//!
//! A *body* is a file of values: a closed commit log, or a *value file* ([`mod@file`]), which flushes and merges write. A *handle* holds
//! the place, the length and the checksum of one value in a body. With it a reader finds the value without its frame or record, and checks
//! that it is the right one. A table that holds handles names its bodies, in its own properties and in the manifest. A handle names a body
//! by its index in this list.
//!
//! A body lives as long as a reader may read it (rules 1 and 10). A table holds its bodies as slices hold their table, so a view
//! keeps both. A value file may be deleted when no table of the state names it and no [`Body`] of it lives. The log of a body may be
//! deleted when, besides, no column family replays it. The executor checks this under the lock that edits are committed under
//! (`jobs/cleanup.rs`). [`Bodies`] knows which bodies live.
//!
//! Users read values one by one, through the block cache, where each value has its own entry. A merge reads most values of a log, in the
//! order of keys and not of the file. Small reads would cost more than the log table saved. So a merge loads the whole log once
//! ([`Body::load`]), and other merges of the log share the loaded bytes. Neighbours in key order lie far apart in the log, mostly in no
//! processor cache. So a merge prefetches a value ([`Image::prefetch`]) when a cursor comes to its handle, and reads the value later, after
//! entries of its other inputs.

pub use crate::base::body::{BodyFile, BodyKind, Handle};
use crate::base::checksum;
use crate::base::codec::{Decoder, put_varint};
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, MAX_SEQ, TierId};
use crate::base::names;
use crate::base::prefetch;
use crate::base::tier_dirs::TierDirs;
use crate::base::value::Value;
use crate::cache::{Block, BlockCache, Charge, OpenFiles};
use crate::visible::{Fetched, RawValues, Reach, Together, ValueBody};
use braidb_storage::locks::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

pub mod file;
pub mod holes;
#[cfg(test)]
mod tests;

/// Most bytes of a value that the block cache keeps when a user reads it out of a value file: 64 KiB. A larger value would displace 16
/// blocks of 4 KiB and more, and reading it takes far longer than finding it.
const CACHED_VALUE_BYTES: u32 = 64 << 10;
/// Bytes of value files that a merge holds for one table: 8 MiB, divided among the files into which the table leads. Each gets at least the
/// lower bound of [`CHUNK_BYTES`].
const CHUNKS_BYTES: usize = 8 << 20;
/// Least and most bytes that a merge reads at once out of a value file. 16 KiB are read in about twice the time of 4 KiB, if the pages are
/// cached; 256 KiB take a disk little longer than the seek.
const CHUNK_BYTES: RangeInclusive<usize> = (16 << 10)..=(256 << 10);
/// As [`CHUNKS_BYTES`], for the value files on slow tiers: 32 MiB. With 8 MiB, a table with values in 26 of them had 320 KiB for each, and
/// moving a cell took a busy disk 16 s instead of 1.5 s.
const SLOW_CHUNKS_BYTES: usize = 32 << 20;
/// As [`CHUNK_BYTES`], on a slow tier. A disk with 60 seeks a second and 150 MB a second takes 18 ms for 256 KiB and 31 ms for 2 MiB.
const SLOW_CHUNK_BYTES: RangeInclusive<usize> = (256 << 10)..=(2 << 20);

/// Bytes that a merge reads at once out of a value file on `tier`, for a table that leads into these bodies.
pub fn chunk_bytes(bodies: &[Arc<Body>], tier: TierId) -> usize {
    let is_slow = |body: &&Arc<Body>| body.file.tier != TierId::FAST;
    let (files, all_bytes, bounds) = match tier {
        TierId::FAST => (bodies.len(), CHUNKS_BYTES, CHUNK_BYTES),
        _ => (bodies.iter().filter(is_slow).count(), SLOW_CHUNKS_BYTES, SLOW_CHUNK_BYTES),
    };
    (all_bytes / files.max(1)).clamp(*bounds.start(), *bounds.end())
}

/// One read of several values may take this many times the bytes of the values: 2. So a scan reads at most two bytes for each byte that it
/// returns.
const SPAN_SHARE: u64 = 2;
/// Bytes beyond [`SPAN_SHARE`] that one read of several values may take: 16 KiB. Copying them out of the page cache costs about as much as
/// one more call.
const SPAN_SLACK_BYTES: u64 = 16 << 10;
/// Most bytes of a read of several values: 16 MiB, unless one value is larger. The next read goes on behind them, so a disk makes no
/// additional seek.
const SPAN_BYTES: u64 = 16 << 20;

/// A scan keeps the gaps between the values of a span in memory if they take at most one part in this many of the values' bytes: an eighth.
/// Larger gaps are squeezed out, which copies the values once more.
const GAP_SHARE: u64 = 8;

/// A body that a table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyUse {
    pub file: BodyFile,
    /// Bytes of the values that the table's handles lead to.
    pub live_bytes: u64,
}

/// Whether all bodies are logs. Versions before value files wrote such lists without kinds, and so does this one.
pub fn are_logs(bodies: &[BodyUse]) -> bool {
    bodies.iter().all(|body| body.file.kind == BodyKind::Log)
}

/// Writes the list of a table's bodies: without kinds if all are logs, else each with its kind first.
pub fn encode_bodies(bodies: &[BodyUse], out: &mut Vec<u8>) {
    let has_kinds = !are_logs(bodies);
    for BodyUse { file, live_bytes } in bodies {
        if has_kinds {
            put_varint(out, file.kind_and_tier());
        }
        [file.id.0, *live_bytes, file.bytes].into_iter().for_each(|number| put_varint(out, number));
    }
}

/// Reads a list of logs, at least one, to the end of the input.
pub fn decode_logs(input: &mut Decoder<'_>) -> Option<Vec<BodyUse>> {
    decode_list(input, |_| Some((BodyKind::Log, TierId::FAST)))
}

/// Reads a list of bodies with their kinds, at least one of them a value file, to the end of the input.
pub fn decode_bodies(input: &mut Decoder<'_>) -> Option<Vec<BodyUse>> {
    decode_list(input, |input| BodyFile::of_kind_and_tier(input.varint()?)).filter(|bodies| !are_logs(bodies))
}

/// Whether one of the bodies is a trie table.
pub fn have_tries(bodies: &[BodyUse]) -> bool {
    bodies.iter().any(|body| body.file.kind == BodyKind::Trie)
}

fn decode_list(
    input: &mut Decoder<'_>,
    kind_and_tier: impl Fn(&mut Decoder<'_>) -> Option<(BodyKind, TierId)>,
) -> Option<Vec<BodyUse>> {
    let mut bodies = Vec::new();
    while bodies.is_empty() || !input.is_empty() {
        let (kind, tier) = kind_and_tier(input)?;
        // A file number below `MAX_SEQ` leaves room to count up.
        let id = input.varint().filter(|&id| id < MAX_SEQ).map(FileId)?;
        let (live_bytes, bytes) = (input.varint()?, input.varint()?);
        bodies.push(BodyUse { file: BodyFile { kind, tier, id, bytes }, live_bytes });
    }
    Some(bodies)
}

#[derive(Debug, Default)]
struct Living {
    /// By file and committed length. Tables may name one trie table with several lengths; a corrupt manifest may do so for other files.
    bodies: BTreeMap<(FileId, u64), Weak<Body>>,
    /// When the map has this many bodies, the dead ones are removed: twice as many as were left the last time.
    pruned_at: usize,
}

/// The bodies of an open database that are alive.
#[derive(Debug)]
pub struct Bodies {
    files: Arc<OpenFiles>,
    dirs: TierDirs,
    cache: Arc<BlockCache>,
    counters: Arc<Counters>,
    living: Mutex<Living>,
    /// Whether a body died since the last [`Bodies::take_any_died`].
    any_died: AtomicBool,
}

impl Bodies {
    pub fn new(
        files: Arc<OpenFiles>,
        dirs: TierDirs,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Arc<Bodies> {
        let any_died = AtomicBool::new(false);
        Arc::new(Bodies { files, dirs, cache, counters, living: Mutex::default(), any_died })
    }

    /// The body in this file. All tables that name it with this length share one.
    pub fn get(self: &Arc<Self>, file: BodyFile) -> Arc<Body> {
        let mut living = self.living.lock();
        let place = (file.id, file.bytes);
        if let Some(body) = living.bodies.get(&place).and_then(Weak::upgrade).filter(|body| body.file == file)
        {
            return body;
        }
        let path = match file.kind {
            BodyKind::Log => names::log(self.dirs.fast(), file.id),
            BodyKind::Values | BodyKind::Trie => self.dirs.values(file.tier, file.id),
        };
        let slow_reads = (file.tier != TierId::FAST).then(AtomicU64::default);
        let image = Mutex::new(Weak::new());
        let body = Arc::new(Body { file, path, store: self.clone(), image, slow_reads });
        if living.bodies.len() >= living.pruned_at {
            living.bodies.retain(|_, body| body.strong_count() > 0);
            living.pruned_at = 2 * living.bodies.len();
        }
        living.bodies.insert(place, Arc::downgrade(&body));
        body
    }

    /// Whether a reader may still read file `id` as a body.
    pub fn is_held(&self, id: FileId) -> bool {
        let living = self.living.lock();
        living.bodies.range((id, 0)..=(id, u64::MAX)).any(|(_, body)| body.strong_count() > 0)
    }

    /// How many owners the bodies of file `id` have: tables, open tables, and readers between two steps.
    pub fn owners(&self, id: FileId) -> usize {
        let living = self.living.lock();
        living.bodies.range((id, 0)..=(id, u64::MAX)).map(|(_, body)| body.strong_count()).sum()
    }

    /// Whether a body died since the last call of [`Bodies::take_any_died`].
    pub fn any_died(&self) -> bool {
        self.any_died.load(Ordering::Acquire)
    }

    /// Whether a body died since the last call.
    pub fn take_any_died(&self) -> bool {
        self.any_died.load(Ordering::Relaxed) && self.any_died.swap(false, Ordering::AcqRel)
    }
}

/// A file of values that a table points into.
#[derive(Debug)]
pub struct Body {
    pub file: BodyFile,
    path: PathBuf,
    store: Arc<Bodies>,
    /// The bytes of the whole file, while a merge holds them.
    image: Mutex<Weak<Image>>,
    /// Reads that readers waited for, if the file lies on a slow tier.
    slow_reads: Option<AtomicU64>,
}

/// The bytes of a whole body in memory. Nothing in them is trusted: each value is checked when it is read.
#[derive(Debug)]
pub struct Image {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl Image {
    /// Tells the processor that a merge will soon read the value of `handle`.
    #[inline]
    pub fn prefetch(&self, handle: &Handle) {
        let rest = usize::try_from(handle.offset).ok().and_then(|offset| self.bytes.get(offset..));
        let value = rest.map(|rest| &rest[..rest.len().min(handle.bytes as usize)]);
        value.into_iter().for_each(prefetch::bytes);
    }
}

/// Bytes of a value file that a merge has read and may need.
#[derive(Debug)]
pub struct Chunk {
    offset: u64,
    bytes: Arc<Vec<u8>>,
}

impl Chunk {
    /// Where the value of a handle lies in the chunk, if all of it does.
    fn range(&self, handle: &Handle) -> Option<Range<usize>> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(handle.bytes as usize)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

impl ValueBody for Body {
    fn id(&self) -> FileId {
        self.file.id
    }

    /// Values of a log lie in the order of writing, so reading ahead would not bring the values of the next keys.
    fn is_read_ahead(&self) -> bool {
        self.file.kind.is_value_file()
    }

    fn read(&self, handle: &Handle) -> Result<Value> {
        Body::read(self, handle)
    }

    /// Values that are not cached are read in spans. A span takes in gaps as long as it has at most [`SPAN_SHARE`] times the bytes of its
    /// values, and beyond it `reach.gap_bytes` or [`SPAN_SLACK_BYTES`].
    fn read_together(&self, handles: &[Handle], reach: Reach, raw: &mut RawValues) -> Together {
        let mut values: Vec<Option<Fetched>> =
            handles.iter().map(|handle| self.at_hand(handle).map(Fetched::Value)).collect();
        let wanted: Vec<usize> = (0..handles.len()).filter(|&at| values[at].is_none()).collect();
        let spans = spans(&wanted, handles, reach.gap_bytes.max(SPAN_SLACK_BYTES));
        let places = spans.len() as u64;
        for (number, span) in spans.into_iter().enumerate() {
            let is_last = number as u64 + 1 == places;
            let ahead_bytes = if is_last { reach.ahead_bytes } else { 0 };
            self.read_span(handles, span, ahead_bytes, raw, &mut values);
        }
        self.store.counters.scan_places.add(places);
        let values =
            values.into_iter().map(|value| value.expect("a value without one was in a span")).collect();
        Together { values, places }
    }

    /// The value has memory of its own, because the user may keep it for long.
    fn take(&self, handle: &Handle, bytes: &[u8]) -> Result<Value> {
        self.check(handle, bytes)?;
        Ok(self.checked(handle, bytes.to_vec()))
    }
}

/// The runs of `wanted` handles that are read together. The offsets of the handles ascend.
fn spans<'a>(wanted: &'a [usize], handles: &[Handle], slack_bytes: u64) -> Vec<&'a [usize]> {
    let mut spans = Vec::new();
    let (mut begun, mut value_bytes) = (0, 0);
    for (number, &at) in wanted.iter().enumerate() {
        let bytes = u64::from(handles[at].bytes);
        let span_bytes = handles[at].offset + bytes - handles[wanted[begun]].offset;
        let most_bytes = (SPAN_SHARE * (value_bytes + bytes)).saturating_add(slack_bytes).min(SPAN_BYTES);
        if number > begun && span_bytes > most_bytes {
            spans.push(&wanted[begun..number]);
            (begun, value_bytes) = (number, 0);
        }
        value_bytes += bytes;
    }
    if begun < wanted.len() {
        spans.push(&wanted[begun..]);
    }
    spans
}

impl Body {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the values of one span, and `ahead_bytes` behind them into the page cache.
    fn read_span(
        &self,
        handles: &[Handle],
        span: &[usize],
        ahead_bytes: u64,
        raw: &mut RawValues,
        values: &mut [Option<Fetched>],
    ) {
        let start = handles[span[0]].offset;
        let ends = span.iter().map(|&at| handles[at].offset + u64::from(handles[at].bytes));
        let end = ends.max().expect("a span has a value");
        let ahead_bytes = ahead_bytes.min(self.file.bytes.saturating_sub(end));
        self.store.counters.scan_bytes.add(end - start + ahead_bytes);
        if let [at] = span
            && !self.is_cached(&handles[*at])
        {
            // A large value is read directly into the memory that the caller gets. The bytes behind it need only be in the page cache.
            values[*at] = Some(Fetched::Value(self.read_uncached(&handles[*at])));
            if ahead_bytes > 0 {
                let (_, room) = raw.room(ahead_bytes as usize);
                let _ = self.fill(end, room);
            }
            return;
        }
        self.reader_waited();
        let (begun, room) = raw.room((end - start + ahead_bytes) as usize);
        if self.fill(start, room).is_err() {
            // The unreadable place may lie in a gap, or in only one of the values, so each value is read alone.
            span.iter().for_each(|&at| values[at] = Some(Fetched::Value(self.read_uncached(&handles[at]))));
            return;
        }
        let value_bytes: u64 = span.iter().map(|&at| u64::from(handles[at].bytes)).sum();
        let has_gaps = end - start > value_bytes + value_bytes / GAP_SHARE;
        let mut kept = 0;
        for &at in span {
            let (place, bytes) = ((handles[at].offset - start) as usize, handles[at].bytes as usize);
            // The values of valid handles do not overlap, so no move overwrites a later value. With invalid handles one may; `take` then
            // finds that the checksum is wrong.
            let place = if has_gaps {
                room.copy_within(place..place + bytes, kept);
                kept
            } else {
                place
            };
            kept = kept.max(place + bytes);
            values[at] = Some(Fetched::Raw(begun + place));
        }
        raw.keep(kept);
    }

    /// Reads a value for a user. It has memory of its own, because the user may keep it for long.
    pub fn read(&self, handle: &Handle) -> Result<Value> {
        let counters = &self.store.counters;
        match self.file.kind {
            BodyKind::Log => counters.log_reads.add(1),
            BodyKind::Values | BodyKind::Trie => counters.value_reads.add(1),
        }
        if let Some(value) = self.cached(handle) {
            return Ok(value);
        }
        if self.is_cached(handle) {
            counters.cache_misses.add(1);
        }
        self.read_uncached(handle)
    }

    /// Counts a read that a reader waited for, if the file lies on a slow tier.
    fn reader_waited(&self) {
        if let Some(reads) = &self.slow_reads {
            reads.fetch_add(1, Ordering::Relaxed);
            self.store.counters.slow_reads.add(1);
        }
    }

    /// Reads that readers waited for since the body was opened; 0 on the fast tier.
    pub fn slow_reads(&self) -> u64 {
        self.slow_reads.as_ref().map_or(0, |reads| reads.load(Ordering::Relaxed))
    }

    /// Whether the cache keeps the value when a user reads it.
    fn is_cached(&self, handle: &Handle) -> bool {
        self.file.kind == BodyKind::Log || handle.bytes <= CACHED_VALUE_BYTES
    }

    /// The value as users get it, after it was checked against its handle.
    fn checked(&self, handle: &Handle, value: Vec<u8>) -> Value {
        if !self.is_cached(handle) {
            return Value::pin(Arc::new(value), |value| value);
        }
        let value = Arc::new(Block::of_value(value, handle.crc));
        self.store.cache.offer_value(self.file.id, handle.offset, &value);
        Value::pin(value, |value| value)
    }

    /// Reads a value for a user, after it was not found in the cache.
    fn read_uncached(&self, handle: &Handle) -> Result<Value> {
        self.reader_waited();
        self.read_alone(handle).map(|value| self.checked(handle, value))
    }

    /// The value if it is in the cache. Length and checksum are compared, because a wrong handle of another table may point to this place.
    fn cached(&self, handle: &Handle) -> Option<Value> {
        if !self.is_cached(handle) {
            return None;
        }
        let value = self.store.cache.value(self.file.id, handle.offset)?;
        value.is_value(handle.bytes, handle.crc).then(|| {
            self.store.counters.cache_hits.add(1);
            Value::pin(value, |value| value)
        })
    }

    /// The value if it is in the cache, or the error of an impossible handle; `None` if the file has to be read.
    fn at_hand(&self, handle: &Handle) -> Option<Result<Value>> {
        self.store.counters.value_reads.add(1);
        if let Err(error) = self.place(handle) {
            return Some(Err(error));
        }
        self.cached(handle).map(Ok)
    }

    fn read_alone(&self, handle: &Handle) -> Result<Vec<u8>> {
        self.place(handle)?;
        // Allocates no more than the file has: a handle is not trusted.
        let mut bytes = vec![0; handle.bytes as usize];
        self.fill(handle.offset, &mut bytes)?;
        self.check(handle, &bytes)?;
        Ok(bytes)
    }

    /// Reads a value for a merge, which needs it only briefly: from the loaded image, if the whole file was loaded.
    pub fn read_in_passing(&self, handle: &Handle) -> Result<Value> {
        if let Some(image) = self.image() {
            return self.read_from(&image, handle);
        }
        self.count_merge_read(handle.bytes.into());
        Ok(Value::pin(Arc::new(self.read_alone(handle)?), |bytes| bytes))
    }

    /// Reads a value for a merge, which reads the values of a value file mostly by ascending offsets. Takes the value out of `chunk`. If it
    /// is not there, reads `chunk_bytes` bytes from the value on, which replace the chunk.
    pub fn read_onward(
        &self,
        handle: &Handle,
        chunk: &mut Option<Chunk>,
        chunk_bytes: impl FnOnce() -> usize,
    ) -> Result<Value> {
        let place = self.place(handle)?;
        if let Some(range) = chunk.as_ref().and_then(|chunk| chunk.range(handle)) {
            let bytes = chunk.as_ref().expect("it has a range").bytes.clone();
            self.check(handle, &bytes[range.clone()])?;
            return Ok(Value::pin(bytes, |bytes| &bytes[range]));
        }
        let chunk_bytes = if self.file.kind == BodyKind::Log { 0 } else { chunk_bytes() };
        if place.len() >= chunk_bytes {
            return self.read_in_passing(handle);
        }
        let rest = usize::try_from(self.file.bytes - handle.offset).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest.min(chunk_bytes)];
        if self.fill(handle.offset, &mut bytes).is_err() {
            // The unreadable place may lie behind the value.
            return self.read_in_passing(handle);
        }
        self.count_merge_read(bytes.len() as u64);
        let bytes = Arc::new(bytes);
        *chunk = Some(Chunk { offset: handle.offset, bytes: bytes.clone() });
        self.check(handle, &bytes[..place.len()])?;
        Ok(Value::pin(bytes, |bytes| &bytes[..place.len()]))
    }

    fn count_merge_read(&self, bytes: u64) {
        let counters = &self.store.counters;
        match self.file.kind {
            BodyKind::Log => counters.log_merge_bytes.add(bytes),
            BodyKind::Values | BodyKind::Trie => counters.value_merge_bytes.add(bytes),
        }
    }

    /// The bytes of the whole file, if they were loaded and are still held.
    pub fn image(&self) -> Option<Arc<Image>> {
        self.image.lock().upgrade()
    }

    /// Reads a value from the loaded bytes of this body.
    pub fn read_from(&self, image: &Arc<Image>, handle: &Handle) -> Result<Value> {
        let place = self.place(handle)?;
        self.check(handle, &image.bytes[place.clone()])?;
        Ok(Value::pin(image.clone(), |image| &image.bytes[place]))
    }

    /// Loads the whole file at once, unless a caller still holds it. While a caller holds it, merges read values from it.
    pub fn load(&self) -> Result<Arc<Image>> {
        if let Some(image) = self.image() {
            return Ok(image);
        }
        let bytes = usize::try_from(self.file.bytes).map_err(|_| self.damage(0, "it is too long"))?;
        // Under a memory limit, cached blocks make room before the file is loaded.
        let charge = Charge::new(self.store.cache.clone(), bytes);
        let mut image = Image { bytes: vec![0; bytes], _charge: charge };
        self.fill(0, &mut image.bytes)?;
        self.count_merge_read(self.file.bytes);
        let image = Arc::new(image);
        *self.image.lock() = Arc::downgrade(&image);
        Ok(image)
    }

    /// Where the value of a handle lies, if it lies inside of the file.
    fn place(&self, handle: &Handle) -> Result<Range<usize>> {
        let end = handle.offset.checked_add(u64::from(handle.bytes)).filter(|&end| end <= self.file.bytes);
        match end.and_then(|end| Some(usize::try_from(handle.offset).ok()?..usize::try_from(end).ok()?)) {
            Some(place) => Ok(place),
            None => Err(self.damage(handle.offset, "a table points to a value beyond the end of the file")),
        }
    }

    fn fill(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let file = self.store.files.get(self.file.id, &self.path);
        let file = file.map_err(|source| Error::io("open", &self.path, source))?;
        let read = file.read_exact_at(offset, bytes);
        if self.slow_reads.is_some() {
            // In the page cache, values of a slow tier would displace what lies on the fast one.
            file.forget_cached(offset, bytes.len() as u64);
        }
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damage(offset, "the file ends before a value that a table points to")
            }
            _ => Error::io("read", &self.path, source),
        })
    }

    fn check(&self, handle: &Handle, value: &[u8]) -> Result<()> {
        if checksum::of_value(value) == handle.crc {
            return Ok(());
        }
        Err(self.damage(handle.offset, "a value that a table points to does not match its checksum"))
    }

    #[cold]
    fn damage(&self, offset: u64, what: &str) -> Error {
        Error::corruption(&self.path, offset, what)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.store.files.close(self.file.id);
        self.store.any_died.store(true, Ordering::Release);
    }
}
