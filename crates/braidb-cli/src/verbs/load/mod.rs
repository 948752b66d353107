//! `load DIR [FILE]`: rows into the database.
//!
//! Loading is idempotent: a second load of equal rows leaves equal data. The second load is quick, because it reads a row whose value is
//! stored already and does not write it. So after a crash, load the file again.

mod rows;

use crate::failure::{Failure, Outcome, storage};
use crate::figures::{counted, grouped};
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::store::{Store, Target};
use crate::text;
use braidb::{Durability, WriteBatch};
use indicatif::{ProgressBar, ProgressStyle};
use rows::Rows;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

/// Read rows `key TAB value`, one a line, and store them
///
/// Without FILE, or with `-`, rows come from standard input. A row holds exactly one tab and ends in a newline. Any other row is refused
/// and reported with its line number; the other rows are loaded, and the exit status is 2. Rows are stored in their order: of two rows with
/// equal keys the later one stays. When the command returns, all is on stable storage. If it is killed, load the file again: rows that are
/// stored already are passed over.
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The file to read
    file: Option<PathBuf>,
}

/// Rows after which a batch is written, if its bytes have not reached their limit.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// Rows between two syncs. They bound the rows of a long load that a power failure can undo.
const ROWS_BETWEEN_SYNCS: u64 = 100_000;
/// Refused rows that are printed. Later refused rows are only counted.
const REFUSALS_PRINTED: u64 = 20;

pub fn run(args: &Args) -> Outcome {
    let (input, bytes): (Box<dyn BufRead>, Option<u64>) = match files::unless_dash(args.file.as_deref()) {
        Some(path) => {
            let (file, bytes) =
                files::open_input(path).map_err(|error| Failure::file("read", path, &error))?;
            (Box::new(BufReader::with_capacity(1 << 20, file)), bytes)
        }
        None => (Box::new(io::stdin().lock()), None),
    };
    let store = args.target.open_or_create(Durability::Buffer)?;
    let watch = Stopwatch::start();
    let bar = progress_bar(bytes);
    let tally = load(&store, Rows::of(input), &bar)?;
    bar.finish_and_clear();
    store.db.persist(Durability::Sync)?;
    store.close()?;
    tally.print(watch.seconds());
    tally.verdict()
}

fn progress_bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {msg} rows, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {binary_bytes}, {binary_bytes_per_sec}, {msg} rows"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is right"))
}

/// The counts of rows by their outcome.
#[derive(Debug, Default)]
struct Tally {
    written: u64,
    present: u64,
    refused: u64,
    /// Whether a refused row ended in CR LF.
    cr_lf: bool,
}

impl Tally {
    fn print(&self, seconds: f64) {
        let rows = self.written + self.present + self.refused;
        eprintln!(
            "{} in {seconds:.1} s ({} a second): {} written, {} stored before, {} refused",
            counted(rows, "row", "rows"),
            grouped((rows as f64 / seconds.max(1e-9)) as u64),
            grouped(self.written),
            grouped(self.present),
            grouped(self.refused)
        );
    }

    fn verdict(&self) -> Outcome {
        if self.cr_lf {
            eprintln!("the file has CR LF line ends: remove the CR, as with tr -d '\\r'");
        }
        let refused = counted(self.refused, "row was", "rows were");
        match (self.refused, self.written + self.present) {
            (0, _) => Ok(()),
            (_, 0) => Err(Failure::Use(format!("{refused} refused; nothing is loaded"))),
            _ => Err(Failure::Use(format!("{refused} refused; the others are loaded"))),
        }
    }
}

fn load(store: &Store, mut rows: Rows<impl BufRead>, bar: &ProgressBar) -> Outcome<Tally> {
    let mut loader = Loader::new(store)?;
    while let Some(row) = rows.next().map_err(|error| storage("could not read the rows", error))? {
        match row {
            Ok((key, value)) => loader.take(key, &value)?,
            Err(why) => {
                loader.tally.refused += 1;
                loader.tally.cr_lf |= rows.ends_in_cr_lf();
                match loader.tally.refused {
                    ..=REFUSALS_PRINTED => bar.suspend(|| eprintln!("line {}: {why}", rows.number())),
                    refused if refused == REFUSALS_PRINTED + 1 => bar.suspend(|| eprintln!("more follow …")),
                    _ => {}
                }
            }
        }
        if rows.number().is_multiple_of(1000) {
            bar.set_position(rows.bytes());
            bar.set_message(grouped(rows.number()));
        }
        if rows.number().is_multiple_of(ROWS_BETWEEN_SYNCS) {
            loader.write()?;
            store.db.persist(Durability::Sync)?;
        }
    }
    loader.write()?;
    Ok(loader.tally)
}

/// Collects rows into batches.
struct Loader<'a> {
    store: &'a Store,
    batch: WriteBatch,
    /// Whether the database held rows before the load, so that a row may be stored already.
    look_first: bool,
    /// The keys of the current batch. For these keys the database does not know the latest value yet.
    pending: BTreeSet<Vec<u8>>,
    tally: Tally,
}

impl Loader<'_> {
    fn new(store: &Store) -> Outcome<Loader<'_>> {
        let look_first = store.family.iter().next().transpose()?.is_some();
        let (batch, pending, tally) = Default::default();
        Ok(Loader { store, batch, look_first, pending, tally })
    }

    fn take(&mut self, key: Vec<u8>, value: &[u8]) -> Outcome {
        if self.look_first && !self.pending.contains(&key) && self.is_stored(&key, value)? {
            self.tally.present += 1;
            return Ok(());
        }
        self.batch.put_in(&self.store.family, &key, value);
        self.tally.written += 1;
        if self.look_first {
            self.pending.insert(key);
        }
        match self.batch.len() >= BATCH_ROWS || self.batch.bytes() >= BATCH_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn is_stored(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        Ok(self.store.family.get(key)?.is_some_and(|stored| stored == *value))
    }

    fn write(&mut self) -> Outcome {
        self.pending.clear();
        Ok(self.store.db.write(std::mem::take(&mut self.batch))?)
    }
}
