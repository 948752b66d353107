//! What a scan reads in vain: which slices pay rent for it, and what it tells the jobs about garbage.
//!
//! Only what a merge of tables would spare the scan counts. So an entry counts as hidden if it lies in a table, the entry that hides it
//! lies in a table too, and no reader can see it any more. Tombstones in memory count for nothing: no merge of tables removes what
//! they hide, and gaps (`visible/gaps.rs`) let later scans jump over the ranges of such tombstones.

use super::scan::ScanContext;
use crate::base::ids::SeqNo;
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::memory::view::FamilyView;
use crate::version::Slice;
use crate::version::usage::rent::Paid;
use crate::visible::snapshots::Snapshots;
use smallvec::SmallVec;
use std::sync::Arc;

/// Entries of tables that entries of tables hide from all readers.
#[derive(Debug)]
pub struct MetGarbage {
    /// From the first key with such an entry to the last.
    pub range: KeyRange,
    /// Hidden entries that the walk read beyond the entries that it showed.
    pub entries: u64,
}

/// The keys from the lesser of two to the greater.
pub fn range_of(a: &[u8], b: &[u8]) -> KeyRange {
    KeyRange { low: a.min(b).to_vec(), high: a.max(b).to_vec() }
}

/// The entries that a walk read in vain and that a merge of tables would remove: an entry of a table hides them from all readers. No merge
/// of tables removes what memory hides or what a snapshot keeps.
pub struct GarbageCount {
    snapshots: Arc<Snapshots>,
    /// Entries with numbers up to this hide older ones from every reader. Asked for at the first hidden entry.
    watermark: Option<SeqNo>,
    entries: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl GarbageCount {
    /// Counts an entry of a table that one of a table with the number `by` hides. Returns whether a merge would remove it.
    #[inline]
    fn hidden(&mut self, key: &[u8], by: SeqNo) -> bool {
        let watermark = *self.watermark.get_or_insert_with(|| self.snapshots.watermark());
        if by > watermark && !mutant!("rent_of_kept_versions") {
            return false;
        }
        if self.entries == 0 {
            self.first_key = key.to_vec();
        }
        self.entries += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        true
    }

    /// By how many the hidden entries exceed `entries_returned`, and where they lie. `None` if they do not.
    pub fn beyond(&self, entries_returned: u64) -> Option<MetGarbage> {
        let entries = self.entries.saturating_sub(entries_returned);
        (entries > 0).then(|| MetGarbage { range: range_of(&self.first_key, &self.last_key), entries })
    }
}

/// The slices that are charged for what a scan reads in vain: those whose range holds the key where the scan begins, except the oldest. The
/// scan needs a cursor in each, and would need only one after a merge of all. Its hidden entries are shared out among the charged slices.
pub struct Payers {
    slices: SmallVec<[Arc<Slice>; 16]>,
    /// How often the scan is charged: 0 for most scans.
    weight: u64,
    pub garbage: GarbageCount,
    /// The hidden entries of all keys, and those of the latest key. One key counts at most as many as there are `slices`.
    steps: u64,
    steps_of_key: u64,
}

impl Payers {
    /// A scan that has no bound and makes no jump is not charged: few scans begin at an end of the key space.
    pub fn new(view: &FamilyView, start: Option<&[u8]>, context: &ScanContext) -> Payers {
        let ScanContext { weight, is_heat_counted, .. } = *context;
        let mut slices = SmallVec::new();
        if let Some(key) = start
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
        let garbage = GarbageCount {
            snapshots: context.snapshots.clone(),
            watermark: None,
            entries: 0,
            first_key: Vec::new(),
            last_key: Vec::new(),
        };
        Payers { slices, weight, garbage, steps: 0, steps_of_key: 0 }
    }

    /// Begins a key.
    #[inline]
    pub fn key(&mut self) {
        self.steps_of_key = 0;
    }

    /// Counts an entry of a table that one of a table with the number `by` hides.
    #[inline]
    pub fn hidden(&mut self, key: &[u8], by: SeqNo) {
        if self.garbage.hidden(key, by) && self.steps_of_key < self.slices.len() as u64 {
            self.steps_of_key += 1;
            self.steps += 1;
        }
    }
}

impl Drop for Payers {
    fn drop(&mut self) {
        let slices = self.slices.len() as u64;
        for slice in &self.slices {
            // A long scan leaves the slices where it began. So no slice is charged for more steps than it has entries.
            let steps = (self.steps / slices).min(slice.entries) * self.weight;
            slice.charge(Paid { cursors: self.weight, steps, ..Paid::default() });
        }
    }
}
