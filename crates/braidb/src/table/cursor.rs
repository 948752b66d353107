//! Walks a slice of a table, in either direction.
//!
//! Forward, each key is built from the prefix that it shares with the key before and its own suffix. Backward, a whole
//! restart interval is built, and its entries are returned from the end. Bounds are compared only in blocks that reach
//! over them. Values in bodies are fetched on request only, because a scan skips most versions without reading their
//! values.

use super::block::{Entry, Payload, Pointer, SHARES_TOO_MUCH, Version};
use super::holes;
use super::reader::Table;
use super::section::{Flaw, TRAILER_BYTES};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key::KeyRange;
use crate::base::prefetch;
use crate::base::value::Value;
use crate::cache::Block;
use crate::value::{self, BodyFile, Chunk, Handle, Image};
use crate::visible::{Cursor, EntryKind, InBody, LazyValue};
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// Most bytes of one read-ahead, unless a single block is larger. A merge starts with this size. A reader's scan starts
/// with one block and doubles while consecutive blocks miss the cache.
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// Most bytes of one read-ahead of a merge on a slow tier: 2 MiB. A disk with 60 seeks a second and 150 MB a second takes 18 ms for 128 KiB
/// and 31 ms for 2 MiB.
const SLOW_READ_AHEAD_BYTES: u64 = 2 << 20;

#[derive(Debug)]
pub struct TableCursor {
    source: Source,
    /// The block to which a seek forward leads, until the seek has searched in it.
    aim: Option<Aim>,
    /// The current block.
    loaded: Option<Loaded>,
    /// Whether entries of the current block may lie outside of the bounds, at the end towards which the cursor moves.
    may_leave: bool,
    backward: bool,
    /// Forward, the current key; backward, the keys of a restart interval.
    keys: Vec<u8>,
    current: Option<Version>,
    /// The value of the current entry, after it was fetched from a body.
    fetched: Option<Value>,
    /// The images of the bodies that were loaded when a merge made the cursor; empty for readers.
    images: Vec<Option<Arc<Image>>>,
    /// What a merge has read ahead, by the number of the body.
    chunks: Vec<Option<Chunk>>,
    /// Forward, the position of the next entry in the block.
    next_entry: usize,
    /// Backward, the remaining versions of the interval, the nearest last.
    interval: Vec<Version>,
    /// Backward, the number of remaining intervals of the block.
    intervals_left: usize,
}

/// Empty buffers of a cursor, which go from one cursor to the next.
#[derive(Debug, Default)]
pub struct Buffers {
    keys: Vec<u8>,
    interval: Vec<Version>,
}

impl Buffers {
    /// Frees buffers of more than `most_bytes`.
    pub fn free_large(&mut self, most_bytes: usize) {
        if self.keys.capacity() > most_bytes {
            self.keys = Vec::new();
        }
        if self.interval.capacity() * size_of::<Version>() > most_bytes {
            self.interval = Vec::new();
        }
    }
}

/// A block to which a seek leads.
#[derive(Clone, Copy, Debug)]
struct Aim {
    number: usize,
    /// Whether entries of the block may lie beyond the upper bound.
    may_leave: bool,
}

/// A block in use.
#[derive(Debug)]
struct Loaded {
    number: usize,
    owner: Arc<Block>,
    /// The range of the payload in `owner`, which may hold other blocks too.
    payload: Range<usize>,
    /// Bytes of the entries; 0 until [`Loaded::parse`]. The block says it at its end, so to look there at each entry would cost a cache miss.
    entry_bytes: usize,
}

impl Loaded {
    fn alone(number: usize, owner: Arc<Block>) -> Loaded {
        let payload = 0..owner.len();
        Loaded { number, owner, payload, entry_bytes: 0 }
    }

    /// To be called before anything is read from the block.
    fn parse(&mut self) -> Result<(), Flaw> {
        self.entry_bytes = Payload::parse(&self.owner[self.payload.clone()])?.entry_bytes();
        Ok(())
    }

    #[inline]
    fn payload(&self) -> Payload<'_> {
        Payload::of_parts(&self.owner[self.payload.clone()], self.entry_bytes)
    }

    /// The block, about to be searched.
    #[inline]
    fn searched(&self) -> Payload<'_> {
        // In a window of several blocks no search comes twice.
        let is_alone = self.payload.len() == self.owner.len();
        if is_alone { self.payload().with_directory(&self.owner) } else { self.payload() }
    }

    /// Prefetches what a walk forward reads after the entry at `place`: as many bytes, because entries of a block are about equally large.
    /// The processor's own prefetcher is late, as each block lies elsewhere in memory.
    #[inline]
    fn prefetch_behind(&self, place: Range<usize>) {
        let block = &self.owner[self.payload.clone()];
        prefetch::ends(&block[place.end..block.len().min(place.end + place.len())]);
    }

    #[inline]
    fn value(&self, version: &Version) -> Range<usize> {
        self.payload.start + version.value.start..self.payload.start + version.value.end
    }
}

impl TableCursor {
    pub(super) fn new(
        table: Arc<Table>,
        bounds: Arc<KeyRange>,
        fill_cache: bool,
        buffers: Buffers,
    ) -> TableCursor {
        let images = if fill_cache { Vec::new() } else { table.images() };
        TableCursor {
            source: Source::new(table, bounds, fill_cache),
            aim: None,
            loaded: None,
            may_leave: true,
            backward: false,
            keys: buffers.keys,
            current: None,
            fetched: None,
            images,
            chunks: Vec::new(),
            next_entry: 0,
            interval: buffers.interval,
            intervals_left: 0,
        }
    }

    /// Takes the buffers of a cursor that is about to be dropped, for another one.
    pub fn take_buffers(&mut self) -> Buffers {
        let mut buffers =
            Buffers { keys: mem::take(&mut self.keys), interval: mem::take(&mut self.interval) };
        buffers.keys.clear();
        buffers.interval.clear();
        buffers
    }

    fn table(&self) -> &Table {
        &self.source.table
    }

    /// Makes `number` the block to walk forward through, once it is parsed.
    fn load_forward(&mut self, number: usize, may_leave: bool) -> Result<()> {
        self.loaded = None;
        let loaded = self.source.load(number, false)?;
        prefetch::ends(&loaded.owner[loaded.payload.clone()]);
        self.loaded = Some(loaded);
        self.may_leave = may_leave;
        self.next_entry = 0;
        self.keys.clear();
        Ok(())
    }

    /// Reads the frame of the loaded block. A malformed block is not walked through.
    fn parse(&mut self) -> Result<()> {
        let loaded = self.loaded.as_mut().expect("a block was loaded");
        let (number, parsed) = (loaded.number, loaded.parse());
        if parsed.is_err() {
            self.loaded = None;
        }
        parsed.map_err(|flaw| self.table().flaw(number, flaw))
    }

    /// Makes `number` the block to walk backward through.
    fn enter_backward(&mut self, number: usize) -> Result<()> {
        self.loaded = None;
        self.loaded = Some(self.source.load(number, true)?);
        self.parse()?;
        self.intervals_left = self.loaded.as_ref().map_or(0, |loaded| loaded.payload().restart_count());
        self.may_leave = !self.is_inside_after(number.checked_sub(1));
        self.interval.clear();
        Ok(())
    }

    /// Whether all entries behind `block` are at or above the lower bound; `false` without a block.
    fn is_inside_after(&self, block: Option<usize>) -> bool {
        block.is_some_and(|block| {
            self.table().index().compare(block, &self.source.bounds.low) != Ordering::Less
        })
    }

    /// The first part of [`Cursor::seek`]: finds the block that has the first entry at or after `key`. A scan of several tables carries out each
    /// part in all of them before it begins the next part, so the processor waits for the memory of several tables at once.
    pub fn aim(&mut self, key: &[u8]) {
        self.start(false);
        let bounds = &*self.source.bounds;
        let key = key.max(bounds.low.as_slice());
        let index = self.table().index();
        let number = index.first_at_or_after(key);
        if number < index.blocks() {
            let may_leave = index.compare(number, &bounds.high) == Ordering::Greater;
            let is_inside = !may_leave || key <= bounds.high.as_slice();
            self.aim = is_inside.then_some(Aim { number, may_leave });
        }
    }

    /// The second part of [`Cursor::seek`]: gets the block.
    pub fn load(&mut self) -> Result<()> {
        match self.aim {
            Some(Aim { number, may_leave }) => {
                let loaded = self.load_forward(number, may_leave);
                if loaded.is_err() {
                    self.aim = None;
                }
                loaded
            }
            None => Ok(()),
        }
    }

    /// The third part of [`Cursor::seek`]: searches in the block.
    pub fn land(&mut self, key: &[u8]) -> Result<()> {
        let Some(Aim { number, .. }) = self.aim.take() else { return Ok(()) };
        self.parse()?;
        let key = key.max(self.source.bounds.low.as_slice());
        let loaded = self.loaded.as_ref().expect("the block was loaded");
        let payload = loaded.searched();
        let found = payload.seek(key).map_err(|flaw| self.source.table.flaw(number, flaw))?;
        // The bytes that the entry shares with the entry before it, it shares with `key` too, so they are taken from `key`.
        let shared = found.as_ref().map_or(0, |entry| entry.shared);
        self.keys.extend_from_slice(&key[..shared]);
        match found {
            Some(entry) => {
                self.current = enter(entry, &mut self.keys, &mut self.next_entry);
                self.leave_beyond();
                Ok(())
            }
            None => {
                self.next_entry = payload.entry_bytes();
                self.advance()
            }
        }
    }

    /// Moves to the last entry before `key`, or, with `or_at`, to the last entry at or before `key`.
    fn seek_backward(&mut self, key: &[u8], or_at: bool) -> Result<()> {
        self.start(true);
        let index = self.table().index();
        let number = if or_at { index.first_after(key) } else { index.first_at_or_after(key) };
        if key < self.source.bounds.low.as_slice() || self.source.reach().is_empty() {
            return Ok(());
        }
        let number = number.min(self.source.reach().end - 1);
        self.enter_backward(number)?;
        let loaded = self.loaded.as_ref().expect("a block was entered");
        let before = loaded.payload().restarts_before(key, or_at);
        self.intervals_left = before.map_err(|flaw| self.table().flaw(number, flaw))?;
        if self.intervals_left > 0 {
            self.read_interval()?;
            let is_beyond = |found: &[u8]| if or_at { found > key } else { found >= key };
            while self.interval.pop_if(|version| is_beyond(&self.keys[version.key.clone()])).is_some() {}
        }
        self.retreat()
    }

    fn start(&mut self, backward: bool) {
        self.leave();
        self.aim = None;
        self.loaded = None;
        self.backward = backward;
    }

    fn leave(&mut self) {
        self.current = None;
        self.fetched = None;
    }

    /// Moves to the entry at `next_entry`, or to the first entry of the next block.
    fn advance(&mut self) -> Result<()> {
        self.leave();
        while let Some(loaded) = &self.loaded {
            let number = loaded.number;
            let flaw = |flaw| self.source.table.flaw(number, flaw);
            if self.next_entry >= loaded.entry_bytes {
                // The separator is beyond the bound, so all following entries are too.
                if self.may_leave || number + 1 == self.table().index().blocks() {
                    break;
                }
                let high = &self.source.bounds.high;
                let may_leave = self.table().index().compare(number + 1, high) == Ordering::Greater;
                self.load_forward(number + 1, may_leave)?;
                self.parse()?;
                self.source.prefetch_behind(number + 1);
                continue;
            }
            let entry = loaded.payload().entry(self.next_entry).map_err(flaw)?;
            if entry.shared > self.keys.len() {
                return Err(flaw(SHARES_TOO_MUCH));
            }
            loaded.prefetch_behind(self.next_entry..entry.next);
            self.current = enter(entry, &mut self.keys, &mut self.next_entry);
            self.leave_beyond();
            return Ok(());
        }
        Ok(())
    }

    /// Steps off the current entry if it lies beyond the upper bound. Otherwise prefetches its value, if a loaded log or value file holds
    /// it.
    #[inline]
    fn leave_beyond(&mut self) {
        if self.may_leave && self.keys > self.source.bounds.high {
            self.current = None;
        } else if let Some(Version { pointer: Some(Pointer { body, handle }), .. }) = &self.current
            && let Some(Some(image)) = self.images.get(*body as usize)
        {
            image.prefetch(handle);
        }
    }

    /// Moves to the nearest remaining version of the interval, or to the interval before.
    fn retreat(&mut self) -> Result<()> {
        self.leave();
        while let Some(loaded) = &self.loaded {
            if let Some(version) = self.interval.pop() {
                if !(self.may_leave && self.keys[version.key.clone()] < *self.source.bounds.low) {
                    self.current = Some(version);
                }
                return Ok(());
            }
            if self.intervals_left > 0 {
                self.read_interval()?;
                continue;
            }
            let before = loaded.number.checked_sub(1);
            match before.filter(|_| self.is_inside_after(before)) {
                Some(number) => self.enter_backward(number)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Builds the entries of the last remaining interval.
    fn read_interval(&mut self) -> Result<()> {
        let loaded = self.loaded.as_ref().expect("a block was entered");
        self.intervals_left -= 1;
        loaded
            .payload()
            .read_interval(self.intervals_left, &mut self.keys, &mut self.interval)
            .map_err(|flaw| self.source.table.flaw(loaded.number, flaw))
    }

    /// The offset in the file where the current entry ends.
    pub(super) fn end_offset(&self) -> u64 {
        let (loaded, version) = self.at();
        self.table().index().start(loaded.number) + version.value.end as u64
    }

    #[inline]
    fn at(&self) -> (&Loaded, &Version) {
        let at = self.loaded.as_ref().zip(self.current.as_ref());
        at.expect("the cursor is valid")
    }
}

impl Cursor for TableCursor {
    fn keep(&self) {
        if let Some(loaded) = self.loaded.as_ref().filter(|_| self.source.fill_cache) {
            self.table().keep_again(loaded.number, &loaded.owner);
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek(&[])
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let bounds = self.source.bounds.clone();
        self.seek_backward(&bounds.high, true)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.aim(key);
        self.load()?;
        self.land(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if key > self.source.bounds.high.as_slice() {
            self.seek_to_last()
        } else {
            self.seek_backward(key, false)
        }
    }

    fn next(&mut self) -> Result<()> {
        debug_assert!(!self.backward, "a cursor moves on in the direction in which it was positioned");
        if self.current.is_some() { self.advance() } else { Ok(()) }
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.backward, "a cursor moves on in the direction in which it was positioned");
        if self.current.is_some() { self.retreat() } else { Ok(()) }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.keys[self.at().1.key.clone()]
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.at().1.seq
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.at().1.kind
    }

    /// Known backward, while the interval has entries left.
    #[inline]
    fn is_last_of_key(&self) -> bool {
        self.interval.last().is_some_and(|next| self.keys[next.key.clone()] != *self.key())
    }

    #[inline]
    fn has_value_beside(&self) -> bool {
        self.at().1.pointer.is_none()
    }

    #[inline]
    fn fetch(&mut self) -> Result<()> {
        let (loaded, version) = self.at();
        let Some(pointer) = version.pointer.filter(|_| self.fetched.is_none()) else { return Ok(()) };
        let body = self.table().body(loaded.number, &pointer)?.clone();
        let value = match self.images.get(pointer.body as usize) {
            Some(Some(image)) => body.read_from(image, &pointer.handle),
            _ if self.source.fill_cache => body.read(&pointer.handle),
            _ => {
                let number = pointer.body as usize;
                if self.chunks.len() <= number {
                    self.chunks.resize_with(number + 1, || None);
                }
                let bodies = self.source.table.bodies();
                let chunk_bytes = || value::chunk_bytes(bodies, body.file.tier);
                body.read_onward(&pointer.handle, &mut self.chunks[number], chunk_bytes)
            }
        };
        self.fetched = Some(value?);
        Ok(())
    }

    #[inline]
    fn handle(&self) -> Option<(BodyFile, Handle)> {
        let Pointer { body, handle } = self.at().1.pointer?;
        // If the table has no such body, `fetch` reports it.
        let file = self.table().bodies().get(body as usize)?.file;
        file.kind.is_value_file().then_some((file, handle))
    }

    #[inline]
    fn value(&self) -> &[u8] {
        let (loaded, version) = self.at();
        match version.pointer {
            None => &loaded.owner[loaded.value(version)],
            Some(_) => self.fetched.as_ref().expect("a value is fetched before it is read"),
        }
    }

    fn pin_value(&self) -> Value {
        let (loaded, version) = self.at();
        if version.pointer.is_some() {
            return self.fetched.clone().expect("a value is fetched before it is read");
        }
        let place = loaded.value(version);
        Value::pin(loaded.owner.clone(), |owner| &owner[place])
    }

    fn lazy_value(&self) -> LazyValue {
        let (loaded, version) = self.at();
        let Some(pointer) = version.pointer else { return LazyValue::Pinned(self.pin_value()) };
        match self.table().body(loaded.number, &pointer) {
            Ok(body) => LazyValue::InBody(InBody { body: body.clone(), handle: pointer.handle }),
            Err(error) => LazyValue::Failed(error),
        }
    }
}

/// Returns `entry` as the current version. `keys` has to begin with the bytes that its key shares, and becomes its key. Sets `next_entry`.
#[inline]
fn enter(entry: Entry<'_>, keys: &mut Vec<u8>, next_entry: &mut usize) -> Option<Version> {
    keys.truncate(entry.shared);
    keys.extend_from_slice(entry.suffix);
    *next_entry = entry.next;
    let (key, Entry { seq, kind, value, pointer, .. }) = (0..keys.len(), entry);
    Some(Version { key, seq, kind, value, pointer })
}

/// The source of a cursor's blocks.
#[derive(Debug)]
struct Source {
    table: Arc<Table>,
    bounds: Arc<KeyRange>,
    /// The blocks that reach into the bounds; the cursor reads no others. Computed when a read first goes beyond the block in which a
    /// search for a key ended.
    reach: OnceCell<Range<usize>>,
    fill_cache: bool,
    window: Option<Window>,
    last_loaded: Option<usize>,
    ahead_bytes: u64,
}

/// Blocks of one read, with their trailers. Each block is checked when it is used.
#[derive(Debug)]
struct Window {
    blocks: Range<usize>,
    owner: Arc<Block>,
}

impl Source {
    fn new(table: Arc<Table>, bounds: Arc<KeyRange>, fill_cache: bool) -> Source {
        let (reach, window, last_loaded) = (OnceCell::new(), None, None);
        Source { table, bounds, reach, fill_cache, window, last_loaded, ahead_bytes: 0 }
    }

    fn reach(&self) -> &Range<usize> {
        self.reach.get_or_init(|| holes::reach(self.table.index(), &self.bounds))
    }

    fn load(&mut self, number: usize, backward: bool) -> Result<Loaded> {
        debug_assert!(self.reach().contains(&number));
        let before = self.last_loaded.replace(number);
        let is_ahead = self.window.as_ref().is_some_and(|window| window.blocks.contains(&number));
        if self.fill_cache
            && let Some(owner) = self.table.cached(number)
        {
            return Ok(Loaded::alone(number, owner));
        }
        if !is_ahead {
            let step = before.and_then(|at| if backward { at.checked_sub(1) } else { Some(at + 1) });
            self.ahead_bytes = match self.fill_cache {
                false if self.table.is_slow() => SLOW_READ_AHEAD_BYTES,
                false => READ_AHEAD_BYTES,
                true if step == Some(number) => {
                    let index = self.table.index();
                    let block_bytes = index.start(number + 1) - index.start(number);
                    (2 * self.ahead_bytes.max(block_bytes)).min(READ_AHEAD_BYTES)
                }
                true => 0,
            };
            self.read_window(number, backward)?;
            if self.fill_cache {
                self.table.reader_waited();
            }
        }
        let window = self.window.as_ref().expect("the window was read");
        let index = self.table.index();
        let base = index.start(window.blocks.start);
        let place = (index.start(number) - base) as usize..(index.start(number + 1) - base) as usize;
        let payload = self.table.check_block(number, &window.owner[place.clone()])?;
        if self.fill_cache {
            let (payload_bytes, mut bytes) = (payload.len(), Vec::new());
            // A block in a buffer of more than twice its length would waste room in the cache.
            if window.blocks.len() > 1 || window.owner.has_spare(payload_bytes) {
                bytes.extend_from_slice(payload);
            } else {
                let window = self.window.take().expect("it is there");
                let alone = Arc::into_inner(window.owner).expect("only merges use blocks in their window");
                bytes = alone.into_bytes();
                bytes.truncate(payload_bytes);
            }
            let owner = self.table.keep(number, bytes);
            return Ok(Loaded::alone(number, owner));
        }
        let payload = place.start..place.end - TRAILER_BYTES;
        Ok(Loaded { number, owner: window.owner.clone(), payload, entry_bytes: 0 })
    }

    /// Prefetches what a walk forward needs next, if it is kept: the next block, and the header of the block behind it. So neither a header
    /// nor the beginning of a block is waited for.
    #[inline]
    fn prefetch_behind(&self, number: usize) {
        if self.fill_cache {
            let slots = self.table.slots();
            slots.prefetch_ends(number + 1);
            slots.prefetch_header(number + 2);
        }
    }

    /// Reads block `number` and the following blocks in the direction of the walk, as far as `ahead_bytes` reach.
    fn read_window(&mut self, number: usize, backward: bool) -> Result<()> {
        // The buffer is reused unless a value in it is pinned.
        let mut buffer = self
            .window
            .take()
            .and_then(|window| Arc::into_inner(window.owner))
            .map_or_else(Vec::new, Block::into_bytes);
        let index = self.table.index();
        let mut blocks = number..number + 1;
        if backward && self.ahead_bytes > 0 {
            let least = index.start(number + 1).saturating_sub(self.ahead_bytes);
            while blocks.start > self.reach().start && index.start(blocks.start - 1) >= least {
                blocks.start -= 1;
            }
        } else if self.ahead_bytes > 0 {
            let most = index.start(number) + self.ahead_bytes;
            while blocks.end < self.reach().end && index.start(blocks.end + 1) <= most {
                blocks.end += 1;
            }
        }
        self.table.read_blocks(blocks.start, blocks.end, &mut buffer)?;
        self.window = Some(Window { blocks, owner: Arc::new(Block::new(buffer)) });
        Ok(())
    }
}
