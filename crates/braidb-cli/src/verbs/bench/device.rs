//! `bench DIR WORKLOAD… --device NAME`: the workloads on a modelled device, in modelled time.
//!
//! The database lies in the model's memory, where DIR is only a name. Times follow from the seed and from the tables of `braidb-device`, so
//! they are equal on every machine. Each operation of the engine costs a fixed processor time.

use super::engine::Engine;
use super::measure::{self, measure_through};
use super::report::latency_text;
use super::{Measurement, Settings};
use crate::failure::{Failure, Outcome, printing};
use crate::figures::{bytes_text, grouped};
use braidb::Options;
use braidb_bench::drive::result_of;
use braidb_bench::keys::Data;
use braidb_bench::results::{Machine, Run};
use braidb_bench::{Beside, Measured, Store, Timer, Workload, run};
use braidb_device::{Figures, Model, Profile};
use clap::ValueEnum;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A modelled device on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DeviceArg {
    /// 60 accesses a second under load, 150 MB/s: LogStore's disk
    Hdd,
    /// 1,500 accesses a second, 240 MB/s: LogStore's SSD
    Ssd,
    /// 6,000 accesses a second, 480 MB/s: LogStore's NVMe
    Nvme,
    /// A disk of 7,200 turns a minute: 8.5 ms to seek by the mean, half a turn of 4.2 ms, 150 MB/s
    Disk7200,
}

impl DeviceArg {
    fn profile(self) -> Profile {
        match self {
            DeviceArg::Hdd => Profile::HDD,
            DeviceArg::Ssd => Profile::SSD,
            DeviceArg::Nvme => Profile::NVME,
            DeviceArg::Disk7200 => Profile::DISK7200,
        }
    }

    pub fn name(self) -> &'static str {
        self.profile().name()
    }
}

/// A modelled device.
#[derive(clap::Args, Clone, Debug)]
pub struct DeviceArgs {
    /// Measure on a modelled device, in modelled time that is equal on every machine; nothing is written to DIR
    #[arg(long, value_enum)]
    pub device: Option<DeviceArg>,
    /// Size of the modelled device, in MiB
    #[arg(long, default_value_t = 64 << 10, value_parser = clap::value_parser!(u64).range(1..=16 << 20))]
    device_mib: u64,
    /// Page cache of the modelled machine, in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=16 << 20))]
    page_cache_mib: u64,
}

impl DeviceArgs {
    /// An empty database on an empty device. `dir` is only a name.
    pub fn begin(
        &self,
        device: DeviceArg,
        dir: &Path,
        options: Options,
        settings: &Settings,
    ) -> Outcome<Modelled> {
        let workers = settings.engine.background_threads.max(1);
        let (device_bytes, cache_bytes) = (self.device_mib << 20, self.page_cache_mib << 20);
        let model = Model::new(device.profile(), device_bytes, cache_bytes, workers, settings.load.seed);
        let db = options.env(model.env()).open(dir)?;
        Ok(Modelled { engine: Engine::new(db, settings.load.families)?, model, dir: dir.to_owned() })
    }
}

/// A database on a modelled device.
pub struct Modelled {
    engine: Engine,
    model: Model,
    dir: PathBuf,
}

impl Modelled {
    /// Measures a workload in modelled time. Space and the kernel's figures mean nothing.
    pub fn measure(&self, workload: &'static Workload, settings: &Settings) -> Outcome<measure::Measured> {
        let store = ModelledEngine { engine: &self.engine, model: &self.model };
        measure_through(&self.engine, (&store, &ModelTimer(&self.model)), &self.dir, workload, settings)
    }
}

/// Processor time of one operation of the engine, in nanoseconds. A get or put of a small entry takes about this time on the machines of
/// docs/performance.md.
const OPERATION_NS: u64 = 1_000;

/// Processor time of an entry that a scan returns, in nanoseconds. The value is from issue 19: from the cache the engine does 39,000 scans
/// of 50 entries a second and 4,200 of 1,000. So 950 entries take 212 µs.
const ENTRY_NS: u64 = 200;

/// The modelled time.
struct ModelTimer<'a>(&'a Model);

/// The engine on a model. The engine does background work on the host before the modelled time of this work is over.
struct ModelledEngine<'a> {
    engine: &'a Engine,
    model: &'a Model,
}

impl Store for ModelledEngine<'_> {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> braidb_bench::Outcome {
        self.model.charge_cpu_ns(OPERATION_NS);
        self.engine.put(family, key, value)
    }

    fn delete(&self, family: usize, key: &[u8]) -> braidb_bench::Outcome {
        self.model.charge_cpu_ns(OPERATION_NS);
        self.engine.delete(family, key)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> braidb_bench::Outcome<bool> {
        self.model.charge_cpu_ns(OPERATION_NS);
        self.engine.get(family, key, see)
    }

    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> braidb_bench::Outcome<usize> {
        self.model.charge_cpu_ns(OPERATION_NS);
        let count = self.engine.scan(family, from, limit, see)?;
        self.model.charge_cpu_ns(count as u64 * ENTRY_NS);
        Ok(count)
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> braidb_bench::Outcome {
        self.engine.db.settle()?;
        self.model.wait_for_jobs();
        mark();
        Ok(())
    }
}

impl Timer for ModelTimer<'_> {
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
pub fn run_workloads(args: &Measurement, device: DeviceArg) -> Outcome<Vec<Run>> {
    let (settings, sizes) = (&args.settings, &args.device);
    args.check()?;
    if !args.workloads[0].starts_empty() {
        let name = args.workloads[0].name;
        return Err(Failure::Use(format!("a modelled device begins empty; put a fill before {name}")));
    }
    if settings.load.threads > 1 || args.workloads.iter().any(|workload| workload.is_beside_writer) {
        let what = "a modelled device has one thread, and no writer beside it; leave out --threads and …whilewriting";
        return Err(Failure::Use(what.to_owned()));
    }
    let mut machine: Option<Modelled> = None;
    let mut runs = Vec::new();
    for &workload in &args.workloads {
        let modelled = match machine.take() {
            Some(machine) if !workload.starts_empty() => machine,
            _ => sizes.begin(device, args.dir(), settings.engine.options(), settings)?,
        };
        let (engine, model) = (&modelled.engine, &modelled.model);
        let before = model.figures();
        let store = ModelledEngine { engine, model };
        let data = Data::new(workload, &settings.load);
        let beside = Beside { sample: &|_| {}, progress: &|_| {} };
        let measured = run(workload, &store, &settings.load, &data, &ModelTimer(model), beside)?;
        let result = result(args, workload, &measured, model, &before);
        print(args, &measured, &result)?;
        runs.push(result);
        machine = Some(modelled);
    }
    Ok(runs)
}

/// The figures of a run, with the model's figures in place of the kernel's.
fn result(
    args: &Measurement,
    workload: &Workload,
    measured: &Measured,
    model: &Model,
    before: &Figures,
) -> Run {
    let machine = Machine { device: model.profile().name().to_owned(), ..Machine::default() };
    let side = format!("braidb on modelled {}", model.profile().name());
    let mut run = result_of(measured, workload, &args.settings.load, &side, &machine, 0);
    // These figures describe the host, so they mean nothing for the model.
    for name in [
        "called_bytes",
        "mapped_bytes",
        "device_bytes",
        "peak_memory_bytes",
        "worst_directory_bytes",
        "written_per_user_byte",
    ] {
        run.figures.remove(name);
    }
    let after = model.figures();
    let grown = before
        .rows()
        .into_iter()
        .zip(after.rows())
        .map(|((name, before), (_, after))| (name, after - before));
    let grown = grown.filter(|(name, _)| !matches!(*name, "now_ns" | "end_ns"));
    run.figures.extend(grown.map(|(name, figure)| (format!("device_{name}"), figure as f64)));
    run
}

fn print(args: &Measurement, measured: &Measured, run: &Run) -> Outcome {
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string(run).expect("figures are JSON")),
        false => as_text(args, measured, run),
    };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(printing)
}

fn as_text(args: &Measurement, measured: &Measured, run: &Run) -> String {
    let figure = |name: &str| run.figures.get(name).copied().unwrap_or(0.0);
    let device = |name: &str| figure(&format!("device_{name}"));
    let user_bytes = measured.lane.user_bytes;
    let per_user_byte = match user_bytes {
        0 => String::new(),
        bytes => format!(", {:.3} for each user byte", device("written_bytes") / bytes as f64),
    };
    format!(
        "{:<17}{} operations in {:.3} modelled s, {} a second; settled {:.3} s, {} a second\n  \
         latency   {}\n  \
         device    {}: {:.1}% busy, {} reads of {}, {} writes of {}{per_user_byte}, {} seeks\n  \
         cache     {} pages found of {}, {:.1} ms throttled\n",
        run.workload,
        grouped(measured.lane.operations),
        measured.seconds,
        grouped(figure("operations_per_second") as u64),
        measured.settled_seconds,
        grouped(figure("settled_operations_per_second") as u64),
        latency_text(&measured.lane.all_latencies()),
        args.device.device.map_or("", |device| device.profile().name()),
        100.0 * device("busy_ns") / (measured.settled_seconds.max(1e-9) * 1e9),
        grouped(device("reads") as u64),
        bytes_text(device("read_bytes") as u64),
        grouped(device("writes") as u64),
        bytes_text(device("written_bytes") as u64),
        grouped(device("seeks") as u64),
        grouped(device("cache_hits") as u64),
        grouped((device("cache_hits") + device("cache_misses")) as u64),
        device("throttled_ns") / 1e6,
    )
}
