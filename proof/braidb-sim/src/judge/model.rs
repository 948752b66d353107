//! The model test: a long random life, compared at every step.
//!
//! The workload has puts, deletes, batches over families, gets, and scans in both directions and mixed. It keeps snapshots and iterators
//! open, flushes, merges, reopens and crashes. Every answer must be the model's. Every 250 operations everything is read. At the end reads
//! are repeated until they cause no more merges. Then a snapshot is taken, and readers must be charged nothing for the versions that it
//! keeps. At last the lock is removed under an open database, and a second process opens it.

use super::Case;
use crate::failure::Verdict;
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::Runner;
use crate::workload::{Limits, Workload};

/// Operations between two full reads and comparisons.
const COMPARE_EVERY: u64 = 250;

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let mut workload = Workload::new(rng.bits(), Limits { crashes: true, value_bytes: 30_000 });
    let mut runner = Runner::new(case.preset, rng.fork(), workload.keys());
    runner.trace(case.trace);
    runner.start()?;
    for number in 1..=case.ops {
        runner.run(&workload.next_op())?;
        if number % COMPARE_EVERY == 0 {
            runner.compare_all().map_err(|failure| failure.at(format!("after operation {number}")))?;
        }
    }
    runner.come_to_rest().map_err(|failure| failure.at("at rest"))?;
    runner.kept_versions_cost_nothing().map_err(|failure| failure.at("with kept versions"))?;
    runner.finish().map_err(|failure| failure.at("at the end"))?;
    let intruded = runner.intruded(&mut workload);
    intruded.map_err(|failure| failure.at(format!("with a second process and {}", runner.set())))?;
    Ok(runner.tally().clone())
}
