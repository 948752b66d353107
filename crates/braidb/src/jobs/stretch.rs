//! Writes the outputs of a merge, on two threads if the merge is large and a thread is idle.
//!
//! Writers wait for merges of L0, and merges of L0 wait for merges of L1. In a leveled tree such a merge often claims all the
//! work: no second merge can run beside it, and the other threads are idle. So a large merge is cut at a key near its middle,
//! and its parts are subcompactions for two threads (`jobs/subcompactions/mod.rs`).
//!
//! One edit names the tables of both parts, so neither a reader nor a crash can tell them apart. Which file holds a record at each instant
//! is as for any merge. The thread that began the merge holds the inputs, and the loaded logs, until both parts are written. The merge
//! takes no more space on disk than with one thread. Each increment of a large merge is cut by itself: two increments at once took more
//! space than the bound allows.

use super::Jobs;
use super::output::{Outputs, Progress};
use super::subcompactions::{Owned, Subcompactions};
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::key::Span;
use crate::base::mutant::mutant;
use crate::plan::tree::placement::TierMap;
use crate::plan::values::Rewrites;
use crate::plan::{Cutter, Merge};
use crate::table::Reason;
use crate::version::shape::cut::middle;
use crate::version::shape::run_cursor::RunCursor;
use crate::version::{Beneath, Slice, Sorted};
use crate::visible::merge::MergeCursor;
use crate::visible::rule::RetentionFilter;
use std::sync::Arc;

/// A merge is written on two threads if it reads at least 1/4 of a table's size. A smaller one is not worth a second thread and
/// the small tables that the cut makes.
const LEAST_SHARE_OF_TABLE: u64 = 4;
/// Bytes after which a merge asks the rate limit. They are few, so that the limit holds for small merges too.
const PACE_BYTES: u64 = 4 << 10;

/// A span of keys that a merge writes, with its inputs and rules.
pub(super) struct Stretch {
    pub span: Span,
    /// The runs that the merge reads, newest first.
    pub runs: Arc<Vec<Arc<Sorted<Slice>>>>,
    pub family: FamilyId,
    pub to: usize,
    pub reason: Reason,
    pub cutter: Cutter,
    pub retention: RetentionFilter,
    pub beneath: Arc<Beneath>,
    pub rewrites: Option<Arc<Rewrites>>,
    pub tier_map: Arc<TierMap>,
}

impl Stretch {
    /// The part before `key`, and the rest.
    fn cut(self, key: Vec<u8>) -> (Stretch, Stretch) {
        let low =
            if mutant!("upper_half_misses_its_first_key") { [&*key, &[0]].concat() } else { key.clone() };
        let upper = Stretch {
            span: Span { low, end: self.span.end },
            runs: self.runs.clone(),
            family: self.family,
            to: self.to,
            reason: self.reason,
            cutter: self.cutter.clone(),
            retention: self.retention.clone(),
            beneath: self.beneath.clone(),
            rewrites: self.rewrites.clone(),
            tier_map: self.tier_map.clone(),
        };
        (Stretch { span: Span { low: self.span.low, end: Some(key) }, ..self }, upper)
    }
}

impl Jobs {
    /// Writes all outputs of a merge.
    pub(super) fn write_merge(self: &Arc<Self>, merge: &Merge, stretch: Stretch) -> Result<Outputs> {
        let Some(key) = self.where_to_cut(merge, &stretch)? else {
            return self.write_stretch(stretch, || Ok(()));
        };
        let (lower, upper) = stretch.cut(key);
        let parts = Owned::new([lower, upper], self.parts.shared.health.clone());
        self.parts.shared.counters.merges_shared.add(1);
        let shared = parts.share();
        self.ask_for_help(move |jobs| {
            jobs.write_subcompaction(&shared);
        });
        while self.write_subcompaction(&parts) {}
        let mut written = parts.outcome()?.into_iter();
        let mut outputs = written.next().expect("the lower subcompaction was written");
        written.for_each(|upper| outputs.append(upper));
        Ok(outputs)
    }

    /// A key that cuts a merge in two, if writers may come to wait for the merge and a second thread is idle.
    fn where_to_cut(&self, merge: &Merge, stretch: &Stretch) -> Result<Option<Vec<u8>>> {
        let is_small = merge.bytes() < merge.table_bytes / LEAST_SHARE_OF_TABLE;
        // In a tree with guards other threads can merge other cells.
        if merge.from > 1 || merge.to == 0 || is_small || merge.is_guarded() || !self.has_idle_thread() {
            return Ok(None);
        }
        middle(stretch.runs.iter().map(|run| &run[..]))
    }

    /// Writes the next subcompaction; `false` if none is left.
    fn write_subcompaction(&self, parts: &Subcompactions<Stretch, Outputs>) -> bool {
        parts.work(|half| self.write_stretch(half, || parts.go_on()))
    }

    fn write_stretch(&self, stretch: Stretch, go_on: impl Fn() -> Result<()>) -> Result<Outputs> {
        let Stretch { span, runs, family, to, reason, mut cutter, retention, beneath, rewrites, tier_map } =
            stretch;
        let cursors = runs.iter().map(|run| RunCursor::new(run.clone(), false)).collect();
        let mut paced_bytes = 0;
        let mut outputs = Outputs::new(self.target(family, to, reason, rewrites, tier_map)).within(span);
        outputs.write(
            &mut MergeCursor::new(cursors),
            retention,
            |key| !beneath.may_hold(key),
            |key, Progress { table_bytes, written_bytes }| {
                if written_bytes < paced_bytes || written_bytes - paced_bytes >= PACE_BYTES {
                    self.pace(written_bytes.saturating_sub(paced_bytes));
                    paced_bytes = written_bytes;
                }
                cutter.edge(key, table_bytes)
            },
            || self.parts.shared.health.check_writable().and_then(|()| go_on()),
            &self.parts.shared.counters.merge_bytes[to],
        )?;
        Ok(outputs)
    }

    /// Sleeps as long as the rate limit asks for, unless writers wait for merges.
    fn pace(&self, bytes: u64) {
        if let Some(pacer) = &self.pacer {
            pacer.wrote(bytes, || {
                self.parts.shared.pressure.is_felt() || self.parts.shared.health.check_writable().is_err()
            });
        }
    }
}
