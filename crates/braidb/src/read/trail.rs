//! The trail of a walk: the dead entries that it stepped over since the last entry that it showed.
//!
//! A walk that stepped over many dead entries in a row offers the range as a gap (`visible/gaps.rs`): from behind the last key
//! shown, or the bound where it began, to the next key shown, or the bound where it ended. A walk that meets a gap jumps to its
//! other end. A jump and the dead entries beside it are one trail, so a gap grows with the pops of a queue.
//!
//! A walk that stays among dead entries offers what it has after each [`OFFERED_EVERY`] of them. Offered at its end alone, the
//! gap of a long walk would always come too late: the ring of recent puts does not reach back far enough.

use crate::base::ids::{FamilyId, SeqNo};
use crate::visible::gaps::{Gap, Gaps, Jump};
use crate::write::CommitQueue;
use std::sync::Arc;

/// Dead entries after which a walk offers the gap that it has by then: they take about 1 ms.
const OFFERED_EVERY: u64 = 1 << 10;
/// Steps that take as long as a jump, which positions the cursors of all sources anew.
const STEPS_OF_A_JUMP: u64 = 8;

/// Where a walk leaves its gaps.
#[derive(Clone, Debug)]
pub struct GapSink {
    pub queue: Arc<CommitQueue>,
    pub family: FamilyId,
    /// Dead entries in a row that are worth a gap.
    pub least_dead: u64,
}

/// See the module.
pub struct Trail {
    /// `None` if the walk leaves no gaps and uses none.
    sink: Option<GapSink>,
    gaps: Arc<Gaps>,
    /// The number at which the walk reads.
    at: SeqNo,
    /// The end of the trail where it began. Forward: its first key. Backward: the first key behind it, or `None` behind all keys.
    from: Option<Vec<u8>>,
    steps: u64,
    jumps: u64,
    /// Dead entries that were stepped over, and those of the gaps that were jumped over.
    dead: u64,
    /// Dead entries that the walk stepped over on all of its trails.
    all_steps: u64,
    /// `steps` at the last offer from the middle of the trail.
    offered_at: u64,
    /// Whether an offer may wait in the commit queue.
    has_offered: bool,
}

impl Trail {
    pub fn new(sink: Option<GapSink>, gaps: Arc<Gaps>, at: SeqNo) -> Trail {
        Trail {
            sink,
            gaps,
            at,
            from: None,
            steps: 0,
            jumps: 0,
            dead: 0,
            all_steps: 0,
            offered_at: 0,
            has_offered: false,
        }
    }

    /// Whether the last entry was shown, or none was met yet.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.steps == 0 && self.jumps == 0
    }

    /// Dead entries that the walk stepped over so far.
    pub fn all_steps(&self) -> u64 {
        self.all_steps + self.steps
    }

    /// Says where the trail begins, before the first dead entry.
    pub fn begin(&mut self, from: Option<Vec<u8>>) {
        self.from = from;
    }

    /// Counts a dead entry. Returns whether the walk should ask for a gap at this place.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        self.dead += 1;
        self.steps % STEPS_OF_A_JUMP == 1 && self.sink.is_some() && !self.gaps.is_empty()
    }

    /// Counts an entry that an entry of the trail hides. Hidden entries behind a shown key belong to no trail.
    #[inline]
    pub fn step_hidden(&mut self) {
        if !self.is_idle() {
            self.steps += 1;
            self.dead += 1;
        }
    }

    /// Where a walk forward goes on that stands at `key`, if a gap contains the key.
    pub fn jump_from(&mut self, key: &[u8]) -> Option<Jump> {
        self.sink.as_ref()?;
        let (jump, dead) = self.gaps.jump_from(key, self.at)?;
        Some(self.jumped(jump, dead))
    }

    /// Where a walk backward goes on that stands at the last key before `end`, if a gap contains this key.
    pub fn jump_before(&mut self, end: Option<&[u8]>) -> Option<Jump> {
        self.sink.as_ref()?;
        let (jump, dead) = self.gaps.jump_before(end, self.at)?;
        Some(self.jumped(jump, dead))
    }

    fn jumped(&mut self, jump: Jump, dead: u64) -> Jump {
        self.jumps += 1;
        self.dead = self.dead.saturating_add(dead);
        jump
    }

    /// Whether the walk has come far enough since its last offer to make one from the middle of the trail.
    #[inline]
    pub fn is_offer_due(&self) -> bool {
        self.steps - self.offered_at >= OFFERED_EVERY
    }

    /// The trail of a walk forward reached `high`, from the middle of dead entries.
    pub fn offer_up_to(&mut self, high: &[u8]) {
        let low = self.from.clone().unwrap_or_default();
        self.offer_from_the_middle(low, Some(high.to_vec()));
    }

    /// The trail of a walk backward reached `low`, from the middle of dead entries.
    pub fn offer_down_to(&mut self, low: &[u8]) {
        let high = self.from.clone();
        self.offer_from_the_middle(low.to_vec(), high);
    }

    fn offer_from_the_middle(&mut self, low: Vec<u8>, high: Option<Vec<u8>>) {
        self.offered_at = self.steps;
        self.offer(low, high);
        self.deliver();
    }

    /// The trail of a walk forward ended before `high`; `None` if no key followed.
    pub fn end_forward(&mut self, high: Option<Vec<u8>>) {
        if self.is_worth_a_gap() {
            let low = self.from.take().unwrap_or_default();
            self.offer(low, high);
        }
        self.clear();
    }

    /// The trail of a walk backward ended at `low`, the least key of the gap.
    pub fn end_backward(&mut self, low: Vec<u8>) {
        if self.is_worth_a_gap() {
            let high = self.from.take();
            self.offer(low, high);
        }
        self.clear();
    }

    fn is_worth_a_gap(&self) -> bool {
        let Some(GapSink { least_dead, .. }) = self.sink else { return false };
        match self.jumps {
            0 => self.steps >= least_dead,
            jumps => self.steps + STEPS_OF_A_JUMP * (jumps - 1) >= STEPS_OF_A_JUMP.min(least_dead),
        }
    }

    fn clear(&mut self) {
        self.all_steps += self.steps;
        (self.steps, self.jumps, self.dead, self.offered_at) = (0, 0, 0, 0);
    }

    fn offer(&mut self, low: Vec<u8>, high: Option<Vec<u8>>) {
        if let Some(sink) = &self.sink {
            sink.queue.offer_gap(sink.family, Gap { low, high, seq: self.at, dead: self.dead });
            self.has_offered = true;
        }
    }

    /// Has the commit queue look at the offers now, if no writer holds the commit lock. Otherwise the next commit looks at them.
    pub fn deliver(&mut self) {
        if let Some(sink) = self.sink.as_ref().filter(|_| self.has_offered) {
            sink.queue.look_at_gaps();
            self.has_offered = false;
        }
    }
}
