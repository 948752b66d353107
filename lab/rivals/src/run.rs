//! `run STORE DIR WORKLOAD…`: workloads on one store, in this process.

use crate::Outcome;
use crate::figures::grouped;
use crate::stores::Kind;
use braidb_bench::results::{Machine, Run};
use braidb_bench::{Settings, Workload, drive};
use std::fs;
use std::path::PathBuf;

/// Measure workloads on one store, one after the other
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    store: Kind,
    /// A directory, which is created if its parent exists; the store lies in DIR/store, and is removed at the end
    dir: PathBuf,
    /// What to measure
    #[arg(required = true, value_name = "WORKLOAD", value_parser = Workload::parser())]
    workloads: Vec<&'static Workload>,
    #[command(flatten)]
    settings: Settings,
    /// A put returns when it is on stable storage [default: when the operating system has it]
    #[arg(long)]
    sync: bool,
    /// Print one JSON object a line for each workload
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
    drive::drive(
        &args.dir,
        &args.workloads,
        &args.settings,
        args.store.name(),
        // The process that starts the runs measures the machine, so this process does not.
        &Machine::default(),
        &|dir| args.store.open(dir, families, args.sync),
        &mut |run| {
            let run = Run { origin: origin.clone(), ..run.clone() };
            println!("{}", if args.json { serde_json::to_string(&run)? } else { line(&run) });
            Ok(())
        },
    )?;
    if !args.json && !origin.is_empty() {
        println!("{origin}");
    }
    Ok(())
}

/// The most important figures of a run, in one line.
fn line(run: &Run) -> String {
    let figure = |name: &str| run.figures.get(name).copied().unwrap_or(f64::NAN);
    format!(
        "{:14} {:16} {:>11} operations a second, settled; {:.3} µs CPU each; p99 {:.1} µs",
        run.side,
        run.workload,
        grouped(figure("settled_operations_per_second") as u64),
        figure("cpu_us_per_operation"),
        figure("p99_us"),
    )
}
