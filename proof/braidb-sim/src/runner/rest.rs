//! Rest (rule 18): without writes merges come to an end, although readers go on and snapshots stay open.
//!
//! Some keys are read in rounds, with jobs in between, until a round pays no rent and causes no merge. Later rounds of the same reads could
//! do neither. The merges that were bought must not have spent more rent than readers paid.
//!
//! No merge removes what a snapshot keeps, so readers must pay no rent for it. A scan that passes many such versions pays as much as one
//! that ends at its first key. New keys are written twice after a snapshot, and nothing else lies between them.

use super::{Runner, opened};
use crate::client::Client;
use crate::failure::{Failure, Verdict};
use crate::workload::{Bytes, Change, FAMILIES, Op, Span};
use std::ops::Bound;

/// After this many rounds, reads must pay no rent and cause no merge. A scan that jumps over gaps pays little, so it takes many rounds to
/// pay for a merge: 604 in the longest of 150 cases.
const ROUNDS: usize = 5_000;
/// Keys of each family that are read.
const KEYS: usize = 2;
/// How many gets and scans of each key a round does. Only one read in 8 is charged rent.
const READS: usize = 32;

/// Keys that are written twice after a snapshot. No workload has keys with this prefix.
const KEPT_KEYS: u8 = 20;
const KEPT_PREFIX: &[u8] = b"\0rest ";
/// Of this many scans at least one is charged.
const CHARGED: usize = 32;

impl Runner {
    /// Repeats reads until they pay no rent and cause no merge. Where the options let readers buy no merges, they must have bought none.
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
            if !self.set.merges_for_readers {
                return self.bought_none();
            }
            if paid(opened(&self.client)) == before {
                return self.spent_once();
            }
        }
        Err(Failure::new(format!("readers still pay in vain or cause merges after {ROUNDS} rounds")))
    }

    /// Compares what short and long scans pay while a snapshot keeps all that is hidden. Leaves the snapshot open.
    pub fn kept_versions_cost_nothing(&mut self) -> Verdict {
        if self.client.is_none() {
            return Ok(());
        }
        self.run(&Op::TakeSnapshot)?;
        for value in 0..2 {
            let change = |number| Change {
                family: 0,
                key: [KEPT_PREFIX, &[number]].concat().into(),
                value: Some([value; 10][..].into()),
            };
            self.run(&Op::Write((0..KEPT_KEYS).map(change).collect(), None))?;
            self.run(&Op::Flush)?;
        }
        self.machine.call();
        let client = opened(&self.client);
        let (short_ns, long_ns) = (paid_by_scan(client, 1)?, paid_by_scan(client, usize::MAX)?);
        self.tally.add("scans of kept versions that paid", u64::from(short_ns > 0));
        match short_ns == long_ns {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "a scan pays {short_ns} ns at its first key, and {long_ns} if it passes versions that a snapshot keeps"
            ))),
        }
    }

    fn bought_none(&self) -> Verdict {
        match opened(&self.client).db.stats().counts.bought_merges {
            0 => Ok(()),
            bought => Err(Failure::new(format!("readers bought {bought} merges, and the options forbid it"))),
        }
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

/// The nanoseconds of rent that readers have paid so far, and the number of merges so far.
fn paid(client: &Client) -> (u64, u64) {
    let counts = client.db.stats().counts;
    (counts.rent_paid_ns, counts.merges)
}

/// The nanoseconds of rent that one scan of the keys that were written twice pays, if it is charged. It takes at most `most` entries.
fn paid_by_scan(client: &Client, most: usize) -> Verdict<u64> {
    let end = [KEPT_PREFIX, &[KEPT_KEYS]].concat();
    let span = Span::Range(Bound::Included([KEPT_PREFIX, &[0]].concat()), Bound::Excluded(end));
    let (before_ns, _) = paid(client);
    for _ in 0..CHARGED {
        for entry in client.scan(0, &span, None).take(most) {
            entry.map_err(|error| Failure::new(format!("a scan: {error}")))?;
        }
        let (now_ns, _) = paid(client);
        if now_ns > before_ns {
            return Ok(now_ns - before_ns);
        }
    }
    Ok(0)
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
