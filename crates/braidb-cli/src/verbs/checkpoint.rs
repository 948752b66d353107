//! `checkpoint DIR NEW`: a second database with what the first one holds now.

use crate::failure::Outcome;
use crate::figures::{bytes_text, counted};
use crate::store::{Place, absolute};
use crate::text;
use braidb::Options;
use std::path::PathBuf;

/// Make a second database with what this one holds
///
/// The new directory must not exist, or be empty. On the same device its files are links, which take no space until the databases differ.
/// Elsewhere they are copies. The database must not be open in a process: a program makes a checkpoint of its own open database with
/// `Db::checkpoint`.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// The directory of the new database
    new: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    // Merges would only change what is linked.
    let db = args.place.open_with(Options::new().background_merges(false))?;
    let report = db.checkpoint(absolute(&args.new)?)?;
    eprintln!(
        "{}: {} linked, {} copied, in {}",
        args.new.display(),
        bytes_text(report.linked_bytes),
        bytes_text(report.copied_bytes),
        counted(report.files, "file", "files")
    );
    Ok(db.close()?)
}
