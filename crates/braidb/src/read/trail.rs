//! The trail of a walk: the dead entries that it stepped over since the last entry that it showed.
//!
//! A walk that stepped over many dead entries in a row offers the range as a gap (`visible/gaps.rs`): from behind the last key shown, or
//! the bound where it began, to the next key shown, or the bound where it ended. A walk that meets a gap jumps to its other end. An offer
//! needs [`GapSink::least_dead`] dead entries. It needs only 8 if a gap lies at one end of the range, and only one between two gaps. So the
//! gap at the head of a queue grows as users pop entries.
//!
//! A walk that is still among dead entries offers the range that it passed after each [`OFFERED_EVERY`] of them. If a long walk made one
//! offer at its end, the commit queue would refuse it: the ring of recent puts (`write/gaps.rs`) would no longer have all puts since the
//! walk began.

use super::spare::KeyBuffer;
use crate::base::ids::{FamilyId, SeqNo};
use crate::visible::gaps::{Gap, Gaps, Jump, Way};
use crate::write::CommitQueue;
use std::sync::Arc;

/// A walk that is still among dead entries offers the range that it passed as a gap, each time it has stepped over this many. 1,024 steps
/// take about 1 ms.
const OFFERED_EVERY: u64 = 1 << 10;
/// After this many offers a walk makes the commit queue look at them, because the queue keeps at most 64 offers of all walks.
const OFFERS_AT_ONCE: u32 = 16;
/// A jump takes as long as this many steps, because it positions the cursors of all sources anew.
const STEPS_OF_A_JUMP: u64 = 8;

/// Where a walk offers its gaps.
#[derive(Clone, Debug)]
pub struct GapSink {
    pub queue: Arc<CommitQueue>,
    pub family: FamilyId,
    /// The least number of dead entries in a row that a walk offers as a gap.
    pub least_dead: u64,
}

/// The dead entries since the last entry that the walk showed (see the head of the module).
pub struct Trail {
    /// `None` if the walk neither offers gaps nor jumps over them.
    sink: Option<GapSink>,
    gaps: Arc<Gaps>,
    /// The number at which the walk reads.
    at: SeqNo,
    /// The end of the trail where it began. Forward: its first key. Backward: the first key behind it, or `None` behind all keys.
    from: Option<KeyBuffer>,
    /// Whether a gap, or a range that the walk offered, ends where the trail begins.
    is_beside_gap: bool,
    /// Dead entries since the trail began.
    steps: u64,
    /// `steps` when the walk last searched for a gap at its key.
    asked_at: u64,
    /// Dead entries that the walk stepped over on its earlier trails.
    earlier_steps: u64,
    /// Offers that the commit queue may not have looked at.
    undelivered: u32,
}

impl Trail {
    pub fn new(sink: Option<GapSink>, gaps: Arc<Gaps>, at: SeqNo) -> Trail {
        Trail {
            sink,
            gaps,
            at,
            from: None,
            is_beside_gap: false,
            steps: 0,
            asked_at: 0,
            earlier_steps: 0,
            undelivered: 0,
        }
    }

    /// Whether the walk is not among dead entries: it showed the last entry, or has met none yet.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.steps == 0 && !self.is_beside_gap
    }

    /// Dead entries that the walk stepped over so far.
    pub fn all_steps(&self) -> u64 {
        self.earlier_steps + self.steps
    }

    /// Says where the trail begins, before the first dead entry.
    pub fn begin(&mut self, from: Option<KeyBuffer>) {
        self.from = from;
    }

    /// Counts a dead entry. Returns whether the walk should search for a gap at its key.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        let asks = self.steps == 1 || self.steps - self.asked_at >= STEPS_OF_A_JUMP;
        if asks {
            self.asked_at = self.steps;
        }
        asks && self.sink.is_some() && !self.gaps.is_empty()
    }

    /// Counts entries that an entry of the trail hides. Hidden entries behind a shown key belong to no trail.
    #[inline]
    pub fn step_hidden(&mut self, entries: u64) {
        if self.steps > 0 {
            self.steps += entries;
        }
    }

    /// Where a forward walk that stands at `key` goes on, if a gap contains the key.
    pub fn jump_from(&mut self, key: &[u8]) -> Option<Jump> {
        self.sink.as_ref()?;
        let Way { jump, near, .. } = self.gaps.jump_from(key, self.at)?;
        if self.is_worth_an_offer(true) {
            let low = self.take_from().unwrap_or_default();
            self.offer(low, near);
        }
        self.jumped(&jump);
        Some(jump)
    }

    /// Where a backward walk that stands at the last key before `end` goes on, if a gap contains this key.
    pub fn jump_before(&mut self, end: Option<&[u8]>) -> Option<Jump> {
        self.sink.as_ref()?;
        let Way { jump, near, .. } = self.gaps.jump_before(end, self.at)?;
        // A gap without an end reaches to the last key, so no dead entry lies behind it.
        if self.is_worth_an_offer(true)
            && let Some(low) = near
        {
            let high = self.take_from();
            self.offer(low, high);
        }
        self.jumped(&jump);
        Some(jump)
    }

    /// The trail begins anew at the other end of a gap.
    fn jumped(&mut self, jump: &Jump) {
        let from = match jump {
            Jump::To(key) => Some(KeyBuffer::of(key)),
            Jump::End => None,
        };
        self.restart(from);
        self.is_beside_gap = true;
    }

    /// Takes the key where the trail begins, for an offer.
    fn take_from(&mut self) -> Option<Vec<u8>> {
        self.from.take().map(|from| from.to_vec())
    }

    fn restart(&mut self, from: Option<KeyBuffer>) {
        self.earlier_steps += self.steps;
        (self.from, self.steps, self.asked_at, self.is_beside_gap) = (from, 0, 0, false);
    }

    /// Whether the walk has come far enough to make an offer from the middle of the trail.
    #[inline]
    pub fn is_offer_due(&self) -> bool {
        self.steps >= OFFERED_EVERY
    }

    /// Offers the trail of a forward walk up to `high`, where the walk is still among dead entries.
    pub fn offer_up_to(&mut self, high: &[u8]) {
        let low = self.take_from().unwrap_or_default();
        self.offer(low, Some(high.to_vec()));
        self.goes_on_at(high);
    }

    /// Offers the trail of a backward walk down to `low`, where the walk is still among dead entries.
    pub fn offer_down_to(&mut self, low: &[u8]) {
        let high = self.take_from();
        self.offer(low.to_vec(), high);
        self.goes_on_at(low);
    }

    fn goes_on_at(&mut self, key: &[u8]) {
        self.restart(Some(KeyBuffer::of(key)));
        self.is_beside_gap = true;
        self.deliver();
    }

    /// Ends the trail of a forward walk before `high`; `None` if no key follows. Returns whether the walk offered a gap. If it did, the
    /// caller keeps the blocks at the merge's place cached: later walks jump to them.
    pub fn end_forward(&mut self, high: Option<Vec<u8>>) -> bool {
        let is_worth = self.is_worth_an_offer(false);
        if is_worth {
            let low = self.take_from().unwrap_or_default();
            self.offer(low, high);
        }
        self.restart(None);
        is_worth
    }

    /// Ends the trail of a backward walk at `low`, the least key of the gap. Returns as [`Trail::end_forward`].
    pub fn end_backward(&mut self, low: Vec<u8>) -> bool {
        let is_worth = self.is_worth_an_offer(false);
        if is_worth {
            let high = self.take_from();
            self.offer(low, high);
        }
        self.restart(None);
        is_worth
    }

    /// Whether the trail has enough dead entries for an offer. `is_before_gap` says that the trail ends at a gap.
    fn is_worth_an_offer(&self, is_before_gap: bool) -> bool {
        let Some(GapSink { least_dead, .. }) = self.sink else { return false };
        let least = match (self.is_beside_gap, is_before_gap) {
            (true, true) => 1,
            (false, false) => least_dead,
            _ => STEPS_OF_A_JUMP.min(least_dead),
        };
        self.steps >= least
    }

    fn offer(&mut self, low: Vec<u8>, high: Option<Vec<u8>>) {
        // `from` is set with the first dead entry.
        assert!(self.steps > 0, "a gap has a dead entry");
        let gap = Gap::found(low, high, self.at, self.steps);
        // A trail that ends at a gap is empty if the gap grew over the trail's beginning meanwhile.
        if let Some(sink) = self.sink.as_ref().filter(|_| !gap.is_empty()) {
            sink.queue.offer_gap(sink.family, gap);
            self.undelivered += 1;
            if self.undelivered >= OFFERS_AT_ONCE {
                self.deliver();
            }
        }
    }

    /// Has the commit queue look at the offers now, if no writer holds the commit lock. Otherwise the next commit looks at them.
    pub fn deliver(&mut self) {
        if let Some(sink) = self.sink.as_ref().filter(|_| self.undelivered > 0) {
            self.undelivered = 0;
            sink.queue.look_at_gaps();
        }
    }
}
