//! `get DIR KEY`.

use crate::failure::{Failure, Outcome, printing};
use crate::store::Target;
use crate::text;
use braidb::Durability;
use std::ffi::OsString;
use std::io::Write;

/// Print the value of a key; exit status 1 if there is none
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
    let store = args.target.open(Durability::Buffer)?;
    let value = store.family.get(&key)?;
    let Some(value) = value else {
        store.close()?;
        return Err(Failure::NotFound(format!("there is no key {}", text::escaped(&key))));
    };
    let mut line = Vec::new();
    text::escape_into(&value, &mut line);
    line.push(b'\n');
    store.close()?;
    std::io::stdout().write_all(&line).map_err(printing)
}
