//! When memory or logs are full, and what is done then. The file holds every threshold of the memory component, and the one
//! decision that compares with them.
//!
//! A commit compares a few counters with a [`Trigger`]. When a counter reaches its threshold, the commit queue asks [`decide`],
//! which sees the memory of all families. No other file reads [`MemoryLimits`].
//!
//! | threshold | value | origin | effect |
//! |---|---|---|---|
//! | active segment | `active_percent` of the budget | Accordion 3.1 | the segment joins its pipeline |
//! | pipeline | `pipeline_segments` + 2 segments | measured | memory compaction is behind: the active segment keeps growing |
//! | full memory | the budget; half of it for new writes where hot keys stayed | TRIAD 4.1 | the largest family is flushed, or many together |
//! | memory that must go | 15/8 of the budget | below the hard limit of 2 budgets | flushed even if it is being compacted |
//! | superseded memory | at most 750 of 1,000 bytes were alive | TRIAD 4.1, `FLUSH_TH` | full memory is compacted instead of flushed |
//! | logs | `log_bytes` | TRIAD 4.3 | the family with the oldest record is flushed, or written back if it is small |
//! | small family | 64 KiB, and a 16th of the budget | measured | written back where logs are full, instead of a table of its own |
//! | little | a 64th of the budget | measured | where no family has more of full memory, the largest are flushed together |
//! | flushed together | 3/4 of what can be flushed | measured | the largest families share one log, so thousands of small ones wait |
//! | small families, most | a quarter of `log_bytes` | below `log_bytes` | with more, all small ones are flushed with one log and one edit |
//! | logs during a write-back | 5/4 of `log_bytes` | measured | the write-back is given up for a flush |
//! | log file | 1/4 of `log_bytes`; a short log where logs outgrow memory | measured | closed; the oldest logs may be collected |
//! | short log | 1/16 of `log_bytes`, from 256 KiB to 1/4 | measured | closed sooner, so that more logs can be deleted |
//! | logs that outgrow memory | 3/2 of memory and a short log | measured | the log collection counts what is alive |
//! | logs near their bound | 3/4 of `log_bytes` | measured | the log collection counts what is alive, unless a flush is near |
//! | hot key | written twice, at least as often as the mean, and more often than by chance | TRIAD 4.1 | it may stay at a flush |
//! | hot keys, least | 1 key in 32 of the flushing set | measured | with fewer, none stays |
//! | hot keys, most | 3/4 of the budget, 1/4 of `log_bytes`, both for all families | measured | the hottest that fit stay |
//! | writes, least | one for 8 entries of the flushing set | measured | with fewer, no hot key stays |

use crate::base::ids::FileId;

/// The options of memory and logs.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// The budget of all families, in bytes.
    pub memtable_bytes: u64,
    /// Size in bytes at which an active segment joins the pipeline; `u64::MAX` if none does.
    pub active_bytes: u64,
    /// Flat segments that a pipeline keeps.
    pub pipeline_segments: usize,
    /// Bytes of live logs at which memory is flushed.
    pub log_bytes: u64,
    /// Near their bound, logs are collected if at most this many percent of their bytes are alive, and at most 10 where they outgrow
    /// memory. 0 switches log collection off.
    pub log_rewrite_percent: u32,
    /// The most keys of a million that stay at a flush, before the hot-key tuner has measured. 0 switches hot keys off.
    pub hot_ppm: u32,
    /// Whether no memory compaction drops superseded versions before memory is full.
    pub has_superseded: bool,
}

/// The thresholds of the memory component. The table at the head of this file lists them.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    options: MemoryOptions,
}

/// A pipeline may grow by this many segments beyond `pipeline_segments` before rolls stop. Two, so that one segment is flattened
/// while another one fills.
const PIPELINE_SLACK: usize = 2;
/// Full memory is compacted instead of flushed if at most this many of 1,000 bytes were alive at the last count. A copy of 3/4 of memory
/// frees a quarter of the budget.
const COMPACT_FULL_PERMILLE: u64 = 750;
/// A flush keeps hot keys only if they are at least one in this many keys of its flushing set. To separate fewer keys takes more processor
/// time than it saves the flush.
const MIN_HOT_SHARE: u64 = 32;
/// A family with less memory than this is small: 64 KiB. A table of its own would take longer to sync than the copies of many such
/// families.
const SMALL_FAMILY_BYTES: u64 = 64 << 10;
/// Where memory is full, and no family has a 64th of it, families are flushed together. The flush of one would free so little that the
/// next one came at once, with an edit and a log of its own.
const LITTLE_SHARE: u64 = 64;
/// Logs that outgrow memory are collected if at most 10 percent of their bytes are alive, so copies add at most a ninth to what writers
/// append to logs. New keys count as alive, so logs of memory that grows fast are left to the flush.
const OUTGROWN_LIVE_PERCENT: u32 = 10;
/// Least size of a short log: 256 KiB, which each log allocates when it begins. Shorter logs would save no room.
const LEAST_SHORT_LOG_BYTES: u64 = 256 << 10;
/// Hot keys stay only if the family had at least one write for this many entries of its flushing set since its last flush. Otherwise other
/// families filled memory, and keys that stay again would free nothing of it.
const ENTRIES_A_WRITE: u64 = 8;
const MILLION: u128 = 1_000_000;

impl MemoryLimits {
    pub fn new(options: MemoryOptions) -> MemoryLimits {
        assert!(options.hot_ppm <= MILLION as u32 && options.log_rewrite_percent <= 100);
        MemoryLimits { options }
    }

    /// Whether a flush may leave hot keys in memory.
    pub fn keeps_hot(&self) -> bool {
        self.options.hot_ppm > 0
    }

    /// The share of hot keys that the tuner starts from, in keys of a million.
    pub fn start_ppm(&self) -> u32 {
        self.options.hot_ppm
    }

    /// Whether full memory is ever compacted instead of flushed. Where the memory policy compacts the pipeline, most of full
    /// memory is alive. Counting live bytes there took an eighth of the speed.
    pub fn may_compact_full(&self) -> bool {
        self.keeps_hot() && self.options.has_superseded
    }

    /// Whether full memory is compacted before it is flushed. `live_permille` is the live share at the last count; `None`
    /// before the first.
    pub fn compacts_full(&self, live_permille: Option<u64>) -> bool {
        self.may_compact_full() && live_permille.is_none_or(|live| live <= COMPACT_FULL_PERMILLE)
    }

    /// Whether `kept_bytes`, which survived a compaction of full memory, still fill the budget. Then memory is flushed after
    /// all. A lower bound would leave little room for new writes beside hot keys, and cause many small flushes.
    pub fn is_still_full(&self, kept_bytes: u64) -> bool {
        kept_bytes > self.options.memtable_bytes
    }

    /// The bytes at which memory is full when `kept_bytes` stayed at the last flush. New writes get half of the budget. The sum
    /// is at most 23/16 budgets, because writes are slowed down from 24/16 on.
    pub fn full_bytes(&self, kept_bytes: u64) -> u64 {
        let budget = self.options.memtable_bytes;
        let full = match self.is_still_full(kept_bytes) {
            true => kept_bytes,
            false => budget.max((kept_bytes + budget / 2).min(budget / 16 * 23)),
        };
        full.min(self.must_flush_bytes())
    }

    /// The bytes at which memory is flushed even if it is being compacted: 15/8 of the budget. Writes wait at 2 budgets, and only a
    /// write triggers a flush.
    fn must_flush_bytes(&self) -> u64 {
        self.options.memtable_bytes / 8 * 15
    }

    /// Whether an active segment of `active_bytes` joins a pipeline of `pipeline_segments`.
    fn rolls(&self, active_bytes: u64, pipeline_segments: usize) -> bool {
        active_bytes >= self.options.active_bytes
            && pipeline_segments < self.options.pipeline_segments + PIPELINE_SLACK
    }

    /// The size for which an active segment's filter is made; `None` if segments do not go to a pipeline.
    pub fn filtered_bytes(&self) -> Option<u64> {
        Some(self.options.active_bytes).filter(|&bytes| bytes != u64::MAX)
    }

    /// Size in bytes at which a log is closed that begins beside `log_bytes` of logs and `memory_bytes` of memory. A quarter of the
    /// option `log_bytes`, so that a log can be deleted before all logs reach their bound. Less where logs outgrow memory: the log
    /// collection frees whole logs, and never the one that is being written.
    pub fn log_file_bytes(&self, log_bytes: u64, memory_bytes: u64) -> u64 {
        match self.options.log_rewrite_percent {
            0 => u64::MAX,
            _ if self.do_logs_outgrow(log_bytes, memory_bytes) => self.short_log_bytes(),
            _ => self.options.log_bytes / 4,
        }
    }

    /// Size in bytes of a log file where logs outgrow memory: a 16th of `log_bytes`. A collection syncs all logs, so it should free at
    /// least this much.
    fn short_log_bytes(&self) -> u64 {
        (self.options.log_bytes / 16).max(LEAST_SHORT_LOG_BYTES).min(self.options.log_bytes / 4)
    }

    /// Whether logs have more than 3/2 bytes for each byte of memory, and one short log more. Then most of them is superseded.
    fn do_logs_outgrow(&self, log_bytes: u64, memory_bytes: u64) -> bool {
        log_bytes > (memory_bytes + memory_bytes / 2).saturating_add(self.short_log_bytes())
    }

    /// Whether a family with `bytes` of memory is small. Where logs are full, a small family is written back instead of flushed, unless log
    /// collection is off, the last write-back freed no log, or logs grew too long during one ([`decide`]).
    pub fn is_small(&self, bytes: u64) -> bool {
        bytes < SMALL_FAMILY_BYTES.min(self.options.memtable_bytes / 16)
    }

    /// Whether a flush of `bytes` frees too little of full memory.
    fn is_little(&self, bytes: u64) -> bool {
        bytes < self.options.memtable_bytes / LITTLE_SHARE
    }

    /// The most live bytes that are written back for small families.
    pub fn max_small_bytes(&self) -> u64 {
        self.options.log_bytes / 4
    }

    /// Whether logs of `log_bytes` are more than there may be.
    pub fn are_logs_full(&self, log_bytes: u64) -> bool {
        log_bytes > self.options.log_bytes
    }

    /// Whether logs are a quarter above their limit. They grew during a write-back, and a flush has to free them.
    pub fn must_free_logs(&self, log_bytes: u64) -> bool {
        log_bytes > self.options.log_bytes / 4 * 5
    }

    /// What a log collection may copy and has to free, given the bytes of all logs and of memory. `None` if logs are not too long.
    ///
    /// Logs near their bound are not collected while memory is more than half full: a flush comes soon, and frees logs without a copy.
    /// Where full memory may be compacted instead ([`Self::may_compact_full`]), no flush need come, and memory does not matter. Logs that outgrow
    /// memory are collected however full it is: hardly anything in them is alive, or else the bounds refuse the collection.
    pub fn log_excess(&self, log_bytes: u64, memory_bytes: u64) -> Option<LogExcess> {
        let max_live_percent = self.options.log_rewrite_percent;
        let is_near = log_bytes > self.options.log_bytes / 4 * 3;
        let is_flushed_soon = memory_bytes > self.options.memtable_bytes / 2 && !self.may_compact_full();
        if max_live_percent == 0 {
            None
        } else if is_near && !is_flushed_soon {
            Some(LogExcess { max_live_percent, least_bytes: self.options.log_bytes / 4 })
        } else if self.do_logs_outgrow(log_bytes, memory_bytes) {
            let max_live_percent = max_live_percent.min(OUTGROWN_LIVE_PERCENT);
            Some(LogExcess { max_live_percent, least_bytes: self.short_log_bytes() })
        } else {
            None
        }
    }

    /// The most keys that may stay of a flushing set of `keys` keys, in a tree of `tree_keys`, at `hot_ppm` of a million.
    pub fn max_hot_keys(keys: u64, tree_keys: u64, hot_ppm: u32) -> u64 {
        (u128::from(keys.max(tree_keys)) * u128::from(hot_ppm) / MILLION) as u64
    }

    /// The most bytes of hot keys that may stay in a family, where the others keep `others_bytes`. 3/4 of the budget, so that the next
    /// flush does not come at once. 1/4 of `log_bytes`, because the logs get a copy of them.
    pub fn max_hot_bytes(&self, others_bytes: u64) -> u64 {
        (self.options.memtable_bytes / 4 * 3).min(self.options.log_bytes / 4).saturating_sub(others_bytes)
    }

    /// Whether keys written `count` times each are hot, where `keys` keys were written `writes` times. TRIAD (4.1) asks for more
    /// than the mean. Keys that are all written equally often, and more than once, are all hot.
    pub fn is_hot(count: u16, keys: u64, writes: u64) -> bool {
        count > 1 && u64::from(count) * keys >= writes
    }

    /// Whether more keys were written at least `count` times than chance explains. `hot_keys` were; the function compares them with a bound
    /// on how many would be if the `writes` were drawn evenly from `keys` keys. The bound is Chernoff's for the Poisson distribution: the
    /// share e^(count - mean) × (mean / count)^count of the keys, compared in logarithms.
    pub fn is_beyond_chance(hot_keys: u64, count: u16, keys: u64, writes: u64) -> bool {
        let (count, keys) = (f64::from(count), keys as f64);
        let mean = writes as f64 / keys;
        count > mean && libm::log(hot_keys as f64 / keys) > count - mean + count * libm::log(mean / count)
    }

    /// Whether a flushing set of `entries` entries may keep hot keys after `writes` writes since the last flush.
    pub fn is_written_enough(writes: u64, entries: u64) -> bool {
        writes.saturating_mul(ENTRIES_A_WRITE) >= entries
    }

    /// Whether `hot_keys` of `keys` keys are worth separating.
    pub fn is_worth_splitting(hot_keys: u64, keys: u64) -> bool {
        hot_keys.saturating_mul(MIN_HOT_SHARE) >= keys
    }

    /// What a commit compares its counters with while `kept_bytes` of memory are hot keys.
    pub fn trigger(&self, kept_bytes: u64) -> Trigger {
        Trigger {
            memory_bytes: self.full_bytes(kept_bytes),
            active_bytes: self.options.active_bytes,
            log_bytes: self.options.log_bytes,
        }
    }
}

/// The bounds of a log collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogExcess {
    /// Logs are collected if at most this many percent of their bytes are alive.
    pub max_live_percent: u32,
    /// A collection that frees fewer bytes does not make up for its syncs.
    pub least_bytes: u64,
}

/// The counters at which a commit asks [`decide`].
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    /// Bytes of active segments and pipelines of all families.
    pub memory_bytes: u64,
    /// Bytes of one active segment.
    pub active_bytes: u64,
    /// Bytes of all logs; only more than this triggers.
    pub log_bytes: u64,
}

/// The memory of one family, as [`decide`] sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyState {
    pub active_bytes: u64,
    pub pipeline_bytes: u64,
    pub pipeline_segments: usize,
    /// Nothing was written since the last flush.
    pub is_empty: bool,
    /// Bytes that the last flush, or compaction of full memory, left.
    pub kept_bytes: u64,
    /// How many of 1,000 bytes were alive when memory was full the last time, if it was counted.
    pub live_permille: Option<u64>,
    /// The log that holds the family's oldest record outside of a flushing set.
    pub first_log: Option<FileId>,
    /// Whether a flush of the family runs: its flushing set is not in a table yet.
    pub is_flushing: bool,
    /// Whether a compaction of the family's full memory runs.
    pub is_compacting: bool,
}

impl FamilyState {
    pub fn bytes(&self) -> u64 {
        self.active_bytes + self.pipeline_bytes
    }
}

/// Memory and logs at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MemoryState<'a> {
    /// State of each family, indexed by family id.
    pub families: &'a [FamilyState],
    /// Bytes of the logs that this open wrote and that are still there.
    pub log_bytes: u64,
    /// The current log has the size at which logs are closed.
    pub is_log_full: bool,
    /// A caller waits until all memory is in tables, so no key may stay.
    pub are_tables_requested: bool,
    pub write_back: WriteBack,
}

/// Whether small families are written back where logs are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBack {
    #[default]
    Possible,
    /// A job was asked for, and has not ended.
    Asked,
    /// The last job could free no log.
    Refused,
}

/// What memory or logs need. A number is an index of [`MemoryState::families`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAction {
    Nothing,
    /// The active segment joins the pipeline. No file is concerned.
    Roll(usize),
    /// The pipeline becomes one segment without superseded versions. No file is concerned.
    CompactFull(usize),
    /// The log is closed, and the log collection checks whether the oldest logs can go.
    CloseLog,
    /// The live records of small families are copied to the newest log, so that the oldest logs can be deleted without a flush.
    WriteBack,
    /// All memory of each small family becomes a table. The families share one log and one edit.
    FlushSmall,
    /// All memory of each of the largest families becomes a table ([`largest`]). The families share one log.
    FlushLargest,
    /// All memory of the family becomes a table, except the hot keys if they may stay.
    Flush {
        family: usize,
        may_keep: bool,
    },
}

/// The families that [`MemoryAction::FlushLargest`] takes: as few as have three quarters of what can be flushed. A family with a few entries
/// stays in memory, because a table for each of thousands of families would take a sync each.
pub fn largest(families: &[FamilyState]) -> Vec<usize> {
    let mut order: Vec<usize> = flushable(families).map(|(index, _)| index).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(families[index].bytes()), index));
    let most_bytes = flushable(families).map(|(_, family)| family.bytes()).sum::<u64>() / 4 * 3;
    let mut taken_bytes = 0;
    let is_taken = |index: &usize| {
        let goes_on = taken_bytes <= most_bytes;
        taken_bytes += families[*index].bytes();
        goes_on
    };
    order.into_iter().take_while(is_taken).collect()
}

/// The families whose memory can become a table now, by index.
fn flushable(families: &[FamilyState]) -> impl DoubleEndedIterator<Item = (usize, &FamilyState)> + Clone {
    families.iter().enumerate().filter(|(_, family)| !family.is_flushing && !family.is_empty)
}

/// The most urgent action. The caller carries it out and asks again, until the answer is `Nothing` or a flush.
pub fn decide(state: &MemoryState<'_>, limits: &MemoryLimits) -> MemoryAction {
    let families = state.families;
    let memory_bytes: u64 = families.iter().map(FamilyState::bytes).sum();
    let kept_bytes: u64 = families.iter().map(|family| family.kept_bytes).sum();
    let flush =
        |family| MemoryAction::Flush { family, may_keep: limits.keeps_hot() && !state.are_tables_requested };
    if memory_bytes >= limits.full_bytes(kept_bytes) {
        if let Some((index, family)) = flushable(families).max_by_key(|(_, family)| family.bytes()) {
            // A compaction that falls behind, although writes are slowed down, is given up for a flush.
            let has_room = memory_bytes < limits.must_flush_bytes() && !limits.is_still_full(kept_bytes);
            match family.is_compacting {
                true if has_room => {}
                false if has_room && limits.compacts_full(family.live_permille) => {
                    return MemoryAction::CompactFull(index);
                }
                _ if limits.is_little(family.bytes()) && flushable(families).nth(1).is_some() => {
                    let bytes: u64 = flushable(families).map(|(_, family)| family.bytes()).sum();
                    // Most of full memory is that of a family whose flush runs and will free more.
                    if !(limits.is_little(bytes) && families.iter().any(|family| family.is_flushing)) {
                        return MemoryAction::FlushLargest;
                    }
                }
                _ => return flush(index),
            }
        }
    } else if limits.are_logs_full(state.log_bytes) && !families.iter().any(|family| family.is_flushing) {
        // A running flush may free the logs.
        let oldest = families.iter().filter_map(|family| family.first_log).min();
        let of_oldest = flushable(families).filter(|(_, family)| family.first_log == oldest);
        // Among equally old families, a flush of the largest one frees the most.
        if let Some((index, family)) = of_oldest.rev().max_by_key(|(_, family)| family.bytes()) {
            let is_small = limits.options.log_rewrite_percent > 0 && limits.is_small(family.bytes());
            match state.write_back {
                _ if !is_small => return flush(index),
                WriteBack::Possible => return MemoryAction::WriteBack,
                WriteBack::Asked if !limits.must_free_logs(state.log_bytes) => {}
                WriteBack::Asked | WriteBack::Refused => return MemoryAction::FlushSmall,
            }
        }
    }
    if state.is_log_full {
        return MemoryAction::CloseLog;
    }
    let rolls = |family: &FamilyState| limits.rolls(family.active_bytes, family.pipeline_segments);
    families.iter().position(rolls).map_or(MemoryAction::Nothing, MemoryAction::Roll)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A budget of 1 MiB and hot keys up to 1% of all keys. Superseded versions stay until memory is full.
    pub const OPTIONS: MemoryOptions = MemoryOptions {
        memtable_bytes: 1 << 20,
        active_bytes: 40 << 10,
        pipeline_segments: 4,
        log_bytes: 1 << 20,
        log_rewrite_percent: 50,
        hot_ppm: 10_000,
        has_superseded: true,
    };

    fn limits() -> MemoryLimits {
        MemoryLimits::new(OPTIONS)
    }

    #[test]
    fn full_memory_is_compacted_while_that_makes_room() {
        let (limits, eager) =
            (limits(), MemoryLimits::new(MemoryOptions { has_superseded: false, ..OPTIONS }));
        assert!(!eager.compacts_full(Some(0)), "the memory policy compacts");
        assert!(
            limits.compacts_full(None) && limits.compacts_full(Some(750)) && !limits.compacts_full(Some(751))
        );
        assert_eq!(limits.full_bytes(0), 1 << 20);
        assert_eq!(limits.full_bytes(600 << 10), (600 + 512) << 10, "new writes have half of the budget");
        assert_eq!(limits.full_bytes(960 << 10), (960 + 512) << 10);
        assert_eq!(limits.full_bytes(1 << 20), (960 + 512) << 10, "writes are not slowed down yet");
        assert!(limits.is_still_full(1025 << 10) && limits.full_bytes(1025 << 10) == 1025 << 10);
        assert_eq!(limits.full_bytes(1 << 30), (1 << 20) / 8 * 15, "below the hard limit");
    }

    #[test]
    fn hot_keys_of_all_families_share_their_room_and_stay_only_while_they_are_written() {
        let limits = limits();
        assert_eq!(
            [0, 100 << 10, 1 << 20].map(|others| limits.max_hot_bytes(others)),
            [256 << 10, 156 << 10, 0]
        );
        let written = [(0, 0), (0, 1), (1, 8), (1, 9)];
        assert_eq!(
            written.map(|(writes, entries)| MemoryLimits::is_written_enough(writes, entries)),
            [true, false, true, false]
        );
    }

    #[test]
    fn logs_are_collected_near_their_bound_unless_a_flush_is_near() {
        const MIB: u64 = 1 << 20;
        let of = |log_rewrite_percent, has_superseded| {
            let options = MemoryOptions {
                memtable_bytes: 100 * MIB,
                log_bytes: 400 * MIB,
                log_rewrite_percent,
                has_superseded,
                ..OPTIONS
            };
            MemoryLimits::new(options)
        };
        let (out, on, hot) = (of(0, false), of(50, false), of(50, true));
        let excess =
            |limits: &MemoryLimits, logs: u64, memory: u64| limits.log_excess(logs * MIB, memory * MIB);
        let near = Some(LogExcess { max_live_percent: 50, least_bytes: 100 * MIB });
        let outgrown = Some(LogExcess { max_live_percent: 10, least_bytes: 25 * MIB });
        assert_eq!((excess(&out, 400, 0), out.log_file_bytes(400 * MIB, 0)), (None, u64::MAX));
        assert_eq!((excess(&on, 301, 50), excess(&on, 300, 50)), (near, outgrown));
        assert_eq!((excess(&on, 301, 51), excess(&hot, 301, 51)), (outgrown, near));
        assert_eq!(
            [(102, 52), (101, 50), (100, 50)].map(|(logs, memory)| excess(&on, logs, memory)),
            [None, outgrown, None]
        );
        let of_file = |logs: u64, memory: u64| on.log_file_bytes(logs * MIB, memory * MIB) / MIB;
        assert_eq!((of_file(101, 50), of_file(100, 50)), (25, 100));
        let small = |log_bytes| {
            MemoryLimits::new(MemoryOptions { log_bytes, ..OPTIONS }).log_file_bytes(log_bytes, 0)
        };
        assert_eq!([4 * MIB, 2 * MIB, 4096].map(small), [MIB / 4, MIB / 4, 1024]);
    }

    /// A family with this many KiB in its active segment and in its pipeline.
    fn family(active_kib: u64, pipeline_kib: u64) -> FamilyState {
        FamilyState {
            active_bytes: active_kib << 10,
            pipeline_bytes: pipeline_kib << 10,
            pipeline_segments: usize::from(pipeline_kib > 0),
            is_empty: active_kib + pipeline_kib == 0,
            live_permille: Some(1000),
            first_log: Some(FileId(7)),
            ..FamilyState::default()
        }
    }

    fn state(families: &[FamilyState]) -> MemoryState<'_> {
        let write_back = WriteBack::Possible;
        MemoryState { families, log_bytes: 0, is_log_full: false, are_tables_requested: false, write_back }
    }

    fn decided(families: &[FamilyState]) -> MemoryAction {
        decide(&state(families), &limits())
    }

    const fn flush(family: usize) -> MemoryAction {
        MemoryAction::Flush { family, may_keep: true }
    }

    #[test]
    fn a_full_active_segment_rolls_unless_the_pipeline_is_long() {
        assert_eq!(decided(&[]), MemoryAction::Nothing);
        assert_eq!(decided(&[family(39, 0), family(39, 500)]), MemoryAction::Nothing);
        assert_eq!(decided(&[family(39, 0), family(40, 500)]), MemoryAction::Roll(1));
        let long = FamilyState { pipeline_segments: 6, ..family(90, 500) };
        assert_eq!(decided(&[long]), MemoryAction::Nothing);
    }

    #[test]
    fn the_largest_family_that_is_not_being_flushed_goes() {
        let flushing = FamilyState { is_flushing: true, ..family(0, 600) };
        assert_eq!(decided(&[family(1, 1), family(30, 400), flushing]), flush(1));
        assert_eq!(
            decided(&[family(0, 0), flushing, FamilyState { is_flushing: true, ..family(0, 600) }]),
            MemoryAction::Nothing
        );
        let families = [family(0, 1024)];
        let requested = MemoryState { are_tables_requested: true, ..state(&families) };
        assert_eq!(decide(&requested, &limits()), MemoryAction::Flush { family: 0, may_keep: false });
    }

    /// A 64th of 1 MiB is 16 KiB.
    #[test]
    fn families_that_fill_memory_together_are_flushed_together() {
        let many = |kib: u64, count| vec![family(1, kib - 1); count];
        assert_eq!(decided(&many(15, 69)), MemoryAction::FlushLargest);
        assert_eq!(decided(&many(15, 68)), MemoryAction::Nothing, "memory is not full");
        let with = |other| decided(&[many(15, 69), vec![other]].concat());
        assert_eq!(with(family(1, 15)), flush(69), "one family is large enough alone");
        let flushing = |kib| FamilyState { is_flushing: true, ..family(1, kib) };
        assert_eq!(with(flushing(15)), MemoryAction::FlushLargest);
        let beside = |small| decided(&[vec![flushing(1100)], small].concat());
        assert_eq!(beside(many(4, 3)), MemoryAction::Nothing, "the running flush frees more");
        assert_eq!(beside(many(4, 4)), MemoryAction::FlushLargest);
        assert_eq!(beside(many(4, 1)), flush(1), "one family can be flushed as any other");
        let superseded = FamilyState { live_permille: Some(500), ..family(1, 14) };
        assert_eq!(decided(&vec![superseded; 69]), MemoryAction::CompactFull(68));
    }

    #[test]
    fn the_largest_families_go_until_three_quarters_of_memory_do() {
        let of = |kib: &[u64]| largest(&kib.iter().map(|&kib| family(kib, 0)).collect::<Vec<_>>());
        assert_eq!(of(&[1, 5, 0, 2, 8]), [4, 1], "13 of 16");
        assert_eq!(of(&[4, 4, 4, 4]), [0, 1, 2, 3], "three quarters are not more than three quarters");
        assert_eq!(of(&[3, 0]), [0]);
        let flushing = FamilyState { is_flushing: true, ..family(9, 0) };
        assert_eq!(largest(&[flushing, family(1, 0)]), [1]);
    }

    #[test]
    fn memory_of_superseded_versions_is_compacted_until_it_must_go() {
        let superseded = |kib| FamilyState { live_permille: Some(500), ..family(0, kib) };
        assert_eq!(decided(&[superseded(1023)]), MemoryAction::Nothing);
        assert_eq!(decided(&[superseded(1024)]), MemoryAction::CompactFull(0));
        let compacting = |kib| FamilyState { is_compacting: true, ..superseded(kib) };
        assert_eq!(decided(&[compacting(1919)]), MemoryAction::Nothing);
        assert_eq!(decided(&[compacting(1920)]), flush(0), "the compaction is behind");
        let alive = FamilyState { kept_bytes: 1025 << 10, ..superseded(1025) };
        assert_eq!(decided(&[alive]), flush(0), "compacting gave nothing back");
    }

    /// The limits are 1 MiB of memory, 1 MiB of logs, and so 64 KiB for a small family.
    #[test]
    fn logs_over_their_bound_flush_the_family_with_the_oldest_record() {
        let old = FamilyState { first_log: Some(FileId(3)), ..family(1, 63) };
        let over = |families: &[FamilyState]| {
            decide(&MemoryState { log_bytes: (1 << 20) + 1, ..state(families) }, &limits())
        };
        assert_eq!(over(&[family(30, 300), old]), flush(1));
        let flushing = FamilyState { is_flushing: true, ..family(0, 1) };
        assert_eq!(over(&[flushing, old]), MemoryAction::Nothing, "a flush may free the logs");
        assert_eq!(
            decide(&MemoryState { log_bytes: 1 << 20, ..state(&[old]) }, &limits()),
            MemoryAction::Nothing
        );
        let twins = [FamilyState { first_log: Some(FileId(3)), ..family(1, 0) }, old];
        assert_eq!(over(&twins), flush(1), "the large one of two that are equally old");
    }

    #[test]
    fn logs_that_a_small_family_keeps_go_by_a_write_back() {
        let small = FamilyState { first_log: Some(FileId(3)), ..family(1, 62) };
        let families = [family(30, 300), small];
        let over = |write_back, log_bytes| {
            decide(&MemoryState { write_back, log_bytes, ..state(&families) }, &limits())
        };
        let full = (1 << 20) + 1;
        assert_eq!(over(WriteBack::Possible, 1 << 20), MemoryAction::Nothing);
        assert_eq!(over(WriteBack::Possible, full), MemoryAction::WriteBack);
        assert_eq!(over(WriteBack::Asked, full), MemoryAction::Nothing, "the job will end");
        assert_eq!(over(WriteBack::Asked, 5 << 18), MemoryAction::Nothing);
        assert_eq!(over(WriteBack::Asked, (5 << 18) + 1), MemoryAction::FlushSmall, "the job is behind");
        assert_eq!(over(WriteBack::Refused, full), MemoryAction::FlushSmall);
        let off = MemoryLimits::new(MemoryOptions { log_rewrite_percent: 0, ..OPTIONS });
        let state = MemoryState { log_bytes: full, ..state(&families) };
        assert_eq!(decide(&state, &off), flush(1), "log collection is switched off");
    }

    #[test]
    fn a_full_log_is_closed_before_segments_roll() {
        let families = [family(40, 0)];
        let full = MemoryState { is_log_full: true, ..state(&families) };
        assert_eq!(decide(&full, &limits()), MemoryAction::CloseLog);
    }
}
