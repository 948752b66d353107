//! `dump DIR [FILE]`: every row, in order. A file appears under its name only when it is whole.

use crate::failure::{Failure, Outcome, printing, storage};
use crate::figures::counted;
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::progress::{Progress, Unit};
use crate::store::{Store, Target};
use crate::text;
use braidb::stats::LevelStats;
use braidb::{Salvaged, Value};
use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Write every row as a line `key TAB value`, in the order of the keys, as `load` reads them
///
/// Without FILE, or with `-`, the rows go to standard output. FILE must not exist; it appears when it is whole.
///
/// One column family is dumped: the default one, or the one that --family names. The names of the others are told at the end. Dump each to
/// a file of its own, and load it with the same --family.
///
/// With --skip-damaged, a database with damaged or missing tables and value files gives the rows that can be proved. Each range of keys that
/// is lost is told on standard error, with its file and offset, and the exit status is 3.
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Pass over damage instead of stopping there
    #[arg(long)]
    skip_damaged: bool,
    /// The file to create
    file: Option<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let file = files::unless_dash(args.file.as_deref());
    if let Some(file) = file.filter(|file| file.exists()) {
        return Err(Failure::Use(format!("{} exists; choose another name", file.display())));
    }
    let store = match args.skip_damaged {
        true => args.target.open_damaged()?,
        false => args.target.open_to_read()?,
    };
    let watch = Stopwatch::start();
    let mut lost = 0;
    let rows = rows_of(&store, args.skip_damaged, &mut lost);
    let rows = match file {
        Some(file) => dump_to_file(&store, &args.target.family, rows, file)?,
        None => {
            let mut output = std::io::stdout().lock();
            // If the rows go to the screen, a bar there would be mixed with them.
            let is_screen = output.is_terminal();
            dump_to(&store, &args.target.family, rows, &mut output, is_screen)?
        }
    };
    eprintln!("{} dumped in {:.1} s", counted(rows, "row", "rows"), watch.seconds());
    let others: Vec<String> =
        store.db.column_families().into_iter().filter(|name| *name != args.target.family).collect();
    if !others.is_empty() {
        eprintln!(
            "not dumped: the other column families ({}); dump each with --family NAME",
            others.join(", ")
        );
    }
    store.close()?;
    match lost {
        0 => Ok(()),
        _ => Err(Failure::Storage(format!(
            "{} lost to damage, as told above; all rows outside were dumped",
            counted(lost, "range of keys is", "ranges of keys are")
        ))),
    }
}

type Rows<'a> = Box<dyn Iterator<Item = braidb::Result<(Vec<u8>, Value)>> + 'a>;

/// The rows of the family. With `skip_damaged`, tells each range that is lost, counts it in `lost`, and goes on behind it.
fn rows_of<'a>(store: &Store, skip_damaged: bool, lost: &'a mut u64) -> Rows<'a> {
    if !skip_damaged {
        return Box::new(store.family.iter());
    }
    Box::new(store.family.salvage(..).filter_map(|item| match item {
        Ok(Salvaged::Row(key, value)) => Some(Ok((key, value))),
        Ok(Salvaged::Hole(hole)) => {
            eprintln!("braidb: lost: {hole}");
            *lost += 1;
            None
        }
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }))
}

fn dump_to_file(store: &Store, family: &str, rows: Rows<'_>, file: &Path) -> Outcome<u64> {
    let mut partial = OsString::from(file);
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut output =
        files::create_output(&partial).map_err(|error| Failure::file("create", &partial, &error))?;
    let dumped = dump_to(store, family, rows, &mut output, false).and_then(|rows| {
        files::publish(&output, &partial, file).map_err(|error| Failure::file("finish", file, &error))?;
        Ok(rows)
    });
    if dumped.is_err() {
        files::remove_if_present(&partial)
            .map_err(|error| storage("could not remove the unfinished dump", error))?;
    }
    dumped
}

/// Writes all rows and returns their number. Shows no bar if `output` is a screen.
fn dump_to(
    store: &Store,
    family: &str,
    all: Rows<'_>,
    output: &mut dyn Write,
    is_screen: bool,
) -> Outcome<u64> {
    let mut output = BufWriter::with_capacity(1 << 20, output);
    let (unit, most) = (Unit::Number("rows"), most_rows(store, family));
    let progress = if is_screen { Progress::hidden(unit) } else { Progress::new(unit, most) };
    let (mut rows, mut line) = (0, Vec::new());
    for row in all {
        let (key, value) = row?;
        line.clear();
        text::row_into(&key, &value, &mut line);
        output.write_all(&line).map_err(printing)?;
        rows += 1;
        if rows % 1024 == 0 {
            progress.show(rows, most, "");
        }
    }
    output.flush().map_err(printing)?;
    Ok(rows)
}

/// The most rows that a family can have. It has fewer where keys were deleted or written again and no merge has dropped the older entries.
fn most_rows(store: &Store, family: &str) -> u64 {
    let stats = store.db.stats();
    let family = stats.families.iter().find(|stats| stats.name == family);
    let in_tables = |level: &LevelStats| level.entries - level.tombstones.min(level.entries);
    family.map_or(0, |family| {
        let in_memory: u64 = family.memory.iter().map(|layout| layout.entries).sum();
        in_memory + family.levels.iter().map(in_tables).sum::<u64>()
    })
}
