//! Which log holds each record of memory, and how much of each log is alive.
//!
//! A record's *home* is the oldest log from which recovery would read it. Sequence numbers ascend in the order of the logs, so each log
//! holds an interval of them. So the home follows from the number. Records that a log collection writes back get a younger home, all
//! records of the oldest logs at once. So a short list of intervals tells the homes of all records. (The hot keys that a flush copies stay
//! in their old intervals, whose homes are too old for the copies.)
//!
//! ```text
//!  from number     0      800    1500   2400
//!  home            log 9  log 7  log 8  log 9      what log 6 and those before held was written back to log 9
//! ```
//!
//! A home is never newer than the log that really holds the record: otherwise this log would be deleted. The home of a record that was not
//! copied is exact, since recovery would otherwise meet the record beside a copy. So intervals are joined only when their homes are equal,
//! and are about as many as there are logs.
//!
//! The home of a copy may be too old where copies fill more than one log. It may also be too old after recovery, which takes the
//! oldest log with a copy for all of them. Such a record is copied once more, and recovery leaves out one of the two copies.

use super::flat::Flat;
use super::immutable::Immutable;
use super::node::{Record, Ref};
use super::segment::Segment;
use crate::base::ids::{FileId, SeqNo};
use crate::visible::EntryKind;
use std::collections::BTreeMap;

/// The homes of the records in memory, as intervals of sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogsBySeq {
    /// The first number of each interval, ascending, and the home.
    intervals: Vec<(SeqNo, FileId)>,
}

impl LogsBySeq {
    /// Notes that `log` holds the numbers from `first` on, up to the first number of the next log.
    pub fn log_began(&mut self, first: SeqNo, log: FileId) {
        // A log that got no number before the next began holds nothing.
        self.intervals.retain(|&(other, _)| other < first);
        self.intervals.push((first, log));
    }

    /// All live records of the logs before `replay_from` were written back to `home` and later logs.
    pub fn written_back(&mut self, replay_from: FileId, home: FileId) {
        for (_, log) in self.intervals.iter_mut().filter(|(_, log)| *log < replay_from) {
            *log = home;
        }
        self.join_equal();
    }

    /// Nothing in memory has its home before `replay_from`.
    pub fn forget_below(&mut self, replay_from: FileId) {
        // Intervals stay. Without an interval its numbers would fall to the previous one, whose home may be younger. The interval
        // of a hot key does not tell of the copy that its flush made.
        for (_, log) in &mut self.intervals {
            *log = (*log).max(replay_from);
        }
        // Records that a flush wrote back may stand in a log that got no number of its own, and so has no interval.
        if self.intervals.first().is_some_and(|&(first, log)| log > replay_from && first > 0) {
            self.intervals.insert(0, (0, replay_from));
        }
        self.join_equal();
    }

    /// The home of the record with the number `seq`.
    pub fn of(&self, seq: SeqNo) -> Option<FileId> {
        let behind = self.intervals.partition_point(|&(first, _)| first <= seq);
        // Numbers below the first interval were forgotten or written back; the first log is the safe answer.
        self.intervals.get(behind.saturating_sub(1)).map(|&(_, log)| log)
    }

    /// Where the interval of `seq` begins.
    fn beginning(&self, seq: SeqNo) -> SeqNo {
        let behind = self.intervals.partition_point(|&(first, _)| first <= seq);
        behind.checked_sub(1).map_or(0, |at| self.intervals[at].0)
    }

    fn join_equal(&mut self) {
        self.intervals.dedup_by_key(|&mut (_, log)| log);
    }
}

/// Count and bytes of records that stand in one log, or one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub entries: u64,
    /// Bytes that the records take in a log, about. Each counts as a batch of its own, so records of large batches take less.
    pub bytes: u64,
    /// Of these, the bytes of keys, values and the heads of entries, without those of frames.
    pub entry_bytes: u64,
}

/// Bytes that a log's frame and entry add to key and value, about.
const OVERHEAD_BYTES: u64 = 24;
/// Fewest bytes of an entry in a frame, its key and value not counted: kind, family and length of the key; of a put also the length and the
/// checksum of the value (`log/mod.rs`).
const DELETE_HEAD_BYTES: u64 = 3;
const PUT_HEAD_BYTES: u64 = DELETE_HEAD_BYTES + 5;

impl Live {
    fn add_record(&mut self, record: Ref<'_, Record>) {
        let bytes = (record.key().len() + record.value().len()) as u64;
        let head_bytes = match record.kind() {
            EntryKind::Delete => DELETE_HEAD_BYTES,
            EntryKind::Put => PUT_HEAD_BYTES,
        };
        self.entries += 1;
        self.bytes += bytes + OVERHEAD_BYTES;
        self.entry_bytes += bytes + head_bytes;
    }
}

/// The live records of each interval that is not empty.
pub(super) type LiveIntervals = Box<[(SeqNo, Live)]>;

/// Counts the newest versions of a segment's keys.
fn count<'a>(newest: impl Iterator<Item = Ref<'a, Record>>, logs_by_seq: &LogsBySeq) -> LiveIntervals {
    let mut counts: BTreeMap<SeqNo, Live> = BTreeMap::new();
    for record in newest {
        counts.entry(logs_by_seq.beginning(record.seq())).or_default().add_record(record);
    }
    counts.into_iter().collect()
}

/// Adds to `logs` the live records of a segment. A version that is superseded only by a version in another segment counts as live, so the
/// sum is an upper bound until the segments are merged.
pub fn count_live(part: &Immutable, logs_by_seq: &LogsBySeq, logs: &mut BTreeMap<FileId, Live>) {
    let mut add = |intervals: &[(SeqNo, Live)]| {
        for &(first, live) in intervals {
            if let Some(home) = logs_by_seq.of(first) {
                let log = logs.entry(home).or_default();
                log.entries += live.entries;
                log.bytes += live.bytes;
                log.entry_bytes += live.entry_bytes;
            }
        }
    };
    match part {
        // A list is small, or about to be flattened: its counts are not kept.
        Immutable::List(list) => add(&count_list(list, logs_by_seq)),
        Immutable::Flat(flat) => add(flat.live(|| count_flat(flat, logs_by_seq))),
    }
}

fn count_list(list: &Segment, logs_by_seq: &LogsBySeq) -> LiveIntervals {
    let nodes = std::iter::successors(list.list().first(), |node| node.link(0).next());
    count(nodes.map(|node| node.newest().record()), logs_by_seq)
}

fn count_flat(flat: &Flat, logs_by_seq: &LogsBySeq) -> LiveIntervals {
    count(flat.newest(), logs_by_seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs_by_seq(logs: &[(SeqNo, u64)]) -> LogsBySeq {
        let mut logs_by_seq = LogsBySeq::default();
        logs.iter().for_each(|&(first, log)| logs_by_seq.log_began(first, FileId(log)));
        logs_by_seq
    }

    #[test]
    fn a_number_tells_the_log() {
        let logs_by_seq = logs_by_seq(&[(1, 7), (80, 8), (150, 9), (150, 11)]);
        let of = |seq| logs_by_seq.of(seq).unwrap().0;
        assert_eq!([1, 79, 80, 149, 150, 9999].map(of), [7, 7, 8, 8, 11, 11]);
        assert_eq!(LogsBySeq::default().of(5), None);
    }

    #[test]
    fn what_is_written_back_has_a_younger_home() {
        let mut logs_by_seq = logs_by_seq(&[(1, 6), (40, 7), (80, 8), (150, 9)]);
        logs_by_seq.written_back(FileId(8), FileId(9));
        let of = |logs_by_seq: &LogsBySeq, seq| logs_by_seq.of(seq).unwrap().0;
        assert_eq!([1, 79, 80, 149, 150].map(|seq| of(&logs_by_seq, seq)), [9, 9, 8, 8, 9]);
        logs_by_seq.log_began(300, FileId(12));
        logs_by_seq.written_back(FileId(9), FileId(12));
        assert_eq!([1, 80, 150, 300].map(|seq| of(&logs_by_seq, seq)), [9, 12, 9, 12]);
        logs_by_seq.forget_below(FileId(12));
        assert_eq!([80, 300].map(|seq| of(&logs_by_seq, seq)), [12, 12]);
    }

    /// Copies of a flush may fill logs that get no number of their own, so no interval tells of them.
    #[test]
    fn what_a_flush_wrote_back_is_never_too_young() {
        let mut logs_by_seq = logs_by_seq(&[(1, 3), (50, 6)]);
        // The flush's own log, two logs that its copies filled, and the one behind them; no write came meanwhile.
        [7, 8, 9, 10].into_iter().for_each(|log| logs_by_seq.log_began(80, FileId(log)));
        logs_by_seq.forget_below(FileId(7));
        assert_eq!([1, 60, 80].map(|seq| logs_by_seq.of(seq).unwrap().0), [7, 7, 10]);
        // The family with these copies replays from log 7 until they are copied again, and so does the database.
        logs_by_seq.log_began(90, FileId(11));
        logs_by_seq.forget_below(FileId(7));
        assert_eq!([1, 60, 85, 90].map(|seq| logs_by_seq.of(seq).unwrap().0), [7, 7, 10, 11]);
        logs_by_seq.written_back(FileId(10), FileId(11));
        logs_by_seq.forget_below(FileId(10));
        assert_eq!([1, 60, 85, 90].map(|seq| logs_by_seq.of(seq).unwrap().0), [11, 11, 10, 11]);
    }

    /// A log collection copies by the homes of its beginning, and begins two logs itself.
    #[test]
    fn log_collections_leave_homes_exact_however_many_logs_there_are() {
        for logs in [1, 2, 30, 300] {
            let logs: Vec<_> = (0..logs).map(|log| (1 + 3 * log, 1 + log)).collect();
            let mut logs_by_seq = logs_by_seq(&logs);
            let replay_from = FileId(2);
            let at_beginning = logs_by_seq.clone();
            logs_by_seq.log_began(1001, FileId(101));
            logs_by_seq.log_began(1002, FileId(102));
            logs_by_seq.written_back(replay_from, FileId(101));
            logs_by_seq.forget_below(replay_from);
            for (first, log) in logs {
                let is_copied = at_beginning.of(first).unwrap() < replay_from;
                let truth = if is_copied { FileId(101) } else { FileId(log) };
                assert_eq!(logs_by_seq.of(first), Some(truth), "{first}: {logs_by_seq:?}");
            }
        }
    }

    /// Two families. B was flushed first: its hot key 100 stands in log 10. Log collection deletes logs 3 and 4, which A alone
    /// needed. Then A is flushed, and the intervals of logs 5 to 9 are forgotten.
    #[test]
    fn a_flush_of_another_family_makes_no_home_too_young() {
        let mut logs_by_seq = logs_by_seq(&[(1, 3), (40, 4), (60, 5), (80, 8), (150, 9)]);
        logs_by_seq.log_began(200, FileId(10));
        logs_by_seq.log_began(200, FileId(11));
        logs_by_seq.forget_below(FileId(3));
        assert!(logs_by_seq.of(100).unwrap() <= FileId(10));
        logs_by_seq.log_began(210, FileId(14));
        logs_by_seq.log_began(211, FileId(15));
        logs_by_seq.written_back(FileId(5), FileId(14));
        logs_by_seq.forget_below(FileId(5));
        assert!(logs_by_seq.of(100).unwrap() <= FileId(10), "{logs_by_seq:?}");
        logs_by_seq.log_began(300, FileId(20));
        logs_by_seq.forget_below(FileId(10));
        assert!(
            logs_by_seq.of(100).unwrap() <= FileId(10),
            "log 10 would go with the only copy: {logs_by_seq:?}"
        );
    }
}
