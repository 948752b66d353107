//! The driver of `braidb-lab pair`: runs workloads on the engine of one commit and prints a result for each, a line of JSON.
//!
//! `pair` generates a package around these sources for each commit: see lab/braidb-lab/src/verbs/pair/drivers.rs.

mod adapter;
mod options;

use adapter::Braid;
use braidb_bench::drive::drive;
use braidb_bench::results::Machine;
use braidb_bench::{Outcome, Settings, Store, Workload};
use clap::Parser;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs workloads on the engine of one commit
#[derive(Parser)]
struct Arguments {
    /// An empty directory
    dir: PathBuf,
    #[arg(required = true, value_parser = Workload::parser())]
    workloads: Vec<&'static Workload>,
    #[command(flatten)]
    settings: Settings,
    /// An option of the engine
    #[arg(long = "set", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// The name of the engine in results
    #[arg(long)]
    side: String,
}

fn run(arguments: &Arguments) -> Outcome {
    let open = |dir: &Path| -> Outcome<Box<dyn Store>> {
        let options =
            arguments.options.iter().try_fold(braidb::Options::new(), |set, text| options::set(set, text));
        Ok(Box::new(Braid::new(options?.open(dir)?, arguments.settings.families)?))
    };
    let mut out = std::io::stdout();
    let mut tell = |run: &_| -> Outcome {
        writeln!(out, "{}", serde_json::to_string(run)?)?;
        Ok(out.flush()?)
    };
    // `pair` measures the machine around the whole process, so the driver does not.
    let machine = Machine::default();
    let Arguments { dir, workloads, settings, side, .. } = arguments;
    drive(dir, workloads, settings, side, &machine, &open, &mut tell)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
