//! Forks: a child inherits all handles of a database in the middle of its life, and does what children do with them.
//!
//! After a random workload the simulated file system forks the process, and the judge acts as the child. Each of its calls must fail with
//! `Forked`, and neither a call nor the drop of the last handle may reach the file system. The parent must still have the lock. Then the
//! parent is killed, and everything that it wrote must be there.
//!
//! The child never frees what it inherited from the parent. So each case leaks a database, and `torture` leaves this judge out. Real forks
//! under load are in `crates/braidb/tests/forks/main.rs`.

use super::Case;
use crate::failure::Verdict;
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::Runner;
use crate::workload::{Limits, Workload};

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let mut workload = Workload::new(rng.bits(), Limits { crashes: false, value_bytes: 30_000 });
    let mut runner = Runner::new(case.preset, rng.fork(), workload.keys());
    runner.trace(case.trace);
    runner.fs().may_fork();
    runner.start()?;
    for _ in 0..case.ops {
        runner.run(&workload.next_op())?;
    }
    runner.fork().map_err(|failure| failure.at(format!("after a fork with {}", runner.set())))?;
    runner.compare_all()?;
    runner.finish().map_err(|failure| failure.at("at the end"))?;
    Ok(runner.tally().clone())
}
