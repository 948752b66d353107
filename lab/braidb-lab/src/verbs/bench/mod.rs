//! `bench DIR WORKLOAD…`: measures speed, bytes written, and cost.
//!
//! The database lies in `DIR/db`. The file `DIR/BRAIDB-BENCH` marks a directory that the benchmark made: without this file, nothing in DIR
//! is touched. The file holds the options that say what a fill wrote, and is empty while the database is not filled. So a later run can
//! measure reads on an earlier fill, and only with equal keys.

pub mod device;
pub mod engine;
pub mod measure;
pub mod page;
pub mod placement;
mod report;
mod space;
mod steady;

use crate::failure::{Failure, Outcome};
use crate::host::files;
use crate::store::{BENCH_DB, BENCH_MARK, empty_database, open_with, require_free};
use crate::text;
use braidb::{Db, Durability, Options};
use braidb_bench::Workload;
use braidb_bench::host::machine;
use braidb_bench::keys::Data;
use braidb_bench::results::Run;
use engine::{Braid, EngineArgs};
pub use placement::DeviceArg;
use placement::DeviceArgs;
use std::path::{Path, PathBuf};

/// Measure workloads, one after the other
///
/// A workload that fills starts with an empty database and writes NUM keys once each. Most others read and write on what a fill left.
/// queue, pushpop, timeline and updaterandom start with an empty database and leave other keys. Each figure of bytes and time includes the
/// background work: a workload ends when the engine has settled.
///
/// Reads are checked. A key that was written must be there with a value that belongs to it, and a scan may leave out no key. A wrong answer
/// ends the benchmark with exit status 3.
///
/// The load `steady` has options of its own: `braidb-lab bench steady --help`.
///
/// The database stays in DIR/db, so that later runs can measure on it with the NUM, KEY_BYTES and VALUE_BYTES of the fill.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    of_its_own: Option<OfItsOwn>,
    #[command(flatten)]
    measurement: Measurement,
}

/// Measurements that have options of their own.
#[derive(clap::Subcommand, Debug)]
enum OfItsOwn {
    Steady(steady::Args),
}

/// Workloads on a database.
#[derive(clap::Args, Debug)]
pub struct Measurement {
    /// A directory for the benchmark: new, empty, or from an earlier benchmark (`./steady` if it is called that)
    // `Option`, because a measurement with options of its own, such as `steady`, has its directory among them.
    #[arg(required = true)]
    dir: Option<PathBuf>,
    /// What to measure
    #[arg(required = true, value_name = "WORKLOAD", value_parser = Workload::parser())]
    workloads: Vec<&'static Workload>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object a line for each workload
    #[arg(long)]
    json: bool,
    /// Write a report when all is measured, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// The size of workloads, and the options of the database.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    pub load: braidb_bench::Settings,
    #[command(flatten)]
    pub engine: EngineArgs,
}

pub fn run(args: &Args) -> Outcome {
    match &args.of_its_own {
        Some(OfItsOwn::Steady(args)) => steady::run(args),
        None => {
            let args = &args.measurement;
            let runs = match args.device.device {
                Some(_) => device::run_workloads(args)?,
                None => run_workloads(args)?,
            };
            match &args.report {
                Some(path) => page::write(path, "braidb-lab bench", runs, String::new(), &[]),
                None => Ok(()),
            }
        }
    }
}

fn run_workloads(args: &Measurement) -> Outcome<Vec<Run>> {
    let (dir, settings) = (args.dir(), &args.settings);
    args.check()?;
    let mark = dir.join(BENCH_MARK);
    if !mark.exists() {
        require_free(dir)?;
    }
    let db_dir = dir.join(BENCH_DB);
    if !args.workloads[0].starts_empty() {
        require_filled(args, &mark, &db_dir)?;
    }
    let (mut engine, mut runs): (Option<Braid>, _) = (None, Vec::new());
    for &workload in &args.workloads {
        if workload.starts_empty() {
            if let Some(old) = engine.take() {
                Db::close(&old.db)?;
            }
            start_empty(dir, &settings.engine.options())?;
        }
        let open = match engine.take() {
            Some(open) => open,
            None => Braid::new(open_with(&db_dir, settings.engine.options())?, settings.load.families)?,
        };
        if !workload.fills() && !workload.keeps_the_keys() {
            set_mark(&mark, "")?;
        }
        let watch = machine::Watch::start(dir);
        let measured = measure::measure(&open, &db_dir, workload, settings)?;
        runs.push(page::run_of(&measured, settings, watch.stop()));
        report::print(&measured, args, files::bytes_in(&db_dir).unwrap_or(0))?;
        if workload.fills() {
            open.db.persist(Durability::Sync)?;
            set_mark(&mark, &settings.load.filling())?;
        }
        engine = Some(open);
    }
    if let Some(engine) = engine {
        engine.db.close()?;
    }
    Ok(runs)
}

impl Measurement {
    fn dir(&self) -> &Path {
        self.dir.as_deref().expect("the command line requires it without a subcommand")
    }

    fn check(&self) -> Outcome {
        let load = &self.settings.load;
        let limits = [
            ("--key-bytes", load.key_bytes, braidb::MAX_KEY_BYTES),
            ("--value-bytes", load.value_bytes, braidb::MAX_VALUE_BYTES),
        ];
        if let Some((option, _, limit)) = limits.iter().find(|(_, bytes, limit)| bytes > limit) {
            return Err(Failure::Use(format!("{option}: the limit is {limit}")));
        }
        if let Some(report) = &self.report {
            page::require_parent(report)?;
        }
        load.check(&self.workloads).map_err(Failure::Use)
    }
}

impl Settings {
    /// Bytes of keys and values that are alive after a workload that inserted `inserted` keys. Call it with 0 while the workload runs.
    fn live_bytes(&self, workload: &Workload, data: &Data, inserted: u64) -> u64 {
        let load = &self.load;
        let rows = if workload.has_a_window() {
            load.window()
        } else if workload.starts_empty() && !workload.fills() && inserted == 0 {
            data.different(load.operations(workload).unwrap_or(0))
        } else {
            inserted + if workload.starts_empty() && !workload.fills() { 0 } else { load.num }
        };
        rows.saturating_mul((load.key_bytes + load.value_bytes) as u64)
    }

    /// Whether the number of live keys is constant at this operation, so that space can be judged by it. True after the first window of
    /// rows, and in workloads that write only keys of a fill.
    fn is_steady(&self, workload: &Workload, operation: u64) -> bool {
        match workload.has_a_window() {
            true => operation >= self.load.window(),
            false => workload.writes() && workload.keeps_the_keys(),
        }
    }
}

/// Refuses a database that an earlier run did not fill, or filled with other keys or values.
fn require_filled(args: &Measurement, mark: &Path, db_dir: &Path) -> Outcome {
    let filled = match mark.exists() && db_dir.exists() {
        true => files::read_text(mark).map_err(|error| Failure::file("read", mark, &error))?,
        false => String::new(),
    };
    let dir = args.dir().display();
    match filled.trim_end() {
        "" => Err(Failure::Use(format!(
            "{dir} is not filled; fill it first: braidb-lab bench {dir} fillrandom {} {}",
            args.workloads[0].name,
            args.settings.load.filling()
        ))),
        filled if filled != args.settings.load.filling() => Err(Failure::Use(format!(
            "{dir} was filled with {filled}, and not with {}; use the same options, or fill it anew",
            args.settings.load.filling()
        ))),
        _ => Ok(()),
    }
}

/// Writes the file that marks the benchmark's directory, and tells the fill of its database.
fn set_mark(mark: &Path, filling: &str) -> Outcome {
    files::write_text(mark, filling).map_err(|error| Failure::file("write", mark, &error))
}

/// Makes the directory the benchmark's, and empties its database. Every check that can refuse comes before the first change of the
/// database.
pub fn start_empty(dir: &Path, options: &Options) -> Outcome {
    options.check()?;
    let (mark, db_dir) = (dir.join(BENCH_MARK), dir.join(BENCH_DB));
    if !mark.exists() {
        require_free(dir)?;
        files::create_dir(dir).map_err(|error| Failure::file("create", dir, &error))?;
        set_mark(&mark, "")?;
    }
    empty_database(&db_dir, || set_mark(&mark, ""))
}
