//! What an append to a log costs: mostly a store into a mapping, as in `braidb_storage::real`, and sometimes a call.
//!
//! A store needs allocated space and pages that were asked for, 16 KiB at a time. Pages are trusted until a sync, or for 100 ms.
//! The first append after that is a call, and the second one asks again. Appends over 4 KiB are calls.

use crate::costs;
use crate::profile::PAGE_BYTES;

/// Pages are asked for in steps of this size: `STEP_BYTES` of the real one.
const STEP_BYTES: u64 = 16 << 10;
/// Larger appends are calls: `LARGE_BYTES` of the real one.
const LARGE_BYTES: u64 = 4 << 10;
/// How long a page is trusted: `TRUST` of the real one.
const TRUST_NS: u64 = 100_000_000;

/// The state of a handle that created a log.
#[derive(Debug, Default)]
pub struct LogState {
    end: u64,
    allocated: u64,
    /// Pages were asked for up to here.
    ready: u64,
    asked_ns: u64,
    /// The call that is due after pages are no longer trusted was made.
    has_called: bool,
    stored_bytes: u64,
}

impl LogState {
    /// Where the next append goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that were appended without a call.
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
        // The pages are brought into the cache by a read, and then into the mapping.
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

    /// A sync protects the pages.
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
        assert_eq!(append(&mut log, 12_000, 0), (300, false), "a large one beyond the step");
        log.synced();
        assert_eq!(append(&mut log, 100, 0), (300, false));
        assert!(append(&mut log, 100, 1_000).1);
        assert_eq!(append(&mut log, 100, 1_001 + TRUST_NS), (300, false));
        assert_eq!((log.stored_bytes(), log.end()), (5_300, 17_600));
        log.truncated(100);
        assert_eq!(append(&mut log, 1, 0), (300, false), "the space is gone");
        assert_eq!(append(&mut log, 1, 0), (300, false));
    }
}
