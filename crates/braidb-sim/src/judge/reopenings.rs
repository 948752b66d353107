//! Openings of what a dead process left, on a device that fails, and power failures after them.
//!
//! One workload runs without faults, and its process is killed. What the system has of its files is then opened in three ways:
//!
//! - *Write-back fails in the background.* Of all that was not synced, any part never reaches the device, although the system shows
//!   it and calls it clean. The process that could have been told is dead.
//! - *The device is full*, but for a few blocks, and write-back has failed too.
//! - *The first opening fails*, at one storage operation after the other, and the second one does not.
//!
//! Each time power fails right after the opening that succeeds. All that it has shown must be there.

use super::Case;
use crate::draw::OptionSet;
use crate::failure::{Verdict, no_panic};
use crate::fs::{Crash, Fault, Lasting, SimFs};
use crate::model::Model;
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::{Device, Runner};
use crate::workload::{Bytes, Limits, Op, Workload};
use std::ops::RangeInclusive;

/// How many times write-back fails: once for all, and each other time for another part.
const LOST_PARTS: u64 = 6;
/// Blocks of 4 KiB that a full device has left: with the fewest no opening succeeds, with the most a manifest and a log find room.
const BLOCKS_LEFT: [u64; 5] = [3, 6, 8, 10, 16];
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
    Ok(())
}

/// Writes at the end of the workload, so that nearly always something is not synced.
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
    /// The next process, on files of its own.
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
        // Names are spared: nothing but a new file gets a lost name back, for which there is no room. File systems end their journal when
        // they cannot write a directory, and no opening succeeds any more.
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
            // An opening may succeed and be poisoned by what it began at its end.
            life.run(&Op::Reopen { close: false })?;
            power_fails(&mut life)
        })
    }
}

/// Opens the database if no opening has succeeded yet; then power fails, and everything goes on.
fn power_fails(life: &mut Runner) -> Verdict {
    life.run(&Op::Verify)?;
    life.run(&Op::Crash(Crash::PowerAllLost))
        .map_err(|failure| failure.at("power failed after the opening"))?;
    life.compare_all()?;
    life.finish().map_err(|failure| failure.at("going on"))
}
