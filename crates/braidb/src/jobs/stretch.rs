//! Writing what is left of a merge's inputs, on two threads if that is worth it.
//!
//! Writers wait for merges of L0, and those for merges of what L0 goes into. In a leveled tree such a merge often claims all that
//! there is to do: beside it no second one can run, and while one thread merges, the others have nothing to do. So a large one is
//! cut at a key near its middle, and its parts are subcompactions for two threads (`jobs/subcompactions.rs`).
//!
//! The tables of both are named by one edit, so the parts are nothing that a reader or a crash could tell apart: which file holds
//! a record at each instant is as for any merge. The thread that began holds the inputs, and the logs that were loaded, until both
//! parts are written. No more stands on disk at any time than if one thread wrote it all, which is why a merge in increments is
//! halved increment by increment: two of them at once took more space than the bound allows.

use super::Jobs;
use super::output::Outputs;
use super::subcompactions::{Owned, Subcompactions};
use crate::base::error::Result;
use crate::base::key::Span;
use crate::base::mutant::mutant;
use crate::plan::{Cutter, Merge};
use crate::version::cursor::RunCursor;
use crate::version::cut::middle;
use crate::version::{Beneath, Slice};
use crate::visible::merge::MergeCursor;
use crate::visible::rule::RetentionFilter;
use std::sync::Arc;

/// A merge that reads less than this part of a table's size is not worth a second thread, and the small tables that a cut makes.
const LEAST_SHARE_OF_TABLE: u64 = 4;
/// A rate limit is asked about after so many bytes: few, so that it holds for small merges too.
const PACE_BYTES: u64 = 4 << 10;

/// The keys of a span that a merge writes, and by which rules.
pub(super) struct Stretch {
    pub span: Span,
    /// The runs that it reads, newest first.
    pub runs: Arc<Vec<Arc<Vec<Arc<Slice>>>>>,
    pub to: usize,
    pub cutter: Cutter,
    pub retention: RetentionFilter,
    pub beneath: Arc<Beneath>,
}

impl Stretch {
    /// What lies before `key`, and the rest.
    fn cut(self, key: Vec<u8>) -> (Stretch, Stretch) {
        let low =
            if mutant!("upper_half_misses_its_first_key") { [&*key, &[0]].concat() } else { key.clone() };
        let upper = Stretch {
            span: Span { low, end: self.span.end },
            runs: self.runs.clone(),
            to: self.to,
            cutter: self.cutter.clone(),
            retention: self.retention.clone(),
            beneath: self.beneath.clone(),
        };
        (Stretch { span: Span { low: self.span.low, end: Some(key) }, ..self }, upper)
    }
}

impl Jobs {
    /// Writes all that a merge writes.
    pub(super) fn write_merge(self: &Arc<Self>, merge: &Merge, stretch: Stretch) -> Result<Outputs> {
        let Some(key) = self.where_to_cut(merge, &stretch)? else {
            return self.write_stretch(stretch, || Ok(()));
        };
        let (lower, upper) = stretch.cut(key);
        let parts = Owned::new([lower, upper], self.health.clone());
        self.counters.merges_shared.add(1);
        let shared = parts.share();
        self.ask_for_help(move |jobs| {
            jobs.write_subcompaction(&shared);
        });
        while self.write_subcompaction(&parts) {}
        let mut written = parts.outcome()?.into_iter();
        let mut outputs = written.next().expect("the lower half was written");
        written.for_each(|upper| outputs.append(upper));
        Ok(outputs)
    }

    /// A key that cuts in two a merge, if it is one that writers may come to wait for, and there is a thread for the second.
    fn where_to_cut(&self, merge: &Merge, stretch: &Stretch) -> Result<Option<Vec<u8>>> {
        let is_small = merge.bytes() < merge.table_bytes / LEAST_SHARE_OF_TABLE;
        // A run of L0 is one slice; and where there are guards, merges of other cells are there for other threads.
        if merge.from > 1 || merge.to == 0 || is_small || merge.is_guarded() || !self.has_idle_thread() {
            return Ok(None);
        }
        middle(stretch.runs.iter().map(|run| run.as_slice()))
    }

    /// `false` if no half is left.
    fn write_subcompaction(&self, parts: &Subcompactions<Stretch, Outputs>) -> bool {
        parts.work(|half| self.write_stretch(half, || parts.go_on()))
    }

    fn write_stretch(&self, stretch: Stretch, go_on: impl Fn() -> Result<()>) -> Result<Outputs> {
        let Stretch { span, runs, to, mut cutter, retention, beneath } = stretch;
        let cursors = runs.iter().map(|run| RunCursor::new(run.clone(), false)).collect();
        let mut paced_bytes = 0;
        let mut outputs = Outputs::new(self.target(to)).within(span);
        outputs.write(
            &mut MergeCursor::new(cursors),
            retention,
            |key| !beneath.may_hold(key),
            |key, written| {
                if written < paced_bytes || written - paced_bytes >= PACE_BYTES {
                    self.pace(written.saturating_sub(paced_bytes));
                    paced_bytes = written;
                }
                cutter.edge(key, written)
            },
            || self.health.check_writable().and_then(|()| go_on()),
            &self.counters.merge_bytes[to],
        )?;
        Ok(outputs)
    }

    /// Sleeps as long as the rate limit asks for, unless somebody waits for the merge.
    fn pace(&self, bytes: u64) {
        if let Some(pacer) = &self.pacer {
            pacer.wrote(bytes, || self.pressure.is_felt() || self.health.check_writable().is_err());
        }
    }
}
