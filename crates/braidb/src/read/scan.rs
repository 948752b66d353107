//! Scans: from the merged entries of a view, the newest version of each key that a reader may see.
//!
//! A merge delivers every version of every key. Going forward, the newest visible version of a key comes before its older ones.
//! So the walk takes the first version that the reader may see and passes over the rest. Going backward, the oldest version comes
//! first. So the walk keeps the latest version that the reader may see until the key changes.

use super::ahead::Ahead;
use super::source::Source;
use crate::base::counters::LEVELS;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::memory::view::FamilyView;
use crate::plan::values::ValueLayout;
use crate::plan::values::gathering::Vain;
use crate::version::Slice;
use crate::version::cursor::RunCursor;
use crate::version::level_cursor::LevelCursor;
use crate::version::rent::Paid;
use crate::visible::merge::MergeCursor;
use crate::visible::{Cursor, EntryKind, LazyValue};
use braidb_storage::Clock;
use std::iter;
use std::ops::Bound;
use std::sync::Arc;

/// What a scan yields: a key of its own and a pinned value.
pub type Entry = (Vec<u8>, Value);

/// What a walk finds: a key of its own, and a value that may have to be read yet.
pub type Found = (Vec<u8>, LazyValue);

/// Versions of one key after which a forward walk seeks the next key: a hot key in memory may have thousands.
const VERSIONS_BEFORE_A_SEEK: u32 = 32;

/// The range that a walk read, and what it wasted.
#[derive(Debug)]
pub struct Passed {
    /// From the first key read to the last.
    pub range: KeyRange,
    /// How many more entries were read without being shown than were shown.
    pub wasted: u64,
    pub entries_returned: u64,
    pub vain: Vain,
    /// The bytes of entries that the user took, if the scan went on behind the first value that lies in a value file.
    pub length_bytes: Option<u64>,
}

/// Counts the entries that a walk reads.
#[derive(Debug, Default)]
pub struct Count {
    first_key: Option<Vec<u8>>,
    skipped: u64,
    entries_returned: u64,
}

impl Count {
    fn passed(&self, last_key: &[u8], ahead: &Ahead) -> Option<Passed> {
        let first_key = self.first_key.as_deref()?;
        let range =
            KeyRange { low: first_key.min(last_key).to_vec(), high: first_key.max(last_key).to_vec() };
        Some(Passed {
            range,
            wasted: self.skipped.saturating_sub(self.entries_returned),
            entries_returned: self.entries_returned,
            vain: ahead.vain(),
            length_bytes: ahead.length_bytes(),
        })
    }
}

/// Every sorted source of a view: memory, the runs of L0, and the levels below.
fn sources(view: &FamilyView) -> Vec<Source> {
    let memory = view.memory.immutable().map(|segment| Source::Immutable(segment.cursor()));
    let runs = view.version.level(0).cells.iter().flat_map(|cell| &cell.runs);
    let runs = runs.map(|run| Source::Run(Box::new(RunCursor::new(run.slices.clone(), true))));
    let levels =
        (1..LEVELS).map(|number| view.version.shared_level(number)).filter(|level| !level.is_empty());
    let levels = levels.map(|level| Source::Level(LevelCursor::new(level.clone())));
    let active = Source::Active(view.memory.active().cursor());
    iter::once(active).chain(memory).chain(runs).chain(levels).collect()
}

/// Who pays for what a scan reads in vain: the slices that hold the keys where the scan begins, but for the oldest. A scan needs a cursor in
/// each of them, and would need one if they were one run. What it reads of hidden entries is shared out among them.
struct Payers {
    slices: Vec<Arc<Slice>>,
    weight: u64,
    /// Entries with numbers up to this hide older ones from every reader.
    watermark: SeqNo,
    /// Hidden entries: all, and those of the latest key. A key counts for no more than there are slices. Memory may hold many more versions
    /// of it, which no merge of tables would drop.
    steps: u64,
    steps_of_key: u64,
}

impl Payers {
    /// A scan without a bound begins where few do, and is not charged.
    fn new(view: &FamilyView, bound: &Bound<Vec<u8>>, context: &ScanContext) -> Payers {
        let ScanContext { weight, watermark, is_heat_counted, .. } = *context;
        let mut slices = Vec::new();
        if let Bound::Included(key) | Bound::Excluded(key) = bound
            && (weight > 0 || is_heat_counted)
        {
            let runs = view.version.levels().flat_map(|level| &level.cell(key).runs);
            let met = runs.filter_map(|run| run.find(key)).inspect(|slice| slice.warm(weight));
            if weight > 0 {
                slices.extend(met.cloned());
            } else {
                met.for_each(drop);
            }
            if !mutant!("rent_of_the_oldest") {
                slices.pop();
            }
        }
        Payers { slices, weight, watermark, steps: 0, steps_of_key: 0 }
    }

    /// Begins a key.
    #[inline]
    fn key(&mut self) {
        self.steps_of_key = 0;
    }

    /// Counts an entry that one with the number `by` hides.
    #[inline]
    fn hidden(&mut self, by: SeqNo) {
        let is_kept = by > self.watermark && !mutant!("rent_of_kept_versions");
        if !is_kept && self.steps_of_key < self.slices.len() as u64 {
            self.steps_of_key += 1;
            self.steps += 1;
        }
    }
}

impl Drop for Payers {
    fn drop(&mut self) {
        let slices = self.slices.len() as u64;
        for slice in &self.slices {
            // A long scan leaves the slices where it began. For none of them it pays more than each entry once.
            let steps = (self.steps / slices).min(slice.entries) * self.weight;
            slice.charge(Paid { cursors: self.weight, steps, ..Paid::default() });
        }
    }
}

/// A walk over one view, in one direction.
pub trait Walk {
    /// Finds the next entry, or nothing if its key is not `within` the range. Reads no value.
    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<Option<Found>>;
    /// What the walk counted, and the last key decided, if there is one.
    fn so_far(&self) -> (&Count, Option<&[u8]>);
}

/// A walk that reads values ahead.
pub struct Scan<W> {
    walk: W,
    ahead: Ahead,
}

/// What the engine gives to a scan.
pub struct ScanContext {
    /// How often the scan is charged for what it reads in vain.
    pub weight: u64,
    /// Whether the database has slow tiers: their slices count each scan that begins there.
    pub is_heat_counted: bool,
    /// Every present and future reader is at or above this number.
    pub watermark: SeqNo,
    /// Reads of values ahead are timed by it.
    pub clock: Arc<dyn Clock>,
    pub layout: ValueLayout,
    /// Bytes that most scans of the column family do not exceed: 0 if that is not known yet.
    pub usual_bytes: u64,
}

/// A scan in key order.
pub type Forward = Scan<ForwardWalk>;
/// A scan against key order.
pub type Backward = Scan<BackwardWalk>;

impl Forward {
    /// Starts at the lower bound.
    pub fn new(view: &FamilyView, at: SeqNo, low: &Bound<Vec<u8>>, context: ScanContext) -> Result<Forward> {
        let payers = Payers::new(view, low, &context);
        Ok(Scan { walk: ForwardWalk::new(view, at, low, payers)?, ahead: Ahead::new(context, true) })
    }
}

impl Backward {
    /// Starts at the upper bound.
    pub fn new(
        view: &FamilyView,
        at: SeqNo,
        high: &Bound<Vec<u8>>,
        context: ScanContext,
    ) -> Result<Backward> {
        let payers = Payers::new(view, high, &context);
        Ok(Scan { walk: BackwardWalk::new(view, at, high, payers)?, ahead: Ahead::new(context, false) })
    }
}

impl<W: Walk> Scan<W> {
    /// What the scan read so far, if anything.
    pub fn passed(&self) -> Option<Passed> {
        let (count, last_key) = self.walk.so_far();
        count.passed(last_key?, &self.ahead)
    }

    /// The last key decided: no entry that this scan yielded, or read ahead, lies beyond it.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.walk.so_far().1
    }

    /// The next entry, or nothing if its key is not `within` the range. Reads no value outside of the range.
    #[inline]
    pub fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<Option<Entry>> {
        if let Some(entry) = self.ahead.take_first() {
            return entry.map(Some);
        }
        let found = self.walk.step(&within)?;
        found.map(|found| self.ahead.read(found, || self.walk.step(&within))).transpose()
    }

    /// Takes the last entry that was read ahead: the scan from the other end has come to it.
    pub fn take_last(&mut self) -> Option<Result<Entry>> {
        self.ahead.take_last()
    }
}

/// A walk in key order.
pub struct ForwardWalk {
    merge: MergeCursor<Source>,
    at: SeqNo,
    /// The last key decided, and the number of its version that decided; the walk passes over its older versions.
    key: Vec<u8>,
    seq: SeqNo,
    started: bool,
    count: Count,
    payers: Payers,
}

impl ForwardWalk {
    fn new(view: &FamilyView, at: SeqNo, low: &Bound<Vec<u8>>, payers: Payers) -> Result<ForwardWalk> {
        let mut merge = MergeCursor::new(sources(view));
        match low {
            Bound::Unbounded => merge.seek_to_first()?,
            Bound::Included(key) => merge.seek(key)?,
            Bound::Excluded(key) => {
                merge.seek(key)?;
                while merge.valid() && merge.key() == key.as_slice() {
                    merge.next()?;
                }
            }
        }
        let (key, count) = (Vec::new(), Count::default());
        Ok(ForwardWalk { merge, at, key, seq: 0, started: false, count, payers })
    }
}

impl Walk for ForwardWalk {
    fn so_far(&self) -> (&Count, Option<&[u8]>) {
        (&self.count, self.started.then_some(&self.key))
    }

    // The scan steps in two places. The compiler would inline neither.
    #[inline(always)]
    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<Option<Found>> {
        let mut versions = 0;
        while self.merge.valid() {
            let decided = self.started && self.merge.key() == self.key.as_slice();
            let seq = self.merge.seq();
            if decided || seq > self.at {
                self.count.skipped += 1;
                versions += u32::from(decided);
                if decided {
                    self.payers.hidden(self.seq);
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
            self.started = true;
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            self.seq = seq;
            self.payers.key();
            self.count.first_key.get_or_insert_with(|| self.key.clone());
            let is_put = self.merge.kind() == EntryKind::Put;
            // A closure would not be inlined.
            let value = if is_put { Some(self.merge.lazy_value()) } else { None };
            self.merge.next()?;
            if let Some(value) = value {
                self.count.entries_returned += 1;
                return Ok(Some((self.key.clone(), value)));
            }
            self.count.skipped += 1;
        }
        Ok(None)
    }
}

/// A walk against key order.
pub struct BackwardWalk {
    merge: MergeCursor<Source>,
    at: SeqNo,
    /// The last key decided.
    key: Vec<u8>,
    started: bool,
    count: Count,
    payers: Payers,
}

impl BackwardWalk {
    fn new(view: &FamilyView, at: SeqNo, high: &Bound<Vec<u8>>, payers: Payers) -> Result<BackwardWalk> {
        let mut merge = MergeCursor::new(sources(view));
        match high {
            Bound::Unbounded => merge.seek_to_last()?,
            Bound::Excluded(key) => merge.seek_before(key)?,
            Bound::Included(key) => {
                // The keys up to and including `key` are those before its successor, `key` with a zero byte behind it.
                let successor = [key.as_slice(), &[0]].concat();
                merge.seek_before(&successor)?;
            }
        }
        let (key, count) = (Vec::new(), Count::default());
        Ok(BackwardWalk { merge, at, key, started: false, count, payers })
    }
}

impl Walk for BackwardWalk {
    fn so_far(&self) -> (&Count, Option<&[u8]>) {
        (&self.count, self.started.then_some(&self.key))
    }

    fn step(&mut self, within: impl Fn(&[u8]) -> bool) -> Result<Option<Found>> {
        while self.merge.valid() && within(self.merge.key()) {
            self.started = true;
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            self.count.first_key.get_or_insert_with(|| self.key.clone());
            let mut newest: Option<LazyValue> = None;
            let mut is_first = true;
            self.payers.key();
            while self.merge.valid() && self.merge.key() == self.key.as_slice() {
                if self.merge.seq() <= self.at {
                    if !std::mem::take(&mut is_first) {
                        self.payers.hidden(self.merge.seq());
                    }
                    // The next key tells which version is shown. Only this version's value is read if it lies in a body.
                    let is_put = self.merge.kind() == EntryKind::Put;
                    newest = is_put.then(|| self.merge.lazy_value());
                }
                self.count.skipped += 1;
                self.merge.prev()?;
            }
            if let Some(value) = newest {
                self.count.skipped -= 1;
                self.count.entries_returned += 1;
                return Ok(Some((self.key.clone(), value)));
            }
        }
        Ok(None)
    }
}
