//! The figures that [`Db::stats`](crate::Db::stats) returns.

use crate::base::counters::{Counters, LEVELS};
use crate::base::report::TierStats;
use crate::table::Reason;

macro_rules! counts {
    ($($name:ident: $doc:literal,)*) => {
        /// What the engine did since this open.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $(#[doc = $doc] pub $name: u64,)*
            /// Bytes written by merges, by the level that received them.
            pub merge_bytes: [u64; LEVELS],
        }

        impl Counts {
            pub(crate) fn of(counters: &Counters) -> Counts {
                Counts {
                    $($name: counters.$name.get(),)*
                    merge_bytes: std::array::from_fn(|level| counters.merge_bytes[level].get()),
                }
            }

            /// Every count but `merge_bytes`, with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counts! {
    user_bytes: "Bytes of keys and values that users wrote.",
    user_ops: "Puts and deletes.",
    log_bytes: "Bytes written to logs.",
    log_mapped_bytes: "Bytes written to logs through a mapping, without a system call. `log_bytes` includes them.",
    written_back: "Records that a flush or a log collection copied from old logs to a newer log.",
    written_back_bytes: "Bytes of the records in `written_back`. `log_bytes` includes them.",
    logs_collected: "Logs that a log collection deleted: newer writes superseded their records, or the collection wrote them back.",
    log_syncs: "Syncs of logs.",
    log_groups: "Commit groups: writes to the log.",
    logs_rotated: "Logs begun after the first.",
    manifest_bytes: "Bytes written to manifests.",
    manifest_snapshots: "Manifests written anew.",
    flushes: "Flushes of memory to tables.",
    memory_flushes: "Active segments that filled up and joined a pipeline.",
    memory_merges: "Memory compactions that merged the indices of segments and kept all versions.",
    memory_compactions: "Memory compactions that left superseded versions out.",
    full_memory_compactions: "Compactions of full memory in place of a flush.",
    hot_kept: "Hot keys that stayed in memory at a flush.",
    memory_dropped: "Superseded versions that memory compactions dropped.",
    flush_bytes: "Bytes written by flushes.",
    log_tables: "Flushes that wrote an index and left values in the log.",
    log_table_bytes: "Bytes of the indexes in `log_tables`. `flush_bytes` includes them.",
    log_reads: "Values that gets and scans read from logs that tables point into.",
    log_merge_bytes: "Bytes of logs with values of tables that merges and `verify` read.",
    value_files: "Value files that flushes and merges wrote.",
    value_file_bytes: "Bytes of the value files in `value_files`. Neither `flush_bytes` nor `merge_bytes` includes them.",
    value_reads: "Values that gets and scans read from value files.",
    scan_places: "Places of value files that scans read, each with one call. The first value of a scan and cached values are left out.",
    scan_bytes: "Bytes that scans read at these places, gaps between values included.",
    value_merge_bytes: "Bytes of value files that merges and `verify` read.",
    merges: "Merges of tables.",
    bought_merges: "Merges that readers paid for: what they read in vain had cost as much. `merges` includes them.",
    rent_paid_ns: "Nanoseconds that readers paid in vain, by estimate: for runs that a merge would make one, and hidden entries.",
    rent_spent_ns: "Of `rent_paid_ns`, what was paid for the inputs of `bought_merges`.",
    merge_read_bytes: "Bytes of tables that went into merges.",
    cells_sampled: "Cells for which samples of keys estimated how much their runs overlap. A cell counts once for each change of its runs.",
    rewrites_spared: "Cells that were not rewritten because their samples showed little garbage. `cells_sampled` includes them.",
    merges_shared: "Large merges that several threads shared.",
    most_merges_at_once: "The largest number of merges that ran at the same time.",
    trivial_moves: "Runs, or tables of L0, moved down a level as metadata.",
    cells_split: "Guards set.",
    cells_joined: "Guards taken away.",
    hole_bytes: "Bytes of holes: parts of tables and value files given back to the file system while the rest of the file is in use.",
    entries_dropped: "Versions that flushes and merges dropped because newer versions hide them.",
    tombstones_dropped: "Tombstones that merges dropped because no older version was left to hide.",
    gets: "Gets.",
    scans: "Scans. An iterator that was read from both ends counts twice.",
    scan_dead_entries: "Entries that scans stepped over in ranges of deleted keys: tombstones, and what they hide.",
    gaps_accepted: "Gaps that scans found: ranges of keys without a living entry, over which later scans jump.",
    gaps_refused: "Gaps that came too late: a write since the scan began lies in the range, or too many writes came to know.",
    table_reads: "Tables that gets searched. Filters let them pass.",
    filter_rejections: "Tables that gets skipped because of a filter.",
    filter_false_positives: "Tables that a filter let pass and that did not hold the key.",
    cache_hits: "Blocks, and values in logs, found in the block cache.",
    cache_misses: "Blocks, and values in logs, read from files.",
    slow_reads: "Reads of files on slow tiers that gets and scans waited for.",
    tier_out_bytes: "Bytes of cells that left the fast tier.",
    tier_in_bytes: "Bytes of cells that came back to the fast tier by a move. What merges from above bring there is not counted.",
    stall_us: "Microseconds that writes waited in back-pressure, over all threads.",
    stalls: "Writes that had to wait for memory or L0.",
    slowdowns: "Writes that were slowed down.",
    files_deleted: "Files that were no longer needed.",
    job_failures: "Background jobs that failed; they are tried again.",
}

/// What the database holds now, and what it did since this open.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-stats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let stats = db.stats();
/// assert_eq!(stats.counts.user_bytes, 8);
/// assert_eq!(stats.families[0].levels[0].tables, 1);
/// println!("write amplification {:.2}", stats.write_amplification());
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The column families, in the order of their creation.
    pub families: Vec<FamilyStats>,
    /// Bytes of memory that hold writes.
    pub memory_bytes: u64,
    /// Bytes of memory that memory compactions replaced and that iterators or values still hold.
    pub memory_held_bytes: u64,
    /// Bytes of the logs that may still be replayed.
    pub log_bytes_live: u64,
    /// The logs that may still be replayed, oldest first.
    pub logs: Vec<LogStats>,
    /// Logs that are kept only because tables point to values in them, and their bytes. They are not replayed any more.
    pub pinned_logs: u64,
    pub pinned_log_bytes: u64,
    /// Tables that point to values in logs, and the bytes of these values. The bytes of levels include them.
    pub log_tables: u64,
    pub log_value_bytes: u64,
    /// Value files that tables lead into, and their bytes.
    pub value_files: u64,
    pub value_file_bytes: u64,
    /// Bytes of the records in value files that tables lead to. The bytes of levels include them, approximately.
    pub value_live_bytes: u64,
    /// The value files that tables lead into, oldest first.
    pub values: Vec<ValueFileStats>,
    /// The tiers, the database's own directory first; empty without slow ones.
    pub tiers: Vec<TierStats>,
    /// Places in tables and logs, and value files, that merges leave alone now, because a merge could not read them lately. The garbage there
    /// stays meanwhile. `verify` tells what is damaged.
    pub damages_waiting: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Most bytes that the block cache takes: [`Options::block_cache_bytes`](crate::Options::block_cache_bytes), or its default on this machine. With
    /// [`Options::memory_limit`](crate::Options::memory_limit), what the tables leave of it now. 0 after a close.
    pub cache_limit_bytes: u64,
    /// Bytes of memory that tables take: 1.5 KiB each; indexes, filters, samples and slots of open ones; and logs that merges have loaded. A slot
    /// is where the cache keeps a block.
    pub table_memory_bytes: u64,
    /// Snapshots that are held.
    pub open_snapshots: u64,
    /// The cause that stopped writing, if one did.
    pub poisoned: Option<String>,
    /// The last failure of a background job, if no job succeeded since.
    pub job_error: Option<String>,
    /// What the engine did since this open.
    pub counts: Counts,
}

/// One commit log that may still be replayed.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-logstats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("key", "value")?;
/// db.put("key", "newer")?;
/// let log = &db.stats().logs[0];
/// assert_eq!(log.live_entries, 1);
/// assert!(log.live_bytes < log.bytes);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// The number in the name of its file.
    pub id: u64,
    /// Bytes written to the log so far.
    pub bytes: u64,
    /// At most this many records of the log are alive: memory holds them, and nothing newer supersedes them. A superseded record counts too
    /// until a merge of segments finds it.
    pub live_entries: u64,
    /// The bytes of the live records in the log, without the heads of their batches. Never more than `bytes`.
    pub live_bytes: u64,
}

/// One value file that tables lead into.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-vfstats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = braidb::Options::new().tuning(|tuning| tuning.separation_threshold(Some(1024))).open(&dir)?;
/// db.put("key", [7; 5000])?;
/// db.flush()?;
/// let file = &db.stats().values[0];
/// assert!(file.live_bytes > 5000 && file.bytes > file.live_bytes);
/// assert_eq!(file.dead_bytes, 0);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueFileStats {
    /// The number in the name of its file.
    pub id: u64,
    /// Bytes that the file takes: its header, its records, and what a crash left behind them, without what an excise punched out.
    pub bytes: u64,
    /// Bytes of the records that slices of tables lead to. An overwritten value counts until a merge meets both versions of its key.
    pub live_bytes: u64,
    /// Bytes that all other records take, and what a crash left behind the records.
    pub dead_bytes: u64,
}

/// Segments of one layout that a family holds in memory.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-layoutstats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("key", "value")?;
/// let memory = &db.stats().families[0].memory[0];
/// assert_eq!((memory.layout, memory.segments, memory.entries), ("skiplist", 1, 1));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayoutStats {
    /// `skiplist`: written to, or not flattened yet; `flat`: sorted references to records; `serialized`: sorted references with copies
    /// of the records in the same order.
    pub layout: &'static str,
    /// Segments of this layout.
    pub segments: u64,
    /// Entries of the segments, old versions and tombstones included.
    pub entries: u64,
    /// Bytes of the segments.
    pub bytes: u64,
}

/// One column family.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-fstats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let family = &db.stats().families[0];
/// assert_eq!((family.name.as_str(), family.memory_bytes), ("default", 0));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FamilyStats {
    /// The name of the family.
    pub name: String,
    /// Bytes of memory that hold the family's writes.
    pub memory_bytes: u64,
    /// The family's memory by layout; layouts without entries are left out.
    pub memory: Vec<LayoutStats>,
    /// Segments of memory behind the active one. Each is one more place that a lookup searches.
    pub segments: u64,
    /// Bytes that flushes and merges wrote since this open to tables and value files of the family, by reason. Reasons without any are left
    /// out. `flush_bytes`, `merge_bytes` and `value_file_bytes` of [`Counts`] count them too.
    pub written_bytes: Vec<(Reason, u64)>,
    /// How many hot keys stay in memory at a flush; `None` if no hot key ever stays.
    pub hot_keys: Option<HotKeyStats>,
    /// The levels of the family, L0 first.
    pub levels: Vec<LevelStats>,
}

/// How many keys of a column family stay in memory at a flush, and what they cost and saved.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-hotkeys-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = braidb::Options::new().memtable_bytes(16 << 10).tuning(|tuning| tuning.hot_keys_percent(10)).open(&dir)?;
/// for n in 0..4000u32 {
///     let key = if n % 2 == 0 { n % 64 } else { n };
///     db.put(key.to_be_bytes(), [7; 100])?;
/// }
/// db.settle()?;
/// let hot_keys = db.stats().families[0].hot_keys.clone().expect("some may stay");
/// assert!(hot_keys.periods.iter().all(|period| period.flushes > 0 && period.writes > 0));
/// println!("{} keys of a million stay, after {:?}", hot_keys.ppm, hot_keys.periods.last());
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotKeyStats {
    /// At most this many keys of a million stay at the next flush.
    pub ppm: u64,
    /// Measurements with the current share and with other recent shares, oldest first. Each covers a few flushes.
    pub periods: Vec<HotKeyPeriod>,
}

/// What was written while one share of hot keys was allowed to stay in memory.
///
/// ```
/// let saved_more = |a: &braidb::stats::HotKeyPeriod, b: &braidb::stats::HotKeyPeriod| a.saved_bytes * b.writes > b.saved_bytes * a.writes;
/// assert!(!saved_more(&braidb::stats::HotKeyPeriod::default(), &braidb::stats::HotKeyPeriod::default()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotKeyPeriod {
    /// The share: keys of a million that might stay.
    pub ppm: u64,
    /// Flushes in the period.
    pub flushes: u64,
    /// Writes of the column family in the period.
    pub writes: u64,
    /// Bytes of the tables that flushes wrote.
    pub flush_bytes: u64,
    /// Bytes of records that stayed, approximately, which were written to the log once more.
    pub written_back_bytes: u64,
    /// Bytes of records that had stayed and were overwritten before the next flush, so no flush wrote them.
    pub saved_bytes: u64,
}

/// One level of a column family.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-lstats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("k", "v")?;
/// db.flush()?;
/// let l0 = &db.stats().families[0].levels[0];
/// assert_eq!((l0.tables, l0.entries, l0.tombstones), (1, 1, 0));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// The number of the level; 0 for L0.
    pub level: usize,
    /// Tables with slices in the level. One table may have slices in several levels.
    pub tables: u64,
    /// Ranges of tables that belong to the level.
    pub slices: u64,
    /// Cells: the ranges between the level's guards.
    pub cells: u64,
    /// Sorted runs in all cells together.
    pub runs: u64,
    /// Runs in the cell with most runs: the most runs that a lookup searches in this level.
    pub most_runs: u64,
    /// Bytes of the level's slices.
    pub bytes: u64,
    /// Entries, old versions and tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
}

impl Stats {
    /// All bytes written since this open, log and manifest included.
    pub fn total_written_bytes(&self) -> u64 {
        let counts = &self.counts;
        let merged: u64 = counts.merge_bytes.iter().sum();
        counts.log_bytes + counts.manifest_bytes + counts.flush_bytes + counts.value_file_bytes + merged
    }

    /// Bytes written for each byte of keys and values that users wrote; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.total_written_bytes(), self.counts.user_bytes)
    }

    /// (Flushed + merged) / flushed bytes, without the log; 0 before the first flush.
    pub fn merge_amplification(&self) -> f64 {
        let merged: u64 = self.counts.merge_bytes.iter().sum();
        ratio(self.counts.flush_bytes + merged, self.counts.flush_bytes)
    }

    /// Bytes of tables, value files and logs. Values that tables leave in logs count once.
    pub fn space_bytes(&self) -> u64 {
        let tables: u64 =
            self.families.iter().flat_map(|family| &family.levels).map(|level| level.bytes).sum();
        let files = tables + self.value_file_bytes + self.log_bytes_live + self.pinned_log_bytes;
        files.saturating_sub(self.log_value_bytes + self.value_live_bytes)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
