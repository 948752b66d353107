//! `get DIR KEY`.

use crate::failure::{Failure, Outcome, printing};
use crate::store::Target;
use crate::text;
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
    /// Write the bytes of the value as they are: no escapes, and no newline at the end
    #[arg(long)]
    raw: bool,
}

pub fn run(args: &Args) -> Outcome {
    let key = text::argument("KEY", &args.key)?;
    let store = args.target.open_to_read()?;
    let value = store.family.get(&key)?;
    let Some(value) = value else {
        store.close()?;
        return Err(Failure::NotFound(format!("there is no key {}", text::escaped(&key))));
    };
    let mut bytes = Vec::new();
    if args.raw {
        bytes.extend_from_slice(&value);
    } else {
        text::escape_into(&value, &mut bytes);
        bytes.push(b'\n');
    }
    drop(value);
    store.close()?;
    // Standard output is flushed at the end of a line, and the value may not end in a newline. So
    // it is flushed here.
    let mut out = std::io::stdout();
    out.write_all(&bytes).and_then(|()| out.flush()).map_err(printing)
}
