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

/// Bytes of the longest key at an end of a gap. With keys of full length the gaps of a column family could take 128 MiB.
const MOST_KEY_BYTES: usize = 1 << 10;
/// Gaps of one column family. Each takes about 150 bytes. A put searches among them in about 20 ns.
pub const MOST_GAPS: usize = 1 << 10;
/// A piece of a cut gap is dropped if it counts for fewer dead entries than this: a jump takes as long as about 8 steps.
const LEAST_DEAD: u64 = 8;
/// The set is searched for gaps that touch after it accepted this many gaps, or a quarter as many as it has, whichever is more.
const GAPS_BEFORE_A_LOOK: usize = 32;
/// Gaps that touch become one if the numbers of both are at least 256 below the latest number. A reader whose number lies between both then
/// steps over the older one.
const SEQS_IN_FLIGHT: SeqNo = 256;
/// A gap counts for at most this many dead entries. A cut counts all of them on both sides, so cuts and joins would let the sum grow for
/// ever.
const MOST_DEAD: u64 = 1 << 20;
/// A piece between two puts counts for at most this many dead entries, because all of the gap's dead entries may lie in another piece.
const MOST_DEAD_BETWEEN_PUTS: u64 = 1 << 10;

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
    /// Whether a put cut the range off at its low end, and at its high end. A scan found the other ends.
    pub cuts: (bool, bool),
}

impl Gap {
    /// The range that a scan at `seq` found to be dead.
    pub fn found(low: Vec<u8>, high: Option<Vec<u8>>, seq: SeqNo, dead: u64) -> Gap {
        Gap { low, high, seq, dead, cuts: (false, false) }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }

    /// Whether the gap contains no key.
    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Whether no key lies between the gap and `next`, which begins at or behind the gap's first key.
    fn reaches(&self, next: &Gap) -> bool {
        let is_reached = self.high.as_ref().is_none_or(|high| next.low <= *high);
        // The bug loses the living key between two gaps.
        is_reached
            || mutant!("gaps_joined_over_a_key")
                && self.high.as_ref().is_some_and(|high| next.low == successor(high))
    }

    /// One gap of two that overlap or touch; `self` begins first, or both begin at one key.
    fn union(self, other: Gap) -> Gap {
        let reaches_further = match (&self.high, &other.high) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(a), Some(b)) => a >= b,
        };
        let seq = match mutant!("gaps_joined_at_the_smaller_number") {
            true => self.seq.min(other.seq),
            false => self.seq.max(other.seq),
        };
        let begins_first = self.low <= other.low;
        Gap {
            seq,
            dead: self.dead.saturating_add(other.dead).min(MOST_DEAD),
            cuts: (
                if begins_first { self.cuts.0 } else { other.cuts.0 },
                if reaches_further { self.cuts.1 } else { other.cuts.1 },
            ),
            low: if begins_first { self.low } else { other.low },
            high: if reaches_further { self.high } else { other.high },
        }
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
    /// No living key follows.
    End,
}

/// A jump that a reader may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub jump: Jump,
    /// The end of the gap where the reader came in: its first key for a reader that goes forward, else the first key behind it.
    pub near: Option<Vec<u8>>,
    /// The dead entries between both ends, by estimate.
    pub dead: u64,
}

/// The gaps of one column family, in key order. They do not overlap.
///
/// Gaps that touch stay apart if the one with the smaller number is much larger. Joined, they would hold from the larger number on, and a
/// reader that took its number a moment before could not use the large gap. A reader follows gaps that touch in one jump. Later, when such
/// readers are gone, all gaps that touch become one. Otherwise the set would fill with pieces: each put into a gap that is popped again
/// leaves two pieces and a small gap between them.
#[derive(Debug, Default)]
pub struct GapSet {
    gaps: Vec<Gap>,
    /// Gaps that the set accepted since [`GapSet::join_old`] last looked for gaps that touch.
    accepted: usize,
    /// The least key behind the last put that cut a gap.
    behind_last_cut: Vec<u8>,
}

impl GapSet {
    /// How many gaps begin at or before `key`.
    fn begun(&self, key: &[u8]) -> usize {
        self.gaps.partition_point(|gap| gap.low.as_slice() <= key)
    }

    /// The gap in which `key` lies.
    fn at(&self, key: &[u8]) -> Option<usize> {
        let at = self.begun(key).checked_sub(1)?;
        self.gaps[at].contains(key).then_some(at)
    }

    /// The gap in which the last keys before `end` lie. An `end` of `None` stands behind all keys.
    fn before(&self, end: Option<&[u8]>) -> Option<usize> {
        let begun = match end {
            Some(end) => self.gaps.partition_point(|gap| gap.low.as_slice() < end),
            None => self.gaps.len(),
        };
        let at = begun.checked_sub(1)?;
        let reaches = match (&self.gaps[at].high, end) {
            (None, _) => true,
            (Some(high), Some(end)) => high.as_slice() >= end,
            (Some(_), None) => false,
        };
        reaches.then_some(at)
    }

    /// Follows gaps that touch each other and that a reader at `at` may use, from the gap at `index` on. Returns the end of the last one,
    /// and the dead entries of all.
    fn follow(&self, index: usize, at: SeqNo) -> (Jump, u64) {
        let (mut last, mut dead) = (&self.gaps[index], self.gaps[index].dead);
        for next in self.gaps[index + 1..].iter().take_while(|gap| gap.seq <= at) {
            if last.high.as_ref() != Some(&next.low) {
                break;
            }
            (last, dead) = (next, dead.saturating_add(next.dead));
        }
        (last.high.clone().map_or(Jump::End, Jump::To), dead)
    }

    /// As `follow`, towards the first key.
    fn follow_back(&self, index: usize, at: SeqNo) -> (&[u8], u64) {
        let (mut first, mut dead) = (&self.gaps[index], self.gaps[index].dead);
        for before in self.gaps[..index].iter().rev().take_while(|gap| gap.seq <= at) {
            if before.high.as_ref() != Some(&first.low) {
                break;
            }
            (first, dead) = (before, dead.saturating_add(before.dead));
        }
        (&first.low, dead)
    }

    /// Adds a gap, and returns whether it is kept. Gaps that overlap become one, and so do gaps that touch and are of a like size. What
    /// is joined holds from the larger number on.
    fn join(&mut self, mut gap: Gap) -> bool {
        if gap.is_empty() || gap.is_too_long() {
            return false;
        }
        let now = gap.seq;
        let mut start = self.begun(&gap.low);
        let mut end = start;
        // A gap that grew on one side may be of a like size with its neighbour on the other.
        for _ in 0..2 {
            while start > 0 && joins(&self.gaps[start - 1], &gap) {
                start -= 1;
                gap = self.gaps[start].clone().union(gap);
            }
            while end < self.gaps.len() && joins(&gap, &self.gaps[end]) {
                gap = gap.union(self.gaps[end].clone());
                end += 1;
            }
        }
        self.gaps.splice(start..end, [gap]);
        self.accepted += 1;
        if self.accepted >= GAPS_BEFORE_A_LOOK.max(self.gaps.len() / 4) {
            self.accepted = 0;
            self.join_old(now.saturating_sub(SEQS_IN_FLIGHT));
        }
        self.bound();
        true
    }

    /// Joins gaps that touch and hold since `until` at the latest.
    fn join_old(&mut self, until: SeqNo) {
        let mut joined: Vec<Gap> = Vec::with_capacity(self.gaps.len());
        for gap in self.gaps.drain(..) {
            match joined.pop() {
                Some(last) if last.seq.max(gap.seq) <= until && last.reaches(&gap) => {
                    joined.push(last.union(gap));
                }
                last => joined.extend(last.into_iter().chain([gap])),
            }
        }
        self.gaps = joined;
    }

    /// Drops the gap with the fewest dead entries if there are too many.
    fn bound(&mut self) {
        if self.gaps.len() > MOST_GAPS {
            let least = (0..self.gaps.len()).min_by_key(|&at| self.gaps[at].dead).expect("there are many");
            self.gaps.remove(least);
        }
    }

    /// Takes `key` out of the gap in which it lies. Returns whether it lay in one.
    ///
    /// Where in a gap its dead entries lie is not known. A side whose other end a scan found counts for all dead entries of the gap: a
    /// burst of puts at one end must not use up the rest. A piece between two puts counts for half of them. It is dropped at once if the
    /// put at its end followed the put at its beginning, as when a program appends in key order.
    fn cut(&mut self, key: &[u8]) -> bool {
        let Some(at) = self.begun(key).checked_sub(1).filter(|&at| self.gaps[at].contains(key)) else {
            return false;
        };
        let Gap { low, high, seq, dead, cuts } = self.gaps[at].clone();
        let is_appended = cuts.0 && low == self.behind_last_cut;
        // A shorter key is smaller, and a smaller range is dead too.
        let end = key[..key.len().min(MOST_KEY_BYTES)].to_vec();
        let left = Gap { low, high: Some(end), seq, dead, cuts: (cuts.0, true) };
        let right = Gap { low: successor(key), high, seq, dead, cuts: (true, cuts.1) };
        self.behind_last_cut.clone_from(&right.low);
        let of_side = |mut side: Gap| {
            if side.cuts == (true, true) {
                side.dead = (dead / 2).min(MOST_DEAD_BETWEEN_PUTS);
            }
            let is_kept = !side.is_empty() && !side.is_too_long() && side.dead >= LEAST_DEAD;
            is_kept.then_some(side)
        };
        let left = if is_appended { None } else { of_side(left) };
        self.gaps.splice(at..=at, left.into_iter().chain(of_side(right)));
        self.bound();
        true
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

    /// The way of a reader at `at` that stands at `key` and goes forward, if the key lies in a gap.
    pub fn jump_from(&self, key: &[u8], at: SeqNo) -> Option<Way> {
        if self.is_empty() {
            return None;
        }
        let (set, at) = (self.set.lock(), usable_up_to(at));
        let index = set.at(key).filter(|&index| set.gaps[index].seq <= at)?;
        let (jump, dead) = set.follow(index, at);
        Some(Way { jump, near: Some(set.gaps[index].low.clone()), dead })
    }

    /// The way of a reader at `at` that goes backward from the last key before `end`, if this key lies in a gap.
    pub fn jump_before(&self, end: Option<&[u8]>, at: SeqNo) -> Option<Way> {
        if self.is_empty() {
            return None;
        }
        let (set, at) = (self.set.lock(), usable_up_to(at));
        let index = set.before(end).filter(|&index| set.gaps[index].seq <= at)?;
        let (low, dead) = set.follow_back(index, at);
        let mut low = low.to_vec();
        if mutant!("backward_jump_one_key_short") && low.last() == Some(&0) {
            low.pop();
        }
        let jump = if low.is_empty() { Jump::End } else { Jump::To(low) };
        Some(Way { jump, near: set.gaps[index].high.clone(), dead })
    }

    /// Adds a gap, and returns whether it is kept. Only the commit queue calls this, after it has checked the puts since the gap's number.
    pub fn join(&self, gap: Gap) -> bool {
        self.change(|set| set.join(gap))
    }

    /// Takes `key` out of the gaps: it has a value now. Returns whether it lay in one. Only the commit queue calls this, before it
    /// publishes the put.
    pub fn cut(&self, key: &[u8]) -> bool {
        self.change(|set| set.cut(key))
    }

    /// Shows all gaps, in key order.
    pub fn show<T>(&self, look: impl FnOnce(&[Gap]) -> T) -> T {
        look(&self.set.lock().gaps)
    }

    fn change(&self, change: impl FnOnce(&mut GapSet) -> bool) -> bool {
        let mut set = self.set.lock();
        let is_changed = change(&mut set);
        self.count.store(set.gaps.len() as u64, Ordering::Relaxed);
        is_changed
    }
}

/// Whether two gaps, of which `a` begins first, become one.
fn joins(a: &Gap, b: &Gap) -> bool {
    let overlap = a.high.as_ref().is_none_or(|high| b.low < *high);
    let (older, newer) = if a.seq <= b.seq { (a, b) } else { (b, a) };
    let are_alike = older.seq == newer.seq || older.dead <= newer.dead.saturating_mul(2);
    overlap || are_alike && a.reaches(b)
}

/// The largest number of the gaps that a reader at `at` may use.
fn usable_up_to(at: SeqNo) -> SeqNo {
    if mutant!("gap_of_a_later_number_used") { SeqNo::MAX } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(low: &str, high: &str, seq: SeqNo) -> Gap {
        sized(low, high, seq, 1_000)
    }

    fn sized(low: &str, high: &str, seq: SeqNo, dead: u64) -> Gap {
        let high = (!high.is_empty()).then(|| high.as_bytes().to_vec());
        Gap::found(low.as_bytes().to_vec(), high, seq, dead)
    }

    fn set(gaps: &[Gap]) -> GapSet {
        let mut set = GapSet::default();
        gaps.iter().for_each(|gap| {
            set.join(gap.clone());
        });
        set
    }

    fn to(way: Option<Way>) -> Option<(String, u64)> {
        let end = |jump| match jump {
            Jump::To(key) => key.escape_ascii().to_string(),
            Jump::End => "end".to_owned(),
        };
        way.map(|way| (end(way.jump), way.dead))
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
            shown(&set(&[gap("a", "b", 1), gap("c", "d", 2), sized("e", "f", 3, 2_000), gap("aa", "e", 0)])),
            "a..f@3"
        );
        assert_eq!(shown(&set(&[gap("a", "b", 1), gap("b\0", "d", 2)])), "a..b@1 b\\x00..d@2");
        assert_eq!(shown(&set(&[gap("b", "b", 1), gap("c", "b", 1)])), "");
    }

    #[test]
    fn a_large_gap_keeps_its_number_beside_small_ones() {
        let gaps = Gaps::default();
        gaps.join(gap("a", "h", 93));
        gaps.join(sized("h", "k", 101, 8));
        gaps.join(sized("k", "m", 102, 8));
        let expected = |key: &str, dead| Some((key.to_owned(), dead));
        assert_eq!(
            to(gaps.jump_from(b"b", 100)),
            expected("h", 1_000),
            "a reader in flight uses the large one"
        );
        assert_eq!(
            to(gaps.jump_from(b"b", 102)),
            expected("m", 1_016),
            "a later one follows both in one jump"
        );
        assert_eq!(to(gaps.jump_before(Some(b"m"), 102)), expected("a", 1_016));
        assert_eq!(gaps.show(<[Gap]>::len), 2, "the small ones are joined");
        gaps.join(sized("m", "n", 103, 500));
        assert_eq!(gaps.show(<[Gap]>::len), 1, "all are of a like size");
    }

    #[test]
    fn a_put_cuts_the_gap_that_it_lies_in() {
        let mut gaps = set(&[gap("a", "c", 5), gap("e", "", 6)]);
        for key in ["b", "c", "d", "e", "x"] {
            gaps.cut(key.as_bytes());
        }
        assert_eq!(
            shown(&gaps),
            "a..b@5 b\\x00..c@5 x\\x00..end@6",
            "between puts in key order nothing is kept"
        );
        gaps.cut(b"bb");
        gaps.cut(b"ba");
        assert_eq!(shown(&gaps), "a..b@5 b\\x00..ba@5 ba\\x00..bb@5 bb\\x00..c@5 x\\x00..end@6");
        let dead: Vec<u64> = gaps.gaps.iter().map(|gap| gap.dead).collect();
        assert_eq!(dead, [1_000, 250, 250, 1_000, 1_000], "a piece between puts counts for half");
        assert!(!gaps.cut(b"d") && gaps.cut(b"zz"));
    }

    #[test]
    fn bursts_of_puts_do_not_wear_a_gap_out() {
        let mut gaps = set(&[gap("0", "", 5)]);
        for n in 0..5_000 {
            gaps.cut(format!("7{n:04}").as_bytes());
        }
        assert_eq!(shown(&gaps), "0..70000@5 74999\\x00..end@5");
        assert!(gaps.gaps.iter().all(|gap| gap.dead == 1_000));
        for n in 0..10_000_u32 {
            let scattered = n.wrapping_mul(0x9e37_79b9);
            gaps.cut(format!("3{scattered:010}").as_bytes());
        }
        assert!(gaps.gaps.len() <= MOST_GAPS);
    }

    /// Each put into the gap is popped again. Without later joins the set would be full of pieces, and each change of it slow.
    #[test]
    fn pieces_between_popped_puts_become_one_when_readers_in_flight_are_gone() {
        let mut gaps = set(&[sized("", "z", 5, MOST_DEAD)]);
        for n in 0..3_000_u64 {
            let (key, now) = (format!("{:010}", n * 7_919 % 10_007).into_bytes(), 10 + 2 * n);
            gaps.cut(&key);
            // A walk offers what lies between the gaps before and behind the key.
            let behind = gaps.begun(&key);
            let low = behind.checked_sub(1).and_then(|before| gaps.gaps[before].high.clone());
            let high = gaps.gaps.get(behind).map_or(b"z".to_vec(), |gap| gap.low.clone());
            gaps.join(Gap::found(low.unwrap_or_default(), Some(high), now, 9));
            assert_eq!(gaps.follow(0, now).0, Jump::To(b"z".to_vec()));
            assert!(gaps.gaps.len() <= 2 * SEQS_IN_FLIGHT as usize, "{}", gaps.gaps.len());
            let first = &gaps.gaps[0];
            assert!(
                first.low.is_empty() && first.seq <= now.saturating_sub(SEQS_IN_FLIGHT).max(5),
                "{first:?}"
            );
        }
        assert!(gaps.gaps.iter().all(|gap| gap.dead <= MOST_DEAD));
    }

    #[test]
    fn a_long_key_becomes_no_end() {
        let mut gaps = set(&[gap("a", "c", 5)]);
        gaps.cut(&[b"b".repeat(2_000), b"x".to_vec()].concat());
        assert_eq!(gaps.gaps.len(), 1);
        assert_eq!(gaps.gaps[0].high.as_ref().map(Vec::len), Some(MOST_KEY_BYTES));
    }

    #[test]
    fn jumps_go_to_the_ends_of_the_gap() {
        let gaps = Gaps::default();
        assert_eq!(gaps.jump_from(b"b", 9), None);
        gaps.join(gap("b", "d", 5));
        gaps.join(gap("f", "", 6));
        let expected = |key: &str| Some((key.to_owned(), 1_000));
        assert_eq!(gaps.jump_from(b"a", 9), None);
        assert_eq!(to(gaps.jump_from(b"b", 9)), expected("d"));
        assert_eq!(to(gaps.jump_from(b"c", 5)), expected("d"));
        assert_eq!(gaps.jump_from(b"c", 4), None, "an older reader may see a value there");
        assert_eq!(gaps.jump_from(b"d", 9), None);
        assert_eq!(to(gaps.jump_from(b"zz", 6)), expected("end"));
        assert_eq!(to(gaps.jump_before(Some(b"d"), 5)), expected("b"));
        assert_eq!(to(gaps.jump_before(Some(b"c"), 5)), expected("b"));
        assert_eq!(gaps.jump_before(Some(b"d\0"), 5), None);
        assert_eq!(gaps.jump_before(Some(b"b"), 5), None, "the last key before `b` lies before the gap");
        assert_eq!(to(gaps.jump_before(None, 6)), expected("f"));
        assert_eq!(gaps.jump_from(b"c", 9).unwrap().near, Some(b"b".to_vec()));
        assert_eq!(gaps.jump_before(None, 9).unwrap().near, None);
        gaps.join(gap("", "a", 6));
        assert_eq!(to(gaps.jump_before(Some(b"a"), 6)), expected("end"));
    }

    #[test]
    fn the_least_gap_goes_where_there_are_too_many() {
        let gaps = Gaps::default();
        for n in 0..2 * MOST_GAPS {
            let key = |suffix: &str| format!("{n:06}{suffix}").into_bytes();
            let dead = if n == 3 { 8 } else { 100 + n as u64 };
            gaps.join(Gap::found(key("a"), Some(key("b")), 1, dead));
        }
        assert_eq!(gaps.show(<[Gap]>::len), MOST_GAPS);
        assert_eq!(gaps.jump_from(b"000003a", 9), None);
        assert!(gaps.jump_from(b"002047a", 9).is_some());
        assert!(!gaps.join(Gap::found(vec![7; 2_000], None, 1, 1 << 20)));
        assert_eq!(gaps.jump_from(&[8], 9), None, "a long key is not kept");
    }
}
