//! `load DIR [FILE]`: rows into the database.
//!
//! Loading is idempotent: a second load of equal rows leaves equal data. It reads a row whose value is stored already and does not write it,
//! unless `--overwrite` spares the reads. So after a crash, load the file again.

mod rows;
mod tally;

use crate::failure::{Failure, Outcome, storage};
use crate::figures::counted;
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::progress::{Progress, Unit};
use crate::store::{Store, Target};
use crate::text;
use braidb::{Durability, WriteBatch};
use rows::{Form, Rows};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use tally::Tally;

/// Read rows `key TAB value`, one a line, and store them
///
/// Without FILE, or with `-`, rows come from standard input. A row holds exactly one tab and ends in a newline. Any other row is refused
/// and reported with its line number; the other rows are loaded, and the exit status is 2. A byte order mark at the start is left out. Rows
/// are stored in their order: of two rows with equal keys the later one stays. When the command returns, all is on stable storage.
///
/// If it is killed, or the disk is full, load the file again: rows that are stored already are passed over. Wherever the column family
/// holds something before, each row costs a read. So rows with other values for existing keys take about three times as long as new ones,
/// unless --overwrite spares the reads.
#[derive(clap::Args)]
#[command(after_help = text::HELP)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The file to read
    file: Option<PathBuf>,
    /// Write every row without looking whether it is stored already
    #[arg(long)]
    overwrite: bool,
    /// Take rows as they are: no byte is an escape, the first tab ends the key, and all behind it is the value
    #[arg(long)]
    raw: bool,
    /// Take rows that end in CR LF and a last row without its newline, and pass over empty lines
    #[arg(long)]
    lenient: bool,
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
    let form = Form { is_raw: args.raw, is_lenient: args.lenient };
    let progress = Progress::new(Unit::Bytes, bytes.unwrap_or(0));
    let show = |rows: &Rows<_>| {
        progress.show(rows.bytes(), bytes.unwrap_or(0), &counted(rows.number(), "row", "rows"));
    };
    let mut rows = Rows::of(input, form);
    let loaded = load(&store, &mut rows, args.overwrite, &progress, show);
    drop(progress);
    let tally = loaded?;
    store.close()?;
    tally.print(watch.seconds(), &rows.oddities());
    tally.verdict(&rows.oddities(), form)
}

/// Loads all rows and syncs them. A failure tells how many rows stay.
fn load<R: BufRead>(
    store: &Store,
    rows: &mut Rows<R>,
    overwrite: bool,
    progress: &Progress,
    show: impl Fn(&Rows<R>),
) -> Outcome<Tally> {
    let mut loader = Loader::new(store, overwrite)?;
    let outcome = loader.take_all(rows, progress, show);
    let synced = store.db.persist(Durability::Sync);
    let brought = loader.tally.brought();
    let failure = match (outcome, synced) {
        (Ok(()), Ok(())) => return Ok(loader.tally),
        (Err(failure), Ok(())) => {
            (failure, format!("what is loaded stays ({brought}): load the file again to go on"))
        }
        (Err(failure), Err(_)) => {
            (failure, format!("a power failure may take some of what is loaded ({brought})"))
        }
        (Ok(()), Err(error)) => {
            (error.into(), format!("a power failure may take some of what is loaded ({brought})"))
        }
    };
    let (failure, rest) = failure;
    // The engine's "nothing was written" is about one batch, and would be wrong about the whole load.
    Err(failure.reworded(|why| format!("{}; {rest}", why.replace("nothing was written: ", ""))))
}

/// Collects rows into batches.
struct Loader<'a> {
    store: &'a Store,
    batch: WriteBatch,
    /// Whether a row may be stored already, and is read first.
    look_first: bool,
    /// The keys of the current batch. For these keys the database does not know the latest value yet.
    pending: BTreeSet<Vec<u8>>,
    tally: Tally,
}

impl Loader<'_> {
    fn new(store: &Store, overwrite: bool) -> Outcome<Loader<'_>> {
        let look_first = !overwrite && store.family.iter().next().transpose()?.is_some();
        let (batch, pending, tally) = Default::default();
        Ok(Loader { store, batch, look_first, pending, tally })
    }

    fn take_all<R: BufRead>(
        &mut self,
        rows: &mut Rows<R>,
        progress: &Progress,
        show: impl Fn(&Rows<R>),
    ) -> Outcome {
        // Empty lines that are passed over have a number, and are not returned.
        let mut taken: u64 = 0;
        while let Some(row) = rows.next().map_err(|error| storage("could not read the rows", error))? {
            taken += 1;
            match row {
                Ok((key, value)) => self.take(key, &value)?,
                Err(why) => self.refuse(rows.number(), &why, progress),
            }
            if rows.oddities().escaped > 0 && !self.tally.is_escape_told {
                self.tally.is_escape_told = true;
                let (line, escape) = (rows.number(), rows.first_escape());
                progress.suspend(|| {
                    eprintln!("line {line}: `{escape}` is an escape and stands for another byte; --raw takes rows as they are");
                });
            }
            if taken.is_multiple_of(1000) {
                show(rows);
            }
            if taken.is_multiple_of(ROWS_BETWEEN_SYNCS) {
                self.write()?;
                self.store.db.persist(Durability::Sync)?;
            }
        }
        self.write()
    }

    fn refuse(&mut self, line: u64, why: &str, progress: &Progress) {
        self.tally.refused += 1;
        match self.tally.refused {
            ..=REFUSALS_PRINTED => progress.suspend(|| eprintln!("line {line}: {why}")),
            refused if refused == REFUSALS_PRINTED + 1 => progress.suspend(|| eprintln!("more follow …")),
            _ => {}
        }
    }

    fn take(&mut self, key: Vec<u8>, value: &[u8]) -> Outcome {
        if self.look_first && !self.pending.contains(&key) && self.is_stored(&key, value)? {
            self.tally.present += 1;
            return Ok(());
        }
        self.batch.put_in(&self.store.family, &key, value);
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
        let rows = self.batch.len() as u64;
        self.store.db.write(&mut self.batch)?;
        self.pending.clear();
        self.tally.written += rows;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb::Options;
    use braidb::storage::Env;
    use braidb::storage::inline::{Inline, SeededRandom, StepClock};
    use braidb_storage::sim::{Crash, SimFs};
    use std::cell::Cell;
    use std::sync::Arc;

    fn load_rows(store: &Store, rows: &str, overwrite: bool) -> Outcome<Tally> {
        let mut rows = Rows::of(rows.as_bytes(), Form::default());
        let progress = Progress::new(Unit::Bytes, 0);
        load(store, &mut rows, overwrite, &progress, |_| {})
    }

    fn env(fs: &SimFs) -> Env {
        let clock = Arc::new(StepClock::new());
        let (random, runtime) = (Arc::new(SeededRandom::new(1)), Arc::new(Inline::new(clock.clone())));
        Env { fs: Arc::new(fs.clone()), clock, random, runtime }
    }

    fn open(env: &Env) -> Store {
        let db = Options::new().env(env.clone()).memtable_bytes(1 << 20).open("/db").unwrap();
        let family = db.column_family("default").unwrap();
        Store { db, family }
    }

    fn rows(numbers: std::ops::Range<u32>, value: &str) -> String {
        numbers.map(|number| format!("key {number:06}\t{value} {number:0100}\n")).collect()
    }

    #[test]
    fn a_full_disk_keeps_the_rows_that_it_tells() {
        let fs = SimFs::new();
        let env = env(&fs);
        fs.set_capacity(Some(24 << 20));
        let store = open(&env);
        let Err(Failure::Storage(why)) = load_rows(&store, &rows(0..100_000, "v"), false) else {
            panic!("more was loaded than the disk holds")
        };
        assert!(why.contains("is full (") && !why.contains("nothing was written"), "{why}");
        let (_, told) = why.split_once("what is loaded stays (").expect(&why);
        let (told, end) = told.split_once(" rows written, 0 stored before)").expect(&why);
        assert_eq!(end, ": load the file again to go on");
        let written: u64 = told.replace(',', "").parse().unwrap();
        assert!((1000..100_000).contains(&written) && written.is_multiple_of(1000), "{why}");
        assert_eq!(store.family.iter().count() as u64, written);
        drop(store);
        // The rows survive a power failure, and the next load goes on behind them.
        let fs = fs.crash_image(Crash::PowerAllLost, 0);
        fs.set_capacity(None);
        let store = open(&self::env(&fs));
        let tally = load_rows(&store, &rows(0..100_000, "v"), false).unwrap();
        assert_eq!((tally.present, tally.written), (written, 100_000 - written));
        store.close().unwrap();
    }

    /// A double-spaced file has its rows on odd lines.
    #[test]
    fn empty_lines_keep_no_row_from_a_sync() {
        let fs = SimFs::new();
        let store = open(&env(&fs));
        let text: String = (0..ROWS_BETWEEN_SYNCS).map(|number| format!("{number:06}\tv\n\n")).collect();
        let mut rows = Rows::of(text.as_bytes(), Form { is_lenient: true, is_raw: false });
        let (mut loader, shown) = (Loader::new(&store, false).unwrap(), Cell::new(0));
        let show = |_: &Rows<_>| shown.set(shown.get() + 1);
        loader.take_all(&mut rows, &Progress::new(Unit::Bytes, 0), show).unwrap();
        assert_eq!(shown.get(), ROWS_BETWEEN_SYNCS / 1000);
        let synced = open(&env(&fs.crash_image(Crash::PowerAllLost, 0)));
        assert_eq!(synced.family.iter().count() as u64, ROWS_BETWEEN_SYNCS);
    }

    #[test]
    fn overwriting_spares_the_reads() {
        let store = open(&env(&SimFs::new()));
        let gets = || store.db.stats().counts.gets;
        load_rows(&store, &rows(0..5000, "v"), false).unwrap();
        assert_eq!(gets(), 0, "an empty family is not read");
        let tally = load_rows(&store, &rows(0..5000, "w"), false).unwrap();
        assert_eq!((tally.written, tally.present, gets()), (5000, 0, 5000));
        let tally = load_rows(&store, &rows(0..5000, "w"), true).unwrap();
        assert_eq!((tally.written, tally.present, gets()), (5000, 0, 5000));
        store.close().unwrap();
    }
}
