//! The error judge: every storage operation of a workload fails once, or from then on for ever. It also tries devices that are
//! too small.
//!
//! One clean run counts the storage operations that a fault can strike. Then the same workload runs once for each operation, each fault
//! (the device fails, the device is full, a sync fails) and each duration (once, for ever). It also runs on devices of growing size, which
//! fill up by themselves. With slow tiers one device also fails, or is too small, while the others go on.
//!
//! Every failing call must return an error that names a file. Successful reads must be right, and no acknowledged write may be lost. The
//! runner checks this at each step. The runner also cuts the power after each reopening that follows a fault. All that the reopening has
//! shown must survive.
//!
//! In the end the device is repaired. Everything can be read, the database is opened once more and works normally, also after
//! power failures. Faults during openings are in `reopenings.rs`.

use super::{Case, reopenings};
use crate::draw::Preset;
use crate::failure::{Verdict, no_panic};
use crate::machine::{DIR, SLOW_DEVICES};
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::{Device, FORM_COUNTS, Runner};
use crate::workload::{Limits, Op, Workload};
use braidb::Durability;
use braidb_storage::FileSystem;
use braidb_storage::sim::{Crash, Fault, Lasting};
use std::path::Path;

const FAULTS: [(Fault, &str); 3] =
    [(Fault::Io, "a failing device"), (Fault::Full, "a full device"), (Fault::Sync, "a failed sync")];
const DURATIONS: [(Lasting, &str); 2] = [(Lasting::Once, "once"), (Lasting::ForEver, "for ever")];
/// The size of a device that never fills up, in bytes: 1 PiB.
const LARGE_BYTES: u64 = 1 << 50;
/// Device sizes that are tried.
const SIZES: u64 = 24;

/// The fault of the device.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Nothing,
    Fault(u64, Fault, Lasting),
    /// One of several devices fails for ever.
    OneDevice(&'static str, u64, Fault),
    Size(u64),
    /// The device of one slow tier has this size.
    SlowSize(&'static str, u64),
}

/// Judges a case: one workload, and a fault at every `stride`-th operation.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut tally = Tally::default();
    let clean = run(case, Wrong::Nothing)?;
    tally.merge(&clean.forms);
    judge_faults(case, &clean, &mut tally)?;
    if case.preset == Preset::Tiers {
        judge_one_device(case, &clean, &mut tally)?;
    }
    reopenings::judge(case, &mut tally)?;
    tally.add("workloads", 1);
    Ok(tally)
}

/// All devices fail, or the first one is too small.
fn judge_faults(case: &Case, clean: &Ran, tally: &mut Tally) -> Verdict {
    for (fault, fault_name) in FAULTS {
        let targets = clean.ops.iter().filter(|op| fault.strikes(op)).count() as u64;
        for (lasting, duration) in DURATIONS {
            for nth in (1 + case.seed % case.stride..=targets).step_by(case.stride as usize) {
                let told = format!("{fault_name} at storage operation {nth}, {duration}");
                let ran = run_told(case, Wrong::Fault(nth, fault, lasting), &told)?;
                tally.merge(&ran.forms);
                tally.add(fault_name, u64::from(ran.struck > 0));
            }
        }
    }
    for size in (1..=SIZES).step_by(case.stride.min(SIZES) as usize) {
        let bytes = clean.most_bytes * size / SIZES;
        let told = format!("a device of {bytes} bytes");
        tally.merge(&run_told(case, Wrong::Size(bytes), &told)?.forms);
        tally.add("a small device", 1);
    }
    Ok(())
}

/// One device fails for ever while the others go on, or a slow one is too small.
fn judge_one_device(case: &Case, clean: &Ran, tally: &mut Tally) -> Verdict {
    for device in [DIR].into_iter().chain(SLOW_DEVICES) {
        for (fault, fault_name) in FAULTS {
            let targets = clean.ops.iter().filter(|op| fault.strikes(op) && is_on(device, &op.path)).count();
            for nth in (1 + case.seed % case.stride..=targets as u64).step_by(case.stride as usize) {
                let told =
                    format!("{fault_name} at operation {nth} of {device}, for ever, and no fault elsewhere");
                let ran = run_told(case, Wrong::OneDevice(device, nth, fault), &told)?;
                tally.merge(&ran.forms);
                tally.add("one device fails", u64::from(ran.struck > 0));
                tally.add("a slow device fails", u64::from(ran.struck > 0 && device != DIR));
            }
        }
    }
    let used = SLOW_DEVICES.into_iter().zip(clean.most_slow_bytes).filter(|(_, most_bytes)| *most_bytes > 0);
    for (device, most_bytes) in used {
        for size in (0..SIZES).step_by(case.stride.min(SIZES) as usize) {
            let bytes = most_bytes * size / SIZES;
            let told = format!("{device} has {bytes} bytes, and the first device is large");
            tally.merge(&run_told(case, Wrong::SlowSize(device, bytes), &told)?.forms);
            tally.add("a small slow device", 1);
        }
    }
    Ok(())
}

/// Whether a path is on the device of `dir`, which is the first one or a slow one.
fn is_on(dir: &str, path: &Path) -> bool {
    match SLOW_DEVICES.into_iter().find(|slow| path.starts_with(slow)) {
        Some(slow) => slow == dir,
        None => dir == DIR,
    }
}

fn run_told(case: &Case, wrong: Wrong, told: &str) -> Verdict<Ran> {
    if case.trace {
        println!("{told}");
    }
    no_panic(|| run(case, wrong)).map_err(|failure| failure.at(told))
}

/// What a run of the workload observed.
struct Ran {
    ops: Vec<braidb_storage::sim::Op>,
    struck: u64,
    /// The most space that files took on the first device, in bytes.
    most_bytes: u64,
    /// The most space that files took on each slow device, in bytes.
    most_slow_bytes: [u64; SLOW_DEVICES.len()],
    /// What became of transactions and overlays.
    forms: Tally,
}

/// Runs the workload of the case on a device with the fault `wrong`.
fn run(case: &Case, wrong: Wrong) -> Verdict<Ran> {
    let mut rng = Rng::new(case.seed);
    let mut workload = Workload::new(rng.bits(), Limits { crashes: false, value_bytes: 3_000 });
    let mut runner = Runner::new(case.preset, rng.fork(), workload.keys());
    let fs = runner.fs().clone();
    fs.set_capacity(Some(LARGE_BYTES));
    fs.record_ops();
    match wrong {
        Wrong::Nothing => {}
        Wrong::Fault(nth, fault, lasting) => {
            runner.expect(Device::Faulty);
            fs.fail_nth(nth, fault, lasting, rng.bits());
        }
        Wrong::OneDevice(dir, nth, fault) => {
            runner.expect(Device::Faulty);
            fs.fail_device(Path::new(dir), nth, fault, Lasting::ForEver, rng.bits());
        }
        Wrong::Size(bytes) => {
            runner.expect(Device::Small);
            fs.set_capacity(Some(bytes));
        }
        Wrong::SlowSize(dir, bytes) => {
            runner.expect(Device::Small);
            fs.set_capacity_of(Path::new(dir), Some(bytes));
        }
    }
    let (mut most_bytes, mut most_slow_bytes) = (0, [0; SLOW_DEVICES.len()]);
    runner.trace(case.trace);
    runner.mix_forms();
    runner.start()?;
    for _ in 0..case.ops {
        runner.run(&workload.next_op())?;
        if let Wrong::Nothing = wrong {
            most_bytes = most_bytes.max(LARGE_BYTES - fs.free_space(Path::new(DIR)).unwrap_or(LARGE_BYTES));
            if case.preset == Preset::Tiers {
                let taken_bytes = SLOW_DEVICES.map(|dir| fs.taken_bytes_of(Path::new(dir)));
                most_slow_bytes = std::array::from_fn(|i| most_slow_bytes[i].max(taken_bytes[i]));
            }
        }
    }
    runner.run(&Op::Flush)?;
    runner.compare_all().map_err(|failure| failure.at("before the repair"))?;
    let (ops, struck) = (fs.take_recorded_ops(), fs.faults_struck());
    fs.heal();
    for dir in fs.device_dirs() {
        fs.set_capacity_of(&dir, None);
    }
    runner.expect(Device::Good);
    after_the_repair(&mut runner, &mut workload).map_err(|failure| failure.at("after the repair"))?;
    let mut forms = Tally::default();
    FORM_COUNTS.into_iter().for_each(|name| forms.add(name, runner.tally().get(name)));
    Ok(Ran { ops, struck, most_bytes, most_slow_bytes, forms })
}

fn after_the_repair(runner: &mut Runner, workload: &mut Workload) -> Verdict {
    runner.commit_refused()?;
    runner.compare_all()?;
    runner.run(&Op::Reopen { close: false })?;
    let power_fails = Op::Crash(Crash::PowerAllLost);
    for op in [&Op::Verify, &power_fails, &Op::Persist(Durability::Sync), &power_fails, &Op::Settle] {
        runner.run(op)?;
    }
    runner.run(&Op::Reopen { close: true })?;
    for _ in 0..3 {
        runner.run(&workload.next_op())?;
    }
    runner.finish().map_err(|failure| failure.at("at the end"))
}
