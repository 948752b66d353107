//! The walk of `scan.rs` against key order.

use super::payers::{GarbageCount, Payers};
use super::scan::{Count, ScanContext, Walk};
use super::spare::KeyBuffer;
use super::trail::Trail;
use super::view_cursor::ViewCursor;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::memory::view::FamilyView;
use crate::visible::gaps::{Jump, successor};
use crate::visible::{EntryKind, InBody, LazyValue};
use std::mem;
use std::ops::Bound;

/// A walk against key order.
pub struct BackwardWalk {
    merge: ViewCursor,
    at: SeqNo,
    /// The last key decided, and the one decided before it.
    key: KeyBuffer,
    key_before: KeyBuffer,
    started: bool,
    /// The value of the entry that the last step found, until it is taken.
    value: Option<LazyValue>,
    /// A jump found that no living key comes before.
    is_at_end: bool,
    /// The walk came to the end of its range.
    has_ended: bool,
    count: Count,
    payers: Payers,
    trail: Trail,
}

impl BackwardWalk {
    /// Starts at the upper bound.
    pub fn new(
        view: &FamilyView,
        at: SeqNo,
        high: Bound<&[u8]>,
        context: &mut ScanContext,
    ) -> Result<BackwardWalk> {
        let mut trail = Trail::new(context.gaps.take(), view.gaps.clone(), at);
        let start = match high {
            Bound::Unbounded => None,
            // The keys up to and including `key` are those before its successor.
            Bound::Included(key) => Some(KeyBuffer::successor_of(key)),
            Bound::Excluded(key) => Some(KeyBuffer::of(key)),
        };
        let start_key = start.as_ref().map(|key| key.as_slice());
        let jump = trail.jump_before(start_key);
        let mut merge = ViewCursor::new(view);
        let mut is_at_end = false;
        let first = match &jump {
            Some(Jump::To(key)) => Some(key.as_slice()),
            Some(Jump::End) => None,
            None => start_key,
        };
        match first {
            Some(key) => merge.seek_before(key)?,
            None if jump.is_some() => is_at_end = true,
            None => merge.seek_to_last()?,
        }
        let payers = Payers::new(view, first, context);
        if jump.is_none() {
            trail.begin(start);
        }
        Ok(BackwardWalk {
            merge,
            at,
            key: KeyBuffer::new(),
            key_before: KeyBuffer::new(),
            started: false,
            value: None,
            is_at_end,
            has_ended: false,
            count: Count::default(),
            payers,
            trail,
        })
    }

    /// Goes on after a dead key, of which the walk read `versions` versions. `has_before` says that the walk decided a key before this one.
    fn pass_dead(&mut self, has_before: bool, versions: u64) -> Result<()> {
        if self.trail.is_idle() && has_before {
            self.trail.begin(Some(KeyBuffer::of(&self.key_before)));
        }
        let asks = self.trail.step();
        self.trail.step_hidden(versions - 1);
        if asks && let Some(jump) = self.trail.jump_before(Some(&successor(&self.key))) {
            match jump {
                Jump::End => self.is_at_end = true,
                Jump::To(low) if self.merge.valid() && self.merge.key() >= low.as_slice() => {
                    self.merge.seek_before(&low)?;
                }
                Jump::To(_) => {}
            }
        }
        if self.trail.is_offer_due() {
            self.trail.offer_down_to(&self.key);
        }
        Ok(())
    }
}

impl Walk for BackwardWalk {
    fn count(&self) -> &Count {
        &self.count
    }

    fn garbage(&self) -> &GarbageCount {
        &self.payers.garbage
    }

    fn dead_entries(&self) -> u64 {
        self.trail.all_steps()
    }

    fn last_key(&self) -> Option<&[u8]> {
        self.started.then_some(self.key.as_slice())
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn take_value(&mut self) -> LazyValue {
        self.value.take().expect("the walk found an entry")
    }

    fn entry(&mut self) -> Result<(&[u8], &[u8])> {
        let value = self.value.as_mut().expect("the walk found an entry");
        if let LazyValue::InBody(InBody { body, handle }) = value {
            *value = LazyValue::Pinned(body.read(handle)?);
        }
        match value {
            LazyValue::Pinned(value) => Ok((&self.key, value)),
            LazyValue::Failed(error) => Err(error.clone()),
            LazyValue::InBody(_) => unreachable!("it was read above"),
        }
    }

    fn is_in_value_file(&self) -> bool {
        matches!(&self.value, Some(LazyValue::InBody(value)) if value.body.is_read_ahead())
    }

    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool> {
        self.value = None;
        while self.merge.valid() && !self.is_at_end && within(self.merge.key()) {
            mem::swap(&mut self.key, &mut self.key_before);
            let has_before = mem::replace(&mut self.started, true);
            self.key.set(self.merge.key());
            self.count.first_key.get_or_insert_with(|| KeyBuffer::of(&self.key));
            let mut newest: Option<LazyValue> = None;
            self.payers.key();
            let mut versions = 0;
            let mut is_older_in_table = false;
            while self.merge.valid() && self.merge.key() == self.key.as_slice() {
                if self.merge.seq() <= self.at {
                    let is_in_table = self.merge.is_in_table();
                    if versions > 0 && is_in_table && is_older_in_table {
                        self.payers.hidden(&self.key, self.merge.seq());
                    }
                    is_older_in_table = is_in_table;
                    versions += 1;
                    // The next key tells which version is shown. Only this version's value is read if it lies in a body.
                    let is_put = self.merge.kind() == EntryKind::Put;
                    newest = is_put.then(|| self.merge.lazy_value());
                }
                self.merge.prev()?;
            }
            if let Some(value) = newest {
                if !self.trail.is_idle() && self.trail.end_backward(successor(&self.key)) {
                    self.merge.keep();
                }
                self.count.entries_returned += 1;
                self.value = Some(value);
                return Ok(true);
            }
            if versions > 0 {
                self.pass_dead(has_before, versions)?;
            }
        }
        self.has_ended = true;
        Ok(false)
    }

    fn leave_gap(&mut self, far: &Bound<Vec<u8>>) {
        if mem::take(&mut self.has_ended) && !self.trail.is_idle() {
            let bound = match far {
                Bound::Unbounded => Vec::new(),
                Bound::Included(key) => key.clone(),
                Bound::Excluded(key) => successor(key),
            };
            let is_beside = self.merge.valid() && !self.is_at_end;
            let next = if is_beside { successor(self.merge.key()) } else { Vec::new() };
            if self.trail.end_backward(bound.max(next)) {
                self.merge.keep();
            }
        }
        self.trail.deliver();
    }
}
