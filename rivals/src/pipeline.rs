//! The memory component of one column family with the engine's defaults for 64 MiB, and what the engine does with it: a
//! write enters the active segment under the commit lock and is published; a full active segment is rolled into the pipeline;
//! and memory compaction does step after step until the policy wants none. There is no log, and no flush: beyond 64 MiB it
//! grows.

use crate::base::ids::SeqNo;
use crate::base::key::hash;
use crate::memory::view::{FamilyView, View, ViewCell};
use crate::memory::{Flat, Immutable, Memory, Records, Segment, SegmentWriter, merge};
use crate::plan::memory::segments::{MemoryPolicy, MemoryStep, Redundancy, SegmentOptions, compact_memory};
use crate::version::Version;
use crate::visible::EntryKind;
use crate::visible::rule::RetentionFilter;
use crate::visible::snapshots::Snapshots;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

// The engine's defaults (`db/options.rs`, `db/open.rs`).
const MEMTABLE_BYTES: u64 = 64 << 20;
const ACTIVE_BYTES: u64 = MEMTABLE_BYTES * 4 / 100;
const HARD_BYTES: u64 = 2 * MEMTABLE_BYTES;
const SEGMENTS: SegmentOptions =
    SegmentOptions { policy: MemoryPolicy::Adaptive { redundancy_percent: 20 }, segments: 4 };
const PIPELINE_LIMIT: usize = 2 + SEGMENTS.segments;

/// Which thread compacts memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCompaction {
    /// A thread of its own, beside the writer, as in the engine.
    Beside,
    /// The writer, after each roll: the same work, in the same order in each run.
    Inline,
    /// Nobody, and a segment that was rolled is let go: what remains is the writer's own work.
    Never,
}

/// The memory component.
pub struct Pipeline {
    shared: Arc<Shared>,
    tidying: MemoryCompaction,
}

struct Shared {
    core: Mutex<Core>,
    view: ViewCell,
    snapshots: Snapshots,
    compactor: Mutex<MemoryCompactor>,
    work: Mutex<Work>,
    changed: Condvar,
    /// A roll happened that nobody was told about yet.
    rolled: AtomicBool,
}

/// What the commit lock guards.
struct Core {
    writer: SegmentWriter,
    last_seq: SeqNo,
    pipeline: usize,
}

#[derive(Default)]
struct MemoryCompactor {
    redundancy: Redundancy,
    replaced: Vec<(Weak<Flat>, u64)>,
    steps: u64,
}

/// Between the writer and the thread that compacts memory.
#[derive(Default)]
struct Work {
    is_wanted: bool,
    is_busy: bool,
}

impl Pipeline {
    /// An empty one. The thread that compacts memory, if there is one, ends with the process.
    pub fn new(tidying: MemoryCompaction) -> Pipeline {
        let (segment, writer) = Segment::new(1);
        let family = FamilyView { memory: Memory::new(segment), version: Arc::new(Version::default()) };
        let shared = Arc::new(Shared {
            core: Mutex::new(Core { writer, last_seq: 0, pipeline: 0 }),
            view: ViewCell::new(View { families: vec![family] }),
            snapshots: Snapshots::new(0),
            compactor: Mutex::default(),
            work: Mutex::default(),
            changed: Condvar::new(),
            rolled: AtomicBool::new(false),
        });
        if tidying == MemoryCompaction::Beside {
            let shared = shared.clone();
            std::thread::spawn(move || shared.tidy_for_ever());
        }
        Pipeline { shared, tidying }
    }

    /// As `CommitQueue::commit_one`, without the log.
    pub fn insert(&self, key: &[u8], value: &[u8]) {
        let shared = &*self.shared;
        let mut core = shared.core.lock();
        let seq = core.last_seq + 1;
        core.writer.insert(key, seq, EntryKind::Put, value);
        core.last_seq = seq;
        shared.snapshots.publish(seq);
        if core.writer.segment().bytes() >= ACTIVE_BYTES && core.pipeline < PIPELINE_LIMIT {
            self.roll(&mut core);
        }
        drop(core);
        // Nobody is woken under the lock.
        if shared.rolled.load(Ordering::Relaxed) && shared.rolled.swap(false, Ordering::AcqRel) {
            match self.tidying {
                MemoryCompaction::Beside => shared.want_tidying(),
                MemoryCompaction::Inline => while shared.tidy_once() {},
                MemoryCompaction::Never => {}
            }
        }
    }

    fn roll(&self, core: &mut Core) {
        let (segment, writer) = Segment::new(core.last_seq);
        core.writer = writer;
        if self.tidying == MemoryCompaction::Never {
            self.shared.view.update(|view| view.families[0].memory = Memory::new(segment));
            return;
        }
        core.pipeline += 1;
        self.shared.view.update(|view| {
            let memory = &mut view.families[0].memory;
            *memory = memory.roll(segment);
        });
        self.shared.rolled.store(true, Ordering::Release);
    }

    /// Calls `read` with the newest value.
    pub fn get<T>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let view = self.shared.view.load();
        let found = view.families[0].memory.get(key, hash(key), self.shared.snapshots.visible());
        read(found.as_ref().map(|found| &*found.value))
    }

    /// Waits until the policy wants no step.
    pub fn settle(&self) {
        let mut work = self.shared.work.lock();
        while work.is_wanted || work.is_busy {
            self.shared.changed.wait(&mut work);
        }
    }

    /// Bytes in memory, as the budget counts them.
    pub fn bytes(&self) -> u64 {
        self.shared.view.load().families[0].memory.bytes()
    }

    /// Steps of memory compaction.
    pub fn steps(&self) -> u64 {
        self.shared.compactor.lock().steps
    }
}

impl Shared {
    fn want_tidying(&self) {
        self.work.lock().is_wanted = true;
        self.changed.notify_all();
    }

    fn tidy_for_ever(&self) {
        let mut work = self.work.lock();
        loop {
            while !work.is_wanted {
                self.changed.wait(&mut work);
            }
            *work = Work { is_wanted: false, is_busy: true };
            drop(work);
            while self.tidy_once() {}
            work = self.work.lock();
            work.is_busy = false;
            self.changed.notify_all();
        }
    }

    /// As `jobs/memory_compaction.rs`: does the next step; `false` if none is wanted.
    fn tidy_once(&self) -> bool {
        let mut compactor = self.compactor.lock();
        compactor.replaced.retain(|(segment, _)| segment.strong_count() > 0);
        let held: u64 = compactor.replaced.iter().map(|(_, bytes)| bytes).sum();
        let view = self.view.load_full();
        let memory = &view.families[0].memory;
        let pipeline = memory.pipeline();
        let copied = held + pipeline.iter().map(Immutable::bytes).sum::<u64>();
        let may_copy = memory.bytes() + copied <= HARD_BYTES;
        // In the engine chance decides; here it is even.
        let Some(step) =
            compact_memory(pipeline, &compactor.redundancy, u64::MAX / 2, may_copy, false, &SEGMENTS)
        else {
            return false;
        };
        let old = pipeline[step.parts()].to_vec();
        drop(view);
        let sieve = || Some(RetentionFilter::new(self.snapshots.drop_proof()));
        let (sieve, records) = match step {
            MemoryStep::Flatten(_) => (sieve(), Records::CopiedIfSparse),
            MemoryStep::Merge(_) => (None, Records::Stay),
            MemoryStep::Compact(_) => (sieve(), Records::Copied),
        };
        let merged = merge(&old, sieve, records, || true).expect("no flush takes what was rolled");
        let mut core = self.core.lock();
        self.view.update(|view| {
            let memory = &mut view.families[0].memory;
            *memory = memory.replaced(&old, Immutable::Flat(merged.flat.clone())).expect("no flush takes it");
            core.pipeline = memory.pipeline().len();
        });
        drop(core);
        compactor.redundancy.replaced(&step, &merged);
        if let MemoryStep::Compact(_) = step {
            compactor.replaced.extend(old.iter().filter_map(|old| match old {
                Immutable::Flat(flat) => Some((Arc::downgrade(flat), flat.bytes())),
                Immutable::List(_) => None,
            }));
        }
        compactor.steps += 1;
        true
    }
}
