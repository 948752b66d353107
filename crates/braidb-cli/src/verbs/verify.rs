//! `verify DIR`: reads every byte that the database uses, without opening the database. So it works on a database that refuses to open, if
//! its slow tiers are there.

use crate::failure::{Failure, Outcome, printing};
use crate::figures::{bytes_text, counted};
use crate::host::clock::Stopwatch;
use crate::progress::{Progress, Unit};
use crate::store::Place;
use crate::text;
use std::io::Write;

/// Read every byte that the database uses and print each damaged range; exit status 3 if there is one
///
/// Works on a database that refuses to open. Changes nothing. A crash may leave a torn end of a log or manifest. A torn end is no damage:
/// the next open cuts it off and tells of it. It is printed as a note, as are bytes behind the end of a file; notes alone are exit status 0.
/// Slow tiers are read too: a tier that is missing or has a damaged `TIER` is refused as by an open.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    #[command(flatten)]
    place: Place,
}

pub fn run(args: &Args) -> Outcome {
    let watch = Stopwatch::start();
    let progress = Progress::new(Unit::Bytes, 0);
    let report = args.place.verify(|bytes, all_bytes| progress.show(bytes, all_bytes, ""));
    drop(progress);
    let report = report?;
    let mut out = std::io::stdout().lock();
    for damage in &report.damages {
        let end = damage.offset.saturating_add(damage.bytes);
        writeln!(out, "{}: bytes {} to {end}: {}", damage.path.display(), damage.offset, damage.what)
            .map_err(printing)?;
    }
    for note in &report.notes {
        let end = note.offset.saturating_add(note.bytes);
        writeln!(out, "note: {}: bytes {} to {end}: {}", note.path.display(), note.offset, note.what)
            .map_err(printing)?;
    }
    writeln!(
        out,
        "{} with {} read in {:.1} s: {}",
        counted(report.files, "file", "files"),
        bytes_text(report.bytes),
        watch.seconds(),
        if report.damages.is_empty() { "no damage" } else { "DAMAGED" }
    )
    .map_err(printing)?;
    match report.damages.len() {
        0 => Ok(()),
        count => Err(Failure::Storage(format!(
            "{} in {}; keep a copy of the whole directory, and go back to an earlier copy of all of it if there is one",
            counted(count as u64, "damaged range", "damaged ranges"),
            args.place.dir.display()
        ))),
    }
}
