//! Room: what the leader does when memory is full, and how memory changes hands.
//!
//! A segment that is full is *rolled* into the pipeline, which concerns no file. When all of memory is full, or the logs
//! are, a family is *frozen*: the log rotates and a flush takes all that the family has, in one step, so that positions
//! decide what is replayed (rule 3). If most of memory was superseded when it was full the last time, it is *condensed*
//! instead: one segment is made of it, beside the writers, and no file is concerned. A flush may leave hot keys in memory;
//! that and the table come into the view in one swap.

use super::{CommitQueue, Core};
use crate::base::error::Result;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::memory::{Immutable, Segment, SegmentWriter};
use crate::version::Version;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A flushing set: all memory of a family, waiting to become a table.
#[derive(Clone, Debug)]
pub struct FlushTask {
    pub family: FamilyId,
    /// Newest first.
    pub segments: Arc<[Immutable]>,
    /// The log that began with the freeze: once the table is in the manifest, `family` replays from here.
    pub replay_from: FileId,
    /// Families that had nothing in memory at the freeze: they need no older log either.
    pub idle: Vec<FamilyId>,
    /// Hot keys may stay in memory. Not if somebody asked for tables.
    pub may_keep: bool,
    /// How often the family was written since the freeze before.
    pub writes: u64,
    /// The largest number when it was frozen: all that the set holds is at or below it, and what comes later is above.
    pub last_seq: SeqNo,
}

/// What a flush leaves in memory.
#[derive(Debug, Default)]
pub struct Kept {
    /// The hot keys. All stand in the log that began with the freeze, or in later ones.
    pub hot: Option<Immutable>,
    /// How many of a thousand bytes of the flushing set were alive, if that was counted.
    pub live_permille: Option<u64>,
}

#[derive(Debug)]
pub(super) struct ActiveFamily {
    pub(super) writer: SegmentWriter,
    /// How many segments its pipeline has, and their bytes.
    pub(super) pipeline: usize,
    pub(super) pipeline_bytes: u64,
    /// How often it was written since it was frozen, as far as that was rolled into the pipeline.
    pub(super) rolled_writes: u64,
    /// The log that holds its oldest record in the active segment and the pipeline.
    pub(super) first_log: Option<FileId>,
    /// Its flushing set is not in a table yet.
    pub(super) flushing: bool,
    /// All of its pipeline is being made one segment, in the hope that no flush is wanted then: so many bytes were there.
    pub(super) compacting_bytes: Option<u64>,
    /// What stayed of it when memory was full.
    pub(super) kept_bytes: u64,
    /// How many of a thousand bytes were alive then.
    pub(super) live_permille: Option<u64>,
    /// Its flushes that ended.
    pub(super) flushed: u64,
}

/// What a full memory needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fullness {
    /// It is being condensed.
    Waits,
    CompactsFull,
    Flushes,
}

impl CommitQueue {
    /// Freezes the family that helps most when memory or logs are over their bounds. A failure to do so is not one of the
    /// write that came before: it is kept, and tells at the next limit.
    pub(super) fn make_room(&self, core: &mut Core) {
        let active: u64 = core.families.iter().map(ActiveFamily::bytes).sum();
        let kept: u64 = core.families.iter().map(|family| family.kept_bytes).sum();
        let candidates = || {
            let families = core.families.iter().enumerate();
            families.filter(|(_, family)| !family.flushing && !family.is_empty())
        };
        let choice = if active >= self.options.heat.full_bytes(kept) {
            let largest = candidates().max_by_key(|(_, family)| family.bytes());
            match largest.map(|(index, family)| (index, self.fullness(family, active, kept))) {
                Some((_, Fullness::Waits)) => None,
                Some((index, Fullness::CompactsFull)) => {
                    self.compact_full(core, index);
                    None
                }
                Some((_, Fullness::Flushes)) | None => largest,
            }
        } else if self.log_sync.appended() > self.options.log_bytes
            && !core.families.iter().any(|family| family.flushing)
        {
            // While a flush is under way it may be what frees the logs.
            let oldest = core.families.iter().filter_map(|family| family.first_log).min();
            candidates().find(|(_, family)| family.first_log == oldest)
        } else {
            None
        };
        let choice = choice.map(|(index, _)| FamilyId(index as u32));
        core.switch_failed = choice.and_then(|family| self.switch_memtable(core, family, true).err());
        if choice.is_none() {
            self.rotate_full_log(core);
            self.roll_full_segments(core);
        }
        self.count_memory(core);
    }

    /// An empty active segment. One that goes to a pipeline has a filter, because gets then ask many.
    pub(super) fn new_segment(&self) -> (Arc<Segment>, SegmentWriter) {
        match self.options.active_bytes {
            u64::MAX => Segment::new(self.random.next_u64()),
            full_bytes => Segment::with_filter(self.random.next_u64(), full_bytes),
        }
    }

    /// In-memory flushes: active segments that are full go to the pipeline.
    fn roll_full_segments(&self, core: &mut Core) {
        for (index, family) in core.families.iter_mut().enumerate() {
            let bytes = family.writer.segment().bytes();
            if bytes < self.options.active_bytes || family.pipeline >= self.options.pipeline_limit {
                continue;
            }
            self.roll(family, index);
        }
    }

    /// The active segment of a family goes to its pipeline.
    fn roll(&self, family: &mut ActiveFamily, index: usize) {
        let (bytes, entries) = (family.writer.segment().bytes(), family.writer.segment().entries());
        let (segment, writer) = self.new_segment();
        family.writer = writer;
        family.rolled_writes += entries;
        family.pipeline += 1;
        family.pipeline_bytes += bytes;
        self.view.update(|view| {
            let memory = &mut view.families[index].memory;
            *memory = memory.roll(segment);
        });
        self.counters.memory_flushes.add(1);
        self.rolled.store(true, Ordering::Release);
    }

    /// What to do with a family when memory, of so many bytes, is full, of which so many stayed the last time.
    fn fullness(&self, family: &ActiveFamily, memory_bytes: u64, kept_bytes: u64) -> Fullness {
        // Whoever condenses may be behind, although writes are slowed down meanwhile: then it is flushed.
        let has_room =
            memory_bytes < self.options.heat.most_bytes() && !self.options.heat.is_still_full(kept_bytes);
        match family.compacting_bytes {
            Some(_) if has_room => Fullness::Waits,
            None if has_room && self.options.heat.compacts_full(family.live_permille) => {
                Fullness::CompactsFull
            }
            _ => Fullness::Flushes,
        }
    }

    /// All memory of a family is to become one segment.
    fn compact_full(&self, core: &mut Core, index: usize) {
        let family = &mut core.families[index];
        family.compacting_bytes = Some(family.bytes());
        if !family.writer.segment().is_empty() {
            self.roll(family, index);
        }
        self.view.update(|view| {
            let memory = &mut view.families[index].memory;
            *memory = memory.clone().with_full_compaction(true);
        });
        self.rolled.store(true, Ordering::Release);
    }

    /// Puts `new` in the place of `old` in the pipeline of a family. `false`, and nothing happens, if a flush took them.
    /// `compacts_full` says that this is what a full memory was to become.
    pub fn replaced(&self, family: FamilyId, old: &[Immutable], new: Immutable, compacts_full: bool) -> bool {
        let mut core = self.lock();
        let mut is_done = false;
        let new_bytes = new.bytes();
        self.view.update(|view| {
            let memory = &mut view.families[family.0 as usize].memory;
            if let Some(replaced) = memory.replaced(old, new) {
                *memory = if compacts_full { replaced.with_full_compaction(false) } else { replaced };
                is_done = true;
            }
            let active = &mut core.families[family.0 as usize];
            active.pipeline = memory.pipeline().len();
            active.pipeline_bytes = memory.pipeline().iter().map(Immutable::bytes).sum();
            // What was kept may have been superseded.
            active.kept_bytes = active.kept_bytes.min(active.pipeline_bytes);
        });
        if is_done && compacts_full {
            self.full_compacted(&mut core, family, new_bytes);
        }
        self.count_memory(&core);
        is_done
    }

    /// Whether memory of some family is to be condensed.
    pub fn compacts_full(&self) -> bool {
        self.view.load().families.iter().any(|family| family.memory.compacts_full())
    }

    /// There is no memory for a copy of what is alive: what was to be condensed is flushed, by the next write.
    pub fn give_up_full_memory_compaction(&self) {
        let mut core = self.lock();
        for family in core.families.iter_mut().filter(|family| family.compacting_bytes.is_some()) {
            family.compacting_bytes = None;
            family.live_permille = Some(1000);
        }
        self.view.update(|view| {
            for family in &mut view.families {
                family.memory = family.memory.clone().with_full_compaction(false);
            }
        });
    }

    /// If memory was full, a compaction tells how much of it is alive. If that is nearly all, the next write has it flushed.
    fn full_compacted(&self, core: &mut Core, family: FamilyId, bytes: u64) {
        let full_compacted = &mut core.families[family.0 as usize];
        let Some(full_bytes) = full_compacted.compacting_bytes.take() else { return };
        full_compacted.live_permille = Some(bytes * 1000 / full_bytes.max(1));
        full_compacted.kept_bytes = bytes;
        self.counters.full_memory_compactions.add(1);
    }

    /// Rotates the log and turns all memory of the family into a flush task, in one step.
    fn switch_memtable(&self, core: &mut Core, family: FamilyId, may_keep: bool) -> Result<()> {
        // What stays in memory will be written back to the log that begins now.
        let may_keep = may_keep && self.options.heat.is_on() && core.tables_wanted == 0;
        let replay_from = self.rotate_for(core, may_keep)?;
        let idle = |(index, other): (usize, &ActiveFamily)| {
            let is_idle = !other.flushing && other.is_empty();
            is_idle.then_some(FamilyId(index as u32))
        };
        let idle = core.families.iter().enumerate().filter_map(idle).collect();
        let ActiveFamily { flushed, live_permille, rolled_writes, .. } = core.families[family.0 as usize];
        let writes = rolled_writes + core.families[family.0 as usize].writer.segment().entries();
        let last_seq = core.last_seq;
        let (segment, writer) = self.new_segment();
        // The old writer goes here: nothing is added to what the flush takes.
        core.families[family.0 as usize] =
            ActiveFamily { flushing: true, flushed, live_permille, ..ActiveFamily::new(writer, None) };
        let mut segments = None;
        self.view.update(|view| {
            let memory = &mut view.families[family.0 as usize].memory;
            *memory = memory.take(segment);
            segments = Some(memory.flushing().clone());
        });
        let segments = segments.expect("the view was updated");
        core.flushing_bytes += segments.iter().map(Immutable::bytes).sum::<u64>();
        self.flush_requested.store(true, Ordering::Release);
        self.flushes.lock().push_back(FlushTask {
            family,
            segments,
            replay_from,
            idle,
            may_keep,
            writes,
            last_seq,
        });
        Ok(())
    }

    /// Somebody waits for all memory to be in tables, or does not any more: as long as one does, nothing stays in memory.
    pub fn want_tables(&self, flush_requested: bool) {
        let mut core = self.lock();
        if flush_requested {
            core.tables_wanted += 1;
        } else {
            core.tables_wanted -= 1;
        }
    }

    /// Freezes every family that has something in memory and is not being flushed. Returns how many flushes of each family will
    /// have ended when those under way have.
    pub fn switch_all_memtables(&self) -> Result<Vec<u64>> {
        let mut core = self.lock();
        self.health.check_writable()?;
        for index in 0..core.families.len() {
            let family = &core.families[index];
            if !family.flushing && !family.is_empty() {
                self.switch_memtable(&mut core, FamilyId(index as u32), false)?;
            }
        }
        self.count_memory(&core);
        Ok(core.families.iter().map(ActiveFamily::switches).collect())
    }

    /// Freezes one family if it has so many tombstones in memory, and is not being flushed.
    pub fn switch_memtable_of_tombstones(&self, family: FamilyId, least: u64) -> Result<()> {
        let mut core = self.lock();
        self.health.check_writable()?;
        let memory = self.view.load().families[family.0 as usize].memory.clone();
        let immutable: u64 = memory.pipeline().iter().map(Immutable::tombstones).sum();
        if !core.families[family.0 as usize].flushing && memory.active().tombstones() + immutable >= least {
            self.switch_memtable(&mut core, family, false)?;
        }
        self.count_memory(&core);
        Ok(())
    }

    /// The flush's edit is durable: puts the new version, and what is kept in memory, into the view in place of the segments, in
    /// one swap: between two, a reader would miss the hot keys. No family replays logs before `replay_from` any more.
    pub fn finish_flush(&self, task: &FlushTask, kept: Kept, version: Arc<Version>, replay_from: FileId) {
        let mut core = self.lock();
        core.logs_by_seq.forget_below(replay_from);
        let flushed = &mut core.families[task.family.0 as usize];
        flushed.flushing = false;
        flushed.flushed += 1;
        flushed.live_permille = kept.live_permille.or(flushed.live_permille);
        if let Some(hot) = &kept.hot {
            flushed.keep(hot, task.replay_from);
        }
        self.view.update(|view| {
            let family = &mut view.families[task.family.0 as usize];
            assert!(Arc::ptr_eq(family.memory.flushing(), &task.segments), "a flush ends once");
            family.memory = family.memory.flushed(kept.hot.clone());
            family.version = version.clone();
        });
        core.flushing_bytes -= task.segments.iter().map(Immutable::bytes).sum::<u64>();
        // Memory may be over its bound again already: what could not be frozen beside this flush can be now.
        if self.health.check_writable().is_ok() {
            self.make_room(&mut core);
        } else {
            self.count_memory(&core);
        }
    }

    /// The bug that `hot_installed_late` plants: hot keys come to the view in a swap of their own.
    pub fn keep_hot(&self, family: FamilyId, hot: Immutable) {
        let mut core = self.lock();
        let home = core.log.id();
        core.families[family.0 as usize].keep(&hot, home);
        self.view.update(|view| {
            let memory = &mut view.families[family.0 as usize].memory;
            *memory = memory.with_oldest(hot.clone());
        });
    }

    /// Tries again to freeze if the last freeze failed, for want of room for a new log.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn retry_switch(&self) -> Result<()> {
        let mut core = self.lock();
        self.health.check_writable()?;
        if core.switch_failed.is_some() {
            self.make_room(&mut core);
        }
        core.switch_failed.clone().map_or(Ok(()), Err)
    }

    pub(super) fn count_memory(&self, core: &Core) {
        let active: u64 = core.families.iter().map(ActiveFamily::bytes).sum();
        self.pressure.set_memory_bytes(active + core.flushing_bytes);
    }
}

impl ActiveFamily {
    pub(super) fn new(writer: SegmentWriter, first_log: Option<FileId>) -> ActiveFamily {
        ActiveFamily {
            writer,
            pipeline: 0,
            pipeline_bytes: 0,
            rolled_writes: 0,
            first_log,
            flushing: false,
            compacting_bytes: None,
            kept_bytes: 0,
            live_permille: None,
            flushed: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.writer.segment().bytes() + self.pipeline_bytes
    }

    /// What a flush left in memory joins the pipeline; all of it stands in `home` or in later logs.
    fn keep(&mut self, hot: &Immutable, home: FileId) {
        self.pipeline += 1;
        self.kept_bytes = hot.bytes();
        self.pipeline_bytes += hot.bytes();
        self.first_log = Some(home);
    }

    /// How often it was frozen.
    pub(super) fn switches(&self) -> u64 {
        self.flushed + u64::from(self.flushing)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pipeline == 0 && self.writer.segment().is_empty()
    }
}
