//! Rent: what readers paid in vain for the slices of a tree, and what merges of these slices cost.
//!
//! A get that looks for its key in a run in vain, and goes on to an older run, loses time. So does a scan, for each run beyond the first.
//! Each slice counts the time that readers lost because of it, if there was an older slice too: a merge does not help where a run is alone.
//! The planner buys a merge when the rent of its inputs reaches its price (`plan/tree/cells/purchase.rs`). Rent and price are in
//! nanoseconds, by the unit costs below.
//!
//! *How rent is inherited.* The output of a merge starts at 0. If an edit moves or cuts a slice, the new slices inherit its rent, in
//! proportion to their bytes. Rent only decides when merges are done. So it is not stored, and a restart forgets it.
//!
//! *When the planner is asked.* No merge is bought before the rent of some slice has reached the price of the slice's own part of a merge,
//! or of a move if that is cheaper. The slice then rings a bell, and again each time its rent has grown by a quarter. The next reader that
//! looks at the bell asks the planner.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One read in 2^3 = 8 is charged for what it paid in vain, eight times, in place of all eight. Charging takes 10 to 20 ns for each slice,
/// and a whole get takes about 1 µs.
pub const CHARGED_BITS: u32 = 3;
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
/// This many nanoseconds of a merge count as one nanosecond of a waiting reader: 3. A merge runs beside readers, and serves all later
/// readers. Measured after overwriting 5 million keys: 200,000 scans took 8.5 s with a weight of 1, 6.1 s with 2, 5.6 s with 2.7 and 5.5 s
/// with 4 (at 150 ns an entry); with merges after ten scans it was 4.8 s.
const READER_WEIGHT: u64 = 3;
/// Nanoseconds of an edit that moves tables or runs down and writes nothing else: a write to the manifest and its sync, on flash.
pub const MOVE_NS: u64 = 2_000_000;
/// A slice rings again when its rent has grown by one part in this many: by a quarter. So it rings 35 times while its rent grows
/// 2,500-fold, from the price of a slice of 14 KB to that of a cell of 64 MiB.
const RING_GROWTH: u64 = 4;

/// What a merge of slices with these bytes and entries costs, in nanoseconds of readers.
pub fn merge_ns(bytes: u64, entries: u64) -> u64 {
    (entries.saturating_mul(ENTRY_NS).saturating_add(bytes.saturating_mul(BYTE_NS))) / READER_WEIGHT
}

/// Counts of what readers paid in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// Filters that were asked and said that the key is absent.
    pub filters: u64,
    /// Blocks that were searched, and did not hold the key.
    pub blocks: u64,
    /// Scans that began in the slice, and had to begin in an older slice too.
    pub cursors: u64,
    /// Entries that these scans read, and that newer ones hide from all readers.
    pub steps: u64,
}

impl Paid {
    /// The time that these counts stand for, by the unit costs, in nanoseconds.
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

/// The rent of one slice. Readers of all versions that hold the slice share it.
#[derive(Debug, Default)]
pub struct Rent {
    filters: AtomicU64,
    blocks: AtomicU64,
    cursors: AtomicU64,
    steps: AtomicU64,
    /// The rent at which the slice rings next.
    rings_at_ns: AtomicU64,
}

impl Rent {
    /// Rent that starts at `paid`, for a slice whose own part of a merge costs `price_ns`.
    pub fn new(paid: Paid, price_ns: u64) -> Rent {
        let rings_at_ns = price_ns.min(MOVE_NS).max(paid.ns());
        let Paid { filters, blocks, cursors, steps } = paid;
        Rent {
            filters: filters.into(),
            blocks: blocks.into(),
            cursors: cursors.into(),
            steps: steps.into(),
            rings_at_ns: rings_at_ns.into(),
        }
    }

    /// Sets the rent to 0, because a merge of the slice is bought.
    pub fn clear(&self) {
        for count in [&self.filters, &self.blocks, &self.cursors, &self.steps] {
            count.store(0, Ordering::Relaxed);
        }
    }

    pub fn paid(&self) -> Paid {
        Paid {
            filters: self.filters.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            cursors: self.cursors.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
        }
    }

    /// Adds `more` to the rent. Returns whether the bell is to ring.
    pub fn charge(&self, more: Paid) -> bool {
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
        let paid_ns = self.paid().ns();
        let rings = paid_ns >= self.rings_at_ns.load(Ordering::Relaxed);
        if rings {
            let next_ns = paid_ns.saturating_add(paid_ns / RING_GROWTH).saturating_add(1);
            self.rings_at_ns.store(next_ns, Ordering::Relaxed);
        }
        rings
    }
}

/// Rings when the rent of a slice has reached the price of its own part of a merge. All slices of a database ring one bell.
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
    fn the_bell_rings_at_the_price_and_after_each_quarter_more() {
        let rent = Rent::new(Paid::default(), 80 * CURSOR_NS);
        let cursor = Paid { cursors: 1, ..Paid::default() };
        let rings: Vec<u64> = (1..=200).filter(|_| rent.charge(cursor)).collect();
        assert_eq!(rings, [80, 101, 127, 159, 199]);
        let moved = Rent::new(rent.paid(), 80 * CURSOR_NS);
        assert!(moved.charge(cursor), "what was paid before may be enough in the new place");
        let large = Rent::new(Paid::default(), u64::MAX);
        let charges = (0..).take_while(|_| !large.charge(cursor)).count() as u64;
        assert_eq!((charges + 1) * CURSOR_NS, MOVE_NS, "a move may be paid");
        large.clear();
        assert_eq!(large.paid(), Paid::default());
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
