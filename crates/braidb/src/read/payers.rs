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
use crate::version::rent::Paid;
use crate::version::{Slice, Version};
use crate::visible::snapshots::Snapshots;
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

/// The entries that a walk read in vain and that a merge of tables would remove: an entry of a table hides them from all readers.
/// What memory hides, or a snapshot keeps, no merge of tables removes.
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

    /// The entries beyond those that the walk returned, if there are any.
    pub fn beyond(&self, entries_returned: u64) -> Option<MetGarbage> {
        let entries = self.entries.saturating_sub(entries_returned);
        (entries > 0).then(|| MetGarbage { range: range_of(&self.first_key, &self.last_key), entries })
    }
}

/// Which slices pay for what a scan reads in vain. The slices that hold the key where the scan begins, but for the oldest, pay for a
/// cursor: a scan would need one if they were one run. The slice of the hiding entry pays for a hidden entry.
pub struct Payers {
    slices: Vec<Arc<Slice>>,
    /// How often the scan is charged: 0 for most scans.
    weight: u64,
    /// Where the slice of a hiding entry is looked for, if the scan is charged.
    version: Option<Arc<Version>>,
    pub garbage: GarbageCount,
    /// The slice that hid the latest entry, and how many it hid in a row.
    hider: Option<(Arc<Slice>, u64)>,
}

impl Payers {
    /// A scan without a bound that makes no jump begins where few do, and pays for no cursor.
    pub fn new(view: &FamilyView, start: Option<&[u8]>, context: &ScanContext) -> Payers {
        let ScanContext { weight, is_heat_counted, .. } = *context;
        let mut slices = Vec::new();
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
        Payers { slices, weight, version: (weight > 0).then(|| view.version.clone()), garbage, hider: None }
    }

    /// Counts an entry of a table that one of a table with the number `by` hides.
    #[inline]
    pub fn hidden(&mut self, key: &[u8], by: SeqNo) {
        if self.garbage.hidden(key, by)
            && let Some(version) = self.version.clone()
        {
            self.charge_hider(&version, key, by);
        }
    }

    fn charge_hider(&mut self, version: &Version, key: &[u8], by: SeqNo) {
        let holds = |slice: &Slice| slice.range.contains(key) && (slice.seqs.0..=slice.seqs.1).contains(&by);
        if !self.hider.as_ref().is_some_and(|(slice, _)| holds(slice)) {
            self.pay_for_hidden();
            let runs = version.levels().flat_map(|level| &level.cell(key).runs);
            let found = runs.filter_map(|run| run.find(key)).find(|slice| holds(slice));
            self.hider = found.map(|slice| (slice.clone(), 0));
        }
        if let Some((_, steps)) = &mut self.hider {
            *steps += 1;
        }
    }

    fn pay_for_hidden(&mut self) {
        if let Some((slice, steps)) = self.hider.take() {
            slice.charge(Paid { steps: steps * self.weight, ..Paid::default() });
        }
    }
}

impl Drop for Payers {
    fn drop(&mut self) {
        self.pay_for_hidden();
        for slice in &self.slices {
            slice.charge(Paid { cursors: self.weight, ..Paid::default() });
        }
    }
}
