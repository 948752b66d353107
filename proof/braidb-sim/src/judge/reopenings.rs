//! Openings of what a dead process left, on a failing device, and power failures after them.
//!
//! One workload runs without faults, and its process is killed. The files that the system then has are opened in three ways:
//!
//! - *Write-back fails in the background.* All or a random part of the unsynced data never reaches the device. The system still
//!   shows it and calls it clean. The process that could have received the error is dead.
//! - *The device is full*, except for a few blocks, and write-back has failed too. Or the device of a slow tier is full.
//! - *The first opening fails* at one storage operation, and the second opening does not. Each operation is tried in turn.
//!
//! In each case power fails right after the successful opening. All that the opening has shown must survive.

use super::Case;
use crate::draw::OptionSet;
use crate::failure::{Verdict, no_panic};
use crate::model::Model;
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::{Device, Runner};
use crate::workload::{Bytes, Limits, Op, Workload};
use braidb_storage::sim::{Crash, Fault, Lasting, SimFs};
use std::ops::RangeInclusive;
use std::path::Path;

/// Write-back failures per case: the first loses everything unsynced, each other one loses a random part.
const LOST_PARTS: u64 = 6;
/// Free blocks of 4 KiB on a full device. With 3 no opening succeeds. With 16 a manifest and a log fit.
const BLOCKS_LEFT: [u64; 5] = [3, 6, 8, 10, 16];
/// Free blocks of 4 KiB on a full device of a slow tier. An open writes one block there, its `TIER.tmp`.
const SLOW_BLOCKS_LEFT: [u64; 3] = [0, 1, 2];
const FAULTS: [Fault; 2] = [Fault::Io, Fault::Sync];

/// What a killed process left.
struct Left {
    case: Case,
    fs: SimFs,
    model: Model,
    set: OptionSet,
    probes: Vec<Bytes>,
    allowed: RangeInclusive<u64>,
}

/// Judges the openings after the workload of the case.
pub(super) fn judge(case: &Case, tally: &mut Tally) -> Verdict {
    let mut rng = Rng::new(case.seed ^ 0x5eed);
    let left = kill(case, &mut rng).map_err(|failure| failure.at("before any opening"))?;
    for part in 0..LOST_PARTS {
        let seed = (part > 0).then(|| rng.bits());
        let judged = left.lose_write_backs(rng.fork(), seed);
        judged.map_err(|failure| failure.at("write-back failed, then a kill"))?;
        tally.add("lost write-backs", 1);
    }
    for blocks in BLOCKS_LEFT {
        let told = || format!("write-back failed, then a kill, and {blocks} blocks were left");
        left.fill_the_device(rng.fork(), blocks).map_err(|failure| failure.at(told()))?;
        tally.add("openings on a full device", 1);
    }
    for fault in FAULTS {
        let openings = left.operations_of_an_opening(rng.fork(), fault)?;
        for nth in (1 + case.seed % case.stride..=openings).step_by(case.stride as usize) {
            let told = || format!("the first opening fails ({fault:?}) at storage operation {nth}");
            left.fail_an_opening(rng.fork(), nth, fault).map_err(|failure| failure.at(told()))?;
            tally.add("failed openings", 1);
        }
    }
    for device in left.fs.device_dirs().into_iter().skip(1) {
        for blocks in SLOW_BLOCKS_LEFT {
            let told = || format!("a kill, and {blocks} blocks were left on {}", device.display());
            let filled = left.fill_a_slow_device(rng.fork(), &device, blocks);
            filled.map_err(|failure| failure.at(told()))?;
            tally.add("openings on a full slow device", 1);
        }
    }
    Ok(())
}

/// Writes at the end of the workload, so that nearly always some data is unsynced.
const LAST_WRITES: usize = 6;

/// Runs the workload, and kills the process.
fn kill(case: &Case, rng: &mut Rng) -> Verdict<Left> {
    let mut workload = Workload::new(rng.bits(), Limits { crashes: false, value_bytes: 3_000 });
    let mut runner = Runner::new(case.preset, rng.fork(), workload.keys());
    runner.trace(case.trace);
    runner.start()?;
    for _ in 0..case.ops {
        runner.run(&workload.next_op())?;
    }
    let ops = std::iter::from_fn(|| Some(workload.next_op()));
    for op in ops.filter(|op| matches!(op, Op::Write(..) | Op::Plain(_))).take(LAST_WRITES) {
        runner.run(&op)?;
    }
    runner.compare_all()?;
    let allowed = runner.model().allowed(Crash::Process);
    let (model, set, probes) = (runner.model().clone(), runner.set().clone(), runner.probes().to_vec());
    Ok(Left { case: *case, fs: runner.fs().without_process(), model, set, probes, allowed })
}

impl Left {
    /// The next process, on its own copy of the files.
    fn next_life(&self, rng: Rng) -> Runner {
        let fs = self.fs.without_process();
        let (preset, set, model) = (self.case.preset, self.set.clone(), self.model.clone());
        let mut life = Runner::over(fs, preset, set, rng, model, &self.probes);
        life.trace(self.case.trace);
        life
    }

    fn lose_write_backs(&self, rng: Rng, seed: Option<u64>) -> Verdict {
        let mut life = self.next_life(rng);
        life.fs().lose_write_backs(seed);
        no_panic(|| {
            life.start_at(&self.allowed)?;
            power_fails(&mut life)
        })
    }

    fn fill_the_device(&self, rng: Rng, blocks: u64) -> Verdict {
        let mut life = self.next_life(rng);
        // Only file data loses its write-back here. A lost name would need a new file, for which there is no room. A real file
        // system ends its journal when it cannot write a directory, and then no opening succeeds.
        life.fs().lose_data_write_backs();
        life.fs().set_capacity(Some(life.fs().taken_bytes() + blocks * 4096));
        life.expect(Device::Small);
        no_panic(|| {
            life.start_at(&self.allowed)?;
            life.fs().set_capacity(None);
            life.expect(Device::Good);
            power_fails(&mut life)
        })
    }

    fn fill_a_slow_device(&self, rng: Rng, device: &Path, blocks: u64) -> Verdict {
        let mut life = self.next_life(rng);
        life.fs().set_capacity_of(device, Some(life.fs().taken_bytes_of(device) + blocks * 4096));
        life.expect(Device::Small);
        no_panic(|| {
            life.start_at(&self.allowed)?;
            life.fs().set_capacity_of(device, None);
            life.expect(Device::Good);
            power_fails(&mut life)
        })
    }

    /// How many operations of an opening the fault could strike.
    fn operations_of_an_opening(&self, rng: Rng, fault: Fault) -> Verdict<u64> {
        let mut life = self.next_life(rng);
        life.fs().record_ops();
        life.start_at(&self.allowed)?;
        let ops = life.fs().take_recorded_ops();
        Ok(ops.iter().filter(|op| fault.strikes(op)).count() as u64)
    }

    fn fail_an_opening(&self, mut rng: Rng, nth: u64, fault: Fault) -> Verdict {
        let seed = rng.bits();
        let mut life = self.next_life(rng);
        life.fs().fail_nth(nth, fault, Lasting::Once, seed);
        life.expect(Device::Faulty);
        no_panic(|| {
            life.start_at(&self.allowed)?;
            life.fs().heal();
            life.expect(Device::Good);
            // An opening may succeed and be poisoned by the work that it starts at its end.
            life.run(&Op::Reopen { close: false })?;
            power_fails(&mut life)
        })
    }
}

/// Opens the database if no opening has succeeded yet. Then power fails, and the next life goes on.
fn power_fails(life: &mut Runner) -> Verdict {
    life.run(&Op::Verify)?;
    life.run(&Op::Crash(Crash::PowerAllLost))
        .map_err(|failure| failure.at("power failed after the opening"))?;
    life.compare_all()?;
    life.finish().map_err(|failure| failure.at("going on"))
}
