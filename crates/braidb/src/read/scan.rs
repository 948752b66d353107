//! Scans: from the merged entries of a view, the newest version of each key that a reader may see.
//!
//! A *walk* steps over the entries of a view in one direction. It *decides* one key after the other: which version the reader sees, if any.
//! A *scan* is a walk that also reads values ahead. A *trail* (`trail.rs`) is the dead entries since the last entry that the walk showed.
//!
//! A merge delivers every version of every key. In a forward walk the newest visible version of a key comes before its older ones. So the
//! walk takes the first version that the reader may see and passes over the rest. In a backward walk the oldest version comes first. So the
//! walk keeps the latest version that the reader may see until the key changes. It stays at a version if the merge knows it to be the last.

use super::ahead::{Ahead, Waiting};
use super::backward::BackwardWalk;
use super::payers::{GarbageCount, MetGarbage, Payers, range_of};
use super::spare::KeyBuffer;
use super::trail::{GapSink, Trail};
use super::view_cursor::ViewCursor;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key::KeyRange;
use crate::base::value::Value;
use crate::memory::view::FamilyView;
use crate::plan::values::ValueLayout;
use crate::plan::values::gathering::Vain;
use crate::visible::gaps::{Jump, successor};
use crate::visible::snapshots::Snapshots;
use crate::visible::{EntryKind, LazyValue};
use braidb_storage::Clock;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

/// What a scan yields: a key of its own and a pinned value.
pub type Entry = (Vec<u8>, Value);

/// What a walk finds: a key of its own, and a value that may have to be read yet.
pub type Found = (Vec<u8>, LazyValue);

/// A forward walk that stepped over more versions of one key than this seeks the next key, because a hot key in memory may have thousands.
const VERSIONS_BEFORE_A_SEEK: u32 = 32;

/// The range that a walk read, and what it wasted.
#[derive(Debug)]
pub struct Passed {
    /// From the first key read to the last, if values were read in vain.
    pub range: Option<KeyRange>,
    /// What a merge of tables would have spared the walk, if anything.
    pub garbage: Option<MetGarbage>,
    pub entries_returned: u64,
    /// Entries of deleted keys that the walk stepped over.
    pub dead_entries: u64,
    pub vain: Vain,
    /// The bytes of entries that the user took, if the scan went on behind the first value that lies in a value file.
    pub length_bytes: Option<u64>,
}

/// Counts the entries that a walk reads.
#[derive(Default)]
pub struct Count {
    pub(super) first_key: Option<KeyBuffer>,
    pub(super) entries_returned: u64,
}

/// A walk over one view, in one direction.
pub trait Walk {
    /// Moves to the next entry. Returns whether there is one whose key is `within` the range. Reads no value.
    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool>;
    /// The key of the entry to which the last step moved.
    fn key(&self) -> &[u8];
    /// The value of the entry, to be read later. It is asked for once.
    fn take_value(&mut self) -> LazyValue;
    /// Whether the value of the entry lies beside its key.
    fn has_value_beside(&self) -> bool;
    /// The key and the value of an entry whose value lies beside its key.
    fn entry_beside(&self) -> (&[u8], &[u8]);
    /// The key and the value of the entry, lent until the next step.
    fn entry(&mut self) -> Result<(&[u8], &[u8])>;
    /// Whether the value of the entry lies in a value file, of which scans read ahead.
    fn is_in_value_file(&self) -> bool;
    /// What the walk counted.
    fn count(&self) -> &Count;
    /// What a merge of tables would have spared the walk.
    fn garbage(&self) -> &GarbageCount;
    /// Entries of deleted keys that the walk stepped over.
    fn dead_entries(&self) -> u64;
    /// The last key decided, if there is one.
    fn last_key(&self) -> Option<&[u8]>;
    /// Ends the walk. If it came to its `far` bound without an error, and among dead entries, it offers their range as a gap.
    fn leave_gap(&mut self, far: &Bound<Vec<u8>>);

    /// What the walk read so far, if anything. `vain` and `length_bytes` are what reading ahead counted.
    fn passed(&self, vain: Vain, length_bytes: Option<u64>) -> Option<Passed> {
        let count = self.count();
        let (first_key, last_key) = (count.first_key.as_deref()?, self.last_key()?);
        Some(Passed {
            range: (vain.us > 0).then(|| range_of(first_key, last_key)),
            garbage: self.garbage().beyond(count.entries_returned),
            entries_returned: count.entries_returned,
            dead_entries: self.dead_entries(),
            vain,
            length_bytes,
        })
    }

    /// Moves to the next entry, and takes its key and value.
    #[inline(always)]
    fn take_next(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<Option<Found>> {
        Ok(if self.step(within)? { Some((self.key().to_vec(), self.take_value())) } else { None })
    }
}

/// A walk that reads values ahead.
pub struct Scan<W> {
    walk: W,
    ahead: Ahead,
    /// The entry on which a cursor stands, if it was read ahead. Otherwise the cursor stands where the walk does.
    waiting: Option<Waiting>,
}

/// What the engine gives to a scan.
pub struct ScanContext {
    /// How often the scan is charged for what it reads in vain.
    pub weight: u64,
    /// Whether the database has slow tiers. Then the slices where a scan begins count it as heat, even if it is not charged.
    pub is_heat_counted: bool,
    /// The registry of snapshots: its watermark tells which entries hide older ones from every reader.
    pub snapshots: Arc<Snapshots>,
    /// Where the scan offers gaps; `None` if it neither offers gaps nor jumps over them.
    pub gaps: Option<GapSink>,
    /// Reads of values ahead are timed by it.
    pub clock: Arc<dyn Clock>,
    pub layout: ValueLayout,
    /// Bytes that most scans of the column family do not exceed; 0 if no scan has told yet.
    pub usual_bytes: u64,
}

/// A scan in key order.
pub type Forward = Scan<ForwardWalk>;
/// A scan against key order.
pub type Backward = Scan<BackwardWalk>;

impl Forward {
    /// Starts at the lower bound.
    pub fn new(view: &FamilyView, at: SeqNo, low: Bound<&[u8]>, mut context: ScanContext) -> Result<Forward> {
        let walk = ForwardWalk::new(view, at, low, &mut context)?;
        Ok(Scan { walk, ahead: Ahead::new(context, true), waiting: None })
    }
}

impl Backward {
    /// Starts at the upper bound.
    pub fn new(
        view: &FamilyView,
        at: SeqNo,
        high: Bound<&[u8]>,
        mut context: ScanContext,
    ) -> Result<Backward> {
        let walk = BackwardWalk::new(view, at, high, &mut context)?;
        Ok(Scan { walk, ahead: Ahead::new(context, false), waiting: None })
    }
}

impl<W: Walk> Scan<W> {
    /// What the scan read so far, if anything.
    pub fn passed(&self) -> Option<Passed> {
        self.walk.passed(self.ahead.vain(), self.ahead.length_bytes())
    }

    /// Ends the scan. If it came to its `far` bound among dead entries, it offers their range as a gap.
    pub fn leave_gap(&mut self, far: &Bound<Vec<u8>>) {
        self.walk.leave_gap(far);
    }

    /// The last key decided: no entry that this scan yielded, or read ahead, lies beyond it.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.walk.last_key()
    }

    /// The next entry, or nothing if its key is not `within` the range. Reads no value outside of the range.
    #[inline]
    pub fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<Option<Entry>> {
        if let Some(entry) = self.ahead.take_first() {
            return entry.map(Some);
        }
        let found = self.walk.take_next(&within)?;
        found.map(|found| self.ahead.read(found, || self.walk.take_next(&within))).transpose()
    }

    /// Moves a cursor to the next entry. Returns whether there is one whose key is `within` the range. Reads no value.
    #[inline]
    pub fn advance(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool> {
        if self.waiting.is_some() && self.advance_ahead()? { Ok(true) } else { self.walk.step(within) }
    }

    /// Moves a cursor that stands on an entry that was read ahead. Returns whether the next one was read ahead too.
    #[inline(never)]
    fn advance_ahead(&mut self) -> Result<bool> {
        if let Some(left) = self.waiting.take() {
            self.ahead.leave(&left);
        }
        self.waiting = self.ahead.take_key().transpose()?;
        Ok(self.waiting.is_some())
    }

    /// The key of the entry on which the cursor stands.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.waiting {
            Some(waiting) => &waiting.key,
            None => self.walk.key(),
        }
    }

    /// The key and the value of the entry on which the cursor stands, lent until it moves on. Reads values of value files ahead.
    #[inline]
    pub fn entry(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<(&[u8], &[u8])> {
        if self.waiting.is_none() && self.walk.has_value_beside() {
            return Ok(self.walk.entry_beside());
        }
        self.entry_elsewhere(within)
    }

    /// As [`Scan::entry`], for an entry that was read ahead, or whose value does not lie beside its key.
    #[inline(never)]
    fn entry_elsewhere(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<(&[u8], &[u8])> {
        if self.waiting.is_none() && self.walk.is_in_value_file() {
            self.read_onward(within);
        }
        match &mut self.waiting {
            Some(waiting) => waiting.entry(&self.ahead),
            None => self.walk.entry(),
        }
    }

    #[cold]
    fn read_onward(&mut self, within: impl Fn(&[u8]) -> bool) {
        if let LazyValue::InBody(value) = self.walk.take_value() {
            let first = (self.walk.key().to_vec(), value);
            self.waiting = Some(self.ahead.read_onward(first, || self.walk.take_next(&within)));
        }
    }

    /// Takes the last entry that was read ahead: the scan from the other end has come to it.
    pub fn take_last(&mut self) -> Option<Result<Entry>> {
        self.ahead.take_last()
    }
}

/// A walk in key order.
pub struct ForwardWalk {
    merge: ViewCursor,
    at: SeqNo,
    /// The last key decided, unless the merge stands at it: then the merge has the key.
    key: KeyBuffer,
    /// The number of the version that decided; the walk passes over older versions of its key.
    seq: SeqNo,
    /// Whether the version that decided lies in a table.
    is_in_table: bool,
    started: bool,
    /// The merge stands at the entry that the last step found: the version that decided.
    is_on_entry: bool,
    /// A jump found that no living key follows.
    is_at_end: bool,
    /// The walk came to the end of its range.
    has_ended: bool,
    count: Count,
    payers: Payers,
    trail: Trail,
}

impl ForwardWalk {
    /// Starts at the lower bound.
    pub fn new(
        view: &FamilyView,
        at: SeqNo,
        low: Bound<&[u8]>,
        context: &mut ScanContext,
    ) -> Result<ForwardWalk> {
        let mut trail = Trail::new(context.gaps.take(), view.gaps.clone(), at);
        let start = match low {
            Bound::Unbounded => KeyBuffer::new(),
            Bound::Included(key) => KeyBuffer::of(key),
            Bound::Excluded(key) => KeyBuffer::successor_of(key),
        };
        let jump = trail.jump_from(&start);
        let mut merge = ViewCursor::new(view);
        let mut is_at_end = false;
        let first = match &jump {
            Some(Jump::To(key)) => Some(key.as_slice()),
            Some(Jump::End) => None,
            None => (low != Bound::Unbounded).then_some(start.as_slice()),
        };
        match first {
            Some(key) => merge.seek(key)?,
            None if jump.is_some() => is_at_end = true,
            None => merge.seek_to_first()?,
        }
        let payers = Payers::new(view, first, context);
        if jump.is_none() {
            trail.begin(Some(start));
        }
        Ok(ForwardWalk {
            merge,
            at,
            key: KeyBuffer::new(),
            seq: 0,
            is_in_table: false,
            started: false,
            is_on_entry: false,
            is_at_end,
            has_ended: false,
            count: Count::default(),
            payers,
            trail,
        })
    }

    /// The number of the version that decided the last key.
    pub fn seq(&self) -> SeqNo {
        self.seq
    }

    /// Takes a dead key as the next one decided. Jumps if it lies in a gap.
    fn pass_dead(&mut self) -> Result<()> {
        if self.trail.is_idle() && self.started {
            self.trail.begin(Some(KeyBuffer::successor_of(&self.key)));
        }
        let asks = self.trail.step();
        self.decide();
        self.merge.next()?;
        if asks && let Some(jump) = self.trail.jump_from(&self.key) {
            match jump {
                Jump::End => self.is_at_end = true,
                Jump::To(high) if self.merge.valid() && self.merge.key() < high.as_slice() => {
                    self.merge.seek(&high)?;
                }
                Jump::To(_) => {}
            }
        }
        if self.trail.is_offer_due() {
            self.trail.offer_up_to(&self.key);
        }
        Ok(())
    }

    /// Ends the trail before the key at which the merge stands, which the reader sees.
    #[cold]
    fn end_trail(&mut self) {
        if self.trail.end_forward(Some(self.merge.key().to_vec())) {
            self.merge.keep();
        }
    }

    /// Takes the key of the merge as the next one decided.
    fn decide(&mut self) {
        self.started = true;
        self.key.set(self.merge.key());
        self.payers.key();
        self.decide_by(self.merge.seq());
        self.count.first_key.get_or_insert_with(|| KeyBuffer::of(&self.key));
    }

    /// Takes the version of the merge, which has this number, as the one that decided.
    #[inline(always)]
    fn decide_by(&mut self, seq: SeqNo) {
        self.seq = seq;
        self.is_in_table = self.merge.is_in_table();
    }

    /// Moves from the last key decided to the next entry.
    fn search(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool> {
        let mut versions = 0;
        while self.merge.valid() && !self.is_at_end {
            let decided = self.started && self.merge.key() == self.key.as_slice();
            if decided || self.merge.seq() > self.at {
                versions += u32::from(decided);
                if decided {
                    self.trail.step_hidden(1);
                    if self.is_in_table && self.merge.is_in_table() {
                        self.payers.hidden(&self.key, self.seq);
                    }
                }
                if versions > VERSIONS_BEFORE_A_SEEK {
                    // The next possible key is this one with a zero byte behind it.
                    self.key.push(0);
                    self.merge.seek(&self.key)?;
                    self.key.pop();
                    versions = 0;
                } else {
                    self.merge.next()?;
                }
                continue;
            }
            if !within(self.merge.key()) {
                break;
            }
            versions = 0;
            if self.merge.kind() != EntryKind::Put {
                self.pass_dead()?;
                continue;
            }
            if !self.trail.is_idle() {
                self.end_trail();
            }
            self.decide();
            self.is_on_entry = true;
            self.count.entries_returned += 1;
            return Ok(true);
        }
        self.has_ended = true;
        Ok(false)
    }
}

impl Walk for ForwardWalk {
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

    #[inline(always)]
    fn take_value(&mut self) -> LazyValue {
        assert!(self.is_on_entry, "the walk found an entry");
        self.merge.lazy_value()
    }

    #[inline]
    fn entry(&mut self) -> Result<(&[u8], &[u8])> {
        assert!(self.is_on_entry, "the walk found an entry");
        self.merge.fetch()?;
        Ok((self.merge.key(), self.merge.value()))
    }

    #[inline]
    fn is_in_value_file(&self) -> bool {
        self.is_on_entry && self.merge.is_in_value_file()
    }

    // `Scan::step` calls this function in two places. The compiler would inline neither call by itself.
    #[inline(always)]
    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<bool> {
        if mem::take(&mut self.is_on_entry) {
            let moved = self.merge.next();
            // Mostly the next entry follows at once. Then the last key is not needed any more, and is not copied.
            if moved.is_ok() && self.merge.valid() && !self.merge.continues_key() {
                let (seq, kind) = self.merge.version();
                if seq <= self.at && kind == EntryKind::Put && within(self.merge.key()) {
                    self.decide_by(seq);
                    self.is_on_entry = true;
                    self.count.entries_returned += 1;
                    return Ok(true);
                }
            }
            self.key.set(self.merge.key_before());
            self.payers.key();
            moved?;
        }
        self.search(within)
    }

    fn leave_gap(&mut self, far: &Bound<Vec<u8>>) {
        if mem::take(&mut self.has_ended) && !self.trail.is_idle() {
            let bound = match far {
                Bound::Unbounded => None,
                Bound::Included(key) => Some(successor(key)),
                Bound::Excluded(key) => Some(key.clone()),
            };
            let next = (self.merge.valid() && !self.is_at_end).then(|| self.merge.key().to_vec());
            let is_offered = self.trail.end_forward(match (bound, next) {
                (Some(bound), Some(next)) => Some(bound.min(next)),
                (bound, next) => bound.or(next),
            });
            if is_offered {
                self.merge.keep();
            }
        }
        self.trail.deliver();
    }
}
