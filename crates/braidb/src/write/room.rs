//! The memory room: the memory of all families.
//!
//! ```text
//!  insert ──► active segment ── roll ──► pipeline ── switch ──► flushing set ── flushed ──► a table
//!                                           ▲                        └─ hot keys stay ─┐
//!                                           └──────────────────────────────────────────┘
//! ```
//!
//! A segment that is full is *rolled* into the pipeline, which concerns no file. When all of memory is full, or the logs are, the
//! commit queue *switches the memtable* of a family. In one step the queue rotates the log and the room gives a flush all memory
//! of the family. So positions decide what recovery replays (rule 3).
//!
//! If most of memory was superseded when memory was last full, no flush begins. Instead memory compaction makes one segment of memory,
//! while writers go on. `plan/memory/limits.rs` decides; the room counts and carries out.
//!
//! The commit lock guards the room. The room holds each family's [`Memory`] and shows readers a copy in the view after each change.

use super::flush_queue::FlushTask;
use super::gaps::FamilyGaps;
use super::{FlushQueue, Pressure};
use crate::base::counters::Counters;
use crate::base::ids::{FamilyId, FileId, SeqNo};
use crate::memory::view::{FamilyView, View, ViewCell};
use crate::memory::{Immutable, Memory, Segment, SegmentWriter};
use crate::plan::memory::limits::{FamilyState, MemoryLimits, Trigger};
use crate::version::Version;
use crate::visible::EntryKind;
use crate::visible::gaps::Gap;
use braidb_storage::Random;
use smallvec::SmallVec;
use std::sync::Arc;

/// What a flush leaves in memory.
#[derive(Debug, Default)]
pub struct Kept {
    /// The hot keys. All of them stand in the log that began with the switch, or in later logs.
    pub hot: Option<Immutable>,
    /// How many of 1,000 bytes of the flushing set were alive, if the flush counted them.
    pub live_permille: Option<u64>,
}

/// A family as recovery brought it back.
#[derive(Debug)]
pub struct RecoveredFamily {
    pub writer: SegmentWriter,
    pub first_log: Option<FileId>,
    pub version: Arc<Version>,
}

/// One family's memory.
#[derive(Debug)]
struct FamilyMemory {
    /// The writer of `memory`'s active segment.
    writer: SegmentWriter,
    memory: Memory,
    /// Bytes of `memory`'s pipeline, so that the commit path does not walk the pipeline.
    pipeline_bytes: u64,
    /// Entries of segments that were rolled since the last switch.
    rolled_writes: u64,
    /// The log that holds the oldest record of the active segment and the pipeline.
    first_log: Option<FileId>,
    /// Bytes of the family's full memory when its compaction was requested; `None` if no compaction is requested.
    compacting_bytes: Option<u64>,
    /// Bytes that the last flush, or compaction of full memory, left.
    kept_bytes: u64,
    /// How many of 1,000 bytes were alive at the last flush or compaction of full memory that counted them.
    live_permille: Option<u64>,
    /// Number of flushes that ended.
    flushed: u64,
    /// The last number that the last switch of the memtable took.
    switched_seq: SeqNo,
}

/// What the room shares with the rest of the engine.
#[derive(Clone, Debug)]
pub struct RoomParts {
    pub view: Arc<ViewCell>,
    pub pressure: Arc<Pressure>,
    pub random: Arc<dyn Random>,
    pub counters: Arc<Counters>,
    pub flushes: Arc<FlushQueue>,
}

/// The memory of all families, their limits and their counts.
#[derive(Debug)]
pub struct MemoryRoom {
    limits: MemoryLimits,
    parts: RoomParts,
    /// Memory of each family, indexed by family id.
    families: Vec<FamilyMemory>,
    /// Gaps of each family, indexed by family id.
    gaps: Vec<FamilyGaps>,
    /// Bytes of all active segments and pipelines.
    bytes: u64,
    /// Bytes of all flushing sets.
    flushing_bytes: u64,
    /// What a commit compares `bytes` with.
    trigger: Trigger,
    /// Whether an active segment has the size at which it joins its pipeline.
    is_segment_full: bool,
    /// Number of callers that wait for all memory to be in tables.
    table_requests: usize,
    /// Replaced views, which are dropped after the commit lock. A replaced view holds all segments that its change took away.
    old_views: Vec<Arc<View>>,
}

impl MemoryRoom {
    /// A room with the families that recovery brought back, by id. Fills the view.
    pub fn new(limits: MemoryLimits, recovered: Vec<RecoveredFamily>, parts: RoomParts) -> MemoryRoom {
        let mut room = MemoryRoom {
            limits,
            parts,
            families: Vec::new(),
            gaps: Vec::new(),
            bytes: 0,
            flushing_bytes: 0,
            trigger: limits.trigger(0),
            is_segment_full: true,
            table_requests: 0,
            old_views: Vec::new(),
        };
        let mut view = View::default();
        for RecoveredFamily { writer, first_log, version } in recovered {
            let (family, gaps) = (FamilyMemory::new(writer, first_log), FamilyGaps::new());
            let memory = family.memory.clone();
            view.families.push(FamilyView {
                memory,
                version,
                gaps: gaps.shared().clone(),
                past_excises: Arc::default(),
            });
            room.families.push(family);
            room.gaps.push(gaps);
        }
        drop(room.parts.view.update(|current| *current = view));
        room.recount();
        room
    }

    /// Adds an empty family at the end of the list.
    pub fn add_family(&mut self, version: Arc<Version>) -> FamilyId {
        let id = FamilyId(self.families.len() as u32);
        let family = FamilyMemory::new(self.new_segment(), None);
        let (memory, gaps) = (family.memory.clone(), FamilyGaps::new());
        let shared = gaps.shared().clone();
        self.families.push(family);
        self.gaps.push(gaps);
        let view = |view: &mut View| {
            view.families.push(FamilyView { memory, version, gaps: shared, past_excises: Arc::default() })
        };
        self.old_views.push(self.parts.view.update(view));
        id
    }

    /// Adds a version of `key`, whose record stands in `log`.
    pub fn insert(
        &mut self,
        family: FamilyId,
        log: FileId,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        value: &[u8],
    ) {
        let index = family.0 as usize;
        if kind == EntryKind::Put {
            self.gaps[index].put(seq, key);
        }
        let family = &mut self.families[index];
        family.first_log.get_or_insert(log);
        let before = family.writer.segment().bytes();
        family.writer.insert(key, seq, kind, value);
        let bytes = family.writer.segment().bytes();
        self.bytes += bytes - before;
        self.is_segment_full |= bytes >= self.trigger.active_bytes;
    }

    /// Looks at a gap that a scan found, after all puts up to `last_seq` entered memory. Returns whether it is accepted.
    pub fn offer_gap(&mut self, family: FamilyId, gap: Gap, last_seq: SeqNo, recent_puts: usize) -> bool {
        self.gaps[family.0 as usize].offered(gap, last_seq, recent_puts)
    }

    /// After a commit: tells the back-pressure how full memory is. Returns whether the commit queue has to decide.
    #[inline]
    pub fn is_triggered(&self, log_bytes: u64) -> bool {
        self.parts.pressure.set_memory_bytes(self.bytes + self.flushing_bytes);
        self.bytes >= self.trigger.memory_bytes || self.is_segment_full || log_bytes > self.trigger.log_bytes
    }

    /// What `decide` sees of each family.
    pub fn states(&self) -> SmallVec<[FamilyState; 4]> {
        self.families.iter().map(FamilyMemory::state).collect()
    }

    pub fn limits(&self) -> &MemoryLimits {
        &self.limits
    }

    pub fn are_tables_requested(&self) -> bool {
        self.table_requests > 0
    }

    /// An in-memory flush: the active segment of a family goes to its pipeline.
    pub fn roll(&mut self, index: usize) {
        let writer = self.new_segment();
        let family = &mut self.families[index];
        family.rolled_writes += family.writer.segment().entries();
        let memory = family.memory.roll(Arc::clone(writer.segment()));
        family.writer = writer;
        self.show(index, memory);
        self.parts.counters.memory_flushes.add(1);
    }

    /// Requests that memory compaction makes one segment of all memory of a family.
    pub fn compact_full(&mut self, index: usize) {
        self.families[index].compacting_bytes = Some(self.families[index].bytes());
        if !self.families[index].writer.segment().is_empty() {
            self.roll(index);
        }
        let memory = self.families[index].memory.clone().with_full_compaction(true);
        self.show(index, memory);
    }

    /// Switches the memtables of families: all memory of each becomes a flush task. The log from which recovery will replay the families,
    /// `replay_from`, has begun in the same step.
    pub fn switch(&mut self, families: &[FamilyId], replay_from: FileId, last_seq: SeqNo, may_keep: bool) {
        let is_idle = |family: &FamilyMemory| !family.is_flushing() && family.is_empty();
        let numbered = self.families.iter().enumerate();
        let idle = numbered.filter(|(_, family)| is_idle(family)).map(|(index, _)| FamilyId(index as u32));
        let mut idle: Vec<FamilyId> = idle.collect();
        let mut shown = Vec::with_capacity(families.len());
        for &family in families {
            let index = family.0 as usize;
            let writer = self.new_segment();
            let old = &mut self.families[index];
            let writes = old.rolled_writes + old.writer.segment().entries();
            let memory = old.memory.take(Arc::clone(writer.segment()));
            // Dropping the old writer makes sure that no thread adds to what the flush takes.
            let new = FamilyMemory::new(writer, None);
            *old = FamilyMemory {
                flushed: old.flushed,
                live_permille: old.live_permille,
                switched_seq: last_seq,
                ..new
            };
            let segments = memory.flushing().clone();
            let entries = segments.iter().map(Immutable::entries).sum();
            let may_keep = may_keep && MemoryLimits::is_written_enough(writes, entries);
            self.flushing_bytes += segments.iter().map(Immutable::bytes).sum::<u64>();
            shown.push((index, memory, None));
            // The first task carries the idle families. Its edit is later than others only after it found no room: then logs stay longer.
            let idle = std::mem::take(&mut idle);
            let task = FlushTask { family, segments, replay_from, idle, may_keep, writes, last_seq };
            self.parts.flushes.add(task);
        }
        self.show_all(shown);
    }

    /// The flush's edit is durable. Puts the new versions and the kept keys into the view in place of the flushing sets, in one
    /// swap. Between two swaps a reader would miss the hot keys.
    pub fn flushed(&mut self, flushed: Vec<(&FlushTask, Kept, Arc<Version>)>) {
        let mut shown = Vec::with_capacity(flushed.len());
        for (task, kept, version) in flushed {
            let index = task.family.0 as usize;
            let family = &mut self.families[index];
            assert!(Arc::ptr_eq(family.memory.flushing(), &task.segments), "a flush ends once");
            family.flushed += 1;
            family.live_permille = kept.live_permille.or(family.live_permille);
            if let Some(hot) = &kept.hot {
                family.keep(hot, task.replay_from);
            }
            let memory = family.memory.flushed(kept.hot);
            self.flushing_bytes -= task.segments.iter().map(Immutable::bytes).sum::<u64>();
            shown.push((index, memory, Some(version)));
        }
        self.show_all(shown);
    }

    /// The bug that the mutant `hot_installed_late` plants: hot keys enter the view in a swap of their own.
    pub fn keep_hot(&mut self, family: FamilyId, hot: Immutable, log: FileId) {
        let index = family.0 as usize;
        self.families[index].keep(&hot, log);
        let memory = self.families[index].memory.with_oldest(hot);
        self.show(index, memory);
    }

    /// Puts `new` in the place of `old` in the pipeline of a family. Returns `false`, and changes nothing, if a flush took `old`.
    /// `compacts_full` says that `old` is all of a full memory.
    pub fn replace(
        &mut self,
        family: FamilyId,
        old: &[Immutable],
        new: Immutable,
        compacts_full: bool,
    ) -> bool {
        let index = family.0 as usize;
        let new_bytes = new.bytes();
        let Some(memory) = self.families[index].memory.replaced(old, new) else { return false };
        if compacts_full {
            self.full_compacted(index, new_bytes);
            self.show(index, memory.with_full_compaction(false));
        } else {
            self.show(index, memory);
        }
        true
    }

    /// Notes how much of a full memory its compaction found alive. If nearly all of it is alive, the next write triggers a flush.
    fn full_compacted(&mut self, index: usize, new_bytes: u64) {
        let family = &mut self.families[index];
        let Some(full_bytes) = family.compacting_bytes.take() else { return };
        family.live_permille = Some(new_bytes * 1000 / full_bytes.max(1));
        family.kept_bytes = new_bytes;
        self.parts.counters.full_memory_compactions.add(1);
    }

    /// Called if there is no memory for a copy of the live records. The next write flushes what was to be compacted.
    pub fn give_up_full_compaction(&mut self) {
        for index in 0..self.families.len() {
            let family = &mut self.families[index];
            if family.compacting_bytes.take().is_some() {
                family.live_permille = Some(1000);
                let memory = family.memory.clone().with_full_compaction(false);
                self.show(index, memory);
            }
        }
    }

    /// Counts a caller that waits for all memory to be in tables. While a caller waits, nothing stays in memory.
    pub fn request_tables(&mut self) {
        self.table_requests += 1;
    }

    pub fn end_table_request(&mut self) {
        self.table_requests -= 1;
    }

    /// The families that hold something in memory and are not being flushed.
    pub fn flushable(&self) -> Vec<FamilyId> {
        let families = self.families.iter().enumerate();
        let flushable = families.filter(|(_, family)| !family.is_flushing() && !family.is_empty());
        flushable.map(|(index, _)| FamilyId(index as u32)).collect()
    }

    /// The small families that hold something in memory and are not being flushed.
    pub fn small(&self) -> Vec<FamilyId> {
        let is_small = |id: &FamilyId| self.limits.is_small(self.families[id.0 as usize].bytes());
        self.flushable().into_iter().filter(is_small).collect()
    }

    /// The oldest log that holds a record of a family that is not small.
    pub fn first_log_of_large(&self) -> Option<FileId> {
        let large = self.families.iter().filter(|family| !self.limits.is_small(family.bytes()));
        large.filter_map(|family| family.first_log).min()
    }

    /// Takes the views that were replaced, for the holder of the commit lock to drop after it.
    #[must_use = "the views are dropped after the commit lock"]
    pub fn take_old_views(&mut self) -> Vec<Arc<View>> {
        std::mem::take(&mut self.old_views)
    }

    #[inline]
    pub fn has_old_views(&self) -> bool {
        !self.old_views.is_empty()
    }

    /// What readers see.
    pub fn view(&self) -> Arc<View> {
        self.parts.view.load_full()
    }

    /// Reads what readers see. A job may replace the view meanwhile, and leave this thread as its last holder: the view is then dropped after
    /// the commit lock.
    pub fn look<T>(&mut self, read: impl FnOnce(&View) -> T) -> T {
        let view = self.view();
        let seen = read(&view);
        self.old_views.extend(Arc::into_inner(view).map(Arc::new));
        seen
    }

    /// Whether a family is being flushed.
    pub fn is_flushing(&self) -> bool {
        self.families.iter().any(FamilyMemory::is_flushing)
    }

    /// How often each family's memtable was switched. Equal answers mean that no flush began in between.
    pub fn switches(&self) -> Vec<u64> {
        self.families.iter().map(FamilyMemory::switches).collect()
    }

    /// The last number that the flush under way has of a family; `None` if no flush of the family is under way.
    pub fn flushing_seq(&self, family: FamilyId) -> Option<SeqNo> {
        let memory = &self.families[family.0 as usize];
        memory.is_flushing().then_some(memory.switched_seq)
    }

    /// Whether a family has nothing in memory and is not being flushed.
    pub fn is_idle(&self, family: FamilyId) -> bool {
        let memory = &self.families[family.0 as usize];
        !memory.is_flushing() && memory.is_empty()
    }

    /// Whether at least `flushes[i]` flushes of each family `i` ended.
    pub fn has_flushed(&self, flushes: &[u64]) -> bool {
        self.families.iter().zip(flushes).all(|(family, &flushes)| family.flushed >= flushes)
    }

    /// No family replays a log before `replay_from` any more.
    pub fn forget_logs_before(&mut self, replay_from: FileId) {
        for family in &mut self.families {
            family.first_log = family.first_log.map(|log| log.max(replay_from));
        }
    }

    /// The writer of an empty active segment. A segment that goes to a pipeline has a filter, because a get then asks many
    /// segments.
    fn new_segment(&self) -> SegmentWriter {
        let seed = self.parts.random.next_u64();
        match self.limits.filtered_bytes() {
            None => Segment::new(seed).1,
            Some(full_bytes) => Segment::with_filter(seed, full_bytes).1,
        }
    }

    fn show(&mut self, index: usize, memory: Memory) {
        self.show_all(vec![(index, memory, None)]);
    }

    /// Gives families their memory, and shows it, with the new version of each that has one, in one swap of the view.
    fn show_all(&mut self, shown: Vec<(usize, Memory, Option<Arc<Version>>)>) {
        for (index, memory, _) in &shown {
            self.families[*index].set(memory.clone());
        }
        let old_view = self.parts.view.update(|view| {
            for (index, memory, version) in shown {
                let view = &mut view.families[index];
                view.memory = memory;
                view.version = version.unwrap_or_else(|| view.version.clone());
            }
        });
        self.old_views.push(old_view);
        self.recount();
    }

    /// After a change of segments: recomputes the sums, and the limits that a commit compares them with.
    fn recount(&mut self) {
        self.bytes = self.families.iter().map(FamilyMemory::bytes).sum();
        self.trigger = self.limits.trigger(self.families.iter().map(|family| family.kept_bytes).sum());
        let is_full = |family: &FamilyMemory| family.writer.segment().bytes() >= self.trigger.active_bytes;
        self.is_segment_full = self.families.iter().any(is_full);
        self.parts.pressure.set_memory_bytes(self.bytes + self.flushing_bytes);
    }
}

impl FamilyMemory {
    fn new(writer: SegmentWriter, first_log: Option<FileId>) -> FamilyMemory {
        FamilyMemory {
            memory: Memory::new(Arc::clone(writer.segment())),
            writer,
            pipeline_bytes: 0,
            rolled_writes: 0,
            first_log,
            compacting_bytes: None,
            kept_bytes: 0,
            live_permille: None,
            flushed: 0,
            switched_seq: 0,
        }
    }

    fn set(&mut self, memory: Memory) {
        self.pipeline_bytes = memory.pipeline().iter().map(Immutable::bytes).sum();
        // Writes may have superseded what was kept.
        self.kept_bytes = self.kept_bytes.min(self.pipeline_bytes);
        self.memory = memory;
    }

    fn bytes(&self) -> u64 {
        self.writer.segment().bytes() + self.pipeline_bytes
    }

    /// Notes that `hot`, which a flush left in memory, joins the pipeline. All of it stands in `log` or in later logs.
    fn keep(&mut self, hot: &Immutable, log: FileId) {
        self.kept_bytes = hot.bytes();
        self.first_log = Some(log);
    }

    fn is_flushing(&self) -> bool {
        !self.memory.flushing().is_empty()
    }

    fn switches(&self) -> u64 {
        self.flushed + u64::from(self.is_flushing())
    }

    fn is_empty(&self) -> bool {
        self.memory.pipeline().is_empty() && self.writer.segment().is_empty()
    }

    fn state(&self) -> FamilyState {
        FamilyState {
            active_bytes: self.writer.segment().bytes(),
            pipeline_bytes: self.pipeline_bytes,
            pipeline_segments: self.memory.pipeline().len(),
            is_empty: self.is_empty(),
            kept_bytes: self.kept_bytes,
            live_permille: self.live_permille,
            first_log: self.first_log,
            is_flushing: self.is_flushing(),
            is_compacting: self.compacting_bytes.is_some(),
        }
    }
}
