//! The form of what a flush writes. A *sorted table* has keys and values. A *log table* is an index of keys; the values stay in
//! the log where they were written first.
//!
//! A log table writes less and reads more, and keeps its logs for as long as it lives. So it pays only if most of a log is
//! values that the flush would write, and the bytes of such logs are bounded. Each log is chosen by itself: a table may point
//! into some logs, and hold the values of other logs itself.
//!
//! A merge that reads much of a log loads it, as far as its room for logs goes. Large logs do not all fit. So no value is left where the
//! logs of a flush have more than [`MOST_FLUSH_LOG_BYTES`], and the writer of such logs keeps no list of places, which costs each put time.
//! Merges of narrow cells read little of each log. They read value by value, which costs as much processor time as writing a value of a
//! kilobyte. So where L1 has many cells, only larger values are left in logs.
//!
//! Log tables slow scans down. A scan gets the values of many keys in one block of a sorted table, but reads each value of a
//! log by itself. So a flush writes a sorted table if scans have returned much of the tree since the last flush.
//!
//! Merges copy values out of logs and drop the handles. If a log is nearly dead, or logs are too many, the slices that still point into the
//! log are rewritten, and the log can be deleted.
//!
//! Tables that no merge takes (for one, because keys come in order) would keep their logs for ever. No flush of busier keys could then
//! leave its values in a log. So the oldest logs are *let go* (their tables are rewritten) once flushes have missed the room for enough
//! bytes. For each byte that is rewritten this way, flushes wrote several bytes to sorted tables before. So little is written twice if
//! tables stay as they are. If merges come soon, they make the room.

use crate::base::ids::FileId;
use crate::log::MOST_FLUSH_LOG_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Least size of a value that a flush leaves in a log, in bytes. A handle takes half of it.
pub const LEAST_VALUE_BYTES: usize = 32;
/// Least mean size of values that a flush leaves in a log, in bytes. Reading smaller values out of a loaded log costs more than writing
/// them to a table.
const LEAST_MEAN_BYTES: u64 = 64;
/// Least mean size where merges read values one by one, in bytes (measured, docs/decisions/log-tables.md).
const LEAST_LONE_BYTES: u64 = 1024;
/// A family is scanned if scans return one in this many of its keys between two flushes. A value stays in a log until the tables of about
/// four flushes are merged. A scan that reads it there pays about eight times what writing it would have cost. Beyond 1 in 32, values in
/// logs cost scans more than they save flushes, if scans read all keys alike.
const SCANNED_SHARE: u64 = 32;
/// Scans that returned fewer entries than this since the last flush do not count as a scan workload.
const MIN_ENTRIES_RETURNED: u64 = 10_000;
/// Most bytes of logs that one merge loads at once. A memory limit may allow less.
pub const LOADED_BYTES: u64 = 64 << 20;
/// A merge loads a log whole if it reads at least one byte in this many of it.
const WANTED_SHARE: u64 = 4;
/// Bytes of memory from which on the logs of a flush of full memory have more than [`MOST_FLUSH_LOG_BYTES`]: 32 MiB. An entry takes at most
/// twice as many bytes of memory as of a log, unless its value is too small to stay there.
const LARGE_MEMORY_BYTES: u64 = 2 * MOST_FLUSH_LOG_BYTES;
/// Once flushes have missed room for as many bytes as may be pinned, the oldest logs are let go, up to one in this many of these bytes.
const OLDEST_SHARE: u64 = 4;

/// The options of log tables.
#[derive(Clone, Copy, Debug)]
pub struct FormOptions {
    /// A log becomes a body if at least this many percent of its bytes are values that tables will point to. 0 switches log
    /// tables off.
    pub live_percent: u32,
    /// Most bytes of logs that stay only because tables point into them.
    pub pinned_bytes: u64,
    /// Memory and logs of a flush are so large that it leaves no value in a log.
    pub is_memory_large: bool,
    /// Most bytes of logs that one merge loads at once.
    pub loaded_bytes: u64,
}

impl FormOptions {
    /// The options for flushes that begin at `memtable_bytes` of memory, or at `log_bytes` of logs.
    pub fn new(live_percent: u32, memtable_bytes: u64, log_bytes: u64) -> FormOptions {
        let is_memory_large = memtable_bytes.min(log_bytes) >= LARGE_MEMORY_BYTES;
        let pinned_bytes = log_bytes / 4 * 3;
        FormOptions { live_percent, pinned_bytes, is_memory_large, loaded_bytes: LOADED_BYTES }
    }

    /// As these options, for merges that load at most `bytes` of logs at once.
    pub fn loading_at_most(self, bytes: u64) -> FormOptions {
        FormOptions { loaded_bytes: self.loaded_bytes.min(bytes), ..self }
    }

    /// Whether a flush may ever leave values in logs, so that logs keep lists of places.
    pub fn may_leave_values(&self) -> bool {
        self.live_percent > 0 && !self.is_memory_large
    }
}

/// A closed log that holds values of a flushing set, and what a table of the set would point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOfFlush {
    pub id: FileId,
    /// Bytes of the whole log, footer included.
    pub bytes: u64,
    /// Values that the flush would leave there, and their bytes.
    pub values: u64,
    pub value_bytes: u64,
    /// Bytes of values that tables point to already; 0 without such tables.
    pub live_bytes: u64,
}

/// What a flush does with the logs that it could leave values in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The logs that its table points into; none for a sorted table.
    pub bodies: Vec<FileId>,
    /// Bytes of whole logs that would be bodies too, if older logs had not reached the bound of pinned bytes.
    pub refused_bytes: u64,
}

/// The room and the tree that a flush finds.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Bytes of logs that tables pin now.
    pub pinned_bytes: u64,
    /// Free bytes on the device for logs that could be deleted if the flush wrote a sorted table.
    pub room_bytes: u64,
    /// Bytes of all logs of this flush, whether values could be left in them or not.
    pub log_bytes: u64,
    /// Cells of L1, where the table is going to be merged.
    pub cells: usize,
}

/// Whether merges would load too little of the logs of a flush, which have `log_bytes`.
pub fn are_too_large(log_bytes: u64) -> bool {
    log_bytes > MOST_FLUSH_LOG_BYTES
}

/// Chooses among the logs of one flush, given oldest first. If `logs` also count superseded values, the answer is what might be
/// chosen at best.
pub fn choose(logs: &[LogOfFlush], place: &Place, options: &FormOptions) -> Choice {
    if !options.may_leave_values() || are_too_large(place.log_bytes) {
        return Choice::default();
    }
    let mut left_bytes = options.pinned_bytes.saturating_sub(place.pinned_bytes);
    let mut room_bytes = place.room_bytes;
    // Merges of few cells read enough of each log to load it. Most take the tables of four flushes.
    let fits = place.log_bytes.saturating_mul(4) <= options.loaded_bytes;
    let are_loaded = fits && place.cells as u64 <= WANTED_SHARE;
    let least_mean_bytes = if are_loaded { LEAST_MEAN_BYTES } else { LEAST_LONE_BYTES };
    let mut choice = Choice::default();
    for log in logs {
        let is_pinned = log.live_bytes > 0;
        let more_bytes = if is_pinned { 0 } else { log.bytes };
        let is_large = log.values > 0 && log.value_bytes / log.values >= least_mean_bytes;
        let live_bytes = log.value_bytes.saturating_add(log.live_bytes);
        let is_alive = percent(live_bytes, log.bytes) >= u64::from(options.live_percent);
        if !is_large || !is_alive || more_bytes > room_bytes {
            continue;
        }
        if more_bytes <= left_bytes {
            left_bytes -= more_bytes;
            room_bytes -= more_bytes;
            choice.bodies.push(log.id);
        } else if more_bytes <= options.pinned_bytes {
            choice.refused_bytes += more_bytes;
        }
    }
    choice
}

/// Whether scans, which returned this many entries since the last flush, read too much of the tree for a log table.
pub fn is_scanned(entries_returned: u64, tree_keys: u64) -> bool {
    entries_returned >= MIN_ENTRIES_RETURNED && entries_returned.saturating_mul(SCANNED_SHARE) > tree_keys
}

/// A log that stays only because tables point into it, and the bytes that slices still reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Bytes of the whole log, footer included.
    pub bytes: u64,
    pub live_bytes: u64,
    /// The tables that point into it.
    pub tables: BTreeSet<FileId>,
}

/// The newest of the logs that are let go because flushes could not keep `refused_bytes` of logs as bodies; `None` if these bytes are below
/// the bound of pinned bytes.
pub fn oldest(
    pinned: &BTreeMap<FileId, Pinned>,
    refused_bytes: u64,
    options: &FormOptions,
) -> Option<FileId> {
    if refused_bytes < options.pinned_bytes {
        return None;
    }
    let mut bytes = 0;
    let oldest = pinned.iter().take_while(|(_, log)| {
        let is_wanted = bytes < options.pinned_bytes / OLDEST_SHARE;
        bytes += log.bytes;
        is_wanted
    });
    oldest.last().map(|(&id, _)| id)
}

/// The tables whose handles are to be removed, so that logs can be deleted. These are the tables that point into logs up to `let_go`, or
/// into logs of which less than half of `live_percent` is alive. If the other logs still exceed the bound, tables of the oldest of them
/// follow.
pub fn to_rewrite(
    pinned: &BTreeMap<FileId, Pinned>,
    let_go: Option<FileId>,
    options: &FormOptions,
) -> BTreeSet<FileId> {
    let least_percent = u64::from(options.live_percent.div_ceil(2));
    let is_wanted = |(id, log): &(&FileId, &Pinned)| {
        Some(**id) > let_go && percent(log.live_bytes, log.bytes) >= least_percent
    };
    let (alive, dead): (Vec<_>, Vec<_>) = pinned.iter().partition(is_wanted);
    let (alive, dead) = (alive.into_iter().map(|(_, log)| log), dead.into_iter().map(|(_, log)| log));
    let mut bytes: u64 = alive.clone().map(|log| log.bytes).sum();
    let too_many = alive.take_while(|log| {
        let is_over = bytes > options.pinned_bytes;
        bytes -= log.bytes;
        is_over
    });
    dead.chain(too_many).flat_map(|log| log.tables.iter().copied()).collect()
}

/// A log that a merge reads values from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOfMerge {
    pub id: FileId,
    /// Bytes of the whole log, footer included.
    pub bytes: u64,
    /// Bytes of values that the merge wants.
    pub wanted_bytes: u64,
}

/// The logs that a merge loads whole: the logs that it reads the largest share of, as far as the room goes. From other logs it
/// reads values one by one.
pub fn to_load(logs: &[LogOfMerge], options: &FormOptions) -> Vec<FileId> {
    let mut by_share: Vec<&LogOfMerge> =
        logs.iter().filter(|log| log.wanted_bytes.saturating_mul(WANTED_SHARE) >= log.bytes).collect();
    by_share.sort_by_key(|log| (std::cmp::Reverse(percent(log.wanted_bytes, log.bytes)), log.id));
    let mut room_bytes = options.loaded_bytes;
    let mut chosen = Vec::new();
    for log in by_share {
        if log.bytes <= room_bytes {
            room_bytes -= log.bytes;
            chosen.push(log.id);
        }
    }
    chosen
}

fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: FormOptions = FormOptions {
        live_percent: 50,
        pinned_bytes: 3000,
        is_memory_large: false,
        loaded_bytes: LOADED_BYTES,
    };

    fn log(id: u64, bytes: u64, values: u64, value_bytes: u64) -> LogOfFlush {
        LogOfFlush { id: FileId(id), bytes, values, value_bytes, live_bytes: 0 }
    }

    const PLACE: Place = Place { pinned_bytes: 0, room_bytes: 10_000, log_bytes: 10_000, cells: 4 };

    fn chosen(logs: &[LogOfFlush], pinned_bytes: u64) -> Vec<u64> {
        let choice = choose(logs, &Place { pinned_bytes, ..PLACE }, &OPTIONS);
        choice.bodies.iter().map(|id| id.0).collect()
    }

    #[test]
    fn where_merges_do_not_load_logs_only_large_values_are_left() {
        let logs = [log(1, 3000, 2, 2048), log(2, 3000, 2, 2047)];
        let room = FormOptions { pinned_bytes: 10_000, ..OPTIONS };
        let chosen = |cells, loaded_bytes| {
            choose(&logs, &Place { cells, ..PLACE }, &room.loading_at_most(loaded_bytes)).bodies
        };
        let (all, large) = (vec![FileId(1), FileId(2)], vec![FileId(1)]);
        assert_eq!((chosen(4, u64::MAX), chosen(5, u64::MAX)), (all.clone(), large.clone()));
        assert_eq!((chosen(4, 40_000), chosen(4, 39_999)), (all, large), "four flushes of 10,000 bytes");
    }

    #[test]
    fn in_logs_too_large_to_be_loaded_together_no_value_is_left() {
        let place = Place { room_bytes: u64::MAX, ..PLACE };
        let chosen = |bytes, value_bytes, memtable_bytes| {
            let logs = [1, 2].map(|id| log(id, bytes, bytes / value_bytes, bytes));
            let place = Place { log_bytes: 2 * bytes, ..place };
            choose(&logs, &place, &FormOptions::new(50, memtable_bytes, 1 << 30)).bodies
        };
        for value_bytes in [64, 1024, 100_000] {
            assert_eq!(chosen(8 << 20, value_bytes, 16 << 20), [FileId(1), FileId(2)], "16 MiB a flush");
            assert_eq!(chosen((8 << 20) + 1, value_bytes, 16 << 20), []);
            assert_eq!(chosen(1 << 20, value_bytes, 32 << 20), [], "flushes of full memory have larger logs");
        }
        let may = |percent, memtable_bytes, log_bytes| {
            FormOptions::new(percent, memtable_bytes, log_bytes).may_leave_values()
        };
        assert!(may(1, (32 << 20) - 1, 1 << 30) && may(1, 1 << 30, (32 << 20) - 1));
        assert!(!may(1, 32 << 20, 32 << 20) && !may(0, 4 << 20, 64 << 20));
    }

    #[test]
    fn a_log_of_large_values_that_are_mostly_alive_becomes_a_body() {
        assert_eq!(chosen(&[log(1, 1000, 5, 500), log(2, 1000, 5, 499)], 0), [1]);
        assert_eq!(chosen(&[log(1, 1000, 10, 640), log(2, 1000, 10, 639)], 0), [1], "the mean counts");
        assert_eq!(chosen(&[log(1, 1000, 0, 0)], 0), [0u64; 0]);
        let off = FormOptions { live_percent: 0, ..OPTIONS };
        assert_eq!(
            choose(&[log(1, 1000, 5, 1000)], &Place { pinned_bytes: 3000, ..PLACE }, &off),
            Choice::default()
        );
    }

    #[test]
    fn what_scans_read_much_is_written_to_sorted_tables() {
        assert!(!is_scanned(9_999, 0) && is_scanned(10_000, 0));
        assert!(!is_scanned(10_000, 320_000) && is_scanned(10_000, 319_999) && is_scanned(u64::MAX, 1 << 40));
    }

    #[test]
    fn logs_that_stay_are_bounded_and_one_that_stays_anyhow_costs_nothing() {
        let alive = |id| log(id, 1000, 5, 800);
        assert_eq!(chosen(&[alive(1), alive(2), alive(3), alive(4)], 0), [1, 2, 3]);
        assert_eq!(chosen(&[alive(1), log(2, 900, 5, 800), alive(3)], 2000), [1]);
        assert_eq!(chosen(&[alive(1)], 2001), [0u64; 0]);
        let shared = LogOfFlush { live_bytes: 300, ..log(5, 1000, 2, 200) };
        assert_eq!(chosen(&[shared], 2500), [5], "what other tables point to counts");
        let without_room =
            choose(&[alive(1), shared, alive(3)], &Place { room_bytes: 1999, ..PLACE }, &OPTIONS);
        assert_eq!(without_room, Choice { bodies: vec![FileId(1), FileId(5)], refused_bytes: 0 });
    }

    #[test]
    fn what_older_logs_leave_no_room_for_is_counted() {
        let refused = |logs: &[LogOfFlush]| {
            choose(logs, &Place { pinned_bytes: 1500, ..PLACE }, &OPTIONS).refused_bytes
        };
        let alive = |id, bytes| log(id, bytes, 5, bytes);
        assert_eq!(refused(&[alive(1, 1000), alive(2, 501), alive(3, 800), alive(4, 500)]), 1301);
        assert_eq!(refused(&[log(1, 2000, 5, 999), alive(2, 3001)]), 0, "neither could become a body");
    }

    fn pinned(logs: &[(u64, u64, u64, &[u64])]) -> BTreeMap<FileId, Pinned> {
        let tables = |tables: &[u64]| tables.iter().map(|&id| FileId(id)).collect();
        let log = |&(id, bytes, live_bytes, of): &(u64, u64, u64, &[u64])| {
            (FileId(id), Pinned { bytes, live_bytes, tables: tables(of) })
        };
        logs.iter().map(log).collect()
    }

    fn rewritten(logs: &[(u64, u64, u64, &[u64])]) -> Vec<u64> {
        to_rewrite(&pinned(logs), None, &OPTIONS).iter().map(|id| id.0).collect()
    }

    #[test]
    fn nearly_dead_logs_and_the_oldest_of_too_many_are_let_go() {
        assert_eq!(rewritten(&[(1, 1000, 250, &[10, 11]), (2, 1000, 249, &[11, 12])]), [11, 12]);
        assert_eq!(rewritten(&[(1, 1000, 900, &[10]), (2, 1000, 900, &[11]), (3, 1001, 900, &[12])]), [10]);
        assert_eq!(rewritten(&[(1, 1000, 900, &[10]), (2, 1500, 9, &[11]), (3, 1000, 900, &[12])]), [11]);
        assert_eq!(rewritten(&[]), [0u64; 0]);
        let least = FormOptions { live_percent: 1, ..OPTIONS };
        let dead = pinned(&[(1, 1000, 9, &[10]), (2, 1000, 10, &[11])]);
        assert_eq!(to_rewrite(&dead, None, &least), BTreeSet::from([FileId(10)]));
    }

    #[test]
    fn the_oldest_are_let_go_once_others_have_missed_enough() {
        let logs = pinned(&[(1, 500, 500, &[10]), (2, 300, 300, &[11]), (3, 900, 900, &[12])]);
        assert_eq!(oldest(&logs, 2999, &OPTIONS), None);
        assert_eq!(oldest(&logs, 3000, &OPTIONS), Some(FileId(2)));
        assert_eq!(oldest(&logs, 3000, &FormOptions { pinned_bytes: 2000, ..OPTIONS }), Some(FileId(1)));
        assert_eq!(oldest(&pinned(&[]), 3000, &OPTIONS), None);
        let tables = to_rewrite(&logs, Some(FileId(2)), &OPTIONS);
        assert_eq!(tables, BTreeSet::from([FileId(10), FileId(11)]));
    }

    #[test]
    fn a_merge_loads_what_it_wants_most_of() {
        let log = |id, bytes, wanted_bytes| LogOfMerge { id: FileId(id), bytes, wanted_bytes };
        let load = |logs: &[LogOfMerge]| to_load(logs, &OPTIONS).iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(load(&[log(1, 1000, 250), log(2, 1000, 249), log(3, 1000, 900)]), [3, 1]);
        let half = LOADED_BYTES / 2;
        assert_eq!(load(&[log(1, half, half / 3), log(2, half, half / 2), log(3, half, half)]), [3, 2]);
        assert_eq!(
            load(&[log(1, half, half / 3), log(2, half + 1, half), log(3, half - 1, half / 3)]),
            [2, 3]
        );
        assert_eq!(load(&[log(1, 2 * half + 1, half * 2)]), [0u64; 0]);
        let limited = OPTIONS.loading_at_most(1999);
        assert_eq!(to_load(&[log(1, 1000, 900), log(2, 1000, 1000)], &limited), [FileId(2)]);
        assert_eq!(OPTIONS.loading_at_most(u64::MAX).loaded_bytes, LOADED_BYTES);
    }
}
