//! Counts of the engine's work since the database was opened. Nearly all are relaxed atomics: no decision depends on them.

use super::ids::FamilyId;
use braidb_storage::locks::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One count.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Raises a count that is a maximum.
    pub fn raise_to(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Stripes of a [`StripedCounter`]: 8. More threads than these share stripes.
const STRIPES: usize = 8;

/// A cache line of 64 bytes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

/// A count that many readers raise at once. Each thread writes a cache line of its own, so readers do not wait for each other's writes.
#[derive(Debug, Default)]
pub struct StripedCounter([Stripe; STRIPES]);

thread_local! {
    /// The stripe of this thread, or `STRIPES` before its first count.
    static STRIPE: Cell<usize> = const { Cell::new(STRIPES) };
}

/// Gives this thread the stripe after that of the thread that counted first before it.
#[cold]
fn choose_stripe() -> usize {
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    let stripe = CHOSEN.fetch_add(1, Ordering::Relaxed) % STRIPES;
    STRIPE.set(stripe);
    stripe
}

impl StripedCounter {
    #[inline]
    fn of_thread(&self) -> &AtomicU64 {
        let stripe = STRIPE.get();
        &self.0[if stripe < STRIPES { stripe } else { choose_stripe() }].0
    }

    #[inline]
    pub fn add(&self, n: u64) {
        self.of_thread().fetch_add(n, Ordering::Relaxed);
    }

    /// Adds 1, and returns the count of this thread's stripe before. A database with one thread counts alike whatever the stripe.
    #[inline]
    pub fn next(&self) -> u64 {
        self.of_thread().fetch_add(1, Ordering::Relaxed)
    }

    pub fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// Bytes that jobs wrote to tables and value files, by column family and by the code of the reason (`table/reason.rs`). A job adds to them
/// once for each file, so a lock is cheap enough.
#[derive(Debug, Default)]
pub struct WrittenBytes(Mutex<BTreeMap<(FamilyId, u64), u64>>);

impl WrittenBytes {
    pub fn add(&self, family: FamilyId, reason: u64, bytes: u64) {
        *self.0.lock().entry((family, reason)).or_default() += bytes;
    }

    /// The codes of the reasons for which jobs wrote tables and value files of `family`, ascending, each with the bytes written.
    pub fn of(&self, family: FamilyId) -> Vec<(u64, u64)> {
        let written = self.0.lock();
        let of_family = written.range((family, 0)..=(family, u64::MAX));
        of_family.map(|(&(_, reason), &bytes)| (reason, bytes)).collect()
    }
}

/// Levels of the tree, L0 included.
pub const LEVELS: usize = 7;

/// All counts of one database. Counts of bytes are bytes written to the storage.
#[derive(Debug, Default)]
pub struct Counters {
    pub user_bytes: Counter,
    pub user_ops: Counter,
    pub log_bytes: Counter,
    /// Bytes of `log_bytes` that took no system call.
    pub log_mapped_bytes: Counter,
    /// Bytes of `log_bytes` in frames of records written back: live records that were copied from old logs to the newest.
    pub written_back_bytes: Counter,
    /// How many records were written back.
    pub written_back: Counter,
    /// Logs deleted without a flush, because all their records were dead or written back.
    pub logs_collected: Counter,
    pub log_syncs: Counter,
    pub log_groups: Counter,
    pub logs_rotated: Counter,
    pub manifest_bytes: Counter,
    pub manifest_snapshots: Counter,
    pub flushes: Counter,
    /// Active segments that moved to the pipeline.
    pub memory_flushes: Counter,
    pub memory_merges: Counter,
    pub memory_compactions: Counter,
    /// Times that a full memory was compacted to one segment instead of being flushed.
    pub full_memory_compactions: Counter,
    /// Hot keys that stayed in memory at a flush.
    pub hot_kept: Counter,
    /// Versions dropped before a flush saw them.
    pub memory_dropped: Counter,
    pub flush_bytes: Counter,
    /// Log tables that flushes wrote.
    pub log_tables: Counter,
    /// Bytes of `flush_bytes` in log tables.
    pub log_table_bytes: Counter,
    /// Values that users read from logs that tables point into.
    pub log_reads: Counter,
    /// Bytes of logs that merges and verifications read for tables that point into them.
    pub log_merge_bytes: Counter,
    /// Value files that flushes and merges wrote, and their bytes.
    pub value_files: Counter,
    pub value_file_bytes: Counter,
    /// Values that users read from value files.
    pub value_reads: Counter,
    pub scan_places: Counter,
    pub scan_bytes: Counter,
    /// Bytes of value files that merges and verifications read.
    pub value_merge_bytes: Counter,
    pub merges: Counter,
    /// Merges that the planner chose because the rent of their inputs had reached the price.
    pub bought_merges: Counter,
    /// Rent in nanoseconds: what readers paid in vain, and what was spent to buy merges. `version/usage/rent.rs` has the unit costs.
    pub rent_paid_ns: Counter,
    pub rent_spent_ns: Counter,
    pub merge_read_bytes: Counter,
    /// Cells whose samples told how much their runs overlap, and how many of these cells were therefore not rewritten.
    pub cells_sampled: Counter,
    pub rewrites_spared: Counter,
    /// Bytes written by merges, by the level that received them.
    pub merge_bytes: [Counter; LEVELS],
    /// Bytes that flushes and merges wrote, value files included, by family and reason.
    pub written_bytes: WrittenBytes,
    /// Merges for which other threads were asked to help.
    pub merges_shared: Counter,
    /// Most merges at the same time; a maximum, not a sum.
    pub most_merges_at_once: Counter,
    /// Runs, or tables of L0, moved down a level as metadata.
    pub trivial_moves: Counter,
    pub cells_split: Counter,
    pub cells_joined: Counter,
    /// Bytes of holes punched into tables.
    pub hole_bytes: Counter,
    pub entries_dropped: Counter,
    pub tombstones_dropped: Counter,
    pub gets: StripedCounter,
    pub scans: StripedCounter,
    /// Dead entries that scans stepped over.
    pub scan_dead_entries: StripedCounter,
    /// Gaps that scans found, and that the commit queue accepted or refused.
    pub gaps_accepted: Counter,
    pub gaps_refused: Counter,
    /// Tables that gets read after their filters let the key pass.
    pub table_reads: StripedCounter,
    pub filter_rejections: StripedCounter,
    /// Filters that let a key pass which the table does not hold.
    pub filter_false_positives: StripedCounter,
    pub cache_hits: StripedCounter,
    pub cache_misses: StripedCounter,
    /// Reads of files on slow tiers that readers waited for.
    pub slow_reads: Counter,
    /// Bytes of cells that moved off the fast tier, and that moved back to it.
    pub tier_out_bytes: Counter,
    pub tier_in_bytes: Counter,
    pub stall_us: Counter,
    pub stalls: Counter,
    pub slowdowns: Counter,
    pub files_deleted: Counter,
    pub job_failures: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_striped_counter_counts_all_stripes() {
        let counter = StripedCounter::default();
        for stripe in 0..STRIPES {
            STRIPE.set(stripe);
            counter.add(2);
            assert_eq!((counter.next(), counter.next()), (2, 3), "the counts of this stripe alone");
        }
        assert_eq!(counter.get(), 4 * STRIPES as u64);
        // As on a thread that has counted nothing yet.
        STRIPE.set(STRIPES);
        counter.add(1);
        assert!(STRIPE.get() < STRIPES && counter.get() == 4 * STRIPES as u64 + 1);
    }
}
