//! `scan DIR [--from K] [--to K] [--prefix P] [--reverse] [--limit N]`.

use crate::failure::{Failure, Outcome, printing};
use crate::store::Target;
use crate::text;
use braidb::{ColumnFamily, Durability, Iter};
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::ops::Bound;

/// Print the rows `key TAB value` of a range of keys, in order
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Start at this key
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    from: Option<OsString>,
    /// End before this key
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    to: Option<OsString>,
    /// Only keys that start with this
    #[arg(long)]
    prefix: Option<OsString>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// At most this many rows
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub fn run(args: &Args) -> Outcome {
    let range = Range::of(args)?;
    let store = args.target.open(Durability::Buffer)?;
    let mut rows = range.iter(&store.family);
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let mut line = Vec::new();
    for _ in 0..args.limit.unwrap_or(usize::MAX) {
        let row = if args.reverse { rows.next_back() } else { rows.next() };
        let Some(row) = row else { break };
        let (key, value) = row?;
        line.clear();
        text::row_into(&key, &value, &mut line);
        out.write_all(&line).map_err(printing)?;
    }
    out.flush().map_err(printing)?;
    store.close()
}

/// The range of keys to print.
enum Range {
    Prefix(Vec<u8>),
    Between(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Range {
    fn of(args: &Args) -> Outcome<Range> {
        let key =
            |name, text: &Option<OsString>| text.as_ref().map(|text| text::argument(name, text)).transpose();
        if let Some(prefix) = key("--prefix", &args.prefix)? {
            return Ok(Range::Prefix(prefix));
        }
        let (from, to) = (key("--from", &args.from)?, key("--to", &args.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            return Err(Failure::Use(
                "--from lies behind --to; swap them (--reverse turns the order)".to_owned(),
            ));
        }
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(Range::Between(from, to))
    }

    fn iter(self, family: &ColumnFamily) -> Iter {
        match self {
            Range::Prefix(prefix) => family.prefix(prefix),
            Range::Between(from, to) => family.range((from, to)),
        }
    }
}
