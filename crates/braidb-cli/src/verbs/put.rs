//! `put DIR KEY VALUE`, or `put DIR KEY --stdin`.

use crate::failure::{Failure, Outcome, storage};
use crate::store::Target;
use crate::text;
use braidb::Durability;
use std::ffi::OsString;
use std::io::{self, Read};

/// Store a value under a key; on stable storage when the command returns
///
/// Creates the database if DIR holds none. A directory with files of another store, such as LevelDB, is refused. A value that the key had before is replaced.
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The key, at most 64 KiB
    key: OsString,
    /// The value
    #[arg(required_unless_present = "stdin")]
    value: Option<OsString>,
    /// Take the value from standard input, all of its bytes as they are
    #[arg(long, conflicts_with = "value")]
    stdin: bool,
}

pub fn run(args: &Args) -> Outcome {
    let key = text::argument("KEY", &args.key)?;
    let value = match &args.value {
        Some(value) => text::argument("VALUE", value)?,
        None => read_value(io::stdin().lock())?,
    };
    let store = args.target.open_or_create(Durability::Sync)?;
    store.family.put(&key, &value)?;
    store.close()
}

/// Reads a value up to the end of the input. A value over the limit is not read to its end.
fn read_value(input: impl Read) -> Outcome<Vec<u8>> {
    let mut value = Vec::new();
    let read = input.take(braidb::MAX_VALUE_BYTES as u64 + 1).read_to_end(&mut value);
    read.map_err(|error| storage("could not read the value from standard input", error))?;
    match value.len() > braidb::MAX_VALUE_BYTES {
        true => {
            Err(Failure::Use(format!("--stdin: the value has more than {} bytes", braidb::MAX_VALUE_BYTES)))
        }
        false => Ok(value),
    }
}
