//! Rent: what readers paid in vain for the slices of a tree, and what merges of these slices cost.
//!
//! A get that asks a run in vain and goes on to an older one pays for nothing, and so does a scan for each run beyond one. Each slice counts
//! what readers paid because of it, as far as an older one lay there: a lone run owes nothing. The planner buys a merge when the rent of its
//! inputs reaches its price (`plan/tree/cells/purchase.rs`). Both are told in nanoseconds, by one table of unit costs.
//!
//! *Where rent goes.* The output of a merge starts at 0. Where an edit gives a slice another place, or cuts it, the new slices take the rent
//! along, in proportion to their bytes. A restart forgets all rent: it decides when merges come, and nothing else.
//!
//! *When the planner is asked.* A slice never buys a merge before its rent has reached the price of its own part. From there on the slice
//! rings a bell whenever its rent has grown by an eighth of this price. The reader that hears the bell asks the planner.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nanoseconds for a filter that says no: one cache line of a filter of megabytes, the cell and the slice found by binary search.
const FILTER_NS: u64 = 100;
/// Nanoseconds for a look into a block that does not hold the key: a block out of the page cache, checked and searched.
const BLOCK_NS: u64 = 3_000;
/// Nanoseconds for one more run in a scan: blocks found, read and searched, and a place in the merge of the scan.
const CURSOR_NS: u64 = 5_000;
/// Nanoseconds for an entry that a scan read and did not show, because a newer one hides it.
const STEP_NS: u64 = 500;
/// Nanoseconds for an entry that a merge reads, compares and writes. Merges of 6.2 million entries in 867 MB took 1.5 s of a processor.
const ENTRY_NS: u64 = 100;
/// Nanoseconds for a byte that a merge reads, checks, writes and syncs.
const BYTE_NS: u64 = 1;
/// So many nanoseconds of a merge count as one that a reader waits, since a merge runs beside readers and serves all that come later. At 1
/// the first 200,000 scans of a tree took 1.8 times as long as with merges at once, at 3 1.3 times, and at 4 no less.
const READER_WEIGHT: u64 = 3;
/// A slice rings the bell each time its rent has grown by one part in this many of its price.
const RINGS: u64 = 8;

/// What a merge of slices with these bytes and entries costs, in nanoseconds of readers.
pub fn merge_ns(bytes: u64, entries: u64) -> u64 {
    (entries.saturating_mul(ENTRY_NS).saturating_add(bytes.saturating_mul(BYTE_NS))) / READER_WEIGHT
}

/// Counts of what readers paid in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// Filters that said no.
    pub filters: u64,
    /// Blocks that were searched, and did not hold the key.
    pub blocks: u64,
    /// Scans that began in the slice, and had to begin in an older one too.
    pub cursors: u64,
    /// Entries that these scans read, and that newer ones hide from all readers.
    pub steps: u64,
}

impl Paid {
    /// What this took, by the table of unit costs.
    pub fn ns(&self) -> u64 {
        let blocks_ns = self.blocks.saturating_mul(BLOCK_NS);
        let filters_ns = self.filters.saturating_mul(FILTER_NS);
        let cursors_ns = self.cursors.saturating_mul(CURSOR_NS);
        let steps_ns = self.steps.saturating_mul(STEP_NS);
        filters_ns.saturating_add(blocks_ns).saturating_add(cursors_ns).saturating_add(steps_ns)
    }

    /// Adds the share `part` / `whole` of `other`.
    pub fn add_share(&mut self, other: Paid, part: u64, whole: u64) {
        let share =
            |count: u64| (u128::from(count) * u128::from(part.min(whole)) / u128::from(whole.max(1))) as u64;
        self.filters = self.filters.saturating_add(share(other.filters));
        self.blocks = self.blocks.saturating_add(share(other.blocks));
        self.cursors = self.cursors.saturating_add(share(other.cursors));
        self.steps = self.steps.saturating_add(share(other.steps));
    }
}

/// The account of one slice. Readers of all versions that hold the slice share it.
#[derive(Debug, Default)]
pub struct Rent {
    filters: AtomicU64,
    blocks: AtomicU64,
    cursors: AtomicU64,
    steps: AtomicU64,
}

impl Rent {
    pub fn new(paid: Paid) -> Rent {
        let Paid { filters, blocks, cursors, steps } = paid;
        Rent { filters: filters.into(), blocks: blocks.into(), cursors: cursors.into(), steps: steps.into() }
    }

    pub fn paid(&self) -> Paid {
        Paid {
            filters: self.filters.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            cursors: self.cursors.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
        }
    }

    /// Adds to the account. Returns whether the bell is to ring, for a slice whose own part of a merge costs `price_ns`.
    pub fn charge(&self, more: Paid, price_ns: u64) -> bool {
        for (count, more) in [
            (&self.filters, more.filters),
            (&self.blocks, more.blocks),
            (&self.cursors, more.cursors),
            (&self.steps, more.steps),
        ] {
            if more > 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
        let after_ns = self.paid().ns();
        let ring_ns = (price_ns / RINGS).max(1);
        after_ns >= price_ns && after_ns / ring_ns != after_ns.saturating_sub(more.ns()) / ring_ns
    }
}

/// Rings when the rent of a slice has reached the price of its merge. All slices of a database ring one bell.
#[derive(Debug, Default)]
pub struct Bell(AtomicBool);

impl Bell {
    pub fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has rung since the last call that returned `true`.
    #[inline]
    pub fn has_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_rings_from_the_price_on_eight_times_a_price() {
        let (rent, price_ns) = (Rent::default(), 80 * CURSOR_NS);
        let cursor = Paid { cursors: 1, ..Paid::default() };
        let rings: Vec<u64> = (1..=120).filter(|_| rent.charge(cursor, price_ns)).collect();
        assert_eq!(rings, [80, 90, 100, 110, 120]);
        let probes = Paid { filters: 8, ..Paid::default() };
        let free = Rent::default();
        assert!(free.charge(probes, 0) && free.charge(probes, 0), "a slice that costs nothing");
    }

    #[test]
    fn rent_goes_along_in_proportion() {
        let mut paid = Paid::default();
        let whole = Paid { filters: 100, blocks: 10, cursors: u64::MAX, steps: 20 };
        paid.add_share(whole, 3, 10);
        assert_eq!(paid, Paid { filters: 30, blocks: 3, cursors: u64::MAX / 10 * 3 + 1, steps: 6 });
        paid.add_share(whole, 20, 10);
        assert_eq!(
            paid,
            Paid { filters: 130, blocks: 13, cursors: u64::MAX, steps: 26 },
            "never more than all of it"
        );
        paid.add_share(whole, 0, 0);
        assert_eq!(paid.filters, 130);
    }

    #[test]
    fn a_bell_is_heard_once() {
        let bell = Bell::default();
        assert!(!bell.has_rung());
        bell.ring();
        assert!(bell.has_rung() && !bell.has_rung());
    }
}
