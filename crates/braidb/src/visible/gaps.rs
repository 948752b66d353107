//! Gaps: ranges of keys in which a scan found nothing alive, so that later scans jump over them.
//!
//! A queue that pops its first entry leaves a tombstone in front of the next one. Without gaps the next pop steps over all
//! tombstones of earlier pops. A scan that stepped over many dead entries in a row leaves the gap `[low, high)` at its own
//! number N: no key of the range has a value that a reader at N sees.
//!
//! *What a gap promises.* A gap in the set holds for every number from N to the last one that was given: no put with a number
//! above N lies in it. The commit queue keeps this true. It accepts a gap only if it knows every put since N, and no such put
//! lies in the gap. From then on each put cuts the gaps that it lies in, before its number is published.
//!
//! *Who may use it.* A reader takes its number first and looks at the set afterwards. A gap with a number N at or below the
//! reader's number is empty for the reader: all puts that the reader may see are published, so they have cut the set already.
//! A gap with a larger number says nothing about what an older reader sees. A reader jumps to the other end in all of its
//! sources at once: a jump in one source would show what another source hides, or hide what it shows.
//!
//! Gaps are hints about reads, not data: they live in memory, and a close forgets them. No tombstone goes because of a gap.

use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::base::sync::{AtomicU64, Mutex, Ordering};

/// Bytes of the longest key at an end of a gap. Longer keys would let gaps take 128 MiB for each column family.
const MOST_KEY_BYTES: usize = 1 << 10;
/// Gaps of one column family. Each takes about 150 bytes. A put searches among them, in two cache lines for 1,024.
pub const MOST_GAPS: usize = 1 << 10;
/// Dead entries below which a gap is not worth its place: a jump takes as long as about 8 steps.
const LEAST_DEAD: u64 = 8;

/// A range of keys in which nothing was alive at a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first key of the range.
    pub low: Vec<u8>,
    /// The first key behind the range, or `None` if there is no key behind it.
    pub high: Option<Vec<u8>>,
    /// The reader that found nothing alive read at this number.
    pub seq: SeqNo,
    /// An estimate of the dead entries in the range: what a jump saves.
    pub dead: u64,
}

impl Gap {
    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }

    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Whether no key lies between the gap and `next`, which begins at or behind the gap's first key.
    fn reaches(&self, next: &Gap) -> bool {
        let is_reached = self.high.as_ref().is_none_or(|high| next.low <= *high);
        // The bug takes one living key for dead: the one that stands between the gaps.
        is_reached
            || mutant!("gaps_joined_over_a_key")
                && self.high.as_ref().is_some_and(|high| next.low == successor(high))
    }

    fn is_too_long(&self) -> bool {
        self.low.len().max(self.high.as_ref().map_or(0, Vec::len)) > MOST_KEY_BYTES
    }
}

/// The least key above `key`.
pub fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Where a jump ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jump {
    /// Forward: at the first key at or behind this one. Backward: at the last key before this one.
    To(Vec<u8>),
    /// No key follows.
    End,
}

/// The gaps of one column family, in key order. They neither overlap nor touch.
#[derive(Debug, Default)]
pub struct GapSet {
    gaps: Vec<Gap>,
}

impl GapSet {
    /// How many gaps begin at or before `key`.
    fn begun(&self, key: &[u8]) -> usize {
        self.gaps.partition_point(|gap| gap.low.as_slice() <= key)
    }

    /// The gap in which `key` lies.
    fn at(&self, key: &[u8]) -> Option<&Gap> {
        let gap = self.gaps.get(self.begun(key).checked_sub(1)?)?;
        gap.contains(key).then_some(gap)
    }

    /// The gap in which the last keys before `end` lie; `None` as `end` stands behind all keys.
    fn before(&self, end: Option<&[u8]>) -> Option<&Gap> {
        let begun = match end {
            Some(end) => self.gaps.partition_point(|gap| gap.low.as_slice() < end),
            None => self.gaps.len(),
        };
        let gap = self.gaps.get(begun.checked_sub(1)?)?;
        let reaches = match (&gap.high, end) {
            (None, _) => true,
            (Some(high), Some(end)) => high.as_slice() >= end,
            (Some(_), None) => false,
        };
        reaches.then_some(gap)
    }

    /// Adds a gap. Gaps that overlap or touch become one, which holds from the largest of their numbers on.
    fn join(&mut self, mut gap: Gap) {
        if gap.is_empty() || gap.is_too_long() {
            return;
        }
        let mut start = self.begun(&gap.low);
        if start > 0 && self.gaps[start - 1].reaches(&gap) {
            start -= 1;
        }
        let mut end = start;
        while end < self.gaps.len() && (self.gaps[end].low <= gap.low || gap.reaches(&self.gaps[end])) {
            let other = &self.gaps[end];
            gap.low = gap.low.min(other.low.clone());
            gap.high = match (gap.high, &other.high) {
                (Some(high), Some(other)) => Some(high.max(other.clone())),
                _ => None,
            };
            gap.seq = match mutant!("gaps_joined_at_the_smaller_number") {
                true => gap.seq.min(other.seq),
                false => gap.seq.max(other.seq),
            };
            gap.dead = gap.dead.max(other.dead);
            end += 1;
        }
        self.gaps.splice(start..end, [gap]);
        if self.gaps.len() > MOST_GAPS {
            let least = (0..self.gaps.len()).min_by_key(|&at| self.gaps[at].dead).expect("there are many");
            self.gaps.remove(least);
        }
    }

    /// Takes `key` out of the gap in which it lies. Each side gets half of the gap's dead entries, and goes if they are few.
    fn cut(&mut self, key: &[u8]) {
        let Some(at) = self.begun(key).checked_sub(1).filter(|&at| self.gaps[at].contains(key)) else {
            return;
        };
        let Gap { low, high, seq, dead } = self.gaps[at].clone();
        let left = Gap { low, high: Some(key.to_vec()), seq, dead: dead / 2 };
        let right = Gap { low: successor(key), high, seq, dead: dead / 2 };
        let is_kept = |side: &Gap| !side.is_empty() && side.dead >= LEAST_DEAD;
        self.gaps.splice(at..=at, [left, right].into_iter().filter(is_kept));
    }
}

/// The gaps of a column family, which readers search and the commit queue changes.
#[derive(Debug, Default)]
pub struct Gaps {
    /// Taken last of all locks, for a search or a change.
    set: Mutex<GapSet>,
    /// The number of gaps, so that readers take no lock where there is none.
    count: AtomicU64,
}

impl Gaps {
    /// Whether there is no gap. A stale answer makes a reader step where it could jump.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// For a reader at `at` who stands at `key` and goes forward: where the gap ends in which `key` lies, and its dead entries.
    pub fn jump_from(&self, key: &[u8], at: SeqNo) -> Option<(Jump, u64)> {
        if self.is_empty() {
            return None;
        }
        let set = self.set.lock();
        let gap = set.at(key).filter(|gap| may_use(gap, at))?;
        Some((gap.high.clone().map_or(Jump::End, Jump::To), gap.dead))
    }

    /// For a reader at `at` who goes backward from the last key before `end`: where the gap begins in which this key lies, and
    /// its dead entries.
    pub fn jump_before(&self, end: Option<&[u8]>, at: SeqNo) -> Option<(Jump, u64)> {
        if self.is_empty() {
            return None;
        }
        let set = self.set.lock();
        let gap = set.before(end).filter(|gap| may_use(gap, at))?;
        let mut low = gap.low.clone();
        if mutant!("backward_jump_one_key_short") && low.last() == Some(&0) {
            low.pop();
        }
        Some((if low.is_empty() { Jump::End } else { Jump::To(low) }, gap.dead))
    }

    /// Adds a gap. Only the commit queue calls this, after it has checked the puts since the gap's number.
    pub fn join(&self, gap: Gap) {
        self.change(|set| set.join(gap));
    }

    /// Takes `key` out of the gaps: it has a value now. Only the commit queue calls this, before it publishes the put.
    pub fn cut(&self, key: &[u8]) {
        self.change(|set| set.cut(key));
    }

    /// Shows all gaps, in key order.
    pub fn show<T>(&self, look: impl FnOnce(&[Gap]) -> T) -> T {
        look(&self.set.lock().gaps)
    }

    fn change(&self, change: impl FnOnce(&mut GapSet)) {
        let mut set = self.set.lock();
        change(&mut set);
        self.count.store(set.gaps.len() as u64, Ordering::Relaxed);
    }
}

fn may_use(gap: &Gap, at: SeqNo) -> bool {
    gap.seq <= at || mutant!("gap_of_a_later_number_used")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(low: &str, high: &str, seq: SeqNo) -> Gap {
        let high = (!high.is_empty()).then(|| high.as_bytes().to_vec());
        Gap { low: low.as_bytes().to_vec(), high, seq, dead: 1_000 }
    }

    fn set(gaps: &[Gap]) -> GapSet {
        let mut set = GapSet::default();
        gaps.iter().for_each(|gap| set.join(gap.clone()));
        set
    }

    fn shown(set: &GapSet) -> String {
        let end = |key: &[u8]| key.escape_ascii().to_string();
        let one = |gap: &Gap| {
            format!("{}..{}@{}", end(&gap.low), gap.high.as_deref().map_or("end".into(), end), gap.seq)
        };
        set.gaps.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn gaps_that_overlap_or_touch_become_one_at_the_largest_number() {
        assert_eq!(shown(&set(&[gap("a", "c", 5), gap("c", "e", 3)])), "a..e@5");
        assert_eq!(shown(&set(&[gap("c", "e", 3), gap("a", "c", 5)])), "a..e@5");
        assert_eq!(shown(&set(&[gap("a", "c", 5), gap("b", "", 7)])), "a..end@7");
        assert_eq!(shown(&set(&[gap("a", "z", 5), gap("c", "e", 9)])), "a..z@9");
        assert_eq!(
            shown(&set(&[gap("a", "b", 1), gap("c", "d", 2), gap("e", "f", 3), gap("aa", "e", 0)])),
            "a..f@3"
        );
        assert_eq!(shown(&set(&[gap("a", "b", 1), gap("b\0", "d", 2)])), "a..b@1 b\\x00..d@2");
        assert_eq!(shown(&set(&[gap("b", "b", 1), gap("c", "b", 1)])), "");
    }

    #[test]
    fn a_put_cuts_the_gap_that_it_lies_in() {
        let mut gaps = set(&[gap("a", "c", 5), gap("e", "", 6)]);
        for key in ["b", "c", "d", "e", "x"] {
            gaps.cut(key.as_bytes());
        }
        assert_eq!(shown(&gaps), "a..b@5 b\\x00..c@5 e\\x00..x@6 x\\x00..end@6");
        let dead: Vec<u64> = gaps.gaps.iter().map(|gap| gap.dead).collect();
        assert_eq!(dead, [500, 500, 250, 250]);
        for n in 0..20 {
            gaps.cut(format!("y{n:02}").as_bytes());
        }
        assert!(gaps.gaps.len() < 10, "sides with few dead entries go: {}", shown(&gaps));
    }

    #[test]
    fn jumps_go_to_the_ends_of_the_gap() {
        let gaps = Gaps::default();
        assert_eq!(gaps.jump_from(b"b", 9), None);
        gaps.join(gap("b", "d", 5));
        gaps.join(gap("f", "", 6));
        let to = |key: &str| Some((Jump::To(key.as_bytes().to_vec()), 1_000));
        assert_eq!(gaps.jump_from(b"a", 9), None);
        assert_eq!(gaps.jump_from(b"b", 9), to("d"));
        assert_eq!(gaps.jump_from(b"c", 5), to("d"));
        assert_eq!(gaps.jump_from(b"c", 4), None, "an older reader may see a value there");
        assert_eq!(gaps.jump_from(b"d", 9), None);
        assert_eq!(gaps.jump_from(b"zz", 6), Some((Jump::End, 1_000)));
        assert_eq!(gaps.jump_before(Some(b"d"), 5), to("b"));
        assert_eq!(gaps.jump_before(Some(b"c"), 5), to("b"));
        assert_eq!(gaps.jump_before(Some(b"d\0"), 5), None);
        assert_eq!(gaps.jump_before(Some(b"b"), 5), None, "the last key before `b` lies before the gap");
        assert_eq!(gaps.jump_before(None, 6), to("f"));
        gaps.join(gap("", "a", 6));
        assert_eq!(gaps.jump_before(Some(b"a"), 6), Some((Jump::End, 1_000)));
    }

    #[test]
    fn the_least_gap_goes_where_there_are_too_many() {
        let gaps = Gaps::default();
        for n in 0..2 * MOST_GAPS {
            let key = |suffix: &str| format!("{n:06}{suffix}").into_bytes();
            let dead = if n == 3 { 8 } else { 100 + n as u64 };
            gaps.join(Gap { low: key("a"), high: Some(key("b")), seq: 1, dead });
        }
        assert_eq!(gaps.show(<[Gap]>::len), MOST_GAPS);
        assert_eq!(gaps.jump_from(b"000003a", 9), None);
        assert!(gaps.jump_from(b"002047a", 9).is_some());
        gaps.join(Gap { low: vec![7; 2_000], high: None, seq: 1, dead: 1 << 20 });
        assert_eq!(gaps.jump_from(&[8], 9), None, "a long key is not kept");
    }
}
