//! The memory component of one column family with the engine's defaults for 64 MiB, called as in the engine. A write enters the active
//! segment under the commit lock and is published. A full active segment is rolled into the pipeline. Memory compaction does step after
//! step until the policy wants none. There is no log and no flush, so memory grows beyond 64 MiB.

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

/// The thread that compacts memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCompaction {
    /// A thread of its own, beside the writer, as in the engine.
    Beside,
    /// The writer, after each roll: equal work, in equal order, in each run.
    Inline,
    /// No thread: a segment that was rolled is dropped. The remaining work is the writer's own.
    Never,
}

/// The memory component.
pub struct Pipeline {
    shared: Arc<Shared>,
    compaction: MemoryCompaction,
}

struct Shared {
    core: Mutex<Core>,
    view: ViewCell,
    snapshots: Snapshots,
    compactor: Mutex<MemoryCompactor>,
    work: Mutex<Work>,
    changed: Condvar,
    /// Whether a segment was rolled since the writer last started memory compaction.
    rolled: AtomicBool,
}

/// The state that the commit lock guards.
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

/// The messages between the writer and the thread that compacts memory.
#[derive(Default)]
struct Work {
    is_wanted: bool,
    is_busy: bool,
}

impl Pipeline {
    /// An empty pipeline. The thread that compacts memory, if there is one, ends with the process.
    pub fn new(compaction: MemoryCompaction) -> Pipeline {
        let (segment, writer) = Segment::new(1);
        let family = FamilyView { memory: Memory::new(segment), version: Arc::new(Version::default()), gaps: Arc::default() };
        let shared = Arc::new(Shared {
            core: Mutex::new(Core { writer, last_seq: 0, pipeline: 0 }),
            view: ViewCell::new(View { families: vec![family] }),
            snapshots: Snapshots::new(0),
            compactor: Mutex::default(),
            work: Mutex::default(),
            changed: Condvar::new(),
            rolled: AtomicBool::new(false),
        });
        if compaction == MemoryCompaction::Beside {
            let shared = shared.clone();
            std::thread::spawn(move || shared.tidy_for_ever());
        }
        Pipeline { shared, compaction }
    }

    /// Writes a pair as `CommitQueue::commit_one` does, without the log.
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
        // The writer starts memory compaction after it has released the lock.
        if shared.rolled.load(Ordering::Relaxed) && shared.rolled.swap(false, Ordering::AcqRel) {
            match self.compaction {
                MemoryCompaction::Beside => shared.want_compaction(),
                MemoryCompaction::Inline => while shared.tidy_once() {},
                MemoryCompaction::Never => {}
            }
        }
    }

    fn roll(&self, core: &mut Core) {
        let (segment, writer) = Segment::new(core.last_seq);
        core.writer = writer;
        if self.compaction == MemoryCompaction::Never {
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

    /// Calls `read` with the newest value of `key`.
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

    /// Bytes in memory, as the memory budget counts them.
    pub fn bytes(&self) -> u64 {
        self.shared.view.load().families[0].memory.bytes()
    }

    /// The number of memory compaction steps.
    pub fn steps(&self) -> u64 {
        self.shared.compactor.lock().steps
    }
}

impl Shared {
    fn want_compaction(&self) {
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

    /// Does the next step, as `jobs/memory_compaction.rs` does; returns `false` if the policy wants none.
    fn tidy_once(&self) -> bool {
        let mut compactor = self.compactor.lock();
        compactor.replaced.retain(|(segment, _)| segment.strong_count() > 0);
        let held: u64 = compactor.replaced.iter().map(|(_, bytes)| bytes).sum();
        let view = self.view.load_full();
        let memory = &view.families[0].memory;
        let pipeline = memory.pipeline();
        let copied = held + pipeline.iter().map(Immutable::bytes).sum::<u64>();
        let may_copy = memory.bytes() + copied <= HARD_BYTES;
        // In the engine this number is random. Here it is the middle of its range.
        let Some(step) =
            compact_memory(pipeline, &compactor.redundancy, u64::MAX / 2, may_copy, false, &SEGMENTS)
        else {
            return false;
        };
        let old = pipeline[step.parts()].to_vec();
        drop(view);
        let retention = || Some(RetentionFilter::new(self.snapshots.drop_proof()));
        let (retention, records) = match step {
            MemoryStep::Flatten(_) => (retention(), Records::CopiedIfSparse),
            MemoryStep::Merge(_) => (None, Records::Stay),
            MemoryStep::Compact(_) => (retention(), Records::Copied),
        };
        let merged = merge(&old, retention, records, || true).expect("no flush takes what was rolled");
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
