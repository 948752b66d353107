//! Rest (rule 18): without writes merges come to an end, although readers go on and snapshots stay open.
//!
//! Some keys are read again and again, and jobs run in between, until a round of reads pays for nothing in vain and causes no merge. From
//! then on no further round could. Bought merges had no more rent than readers paid.

use super::{Runner, opened};
use crate::client::Client;
use crate::failure::{Failure, Verdict};
use crate::workload::{Bytes, FAMILIES, Span};
use std::ops::Bound;

/// Rounds after which reads must have come to rest. When this was chosen, one of 3,000 cases took 26, the others less.
const ROUNDS: usize = 200;
/// Keys of each family that are read.
const KEYS: usize = 2;
/// Gets and scans of each key in a round. One read in 8 is charged for what it pays in vain.
const READS: usize = 32;

impl Runner {
    /// Reads until the tree is at rest.
    pub fn come_to_rest(&mut self) -> Verdict {
        self.begin_operation();
        if self.client.is_none() {
            return Ok(());
        }
        let keys: Vec<Bytes> = (0..KEYS)
            .map(|_| self.probes[self.rng.below(self.probes.len() as u64) as usize].clone())
            .collect();
        self.settle()?;
        for _ in 0..ROUNDS {
            self.machine.call();
            let before = paid(opened(&self.client));
            for family in 0..FAMILIES.len() {
                read(opened(&self.client), family, &keys)?;
            }
            self.settle()?;
            if paid(opened(&self.client)) == before {
                return self.spent_once();
            }
        }
        Err(Failure::new(format!("readers still pay in vain or cause merges after {ROUNDS} rounds")))
    }

    fn spent_once(&self) -> Verdict {
        let counts = opened(&self.client).db.stats().counts;
        let (paid_ns, spent_ns) = (counts.rent_paid_ns, counts.rent_spent_ns);
        match spent_ns <= paid_ns {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "readers paid {paid_ns} ns in vain, and merges were bought for {spent_ns}"
            ))),
        }
    }
}

/// What readers paid in vain until now, and the merges until now.
fn paid(client: &Client) -> (u64, u64) {
    let counts = client.db.stats().counts;
    (counts.rent_paid_ns, counts.merges)
}

/// Begins scans at the keys, and gets them.
fn read(client: &Client, family: usize, keys: &[Bytes]) -> Verdict {
    if !client.has(family) {
        return Ok(());
    }
    for key in keys {
        let span = Span::Range(Bound::Included(key.to_vec()), Bound::Unbounded);
        for _ in 0..READS {
            client
                .scan(family, &span, None)
                .next()
                .transpose()
                .map_err(|error| Failure::new(format!("a scan: {error}")))?;
            client.get(family, key, None).map_err(|error| Failure::new(format!("a get: {error}")))?;
        }
    }
    Ok(())
}
