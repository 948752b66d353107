//! `tour [DIR]`: a narrated tour with the real engine, over real data found on the machine.
//!
//! The tour checks all its output against a copy in memory. It ends with status 3 if anything differs.

mod crash;
mod narrate;
mod steps;
pub mod writer;

use crate::failure::{Failure, Outcome, storage};
use crate::figures::{bytes_text, grouped};
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::store::{open_with, require_free};
use crate::text;
use crate::verbs::stats;
use braidb::Options;
use narrate::Narrator;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Show in half a minute what BraidDB does, over every path below /usr
///
/// Loads the paths, reads them back, scans, holds a snapshot over overwrites, kills a writing process and recovers, and
/// prints what the engine did. Everything is checked; exit status 3 if anything is not as it should be.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// A new or empty directory, which is kept [default: a temporary one, which is removed]
    dir: Option<PathBuf>,
}

/// The content that the database must have.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The directory whose paths the tour loads.
const ROOT: &str = "/usr";
/// Memory for writes in bytes. It is small, so that flushes and merges take part.
const MEMTABLE_BYTES: usize = 2 << 20;

pub fn run(args: &Args) -> Outcome {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("braidb-tour-{}", std::process::id())),
    };
    require_free(&dir)?;
    let walked = walk_through(&dir);
    if let Err(Failure::Storage(what)) = walked {
        return Err(Failure::Storage(format!(
            "THE TOUR FAILED: {what}; the database is kept in {}",
            dir.display()
        )));
    }
    if args.dir.is_none() && dir.exists() {
        files::remove_dir(&dir)
            .map_err(|error| storage("could not remove the directory of the tour", error))?;
    }
    walked
}

fn options() -> Options {
    Options::new().memtable_bytes(MEMTABLE_BYTES)
}

fn walk_through(dir: &Path) -> Outcome {
    let mut say = Narrator::new();
    let watch = Stopwatch::start();

    say.step("Open")?;
    let db = open_with(dir, options())?;
    say.line(&format!(
        "a new database in {}, with {} of memory for writes",
        dir.display(),
        bytes_text(MEMTABLE_BYTES as u64)
    ))?;

    let mut model = steps::find_paths(&mut say)?;
    steps::load(&db, &model, &mut say)?;
    steps::get(&db, &model, &mut say)?;
    steps::scan(&db, &model, &mut say)?;
    model = steps::hold_snapshot(&db, model, &mut say)?;
    let (before, opened) = (db.stats(), db.recovery().clone());
    db.close()?;

    let db = crash::kill_and_recover(dir, &mut model, &mut say)?;

    say.step("Compact: merge everything down, and drop what was overwritten and deleted")?;
    let space = db.stats().space_bytes();
    db.compact()?;
    let (after, recovered) = (db.stats(), db.recovery().clone());
    say.line(&format!(
        "{} in tables and logs before, {} after",
        bytes_text(space),
        bytes_text(after.space_bytes())
    ))?;
    steps::compare("the database after compaction", db.iter(), model.iter())?;
    db.close()?;

    say.step("Verify: read every byte and check every checksum")?;
    let report = braidb::verify(dir)?;
    say.check(report.damages.is_empty(), || format!("verify found damage: {:?}", report.damages))?;
    say.line(&format!("{} files, {}, no damage", report.files, bytes_text(report.bytes)))?;

    say.step("What the engine did, from the first write to the crash")?;
    say.line(&stats::as_text(&before, &opened))?;
    say.step("… and after it")?;
    say.line(&stats::as_text(&after, &recovered))?;
    say.end(&format!(
        "Done in {:.0} s: {} keys, all as they should be.",
        watch.seconds(),
        grouped(model.len() as u64)
    ))
}
