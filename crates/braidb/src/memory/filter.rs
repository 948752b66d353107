//! The Bloom filter of a skiplist: the writer adds keys while readers ask.
//!
//! A key sets its bits as in a table's filter (`table/filter.rs`), so one hash of the key serves both. The filter has a fixed
//! size: a hundredth of the size at which the list is full. If the list grows further, the filter lets more absent keys pass, and
//! is never wrong.
//!
//! The writer makes the filter once the list takes as many bytes as the filter will. Until then every key passes. So a database of
//! thousands of families has filters only for the families that are written much.
//!
//! The bits of a key are set before its node is published. The bits of all earlier keys are set before the filter is published. Readers ask
//! the filter after they acquired the number up to which they must see all writes. So readers miss no key that they must find.

use crate::base::sync::{AtomicU64, OnceLock, Ordering};
use crate::table::{filter_bits, filter_line};
use std::array;

/// The filter has one byte for this many bytes of the list: 100. Where an entry takes 125 bytes, that is ten bits a key.
const SHARE: u64 = 100;
/// Probes for each key: the best number from seven bits a key on.
const PROBES: u8 = if cfg!(loom) { 1 } else { 5 };

/// One cache line of the filter.
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Which keys a list has, or may have.
pub struct LiveFilter {
    /// How many lines the filter gets.
    count: usize,
    lines: OnceLock<Box<[Line]>>,
}

impl LiveFilter {
    /// A filter for a list that is full at `full_bytes` bytes.
    pub fn for_list_of(full_bytes: u64) -> LiveFilter {
        let count = (full_bytes / SHARE / size_of::<Line>() as u64).max(1) as usize;
        LiveFilter { count, lines: OnceLock::new() }
    }

    /// Whether the filter is still to be made for a list that takes `list_bytes`.
    #[inline]
    pub fn is_due(&self, list_bytes: usize) -> bool {
        list_bytes >= self.count * size_of::<Line>() && self.lines.get().is_none()
    }

    /// Makes the filter of a list whose keys have these hashes. Only the one writer of the list calls this, once.
    #[cold]
    pub fn make(&self, hashes: impl Iterator<Item = u64>) {
        let lines: Box<[Line]> =
            (0..self.count).map(|_| Line(array::from_fn(|_| AtomicU64::new(0)))).collect();
        hashes.for_each(|hash| add(&lines, hash));
        assert!(self.lines.set(lines).is_ok(), "a filter is made once");
    }

    /// Adds a key, if the filter was made. Only the one writer of the list calls this.
    #[inline]
    pub fn add(&self, hash: u64) {
        if let Some(lines) = self.lines.get() {
            add(lines, hash);
        }
    }

    /// Whether a key with this hash may be in the list. `false` only if no such key was added, or if the reader need not see the
    /// writes that added such keys.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let Some(lines) = self.lines.get() else { return true };
        let line = &lines[filter_line(hash, lines.len())];
        let bits = filter_bits(hash, PROBES);
        bits.fold(1, |found, bit| found & (line.0[bit / 64].load(Ordering::Relaxed) >> (bit % 64))) & 1 == 1
    }

    /// Bytes of the filter; 0 before it is made.
    pub fn bytes(&self) -> usize {
        self.lines.get().map_or(0, |lines| size_of_val(&**lines))
    }
}

#[inline]
fn add(lines: &[Line], hash: u64) {
    let line = &lines[filter_line(hash, lines.len())];
    for bit in filter_bits(hash, PROBES) {
        let word = &line.0[bit / 64];
        // A load and a store, no read-modify-write: there is no other writer.
        word.store(word.load(Ordering::Relaxed) | 1 << (bit % 64), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::key;

    #[test]
    fn what_was_added_passes_and_strangers_seldom_do() {
        let hashes = |range: std::ops::Range<u64>| range.map(|number| key::hash(&number.to_be_bytes()));
        let count = if cfg!(miri) { 50 } else { 10_000 };
        // First ten bits a key; then so few bits that the filter is full: useless, and not wrong.
        for (full_bytes, may_be_full) in [(count * 125, false), (count, true)] {
            let filter = LiveFilter::for_list_of(full_bytes);
            assert!(hashes(0..count).all(|hash| filter.may_contain(hash)) && filter.bytes() == 0);
            let due_bytes = (full_bytes / SHARE).max(64) as usize;
            assert!(filter.is_due(due_bytes) && !filter.is_due(due_bytes - 64));
            let early = count / 10;
            hashes(0..early).for_each(|hash| filter.add(hash));
            filter.make(hashes(0..early));
            assert!(filter.bytes() <= due_bytes && !filter.is_due(due_bytes));
            assert!(hashes(0..early).all(|hash| filter.may_contain(hash)));
            assert!(may_be_full || !hashes(early..count).all(|hash| filter.may_contain(hash)));
            hashes(early..count).for_each(|hash| filter.add(hash));
            assert!(hashes(0..count).all(|hash| filter.may_contain(hash)));
            let strangers = hashes(count..2 * count).filter(|&hash| filter.may_contain(hash)).count() as u64;
            assert!(may_be_full || strangers <= count / 50, "{strangers}");
        }
    }
}
