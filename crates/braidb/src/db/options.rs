//! Options: one default set that serves every workload, each value checked when a database is opened.

use super::Db;
use crate::base::counters::LEVELS;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::db::verify::{self, VerifyReport};
pub use crate::plan::Guards;
use crate::plan::TreeOptions;
use crate::plan::form::FormOptions;
use crate::plan::memory::limits::{MemoryLimits, MemoryOptions};
pub use crate::plan::memory::segments::MemoryPolicy;
use crate::plan::memory::segments::SegmentOptions;
use crate::plan::tree::overlap::OverlapOptions;
pub use crate::plan::tree::overlap::OverlapScope;
use crate::table::TableOptions;
use braidb_storage::Env;
use std::path::Path;

/// What is left of something dead is cleared away after as many operations as fill the memtable some times over, when
/// each has about so many bytes.
const COLD_BYTES: usize = 4;

/// The least target of L1, in tables of a full memtable; with deferral below L0 it is larger.
const BASE_TABLES: usize = 4;

/// An active segment is not full before it has so many bytes.
const LEAST_ACTIVE_BYTES: u64 = 512;

/// How to open a database. Every setter takes and returns the options, so that calls chain.
///
/// ```
/// use braidb::{Durability, Options};
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-options-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = Options::new().durability(Durability::Sync).memtable_bytes(16 << 20).open(&dir)?;
/// db.put("k", "v")?;
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) durability: Durability,
    pub(crate) memtable_bytes: usize,
    pub(crate) memory_policy: MemoryPolicy,
    pub(crate) active_percent: u32,
    pub(crate) pipeline_segments: usize,
    pub(crate) block_bytes: usize,
    pub(crate) block_cache_bytes: usize,
    pub(crate) filter_bits_per_key: u32,
    pub(crate) open_files: usize,
    pub(crate) table_bytes: u64,
    pub(crate) log_bytes: Option<u64>,
    pub(crate) log_rewrite_percent: u32,
    pub(crate) hot_keys_percent: u32,
    pub(crate) log_table_percent: u32,
    pub(crate) manifest_bytes: u64,
    pub(crate) l0_merge_tables: usize,
    pub(crate) l0_slowdown_tables: usize,
    pub(crate) l0_stop_tables: usize,
    pub(crate) l0_overlap_percent: u32,
    pub(crate) l0_overlap_tables: usize,
    pub(crate) overlap_scope: OverlapScope,
    pub(crate) defer_below_l0: bool,
    pub(crate) background_threads: usize,
    /// By level.
    pub(crate) max_runs_per_guard: [usize; LEVELS],
    pub(crate) guards: Guards,
    pub(crate) merge_bytes_per_second: Option<u64>,
    pub(crate) env: Option<Env>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            durability: Durability::Buffer,
            memtable_bytes: 64 << 20,
            memory_policy: MemoryPolicy::Adaptive { redundancy_percent: 20 },
            active_percent: 4,
            pipeline_segments: 4,
            block_bytes: 4 << 10,
            block_cache_bytes: 64 << 20,
            filter_bits_per_key: 10,
            open_files: 512,
            table_bytes: 64 << 20,
            log_bytes: None,
            log_rewrite_percent: 25,
            hot_keys_percent: 1,
            log_table_percent: 50,
            manifest_bytes: 4 << 20,
            l0_merge_tables: 4,
            l0_slowdown_tables: 8,
            l0_stop_tables: 20,
            l0_overlap_percent: 40,
            l0_overlap_tables: 6,
            overlap_scope: OverlapScope::L0,
            defer_below_l0: true,
            background_threads: 2,
            max_runs_per_guard: [4; LEVELS],
            guards: Guards::Balanced,
            merge_bytes_per_second: None,
            env: None,
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Whether a missing database is created. Default: true.
    pub fn create_if_missing(mut self, yes: bool) -> Options {
        self.create_if_missing = yes;
        self
    }

    /// What `put`, `delete` and `write` promise. Default: [`Durability::Buffer`].
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Memory for writes that are not in tables yet, over all column families, in bytes; while a flush is under way, or
    /// superseded versions are being left out, as much again. From 4 KiB to 2 GiB. Default: 64 MiB.
    pub fn memtable_bytes(mut self, bytes: usize) -> Options {
        self.memtable_bytes = bytes;
        self
    }

    /// How memory is kept small until it is flushed. Default: [`MemoryPolicy::Adaptive`] from 20% on.
    pub fn memory_policy(mut self, policy: MemoryPolicy) -> Options {
        self.memory_policy = policy;
        self
    }

    /// How much of `memtable_bytes` new writes gather in, of each column family, before they are flattened: 1 to 100, in
    /// percent. Less is nearer to the processor's cache, more is less often. Not used with [`MemoryPolicy::None`]. Default: 4.
    pub fn active_percent(mut self, percent: u32) -> Options {
        self.active_percent = percent;
        self
    }

    /// Flat segments of memory that a column family keeps beside each other, each one more place to look for a key: 1 to 16.
    /// Not used with [`MemoryPolicy::None`]; with [`MemoryPolicy::Eager`] only while there is no memory to copy. Default: 4.
    pub fn pipeline_segments(mut self, segments: usize) -> Options {
        self.pipeline_segments = segments;
        self
    }

    /// The size at which a data block of a table is cut, in bytes: from 64 to 1 MiB. Default: 4 KiB.
    pub fn block_bytes(mut self, bytes: usize) -> Options {
        self.block_bytes = bytes;
        self
    }

    /// Memory for blocks of tables, in bytes; 0 keeps none. Default: 64 MiB.
    pub fn block_cache_bytes(mut self, bytes: usize) -> Options {
        self.block_cache_bytes = bytes;
        self
    }

    /// Bits of Bloom filter for each key: 0 (no filters) to 32. Default: 10, which lets about 1% of absent keys pass.
    pub fn filter_bits_per_key(mut self, bits: u32) -> Options {
        self.filter_bits_per_key = bits;
        self
    }

    /// Files of tables, and of logs that tables point into, that are held open at most, 16 to 1,000,000; other logs,
    /// manifest, lock, the directory and tables under construction come on top, and one for each thread that reads.
    /// Default: 512.
    pub fn open_files(mut self, files: usize) -> Options {
        self.open_files = files;
        self
    }

    /// The size at which a merge starts its next table, in bytes: from 4 KiB to 2 GiB. Default: 64 MiB.
    pub fn table_bytes(mut self, bytes: u64) -> Options {
        self.table_bytes = bytes;
        self
    }

    /// Bytes of logs beyond which memory is flushed so that the oldest can go; at least 4 KiB. Default: the larger of four
    /// times the memtable budget and 64 MiB.
    pub fn log_bytes(mut self, bytes: u64) -> Options {
        self.log_bytes = Some(bytes);
        self
    }

    /// When logs have three quarters of [`Options::log_bytes`] and memory is not half full, and so few bytes in a hundred
    /// of the oldest are alive, because newer writes superseded the rest, what is alive is written to the newest log again,
    /// and they go without a flush. 0 to 90; 0 leaves logs to flushes. Default: 25.
    pub fn log_rewrite_percent(mut self, percent: u32) -> Options {
        self.log_rewrite_percent = percent;
        self
    }

    /// How many keys in a hundred stay in memory at a flush, at first: those that were written most often since the last
    /// one. They are written back to the log, so nothing is lost without them. From there the share goes up or down, to
    /// half of the keys or to none, as flushes show what is written least; [`HotKeyStats`](crate::HotKeyStats) tells how it
    /// stands. It begins here again with each open. Where so few keys may stay that a flush would hardly notice, none does.
    /// With the memory policies `None` and `Basic`, memory that is full of superseded versions is compacted and not
    /// flushed. 0 to 50; 0 flushes all of memory whenever it is full. Default: 1.
    pub fn hot_keys_percent(mut self, percent: u32) -> Options {
        self.hot_keys_percent = percent;
        self
    }

    /// When so many bytes in a hundred of a log are values that a flush would write to a table, and these are not small,
    /// the flush writes only keys and where in the log the values are. The log stays until merges have written the values
    /// elsewhere; what stays that way is at most three quarters of [`Options::log_bytes`]. Where values lie is kept in
    /// memory, 16 bytes for each write since the flush before, unless values are small. Where logs are too large for merges
    /// to load several at once, 16 MiB a flush, only values of a kilobyte and more are left there. Values of a family that
    /// is scanned much are always written, since a scan would read each of them by itself. 0 to 100; 0 writes values
    /// always. Default: 50.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-olog-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = braidb::Options::new().log_table_percent(50).open(&dir)?;
    /// db.put("key", [7; 1000])?;
    /// db.flush()?;
    /// assert_eq!(db.stats().counts.log_tables, 1);
    /// assert!(db.stats().counts.flush_bytes < 1000);
    /// assert_eq!(db.get("key")?.unwrap(), [7; 1000]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn log_table_percent(mut self, percent: u32) -> Options {
        self.log_table_percent = percent;
        self
    }

    /// The size beyond which the manifest is written anew, in bytes; at least 1 KiB. Default: 4 MiB.
    pub fn manifest_bytes(mut self, bytes: u64) -> Options {
        self.manifest_bytes = bytes;
        self
    }

    /// Tables in L0 at which they are merged into L1; at least 1. Default: 4.
    pub fn l0_merge_tables(mut self, tables: usize) -> Options {
        self.l0_merge_tables = tables;
        self
    }

    /// Tables in L0 from which on writes are slowed down; at least `l0_merge_tables`. Default: 8.
    pub fn l0_slowdown_tables(mut self, tables: usize) -> Options {
        self.l0_slowdown_tables = tables;
        self
    }

    /// Tables in L0 at which writes wait; more than `l0_slowdown_tables`. Default: 20.
    pub fn l0_stop_tables(mut self, tables: usize) -> Options {
        self.l0_stop_tables = tables;
        self
    }

    /// A merge of L0 is deferred while fewer of its keys than this, in percent, stand in more than one of its tables: 0 to 90. It
    /// never waits with more than [`Options::l0_overlap_tables`], from [`Options::l0_slowdown_tables`] on, or where a quarter of
    /// L0 is tombstones. 0 merges at [`Options::l0_merge_tables`] always. Tables that move down without being written don't wait.
    /// Default: 40.
    ///
    /// ```
    /// let refused = braidb::Options::new().l0_overlap_percent(91).forecast(&braidb::Load {
    ///     entries: 1, entry_bytes: 100, keys: 1, is_sequential: false,
    /// });
    /// assert!(matches!(refused, Err(braidb::Error::InvalidOption { option: "l0_overlap_percent", .. })));
    /// ```
    pub fn l0_overlap_percent(mut self, percent: u32) -> Options {
        self.l0_overlap_percent = percent;
        self
    }

    /// Tables in L0 up to which a merge is deferred by [`Options::l0_overlap_percent`]: 1 to 1000; below
    /// [`Options::l0_slowdown_tables`] in any case. L1 is sized by it too, see [`Options::defer_below_l0`]. Default: 6.
    pub fn l0_overlap_tables(mut self, tables: usize) -> Options {
        self.l0_overlap_tables = tables;
        self
    }

    /// Which tables are asked how much they overlap. With [`OverlapScope::L0AndL1`] the tables of L1 carry sketches too.
    /// Default: [`OverlapScope::L0`].
    pub fn overlap_scope(mut self, scope: OverlapScope) -> Options {
        self.overlap_scope = scope;
        self
    }

    /// Whether merges below L0 wait for each other, in a leveled tree: [`Options::max_runs_per_guard`] 1 and [`Guards::None`].
    /// Other trees take no notice. What a level brings down costs about all of the next one, so it is brought down less often:
    ///
    /// - L1 may hold one memtable more than [`Options::l0_overlap_tables`], at most as many as [`Options::l0_slowdown_tables`],
    ///   and at least 4, which is what it holds otherwise.
    /// - Each level is larger than the one above by one and the same factor, which is at most the usual 10, and goes down in
    ///   stretches of two tables ([`Options::table_bytes`]). L1 goes before L0 comes into it.
    /// - Tables of L0 are merged within L0 while less than a quarter of what they overlap in L1 would be left of them.
    ///
    /// It is independent of [`Options::l0_overlap_percent`], which alone is TRIAD-DISK (section 4.2 of the paper, Algorithm 2);
    /// this switch is no part of TRIAD. Tables of L0 carry sketches if either is on. Default: true.
    ///
    /// ```
    /// let load = braidb::Load { entries: 20_000_000, entry_bytes: 144, keys: u64::MAX, is_sequential: false };
    /// let leveled = || braidb::Options::new().max_runs_per_guard(1).guards(braidb::Guards::None);
    /// let written = |options: braidb::Options| Ok::<_, braidb::Error>(options.forecast(&load)?.merge_amplification());
    /// assert!(written(leveled())? < written(leveled().defer_below_l0(false))?);
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn defer_below_l0(mut self, yes: bool) -> Options {
        self.defer_below_l0 = yes;
        self
    }

    /// Threads that merge, 1 to 64; one more flushes, and one tidies memory. Default: 2. Not used when [`Options::env`] brings
    /// a runtime.
    pub fn background_threads(mut self, threads: usize) -> Options {
        self.background_threads = threads;
        self
    }

    /// How many runs, sorted pieces that may overlap, a cell of the tree holds before they are merged: from 1 to 32. More
    /// mean fewer bytes written and more places to look for a key; 1 is a classic leveled tree. Default: 4.
    pub fn max_runs_per_guard(mut self, runs: usize) -> Options {
        self.max_runs_per_guard = [runs; LEVELS];
        self
    }

    /// As [`Options::max_runs_per_guard`], for one level, 1 to 6.
    ///
    /// # Panics
    ///
    /// If there is no such level.
    pub fn max_runs_per_guard_at(mut self, level: usize, runs: usize) -> Options {
        assert!((1..LEVELS).contains(&level), "levels with guards are 1 to {}, not {level}", LEVELS - 1);
        self.max_runs_per_guard[level] = runs;
        self
    }

    /// Where levels are cut into cells. Default: [`Guards::Balanced`].
    pub fn guards(mut self, guards: Guards) -> Options {
        self.guards = guards;
        self
    }

    /// How fast all merges together may write, in bytes a second, at least 1 MiB; `None` is as fast as they can. Merges then
    /// take longer and disturb less; if writes bring more than merges clear away, they are slowed down. Default: `None`.
    pub fn merge_bytes_per_second(mut self, rate: Option<u64>) -> Options {
        self.merge_bytes_per_second = rate;
        self
    }

    /// The file system, clock, randomness and threads to run on, for tests and unusual platforms. Default: the real ones.
    pub fn env(mut self, env: Env) -> Options {
        self.env = Some(env);
        self
    }

    /// Opens the database in the directory `path`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-oopen-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let refused = braidb::Options::new().create_if_missing(false).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::Missing { .. })));
    /// let refused = braidb::Options::new().memtable_bytes(1).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::InvalidOption { option: "memtable_bytes", .. })));
    /// let refused = braidb::Options::new().open_files(15).open(&dir);
    /// assert!(matches!(refused, Err(braidb::Error::InvalidOption { option: "open_files", .. })));
    /// let db = braidb::Options::new().open(&dir)?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] names an option that cannot work. [`Error::Locked`]: it is open elsewhere.
    /// [`Error::Missing`], [`Error::NotADatabase`], [`Error::Unsupported`], [`Error::Corruption`] and [`Error::Io`] name the file.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        super::open::open(path.as_ref(), self)
    }

    /// Reads every byte of the database in `path` without opening it, which works on a damaged one too.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-overify-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// db.close()?;
    /// assert!(braidb::Options::new().verify(&dir)?.damages.is_empty());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], [`Error::NotADatabase`], [`Error::Locked`], or [`Error::Io`]; damage is not an error but in the report.
    pub fn verify(self, path: impl AsRef<Path>) -> Result<VerifyReport> {
        self.check()?;
        verify::offline(path.as_ref(), &self)
    }

    pub(crate) fn env_or_real(&self) -> Env {
        self.env.clone().unwrap_or_else(|| braidb_storage::real::env(self.background_threads))
    }

    /// How tables for `level` are written.
    pub(crate) fn table_options(&self, level: usize) -> TableOptions {
        let tree = self.tree_options();
        TableOptions {
            block_bytes: self.block_bytes,
            filter_bits_per_key: self.filter_bits_per_key,
            has_sketch: tree.wants_sketch(level),
            has_sample: tree.wants_sample(level),
        }
    }

    pub(crate) fn log_bytes_or_default(&self) -> u64 {
        self.log_bytes.unwrap_or((4 * self.memtable_bytes as u64).max(64 << 20))
    }

    pub(crate) fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits::new(MemoryOptions {
            memtable_bytes: self.memtable_bytes as u64,
            active_bytes: self.active_bytes(),
            pipeline_segments: self.pipeline_segments,
            log_bytes: self.log_bytes_or_default(),
            log_rewrite_percent: self.log_rewrite_percent,
            hot_ppm: 10_000 * self.hot_keys_percent,
            has_superseded: matches!(self.memory_policy, MemoryPolicy::None | MemoryPolicy::Basic),
        })
    }

    pub(crate) fn form_options(&self) -> FormOptions {
        FormOptions {
            live_percent: self.log_table_percent,
            pinned_bytes: self.log_bytes_or_default() / 4 * 3,
        }
    }

    pub(crate) fn segment_options(&self) -> SegmentOptions {
        SegmentOptions { policy: self.memory_policy, segments: self.pipeline_segments }
    }

    /// The size at which an active segment is full.
    pub(crate) fn active_bytes(&self) -> u64 {
        match self.memory_policy {
            MemoryPolicy::None => u64::MAX,
            _ => (self.memtable_bytes as u64 * u64::from(self.active_percent) / 100).max(LEAST_ACTIVE_BYTES),
        }
    }

    pub(crate) fn tree_options(&self) -> TreeOptions {
        let overlap = OverlapOptions {
            percent: self.l0_overlap_percent,
            tables: self.l0_overlap_tables,
            scope: self.overlap_scope,
        };
        let tree = TreeOptions {
            l0_merge_tables: self.l0_merge_tables,
            l0_slowdown_tables: self.l0_slowdown_tables,
            l0_stop_tables: self.l0_stop_tables,
            overlap,
            defers_below_l0: self.defer_below_l0,
            base_bytes: BASE_TABLES as u64 * self.memtable_bytes as u64,
            growth: 10,
            table_bytes: self.table_bytes,
            max_runs: self.max_runs_per_guard,
            guards: self.guards,
            cold_ops: (self.memtable_bytes / COLD_BYTES) as u64,
        };
        if !tree.is_patient() {
            return tree;
        }
        // L1 holds as much as a merge of L0 brings that waited for overlap, whether such merges wait or not: a smaller L1 would have to be
        // merged down with each of them. A larger `l0_merge_tables` does not make L1 larger.
        let most_tables = self.l0_slowdown_tables.max(BASE_TABLES);
        let l0_tables = (overlap.tables + 1).clamp(BASE_TABLES, most_tables);
        TreeOptions { base_bytes: l0_tables as u64 * self.memtable_bytes as u64, ..tree }
    }

    /// Whether [`open`](Options::open) would take these options; touches nothing.
    ///
    /// ```
    /// let options = braidb::Options::new().background_threads(0);
    /// assert!(matches!(options.check(), Err(braidb::Error::InvalidOption { option: "background_threads", .. })));
    /// assert!(options.background_threads(1).check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] names an option that cannot work.
    pub fn check(&self) -> Result<()> {
        fn range(option: &'static str, value: u64, low: u64, high: u64) -> Result<()> {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::InvalidOption { option, why: format!("{value} is not between {low} and {high}") })
        }
        range("memtable_bytes", self.memtable_bytes as u64, 4 << 10, 2 << 30)?;
        range("active_percent", u64::from(self.active_percent), 1, 100)?;
        range("pipeline_segments", self.pipeline_segments as u64, 1, 16)?;
        if let MemoryPolicy::Adaptive { redundancy_percent } = self.memory_policy {
            range("memory_policy", u64::from(redundancy_percent), 1, 99)?;
        }
        range("block_bytes", self.block_bytes as u64, 64, 1 << 20)?;
        range("filter_bits_per_key", u64::from(self.filter_bits_per_key), 0, 32)?;
        range("open_files", self.open_files as u64, 16, 1_000_000)?;
        range("table_bytes", self.table_bytes, 4 << 10, 2 << 30)?;
        range("log_bytes", self.log_bytes_or_default(), 4 << 10, 1 << 50)?;
        range("hot_keys_percent", u64::from(self.hot_keys_percent), 0, 50)?;
        range("log_rewrite_percent", u64::from(self.log_rewrite_percent), 0, 90)?;
        range("log_table_percent", u64::from(self.log_table_percent), 0, 100)?;
        range("manifest_bytes", self.manifest_bytes, 1 << 10, 1 << 40)?;
        range("background_threads", self.background_threads as u64, 1, 64)?;
        for runs in self.max_runs_per_guard {
            range("max_runs_per_guard", runs as u64, 1, 32)?;
        }
        if let Guards::Sampled { top_level_bits, bit_decrement } = self.guards {
            range("guards", u64::from(top_level_bits), 1, 60)?;
            range("guards", u64::from(bit_decrement), 1, 60)?;
        }
        if let Some(rate) = self.merge_bytes_per_second {
            range("merge_bytes_per_second", rate, 1 << 20, 1 << 40)?;
        }
        range("l0_merge_tables", self.l0_merge_tables as u64, 1, 1000)?;
        range("l0_slowdown_tables", self.l0_slowdown_tables as u64, 1, 1000)?;
        range("l0_stop_tables", self.l0_stop_tables as u64, 1, 2000)?;
        range("l0_overlap_percent", u64::from(self.l0_overlap_percent), 0, 90)?;
        range("l0_overlap_tables", self.l0_overlap_tables as u64, 1, 1000)?;
        let (merge, slowdown, stop) = (self.l0_merge_tables, self.l0_slowdown_tables, self.l0_stop_tables);
        if slowdown < merge {
            let why = format!("{slowdown} is less than `l0_merge_tables`, {merge}; raise it too");
            return Err(Error::InvalidOption { option: "l0_slowdown_tables", why });
        }
        if stop <= slowdown {
            let why = format!("{stop} is not more than `l0_slowdown_tables`, {slowdown}; raise it too");
            return Err(Error::InvalidOption { option: "l0_stop_tables", why });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In memtables of 1 MiB.
    fn l1(options: Options) -> u64 {
        options.memtable_bytes(1 << 20).tree_options().base_bytes >> 20
    }

    #[test]
    fn l1_is_larger_where_merges_below_l0_are_deferred_whatever_overlap_is() {
        for percent in [0, 40] {
            let leveled = || {
                let leveled = Options::new().max_runs_per_guard(1).guards(Guards::None);
                leveled.l0_overlap_percent(percent).defer_below_l0(true)
            };
            assert_eq!(l1(leveled()), 7, "one more than the tables that L0 waits with");
            assert_eq!(l1(leveled().l0_overlap_tables(1000)), 8, "the soft limit");
            assert_eq!(l1(leveled().l0_overlap_tables(1)), 4);
            assert_eq!(l1(leveled().l0_slowdown_tables(3)), 4);
            assert_eq!(l1(leveled().defer_below_l0(false)), 4);
            assert_eq!(l1(leveled().max_runs_per_guard(2)), 4);
            assert_eq!(l1(leveled().guards(Guards::Balanced)), 4);
        }
    }
}
