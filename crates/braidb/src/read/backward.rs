//! The walk of `scan.rs` against key order.

use super::payers::{GarbageCount, Payers};
use super::scan::{Count, ScanContext, Walk};
use super::spare::KeyBuffer;
use super::trail::Trail;
use super::view_cursor::ViewCursor;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::memory::view::FamilyView;
use crate::visible::gaps::{Jump, successor};
use crate::visible::{EntryKind, InBody, LazyValue};
use std::mem;
use std::ops::Bound;

/// A walk against key order.
pub struct BackwardWalk {
    merge: ViewCursor,
    at: SeqNo,
    /// The last key decided, unless the merge stands at it: then the merge has the key. And the one decided before it.
    key: KeyBuffer,
    key_before: KeyBuffer,
    started: bool,
    /// The merge stands at the entry that the last step found.
    is_on_entry: bool,
    /// If the merge had to leave the entry to decide: its value, until it is taken.
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
            is_on_entry: false,
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

    /// Ends the trail, if there is one, behind the last key decided, which the reader sees.
    fn end_trail(&mut self) {
        if !self.trail.is_idle() && self.trail.end_backward(successor(&self.key)) {
            self.merge.keep();
        }
    }

    /// Whether the merge, which came to another key, is known to stand at the version that the reader sees.
    #[inline]
    fn is_at_newest(&self) -> bool {
        let (seq, kind) = self.merge.version();
        let is_last = self.merge.is_last_of_key() || mutant!("older_version_shown_backward");
        seq <= self.at && kind == EntryKind::Put && is_last
    }

    /// Moves from the last key decided to the next entry.
    fn search(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool> {
        while self.merge.valid() && !self.is_at_end && within(self.merge.key()) {
            mem::swap(&mut self.key, &mut self.key_before);
            let has_before = mem::replace(&mut self.started, true);
            self.key.set(self.merge.key());
            self.count.first_key.get_or_insert_with(|| KeyBuffer::of(&self.key));
            self.payers.key();
            if self.is_at_newest() {
                self.end_trail();
                self.is_on_entry = true;
                self.count.entries_returned += 1;
                return Ok(true);
            }
            let mut newest: Option<LazyValue> = None;
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
                self.end_trail();
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
        self.started.then_some(self.key())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.is_on_entry { self.merge.key() } else { &self.key }
    }

    #[inline(always)]
    fn has_value_beside(&self) -> bool {
        self.is_on_entry && self.merge.has_value_beside()
    }

    #[inline(always)]
    fn entry_beside(&self) -> (&[u8], &[u8]) {
        (self.merge.key(), self.merge.value())
    }

    fn take_value(&mut self) -> LazyValue {
        if self.is_on_entry {
            self.merge.lazy_value()
        } else {
            self.value.take().expect("the walk found an entry")
        }
    }

    fn entry(&mut self) -> Result<(&[u8], &[u8])> {
        if self.is_on_entry {
            self.merge.fetch()?;
            return Ok((self.merge.key(), self.merge.value()));
        }
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
        match &self.value {
            Some(LazyValue::InBody(value)) => value.body.is_read_ahead(),
            _ => self.is_on_entry && self.merge.is_in_value_file(),
        }
    }

    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool> {
        self.value = None;
        if mem::take(&mut self.is_on_entry) {
            let moved = self.merge.prev();
            // Mostly the next entry follows at once. Then the last key is not needed any more, and is not copied.
            if moved.is_ok() && self.merge.valid() && self.is_at_newest() && within(self.merge.key()) {
                self.is_on_entry = true;
                self.count.entries_returned += 1;
                return Ok(true);
            }
            self.key.set(self.merge.key_before());
            moved?;
        }
        self.search(within)
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
