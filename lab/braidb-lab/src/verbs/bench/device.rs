//! `bench DIR WORKLOAD… --device NAME`: the workloads on a modelled device, in modelled time.
//!
//! The database lies in the testbed's memory, where DIR is only a name. Times follow from the seed and from the tables of `braidb-device`, so
//! they are equal on every machine. Each operation of the engine costs a fixed processor time.

use super::engine::Braid;
use super::measure::{self, Served, measure_through};
use super::placement::{DeviceArgs, Machine};
use super::report::latency_text;
use super::{Measurement, Settings};
use crate::failure::{Failure, Outcome};
use crate::figures::{bytes_text, grouped};
use crate::verbs::print_text;
use braidb::Options;
use braidb_bench::drive::result_of;
use braidb_bench::keys::Data;
use braidb_bench::results::{self, Run};
use braidb_bench::{Beside, Measured, See, Store, Timer, Workload, run};
use braidb_device::Testbed;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A database on a modelled machine.
pub struct Modelled {
    engine: Braid,
    machine: Machine,
    dir: PathBuf,
}

impl Modelled {
    /// An empty database on an empty machine of the devices that `args` names. `dir` is only a name.
    pub fn begin(args: &DeviceArgs, dir: &Path, options: Options, settings: &Settings) -> Outcome<Modelled> {
        let machine = args.machine(dir, settings)?;
        let db = args.options(options, dir).env(machine.testbed.env()).open(dir)?;
        Ok(Modelled { engine: Braid::new(db, settings.load.families)?, machine, dir: dir.to_owned() })
    }

    /// Measures a workload in modelled time. The figures of space and those of the kernel say nothing about the testbed.
    pub fn measure(&self, workload: &'static Workload, settings: &Settings) -> Outcome<measure::Measured> {
        let store = ModelledEngine::new(&self.engine, &self.machine);
        let through = (&store as &dyn Store, &TestbedTimer(&self.machine.testbed) as &dyn Timer);
        let measured = measure_through(&self.engine, through, &self.dir, workload, settings)?;
        Ok(measure::Measured { served: Some(store.served()), ..measured })
    }
}

/// Processor time of one operation of the engine, in nanoseconds. A get or put of a small entry takes about this time on the machines of
/// docs/performance.md.
const OPERATION_NS: u64 = 1_000;

/// Processor time of an entry that a scan returns, in nanoseconds. From the cache the engine does 39,000 scans of 50 entries a second and
/// 4,200 of 1,000. So 950 entries take 212 µs.
const ENTRY_NS: u64 = 200;

/// The modelled time.
struct TestbedTimer<'a>(&'a Testbed);

/// The engine on a testbed. The engine does background work on the host before the modelled time of this work is over.
struct ModelledEngine<'a> {
    engine: &'a Braid,
    machine: &'a Machine,
    testbed: &'a Testbed,
    /// How many gets read from no device, from the fast (or only) one alone, and from the slow one.
    served: [AtomicU64; 3],
}

impl<'a> ModelledEngine<'a> {
    fn new(engine: &'a Braid, machine: &'a Machine) -> ModelledEngine<'a> {
        ModelledEngine { engine, machine, testbed: &machine.testbed, served: Default::default() }
    }

    fn served(&self) -> Served {
        let [memory, fast, slow] = [0, 1, 2].map(|at: usize| self.served[at].load(Ordering::Relaxed));
        Served { memory, fast, slow: self.machine.pair.is_some().then_some(slow) }
    }
}

impl Store for ModelledEngine<'_> {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> braidb_bench::Outcome {
        self.testbed.charge_cpu_ns(OPERATION_NS);
        self.engine.put(family, key, value)
    }

    fn delete(&self, family: usize, key: &[u8]) -> braidb_bench::Outcome {
        self.testbed.charge_cpu_ns(OPERATION_NS);
        self.engine.delete(family, key)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> braidb_bench::Outcome<bool> {
        self.testbed.charge_cpu_ns(OPERATION_NS);
        let before = self.machine.reads();
        let found = self.engine.get(family, key, see);
        // Background jobs run between two operations, so all reads in between are the get's.
        let after = self.machine.reads();
        let place = (0..2).rev().find(|&at| after[at] > before[at]).map_or(0, |at| at + 1);
        self.served[place].fetch_add(1, Ordering::Relaxed);
        found
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> braidb_bench::Outcome<usize> {
        self.testbed.charge_cpu_ns(OPERATION_NS);
        let count = self.engine.scan(family, from, limit, see)?;
        self.testbed.charge_cpu_ns(count as u64 * ENTRY_NS);
        Ok(count)
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> braidb_bench::Outcome {
        self.engine.db.settle()?;
        self.testbed.wait_for_jobs();
        mark();
        Ok(())
    }
}

impl Timer for TestbedTimer<'_> {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn begin_operation(&self) {
        self.0.step();
    }

    fn pause(&self, duration: Duration) {
        self.0.idle_until_ns(self.0.now_ns() + duration.as_nanos() as u64);
    }

    fn modelled_cpu_us(&self) -> Option<u64> {
        let figures = self.0.figures();
        Some((figures.foreground_cpu_ns + figures.background_cpu_ns) / 1_000)
    }

    fn is_modelled(&self) -> bool {
        true
    }
}

/// Runs the workloads on the device.
pub fn run_workloads(args: &Measurement) -> Outcome<Vec<Run>> {
    let settings = &args.settings;
    args.check()?;
    if !args.workloads[0].starts_empty() {
        let name = args.workloads[0].name;
        return Err(Failure::Use(format!("a modelled device begins empty; put a fill before {name}")));
    }
    if settings.load.threads > 1 || args.workloads.iter().any(|workload| workload.is_beside_writer) {
        let what = "a modelled device has one thread, and no writer beside it; leave out --threads and …whilewriting";
        return Err(Failure::Use(what.to_owned()));
    }
    let mut open: Option<Modelled> = None;
    let mut runs = Vec::new();
    for &workload in &args.workloads {
        let modelled = match open.take() {
            Some(modelled) if !workload.starts_empty() => modelled,
            _ => Modelled::begin(&args.device, args.dir(), settings.engine.options(), settings)?,
        };
        let (engine, machine) = (&modelled.engine, &modelled.machine);
        let (before, testbed) = (machine.figures(), &machine.testbed);
        let store = ModelledEngine::new(engine, machine);
        let data = Data::new(workload, &settings.load);
        let beside = Beside { sample: &|_| {}, progress: &|_| {} };
        let measured = run(workload, &store, &settings.load, &data, &TestbedTimer(testbed), beside)?;
        let mut result = result(args, workload, &measured, machine, &before);
        result.figures.extend(store.served().figures());
        print(args, &measured, &result, machine)?;
        runs.push(result);
        open = Some(modelled);
    }
    Ok(runs)
}

/// Removes the figures that describe the host, because they say nothing about a testbed.
pub fn forget_host(run: &mut Run) {
    let of_host =
        ["called_bytes", "mapped_bytes", "device_bytes", "peak_memory_bytes", "worst_directory_bytes"];
    run.figures.retain(|name, _| !of_host.contains(&name.as_str()));
}

/// The figures of a run, with the testbed's figures in place of the kernel's.
fn result(
    args: &Measurement,
    workload: &Workload,
    measured: &Measured,
    machine: &Machine,
    before: &[(String, u64)],
) -> Run {
    let device = args.device.title().unwrap_or_default();
    let side = format!("braidb on modelled {device}");
    let host = results::Machine { device, ..results::Machine::default() };
    let mut run = result_of(measured, workload, &args.settings.load, &side, &host, 0);
    forget_host(&mut run);
    // This figure comes from the bytes of the process's write calls, and a modelled store makes none.
    run.figures.remove("written_per_user_byte");
    let after = machine.figures().into_iter().zip(before);
    run.figures.extend(after.map(|((name, after), (_, before))| (name, (after - before) as f64)));
    run
}

fn print(args: &Measurement, measured: &Measured, run: &Run, machine: &Machine) -> Outcome {
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string(run).expect("figures are JSON")),
        false => as_text(args, measured, run, machine),
    };
    print_text(&text)
}

fn as_text(args: &Measurement, measured: &Measured, run: &Run, machine: &Machine) -> String {
    let figure = |name: &str| run.figures.get(name).copied().unwrap_or(0.0);
    let device = |name: &str| figure(&format!("device_{name}"));
    let lines = match &machine.pair {
        None => {
            device_line("device", args.device.title().unwrap_or_default().as_str(), "device", measured, run)
        }
        Some(parts) => parts
            .iter()
            .map(|part| device_line(part.label, part.name, &format!("{}_device", part.label), measured, run))
            .collect(),
    };
    format!(
        "{:<17}{} operations in {:.3} modelled s, {} a second; settled {:.3} s, {} a second\n  \
         latency   {}\n{lines}  \
         cache     {} pages found of {}, {:.1} ms throttled\n",
        run.workload,
        grouped(measured.lane.operations),
        measured.seconds,
        grouped(figure("operations_per_second") as u64),
        measured.settled_seconds,
        grouped(figure("settled_operations_per_second") as u64),
        latency_text(&measured.lane.all_latencies()),
        grouped(device("cache_hits") as u64),
        grouped((device("cache_hits") + device("cache_misses")) as u64),
        device("throttled_ns") / 1e6,
    )
}

/// The work of a device in one line. `figures` is the prefix of the names of its figures.
fn device_line(label: &str, device: &str, figures: &str, measured: &Measured, run: &Run) -> String {
    let figure = |name: &str| run.figures.get(&format!("{figures}_{name}")).copied().unwrap_or(0.0);
    let per_user_byte = match measured.lane.user_bytes {
        0 => String::new(),
        bytes => format!(", {:.3} for each user byte", figure("written_bytes") / bytes as f64),
    };
    format!(
        "  {label:<9} {device}: {:.1}% busy, {} reads of {}, {} writes of {}{per_user_byte}, {} seeks\n",
        100.0 * figure("busy_ns") / (measured.settled_seconds.max(1e-9) * 1e9),
        grouped(figure("reads") as u64),
        bytes_text(figure("read_bytes") as u64),
        grouped(figure("writes") as u64),
        bytes_text(figure("written_bytes") as u64),
        grouped(figure("seeks") as u64),
    )
}
