//! Truncating the log: when what is alive of the oldest logs is written back, so that they can go without a flush.
//!
//! Writing back costs the bytes that are alive, once; a flush costs all of memory, and a part in every merge that follows.
//! So when the logs near their bound, at which a flush would be due, memory is not half full, and little of the oldest logs
//! is alive, they go without one. Fuller memory will be flushed soon anyhow, which frees the logs for nothing; but not
//! where hot keys stay in memory, because all of them are written back then. Whatever the answer, what goes are the oldest
//! logs without a gap: recovery reads the rest from front to end.

use crate::base::ids::FileId;

/// The measures of the logs.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of logs at which memory is flushed.
    pub log_bytes: u64,
    /// Bytes of memory at which it is.
    pub memtable_bytes: u64,
    /// Near that bound, logs of which at most so many bytes in a hundred are alive are written back. With 0 none are.
    pub rewrite_percent: u32,
    /// Memory may be full for long without being flushed, because hot keys stay in it.
    pub keeps_hot: bool,
}

impl LogOptions {
    /// A log is closed at this size, so that it can go before the bound is met.
    pub fn file_bytes(&self) -> u64 {
        if self.rewrite_percent == 0 { u64::MAX } else { self.log_bytes / 4 }
    }

    /// Whether logs of so many bytes are worth a look at what is alive of them, when memory has so many.
    pub fn are_near_bound(&self, bytes: u64, memory_bytes: u64) -> bool {
        let is_near = bytes > self.log_bytes / 4 * 3;
        let is_flushed_soon = memory_bytes > self.memtable_bytes / 2 && !self.keeps_hot;
        self.rewrite_percent > 0 && is_near && !is_flushed_soon
    }
}

/// One log, and how much of it memory keeps alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogUse {
    pub id: FileId,
    pub bytes: u64,
    pub live_bytes: u64,
}

/// The log from which on recovery should replay when the logs are near their bound, once what is alive of those before is
/// written back. `logs` are all that may be replayed, oldest first; the last is the one that is written.
///
/// Of all that could go, those go that cost least for what they give back, and as many as cost at most twice that. In the youngest
/// log much is alive that will be superseded soon; in the oldest stands what was written back last time, a short log that is all
/// alive, and behind it long ones that are not.
pub fn collection(logs: &[LogUse], options: &LogOptions) -> Option<FileId> {
    let worst = Share { live: u64::from(options.rewrite_percent), gone: 100 };
    let mut share = Share { live: 0, gone: 0 };
    let shares: Vec<(Share, FileId)> = logs
        .windows(2)
        .map(|pair| {
            share = Share { live: share.live + pair[0].live_bytes, gone: share.gone + pair[0].bytes };
            (share, pair[1].id)
        })
        // What is alive of a short log may be little: alone it is not worth the syncs.
        .filter(|(share, _)| share.gone >= options.file_bytes() && !share.is_more_than(worst))
        .collect();
    let best = shares.iter().map(|(share, _)| *share).reduce(|a, b| if a.is_more_than(b) { b } else { a })?;
    let enough = Share { live: 2 * best.live, ..best };
    shares.iter().rfind(|(share, _)| !share.is_more_than(enough)).map(|(_, replay_from)| *replay_from)
}

/// How much of some logs is alive.
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

    fn collected(logs: &[(u64, u64)], rewrite_percent: u32) -> Option<u64> {
        let uses: Vec<_> = (1..)
            .zip(logs)
            .map(|(id, &(bytes, live_bytes))| LogUse { id: FileId(id), bytes, live_bytes })
            .collect();
        let options = LogOptions { log_bytes: 400, memtable_bytes: 100, rewrite_percent, keeps_hot: false };
        collection(&uses, &options).map(|log| log.0)
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

    /// It may have been set aside, or be what a crash left of a log that was being made: the manifest must not name it.
    #[test]
    fn a_log_that_holds_nothing_is_never_the_first() {
        assert_eq!(collected(&[(100, 0), (0, 0), (100, 90), (300, 1)], 50), Some(3));
        assert_eq!(collected(&[(100, 7), (90, 0), (100, 90), (300, 1)], 50), Some(3));
    }

    #[test]
    fn it_can_be_left_out() {
        let out = LogOptions { log_bytes: 400, memtable_bytes: 100, rewrite_percent: 0, keeps_hot: false };
        assert_eq!((out.file_bytes(), out.are_near_bound(400, 0)), (u64::MAX, false));
        let options = LogOptions { rewrite_percent: 50, ..out };
        assert_eq!(options.file_bytes(), 100);
        assert!(options.are_near_bound(301, 50));
        assert!(!options.are_near_bound(300, 50) && !options.are_near_bound(301, 51));
        assert!(LogOptions { keeps_hot: true, ..options }.are_near_bound(301, 51));
    }
}
