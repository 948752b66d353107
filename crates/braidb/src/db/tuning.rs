//! Tuning: the options that experiments, judges and comparisons change.

use crate::base::MAX_VALUE_BYTES;
use crate::base::counters::LEVELS;
use crate::base::error::{Error, Result, check_range};
use crate::plan::Guards;
use crate::plan::memory::segments::MemoryPolicy;
use crate::plan::values::ValueLayout;

/// Options that experiments change, by [`Options::tuning`](crate::Options::tuning). The defaults are meant for every load. A program
/// needs none of these options.
///
/// ```
/// use braidb::Options;
/// // A leveled tree.
/// let leveled = Options::new().tuning(|tuning| tuning.max_runs_per_guard(1));
/// assert!(leveled.check().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Tuning {
    pub(crate) memory_policy: MemoryPolicy,
    pub(crate) active_percent: u32,
    pub(crate) pipeline_segments: usize,
    pub(crate) block_bytes: usize,
    pub(crate) table_bytes: u64,
    pub(crate) log_bytes: Option<u64>,
    pub(crate) log_rewrite_percent: u32,
    pub(crate) hot_keys_percent: u32,
    pub(crate) log_table_percent: u32,
    pub(crate) separation_threshold: Option<u64>,
    pub(crate) value_layout: ValueLayout,
    pub(crate) manifest_bytes: u64,
    pub(crate) l0_slowdown_tables: usize,
    pub(crate) l0_stop_tables: usize,
    pub(crate) overlap_samples: bool,
    pub(crate) merges_for_readers: bool,
    /// Indexed by level.
    pub(crate) max_runs_per_guard: [usize; LEVELS],
    pub(crate) guards: Guards,
    pub(crate) gap_entries: Option<u64>,
    pub(crate) gap_puts: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            memory_policy: MemoryPolicy::Adaptive { redundancy_percent: 20 },
            active_percent: 4,
            pipeline_segments: 4,
            block_bytes: 4 << 10,
            table_bytes: 64 << 20,
            log_bytes: None,
            log_rewrite_percent: 25,
            hot_keys_percent: 1,
            log_table_percent: 50,
            separation_threshold: Some(1 << 10),
            value_layout: ValueLayout::Ordered,
            manifest_bytes: 4 << 20,
            l0_slowdown_tables: 8,
            l0_stop_tables: 20,
            overlap_samples: true,
            merges_for_readers: true,
            max_runs_per_guard: [8; LEVELS],
            guards: Guards::Balanced,
            gap_entries: Some(64),
            gap_puts: 1 << 10,
        }
    }
}

impl Tuning {
    /// How memory is compacted before it is flushed. Default: [`MemoryPolicy::Adaptive`] with 20% of redundancy.
    pub fn memory_policy(mut self, policy: MemoryPolicy) -> Tuning {
        self.memory_policy = policy;
        self
    }

    /// Size of the active segment of each column family, in percent of `memtable_bytes`: 1 to 100. A full segment is flattened. A
    /// smaller one stays nearer to the processor's cache; a larger one is flattened less often. Not used with [`MemoryPolicy::None`].
    /// Default: 4.
    pub fn active_percent(mut self, percent: u32) -> Tuning {
        self.active_percent = percent;
        self
    }

    /// Flat segments of memory that a column family keeps side by side: 1 to 16. Each is one more place that a lookup searches. Not
    /// used with [`MemoryPolicy::None`]; with [`MemoryPolicy::Eager`] only while there is no memory to copy. Default: 4.
    pub fn pipeline_segments(mut self, segments: usize) -> Tuning {
        self.pipeline_segments = segments;
        self
    }

    /// Bytes at which a data block of a table is cut: from 64 to 1 MiB. Default: 4 KiB.
    pub fn block_bytes(mut self, bytes: usize) -> Tuning {
        self.block_bytes = bytes;
        self
    }

    /// Bytes at which a merge starts its next table: from 4 KiB to 2 GiB. Default: 64 MiB.
    pub fn table_bytes(mut self, bytes: u64) -> Tuning {
        self.table_bytes = bytes;
        self
    }

    /// Bytes of logs beyond which memory is flushed so that the oldest logs can be deleted; at least 4 KiB. A column family with less than
    /// 64 KiB in memory, and less than a 16th of `memtable_bytes`, is written back to the newest log instead of a flush, unless
    /// [`Tuning::log_rewrite_percent`] is 0. Default: the larger of four times `memtable_bytes` and 64 MiB.
    pub fn log_bytes(mut self, bytes: u64) -> Tuning {
        self.log_bytes = Some(bytes);
        self
    }

    /// Live bytes of the oldest logs, in percent, up to which a log collection may replace a flush: 0 to 90. Newer writes superseded
    /// the other bytes. The log collection starts when logs have three quarters of [`Tuning::log_bytes`] and memory is at most half
    /// full. It also starts when logs outgrow memory: when they have more than 3/2 of the bytes of memory and a 16th of
    /// [`Tuning::log_bytes`] together. Then at most 10 percent may be alive, or fewer if this option is smaller. It writes the live records
    /// to the newest log again and deletes the old logs. 0 leaves logs to flushes. Default: 25.
    pub fn log_rewrite_percent(mut self, percent: u32) -> Tuning {
        self.log_rewrite_percent = percent;
        self
    }

    /// Keys that may stay in memory at a flush, in percent: the keys written most often since the last flush. 0 to 50; 0 flushes all of
    /// memory whenever it is full. Default: 1.
    ///
    /// Hot keys are written back to the log, so no write is lost. The hot-key tuner compares this share with no hot keys, and keeps what
    /// writes fewer bytes. [`HotKeyStats`](crate::stats::HotKeyStats) has the current share. Each open starts again with this option. No
    /// key stays where the share is so small that a flush would hardly notice, or where keys are written no more often than by chance. With
    /// the memory policies `None` and `Basic`, memory that is full of superseded versions is compacted and not flushed.
    pub fn hot_keys_percent(mut self, percent: u32) -> Tuning {
        self.hot_keys_percent = percent;
        self
    }

    /// Percentage of a log's bytes from which on a flush leaves values in the log, if they are not small. It counts values that the
    /// flush would write to a table: those below [`Tuning::separation_threshold`]. 0 to 100; 0 always writes values to tables. Default: 50.
    ///
    /// The flush then writes only keys and the places of their values. The log stays until merges have written the values elsewhere. Logs
    /// that stay this way have at most three quarters of [`Tuning::log_bytes`]. The places of values take 16 bytes of memory for each write
    /// since the last flush, unless values are small. Merges load logs whole, up to 64 MiB at once, or less with a
    /// [`memory_limit`](crate::Options::memory_limit). Where the logs of a flush have more
    /// than 16 MiB, they may be too large for this: no value stays in a log, and no places are kept. So this option does nothing where
    /// `memtable_bytes` and [`Tuning::log_bytes`] have 32 MiB or more, as by default. Values of a family that is scanned much are always
    /// written to tables, since a scan would read each value by itself.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-olog-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let options = braidb::Options::new().memtable_bytes(4 << 20);
    /// let db = options.tuning(|tuning| tuning.log_table_percent(50)).open(&dir)?;
    /// db.put("key", [7; 1000])?;
    /// db.flush()?;
    /// assert_eq!(db.stats().counts.log_tables, 1);
    /// assert!(db.stats().counts.flush_bytes < 1000);
    /// assert_eq!(db.get("key")?.unwrap(), [7; 1000]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn log_table_percent(mut self, percent: u32) -> Tuning {
        self.log_table_percent = percent;
        self
    }

    /// Bytes of a value from which on it lies in a value file, apart from its key: 0 to 1 GiB; `None` keeps all values in tables.
    /// Default: 1,024. Smaller values in files of their own would halve the speed of scans (`docs/decisions/value-files.md`).
    ///
    /// A flush writes the value to a value file, and so does a merge that meets it elsewhere. Later merges leave it there and write only
    /// its key. So a large value is mostly written twice: to the log, and to a value file. It is written once more where a range would lie
    /// in many small places, and where its file has become mostly garbage. A get goes to one more file. Scans read values where jobs wrote
    /// them: only the values of one job are in key order. A merge gathers values where scans have lost much time because of this. Merges
    /// collect value files beyond 40% of garbage, counted on the live bytes. Beyond 41.5%, and two full files, writes slow down, until
    /// merges have collected some. Overwritten values that no merge has met count as garbage by estimate, at most as many bytes as there is
    /// garbage for certain. In all measurements of overwriting, garbage then stayed below half of the live bytes plus two flushes; a
    /// damaged file, a full device or `compact` can keep more. The threshold may change from open to open: merges move each value to where
    /// it now belongs, as long as the device has room for it. A value that no merge meets stays where it is, also in `compact`. A database
    /// with value files is refused by builds that do not know them, and a larger threshold does not make it readable to these.
    ///
    /// Scans read values ahead. Until its user takes them, each end of an iterator holds up to 8 MiB of them, or one larger value. The gaps
    /// between the values take up to an eighth more.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-ovalues-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let options = braidb::Options::new().tuning(|tuning| tuning.separation_threshold(Some(1024)));
    /// let db = options.open(&dir)?;
    /// db.put("key", [7; 5000])?;
    /// db.flush()?;
    /// let counts = db.stats().counts;
    /// assert!(counts.value_file_bytes > 5000 && counts.flush_bytes < 1000);
    /// assert_eq!(db.get("key")?.unwrap(), [7; 5000]);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn separation_threshold(mut self, bytes: Option<u64>) -> Tuning {
        self.separation_threshold = bytes;
        self
    }

    /// Which value file takes a value of at least [`Tuning::separation_threshold`]. Default: [`ValueLayout::Ordered`].
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-olayout-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// use braidb::tuning::ValueLayout;
    /// let options = braidb::Options::new().tuning(|tuning| {
    ///     tuning.separation_threshold(Some(1024)).value_layout(ValueLayout::Trie { levels: 1 })
    /// });
    /// let db = options.open(&dir)?;
    /// db.put("apple", [7; 5000])?;
    /// db.put("banana", [8; 5000])?;
    /// db.flush()?;
    /// assert_eq!(db.stats().value_files, 2, "two first bytes");
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn value_layout(mut self, layout: ValueLayout) -> Tuning {
        self.value_layout = layout;
        self
    }

    /// Bytes beyond which the manifest is written anew; at least 1 KiB. Default: 4 MiB.
    pub fn manifest_bytes(mut self, bytes: u64) -> Tuning {
        self.manifest_bytes = bytes;
        self
    }

    /// Tables in L0 from which on writes are slowed down; at least 1. Default: 8. Tables of L0 are merged or moved down to L1 once there
    /// are 4, or this many if that is fewer. In a leveled tree merges may wait up to 6 tables ([`Tuning::overlap_samples`]).
    pub fn l0_slowdown_tables(mut self, tables: usize) -> Tuning {
        self.l0_slowdown_tables = tables;
        self
    }

    /// Tables in L0 at which writes wait; more than `l0_slowdown_tables`. Default: 20.
    pub fn l0_stop_tables(mut self, tables: usize) -> Tuning {
        self.l0_stop_tables = tables;
        self
    }

    /// Whether tables carry samples of their keys, which tell how much the runs of a cell overlap (the question of TRIAD-DISK, section 4.2
    /// of the paper). A cell with little overlap is not rewritten for garbage that it does not have. In a leveled tree
    /// ([`Tuning::max_runs_per_guard`] 1) L0 is merged at 4 tables only if their overlap is at least 0.4. With less it waits, up to 6
    /// tables: merges write fewer bytes, and a lookup searches in up to two more tables. Without guards it does not wait. Default: true.
    pub fn overlap_samples(mut self, yes: bool) -> Tuning {
        self.overlap_samples = yes;
        self
    }

    /// Whether a merge starts once reads of its inputs have lost as much time as the merge takes, in place of PebblesDB's seek-based
    /// compaction (section 4.2 of the paper). Without, reads stay slow where no write makes a merge due, and less is written while they
    /// go on. Default: true.
    pub fn merges_for_readers(mut self, yes: bool) -> Tuning {
        self.merges_for_readers = yes;
        self
    }

    /// Most runs (sorted, possibly overlapping) in a cell of the tree before they are merged: from 1 to 32. More runs mean fewer bytes
    /// written and more places that a lookup searches. 1 is a leveled tree; with 1 and without guards, merges take whole levels. Default:
    /// 8.
    pub fn max_runs_per_guard(mut self, runs: usize) -> Tuning {
        self.max_runs_per_guard = [runs; LEVELS];
        self
    }

    /// Where levels are cut into cells. Default: [`Guards::Balanced`].
    pub fn guards(mut self, guards: Guards) -> Tuning {
        self.guards = guards;
        self
    }

    /// Sets [`Tuning::max_runs_per_guard`] for one level, 1 to 6.
    ///
    /// # Panics
    ///
    /// If `level` is not 1 to 6.
    pub fn max_runs_per_guard_at(mut self, level: usize, runs: usize) -> Tuning {
        assert!((1..LEVELS).contains(&level), "levels with guards are 1 to {}, not {level}", LEVELS - 1);
        self.max_runs_per_guard[level] = runs;
        self
    }

    /// Deleted entries in a row from which on a scan remembers the range, so that later scans jump over it: 1 to 2^20; `None` lets each
    /// scan step over them. Such a *gap* lies in memory, and a close forgets it. Default: 64.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-ogaps-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = braidb::Options::new().tuning(|tuning| tuning.gap_entries(Some(64))).open(&dir)?;
    /// for n in 0..100u32 {
    ///     db.put(n.to_be_bytes(), "")?;
    ///     db.delete(n.to_be_bytes())?;
    /// }
    /// assert!(db.first()?.is_none());
    /// assert_eq!(db.stats().counts.gaps_accepted, 1);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn gap_entries(mut self, entries: Option<u64>) -> Tuning {
        self.gap_entries = entries;
        self
    }

    /// How many of the latest puts the commit queue remembers, for each column family with gaps: 1 to 2^20. A gap that a scan found is
    /// accepted only if all puts since the scan began are among them. Default: 1,024.
    pub fn gap_puts(mut self, puts: usize) -> Tuning {
        self.gap_puts = puts;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        check_range("active_percent", u64::from(self.active_percent), 1, 100)?;
        check_range("pipeline_segments", self.pipeline_segments as u64, 1, 16)?;
        if let MemoryPolicy::Adaptive { redundancy_percent } = self.memory_policy {
            check_range("memory_policy", u64::from(redundancy_percent), 1, 99)?;
        }
        check_range("block_bytes", self.block_bytes as u64, 64, 1 << 20)?;
        check_range("table_bytes", self.table_bytes, 4 << 10, 2 << 30)?;
        if let Some(bytes) = self.log_bytes {
            check_range("log_bytes", bytes, 4 << 10, 1 << 50)?;
        }
        check_range("hot_keys_percent", u64::from(self.hot_keys_percent), 0, 50)?;
        check_range("log_rewrite_percent", u64::from(self.log_rewrite_percent), 0, 90)?;
        check_range("log_table_percent", u64::from(self.log_table_percent), 0, 100)?;
        if let Some(bytes) = self.separation_threshold {
            check_range("separation_threshold", bytes, 0, MAX_VALUE_BYTES as u64)?;
        }
        if let ValueLayout::Trie { levels } = self.value_layout {
            check_range("value_layout", levels as u64, 0, 32)?;
        }
        check_range("manifest_bytes", self.manifest_bytes, 1 << 10, 1 << 40)?;
        for runs in self.max_runs_per_guard {
            check_range("max_runs_per_guard", runs as u64, 1, 32)?;
        }
        if let Guards::Sampled { top_level_bits, bit_decrement } = self.guards {
            check_range("guards", u64::from(top_level_bits), 1, 60)?;
            check_range("guards", u64::from(bit_decrement), 1, 60)?;
        }
        if let Some(entries) = self.gap_entries {
            check_range("gap_entries", entries, 1, 1 << 20)?;
        }
        check_range("gap_puts", self.gap_puts as u64, 1, 1 << 20)?;
        check_range("l0_slowdown_tables", self.l0_slowdown_tables as u64, 1, 1000)?;
        check_range("l0_stop_tables", self.l0_stop_tables as u64, 1, 2000)?;
        let (slowdown, stop) = (self.l0_slowdown_tables, self.l0_stop_tables);
        if stop <= slowdown {
            let why = format!("{stop} is not more than `l0_slowdown_tables`, {slowdown}; raise it too");
            return Err(Error::InvalidOption { option: "l0_stop_tables", why });
        }
        Ok(())
    }
}
