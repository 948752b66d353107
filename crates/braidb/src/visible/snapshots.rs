//! The registry of snapshots, and the proof that a version may go.
//!
//! Registering a snapshot and computing the proof share one lock (rule 5). A snapshot either stands in the proof, or was
//! registered after the proof, at or above the proof's horizon.

use super::rule::DropProof;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::base::sync::{AtomicU64, Mutex, Ordering};
use std::collections::BTreeMap;

/// The largest published sequence number, and the readers at older ones.
#[derive(Debug, Default)]
pub struct Snapshots {
    visible: AtomicU64,
    registered: Mutex<BTreeMap<SeqNo, usize>>,
}

impl Snapshots {
    pub fn new(visible: SeqNo) -> Snapshots {
        Snapshots { visible: AtomicU64::new(visible), registered: Mutex::default() }
    }

    /// Everything up to this number is published: in memory, and as durable as its writer asked for.
    pub fn visible(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Publishes all writes up to `seq`. Only the commit queue calls this.
    pub fn publish(&self, seq: SeqNo) {
        debug_assert!(self.visible.load(Ordering::Relaxed) <= seq);
        self.visible.store(seq, Ordering::Release);
    }

    /// Registers a reader at the number that is visible now, and returns it.
    pub fn register(&self) -> SeqNo {
        let mut registered = self.registered.lock();
        let seq = self.visible();
        *registered.entry(seq).or_default() += 1;
        seq
    }

    /// Registers one more reader at a number that is registered already.
    pub fn register_again(&self, seq: SeqNo) {
        *self.registered.lock().get_mut(&seq).expect("the number is registered") += 1;
    }

    pub fn release(&self, seq: SeqNo) {
        let mut registered = self.registered.lock();
        let count = registered.get_mut(&seq).expect("the number is registered");
        *count -= 1;
        if *count == 0 {
            registered.remove(&seq);
        }
    }

    /// The readers that exist now: what none of them can see may be dropped.
    pub fn drop_proof(&self) -> DropProof {
        let registered = self.registered.lock();
        let mut snapshots: Vec<SeqNo> = registered.keys().copied().collect();
        if mutant!("version_dropped_under_snapshot") {
            snapshots.clear();
        }
        DropProof::new(snapshots, self.visible())
    }

    /// The number at or above which every reader reads, now or later. A reader asks here which hidden entries it is charged for. A job that
    /// drops versions asks [`Snapshots::drop_proof`], because it needs the list of snapshots too (`visible/rule.rs`).
    pub fn watermark(&self) -> SeqNo {
        let registered = self.registered.lock();
        let visible = self.visible();
        registered.keys().next().map_or(visible, |&oldest| oldest.min(visible))
    }

    /// How many readers are registered.
    pub fn held(&self) -> usize {
        self.registered.lock().values().sum()
    }
}
