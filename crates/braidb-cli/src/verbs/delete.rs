//! `delete DIR KEY`.

use crate::failure::{Failure, Outcome};
use crate::store::Target;
use crate::text;
use braidb::Durability;
use std::ffi::OsString;

/// Delete a key and its value, for good when the command returns; exit status 1 if there is no such key
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The key
    key: OsString,
}

pub fn run(args: &Args) -> Outcome {
    let key = text::argument("KEY", &args.key)?;
    let store = args.target.open(Durability::Sync)?;
    // No other process has the database open, so no write comes between the look and the deletion.
    let found = store.family.get(&key)?.is_some();
    if found {
        store.family.delete(&key)?;
    }
    store.close()?;
    match found {
        true => Ok(()),
        false => Err(Failure::NotFound(format!("there is no key {}", text::escaped(&key)))),
    }
}
