//! THE rule for dropping versions and tombstones. Every job that rewrites entries asks here.

use super::EntryKind;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;

/// The readers that existed at one moment, taken under the registry's lock.
#[derive(Clone, Debug)]
pub struct DropProof {
    /// Ascending.
    snapshots: Vec<SeqNo>,
    /// Any reader that registers later reads at this number or above.
    horizon: SeqNo,
}

impl DropProof {
    pub fn new(mut snapshots: Vec<SeqNo>, horizon: SeqNo) -> DropProof {
        snapshots.sort_unstable();
        snapshots.dedup();
        DropProof { snapshots, horizon }
    }

    /// The number at or above which every reader, now or later, reads. A merge may drop a version if a newer version of its key has at most
    /// this number.
    pub fn watermark(&self) -> SeqNo {
        self.snapshots.first().map_or(self.horizon, |&oldest| oldest.min(self.horizon))
    }

    /// Whether a reader, now or later, can see a version `seq` that the next newer version `newer` covers.
    fn can_be_seen(&self, seq: SeqNo, newer: SeqNo) -> bool {
        debug_assert!(seq < newer);
        if newer > self.horizon {
            return true;
        }
        let first = self.snapshots.partition_point(|&snapshot| snapshot < seq);
        self.snapshots.get(first).is_some_and(|&snapshot| snapshot < newer)
    }

    /// Whether a tombstone is below every reader, so that no reader can see what it hides.
    fn is_below_watermark(&self, seq: SeqNo) -> bool {
        seq <= self.watermark()
    }
}

/// What a job does with an entry that it rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Keep,
    /// A newer version hides it from every reader.
    Shadowed,
    /// A tombstone with nothing left to hide.
    Spent,
}

/// Decides the fate of entries that arrive in order: keys ascending, versions newest first.
#[derive(Clone, Debug)]
pub struct RetentionFilter {
    proof: DropProof,
    key: Vec<u8>,
    /// The number of the last version of `key`, kept or not: it hides the following versions.
    newer: Option<SeqNo>,
}

impl RetentionFilter {
    pub fn new(proof: DropProof) -> RetentionFilter {
        RetentionFilter { proof, key: Vec::new(), newer: None }
    }

    /// Decides about the next entry. `nothing_below` says whether no older version of the key can exist anywhere outside the
    /// job's input (rule 6). It is called only for tombstones.
    pub fn fate(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        nothing_below: impl FnOnce(&[u8]) -> bool,
    ) -> Fate {
        let newer = if self.newer.is_some() && self.key == key { self.newer } else { None };
        if newer.is_none() {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.newer = Some(seq);
        // One version may stand in memory and in a table. A flush wrote it back, found no room for the other hot keys, and gave
        // all of them to the table. Then recovery read the copy.
        if newer == Some(seq) {
            return Fate::Shadowed;
        }
        if newer.is_some_and(|newer| !self.proof.can_be_seen(seq, newer)) {
            return Fate::Shadowed;
        }
        // A spent tombstone goes although older versions of the key may follow in this job's input. They are below every reader
        // as well. So each of them is shadowed by a version before it, this tombstone included.
        if kind == EntryKind::Delete
            && self.proof.is_below_watermark(seq)
            && (nothing_below(key) || mutant!("tombstone_dropped_early"))
        {
            return Fate::Spent;
        }
        Fate::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EntryKind::{Delete, Put};

    fn fates(
        snapshots: &[SeqNo],
        horizon: SeqNo,
        bottom: bool,
        versions: &[(SeqNo, EntryKind)],
    ) -> Vec<Fate> {
        let mut retention = RetentionFilter::new(DropProof::new(snapshots.to_vec(), horizon));
        versions.iter().map(|&(seq, kind)| retention.fate(b"k", seq, kind, |_| bottom)).collect()
    }

    #[test]
    fn without_readers_only_the_newest_stays() {
        assert_eq!(
            fates(&[], 9, false, &[(9, Put), (5, Put), (2, Delete)]),
            [Fate::Keep, Fate::Shadowed, Fate::Shadowed]
        );
    }

    #[test]
    fn each_reader_keeps_the_version_that_it_sees() {
        assert_eq!(
            fates(&[3, 6], 9, false, &[(9, Put), (6, Put), (5, Put), (3, Put), (2, Put)]),
            [Fate::Keep, Fate::Keep, Fate::Shadowed, Fate::Keep, Fate::Shadowed]
        );
    }

    #[test]
    fn what_is_above_the_horizon_hides_nothing_yet() {
        assert_eq!(
            fates(&[], 4, false, &[(5, Put), (4, Put), (3, Put)]),
            [Fate::Keep, Fate::Keep, Fate::Shadowed]
        );
    }

    #[test]
    fn tombstones_go_when_nothing_is_left_to_hide() {
        assert_eq!(fates(&[], 9, true, &[(5, Delete), (4, Put)]), [Fate::Spent, Fate::Shadowed]);
        assert_eq!(fates(&[], 9, false, &[(5, Delete), (4, Put)]), [Fate::Keep, Fate::Shadowed]);
        // The reader at 4 still sees the put, so the tombstone must keep hiding it from later ones.
        assert_eq!(fates(&[4], 9, true, &[(5, Delete), (4, Put)]), [Fate::Keep, Fate::Keep]);
        assert_eq!(fates(&[5], 9, true, &[(5, Delete), (4, Put)]), [Fate::Spent, Fate::Shadowed]);
    }

    #[test]
    fn keys_do_not_shadow_each_other() {
        let mut retention = RetentionFilter::new(DropProof::new(vec![], 9));
        assert_eq!(retention.fate(b"a", 9, Put, |_| true), Fate::Keep);
        assert_eq!(retention.fate(b"b", 3, Put, |_| true), Fate::Keep);
        assert_eq!(retention.fate(b"b", 2, Put, |_| true), Fate::Shadowed);
    }
}
