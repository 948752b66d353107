//! Whether L0 is merged now or waits for more (TRIAD-DISK, section 4.2 of the paper).
//!
//! A merge of L0 writes what it meets in L1 again. It pays better the more tables take part, and if they share keys it pays
//! at once, since of a key that stands in several tables all but one entry are dropped. So where enough tables for a merge lie
//! in L0 but few keys stand in more than one of them, the merge is *deferred* until they overlap or have become many.
//!
//! *Overlap* is the share of keys that go in a merge: 1 - distinct keys of all tables / sum of the distinct keys of each, from
//! their sketches. Where a table has none, as those of earlier versions, nobody waits: the null policy counts tables.
//! Deferral below L0 ([`super::leveled`]) asks for the same estimate, with this policy or without it: it gathers tables of L0 by
//! what would be left of them.
//!
//! *What waits* is a merge. A table that moves as metadata costs nothing whenever it moves, so it doesn't wait: one that lies
//! alone in its range, as in sequential writes, or one that a cell of L1 has room for. Where cells of L1 hold several runs, L0
//! is handed over and never merged (but at its hard limit), so there nothing waits, no estimate is asked for, and no sketch is
//! written: what a merge of L0 would drop, the merge of the same runs drops in their cell, and waiting with them in L0 was
//! measured to cost both bytes and reads (docs/decisions/measurements.md).
//!
//! *What outranks waiting*: L0 at its soft limit, since an estimate must not make writers wait; tombstones and old versions in
//! L0, which hold space; too much estimated garbage in the whole family (`cells/garbage.rs`); and whoever compacts by hand.

use super::TreeOptions;
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::base::sketch::Sketch;
use crate::plan::values;
use crate::version::{Slice, Version};
use std::sync::Arc;

/// Nothing waits where one entry of L0 in so many is garbage.
const GARBAGE_SHARE: u64 = 4;

/// Which tables are asked how much they overlap before L0 is merged.
///
/// ```
/// use braidb::Options;
/// use braidb::tuning::OverlapScope;
/// let options = Options::new().tuning(|tuning| tuning.overlap_scope(OverlapScope::L0AndL1));
/// # drop(options);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapScope {
    /// Those of L0: what a merge drops of them. TRIAD, Algorithm 2.
    L0,
    /// Those of L0, and of L1 what lies in their range. TRIAD, section 4.2.
    L0AndL1,
}

/// When a merge of L0 is deferred.
#[derive(Clone, Copy, Debug)]
pub struct OverlapOptions {
    /// Merges of less overlap are deferred; 0 defers none.
    pub percent: u32,
    /// With more tables in L0 none is.
    pub tables: usize,
    pub scope: OverlapScope,
}

/// What becomes of L0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has too few tables for a merge.
    Few,
    /// It has enough, and the merge is deferred.
    Deferred,
    /// It is merged because its tables overlap.
    Overlap,
    /// It is merged whatever they overlap.
    Due,
}

/// The verdict on those tables of L0 that no job works on. `overlap_permille` is what was estimated.
pub fn verdict<'a>(
    l0: impl IntoIterator<Item = &'a Arc<Slice>>,
    overlap_permille: Option<u64>,
    options: &TreeOptions,
) -> Verdict {
    let (mut tables, mut garbage, mut entries) = (0, 0u64, 0u64);
    let (mut bytes, mut value_bytes) = (0u64, 0u64);
    for slice in l0 {
        tables += 1;
        bytes = bytes.saturating_add(slice.bytes);
        value_bytes = value_bytes.saturating_add(slice.value_bytes());
        garbage = garbage.saturating_add(slice.garbage());
        entries = entries.saturating_add(slice.entries);
    }
    // Tables of handles wait for no others: a merge writes little, and what they hide in value files is not known before.
    if values::is_separated(bytes, value_bytes) {
        return Verdict::Due;
    }
    if tables < options.l0_merge_tables {
        return Verdict::Few;
    }
    let Some(permille) = overlap_permille.filter(|_| options.overlap.percent > 0) else {
        return Verdict::Due;
    };
    if permille >= 10 * u64::from(options.overlap.percent) {
        return Verdict::Overlap;
    }
    let is_full = tables > options.overlap.tables || tables >= options.l0_slowdown_tables;
    let is_heavy = garbage.saturating_mul(GARBAGE_SHARE) > entries;
    let is_deferred = !is_full && !is_heavy || mutant!("overlap_ignores_the_limit");
    if is_deferred { Verdict::Deferred } else { Verdict::Due }
}

/// The verdict on L0 as a whole, and the estimate that it goes by.
pub fn weigh(version: &Version, options: &TreeOptions) -> (Option<u64>, Verdict) {
    let permille = estimate_permille(version, options);
    let l0 = version.level(0).slices().map(|(_, _, slice)| slice);
    (permille, verdict(l0, permille, options))
}

/// Of a thousand keys in the tables that a merge of L0 concerns, so many stand in another of them too. `None` if there is no
/// question of a merge, if no policy asks, or where a sketch is missing.
pub fn estimate_permille(version: &Version, options: &TreeOptions) -> Option<u64> {
    let mut slices = concerned(version, options)?;
    // A sketch is of a whole table, which may lie in many cells of L1.
    slices.sort_by_key(|slice| slice.table.id);
    slices.dedup_by_key(|slice| slice.table.id);
    let (mut union, mut sum) = (Sketch::default(), 0.0);
    for slice in &slices {
        let sketch = slice.table.sketch()?;
        union.unite(sketch);
        sum += sketch.estimate();
    }
    Some(permille(union.estimate(), sum))
}

/// The slices whose overlap is asked for, if it is.
pub fn concerned(version: &Version, options: &TreeOptions) -> Option<Vec<Arc<Slice>>> {
    let l0 = version.level(0);
    if !options.wants_sketch(0) || l0.runs() < options.l0_merge_tables {
        return None;
    }
    let mut slices: Vec<Arc<Slice>> = l0.slices().map(|(_, _, slice)| slice.clone()).collect();
    if options.asks_l1()
        && let Some(range) = KeyRange::hull(slices.iter().map(|slice| &slice.range))
    {
        slices.extend(version.level(1).overlapping(&range).map(|(_, _, slice)| slice.clone()));
    }
    Some(slices)
}

/// The overlap of sets with so many keys in all, of them so many different.
pub fn permille(distinct: f64, sum: f64) -> u64 {
    if sum > 0.0 { (1000.0 * (1.0 - distinct / sum)).max(0.0) as u64 } else { 0 }
}
