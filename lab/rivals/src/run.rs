//! `run STORE DIR WORKLOAD…`: workloads on one store, in this process.

use crate::Outcome;
use crate::stores::Kind;
use braidb_bench::report::Report;
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
    let mut report = Report { title: args.store.name().to_owned(), ..Report::default() };
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
            if args.json {
                println!("{}", serde_json::to_string(&run)?);
            }
            report.runs.push(run);
            Ok(())
        },
    )?;
    if !args.json {
        print!("{}", report.to_markdown());
    }
    Ok(())
}
