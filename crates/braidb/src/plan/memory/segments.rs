//! Memory compaction: when segments of the pipeline are flattened, merged or compacted.
//!
//! Flattening frees the nodes of a skiplist, and the superseded versions within the segment. Merging the indices gives readers fewer places
//! to look. Compacting frees all superseded versions, and costs a copy of the live ones.
//!
//! The policies come from Accordion (section 3.2). *Basic* only merges. *Eager* compacts each segment with all others.
//! *Adaptive* compacts at random, with a chance that grows with each flattened segment, once many versions are superseded.
//! Merges leave large old segments alone until the new ones add up to as much.

use crate::memory::{Immutable, Merged};
use std::ops::Range;

/// How memory is kept small before it is flushed to a table.
///
/// ```
/// use braidb::Options;
/// use braidb::tuning::MemoryPolicy;
/// let options = Options::new().tuning(|tuning| tuning.memory_policy(MemoryPolicy::Adaptive { redundancy_percent: 35 }));
/// # drop(options);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Not at all: one skiplist takes the whole budget.
    None,
    /// Full segments are flattened, and their indices merged when there are too many. Superseded versions within a segment are dropped.
    Basic,
    /// Each full segment is merged with all others at once, and all superseded versions are dropped.
    Eager,
    /// As `Basic`. If the last merges met many superseded versions, superseded versions of all segments are dropped too.
    Adaptive {
        /// Memory may be compacted if more than this percentage of its versions is superseded; 1 to 99. A higher value suits uniform loads,
        /// a lower value saves writes.
        redundancy_percent: u32,
    },
}

/// The options of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct SegmentOptions {
    pub policy: MemoryPolicy,
    /// Flat segments that may stand beside each other.
    pub segments: usize,
}

/// What to do with the pipeline of a family. The ranges are indices into the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryStep {
    Flatten(Range<usize>),
    Merge(Range<usize>),
    Compact(Range<usize>),
}

impl MemoryStep {
    pub fn parts(&self) -> Range<usize> {
        match self {
            MemoryStep::Flatten(parts) | MemoryStep::Merge(parts) | MemoryStep::Compact(parts) => {
                parts.clone()
            }
        }
    }
}

/// Chance that a merge drops superseded versions, at first and after each flush.
const THROTTLE: f64 = 0.5;
/// Factor by which the chance grows with each flattened segment.
const THROTTLE_GROWTH: f64 = 1.02;

/// Statistics of superseded versions in a family's memory.
#[derive(Clone, Copy, Debug)]
pub struct Redundancy {
    /// The chance that a merge drops superseded versions, if the last one met enough of them.
    throttle: f64,
    /// How many of 1,000 entries of the last merge had different keys. After a compaction: how many stayed. `None` before the
    /// first.
    unique_permille: Option<u64>,
}

impl Default for Redundancy {
    fn default() -> Redundancy {
        Redundancy { throttle: THROTTLE, unique_permille: None }
    }
}

impl Redundancy {
    /// A step produced `merged`.
    pub fn replaced(&mut self, step: &MemoryStep, merged: &Merged) {
        match step {
            MemoryStep::Flatten(_) => self.throttle = (self.throttle * THROTTLE_GROWTH).min(1.0),
            MemoryStep::Merge(_) => self.unique_permille = Some(merged.keys * 1000 / merged.entries),
            // Versions that snapshots need count as unique: copying them again gains nothing.
            MemoryStep::Compact(_) => {
                self.unique_permille = Some((merged.entries - merged.dropped) * 1000 / merged.entries);
            }
        }
    }

    /// A flush took all of memory.
    pub fn flushed(&mut self) {
        self.throttle = THROTTLE;
    }

    fn wants_compaction(&self, redundancy_percent: u32, chance: u64) -> bool {
        let is_redundant =
            self.unique_permille.is_some_and(|unique| 1000 - unique > u64::from(redundancy_percent) * 10);
        is_redundant && (chance as f64) < self.throttle * u64::MAX as f64
    }
}

/// The next step for a pipeline, newest segment first. `chance` is a random number. `may_copy` says whether memory has room for
/// the second copy of all live versions that compacting needs.
///
/// Lists are flattened oldest first, so lists stand in front of all flat segments. If memory `compacts_full`, the policy is not
/// asked: all segments become one instead of a flush.
pub fn compact_memory(
    pipeline: &[Immutable],
    redundancy: &Redundancy,
    chance: u64,
    may_copy: bool,
    compacts_full: bool,
    options: &SegmentOptions,
) -> Option<MemoryStep> {
    if compacts_full {
        return Some(MemoryStep::Compact(0..pipeline.len()));
    }
    let lists = pipeline.iter().take_while(|part| part.is_list()).count();
    debug_assert!(!pipeline[lists..].iter().any(Immutable::is_list));
    if options.policy == MemoryPolicy::None {
        return None;
    }
    if lists > 0 {
        return Some(MemoryStep::Flatten(lists - 1..lists));
    }
    let all = 0..pipeline.len();
    match options.policy {
        MemoryPolicy::Eager if all.len() > 1 && may_copy => Some(MemoryStep::Compact(all)),
        MemoryPolicy::Eager if all.len() > options.segments => Some(MemoryStep::Merge(all)),
        MemoryPolicy::Adaptive { redundancy_percent } if all.len() > options.segments => {
            let compacts = may_copy && redundancy.wants_compaction(redundancy_percent, chance);
            Some(if compacts {
                MemoryStep::Compact(all)
            } else {
                MemoryStep::Merge(newest_of_a_size(pipeline))
            })
        }
        MemoryPolicy::Basic if all.len() > options.segments => {
            Some(MemoryStep::Merge(newest_of_a_size(pipeline)))
        }
        _ => None,
    }
}

/// The newest two segments, and each older one that is no larger than the sum of all newer ones. So an entry is read in few
/// merges, however long the pipeline gets.
fn newest_of_a_size(pipeline: &[Immutable]) -> Range<usize> {
    let mut entries = 0;
    let end = pipeline.iter().enumerate().find(|(index, part)| {
        let is_larger = *index >= 2 && part.entries() > entries;
        entries += part.entries();
        is_larger
    });
    0..end.map_or(pipeline.len(), |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Records, Segment, merge};
    use crate::visible::EntryKind;
    use crate::visible::rule::{DropProof, RetentionFilter};

    /// A pipeline of lists that hold equal keys.
    fn lists(numbers: Range<u64>) -> Vec<Immutable> {
        let list = |number: u64| {
            let (segment, mut writer) = Segment::new(number);
            for key in 0..4u64 {
                writer.insert(&key.to_be_bytes(), number * 4 + key + 1, EntryKind::Put, b"v");
            }
            segment
        };
        numbers.rev().map(|number| Immutable::List(list(number))).collect()
    }

    /// Carries out steps until none is wanted; returns their initials.
    fn settle(
        pipeline: &mut Vec<Immutable>,
        redundancy: &mut Redundancy,
        options: &SegmentOptions,
    ) -> String {
        settle_under(&[], pipeline, redundancy, options)
    }

    /// As `settle`, with readers at `snapshots`.
    fn settle_under(
        snapshots: &[u64],
        pipeline: &mut Vec<Immutable>,
        redundancy: &mut Redundancy,
        options: &SegmentOptions,
    ) -> String {
        let mut steps = String::new();
        while let Some(step) = compact_memory(pipeline, redundancy, 0, true, false, options) {
            let parts = step.parts();
            let retention = || Some(RetentionFilter::new(DropProof::new(snapshots.to_vec(), u64::MAX)));
            let retention = if matches!(step, MemoryStep::Compact(_)) { retention() } else { None };
            let merged = merge(&pipeline[parts.clone()], retention, Records::Stay, || true).unwrap();
            redundancy.replaced(&step, &merged);
            pipeline.splice(parts, [Immutable::Flat(merged.flat)]);
            steps.push(match step {
                MemoryStep::Flatten(_) => 'f',
                MemoryStep::Merge(_) => 'm',
                MemoryStep::Compact(_) => 'c',
            });
        }
        steps
    }

    fn steps(policy: MemoryPolicy, segments: usize, count: u64) -> String {
        settle(&mut lists(1..count + 1), &mut Redundancy::default(), &SegmentOptions { policy, segments })
    }

    #[test]
    fn each_policy_does_what_it_is_for() {
        let adaptive = MemoryPolicy::Adaptive { redundancy_percent: 35 };
        assert_eq!(steps(MemoryPolicy::None, 2, 5), "");
        assert_eq!(steps(MemoryPolicy::Basic, 5, 5), "fffff");
        assert_eq!(steps(MemoryPolicy::Basic, 4, 5), "fffffm");
        assert_eq!(steps(MemoryPolicy::Eager, 4, 1), "f");
        assert_eq!(steps(MemoryPolicy::Eager, 4, 3), "fffc");
        assert_eq!(steps(adaptive, 2, 3), "fffm", "nothing was measured yet");
    }

    /// A merge of all segments each time would read an entry in a third of all merges.
    #[test]
    fn merges_take_segments_of_a_size() {
        let options = SegmentOptions { policy: MemoryPolicy::Basic, segments: 4 };
        let (mut pipeline, mut read) = (Vec::new(), 0);
        for number in 1..=64 {
            pipeline.splice(0..0, lists(number..number + 1));
            while let Some(step) = compact_memory(&pipeline, &Redundancy::default(), 0, true, false, &options)
            {
                let parts = step.parts();
                let merged = merge(&pipeline[parts.clone()], None, Records::Stay, || true).unwrap();
                if let MemoryStep::Merge(_) = step {
                    read += merged.entries;
                }
                pipeline.splice(parts, [Immutable::Flat(merged.flat)]);
            }
            assert!(pipeline.len() <= 4);
            assert_eq!(pipeline.iter().map(Immutable::entries).sum::<u64>(), number * 4);
        }
        assert!(read <= 64 * 4 * 5, "each entry was read in {} merges", read / (64 * 4));
    }

    #[test]
    fn adaptive_compacts_what_was_seen_to_be_redundant() {
        let choice = |unique_permille: u64, throttle: f64, chance: u64| {
            let redundancy = Redundancy { throttle, unique_permille: Some(unique_permille) };
            redundancy.wants_compaction(35, chance)
        };
        assert!(choice(600, 0.5, u64::MAX / 4) && !choice(600, 0.5, u64::MAX / 4 * 3));
        assert!(choice(600, 0.8, u64::MAX / 4 * 3), "the chance grows");
        assert!(!choice(700, 1.0, 0), "too few are superseded");
        let options =
            SegmentOptions { policy: MemoryPolicy::Adaptive { redundancy_percent: 35 }, segments: 1 };
        let mut redundancy = Redundancy::default();
        let mut pipeline = lists(1..5);
        assert_eq!(settle(&mut pipeline, &mut redundancy, &options), "ffffm");
        assert_eq!(redundancy.unique_permille, Some(250));
        assert!(redundancy.throttle > 0.54);
        pipeline.splice(0..0, lists(5..6));
        assert_eq!(settle(&mut pipeline, &mut redundancy, &options), "fc");
        redundancy.flushed();
        assert_eq!(redundancy.throttle, THROTTLE);
    }

    #[test]
    fn adaptive_stops_compacting_what_snapshots_hold() {
        let policy = MemoryPolicy::Adaptive { redundancy_percent: 35 };
        let options = SegmentOptions { policy, segments: 1 };
        let mut redundancy = Redundancy::default();
        // With a snapshot between any two lists, all four versions of each key are needed.
        let snapshots: Vec<u64> = (1..5).map(|number| number * 4 + 4).collect();
        let mut pipeline = lists(1..4);
        assert_eq!(settle_under(&snapshots, &mut pipeline, &mut redundancy, &options), "fffm");
        pipeline.splice(0..0, lists(4..5));
        assert_eq!(settle_under(&snapshots, &mut pipeline, &mut redundancy, &options), "fc");
        pipeline.splice(0..0, lists(5..6));
        assert_eq!(settle_under(&snapshots, &mut pipeline, &mut redundancy, &options), "fm");
    }
}
