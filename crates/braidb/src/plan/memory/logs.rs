//! Log collection: when the live records of the oldest logs are written back, so that these logs can be deleted without a flush.
//!
//! Writing back costs the live bytes once. A flush costs all of memory, and part of every later merge. So logs are collected where little
//! of the oldest logs is alive, and they near their bound, or have outgrown memory ([`MemoryLimits::log_excess`]). Where writes mostly
//! supersede each other, logs follow memory this way (WAL truncation, Accordion, section 3.2). Otherwise a flush frees them without a copy. The collected
//! logs are always the oldest, without a gap: recovery reads the rest from front to end.

use super::limits::{LogExcess, MemoryLimits};
use crate::base::ids::FileId;

/// One log, and how many bytes of it are alive in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogUse {
    pub id: FileId,
    pub bytes: u64,
    pub live_bytes: u64,
}

/// What a log collection is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Logs are too long, and little of the oldest is alive.
    Shorten(LogExcess),
    /// Only small families keep the logs.
    FreeOfSmall,
}

/// The log from which recovery should replay after a log collection; `None` if no collection saves enough. `logs` are all logs that may be
/// replayed, oldest first; the last one is being written.
///
/// Chosen is the largest prefix of `logs` that costs at most twice as much per byte given back as the cheapest prefix. The
/// youngest log holds many live records that will soon be superseded. The oldest log is short and all alive, because it holds
/// the last copies; the long logs behind it are mostly dead.
pub fn collection(logs: &[LogUse], excess: &LogExcess) -> Option<FileId> {
    let worst = Share { live: u64::from(excess.max_live_percent), gone: 100 };
    let mut share = Share { live: 0, gone: 0 };
    let shares: Vec<(Share, FileId)> = logs
        .windows(2)
        .map(|pair| {
            share = Share { live: share.live + pair[0].live_bytes, gone: share.gone + pair[0].bytes };
            (share, pair[1].id)
        })
        .filter(|(share, _)| share.gone >= excess.least_bytes && !share.is_more_than(worst))
        .collect();
    let best = shares.iter().map(|(share, _)| *share).reduce(|a, b| if a.is_more_than(b) { b } else { a })?;
    let enough = Share { live: 2 * best.live, ..best };
    shares.iter().rfind(|(share, _)| !share.is_more_than(enough)).map(|(_, replay_from)| *replay_from)
}

/// The log from which recovery should replay after small families are written back: the first log that a larger family needs. `None` if no
/// log could be deleted, or too many bytes would be copied. `logs` are as for [`collection`].
pub fn collection_of_small(logs: &[LogUse], of_large: FileId, limits: &MemoryLimits) -> Option<FileId> {
    // No family replays from a log without bytes.
    let first = logs.iter().position(|log| log.id >= of_large && log.bytes > 0)?;
    let live_bytes: u64 = logs[..first].iter().map(|log| log.live_bytes).sum();
    let goes = logs[..first].iter().any(|log| log.bytes > 0);
    (goes && live_bytes <= limits.max_small_bytes()).then(|| logs[first].id)
}

/// Live bytes and all bytes of some logs.
#[derive(Clone, Copy, Debug)]
struct Share {
    live: u64,
    gone: u64,
}

impl Share {
    fn is_more_than(self, other: Share) -> bool {
        u128::from(self.live) * u128::from(other.gone) > u128::from(other.live) * u128::from(self.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::memory::limits::MemoryOptions;

    fn collected(logs: &[(u64, u64)], max_live_percent: u32) -> Option<u64> {
        let uses: Vec<_> = (1..)
            .zip(logs)
            .map(|(id, &(bytes, live_bytes))| LogUse { id: FileId(id), bytes, live_bytes })
            .collect();
        collection(&uses, &LogExcess { max_live_percent, least_bytes: 100 }).map(|log| log.0)
    }

    #[test]
    fn the_oldest_go_near_the_bound_if_little_is_alive() {
        assert_eq!(collected(&[(100, 50), (100, 51), (100, 90), (1, 1)], 50), Some(2));
        assert_eq!(collected(&[(100, 51), (100, 50), (100, 90), (100, 1)], 50), None);
        assert_eq!(collected(&[(400, 0)], 50), None, "the log that is written stays");
        assert_eq!(collected(&[(90, 0), (300, 250)], 50), None, "too little to gain");
        assert_eq!(collected(&[], 50), None);
    }

    #[test]
    fn as_many_go_as_are_cheap() {
        assert_eq!(collected(&[(100, 0), (100, 0), (200, 10)], 50), Some(3));
        assert_eq!(collected(&[(100, 2), (100, 6), (200, 10)], 50), Some(3));
        assert_eq!(collected(&[(100, 2), (100, 7), (200, 10)], 50), Some(2), "the next costs too much");
        assert_eq!(collected(&[(10, 10), (100, 0), (100, 90), (200, 1)], 50), Some(3), "no gap");
        assert_eq!(collected(&[(100, 90), (100, 20), (100, 30), (100, 1)], 50), Some(4));
    }

    /// An empty log may have been set aside, or a crash interrupted its creation. The manifest must not name it.
    #[test]
    fn a_log_that_holds_nothing_is_never_the_first() {
        assert_eq!(collected(&[(100, 0), (0, 0), (100, 90), (300, 1)], 50), Some(3));
        assert_eq!(collected(&[(100, 7), (90, 0), (100, 90), (300, 1)], 50), Some(3));
    }

    #[test]
    fn small_families_are_written_back_up_to_the_first_log_of_a_large_one() {
        let limits = MemoryLimits::new(MemoryOptions {
            log_bytes: 400,
            ..crate::plan::memory::limits::tests::OPTIONS
        });
        let of_small = |logs: &[(u64, u64)], of_large| {
            let uses: Vec<_> = (1..)
                .zip(logs)
                .map(|(id, &(bytes, live_bytes))| LogUse { id: FileId(id), bytes, live_bytes })
                .collect();
            collection_of_small(&uses, FileId(of_large), &limits).map(|log| log.0)
        };
        assert_eq!(
            of_small(&[(100, 50), (100, 50), (100, 90), (1, 1)], 3),
            Some(3),
            "a quarter of 400 is copied"
        );
        assert_eq!(of_small(&[(100, 50), (100, 51), (100, 90), (1, 1)], 3), None, "more would be");
        assert_eq!(of_small(&[(100, 50), (100, 50), (100, 0), (1, 1)], 4), Some(4));
        assert_eq!(of_small(&[(100, 50), (100, 1)], 1), None, "the large family needs all logs");
        assert_eq!(of_small(&[(100, 50), (0, 0), (9, 1)], 2), Some(3), "no family replays from an empty log");
        assert_eq!(of_small(&[(0, 0), (9, 1)], 2), None, "no byte would go");
        assert_eq!(of_small(&[], 1), None);
    }
}
