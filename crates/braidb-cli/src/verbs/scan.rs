//! `scan DIR [--from K] [--to K] [--prefix P] [--reverse] [--limit N]`, in any combination.

use crate::failure::{Failure, Outcome, printing};
use crate::store::Target;
use crate::text;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::ops::Bound;

/// Print the rows `key TAB value` of a range of keys, in order
///
/// The options for the range can be combined: a key is shown if each of them takes it. So pages of a prefix go on behind the last key
/// that was shown, `KEY`, with `--from 'KEY\x00'`; with --reverse, with `--to KEY`.
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Start at this key
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// End before this key
    #[arg(long, value_name = "KEY")]
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
    let range = range(args)?;
    let store = args.target.open_to_read()?;
    let mut rows = store.family.range(range);
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
    drop(rows);
    store.close()
}

/// The first key of a range, and the key before which it ends.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The range of keys to print.
fn range(args: &Args) -> Outcome<Bounds> {
    let key =
        |name, text: &Option<OsString>| text.as_ref().map(|text| text::argument(name, text)).transpose();
    let (from, to) = (key("--from", &args.from)?, key("--to", &args.to)?);
    if let (Some(from), Some(to)) = (&from, &to)
        && from > to
    {
        return Err(Failure::Use(
            "--from lies behind --to; swap them (--reverse turns the order)".to_owned(),
        ));
    }
    let prefix = key("--prefix", &args.prefix)?.unwrap_or_default();
    let low = from.into_iter().fold(prefix.clone(), Vec::max);
    let ends = [to, behind(&prefix)];
    // If the options exclude all keys, the range is made empty: its end must not lie before its start.
    let high = ends.into_iter().flatten().min().map(|high| high.max(low.clone()));
    Ok((Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// The first key behind all keys that start with `prefix`; `None` if there is none. `ColumnFamily::prefix` ends there too, but takes no other
/// bound beside the prefix.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}
