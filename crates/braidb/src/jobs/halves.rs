//! A large merge of L0 on two threads.
//!
//! Writers wait for merges of L0 and for no others, and such a merge mostly takes all of L0 with all that it overlaps: no second
//! one can run beside it, and while one thread merges, the next has nothing to do. So a large one is cut at a key near its middle.
//! Its upper half lies ready for whoever comes first: a merging thread without work, or the one that has just written the lower
//! half. Thus nobody ever waits for a job that is still queued, only for one that runs.
//!
//! The tables of both halves are named by one edit, so the halves are nothing that a reader or a crash could tell apart: which
//! file holds a record at each instant is as for any merge. The thread that began holds the inputs, and the logs that were
//! loaded, until both halves are written.

use super::output::Outputs;
use super::{Jobs, Running, Work};
use crate::base::error::{Error, Result};
use crate::base::key::Span;
use crate::base::mutant::mutant;
use crate::plan::{Cutter, Merge};
use crate::version::cursor::RunCursor;
use crate::version::cut::middle;
use crate::version::{Beneath, Slice};
use crate::visible::merge::MergeCursor;
use crate::visible::rule::Sieve;
use braidb_storage::Lane;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, OnceLock};

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
    pub sieve: Sieve,
    pub beneath: Arc<Beneath>,
}

impl Stretch {
    /// What lies before `key`, and the rest.
    fn cut(self, key: Vec<u8>) -> (Stretch, Stretch) {
        let low = if mutant!("upper_half_misses_its_first_key") { [&*key, &[0]].concat() } else { key.clone() };
        let upper = Stretch {
            span: Span { low, end: self.span.end },
            runs: self.runs.clone(),
            to: self.to,
            cutter: self.cutter.clone(),
            sieve: self.sieve.clone(),
            beneath: self.beneath.clone(),
        };
        (Stretch { span: Span { low: self.span.low, end: Some(key) }, ..self }, upper)
    }
}

/// The upper half of a merge, as both threads see it.
pub(super) struct Upper {
    place: Mutex<Place>,
    /// Signalled when it is done.
    done: Condvar,
    /// What the first half that failed met. The other is in vain then.
    failure: OnceLock<Error>,
}

enum Place {
    /// For whoever comes first.
    Ready(Stretch),
    Taken,
    /// By the other thread.
    Done(Result<Outputs>),
}

impl Upper {
    fn new(stretch: Stretch) -> Upper {
        let place = Mutex::new(Place::Ready(stretch));
        Upper { place, done: Condvar::new(), failure: OnceLock::new() }
    }

    /// The half, unless somebody else has it.
    fn take(&self) -> Option<Stretch> {
        let mut place = self.place.lock();
        match std::mem::replace(&mut *place, Place::Taken) {
            Place::Ready(stretch) => Some(stretch),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Whoever writes a half asks now and then.
    fn go_on(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Tells the writer of the other half of a failure.
    fn heed(&self, outcome: &Result<Outputs>) {
        if let Err(error) = outcome {
            self.failure.get_or_init(|| error.clone());
        }
    }

    /// Hands over what the other thread made of it.
    fn end(&self, outcome: Result<Outputs>) {
        self.heed(&outcome);
        *self.place.lock() = Place::Done(outcome);
        self.done.notify_all();
    }

    /// The thread that took it, if one has, has met its end.
    pub fn abandon(&self, error: Error) {
        if matches!(*self.place.lock(), Place::Taken) {
            self.end(Err(error));
        }
    }

    /// Waits for the other thread, which has taken it.
    fn outcome(&self) -> Result<Outputs> {
        let mut place = self.place.lock();
        loop {
            match std::mem::replace(&mut *place, Place::Taken) {
                Place::Done(outcome) => return outcome,
                other => *place = other,
            }
            self.done.wait(&mut place);
        }
    }
}

/// Takes the half back, should the merge end early: nobody begins with it then.
struct Offer(Arc<Upper>);

impl Drop for Offer {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl Jobs {
    /// Writes all that a merge writes, on two threads if that is worth it.
    pub(super) fn write_merge(self: &Arc<Self>, merge: &Merge, stretch: Stretch) -> Result<Outputs> {
        let Some(key) = self.where_to_cut(merge, &stretch)? else {
            return self.write_stretch(stretch, || Ok(()));
        };
        let (lower, upper) = stretch.cut(key);
        let offer = Offer(Arc::new(Upper::new(upper)));
        let upper = &offer.0;
        self.offer(upper);
        self.counters.merges_halved.add(1);
        let lower = self.write_stretch(lower, || upper.go_on());
        upper.heed(&lower);
        let (mut lower, upper) = match upper.take() {
            Some(stretch) => (lower?, self.write_stretch(stretch, || Ok(()))?),
            // Also after a failure: whoever reads the inputs needs them.
            None => {
                let upper = upper.outcome();
                (lower?, upper?)
            }
        };
        lower.append(upper);
        Ok(lower)
    }

    /// A key that makes two halves of a merge, if there is a thread for the second one.
    fn where_to_cut(&self, merge: &Merge, stretch: &Stretch) -> Result<Option<Vec<u8>>> {
        let is_small = merge.bytes() < merge.table_bytes / LEAST_SHARE_OF_TABLE;
        // A run of L0 is one slice.
        if merge.from > 0 || merge.to == 0 || is_small {
            return Ok(None);
        }
        if self.catalog.lock().merges_running >= self.options.merges {
            return Ok(None);
        }
        middle(stretch.runs.iter().map(|run| run.as_slice()))
    }

    /// Has a merging thread take the upper half, when it has nothing else to do.
    fn offer(self: &Arc<Self>, upper: &Arc<Upper>) {
        self.catalog.lock().jobs += 1;
        let running = Running { jobs: self.clone(), work: Some(Work::Half(upper.clone())) };
        self.env.runtime.submit(Lane::Merge, Box::new(move || running.half()));
    }

    /// Writes the upper half, if it is still there.
    pub(super) fn write_upper(&self, upper: &Upper) {
        if let Some(stretch) = upper.take() {
            upper.end(self.write_stretch(stretch, || upper.go_on()));
        }
    }

    fn write_stretch(&self, stretch: Stretch, go_on: impl Fn() -> Result<()>) -> Result<Outputs> {
        let Stretch { span, runs, to, mut cutter, sieve, beneath } = stretch;
        let cursors = runs.iter().map(|run| RunCursor::new(run.clone(), false)).collect();
        let mut paced_bytes = 0;
        let mut outputs = Outputs::new(self.target(to)).within(span);
        outputs.write(
            &mut MergeCursor::new(cursors),
            sieve,
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
