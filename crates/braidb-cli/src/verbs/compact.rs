//! `compact DIR`.

use crate::failure::{Outcome, printing, storage};
use crate::figures::bytes_text;
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::store::open_existing;
use crate::text;
use braidb::Durability;
use std::io::Write;
use std::path::PathBuf;

/// Merge everything into the last level, dropping what is deleted or overwritten
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// The directory of the database
    dir: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let size =
        || files::bytes_in(&args.dir).map_err(|error| storage("could not measure the directory", error));
    let db = open_existing(&args.dir, Durability::Buffer)?;
    let (before, watch) = (size()?, Stopwatch::start());
    db.compact()?;
    db.close()?;
    let (after, seconds) = (size()?, watch.seconds());
    writeln!(
        std::io::stdout(),
        "compacted in {seconds:.1} s: {} before, {} after",
        bytes_text(before),
        bytes_text(after)
    )
    .map_err(printing)
}
