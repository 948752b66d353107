//! The latest writes of all families, which the commit queue asks whether a transaction's reads are still true.
//!
//! The ring begins when a transaction asks for the first time, and it ends when no transaction has asked for many writes. So programs without
//! transactions pay one test for each commit. The ring doubles each time when it has lost what a transaction asks for, because large batches
//! would otherwise overrun it between each two questions.

use super::reads::ReadSet;
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key;
use crate::base::mutant::mutant;
use smallvec::SmallVec;

/// Bytes of a key that the ring keeps. A longer key counts as in each range that its first 128 bytes may lie in.
const KEY_BYTES: usize = 128;
/// Writes that the ring remembers at most, 65,536, however often it doubles. They take 5 MB with keys of up to 32 bytes.
const MOST_WRITES: usize = 64 << 10;
/// The ring ends after this many rounds without a question. A round is as many writes as the ring remembers.
const IDLE_ROUNDS: usize = 16;

/// A put or a delete that the ring remembers.
#[derive(Debug)]
struct RecentWrite {
    seq: SeqNo,
    family: FamilyId,
    /// The hash of the whole key.
    hash: u64,
    /// The key, or its first [`KEY_BYTES`] bytes.
    key: SmallVec<[u8; 32]>,
}

/// What the ring knows about the writes since a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// No write since the number concerns the reads.
    Unchanged,
    /// A write since the number may have changed what the reads returned.
    Changed,
    /// The ring has lost writes since the number.
    Unknown,
}

/// A ring of the latest writes.
#[derive(Debug)]
pub struct RecentWrites {
    writes: Vec<RecentWrite>,
    /// The place of the oldest write, which the next one takes when the ring is full.
    oldest: usize,
    /// Writes that the ring remembers.
    most: usize,
    /// The ring has each write with a number above this one.
    since: SeqNo,
    /// Writes since the last question.
    unasked: usize,
}

impl RecentWrites {
    /// A ring of `most` writes, which begins behind the number `last_seq`.
    pub fn new(most: usize, last_seq: SeqNo) -> RecentWrites {
        RecentWrites { writes: Vec::new(), oldest: 0, most: most.max(1), since: last_seq, unasked: 0 }
    }

    /// Remembers a write. Call it for each write before its number is published.
    pub fn add(&mut self, seq: SeqNo, family: FamilyId, key: &[u8]) {
        let (hash, kept) = (key::hash(key), &key[..key.len().min(KEY_BYTES)]);
        self.unasked += 1;
        if self.writes.len() < self.most {
            self.writes.push(RecentWrite { seq, family, hash, key: SmallVec::from_slice(kept) });
            return;
        }
        let slot = &mut self.writes[self.oldest];
        self.since = slot.seq;
        (slot.seq, slot.family, slot.hash) = (seq, family, hash);
        slot.key.clear();
        slot.key.extend_from_slice(kept);
        self.oldest = if self.oldest + 1 == self.most { 0 } else { self.oldest + 1 };
    }

    /// Whether a write above the number `after` may have changed what the reads returned.
    pub fn look(&mut self, reads: &ReadSet, after: SeqNo) -> Since {
        self.unasked = 0;
        if self.since > after && !mutant!("write_ring_overrun_unseen") {
            self.grow();
            return Since::Unknown;
        }
        let (newest, older) = self.writes.split_at(self.oldest);
        let mut newer = newest.iter().rev().chain(older.iter().rev()).take_while(|write| write.seq > after);
        let touches = |write: &RecentWrite| {
            let is_cut = write.key.len() == KEY_BYTES;
            reads.may_touch(write.family, write.hash, &write.key, is_cut)
        };
        if newer.any(touches) { Since::Changed } else { Since::Unchanged }
    }

    fn grow(&mut self) {
        self.writes.rotate_left(self.oldest);
        self.oldest = 0;
        self.most = self.most.max((2 * self.most).min(MOST_WRITES));
    }

    /// Whether no transaction has asked for so long that the ring may end.
    pub fn is_idle(&self) -> bool {
        self.unasked > IDLE_ROUNDS * self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Bound;

    const FAMILY: FamilyId = FamilyId(3);

    fn reads(points: &[&[u8]]) -> ReadSet {
        let mut reads = ReadSet::default();
        points.iter().for_each(|key| reads.add_point(FAMILY, key));
        reads.finish();
        reads
    }

    #[test]
    fn a_write_of_a_key_that_was_read_is_seen_until_the_ring_has_lost_it() {
        let mut ring = RecentWrites::new(4, 10);
        ring.add(11, FAMILY, b"a");
        ring.add(12, FamilyId(4), b"b");
        let (of_a, of_b) = (reads(&[b"x", b"a"]), reads(&[b"b"]));
        assert_eq!(ring.look(&of_a, 10), Since::Changed);
        assert_eq!(ring.look(&of_a, 11), Since::Unchanged, "the reader saw this write");
        assert_eq!(ring.look(&of_b, 10), Since::Unchanged, "the key of another family is another key");
        assert_eq!(RecentWrites::new(4, 10).look(&of_b, 9), Since::Unknown, "the ring began later");
        for seq in 13..=15 {
            ring.add(seq, FAMILY, b"c");
        }
        assert_eq!(ring.look(&of_a, 10), Since::Unknown, "the fifth write took the place of the first");
        assert_eq!(ring.look(&of_a, 11), Since::Unchanged);
        assert_eq!(ring.look(&reads(&[b"c"]), 14), Since::Changed);
    }

    #[test]
    fn a_ring_that_lost_a_write_doubles() {
        let mut ring = RecentWrites::new(3, 0);
        (1..=5).for_each(|seq| ring.add(seq, FAMILY, &[seq as u8]));
        assert_eq!(ring.look(&reads(&[b"x"]), 0), Since::Unknown);
        (6..=8).for_each(|seq| ring.add(seq, FAMILY, &[seq as u8]));
        assert_eq!(ring.look(&reads(&[&[3]]), 2), Since::Changed, "it remembers 6 writes");
        ring.add(9, FAMILY, &[9]);
        assert_eq!(ring.look(&reads(&[&[9]]), 3), Since::Changed);
        assert_eq!(ring.look(&reads(&[&[3]]), 3), Since::Unchanged);
        assert_eq!(ring.look(&reads(&[b"x"]), 2), Since::Unknown);
        let mut large = RecentWrites::new(MOST_WRITES + 1, 9);
        large.look(&reads(&[b"x"]), 0);
        assert_eq!(large.most, MOST_WRITES + 1, "an option may ask for more");
    }

    #[test]
    fn long_keys_count_as_in_ranges_that_their_beginning_may_lie_in() {
        let long = |last: u8| [&[b'k'; 200][..], &[last]].concat();
        let mut ring = RecentWrites::new(4, 0);
        ring.add(1, FAMILY, &long(5));
        let mut of_others = ReadSet::default();
        of_others.add_range(FAMILY, Bound::Included(long(6)), Bound::Unbounded);
        of_others.finish();
        assert_eq!(ring.look(&of_others, 0), Since::Changed, "the ring cannot tell them apart");
        let mut beyond = ReadSet::default();
        beyond.add_range(FAMILY, Bound::Included(b"kl".to_vec()), Bound::Unbounded);
        beyond.finish();
        assert_eq!(ring.look(&beyond, 0), Since::Unchanged);
        assert_eq!(ring.look(&reads(&[&long(5)]), 0), Since::Changed);
        assert_eq!(ring.look(&reads(&[&long(6)]), 0), Since::Unchanged, "points are compared by hash");
    }

    #[test]
    fn a_ring_that_no_transaction_asks_becomes_idle() {
        let mut ring = RecentWrites::new(2, 0);
        (1..=32).for_each(|seq| ring.add(seq, FAMILY, b"k"));
        assert!(!ring.is_idle());
        ring.add(33, FAMILY, b"k");
        assert!(ring.is_idle());
        ring.look(&reads(&[b"x"]), 33);
        assert!(!ring.is_idle());
    }
}
