//! `checkpoint DIR NEW`: a second database with what the first one holds now.

use super::tier;
use crate::failure::{Failure, Outcome};
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
    /// A slow tier of the database, and the directory of its copy, which must not exist, or be empty; once for each slow tier
    #[arg(long = "tier", num_args = 2, value_names = ["SLOW_DIR", "NEW_SLOW_DIR"])]
    tiers: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    // Merges would only change what is linked.
    let db = args.place.open_with(Options::new().background_merges(false))?;
    let pair = |pair: &[PathBuf]| {
        Ok((tier::tier_at(&db, &args.place, &absolute(&pair[0])?)?.path, absolute(&pair[1])?))
    };
    let tiers = args.tiers.chunks(2).map(pair).collect::<Outcome<Vec<_>>>()?;
    let tiers: Vec<_> = tiers.iter().map(|(old, new)| (old.as_path(), new.as_path())).collect();
    let report = db.checkpoint_to(absolute(&args.new)?, &tiers).map_err(with_the_flag)?;
    eprintln!(
        "{}: {} linked, {} copied, in {}",
        args.new.display(),
        bytes_text(report.linked_bytes),
        bytes_text(report.copied_bytes),
        counted(report.files, "file", "files")
    );
    Ok(db.close()?)
}

/// Tells the flag instead of the method that names a directory for a tier.
fn with_the_flag(error: braidb::Error) -> Failure {
    match error {
        braidb::Error::Tier { path, why } => {
            let why = why.replace("`checkpoint_to`", "`--tier SLOW_DIR NEW_SLOW_DIR`");
            braidb::Error::Tier { path, why }.into()
        }
        other => other.into(),
    }
}
