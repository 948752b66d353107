//! `DeviceTimes::measure` on a file system that fails, fills up or keeps no time.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::{Beside, BesideFs, Fault, Lasting, OpKind, SimFs};
use braidb_storage::{DeviceTimes, Env, File, FileSystem, MEASURE_FILE};

const DIR: &str = "/db";

/// Microseconds of each read, append and sync of a [`SlowFile`].
const CALL_US: u64 = 1_000;

/// Files whose calls take time.
#[derive(Debug)]
struct Slow(Arc<StepClock>);

impl Beside for Slow {
    fn opened(&self, _path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile { file, clock: self.0.clone() })
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn File>,
    clock: Arc<StepClock>,
}

impl File for SlowFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.clock.advance_us(CALL_US);
        self.file.read_at(offset, buf)
    }
    fn append(&self, data: &[u8]) -> std::io::Result<()> {
        self.clock.advance_us(CALL_US);
        self.file.append(data)
    }
    fn preallocate(&self, len: u64) -> std::io::Result<()> {
        self.file.preallocate(len)
    }
    fn truncate(&self, len: u64) -> std::io::Result<()> {
        self.file.truncate(len)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.clock.advance_us(CALL_US);
        self.file.sync_data()
    }
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }
}

/// A simulated machine with the directory [`DIR`]. On a slow one, calls of files take time.
fn machine(is_slow: bool) -> (SimFs, Env) {
    let (sim, clock) = (SimFs::new(), Arc::new(StepClock::new()));
    sim.create_dir_all(Path::new(DIR)).unwrap();
    let slow = BesideFs::new(sim.clone(), Arc::new(Slow(clock.clone())));
    let env = Env {
        fs: if is_slow { Arc::new(slow) } else { Arc::new(sim.clone()) },
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(1)),
        runtime: Arc::new(Inline::new(clock)),
    };
    (sim, env)
}

fn measure(env: &Env) -> std::io::Result<DeviceTimes> {
    DeviceTimes::measure(env, Path::new(DIR), DeviceTimes::BUDGET_US)
}

#[test]
fn on_a_clock_that_stands_still_the_times_are_unknown() {
    let (sim, env) = machine(false);
    assert_eq!(measure(&env).unwrap(), DeviceTimes::UNKNOWN);
    assert_eq!(sim.op_counts()[&OpKind::Append], 1, "the first MiB told that the clock stands still");
    assert!(sim.files().is_empty());
}

#[test]
fn fixed_costs_are_left_out() {
    let (sim, env) = machine(true);
    let times = measure(&env).unwrap();
    // A MiB takes 1 ms. So does a sync, and a block, which is no transfer that takes time.
    assert_eq!(times.write_bytes_per_second, 1_048_576_000);
    assert_eq!(times.read_bytes_per_second, ((16 << 20) - 4096) / 15 * 1_000);
    assert!((990_000..1_000_000).contains(&times.seek_ns), "{times:?}");
    assert_eq!(env.clock.now_us(), (16 + 5 + 16 + 128) * CALL_US);
    assert!(sim.files().is_empty());
}

#[test]
fn an_error_anywhere_names_the_file_and_leaves_none() {
    let measure = |env: &Env| DeviceTimes::measure(env, Path::new(DIR), 0);
    let (sim, env) = machine(true);
    let before = sim.ops();
    measure(&env).unwrap();
    let ops = sim.ops() - before;
    let mut failed = 0;
    for nth in 1..=ops {
        let (sim, env) = machine(true);
        sim.fail_nth(nth, Fault::Io, Lasting::Once, nth);
        let result = measure(&env);
        assert_eq!(sim.faults_struck(), u64::from(result.is_err()), "operation {nth} of {ops}");
        let Err(error) = result else { continue };
        assert!(error.to_string().contains(MEASURE_FILE), "{error}");
        let is_last = nth == ops;
        assert_eq!(sim.files().is_empty(), !is_last, "operation {nth} of {ops}: {error}");
        failed += 1;
    }
    assert_eq!(failed, ops, "each operation can fail");
}

#[test]
fn a_full_device_is_told_and_the_file_is_gone() {
    let (sim, env) = machine(true);
    sim.set_capacity(Some(99 << 20));
    let error = measure(&env).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains(MEASURE_FILE), "{error}");
    assert!(sim.files().is_empty());
    // The device becomes full after the free space was asked for.
    sim.set_capacity(Some(1 << 30));
    sim.fail_nth(3, Fault::Full, Lasting::Once, 2);
    let error = measure(&env).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains(MEASURE_FILE), "{error}");
    assert!(sim.files().is_empty());
    assert!(measure(&env).is_ok());
}

#[test]
fn a_file_that_another_process_deleted_or_left_does_no_harm() {
    let (sim, env) = machine(true);
    let path = Path::new(DIR).join(MEASURE_FILE);
    sim.write_file(&path, b"left over").unwrap();
    let mut is_first = true;
    sim.set_hook(Some(Box::new(move |sim, op| {
        // An open of a database there deletes the file during the first append.
        if op.kind == OpKind::Append && std::mem::take(&mut is_first) {
            sim.unlink(&path).unwrap();
        }
    })));
    measure(&env).unwrap();
    assert!(sim.files().is_empty());
}
