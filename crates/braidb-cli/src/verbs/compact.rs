//! `compact DIR`.

use crate::failure::{Outcome, printing, storage};
use crate::figures::bytes_text;
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::progress::{Progress, Unit};
use crate::store::Place;
use crate::text;
use braidb::Durability;
use std::io::{self, Write};
use std::path::PathBuf;

/// Merge everything into the last level, dropping what is deleted or overwritten
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    #[command(flatten)]
    place: Place,
}

pub fn run(args: &Args) -> Outcome {
    let db = args.place.open(Durability::Buffer)?;
    let tiers = db.stats().tiers.into_iter().filter(|tier| tier.id > 0).map(|tier| tier.path);
    let dirs: Vec<PathBuf> = [args.place.dir.clone()].into_iter().chain(tiers).collect();
    let size = || {
        let bytes = dirs.iter().map(|dir| files::bytes_in(dir)).sum::<io::Result<u64>>();
        bytes.map_err(|error| storage("could not measure the directories", error))
    };
    let (before, watch) = (size()?, Stopwatch::start());
    let (progress, mut most_bytes) = (Progress::new(Unit::Bytes, 0), 0);
    let compacted = db.compact_with_progress(|left_bytes| {
        most_bytes = left_bytes.max(most_bytes);
        progress.show(most_bytes - left_bytes, most_bytes, "");
    });
    drop(progress);
    compacted?;
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
