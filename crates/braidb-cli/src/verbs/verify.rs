//! `verify DIR`: reads every byte without opening the database, so that it works on one that refuses to open.

use crate::failure::{Failure, Outcome, printing};
use crate::figures::{bytes_text, grouped};
use crate::host::clock::Stopwatch;
use std::io::Write;
use std::path::PathBuf;

/// Read every byte of every file and print each damaged range; exit status 3 if there is one
///
/// Works on a database that refuses to open. Changes nothing.
#[derive(clap::Args)]
pub struct Args {
    /// The directory of the database
    dir: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    if !args.dir.exists() {
        return Err(Failure::Use(format!("there is no database: {} does not exist", args.dir.display())));
    }
    let watch = Stopwatch::start();
    let report = braidb::verify(&args.dir)?;
    let mut out = std::io::stdout().lock();
    for damage in &report.damages {
        let end = damage.offset.saturating_add(damage.bytes);
        writeln!(out, "{}: bytes {} to {end}: {}", damage.path.display(), damage.offset, damage.what)
            .map_err(printing)?;
    }
    writeln!(
        out,
        "{} files with {} read in {:.1} s: {}",
        grouped(report.files),
        bytes_text(report.bytes),
        watch.seconds(),
        if report.damages.is_empty() { "no damage" } else { "DAMAGED" }
    )
    .map_err(printing)?;
    match report.damages.len() {
        0 => Ok(()),
        count => Err(Failure::Storage(format!(
            "{count} damaged ranges in {}; restore these files from a backup",
            args.dir.display()
        ))),
    }
}
