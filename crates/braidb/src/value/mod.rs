//! Values that lie apart from their keys: handles, and the bodies that hold the values.
//!
//! A *body* is a file of values; today a closed commit log. A *handle* holds the place, the length and the checksum of one value
//! in a body. With it a reader finds the value without its frame, and checks that it is the right one. A table that holds handles
//! names its bodies, in its own properties and in the manifest. A handle names a body by its place in this list.
//!
//! A body lives as long as a reader may read it (rules 1 and 10). A table holds its bodies as slices hold their table, so a view
//! keeps both. The log of a body may be deleted when three things hold at once. No column family replays it, no table of the
//! state names it, and no [`Body`] of it lives. The executor checks all three under the lock that edits are committed under
//! (`jobs/cleanup.rs`). [`Bodies`] knows the third.
//!
//! Users read values one by one, through the block cache, where each value has its own entry. A merge reads most values of a log,
//! in the order of keys and not of the file. Small reads would cost more than the log table saved. So a merge loads the whole log
//! once ([`Body::load`]), and other merges of the log share the loaded bytes. Neighbours in key order lie far apart in the log,
//! mostly in no processor cache. So a merge asks for a value ([`Image::prefetch`]) when it comes to the handle. The merge reads
//! the value after the other sources had their turns.

use crate::base::checksum;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use crate::base::names;
use crate::base::prefetch;
use crate::base::value::Value;
use crate::cache::{Block, BlockCache, OpenFiles};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

#[cfg(test)]
mod tests;

/// Where a value lies in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub offset: u64,
    pub bytes: u32,
    /// Checksum of the content alone: a value keeps it when the value moves.
    pub crc: u32,
}

/// A body that a table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyUse {
    pub log: FileId,
    /// Bytes of the values that the table's handles lead to.
    pub live_bytes: u64,
    /// The exact length of the closed log, its footer included.
    pub bytes: u64,
}

/// The bodies that live in this open.
#[derive(Debug)]
pub struct Bodies {
    files: Arc<OpenFiles>,
    dir: PathBuf,
    cache: Arc<BlockCache>,
    counters: Arc<Counters>,
    living: Mutex<BTreeMap<FileId, Weak<Body>>>,
    /// Whether a body died since the last [`Bodies::take_any_died`].
    any_died: AtomicBool,
}

impl Bodies {
    pub fn new(
        files: Arc<OpenFiles>,
        dir: &Path,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Arc<Bodies> {
        let any_died = AtomicBool::new(false);
        Arc::new(Bodies { files, dir: dir.to_owned(), cache, counters, living: Mutex::default(), any_died })
    }

    /// The body that is log `id`, closed with `bytes` bytes. All tables that name it share one.
    pub fn get(self: &Arc<Self>, id: FileId, bytes: u64) -> Arc<Body> {
        let mut living = self.living.lock();
        // A log is closed once, so another length comes from a corrupt manifest. Each body then reads by its own length.
        if let Some(body) = living.get(&id).and_then(Weak::upgrade).filter(|body| body.bytes == bytes) {
            return body;
        }
        let path = names::log(&self.dir, id);
        let body = Arc::new(Body { id, bytes, path, store: self.clone(), image: Mutex::new(Weak::new()) });
        living.retain(|_, body| body.strong_count() > 0);
        living.insert(id, Arc::downgrade(&body));
        body
    }

    /// Whether a reader may still read log `id` as a body.
    pub fn is_held(&self, id: FileId) -> bool {
        self.living.lock().get(&id).is_some_and(|body| body.strong_count() > 0)
    }

    /// Whether a body died since the last call.
    pub fn take_any_died(&self) -> bool {
        self.any_died.load(Ordering::Relaxed) && self.any_died.swap(false, Ordering::AcqRel)
    }
}

/// A log that a table points into.
#[derive(Debug)]
pub struct Body {
    pub id: FileId,
    /// The exact length of the closed log.
    pub bytes: u64,
    path: PathBuf,
    store: Arc<Bodies>,
    /// The bytes of the whole log, while a merge holds them.
    image: Mutex<Weak<Image>>,
}

/// The bytes of a whole body in memory. Nothing in them is trusted: each value is checked when it is read.
#[derive(Debug)]
pub struct Image(Vec<u8>);

impl Image {
    /// Tells the processor that a merge will soon read the value of `handle`.
    #[inline]
    pub fn prefetch(&self, handle: &Handle) {
        let rest = usize::try_from(handle.offset).ok().and_then(|offset| self.0.get(offset..));
        let value = rest.map(|rest| &rest[..rest.len().min(handle.bytes as usize)]);
        value.into_iter().for_each(prefetch::bytes);
    }
}

impl Body {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a value for a user. It has memory of its own, because the user may keep it for long.
    pub fn read(&self, handle: &Handle) -> Result<Value> {
        let Bodies { cache, counters, .. } = &*self.store;
        counters.log_reads.add(1);
        // A handle of another table may point to this place wrongly.
        let is_right = |value: &Arc<Block>| {
            value.len() == handle.bytes as usize && checksum::of_value(value) == handle.crc
        };
        if let Some(value) = cache.get(self.id, handle.offset).filter(is_right) {
            counters.cache_hits.add(1);
            return Ok(Value::pin(value, |value| value));
        }
        counters.cache_misses.add(1);
        let value = Arc::new(Block::new(self.read_alone(handle)?));
        cache.insert(self.id, handle.offset, &value);
        Ok(Value::pin(value, |value| value))
    }

    fn read_alone(&self, handle: &Handle) -> Result<Vec<u8>> {
        self.place(handle)?;
        // Allocates no more than the log has: a handle is not trusted.
        let mut bytes = vec![0; handle.bytes as usize];
        self.fill(handle.offset, &mut bytes)?;
        self.check(handle, &bytes)?;
        Ok(bytes)
    }

    /// Reads a value for a merge, which needs it only briefly: from the loaded image, if the whole log was loaded.
    pub fn read_in_passing(&self, handle: &Handle) -> Result<Value> {
        if let Some(image) = self.image() {
            return self.read_from(&image, handle);
        }
        self.store.counters.log_merge_bytes.add(handle.bytes.into());
        Ok(Value::pin(Arc::new(self.read_alone(handle)?), |bytes| bytes))
    }

    /// The bytes of the whole log, if they were loaded and are still held.
    pub fn image(&self) -> Option<Arc<Image>> {
        self.image.lock().upgrade()
    }

    /// Reads a value from the loaded bytes of this body.
    pub fn read_from(&self, image: &Arc<Image>, handle: &Handle) -> Result<Value> {
        let place = self.place(handle)?;
        self.check(handle, &image.0[place.clone()])?;
        Ok(Value::pin(image.clone(), |image| &image.0[place]))
    }

    /// Loads the whole log at once, unless a caller still holds it. While a caller holds it, merges read values from it.
    pub fn load(&self) -> Result<Arc<Image>> {
        if let Some(image) = self.image() {
            return Ok(image);
        }
        let bytes = usize::try_from(self.bytes).map_err(|_| self.damage(0, "it is too long"))?;
        let mut image = vec![0; bytes];
        self.fill(0, &mut image)?;
        self.store.counters.log_merge_bytes.add(self.bytes);
        let image = Arc::new(Image(image));
        *self.image.lock() = Arc::downgrade(&image);
        Ok(image)
    }

    /// Where the value of a handle lies, if it lies inside of the log.
    fn place(&self, handle: &Handle) -> Result<Range<usize>> {
        let end = handle.offset.checked_add(u64::from(handle.bytes)).filter(|&end| end <= self.bytes);
        match end.and_then(|end| Some(usize::try_from(handle.offset).ok()?..usize::try_from(end).ok()?)) {
            Some(place) => Ok(place),
            None => Err(self.damage(handle.offset, "a table points to a value beyond the end of the log")),
        }
    }

    fn fill(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let file = self.store.files.get(self.id, &self.path);
        let file = file.map_err(|source| Error::io("open", &self.path, source))?;
        file.read_exact_at(offset, bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damage(offset, "the log ends before a value that a table points to")
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
        self.store.files.close(self.id);
        self.store.any_died.store(true, Ordering::Release);
    }
}
