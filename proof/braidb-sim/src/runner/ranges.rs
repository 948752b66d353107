//! Excises and compacts of ranges (rule 24), and what snapshots from before an excise still show.
//!
//! For the model an excise is a write that deletes all keys in its ranges, and that is on stable storage when it is acknowledged.

use super::{Runner, opened};
use crate::client::Client;
use crate::failure::{Failure, Verdict};
use crate::model::show_bytes;
use crate::readers::Taken;
use crate::workload::{Change, FAMILIES, Span};
use braidb::{Durability, Error};

/// Demands that a read of a snapshot met excised keys.
pub(super) fn fails_by_name(read: Result<(), Error>, family: usize) -> Verdict {
    match read {
        Err(Error::Excised) => Ok(()),
        read => Err(Failure::new(format!(
            "a read of {} where a snapshot is older than an excise gives {read:?}",
            FAMILIES[family]
        ))),
    }
}

impl Runner {
    pub(super) fn excise(&mut self, family: usize, spans: &[Span]) -> Verdict {
        if !opened(&self.client).has(family) {
            return Ok(());
        }
        if !spans.iter().any(|span| span.meets(&Span::All)) {
            // Ranges without keys: the call does nothing, and makes no earlier write stable.
            let excised = opened(&self.client).excise(family, spans);
            return self.succeeded(excised, "an excise of nothing").map(|_| ());
        }
        let keys = self.model.state()[family].keys();
        let excised = keys.filter(|key| spans.iter().any(|span| span.contains(key))).cloned();
        let deletes = excised.map(|key| Change { family, key, value: None }).collect();
        let changes = self.model.begin(deletes, false);
        self.publish();
        let was_poisoned = self.poisoned;
        match opened(&self.client).excise(family, spans) {
            Ok(()) => {
                self.model.acknowledge(Durability::Sync);
                self.snapshots.excised(family, spans);
                self.tally.add("entries excised", changes.len() as u64);
                self.publish();
                Ok(())
            }
            Err(error) => {
                self.forgive(&error, "an excise")?;
                match self.poisoned && !was_poisoned {
                    true => self.model.doubt(),
                    false => self.model.refuse(),
                }
                self.publish();
                self.has_nothing_of(&changes)
            }
        }
    }

    pub(super) fn compact_range(&mut self, family: usize, span: &Span) -> Verdict {
        let client = opened(&self.client);
        if !client.has(family) {
            return Ok(());
        }
        let compacted = client.compact_range(family, span);
        // A range without keys is not flushed.
        let durability = if span.meets(&Span::All) { Durability::Sync } else { Durability::None };
        self.promoted(compacted, durability, "compact of a range")
    }

    /// Compares what a snapshot shows of a family of which a range was excised since.
    pub(super) fn compare_rest(&self, client: &Client, taken: &Taken, family: usize) -> Verdict {
        let first = client.scan(family, &Span::All, Some(&taken.snapshot)).next();
        fails_by_name(first.transpose().map(|_| ()), family)?;
        for (key, value) in &taken.state[family] {
            let got = client.get(family, key, Some(&taken.snapshot));
            match got {
                got if taken.lacks(family, key) => fails_by_name(got.map(|_| ()), family)?,
                Ok(Some(got)) if got[..] == **value => {}
                Err(_) if self.may_fail() => {}
                got => {
                    let key = show_bytes(key);
                    return Err(Failure::new(format!(
                        "beside an excised range a snapshot gives {got:?} for {key:?}"
                    )));
                }
            }
        }
        Ok(())
    }
}
