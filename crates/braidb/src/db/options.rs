//! Options: one default set for every workload. Each value is checked when a database is opened.

use super::tuning::Tuning;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result, check_range};
use crate::base::tier_dirs::MAX_SLOW_TIERS;
pub use crate::plan::Guards;
use crate::plan::TreeOptions;
use crate::plan::form::FormOptions;
use crate::plan::memory::limits::{MemoryLimits, MemoryOptions};
pub use crate::plan::memory::segments::MemoryPolicy;
use crate::plan::memory::segments::SegmentOptions;
pub use crate::plan::values::ValueLayout;
use crate::plan::values::ValueOptions;
use crate::table::TableOptions;
use braidb_storage::Env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Value files that a flush writes for values of a table's size: 8. Each covers a part of the keys, so merges of a few cells can empty a
/// file, and it can be deleted. More files would take more syncs, of about a millisecond each.
const VALUE_FILES_OF_TABLE: u64 = 8;
/// Least bytes at which a value file is full: 1 MiB, or a table's size if that is smaller. Each file takes up to a block of 4 KiB more than
/// its bytes, so small files waste space.
const LEAST_VALUE_FILE_BYTES: u64 = 1 << 20;

/// Tombstones and nearly dead tables are cleaned up after `memtable_bytes / COLD_BYTES` operations. Writes of 4 bytes fill the memtable
/// once in this time, and larger writes fill it several times.
const COLD_BYTES: usize = 4;

/// The least target size of L1, in full memtables.
const BASE_TABLES: usize = 4;

/// The fewest bytes at which an active segment is full.
const LEAST_ACTIVE_BYTES: u64 = 512;

/// The block cache takes one byte in 8 of the memory that the process may use, unless the program says how much. The rest is for the program,
/// memtables, and the page cache.
const CACHE_SHARE: u64 = 8;
/// The memtable takes at most one byte in 8 of a memory limit. It may double while a flush runs, so three quarters are left for reads.
const MEMTABLE_SHARE: usize = 8;
/// Memory of a background thread for what it reads ahead and for the index and filter of the table that it writes: 4 MiB.
const THREAD_BYTES: usize = 4 << 20;
/// The least memory that a limit must leave for tables and blocks: 8 MiB. The index and filter of a table of 64 MiB take 1.5 MiB.
const LEAST_SHARED_BYTES: usize = 8 << 20;

/// Least bytes of the block cache by default: 64 MiB, as much as the memtable takes.
const LEAST_CACHE_BYTES: u64 = 64 << 20;
/// Most bytes of the block cache by default: 1 GiB. It holds all blocks of 6 million rows of 144 bytes. A program that has more memory for it
/// says so.
const MOST_CACHE_BYTES: u64 = 1 << 30;

/// How to open a database. Every setter takes and returns the options, so calls chain.
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
    pub(crate) create_new: bool,
    pub(crate) wait_for_lock: Duration,
    pub(crate) durability: Durability,
    /// As the program set it. A `memory_limit` may allow less.
    memtable_bytes: usize,
    memory_limit: Option<usize>,
    /// `None` for a share of the memory that the process may use.
    block_cache_bytes: Option<usize>,
    pub(crate) filter_bits_per_key: u32,
    pub(crate) open_files: usize,
    pub(crate) background_threads: usize,
    pub(crate) merge_bytes_per_second: Option<u64>,
    pub(crate) background_merges: bool,
    pub(crate) open_damaged: bool,
    pub(crate) slow_paths: Vec<PathBuf>,
    pub(crate) fast_share: u32,
    pub(crate) fast_bytes: Option<u64>,
    pub(crate) env: Option<Env>,
    pub(crate) tuning: Tuning,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            create_new: false,
            wait_for_lock: Duration::ZERO,
            durability: Durability::Buffer,
            memtable_bytes: 64 << 20,
            memory_limit: None,
            block_cache_bytes: None,
            filter_bits_per_key: 10,
            open_files: 4096,
            background_threads: 2,
            merge_bytes_per_second: None,
            background_merges: true,
            open_damaged: false,
            slow_paths: Vec::new(),
            fast_share: 50,
            fast_bytes: None,
            env: None,
            tuning: Tuning::default(),
        }
    }
}

impl Options {
    /// The default options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Whether a missing database is created. Default: true.
    pub fn create_if_missing(mut self, yes: bool) -> Options {
        self.create_if_missing = yes;
        self
    }

    /// Whether the database must be a new one: an open then refuses one that exists ([`Error::Exists`]), and creates a missing one, whatever
    /// [`create_if_missing`](Options::create_if_missing) says. Default: false.
    pub fn create_new(mut self, yes: bool) -> Options {
        self.create_new = yes;
        self
    }

    /// How long an open waits while the database is open elsewhere, before it fails with [`Error::Locked`]. A service that is started again waits
    /// so for the process before it. An open looks every 10 ms. Default: not at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-waitforlock-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let before = braidb::Db::open(&dir)?;
    /// let closing = std::thread::spawn(move || before.close());
    /// let db = braidb::Options::new().wait_for_lock(Duration::from_secs(30)).open(&dir)?;
    /// # closing.join().unwrap()?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn wait_for_lock(mut self, time: Duration) -> Options {
        self.wait_for_lock = time;
        self
    }

    /// The durability that `put`, `delete` and `write` promise. Default: [`Durability::Buffer`].
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Memory for writes that are not in tables yet, over all column families, in bytes. It may double while a flush or a memory
    /// compaction is under way. From 4 KiB to 2 GiB. Default: 64 MiB.
    pub fn memtable_bytes(mut self, bytes: usize) -> Options {
        self.memtable_bytes = bytes;
        self
    }

    /// Memory that the parts of the database share, in bytes; `None` bounds each part alone. The memtable gets an eighth of it, or
    /// [`memtable_bytes`](Options::memtable_bytes) if that is less, and as much again while a flush is under way. 4 MiB are set aside for
    /// each background thread. Tables take what they need of the rest: 1.5 KiB each, and index, filter, sample and slots while they are open.
    /// So do logs that merges load, at most half of the rest. The block cache has what they leave, at most [`block_cache_bytes`](Options::block_cache_bytes) if that is set. So the cache shrinks while the database grows.
    ///
    /// Indexes and filters take about 3 bytes an entry. If they need more than the limit leaves, a sixteenth of the rest stays for blocks, and
    /// the limit is exceeded: [`Stats::table_memory_bytes`](crate::stats::Stats::table_memory_bytes) tells. These come on top of the limit:
    /// 2 KiB for each column family, merges of entries far below 100 bytes, and values, snapshots, iterators and batches that the program holds. From 32 MiB with the default number
    /// of threads. Default: `None`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-memorylimit-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = braidb::Options::new().memory_limit(Some(128 << 20)).open(&dir)?;
    /// assert!(db.stats().cache_limit_bytes < 128 << 20);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn memory_limit(mut self, bytes: Option<usize>) -> Options {
        self.memory_limit = bytes;
        self
    }

    /// Memory for blocks of tables, and for values that lie in logs or, up to 64 KiB each, in value files, in bytes; 0 keeps none. While
    /// there is room, they are kept when they are read, and later when they are read a second time. The places of all blocks of tables that were
    /// read take 8 bytes a block on top. Default: an eighth of the memory that the process may use when the database is opened, from 64 MiB to
    /// 1 GiB. Reads fill the cache; before, it takes 2 MiB a GiB. Set it in a process that opens many databases: each has a cache of its own.
    pub fn block_cache_bytes(mut self, bytes: usize) -> Options {
        self.block_cache_bytes = Some(bytes);
        self
    }

    /// Bits of Bloom filter for each key: 0 (no filters) to 32. Default: 10, which lets about 1% of absent keys pass.
    pub fn filter_bits_per_key(mut self, bits: u32) -> Options {
        self.filter_bits_per_key = bits;
        self
    }

    /// The most files of tables, and of logs and value files that tables point into, that are held open: 16 to 1,000,000. Fewer are held if
    /// the process may have few descriptors (`RLIMIT_NOFILE`, `ulimit -n`): all its databases together take half of what was free when the
    /// last one opened. The other half is for logs, the manifest, and files that are written. A read without a descriptor closes the coldest
    /// file, or waits for another read. It fails with [`Error::Io`] if the program leaves this database no descriptor for about a second.
    /// Default: 4,096.
    pub fn open_files(mut self, files: usize) -> Options {
        self.open_files = files;
        self
    }

    /// Threads that merge, 1 to 64. One more thread flushes, and one more compacts memory. Default: 2. Not used when [`Options::env`]
    /// brings a runtime.
    pub fn background_threads(mut self, threads: usize) -> Options {
        self.background_threads = threads;
        self
    }

    /// How fast all merges together may write, in bytes a second, at least 1 MiB; `None` is no limit. With a limit, merges take longer
    /// and disturb less. If writes bring more than merges clear away, writes are slowed down. Default: `None`.
    pub fn merge_bytes_per_second(mut self, rate: Option<u64>) -> Options {
        self.merge_bytes_per_second = rate;
        self
    }

    /// Whether merges start by themselves, and cells move between tiers. `false` is for a program that opens a database only to look at it.
    /// Then only [`Db::compact`](crate::Db::compact), [`Db::settle`](crate::Db::settle) and [`Db::evacuate`](crate::Db::evacuate) start
    /// merges, and L0 is merged once a full L0 has slowed a writer down. Default: true.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-omerges-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # braidb::Db::open(&dir)?.put("k", "v")?;
    /// let db = braidb::Options::new().background_merges(false).create_if_missing(false).open(&dir)?;
    /// assert_eq!(db.get("k")?.unwrap(), b"v");
    /// assert_eq!(db.stats().counts.merges, 0);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn background_merges(mut self, yes: bool) -> Options {
        self.background_merges = yes;
        self
    }

    /// Whether [`Options::open_read_only`] opens a database with damaged, cut or missing tables and value files. Reads that need such a file
    /// fail with an error that names it, and all others go on; [`Db::salvage`](crate::Db::salvage) walks round the damage. A damaged
    /// manifest, or a damaged log that is still replayed, refuses the open even so: which keys it had is unknown. [`Options::open`] refuses
    /// this option. Default: false.
    pub fn open_damaged(mut self, yes: bool) -> Options {
        self.open_damaged = yes;
        self
    }

    /// Adds a slow tier: a directory on a slower device, which takes what readers seldom want. The directory of the database is the fast
    /// tier. Call it once for each tier, at most 15 times. Default: none; then files are as in versions without tiers.
    ///
    /// A tier joins when the database is opened: its directory is made if there is none, and must be empty otherwise. The database
    /// remembers its path as it was given, so later opens need no `slow_path`. Give it again if the tier was moved, if the database is
    /// opened by another path, or if only one of the two paths is absolute. Once a database has had a slow tier, versions without tiers
    /// refuse it.
    ///
    /// Among several slow tiers, those that are named here take cells before those that the database only remembers. In each of these
    /// groups, the tier with most room comes first.
    ///
    /// ```
    /// # let root = std::env::temp_dir().join(format!("braidb-doc-tiers-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&root);
    /// # let (fast, slow) = (root.join("fast"), root.join("slow"));
    /// let db = braidb::Options::new().slow_path(&slow).fast_share(30).open(&fast)?;
    /// # drop(db);
    /// let db = braidb::Options::new().open(&fast)?; // the database knows its tier
    /// # drop(db); std::fs::rename(&slow, root.join("moved")).unwrap();
    /// let gone = braidb::Options::new().open(&fast);
    /// assert!(matches!(gone, Err(braidb::Error::Tier { path, .. }) if path == slow));
    /// # std::fs::remove_dir_all(&root).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn slow_path(mut self, dir: impl Into<PathBuf>) -> Options {
        self.slow_paths.push(dir.into());
        self
    }

    /// How much of all data may stay on the fast tier, in percent, 0 to 100. Whole cells of the tree, of about 64 MiB, move to a slow tier,
    /// so less may stay. More stays while data is in level 0; [`Db::compact`](crate::Db::compact) brings it down. More stays also where a
    /// cell has small values beside large ones, and if no slow tier has room. Only cells that are read much return to the fast tier: a
    /// larger share alone moves nothing back. Has no effect without a slow tier, or with [`Options::fast_bytes`]. Default: 50.
    pub fn fast_share(mut self, percent: u32) -> Options {
        self.fast_share = percent;
        self
    }

    /// How many bytes of data may stay on the fast tier, up to 2^60, instead of a share of all data; `None` leaves it to
    /// [`Options::fast_share`]. Has no effect without a slow tier. Default: `None`.
    pub fn fast_bytes(mut self, bytes: Option<u64>) -> Options {
        self.fast_bytes = bytes;
        self
    }

    /// The file system, clock, randomness and threads to run on, for tests and unusual platforms. Default: the real ones.
    pub fn env(mut self, env: Env) -> Options {
        self.env = Some(env);
        self
    }

    /// Changes the options that experiments change, which [`Tuning`] lists. A program needs none of them.
    ///
    /// ```
    /// let options = braidb::Options::new().tuning(|tuning| tuning.block_bytes(8 << 10).max_runs_per_guard(1));
    /// assert!(options.check().is_ok());
    /// ```
    pub fn tuning(mut self, change: impl FnOnce(Tuning) -> Tuning) -> Options {
        self.tuning = change(self.tuning);
        self
    }

    /// The machine of the options, or the real one with new threads, for the database in `dir`.
    pub(crate) fn env_or_real(&self, dir: &Path) -> Result<Env> {
        if let Some(env) = &self.env {
            return Ok(env.clone());
        }
        let real = braidb_storage::real::env(self.background_threads);
        real.map_err(|error| Error::io("start background threads for", dir, error))
    }

    /// Bytes at which memory counts as full: as the program set it, or what a memory limit allows.
    pub(crate) fn full_memory_bytes(&self) -> usize {
        self.memory_limit.map_or(self.memtable_bytes, |limit| self.memtable_bytes.min(limit / MEMTABLE_SHARE))
    }

    /// Bytes that all background threads together may need. One thread more flushes, and one more compacts memory.
    fn work_bytes(&self) -> usize {
        (self.background_threads + 2) * THREAD_BYTES
    }

    /// Bytes of a memory limit that tables and blocks share; `None` without a limit.
    pub(crate) fn shared_bytes(&self) -> Option<usize> {
        let taken_bytes = 2 * self.full_memory_bytes() + self.work_bytes();
        self.memory_limit.map(|limit| limit.saturating_sub(taken_bytes))
    }

    /// Refuses a limit that leaves tables and blocks less than [`LEAST_SHARED_BYTES`].
    fn check_memory_limit(&self) -> Result<()> {
        let (Some(limit), Some(shared)) = (self.memory_limit, self.shared_bytes()) else { return Ok(()) };
        check_range("memory_limit", limit as u64, 1 << 20, 1 << 46)?;
        if shared >= LEAST_SHARED_BYTES {
            return Ok(());
        }
        // Two memtables take at most `2 / MEMTABLE_SHARE` of the limit, so this limit leaves enough whatever `memtable_bytes` is.
        let needed = self.work_bytes() + LEAST_SHARED_BYTES;
        let enough = needed.div_ceil(MEMTABLE_SHARE - 2) * MEMTABLE_SHARE;
        let (memtable, threads) = (self.full_memory_bytes(), self.background_threads + 2);
        let why = format!(
            "{limit} bytes do not hold two memtables of {memtable} bytes, {THREAD_BYTES} bytes for each of {threads} background threads, \
             and {LEAST_SHARED_BYTES} bytes for tables and blocks; set at least {enough}, or fewer background_threads"
        );
        Err(Error::InvalidOption { option: "memory_limit", why })
    }

    /// Bytes of the block cache, in a process that may use `memory_bytes` bytes.
    pub(crate) fn cache_bytes(&self, memory_bytes: impl FnOnce() -> Option<u64>) -> usize {
        if let Some(shared) = self.shared_bytes() {
            return self.block_cache_bytes.map_or(shared, |bytes| bytes.min(shared));
        }
        self.block_cache_bytes.unwrap_or_else(|| {
            let share = memory_bytes().map_or(LEAST_CACHE_BYTES, |bytes| bytes / CACHE_SHARE);
            share.clamp(LEAST_CACHE_BYTES, MOST_CACHE_BYTES) as usize
        })
    }

    /// The format options of tables for `level`.
    pub(crate) fn table_options(&self, level: usize) -> TableOptions {
        let tree = self.tree_options();
        TableOptions {
            block_bytes: self.tuning.block_bytes,
            filter_bits_per_key: self.filter_bits_per_key,
            has_sample: tree.wants_sample(level),
        }
    }

    pub(crate) fn log_bytes_or_default(&self) -> u64 {
        self.tuning.log_bytes.unwrap_or((4 * self.full_memory_bytes() as u64).max(64 << 20))
    }

    pub(crate) fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits::new(MemoryOptions {
            memtable_bytes: self.full_memory_bytes() as u64,
            active_bytes: self.active_bytes(),
            pipeline_segments: self.tuning.pipeline_segments,
            log_bytes: self.log_bytes_or_default(),
            log_rewrite_percent: self.tuning.log_rewrite_percent,
            hot_ppm: 10_000 * self.tuning.hot_keys_percent,
            has_superseded: matches!(self.tuning.memory_policy, MemoryPolicy::None | MemoryPolicy::Basic),
        })
    }

    pub(crate) fn form_options(&self) -> FormOptions {
        let form = FormOptions::new(
            self.tuning.log_table_percent,
            self.full_memory_bytes() as u64,
            self.log_bytes_or_default(),
        );
        // Each background thread may merge, and all together load half of what tables and blocks share.
        let loaded_bytes = |shared: usize| shared / 2 / self.background_threads;
        form.loading_at_most(self.shared_bytes().map_or(u64::MAX, |shared| loaded_bytes(shared) as u64))
    }

    pub(crate) fn value_options(&self) -> ValueOptions {
        let (table_bytes, layout) = (self.tuning.table_bytes, self.tuning.value_layout);
        let file_bytes = match layout {
            ValueLayout::Ordered => {
                (table_bytes / VALUE_FILES_OF_TABLE).max(LEAST_VALUE_FILE_BYTES.min(table_bytes))
            }
            ValueLayout::Trie { .. } => table_bytes,
        };
        ValueOptions { threshold: self.tuning.separation_threshold, file_bytes, layout }
    }

    pub(crate) fn segment_options(&self) -> SegmentOptions {
        SegmentOptions { policy: self.tuning.memory_policy, segments: self.tuning.pipeline_segments }
    }

    /// The bytes at which an active segment is full.
    pub(crate) fn active_bytes(&self) -> u64 {
        match self.tuning.memory_policy {
            MemoryPolicy::None => u64::MAX,
            _ => (self.full_memory_bytes() as u64 * u64::from(self.tuning.active_percent) / 100)
                .max(LEAST_ACTIVE_BYTES),
        }
    }

    pub(crate) fn tree_options(&self) -> TreeOptions {
        TreeOptions {
            l0_slowdown_tables: self.tuning.l0_slowdown_tables,
            l0_stop_tables: self.tuning.l0_stop_tables,
            base_bytes: BASE_TABLES as u64 * self.full_memory_bytes() as u64,
            growth: 10,
            table_bytes: self.tuning.table_bytes,
            max_runs: self.tuning.max_runs_per_guard,
            guards: self.tuning.guards,
            asks_overlap: self.tuning.overlap_samples,
            buys_merges: self.tuning.merges_for_readers,
            cold_ops: (self.full_memory_bytes() / COLD_BYTES) as u64,
        }
    }

    /// Whether [`open`](Options::open) would accept these options. Touches no file.
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
        check_range("memtable_bytes", self.memtable_bytes as u64, 4 << 10, 2 << 30)?;
        check_range("filter_bits_per_key", u64::from(self.filter_bits_per_key), 0, 32)?;
        check_range("open_files", self.open_files as u64, 16, 1_000_000)?;
        check_range("background_threads", self.background_threads as u64, 1, 64)?;
        self.check_memory_limit()?;
        if let Some(rate) = self.merge_bytes_per_second {
            check_range("merge_bytes_per_second", rate, 1 << 20, 1 << 40)?;
        }
        check_range("fast_share", self.fast_share.into(), 0, 100)?;
        if let Some(bytes) = self.fast_bytes {
            check_range("fast_bytes", bytes, 0, 1 << 60)?;
        }
        let paths = &self.slow_paths;
        if paths.len() > MAX_SLOW_TIERS {
            let why = format!("{} directories are given; the limit is {MAX_SLOW_TIERS}", paths.len());
            return Err(Error::InvalidOption { option: "slow_path", why });
        }
        if let Some(twice) = paths.iter().enumerate().find(|(index, path)| paths[..*index].contains(path)) {
            let why = format!("{} is given twice", twice.1.display());
            return Err(Error::InvalidOption { option: "slow_path", why });
        }
        self.tuning.check()
    }
}
