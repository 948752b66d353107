//! `put DIR KEY VALUE`.

use crate::failure::Outcome;
use crate::store::Target;
use crate::text;
use braidb::Durability;
use std::ffi::OsString;

/// Store a value under a key; on stable storage when the command returns
///
/// Creates the database if DIR is missing or empty. A value that the key had before is replaced.
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The key, at most 64 KiB
    key: OsString,
    /// The value
    value: OsString,
}

pub fn run(args: &Args) -> Outcome {
    let key = text::argument("KEY", &args.key)?;
    let value = text::argument("VALUE", &args.value)?;
    let store = args.target.open_or_create(Durability::Sync)?;
    store.family.put(&key, &value)?;
    store.close()
}
