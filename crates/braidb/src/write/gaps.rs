//! The commit queue's side of gaps (`visible/gaps.rs`): which gaps are accepted, and which puts cut them.
//!
//! A scan offers a gap `[low, high)` at its number N. The commit queue looks at the offer under the commit lock. It must know each
//! put since N, so each column family with gaps keeps a ring of its recent puts. If the ring has lost a put since N, or
//! a put since N lies in the range, the offer is refused. An accepted gap joins the set that readers search.
//!
//! A family gets its ring with its first offer, and loses it some time after its last gap. A family without a ring pays one test for each
//! put. A new ring begins at the last number that was given, so it misses no put after this number.
//!
//! *The order in a commit*: each put cuts the set and enters memory, the queue looks at the offers, then it publishes the last number. So
//! a reader that sees a put finds it cut out of the set.

use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::visible::gaps::{Gap, Gaps};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes of a key that the ring keeps. A longer key counts as in each gap that its first bytes may lie in.
const KEY_BYTES: usize = 128;
/// The ring is dropped after more rounds than this without a gap and without an offer. A round is as many puts as the ring remembers.
const IDLE_ROUNDS: u32 = 16;

/// One put that the ring remembers.
#[derive(Debug)]
struct RecentPut {
    seq: SeqNo,
    /// The key, or its first [`KEY_BYTES`] bytes.
    key: SmallVec<[u8; 32]>,
}

impl RecentPut {
    /// Whether the put may lie in the gap.
    fn may_lie_in(&self, gap: &Gap) -> bool {
        if self.key.len() < KEY_BYTES {
            return gap.contains(&self.key);
        }
        let first = |end: &[u8]| end.len().min(KEY_BYTES);
        let is_above = gap.low[..first(&gap.low)] <= self.key[..];
        is_above && gap.high.as_deref().is_none_or(|high| self.key[..] <= high[..first(high)])
    }
}

/// The latest puts of a family.
#[derive(Debug)]
struct RecentPuts {
    puts: Vec<RecentPut>,
    /// The place of the oldest put, which the next one takes when the ring is full.
    oldest: usize,
    /// Puts that the ring remembers.
    most: usize,
    /// The ring has each put with a number above this one.
    since: SeqNo,
    /// Puts since the last check whether the ring is still needed.
    unjudged: usize,
    /// Rounds without a gap and without an offer.
    idle_rounds: u32,
}

impl RecentPuts {
    fn new(most: usize, last_seq: SeqNo) -> RecentPuts {
        RecentPuts { puts: Vec::new(), oldest: 0, most, since: last_seq, unjudged: 0, idle_rounds: 0 }
    }

    fn add(&mut self, seq: SeqNo, key: &[u8]) {
        let kept = &key[..key.len().min(KEY_BYTES)];
        if self.puts.len() < self.most {
            self.puts.push(RecentPut { seq, key: SmallVec::from_slice(kept) });
        } else {
            let slot = &mut self.puts[self.oldest];
            self.since = slot.seq;
            slot.seq = seq;
            slot.key.clear();
            slot.key.extend_from_slice(kept);
            self.oldest = if self.oldest + 1 == self.most { 0 } else { self.oldest + 1 };
        }
        self.unjudged += 1;
    }

    /// Whether the ring proves that no put above the gap's number lies in the gap.
    fn allows(&self, gap: &Gap) -> bool {
        let is_known = self.since <= gap.seq || mutant!("ring_overrun_accepted");
        let (newest, older) = self.puts.split_at(self.oldest);
        let newer = newest.iter().rev().chain(older.iter().rev()).take_while(|put| put.seq > gap.seq);
        is_known && (mutant!("gap_over_a_put_accepted") || newer.into_iter().all(|put| !put.may_lie_in(gap)))
    }
}

/// The gaps of one family, as the holder of the commit lock sees them.
#[derive(Debug)]
pub struct FamilyGaps {
    /// What readers search.
    shared: Arc<Gaps>,
    filter: GapFilter,
    /// Changes of the set since the filter was made anew.
    changes: usize,
    /// There is a ring whenever there is a gap.
    recent: Option<RecentPuts>,
    /// The bug that the mutant `put_cuts_after_publishing` plants: keys that the next put cuts out.
    late: Vec<Vec<u8>>,
}

impl FamilyGaps {
    pub fn new() -> FamilyGaps {
        let (shared, filter) = (Arc::default(), GapFilter::default());
        FamilyGaps { shared, filter, changes: 0, recent: None, late: Vec::new() }
    }

    /// What readers search.
    pub fn shared(&self) -> &Arc<Gaps> {
        &self.shared
    }

    /// A put of `key` entered memory. Called before its number is published.
    #[inline]
    pub fn put(&mut self, seq: SeqNo, key: &[u8]) {
        if self.recent.is_some() {
            self.put_beside_gaps(seq, key);
        }
    }

    fn put_beside_gaps(&mut self, seq: SeqNo, key: &[u8]) {
        let Some(recent) = &mut self.recent else { return };
        recent.add(seq, key);
        if recent.unjudged >= recent.most {
            recent.unjudged = 0;
            recent.idle_rounds = if self.shared.is_empty() { recent.idle_rounds + 1 } else { 0 };
            if recent.idle_rounds > IDLE_ROUNDS {
                self.recent = None;
            }
        }
        if mutant!("put_cuts_after_publishing") {
            let late = std::mem::replace(&mut self.late, vec![key.to_vec()]);
            late.iter().for_each(|key| self.cut(key));
        } else {
            self.cut(key);
        }
    }

    fn cut(&mut self, key: &[u8]) {
        if self.filter.may_contain(key) && self.shared.cut(key) {
            self.changed(true);
        }
    }

    /// Called after the set changed. `is_wide` says that the filter still covers the set. If it does not, the filter is rebuilt. It is also
    /// rebuilt after half as many changes as it has ranges, so that it does not stay wider than the set.
    fn changed(&mut self, is_wide: bool) {
        self.changes += 1;
        if !is_wide || self.changes >= self.filter.lows.len() / 2 {
            self.changes = 0;
            self.filter = self.shared.show(GapFilter::new);
        }
    }

    /// Looks at an offer after all puts up to `last_seq` entered memory. Returns whether the gap was accepted.
    pub fn offered(&mut self, gap: Gap, last_seq: SeqNo, recent_puts: usize) -> bool {
        let recent = self.recent.get_or_insert_with(|| RecentPuts::new(recent_puts, last_seq));
        recent.idle_rounds = 0;
        // The filter needs a gap whose low end comes before its high end.
        if gap.is_empty() || !recent.allows(&gap) {
            return false;
        }
        let is_wide = self.filter.widen(&gap);
        let is_kept = self.shared.join(gap);
        self.changed(is_wide);
        is_kept
    }
}

/// Answers for most puts, without a lock and with one search among numbers, that no gap contains their key.
#[derive(Debug, Default)]
struct GapFilter {
    /// The bytes that the ends of all gaps share.
    common: Vec<u8>,
    /// For each gap, or for several that the filter joined: the 8 bytes behind `common` of the first key.
    lows: Vec<u64>,
    /// As `lows`: the 8 bytes behind `common` of the first key behind the gap, or `u64::MAX`.
    highs: Vec<u64>,
}

impl GapFilter {
    fn new(gaps: &[Gap]) -> GapFilter {
        let mut filter = GapFilter::default();
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { return filter };
        // The ends stand in key order, so all of them share what the first and the last one share.
        let last = last.high.as_ref().unwrap_or(&last.low);
        let shared = first.low.iter().zip(last).take_while(|(a, b)| a == b).count();
        filter.common = first.low[..shared].to_vec();
        filter.lows = gaps.iter().map(|gap| filter.number(&gap.low)).collect();
        let number = |gap: &Gap| gap.high.as_deref().map_or(u64::MAX, |high| filter.number(high));
        filter.highs = gaps.iter().map(number).collect();
        filter
    }

    /// Adds a gap. Returns `false` if an end of the gap does not begin with `common`: then the filter has to be rebuilt.
    fn widen(&mut self, gap: &Gap) -> bool {
        let is_alike = |key: &[u8]| key.starts_with(&self.common);
        if !is_alike(&gap.low) || !gap.high.as_deref().is_none_or(is_alike) {
            return false;
        }
        let mut low = self.number(&gap.low);
        let mut high = gap.high.as_deref().map_or(u64::MAX, |high| self.number(high));
        assert!(low <= high, "the gap {gap:?} is empty");
        let (start, end) = (
            self.highs.partition_point(|&other| other < low),
            self.lows.partition_point(|&other| other <= high),
        );
        if start < end {
            (low, high) = (low.min(self.lows[start]), high.max(self.highs[end - 1]));
        }
        self.lows.splice(start..end, [low]);
        self.highs.splice(start..end, [high]);
        true
    }

    /// Numbers in the order of keys: a key that comes before another has no larger number.
    fn number(&self, key: &[u8]) -> u64 {
        let shared = self.common.len().min(key.len());
        // A comparison of no bytes at the address of an empty vector took 250 ns with the C library's masked loads.
        let order = if shared == 0 { Ordering::Equal } else { key[..shared].cmp(&self.common[..shared]) };
        match order {
            Ordering::Less => 0,
            Ordering::Greater => u64::MAX,
            Ordering::Equal => {
                let mut bytes = [0; 8];
                let rest = &key[shared..];
                // A key that is a beginning of `common` comes before all ends.
                let count = rest.len().min(8);
                bytes[..count].copy_from_slice(&rest[..count]);
                u64::from_be_bytes(bytes)
            }
        }
    }

    /// Whether a gap may contain the key.
    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        if self.lows.is_empty() {
            return false;
        }
        let number = self.number(key);
        let begun = self.lows.partition_point(|&low| low <= number);
        // Several gaps may have equal numbers. Of all that begin at or before the number, the last one reaches furthest.
        begun > 0 && number <= self.highs[begun - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(low: &str, high: &str, seq: SeqNo) -> Gap {
        Gap::found(low.as_bytes().to_vec(), Some(high.as_bytes().to_vec()), seq, 1_000)
    }

    fn jumps(gaps: &FamilyGaps, key: &str) -> bool {
        gaps.shared.jump_from(key.as_bytes(), SeqNo::MAX).is_some()
    }

    #[test]
    fn an_offer_is_refused_unless_every_put_since_is_known_and_outside() {
        let mut gaps = FamilyGaps::new();
        assert!(!gaps.offered(gap("a", "c", 9), 10, 4), "the put 10 is not known");
        assert!(gaps.offered(gap("a", "c", 10), 10, 4));
        gaps.put(11, b"x");
        assert!(!gaps.offered(gap("w", "y", 10), 11, 4), "the put 11 lies in it");
        assert!(
            gaps.offered(gap("w", "y", 11), 11, 4),
            "a reader at 11 saw the put, and that it was deleted again"
        );
        for seq in 12..=15 {
            gaps.put(seq, b"z");
        }
        assert!(!gaps.offered(gap("l", "m", 10), 15, 4), "the ring of 4 lost the put 11");
        assert!(gaps.offered(gap("l", "m", 11), 15, 4));
    }

    #[test]
    fn a_put_is_cut_out() {
        let mut gaps = FamilyGaps::new();
        assert!(gaps.offered(gap("queue/1", "queue/5", 1), 1, 16));
        for (seq, key) in [(2, "p"), (3, "queue/5"), (4, "queue"), (5, "r")] {
            gaps.put(seq, key.as_bytes());
        }
        assert!(["queue/1", "queue/3", "queue/4z"].iter().all(|key| jumps(&gaps, key)));
        gaps.put(6, b"queue/3");
        assert!(!jumps(&gaps, "queue/3") && jumps(&gaps, "queue/2") && jumps(&gaps, "queue/3\0"));
        gaps.put(7, b"queue/1");
        assert!(!jumps(&gaps, "queue/1") && jumps(&gaps, "queue/1\0"));
    }

    #[test]
    fn the_filter_denies_no_key_that_a_gap_contains() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut denied = 0;
        for round in 0..200 {
            let mut gaps = FamilyGaps::new();
            let front = ["", "k", "a beginning/", "a\0"][round % 4];
            let mut key = |front: &str| {
                let mut key = front.as_bytes().to_vec();
                (0..random(12)).for_each(|_| key.push([0, 1, b'k', 0xff][random(4) as usize]));
                key
            };
            let mut keys: Vec<Vec<u8>> = (0..20).map(|_| key(front)).collect();
            keys.sort();
            // Gaps come in any order, and puts cut some of them.
            for turn in 0..10 {
                let mut ends = keys[2 * (turn * 7 % 10)..][..2].to_vec();
                let has_high = round % 5 > 0 || ends[1] != keys[19];
                if turn % 4 == 3 {
                    ends.swap(0, 1);
                }
                let [low, high] = ends.try_into().expect("a gap has two ends");
                gaps.offered(Gap::found(low, has_high.then_some(high), 1, 1_000), 1, 4);
                gaps.cut(&key(front));
            }
            for n in 0..200 {
                let probe = key(if n % 3 == 0 { "" } else { front });
                let is_in = gaps.shared.jump_from(&probe, 1).is_some();
                assert!(!is_in || gaps.filter.may_contain(&probe), "{probe:?} of {keys:?}");
                denied += u32::from(!gaps.filter.may_contain(&probe));
            }
        }
        assert!(denied > 1_000, "{denied}");
    }

    /// If a gap grows over the start of a walk meanwhile, the walk offers a range that ends before it begins.
    #[test]
    fn an_empty_offer_leaves_the_filter_as_it_is() {
        let mut gaps = FamilyGaps::new();
        for (low, high) in [("b", "c"), ("d", "r"), ("s", "t")] {
            assert!(gaps.offered(gap(low, high, 1), 1, 16));
        }
        gaps.put(2, b"e");
        assert!(!gaps.offered(gap("m", "d", 1), 2, 16));
        gaps.put(3, b"h");
        assert!(!jumps(&gaps, "h") && jumps(&gaps, "h\0"));
        assert!(!gaps.offered(gap("m", "d", 1), 3, 16) && !gaps.offered(gap("m", "m", 1), 3, 16));
    }

    #[test]
    fn long_keys_count_as_in_a_gap_when_in_doubt() {
        let mut gaps = FamilyGaps::new();
        gaps.offered(gap("a", "b", 1), 1, 16);
        let long = |last: u8| [vec![b'k'; 200], vec![last]].concat();
        gaps.put(2, &long(5));
        let offer = |low: Vec<u8>, high: Vec<u8>| Gap::found(low, Some(high), 1, 64);
        assert!(!gaps.offered(offer(long(6), long(7)), 2, 16), "their first 128 bytes are those of the put");
        assert!(!gaps.offered(offer(b"k".to_vec(), b"l".to_vec()), 2, 16));
        assert!(gaps.offered(offer(b"l".to_vec(), b"m".to_vec()), 2, 16));
    }

    #[test]
    fn a_ring_without_gaps_goes() {
        let mut gaps = FamilyGaps::new();
        assert!(!gaps.offered(gap("a", "b", 0), 1, 4));
        for seq in 2..200 {
            gaps.put(seq, b"k");
        }
        assert!(gaps.recent.is_none());
    }
}
