//! `run STORE DIR WORKLOAD…`: workloads on one store, in this process.

use crate::Outcome;
use crate::stores::{self, Kind};
use braidb_bench::host::files;
use braidb_bench::report::Report;
use braidb_bench::results::{Machine, Run};
use braidb_bench::{Settings, Workload, drive};
use std::fs;
use std::path::{Path, PathBuf};

/// Measure workloads on one store, one after the other
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    store: Kind,
    /// A directory, which is created if its parent exists; the store lies in DIR/store
    dir: PathBuf,
    /// What to measure
    #[arg(required = true, value_name = "WORKLOAD", value_parser = Workload::parser())]
    workloads: Vec<&'static Workload>,
    #[command(flatten)]
    settings: Settings,
    /// A put returns when it is on stable storage [default: when the operating system has it]
    #[arg(long)]
    sync: bool,
    /// Memory for writes, in MiB [default: 64]
    #[arg(long, value_name = "MIB", requires = "cache_mib", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memtable_mib: Option<u64>,
    /// Memory for blocks, in MiB [default: 1,024; for braidb the engine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    cache_mib: Option<u64>,
    /// A workload that is named again draws the next keys [default: its first keys again]
    #[arg(long)]
    draw_on: bool,
    /// Leave DIR/store behind, so that a later run or a run on a copy of DIR can begin with a workload that needs a fill [default: remove it]
    #[arg(long)]
    keep: bool,
    /// Print one JSON object a line for each workload [default: Markdown at the end]
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    if !args.dir.exists() {
        fs::create_dir(&args.dir)
            .map_err(|error| format!("could not create {}: {error}", args.dir.display()))?;
    }
    let families = usize::try_from(args.settings.families)?;
    let origin = args.store.origin()?.unwrap_or_default();
    let settings = Settings { draws_on: args.draw_on, ..args.settings.clone() };
    let memtable_bytes =
        args.memtable_mib.map_or(stores::Settings::ALIKE.memtable_bytes, |mib| (mib as usize) << 20);
    let open = |dir: &Path| match args.cache_mib {
        None => args.store.open(dir, families, args.sync),
        Some(mib) => {
            let cache_bytes = (mib as usize) << 20;
            let sizes = stores::Settings { memtable_bytes, cache_bytes, sync: args.sync };
            args.store.open_with(dir, families, &sizes)
        }
    };
    let mut report = Report { title: args.store.name(), ..Report::default() };
    drive::drive(
        &args.dir,
        &args.workloads,
        &settings,
        &args.store.name(),
        // The process that starts the runs measures the machine, so this process does not.
        &Machine::default(),
        &open,
        &mut |run| {
            let run = Run { origin: origin.clone(), ..run.clone() };
            if args.json {
                println!("{}", serde_json::to_string(&run)?);
            }
            report.runs.push(run);
            Ok(())
        },
    )?;
    if !args.keep {
        files::remove_if_there(&args.dir.join("store"))?;
    }
    if !args.json {
        print!("{}", report.to_markdown());
    }
    Ok(())
}
