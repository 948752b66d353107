//! The engine behind the handles. It connects the parts and has little logic of its own.

use super::options::Options;
use super::stats::{
    Counts, FamilyStats, HotKeyPeriod, HotKeyStats, LayoutStats, LevelStats, LogStats, Stats, ValueFileStats,
};
use super::tree::FamilyTree;
use super::turns::Turns;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::base::key::Span;
use crate::base::report::RecoveryReport;
use crate::base::value::Value;
use crate::cache::BlockCache;
use crate::jobs::Jobs;
use crate::log::EncodedBatch;
use crate::memory::view::{FamilyView, View};
use crate::memory::{Immutable, Live, Memory};
use crate::plan::memory::tuner::Period;
use crate::read::{self, GapSink, Passed, ScanContext, UsualLengths};
use crate::table::Reason;
use crate::version::state::ValueFile;
use crate::version::table_file::TableFile;
use crate::version::{Level, Slice, Version};
use crate::visible::past_excises::AsOf;
use crate::visible::snapshots::Snapshots;
use crate::write::queue::Committed;
use crate::write::{Check, CommitQueue, Shared};
use braidb_storage::locks::Mutex;
use braidb_storage::{Clock, FileSystem};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// With fewer bytes of logs than this, 512 KiB, a writer on a full device does not flush: the flush would free less.
const WORTH_FLUSHING_BYTES: u64 = 512 << 10;

/// One open database.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(super) dir: PathBuf,
    /// The file system that reaches any path. That of the jobs reaches the directories of the database alone.
    pub(super) whole: Arc<dyn FileSystem>,
    pub(super) options: Options,
    /// A number that no other open in this process has.
    pub(super) identity: u64,
    pub(super) recovery: RecoveryReport,
    /// Its directory lock is released when the database closes.
    pub(super) shared: Shared,
    pub(super) cache: Arc<BlockCache>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) queue: Arc<CommitQueue>,
    pub(super) jobs: Arc<Jobs>,
    pub(super) scan_lengths: UsualLengths,
    /// Which call of `transact` commits before others.
    pub(super) turns: Turns,
    /// Held while the database closes.
    pub(super) closing: Mutex<()>,
}

impl Engine {
    /// Counts a new scan of the column family, and returns what the scan needs of the engine.
    pub fn begin_scan(&self, family: FamilyId) -> ScanContext {
        let (layout, usual_bytes) = (self.jobs.parts.options.values.layout, self.scan_lengths.of(family));
        let weight = read::weight(self.shared.counters.scans.next());
        let least_dead = self.options.tuning.gap_entries;
        ScanContext {
            weight,
            is_heat_counted: self.jobs.parts.tables.heat().is_on(),
            snapshots: self.shared.snapshots.clone(),
            gaps: least_dead.map(|least_dead| GapSink { queue: self.queue.clone(), family, least_dead }),
            clock: self.clock.clone(),
            layout,
            usual_bytes,
        }
    }

    pub fn check_open(&self) -> Result<()> {
        self.shared.health.check_open()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn identity(&self) -> u64 {
        self.identity
    }

    pub fn snapshots(&self) -> &Snapshots {
        &self.shared.snapshots
    }

    /// Registers a reader of this moment with the snapshots.
    pub fn register_snapshot(&self) -> AsOf {
        let excises = || self.shared.view.load().excises;
        loop {
            let before = excises();
            let seq = self.shared.snapshots.register();
            if excises() == before {
                return AsOf { seq, excises: before };
            }
            // An excise came between. The snapshot would show it, and might lack a write that came before it.
            self.shared.snapshots.release(seq);
        }
    }

    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    pub fn column_family(&self, name: &str) -> Result<FamilyId> {
        self.shared.health.check_open()?;
        self.jobs.family(name)
    }

    pub fn create_column_family(&self, name: &str) -> Result<FamilyId> {
        self.shared.health.check_open()?;
        self.jobs.create_family(name)
    }

    pub fn column_families(&self) -> Vec<String> {
        self.jobs.family_names()
    }

    pub fn commit_one(
        &self,
        family: FamilyId,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.admit(key.len() + value.map_or(0, <[u8]>::len))?;
        self.commit(|| self.queue.commit_one(family, key, value, durability))
    }

    /// Commits a batch. With a check it commits only if the check passes, and otherwise returns `Conflict`.
    pub fn commit_batch(
        &self,
        batch: &Arc<EncodedBatch>,
        check: Option<&Arc<Check>>,
        durability: Durability,
    ) -> Result<()> {
        if batch.count() == 0 {
            // Every commit raises all earlier writes to its durability, and so does an empty batch.
            return self.persist(durability);
        }
        self.admit(batch.bytes())?;
        self.commit(|| self.queue.commit_batch(batch, check, durability))
    }

    /// Commits. If the device is full, deletes files that nothing holds any more, and tries again. If it is still full, flushes, which
    /// frees logs, and tries again.
    fn commit(&self, attempt: impl Fn() -> Committed) -> Result<()> {
        let Committed { mut outcome, wants } = attempt();
        self.jobs.act_on(wants);
        if matches!(outcome, Err(Error::Full { .. })) && self.jobs.collect_garbage_now() {
            let second = attempt();
            self.jobs.act_on(second.wants);
            outcome = second.outcome;
        }
        if let Err(error @ Error::Full { .. }) = &outcome
            && self.jobs.log_bytes() >= WORTH_FLUSHING_BYTES
        {
            match self.jobs.flush() {
                Ok(()) => {
                    // The flush unlinks its logs after its edit. If the wait fails, the put may still find room.
                    let _ = self.jobs.wait_for_deletions();
                    let second = attempt();
                    self.jobs.act_on(second.wants);
                    outcome = second.outcome;
                }
                // The flush found no space either. The error of the commit names the space that is missing.
                Err(second) if second.is_full() => return Err(error.clone()),
                Err(second) => return Err(second),
            }
        }
        outcome
    }

    /// Makes a writer wait here, before the commit queue, while the engine is behind (rule 16).
    fn admit(&self, bytes: usize) -> Result<()> {
        self.shared.pressure.admit(bytes, &|| {
            self.shared.health.check_writable()?;
            // If a writer waits at a hard limit and no memtable is switched, the last switch found no room on the device. So the switch is
            // tried again.
            self.jobs.act_on(self.queue.retry_switch()?);
            self.jobs.schedule();
            Ok(())
        })
    }

    pub fn get(&self, family: FamilyId, key: &[u8], as_of: Option<AsOf>) -> Result<Option<Value>> {
        self.look_up(family, key, as_of, |view, at, weight| read::get(view, key, at, weight))
    }

    /// The values of `keys` at one moment.
    pub fn get_many(
        &self,
        family: FamilyId,
        keys: &[&[u8]],
        as_of: Option<AsOf>,
    ) -> Result<Vec<Option<Value>>> {
        let (view, at) = match as_of {
            Some(as_of) => (self.view()?, as_of.seq),
            // A number that no job knows suffices for one key alone: a job may drop what another key's get would see.
            None => self.view_with_number()?,
        };
        let weight = || read::weight(self.shared.counters.gets.next());
        let of_family = &view.families[family.0 as usize];
        let checked = keys.iter().try_for_each(|key| of_family.past_excises.check_key(key, as_of));
        let outcome = checked.and_then(|()| read::get_many(of_family, keys, at, weight));
        drop(view);
        self.reader_ended();
        outcome
    }

    pub fn contains(&self, family: FamilyId, key: &[u8], as_of: Option<AsOf>) -> Result<bool> {
        self.look_up(family, key, as_of, |view, at, weight| read::contains(view, key, at, weight))
    }

    #[inline]
    fn look_up<T>(
        &self,
        family: FamilyId,
        key: &[u8],
        as_of: Option<AsOf>,
        read: impl FnOnce(&FamilyView, SeqNo, u64) -> Result<T>,
    ) -> Result<T> {
        self.shared.health.check_open()?;
        let weight = read::weight(self.shared.counters.gets.next());
        // View first, number second (rule 8): each write that the number covers is in this view, or is newer than this get.
        let view = self.shared.view.load();
        let at = as_of.map_or_else(|| self.shared.snapshots.visible(), |as_of| as_of.seq);
        let of_family = &view.families[family.0 as usize];
        let outcome = of_family.past_excises.check_key(key, as_of).and_then(|()| read(of_family, at, weight));
        drop(view);
        self.jobs.act_on_rent();
        outcome
    }

    /// The current view, for an iterator to keep.
    pub fn view(&self) -> Result<Arc<View>> {
        self.shared.health.check_open()?;
        Ok(self.shared.view.load_full())
    }

    /// The current view, for an iterator to keep, and the iterator's number.
    pub fn view_with_number(&self) -> Result<(Arc<View>, SeqNo)> {
        self.shared.health.check_open()?;
        Ok(self.shared.view.load_with_number(&self.shared.snapshots))
    }

    /// Reports what a scan that ended has read.
    pub fn scan_ended(&self, family: FamilyId, passed: Passed) {
        if self.shared.health.check_open().is_ok() {
            if let Some(bytes) = passed.length_bytes {
                self.scan_lengths.learn(family, bytes);
            }
            self.shared.counters.scan_dead_entries.add(passed.dead_entries);
            let garbage = passed.garbage.map(|garbage| (garbage.range, garbage.entries));
            self.jobs.scanned(family, passed.range, garbage, passed.entries_returned, passed.vain);
        }
    }

    /// Lets a job delete the files that only the reader that ended had kept. Asks the planner for merges whose rent has reached their
    /// price.
    pub fn reader_ended(&self) {
        if self.shared.health.check_open().is_ok() {
            self.jobs.act_on_rent();
            self.jobs.collect_garbage_soon();
        }
    }

    pub fn persist(&self, durability: Durability) -> Result<()> {
        self.queue.persist(durability)
    }

    pub fn flush(&self) -> Result<()> {
        self.jobs.flush()
    }

    pub fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.jobs.flush()?;
        self.jobs.compact(None, progress)
    }

    pub fn compact_range(&self, family: FamilyId, span: Span, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.jobs.flush()?;
        self.jobs.compact(Some((family, span)), progress)
    }

    pub fn excise(&self, family: FamilyId, spans: Vec<Span>) -> Result<()> {
        self.jobs.excise(family, spans)
    }

    pub fn evacuate(&self, path: &Path, progress: impl FnMut(u64)) -> Result<()> {
        self.jobs.evacuate(path, progress)
    }

    pub fn settle(&self) -> Result<()> {
        self.jobs.settle()
    }

    pub fn stats(&self) -> Stats {
        let view = self.shared.view.load();
        let names = self.jobs.family_names();
        let planned = self.jobs.tuners();
        let families = (0..).map(FamilyId).zip(&view.families).zip(names).zip(planned);
        let families = families.map(|(((id, family), name), tuner)| FamilyStats {
            name,
            written_bytes: self.written_bytes(id),
            memory_bytes: family.memory.bytes(),
            memory: layout_stats(&family.memory),
            segments: family.memory.immutable().count() as u64,
            hot_keys: tuner.map(hot_key_stats),
            levels: family.version.levels().enumerate().map(level_stats).collect(),
        });
        let (pinned, value_files) = (self.jobs.pinned_logs(), self.jobs.value_files());
        let log_tables: Vec<_> =
            view.families.iter().flat_map(|family| log_tables(&family.version)).collect();
        Stats {
            families: families.collect(),
            memory_bytes: self.shared.pressure.memory_bytes(),
            memory_held_bytes: self.jobs.memory_held_bytes(),
            log_bytes_live: self.jobs.log_bytes(),
            logs: self.jobs.logs_alive().into_iter().map(log_stats).collect(),
            pinned_logs: pinned.len() as u64,
            pinned_log_bytes: pinned.values().map(|log| log.bytes).sum(),
            log_tables: log_tables.len() as u64,
            log_value_bytes: log_tables.iter().map(|(_, bytes)| bytes).sum(),
            value_files: value_files.len() as u64,
            value_file_bytes: value_files.values().map(ValueFile::total_bytes).sum(),
            value_live_bytes: value_files.values().map(|file| file.live_bytes).sum(),
            values: value_files.into_iter().map(value_file_stats).collect(),
            tiers: self.jobs.tier_stats(),
            damages_waiting: self.jobs.damages() as u64,
            cache_bytes: self.cache.bytes(),
            cache_limit_bytes: self.cache.limit_bytes(),
            table_memory_bytes: self.cache.table_bytes(),
            open_snapshots: self.shared.snapshots.held() as u64,
            poisoned: self.shared.health.cause().map(ToString::to_string),
            job_error: self.shared.pressure.last_failure().map(|error| error.to_string()),
            counts: Counts::of(&self.shared.counters),
        }
    }

    fn written_bytes(&self, family: FamilyId) -> Vec<(Reason, u64)> {
        let written = self.shared.counters.written_bytes.of(family).into_iter();
        written.filter_map(|(code, bytes)| Some((Reason::of_code(code)?, bytes))).collect()
    }

    pub fn tree(&self) -> Vec<FamilyTree> {
        let view = self.shared.view.load();
        let families = view.families.iter().zip(self.jobs.family_names());
        families.map(|(family, name)| FamilyTree::of(name, &family.version)).collect()
    }

    pub fn table_reasons(&self) -> Result<BTreeMap<u64, Reason>> {
        let view = self.shared.view.load();
        let mut reasons = BTreeMap::new();
        for table in tables(view.families.iter().flat_map(|family| family.version.slices())) {
            if let Some(reason) = table.reason()? {
                reasons.insert(table.id.0, reason);
            }
        }
        Ok(reasons)
    }

    /// Persists all writes, seals the log, stops background work and releases the directory. Only the first caller does the work.
    pub fn close(&self) -> Result<()> {
        // Held until the end, so that a second caller returns when the directory is free.
        let _closing = self.closing.lock();
        if !self.shared.health.close() {
            return Ok(());
        }
        self.jobs.stop();
        let sealed = if self.shared.health.is_read_only() { Ok(()) } else { self.seal() };
        self.shared.dir_lock.release();
        // After the release: an opener waits for the lock, and the cache frees its blocks one by one.
        self.cache.close();
        sealed
    }

    fn seal(&self) -> Result<()> {
        let (log, end) = self.queue.seal()?;
        // The log is stable, footer included. If the disk is full, the manifest stays without the log's length and the new epoch.
        match self.jobs.record_seal(log, end).and_then(|()| self.jobs.raise_epoch()) {
            Err(error) if error.is_full() && self.shared.health.cause().is_none() => Ok(()),
            outcome => outcome,
        }
    }
}

/// The tables to which `slices` belong, each once.
fn tables<'a>(slices: impl Iterator<Item = &'a Arc<Slice>>) -> Vec<&'a Arc<TableFile>> {
    let mut tables: Vec<_> = slices.map(|slice| &slice.table).collect();
    tables.sort_unstable_by_key(|table| table.id);
    tables.dedup_by_key(|table| table.id);
    tables
}

/// The tables of a family that point into logs, each with the estimated bytes of values that its slices refer to there.
fn log_tables(version: &Version) -> BTreeMap<FileId, u64> {
    let mut tables = BTreeMap::new();
    for slice in version.slices().filter(|slice| slice.table.pins_logs()) {
        let log_bytes: u64 = slice.table.logs().map(|held| held.live_bytes).sum();
        let part = u128::from(slice.bytes) * u128::from(log_bytes);
        let bytes = (part / u128::from(slice.table.full_bytes().max(1))) as u64;
        *tables.entry(slice.table.id).or_default() += bytes;
    }
    tables
}

fn layout_stats(memory: &Memory) -> Vec<LayoutStats> {
    let mut layouts: BTreeMap<&'static str, LayoutStats> = BTreeMap::new();
    let active = Immutable::List(memory.active().clone());
    for part in memory.immutable().chain([&active]).filter(|part| part.entries() > 0) {
        let layout = part.layout();
        let stats = layouts.entry(layout).or_insert_with(|| LayoutStats { layout, ..LayoutStats::default() });
        stats.segments += 1;
        stats.entries += part.entries();
        stats.bytes += part.bytes();
    }
    layouts.into_values().collect()
}

fn log_stats((id, bytes, live): (FileId, u64, Live)) -> LogStats {
    LogStats { id: id.0, bytes, live_entries: live.entries, live_bytes: live.entry_bytes }
}

fn value_file_stats((id, file): (FileId, ValueFile)) -> ValueFileStats {
    ValueFileStats {
        id: id.0,
        bytes: file.total_bytes(),
        live_bytes: file.live_bytes,
        dead_bytes: file.garbage_bytes(),
    }
}

fn hot_key_stats((ppm, periods): (u32, Vec<Period>)) -> HotKeyStats {
    let of = |period: Period| HotKeyPeriod {
        ppm: period.hot_ppm.into(),
        flushes: period.flushes,
        writes: period.writes,
        flush_bytes: period.table_bytes,
        written_back_bytes: period.written_back_bytes,
        saved_bytes: period.saved_bytes,
    };
    HotKeyStats { ppm: ppm.into(), periods: periods.into_iter().map(of).collect() }
}

fn level_stats((level, held): (usize, &Level)) -> LevelStats {
    let totals = held.totals();
    LevelStats {
        level,
        tables: tables(held.slices().map(|(_, _, slice)| slice)).len() as u64,
        slices: totals.slices as u64,
        cells: held.cells.len() as u64,
        most_runs: held.cells.iter().map(|cell| cell.runs.len()).max().unwrap_or(0) as u64,
        runs: totals.runs as u64,
        bytes: totals.bytes,
        entries: totals.entries,
        tombstones: totals.tombstones,
    }
}
