//! Excises beside open transactions, and beside a writer that runs within the excise.
//!
//! A transaction that began before the excise must conflict where it reads, or has read, in the ranges. What the writer puts behind the switch
//! of the memtable must stay, also if it comes to a table before the edit of the excise.

use super::{Open, Trial, entries_of, failed};
use crate::client::Client;
use crate::failure::{Failure, Verdict};
use crate::workload::{Bytes, Change, FAMILIES, Span};
use braidb::{Error, Transaction};
use braidb_storage::{Lane, Runtime};
use parking_lot::Mutex;
use std::sync::Arc;

/// A put that a job makes within an excise, behind the switch of the memtable.
struct Writer {
    client: Client,
    put: Change,
    /// Has read the key of `put` before the excise.
    reader: Mutex<Option<Transaction>>,
    /// How often logs had been rotated before the excise, which rotates one at its last switch.
    rotated_before: u64,
    /// `None` once the excise has ended: then the job puts nothing.
    has_put: Mutex<Option<bool>>,
}

impl Writer {
    /// Puts and flushes once the excise has switched the memtable. Before that the job submits itself again.
    fn run(self: Arc<Self>, runtime: Arc<dyn Runtime>) {
        if *self.has_put.lock() != Some(false) {
            return;
        }
        if self.client.db.stats().counts.logs_rotated == self.rotated_before {
            let again = (self, runtime.clone());
            runtime.submit(Lane::Flush, Box::new(move || again.0.run(again.1)));
            return;
        }
        *self.has_put.lock() = Some(true);
        let reader = self.reader.lock().take().expect("the job comes here once");
        assert!(
            matches!(reader.commit(), Err(Error::Conflict)),
            "a commit is neither before nor after an excise"
        );
        self.client.write_plainly(&self.put).expect("no fault strikes");
        self.client.db.flush().expect("no fault strikes");
    }
}

impl Open {
    /// Whether the transaction is older than an excise of keys of the span.
    pub(super) fn lacks(&self, family: usize, span: &Span) -> bool {
        self.excised.iter().any(|(of, excised)| *of == family && excised.meets(span))
    }

    /// Whether the transaction has read in a range that was excised since.
    pub(super) fn has_read_excised(&self) -> bool {
        self.excised.iter().any(|(family, span)| {
            self.points.iter().any(|(of, key)| of == family && span.contains(key))
                || self
                    .ranges
                    .iter()
                    .any(|(of, low, high)| of == family && Span::Range(low.clone(), high.clone()).meets(span))
        })
    }
}

/// Demands that a read of excised keys conflicts.
pub(super) fn conflicts<T: std::fmt::Debug>(read: Result<T, Error>) -> Verdict {
    match read {
        Err(Error::Conflict) => Ok(()),
        read => Err(Failure::new(format!("a transaction reads excised keys: {read:?}"))),
    }
}

impl Trial {
    pub(super) fn excise(&mut self) -> Verdict {
        let family = self.rng.below(FAMILIES.len() as u64) as usize;
        let (low, high) = self.draw_span();
        let span = Span::Range(low, high);
        let change = self.draw_change();
        let put = Change { family, value: Some(Bytes::from(&b"within"[..])), ..change };
        let writer = if span.contains(&put.key) && self.rng.one_in(2) {
            Some(self.submit(put.clone())?)
        } else {
            None
        };
        self.client.excise(family, std::slice::from_ref(&span)).map_err(failed)?;
        let deletes: Vec<Change> = entries_of(&self.state, family, &span)
            .into_iter()
            .map(|(key, _)| Change { family, key, value: None })
            .collect();
        self.apply(&deletes);
        self.open.iter_mut().for_each(|open| open.excised.push((family, span.clone())));
        if writer.is_some_and(|writer| writer.has_put.lock().take() == Some(true)) {
            self.apply(&[put]);
            self.tally.add("puts within an excise", 1);
        }
        self.tally.add("excises", 1);
        Ok(())
    }

    /// Submits the job that puts within the next excise. Nothing else runs meanwhile, and memory is empty, so the excise alone rotates a log.
    fn submit(&mut self, put: Change) -> Verdict<Arc<Writer>> {
        self.client.db.flush().map_err(failed)?;
        self.client.db.settle().map_err(failed)?;
        let reader = self.client.db.transaction().map_err(failed)?;
        let family = self.client.family(put.family);
        reader.get_in(family, &put.key).map_err(failed)?;
        reader.put_in(family, &put.key, "neither before nor after").map_err(failed)?;
        let rotated_before = self.client.db.stats().counts.logs_rotated;
        let has_put = Mutex::new(Some(false));
        let writer = Arc::new(Writer {
            client: self.client.clone(),
            put,
            reader: Mutex::new(Some(reader)),
            rotated_before,
            has_put,
        });
        let (job, runtime) = (writer.clone(), self.machine.runtime());
        self.machine.runtime().submit(Lane::Flush, Box::new(move || job.run(runtime)));
        Ok(writer)
    }
}
