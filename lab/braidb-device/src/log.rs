//! The cost of an append to a log: mostly a store into a mapping, as in `braidb_storage::real`, and sometimes a call.
//!
//! A store needs allocated space and requested pages; one request covers 16 KiB. Pages are trusted until a sync, or for
//! 100 ms. The first append after that is a call, and the second one requests pages again. Appends over 4 KiB are
//! calls, unless their pages are ready.

use crate::costs;
use crate::profile::PAGE_BYTES;

/// Bytes of pages that one request covers: `STEP_BYTES` of `braidb_storage`.
const STEP_BYTES: u64 = 16 << 10;
/// Appends of more bytes than this request no pages: `LARGE_BYTES` of `braidb_storage`.
const LARGE_BYTES: u64 = 4 << 10;
/// Time that a requested page is trusted, in ns: `TRUST` of `braidb_storage`.
const TRUST_NS: u64 = 100_000_000;

/// The state of a handle that created a log.
#[derive(Debug, Default)]
pub struct LogState {
    end: u64,
    allocated: u64,
    /// The end of the requested pages.
    ready: u64,
    asked_ns: u64,
    /// Whether the call was made that is due after pages lost their trust.
    has_called: bool,
    stored_bytes: u64,
}

impl LogState {
    /// The offset of the next append.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that were appended without a system call.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// The processor time of an append of `len` bytes now, without the copy, and whether it is a store.
    pub fn price(&mut self, len: u64, now_ns: u64) -> (u64, bool) {
        if self.ready > 0 && now_ns.saturating_sub(self.asked_ns) > TRUST_NS {
            self.distrust();
        }
        let end = self.end + len;
        if end <= self.ready {
            return (costs::STORE_NS, true);
        }
        if len > LARGE_BYTES || end > self.allocated {
            return (costs::CALL_NS, false);
        }
        if !self.has_called {
            self.has_called = true;
            return (costs::CALL_NS, false);
        }
        self.ready = (self.end + STEP_BYTES).min(self.allocated);
        self.asked_ns = now_ns;
        let pages = self.ready.div_ceil(PAGE_BYTES) - self.end / PAGE_BYTES;
        // A read brings the pages into the cache, then another call makes them writable in the mapping.
        (2 * costs::CALL_NS + pages * costs::POPULATE_NS + costs::STORE_NS, true)
    }

    pub fn appended(&mut self, len: u64, is_store: bool) {
        self.end += len;
        if is_store {
            self.stored_bytes += len;
        }
    }

    pub fn allocated(&mut self, len: u64) {
        self.allocated = self.allocated.max(len);
    }

    pub fn truncated(&mut self, len: u64) {
        self.distrust();
        self.allocated = self.allocated.min(len);
        self.end = len;
    }

    /// Notes a sync, which protects the pages.
    pub fn synced(&mut self) {
        self.distrust();
    }

    fn distrust(&mut self) {
        self.ready = 0;
        self.has_called = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_are_stores_but_after_a_sync_or_a_pause() {
        let mut log = LogState::default();
        log.allocated(1 << 20);
        let append = |log: &mut LogState, len, now_ns| {
            let (cpu_ns, is_store) = log.price(len, now_ns);
            log.appended(len, is_store);
            (cpu_ns, is_store)
        };
        assert_eq!(append(&mut log, 100, 0), (300, false));
        assert_eq!(append(&mut log, 100, 0), (600 + 5 * 250 + 20, true));
        assert_eq!(append(&mut log, 100, 0), (20, true));
        assert_eq!(append(&mut log, 5_000, 0), (20, true));
        assert_eq!(append(&mut log, 12_000, 0), (300, false), "a large append beyond the requested pages");
        log.synced();
        assert_eq!(append(&mut log, 100, 0), (300, false));
        assert!(append(&mut log, 100, 1_000).1);
        assert_eq!(append(&mut log, 100, 1_001 + TRUST_NS), (300, false));
        assert_eq!((log.stored_bytes(), log.end()), (5_300, 17_600));
        log.truncated(100);
        assert_eq!(append(&mut log, 1, 0), (300, false), "the truncated file has no allocated space");
        assert_eq!(append(&mut log, 1, 0), (300, false));
    }
}
