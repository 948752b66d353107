//! How many bytes the cache may take, alone or beside the tables.
//!
//! Indices, filters, samples and slots of open tables are needed for each read, so they stay until their table goes. A merge needs the logs
//! that it loads. With the option `memory_limit` the cache has what tables and logs leave of one budget, so it shrinks while they grow. A
//! sixteenth of the budget stays for blocks, because each read would wait for the device otherwise.

use super::BlockCache;
use crate::base::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// The part of a shared budget that stays for blocks, however large the tables are: one byte in 16.
const LEAST_SHARE: u64 = 16;

/// The limit of a cache.
#[derive(Debug)]
pub struct Limit {
    /// Most bytes of blocks and values: 0 once the database was closed.
    capacity_bytes: AtomicU64,
    /// Bytes that blocks, values and tables share; `None` if tables are not bounded.
    shared_bytes: Option<u64>,
    /// Bytes that tables and loaded logs take.
    table_bytes: AtomicU64,
}

impl Limit {
    pub fn new(capacity_bytes: u64, shared_bytes: Option<u64>) -> Limit {
        Limit { capacity_bytes: AtomicU64::new(capacity_bytes), shared_bytes, table_bytes: AtomicU64::new(0) }
    }

    /// Most bytes that blocks and values may take now.
    pub fn bytes(&self) -> u64 {
        let capacity_bytes = self.capacity_bytes.load(Ordering::Relaxed);
        let Some(shared_bytes) = self.shared_bytes else { return capacity_bytes };
        let left_bytes = shared_bytes.saturating_sub(self.table_bytes());
        left_bytes.max(shared_bytes / LEAST_SHARE).min(capacity_bytes)
    }

    /// Bytes that tables and loaded logs take.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed)
    }

    /// Leaves no room from now on.
    pub fn close(&self) {
        self.capacity_bytes.store(0, Ordering::Relaxed);
    }

    pub fn is_shared(&self) -> bool {
        self.shared_bytes.is_some()
    }
}

/// What a table or a loaded log takes: it counts until the charge is dropped.
#[derive(Debug)]
pub struct Charge {
    cache: Arc<BlockCache>,
    bytes: u64,
}

impl Charge {
    /// Counts the bytes. Blocks leave the cache if it has less room from now on.
    pub fn new(cache: Arc<BlockCache>, bytes: usize) -> Charge {
        let bytes = bytes as u64;
        cache.limit.table_bytes.fetch_add(bytes, Ordering::Relaxed);
        if cache.limit.is_shared() {
            cache.shrink();
        }
        Charge { cache, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.cache.limit.table_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
